//! Solvers started at strict saddles: whether and when they leave, what their output rule returns, and whether anything is certified of it. The
//! table of `docs/measured/saddles.tsv`.
//!
//! `saddles [RECORDS [SOLVER ...]]`; solvers from values alone take minutes.
#![allow(
    clippy::print_stdout,
    reason = "a program that talks to the person who runs it"
)]

use std::error::Error;
use std::ops::ControlFlow;

use dpopt_certify::SecondOrderProblem;
use dpopt_nonconvex::{
    Budget, ExtraFacts, HessianFacts, Limits, Plan, PublicFacts, Release, SOLVERS, Solver,
    TREE_SPIDER, TreeSettings, TreeSpiderPlan, TreeTarget,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_theory::{ClosedForm, CubicSaddles, SimulatedOracle, Wells};

const DIM: usize = 20;
const SEEDS: u64 = 9;
/// Most steps of solvers with a bound, and of those without: what the command takes for the second.
const STEPS: (u64, u64) = (20_000, 2_000);
/// A walk has left where the least eigenvalue is above so much of that of the saddle.
const LEFT: f64 = 0.5;

/// What one solver does at one saddle.
#[derive(Default)]
struct Found {
    /// Releases until it left, of runs that did.
    left: Vec<u64>,
    releases: u64,
    /// Runs that returned a point that is still as curved.
    returned: u64,
    /// Of what was returned.
    gradients: Vec<f64>,
    certified: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let records = std::env::args().nth(1).map_or(Ok(100_000), |n| n.parse())?;
    let depths = vec![0.5, 0.25, 0.125];
    let wells = Wells::new(DIM, 0.1, depths.clone())?;
    let chain = CubicSaddles::new(DIM, 1.0, depths)?;
    println!(
        "n = {records}, d = {DIM}, epsilon 1, delta 1e-6, {SEEDS} seeds. Saddles: least eigenvalue {} (wells), {} (chain).\n",
        wells.least_eigenvalue(&[0.0; DIM]),
        chain.least_eigenvalue(&[0.0; DIM])
    );
    println!(
        "| solver | saddle | left | after releases, of | returned at the saddle | gradient norm of what is returned | output rule | certified |"
    );
    println!("| - | - | - | - | - | - | - | - |");
    let only: Vec<String> = std::env::args().skip(2).collect();
    let asked = |solver: &&&Solver| only.is_empty() || only.iter().any(|name| name == solver.name);
    for solver in SOLVERS.iter().filter(asked) {
        row(solver, "wells", &wells, records);
        row(solver, "chain", &chain, records);
    }
    if asked(&&&TREE_SPIDER) {
        shortest("wells", &wells, records)?;
        shortest("chain", &chain, records)?;
    }
    Ok(())
}

/// The one plan here that returns the point of the shortest released gradient.
fn shortest<P: SecondOrderProblem>(
    name: &str,
    problem: &P,
    records: u64,
) -> Result<(), Box<dyn Error>> {
    let settings = TreeSettings::new(TreeTarget::HighProbability { failure: 0.05 });
    let (facts, budget) = (facts(problem, records), budget()?);
    match TreeSpiderPlan::new(&facts, &budget, settings.even_if_vacuous(), STEPS.0) {
        Ok(plan) => {
            let found = measure(&plan, problem, records)?;
            print("tree-spider, with a probability", name, &plan, &found);
        }
        Err(error) => {
            println!("| tree-spider, with a probability | {name} | not run: {error} | | | | | |");
        }
    }
    Ok(())
}

fn row<P: SecondOrderProblem>(solver: &Solver, name: &str, problem: &P, records: u64) {
    let needs = solver.needs;
    let why = if needs.convex || needs.memory {
        "needs a convex loss"
    } else if needs.kl {
        "needs a KL condition, which is false at a saddle"
    } else {
        let tried = planned(solver, problem, records)
            .and_then(|plan| Ok((measure(&*plan, problem, records)?, plan)));
        match tried {
            Ok((found, plan)) => return print(solver.name, name, &*plan, &found),
            Err(error) => return println!("| {solver} | {name} | not run: {error} | | | | | |"),
        }
    };
    println!("| {solver} | {name} | not run: {why} | | | | | |");
}

fn print(solver: &str, name: &str, plan: &dyn Plan, found: &Found) {
    let rule = plan.output();
    let median = |all: &mut Vec<f64>| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let after = if found.left.is_empty() {
        "–".to_owned()
    } else {
        let mut left = found.left.iter().map(|&k| k as f64).collect();
        median(&mut left).to_string()
    };
    println!(
        "| {solver} | {name} | {} of {SEEDS} | {after}, {} | {} of {SEEDS} | {:.4} | {rule} | {} |",
        found.left.len(),
        found.releases / SEEDS,
        found.returned,
        median(&mut found.gradients.clone()),
        found.certified
    );
}

fn facts<P: SecondOrderProblem>(problem: &P, records: u64) -> PublicFacts {
    let known = problem.constants();
    PublicFacts {
        records,
        dim: DIM,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: known.lipschitz,
        smoothness: known.smoothness,
        initial_gap: known.initial_gap,
        row_norm: 1.0,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    }
}

fn budget() -> Result<Budget, Box<dyn Error>> {
    Ok(Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    })
}

fn planned<P: SecondOrderProblem>(
    solver: &Solver,
    problem: &P,
    records: u64,
) -> Result<Box<dyn Plan>, Box<dyn Error>> {
    let known = problem.constants();
    let extra = ExtraFacts::default()
        .with_goldstein_radius(1.0)
        .with_hessian(HessianFacts {
            lipschitz: known.hessian_lipschitz,
            frobenius: known.hessian_frobenius,
        });
    let steps = if solver.states_a_bound() {
        STEPS.0
    } else {
        STEPS.1
    };
    let limits = Limits::steps(steps);
    Ok(solver.plan(&facts(problem, records), &extra, &budget()?, &limits)?)
}

fn measure<P: SecondOrderProblem>(
    plan: &dyn Plan,
    problem: &P,
    records: u64,
) -> Result<Found, Box<dyn Error>> {
    let mut found = Found::default();
    for seed in 0..SEEDS {
        run(plan, problem, records, seed, &mut found)?;
    }
    Ok(found)
}

fn run<P: SecondOrderProblem>(
    plan: &dyn Plan,
    problem: &P,
    records: u64,
    seed: u64,
    found: &mut Found,
) -> Result<(), Box<dyn Error>> {
    let saddle = problem.least_eigenvalue(&[0.0; DIM]);
    let curved = |point: &[f64]| problem.least_eigenvalue(point) <= LEFT * saddle;
    let (mut seen, mut left) = (0, None);
    let mut watch = |release: &Release<'_>| {
        seen += 1;
        if left.is_none() && !curved(release.point) {
            left = Some(seen);
        }
        ControlFlow::Continue(())
    };
    let population = ClosedForm::new(problem, records).with_hessians();
    let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed);
    let outcome = plan.run(&mut oracle, &mut watch)?;
    found.left.extend(left);
    found.releases += seen;
    found.returned += u64::from(curved(&outcome.point));
    let mut gradient = vec![0.0; DIM];
    problem.gradient(&outcome.point, &mut gradient);
    found.gradients.push(dpopt_linalg::norm(&gradient));
    found.certified += u64::from(
        outcome
            .bound()
            .is_some_and(|bound| bound.curvature.is_some()),
    );
    Ok(())
}
