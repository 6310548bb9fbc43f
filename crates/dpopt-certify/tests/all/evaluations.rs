//! Evaluations of several classes and of numbers through real releases: brute-force counts where there is next to no noise, coverage of every
//! interval, and a twin that counts a record twice.

use std::num::NonZeroUsize;

use dpopt_certify::{
    ClassesEvaluation, ClassesPlan, MeanOf, Measured, NumberEvaluation, NumberPlan,
};
use dpopt_linalg::{Design, Row};
use dpopt_oracle::{
    Constants, Convexity, Differentiable, Example, Examples, Loss, PrivateData, PrivateMean,
    Running, Tally,
};
use dpopt_privacy::Adjacency::{self, AddRemove, ReplaceOne, ZeroOut};
use dpopt_privacy::{ClipNorm, Curator, Mu, Which};

const FAILURE: f64 = 0.1;
const SEEDS: u64 = 500;

/// 90 misses of 500 have a Clopper-Pearson lower limit above 0.1 at level 1e-6: P(X >= 90) <= exp(-500 KL(0.18, 0.1)) = 4e-7 for X of 500
/// draws at 0.1 (Chernoff). So each of these checks is a false alarm with probability below 1e-6.
const CAUGHT: u64 = 90;

/// Class and prediction of each record; the row has the prediction, 3 for a row that is no row.
const PAIRS: [(usize, usize, usize); 7] = [
    (0, 0, 40),
    (0, 2, 5),
    (1, 1, 20),
    (1, 0, 9),
    (2, 2, 3),
    (2, 1, 30),
    (1, 3, 2),
];

/// Rows of norm 10 at most.
fn data(rows: Vec<f64>, labels: Vec<f32>, adjacency: Adjacency) -> PrivateData {
    let declared = (!adjacency.record_count_is_public()).then_some(90);
    let design = Design::dense(1, rows).unwrap();
    let norm = ClipNorm::new(10.0).unwrap();
    PrivateData::made_up(design, labels, norm, adjacency, declared).unwrap()
}

fn classes(adjacency: Adjacency) -> PrivateData {
    let each = || PAIRS.iter().flat_map(|pair| vec![*pair; pair.2]);
    let row = |called: usize| if called == 3 { f64::NAN } else { called as f64 };
    let rows = each().map(|(_, called, _)| row(called)).collect();
    data(
        rows,
        each().map(|(class, ..)| class as f32).collect(),
        adjacency,
    )
}

/// The prediction's output is 2, the others 0. A row that is no row is one of zeros: called 0.
fn outputs(row: Row<'_>) -> Vec<f64> {
    let called = row.dot(&[1.0]);
    (0..3)
        .map(|k| if k as f64 == called { 2.0 } else { 0.0 })
        .collect()
}

/// By hand: confusion table, accuracy, mean log loss.
fn exact() -> ([[f64; 3]; 3], f64, f64) {
    let mut table = [[0.0; 3]; 3];
    for (class, called, count) in PAIRS {
        table[class][called % 3] += count as f64;
    }
    let all: f64 = table.as_flattened().iter().sum();
    let right = table[0][0] + table[1][1] + table[2][2];
    let total = (2f64.exp() + 2.0).ln();
    (
        table,
        right / all,
        (right * (total - 2.0) + (all - right) * total) / all,
    )
}

fn plan_of_classes(adjacency: Adjacency, records: u64, mu: f64) -> ClassesPlan {
    let mu = Mu::new(mu).unwrap();
    ClassesPlan::new((records, adjacency), mu, 3, (Some(4.0), FAILURE)).unwrap()
}

fn of_classes(data: &PrivateData, mu: f64, seed: u64) -> ClassesEvaluation {
    let plan = plan_of_classes(data.adjacency(), data.public_records(), mu);
    let mut curator = Curator::simulated(data.adjacency(), seed);
    curator.reserve(&plan.tally.spend()).unwrap();
    let (counts, mut curator) = plan
        .release(data, outputs, curator, NonZeroUsize::MIN)
        .unwrap();
    curator.settle().unwrap();
    counts.evaluation()
}

/// Labels and predictions, some beyond [-1, 1] and one that is none.
const NUMBERS: [(f64, f32); 6] = [
    (0.5, 0.25),
    (-3.0, -1.0),
    (0.0, 0.75),
    (2.0, 1.0),
    (-0.5, 0.5),
    (0.1, f32::NAN),
];

fn numbers(adjacency: Adjacency) -> PrivateData {
    let each = || NUMBERS.iter().cycle().take(90);
    data(
        each().map(|of| of.0).collect(),
        each().map(|of| of.1).collect(),
        adjacency,
    )
}

/// Of a range 8 wide: absolute errors 1, 0, 3, 0, 4 of its half 4, and 0 of a record whose label is no number, which is one of zeros.
const ABSOLUTE: f64 = (1.0 + 0.0 + 3.0 + 0.0 + 4.0 + 0.0) / 6.0;
const SQUARED: f64 = (1.0 + 9.0 + 16.0) / 6.0;

fn of_numbers(data: &PrivateData, mu: f64, seed: u64) -> NumberEvaluation {
    let (of, mu) = (
        (data.public_records(), data.adjacency()),
        Mu::new(mu).unwrap(),
    );
    let plan = NumberPlan::new(of, mu, 8.0, FAILURE).unwrap();
    let mut curator = Curator::simulated(data.adjacency(), seed);
    curator.reserve(&plan.tally.spend()).unwrap();
    let score = |row: Row<'_>| row.dot(&[1.0]);
    let (sums, mut curator) = plan
        .release(data, score, curator, NonZeroUsize::MIN)
        .unwrap();
    curator.settle().unwrap();
    sums.evaluation()
}

fn near(of: impl Into<Option<f64>>, exact: f64) -> bool {
    of.into().is_some_and(|of| (of - exact).abs() < 1e-3)
}

#[test]
fn without_noise_the_numbers_are_those_of_the_records() {
    let (table, accuracy, loss) = exact();
    for adjacency in [ReplaceOne, AddRemove] {
        let found = of_classes(&classes(adjacency), 1e6, 1);
        let released = found.confusion.unwrap();
        for (row, exact) in released.counts.iter().zip(&table) {
            for (count, exact) in row.iter().zip(exact) {
                assert!(near(*count, *exact), "{count} {exact}");
            }
        }
        assert!(near(found.accuracy.records.estimate, accuracy));
        assert!(near(found.log_loss.unwrap().records.estimate, loss));
        for ((recall, size), (class, row)) in found
            .recalls
            .iter()
            .zip(&found.sizes)
            .zip(table.iter().enumerate())
        {
            let all: f64 = row.iter().sum();
            assert!(near(recall.estimate, row[class] / all) && near(size.estimate, all));
        }
        assert_eq!(
            found.records,
            adjacency.record_count_is_public().then_some(109)
        );

        let found = of_numbers(&numbers(adjacency), 1e6, 1);
        assert!(
            near(found.mean_absolute_error.records.estimate, ABSOLUTE),
            "{found:?}"
        );
        assert!(
            near(found.mean_squared_error.records.estimate, SQUARED),
            "{found:?}"
        );
        assert!(near(found.root_mean_squared_error.estimate, SQUARED.sqrt()));
    }
}

fn out(of: &Measured, exact: f64) -> bool {
    !(of.low - 1e-9..=of.high + 1e-9).contains(&exact)
}

/// Misses of every statement, with noise that is `ratio` times what the plan for `mu` has: intervals are made narrower by it.
fn misses(adjacency: Adjacency, mu: f64, ratio: f64) -> [u64; 8] {
    let (table, accuracy, loss) = exact();
    let (several, number) = (classes(adjacency), numbers(adjacency));
    let narrow = |of: &Measured| Measured {
        estimate: of.estimate,
        low: of.middle() - (of.middle() - of.low) / ratio,
        high: of.middle() + (of.high - of.middle()) / ratio,
    };
    let miss = |of: &Measured, exact: f64| out(&narrow(of), exact);
    let mean = |of: &MeanOf, exact: f64| miss(&of.records, exact);
    let mut count = [0; 8];
    for seed in 0..SEEDS {
        let found = of_classes(&several, mu, seed);
        let released = found.confusion.unwrap();
        let half = released.half_width / ratio;
        let cells = released.counts.iter().flatten().zip(table.as_flattened());
        let rows = || table.iter().enumerate();
        let all = |row: &[f64; 3]| row.iter().sum::<f64>();
        let errors = of_numbers(&number, mu, seed);
        let bad = [
            mean(&found.accuracy, accuracy),
            mean(&found.log_loss.unwrap(), loss),
            rows().any(|(k, row)| miss(&found.recalls[k], row[k] / all(row))),
            rows().any(|(k, row)| miss(&found.sizes[k], all(row))),
            cells
                .into_iter()
                .any(|(count, exact)| (count - exact).abs() > half),
            mean(&errors.mean_absolute_error, ABSOLUTE),
            mean(&errors.mean_squared_error, SQUARED),
            miss(&errors.root_mean_squared_error, SQUARED.sqrt()),
        ];
        for (count, bad) in count.iter_mut().zip(bad) {
            *count += u64::from(bad);
        }
    }
    count
}

#[test]
fn every_interval_misses_as_rarely_as_it_says() {
    for (adjacency, mu) in [(ReplaceOne, 1.0), (ReplaceOne, 0.2), (AddRemove, 0.5)] {
        let found = misses(adjacency, mu, 1.0);
        assert!(
            found.iter().all(|misses| *misses < CAUGHT),
            "{adjacency} {mu} {found:?}"
        );
    }
}

/// The twin: intervals of half the noise, which is what a sensitivity of 1 under replace-one would give.
#[test]
fn half_of_the_noise_is_caught() {
    let found = misses(ReplaceOne, 1.0, 2.0);
    assert!(found.iter().all(|misses| *misses >= CAUGHT), "{found:?}");
}

/// A tally that counts each record in its cell and in the next.
struct Twice;

impl Loss for Twice {
    type Records = Examples;

    fn dim(&self, _: &Examples) -> usize {
        3
    }

    fn constants_on(&self, _: &Examples) -> Constants {
        Constants::new(1.0, 0.0, f64::INFINITY, Convexity::Convex)
    }

    fn value(&self, _: Example<'_>, _: &[f64]) -> f64 {
        0.0
    }
}

impl Differentiable for Twice {
    fn gradient(&self, record: Example<'_>, _: &[f64], out: &mut [f64]) {
        let cell = record.label as usize % 3;
        out[cell] += 1.0;
        out[(cell + 1) % 3] += 1.0;
    }
}

fn all_cells<L: Differentiable<Records = Examples>>(loss: L) -> f64 {
    let data = classes(ReplaceOne);
    let plan = plan_of_classes(ReplaceOne, data.public_records(), 1e6);
    let mut curator = Curator::simulated(ReplaceOne, 3);
    curator.reserve(&plan.tally.spend()).unwrap();
    let mut means = PrivateMean::new(&data, loss, curator).unwrap();
    let mut running = Running::new(3, ClipNorm::new(1.0).unwrap());
    let noise = plan.tally.noise_multiplier;
    let released = running.anchor(&mut means, &[0.0; 3], Which::All, noise);
    let released = released.unwrap();
    data.public_records() as f64 * released.estimate().gradient.iter().sum::<f64>()
}

/// Each record is in one cell, so that they add up to n. One that is in two is longer than the clip, and they add up to sqrt(2) n: the sensitivity
/// holds, and the count does not.
#[test]
fn a_record_in_two_cells_is_caught() {
    let once = Tally::new(3, 0, |record: Example<'_>, _: &mut [f64]| {
        record.label as usize
    });
    assert!((all_cells(once) - 109.0).abs() < 0.01);
    let twice = all_cells(Twice);
    assert!((twice - 109.0 * 2f64.sqrt()).abs() < 0.01, "{twice}");
}

/// R^2 is 1 + 2/4 for a table with accuracy and log loss, 2/4 for numbers; under add-remove one share more, and half of the noise.
#[test]
fn noise_is_that_of_one_record() {
    let [replaced, removed] =
        [ReplaceOne, AddRemove].map(|adjacency| plan_of_classes(adjacency, 90, 0.25).tally);
    assert!((replaced.count_std - 2.0 * 1.5f64.sqrt() / 0.25).abs() < 1e-9);
    assert!((removed.count_std - 1.75f64.sqrt() / 0.25).abs() < 1e-9);
    let mu = Mu::new(0.25).unwrap();
    let number = NumberPlan::new((90, ReplaceOne), mu, 3.0, FAILURE).unwrap();
    assert!((number.tally.count_std - 2.0 * 0.5f64.sqrt() / 0.25).abs() < 1e-9);
}

/// A hundred classes have a table, a thousand do not: recalls and the accuracy are still those of the records.
#[test]
fn many_classes_have_no_table() {
    for (k, table) in [(100usize, true), (1000, false)] {
        let rows: Vec<f64> = (0..2 * k)
            .map(|i| if i < k { i } else { 0 } as f64 / 100.0)
            .collect();
        let labels = (0..2 * k).map(|i| (i % k) as f32).collect();
        let data = data(rows, labels, ReplaceOne);
        let mu = Mu::new(1e6).unwrap();
        let plan = ClassesPlan::new((2 * k as u64, ReplaceOne), mu, k, (None, FAILURE)).unwrap();
        assert_eq!(plan.has_table(), table);
        let mut curator = Curator::simulated(ReplaceOne, 1);
        curator.reserve(&plan.tally.spend()).unwrap();
        let called = |row: Row<'_>| {
            let called = (100.0 * row.dot(&[1.0])).round();
            (0..k)
                .map(|j| f64::from(u8::from(j as f64 == called)))
                .collect()
        };
        let (counts, _) = plan
            .release(&data, called, curator, NonZeroUsize::MIN)
            .unwrap();
        let found = counts.evaluation();
        assert_eq!(found.confusion.is_some(), table);
        // The first half is right, of the second only class 0.
        let right = (k + 1) as f64 / (2 * k) as f64;
        assert!(near(found.accuracy.records.estimate, right));
        assert!(near(found.recalls[0].estimate, 1.0));
        assert!(
            found.recalls[1..]
                .iter()
                .all(|recall| near(recall.estimate, 0.5))
        );
        assert!(found.log_loss.is_none());
    }
}

#[test]
fn what_can_not_be_planned() {
    let mu = Mu::new(1.0).unwrap();
    let several = |adjacency, records, k, cap, failure| {
        let of = ClassesPlan::new((records, adjacency), mu, k, (cap, failure));
        of.unwrap_err().to_string()
    };
    assert!(several(ZeroOut, 5, 3, None, 0.1).contains("vanish"));
    assert!(several(ReplaceOne, 0, 3, None, 0.1).contains("number of records"));
    assert!(several(ReplaceOne, 5, 1, None, 0.1).contains("number of classes"));
    assert!(several(ReplaceOne, 5, usize::MAX, None, 0.1).contains("number of classes"));
    assert!(several(ReplaceOne, 5, 3, Some(f64::NAN), 0.1).contains("cap"));
    assert!(several(ReplaceOne, 5, 3, None, 1.0).contains("failure"));
    for width in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e200] {
        let of = NumberPlan::new((5, ReplaceOne), mu, width, 0.1);
        assert!(of.unwrap_err().to_string().contains("width"));
    }
}
