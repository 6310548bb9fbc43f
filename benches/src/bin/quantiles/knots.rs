//! The median of weeks worked by age as a piecewise linear function whose knots are learnt too: a loss with kinks in few dimensions, where
//! the plan's bound and the certificate are both small.
//!
//! f(x) = h + s x + sum_k clamp(c_k, -S, S) max(0, x - clamp(u_k/S, 0, 1)), S = 20, four knots, ages from 0 to 1 and weeks from -1 to 1;
//! the loss is half of |f(x) - y|. Every derivative of f by a parameter is at most 1, so L0 = sqrt(10)/2 everywhere.

use dpopt::certify::{GoldsteinSettings, MeanLoss, ReleasedWindow, WindowPlan, goldstein};
use dpopt::data::tabular::{EncodedTable, Schema};
use dpopt::nonconvex::{
    Budget, ExtraFacts, GOLDSTEIN_SAMPLED, GOLDSTEIN_ZO_SAMPLED, Limits, NoObserver, PublicFacts,
    Run, Solver,
};
use dpopt::oracle::{ClosureLoss, Constants, Convexity, PrivateData, PrivateMean, PublicRecords};
use dpopt::privacy::{Curator, Delta, Epsilon};
use dpopt_benches::census::{Failure, entries, seed};
use dpopt_benches::release::timed;

use crate::options::Options;
use crate::rows::{DELTA, FAILURE};

const KNOTS: usize = 4;
const DIM: usize = 2 + 2 * KNOTS;
/// S.
const STEEPEST: f64 = 20.0;
/// Half of the weeks of a year.
const HALF: f64 = 26.0;
/// Of the Goldstein subdifferential: half a slope unit of 26 weeks in 90 years, or a knot by 2 years.
const RADIUS: f64 = 0.5;
const STEPS: u64 = 100_000;
/// Solvers: gradients, and values alone.
const SOLVERS: [&Solver; 2] = [&GOLDSTEIN_SAMPLED, &GOLDSTEIN_ZO_SAMPLED];

/// An age in units of 90 years, and weeks from -1 to 1.
type Person = [f64; 2];

fn people(table: &EncodedTable) -> Vec<Person> {
    let age = |i| {
        entries(&table.design, i)
            .first()
            .map_or(0.0, |(_, x)| f64::from(*x))
    };
    let person = |(i, weeks): (usize, &f32)| [age(i), f64::from(*weeks)];
    table.labels.iter().enumerate().map(person).collect()
}

/// The clamped steepness and the clamped place of a knot.
fn knot(w: &[f64], k: usize) -> (f64, f64) {
    let place = (w[2 + KNOTS + k] / STEEPEST).clamp(0.0, 1.0);
    (w[2 + k].clamp(-STEEPEST, STEEPEST), place)
}

fn predict(age: f64, w: &[f64]) -> f64 {
    let bends = (0..KNOTS).map(|k| {
        let (steep, place) = knot(w, k);
        steep * (age - place).max(0.0)
    });
    w[0] + w[1] * age + bends.sum::<f64>()
}

fn value(person: &Person, w: &[f64]) -> f64 {
    0.5 * (predict(person[0], w) - person[1]).abs()
}

fn gradient(person: &Person, w: &[f64], out: &mut [f64]) {
    let [age, weeks] = *person;
    let slope = if predict(age, w) > weeks { 0.5 } else { -0.5 };
    out[0] += slope;
    out[1] += slope * age;
    for k in 0..KNOTS {
        let (steep, place) = knot(w, k);
        if age > place {
            if w[2 + k].abs() < STEEPEST {
                out[2 + k] += slope * (age - place);
            }
            if (0.0..STEEPEST).contains(&w[2 + KNOTS + k]) {
                out[2 + KNOTS + k] -= slope * steep / STEEPEST;
            }
        }
    }
}

/// Mean absolute error, in weeks.
fn error(people: &[Person], predict: impl Fn(f64) -> f64) -> f64 {
    let errors = people
        .iter()
        .map(|[age, weeks]| (predict(*age) - weeks).abs());
    HALF * errors.sum::<f64>() / people.len() as f64
}

/// The median of each year of age, without any privacy: no function of age is better on these records.
fn medians(people: &[Person]) -> impl Fn(f64) -> f64 {
    let year = |age: f64| (90.0 * age).round() as usize;
    let mut by_year = vec![Vec::new(); 91];
    for [age, weeks] in people {
        by_year[year(*age)].push(*weeks);
    }
    let median = |mut weeks: Vec<f64>| {
        weeks.sort_by(f64::total_cmp);
        weeks.get(weeks.len() / 2).copied().unwrap_or(0.0)
    };
    let medians: Vec<f64> = by_year.into_iter().map(median).collect();
    move |age| medians[year(age)]
}

/// The table.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let schema = Schema::from_toml(include_str!("weeks.toml"), "weeks.toml")?;
    let [train, test] = options.common.tables(&schema)?;
    let (train, test) = (people(&train), people(&test));
    let records = train.len() as u64;
    let relation = options.relation;
    let lipschitz = 0.5 * (DIM as f64).sqrt();
    let constants = Constants::new(lipschitz, f64::INFINITY, 0.5, Convexity::Nonconvex);
    let facts = PublicFacts {
        records,
        dim: DIM,
        adjacency: relation,
        lipschitz,
        smoothness: f64::INFINITY,
        // At the start, where f is 0.
        initial_gap: 0.5,
        row_norm: f64::INFINITY,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    };
    let mut start = vec![0.0; DIM];
    for k in 0..KNOTS {
        start[2 + KNOTS + k] = STEEPEST * (k + 1) as f64 / (KNOTS + 1) as f64;
    }
    let steps = options.max_steps.unwrap_or(STEPS);
    let best = medians(&train);
    println!(
        "| solver | epsilon | mean error, weeks | certificate: radius, value/L0 | bound/L0 | distance on the records/L0, at most | steps | seconds |\n\
         | - | - | - | - | - | - | - | - |\n\
         | all zero | | {:.3} | | | | | |\n| median of each year, not private | | {:.3} | | | | | |",
        error(&test, |_| -1.0),
        error(&test, best)
    );
    let public = PublicRecords::of(train.clone());
    let private = PrivateData::made_up_of(train, relation, Some(records))?;
    let loss = || ClosureLoss::new(DIM, constants, value, gradient);
    for &epsilon in &options.common.epsilons {
        let budget = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: Delta::new(DELTA)?,
        };
        for solver in SOLVERS {
            let only = &options.common.only;
            if !(only.is_empty() || only.iter().any(|name| name == solver.name)) {
                continue;
            }
            let extra = ExtraFacts::default().with_goldstein_radius(RADIUS);
            let plan = solver.plan(&facts, &extra, &budget, &Limits::steps(steps))?;
            let curator = Curator::simulated(relation, seed(&format!("knots {solver} {epsilon}")));
            let mut means =
                PrivateMean::new(&private, loss(), curator)?.with_threads(options.common.threads);
            let nobody = &mut NoObserver;
            let (seconds, done) = timed(|| match WindowPlan::of(&*plan, FAILURE) {
                Ok(windows) => {
                    let mut watched = ReleasedWindow::new(windows, nobody);
                    let run = Run::new(&mut watched).starting_at(Some(&start));
                    let done = plan.run_with(&mut means, run);
                    done.map(|outcome| (outcome, watched.certificate().ok()))
                }
                Err(_) => {
                    let run = Run::new(nobody).starting_at(Some(&start));
                    plan.run_with(&mut means, run)
                        .map(|outcome| (outcome, None))
                }
            });
            let (outcome, window) = done?;
            let point = &outcome.point;
            eprintln!("{solver} {epsilon}: {seconds:.1} s, {point:.3?}");
            let loss = loss();
            let mean = MeanLoss::new(&public, &loss)?;
            let settings = GoldsteinSettings {
                max_gradients: 400,
                ..GoldsteinSettings::default()
            };
            let searched = goldstein(&mean, point, RADIUS, &settings)?;
            let window = window.map_or("none".to_owned(), |window| {
                let radius = window.radius_around(point);
                format!("{radius:.2}, {:.4}", window.value / lipschitz)
            });
            println!(
                "| {solver} | {epsilon} | {:.3} | {window} | {:.4} | {:.4} | {} | {seconds:.1} |",
                error(&test, |age| predict(age, point)),
                plan.bound()
                    .map_or(f64::NAN, |bound| bound.value / lipschitz),
                searched.upper / lipschitz,
                outcome.steps,
            );
        }
    }
    Ok(())
}
