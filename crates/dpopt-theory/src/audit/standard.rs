//! The targets that everybody runs.

use super::error::AuditError;
use super::registry::Registry;
use super::{
    adaptive, certificates, chained, crooked, drawn, epochs, estimators, evaluation, groups,
    hold_out, mechanisms, members, minimax, one_pass, passes, periods, projected, queries,
    saddle_certificates, saddle_pass, sampled_epochs, samplers, second_order, selections, solvers,
    tuning, twins, variants,
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
            hold_out::register,
            solvers::register,
            variants::register,
            passes::register,
            projected::register,
            adaptive::register,
            second_order::register,
            one_pass::register,
            epochs::register,
            sampled_epochs::register,
            chained::register,
            minimax::register,
            saddle_pass::register,
            groups::register,
            saddle_certificates::register,
            members::register,
            variants::samples_of_proximal_point,
            twins::register,
            crooked::register,
        ] {
            register(&mut registry)?;
        }
        Ok(registry)
    }
}
