//! What accountants promise: safe rounding, monotonicity, inversion, refusals.

use dpopt_accounting::accounting::{gdp, rdp, zcdp};
use dpopt_accounting::{
    Accountant, AccountingError, Adjacency, Delta, Epsilon, Event, Mu, NoiseMultiplier, Rho,
    SamplingRate, calibrate, mu_for,
};
use proptest::prelude::*;

use crate::common::{adjacency, sampled, z};

proptest! {
    #[test]
    fn gaussian_epsilon_inverts_delta(log_mu in -30.0..9.0_f64, log_delta in -690.0..-0.01_f64) {
        let mu = Mu::new(log_mu.exp()).unwrap();
        let delta = Delta::new(log_delta.exp()).unwrap();
        let eps = gdp::epsilon(mu, delta);
        prop_assert!(eps >= 0.0 && eps.is_finite());
        if eps > 0.0 {
            let back = gdp::delta(mu, Epsilon::new(eps).unwrap());
            prop_assert!(back <= delta.get(), "{back:e} > {:e}", delta.get());
            // Just as tight: an epsilon 1e-10 lower violates delta, unless mu is so large that
            // the rounding of epsilon itself shows.
            let lower = eps * (1.0 - 1e-10) - 1e-12;
            if lower > 0.0 {
                prop_assert!(gdp::log_delta(mu.get(), lower) > delta.get().ln());
            }
        }
    }

    #[test]
    fn mu_for_inverts_epsilon(log_eps in -12.0..9.0_f64, log_delta in -690.0..-0.01_f64) {
        let eps = Epsilon::new(log_eps.exp()).unwrap();
        let delta = Delta::new(log_delta.exp()).unwrap();
        let mu = mu_for(eps, delta).unwrap();
        prop_assert!(gdp::delta(mu, eps) <= delta.get());
        prop_assert!(gdp::log_delta(mu.get() * (1.0 + 1e-10), eps.get()) > delta.get().ln());
    }

    #[test]
    fn concentrated_conversions_invert(log_rho in -25.0..8.0_f64, log_delta in -690.0..-0.01_f64) {
        let rho = Rho::new(log_rho.exp()).unwrap();
        let delta = Delta::new(log_delta.exp()).unwrap();
        let eps = zcdp::epsilon(rho, delta);
        // Never better than the exact Gaussian curve with the same rho.
        let exact = gdp::epsilon(Mu::new((2.0 * rho.get()).sqrt()).unwrap(), delta);
        prop_assert!(eps >= exact * (1.0 - 1e-12) - 1e-13, "{eps} < {exact}");
        if eps > 0.0 {
            let target = Epsilon::new(eps).unwrap();
            let back = zcdp::delta(rho, target);
            prop_assert!(back <= delta.get() * (1.0 + 1e-12), "{back:e} {:e}", delta.get());
            let again = zcdp::rho_for(target, delta).unwrap();
            prop_assert!(zcdp::epsilon(again, delta) <= eps);
            prop_assert!(again.get() >= rho.get() * (1.0 - 1e-9));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn renyi_epsilon_inverts_and_is_monotone(
        log_rate in -25.0..-0.001_f64,
        log_z in -1.8..4.0_f64,
        count in 1..100_000_u64,
        log_delta in -200.0..-0.5_f64,
        adjacency in adjacency(),
    ) {
        let rate = log_rate.exp();
        let delta = Delta::new(log_delta.exp()).unwrap();
        let event = sampled(rate, log_z.exp(), count);
        let eps = Accountant::Rdp.epsilon(&event, delta, adjacency).unwrap();
        prop_assert!(eps >= 0.0);
        if eps > 0.0 {
            let back = Accountant::Rdp.delta(&event, Epsilon::new(eps).unwrap(), adjacency).unwrap();
            prop_assert!(back <= delta.get() * (1.0 + 1e-9), "{back:e} > {:e}", delta.get());
        }
        let quieter = sampled(rate, 1.05 * log_z.exp(), count);
        prop_assert!(Accountant::Rdp.epsilon(&quieter, delta, adjacency).unwrap() <= eps);
        let rarer = sampled(0.9 * rate, log_z.exp(), count);
        prop_assert!(Accountant::Rdp.epsilon(&rarer, delta, adjacency).unwrap() <= eps);
        // Sampling never costs more than no sampling.
        let whole = Event::gaussian(z(log_z.exp())).repeated(count);
        let all = Accountant::Rdp.epsilon(&whole, delta, adjacency).unwrap();
        prop_assert!(eps <= all * (1.0 + 1e-11) + 1e-12, "{eps} > {all}");
    }

    #[test]
    fn renyi_divergence_grows_with_the_order(
        log_rate in -25.0..-0.001_f64,
        log_z in -6.0..6.0_f64,
        log_x in -15.0..15.0_f64,
        adjacency in adjacency(),
    ) {
        let rate = SamplingRate::new(log_rate.exp()).unwrap();
        let at = |x: f64| {
            rdp::poisson_gaussian(rate, z(log_z.exp()), 1.0 + x, adjacency).unwrap()
        };
        let (low, high) = (at(log_x.exp()), at(1.5 * log_x.exp()));
        prop_assert!(low > 0.0 && high >= low * (1.0 - 1e-11), "{low:e} {high:e}");
        let whole = rdp::gaussian(z(log_z.exp()), 1.0 + log_x.exp()).unwrap();
        prop_assert!(low <= whole * (1.0 + 1e-11), "{low:e} {whole:e}");
    }

    #[test]
    fn calibration_meets_its_target_and_is_not_wasteful(
        log_rate in -12.0..0.0_f64,
        count in 1..20_000_u64,
        log_eps in -3.0..3.0_f64,
        log_delta in -40.0..-3.0_f64,
        adjacency in adjacency(),
    ) {
        let (eps, delta) = (Epsilon::new(log_eps.exp()).unwrap(), Delta::new(log_delta.exp()).unwrap());
        let event = |m: NoiseMultiplier| sampled(log_rate.exp(), m.get(), count);
        match calibrate::noise_multiplier(Accountant::Rdp, eps, delta, adjacency, event) {
            Ok(found) => {
                let cost = |m| Accountant::Rdp.epsilon(&event(m), delta, adjacency).unwrap();
                prop_assert!(cost(found) <= eps.get());
                prop_assert!(cost(z(found.get() * (1.0 - 1e-6))) > eps.get());
            }
            Err(error) => prop_assert!(false, "{error}"),
        }
    }
}

const DELTA: f64 = 1e-5;

fn delta() -> Delta {
    Delta::new(DELTA).unwrap()
}

#[test]
fn nothing_released_costs_nothing() {
    for event in [
        Event::NoOp,
        Event::composed(vec![Event::NoOp]),
        Event::NoOp.repeated(7),
        Event::NoOp.poisson_sampled(SamplingRate::new(0.5).unwrap()),
    ] {
        for accountant in Accountant::ALL {
            assert_eq!(
                accountant.epsilon(&event, delta(), Adjacency::AddRemove),
                Ok(0.0)
            );
        }
    }
}

#[test]
fn accountants_refuse_what_they_have_no_theorem_for() {
    let rate = SamplingRate::new(0.1).unwrap();
    let once = sampled(0.1, 1.0, 10);
    for accountant in [Accountant::Gdp, Accountant::Zcdp] {
        let error = accountant
            .epsilon(&once, delta(), Adjacency::AddRemove)
            .unwrap_err();
        assert!(matches!(error, AccountingError::UnsupportedEvent { .. }));
        assert!(error.to_string().contains("0.1"), "{error}");
        assert!(
            accountant
                .delta(&once, Epsilon::new(1.0).unwrap(), Adjacency::AddRemove)
                .is_err()
        );
    }
    let twice = once.clone().poisson_sampled(rate);
    let unknown = Event::Unsupported {
        class_name: "LaplaceDpEvent".to_owned(),
    };
    for event in [
        twice,
        unknown.clone(),
        Event::composed(vec![once.clone(), unknown.poisson_sampled(rate)]),
    ] {
        for accountant in Accountant::ALL {
            assert!(matches!(
                accountant.epsilon(&event, delta(), Adjacency::AddRemove),
                Err(AccountingError::UnsupportedEvent { .. })
            ));
        }
        assert!(Accountant::tightest_for(&event, Adjacency::AddRemove).is_err());
    }
    for accountant in Accountant::ALL {
        assert_eq!(
            accountant.epsilon(&Event::NonPrivate, delta(), Adjacency::AddRemove),
            Err(AccountingError::Unprotected)
        );
    }
}

#[test]
fn several_gaussians_on_one_sample_are_one_gaussian() {
    let rate = SamplingRate::new(0.02).unwrap();
    // 1/1.5^2 + 1/2^2 = 1/1.2^2
    let pair = Event::composed(vec![Event::gaussian(z(1.5)), Event::gaussian(z(2.0))]);
    for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
        let one = Accountant::Rdp
            .epsilon(&sampled(0.02, 1.2, 500), delta(), adjacency)
            .unwrap();
        let two = Accountant::Rdp
            .epsilon(
                &pair.clone().poisson_sampled(rate).repeated(500),
                delta(),
                adjacency,
            )
            .unwrap();
        assert!((two / one - 1.0).abs() < 1e-12);
    }
}

/// Two Gaussians on one sample under replace-one, the second aimed by the answer of the first: none of the strategies tells the two records
/// apart better than the one Gaussian that is accounted, and the steady one as well as it.
#[test]
fn a_second_answer_on_one_sample_can_not_be_aimed() {
    const STEP: f64 = 0.04;
    let (rate, first, second) = (0.3, 0.8_f64, 0.6_f64);
    // Displacements over the noise are C/sigma = 1/(2 z).
    let event = Event::composed(vec![
        Event::gaussian(z(0.5 / first)),
        Event::gaussian(z(0.5 / second)),
    ])
    .poisson_sampled(SamplingRate::new(rate).unwrap());
    let grid: Vec<f64> = (-175..=175).map(|i| f64::from(i) * STEP).collect();
    let density = |y: f64| STEP * (-0.5 * y * y).exp() / std::f64::consts::TAU.sqrt();
    let ratio = |x: f64, y: f64| (x * y - 0.5 * x * x).exp();
    // What is moved by the one record and by the other, in the first release and after an answer above or below a threshold.
    type Aim = [(f64, f64); 3];
    let attack = |aim: Aim, threshold: f64, epsilon: f64| -> f64 {
        let odds = epsilon.exp();
        let mut delta = 0.0;
        for &y in &grid {
            let (one, other) = (ratio(first * aim[0].0, y), ratio(first * aim[0].1, y));
            let (x, w) = aim[if y > threshold { 1 } else { 2 }];
            let inner: f64 = grid
                .iter()
                .map(|&v| {
                    let (one, other) = (one * ratio(second * x, v), other * ratio(second * w, v));
                    let gap = (1.0 - rate) * (1.0 - odds) + rate * (one - odds * other);
                    density(v) * gap.max(0.0)
                })
                .sum();
            delta += density(y) * inner;
        }
        delta
    };
    let ends = [
        (1.0, -1.0),
        (-1.0, 1.0),
        (1.0, 0.0),
        (0.0, -1.0),
        (1.0, 1.0),
        (0.3, -1.0),
    ];
    for epsilon in [0.05, 0.4] {
        let bound = Accountant::Exact
            .delta(
                &event,
                Epsilon::new(epsilon).unwrap(),
                Adjacency::ReplaceOne,
            )
            .unwrap();
        let steady = attack([(1.0, -1.0); 3], 0.0, epsilon);
        assert!((steady / bound - 1.0).abs() < 2e-3, "{steady} {bound}");
        for above in ends {
            for below in ends {
                for threshold in [-0.5, 0.7] {
                    let found = attack([(1.0, -1.0), above, below], threshold, epsilon);
                    assert!(
                        found <= bound * (1.0 + 2e-3),
                        "{above:?} {below:?}: {found} {bound}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_sample_at_rate_one_is_no_sample() {
    let whole = SamplingRate::new(1.0).unwrap();
    let event = Event::gaussian(z(3.0)).poisson_sampled(whole).repeated(9);
    let accountant = Accountant::tightest_for(&event, Adjacency::ReplaceOne).unwrap();
    assert_eq!(accountant, Accountant::Gdp);
    let eps = accountant
        .epsilon(&event, delta(), Adjacency::ReplaceOne)
        .unwrap();
    // Noise multiplier 1 at delta 1e-5.
    assert!((eps - 4.377_178_095_681).abs() < 1e-11);
    // Rates next to one approach it.
    let almost = sampled(1.0 - 1e-12, 1.0, 1);
    for adjacency in [Adjacency::ReplaceOne, Adjacency::AddRemove] {
        let near = Accountant::Rdp
            .epsilon(&almost, delta(), adjacency)
            .unwrap();
        let at = Accountant::Rdp
            .epsilon(&Event::gaussian(z(1.0)), delta(), adjacency)
            .unwrap();
        assert!((near / at - 1.0).abs() < 1e-9, "{near} {at}");
    }
}

#[test]
fn unreachable_targets_are_errors_with_numbers() {
    let eps = Epsilon::new(1.0).unwrap();
    let fixed = |_: NoiseMultiplier| Event::gaussian(z(0.5));
    let error =
        calibrate::noise_multiplier(Accountant::Gdp, eps, delta(), Adjacency::AddRemove, fixed)
            .unwrap_err();
    match error {
        AccountingError::Unreachable {
            target_epsilon,
            achieved_epsilon,
            ..
        } => assert!(target_epsilon == 1.0 && achieved_epsilon > 1.0),
        other => panic!("{other}"),
    }
    let free = |_: NoiseMultiplier| Event::gaussian(z(50.0));
    assert!(matches!(
        calibrate::noise_multiplier(Accountant::Gdp, eps, delta(), Adjacency::AddRemove, free),
        Err(AccountingError::Unconstrained { .. })
    ));
}

#[test]
fn extreme_parameters_end_in_a_number_or_an_error() {
    for noise in [1e-200, 1e-100, 1e-6, 0.019, 0.021, 1e3, 1e15, 1e150, 1e308] {
        for rate in [1e-300, 1e-12, 0.5, 1.0 - 1e-16] {
            for count in [1, u64::MAX] {
                for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
                    let event = sampled(rate, noise, count);
                    match Accountant::Rdp.epsilon(&event, delta(), adjacency) {
                        Ok(eps) => assert!(eps.is_finite() && eps >= 0.0),
                        Err(error) => {
                            assert!(matches!(error, AccountingError::OutOfRange { .. }));
                        }
                    }
                }
            }
        }
    }
    for order in [1.0, 0.5, f64::NAN, f64::INFINITY] {
        assert!(rdp::gaussian(z(1.0), order).is_err());
    }
}

#[test]
fn names_round_trip() {
    for accountant in Accountant::ALL {
        assert_eq!(accountant.to_string().parse(), Ok(accountant));
        assert_eq!(
            serde_json::to_string(&accountant).unwrap(),
            format!("\"{accountant}\"")
        );
    }
    assert!("pld2".parse::<Accountant>().is_err());
}

#[test]
fn counts_beyond_u64_are_refused() {
    // 2^80 releases at multiplier 1e12 have mu^2 = 1.2; counted as 2^64 - 1 it would be 2e-5.
    let delta = Delta::new(1e-6).unwrap();
    let many = Event::gaussian(z(1e12)).repeated(1 << 40).repeated(1 << 40);
    let sampled = sampled(0.5, 1e12, 1 << 40).repeated(1 << 40);
    for accountant in Accountant::ALL {
        for event in [&many, &sampled] {
            assert!(
                accountant
                    .epsilon(event, delta, Adjacency::AddRemove)
                    .is_err(),
                "{accountant} {event}"
            );
        }
    }
}

#[test]
fn noise_whose_square_overflows_does_not_make_a_release_vanish() {
    let event = sampled(0.5, 1e200, 1);
    let epsilon =
        Accountant::Pld.epsilon(&event, Delta::new(1e-300).unwrap(), Adjacency::AddRemove);
    assert!(epsilon.is_err(), "{epsilon:?}");
}
