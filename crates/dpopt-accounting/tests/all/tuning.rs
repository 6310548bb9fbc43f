//! Optimal composition of bounded-range mechanisms, and tuning by privacy profiles, against closed forms and quadrature.

use dpopt_accounting::accounting::{bounded_range, selection};
use dpopt_accounting::{Accountant, Adjacency, Event};

use crate::common::{delta, epsilon, gaussian};

/// Of one mechanism: `(sqrt E - sqrt X)^2 / (E - 1)`.
fn one(range: f64, x: f64) -> f64 {
    if x >= range {
        0.0
    } else if x <= -range {
        -x.exp_m1()
    } else {
        ((0.5 * range).exp() - (0.5 * x).exp()).powi(2) / range.exp_m1()
    }
}

/// Of one more, whose losses are chosen on a fine grid: as good as the supremum to the square of its step.
fn one_more(range: f64, x: f64, before: impl Fn(f64) -> f64, n: usize) -> f64 {
    (0..=n)
        .map(|i| {
            let t = range * i as f64 / n as f64;
            let p = (range.exp() - t.exp()) / range.exp_m1();
            p * before(x - t) + (1.0 - p) * before(x - t + range)
        })
        .fold(0.0, f64::max)
}

#[test]
fn one_and_two_and_three_mechanisms_have_the_values_of_the_recursion() {
    let mut settings = 0;
    for range in [0.01, 0.05, 0.1, 0.3, 0.7, 1.0, 2.0, 4.0] {
        for part in [0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 0.75, 0.9, 0.95] {
            for count in [1_u64, 2, 3] {
                let x = part * range * count as f64;
                let two = |x: f64, n| one_more(range, x, |x| one(range, x), n);
                let truth = match count {
                    1 => one(range, x),
                    2 => two(x, 4000),
                    _ => one_more(range, x, |x| two(x, 600), 600),
                };
                let slack = if count == 3 { 2e-3 } else { 1e-6 };
                let found = bounded_range::delta(epsilon(range), count, x).unwrap();
                let at = format!("{range} {count} {x}: {found:?} {truth}");
                assert!(found.upper >= truth * (1.0 - 1e-11), "{at}");
                assert!(found.lower <= truth * (1.0 + slack), "{at}");
                assert!(found.width() <= 1e-3 * found.upper + 1e-15, "{at}");
                settings += 1;
            }
        }
    }
    assert!(settings >= 200);
}

/// Without adaptivity: the same losses for all, whose sum is binomial.
#[test]
fn many_mechanisms_are_worse_than_equal_ones_and_better_than_the_other_bounds() {
    for (range, count) in [(0.1, 20_u64), (0.3, 10), (0.05, 60)] {
        let n = count as i32;
        for x in [0.1, 0.5, 1.0] {
            let found = bounded_range::delta(epsilon(range), count, x).unwrap();
            let equal = (0..=200)
                .map(|i| {
                    let t = range * f64::from(i) / 200.0;
                    let p = (range.exp() - t.exp()) / range.exp_m1();
                    let mut choose = 1.0;
                    (0..=n)
                        .map(|low| {
                            let weight = choose * p.powi(n - low) * (1.0 - p).powi(low);
                            choose *= f64::from(n - low) / f64::from(low + 1);
                            let loss = f64::from(n) * t - f64::from(low) * range;
                            weight * -(x - loss).min(0.0).exp_m1()
                        })
                        .sum::<f64>()
                })
                .fold(0.0, f64::max);
            assert!(
                found.upper >= equal,
                "{range} {count} {x} {found:?} {equal}"
            );
        }
        let event = Event::ExponentialMechanism {
            epsilon: epsilon(range),
        }
        .repeated(count);
        let found = bounded_range::epsilon(epsilon(range), count, delta(1e-6)).unwrap();
        assert!(
            found.width() <= 2e-3 * found.upper,
            "{range} {count} {found:?}"
        );
        for other in [Accountant::Zcdp, Accountant::Rdp, Accountant::Pld] {
            let looser = other
                .epsilon(&event, delta(1e-6), Adjacency::AddRemove)
                .unwrap();
            assert!(
                found.upper <= looser * (1.0 + 1e-6),
                "{other} {looser} {found:?}"
            );
        }
        let stated = Accountant::Pure
            .epsilon(&event, delta(1e-6), Adjacency::AddRemove)
            .unwrap();
        assert!(stated <= found.upper * (1.0 + 1e-9), "{stated} {found:?}");
    }
    assert!(bounded_range::delta(epsilon(1.0), 0, 1.0).is_err());
    assert!(bounded_range::delta(epsilon(1.0), 1 << 30, 1.0).is_err());
    assert!(bounded_range::delta(epsilon(1.0), 3, f64::NAN).is_err());
}

fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// Derivative of the generating function of the number of runs.
fn weight(mean: f64, shape: f64, x: f64) -> f64 {
    if shape.is_infinite() {
        return mean * (mean * (x - 1.0)).exp();
    }
    // By bisection for the parameter, and the formula of the law.
    let mean_of = |g: f64| match shape {
        0.0 => (1.0 - g) / (g * -g.ln()),
        eta => eta * (1.0 - g) / (g * (1.0 - g.powf(eta))),
    };
    let (mut low, mut high) = (1e-12_f64, 1.0 - 1e-12);
    for _ in 0..200 {
        let middle = (low * high).sqrt();
        if mean_of(middle) > mean {
            low = middle;
        } else {
            high = middle;
        }
    }
    let g = low;
    let at = 1.0 - (1.0 - g) * x;
    match shape {
        0.0 => (1.0 - g) / (at * -g.ln()),
        eta => eta * (1.0 - g) * at.powf(-eta - 1.0) / (g.powf(-eta) - 1.0),
    }
}

/// delta of the best of K Gaussian answers, the score being the answer or its negative: both orders of the pair.
fn selected(z: f64, mean: f64, shape: f64, eps: f64) -> f64 {
    let (n, reach) = (6000, 12.0 * z + 1.0);
    let width = 2.0 * reach / f64::from(n);
    let phi = |x: f64| (-0.5 * (x / z).powi(2)).exp() / (z * std::f64::consts::TAU.sqrt());
    let table: Vec<f64> = (0..=2000)
        .map(|i| weight(mean, shape, f64::from(i) / 2000.0))
        .collect();
    let of = |x: f64| {
        let at = x * 2000.0;
        let i = (at.floor() as usize).min(1999);
        let (a, b) = (table[i], table[i + 1]);
        a * (b / a).powf(at - i as f64)
    };
    let mut worst = 0.0_f64;
    for sign in [1.0, -1.0] {
        for (one, other) in [(1.0, 0.0), (0.0, 1.0)] {
            let law = |y: f64, centre: f64| {
                let below = tail(-sign * (y - centre) / z);
                phi(y - centre) * of(below)
            };
            let sum: f64 = (0..n)
                .map(|i| {
                    let y = -reach + width * (f64::from(i) + 0.5);
                    (law(y, one) - eps.exp() * law(y, other)).max(0.0)
                })
                .sum();
            worst = worst.max(sum * width);
        }
    }
    worst
}

#[test]
fn the_best_of_several_answers_is_covered_by_the_profile() {
    let (mut settings, mut wins, mut caught) = (0, 0, 0);
    for z in [1.0, 2.0, 4.0, 8.0] {
        for shape in [0.0, 0.5, 1.0, 3.0, f64::INFINITY] {
            for mean in [1.5, 5.0, 30.0] {
                for at in [1e-2, 1e-4, 1e-6, 1e-9] {
                    let event = Event::RepeatAndSelect {
                        event: Box::new(gaussian(z)),
                        mean,
                        shape,
                    };
                    let Ok(found) = selection::epsilon(&event, delta(at), Adjacency::AddRemove)
                    else {
                        continue;
                    };
                    if found < 40.0 {
                        let truth = selected(z, mean, shape, found);
                        assert!(
                            truth <= at * (1.0 + 1e-3),
                            "{z} {shape} {mean} {at}: {found} {truth}"
                        );
                        // Without what the choice costs.
                        let (_, plain) =
                            Accountant::least(&gaussian(z), delta(at), Adjacency::AddRemove)
                                .unwrap();
                        caught += u32::from(selected(z, mean, shape, plain) > at * 1.01);
                    }
                    let renyi = Accountant::Rdp.epsilon(&event, delta(at), Adjacency::AddRemove);
                    wins += u32::from(renyi.is_ok_and(|renyi| found < renyi));
                    settings += 1;
                }
            }
        }
    }
    assert!(settings >= 200, "{settings}");
    assert!(caught >= 50, "{caught}");
    assert!(wins >= 10, "{wins} of {settings}");
}

#[test]
fn other_events_are_refused() {
    let inner = Event::RepeatAndSelect {
        event: Box::new(gaussian(1.0)),
        mean: 2.0,
        shape: 1.0,
    };
    let nested = Event::RepeatAndSelect {
        event: Box::new(inner.clone()),
        mean: 2.0,
        shape: 1.0,
    };
    for event in [gaussian(1.0), nested, inner.repeated(2)] {
        assert!(selection::epsilon(&event, delta(1e-5), Adjacency::AddRemove).is_err());
    }
}

/// Beyond the range of e^x the sum of ranges is what is known, and an upper delta is never 0 below it.
#[test]
fn wide_ranges_are_added_up() {
    for range in [250.0, 299.0, 301.0, 709.0, 710.0, 1e4] {
        let range = epsilon(range);
        let found = bounded_range::epsilon(range, 2, delta(1e-6)).unwrap();
        // Of the pair with all of its mass at the ends, whose loss is 2 range but for e^-range.
        assert!(found.upper >= range.get() && found.upper <= 2.0 * range.get() * (1.0 + 1e-9));
        let near = bounded_range::delta(range, 2, 0.5 * range.get()).unwrap();
        assert!(near.upper > 0.4, "{near:?}");
    }
}
