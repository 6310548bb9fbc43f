//! Weighted records against the expanded data set: the same laws, the same books.
//!
//! False alarms: a chi-squared with f degrees of freedom is above f + 2 sqrt(f x) + 2x with
//! probability at most e^-x (Laurent and Massart 2000); x = 16 in each of the six comparisons. Normal
//! deviates are compared at 6 standard deviations (2e-9). Seeds are fixed.

use std::collections::BTreeMap;

use dpopt_linalg::{Design, norm};
use dpopt_oracle::query::{HessianMatrix, HessianVector, Value};
use dpopt_oracle::{
    AskError, Differentiable as _, Examples, Glm, Linear, Offers, Oracle, PeriodTerms, PrivateData,
    PrivateMean, Segment, TwiceDifferentiable as _,
};
use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Participation, PrefixKind, PrefixNoise,
    SamplingRate, Spend, Which,
};
use dpopt_theory::{
    Power, Problem as _, Radial, SecondOrderProblem as _, SimulatedOracle, Tilt, TiltedProblem,
    WeightedError, WeightedLoss, WeightedRecords,
};

const DRAWS: usize = 40_000;

fn stream(seed: u64) -> KeyedStream {
    ReplayKeyForTests::from_seed(seed).stream(StreamId::new(Purpose::Sampling, 0))
}

fn compare<K: Ord + Clone + std::fmt::Debug>(
    exact: &BTreeMap<K, f64>,
    mut draw: impl FnMut() -> K,
) -> bool {
    let mut seen: BTreeMap<K, f64> = BTreeMap::new();
    for _ in 0..DRAWS {
        let outcome = draw();
        assert!(exact.contains_key(&outcome), "{outcome:?} is impossible");
        *seen.entry(outcome).or_default() += 1.0;
    }
    let n = DRAWS as f64;
    let statistic: f64 = exact
        .iter()
        .map(|(k, p)| (seen.get(k).copied().unwrap_or(0.0) - n * p).powi(2) / (n * p))
        .sum();
    let (f, x) = (exact.len() as f64 - 1.0, 16.0);
    assert!((exact.values().sum::<f64>() - 1.0).abs() < 1e-12);
    statistic <= f + 2.0 * (f * x).sqrt() + 2.0 * x
}

/// Kinds 0, 0, 0, 1, 1, 2: the expanded data set of multiplicities 3, 2, 1.
const EXPANDED: [usize; 6] = [0, 0, 0, 1, 1, 2];

fn small() -> WeightedRecords<Vec<f64>> {
    WeightedRecords::new(vec![1.0, 2.0, 3.0], vec![3, 2, 1]).unwrap()
}

fn kinds(positions: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut counts = vec![0; 3];
    for i in positions {
        counts[EXPANDED[i]] += 1;
    }
    counts
}

#[test]
fn a_poisson_sample_is_one_of_the_expanded_data() {
    let rate = 0.35;
    let mut exact = BTreeMap::new();
    for subset in 0..64_u32 {
        let inside = (0..6).filter(|i| subset >> i & 1 == 1);
        let size = subset.count_ones() as i32;
        *exact.entry(kinds(inside)).or_insert(0.0) +=
            f64::powi(rate, size) * f64::powi(1.0 - rate, 6 - size);
    }
    let (data, mut stream) = (small(), stream(1));
    let draw = |rate: f64, stream: &mut KeyedStream| {
        data.poisson(SamplingRate::new(rate).unwrap(), stream)
    };
    assert!(compare(&exact, || draw(rate, &mut stream)));
    // A rate that is off by a tenth is caught.
    assert!(!compare(&exact, || draw(1.1 * rate, &mut stream)));
}

#[test]
fn a_sample_of_fixed_size_is_one_of_the_expanded_data() {
    let mut exact = BTreeMap::new();
    for subset in (0..64_u32).filter(|s| s.count_ones() == 3) {
        let inside = (0..6).filter(|i| subset >> i & 1 == 1);
        *exact.entry(kinds(inside)).or_insert(0.0) += 1.0 / 20.0;
    }
    let (data, mut stream) = (small(), stream(2));
    assert!(compare(&exact, || data.fixed_size(3, &mut stream).unwrap()));
    // Drawn with replacement, from those that can be compared: caught.
    let mut with_replacement = || loop {
        use rand::Rng as _;
        let mut counts = vec![0; 3];
        for _ in 0..3 {
            counts[EXPANDED[(stream.next_u64() % 6) as usize]] += 1;
        }
        if counts[0] <= 3 && counts[1] <= 2 && counts[2] <= 1 {
            break counts;
        }
    };
    assert!(!compare(&exact, &mut with_replacement));
}

/// The joint law of two slices: all 720 orders of the expanded data.
#[test]
fn slices_are_those_of_the_expanded_data_in_random_order() {
    let mut exact = BTreeMap::new();
    let mut order = [0, 1, 2, 3, 4, 5];
    permutations(&mut order, 0, &mut |order| {
        let slices = (
            kinds(order[..2].iter().copied()),
            kinds(order[2..5].iter().copied()),
        );
        *exact.entry(slices).or_insert(0.0) += 1.0 / 720.0;
    });
    let (data, mut stream) = (small(), stream(3));
    assert!(compare(&exact, || {
        let mut unread = data.unread();
        let first = unread.take(2, &mut stream).unwrap();
        let second = unread.take(3, &mut stream).unwrap();
        assert_eq!(unread.total(), 1);
        (first, second)
    }));
    let mut unread = data.unread();
    assert_eq!(
        unread.take(7, &mut stream),
        Err(WeightedError::Size { asked: 7, left: 6 })
    );
    assert_eq!(unread.take(6, &mut stream).unwrap(), [3, 2, 1]);
    assert!(unread.take(1, &mut stream).is_err());
}

fn permutations(order: &mut [usize; 6], from: usize, visit: &mut impl FnMut(&[usize; 6])) {
    if from == order.len() {
        visit(order);
        return;
    }
    for i in from..order.len() {
        order.swap(from, i);
        permutations(order, from + 1, visit);
        order.swap(from, i);
    }
}

const ROWS: [[f64; 2]; 3] = [[0.8, 0.1], [-0.3, 0.9], [0.5, -0.5]];
const LABELS: [f32; 3] = [1.5, -0.5, 0.25];

fn examples(which: &[usize]) -> (Design, Vec<f32>) {
    let rows = which.iter().flat_map(|&i| ROWS[i]).collect();
    let labels = which.iter().map(|&i| LABELS[i]).collect();
    (Design::dense(2, rows).unwrap(), labels)
}

fn clip(radius: f64) -> ClipNorm {
    ClipNorm::new(radius).unwrap()
}

fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn weighted() -> WeightedRecords<Examples> {
    let (design, labels) = examples(&[0, 1, 2]);
    WeightedRecords::new(
        Examples::new(design, labels, clip(1.0)).unwrap(),
        vec![3, 2, 1],
    )
    .unwrap()
}

fn expanded(adjacency: Adjacency) -> PrivateData {
    let (design, labels) = examples(&EXPANDED);
    let size = (!adjacency.record_count_is_public()).then_some(6);
    PrivateData::made_up(design, labels, clip(1.0), adjacency, size).unwrap()
}

/// Exact means are those of the expanded records one by one, clipped by hand.
#[test]
fn exact_means_are_those_of_the_expanded_data() {
    let data = weighted();
    let loss = Glm::Welsch;
    let (w, v) = ([0.3, -0.4], [0.1, 0.7]);
    let gradient = |i: usize, w: &[f64; 2]| -> [f64; 2] {
        let score = ROWS[i][0] * w[0] + ROWS[i][1] * w[1];
        let slope = loss.slope(score, f64::from(LABELS[i]));
        let g = [slope * ROWS[i][0], slope * ROWS[i][1]];
        let kept = (0.2 / g[0].hypot(g[1])).min(1.0);
        [kept * g[0], kept * g[1]]
    };
    let mut means = [[0.0; 2]; 2];
    for i in EXPANDED {
        let (new, old) = (gradient(i, &w), gradient(i, &v));
        let d = [new[0] - old[0], new[1] - old[1]];
        let kept = (0.15 / d[0].hypot(d[1])).min(1.0);
        for j in 0..2 {
            means[0][j] += new[j] / 6.0;
            means[1][j] += kept * d[j] / 6.0;
        }
    }
    let close = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-14);
    let query = Linear::field(&w, clip(0.2));
    let mean = data.mean(&loss, &query).unwrap().unwrap();
    assert!(close(&mean, &means[0]), "{mean:?} {means:?}");
    let displacement = [w[0] - v[0], w[1] - v[1]];
    let segment = Segment::new(&v, &w, &displacement).unwrap();
    let query = Linear::change(segment, clip(0.2), clip(0.15));
    let mean = data.mean(&loss, &query).unwrap().unwrap();
    assert!(close(&mean, &means[1]), "{mean:?} {means:?}");
    // The simulated oracle gives the same.
    let simulated = SimulatedOracle::weighted(&loss, &data, Adjacency::ReplaceOne, 1);
    let field = Linear::field(&w, clip(0.2));
    assert!(close(&simulated.exact(field), &means[0]));
    let change = Linear::change(segment, clip(0.2), clip(0.15));
    assert!(close(&simulated.exact(change), &means[1]));
    // Values have no gradient, and points must fit.
    let value = Value {
        point: &w,
        centre: 0.0,
        radius: clip(2.0),
    };
    let mean = data.mean(&loss, &value).unwrap().unwrap()[0];
    let by_hand: f64 = EXPANDED
        .iter()
        .map(|&i| {
            let score = ROWS[i][0] * w[0] + ROWS[i][1] * w[1];
            loss.value(score, f64::from(LABELS[i])) / 6.0
        })
        .sum();
    assert!((mean - by_hand).abs() < 1e-14);
    let query = Linear::field(&[0.0; 3], clip(1.0));
    let wrong = data.mean(&loss, &query);
    assert_eq!(wrong, Err(WeightedError::QueryShape { dim: 2 }));
}

/// Everything that a run can ask, in one order: each answer's noise, or the refusal.
fn tour(means: &mut dyn Oracle, spend: &Spend) -> Vec<String> {
    let mut log = Vec::new();
    let mut say = |what: Result<f64, AskError>| {
        log.push(match what {
            Ok(std) => format!("{std:.6e}"),
            // Pools and slices are numbered over the process: the variant is enough.
            Err(refused) => format!("{refused}"),
        });
    };
    let w = [0.3, -0.4];
    let origin = [0.0, 0.0];
    let field = Linear::field(&w, clip(0.5));
    let change = Linear::change(
        Segment::new(&origin, &w, &w).unwrap(),
        clip(0.5),
        clip(0.25),
    );
    let rate = SamplingRate::new(0.5).unwrap();
    say(means.mean(field, Which::All, z(2.0)).map(|m| m.noise_std));
    say(means
        .books()
        .reserve(spend)
        .map(|()| 0.0)
        .map_err(Into::into));
    say(means
        .books()
        .reserve(spend)
        .map(|()| 0.0)
        .map_err(Into::into));
    for over in [
        Which::All,
        Which::Poisson(rate),
        Which::FixedSize(3),
        Which::FixedSize(0),
        Which::FixedSize(7),
        Which::Next(2),
        Which::Next(0),
        Which::Next(9),
    ] {
        say(means.mean(field, over, z(2.0)).map(|m| m.noise_std));
        say(means.mean(change, over, z(2.0)).map(|m| m.noise_std));
        say(means.mean(field, over, z(3.0)).map(|m| m.noise_std));
        say(means
            .value(&w, 0.2, clip(0.5), over, z(2.0))
            .map(|m| m.noise_std));
        // A point of another problem, too.
        for point in [&w[..], &[0.3]] {
            let radius = clip(0.25);
            let hessian = means.hessian(HessianMatrix { point, radius }, over, z(2.0));
            say(hessian.map(|m| m.noise_std));
        }
    }
    say(Ok(means.books().records_left() as f64));
    match means.books().take_slice(1) {
        Ok(slice) => {
            say(Ok(slice.len() as f64));
            say(means
                .mean(field, Which::Slice(&slice), z(2.0))
                .map(|m| m.noise_std));
            say(means
                .mean(field, Which::Slice(&slice), z(2.0))
                .map(|m| m.noise_std));
            say(means
                .mean(field, Which::Slice(&slice), z(2.0))
                .map(|m| m.noise_std));
        }
        Err(refused) => say(Err(refused.into())),
    }
    for (participation, over) in [
        (Participation::Every, Which::All),
        (Participation::Every, Which::Next(1)),
        (Participation::Single, Which::Next(1)),
        (Participation::Single, Which::All),
    ] {
        let terms = PeriodTerms {
            kind: PrefixKind::Toeplitz,
            len: 2,
            participation,
            share: clip(0.5),
            noise_multiplier: z(2.0),
        };
        match means.open_period(&terms) {
            Ok(mut period) => {
                for _ in 0..3 {
                    say(means.step(&mut period, field, over).map(|m| m.noise_std));
                }
            }
            Err(refused) => say(Err(refused)),
        }
    }
    let counts = means.books().counts();
    log.push(format!("{counts:?}"));
    log.push(format!("{:?}", means.books().settle().unwrap()));
    log
}

/// Under each adjacency and several reservations, a simulation grants, refuses, charges and counts what a
/// real run does.
#[test]
fn the_books_are_those_of_a_protected_run() {
    let data = weighted();
    let loss = Glm::Welsch;
    let gaussian = Event::gaussian(z(2.0));
    let rate = SamplingRate::new(0.5).unwrap();
    let share = Event::ParallelComposed {
        events: vec![gaussian.clone().repeated(2)],
    };
    let fixed_size = Event::SampledWithoutReplacement {
        source_dataset_size: 6,
        sample_size: 3,
        event: Box::new(gaussian.clone()),
    };
    let everything = Event::composed(vec![
        gaussian.clone().repeated(3),
        gaussian.clone().poisson_sampled(rate),
        fixed_size,
        share.clone(),
    ]);
    let spends = [
        Spend::Fixed(everything),
        Spend::Fixed(Event::composed(vec![gaussian.clone().repeated(4), share])),
        Spend::Fixed(gaussian.clone().poisson_sampled(rate).repeated(2)),
        Spend::AtMost(gaussian.clone().repeated(2)),
        Spend::AtMost(Event::composed(vec![
            gaussian.clone(),
            Event::gaussian(z(3.0)).repeated(2),
        ])),
        Spend::AtMost(gaussian.poisson_sampled(rate)),
    ];
    let mut granted = 0;
    for adjacency in [
        Adjacency::ReplaceOne,
        Adjacency::AddRemove,
        Adjacency::ZeroOut,
    ] {
        for (spend, hessians) in spends
            .iter()
            .flat_map(|spend| [(spend, false), (spend, true)])
        {
            let private = expanded(adjacency);
            let curator = Curator::simulated(adjacency, 5);
            let mut real = PrivateMean::new(&private, loss, curator).unwrap();
            let mut simulated = SimulatedOracle::weighted(&loss, &data, adjacency, 5);
            if hessians {
                real = real.with_hessians();
                let population = WeightedLoss::new(&loss, &data).with_hessians();
                simulated = SimulatedOracle::over(population, adjacency, 5);
            }
            // Averages along rows are not simulated.
            let both = simulated.facts().offers | Offers::ROW_AVERAGES;
            assert_eq!(real.facts().offers, both);
            let (real, simulated) = (tour(&mut real, spend), tour(&mut simulated, spend));
            assert_eq!(real, simulated, "{adjacency} {spend:?}");
            granted += real.iter().filter(|line| line.contains('e')).count();
        }
    }
    assert!(granted > 100);
}

/// Sampled means with noise have mean and variance of the real ones.
#[test]
fn sampled_means_have_the_right_mean_and_variance() {
    let data = weighted();
    let loss = Glm::Welsch;
    let rate = SamplingRate::new(0.4).unwrap();
    let w = [0.3, -0.4];
    let field = Linear::field(&w, clip(1.0));
    let fixed = Event::SampledWithoutReplacement {
        source_dataset_size: 6,
        sample_size: 2,
        event: Box::new(Event::gaussian(z(0.5))),
    };
    let sampled = Event::gaussian(z(0.5)).poisson_sampled(rate);
    let count = 20_000;
    let mut means = SimulatedOracle::weighted(&loss, &data, Adjacency::ReplaceOne, 9);
    let all = Event::composed(vec![fixed.repeated(count), sampled.repeated(count)]);
    means.books().reserve(&Spend::Fixed(all)).unwrap();
    let exact = means.exact(field);
    let contribution = |i: usize| {
        let score = ROWS[i][0] * w[0] + ROWS[i][1] * w[1];
        loss.slope(score, f64::from(LABELS[i])) * ROWS[i][0]
    };
    let square: f64 = EXPANDED.iter().map(|&i| contribution(i).powi(2)).sum();
    let spread: f64 = EXPANDED
        .iter()
        .map(|&i| (contribution(i) - exact[0]).powi(2))
        .sum();
    // Poisson: sum x^2 q(1-q)/(qn)^2. Without replacement: S^2/m (1 - m/n), S^2 = spread/(n-1).
    let by_sampling = [
        square * 0.6 / (0.4 * 36.0),
        spread / 5.0 / 2.0 * (1.0 - 2.0 / 6.0),
    ];
    let overs = [Which::Poisson(rate), Which::FixedSize(2)];
    for (over, by_sampling) in overs.into_iter().zip(by_sampling) {
        let (mut sum, mut squares, mut noise) = (0.0, 0.0, 0.0);
        for _ in 0..count {
            let mean = means.mean(field, over, z(0.5)).unwrap();
            let off = mean.mean[0] - exact[0];
            sum += off;
            squares += off * off;
            noise = mean.noise_std * mean.noise_std;
        }
        let n = count as f64;
        let variance = by_sampling + noise;
        assert!((sum / n).abs() < 6.0 * (variance / n).sqrt());
        // The fourth moment of a sum with a normal part is at most 3 or so times the squared variance.
        assert!(
            (squares / n / variance - 1.0).abs() < 6.0 * (2.5 / n).sqrt(),
            "{over:?}"
        );
    }
}

/// Prefix sums of means: the errors of each step have the planned variance, and successive ones the
/// covariance of the tree (prefixes 2 and 3 share the node of the first two steps).
#[test]
fn prefix_sums_have_the_noise_of_their_factorisation() {
    let problem = Radial::new(Power::new(3.0).unwrap(), 400, 0.5, 1.0).unwrap();
    let point = problem.at_radius(0.7);
    let field = Linear::field(&point, clip(1.0));
    for kind in [PrefixKind::Tree, PrefixKind::Toeplitz, PrefixKind::Honaker] {
        let planned = PrefixNoise::new(kind, 5, Participation::Every).unwrap();
        let records = 1000;
        let mut means = SimulatedOracle::new(&problem, records, Adjacency::AddRemove, 3);
        let z = z(1.5);
        let periods = 20;
        let event = planned.event(z).unwrap().repeated(periods);
        means.books().reserve(&Spend::Fixed(event)).unwrap();
        let share = clip(1.0 / records as f64);
        let terms = PeriodTerms {
            kind,
            len: 5,
            participation: Participation::Every,
            share,
            noise_multiplier: z,
        };
        let mut gradient = vec![0.0; 400];
        problem.gradient(&point, &mut gradient);
        let mut squares = [0.0; 5];
        let mut shared = 0.0;
        for _ in 0..periods {
            let mut period = means.open_period(&terms).unwrap();
            let mut before = vec![0.0; 400];
            for t in 1..=5_u64 {
                let mean = means.step(&mut period, field, Which::All).unwrap();
                let std = planned.variance(t).unwrap().sqrt() * 1.5 * share.get();
                assert!((mean.noise_std / std - 1.0).abs() < 1e-9);
                let noise: Vec<f64> = mean
                    .mean
                    .iter()
                    .zip(&gradient)
                    .map(|(m, g)| (m - t as f64 * g) / std)
                    .collect();
                squares[t as usize - 1] += norm(&noise).powi(2);
                if t == 3 {
                    shared += dpopt_linalg::dot(&noise, &before);
                }
                before = noise;
            }
            assert!(means.step(&mut period, field, Which::All).is_err());
        }
        let n = 400.0 * periods as f64;
        for square in squares {
            assert!(
                (square / n - 1.0).abs() < 6.0 * (2.0 / n).sqrt(),
                "{kind} {squares:?}"
            );
        }
        if kind == PrefixKind::Tree {
            // Variances 1 and 2, one node in common.
            let correlation = shared / n - 0.5f64.sqrt();
            assert!(correlation.abs() < 6.0 * (1.5 / n).sqrt(), "{correlation}");
        }
        assert!(means.open_period(&terms).is_err());
    }
}

/// A thousand million records that differ cost what the distinct ones do, and their mean is the problem.
#[test]
fn a_thousand_million_tilted_records() {
    let problem = Radial::new(Power::new(3.0).unwrap(), 4, 0.5, 1.0).unwrap();
    let tilts = [
        Tilt {
            share: 0.4,
            direction: vec![0.1, 0.0, -0.2, 0.0],
            wave: vec![0.6, 0.8, 0.0, 0.0],
            phase: 0.3,
        },
        Tilt::linear(vec![0.0, 0.25, 0.0, 0.0]),
    ];
    let data = TiltedProblem::<Radial<Power>>::opposites(&tilts, 250_000_000).unwrap();
    assert_eq!((data.total(), data.distinct()), (1_000_000_000, 4));
    let loss = TiltedProblem::new(problem.clone(), 0.4, 0.25, 0.5).unwrap();
    let points = [
        vec![0.0; 4],
        vec![0.3, 0.1, -0.2, 0.4],
        vec![0.9, -0.2, 0.0, 0.1],
    ];
    let points: Vec<&[f64]> = points.iter().map(Vec::as_slice).collect();
    let check = dpopt_oracle::check_constants(&loss, data.records(), &points).unwrap();
    assert!(check.passed(), "{check:?}");
    let slopes = dpopt_oracle::check_gradient(&loss, data.records(), points[1]).unwrap();
    assert!(slopes.worst < 1e-8, "{slopes:?}");
    let mut gradient = vec![0.0; 4];
    for point in points {
        let query = Linear::field(point, clip(9.0));
        problem.gradient(point, &mut gradient);
        let mean = data.mean(&loss, &query).unwrap().unwrap();
        assert!(dpopt_linalg::distance(&mean, &gradient) < 1e-14);
        // Hessians too; and of one record, against the difference quotient of its gradient.
        let direction = [0.3, -0.7, 0.2, 0.6];
        let query = HessianVector {
            point,
            direction: &direction,
            radius: Some(clip(9.0)),
        };
        let mean = data.mean(&loss, &query).unwrap().unwrap();
        problem.hessian_vector(point, &direction, &mut gradient);
        assert!(dpopt_linalg::distance(&mean, &gradient) < 1e-14);
        let mut product = vec![0.0; 4];
        loss.hessian_vector(&data.records()[0], point, &direction, &mut product);
        let at = |t: f64| {
            let moved: Vec<f64> = point
                .iter()
                .zip(&direction)
                .map(|(w, v)| w + t * v)
                .collect();
            let mut g = vec![0.0; 4];
            loss.gradient(&data.records()[0], &moved, &mut g);
            g
        };
        let (up, down) = (at(1e-5), at(-1e-5));
        for j in 0..4 {
            assert!((product[j] - (up[j] - down[j]) / 2e-5).abs() < 1e-8);
        }
    }
    let mut means = SimulatedOracle::weighted(&loss, &data, Adjacency::ReplaceOne, 4);
    let rate = SamplingRate::new(1e-3).unwrap();
    let event = Event::gaussian(z(1.0)).poisson_sampled(rate).repeated(50);
    means.books().reserve(&Spend::Fixed(event)).unwrap();
    let field = Linear::field(&[0.2; 4], clip(3.0));
    problem.gradient(&[0.2; 4], &mut gradient);
    for _ in 0..50 {
        let mean = means.mean(field, Which::Poisson(rate), z(1.0)).unwrap();
        // Sampling: at most L0/sqrt(q n) = 2e-3 in all; noise: 6e-6 in each coordinate.
        assert!(dpopt_linalg::distance(&mean.mean, &gradient) < 6.0 * 2.2e-3);
    }
    assert_eq!(means.counts().passes, 50.0 * 1e-3);
}

#[test]
fn what_can_not_be_weighted_is_an_error() {
    assert!(matches!(
        WeightedRecords::new(vec![1.0], vec![1, 2]),
        Err(WeightedError::Multiplicities { .. })
    ));
    assert!(matches!(
        WeightedRecords::new(vec![1.0], vec![0]),
        Err(WeightedError::Total { total: 0 })
    ));
    assert!(matches!(
        WeightedRecords::new(vec![1.0, 2.0], vec![1 << 53, 1]),
        Err(WeightedError::Total { .. })
    ));
}
