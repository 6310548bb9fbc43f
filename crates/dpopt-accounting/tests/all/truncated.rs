//! Poisson samples with a largest batch, against all samples of small data sets and sums of closed forms.

use dpopt_accounting::accounting::{AccountingError, pld};
use dpopt_accounting::{Accountant, Adjacency, Event, EventProblem};

use crate::common::{EVERY, delta, rate, sampled, z};

fn truncated(n: u64, q: f64, most: u32, noise: f64) -> Event {
    Event::TruncatedSubsampledGaussian {
        dataset_size: n,
        sampling_probability: rate(q),
        truncated_batch_size: most,
        noise_multiplier: z(noise),
    }
}

fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `H_a` of two Gaussians at a distance of `mu`.
fn gaussians(mu: f64, a: f64) -> f64 {
    let x = a.ln() / mu;
    tail(x - 0.5 * mu) - a * tail(x + 0.5 * mu)
}

/// Worst of both orders of `(1-q) N(0) + q N(mu)` against N(0).
fn removal(q: f64, mu: f64, a: f64) -> f64 {
    q * gaussians(mu, 1.0 + (a - 1.0) / q)
}

/// Worst of both orders of the pair that replaces, by where its densities cross.
fn replacement(q: f64, mu: f64, a: f64) -> f64 {
    let e = |y: f64| (mu * y - 0.5 * mu * mu).exp();
    let ratio = |y: f64| (1.0 - q + q * e(y)) / (1.0 - q + q * e(-y));
    let (mut low, mut high) = (-100.0 / mu - 100.0, 100.0 / mu + 100.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if ratio(middle) < a {
            low = middle;
        } else {
            high = middle;
        }
    }
    let law = |centre: f64| (1.0 - q) * tail(low) + q * tail(low - centre);
    law(mu) - a * law(-mu)
}

/// P(at least b of n), term by term from the top.
fn at_least(n: u64, q: f64, b: u64) -> f64 {
    let mut sum = 0.0;
    for j in (b..=n).rev() {
        let ln = libm::lgamma(n as f64 + 1.0)
            - libm::lgamma(j as f64 + 1.0)
            - libm::lgamma((n - j) as f64 + 1.0)
            + j as f64 * q.ln()
            + (n - j) as f64 * (-q).ln_1p();
        sum += ln.exp();
    }
    sum
}

#[test]
fn one_step_has_the_closed_form() {
    let mut settings = 0;
    for (n, q, most) in [
        (100_u64, 0.1, 12_u32),
        (100, 0.1, 20),
        (1000, 0.01, 15),
        (10, 0.5, 6),
        (50, 0.5, 40),
        (10_000, 0.001, 30),
    ] {
        for noise in [0.7, 1.0, 2.0, 4.0] {
            for eps in [0.02, 0.1, 0.5, 1.5] {
                for adjacency in EVERY {
                    let a = f64::exp(eps);
                    let overflow = at_least(n, q, u64::from(most));
                    let (near, far) = match adjacency {
                        Adjacency::ReplaceOne => {
                            let mu = 1.0 / noise;
                            (replacement(q, 0.5 * mu, a), removal(q, mu, a))
                        }
                        _ => {
                            let mu = 1.0 / noise;
                            // The larger order of the removal pair is the first for a >= 1.
                            (removal(q, mu, a), removal(q, 2.0 * mu, a))
                        }
                    };
                    let truth = (1.0 - overflow) * near + overflow * far;
                    if truth < 1e-13 {
                        continue;
                    }
                    settings += 1;
                    let event = truncated(n, q, most, noise);
                    let found = pld::delta(&event, eps, adjacency).unwrap();
                    let at = format!("{n} {q} {most} {noise} {eps} {adjacency}: {found:?} {truth}");
                    assert!(found.upper >= truth * (1.0 - 1e-9), "{at}");
                    // Masses add up to 1 within 1e-12.
                    assert!(found.upper <= truth * (1.0 + 2e-3) + 1e-12, "{at}");
                    // What Poisson samples of a smaller rate attain.
                    let less = q * (1.0 - overflow);
                    let least = match adjacency {
                        Adjacency::ReplaceOne => replacement(less, 0.5 / noise, a),
                        _ => removal(less, 1.0 / noise, a),
                    };
                    // The closed form of the smaller rate cancels.
                    if least < 1e-11 {
                        continue;
                    }
                    assert!(found.lower <= least * (1.0 + 1e-6), "{at} {least}");
                    // The lattice is as fine as the upper end asks for.
                    let coarse = 1e-6 * found.upper;
                    assert!(found.lower >= least * (1.0 - 3e-3) - coarse, "{at} {least}");
                }
            }
        }
    }
    assert!(settings >= 200, "{settings}");
}

/// Law of the sum over a truncated sample: (sum, probability), over all subsets and all ways to cut them.
fn sums(data: &[f64], q: f64, most: usize) -> Vec<(f64, f64)> {
    let n = data.len();
    let mut out = Vec::new();
    for bits in 0_u32..1 << n {
        let taken: Vec<usize> = (0..n).filter(|i| bits >> i & 1 == 1).collect();
        let mass = q.powi(taken.len() as i32) * (1.0 - q).powi((n - taken.len()) as i32);
        if taken.len() <= most {
            out.push((taken.iter().map(|&i| data[i]).sum(), mass));
            continue;
        }
        let kept: Vec<u32> = (0_u32..1 << taken.len())
            .filter(|keep| keep.count_ones() as usize == most)
            .collect();
        for keep in &kept {
            let sum = taken
                .iter()
                .enumerate()
                .filter(|(i, _)| keep >> i & 1 == 1)
                .map(|(_, &i)| data[i])
                .sum();
            out.push((sum, mass / kept.len() as f64));
        }
    }
    out
}

fn brute(one: &[f64], other: &[f64], q: f64, most: usize, noise: f64, a: f64) -> f64 {
    let (p, q) = (sums(one, q, most), sums(other, q, most));
    let (n, reach) = (4000, 9.0 + 9.0 * noise);
    let width = 2.0 * reach / f64::from(n);
    let phi = |x: f64| (-0.5 * (x / noise).powi(2)).exp() / (noise * std::f64::consts::TAU.sqrt());
    // Equal sums together.
    let merge = |list: Vec<(f64, f64)>| {
        let mut list = list;
        list.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut out: Vec<(f64, f64)> = Vec::new();
        for (x, mass) in list {
            match out.last_mut() {
                Some(last) if (last.0 - x).abs() < 1e-12 => last.1 += mass,
                _ => out.push((x, mass)),
            }
        }
        out
    };
    let (p, q) = (merge(p), merge(q));
    (0..n)
        .map(|i| {
            let y = -reach + width * (f64::from(i) + 0.5);
            let law = |list: &[(f64, f64)]| -> f64 {
                list.iter().map(|(x, mass)| mass * phi(y - x)).sum()
            };
            (law(&p) - a * law(&q)).max(0.0)
        })
        .sum::<f64>()
        * width
}

#[test]
fn no_data_set_of_few_records_is_worse() {
    let (mut cases, mut above_poisson) = (0, 0);
    for (n, q, most) in [
        (8_usize, 0.25, 2_usize),
        (6, 0.5, 3),
        (7, 0.3, 3),
        (4, 0.5, 2),
        (3, 0.3, 1),
    ] {
        for noise in [0.6, 1.0] {
            for fill in [1.0, -1.0, 0.0, 0.5] {
                let rest: Vec<f64> = (0..n - 1)
                    .map(|i| {
                        if fill == 0.5 {
                            [1.0, -0.4, 0.2][i % 3]
                        } else {
                            fill
                        }
                    })
                    .collect();
                let with = |x: f64| [rest.clone(), vec![x]].concat();
                for eps in [0.1_f64, 0.7, 3.0] {
                    let a = eps.exp();
                    let size = n as u64;
                    let bound = |noise, adjacency| {
                        let event = truncated(size, q, most as u32, noise);
                        pld::delta(&event, eps, adjacency).unwrap().upper
                    };
                    let removed = bound(noise, Adjacency::AddRemove);
                    let zeroed = bound(noise, Adjacency::ZeroOut);
                    let swapped = bound(0.5 * noise, Adjacency::ReplaceOne);
                    let poisson =
                        pld::delta(&sampled(q, noise, 1), eps, Adjacency::AddRemove).unwrap();
                    for x in [1.0, -1.0] {
                        for (one, other, bound) in [
                            (with(x), rest.clone(), removed),
                            (rest.clone(), with(x), removed),
                            (with(x), with(0.0), zeroed),
                            (with(0.0), with(x), zeroed),
                            (with(x), with(-x), swapped),
                            (with(x), with(0.3), swapped),
                        ] {
                            let truth = brute(&one, &other, q, most, noise, a);
                            let at =
                                format!("{n} {q} {most} {noise} {fill} {x} {eps}: {truth} {bound}");
                            assert!(truth <= bound * (1.0 + 1e-6) + 1e-9, "{at}");
                            cases += 1;
                        }
                        let truth = brute(&with(x), &rest, q, most, noise, a);
                        above_poisson += u32::from(truth > poisson.upper * 1.001);
                    }
                }
            }
        }
    }
    assert!(cases >= 200, "{cases}");
    // To account a truncated sample as a Poisson sample is wrong, and these data sets show it.
    assert!(above_poisson >= 5, "{above_poisson}");
}

/// The bound by total variation: delta + T P(overflow) (1 + e^epsilon).
#[test]
fn a_run_costs_between_poisson_samples_and_the_bound_by_total_variation() {
    let (n, q, noise, steps) = (10_000_u64, 0.01, 1.0, 500_u64);
    let mut last = f64::INFINITY;
    for most in [110_u32, 120, 140, 160, 200] {
        let event = truncated(n, q, most, noise).repeated(steps);
        let (who, found) = Accountant::least(&event, delta(1e-5), Adjacency::AddRemove).unwrap();
        assert_eq!(who, Accountant::Pld);
        let (_, plain) =
            Accountant::least(&sampled(q, noise, steps), delta(1e-5), Adjacency::AddRemove)
                .unwrap();
        assert!(
            found >= plain * (1.0 - 1e-9) && found <= last * (1.0 + 1e-3),
            "{most} {found} {plain}"
        );
        last = found;
        let overflow = steps as f64 * at_least(n, q, u64::from(most));
        let left = 1e-5 - overflow * (1.0 + found.exp());
        if left > 1e-8 {
            let (_, coarse) =
                Accountant::least(&sampled(q, noise, steps), delta(left), Adjacency::AddRemove)
                    .unwrap();
            assert!(found <= coarse * 1.0015, "{most} {found} {coarse}");
        }
        if most == 200 {
            assert!(found <= plain * 1.0015, "{found} {plain}");
        }
    }
}

#[test]
fn a_limit_that_never_binds_costs_nothing_and_one_below_the_mean_is_refused() {
    let all = truncated(100, 0.1, 100, 1.0).repeated(10);
    for adjacency in EVERY {
        let (_, found) = Accountant::least(&all, delta(1e-5), adjacency).unwrap();
        let (_, plain) = Accountant::least(&sampled(0.1, 1.0, 10), delta(1e-5), adjacency).unwrap();
        assert_eq!(found, plain);
    }
    for (event, field) in [
        (truncated(100, 0.1, 9, 1.0), "truncated_batch_size"),
        (truncated(100, 0.1, 0, 1.0), "truncated_batch_size"),
        (truncated(0, 0.1, 5, 1.0), "dataset_size"),
    ] {
        let refused = Accountant::least(&event, delta(1e-5), Adjacency::AddRemove);
        let Err(AccountingError::Event(error)) = refused else {
            panic!("{refused:?}")
        };
        assert!(error.path.contains(field), "{error}");
        assert!(matches!(error.problem, EventProblem::Range { .. }));
    }
    let event = truncated(100, 0.1, 15, 1.0);
    let (_, least) = Accountant::least(&event, delta(1e-5), Adjacency::AddRemove).unwrap();
    let basic = Accountant::Basic
        .epsilon(&event, delta(1e-5), Adjacency::AddRemove)
        .unwrap();
    assert_eq!(basic, least);
    for accountant in [
        Accountant::Exact,
        Accountant::Rdp,
        Accountant::Gdp,
        Accountant::Pure,
    ] {
        assert!(
            accountant
                .epsilon(&event, delta(1e-5), Adjacency::AddRemove)
                .is_err()
        );
    }
}
