//! The speed table of the accountants, as JSON: what `cargo xtask bench` runs.
//!
//! One row per question about DP-SGD with sampling rate 0.01, noise multiplier 1, 10,000 steps and
//! delta = 1e-5 under add-remove, on one thread: the median over repeats, the target where there is one,
//! and whether it is met. The same of an epoch by random allocation to 10,000 steps at noise multiplier 1, under zero-out, and of
//! 2,000 steps on samples of 16 slices under 16 bands, at rate 0.16 and noise multiplier 1, under replace-one. Then one row per sampler of noise, with draws per second, on the same terms.
//! `--quick` takes fewer repeats. Rows of accountants that do not exist are left out.
#![allow(clippy::print_stdout, reason = "the table is the product")]

use std::hint::black_box;
use std::time::Instant;

use dpopt_benches::noise;
use dpopt_privacy::{
    Accountant, AccountingError, Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate,
    UnitError, calibrate,
};
use serde_json::{Value, json};

const RATE: f64 = 0.01;
const STEPS: u64 = 10_000;

/// A run at this noise multiplier.
type Run = fn(NoiseMultiplier) -> Result<Event, UnitError>;

/// One question and how fast it should be answered.
struct Row {
    id: String,
    /// In seconds; none where the row is only for comparison.
    target: Option<f64>,
    accountant: Accountant,
    kind: Kind,
    run: Run,
    relation: Adjacency,
}

enum Kind {
    /// epsilon of the run.
    Epsilon,
    /// The noise multiplier for epsilon 1.
    Calibration,
}

fn rows() -> Vec<Row> {
    let epsilon = [
        ("rdp", Some(0.5e-3)),
        ("exact", Some(10e-3)),
        ("pld", Some(20e-3)),
    ];
    let calibration = [("rdp", None), ("exact", Some(50e-3)), ("pld", None)];
    let row = |kind: fn() -> Kind, word: &'static str| {
        move |(name, target): (&str, Option<f64>)| {
            Some(Row {
                id: format!("{word}/{name}"),
                target,
                accountant: name.parse().ok()?,
                kind: kind(),
                run: samples,
                relation: Adjacency::AddRemove,
            })
        }
    };
    let first = epsilon
        .into_iter()
        .filter_map(row(|| Kind::Epsilon, "epsilon"));
    let second = calibration
        .into_iter()
        .filter_map(row(|| Kind::Calibration, "calibrate"));
    let epochs: [(&str, Run, Adjacency, f64); 2] = [
        ("allocation", allocation, Adjacency::ZeroOut, 1.0),
        ("banded", banded, Adjacency::ReplaceOne, 5.0),
    ];
    let third = epochs
        .into_iter()
        .flat_map(|(name, run, relation, target)| {
            let row = |word, kind, target| Row {
                id: format!("{word}/{name}"),
                target: Some(target),
                accountant: Accountant::Pld,
                kind,
                run,
                relation,
            };
            [
                row("epsilon", Kind::Epsilon, target),
                row("calibrate", Kind::Calibration, 20.0),
            ]
        });
    first.chain(second).chain(third).collect()
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

fn answer(row: &Row) -> Result<f64, AccountingError> {
    let delta = Delta::new(1e-5)?;
    // The rates are fine: asked once, so that a search needs no answer for those that are not.
    let one = (row.run)(NoiseMultiplier::new(1.0)?)?;
    match row.kind {
        Kind::Epsilon => row.accountant.epsilon(&one, delta, row.relation),
        Kind::Calibration => {
            let target = Epsilon::new(1.0)?;
            let event = |noise| (row.run)(noise).unwrap_or(Event::NonPrivate);
            calibrate::noise_multiplier(row.accountant, target, delta, row.relation, event)
                .map(NoiseMultiplier::get)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn now() -> Instant {
    Instant::now()
}

/// What was measured.
struct Times {
    median: f64,
    fastest: f64,
    repeats: usize,
    value: f64,
}

/// Times over at least `least` repeats, and as many as fit in `room` seconds.
fn measure<E>(work: impl Fn() -> Result<f64, E>, least: usize, room: f64) -> Result<Times, E> {
    let value = work()?;
    let start = now();
    let mut seconds = Vec::new();
    while seconds.len() < least || (start.elapsed().as_secs_f64() < room && seconds.len() < 1001) {
        let before = now();
        black_box(work()?);
        seconds.push(before.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(Times {
        median: seconds[seconds.len() / 2],
        fastest: seconds[0],
        repeats: seconds.len(),
        value,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let (least, room) = if quick { (3, 0.2) } else { (11, 2.0) };
    let mut out = Vec::new();
    for row in rows() {
        let times = measure(|| answer(black_box(&row)), least, room)?;
        let line: Value = json!({
            "id": row.id,
            "seconds": times.median,
            "fastest": times.fastest,
            "target": row.target,
            "met": row.target.map(|target| times.median <= target),
            "repeats": times.repeats,
            "value": times.value,
        });
        out.push(line);
    }
    for row in noise::rows() {
        let times = measure(&*row.work, least.min(5), room)?;
        out.push(json!({
            "id": row.id,
            "seconds": times.median,
            "fastest": times.fastest,
            "target": row.target,
            "met": row.target.map(|target| times.median <= target),
            "repeats": times.repeats,
            "draws_per_second": row.draws as f64 / times.median,
        }));
    }
    println!("{}", serde_json::to_string_pretty(&out)?);
    Ok(())
}
