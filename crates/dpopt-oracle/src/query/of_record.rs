//! Contributions of one record to a sum.

use dpopt_privacy::{Bound, LatticeError, LatticeSum};

use crate::loss::{Loss, RecordOf, add_contribution, guarded};
use crate::positions::Positions;
use crate::records::Records;

/// The contribution of one record and its bound.
///
/// # Privacy
/// A contribution must be a function of the record, the loss and public values. Its length is
/// enforced by the sum, whatever the query claims: a wrong bound costs accuracy only.
pub trait Query<L: Loss>: Sync {
    /// Clip radius, dimension and lattice of the contributions; none when all of them are zero, so
    /// that nothing has to be released. Must not depend on records.
    ///
    /// # Errors
    /// [`LatticeError`] when the lattice can't hold them.
    fn bound(&self, loss: &L) -> Result<Option<Bound>, LatticeError>;

    /// Whether its points and directions have `dim` coordinates, as the loss's points have. Asked
    /// before a record is read: how far a row reaches into a shorter point depends on that row.
    fn fits(&self, dim: usize) -> bool;

    /// Nominal cost of one contribution, in gradients of one record.
    fn gradients_per_record(&self) -> f64;

    /// Nominal number of values of one record beside its gradients.
    fn values_per_record(&self) -> f64 {
        0.0
    }

    /// Whether a contribution depends on the position of the record too. Such a query is refused
    /// under add-remove adjacency, where one record more shifts the others.
    fn needs_fixed_positions(&self) -> bool {
        false
    }

    /// Whether the loss has an answer to it. One that has none is refused before a record is read.
    fn is_answered(&self) -> bool {
        true
    }

    /// Whether a row of zeros contributes zero, for a loss whose value there is the same at all points
    /// ([`Loss::VANISHES_ON_ERASED`]). A query of which that is not known is refused under
    /// zero-out adjacency, where such a row stands for no record.
    fn vanishes_on_zero_rows(&self) -> bool {
        true
    }

    /// Whether [`Query::add`] makes use of a sum in blocks of fixed positions
    /// ([`dpopt_privacy::FixedBlocks`]). It gets one where the adjacency allows for it, and then all
    /// positions of a block at once, apart from those that are not read.
    fn sums_in_blocks(&self) -> bool {
        false
    }

    /// Adds the contribution of one record to `out`, which holds zeros.
    ///
    /// # Shapes
    /// `out`: the dimension of the bound.
    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]);

    /// Adds the contributions of these records to `sum`. The default goes record by record; a
    /// query of a loss with structure overrides it.
    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        let mut contribution = vec![0.0; sum.bound().dim()];
        for i in positions.iter() {
            contribution.fill(0.0);
            let finished = guarded::<L, _>(|| {
                self.contribution(loss, records.record(i), &mut contribution);
            });
            add_contribution(sum, finished, &contribution);
        }
    }
}
