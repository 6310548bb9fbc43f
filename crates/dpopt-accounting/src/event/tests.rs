//! Events: JSON both ways, paths of errors, size.

use super::*;
use crate::units::{Epsilon, NoiseMultiplier, Rho, SamplingRate};

fn sample() -> Event {
    let g = Event::gaussian(NoiseMultiplier::new(1.5).unwrap());
    Event::composed(vec![
        g.clone()
            .poisson_sampled(SamplingRate::new(0.01).unwrap())
            .repeated(1000),
        g.clone().repeated(3),
        Event::NoOp,
        g,
    ])
}

#[test]
fn json_round_trip() {
    let json = serde_json::to_string(&sample()).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), sample());
}

#[test]
fn leaves_count_equal_releases_together() {
    let leaves = sample().leaves();
    assert_eq!(leaves.len(), 2);
    assert_eq!(leaves[0].1, 1000);
    assert_eq!(leaves[1].1, 4);
    assert_eq!(sample().release_count(), 1004);
}

#[test]
fn unknown_classes_are_kept_as_unsupported() {
    let json = r#"{"class_name":"MixtureOfGaussiansDpEvent","noise_multiplier":1.0}"#;
    let event: Event = serde_json::from_str(json).unwrap();
    assert!(
        matches!(&event, Event::Unsupported { class_name } if class_name == "MixtureOfGaussiansDpEvent")
    );
}

#[test]
fn bad_events_say_what_is_missing() {
    for (json, word) in [
        (r#"{"class_name":"GaussianDpEvent"}"#, "noise_multiplier"),
        (
            r#"{"class_name":"GaussianDpEvent","noise_multiplier":-1.0}"#,
            "-1",
        ),
        (
            r#"{"class_name":"GaussianDpEvent","noise_multiplier":1.0,"xi":2}"#,
            "xi",
        ),
        (
            r#"{"class_name":"SelfComposedDpEvent","event":{"class_name":"NoOpDpEvent"},"count":-1}"#,
            "count",
        ),
        (r#"{"class_name":"ComposedDpEvent"}"#, "events"),
        (r"[]", "object"),
    ] {
        let message = serde_json::from_str::<Event>(json).unwrap_err().to_string();
        assert!(message.contains(word), "{json}: {message}");
    }
}

fn noise(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn eps(value: f64) -> Epsilon {
    Epsilon::new(value).unwrap()
}

/// One event of each class.
fn every_class() -> Vec<Event> {
    let g = Event::gaussian(noise(1.5));
    vec![
        Event::NoOp,
        Event::NonPrivate,
        g.clone(),
        Event::Laplace {
            noise_multiplier: noise(0.1),
        },
        Event::DiscreteGaussian {
            noise_multiplier: noise(3.0),
        },
        Event::DiscreteLaplace {
            noise_parameter: 0.25,
            sensitivity: 3,
        },
        Event::RandomizedResponse {
            noise_parameter: 0.0,
            num_buckets: 4,
        },
        g.clone().poisson_sampled(SamplingRate::new(1e-7).unwrap()),
        Event::SampledWithReplacement {
            source_dataset_size: 100,
            sample_size: 200,
            event: Box::new(g.clone()),
        },
        Event::SampledWithoutReplacement {
            source_dataset_size: 100,
            sample_size: 100,
            event: Box::new(g.clone()),
        },
        Event::TruncatedSubsampledGaussian {
            dataset_size: 1000,
            sampling_probability: SamplingRate::new(0.1).unwrap(),
            truncated_batch_size: 120,
            noise_multiplier: noise(2.0),
        },
        Event::RandomAllocation {
            num_steps: 100,
            num_participations: 2,
            event: Box::new(g.clone()),
        },
        g.clone().repeated(u64::MAX),
        Event::composed(vec![g.clone(), Event::NoOp]),
        Event::ParallelComposed {
            events: vec![g.clone(), g.clone().repeated(2)],
        },
        Event::SingleEpochTreeAggregation {
            noise_multiplier: noise(2.0),
            step_counts: StepCounts::One(1024),
        },
        Event::PrefixSums {
            noise_multiplier: noise(2.0),
            step_counts: StepCounts::Many(vec![10, 400].into()),
        },
        Event::RepeatAndSelect {
            event: Box::new(g.clone()),
            mean: 10.0,
            shape: f64::INFINITY,
        },
        Event::ZCdp {
            rho: Rho::new(0.5).unwrap(),
            xi: 0.25,
        },
        Event::EpsilonDelta {
            epsilon: 0.0,
            delta: 0.1,
        },
        Event::ExponentialMechanism { epsilon: eps(1.0) },
        Event::PermuteAndFlip { epsilon: eps(1.0) },
        Event::AboveThreshold { epsilon: eps(1.0) },
        Event::ReportNoisyMax { epsilon: eps(1.0) },
        Event::Unsupported {
            class_name: "other.module.ThingDpEvent".to_owned(),
        },
    ]
}

#[test]
fn every_class_survives_json() {
    let mut all = every_class();
    all.push(Event::composed(every_class()));
    for event in all {
        event.check().unwrap();
        let json = serde_json::to_string(&event).unwrap();
        assert_eq!(Event::from_json(&json).unwrap(), event, "{json}");
        assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), event);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(serde_json::from_value::<Event>(value).unwrap(), event);
        // Cut off anywhere it is an error, never a panic.
        for end in 0..json.len() {
            assert!(Event::from_json(&json[..end]).is_err(), "{}", &json[..end]);
        }
    }
}

/// Written by `json.dumps(event.to_named_tuple()._asdict())`, nested ones likewise.
#[test]
fn the_shape_is_that_of_dp_accounting() {
    let event = Event::composed(vec![
        Event::SampledWithoutReplacement {
            source_dataset_size: 1000,
            sample_size: 50,
            event: Box::new(Event::gaussian(noise(4.0))),
        }
        .repeated(200),
        Event::SingleEpochTreeAggregation {
            noise_multiplier: noise(1.25),
            step_counts: StepCounts::Many(vec![10, 400].into()),
        },
        Event::ZCdp {
            rho: Rho::new(0.5).unwrap(),
            xi: 0.0,
        },
    ]);
    let m = r#""module_name":"dp_accounting.dp_event","class_name""#;
    assert_eq!(
        serde_json::to_string(&event).unwrap(),
        format!(
            r#"{{{m}:"ComposedDpEvent","events":[{{{m}:"SelfComposedDpEvent","event":{{{m}:"SampledWithoutReplacementDpEvent","source_dataset_size":1000,"sample_size":50,"event":{{{m}:"GaussianDpEvent","noise_multiplier":4.0}}}},"count":200}},{{{m}:"SingleEpochTreeAggregationDpEvent","noise_multiplier":1.25,"step_counts":[10,400]}},{{{m}:"ZCDpEvent","rho":0.5,"xi":0.0}}]}}"#
        )
    );
    let short = format!(r#"{{{m}:"ZCDpEvent","rho":0.5}}"#);
    assert_eq!(Event::from_json(&short).unwrap(), event.children()[2]);
}

#[test]
fn errors_carry_the_path() {
    let good = r#"{"class_name":"GaussianDpEvent","noise_multiplier":1}"#;
    let list =
        format!(r#"{{"events":[{good},{{"class_name":"SelfComposedDpEvent","count":3,"event":"#);
    let end = r#"}],"class_name":"ComposedDpEvent"}"#;
    let rows = include_str!("../../tests/data/bad_events.txt").lines();
    for row in rows.filter(|row| !row.starts_with('#')) {
        let (path, text) = row.split_once(' ').unwrap();
        let path = if path == "-" { "" } else { path };
        let json = text.replace("$G", good).replace("$0", "");
        let json = json.replace("<<", &list).replace(">>", end);
        let error = Event::from_json(&json).unwrap_err();
        assert_eq!(error.path, path, "{json}: {error}");
        assert!(error.to_string().contains(path));
        assert!(serde_json::from_str::<Event>(&json).is_err(), "{json}");
    }
}

#[test]
fn hand_built_numbers_are_checked_with_their_path() {
    let bad = [
        (
            Event::DiscreteLaplace {
                noise_parameter: f64::NAN,
                sensitivity: 1,
            },
            "noise_parameter",
        ),
        (
            Event::DiscreteLaplace {
                noise_parameter: f64::INFINITY,
                sensitivity: 1,
            },
            "noise_parameter",
        ),
        (
            Event::RandomizedResponse {
                noise_parameter: f64::NAN,
                num_buckets: 2,
            },
            "noise_parameter",
        ),
        (
            Event::RepeatAndSelect {
                event: Box::new(Event::NoOp),
                mean: f64::INFINITY,
                shape: 1.0,
            },
            "mean",
        ),
        (
            Event::RepeatAndSelect {
                event: Box::new(Event::NoOp),
                mean: 1.0,
                shape: f64::NAN,
            },
            "shape",
        ),
        (
            Event::ZCdp {
                rho: Rho::new(1.0).unwrap(),
                xi: f64::NAN,
            },
            "xi",
        ),
        (
            Event::EpsilonDelta {
                epsilon: f64::INFINITY,
                delta: 0.0,
            },
            "epsilon",
        ),
        (
            Event::EpsilonDelta {
                epsilon: 1.0,
                delta: f64::NAN,
            },
            "delta",
        ),
        (Event::composed(vec![]), "events"),
        (Event::NoOp.repeated(0), "count"),
    ];
    for (event, field) in bad {
        let whole = Event::composed(vec![Event::NoOp, event.repeated(2)]);
        let path = format!("events[1].event.{field}");
        assert_eq!(whole.check().unwrap_err().path, path);
    }
}

#[test]
fn unknown_modules_and_classes_are_not_ours() {
    for json in [
        r#"{"class_name":"ThingDpEvent","event":7,"events":{"a":[1]}}"#,
        r#"{"module_name":"my.module","class_name":"GaussianDpEvent","noise_multiplier":-1}"#,
        r#"{"class_name":"GaussianDpEvent","noise_multiplier":1,"module_name":"my.module"}"#,
    ] {
        let event = Event::from_json(json).unwrap();
        assert!(matches!(event, Event::Unsupported { .. }), "{json}");
        let again = serde_json::to_string(&event).unwrap();
        assert_eq!(Event::from_json(&again).unwrap(), event);
    }
}

fn nested(levels: usize, kind: usize) -> Event {
    let mut event = Event::gaussian(noise(1.0));
    for _ in 0..levels {
        event = match kind {
            0 => event.repeated(1),
            1 => Event::composed(vec![event]),
            2 => Event::composed(vec![Event::NoOp, event, Event::NoOp]),
            3 => Event::ParallelComposed {
                events: vec![event],
            },
            _ => event.poisson_sampled(SamplingRate::new(0.5).unwrap()),
        };
    }
    event
}

#[test]
fn trees_of_any_depth_overflow_no_stack() {
    for kind in 0..5 {
        let event = nested(300_000, kind);
        let other = event.clone();
        assert!(event == other);
        assert_eq!(event.leaves().len(), 1);
        assert!(event.to_string().len() < 5000);
        assert!(format!("{event:?}").len() < 5000);
        let error = event.check().unwrap_err();
        assert_eq!(error.problem, EventProblem::TooDeep);
        assert!(error.path.starts_with("event"));
        assert!(serde_json::to_string(&event).is_err());
        let at_limit = nested(MAX_DEPTH, kind);
        at_limit.check().unwrap();
        let json = serde_json::to_string(&at_limit).unwrap();
        assert_eq!(Event::from_json(&json).unwrap(), at_limit);
        let embedded = format!(r#"{{"a":{{"b":{json}}}}}"#);
        serde_json::from_str::<serde_json::Value>(&embedded).unwrap();
        assert_eq!(
            nested(MAX_DEPTH + 1, kind).check().unwrap_err().problem,
            EventProblem::TooDeep
        );
    }
    let invalid_and_deep = Event::composed(vec![Event::composed(vec![]), nested(300_000, 0)]);
    assert!(serde_json::to_string(&invalid_and_deep).is_err());
    let deep = r#"{"class_name":"ComposedDpEvent","events":["#.repeat(5000);
    assert_eq!(
        Event::from_json(&deep).unwrap_err().problem,
        EventProblem::TooDeep
    );
    let deep = r#"{"class_name":"UnknownDpEvent","x":"#.repeat(5000);
    assert!(Event::from_json(&deep).is_err());
}

#[test]
fn wide_trees_are_counted_and_refused() {
    assert!(size_of::<Event>() <= 32);
    let wide = Event::composed(
        (0..200_000)
            .map(|i| Event::gaussian(noise(1.0 + f64::from(i))))
            .collect(),
    );
    assert_eq!(wide.leaves().len(), 200_000);
    wide.check().unwrap();
    let wide = Event::composed(vec![Event::gaussian(noise(1.0)); MAX_NODES as usize]);
    assert_eq!(wide.leaves().len(), 1);
    assert_eq!(wide.release_count(), MAX_NODES);
    let error = wide.check().unwrap_err();
    assert_eq!(error.problem, EventProblem::TooMany);
    assert_eq!(error.path, "events[999999]");
    let text = format!(
        r#"{{"class_name":"ComposedDpEvent","events":[{}{{"class_name":"NoOpDpEvent"}}]}}"#,
        r#"{"class_name":"NoOpDpEvent"},"#.repeat(MAX_NODES as usize)
    );
    assert_eq!(
        Event::from_json(&text).unwrap_err().problem,
        EventProblem::TooMany
    );
}
