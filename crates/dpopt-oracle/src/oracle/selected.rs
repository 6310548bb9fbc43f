//! Choices among means by their norms.

use dpopt_privacy::selection::SelectionError;
use dpopt_privacy::{Bound, Epsilon, Refused, Which};

use super::{PrivateMean, empty, times};
use crate::error::AskError;
use crate::loss::Loss;
use crate::query::Query;

impl<L: Loss> PrivateMean<'_, L> {
    /// Selects one of these queries, each with a public shift, whose mean over all records plus that shift has a small norm,
    /// by the exponential mechanism.
    ///
    /// # Formula
    /// P(i) proportional to exp(-epsilon ||mean_i + shift_i||/(2 sensitivity)), with the sensitivity of a mean: s C/m.
    ///
    /// # Privacy
    /// One event of bounded range epsilon; see [`dpopt_privacy::Curator::redeem_choice`].
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn select_least_norm<Q: Query<L>>(
        &mut self,
        among: &[(Q, &[f64])],
        epsilon: Epsilon,
    ) -> Result<usize, AskError> {
        let bound = self.common_bound(among.iter().map(|(query, _)| query))?;
        let body = self.body(Which::All)?;
        let curator = self.books.curator_mut();
        let mut ticket = curator.grant_choice(body, bound, epsilon)?;
        let read = ticket.sample().denominator();
        for (query, shift) in among {
            let sum = self.sum(query, ticket.sample(), &|blocks| empty(bound, blocks))?;
            ticket
                .add(sum, &times(shift, read))
                .map_err(Refused::from)?;
        }
        let chosen = self.books.curator_mut().redeem_choice(ticket)?;
        // One release, however many passes.
        for (i, (query, _)) in among.iter().enumerate() {
            let (gradients, values) = (query.gradients_per_record(), query.values_per_record());
            if i == 0 {
                self.books.count(read, gradients, values);
            } else {
                self.books.count_reads(read, gradients, values);
            }
        }
        Ok(chosen)
    }

    /// The bound of all of these.
    fn common_bound<'q, Q: Query<L> + 'q>(
        &self,
        among: impl Iterator<Item = &'q Q>,
    ) -> Result<Bound, AskError> {
        let mut common = None;
        for query in among {
            let bound = self.admit(query)?.ok_or(SelectionError::NormsDiffer)?;
            if *common.get_or_insert(bound) != bound {
                return Err(SelectionError::NormsDiffer.into());
            }
        }
        Ok(common.ok_or(SelectionError::NoCandidates)?)
    }
}
