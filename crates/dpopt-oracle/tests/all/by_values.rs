//! Generalised linear losses whose slopes are taken by their values: what the product of matrices is compared with, in benchmarks too.

use dpopt_oracle::{Constants, Example, Examples, Glm, Loss};

/// A generalised linear loss whose slopes are taken by its values, direction after direction.
pub struct ByValues(pub Glm);

impl Loss for ByValues {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Examples) -> usize {
        self.0.dim(records)
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.0.constants_on(records)
    }

    fn work(&self, records: &Examples) -> f64 {
        self.0.work(records)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        Loss::value(&self.0, record, point)
    }
}
