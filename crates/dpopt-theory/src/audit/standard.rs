//! The targets that everybody runs.

use super::error::AuditError;
use super::registry::Registry;
use super::{
    adaptive, certificates, chained, crooked, drawn, estimators, evaluation, groups, mechanisms,
    meter, minimax, passes, periods, projected, queries, saddle_certificates, saddle_pass,
    sampled_epochs, samplers, selections, solvers, tuning, twins,
};

impl Registry {
    /// Every mechanism and solver of this library, and broken twins.
    ///
    /// # Errors
    /// [`AuditError`] where a target can't be set up.
    pub fn standard() -> Result<Self, AuditError> {
        let mut registry = Self::new();
        for register in [
            mechanisms::register,
            drawn::register,
            selections::register,
            tuning::register,
            samplers::register,
            estimators::register,
            periods::register,
            queries::register,
            certificates::register,
            evaluation::register,
            solvers::register,
            passes::register,
            projected::register,
            adaptive::register,
            sampled_epochs::register,
            chained::register,
            minimax::register,
            meter::register,
            saddle_pass::register,
            groups::register,
            saddle_certificates::register,
            twins::register,
            crooked::register,
        ] {
            register(&mut registry)?;
        }
        Ok(registry)
    }
}
