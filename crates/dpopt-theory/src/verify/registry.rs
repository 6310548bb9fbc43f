//! Experiments by name.

use super::claim::Experiment;
use super::error::VerifyError;
use crate::checks;

/// Experiments by name.
pub type Registry = checks::Registry<dyn Experiment>;

impl Registry {
    /// Adds an experiment.
    ///
    /// # Errors
    /// [`VerifyError::Twice`] and [`VerifyError::BadId`].
    pub fn with(mut self, experiment: impl Experiment + 'static) -> Result<Self, VerifyError> {
        let id = &experiment.claim().id;
        let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
        if id.is_empty() || !id.chars().all(plain) {
            return Err(VerifyError::BadId(id.clone()));
        }
        if self.names().any(|known| known == id) {
            return Err(VerifyError::Twice(id.clone()));
        }
        self.push(Box::new(experiment));
        Ok(self)
    }
}
