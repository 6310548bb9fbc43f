//! Accounting, planners and audits.
//!
//! `account epsilon|calibrate NAME`: 10,000 steps at rate 0.01 and delta 1e-5; `plan NAME`: plans
//! at sizes of Census-Income; `audit one-run CANARIES GUESSES CORRECT`: the lower bound on epsilon
//! from that many correct guesses; `audit row NAME`: a target of the registry, quick.

use std::hint::black_box;

use dpopt::minimax::{self, Allowance, SaddleFacts, SaddleLimits};
use dpopt::nonconvex::{
    Budget, ExtraFacts, HessianFacts, KlCondition, Limits, PublicFacts, SOLVERS, auto,
};
use dpopt::oracle::{BlockClips, CellShares, EqualOpportunity, Glm, Scored};
use dpopt::theory::audit::{Registry, Settings, one_run_bound};
use dpopt_privacy::{
    Accountant, Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate, UnitError,
    calibrate,
};

use crate::sink::{Fallible, Sink, alone, size};

const RATE: f64 = 0.01;
const STEPS: u64 = 10_000;
const DELTA: f64 = 1e-5;
const RECORDS: u64 = 199_523;
const DIM: usize = 535;
const ROW_NORM: f64 = 4.4;

/// Runs a task of this file.
pub(crate) fn run(words: &[&str], sink: &mut dyn Sink) -> Fallible<()> {
    match *words {
        ["account", question, name] => account(question == "epsilon", name, sink),
        ["plan", "saddles"] => saddles(sink),
        ["plan", name] => plans(name == "auto", sink),
        ["audit", "one-run", canaries, guesses, correct] => {
            let counts = [size(canaries)?, size(guesses)?, size(correct)?].map(|n| n as u64);
            let [canaries, guesses, correct] = counts;
            let mut bound = || Ok(one_run_bound(canaries, guesses, correct, 1e-6, 0.05));
            let value = bound()?;
            sink.take(&mut bound, &mut || Ok(vec![("value", vec![value])]))
        }
        ["audit", "row", name] => {
            let registry = Registry::standard()?;
            alone(sink, &mut || {
                let report = registry.run(&Settings::quick(), Some(name), &mut |_| {})?;
                let row = report.rows.first().ok_or("no row")?;
                Ok(row.lower_bound.unwrap_or(0.0))
            })
        }
        _ => Err(format!("there is no task `{}`", words.join(" ")).into()),
    }
}

fn account(ask_epsilon: bool, name: &str, sink: &mut dyn Sink) -> Fallible<()> {
    type Run = fn(NoiseMultiplier) -> Result<Event, UnitError>;
    let (run, relation, accountant): (Run, _, _) = match name {
        "allocation" => (allocation, Adjacency::ZeroOut, Accountant::Pld),
        "banded" => (banded, Adjacency::ReplaceOne, Accountant::Pld),
        other => (samples, Adjacency::AddRemove, other.parse()?),
    };
    let delta = Delta::new(DELTA)?;
    let one = run(NoiseMultiplier::new(1.0)?)?;
    let mut answer = || -> Fallible<f64> {
        if ask_epsilon {
            return Ok(accountant.epsilon(&one, delta, relation)?);
        }
        let event = |z| run(z).unwrap_or(Event::NonPrivate);
        let target = Epsilon::new(1.0)?;
        let found = calibrate::noise_multiplier(accountant, target, delta, relation, event)?;
        Ok(found.get())
    };
    let value = answer()?;
    sink.take(&mut answer, &mut || Ok(vec![("value", vec![value])]))
}

fn samples(noise: NoiseMultiplier) -> Result<Event, UnitError> {
    let rate = SamplingRate::new(RATE)?;
    Ok(Event::gaussian(noise).poisson_sampled(rate).repeated(STEPS))
}

fn allocation(noise: NoiseMultiplier) -> Result<Event, UnitError> {
    Ok(Event::RandomAllocation {
        num_steps: STEPS,
        num_participations: 1,
        event: Box::new(Event::gaussian(noise)),
    })
}

/// A slice is sampled in every sixteenth of 2,000 steps.
fn banded(noise: NoiseMultiplier) -> Result<Event, UnitError> {
    let rate = SamplingRate::new(16.0 * RATE)?;
    let share = Event::gaussian(noise).poisson_sampled(rate);
    Ok(Event::ParallelComposed {
        events: vec![share.repeated(2000 / 16)],
    })
}

fn budget() -> Fallible<Budget> {
    Ok(Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    })
}

/// All minimisers one after another, or the choice among them; the value counts plans.
fn plans(automatic: bool, sink: &mut dyn Sink) -> Fallible<()> {
    let constants = Glm::Welsch.constants_within(ROW_NORM, Some(1.0));
    let facts = PublicFacts::glm(RECORDS, DIM, Adjacency::ReplaceOne, ROW_NORM, constants)?;
    let budget = budget()?;
    let extra = ExtraFacts::default()
        .with_radius(1.0)
        .with_kl(KlCondition::polyak_lojasiewicz(1.0)?)
        .with_hessian(HessianFacts::of(&constants));
    let limits = Limits::steps(1_000_000);
    alone(sink, &mut || {
        let planned = if automatic {
            usize::from(black_box(auto(&facts, &extra, &budget, None)).is_ok())
        } else {
            let all = SOLVERS.iter();
            all.filter(|s| black_box(s.plan(&facts, &extra, &budget, &limits)).is_ok())
                .count()
        };
        Ok(planned as f64)
    })
}

fn saddles(sink: &mut dyn Sink) -> Fallible<()> {
    let shares = CellShares::new(vec![
        [Some(0.508), Some(0.0133)],
        [Some(0.43), Some(0.0487)],
    ])?;
    let unclipped = BlockClips {
        x: f64::INFINITY,
        y: f64::INFINITY,
    };
    let loss = Scored::new(EqualOpportunity::new(&shares, 1.0)?, unclipped);
    let facts = SaddleFacts::scored(RECORDS, Adjacency::ReplaceOne, DIM, ROW_NORM, &loss);
    let allowance = Allowance::all(&budget()?);
    let limits = SaddleLimits::steps(1_000_000);
    alone(sink, &mut || {
        let all = minimax::SOLVERS.iter();
        let planned = all.filter(|s| black_box(s.plan_within(&facts, &allowance, &limits)).is_ok());
        Ok(planned.count() as f64)
    })
}
