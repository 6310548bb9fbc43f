//! What a second-order certificate says of the population that the records were drawn from.

use clap::Args;
use dpopt::certify::{PopulationGap, SecondOrderTargets};
use dpopt::nonconvex::{Item, Outcome, Plan, SOLVERS, Solver, Value, names};
use serde::Serialize;

use crate::args::AnySolver;
use crate::certificate::four;
use crate::chosen::Chosen;
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

fn check_fit(fit: &Fit) -> Result<(), CliError> {
    if fit.perceptron.is_some() {
        let problem = "a perceptron has no constants, and nothing is proven of one";
        return Err(CliError::flag("--population", problem));
    }
    if fit.classes().is_some() {
        let problem = "the bound for all points at once is proven for losses of one output";
        return Err(CliError::flag("--population", problem));
    }
    if fit.link.is_none() {
        return Ok(());
    }
    let problem = format!(
        "{}: its constants hold on a ball of factors, and the bound is for all points",
        fit.name()
    );
    Err(CliError::flag("--population", problem))
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
        if self.population {
            check_fit(fit)
        } else {
            Ok(())
        }
    }

    /// What follows for the point that a run from the origin, or from anywhere, returned.
    pub(crate) fn claim(self, chosen: &Chosen, outcome: &Outcome) -> Claimed {
        self.population.then(|| claim(chosen, outcome))
    }
}

/// What plans promise of the population: of the solver on all records, with what [`PopulationGap`] adds, and of the one in one pass.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    /// In the order of the registry.
    plans: Vec<Promised>,
    /// Whose bound on the gradient norm is least, whatever those on the curvature and their probabilities are; none where neither has one.
    least: Option<&'static str>,
}

#[derive(Debug, Serialize)]
struct Promised {
    solver: &'static str,
    /// R, where what is promised is of points up to there from the origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    within: Option<f64>,
    #[serde(flatten)]
    promise: Promise,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Promise {
    Bound {
        gradient: f64,
        curvature: f64,
        failure: f64,
    },
    None {
        no_bound_because: String,
    },
}

/// Refuses `dpopt plan --population` of other solvers, and of a loss whose constants hold on a ball only.
pub(crate) fn check_reach(solver: AnySolver, fit: &Fit) -> Result<(), CliError> {
    if matches!(solver, AnySolver::Minimiser(solver) if solver.needs.hessian) {
        return check_fit(fit);
    }
    let of_use: Vec<_> = SOLVERS
        .iter()
        .copied()
        .filter(|solver| solver.needs.hessian)
        .collect();
    let problem = format!(
        "{solver}: it certifies no point; of use with {}",
        names(&of_use)
    );
    Err(CliError::flag("--population", problem))
}

/// Compares solvers whose certificates are of second order, each planned by `plan`, at points up to `reach` from the origin.
pub(crate) fn compared(
    reach: f64,
    mut plan: impl FnMut(&'static Solver) -> Result<Box<dyn Plan>, CliError>,
) -> Compared {
    let of_second_order = SOLVERS.iter().filter(|solver| solver.needs.hessian);
    let plans = of_second_order.map(|solver| {
        let promise = plan(solver).map_err(|error| error.to_string());
        let promise = promise.and_then(|plan| promised(solver, &*plan, reach));
        let promise = promise.map_or_else(
            |no_bound_because| Promise::None { no_bound_because },
            |(both, failure)| Promise::Bound {
                gradient: both.gradient,
                curvature: both.curvature,
                failure,
            },
        );
        Promised {
            solver: solver.name,
            within: is_of_use(solver).then_some(reach),
            promise,
        }
    });
    let plans: Vec<_> = plans.collect();
    let bounds = plans.iter().filter_map(|plan| match plan.promise {
        Promise::Bound { gradient, .. } => Some((gradient, plan.solver)),
        Promise::None { .. } => None,
    });
    let least = bounds.min_by(|a, b| a.0.total_cmp(&b.0));
    Compared {
        least: least.map(|(_, solver)| solver),
        plans,
    }
}

/// What a certificate of the planned targets says of the population, and the probability that it is false.
fn promised(
    solver: &Solver,
    plan: &dyn Plan,
    reach: f64,
) -> Result<(SecondOrderTargets, f64), String> {
    let bound = plan.bound().ok_or("its plan states no bound")?;
    let planned = SecondOrderTargets {
        gradient: bound.value,
        curvature: bound.curvature.ok_or("its plan states no curvature")?,
    };
    if is_of_use(solver) {
        let (both, added) = added(plan, planned, reach)?;
        return Ok((both, 2.0 * added.failure));
    }
    Ok((planned, number(&plan.items(), "failure").ok_or(UNKNOWN)?))
}

impl Compared {
    /// A line for each solver.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (String, String)> {
        self.plans.iter().map(|plan| {
            let words = match &plan.promise {
                Promise::Bound {
                    gradient,
                    curvature,
                    failure,
                } => format!(
                    "gradient norm at most {}, least eigenvalue at least -{} (false with probability at most {failure}), if the run ends in a certificate{}{}",
                    four(*gradient),
                    four(*curvature),
                    match plan.within {
                        Some(reach) => format!(" within {reach} of the origin"),
                        None => String::new(),
                    },
                    match self.least == Some(plan.solver) {
                        true => "; the least gradient here",
                        false => "",
                    }
                ),
                Promise::None { no_bound_because } => format!("no bound: {no_bound_because}"),
            };
            (format!("population, {}", plan.solver), words)
        })
    }
}

/// Whether it certifies points of the records.
fn is_of_use(solver: &Solver) -> bool {
    let of_population = solver.bound.is_some_and(|(_, sense)| sense.of_population());
    solver.needs.hessian && !of_population
}

fn claim(chosen: &Chosen, outcome: &Outcome) -> Result<Population, String> {
    let bound = chosen.bound_of(outcome).map_err(|why| why.to_string())?;
    let certified = SecondOrderTargets {
        gradient: bound.value,
        curvature: bound.curvature.ok_or(UNKNOWN)?,
    };
    // The origin does not depend on the records, wherever the run started.
    let reach = dpopt::linalg::norm(&outcome.point);
    let (both, added) = added(&*chosen.plan, certified, reach)?;
    Ok(Population {
        gradient: both.gradient,
        curvature: both.curvature,
        failure: 2.0 * added.failure,
        added,
    })
}

/// Why nothing can be added.
const UNKNOWN: &str = "the plan does not say what it knows of Hessians";

fn number(items: &[Item<'_>], name: &str) -> Option<f64> {
    let item = items.iter().find(|item| item.name == name)?;
    match item.value {
        Value::Number(number) => number,
        _ => None,
    }
}

/// What is true of the population at points up to `reach` from the origin that have this on the records, and what was added.
fn added(
    plan: &dyn Plan,
    on_records: SecondOrderTargets,
    reach: f64,
) -> Result<(SecondOrderTargets, PopulationGap), String> {
    let wider = plan.wider_facts().map_or(Vec::new(), |(_, items)| items);
    let (rho, failure) = number(&wider, "hessian_lipschitz")
        .zip(number(&plan.items(), "failure"))
        .ok_or(UNKNOWN)?;
    let facts = plan.facts();
    let gap = PopulationGap::new(facts, rho, reach, failure).map_err(|error| error.to_string())?;
    let both = gap.added_to(on_records);
    for (what, value, limit) in [
        ("gradient norm", both.gradient, facts.lipschitz),
        ("curvature", both.curvature, facts.smoothness),
    ] {
        // NaN says nothing.
        if !(value < limit) {
            return Err(format!(
                "the {what} on the records and what is added for the population are {} together, and every point has {}",
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
    Ok((both, gap))
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
