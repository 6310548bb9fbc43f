//! Curators of parties: whose noise is in a release, what leaves a party, and the law of several shares together.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::adjacency::Adjacency;
use crate::exchange::{Exchange, ExchangeError, ThreadRanks};
use crate::lattice::{Bound, LatticeSum, SensitivityClaim};
use crate::prefix::{Participation, PrefixKind};
use crate::sample::{Body, Positions};
use crate::units::{ClipNorm, Delta, Epsilon, NoiseMultiplier, SamplingRate};
use crate::which::{Allocation, Which};

const ADJACENCY: Adjacency = Adjacency::ReplaceOne;
const DIM: usize = 3;
/// Of each party.
const RECORDS: u64 = 20;
const SEED: u64 = 20_261_128;
const LIMIT: Duration = Duration::MAX;

fn z(z: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(z).unwrap()
}

fn bound() -> Bound {
    Bound::new(ClipNorm::new(1.0).unwrap(), DIM).unwrap()
}

fn record(i: u64) -> [f64; DIM] {
    let x = i as f64;
    [(0.3 * x).sin(), (1.7 * x).cos(), 0.1 * (x % 7.0)]
}

/// What left a party, round for round.
type Wire = Arc<Mutex<Vec<Vec<u64>>>>;

/// Ranks in one process, where nobody looks but the test.
struct Tapped(ThreadRanks, Wire);

impl Exchange for Tapped {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn ranks(&self) -> usize {
        self.0.ranks()
    }

    fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError> {
        self.1.lock().unwrap().push(words.to_vec());
        self.0.add(words)
    }

    fn hides_parts(&self) -> bool {
        true
    }
}

/// What each of `parties` makes of this, of which `honest` are counted on.
fn on<T: Send>(parties: usize, honest: usize, work: impl Fn(Together, Wire) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let started = ThreadRanks::new(parties, LIMIT).into_iter().map(|rank| {
            scope.spawn(move || {
                let wire = Wire::default();
                let tapped = Box::new(Tapped(rank, Arc::clone(&wire)));
                let honest = NonZeroUsize::new(honest).unwrap();
                work(Together::of_parties(tapped, honest).unwrap(), wire)
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn simulated(together: &Together, seed: u64) -> Curator {
    let curator = Curator::simulated(ADJACENCY, seed);
    curator.joined(together).unwrap()
}

/// What a party has in a release: the sum of its records, its noise, and what it is told.
struct Part {
    exact: Vec<i64>,
    noise: Vec<i64>,
    sent: Vec<i64>,
    released: Vec<f64>,
}

/// A release by each kind of reading that parties have.
fn releases(together: &Together, wire: &Wire) -> Vec<Part> {
    let mut curator = simulated(together, SEED);
    let (rate, noise) = (SamplingRate::new(0.4).unwrap(), z(2.0));
    let gaussian = Event::gaussian(noise);
    let sampled = gaussian.clone().poisson_sampled(rate);
    let share = Event::ParallelComposed {
        events: vec![Event::composed(vec![gaussian.clone(), sampled.clone()])],
    };
    let all = vec![gaussian, sampled, share];
    curator
        .reserve(&Spend::Fixed(Event::composed(all)))
        .unwrap();
    let records = RECORDS * together.ranks() as u64;
    curator.open_pool(records, 0).unwrap();
    let slice = curator.take_slice(records / 2).unwrap();
    let own = RECORDS * together.rank() as u64..RECORDS * (together.rank() as u64 + 1);
    let whiches = [
        Which::All,
        Which::Poisson(rate),
        Which::Next(records / 2),
        Which::Sampled(&slice, rate),
    ];
    let mut parts = Vec::new();
    for which in whiches {
        let ticket = curator
            .grant(which, Body::of(records), bound(), noise)
            .unwrap();
        let positions: Vec<u64> = match ticket.sample().positions() {
            Positions::Range(range) => range.collect(),
            Positions::Drawn(drawn) => drawn.reveal().iter().map(|&i| u64::from(i)).collect(),
        };
        let sum = || {
            let mut sum = LatticeSum::new(bound());
            for i in positions.iter().filter(|i| own.contains(i)) {
                sum.add_scaled(1.0, &record(*i));
            }
            sum
        };
        let (_, exact) = sum().into_integers();
        // The release before it in the same stream of names, drawn again from the party's own key.
        let id = StreamId::new(Purpose::Noise, parts.len() as u32);
        let mut noise = vec![0i64; DIM];
        let gaussian = &ticket.terms.noise;
        gaussian
            .add_release(&curator.key, id, &curator.threads, &mut noise)
            .unwrap();
        let released = curator.redeem(ticket, sum()).unwrap();
        let sent = wire
            .lock()
            .unwrap()
            .iter()
            .rfind(|words| words.len() == DIM)
            .unwrap()
            .clone();
        parts.push(Part {
            exact: exact.to_vec(),
            noise,
            sent: sent.iter().map(|&word| word as i64).collect(),
            released,
        });
    }
    parts
}

/// A release is the sum of all records and the noise of all parties; of a party nothing leaves but its sum with its noise.
#[test]
fn a_release_has_the_noise_of_every_party() {
    for (parties, honest) in [(1, 1), (2, 1), (3, 2), (4, 4)] {
        let found = on(parties, honest, |together, wire| releases(&together, &wire));
        for kind in 0..found[0].len() {
            for k in 0..DIM {
                let total: i64 = found
                    .iter()
                    .map(|of| of[kind].exact[k] + of[kind].noise[k])
                    .sum();
                for of in &found {
                    let part = &of[kind];
                    assert_eq!(part.sent[k], part.exact[k] + part.noise[k]);
                    assert!(part.noise[k].abs() > 1 << 10);
                    assert_eq!(part.released[k], total as f64 * bound().step());
                }
            }
            let mut shares: Vec<_> = found.iter().map(|of| &of[kind].noise).collect();
            shares.sort();
            shares.dedup();
            assert_eq!(shares.len(), parties, "two parties have the same noise");
        }
    }
}

/// Of `honest` shares the squares add up to no less than that of the release, and hardly more.
#[test]
fn shares_add_up_to_the_noise_that_is_accounted() {
    for (parties, honest) in [(2, 1), (3, 2), (3, 3), (7, 5), (64, 63)] {
        let scales = on(parties, honest, |together, _| {
            let curator = simulated(&together, SEED);
            [2.0, 0.37, 1e-4].map(|multiplier| {
                let noise = curator.noise(
                    crate::replay::ReplayedMechanism::Sum,
                    z(multiplier),
                    bound(),
                );
                let whole = multiplier * bound().sensitivity_in_steps(ADJACENCY);
                noise.unwrap().scale().powi(2) * honest as f64 / (whole * whole)
            })
        });
        for ratio in scales.concat() {
            assert!((1.0..1.0 + 1e-14).contains(&ratio), "{ratio}");
        }
    }
}

/// The released numbers of many runs have the variance of all shares: s^2 P / h. A party that adds none would show.
#[test]
fn releases_have_the_variance_of_all_shares() {
    const RUNS: u64 = 4000;
    let (parties, honest) = (3, 2);
    let squares = on(parties, honest, |together, _| {
        let mut sum = 0.0;
        for run in 0..RUNS {
            let mut curator = simulated(&together, run);
            curator
                .reserve(&Spend::Fixed(Event::gaussian(z(2.0))))
                .unwrap();
            let ticket = curator
                .grant(Which::All, Body::of(60), bound(), z(2.0))
                .unwrap();
            let released = curator.redeem(ticket, LatticeSum::new(bound())).unwrap();
            sum += released.iter().map(|x| x * x).sum::<f64>();
        }
        sum
    });
    let std = 2.0 * bound().sensitivity_in_steps(ADJACENCY) * bound().step();
    let expected = std * std * parties as f64 / honest as f64;
    let ratio = squares[0] / (RUNS * DIM as u64) as f64 / expected;
    // Chi-square with 12,000 degrees of freedom: 6 standard deviations are .077. Two shares of three would give .667.
    assert!((ratio - 1.0).abs() < 0.077, "{ratio}");
}

/// Samples of two parties, which each draw for themselves, have no more in common than chance has it; directions are the same for all.
#[test]
fn each_party_draws_its_own_samples_and_all_walk_alike() {
    const POSITIONS: u64 = 4000;
    let found = on(2, 2, |together, _| {
        let mut curator = simulated(&together, SEED);
        let rate = SamplingRate::new(0.5).unwrap();
        let event = Event::gaussian(z(2.0)).poisson_sampled(rate);
        curator.reserve(&Spend::Fixed(event)).unwrap();
        let body = Body::of(POSITIONS);
        let ticket = curator
            .grant(Which::Poisson(rate), body, bound(), z(2.0))
            .unwrap();
        let Positions::Drawn(drawn) = ticket.sample().positions() else {
            panic!("a Poisson sample is drawn");
        };
        let mut directions = [0.0; 4];
        curator.draw_normals(&mut directions).unwrap();
        (
            drawn.reveal().to_vec(),
            directions,
            curator.draw_index(1 << 40),
        )
    });
    let [(one, to, at), (other, also_to, also_at)] = &found[..] else {
        panic!("two parties");
    };
    assert_eq!((to, at), (also_to, also_at));
    let both = one
        .iter()
        .filter(|i| other.binary_search(i).is_ok())
        .count();
    // 1,000 are expected, with a standard deviation of 27.
    assert!((835..1165).contains(&both), "{both}");
}

/// Protected parties, too: their noise differs, which nobody can tell but from the sum that leaves each.
#[test]
fn protected_parties_release_together_and_say_on_what_it_rests() {
    let found = on(3, 2, |together, wire| {
        let curator = Curator::protected(ADJACENCY).unwrap();
        let mut curator = curator.joined(&together).unwrap();
        curator
            .reserve(&Spend::Fixed(Event::gaussian(z(2.0))))
            .unwrap();
        let ticket = curator
            .grant(Which::All, Body::of(60), bound(), z(2.0))
            .unwrap();
        let released = curator.redeem(ticket, LatticeSum::new(bound())).unwrap();
        let sent = wire
            .lock()
            .unwrap()
            .iter()
            .rfind(|words| words.len() == DIM)
            .unwrap()
            .clone();
        let guarantee = curator.guarantee(Delta::new(1e-6).unwrap()).unwrap();
        (released, sent, guarantee.rests_on().to_vec())
    });
    let sent: Vec<_> = found.iter().map(|(_, sent, _)| sent).collect();
    assert!(sent[0] != sent[1] && sent[0] != sent[2] && sent[1] != sent[2]);
    for (released, _, rests_on) in &found {
        assert_eq!(released, &found[0].0);
        let [one] = &rests_on[..] else {
            panic!("{rests_on:?}");
        };
        assert!(one.starts_with("at least 2 of 3 parties add"), "{one}");
        assert!(
            one.ends_with("from any 1 parties other than its own together"),
            "{one}"
        );
    }
}

/// Everything else needs a sum without noise at one place: refused on every party, and nothing of a sum crosses the wire.
#[test]
fn parties_refuse_what_needs_a_sum_without_noise() {
    let epsilon = Epsilon::new(1.0).unwrap();
    let gaussian = || Event::gaussian(z(2.0));
    let reserved = [
        Event::SampledWithoutReplacement {
            source_dataset_size: 60,
            sample_size: 20,
            event: Box::new(gaussian()),
        },
        Allocation {
            steps: 3,
            participations: 1,
        }
        .event(gaussian()),
        Event::ExponentialMechanism { epsilon },
        Event::PermuteAndFlip { epsilon },
        Event::ReportNoisyMax { epsilon },
        Event::AboveThreshold { epsilon },
        crate::selection::Tuning::new(gaussian(), 3.0, 1.0)
            .unwrap()
            .event(),
        Event::composed(vec![gaussian(), Event::ExponentialMechanism { epsilon }]),
    ];
    on(2, 2, |together, wire| {
        let mut curator = simulated(&together, SEED);
        let before = wire.lock().unwrap().len();
        for event in &reserved {
            let refused = curator.reserve(&Spend::Fixed(event.clone()));
            assert!(
                matches!(refused, Err(Refused::UnsupportedSpend { .. })),
                "{event}"
            );
        }
        let among = |refused: Refused| {
            matches!(
                refused,
                Refused::Exchange(ExchangeError::AmongParties { .. })
            )
        };
        let spend = Spend::Fixed(gaussian().repeated(3));
        assert!(among(
            curator.reserve_claimed(&spend, "a test").unwrap_err()
        ));
        assert_eq!(wire.lock().unwrap().len(), before);
        curator.reserve(&spend).unwrap();
        let claim =
            SensitivityClaim::new(ClipNorm::new(1.0).unwrap(), 10.0, 3, ADJACENCY, "a test");
        let claimed = curator.grant_claimed(Which::All, Body::of(60), &claim.unwrap(), z(2.0));
        assert!(claimed.is_err());
        let before = wire.lock().unwrap().len();
        let ticket = curator
            .grant(Which::All, Body::of(60), bound(), z(2.0))
            .unwrap();
        let mut sum = LatticeSum::new(bound());
        sum.add_scaled(1.0, &record(3));
        assert!(among(curator.redeem_norm(ticket, sum, &[]).unwrap_err()));
        let every = Participation::Every;
        let period = curator.prefix(PrefixKind::Honaker, bound(), 2, z(2.0), every);
        assert!(among(period.err().unwrap()));
        assert_eq!(wire.lock().unwrap().len(), before);
    });
}

/// The prefix sums of three parties, with their records or without any, as released by the first.
fn period(kind: PrefixKind, seed: u64, records: bool) -> (Vec<Vec<f64>>, Vec<f64>) {
    const STEPS: u64 = 5;
    let mut found = on(3, 2, |together, wire| {
        let mut curator = simulated(&together, seed);
        curator
            .reserve(&Spend::Fixed(Event::gaussian(z(2.0))))
            .unwrap();
        let every = Participation::Every;
        let mut period = curator.prefix(kind, bound(), STEPS, z(2.0), every).unwrap();
        let stds = (1..=STEPS).map(|t| period.standard_deviation(t).unwrap());
        let stds: Vec<f64> = stds.collect();
        let mut released = Vec::new();
        for t in 0..STEPS {
            let ticket = period
                .grant(Which::All, Body::of(60), &mut curator)
                .unwrap();
            let sum = || {
                let mut sum = LatticeSum::new(bound());
                if records {
                    sum.add_scaled(1.0, &record(3 * t + together.rank() as u64));
                }
                sum
            };
            let (_, own) = sum().into_integers();
            released.push(period.redeem(ticket, sum(), &mut curator).unwrap());
            let wire = wire.lock().unwrap();
            let sent = wire.iter().rfind(|words| words.len() == DIM).unwrap();
            // The noise of a share has millions of steps.
            let far = |(sent, own): (&u64, &i64)| (*sent as i64).wrapping_sub(*own).abs() > 1 << 10;
            assert!(sent.iter().zip(own.iter()).all(far));
        }
        (released, stds)
    });
    for other in &found[1..] {
        assert_eq!(other.0, found[0].0);
    }
    found.swap_remove(0)
}

/// Of every kind: what the records add to a prefix sum is their sum, and the noise has the variance that the period says, that of all shares.
#[test]
fn prefix_sums_have_the_noise_of_every_party() {
    for kind in [
        PrefixKind::Independent,
        PrefixKind::Tree,
        PrefixKind::Toeplitz,
        PrefixKind::Banded { band: 2 },
    ] {
        let ((with, _), (without, _)) = (period(kind, 7, true), period(kind, 7, false));
        let mut exact = [0i64; DIM];
        for (t, (with, without)) in with.iter().zip(&without).enumerate() {
            for rank in 0..3 {
                let mut sum = LatticeSum::new(bound());
                sum.add_scaled(1.0, &record(3 * t as u64 + rank));
                let (_, own) = sum.into_integers();
                exact
                    .iter_mut()
                    .zip(own.iter())
                    .for_each(|(all, own)| *all += own);
            }
            let step = bound().step();
            for k in 0..DIM {
                // Both are whole steps below 2^53.
                assert_eq!((with[k] - without[k]) / step, exact[k] as f64, "{kind:?}");
            }
        }
        const RUNS: u64 = 400;
        let mut squares = 0.0;
        for seed in 0..RUNS {
            let (released, stds) = period(kind, seed, false);
            for (released, std) in released.iter().zip(&stds) {
                squares += released.iter().map(|x| (x / std).powi(2)).sum::<f64>();
            }
        }
        let mean = squares / (RUNS * 5 * DIM as u64) as f64;
        // The five steps of a coordinate are correlated: a standard deviation of at most sqrt(2/1200). Six of them.
        assert!((mean - 1.0).abs() < 0.245, "{kind:?}: {mean}");
    }
    let unit = |kind, honest| {
        on(3, honest, |together, _| {
            let mut curator = simulated(&together, 1);
            curator
                .reserve(&Spend::Fixed(Event::gaussian(z(2.0))))
                .unwrap();
            let every = Participation::Every;
            let period = curator.prefix(kind, bound(), 5, z(2.0), every).unwrap();
            let mut alone = Curator::simulated(ADJACENCY, 1);
            alone
                .reserve(&Spend::Fixed(Event::gaussian(z(2.0))))
                .unwrap();
            let one = alone.prefix(kind, bound(), 5, z(2.0), every).unwrap();
            period.standard_deviation(3).unwrap() / one.standard_deviation(3).unwrap()
        })
    };
    // All counted on: the noise of one process. Two of three: sqrt(3/2) of it.
    assert!((unit(PrefixKind::Tree, 3)[0] - 1.0).abs() < 1e-12);
    assert!((unit(PrefixKind::Toeplitz, 2)[0] - 1.5f64.sqrt()).abs() < 1e-12);
}

#[test]
fn an_exchange_that_shows_parts_is_none_for_parties() {
    let alone = || ThreadRanks::new(1, LIMIT).remove(0);
    let one = NonZeroUsize::MIN;
    let refused = Together::of_parties(Box::new(alone()), one).err();
    assert_eq!(refused, Some(ExchangeError::PartsShow));
    let tapped = Box::new(Tapped(alone(), Wire::default()));
    let refused = Together::of_parties(tapped, NonZeroUsize::new(2).unwrap()).err();
    let (honest, parties) = (2, 1);
    assert_eq!(
        refused,
        Some(ExchangeError::HonestParties { honest, parties })
    );
}

/// A share of few steps, for which nothing is proved.
#[test]
fn too_small_a_share_is_refused() {
    on(4, 4, |together, _| {
        let mut curator = simulated(&together, SEED);
        // Sixteen steps in a share of four are a multiplier of 32 steps in 2 C, a little less than 2^-25 times two.
        let least = 32.0 / bound().sensitivity_in_steps(ADJACENCY);
        for (factor, fine) in [(1.01, true), (0.99, false)] {
            let noise = z(factor * least);
            let spend = Spend::Fixed(Event::gaussian(noise));
            curator.reserve(&spend).unwrap();
            let granted = curator.grant(Which::All, Body::of(60), bound(), noise);
            assert_eq!(granted.is_ok(), fine);
            curator.settle().unwrap();
        }
    });
}

/// The claim of `docs/privacy/parties.md`, where the distance can be seen: several rounded shares beside a rounded sum.
#[test]
fn rounded_shares_are_near_a_rounding_of_their_sum() {
    let cdf = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    const N: i64 = 40;
    for honest in [2usize, 3, 5] {
        let mut seen = 0.0f64;
        for sigma in [0.4, 0.6, 0.8, 1.0, 1.2] {
            // Shares: the law of round(sigma Z), folded.
            let one: Vec<f64> = (-N..=N)
                .map(|k| cdf((k as f64 + 0.5) / sigma) - cdf((k as f64 - 0.5) / sigma))
                .collect();
            let mut shares = one.clone();
            for _ in 1..honest {
                shares = (0..one.len() as i64)
                    .map(|n| {
                        (0..one.len() as i64)
                            .filter_map(|k| {
                                Some(
                                    one[k as usize]
                                        * shares.get(usize::try_from(n + N - k).ok()?)?,
                                )
                            })
                            .sum()
                    })
                    .collect();
            }
            // One number: the density of sqrt(h) sigma Z and h uniform numbers, at integers, by quadrature of its transform.
            let total = sigma * (honest as f64).sqrt();
            let transform = |t: f64| {
                let sinc = if t == 0.0 {
                    1.0
                } else {
                    (t / 2.0).sin() / (t / 2.0)
                };
                (-0.5 * total * total * t * t).exp() * sinc.powi(honest as i32)
            };
            let step = 1e-3;
            let density = |n: f64| {
                let half: f64 = (1..40_000)
                    .map(|k| f64::from(k) * step)
                    .map(|t| transform(t) * (t * n).cos())
                    .sum();
                (0.5 * transform(0.0) + half) * step / std::f64::consts::PI
            };
            let distance = 0.5
                * (-N..=N)
                    .zip(&shares)
                    .map(|(n, p)| (p - density(n as f64)).abs())
                    .sum::<f64>();
            let pi = std::f64::consts::PI;
            let b: f64 = 2.0
                * (1..9)
                    .map(|k| (-0.5 * (sigma * pi * f64::from(2 * k - 1)).powi(2)).exp())
                    .sum::<f64>();
            let eta = honest as f64 * b * (1.0 + b).powi(honest as i32 - 1) + b;
            // All of the mass is within N.
            let claimed = (N as f64 + 1.0) * eta;
            assert!(
                distance <= claimed,
                "{honest} {sigma}: {distance:e} {claimed:e}"
            );
            seen = seen.max(distance);
        }
        // At the smallest shares there is a distance: a sum of rounded shares is no rounded sum.
        assert!(seen > 1e-4, "{honest}: {seen:e}");
    }
}
