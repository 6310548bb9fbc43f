//! Coverage of every interval over the noise, closed forms, and records that break what they can.

use std::num::NonZeroUsize;

use dpopt_linalg::{Design, Row};
use dpopt_oracle::PrivateData;
use dpopt_privacy::Adjacency::{AddRemove, ReplaceOne, ZeroOut};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, Mu};

use super::*;
use crate::random::Normals;
use crate::{accuracy, auc, log_loss};

const FAILURE: f64 = 0.1;
const RUNS: u64 = 1500;

fn settings(bins: usize) -> EvaluationSettings {
    EvaluationSettings {
        bins: Some(bins),
        range: 2.0,
        loss_cap: Some(3.0),
        failure: FAILURE,
    }
}

fn plan(records: u64, adjacency: Adjacency, mu: f64) -> PrivateEvaluation {
    PrivateEvaluation::new(records, adjacency, Mu::new(mu).unwrap(), &settings(8)).unwrap()
}

/// Eight bins of scores that are the same within a bin (the middle), or in an order that is as good or as bad as can be.
struct Truth {
    positives: [u32; 8],
    negatives: [u32; 8],
    scores: Vec<f64>,
    labels: Vec<f32>,
}

/// `inside`: by how much positives are above the middle of their bin.
fn truth(positives: [u32; 8], negatives: [u32; 8], inside: f64) -> Truth {
    let (mut scores, mut labels) = (Vec::new(), Vec::new());
    for bin in 0..8 {
        let middle = -1.75 + 0.5 * bin as f64;
        for (count, label, shift) in [
            (positives[bin], 1.0f32, inside),
            (negatives[bin], -1.0, -inside),
        ] {
            scores.extend((0..count).map(|_| middle + shift));
            labels.extend((0..count).map(|_| label));
        }
    }
    Truth {
        positives,
        negatives,
        scores,
        labels,
    }
}

impl Truth {
    fn records(&self) -> u64 {
        self.scores.len() as u64
    }

    /// The sums as the release has them, without noise.
    fn sums(&self) -> Vec<f64> {
        let pairs = self.negatives.iter().zip(&self.positives);
        let mut sums: Vec<f64> = pairs
            .flat_map(|(q, p)| [f64::from(*q), f64::from(*p)])
            .collect();
        let each = self.scores.iter().zip(&self.labels);
        let loss = each.map(|(z, y)| (1.0 + (-z * f64::from(*y)).exp()).ln().min(3.0));
        sums.push(loss.map(|loss| loss / 3.0 - 0.5).sum());
        sums
    }
}

/// Whether each statement is wrong of these records: the names of those that are.
fn wrong(found: &Evaluation, truth: &Truth) -> Vec<&'static str> {
    let out = |of: &Measured, exact: f64| !(of.low - 1e-9..=of.high + 1e-9).contains(&exact);
    let sum = |of: &[u32]| f64::from(of.iter().sum::<u32>());
    let (p, q) = (&truth.positives, &truth.negatives);
    let (all, positives) = (truth.records() as f64, sum(p));
    let mut wrong = Vec::new();
    let mut check = |name, bad: bool| {
        if bad {
            wrong.push(name);
        }
    };
    let exact = accuracy(&truth.scores, &truth.labels).unwrap();
    check("accuracy", out(&found.accuracy, exact));
    check("positives", out(&found.positives, positives / all));
    let area = auc(&truth.scores, &truth.labels);
    check("auc", area.is_ok_and(|area| out(&found.auc, area)));
    let loss = log_loss(&truth.scores, &truth.labels).unwrap();
    check("log loss", out(&found.log_loss.unwrap(), loss));
    let table = &found.confusion;
    let confusion = [
        out(&table.true_positives, sum(&p[4..])),
        out(&table.false_positives, sum(&q[4..])),
        out(&table.true_negatives, sum(&q[..4])),
        out(&table.false_negatives, sum(&p[..4])),
    ];
    check("confusion", confusion.contains(&true));
    let called = sum(&p[4..]) + sum(&q[4..]);
    check(
        "precision",
        called > 0.0 && out(&found.precision, sum(&p[4..]) / called),
    );
    let roc = found.roc.iter().enumerate().any(|(k, point)| {
        let rate = |of: &[u32]| sum(&of[k + 1..]) / sum(of);
        (positives > 0.0 && out(&point.true_positive_rate, rate(p)))
            || (positives < all && out(&point.false_positive_rate, rate(q)))
    });
    check("roc", roc);
    let calibration = found.calibration.iter().enumerate().any(|(bin, line)| {
        let here = f64::from(p[bin] + q[bin]);
        here > 0.0 && out(&line.positives, f64::from(p[bin]) / here)
    });
    check("calibration", calibration);
    wrong
}

const NAMES: [&str; 8] = [
    "accuracy",
    "positives",
    "auc",
    "log loss",
    "confusion",
    "precision",
    "roc",
    "calibration",
];

/// How often each is wrong, where the noise is `ratio` times what is stated.
fn misses(truth: &Truth, plan: &PrivateEvaluation, ratio: f64, seed: u64) -> [u64; 8] {
    let mut normals = Normals::new(seed);
    let sums = truth.sums();
    let mut count = [0; 8];
    for _ in 0..RUNS {
        let noise = normals.vector(sums.len());
        let noisy: Vec<f64> = sums
            .iter()
            .zip(&noise)
            .map(|(sum, z)| sum + ratio * plan.tally.count_std * z)
            .collect();
        let counts = EvaluationCounts::new(plan, &noisy, plan.tally.count_std, 1e-8);
        for name in wrong(&counts.evaluation(), truth) {
            count[NAMES.iter().position(|known| *known == name).unwrap()] += 1;
        }
    }
    count
}

/// More than this of so many runs are wrong with probability below 1e-6 where the rate is FAILURE: five deviations and a bit (Bernstein's
/// inequality: exp(-t^2/(2 v + 2 t/3)) with t = 5.6 sqrt(v) and v = 135).
fn allowed() -> u64 {
    let (runs, f) = (RUNS as f64, FAILURE);
    (runs * f + 5.6 * (runs * f * (1.0 - f)).sqrt()) as u64
}

fn cases() -> Vec<Truth> {
    let usual = ([2, 5, 9, 20, 40, 60, 70, 30], [80, 70, 50, 30, 20, 9, 4, 1]);
    let rare = ([0, 0, 1, 2, 3, 4, 0, 0], [300, 90, 40, 10, 4, 2, 0, 0]);
    vec![
        truth(usual.0, usual.1, 0.0),
        truth(usual.0, usual.1, 0.1),
        truth(usual.0, usual.1, -0.1),
        truth(rare.0, rare.1, -0.2),
        // One class only, and one record.
        truth([0; 8], [0, 0, 40, 30, 20, 0, 0, 0], 0.0),
        truth([0, 0, 0, 0, 0, 1, 0, 0], [0; 8], 0.0),
    ]
}

#[test]
fn every_interval_misses_as_rarely_as_it_says() {
    for (case, truth) in cases().iter().enumerate() {
        for (adjacency, mu) in [(ReplaceOne, 1.0), (ReplaceOne, 0.1), (AddRemove, 0.5)] {
            let plan = plan(truth.records(), adjacency, mu);
            let found = misses(truth, &plan, 1.0, 7 * case as u64 + u64::from(mu == 0.1));
            for (name, misses) in NAMES.iter().zip(found) {
                assert!(
                    misses <= allowed(),
                    "{name} {case} {adjacency} {mu}: {misses}"
                );
            }
        }
    }
}

/// The twins: intervals of a third of the noise, and of none to speak of. Each interval that noise can leave is caught.
#[test]
fn forgotten_noise_is_caught() {
    let truth = &cases()[0];
    for adjacency in [ReplaceOne, AddRemove] {
        let plan = plan(truth.records(), adjacency, 0.5);
        for ratio in [3.0, 1e3] {
            let found = misses(truth, &plan, ratio, 1);
            for (name, misses) in NAMES.iter().zip(found) {
                // Where nothing but noise is left an area or a rate may be in any interval of [0, 1].
                let shows = ratio == 3.0 && !matches!(*name, "auc");
                assert!(!shows || misses > allowed(), "{name} {adjacency}: {misses}");
            }
        }
    }
}

/// A sensitivity of 1 under replace-one is half of what is charged: the noise is half of what the plan says, or twice.
#[test]
fn the_noise_is_twice_as_large_where_a_record_is_replaced() {
    let radius = 1.25f64.sqrt();
    let replaced = plan(100, ReplaceOne, 0.25);
    let removed = plan(100, AddRemove, 0.25);
    assert!((replaced.tally.count_std - 2.0 * radius / 0.25).abs() < 1e-9);
    assert!((removed.tally.count_std - radius / 0.25).abs() < 1e-9);
}

/// Half widths where n is public: 1.645 deviations (within 1 %) of s sqrt(B/2)/n for the accuracy and M s/n for the log loss.
#[test]
fn widths_are_those_of_the_formulas() {
    let truth = &cases()[0];
    let n = truth.records() as f64;
    let plan = plan(truth.records(), ReplaceOne, 2.0);
    let counts = EvaluationCounts::new(&plan, &truth.sums(), plan.tally.count_std, 0.0);
    let found = counts.evaluation();
    let (s, quantile) = (plan.tally.count_std, 1.644_853_6);
    for (of, deviation, exact) in [
        (
            found.accuracy,
            s * 2.0 / n,
            accuracy(&truth.scores, &truth.labels).unwrap(),
        ),
        (
            found.log_loss.unwrap(),
            3.0 * s / n,
            log_loss(&truth.scores, &truth.labels).unwrap(),
        ),
    ] {
        assert!((of.estimate - exact).abs() < 1e-9);
        let (low, high) = (exact - of.low, of.high - exact);
        for half in [low, high] {
            let ratio = half / (quantile * deviation);
            assert!((1.0 - 1e-7..1.011).contains(&ratio), "{ratio}");
        }
    }
    assert!(
        (plan.accuracy_half_width() - (found.accuracy.high - found.accuracy.estimate)).abs() < 1e-9
    );
}

/// The area's interval is no wider than twice what the normal approximation of a ratio gives (Hanley and McNeil's form of the delta
/// method, with the noise of counts in the place of that of draws), beside the ties: it is exact and not vacuous.
#[test]
fn the_interval_of_the_area_is_of_use() {
    let truth = truth(
        [20, 50, 90, 200, 400, 600, 700, 300],
        [800, 700, 500, 300, 200, 90, 40, 10],
        0.0,
    );
    let plan = plan(truth.records(), ReplaceOne, 0.5);
    let counts = EvaluationCounts::new(&plan, &truth.sums(), plan.tally.count_std, 0.0);
    let found = counts.evaluation().auc;
    let (p, q) = (
        truth.positives.map(f64::from),
        truth.negatives.map(f64::from),
    );
    let (all_p, all_q): (f64, f64) = (p.iter().sum(), q.iter().sum());
    let area = auc(&truth.scores, &truth.labels).unwrap();
    let ties = p.iter().zip(&q).map(|(p, q)| p * q).sum::<f64>() / (all_p * all_q);
    let mut variance = 0.0;
    for i in 0..8 {
        let below: f64 = q[..i].iter().sum::<f64>() + 0.5 * q[i];
        let above: f64 = p[i + 1..].iter().sum::<f64>() + 0.5 * p[i];
        variance += (below / all_q - area).powi(2) / (all_p * all_p);
        variance += (above / all_p - area).powi(2) / (all_q * all_q);
    }
    let normal = ties + 2.0 * 1.645 * plan.tally.count_std * variance.sqrt();
    let width = found.high - found.low;
    assert!(
        width < 2.0 * normal && width > ties,
        "{width} {normal} {ties}"
    );
    assert!((found.estimate - area).abs() < 1e-9);
}

/// Of draws from a population with known numbers, the claim of it is as rarely wrong.
#[test]
fn the_population_is_covered_too() {
    // P(positive) = 0.3; scores of two levels: above with 0.8 for positives and 0.1 for negatives.
    let (right, area) = (
        0.3 * 0.8 + 0.7 * 0.9,
        0.8 * 0.9 + 0.5 * (0.8 * 0.1 + 0.2 * 0.9),
    );
    let log = |z: f64| (1.0 + (-z).exp()).ln();
    let loss = right * log(0.75) + (1.0 - right) * log(-0.75);
    let mut normals = Normals::new(11);
    let plan = plan(300, ReplaceOne, 1.0);
    let mut count = [0u64; 3];
    let runs = 400;
    for _ in 0..runs {
        let (mut p, mut q) = ([0; 8], [0; 8]);
        for _ in 0..300 {
            let (class, score) = (normals.uniform() < 0.3, normals.uniform());
            let above = score < if class { 0.8 } else { 0.1 };
            // Middles of bins 2 and 5 are -0.75 and 0.75.
            *(if class { &mut p } else { &mut q })
                .get_mut(if above { 5 } else { 2 })
                .unwrap() += 1;
        }
        let noise = normals.vector(17);
        let mut sums = truth(p, q, 0.0).sums();
        sums.iter_mut()
            .zip(&noise)
            .for_each(|(sum, z)| *sum += plan.tally.count_std * z);
        let found = EvaluationCounts::new(&plan, &sums, plan.tally.count_std, 1e-8).evaluation();
        let of = found.population.unwrap();
        for (count, (of, exact)) in count.iter_mut().zip([
            (of.accuracy, right),
            (of.auc, area),
            (of.log_loss.unwrap(), loss),
        ]) {
            *count += u64::from(!(of.low..=of.high).contains(&exact));
            assert!(of.low <= of.estimate && of.estimate <= of.high);
        }
    }
    // 40 expected at most; 40 + 5.6 sqrt(36) as above.
    assert!(count.iter().all(|misses| *misses <= 73), "{count:?}");
}

fn data(rows: &[[f64; 2]], labels: Vec<f32>, adjacency: Adjacency) -> PrivateData {
    let design = Design::dense(2, rows.as_flattened().to_vec()).unwrap();
    let declared = (!adjacency.record_count_is_public()).then_some(5);
    let norm = ClipNorm::new(10.0).unwrap();
    PrivateData::made_up(design, labels, norm, adjacency, declared).unwrap()
}

fn released(
    data: &PrivateData,
    mu: f64,
    score: impl Fn(Row<'_>) -> f64 + Sync,
) -> EvaluationCounts {
    let plan = plan(data.public_records(), data.adjacency(), mu);
    let mut curator = Curator::simulated(data.adjacency(), 3);
    curator.reserve(&plan.tally.spend()).unwrap();
    let threads = NonZeroUsize::MIN;
    let (counts, mut curator) = plan.release(data, score, curator, threads).unwrap();
    let spent = curator.settle().unwrap();
    let z = plan.tally.noise_multiplier;
    let leaves: Vec<_> = spent
        .leaves()
        .into_iter()
        .map(|(leaf, k)| (leaf.clone(), k))
        .collect();
    assert_eq!(leaves, [(Event::gaussian(z), 1)]);
    counts
}

/// Rows that are no numbers, scores that are none, and labels that are none: each is in one cell.
#[test]
fn each_record_is_in_one_cell() {
    let rows = [
        [1.0, 0.0],
        [-1.0, 0.0],
        [f64::NAN, 0.0],
        [0.5, 0.0],
        [9.0, 0.0],
        [0.3, 1.0],
    ];
    let labels = vec![1.0, -1.0, 1.0, f32::NAN, -1.0, 1.0];
    let score = |row: Row<'_>| match row.dot(&[0.0, 1.0]) {
        y if y > 0.5 => f64::NAN,
        _ => row.dot(&[1.0, 0.0]),
    };
    for adjacency in [ReplaceOne, AddRemove] {
        // Next to no noise.
        let counts = released(&data(&rows, labels.clone(), adjacency), 1e7, score);
        let whole = |of: &[f64]| of.iter().map(|x| x.round()).collect::<Vec<f64>>();
        // An erased row keeps its label, if that is one; otherwise it is negative.
        let positives = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0];
        let negatives = [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        assert_eq!(whole(counts.positives()), positives);
        assert_eq!(whole(counts.negatives()), negatives);
        assert!(counts.evaluation().records.is_some() == adjacency.record_count_is_public());
    }
}

/// No record, under add-remove, and one record of noise only: everything is possible, and nothing breaks.
#[test]
fn few_records_say_nothing_and_break_nothing() {
    let empty = data(&[], Vec::new(), AddRemove);
    let one = data(&[[1.0, 0.0]], vec![1.0], ReplaceOne);
    for data in [empty, one] {
        for mu in [1e-3, 0.3] {
            let found = released(&data, mu, |row| row.dot(&[1.0, 0.0])).evaluation();
            for of in [
                found.accuracy,
                found.auc,
                found.precision,
                found.log_loss.unwrap(),
            ] {
                assert!(of.low <= of.estimate && of.estimate <= of.high, "{of:?}");
            }
            assert!(found.accuracy.high - found.accuracy.low > 0.5);
        }
    }
}

#[test]
fn what_can_not_be_planned_or_released() {
    let mu = Mu::new(1.0).unwrap();
    let refused = |adjacency, records, of: EvaluationSettings| {
        PrivateEvaluation::new(records, adjacency, mu, &of)
            .unwrap_err()
            .to_string()
    };
    let good = settings(8);
    assert!(refused(ZeroOut, 5, good).contains("vanish"));
    assert!(refused(ReplaceOne, 0, good).contains("number of records"));
    for bins in [0, 7, 4096] {
        assert!(refused(ReplaceOne, 5, settings(bins)).contains(&bins.to_string()));
    }
    for failure in [0.0, 1.0, f64::NAN] {
        let of = EvaluationSettings { failure, ..good };
        assert!(refused(ReplaceOne, 5, of).contains("failure"));
    }
    for cap in [0.0, -1.0, f64::INFINITY] {
        let of = EvaluationSettings {
            loss_cap: Some(cap),
            ..good
        };
        assert!(refused(ReplaceOne, 5, of).contains("cap"));
    }

    let data = data(&[[1.0, 0.0]; 5], vec![1.0; 5], ReplaceOne);
    let of = |plan: PrivateEvaluation| {
        let mut curator = Curator::simulated(ReplaceOne, 1);
        curator.reserve(&plan.tally.spend()).unwrap();
        let score = |row: Row<'_>| row.dot(&[1.0, 0.0]);
        plan.release(&data, score, curator, NonZeroUsize::MIN)
            .map(|_| ())
    };
    assert!(matches!(
        of(plan(5, AddRemove, 1.0)),
        Err(EvaluationError::OtherAdjacency { .. })
    ));
    assert!(matches!(
        of(plan(6, ReplaceOne, 1.0)),
        Err(EvaluationError::OtherData {
            planned: 6,
            found: 5
        })
    ));
    // Without a reservation nothing is released.
    let plan = plan(5, ReplaceOne, 1.0);
    let unpaid = Curator::simulated(ReplaceOne, 1);
    let score = |row: Row<'_>| row.dot(&[1.0, 0.0]);
    let found = plan.release(&data, score, unpaid, NonZeroUsize::MIN);
    assert!(matches!(found, Err(EvaluationError::Ask(_))));
}

/// (sqrt(2) n/(8 s))^(2/3), even, between 4 and 64: at n = 4000, mu = 0.5 and s = 4 sqrt(5)/2 it is 29.2, at n = 400 it is 6.3, at n = 3 below
/// 4 and at n = 40,000 136.
#[test]
fn the_number_of_bins_follows_the_noise() {
    let bins = |records| {
        let of = EvaluationSettings {
            bins: None,
            ..settings(8)
        };
        let mu = Mu::new(0.5).unwrap();
        let plan = PrivateEvaluation::new(records, ReplaceOne, mu, &of).unwrap();
        plan.bins.count()
    };
    assert_eq!(
        [bins(4000), bins(400), bins(3), bins(40_000)],
        [30, 6, 4, 64]
    );
}
