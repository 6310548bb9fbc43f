//! Laplace noise in the privacy-loss accountant, against values from outside.

use dpopt_accounting::accounting::pld::{self, PldBounds, PldError, PldOptions};
use dpopt_accounting::{Accountant, AccountingError, Adjacency, Delta, Event};
use proptest::prelude::*;

use crate::common::{EVERY, gaussian, laplace, rate};

fn sampled(event: Event, q: f64) -> Event {
    event.poisson_sampled(rate(q))
}

fn epsilon(event: &Event, delta: f64) -> PldBounds {
    pld::epsilon(event, Delta::new(delta).unwrap(), Adjacency::AddRemove).unwrap()
}

/// The truth, known to `error`, lies within bounds of relative width 0.001.
fn check(bounds: PldBounds, truth: f64, error: f64) {
    assert!(
        bounds.lower <= truth + error && truth - error <= bounds.upper,
        "{bounds:?} against {truth}"
    );
    assert!(bounds.width() <= 1e-3 * truth, "{bounds:?} for {truth}");
}

#[test]
fn compositions_bracket_the_tight_epsilon() {
    for (b, count, delta, truth, error) in [
        (50.0, 5000, 1e-6, 7.254276136844285, 3.9e-9),
        (0.5, 20, 1e-10, 39.99989518059986, 4.4e-7),
        (10.0, 100, 1e-5, 4.220347325090752, 1e-9),
        (2.0, 50, 1e-6, 18.75468138838783, 1.3e-8),
    ] {
        let event = laplace(b).repeated(count);
        for adjacency in EVERY {
            let bounds = pld::epsilon(&event, Delta::new(delta).unwrap(), adjacency).unwrap();
            check(bounds, truth, error);
        }
    }
}

#[test]
fn one_release_has_the_closed_form() {
    for (b, eps, truth) in [
        (1.0, 0.0, 0.3934693402873666),
        (10.0, 0.05, 0.024690087971667333),
        (0.3, 0.3, 0.7805578570073733),
        (1000.0, 1e-4, 0.0004498987651857916),
        (2.0, 0.0, 0.22119921692859512),
        (0.05, 0.0, 0.9999546000702375),
        (0.3, 0.05, 0.8063429885124811),
        (0.05, 10.0, 0.9932620530009145),
        (1.0, 0.3, 0.29531191028128656),
        (0.05, 0.05, 0.9999534507655438),
        (1.0, 0.999, 0.000499875020830711),
    ] {
        let bounds = pld::delta(&laplace(b), eps, Adjacency::ReplaceOne).unwrap();
        check(bounds, truth, 1e-12);
        let closed = -(0.5 * (eps - 1.0 / b)).exp_m1();
        assert!((closed - truth).abs() <= 1e-12 * truth);
    }
    // From the largest loss on nothing is left.
    for (b, eps) in [(0.3, 10.0), (1000.0, 0.05), (2.0, 0.9), (1.0, 2.0)] {
        let none = pld::delta(&laplace(b), eps, Adjacency::AddRemove).unwrap();
        assert_eq!((none.lower, none.upper), (0.0, 0.0));
    }
    for (b, delta) in [(1.0, 1e-2), (1.0, 1e-6), (5.0, 1e-10), (0.1, 1e-5)] {
        let bounds = epsilon(&laplace(b), delta);
        check(bounds, 1.0 / b + 2.0 * (-delta).ln_1p(), 1e-14);
    }
}

#[test]
fn a_mixture_of_everything_overlaps_the_prv_interval() {
    let event = Event::composed(vec![
        sampled(gaussian(0.8), 0.005).repeated(100),
        gaussian(8.0).repeated(200),
        laplace(10.0).repeated(100),
    ]);
    let bounds = epsilon(&event, 1e-6);
    assert!(bounds.lower <= 11.2534 && bounds.upper >= 11.0533);
    assert!(bounds.width() <= 1e-3 * bounds.lower, "{bounds:?}");
}

/// Delta of Laplace noise at any real epsilon, at most 1/b from 0 or not.
fn laplace_delta(b: f64, eps: f64) -> f64 {
    if eps >= 1.0 / b {
        0.0
    } else if eps <= -1.0 / b {
        -eps.exp_m1()
    } else {
        -(0.5 * (eps - 1.0 / b)).exp_m1()
    }
}

/// The expectation of `f` of the log ratio of Lap(1, b) and Lap(0, b) under the latter
/// (`heavy_top` false) or the former, by the midpoint rule.
fn expectation(b: f64, heavy_top: bool, f: impl Fn(f64) -> f64) -> f64 {
    let end = 1.0 / b;
    let sign = if heavy_top { 1.0 } else { -1.0 };
    let mut sum = 0.5 * f(sign * end) + 0.5 * (-end).exp() * f(-sign * end);
    let n = 200_000;
    let width = 2.0 * end / f64::from(n);
    for i in 0..n {
        let v = -end + width * (f64::from(i) + 0.5);
        sum += 0.25 * (0.5 * (v - end)).exp() * width * f(sign * v);
    }
    sum
}

#[test]
fn one_sample_has_the_amplified_delta() {
    // Balle, Barthe and Gaboardi 2018: an equality for the pair that removes.
    for (b, q, eps) in [
        (0.5, 0.2, 1.0),
        (1.0, 0.01, 0.5),
        (2.0, 0.9, 0.1),
        (0.1, 1e-3, 8.0),
        (0.3, 0.05, 0.0),
    ] {
        let amplified = (q * f64::exp_m1(eps)).ln_1p();
        let truth = q * laplace_delta(b, eps);
        for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
            let bounds = pld::delta(&sampled(laplace(b), q), amplified, adjacency).unwrap();
            check(bounds, truth, 1e-12);
        }
    }
}

#[test]
fn two_samples_have_the_delta_of_a_direct_sum() {
    for (b, q, eps) in [
        (0.5, 0.2, 1.0),
        (1.0, 0.05, 0.05),
        (0.4, 0.7, 2.0),
        (2.0, 0.5, 0.1),
    ] {
        let loss = |v: f64| (q * v.exp_m1()).ln_1p();
        let remove_one = |e: f64| {
            let ratio = (e.exp_m1() + q) / q;
            if ratio > 0.0 {
                q * laplace_delta(b, ratio.ln())
            } else {
                -e.exp_m1()
            }
        };
        let add_one = |e: f64| {
            let kept = 1.0 - (1.0 - q) * e.exp();
            if kept > 0.0 {
                kept * laplace_delta(b, (q * e.exp() / kept).ln())
            } else {
                0.0
            }
        };
        let remove = (1.0 - q) * expectation(b, false, |v| remove_one(eps - loss(v)))
            + q * expectation(b, true, |v| remove_one(eps - loss(v)));
        let add = expectation(b, false, |v| add_one(eps + loss(v)));
        let event = sampled(laplace(b), q).repeated(2);
        let bounds = pld::delta(&event, eps, Adjacency::AddRemove).unwrap();
        check(bounds, remove.max(add), 1e-8);
    }
    // At a tiny delta this is all but the largest loss; dp_accounting says 2.46964.
    let event = sampled(laplace(0.5), 0.2).repeated(3);
    let largest = 3.0 * (0.2 * 2.0_f64.exp_m1()).ln_1p();
    let bounds = epsilon(&event, 1e-10);
    assert!((largest - 2.46964).abs() < 1e-5);
    check(bounds, largest, 1e-5);
    assert!(bounds.upper <= largest * (1.0 + 1e-8));
}

#[test]
fn a_gaussian_beside_it_has_the_delta_of_a_direct_sum() {
    let tail = |t: f64| 0.5 * libm::erfc(t * std::f64::consts::FRAC_1_SQRT_2);
    for (b, z, eps) in [
        (1.0, 2.0, 1.0),
        (5.0, 1.0, 2.5),
        (0.2, 3.0, 4.0),
        (40.0, 0.5, 9.0),
    ] {
        let gaussian_delta = |e: f64| {
            let (a, c) = (e * z, 0.5 / z);
            tail(a - c) - e.exp() * tail(a + c)
        };
        let truth = expectation(b, true, |v| gaussian_delta(eps - v));
        let event = Event::composed(vec![gaussian(z), laplace(b)]);
        for adjacency in EVERY {
            check(
                pld::delta(&event, eps, adjacency).unwrap(),
                truth,
                1e-8 * truth,
            );
        }
    }
    // Different scales, of which one lattice holds the atoms of one only: three steps.
    let event = Event::composed(vec![gaussian(4.0), laplace(1.0), laplace(0.7)]);
    let truth = expectation(1.0, true, |v| {
        let (z, n, end) = (4.0, 400, 1.0 / 0.7);
        let one = |w: f64| {
            let e = 1.5 - v - w;
            tail(e * z - 0.5 / z) - e.exp() * tail(e * z + 0.5 / z)
        };
        let width = 2.0 * end / f64::from(n);
        let mut sum = 0.5 * one(end) + 0.5 * f64::exp(-end) * one(-end);
        for i in 0..n {
            let w = -end + width * (f64::from(i) + 0.5);
            sum += 0.25 * (0.5 * (w - end)).exp() * width * one(w);
        }
        sum
    });
    let bounds = pld::delta(&event, 1.5, Adjacency::ReplaceOne).unwrap();
    check(bounds, truth, 1e-5 * truth);
}

#[test]
fn the_statement_uses_the_least_of_three() {
    let delta = Delta::new(1e-6).unwrap();
    for event in [
        laplace(1.0),
        laplace(10.0).repeated(200),
        Event::composed(vec![laplace(3.0).repeated(20), gaussian(2.0)]),
        Event::composed(vec![
            laplace(3.0).repeated(20),
            sampled(gaussian(1.0), 0.01),
        ]),
    ] {
        for adjacency in EVERY {
            let first = Accountant::tightest_for(&event, adjacency);
            assert_eq!(first, Ok(Accountant::Pld));
            let (_, least) = Accountant::least(&event, delta, adjacency).unwrap();
            for other in Accountant::ALL {
                if let Ok(value) = other.epsilon(&event, delta, adjacency) {
                    assert!(least <= value, "{other} {value} {least}");
                }
            }
            assert!(matches!(
                Accountant::Exact.epsilon(&event, delta, adjacency),
                Err(AccountingError::UnsupportedEvent { .. })
            ));
        }
    }
}

#[test]
fn what_has_no_pair_on_the_line_is_refused() {
    let delta = Delta::new(1e-6).unwrap();
    let one = sampled(laplace(1.0), 0.1);
    assert!(matches!(
        pld::epsilon(&one, delta, Adjacency::ReplaceOne),
        Err(PldError::Unsupported { .. })
    ));
    assert!(matches!(
        Accountant::Pld.epsilon(&one, delta, Adjacency::ReplaceOne),
        Err(AccountingError::UnsupportedAdjacency { .. })
    ));
    assert_eq!(
        Accountant::tightest_for(&one, Adjacency::ZeroOut),
        Ok(Accountant::Pld)
    );
    let twice = sampled(laplace(1.0).repeated(2), 0.1);
    let both = sampled(Event::composed(vec![laplace(1.0), gaussian(1.0)]), 0.1);
    let nested = sampled(one, 0.5);
    // Of these the amplified epsilon is known under add-remove.
    for event in [twice, nested] {
        let bounds = pld::epsilon(&event, delta, Adjacency::AddRemove).unwrap();
        let amplified = Accountant::Pure.epsilon(&event, delta, Adjacency::AddRemove);
        assert!(bounds.upper <= amplified.unwrap() * (1.0 + 1e-6));
        assert!(pld::epsilon(&event, delta, Adjacency::ZeroOut).is_err());
    }
    {
        let event = both;
        assert!(matches!(
            pld::epsilon(&event, delta, Adjacency::AddRemove),
            Err(PldError::Unsupported { .. })
        ));
        assert!(matches!(
            Accountant::Pld.epsilon(&event, delta, Adjacency::AddRemove),
            Err(AccountingError::UnsupportedEvent { .. })
        ));
    }
    // A sample of everything is no sample.
    let all = sampled(laplace(1.0).repeated(2), 1.0);
    let bounds = pld::epsilon(&all, delta, Adjacency::ReplaceOne).unwrap();
    assert_eq!(bounds, epsilon(&laplace(1.0).repeated(2), 1e-6));
}

#[test]
fn extremes_give_bounds_or_errors() {
    for b in [2e-4, 1.0, 9e5] {
        for count in [1, 100_000] {
            for delta in [1e-200, 1e-5] {
                let plain = laplace(b).repeated(count);
                let rare = sampled(laplace(b), 1e-3).repeated(count);
                for event in [plain, rare] {
                    let asked = Delta::new(delta).unwrap();
                    let Ok(bounds) = pld::epsilon(&event, asked, Adjacency::AddRemove) else {
                        continue;
                    };
                    assert!(bounds.lower <= bounds.upper, "{event} {delta} {bounds:?}");
                    // Sampling never costs more than not sampling.
                    let renyi = Accountant::Rdp.epsilon(
                        &laplace(b).repeated(count),
                        asked,
                        Adjacency::AddRemove,
                    );
                    assert!(
                        bounds.lower <= renyi.unwrap() * (1.0 + 1e-9),
                        "{event} {delta} {bounds:?}"
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn bounds_are_ordered_and_monotone(
        ln_b in -1.5..4.0_f64,
        other in 0.3..30.0_f64,
        count in 1_u64..500,
        ln_delta in -40.0..-1.0_f64,
    ) {
        let b = ln_b.exp();
        let options = PldOptions::default().with_relative_width(1e-2);
        let event = |b: f64, count: u64| {
            Event::composed(vec![laplace(b).repeated(count), laplace(other).repeated(3)])
        };
        let at = |event: &Event, ln_delta: f64| {
            let delta = Delta::new(ln_delta.exp()).unwrap();
            pld::epsilon_with(event, delta, Adjacency::ReplaceOne, &options).unwrap()
        };
        let here = at(&event(b, count), ln_delta);
        prop_assert!(0.0 <= here.lower && here.lower <= here.upper, "{:?}", here);
        prop_assert!(here.lower <= at(&event(b, count + 1), ln_delta).upper);
        prop_assert!(here.lower <= at(&event(b, count), ln_delta - 0.5).upper);
        prop_assert!(here.lower <= at(&event(0.95 * b, count), ln_delta).upper);
        let delta = Delta::new(ln_delta.exp()).unwrap();
        for accountant in [Accountant::Rdp, Accountant::Pure] {
            let other = accountant.epsilon(&event(b, count), delta, Adjacency::ReplaceOne).unwrap();
            prop_assert!(here.upper <= other * (1.0 + 1e-2), "{accountant} {other} {:?}", here);
            prop_assert!(here.lower <= other * (1.0 + 1e-9), "{accountant} {other} {:?}", here);
        }
        let back = pld::delta(&event(b, count), here.upper, Adjacency::ReplaceOne).unwrap();
        prop_assert!(back.lower <= ln_delta.exp() * (1.0 + 1e-9));
    }
}
