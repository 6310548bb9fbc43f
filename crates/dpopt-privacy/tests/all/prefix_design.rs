//! Public numbers of prefix-sum noise against closed forms, dense linear algebra and published
//! values; broken mechanisms must be caught by the same checks.

use dpopt_privacy::{
    Accountant, Adjacency, Delta, ErrorMeasure, Event, NoiseMultiplier, Participation, PrefixError,
    PrefixKind, PrefixNoise, StepCounts,
};

use Participation::{Every, Repeated, Single};
use PrefixKind::{Banded, Honaker, Independent, Toeplitz, Tree};

use crate::factors::{self, covariance, squared_mu, unit_maps};

fn noise(kind: PrefixKind, len: u64, participation: Participation) -> PrefixNoise {
    PrefixNoise::new(kind, len, participation).unwrap()
}

fn worst(kind: PrefixKind, len: u64) -> f64 {
    noise(kind, len, Single).worst_variance()
}

#[test]
fn the_tree_wins_over_independent_noise_where_it_is_known_to() {
    for len in 1..=200 {
        let loses = worst(Tree, len) >= worst(Independent, len) * (1.0 - 1e-12);
        assert_eq!(loses, len <= 12 || (15..=20).contains(&len), "{len}");
        assert!(worst(Honaker, len) <= worst(Tree, len) * (1.0 + 1e-12));
        let toeplitz = worst(Toeplitz, len);
        let least = worst(Honaker, len).min(worst(Independent, len));
        assert_eq!(toeplitz < least * (1.0 - 1e-9), len >= 2, "{len}");
    }
}

/// Published worst variances, and the factor between them.
#[test]
fn the_factorisation_beats_the_tree_by_what_theory_says() {
    for (len, tree, toeplitz) in [
        (8, 12.0, 2.95),
        (64, 42.0, 5.71),
        (1024, 110.0, 10.7),
        (16384, 210.0, 17.3),
    ] {
        assert!((worst(Tree, len) - tree).abs() < 1e-9 * tree);
        assert!((worst(Toeplitz, len) - toeplitz).abs() < 0.05);
        let ratio = worst(Tree, len) / worst(Toeplitz, len);
        // (L(L − 1)) / (ln(len)/π + 1.07)², to the accuracy of the constant.
        let theory = tree / ((len as f64).ln() / std::f64::consts::PI + 1.07).powi(2);
        assert!(
            (ratio / theory - 1.0).abs() < 0.02,
            "{len}: {ratio} {theory}"
        );
    }
}

#[test]
fn single_participation_variances_are_closed_forms() {
    let node = |h: u32| 1.0 / (2.0 - 0.5f64.powi(h as i32));
    for len in [1_u64, 2, 7, 64, 100] {
        let levels = f64::from(len.ilog2() + 1);
        let mut central = 1.0;
        let (mut toeplitz, mut all) = (Vec::new(), 0.0);
        for k in 0..len {
            if k > 0 {
                central *= (2 * k - 1) as f64 / (2 * k) as f64;
            }
            all += central * central;
            toeplitz.push(all);
        }
        for t in 1..=len {
            let bits = (0..64).filter(|h| t >> h & 1 == 1);
            for (kind, expected) in [
                (Independent, t as f64),
                (Tree, levels * f64::from(t.count_ones())),
                (Honaker, levels * bits.clone().map(node).sum::<f64>()),
                (Toeplitz, all * toeplitz[t as usize - 1]),
                (Banded { band: len }, all * toeplitz[t as usize - 1]),
                (Banded { band: 1 }, t as f64),
            ] {
                let got = noise(kind, len, Single).variance(t).unwrap();
                assert!((got / expected - 1.0).abs() < 1e-11, "{kind} {len} {t}");
            }
        }
        assert_eq!(noise(Tree, len, Single).variance(0), None);
        assert_eq!(noise(Tree, len, Single).variance(len + 1), None);
    }
}

/// The variance is that of B, and mu is that of the covariance of the released sequence:
/// max over records of (A x)ᵀ Σ⁻¹ (A x). At most 1 for a noise multiplier of 1, and equal to it
/// where the sensitivity is said to be attained.
#[test]
fn no_record_displaces_more_than_was_claimed() {
    for len in 1..=9_usize {
        for participation in [
            Single,
            Every,
            Repeated { most: 2, apart: 3 },
            Repeated { most: 3, apart: 2 },
        ] {
            for kind in [
                Independent,
                Tree,
                Honaker,
                Toeplitz,
                Banded { band: 2 },
                Banded { band: 4 },
                factors::tuned(),
            ] {
                let noise = noise(kind, len as u64, participation);
                let (b, c) = unit_maps(kind, len);
                let square = noise.sensitivity().powi(2);
                let scaled: Vec<Vec<f64>> = covariance(&b)
                    .into_iter()
                    .map(|row| row.into_iter().map(|x| x * square).collect())
                    .collect();
                for t in 0..len {
                    let variance = noise.variance(t as u64 + 1).unwrap();
                    // Row t of B less the row before it.
                    let step: f64 = (0..b[t].len())
                        .map(|j| b[t][j] - if t == 0 { 0.0 } else { b[t - 1][j] })
                        .map(|x| x * x * square)
                        .sum();
                    let claimed = noise.step_variance(t as u64 + 1).unwrap();
                    let bound_only = kind == Honaker && claimed >= step;
                    assert!(
                        bound_only || (claimed / step - 1.0).abs() < 1e-12,
                        "{kind} {len} {t}: {claimed} {step}"
                    );
                    assert!(
                        (variance / scaled[t][t] - 1.0).abs() < 1e-12,
                        "{kind} {len} {t}"
                    );
                }
                let mut largest: f64 = 0.0;
                for record in factors::records(len, participation) {
                    let mu = squared_mu(&scaled, &record).unwrap();
                    assert!(
                        mu <= 1.0 + 1e-9,
                        "{kind} {len} {participation:?} {record:?}: {mu}"
                    );
                    largest = largest.max(mu);
                    // Whoever sees C x + w sees at least as much.
                    let shift: f64 = c
                        .iter()
                        .map(|row| row.iter().zip(&record).map(|(c, x)| c * x).sum::<f64>())
                        .map(|x| x * x)
                        .sum();
                    assert!(shift <= square * (1.0 + 1e-12), "{kind} {len} {record:?}");
                    assert!(mu <= shift / square * (1.0 + 1e-9));
                }
                let square_c = !matches!(kind, Tree | Honaker);
                if square_c || kind == Tree && participation == Single {
                    assert!(
                        largest >= 1.0 - 1e-9,
                        "{kind} {len} {participation:?}: {largest}"
                    );
                }
            }
        }
    }
}

/// A = B C for every kind, trees included.
#[test]
fn factors_multiply_to_prefix_sums() {
    for len in [1_usize, 2, 3, 8, 13, 16] {
        for kind in [
            Independent,
            Tree,
            Honaker,
            Toeplitz,
            Banded { band: 3 },
            factors::tuned(),
        ] {
            let (b, c) = unit_maps(kind, len);
            for t in 0..len {
                for j in 0..len {
                    let product: f64 = b[t].iter().zip(&c).map(|(b, c)| b * c[j]).sum();
                    let expected = f64::from(u8::from(j <= t));
                    assert!((product - expected).abs() < 1e-13, "{kind} {len} {t} {j}");
                }
            }
        }
    }
}

/// The checks above find each of these.
#[test]
fn broken_mechanisms_are_caught() {
    let one = |at: usize, len: usize| {
        let mut record = vec![0.0; len];
        record[at] = 1.0;
        record
    };
    let len = 8;
    let (b, _) = unit_maps(Tree, len);
    let scaled = |b: &[Vec<f64>], square: f64| -> Vec<Vec<f64>> {
        covariance(b)
            .into_iter()
            .map(|row| row.into_iter().map(|x| x * square).collect())
            .collect()
    };
    let levels = 4.0;

    // The printed cover ends one step short of a power of two: the last leaf has no noise.
    let mut printed = b.clone();
    printed[len - 1] = printed[len - 2].clone();
    assert_eq!(
        squared_mu(&scaled(&printed, levels), &one(len - 1, len)),
        None
    );
    // The printed index t mod len is 0 at the end: an empty sum.
    let mut modulo = b.clone();
    modulo[len - 1].iter_mut().for_each(|x| *x = 0.0);
    assert_eq!(
        squared_mu(&scaled(&modulo, levels), &one(len - 1, len)),
        None
    );
    // Two periods with one noise: their difference has none. (Sums start anew.)
    let both: Vec<Vec<f64>> = b.iter().chain(&b).cloned().collect();
    assert_eq!(
        factors::solve(&scaled(&both, levels), &one(2, 2 * len)),
        None
    );
    // One level, or one coefficient of the first column, forgotten in the sensitivity.
    let mu = squared_mu(&scaled(&b, levels - 1.0), &one(0, len)).unwrap();
    assert!(mu > 1.0 + 0.3);
    let (b, c) = unit_maps(Toeplitz, len);
    let forgotten: f64 = c.iter().skip(1).map(|row| row[0] * row[0]).sum();
    assert!(squared_mu(&scaled(&b, forgotten), &one(0, len)).unwrap() > 1.5);
    // The column of the last participation forgotten among several.
    let some = noise(Toeplitz, 8, Repeated { most: 2, apart: 3 })
        .sensitivity()
        .powi(2);
    let mut record = one(0, len);
    record[3] = 1.0;
    record[6] = 1.0;
    assert!(squared_mu(&scaled(&b, some), &record).unwrap() > 1.3);
}

#[test]
fn the_chooser_takes_the_least_of_all_kinds() {
    let kinds = [Independent, Tree, Honaker, Toeplitz];
    let bands = [1, 2, 3, 5, 8, 9, 16, 20, 30].map(|band| Banded { band });
    for len in [1_u64, 2, 3, 12, 13, 20, 33, 64] {
        for participation in [
            Single,
            Every,
            Repeated { most: 4, apart: 5 },
            Repeated { most: 2, apart: 16 },
        ] {
            for (measure, of) in [
                (
                    ErrorMeasure::Worst,
                    PrefixNoise::worst_variance as fn(&PrefixNoise) -> f64,
                ),
                (ErrorMeasure::Mean, PrefixNoise::mean_variance),
            ] {
                let best = PrefixNoise::best(len, participation, measure).unwrap();
                for kind in kinds.iter().chain(&bands) {
                    let other = noise(*kind, len, participation);
                    // Bands off the list may be better by a little.
                    let slack = if matches!(kind, Banded { .. }) {
                        0.99
                    } else {
                        1.0 - 1e-8
                    };
                    assert!(
                        of(&best) * slack <= of(&other),
                        "{len} {participation:?} {kind} {best:?}"
                    );
                }
                if participation == Single && measure == ErrorMeasure::Worst {
                    assert_eq!(best.kind(), if len == 1 { Independent } else { Toeplitz });
                }
                if participation == Every && measure == ErrorMeasure::Worst {
                    // No mechanism does better: the last sum moves by len.
                    assert_eq!(best.kind(), Independent);
                    assert_eq!(best.worst_variance(), (len * len) as f64);
                }
            }
        }
    }
    // A band is worth it where records come again.
    let again = PrefixNoise::best(
        1024,
        Repeated {
            most: 16,
            apart: 64,
        },
        ErrorMeasure::Worst,
    )
    .unwrap();
    assert!(
        matches!(again.kind(), Banded { band } if (32..=512).contains(&band)),
        "{:?}",
        again.kind()
    );
    // 479.02 at band 192 and 632.36 for all, from an independent program.
    assert!((again.worst_variance() - 479.0173).abs() < 1e-3);
    let all = noise(Toeplitz, 1024, again.participation()).worst_variance();
    assert!((all - 632.3611).abs() < 1e-3);
}

/// What a period costs is 1/z for every kind; the tree says it in its own event.
#[test]
fn the_event_is_worth_one_gaussian() {
    let z = NoiseMultiplier::new(2.5).unwrap();
    for len in [1, 2, 3, 8, 1000, 1023, 1024] {
        for kind in [
            Independent,
            Tree,
            Honaker,
            Toeplitz,
            Banded { band: 4 },
            factors::tuned(),
        ] {
            let event = noise(kind, len, Single).event(z).unwrap();
            let epsilon = |event: &Event| {
                let delta = Delta::new(1e-6).unwrap();
                Accountant::Gdp
                    .epsilon(event, delta, Adjacency::ReplaceOne)
                    .unwrap()
            };
            let ratio = epsilon(&event) / epsilon(&Event::gaussian(z));
            assert!((ratio - 1.0).abs() < 1e-12, "{kind} {len}: {ratio}");
            if let Event::SingleEpochTreeAggregation {
                noise_multiplier,
                step_counts,
            } = &event
            {
                assert!(matches!(kind, Tree | Honaker));
                assert_eq!(*step_counts, StepCounts::One(len));
                assert_eq!(
                    *noise_multiplier,
                    noise(kind, len, Single).unit_noise(z).unwrap()
                );
            }
            assert_eq!(
                noise(kind, len, Every).event(z).unwrap(),
                Event::gaussian(z)
            );
        }
    }
}

/// Epsilon at delta 1e-6 of trees with so many steps and so much noise at each node, from an
/// independent computation: what the tree kinds report costs just that.
#[test]
fn trees_cost_what_the_reference_says() {
    for (len, node, levels, epsilon) in [
        (1, 20.0, 1.0, 0.189_213_172_726_449_6),
        (4, 1.0, 3.0, 9.254_265_908_225_971),
        (8, 5.5, 4.0, 1.591_555_762_712_25),
        (1024, 5.5, 11.0, 2.771_323_219_846_694),
        (100_000, 20.0, 17.0, 0.861_756_310_584_740_7),
    ] {
        let z = NoiseMultiplier::new(node / f64::sqrt(levels)).unwrap();
        for kind in [Tree, Honaker] {
            let event = noise(kind, len, Single).event(z).unwrap();
            let delta = Delta::new(1e-6).unwrap();
            let got = Accountant::Gdp
                .epsilon(&event, delta, Adjacency::ZeroOut)
                .unwrap();
            assert!((got / epsilon - 1.0).abs() < 1e-10, "{len}: {got}");
        }
    }
}

#[test]
fn impossible_periods_are_errors() {
    let fails = |kind, len, participation| PrefixNoise::new(kind, len, participation).unwrap_err();
    assert_eq!(fails(Tree, 0, Single), PrefixError::NoSteps);
    let limit = PrefixNoise::MAX_LEN;
    assert_eq!(
        fails(Tree, limit + 1, Single),
        PrefixError::TooLong {
            len: limit + 1,
            limit
        }
    );
    assert_eq!(fails(Banded { band: 0 }, 3, Single), PrefixError::NoBand);
    for (most, apart) in [(0, 1), (1, 0)] {
        assert_eq!(
            fails(Toeplitz, 3, Repeated { most, apart }),
            PrefixError::NoParticipation { most, apart }
        );
    }
    let huge = NoiseMultiplier::new(f64::MAX).unwrap();
    assert!(matches!(
        noise(Tree, 9, Single).event(huge),
        Err(PrefixError::NoiseOverflow { .. })
    ));
}
