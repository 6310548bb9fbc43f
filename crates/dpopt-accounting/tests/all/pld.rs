//! The privacy-loss accountant against values from outside.

use dpopt_accounting::accounting::pld::{self, PldBounds, PldError, PldOptions};
use dpopt_accounting::{Adjacency, Delta, Event};
use proptest::prelude::*;

use crate::common::{EVERY, delta, gaussian, rate, rows, steps};

fn epsilon(list: &[(f64, f64, u64)], at: f64) -> PldBounds {
    pld::epsilon(&steps(list), delta(at), Adjacency::AddRemove).unwrap()
}

/// Contour integration in double precision, the same at two abscissas.
const REPLACE_A: f64 = 2.84344025910832;
const REPLACE_B: f64 = 2.0037048574537044;

/// Whether the bounds hold `truth` and are as close as promised.
fn check(bounds: PldBounds, truth: f64, relative_error: f64, width: f64) {
    assert!(
        bounds.lower <= truth * (1.0 + relative_error)
            && bounds.upper >= truth * (1.0 - relative_error),
        "{bounds:?} against {truth}"
    );
    assert!(
        bounds.upper - bounds.lower <= width * truth,
        "{bounds:?} are wide for {truth}"
    );
}

#[test]
fn reference_epsilons_lie_within_the_bounds() {
    for row in rows("dpsgd_epsilon") {
        let bounds = epsilon(&row.steps(), row.second());
        // A few rare far jumps make this one: the lower bound is poor.
        let rare = row.steps()[0].0 == 1e-5;
        check(bounds, row.value, 1e-8, if rare { 0.3 } else { 1e-3 });
        if rare {
            check(bounds, bounds.upper, 0.3, 0.3);
            assert!(bounds.upper <= 4.0983, "{bounds:?}");
        }
    }
    // Bounds of another tool; no tight value is known.
    let bounds = epsilon(&[(1e-6, 1.0, 1_000_000)], 1e-9);
    assert!(bounds.lower >= 0.001_375_6 && bounds.upper <= 0.011_376_3);
}

#[test]
fn brackets_of_another_accountant_overlap() {
    for (q, z, t, delta, low, high) in [
        (256.0 / 60000.0, 1.1, 14040, 1e-5, 2.3694, 2.3897),
        (0.01, 1.0, 1000, 1e-5, 1.8181, 1.8384),
        (0.01, 0.5, 1000, 1e-5, 13.351, 13.373),
        (0.05, 0.1, 1000, 1e-5, 3835.0, 3845.0),
        (0.5, 0.5, 200, 1e-5, 230.95, 231.15),
        (0.9, 0.5, 200, 1e-5, 455.0, 455.2),
        (0.5, 1.0, 1000, 1e-5, 218.1, 219.1),
        (0.05, 2.0, 1000, 1e-6, 4.1524, 4.1728),
    ] {
        let bounds = epsilon(&[(q, z, t)], delta);
        assert!(
            bounds.lower <= high && bounds.upper >= low && bounds.width() <= 2e-3 * high,
            "{q} {z} {t}: {bounds:?}"
        );
    }
}

#[test]
fn the_prv_table_and_other_tools_agree() {
    // Upper ends with an error of 0.01, so the truth is up to about 0.02 below.
    for (t, q, row) in [
        (100, 0.001, [0.270403, 0.039369, 0.029105, 0.021520]),
        (100, 0.05, [6.741052, 1.953853, 1.283637, 0.767934]),
        (100, 0.2, [24.333664, 8.498978, 5.672056, 3.381221]),
        (1000, 0.001, [0.477771, 0.099821, 0.071219, 0.047616]),
        (1000, 0.05, [19.525843, 6.209969, 4.172800, 2.527574]),
        (20000, 0.001, [1.296009, 0.437005, 0.305838, 0.194031]),
        (20000, 0.05, [140.655, 38.306618, 24.421719, 13.961115]),
        (50000, 0.001, [2.034515, 0.704218, 0.491355, 0.309694]),
        (50000, 0.05, [291.384, 73.190177, 45.236996, 24.942006]),
    ] {
        for (z, upper) in [0.8, 1.5, 2.0, 3.0].into_iter().zip(row) {
            let bounds = epsilon(&[(q, z, t)], 1e-6);
            assert!(
                bounds.lower <= upper && bounds.upper >= upper - 0.0215,
                "{q} {z} {t}: {bounds:?} against {upper}"
            );
        }
    }
    for (z, q, t, delta, pld) in [
        (1.1, 0.01, 10000, 1e-5, 5.19262012),
        (0.8, 0.001, 1000, 1e-6, 0.46769496),
        (1.5, 0.04, 2250, 1e-5, 6.76878737),
        (2.0, 0.05, 1000, 1e-6, 4.16261126),
        (0.5, 0.01, 1000, 1e-5, 13.36098107),
        (1.1, 256.0 / 60000.0, 14040, 1e-5, 2.37964352),
        (5.0, 0.2, 500, 1e-6, 4.41474664),
        (4.0, 1.0, 1, 1e-6, 1.06070186),
        (1.0, 1.0, 1, 1e-5, 4.37717810),
        (1.0, 1.0, 100, 1e-5, 91.81728962),
        (10.0, 1.0, 500, 1e-6, 12.59524674),
    ] {
        // That tool's step of 1e-4 leaves about 1e-4 relative.
        check(epsilon(&[(q, z, t)], delta), pld, 1.5e-4, 1.2e-3);
    }
}

#[test]
fn gaussians_compose_to_their_exact_epsilon() {
    for row in rows("gaussian_composition") {
        for adjacency in EVERY {
            let at = delta(row.second());
            let bounds = pld::epsilon(&row.gaussians(), at, adjacency).unwrap();
            check(bounds, row.value, 1e-10, 1e-3);
        }
    }
}

#[test]
fn deltas_of_other_tools_agree() {
    let delta = |list: &[(f64, f64, u64)], eps: f64| {
        pld::delta(&steps(list), eps, Adjacency::AddRemove).unwrap()
    };
    check(delta(&[(1.0, 1.0, 1)], 1.0), 0.12693674, 1e-7, 1e-3);
    check(delta(&[(1.0, 1.0, 1)], 2.0), 0.02092364, 1e-6, 1e-3);
    check(
        delta(&[(1.0, 3.0_f64.sqrt(), 3)], 1.0),
        0.126936,
        1e-5,
        1e-3,
    );
    check(delta(&[(0.2, 0.5, 3)], 1.0), 0.15594, 1e-4, 2e-3);
    // log delta at a point of the reference curves.
    for (list, eps, ln_delta) in [
        (&[(0.01, 1.0, 10000)][..], 4.33, -6.579152828766114_f64),
        (&[(0.01, 1.0, 10000)], 12.3, -37.34741655849589),
        (&[(0.2, 3.0, 300)], 5.77, -12.54533629407012),
    ] {
        check(delta(list, eps), ln_delta.exp(), 1e-6, 2e-3);
    }
}

#[test]
fn replace_one_uses_the_antipodal_pair() {
    // By contour integration in another language; see docs/privacy/accounting.md.
    let replace = |list: &[(f64, f64, u64)], at: f64| {
        pld::epsilon(&steps(list), delta(at), Adjacency::ReplaceOne).unwrap()
    };
    check(replace(&[(0.01, 0.5, 1000)], 1e-5), REPLACE_A, 1e-6, 1e-3);
    check(replace(&[(0.02, 1.0, 500)], 1e-6), REPLACE_B, 1e-6, 1e-3);
    let plain = replace(&[(1.0, 1.0, 1)], 1e-5);
    check(plain, 4.377178095681, 1e-9, 1e-3);
}

#[test]
fn doubling_the_sensitivity_of_the_add_remove_pair_is_not_a_bound() {
    // Standard deviation C, two queries at rate 0.95: noise multiplier 0.5 over 2C. The
    // values are two-dimensional sums over the pairs, good to about 1e-4.
    let event = steps(&[(0.95, 0.5, 2)]);
    let replace = pld::delta(&event, 0.1, Adjacency::ReplaceOne).unwrap();
    let doubled = pld::delta(&event, 0.1, Adjacency::AddRemove).unwrap();
    assert!(
        replace.lower > doubled.upper,
        "{replace:?} against {doubled:?}"
    );
    check(replace, 0.8003579, 1e-4, 2e-3);
    check(doubled, 0.7956803, 1e-4, 2e-3);
}

#[test]
fn one_sample_with_several_gaussians_is_one_gaussian() {
    let rate = rate(0.1);
    let two = Event::composed(vec![gaussian(2.0), gaussian(2.0)]).poisson_sampled(rate);
    let one = gaussian(2.0_f64.sqrt()).poisson_sampled(rate);
    let at = |event: &Event| pld::delta(event, 0.5, Adjacency::ZeroOut).unwrap();
    let (a, b) = (at(&two), at(&one));
    assert!(a.lower <= b.upper && b.lower <= a.upper);
    assert!((a.upper / b.upper - 1.0).abs() < 1e-9);
}

#[test]
fn what_has_no_pair_is_refused() {
    let delta = Delta::new(1e-5).unwrap();
    let rate = rate(0.1);
    for event in [
        Event::NonPrivate,
        Event::Unsupported {
            class_name: "LaplaceDpEvent".to_owned(),
        },
        gaussian(1.0).poisson_sampled(rate).poisson_sampled(rate),
    ] {
        assert!(matches!(
            pld::epsilon(&event, delta, Adjacency::AddRemove),
            Err(PldError::Unsupported { .. })
        ));
    }
    assert!(matches!(
        pld::epsilon(
            &gaussian(1.0).repeated(u64::MAX),
            delta,
            Adjacency::AddRemove
        ),
        Err(PldError::TooManySteps { .. })
    ));
    assert!(matches!(
        pld::delta(&gaussian(1.0), -1.0, Adjacency::AddRemove),
        Err(PldError::BadEpsilon { .. })
    ));
    let nothing = pld::epsilon(&Event::NoOp, delta, Adjacency::AddRemove).unwrap();
    assert_eq!((nothing.lower, nothing.upper), (0.0, 0.0));
}

#[test]
fn a_hundred_thousand_steps_are_quick_and_options_count() {
    let event = steps(&[(0.001, 1.0, 100_000)]);
    let options = PldOptions::default().with_relative_width(1e-2);
    let delta = Delta::new(1e-6).unwrap();
    let bounds = pld::epsilon_with(&event, delta, Adjacency::AddRemove, &options).unwrap();
    check(bounds, 1.8610474589628179, 1e-8, 1e-2);
    let bad = PldOptions::default().with_relative_width(-1.0);
    assert!(matches!(
        pld::epsilon_with(&event, delta, Adjacency::AddRemove, &bad),
        Err(PldError::BadOption { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn bounds_are_ordered_and_monotone(
        ln_q in -7.0..-0.01_f64,
        z in 0.5..4.0_f64,
        t in 1_u64..2000,
        ln_delta in -30.0..-3.0_f64,
        replace in any::<bool>(),
    ) {
        let adjacency = if replace { Adjacency::ReplaceOne } else { Adjacency::AddRemove };
        let options = PldOptions::default().with_relative_width(1e-2);
        let at = |q: f64, t: u64, ln_delta: f64| {
            let delta = Delta::new(ln_delta.exp()).unwrap();
            pld::epsilon_with(&steps(&[(q, z, t)]), delta, adjacency, &options).unwrap()
        };
        let q = ln_q.exp();
        let here = at(q, t, ln_delta);
        prop_assert!(0.0 <= here.lower && here.lower <= here.upper, "{:?}", here);
        prop_assert!(here.lower <= at(q, t + 1, ln_delta).upper);
        prop_assert!(here.lower <= at(q, t, ln_delta - 0.5).upper);
        prop_assert!(here.lower <= at((1.1 * q).min(1.0), t, ln_delta).upper);
        // Back again: delta at the bounds of epsilon surrounds the delta asked for.
        if here.upper > 0.0 && here.upper.is_finite() {
            let back = pld::delta(&steps(&[(q, z, t)]), here.upper, adjacency).unwrap();
            prop_assert!(back.lower <= ln_delta.exp() * (1.0 + 1e-9));
        }
    }
}
