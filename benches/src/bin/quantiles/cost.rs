//! What wrong guesses cost, as a program: a person with an income above 50,000 who is not found costs 1, one who is taken for one a fifth.
//! A linear score from a few facts is learnt from these costs alone, which have no gradient, and beside it by a private logistic score whose
//! threshold is then picked privately.

use dpopt::data::tabular::{EncodedTable, Schema};
use dpopt::nonconvex::{
    BoundedValues, Budget, ExtraFacts, GOLDSTEIN_ZO_SAMPLED, GlmRun, Limits, NOISY_GD, NoObserver,
    PublicFacts, Run,
};
use dpopt::oracle::{ClosureLoss, Constants, Convexity, Glm, PrivateData, PrivateValues};
use dpopt::privacy::selection::{ScoreBound, ScoreSum};
use dpopt::privacy::{ClipNorm, Curator, Delta, Epsilon, Event, Spend};
use dpopt_benches::census::{Failure, entries, seed};
use dpopt_benches::release::timed;

use crate::options::Options;
use crate::rows::DELTA;

/// What one who is taken for one costs.
const ALARM: f64 = 0.2;
/// The share of epsilon that the threshold is picked with.
const THRESHOLD: f64 = 0.1;
/// Thresholds to pick from, and the largest score.
const THRESHOLDS: usize = 201;
const LARGEST: f64 = 5.0;
/// The ball that costs are averaged over, and the one that the statement is about.
const SMOOTHING: f64 = 0.5;
const RADIUS: f64 = 0.5;
/// The constant in the score that the walk starts from: within the ball there are scores that take people. (From -1 it learns nothing.)
const START: f64 = -0.25;
const STEPS: u64 = 20_000;

struct Person {
    features: Vec<(u32, f32)>,
    rich: bool,
}

fn score(person: &Person, w: &[f64]) -> f64 {
    let terms = person
        .features
        .iter()
        .map(|(j, x)| w[*j as usize] * f64::from(*x));
    terms.sum()
}

fn cost_of(taken: bool, rich: bool) -> f64 {
    match (taken, rich) {
        (false, true) => 1.0,
        (true, false) => ALARM,
        _ => 0.0,
    }
}

fn cost(person: &Person, w: &[f64]) -> f64 {
    cost_of(score(person, w) > 0.0, person.rich)
}

fn people(table: &EncodedTable) -> Vec<Person> {
    let person = |(i, label): (usize, &f32)| Person {
        features: entries(&table.design, i),
        rich: *label > 0.0,
    };
    table.labels.iter().enumerate().map(person).collect()
}

fn mean(people: &[Person], cost: impl Fn(&Person) -> f64) -> f64 {
    people.iter().map(cost).sum::<f64>() / people.len() as f64
}

/// The table.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let schema = Schema::from_toml(include_str!("income.toml"), "income.toml")?;
    let [train, test] = options.common.tables(&schema)?;
    let (dim, records) = (train.design.columns(), train.labels.len() as u64);
    let (learnt, unseen) = (people(&train), people(&test));
    let relation = options.relation;
    println!(
        "| solver | epsilon | mean cost | bound | values | seconds |\n| - | - | - | - | - | - |\n\
         | nobody | | {:.4} | | | |\n| everybody | | {:.4} | | | |",
        mean(&unseen, |person| cost_of(false, person.rich)),
        mean(&unseen, |person| cost_of(true, person.rich)),
    );
    let values = PrivateData::made_up_of(people(&train), relation, Some(records))?;
    let norm = ClipNorm::new(train.row_norm)?;
    let rows = PrivateData::made_up(train.design, train.labels, norm, relation, Some(records))?
        .with_label_bound(ClipNorm::new(1.0)?);
    for &epsilon in &options.common.epsilons {
        let curator =
            |what: &str| Curator::simulated(relation, seed(&format!("cost {what} {epsilon}")));
        // The convex surrogate, and a threshold for what things cost.
        let share = (1.0 - THRESHOLD) * epsilon;
        let (seconds, w) = timed(|| logistic(&rows, share, curator("logistic")));
        let w = w?;
        let mut sum = ScoreSum::new(ScoreBound::new(THRESHOLDS, -1.0, 0.0)?);
        let threshold = |k: usize| LARGEST * (2.0 * k as f64 / (THRESHOLDS - 1) as f64 - 1.0);
        for person in &learnt {
            let score = score(person, &w);
            let costs = (0..THRESHOLDS).map(|k| -cost_of(score > threshold(k), person.rich));
            sum.add(&costs.collect::<Vec<f64>>());
        }
        let mut picker = curator("threshold");
        let rest = Epsilon::new(THRESHOLD * epsilon)?;
        picker.reserve(&Spend::Fixed(Event::ExponentialMechanism { epsilon: rest }))?;
        let picked = picker.exponential(&sum.finish(relation), rest)?;
        let at = |line: f64| {
            mean(&unseen, |person| {
                cost_of(score(person, &w) > line, person.rich)
            })
        };
        println!(
            "| logistic, as it is | {share:.3} | {:.4} | none | none | {seconds:.1} |\n\
             | logistic, and a private threshold | {epsilon} | {:.4} | none | none | {seconds:.1} |",
            at(0.0),
            at(threshold(picked))
        );
    }
    program(options, &values, dim, &unseen)
}

/// A private logistic score.
fn logistic(rows: &PrivateData, epsilon: f64, curator: Curator) -> Result<Vec<f64>, Failure> {
    let loss = Glm::Logistic;
    let constants = loss.constants_within(rows.row_norm(), rows.label_bound());
    let (records, norm) = (rows.public_records(), rows.row_norm());
    let facts = PublicFacts::glm(records, rows.dim(), rows.adjacency(), norm, constants)?;
    let budget = Budget {
        epsilon: Epsilon::new(epsilon)?,
        delta: Delta::new(DELTA)?,
    };
    let plan = NOISY_GD.plan(
        &facts,
        &ExtraFacts::default(),
        &budget,
        &Limits::steps(STEPS),
    )?;
    let (outcome, _) = GlmRun::new(rows, loss, curator).run(&*plan, &mut NoObserver)?;
    Ok(outcome.point)
}

/// The costs themselves.
fn program(
    options: &Options,
    values: &PrivateData<Vec<Person>>,
    dim: usize,
    unseen: &[Person],
) -> Result<(), Failure> {
    let facts = PublicFacts {
        records: values.public_records(),
        dim,
        adjacency: options.relation,
        lipschitz: f64::INFINITY,
        smoothness: f64::INFINITY,
        initial_gap: 1.0,
        row_norm: f64::INFINITY,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    };
    let bounded = BoundedValues {
        range: 1.0,
        smoothing: SMOOTHING,
    };
    let constants = Constants::new(f64::INFINITY, f64::INFINITY, 1.0, Convexity::Nonconvex);
    // Nobody is taken: the score is that of the constant alone.
    let mut start = vec![0.0; dim];
    start[dim - 1] = START;
    for &epsilon in &options.common.epsilons {
        let budget = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: Delta::new(DELTA)?,
        };
        let most = options.max_steps.unwrap_or(STEPS);
        for steps in [most / 5, most] {
            let extra = ExtraFacts::default()
                .with_goldstein_radius(RADIUS)
                .with_bounded_values(bounded);
            let solver = &GOLDSTEIN_ZO_SAMPLED;
            let plan = match solver.plan(&facts, &extra, &budget, &Limits::steps(steps)) {
                Ok(plan) => plan,
                Err(why) => {
                    println!("| {solver} | {epsilon} | {why} | | | |");
                    continue;
                }
            };
            let curator =
                Curator::simulated(options.relation, seed(&format!("cost {steps} {epsilon}")));
            let loss = ClosureLoss::values(dim, constants, cost);
            let mut oracle = PrivateValues::new(values, loss, curator)?;
            let nobody = &mut NoObserver;
            let run = Run::new(nobody).starting_at(Some(&start));
            let (seconds, outcome) = timed(|| plan.run_with(&mut oracle, run));
            let outcome = outcome?;
            println!(
                "| {solver}, {steps} steps | {epsilon} | {:.4} | {} | {:.1e} | {seconds:.1} |",
                mean(unseen, |person| cost(person, &outcome.point)),
                plan.bound()
                    .map_or("none".to_owned(), |bound| format!("{:.4}", bound.value)),
                outcome.counts.values,
            );
        }
    }
    Ok(())
}
