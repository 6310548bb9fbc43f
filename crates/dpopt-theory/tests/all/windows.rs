//! Certificates of windows on runs of real plans, beside the gradients that nobody else sees.

use std::num::NonZeroU64;
use std::ops::ControlFlow;

use dpopt_certify::{
    Problem, ReleasedWindow, WindowCertificate, WindowError, WindowPlan, WindowSubject, WindowTerms,
};
use dpopt_linalg::{distance, norm};
use dpopt_nonconvex::{
    Budget, DpSgdPlan, ExtraFacts, GoldsteinPlan, GoldsteinSettings, Limits, NoObserver,
    NoisyGdPlan, Plan, PublicFacts, Release, SOLVERS, SpiderBoostPlan,
};
use dpopt_privacy::Adjacency;
use dpopt_theory::verify::budget_at;
use dpopt_theory::{Ramp, RampBowl, SimulatedOracle};

const FAILURE: f64 = 0.05;
const RECORDS: u64 = 3_000;

fn problem() -> RampBowl {
    RampBowl::new(10, 1.0, 1.0, 0.5, Ramp::Straight, 0.1).unwrap()
}

fn facts() -> PublicFacts {
    problem().facts(RECORDS, Adjacency::ReplaceOne)
}

fn budget() -> Budget {
    budget_at(0.25, 1e-6).unwrap()
}

/// The certificate of a run, with the exact mean gradient over its window and how far the window's points are from their mean.
fn certified(plan: &dyn Plan, seed: u64) -> Result<(WindowCertificate, f64, f64), WindowError> {
    let problem = problem();
    let mut oracle = SimulatedOracle::new(&problem, RECORDS, Adjacency::ReplaceOne, seed);
    let mut points: Vec<Vec<f64>> = Vec::new();
    let mut keep = |release: &Release<'_>| {
        points.push(release.point.to_vec());
        ControlFlow::Continue(())
    };
    let mut watched = ReleasedWindow::new(WindowPlan::of(plan, FAILURE)?, &mut keep);
    plan.run(&mut oracle, &mut watched).unwrap();
    let certificate = watched.certificate()?;
    let from = certificate.first_step as usize;
    let window = &points[from..from + certificate.window as usize];
    let mut mean = vec![0.0; 10];
    let mut gradient = vec![0.0; 10];
    for point in window {
        problem.gradient(point, &mut gradient);
        for (sum, g) in mean.iter_mut().zip(&gradient) {
            *sum += g / window.len() as f64;
        }
    }
    let away = window.iter().map(|y| distance(y, &certificate.point));
    let radius = away.fold(0.0, f64::max);
    Ok((certificate, norm(&mean), radius))
}

#[test]
fn plans_with_fresh_gradients_certify_their_windows() {
    let settings = GoldsteinSettings::at_radius(0.5);
    let goldstein = GoldsteinPlan::new(&facts(), &budget(), &settings, 2_000).unwrap();
    let sampled = GoldsteinPlan::sampled(&facts(), &budget(), &settings, 2_000).unwrap();
    let descent = NoisyGdPlan::theory(&facts(), &budget(), 200).unwrap();
    let clipped = NoisyGdPlan::momentum(&facts(), &budget(), 200).unwrap();
    let sgd = DpSgdPlan::new(&facts(), &budget(), 200).unwrap();
    let plans: [(&dyn Plan, WindowSubject); 5] = [
        (&goldstein, WindowSubject::GoldsteinDistance),
        (&sampled, WindowSubject::GoldsteinDistance),
        (&descent, WindowSubject::GoldsteinDistance),
        (&clipped, WindowSubject::ClippedGradients),
        (&sgd, WindowSubject::ClippedGradients),
    ];
    for (plan, subject) in plans {
        for seed in 0..4 {
            let (certificate, gradient, radius) = certified(plan, seed).unwrap();
            assert_eq!(certificate.of, subject);
            // No gradient of this problem on these walks is longer than the clip, a half: what is clipped is what is.
            assert!(gradient <= certificate.value, "{plan:?}: {certificate:?}");
            assert!(certificate.value < 1.0, "{certificate:?}");
            assert!((radius..=radius * (1.0 + 1e-9)).contains(&certificate.radius));
            assert!(certificate.radius_is_exact);
        }
    }
    // A block of the walk is no wider than what was asked for.
    let (certificate, ..) = certified(&goldstein, 0).unwrap();
    assert!(certificate.radius <= 0.5);
    assert_eq!(certificate.window, goldstein.schedule().block);
    assert_eq!(
        certificate.windows,
        goldstein.steps() / goldstein.schedule().block
    );
}

/// The deviation that a plan states is the one that its releases have.
#[test]
fn only_solvers_with_fresh_releases_of_one_noise_have_windows() {
    let extra = ExtraFacts::default()
        .with_radius(1.0)
        .with_goldstein_radius(0.5);
    let mut fresh = Vec::new();
    for solver in SOLVERS {
        let Ok(plan) = solver.plan(&facts(), &extra, &budget(), &Limits::steps(200)) else {
            continue;
        };
        match WindowPlan::of(&*plan, FAILURE) {
            Ok(_) => {
                certified(&*plan, 1).unwrap();
                fresh.push(solver.name);
            }
            Err(error) => assert_eq!(
                error,
                WindowError::NotFresh {
                    solver: plan.name()
                }
            ),
        }
    }
    for name in [
        "noisy-gd",
        "noisy-gd-theory",
        "dp-sgd",
        "dp-adam",
        "goldstein",
        "goldstein-sampled",
    ] {
        assert!(fresh.contains(&name), "{name} not in {fresh:?}");
    }
    for name in [
        "dp-sgd-decay",
        "spiderboost",
        "storm",
        "tree-spider",
        "adaptive-gd",
    ] {
        assert!(!fresh.contains(&name), "{name}");
    }
}

/// One pass in periods, unlike one of fresh estimates: releases of a period share their noise.
#[test]
fn one_pass_has_windows_until_it_runs_in_periods() {
    let many = PublicFacts {
        records: 10_000_000,
        dim: 2,
        ..facts()
    };
    let settings = GoldsteinSettings::at_radius(0.2);
    let fresh = GoldsteinSettings {
        period: NonZeroU64::new(1),
        ..settings
    };
    let window = |settings| {
        let plan = GoldsteinPlan::single_pass(&many, &budget(), settings).unwrap();
        (
            plan.schedule().period.is_some(),
            WindowPlan::of(&plan, FAILURE),
        )
    };
    assert!(matches!(window(&fresh), (false, Ok(_))));
    let solver = "goldstein-pass";
    let (periods, refused) = window(&settings);
    assert!(periods);
    assert_eq!(refused.unwrap_err(), WindowError::NotFresh { solver });
}

/// Terms by hand don't help: the observer sees what comes.
#[test]
fn a_run_with_variations_is_refused() {
    let plan = SpiderBoostPlan::new(&facts(), &budget(), 200).unwrap();
    let noisy = NoisyGdPlan::theory(&facts(), &budget(), 200).unwrap();
    let problem = problem();
    let noise = {
        // What its first anchor has.
        let mut seen = None;
        let mut watch = |release: &Release<'_>| {
            seen.get_or_insert(release.noise_norm / 10f64.sqrt());
            ControlFlow::Continue(())
        };
        let mut oracle = SimulatedOracle::new(&problem, RECORDS, Adjacency::ReplaceOne, 1);
        plan.run(&mut oracle, &mut watch).unwrap();
        seen.unwrap()
    };
    let terms = WindowTerms {
        releases: plan.steps(),
        window: 1,
        noise_std: noise,
        ..WindowTerms::of(&noisy, FAILURE).unwrap()
    };
    let mut none = NoObserver;
    let mut watched = ReleasedWindow::new(WindowPlan::new(terms).unwrap(), &mut none);
    let mut oracle = SimulatedOracle::new(&problem, RECORDS, Adjacency::ReplaceOne, 1);
    plan.run(&mut oracle, &mut watched).unwrap();
    let error = watched.certificate().unwrap_err();
    assert!(
        matches!(error, WindowError::Kind { step: 1.., .. }),
        "{error}"
    );
}

#[test]
fn under_add_remove_nothing_is_certified() {
    let facts = PublicFacts {
        adjacency: Adjacency::AddRemove,
        ..facts()
    };
    let plan = NoisyGdPlan::momentum(&facts, &budget(), 50).unwrap();
    assert_eq!(
        WindowPlan::of(&plan, FAILURE).unwrap_err(),
        WindowError::DeclaredSize
    );
}
