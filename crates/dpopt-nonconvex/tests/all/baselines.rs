//! DP-Adam and decaying clips: post-processing of the releases of DP-SGD.

use std::ops::ControlFlow;

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    Budget, DpAdamPlan, DpSgdPlan, NoObserver, Plan, PlanError, PublicFacts, Release,
};
use dpopt_oracle::{
    Answer, Convexity, FnOracle, Glm, Mean, Offers, Oracle, OracleFacts, PrivateData, PrivateMean,
    Question,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, SamplingRate};

use crate::common::{self, budget_at};

fn facts() -> PublicFacts {
    PublicFacts {
        smoothness: 0.25,
        initial_gap: 1.0,
        convexity: Convexity::Convex,
        ..common::facts(3, 2_000)
    }
}

fn budget() -> Budget {
    budget_at(2.0, 1e-6)
}

fn sgd(steps: u64, step_size: f64, momentum: f64) -> DpSgdPlan {
    let rate = SamplingRate::new(0.1).unwrap();
    DpSgdPlan::with_parameters(&facts(), &budget(), steps, rate, step_size, momentum, 0.5).unwrap()
}

/// Answers with given gradients.
fn scripted(gradients: Vec<[f64; 3]>) -> impl Oracle {
    let facts = OracleFacts::new(3, 2_000, Adjacency::ReplaceOne, Offers::MEANS);
    let mut asked = 0;
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    FnOracle::new(facts, curator, move |_, question| {
        let Question::Mean { of, .. } = question else {
            panic!("{question:?}");
        };
        assert!(of.before().is_none());
        asked += 1;
        Ok(Answer::Mean(Mean::new(gradients[asked - 1].to_vec(), 0.0)))
    })
}

/// Two steps of Adam by hand, with round numbers: b1 = 1/2, b2 = 3/4, eta = 1, no floor to speak of.
/// g = 2, then -1: m = 1, v = 1, m^ = 2, v^ = 4: w = -1. Then m = 0, so that w stays.
/// g = 4, then 4: m^/sqrt(v^) = 1 each time: w = -2.
/// g = 0, then 3: 0 first; then m = 3/2, m^ = 2, v = 9/4, v^ = 9/4/(7/16) = 36/7: w = -2/sqrt(36/7).
#[test]
fn adam_makes_the_steps_of_its_formula() {
    let plan = DpAdamPlan::on(sgd(2, 1.0, 0.5), 0.75, 1e-12, false).unwrap();
    let mut estimator = scripted(vec![[2.0, 4.0, 0.0], [-1.0, 4.0, 3.0]]);
    let point = plan.run(&mut estimator, &mut NoObserver).unwrap().point;
    for (w, expected) in point
        .iter()
        .zip([-1.0, -2.0, -2.0 / (36.0f64 / 7.0).sqrt()])
    {
        assert!((w - expected).abs() < 1e-9, "{point:?}");
    }
    // With the noise taken off, a first gradient of twice its size has v^ - s^2 = 3 s^2.
    let noisy = DpAdamPlan::on(sgd(1, 1.0, 0.5), 0.75, 1e-12, true).unwrap();
    let s = noisy.releases().noise_std();
    let mut estimator = scripted(vec![[2.0 * s, 0.0, 0.0]]);
    let point = noisy.run(&mut estimator, &mut NoObserver).unwrap().point;
    assert!((point[0] + 2.0 / 3f64.sqrt()).abs() < 1e-6 && point[1] == 0.0);
    assert!(matches!(
        DpAdamPlan::on(sgd(2, 1.0, 0.5), 1.0, 1e-8, false),
        Err(PlanError::BadFact { .. })
    ));
    assert!(matches!(
        DpAdamPlan::on(sgd(2, 1.0, 0.5), 0.9, 0.0, false),
        Err(PlanError::BadFact { .. })
    ));
}

#[test]
fn a_decaying_clip_takes_the_noise_along() {
    let plan = sgd(5, 0.1, 0.0).with_clip_decay(0.0625).unwrap();
    let clips: Vec<f64> = (0..5).map(|step| plan.clip_at(step)).collect();
    for (clip, expected) in clips.iter().zip([0.5, 0.25, 0.125, 0.0625, 0.03125]) {
        assert!((clip - expected).abs() < 1e-15);
    }
    let mut design = Design::sparse(3).unwrap();
    for i in 0..2_000u32 {
        design.push_row(&[(i % 3, 1.0)]).unwrap();
    }
    let labels = (0..2_000)
        .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let row_norm = ClipNorm::new(1.0).unwrap();
    let data = PrivateData::made_up(design, labels, row_norm, Adjacency::ReplaceOne, None).unwrap();
    let curator = Curator::protected(data.adjacency()).unwrap();
    let mut estimator = PrivateMean::new(&data, Glm::Logistic, curator).unwrap();
    let mut noise = Vec::new();
    plan.run(&mut estimator, &mut |release: &Release<'_>| {
        noise.push(release.noise_norm);
        ControlFlow::Continue(())
    })
    .unwrap();
    for (step, noise) in noise.iter().enumerate() {
        let expected = 3f64.sqrt() * plan.noise_std() * 0.5f64.powi(step as i32);
        assert!(
            (noise / expected - 1.0).abs() < 1e-6,
            "{step} {noise} {expected}"
        );
    }
    let guarantee = estimator.curator().guarantee(budget().delta).unwrap();
    assert!(guarantee.epsilon() <= 2.0 && guarantee.epsilon() > 1.9);
    assert!(sgd(5, 0.1, 0.0).with_clip_decay(0.0).is_err());
}

/// 2000 rows on three axes.
fn on_axes(run: impl FnOnce(&mut PrivateMean<'_, Glm>)) {
    let mut design = Design::sparse(3).unwrap();
    for i in 0..2_000u32 {
        design.push_row(&[(i % 3, 1.0)]).unwrap();
    }
    let row_norm = ClipNorm::new(1.0).unwrap();
    let labels = vec![1.0; 2_000];
    let data = PrivateData::made_up(design, labels, row_norm, Adjacency::ReplaceOne, None).unwrap();
    let curator = Curator::simulated(data.adjacency(), 7);
    let mut estimator = PrivateMean::new(&data, Glm::Logistic, curator).unwrap();
    run(&mut estimator);
}

/// The noise norms of the releases of a run.
fn noise_of(plan: &dyn Plan, estimator: &mut PrivateMean<'_, Glm>) -> Vec<f64> {
    let mut noise = Vec::new();
    plan.run(estimator, &mut |release: &Release<'_>| {
        noise.push(release.noise_norm);
        ControlFlow::Continue(())
    })
    .unwrap();
    noise
}

/// A plan that says that its clip decays has to run like that, whoever walks on its releases.
#[test]
fn adam_keeps_to_the_clips_of_its_releases() {
    let releases = sgd(5, 0.1, 0.5).with_clip_decay(0.0625).unwrap();
    let adam = DpAdamPlan::on(releases.clone(), 0.75, 1e-9, false).unwrap();
    on_axes(|estimator| {
        let noise = noise_of(&adam, estimator);
        for (step, noise) in noise.iter().enumerate() {
            let expected = 3f64.sqrt() * releases.noise_std() * 0.5f64.powi(step as i32);
            assert!((noise / expected - 1.0).abs() < 1e-6, "{step} {noise}");
        }
    });
}

/// Two steps with b1 = 1/2, b2 = 3/4, noise s and then s/2, gradients 2s and 2s: v^ = 4 s^2 twice, and the noise in it is
/// s^2, then (3/16 s^2 + 1/16 s^2)/(7/16) = 4/7 s^2: steps of 2/sqrt 3 and 2/sqrt(24/7).
#[test]
fn the_noise_that_is_subtracted_is_that_of_the_releases() {
    let releases = sgd(2, 1.0, 0.5).with_clip_decay(0.5).unwrap();
    let s = releases.noise_std();
    let adam = DpAdamPlan::on(releases, 0.75, 1e-12, true).unwrap();
    let mut estimator = scripted(vec![[2.0 * s; 3]; 2]);
    let point = adam.run(&mut estimator, &mut NoObserver).unwrap().point;
    let expected = -2.0 / 3f64.sqrt() - 2.0 / (24f64 / 7.0).sqrt();
    assert!((point[0] - expected).abs() < 1e-6, "{point:?} {expected}");
}

/// A plan without a decay does not set a clip: it must not inherit the last radius of the run before.
#[test]
fn a_second_run_begins_at_the_first_radius() {
    let plan = sgd(5, 0.1, 0.0);
    let decaying = plan.clone().with_clip_decay(0.0625).unwrap();
    on_axes(|estimator| {
        let first = noise_of(&decaying, estimator);
        let second = noise_of(&plan, estimator);
        assert_eq!(first[0], second[0]);
        assert!(first[4] < 0.07 * first[0] && second[4] == second[0]);
    });
}

#[test]
fn a_bad_momentum_is_named() {
    let rate = SamplingRate::new(0.1).unwrap();
    let plan = |momentum| {
        DpSgdPlan::with_parameters(&facts(), &budget(), 5, rate, 0.1, momentum, 0.5).err()
    };
    let bad = |name, value| Some(PlanError::BadFact { name, value });
    assert_eq!(plan(-0.5), bad("momentum", -0.5));
    assert_eq!(plan(1.0), bad("1 - momentum", 0.0));
}
