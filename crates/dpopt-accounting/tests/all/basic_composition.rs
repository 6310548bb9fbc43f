//! Selections and approximate events beside Gaussians: the sum of what each group costs, and no more.

use dpopt_accounting::{Accountant, AccountingError, Adjacency, Epsilon, Event, SamplingRate};
use proptest::prelude::*;

use crate::common::{delta, sampled, z};

const RELATION: Adjacency = Adjacency::AddRemove;

fn above(epsilon: f64) -> Event {
    Event::AboveThreshold {
        epsilon: Epsilon::new(epsilon).unwrap(),
    }
}

/// 1000 steps of DP-SGD at rate .01 with noise of one sensitivity: epsilon 1.8282367 at 1e-5, by quadrature outside of this crate.
fn training() -> Event {
    sampled(0.01, 1.0, 1000)
}

const ALONE: f64 = 1.828_236_7;

fn least(event: &Event, at: f64) -> (Accountant, f64) {
    Accountant::least(event, delta(at), RELATION).unwrap()
}

#[test]
fn a_selection_beside_samples_costs_its_epsilon() {
    assert!((least(&training(), 1e-5).1 - ALONE).abs() < 1e-6);
    for one in [1e-4, 0.1] {
        let both = Event::composed(vec![training(), above(one)]);
        let (who, epsilon) = least(&both, 1e-5);
        // The Renyi bound says 2.1014 and 2.1372 here, and the privacy-loss distribution less than the sum.
        assert!(matches!(who, Accountant::Pld | Accountant::Basic), "{who}");
        assert!(epsilon >= ALONE && epsilon < ALONE + one, "{epsilon}");
        let basic = Accountant::Basic
            .epsilon(&both, delta(1e-5), RELATION)
            .unwrap();
        assert!(basic >= epsilon && basic <= ALONE + one + 1e-6, "{basic}");
    }
}

/// No Renyi divergence bounds it.
#[test]
fn an_approximate_event_takes_its_delta_from_the_rest() {
    let event = Event::EpsilonDelta {
        epsilon: 0.1,
        delta: 1e-7,
    };
    let both = Event::composed(vec![training(), event]);
    for accountant in Accountant::ALL {
        let answer = accountant.epsilon(&both, delta(1e-5), RELATION);
        assert_eq!(
            answer.is_ok(),
            matches!(accountant, Accountant::Basic | Accountant::Pld),
            "{accountant}"
        );
    }
    assert_eq!(
        Accountant::tightest_for(&both, RELATION),
        Ok(Accountant::Pld)
    );
    let (who, tight) = least(&both, 1e-5);
    assert_eq!(who, Accountant::Pld);
    let epsilon = Accountant::Basic
        .epsilon(&both, delta(1e-5), RELATION)
        .unwrap();
    assert!(tight < epsilon, "{tight} {epsilon}");
    let (_, rest) = least(&training(), 0.99e-5);
    assert!(
        epsilon >= ALONE + 0.1 && epsilon <= rest + 0.1 + 1e-9,
        "{epsilon}"
    );
    assert!(epsilon < 1.93, "{epsilon}");
    // Nothing is left of a delta that is no larger than the event's.
    for at in [1e-7, 1e-8] {
        assert!(matches!(
            Accountant::Basic.epsilon(&both, delta(at), RELATION),
            Err(AccountingError::OutOfRange { .. })
        ));
    }
}

/// A Gaussian and randomised responses have a joint curve that can be integrated: delta of the composition is the mean over the
/// response's losses of the Gaussian's delta at what is left of epsilon.
#[test]
fn it_bounds_a_composition_that_is_known_exactly() {
    let phi = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
    // delta(e) for mu-GDP, also at a negative e.
    let gaussian = |mu: f64, e: f64| phi(0.5 * mu - e / mu) - e.exp() * phi(-0.5 * mu - e / mu);
    for (noise, one, at) in [(1.0, 0.5, 1e-5), (3.0, 1.0, 1e-6), (10.0, 0.05, 1e-3)] {
        let event = Event::composed(vec![Event::gaussian(z(noise)), above(one)]);
        let epsilon = Accountant::Basic
            .epsilon(&event, delta(at), RELATION)
            .unwrap();
        let truth = |e: f64| {
            let p = 1.0 / (1.0 + (-one).exp());
            let mu = 1.0 / noise;
            // max(0, .) is inside: the sum over responses of P_r delta_G(e - loss).
            p * gaussian(mu, e - one) + (1.0 - p) * gaussian(mu, e + one)
        };
        assert!(
            truth(epsilon) <= at,
            "{noise} {one}: {} {at}",
            truth(epsilon)
        );
        // And for the curve.
        for e in [0.3 * one, 0.9 * one, one + 0.1, one + 2.0] {
            let bound = Accountant::Basic
                .delta(&event, Epsilon::new(e).unwrap(), RELATION)
                .unwrap();
            assert!(
                bound >= truth(e) * (1.0 - 1e-9),
                "{noise} {one} {e}: {bound}"
            );
        }
    }
}

#[test]
fn of_one_group_alone_it_is_that_groups_number() {
    let at = delta(1e-6);
    let selections = Event::composed(vec![above(0.25).repeated(3), above(0.5)]);
    assert_eq!(
        Accountant::Basic.epsilon(&selections, at, RELATION),
        Ok(1.25)
    );
    let (_, gaussians) = least(&training(), 1e-6);
    assert_eq!(
        Accountant::Basic.epsilon(&training(), at, RELATION),
        Ok(gaussians)
    );
    let laplace = Event::Laplace {
        noise_multiplier: z(4.0),
    };
    let mixed = Event::composed(vec![training(), laplace]);
    assert_ne!(least(&mixed, 1e-6).0, Accountant::Basic);
}

/// Trees, selections among runs, and Gaussians on fixed samples are in the other group.
#[test]
fn whatever_has_an_accountant_may_be_the_rest() {
    let relation = Adjacency::ReplaceOne;
    let rest = Event::composed(vec![
        Event::PrefixSums {
            noise_multiplier: z(8.0),
            step_counts: dpopt_accounting::StepCounts::One(7),
        },
        Event::DiscreteGaussian {
            noise_multiplier: z(9.0),
        },
        Event::RepeatAndSelect {
            event: Box::new(Event::gaussian(z(20.0))),
            mean: 5.0,
            shape: 1.0,
        },
    ]);
    let (_, alone) = Accountant::least(&rest, delta(1e-6), relation).unwrap();
    let both = Event::composed(vec![above(0.125), rest, above(0.125)]);
    let sum = Accountant::Basic
        .epsilon(&both, delta(1e-6), relation)
        .unwrap();
    assert!((sum - alone - 0.25).abs() < 1e-12, "{sum} {alone}");
    let refused = Event::composed(vec![
        both,
        Event::gaussian(z(1.0))
            .poisson_sampled(SamplingRate::new(0.5).unwrap())
            .poisson_sampled(SamplingRate::new(0.5).unwrap()),
    ]);
    match Accountant::Basic.epsilon(&refused, delta(1e-6), relation) {
        Err(AccountingError::UnsupportedEvent {
            accountant, path, ..
        }) => {
            assert_eq!(accountant, Accountant::Basic);
            assert!(path.starts_with("events[1]"), "{path}");
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// More of either group costs more, no name is chosen that is dearer than another, and delta is an inverse.
    #[test]
    fn it_is_monotone_and_inverse(noise in 0.5_f64..5.0, one in 0.01_f64..1.0, n in 1_u64..20, ln in -14.0_f64..-4.0) {
        let at = delta(ln.exp());
        let event = |n: u64, one: f64| Event::composed(vec![Event::gaussian(z(noise)).repeated(n), above(one)]);
        let basic = |event: &Event| Accountant::Basic.epsilon(event, at, RELATION).unwrap();
        let here = basic(&event(n, one));
        prop_assert!(basic(&event(n + 1, one)) > here);
        prop_assert!(basic(&event(n, 1.5 * one)) > here);
        let (_, least) = Accountant::least(&event(n, one), at, RELATION).unwrap();
        for other in Accountant::ALL {
            if let Ok(epsilon) = other.epsilon(&event(n, one), at, RELATION) {
                prop_assert!(least <= epsilon * (1.0 + 1e-9), "{other}");
            }
        }
        let back = Accountant::Basic.delta(&event(n, one), Epsilon::new(here).unwrap(), RELATION).unwrap();
        prop_assert!(back <= at.get() * (1.0 + 1e-9), "{back}");
    }
}
