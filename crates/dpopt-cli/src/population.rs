//! What a second-order certificate says of the population that the records were drawn from.

use clap::Args;
use dpopt::certify::{PopulationGap, SecondOrderTargets};
use dpopt::nonconvex::{Outcome, SOLVERS, Solver, Value, names};
use serde::Serialize;

use crate::args::AnySolver;
use crate::certificate::four;
use crate::choose::Chosen;
use crate::error::CliError;
use crate::fit::Fit;

/// Flag of the claim.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PopulationArgs {
    /// For sosp under replace-one: say of the result what its certificate says of the population too, of which the records are independent
    /// draws, by a bound that holds for all points at once. It costs no privacy, and fails with the probability of --failure once more
    #[arg(long)]
    population: bool,
}

/// The claim.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Population {
    /// The gradient norm is at most so much.
    pub(crate) gradient: f64,
    /// The least eigenvalue is at least minus so much.
    pub(crate) curvature: f64,
    /// What of it is for the step from the records to the population.
    pub(crate) added: PopulationGap,
    /// Of the certificate and of this.
    pub(crate) failure: f64,
}

/// The claim, or why there is none; nothing where it was not asked for.
pub(crate) type Claimed = Option<Result<Population, String>>;

impl PopulationArgs {
    /// Refuses a solver that certifies no point, and one whose certificate is of the population already.
    pub(crate) fn check(self, solver: AnySolver) -> Result<(), CliError> {
        if !self.population || matches!(solver, AnySolver::Minimiser(solver) if is_of_use(solver)) {
            return Ok(());
        }
        let all = SOLVERS.iter().copied();
        let of_use: Vec<_> = all.filter(|solver| is_of_use(solver)).collect();
        let why = if solver.needs_hessian() {
            "what it certifies is of the population already"
        } else {
            "it certifies no point"
        };
        let problem = format!("{solver}: {why}; of use with {}", names(&of_use));
        Err(CliError::flag("--population", problem))
    }

    /// Refuses a loss whose constants hold on a ball only: the bound is for all points.
    pub(crate) fn check_fit(self, fit: &Fit) -> Result<(), CliError> {
        if self.population && fit.link.is_some() {
            let problem = format!(
                "{}: its constants hold on a ball of factors, and the bound is for all points",
                fit.name()
            );
            return Err(CliError::flag("--population", problem));
        }
        Ok(())
    }

    /// What follows for the point that a run from the origin, or from anywhere, returned.
    pub(crate) fn claim(self, chosen: &Chosen, outcome: &Outcome) -> Claimed {
        self.population.then(|| claim(chosen, outcome))
    }
}

/// Whether it certifies points of the records.
fn is_of_use(solver: &Solver) -> bool {
    let of_population = solver.bound.is_some_and(|(_, sense)| sense.of_population());
    solver.needs.hessian && !of_population
}

fn claim(chosen: &Chosen, outcome: &Outcome) -> Result<Population, String> {
    let bound = chosen.bound_of(outcome).map_err(|why| why.to_string())?;
    let none = "the plan does not say what it knows of Hessians";
    let wider = chosen
        .plan
        .wider_facts()
        .map_or(Vec::new(), |(_, items)| items);
    let known = |items: &[dpopt::nonconvex::Item<'_>], name| {
        let item = items.iter().find(|item| item.name == name)?;
        match item.value {
            Value::Number(number) => number,
            _ => None,
        }
    };
    let (rho, failure, curvature) = known(&wider, "hessian_lipschitz")
        .zip(known(&chosen.plan.items(), "failure"))
        .zip(bound.curvature)
        .map(|((rho, failure), curvature)| (rho, failure, curvature))
        .ok_or(none)?;
    // The origin does not depend on the records, wherever the run started.
    let reach = dpopt::linalg::norm(&outcome.point);
    let gap = PopulationGap::new(chosen.plan.facts(), rho, reach, failure);
    let added = gap.map_err(|error| error.to_string())?;
    let both = added.added_to(SecondOrderTargets {
        gradient: bound.value,
        curvature,
    });
    let facts = chosen.plan.facts();
    for (what, value, limit) in [
        ("gradient norm", both.gradient, facts.lipschitz),
        ("curvature", both.curvature, facts.smoothness),
    ] {
        // NaN says nothing.
        if !(value < limit) {
            return Err(format!(
                "the {what} of the certificate and what is added for the population are {} together, and every point has {}",
                four(value),
                four(limit)
            ));
        }
    }
    if !(2.0 * failure < 1.0) {
        return Err(format!(
            "the certificate and the step to the population fail with probability at most {failure} each, which is no bound together"
        ));
    }
    Ok(Population {
        gradient: both.gradient,
        curvature: both.curvature,
        added,
        failure: 2.0 * failure,
    })
}

impl Population {
    /// One sentence.
    pub(crate) fn words(&self) -> String {
        format!(
            "the gradient norm is at most {} and the least eigenvalue of the Hessian at least -{} for the population, of which the records are \
             independent draws ({} and {} of that for all points up to {} from the origin at once; false with probability at most {})",
            four(self.gradient),
            four(self.curvature),
            four(self.added.gradient),
            four(self.added.curvature),
            four(self.added.radius),
            self.failure
        )
    }
}
