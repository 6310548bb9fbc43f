//! Pure, approximate, discrete and concentrated releases in the privacy-loss accountant, against enumeration.

use dpopt_accounting::accounting::pld::{self, PldBounds};
use dpopt_accounting::accounting::{exact, pure, zcdp};
use dpopt_accounting::{Accountant, Adjacency, Epsilon, Event, Rho};

use crate::common::{EVERY, delta, epsilon, gaussian, pure_dp, rate, sampled, z};

/// A small generator: the settings are fixed, and cover more than a handful.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.uniform())
    }
}

/// Losses and masses under P; an infinite loss is a failure.
type Law = Vec<(f64, f64)>;

fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Delta of one Gaussian at any real epsilon.
fn gaussian_delta(noise: f64, e: f64) -> f64 {
    tail(e * noise - 0.5 / noise) - e.exp() * tail(e * noise + 0.5 / noise)
}

/// The mean over all outcomes of `rest` at what they leave of epsilon.
fn enumerated(laws: &[Law], eps: f64, rest: &impl Fn(f64) -> f64) -> f64 {
    match laws.split_first() {
        None => rest(eps),
        Some((law, others)) => law
            .iter()
            .map(|(loss, mass)| match *loss {
                f64::INFINITY => *mass,
                loss => mass * enumerated(others, eps - loss, rest),
            })
            .sum(),
    }
}

fn response(epsilon: f64, failure: f64) -> Law {
    let truth = 1.0 / (1.0 + (-epsilon).exp());
    vec![
        (epsilon, (1.0 - failure) * truth),
        (-epsilon, (1.0 - failure) * (1.0 - truth)),
        (f64::INFINITY, failure),
    ]
}

/// The truth lies between the bounds, which are close.
fn holds(bounds: PldBounds, truth: f64) -> bool {
    bounds.lower <= truth * (1.0 + 1e-9)
        && bounds.upper >= truth * (1.0 - 1e-9)
        && bounds.upper <= truth * (1.0 + 2e-3)
}

#[test]
fn responses_beside_a_gaussian_are_what_enumeration_says() {
    let mut draws = Draws(7);
    let mut caught = 0;
    for case in 0..200 {
        let noise = draws.between(0.5, 8.0);
        let list: Vec<(f64, f64)> = (0..1 + case % 4)
            .map(|i| {
                let failure = if i == 1 {
                    draws.between(1e-9, 1e-4)
                } else {
                    0.0
                };
                (draws.between(0.02, 1.5), failure)
            })
            .collect();
        let event = |factor: f64| {
            let mut all = vec![gaussian(noise)];
            all.extend(list.iter().map(|&(epsilon, delta)| Event::EpsilonDelta {
                epsilon: factor * epsilon,
                delta,
            }));
            Event::composed(all)
        };
        let laws: Vec<Law> = list.iter().map(|&(e, d)| response(e, d)).collect();
        let eps = draws.between(0.05, 3.0);
        let truth = enumerated(&laws, eps, &|e| gaussian_delta(noise, e));
        if truth < 1e-12 {
            continue;
        }
        let adjacency = EVERY[case % 3];
        let bounds = pld::delta(&event(1.0), eps, adjacency).unwrap();
        assert!(
            holds(bounds, truth),
            "{list:?} {noise} {eps} {bounds:?} {truth}"
        );
        // The same check catches an accountant that thinks of less.
        let twin = pld::delta(&event(0.9), eps, adjacency).unwrap();
        caught += usize::from(!holds(twin, truth));
        let back = pld::epsilon(&event(1.0), delta(truth.min(0.5)), adjacency).unwrap();
        // Where all but failures is nothing, epsilon is not in the digits of delta.
        let failures: f64 = list.iter().map(|l| l.1).sum();
        if truth < 0.5 && truth > 1.001 * failures {
            let slack = 1e-9 * (1.0 + eps);
            assert!(
                back.lower <= eps + slack && back.upper >= eps - slack,
                "{list:?} {noise} {eps} {back:?} {truth}"
            );
        }
    }
    assert!(caught > 150, "{caught}");
}

/// The settings of a hostile reading: 2.1014 and 2.1372 by Renyi divergences.
#[test]
fn a_selection_beside_training_is_tight() {
    let training = sampled(0.01, 1.0, 1000);
    for (one, at_most) in [(1e-4, 1.8284), (0.1, 1.867)] {
        let both = Event::composed(vec![
            training.clone(),
            Event::AboveThreshold {
                epsilon: epsilon(one),
            },
        ]);
        let (who, found) = Accountant::least(&both, delta(1e-5), Adjacency::AddRemove).unwrap();
        assert!(found <= at_most, "{one} {who} {found}");
        // By contours of the training alone, at what each answer leaves of epsilon.
        let truth = |e: f64| {
            enumerated(&[response(one, 0.0)], e, &|e| {
                exact::delta(&training, e, Adjacency::AddRemove)
                    .unwrap()
                    .lower
            })
        };
        assert!(truth(found) <= 1e-5, "{found}");
        let below = pld::epsilon(&both, delta(1e-5), Adjacency::AddRemove)
            .unwrap()
            .lower;
        assert!(truth(below) >= 1e-5 * (1.0 - 1e-6), "{below}");
    }
}

#[test]
fn equal_and_unequal_pure_releases_have_their_optimum() {
    for (one, count, at) in [(0.1, 1000, 1e-6), (0.5, 30, 1e-5), (1.0, 5, 1e-9)] {
        let optimum = pure::k_fold_epsilon(epsilon(one), count, delta(at));
        let bounds = pld::epsilon(
            &pure_dp(one).repeated(count),
            delta(at),
            Adjacency::ReplaceOne,
        );
        let bounds = bounds.unwrap();
        assert!(bounds.lower <= optimum && optimum <= bounds.upper * (1.0 + 1e-9));
        assert!(bounds.width() <= 2e-3 * optimum, "{bounds:?} {optimum}");
    }
    // One large among many small: the general theorem is far off.
    let list: Vec<Event> = vec![pure_dp(1.0), pure_dp(0.1).repeated(12)];
    let event = Event::composed(list);
    let mut laws = vec![response(0.1, 0.0); 12];
    laws.push(response(1.0, 0.0));
    for eps in [0.5, 1.2, 1.9] {
        let truth = enumerated(&laws, eps, &|e| -f64::exp_m1(e.min(0.0)));
        let bounds = pld::delta(&event, eps, Adjacency::AddRemove).unwrap();
        assert!(holds(bounds, truth), "{eps} {bounds:?} {truth}");
    }
    let (who, _) = Accountant::least(&event, delta(1e-4), Adjacency::AddRemove).unwrap();
    assert_eq!(who, Accountant::Pld);
}

#[test]
fn randomised_response_knows_its_buckets() {
    for (p, k) in [(0.5, 2_u64), (0.9, 10), (0.2, 100)] {
        let event = Event::RandomizedResponse {
            noise_parameter: p,
            num_buckets: k,
        };
        let (own, other) = (1.0 - p + p / k as f64, p / k as f64);
        let law = vec![
            ((own / other).ln(), own),
            (0.0, 1.0 - own - other),
            ((other / own).ln(), other),
        ];
        let laws = vec![law; 5];
        for eps in [0.1, 1.0] {
            let truth = enumerated(&laws, eps, &|e| -f64::exp_m1(e.min(0.0)));
            let bounds = pld::delta(&event.clone().repeated(5), eps, Adjacency::ReplaceOne);
            assert!(holds(bounds.unwrap(), truth), "{p} {k} {eps} {truth}");
        }
        assert!(pld::delta(&event, 1.0, Adjacency::AddRemove).is_err());
    }
}

/// Noise on integers, summed over outcomes: on the line it is the pair, in the plane the pair dominates.
#[test]
fn discrete_laplace_is_what_its_masses_say() {
    let mass = |a: f64, x: i64| (0.5 * a).tanh() * (-a * x.abs() as f64).exp();
    for (a, shift) in [(0.5_f64, 1_u64), (0.3, 4), (1.0, 7), (0.05, 40)] {
        let event = Event::DiscreteLaplace {
            noise_parameter: a,
            sensitivity: shift,
        };
        let reach = (45.0 / a) as i64 + shift as i64;
        for eps in [0.0, 0.2, 0.9 * a * shift as f64] {
            let one = |along: i64, across: i64| {
                let mut sum = 0.0;
                for x in -reach..=reach {
                    if across == 0 {
                        sum += (mass(a, x - along) - eps.exp() * mass(a, x)).max(0.0);
                        continue;
                    }
                    for y in -reach..=reach {
                        let p = mass(a, x - along) * mass(a, y - across);
                        sum += (p - eps.exp() * mass(a, x) * mass(a, y)).max(0.0);
                    }
                }
                sum
            };
            let truth = one(shift as i64, 0);
            for adjacency in EVERY {
                let bounds = pld::delta(&event, eps, adjacency).unwrap();
                assert!(holds(bounds, truth), "{a} {shift} {eps} {bounds:?} {truth}");
            }
            if shift > 1 && a > 0.2 {
                let plane = one(shift as i64 / 2, shift as i64 - shift as i64 / 2);
                assert!(plane <= truth * (1.0 + 1e-12), "{a} {shift} {eps}");
            }
        }
        // Many of them: a lattice that holds all losses makes it exact.
        let ten = pld::epsilon(&event.repeated(10), delta(1e-6), Adjacency::ReplaceOne).unwrap();
        assert!(ten.width() <= 2e-3 * ten.upper, "{ten:?}");
    }
    let far = Event::DiscreteLaplace {
        noise_parameter: 1e-8,
        sensitivity: 1 << 40,
    };
    assert!(pld::epsilon(&far, delta(1e-6), Adjacency::ReplaceOne).is_err());
}

/// An exponential mechanism with two outcomes has losses t and t - epsilon; the worst t at each epsilon is the curve.
#[test]
fn a_bounded_range_dominates_every_pair_of_that_range() {
    for range in [0.2_f64, 1.0, 4.0] {
        let event = Event::ExponentialMechanism {
            epsilon: Epsilon::new(range).unwrap(),
        };
        for share in [0.1, 0.5, 0.9] {
            let eps = share * range;
            let mut worst = 0.0_f64;
            for i in 1..2000 {
                let t = range * f64::from(i) / 2000.0;
                let top = (1.0 - (t - range).exp()) / (1.0 - (-range).exp());
                worst = worst.max(top * (1.0 - (eps - t).exp()).max(0.0));
            }
            let bounds = pld::delta(&event, eps, Adjacency::AddRemove).unwrap();
            assert!(
                bounds.upper >= worst && bounds.upper <= worst * (1.0 + 2e-3) + 1e-9,
                "{range} {eps} {bounds:?} {worst}"
            );
            // Two of them, each as it likes.
            for (one, other) in [(0.3, 0.7), (0.5, 0.5), (0.9, 0.2)] {
                let law = |t: f64| {
                    let t = t * range;
                    let top = (1.0 - (t - range).exp()) / (1.0 - (-range).exp());
                    vec![(t, top), (t - range, 1.0 - top)]
                };
                let truth = enumerated(&[law(one), law(other)], eps, &|e| -f64::exp_m1(e.min(0.0)));
                let two = pld::delta(&event.clone().repeated(2), eps, Adjacency::AddRemove);
                assert!(two.unwrap().upper >= truth, "{range} {eps}");
            }
        }
    }
    // Bounded range costs less than what is only pure; of many it is the zCDP that adds up.
    for (count, part) in [(10, 0.85), (100, 0.75)] {
        let of = |event: Event| {
            let event = Event::composed(vec![gaussian(20.0), event.repeated(count)]);
            let bounds = pld::epsilon(&event, delta(1e-6), Adjacency::AddRemove);
            bounds.unwrap().upper
        };
        let range = of(Event::ExponentialMechanism {
            epsilon: epsilon(0.2),
        });
        assert!(range < part * of(pure_dp(0.2)), "{count} {range}");
    }
}

#[test]
fn concentrated_releases_are_bounded_by_their_curve() {
    for (rho, at) in [(0.1, 1e-6), (0.5, 1e-3), (0.02, 1e-9)] {
        let unit = Rho::new(rho).unwrap();
        let event = Event::ZCdp { rho: unit, xi: 0.0 };
        let bounds = pld::epsilon(&event, delta(at), Adjacency::ReplaceOne).unwrap();
        let closed = zcdp::epsilon(unit, delta(at));
        // The same conversion, and nothing is known from below.
        assert!(bounds.upper >= closed * (1.0 - 1e-9), "{bounds:?} {closed}");
        assert!(bounds.upper <= closed * (1.0 + 3e-3), "{bounds:?} {closed}");
        assert_eq!(bounds.lower, 0.0);
        // Beside samples it holds for a Gaussian of that rho, and beats the Renyi bound.
        let noise = (0.5 / rho).sqrt();
        let training = sampled(0.01, 1.0, 500);
        let with = |other: Event| Event::composed(vec![training.clone(), other]);
        let mixed = pld::epsilon(&with(event.clone()), delta(at), Adjacency::AddRemove).unwrap();
        let known = exact::epsilon(&with(gaussian(noise)), delta(at), Adjacency::AddRemove);
        assert!(mixed.upper >= known.unwrap().lower, "{mixed:?}");
        let both = with(event);
        let renyi = Accountant::Rdp
            .epsilon(&both, delta(at), Adjacency::AddRemove)
            .unwrap();
        assert!(mixed.upper <= renyi, "{mixed:?} {renyi}");
        let discrete = with(Event::DiscreteGaussian {
            noise_multiplier: z(noise),
        });
        let discrete = pld::epsilon(&discrete, delta(at), Adjacency::AddRemove).unwrap();
        assert!((discrete.upper - mixed.upper).abs() <= 1e-6 * mixed.upper);
    }
    let offset = Event::ZCdp {
        rho: Rho::new(0.1).unwrap(),
        xi: 0.5,
    };
    let bounds = pld::epsilon(&offset, delta(1e-6), Adjacency::ReplaceOne).unwrap();
    let closed = zcdp::epsilon(Rho::new(0.1).unwrap(), delta(1e-6)) + 0.5;
    assert!((bounds.upper - closed).abs() <= 3e-3 * closed);
}

/// Far above the largest exponent of a number: `a = e^epsilon` has no value there.
#[test]
fn large_concentrated_releases_cost_what_a_gaussian_does() {
    for rho in [100.0, 300.0, 318.0, 330.0, 500.0, 715.0, 1000.0, 2000.0] {
        for at in [0.01, 1e-6] {
            let unit = Rho::new(rho).unwrap();
            let event = Event::ZCdp { rho: unit, xi: 0.0 };
            let bounds = pld::epsilon(&event, delta(at), Adjacency::ReplaceOne).unwrap();
            let attained = Accountant::Gdp
                .epsilon(
                    &gaussian((0.5 / rho).sqrt()),
                    delta(at),
                    Adjacency::ReplaceOne,
                )
                .unwrap();
            let closed = zcdp::epsilon(unit, delta(at));
            assert!(bounds.upper >= attained, "{rho} {at} {bounds:?} {attained}");
            assert!(
                bounds.upper >= closed * (1.0 - 1e-9) && bounds.upper <= closed * (1.0 + 3e-3),
                "{rho} {at} {bounds:?} {closed}"
            );
            let back = pld::delta(&event, attained, Adjacency::ReplaceOne).unwrap();
            assert!(back.upper >= at * (1.0 - 1e-9), "{rho} {at} {back:?}");
        }
    }
}

/// Delta of `count` exponential mechanisms with two outcomes, of losses t and t - range.
fn two_outcomes(range: f64, t: f64, count: u64, eps: f64) -> f64 {
    let top = (t - range).exp_m1() / (-range).exp_m1();
    let bottom = (t - range).exp() * (-t).exp_m1() / (-range).exp_m1();
    let n = count as f64;
    (0..=count)
        .map(|falls| {
            let k = falls as f64;
            let ln = libm::lgamma(n + 1.0) - libm::lgamma(k + 1.0) - libm::lgamma(n - k + 1.0);
            let mass = (ln + k * bottom.ln() + (n - k) * top.ln()).exp();
            mass * -(eps - n * t + k * range).min(0.0).exp_m1()
        })
        .sum()
}

#[test]
fn many_exponential_mechanisms_cost_what_two_outcomes_do() {
    for (range, count, at) in [
        (19.0, 16_u64, 1e-5),
        (19.0, 15, 1e-5),
        (40.0, 64, 1e-9),
        (3.0, 20, 1e-6),
        (0.5, 20, 1e-6),
        (0.2, 400, 1e-5),
    ] {
        let event = Event::ExponentialMechanism {
            epsilon: epsilon(range),
        };
        let event = event.repeated(count);
        let upper = pld::epsilon(&event, delta(at), Adjacency::ReplaceOne)
            .unwrap()
            .upper;
        let mut nearest = 0.0_f64;
        for i in 1..200 {
            let t = range * f64::from(i) / 200.0;
            assert!(
                two_outcomes(range, t, count, upper) <= at,
                "{range} {count} {t} {upper}"
            );
            nearest = nearest.max(two_outcomes(range, t, count, 0.7 * upper));
        }
        // What is attained is not far below.
        assert!(nearest > at, "{range} {count} {upper} {nearest:e}");
        // Neither basic composition nor its zCDP is less.
        assert!(
            upper <= range * count as f64 * (1.0 + 1e-6),
            "{range} {count} {upper}"
        );
    }
}

#[test]
fn repeated_concentrated_releases_add_up() {
    let of = |rho: f64, xi: f64, count: u64| {
        let event = Event::ZCdp {
            rho: Rho::new(rho).unwrap(),
            xi,
        };
        let bounds = pld::epsilon(&event.repeated(count), delta(1e-6), Adjacency::ReplaceOne);
        bounds.unwrap().upper
    };
    for (rho, xi) in [(0.01, 0.0), (0.02, 0.003), (30.0, 0.0)] {
        let (ten, one) = (of(rho, xi, 10), of(10.0 * rho, 10.0 * xi, 1));
        assert!((ten - one).abs() <= 1e-9 * one, "{ten} {one}");
        // Ten Gaussians of that rho are such releases.
        let attained = gaussian((0.5 / rho).sqrt()).repeated(10);
        let attained = Accountant::Gdp.epsilon(&attained, delta(1e-6), Adjacency::ReplaceOne);
        assert!(ten >= attained.unwrap(), "{rho} {ten}");
    }
}

#[test]
fn samples_of_pure_releases_are_amplified() {
    let amplified = (0.1 * f64::exp_m1(0.5)).ln_1p();
    let on_sample = pure_dp(0.5).poisson_sampled(rate(0.1)).repeated(20);
    let bounds = pld::epsilon(&on_sample, delta(1e-6), Adjacency::AddRemove).unwrap();
    let optimum = pure::k_fold_epsilon(epsilon(amplified), 20, delta(1e-6));
    assert!((bounds.upper - optimum).abs() <= 2e-3 * optimum);
    for adjacency in [Adjacency::ReplaceOne, Adjacency::ZeroOut] {
        assert!(pld::epsilon(&on_sample, delta(1e-6), adjacency).is_err());
    }
}
