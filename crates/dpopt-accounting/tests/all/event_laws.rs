//! Laws of accounting over every event, and what the accountants refuse.

use dpopt_accounting::accounting::costs;
use dpopt_accounting::{
    Accountant, AccountingError, Adjacency, Delta, Event, EventProblem, Rho, SamplingRate,
    StepCounts,
};
use proptest::prelude::*;

use crate::common::{self, EVERY, epsilon, z};

fn delta() -> Delta {
    common::delta(1e-6)
}

/// Leaves that cost more the larger `x` is, around 1.
fn leaf(kind: usize, x: f64) -> Event {
    let epsilon = epsilon(0.1 * x);
    let noise_multiplier = z(8.0 / x);
    match kind {
        0 => Event::Gaussian { noise_multiplier },
        1 => Event::Laplace { noise_multiplier },
        2 => Event::DiscreteGaussian { noise_multiplier },
        3 => Event::DiscreteLaplace {
            noise_parameter: 0.05 * x,
            sensitivity: 3,
        },
        4 => Event::RandomizedResponse {
            noise_parameter: 1.0 / (1.0 + 0.1 * x),
            num_buckets: 5,
        },
        5 => Event::ZCdp {
            rho: Rho::new(0.01 * x).unwrap(),
            xi: 0.001 * x,
        },
        6 => Event::ExponentialMechanism { epsilon },
        7 => Event::PermuteAndFlip { epsilon },
        8 => Event::AboveThreshold { epsilon },
        9 => Event::ReportNoisyMax { epsilon },
        10 => Event::SingleEpochTreeAggregation {
            noise_multiplier: z(20.0 / x),
            step_counts: StepCounts::One(100),
        },
        11 => Event::PrefixSums {
            noise_multiplier: z(20.0 / x),
            step_counts: StepCounts::Many(vec![10, 30].into()),
        },
        12 => Event::SampledWithoutReplacement {
            source_dataset_size: 100,
            sample_size: 10,
            event: Box::new(Event::Gaussian {
                noise_multiplier: z(4.0 / x),
            }),
        },
        13 => Event::RepeatAndSelect {
            event: Box::new(Event::Gaussian { noise_multiplier }),
            mean: 1.0 + x,
            shape: 0.5,
        },
        14 => Event::ParallelComposed {
            events: vec![
                Event::Laplace { noise_multiplier },
                Event::Gaussian { noise_multiplier },
            ],
        },
        _ => Event::Gaussian {
            noise_multiplier: z(4.0 / x),
        }
        .poisson_sampled(SamplingRate::new(0.1).unwrap()),
    }
}

const KINDS: usize = 16;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn composition_is_free_of_order_and_shape(
        parts in prop::collection::vec((0..KINDS, 0.2_f64..3.0, 1_u64..5), 2..6),
        turn in 0_usize..6,
    ) {
        let list: Vec<Event> = parts.iter().map(|&(kind, x, n)| leaf(kind, x).repeated(n)).collect();
        let mut other = list.clone();
        let turn = turn % other.len();
        other.rotate_left(turn);
        let nested = Event::composed(vec![
            Event::composed(other[..1].to_vec()),
            Event::NoOp,
            Event::composed(other[1..].to_vec()).repeated(1),
        ]);
        let plain = Event::composed(list);
        for accountant in [Accountant::Gdp, Accountant::Zcdp, Accountant::Rdp, Accountant::Pure, Accountant::Pld] {
            let of = |event: &Event| accountant.epsilon(event, delta(), Adjacency::ReplaceOne);
            // The lattice of a privacy-loss distribution may follow another release.
            let close = if accountant == Accountant::Pld { 5e-3 } else { 1e-9 };
            match (of(&plain), of(&nested)) {
                (Ok(a), Ok(b)) => prop_assert!((a - b).abs() <= close * a, "{accountant} {a} {b}"),
                (a, b) => prop_assert!(a.is_err() && b.is_err()),
            }
        }
    }

    #[test]
    fn more_of_anything_costs_more(kind in 0..KINDS, x in 0.2_f64..3.0, more in 1.01_f64..3.0, n in 1_u64..50) {
        for accountant in Accountant::ALL {
            let of = |x: f64, n: u64| accountant.epsilon(&leaf(kind, x).repeated(n), delta(), Adjacency::ReplaceOne);
            if let Ok(base) = of(x, n) {
                prop_assert!(of(x * more, n).unwrap() >= base * (1.0 - 1e-9));
                prop_assert!(of(x, 2 * n).unwrap() >= base * (1.0 - 1e-9));
            }
        }
    }

    #[test]
    fn accountants_are_ordered_and_inverse(kind in 0..KINDS, x in 0.2_f64..3.0, n in 1_u64..20) {
        let event = leaf(kind, x).repeated(n);
        let of = |accountant: Accountant| accountant.epsilon(&event, delta(), Adjacency::ReplaceOne);
        let renyi = of(Accountant::Rdp).unwrap();
        if let Ok(concentrated) = of(Accountant::Zcdp) {
            prop_assert!(renyi <= concentrated * (1.0 + 1e-9), "{renyi} {concentrated}");
        }
        if let Ok(exact) = of(Accountant::Gdp) {
            prop_assert!(exact <= renyi * (1.0 + 1e-12));
        }
        for accountant in Accountant::ALL {
            // The lattice of a privacy-loss distribution moves with epsilon.
            let close = if accountant == Accountant::Pld { 2e-2 } else { 1e-7 };
            if let Ok(value) = of(accountant)
                && value > 0.0
            {
                let back = accountant.delta(&event, epsilon(value), Adjacency::ReplaceOne).unwrap();
                prop_assert!(back <= delta().get() * (1.0 + close), "{accountant} {back:e}");
            }
        }
        let (_, least) = Accountant::least(&event, delta(), Adjacency::ReplaceOne).unwrap();
        prop_assert!(least <= renyi);
    }
}

#[test]
fn parallel_slices_cost_their_worst() {
    let slices = |events| Event::ParallelComposed { events };
    let (a, b) = (Event::gaussian(z(2.0)).repeated(3), Event::gaussian(z(1.5)));
    let of = |accountant: Accountant, event: &Event| {
        accountant.epsilon(event, delta(), Adjacency::ZeroOut)
    };
    for accountant in [Accountant::Gdp, Accountant::Zcdp, Accountant::Rdp] {
        let both = of(accountant, &slices(vec![b.clone(), a.clone(), Event::NoOp])).unwrap();
        assert!((both - of(accountant, &a).unwrap()).abs() < 1e-12 * both);
        let again = of(accountant, &slices(vec![a.clone(); 3]).repeated(2)).unwrap();
        assert!((again - of(accountant, &a.clone().repeated(2)).unwrap()).abs() < 1e-9);
        assert!(matches!(
            accountant.epsilon(&slices(vec![a.clone()]), delta(), Adjacency::AddRemove),
            Err(AccountingError::UnsupportedAdjacency { .. })
        ));
    }
    let noisy_max = |e: f64| Event::ReportNoisyMax {
        epsilon: epsilon(e),
    };
    let event = slices(vec![noisy_max(0.5), noisy_max(0.25).repeated(4)]);
    let tiny = Delta::new(1e-300).unwrap();
    let got = Accountant::Pure.epsilon(&event, tiny, Adjacency::ZeroOut);
    assert_eq!(got, Ok(1.0));
}

#[test]
fn pure_sums_are_exact() {
    let one = Event::ReportNoisyMax {
        epsilon: epsilon(0.25),
    };
    let tiny = Delta::new(1e-300).unwrap();
    let got = Accountant::Pure.epsilon(&one.repeated(8), tiny, Adjacency::AddRemove);
    assert_eq!(got, Ok(2.0));
    let laplace = Event::Laplace {
        noise_multiplier: z(0.5),
    };
    assert_eq!(
        Accountant::Pure.epsilon(&laplace, tiny, Adjacency::AddRemove),
        Ok(2.0)
    );
}

#[test]
fn refusals_name_the_place() {
    let bad = [
        Event::SampledWithReplacement {
            source_dataset_size: 10,
            sample_size: 2,
            event: Box::new(Event::gaussian(z(1.0))),
        },
        Event::Unsupported {
            class_name: "ThingDpEvent".to_owned(),
        },
        leaf(1, 1.0)
            .poisson_sampled(SamplingRate::new(0.5).unwrap())
            .poisson_sampled(SamplingRate::new(0.5).unwrap()),
        leaf(10, 1.0).poisson_sampled(SamplingRate::new(0.5).unwrap()),
        Event::SampledWithoutReplacement {
            source_dataset_size: 10,
            sample_size: 2,
            event: Box::new(leaf(10, 1.0)),
        },
    ];
    for event in bad {
        let whole = Event::composed(vec![Event::gaussian(z(1.0)), event.clone().repeated(3)]);
        for accountant in Accountant::ALL {
            for adjacency in EVERY {
                match accountant.epsilon(&whole, delta(), adjacency) {
                    Err(
                        AccountingError::UnsupportedEvent { path, .. }
                        | AccountingError::UnsupportedAdjacency { path, .. },
                    ) => {
                        // The pure accountant stops at the Gaussian.
                        let first = accountant == Accountant::Pure && path == "events[0]";
                        assert!(first || path.starts_with("events[1].event"), "{path}");
                    }
                    // Samples of samples of pure releases have a theorem under add-remove.
                    Ok(_) if matches!(accountant, Accountant::Basic | Accountant::Pld) => {
                        assert!(Accountant::Pure.epsilon(&event, delta(), adjacency).is_ok());
                    }
                    other => panic!("{accountant} {whole}: {other:?}"),
                }
            }
        }
    }
    let exposed = Event::RandomizedResponse {
        noise_parameter: 0.0,
        num_buckets: 2,
    };
    assert_eq!(
        Accountant::Rdp.epsilon(&exposed, delta(), Adjacency::ReplaceOne),
        Err(AccountingError::Unprotected)
    );
}

#[test]
fn invalid_events_get_no_number() {
    let mut deep = Event::gaussian(z(1.0));
    for _ in 0..1000 {
        deep = deep.repeated(1);
    }
    let wide = Event::composed(vec![Event::gaussian(z(1.0)); 10_000_000]);
    let cases = [
        (Event::composed(vec![]), "events"),
        (Event::gaussian(z(1.0)).repeated(0), "count"),
        (
            Event::ZCdp {
                rho: Rho::new(1.0).unwrap(),
                xi: -1.0,
            },
            "xi",
        ),
        (
            Event::DiscreteLaplace {
                noise_parameter: f64::NAN,
                sensitivity: 1,
            },
            "noise_parameter",
        ),
        (
            Event::EpsilonDelta {
                epsilon: 1.0,
                delta: 1.0,
            },
            "delta",
        ),
        (deep, "event.event"),
        (wide, "events[999999]"),
    ];
    for (event, place) in &cases {
        for accountant in Accountant::ALL {
            for adjacency in EVERY {
                for error in [
                    accountant.epsilon(event, delta(), adjacency).unwrap_err(),
                    accountant
                        .delta(event, epsilon(1.0), adjacency)
                        .unwrap_err(),
                    costs::renyi(event, 2.0, adjacency).unwrap_err(),
                ] {
                    let AccountingError::Event(error) = error else {
                        panic!("{error}");
                    };
                    assert!(error.path.starts_with(place), "{error}");
                }
            }
        }
    }
    let problem = |i: usize| cases[i].0.check().unwrap_err().problem;
    assert_eq!(problem(5), EventProblem::TooDeep);
    assert_eq!(problem(6), EventProblem::TooMany);
}

/// Parameters at the ends of their ranges: a number or a typed error, never NaN and never 0.
#[test]
fn extreme_parameters_stay_right_or_are_refused() {
    let numbers = [
        f64::MIN_POSITIVE,
        1e-150,
        1e-9,
        1.0,
        40.0,
        1e9,
        1e150,
        f64::MAX,
    ];
    let wholes = [1, 2, 1 << 40, u64::MAX];
    let mut events = Vec::new();
    for x in numbers {
        let noise_multiplier = z(x);
        let epsilon = epsilon(x);
        events.extend([
            Event::Gaussian { noise_multiplier },
            Event::Laplace { noise_multiplier },
            Event::DiscreteGaussian { noise_multiplier },
            Event::ExponentialMechanism { epsilon },
            Event::PermuteAndFlip { epsilon },
            Event::EpsilonDelta {
                epsilon: x,
                delta: 1e-9,
            },
            Event::ZCdp {
                rho: Rho::new(x).unwrap(),
                xi: x,
            },
        ]);
        for whole in wholes {
            events.push(Event::DiscreteLaplace {
                noise_parameter: x,
                sensitivity: whole,
            });
            if x < 1.0 && whole > 1 {
                events.push(Event::RandomizedResponse {
                    noise_parameter: x,
                    num_buckets: whole,
                });
            }
            events.push(Event::PrefixSums {
                noise_multiplier,
                step_counts: StepCounts::One(whole),
            });
            events.push(Event::SampledWithoutReplacement {
                source_dataset_size: u64::MAX,
                sample_size: whole,
                event: Box::new(Event::Gaussian { noise_multiplier }),
            });
            events.push(Event::PermuteAndFlip { epsilon }.repeated(whole));
        }
        for inner in [
            Event::Gaussian {
                noise_multiplier: z(2.0),
            },
            Event::PermuteAndFlip { epsilon },
        ] {
            for shape in [
                0.0,
                f64::MIN_POSITIVE,
                0.5,
                1.0,
                1e9,
                f64::MAX,
                f64::INFINITY,
            ] {
                for mean in [1.0, 1.0 + 1e-15, 2.0, 1e9, f64::MAX] {
                    events.push(Event::RepeatAndSelect {
                        event: Box::new(inner.clone()),
                        mean,
                        shape,
                    });
                }
            }
        }
    }
    for event in events {
        for accountant in [
            Accountant::Gdp,
            Accountant::Zcdp,
            Accountant::Rdp,
            Accountant::Pure,
        ] {
            if let Ok(value) = accountant.epsilon(&event, delta(), Adjacency::ReplaceOne) {
                assert!(
                    value.is_finite() && value >= 0.0,
                    "{accountant} {event}: {value}"
                );
            }
            if let Ok(value) = accountant.delta(&event, epsilon(1.0), Adjacency::ReplaceOne) {
                let none = accountant == Accountant::Pure;
                assert!(
                    value > 0.0 || none && value == 0.0,
                    "{accountant} {event}: {value}"
                );
                assert!(value <= 1.0, "{accountant} {event}: {value}");
            }
        }
        for order in [1.0 + 1e-9, 2.0, 1e6] {
            if let Ok(value) = costs::renyi(&event, order, Adjacency::ReplaceOne) {
                assert!(value > 0.0, "{event} at {order}: {value}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_text_never_panics(kinds in prop::collection::vec(0..KINDS, 1..4), at in any::<prop::sample::Index>(), with in 0_u8..128) {
        let event = Event::composed(kinds.iter().map(|&kind| leaf(kind, 1.0).repeated(2)).collect());
        let mut text = serde_json::to_string(&event).unwrap().into_bytes();
        let at = at.index(text.len());
        text[at] = with;
        let text = String::from_utf8(text).unwrap();
        if let Ok(read) = Event::from_json(&text) {
            read.check().unwrap();
        }
    }
}
