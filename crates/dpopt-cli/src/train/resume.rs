//! The plan of a run that goes on with what a ledger has left.

use dpopt::nonconvex::{Budget, PublicFacts};
use dpopt::privacy::{Delta, Epsilon, Ledger, LedgerError};

use crate::args::SolverArg;
use crate::choose::ChooseArgs;
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::fit::Fit;
use crate::ledger::Shared;
use crate::ranks;

/// Steps of 2 % that a resumed plan may go down by: to a sixth of what is left. A tuned constant.
const TRIES: u32 = 90;

/// Plans for the largest epsilon that the ledger can pay, or nearly: what is left as the measure
/// of its filter states it, and where the solver's releases cost more in that measure, less by
/// steps of 2 %. Of several ranks the first has the ledger, and tells the others what it found.
pub(super) fn choose_what_fits(
    (how, solver): (&ChooseArgs, SolverArg),
    fit: &Fit,
    facts: &PublicFacts,
    delta: Delta,
    ledger: Option<&mut Shared>,
) -> Result<Chosen, CliError> {
    let own = match ledger {
        Some(Shared::Open(file)) => fits((how, solver), fit, facts, delta, file).map(Some),
        _ => Ok(None),
    };
    let (found, own) = match own {
        Ok(Some((chosen, epsilon))) => (Some(chosen), Ok([epsilon.get()])),
        Ok(None) => (None, Ok([0.0])),
        Err(error) => (None, Err(error)),
    };
    let [epsilon] = ranks::numbers_of_first("what the ledger has left", own)?;
    match found {
        Some(chosen) => Ok(chosen),
        None => {
            let epsilon = Epsilon::new(epsilon)?;
            how.choose(solver, fit, facts, &Budget { epsilon, delta })
        }
    }
}

fn fits(
    (how, solver): (&ChooseArgs, SolverArg),
    fit: &Fit,
    facts: &PublicFacts,
    delta: Delta,
    ledger: &mut Ledger,
) -> Result<(Chosen, Epsilon), CliError> {
    let state = ledger.state().map_err(CliError::Ledger)?;
    // Rounded down by more than the accountants' rounding up.
    let left = ledger.epsilon_left(&state) * (1.0 - 1e-6);
    let Ok(mut epsilon) = Epsilon::new(left) else {
        return Err(CliError::flag("--resume", "the ledger has nothing left"));
    };
    let mut tries = 0;
    loop {
        let budget = Budget { epsilon, delta };
        let chosen = how.choose(solver, fit, facts, &budget)?;
        match ledger.can_pay(chosen.plan.spend().event()) {
            Ok(()) => return Ok((chosen, epsilon)),
            Err(LedgerError::Exhausted { .. }) if tries < TRIES => {
                tries += 1;
                epsilon = Epsilon::new(epsilon.get() * 0.98)?;
            }
            Err(error) => return Err(CliError::from_ledger(error)),
        }
    }
}
