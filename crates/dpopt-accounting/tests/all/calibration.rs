//! Calibration over every free parameter: never past the target, and no further from it than
//! stated.

use dpopt_accounting::{
    Accountant, AccountingError, Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate,
    calibrate,
};
use proptest::prelude::*;

use crate::common::{self, delta, epsilon, gaussian, rate, z};

fn sampled(q: f64, noise: f64, count: u64) -> Event {
    if q < 1.0 {
        common::sampled(q, noise, count)
    } else {
        gaussian(noise).repeated(count)
    }
}

fn adjacency() -> impl Strategy<Value = Adjacency> {
    prop_oneof![Just(Adjacency::ReplaceOne), Just(Adjacency::AddRemove)]
}

/// Checks that `count` is the largest number of steps: the next one passes the target.
fn check_steps(
    accountant: Accountant,
    target: (Epsilon, Delta),
    adjacency: Adjacency,
    event: impl Fn(u64) -> Event,
) -> Result<(), TestCaseError> {
    let cost = |n| accountant.epsilon(&event(n), target.1, adjacency);
    match calibrate::steps(accountant, target.0, target.1, adjacency, &event) {
        Ok(count) => {
            prop_assert!(cost(count).unwrap() <= target.0.get());
            prop_assert!(cost(count + 1).unwrap() > target.0.get());
        }
        Err(AccountingError::Unreachable {
            achieved_epsilon, ..
        }) => {
            prop_assert!(achieved_epsilon > target.0.get());
            prop_assert_eq!(cost(1).unwrap(), achieved_epsilon);
        }
        Err(AccountingError::Unconstrained { value, .. }) => {
            prop_assert!(cost(value as u64).unwrap() <= target.0.get());
        }
        Err(error) => prop_assert!(false, "{}", error),
    }
    Ok(())
}

proptest! {
    #[test]
    fn steps_are_the_largest_number_that_fits(
        log_noise in -2.0..12.0_f64,
        log_eps in -3.0..4.0_f64,
        log_delta in -60.0..-2.0_f64,
        gdp in any::<bool>(),
    ) {
        let target = (epsilon(log_eps.exp()), delta(log_delta.exp()));
        let accountant = if gdp { Accountant::Gdp } else { Accountant::Zcdp };
        let event = |n| sampled(1.0, log_noise.exp(), n);
        check_steps(accountant, target, Adjacency::ReplaceOne, event)?;
    }

    #[test]
    fn sampled_steps_are_the_largest_number_that_fits(
        log_rate in -9.0..0.0_f64,
        log_noise in -0.7..3.0_f64,
        log_eps in -2.0..2.5_f64,
        adjacency in adjacency(),
    ) {
        let target = (epsilon(log_eps.exp()), delta(1e-6));
        let event = |n| sampled(log_rate.exp(), log_noise.exp(), n);
        check_steps(Accountant::Rdp, target, adjacency, event)?;
    }

    #[test]
    fn sampling_rates_fit_and_a_millionth_more_does_not(
        log_noise in -0.7..3.0_f64,
        log_count in 0.0..9.0_f64,
        log_eps in -2.0..2.5_f64,
        adjacency in adjacency(),
    ) {
        let (eps, delta) = (epsilon(log_eps.exp()), delta(1e-6));
        let event = |q: SamplingRate| sampled(q.get(), log_noise.exp(), log_count.exp() as u64);
        let cost = |q: f64| Accountant::Rdp.epsilon(&event(rate(q)), delta, adjacency).unwrap();
        match calibrate::sampling_rate(Accountant::Rdp, eps, delta, adjacency, event) {
            Ok(found) => {
                prop_assert!(cost(found.get()) <= eps.get());
                let more = found.get() * (1.0 + 1e-6);
                prop_assert!(more >= 1.0 || cost(more) > eps.get());
            }
            Err(AccountingError::Unreachable { value, achieved_epsilon, .. }) => {
                prop_assert!(achieved_epsilon > eps.get());
                prop_assert_eq!(cost(value), achieved_epsilon);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn gaussian_noise_fits_and_a_millionth_less_does_not(
        count in 1..1_000_000_000_u64,
        log_eps in -4.0..5.0_f64,
        log_delta in -200.0..-1.0_f64,
        gdp in any::<bool>(),
    ) {
        let (eps, delta) = (epsilon(log_eps.exp()), delta(log_delta.exp()));
        let accountant = if gdp { Accountant::Gdp } else { Accountant::Zcdp };
        let event = |m: NoiseMultiplier| sampled(1.0, m.get(), count);
        let relation = Adjacency::AddRemove;
        let found = calibrate::noise_multiplier(accountant, eps, delta, relation, event).unwrap();
        let cost = |m| accountant.epsilon(&event(m), delta, relation).unwrap();
        prop_assert!(cost(found) <= eps.get());
        prop_assert!(cost(z(found.get() * (1.0 - 1e-6))) > eps.get());
    }
}

/// The privacy-loss distribution has a numerical width of its own: the answer still never
/// passes the target, and lies where the truth can.
#[test]
fn a_wavering_accountant_never_overshoots() {
    let relation = Adjacency::AddRemove;
    for (q, noise, count, eps) in [(0.01, 1.0, 1000, 1.8), (0.05, 2.0, 300, 2.0)] {
        let (eps, delta) = (epsilon(eps), delta(1e-5));
        let cost = |event: &Event| Accountant::Pld.epsilon(event, delta, relation).unwrap();
        let steps = calibrate::steps(Accountant::Pld, eps, delta, relation, |n| {
            sampled(q, noise, n)
        });
        let steps = steps.unwrap();
        assert!(cost(&sampled(q, noise, steps)) <= eps.get());
        assert!(cost(&sampled(q, noise, steps + 1 + steps / 200)) > eps.get());
        let found = calibrate::sampling_rate(Accountant::Pld, eps, delta, relation, |q| {
            sampled(q.get(), noise, count)
        });
        let found = found.unwrap().get();
        assert!(cost(&sampled(found, noise, count)) <= eps.get());
        assert!(cost(&sampled(found * 1.003, noise, count)) > eps.get());
    }
}

/// Published: `dp_accounting`'s calibration of a sampled Gaussian to epsilon 1 at 1e-5 for
/// one step at rate 0.01 says 0.67379294682.
#[test]
fn published_calibrations_are_met() {
    let found = calibrate::noise_multiplier(
        Accountant::Pld,
        epsilon(1.0),
        delta(1e-5),
        Adjacency::AddRemove,
        |m| sampled(0.01, m.get(), 1),
    )
    .unwrap()
    .get();
    assert!((found / 0.673_792_946_82 - 1.0).abs() < 1e-3, "{found}");
}

#[test]
fn targets_out_of_reach_say_by_how_much() {
    let (eps, delta) = (epsilon(0.1), delta(1e-6));
    let relation = Adjacency::AddRemove;
    let event = |n| sampled(1.0, 2.0, n);
    let error = calibrate::steps(Accountant::Gdp, eps, delta, relation, event).unwrap_err();
    let message = error.to_string();
    for word in ["0.1", "1e-6", "number of steps 1", "still 2."] {
        assert!(message.contains(word) || word == "1e-6", "{message}");
    }
    let fixed =
        |q: SamplingRate| Event::composed(vec![sampled(1.0, 2.0, 1), sampled(q.get(), 2.0, 1)]);
    let error = calibrate::sampling_rate(Accountant::Rdp, eps, delta, relation, fixed).unwrap_err();
    match error {
        AccountingError::Unreachable {
            parameter,
            achieved_epsilon,
            ..
        } => {
            assert_eq!(parameter, calibrate::Parameter::SamplingRate);
            assert!(achieved_epsilon > 1.0);
        }
        other => panic!("{other}"),
    }
    let nothing = |_| Event::NoOp;
    assert!(matches!(
        calibrate::steps(Accountant::Gdp, eps, delta, relation, nothing),
        Err(AccountingError::Unconstrained { .. })
    ));
    let refused = |n| sampled(0.1, 2.0, n);
    assert!(matches!(
        calibrate::steps(Accountant::Gdp, eps, delta, relation, refused),
        Err(AccountingError::UnsupportedEvent { .. })
    ));
    // A rate of one meets the target: that is the answer.
    let free = |q: SamplingRate| sampled(q.get(), 1e5, 1);
    let found = calibrate::sampling_rate(Accountant::Pld, eps, delta, relation, free).unwrap();
    assert_eq!(found.get(), 1.0);
}
