//! The auditor audited: coverage over repetitions, twins of its own checks, and its interface.

use dpopt_privacy::{Adjacency, ChangedRecord, Event, NoiseMultiplier, Spend};

use super::replay::{CuratorReplay, MechanismReplay, Pair, Ran};
use super::{
    AuditError, AuditTape, Canary, Claim, Kind, Registry, Settings, Statistic, Status, Target,
    World,
};
use crate::checks::{Effort, mixed};

/// Bits of a hash as standard normals, by Box and Muller: cheap, and not the sampler under audit.
fn normal(seed: u64) -> f64 {
    let unit = |x: u64| ((x >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0;
    let (a, b) = (unit(mixed(seed, 0)), unit(mixed(seed, 1)));
    (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
}

fn gaussian(mu: f64, claimed: f64, runs: u64) -> Canary {
    let claim = Claim::gaussian(claimed, 1e-6).unwrap();
    Canary::new(
        "g",
        "g",
        claim,
        Statistic::GaussianDp,
        move |world, seed| Ok(normal(seed) + if world == World::In { mu } else { 0.0 }),
    )
    .with_runs(runs, runs)
}

fn settings(seed: u64, confidence: f64) -> Settings {
    Settings {
        seed,
        confidence,
        ..Settings::quick()
    }
}

/// Over 200 repetitions at 95 % the bound of a correct mechanism may exceed the claim 10 times in the mean. More
/// than 22 has a probability below 3e-4 if the error rate is what is stated, and what is measured is
/// far below it, because the two limits are joined by a union bound.
#[test]
fn the_bound_exceeds_a_true_claim_no_more_often_than_stated() {
    let target = super::mechanisms::gaussian_canary(Adjacency::ReplaceOne)
        .unwrap()
        .with_runs(4000, 4000);
    let above = (0..200)
        .filter(|&seed| target.audit(&settings(seed, 0.95)).unwrap().status == Status::Fail)
        .count();
    assert!(above <= 22, "{above}");
}

/// The same for a discrete law at its largest ratio: randomised response, epsilon 1.
#[test]
fn the_plain_bound_exceeds_a_true_claim_no_more_often_than_stated() {
    let truth = 1.0 / (1.0 + (-1f64).exp());
    let target = Canary::new(
        "rr",
        "rr",
        Claim::pure(1.0),
        Statistic::ApproximateDp,
        move |world, seed| {
            let unit = (mixed(seed, 0) >> 11) as f64 / 9_007_199_254_740_992.0;
            Ok(f64::from(u8::from((unit < truth) == (world == World::In))))
        },
    )
    .with_runs(2000, 2000);
    let rows: Vec<_> = (0..200)
        .map(|seed| target.audit(&settings(seed, 0.95)).unwrap())
        .collect();
    let above = rows.iter().filter(|row| row.status == Status::Fail).count();
    assert!(above <= 22, "{above}");
    // And it is not idle: log(0.731/0.269) is 1.
    let least = rows
        .iter()
        .filter_map(|row| row.lower_bound)
        .fold(9.0, f64::min);
    assert!(least > 0.7, "{least}");
}

#[test]
fn half_the_noise_is_caught_every_time() {
    let target = gaussian(0.5, 0.25, 10_000).control();
    for seed in 0..20 {
        assert_eq!(
            target.audit(&settings(seed, 0.99)).unwrap().status,
            Status::Pass
        );
    }
}

#[test]
fn a_loose_auditor_and_a_missed_control_fail() {
    // Forty runs can't show 0.7.
    let loose = gaussian(0.2367, 0.2367, 40).at_least(0.7);
    assert_eq!(
        loose.audit(&Settings::quick()).unwrap().status,
        Status::Fail
    );
    let sound = gaussian(0.2367, 0.2367, 4000).control();
    assert_eq!(
        sound.audit(&Settings::quick()).unwrap().status,
        Status::Fail
    );
}

/// What must be found needs all its runs; the rest is made less often, and a few runs are not made fewer.
#[test]
fn a_brief_audit_makes_fewer_runs_of_what_is_expected_to_hold() {
    let brief = Settings {
        effort: Effort::Brief,
        ..Settings::quick()
    };
    let trials = |target: Canary| target.audit(&brief).unwrap().trials;
    assert_eq!(trials(gaussian(0.2, 0.25, 16_000)), 2000);
    assert_eq!(trials(gaussian(0.2, 0.25, 4000)), 1000);
    assert_eq!(trials(gaussian(0.2, 0.25, 400)), 400);
    assert_eq!(trials(gaussian(0.5, 0.25, 16_000).control()), 16_000);
    assert_eq!(trials(gaussian(0.2, 0.25, 16_000).at_least(0.1)), 16_000);
}

#[test]
fn equal_seeds_give_equal_rows() {
    let target = gaussian(0.3, 0.25, 2000);
    let row = |seed| target.audit(&settings(seed, 0.99)).unwrap();
    assert_eq!(row(5), row(5));
    assert_ne!(row(5), row(6));
}

#[test]
fn bad_input_is_a_typed_error() {
    let mut registry = Registry::new();
    registry.add(gaussian(0.3, 0.3, 100));
    let unknown = registry.run(&Settings::quick(), Some("h"), &mut |_| {});
    let known = vec!["g".to_owned()];
    assert!(matches!(
        unknown,
        Err(AuditError::UnknownTarget { asked, known: listed }) if asked == "h" && listed == known
    ));
    for confidence in [0.0, 1.0, f64::NAN] {
        let refused = registry.run(&settings(1, confidence), None, &mut |_| {});
        assert!(matches!(refused, Err(AuditError::Setting { .. })));
    }
    let few = gaussian(0.3, 0.3, 10).audit(&Settings::quick());
    assert!(matches!(few, Err(AuditError::Setting { .. })));
    let nan = Canary::new(
        "n",
        "n",
        Claim::pure(1.0),
        Statistic::ApproximateDp,
        |_, _| Ok(f64::NAN),
    );
    assert!(matches!(
        nan.audit(&Settings::quick()),
        Err(AuditError::Score { .. })
    ));
}

/// Every check of the replay, by a run that breaks just that one.
#[test]
fn each_check_of_the_replay_catches_its_own_twin() {
    let z = NoiseMultiplier::new(2.0).unwrap();
    let adjacency = Adjacency::ZeroOut;
    type Change = fn(&mut Ran, bool);
    let changes: [(Change, &str); 4] = [
        (|_, _| {}, "within the claim"),
        (
            |ran, present| ran.outcome = format!("{present}"),
            "public outcomes differ",
        ),
        (
            |ran, _| ran.spent = Event::NoOp,
            "made 1 times and booked 0",
        ),
        (
            |ran, _| ran.spent = Event::gaussian(NoiseMultiplier::new(9.0).unwrap()),
            "made 1 times and booked 0",
        ),
    ];
    for (change, expected) in changes {
        let target = CuratorReplay::new(
            "t",
            "t",
            adjacency,
            |_| {
                vec![Pair {
                    name: "p".to_owned(),
                    recorded: true,
                    replayed: false,
                    changed: ChangedRecord::InPlace(0),
                }]
            },
            move |mut curator, present: &bool| {
                curator.reserve(&Spend::Fixed(Event::gaussian(z)))?;
                let mut sum = dpopt_privacy::LatticeSum::new(super::common::bound(1)?);
                sum.add_scaled(1.0, &[f64::from(u8::from(*present))]);
                super::mechanisms::release_sum(&mut curator, dpopt_privacy::Which::All, sum, z)?;
                let mut ran = Ran {
                    spent: curator.spent(),
                    outcome: String::new(),
                    refused: false,
                };
                change(&mut ran, *present);
                Ok(ran)
            },
        );
        let row = target.audit(&Settings::quick()).unwrap();
        assert!(row.why.contains(expected), "{}", row.why);
        assert_eq!(row.status == Status::Pass, expected == "within the claim");
        assert!((row.replay_mu.unwrap() - 0.5).abs() < 1e-8);
    }
}

/// A mechanism of one's own: the replay of a noisy sum has a closed form.
#[test]
fn a_mechanism_of_ones_own_is_replayed() {
    let target = |deviation: f64| {
        MechanismReplay::new(
            "m",
            "m",
            |_| {
                vec![Pair {
                    name: "p".to_owned(),
                    recorded: vec![0.6, 0.8],
                    replayed: vec![0.0, 0.0],
                    changed: ChangedRecord::InPlace(0),
                }]
            },
            move |tape: &mut AuditTape, data: &Vec<f64>, _| {
                let first = tape.gaussian(data, deviation);
                tape.gaussian(&[data[0] + first[0]], deviation);
                (1.0 + 0.36f64).sqrt() / 4.0
            },
        )
    };
    let row = target(4.0).audit(&Settings::quick()).unwrap();
    assert_eq!((row.status, row.audit), (Status::Pass, Kind::Replay));
    assert!((row.replay_mu.unwrap() - 1.36f64.sqrt() / 4.0).abs() < 1e-12);
    assert_eq!(
        target(3.9).audit(&Settings::quick()).unwrap().status,
        Status::Fail
    );
}

/// The registry that everybody runs can be made, and no two rows have a name in common.
#[test]
fn the_standard_registry_names_each_target_once() {
    let registry = Registry::standard().unwrap();
    let mut names: Vec<&str> = registry.names().collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all);
    for group in [
        "gaussian",
        "spiderboost",
        "noisy-gd-theory",
        "dp-sgd",
        "twins",
        "prefix",
        "recursive",
        "prefix-recursive",
        "tree-rounds",
        "released-numbers",
        "queries",
        "losses",
        "on-disk",
        "certificates",
        "oracle",
    ] {
        assert!(
            registry.groups().iter().any(|known| known == group),
            "{group}"
        );
    }
}

/// Whole runs on an oracle of one's own: sound ones pass, and each mistake is caught by what it breaks.
#[test]
fn each_mistake_of_crooked_oracles_is_caught_for_its_own_reason() {
    let registry = Registry::standard().unwrap();
    let row = |name: &str| {
        let report = registry.run(&Settings::quick(), Some(name), &mut |_| {});
        report.unwrap().rows.swap_remove(0)
    };
    for run in ["noisy-gd", "spiderboost", "batches", "periods"] {
        let row = row(&format!("oracle-of-ones-own/{run}/replace-one"));
        assert_eq!(row.status, Status::Pass, "{run}: {}", row.why);
        assert!(row.replay_mu <= row.claimed_mu.map(|mu| mu * (1.0 + 1e-9)));
    }
    for (name, why) in [
        ("sensitivity-is-a-lie", "of its noise, the claim is"),
        ("slice-read-again", "is above the claimed"),
        ("exact-norm", "public outcomes differ"),
        ("anchor-as-variation", "of its noise, the claim is"),
        ("around-the-ledger", "public outcomes differ"),
        ("share-too-small", "of its noise, the claim is"),
        ("slice-in-two-periods", "is above the claimed"),
    ] {
        let row = row(&format!("{name}/replay/replace-one"));
        assert!(row.control && row.status == Status::Pass, "{name}");
        assert!(row.why.contains(why), "{name}: {}", row.why);
    }
}

/// Twice the sensitivity is twice the mu, a slice that is read in each of four batches is twice the mu of one.
#[test]
fn crooked_oracles_are_caught_by_as_much_as_they_are_wrong() {
    let registry = Registry::standard().unwrap();
    for (name, factor) in [("sensitivity-is-a-lie", 2.0), ("slice-read-again", 2.0)] {
        let name = format!("{name}/replay/replace-one");
        let report = registry
            .run(&Settings::quick(), Some(&name), &mut |_| {})
            .unwrap();
        let row = &report.rows[0];
        let found = row.replay_mu.unwrap() / row.claimed_mu.unwrap();
        assert!((found / factor - 1.0).abs() < 1e-6, "{name} {found}");
    }
}

/// No solver is left out: the law of spending has a row for each under every adjacency.
#[test]
fn every_solver_is_audited() {
    let registry = Registry::standard().unwrap();
    let has = |name: String| registry.names().any(|known| known == name);
    let saddles = dpopt_minimax::SOLVERS.iter().map(|solver| solver.name);
    let minimisers = dpopt_nonconvex::SOLVERS.iter().map(|solver| solver.name);
    for name in saddles.chain(minimisers) {
        for adjacency in super::common::RELATIONS {
            let walk = has(format!("{name}/replay/{adjacency}"));
            assert!(
                walk || has(format!("{name}/replay-rows/{adjacency}")),
                "{name}"
            );
        }
    }
}
