//! A public bound on the rank of the rows.

use serde::{Deserialize, Serialize};

use crate::error::PlanError;

/// A public upper bound on the rank of the design. **Never computed from protected records**: known
/// from how the features are made, such as from 5 measured quantities.
///
/// # Privacy
/// None rests on it. If the rank is above the bound, the stated bounds on the gradient may be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "usize", into = "usize")]
pub struct PublicRank(usize);

impl TryFrom<usize> for PublicRank {
    type Error = PlanError;

    fn try_from(rank: usize) -> Result<Self, PlanError> {
        Self::new(rank)
    }
}

impl From<PublicRank> for usize {
    fn from(rank: PublicRank) -> Self {
        rank.get()
    }
}

impl PublicRank {
    /// The bound `rank`.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for 0.
    pub fn new(rank: usize) -> Result<Self, PlanError> {
        if rank == 0 {
            return Err(PlanError::BadFact {
                name: "rank",
                value: 0.0,
            });
        }
        Ok(Self(rank))
    }

    /// The same of the gradients of a layer of `units` hidden units on such rows: r k.
    ///
    /// # Proof
    /// A record's gradient is the outer product of its row with k slopes. A row lies in a space of dimension r, so the outer products lie in
    /// its tensor product with R^k, of dimension r k.
    #[must_use]
    pub fn of_units(self, units: usize) -> Self {
        Self(self.0.saturating_mul(units.max(1)))
    }

    /// The bound.
    #[must_use]
    pub fn get(self) -> usize {
        self.0
    }
}
