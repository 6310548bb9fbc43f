//! Planners at sizes of Census-Income: `plan minimisers`, `plan auto`, `plan saddles`.
//!
//! Work `step`: all plans, one after another. Its value is how many plans say something.

use std::hint::black_box;

use dpopt::minimax::{self, Allowance, SaddleFacts, SaddleLimits};
use dpopt::nonconvex::{
    Budget, ExtraFacts, HessianFacts, KlCondition, Limits, PublicFacts, SOLVERS, auto,
};
use dpopt::oracle::{BlockClips, CellShares, EqualOpportunity, Glm, Scored};
use dpopt::privacy::{Adjacency, Delta, Epsilon};
use dpopt_benches::release::Failure;

use crate::side::Side;

const RECORDS: u64 = 199_523;
const DIM: usize = 535;
const ROW_NORM: f64 = 4.4;

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    match *words {
        ["plan", what, _] => Some(plan(what)),
        _ => None,
    }
}

fn plan(what: &str) -> Result<(), Failure> {
    let constants = Glm::Welsch.constants_within(ROW_NORM, Some(1.0));
    let facts = PublicFacts::glm(RECORDS, DIM, Adjacency::ReplaceOne, ROW_NORM, constants)?;
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let extra = ExtraFacts::default()
        .with_radius(1.0)
        .with_kl(KlCondition::polyak_lojasiewicz(1.0)?)
        .with_hessian(HessianFacts::of(&constants));
    let limits = Limits::steps(1_000_000);
    let shares = CellShares::new(vec![
        [Some(0.508), Some(0.0133)],
        [Some(0.43), Some(0.0487)],
    ])?;
    let none = BlockClips {
        x: f64::INFINITY,
        y: f64::INFINITY,
    };
    let loss = Scored::new(EqualOpportunity::new(&shares, 1.0)?, none);
    let saddle = SaddleFacts::scored(RECORDS, Adjacency::ReplaceOne, DIM, ROW_NORM, &loss);
    let allowance = Allowance::all(&budget);
    let saddle_limits = SaddleLimits::steps(1_000_000);
    let which = match what {
        "minimisers" => 0,
        "auto" => 1,
        "saddles" => 2,
        other => return Err(format!("no plans of `{other}`").into()),
    };
    let work = move || {
        let planned = match which {
            0 => {
                let all = SOLVERS.iter();
                all.filter(|s| black_box(s.plan(&facts, &extra, &budget, &limits)).is_ok())
                    .count()
            }
            1 => usize::from(black_box(auto(&facts, &extra, &budget, None)).is_ok()),
            _ => {
                let all = minimax::SOLVERS.iter();
                let plan = |s: &&&_| plan_saddle(s, &saddle, &allowance, &saddle_limits);
                all.filter(plan).count()
            }
        };
        Ok(planned as f64)
    };
    Side::new(vec![("step", Box::new(work))]).serve()
}

fn plan_saddle(
    solver: &minimax::SaddleSolver,
    facts: &SaddleFacts,
    allowance: &Allowance,
    limits: &SaddleLimits,
) -> bool {
    black_box(solver.plan_within(facts, allowance, limits)).is_ok()
}
