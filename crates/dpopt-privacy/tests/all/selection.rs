//! Private selection through the curator: what it refuses, what it charges, and its laws.

use dpopt_privacy::selection::{
    BaseMeasure, QuantileBins, QuantileSum, ScoreBound, ScoreSum, SelectionError,
    SensitiveQuantile, SensitiveScores, Target, Tuning,
};
use dpopt_privacy::{
    Adjacency, Bound, ClipNorm, Curator, Event, LatticeSum, NoiseMultiplier, Refused, Spend, Which,
};

use crate::common::{epsilon as eps, release, simulated};

/// A frequency may be off by six standard deviations: a correct program fails one such check for
/// 1 in 5e8 seeds, and there are fewer than 50. Seeds are fixed.
fn near(count: u64, draws: u64, probability: f64) {
    let expected = probability * draws as f64;
    let deviation = (expected * (1.0 - probability)).sqrt();
    let off = (count as f64 - expected) / deviation;
    assert!(
        off.abs() < 6.0,
        "{count} of {draws}, expected {expected} ({off} deviations)"
    );
}

/// Votes of one record each for candidate i.
fn votes(counts: &[u64], adjacency: Adjacency) -> SensitiveScores {
    let mut sum = ScoreSum::new(ScoreBound::whole(counts.len(), 0, 1).unwrap());
    for (candidate, &count) in counts.iter().enumerate() {
        for _ in 0..count {
            sum.add_vote(candidate, 1.0);
        }
    }
    sum.finish(adjacency)
}

fn values(edges: &[f64], values: &[f64], adjacency: Adjacency) -> SensitiveQuantile {
    let mut sum = QuantileSum::new(QuantileBins::new(edges).unwrap());
    values.iter().for_each(|&value| sum.add(value));
    sum.finish(adjacency)
}

fn exponential(epsilon: f64) -> Event {
    Event::ExponentialMechanism {
        epsilon: eps(epsilon),
    }
}

#[test]
fn monotone_scores_lose_the_factor_two_under_add_remove_only() {
    let draws = 20_000;
    for (adjacency, factor) in [
        (Adjacency::AddRemove, 1.0),
        (Adjacency::ZeroOut, 1.0),
        (Adjacency::ReplaceOne, 2.0),
    ] {
        let scores = votes(&[3, 5], adjacency);
        assert_eq!(scores.bound().is_monotone(adjacency), factor == 1.0);
        let odds = (2.0_f64 * 0.7 / factor).exp();
        let second = odds / (1.0 + odds);
        let mut curator = simulated(adjacency, 1, exponential(0.7).repeated(draws));
        let count = (0..draws)
            .filter(|_| curator.exponential(&scores, eps(0.7)).unwrap() == 1)
            .count() as u64;
        near(count, draws, second);
        assert!(curator.exponential(&scores, eps(0.7)).is_err());
    }
}

/// mechanism_pure_costs of the reference values: Gumbel scales for scores of sensitivity 1.
#[test]
fn scales_are_the_published_ones() {
    for (epsilon, general, monotone) in [(0.5, 4.0, 2.0), (0.01, 200.0, 100.0), (4.0, 0.5, 0.25)] {
        let votes = ScoreBound::whole(2, 0, 1).unwrap();
        assert_eq!(votes.sensitivity(Adjacency::ReplaceOne), 1.0);
        assert_eq!(votes.spread(Adjacency::ReplaceOne) / epsilon, general);
        assert_eq!(votes.spread(Adjacency::AddRemove) / epsilon, monotone);
        let either = ScoreBound::new(2, -1.0, 1.0).unwrap();
        assert_eq!(either.sensitivity(Adjacency::AddRemove), 1.0);
        assert_eq!(either.spread(Adjacency::AddRemove) / epsilon, general);
    }
}

#[test]
fn real_scores_are_clipped_and_selected() {
    let draws = 20_000;
    let bound = ScoreBound::new(3, -1.0, 1.0).unwrap();
    assert_eq!(bound.sensitivity(Adjacency::AddRemove), 1.0);
    assert_eq!(bound.spread(Adjacency::ReplaceOne), 4.0);
    let mut sum = ScoreSum::new(bound);
    // Clipped to 1, -1 and -0.5; the others count as zero.
    sum.add(&[7.0, -3.0, -0.5]);
    sum.add(&[0.5, f64::NAN, 0.0]);
    sum.add(&[0.5, f64::INFINITY, 0.0]);
    sum.add(&[0.5]);
    let scores = sum.finish(Adjacency::AddRemove);
    let weights = [1.0_f64, -1.0, -0.5].map(f64::exp);
    let total: f64 = weights.iter().sum();
    let mut curator = simulated(Adjacency::AddRemove, 3, exponential(2.0).repeated(draws));
    let mut counts = [0; 3];
    for _ in 0..draws {
        counts[curator.exponential(&scores, eps(2.0)).unwrap()] += 1;
    }
    for (count, weight) in counts.into_iter().zip(weights) {
        near(count, draws, weight / total);
    }
}

#[test]
fn a_base_measure_is_checked_and_used() {
    let scores = votes(&[1, 1, 1], Adjacency::AddRemove);
    let mut curator = simulated(Adjacency::AddRemove, 4, exponential(1.0).repeated(3000));
    assert!(matches!(
        curator.exponential_with_base(&scores, &[1, 2], eps(1.0)),
        Err(Refused::Selection(SelectionError::BaseMeasureLength {
            got: 2,
            candidates: 3
        }))
    ));
    assert!(matches!(
        curator.exponential_with_base(&scores, &[0; 3], eps(1.0)),
        Err(Refused::Selection(SelectionError::BaseMeasureZero))
    ));
    assert_eq!(curator.spent(), Event::NoOp);
    let count = (0..3000)
        .filter(|_| {
            curator
                .exponential_with_base(&scores, &[3, 1, 0], eps(1.0))
                .unwrap()
                == 0
        })
        .count() as u64;
    near(count, 3000, 0.75);
}

#[test]
fn what_is_refused_is_not_charged() {
    let scores = votes(&[1, 2], Adjacency::AddRemove);
    let other = votes(&[1, 2], Adjacency::ReplaceOne);
    let quantiles = values(&[0.0, 1.0, 2.0], &[0.5], Adjacency::ReplaceOne);
    let mut curator = Curator::simulated(Adjacency::AddRemove, 5);
    assert!(matches!(
        curator.exponential(&scores, eps(1.0)),
        Err(Refused::NotReserved { .. })
    ));
    let epsilon = eps(1.0);
    let tiny = eps(1e-7);
    let all = [exponential(1.0), exponential(1e-7)];
    curator
        .reserve(&Spend::Fixed(Event::composed(all.to_vec())))
        .unwrap();
    // Another epsilon is another event.
    assert!(matches!(
        curator.exponential(&scores, eps(0.5)),
        Err(Refused::NotReserved { .. })
    ));
    let mismatch = |result: Result<usize, Refused>| {
        assert!(matches!(result, Err(Refused::AdjacencyMismatch { .. })));
    };
    mismatch(curator.exponential(&other, epsilon));
    mismatch(
        curator
            .quantile(&quantiles, Target::median(), BaseMeasure::Bins, epsilon)
            .map(|bin| bin.index),
    );
    assert!(matches!(
        curator.exponential(&scores, tiny),
        Err(Refused::Selection(SelectionError::EpsilonOutOfRange { .. }))
    ));
    assert_eq!(curator.spent(), Event::NoOp);
    // Everything that was reserved can still be had, once.
    curator.exponential(&scores, epsilon).unwrap();
    assert!(curator.exponential(&scores, epsilon).is_err());
    assert_eq!(curator.spent().release_count(), 1);
}

#[test]
fn quantiles_have_their_law() {
    let draws = 10_000;
    let edges = [0.0, 1.0, 3.0, 3.5, 10.0];
    let data = [0.5, 0.7, 2.0, 3.2, f64::NAN, 99.0, -7.0];
    // Bins hold 3, 1, 1 and 1 records: the median rank 3 lies at the end of the first and the
    // beginning of the second.
    for (adjacency, spread) in [(Adjacency::ReplaceOne, 2.0), (Adjacency::AddRemove, 1.0)] {
        let secret = values(&edges, &data, adjacency);
        let epsilon = 1.5_f64;
        let weights = [
            1.0,
            2.0,
            0.5 * (-epsilon / spread).exp(),
            6.5 * (-epsilon * 2.0 / spread).exp(),
        ];
        let total: f64 = weights.iter().sum();
        let mut curator = simulated(adjacency, 8, exponential(epsilon).repeated(draws));
        let mut counts = [0; 4];
        for _ in 0..draws {
            let bin = curator
                .quantile(&secret, Target::median(), BaseMeasure::Width, eps(epsilon))
                .unwrap();
            assert_eq!(
                (bin.low, bin.high),
                (edges[bin.index], edges[bin.index + 1])
            );
            counts[bin.index] += 1;
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            near(count, draws, weight / total);
        }
    }
}

/// Rank error of the median of 1000 records below the bound of the documentation, which fails
/// with probability 1e-6 at most.
#[test]
fn quantile_errors_stay_below_their_bound() {
    let bins = 64;
    let edges: Vec<f64> = (0..=bins).map(f64::from).collect();
    let data: Vec<f64> = (0..1000).map(|i| f64::from(i % bins) + 0.5).collect();
    let secret = values(&edges, &data, Adjacency::ReplaceOne);
    let epsilon = 1.0;
    let error = 2.0 / epsilon * (f64::from(bins) / 1e-6).ln();
    let mut curator = simulated(Adjacency::ReplaceOne, 9, exponential(epsilon).repeated(200));
    for _ in 0..200 {
        let bin = curator
            .quantile(&secret, Target::median(), BaseMeasure::Bins, eps(epsilon))
            .unwrap();
        // The middle of bin i has about 15.6 (i + 1/2) records below it.
        assert!((15.625 * (bin.index as f64 + 0.5) - 500.0).abs() < error + 32.0);
    }
}

#[test]
fn the_best_of_several_runs_has_its_law_and_is_paid_once() {
    // One run prefers candidate 1 with probability p; the best is 0 only where all runs say 0.
    let scores = votes(&[0, 1], Adjacency::AddRemove);
    let p = 1.0 / (1.0 + (-1.0_f64).exp());
    let run = exponential(1.0);
    let draws = 10_000;
    for (shape, all_zero) in [
        // Generating functions at 1 − p: geometric with gamma = 1/3, and Poisson.
        (1.0, (1.0 - p) / 3.0 / (1.0 - 2.0 / 3.0 * (1.0 - p))),
        (f64::INFINITY, (-3.0 * p).exp() - (-3.0_f64).exp()),
    ] {
        let tuning = Tuning::new(run.clone(), 3.0, shape).unwrap();
        let event = tuning.event();
        let mut curator = simulated(Adjacency::AddRemove, 10, event.clone().repeated(draws));
        let (mut zero, mut nothing) = (0, 0);
        for _ in 0..draws {
            let best = curator
                .repeat_and_select(&tuning, |inner| {
                    let choice = inner.exponential(&scores, eps(1.0)).unwrap();
                    assert!(inner.exponential(&scores, eps(1.0)).is_err());
                    (choice, choice as f64)
                })
                .unwrap();
            match best {
                Some(best) => zero += u64::from(best.value == 0),
                None => nothing += 1,
            }
        }
        near(zero, draws, all_zero);
        if shape == f64::INFINITY {
            near(nothing, draws, (-3.0_f64).exp());
        } else {
            assert_eq!(nothing, 0);
        }
        assert_eq!(curator.spent().leaves(), vec![(event, draws)]);
        assert!(matches!(
            curator.repeat_and_select(&tuning, |_| ((), 0.0)),
            Err(Refused::NotReserved { .. })
        ));
    }
}

#[test]
fn an_inner_run_can_not_widen_its_reservation() {
    let run = Event::gaussian(NoiseMultiplier::new(2.0).unwrap());
    let tuning = Tuning::new(run.clone(), 2.0, 1.0).unwrap();
    let mut curator = simulated(Adjacency::AddRemove, 11, tuning.event());
    let best = curator
        .repeat_and_select(&tuning, |inner| {
            assert_eq!(inner.adjacency(), Adjacency::AddRemove);
            assert_eq!(inner.reserved(), run);
            let more = Spend::Fixed(run.clone().repeated(5));
            assert!(inner.reserve(&more).is_err());
            inner.settle().unwrap();
            assert!(matches!(inner.reserve(&more), Err(Refused::InnerRun)));
            ("done", f64::NAN)
        })
        .unwrap()
        .unwrap();
    assert_eq!((best.value, best.score), ("done", f64::NEG_INFINITY));
}

#[test]
fn runs_that_nothing_can_release_are_refused_before_they_start() {
    let run = Event::EpsilonDelta {
        epsilon: 1.0,
        delta: 0.0,
    };
    let tuning = Tuning::new(run, 2.0, 1.0).unwrap();
    let mut curator = simulated(Adjacency::AddRemove, 12, tuning.event());
    let calls = std::cell::Cell::new(0);
    let result = curator.repeat_and_select(&tuning, |_| (calls.set(calls.get() + 1), 0.0));
    assert!(matches!(result, Err(Refused::UnsupportedSpend { .. })));
    assert_eq!(calls.get(), 0);
    assert_eq!(curator.spent(), Event::NoOp);
}

/// The noise of different inner runs is different: equal releases would mean equal keys.
#[test]
fn inner_runs_have_their_own_noise() {
    let z = NoiseMultiplier::new(1.0).unwrap();
    let tuning = Tuning::new(Event::gaussian(z), 50.0, 1.0).unwrap();
    let mut curator = simulated(Adjacency::AddRemove, 13, tuning.event());
    let bound = Bound::new(ClipNorm::new(1.0).unwrap(), 1).unwrap();
    let seen = std::cell::RefCell::new(Vec::new());
    curator
        .repeat_and_select(&tuning, |inner| {
            let sum = LatticeSum::new(bound);
            let released = release(inner, Which::All, sum, z).unwrap()[0];
            seen.borrow_mut().push(released.to_bits());
            ((), released)
        })
        .unwrap();
    let mut seen = seen.into_inner();
    let runs = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert!(runs > 1 && seen.len() == runs);
}
