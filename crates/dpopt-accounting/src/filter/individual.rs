//! Individual accounting: each record has a budget of its own, and contributes nothing once that is spent.
//!
//! Steps release sums of contributions plus Gaussian noise of deviation sigma. A contribution v costs its record `||v||^2 / sigma^2`, and not what the
//! largest possible one would. Where every record pays at most `mu^2` in every transcript, all steps together are mu-GDP under zero-out and
//! add-remove and 2 mu-GDP under replace-one (after Feldman and Zrnic 2021; proof, and what it does **not** protect, in
//! `docs/privacy/individual.md`).
//!
//! What a record has spent depends on the record: it is as private as the data. So is how many records have dropped out. Nothing here
//! tells either.

use crate::adjacency::Adjacency;
use crate::units::{Mu, NoiseMultiplier};

/// Why a filter of individual budgets refused. It says what the caller asked for and nothing of the records: not what they are, and not how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndividualError {
    /// There is no such record.
    #[error("there is no record {record}; how many there are is not said, since it may be private")]
    NoSuchRecord {
        /// Its position, from 0 on.
        record: usize,
    },
    /// A record contributes once to each step.
    #[error("record {record} has contributed to step {step}")]
    Twice {
        /// Its position.
        record: usize,
        /// The step, from 1 on.
        step: u64,
    },
}

/// Budgets of records. Opaque, like every sensitive value: no copy, no text, no way to read one.
///
/// ```
/// use dpopt_accounting::filter::individual::IndividualFilter;
/// use dpopt_accounting::{Adjacency, Mu, NoiseMultiplier};
/// let mut filter = IndividualFilter::new(2, Mu::new(1.0)?, Adjacency::ZeroOut);
/// assert_eq!(filter.guarantee()?.get(), 1.0);
/// let mut sum = [0.0];
/// let mut step = filter.step(NoiseMultiplier::new(1.0)?); // deviation of the noise
/// for (record, own) in [0.9, 5.0].into_iter().enumerate() {
///     let mut contribution = [own];
///     step.pay(record, &mut contribution)?; // the second one is zeroed
///     sum[0] += contribution[0];
/// }
/// assert_eq!(sum, [0.9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// ```compile_fail
/// fn copy(secret: dpopt_accounting::filter::individual::IndividualFilter) { let _ = secret.clone(); }
/// ```
/// ```compile_fail
/// fn print(secret: dpopt_accounting::filter::individual::IndividualFilter) { println!("{secret:?}"); }
/// ```
/// ```compile_fail
/// fn write(secret: &dpopt_accounting::filter::individual::IndividualFilter) { let _ = serde_json::to_string(secret); }
/// ```
/// ```compile_fail
/// fn read(secret: &dpopt_accounting::filter::individual::IndividualFilter) -> f64 { secret.spent[0] }
/// ```
pub struct IndividualFilter {
    /// Squared mu that each record has spent, rounded up.
    spent: Vec<f64>,
    /// The step to which each record contributed last; 0: none.
    last: Vec<u64>,
    budget: Mu,
    adjacency: Adjacency,
    steps: u64,
}

impl IndividualFilter {
    /// A budget of `budget` for each of so many records. The number of records is not private under replace-one and zero-out; under
    /// add-remove it must stay as secret as the filter.
    #[must_use]
    pub fn new(records: usize, budget: Mu, adjacency: Adjacency) -> Self {
        Self {
            spent: vec![0.0; records],
            last: vec![0; records],
            budget,
            adjacency,
            steps: 0,
        }
    }

    /// The Gaussian-DP parameter of all steps together, however many there will be: the budget, twice that under replace-one.
    ///
    /// # Errors
    /// [`crate::UnitError`] where twice the budget is no number.
    pub fn guarantee(&self) -> Result<Mu, crate::UnitError> {
        match self.adjacency {
            Adjacency::ReplaceOne => Mu::new(2.0 * self.budget.get()),
            Adjacency::AddRemove | Adjacency::ZeroOut => Ok(self.budget),
        }
    }

    /// Steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Begins a step whose noise has deviation `deviation`, in the unit of contributions. It may depend on what was released.
    pub fn step(&mut self, deviation: NoiseMultiplier) -> IndividualStep<'_> {
        self.steps += 1;
        IndividualStep {
            deviation: deviation.get(),
            filter: self,
        }
    }
}

impl Drop for IndividualFilter {
    fn drop(&mut self) {
        self.spent.fill(0.0);
        std::hint::black_box(&mut self.spent);
    }
}

/// A step under way: as opaque as its filter.
pub struct IndividualStep<'a> {
    filter: &'a mut IndividualFilter,
    deviation: f64,
}

impl IndividualStep<'_> {
    /// Pays for a contribution, or makes it zero where the record can't, or where it has an entry that is no number.
    ///
    /// What is then added to the sum must have this norm at most, and depend on the record and on what was released alone.
    ///
    /// # Errors
    /// [`IndividualError`], before anything is charged.
    pub fn pay(&mut self, record: usize, contribution: &mut [f64]) -> Result<(), IndividualError> {
        let (Some(spent), Some(last)) = (
            self.filter.spent.get_mut(record),
            self.filter.last.get_mut(record),
        ) else {
            return Err(IndividualError::NoSuchRecord { record });
        };
        let step = self.filter.steps;
        if *last == step {
            return Err(IndividualError::Twice { record, step });
        }
        *last = step;
        // Largest ratio first, lest the square overflow or vanish; each term and sum is off by half a unit at most.
        let terms = contribution.len() as f64 + 8.0;
        let squares: f64 = contribution
            .iter()
            .map(|entry| (entry / self.deviation).powi(2))
            .sum();
        let nothing = contribution.iter().all(|entry| *entry == 0.0);
        let cost = squares * (1.0 + terms * f64::EPSILON) + terms * f64::MIN_POSITIVE;
        let after = (*spent + cost).next_up();
        let capacity = (self.filter.budget.get() * self.filter.budget.get()).next_down();
        if nothing {
        } else if after <= capacity {
            *spent = after;
        } else {
            contribution.fill(0.0);
        }
        Ok(())
    }
}
