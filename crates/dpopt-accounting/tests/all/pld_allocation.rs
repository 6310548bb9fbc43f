//! Random allocation in the privacy-loss accountant, against quadrature, all assignments of small data sets, and draws.

use dpopt_accounting::accounting::pld::{self, PldBounds, PldError};
use dpopt_accounting::{Accountant, AccountingError, Adjacency, Event};

use crate::common::{delta, gaussian, sampled};
use dpopt_testkit::{is_long, one_in};

fn allocated(noise: f64, steps: u64, times: u64) -> Event {
    Event::RandomAllocation {
        num_steps: steps,
        num_participations: times,
        event: Box::new(gaussian(noise)),
    }
}

fn bounds(event: &Event, eps: f64) -> PldBounds {
    pld::delta(event, eps, Adjacency::AddRemove).unwrap()
}

fn holds(bounds: PldBounds, truth: f64) -> bool {
    bounds.lower <= truth * (1.0 + 1e-7)
        && bounds.upper >= truth * (1.0 - 1e-7)
        && bounds.upper <= truth * (1.0 + 1e-3)
        && bounds.lower >= truth * (1.0 - 1e-3)
}

fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `E (X - a)_+` of one log-normal X, at any a.
fn call(s: f64, a: f64) -> f64 {
    if a <= 0.0 {
        return 1.0 - a;
    }
    let x = a.ln() / s;
    tail(x - 0.5 * s) - a * tail(x + 0.5 * s)
}

/// Points of a midpoint rule: seven digits where the noise is half of the clip.
fn points(t: u32) -> i32 {
    if t == 2 { 4000 } else { 1600 }
}

/// `E (S/t - a)_+` by the midpoint rule over all but one of them.
fn curve(s: f64, t: u32, a: f64) -> f64 {
    let n = points(t);
    let width = 20.0 / f64::from(n);
    let mut sums = vec![(0.0, 1.0)];
    for _ in 1..t {
        sums = sums
            .into_iter()
            .flat_map(|(sum, mass)| {
                (0..n).map(move |i| {
                    let y = -10.0 + width * (f64::from(i) + 0.5);
                    let density = (-0.5 * y * y).exp() / std::f64::consts::TAU.sqrt();
                    (sum + (s * y - 0.5 * s * s).exp(), mass * density * width)
                })
            })
            .filter(|(_, mass)| *mass > 1e-18)
            .collect();
    }
    let t = f64::from(t);
    sums.into_iter()
        .map(|(sum, mass)| mass * call(s, t * a - sum) / t)
        .sum()
}

#[test]
fn few_steps_have_the_curve_of_a_direct_sum() {
    against(bounds, holds, |noise, steps, eps| {
        let s = 1.0 / noise;
        let remove = curve(s, steps, eps.exp());
        let add = 1.0 - eps.exp() + eps.exp() * curve(s, steps, (-eps).exp());
        remove.max(add)
    });
}

/// The accountant beside the truth, of whose sums the reference has seven digits, in 7 settings or more, in the long form in 200; and
/// one step more, which must be caught.
fn against(
    bounds: impl Fn(&Event, f64) -> PldBounds,
    holds: impl Fn(PldBounds, f64) -> bool,
    truth: impl Fn(f64, u32, f64) -> f64,
) {
    let mut settings = Vec::new();
    for noise in [0.5, 0.6, 0.7, 0.8, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0] {
        for steps in [2, 3] {
            for eps in [
                0.01_f64, 0.03, 0.05, 0.1, 0.2, 0.3, 0.4, 0.7, 1.0, 1.5, 2.0, 3.0,
            ] {
                settings.push((noise, steps, eps));
            }
        }
    }
    let most = settings.len();
    let mut done = 0;
    for (noise, steps, eps) in one_in(23, settings) {
        let truth = truth(noise, steps, eps);
        if truth < 1e-7 {
            continue;
        }
        let found = bounds(&allocated(noise, u64::from(steps), 1), eps);
        assert!(
            holds(found, truth),
            "{noise} {steps} {eps} {found:?} {truth}"
        );
        let twin = bounds(&allocated(noise, u64::from(steps) + 1, 1), eps);
        assert!(!holds(twin, truth), "{noise} {steps} {eps}");
        done += 1;
    }
    let least = if is_long() { 200 } else { most / 40 };
    assert!(done >= least, "{done}");
}

/// Densities on a grid of the plane of all sums of two steps: each record in one of the two.
fn densities(
    data: &[f64],
    noise: f64,
    grid: &[f64],
    second: &impl Fn(f64, f64) -> f64,
) -> Vec<f64> {
    let mut out = vec![0.0; grid.len() * grid.len()];
    let scale = 1.0 / (noise * std::f64::consts::TAU.sqrt() * f64::from(1 << data.len()).sqrt());
    for places in 0_u32..1 << data.len() {
        let sum = |step: u32, f: &dyn Fn(f64) -> f64| -> f64 {
            data.iter()
                .enumerate()
                .filter(|(i, _)| places >> i & 1 == step)
                .map(|(_, x)| f(*x))
                .sum()
        };
        let one = sum(0, &|x| x);
        for (i, x) in grid.iter().enumerate() {
            let first = (-0.5 * ((x - one) / noise).powi(2)).exp();
            let two = sum(1, &|record| second(record, *x));
            for (j, y) in grid.iter().enumerate() {
                let next = (-0.5 * ((y - two) / noise).powi(2)).exp();
                out[i * grid.len() + j] += scale * scale * first * next;
            }
        }
    }
    out
}

fn distance(p: &[f64], q: &[f64], eps: f64) -> f64 {
    let pairs = p.iter().zip(q);
    pairs.map(|(p, q)| (p - eps.exp() * q).max(0.0)).sum()
}

/// All assignments of up to four records to two steps, the second of which may depend on the first answer.
#[test]
fn no_small_data_set_passes_the_bound() {
    let noise = 1.3;
    let n = 240;
    let reach = 4.0 + 8.0 * noise;
    let width = 2.0 * reach / f64::from(n);
    let grid: Vec<f64> = (0..n)
        .map(|i| -reach + width * (f64::from(i) + 0.5))
        .collect();
    let event = allocated(noise, 2, 1);
    let (mut reached, mut reached_replaced) = (0, 0);
    for eps in [0.0_f64, 0.2, 0.8] {
        let bound = bounds(&event, eps);
        for (data, adaptive) in [
            (vec![0.0, 0.0, 0.0, 1.0], false),
            (vec![1.0, -1.0, 0.5, 1.0], false),
            (vec![1.0, 1.0, 1.0, -1.0], true),
            (vec![0.3, -0.8, 1.0], true),
            (vec![0.0, 1.0], true),
        ] {
            let second = |record: f64, seen: f64| {
                if adaptive && seen > 0.2 {
                    -record
                } else {
                    record
                }
            };
            let with = densities(&data, noise, &grid, &second);
            let mut turned = data.clone();
            if let Some(last) = turned.last_mut() {
                *last = -1.0;
            }
            let turned = densities(&turned, noise, &grid, &second);
            let bound_replaced = replaced(&allocated(0.5 * noise, 2, 1), eps);
            for (p, q) in [(&with, &turned), (&turned, &with)] {
                let truth = distance(p, q, eps) * width * width;
                assert!(
                    truth <= bound_replaced.upper * (1.0 + 1e-3),
                    "{data:?} {eps} {truth} {bound_replaced:?}"
                );
                reached_replaced += usize::from(truth >= bound_replaced.upper * (1.0 - 2e-2));
            }
            let without = densities(&data[..data.len() - 1], noise, &grid, &second);
            for (p, q) in [(&with, &without), (&without, &with)] {
                let truth = distance(p, q, eps) * width * width;
                assert!(
                    truth <= bound.upper * (1.0 + 1e-3),
                    "{data:?} {eps} {truth} {bound:?}"
                );
                reached += usize::from(truth >= bound.upper * (1.0 - 2e-2));
            }
        }
    }
    assert!(reached >= 6, "{reached}");
    assert!(reached_replaced >= 2, "{reached_replaced}");
}

/// Two of four steps: all six sets, by a grid in four dimensions.
#[test]
fn several_participations_are_bounded_by_their_parts() {
    let noise: f64 = 1.0;
    let n = 36;
    let width = 12.0 / f64::from(n);
    let ratio: Vec<(f64, f64)> = (0..n)
        .map(|i| {
            let x = -5.5 + width * (f64::from(i) + 0.5);
            let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt() * width;
            (density, (x / noise - 0.5 / (noise * noise)).exp())
        })
        .collect();
    for eps in [0.3_f64, 1.0, 2.0] {
        let (mut remove, mut add) = (0.0, 0.0);
        for (a, x) in &ratio {
            for (b, y) in &ratio {
                for (c, z) in &ratio {
                    for (d, w) in &ratio {
                        let likelihood = (x * y + x * z + x * w + y * z + y * w + z * w) / 6.0;
                        let mass = a * b * c * d;
                        remove += mass * (likelihood - eps.exp()).max(0.0);
                        add += mass * (1.0 - eps.exp() * likelihood).max(0.0);
                    }
                }
            }
        }
        let found = bounds(&allocated(noise, 4, 2), eps);
        let truth = remove.max(add);
        assert!(
            found.upper >= truth && found.upper <= 1.8 * truth,
            "{eps} {found:?} {truth}"
        );
        let parts = bounds(&allocated(noise, 2, 1).repeated(2), eps);
        assert_eq!(found.upper, parts.upper);
        // The parts are no lower bound: what they reach is above the truth.
        assert!(found.lower <= truth && parts.lower > truth, "{eps}");
    }
}

/// All steps are plain releases; two of three are none, and no lower bound is claimed.
#[test]
fn lower_ends_are_of_what_records_attain() {
    let all = bounds(&allocated(1.0, 3, 3), 1.0);
    assert!(all.lower > 0.9 * all.upper);
    let two = bounds(&allocated(1.0, 3, 2), 1.0);
    assert!(two.lower == 0.0 && two.upper > 0.0);
}

/// So many steps that sums of masses are not known any more.
#[test]
fn more_steps_than_rounding_allows_are_refused() {
    let event = allocated(1.0, 1 << 50, 1);
    let found = pld::delta(&event, 0.1, Adjacency::AddRemove);
    assert!(matches!(found, Err(PldError::Allocation { steps, .. }) if steps == 1 << 50));
}

/// Many steps, against draws of the mean of log-normals: five deviations of the estimate, once in 10^6.
#[test]
fn many_steps_agree_with_draws() {
    let (noise, steps, draws) = (0.8_f64, 200_u64, 100_000);
    let s = 1.0 / noise;
    let mut state = 88_172_645_463_325_252_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let eps = [0.02_f64, 0.1, 0.2];
    let mut sums = [(0.0, 0.0); 3];
    for _ in 0..draws {
        let mut total = 0.0;
        for _ in 0..steps / 2 {
            let (r, angle) = (
                (-2.0 * uniform().ln()).sqrt(),
                std::f64::consts::TAU * uniform(),
            );
            total += (s * r * angle.cos() - 0.5 * s * s).exp();
            total += (s * r * angle.sin() - 0.5 * s * s).exp();
        }
        for (sum, eps) in sums.iter_mut().zip(eps) {
            let value = (total / steps as f64 - eps.exp()).max(0.0);
            *sum = (sum.0 + value, sum.1 + value * value);
        }
    }
    for ((first, second), eps) in sums.into_iter().zip(eps) {
        let mean = first / f64::from(draws);
        let deviation = ((second / f64::from(draws) - mean * mean) / f64::from(draws)).sqrt();
        let found = bounds(&allocated(noise, steps, 1), eps);
        assert!(
            found.upper >= mean - 5.0 * deviation && found.lower <= mean + 5.0 * deviation,
            "{eps} {found:?} {mean} {deviation}"
        );
        assert!(found.width() <= 2e-3 * found.upper, "{found:?}");
    }
}

#[test]
fn an_epoch_of_many_steps_is_about_poisson_samples() {
    for (noise, steps, epochs, at) in [(1.0, 10_000_u64, 1_u64, 1e-6), (0.8, 1000, 10, 1e-5)] {
        let event = allocated(noise, steps, 1).repeated(epochs);
        let found = pld::epsilon(&event, delta(at), Adjacency::AddRemove).unwrap();
        let poisson = sampled(1.0 / steps as f64, noise, steps * epochs);
        let poisson = pld::epsilon(&poisson, delta(at), Adjacency::AddRemove).unwrap();
        assert!(found.upper <= 1.1 * poisson.upper && found.upper >= 0.5 * poisson.lower);
        assert!(found.width() <= 1e-3 * found.upper, "{found:?}");
        let first = Accountant::tightest_for(&event, Adjacency::ZeroOut);
        assert_eq!(first, Ok(Accountant::Pld));
    }
}

/// Nearly all cells lie thousands of deviations below the mean of a step with large noise: a quadrature there takes hours.
#[test]
fn large_noise_has_an_end() {
    for (noise, steps, eps) in [
        (1e3_f64, 2_u64, 1e-4),
        (1e4, 2, 1e-5),
        (1e3, 100, 1e-5),
        (1e5, 10, 1e-6),
        (1e6, 10, 1e-7),
    ] {
        // Of small shifts the mean of the likelihoods is that of one Gaussian, but for parts of s.
        let s = 1.0 / (noise * (steps as f64).sqrt());
        let truth = call(s, f64::exp(eps));
        let found = bounds(&allocated(noise, steps, 1), eps);
        let near = 2e-2 * truth;
        assert!(
            found.upper >= truth - near && found.lower <= truth + near,
            "{noise} {steps} {found:?} {truth}"
        );
        assert!(found.upper <= 1.1 * truth, "{noise} {found:?} {truth}");
    }
}

/// `E (f(u_1) + ... + f(u_t))_+ / t` with `f(u) = e^{su - s^2/2} - a e^{-su - s^2/2}`, by the midpoint rule over all but one of them.
fn replaced_curve(s: f64, t: u32, a: f64) -> f64 {
    let n = points(t);
    let width = 20.0 / f64::from(n);
    let f = |u: f64| (s * u - 0.5 * s * s).exp() - a * (-s * u - 0.5 * s * s).exp();
    let mut sums = vec![(0.0, 1.0)];
    for _ in 1..t {
        sums = sums
            .into_iter()
            .flat_map(|(sum, mass)| {
                (0..n).map(move |i| {
                    let y = -10.0 + width * (f64::from(i) + 0.5);
                    let density = (-0.5 * y * y).exp() / std::f64::consts::TAU.sqrt();
                    (sum + f(y), mass * density * width)
                })
            })
            .filter(|(_, mass)| *mass > 1e-18)
            .collect();
    }
    let last = |c: f64| {
        // Where f is -c: a quadratic equation in e^{su}.
        let w = -c * (0.5 * s * s).exp();
        let root = (w * w + 4.0 * a).sqrt();
        let y = if w > 0.0 {
            0.5 * (w + root)
        } else {
            2.0 * a / (root - w)
        };
        let u = y.ln() / s;
        tail(u - s) - a * tail(u + s) + c * tail(u)
    };
    let all: f64 = sums.into_iter().map(|(sum, mass)| mass * last(sum)).sum();
    all / f64::from(t)
}

fn replaced(event: &Event, eps: f64) -> PldBounds {
    pld::delta(event, eps, Adjacency::ReplaceOne).unwrap()
}

/// Noise is over twice the clip norm under replace-one, so `s = 1/(2z)`.
#[test]
fn few_steps_under_replace_one_have_the_curve_of_a_direct_sum() {
    let near = |found: PldBounds, truth: f64| {
        found.lower <= truth
            && found.upper >= truth * (1.0 - 1e-7)
            && found.upper <= truth * (1.0 + 1e-2)
    };
    against(replaced, near, |noise, steps, eps| {
        replaced_curve(0.5 / noise, steps, eps.exp())
    });
}

/// Beside draws: five deviations of the estimate, once in 10^6; and between one record that leaves, and one that leaves and one that comes.
#[test]
fn many_steps_under_replace_one_agree_with_draws() {
    let (noise, steps, draws) = (0.5_f64, 200_u64, 100_000);
    let s = 0.5 / noise;
    let mut state = 88_172_645_463_325_252_u64;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    let eps = [0.02_f64, 0.1, 0.2];
    let mut sums = [(0.0, 0.0); 3];
    for _ in 0..draws {
        let (mut own, mut other) = (0.0, 0.0);
        for _ in 0..steps / 2 {
            let (r, angle) = (
                (-2.0 * uniform().ln()).sqrt(),
                std::f64::consts::TAU * uniform(),
            );
            for u in [r * angle.cos(), r * angle.sin()] {
                own += (s * u - 0.5 * s * s).exp();
                other += (-s * u - 0.5 * s * s).exp();
            }
        }
        for (sum, eps) in sums.iter_mut().zip(eps) {
            let value = ((own - eps.exp() * other) / steps as f64).max(0.0);
            *sum = (sum.0 + value, sum.1 + value * value);
        }
    }
    for ((first, second), eps) in sums.into_iter().zip(eps) {
        let mean = first / f64::from(draws);
        let deviation = ((second / f64::from(draws) - mean * mean) / f64::from(draws)).sqrt();
        let found = replaced(&allocated(noise, steps, 1), eps);
        assert!(
            found.upper >= mean - 5.0 * deviation
                && found.upper <= mean + 5.0 * deviation + 1e-3 * mean,
            "{eps} {found:?} {mean} {deviation}"
        );
    }
    for (noise, steps, epochs) in [(0.6, 100_u64, 1_u64), (1.0, 1000, 10), (2.0, 10_000, 1)] {
        let event = allocated(noise, steps, 1).repeated(epochs);
        let found = pld::epsilon(&event, delta(1e-6), Adjacency::ReplaceOne).unwrap();
        let poisson = sampled(1.0 / steps as f64, noise, steps * epochs);
        let poisson = pld::epsilon(&poisson, delta(1e-6), Adjacency::ReplaceOne).unwrap();
        assert!(found.upper <= 1.1 * poisson.upper && found.upper >= 0.5 * poisson.lower);
        let alone = allocated(2.0 * noise, steps, 1).repeated(epochs);
        let alone = pld::epsilon(&alone, delta(1e-6), Adjacency::ZeroOut).unwrap();
        assert!(found.upper >= alone.lower, "{found:?} {alone:?}");
    }
}

#[test]
fn what_has_no_theorem_is_refused() {
    let event = allocated(1.0, 10, 1);
    for accountant in [Accountant::Rdp, Accountant::Exact, Accountant::Gdp] {
        assert!(
            accountant
                .epsilon(&event, delta(1e-5), Adjacency::AddRemove)
                .is_err()
        );
    }
    for (steps, times) in [(0, 1), (3, 0), (3, 4)] {
        let bad = allocated(1.0, steps, times);
        assert!(matches!(
            Accountant::Pld.epsilon(&bad, delta(1e-5), Adjacency::AddRemove),
            Err(AccountingError::Event(_))
        ));
    }
    // One step is all steps.
    let all = pld::epsilon(&allocated(2.0, 3, 3), delta(1e-5), Adjacency::AddRemove).unwrap();
    let plain = pld::epsilon(
        &gaussian(2.0).repeated(3),
        delta(1e-5),
        Adjacency::AddRemove,
    );
    assert!((all.upper - plain.unwrap().upper).abs() <= 1e-9);
    let refused = pld::epsilon(&allocated(0.03, 100, 1), delta(1e-5), Adjacency::AddRemove);
    assert!(matches!(refused, Err(PldError::Noise { value, smallest, .. }) if value < smallest));
    let refused = pld::epsilon(&allocated(0.1, 100, 1), delta(1e-5), Adjacency::ReplaceOne);
    assert!(matches!(refused, Err(PldError::TooFine { cells, limit }) if cells > limit));
}

/// Masses of the loss of two steps, the first of which the record takes part in, on a grid of `width`: by the midpoint rule over the first.
fn losses(s: f64, added: bool, width: f64, n: i32) -> Vec<f64> {
    let below = |v: f64| -> f64 {
        let (m, h) = (2000, 0.01);
        (0..m)
            .map(|i| {
                let u = -10.0 + h * (f64::from(i) + 0.5);
                let rest = 2.0 * v - (s * u - 0.5 * s * s).exp();
                if rest <= 0.0 {
                    return 0.0;
                }
                let shift = if added { 0.0 } else { s };
                let density =
                    (-0.5 * (u - shift) * (u - shift)).exp() / std::f64::consts::TAU.sqrt();
                h * density * tail(-(rest.ln() / s + 0.5 * s))
            })
            .sum()
    };
    let ends: Vec<f64> = (-n..=n + 1)
        .map(|i| (width * (f64::from(i) - 0.5)).exp())
        .collect();
    let masses = ends.windows(2).map(|v| match added {
        false => below(v[1]) - below(v[0]),
        // The loss is minus the logarithm.
        true => below(1.0 / v[0]) - below(1.0 / v[1]),
    });
    masses.collect()
}

/// Ten epochs of two steps, against a plain sum of losses on a grid, in both directions.
#[test]
fn several_epochs_have_the_curve_of_a_direct_sum() {
    let (width, n) = (0.01, 500);
    for noise in [0.8, 1.3] {
        let mut at = [0.0_f64; 4];
        let eps = [1.0_f64, 3.0, 5.0, 7.0];
        for added in [false, true] {
            let one = losses(1.0 / noise, added, width, n);
            let mut sum = vec![1.0];
            for _ in 0..10 {
                let mut next = vec![0.0; sum.len() + one.len() - 1];
                for (i, p) in sum.iter().enumerate().filter(|(_, p)| **p > 1e-25) {
                    for (slot, q) in next[i..].iter_mut().zip(&one) {
                        *slot += p * q;
                    }
                }
                sum = next;
            }
            let middle = 10.0 * f64::from(n);
            for (worst, eps) in at.iter_mut().zip(eps) {
                let delta = |(i, mass): (usize, &f64)| {
                    let loss = width * (i as f64 - middle);
                    mass * -(eps - loss).min(0.0).exp_m1()
                };
                *worst = worst.max(sum.iter().enumerate().map(delta).sum());
            }
        }
        let event = allocated(noise, 2, 1).repeated(10);
        for (eps, truth) in eps.into_iter().zip(at) {
            if truth < 1e-12 {
                continue;
            }
            let found = bounds(&event, eps);
            // The grid of the reference spreads a loss by a third of 10^-5 a step.
            assert!(
                found.upper >= truth * (1.0 - 2e-3) && found.lower <= truth * (1.0 + 2e-3),
                "{noise} {eps} {found:?} {truth}"
            );
            assert!(found.width() <= 5e-3 * truth, "{noise} {eps} {found:?}");
        }
    }
}

/// More noise and fewer epochs never cost more, and the ends are close: errors are no losses.
#[test]
fn several_epochs_are_tight_and_monotone() {
    for (adjacency, all, steps, epochs, at) in [
        (
            Adjacency::ZeroOut,
            [0.5, 0.9, 1.0, 1.1, 1.2],
            20_u64,
            10_u64,
            1e-5,
        ),
        (Adjacency::ZeroOut, [0.3, 0.7, 1.0, 1.4, 3.0], 50, 20, 1e-6),
        (
            Adjacency::ReplaceOne,
            [0.45, 0.5, 0.55, 0.6, 1.0],
            20,
            10,
            1e-5,
        ),
    ] {
        let cost = |noise, epochs| {
            let event = allocated(noise, steps, 1).repeated(epochs);
            pld::epsilon(&event, delta(at), adjacency).unwrap()
        };
        let mut last = f64::INFINITY;
        for noise in all {
            let found = cost(noise, epochs);
            let fewer = cost(noise, epochs / 2);
            assert!(
                found.upper < last && fewer.upper < found.upper,
                "{noise} {found:?} {fewer:?}"
            );
            last = found.upper;
            let poisson = sampled(1.0 / steps as f64, noise, steps * epochs);
            let poisson = pld::epsilon(&poisson, delta(at), adjacency).unwrap();
            assert!(
                found.upper <= 1.01 * poisson.upper,
                "{noise} {found:?} {poisson:?}"
            );
            if adjacency == Adjacency::ZeroOut {
                assert!(found.width() <= 1e-3 * found.upper, "{noise} {found:?}");
            }
        }
    }
}
