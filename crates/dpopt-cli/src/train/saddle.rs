//! What runs on saddle problems refuse.

use super::TrainArgs;
use crate::args::AnySolver;
use crate::error::CliError;
use crate::objective::{Objective, Wanted};

impl TrainArgs {
    /// Refuses claims and orders that a solver has no use for.
    pub(super) fn check_extras(&self, solver: AnySolver) -> Result<(), CliError> {
        self.population.check(solver)?;
        self.order.check(solver)
    }

    /// Refuses what no solver of a saddle problem has a use for.
    pub(super) fn check_saddle(&self, wanted: &Wanted) -> Result<(), CliError> {
        let objective = wanted.objective;
        if self.loss.is_some_and(|loss| !loss.name.is_logistic_score()) {
            let problem =
                format!("{objective} is made of the logistic score, and has no other loss");
            return Err(CliError::flag("--loss", problem));
        }
        if self.network.is_given() {
            return Err(CliError::flag(
                "--hidden",
                format!("{objective} is of a linear score"),
            ));
        }
        if self.class_weights.is_given() {
            let problem = format!(
                "{objective} has weights of its own; leave it out, or take --objective log-loss"
            );
            return Err(CliError::flag("--class-weights", problem));
        }
        if wanted.releases() && self.ledger.path().is_some() {
            let problem = "a ledger pays for one run, and released shares are a release before it; take shares from a schema";
            return Err(CliError::flag("--group-shares", problem));
        }
        if wanted.certify.is_some() && self.ledger.path().is_some() {
            let problem = "a ledger pays for one run, and a certificate is a release after it";
            return Err(CliError::flag("--certify", problem));
        }
        if self.in_place && objective != Objective::Auc {
            let problem = "groups are read with the table, into memory";
            return Err(CliError::flag("--in-place", problem));
        }
        self.checkpoints
            .refuse("a point of a saddle problem holds more than the weights, and runs from one are not planned")
    }
}
