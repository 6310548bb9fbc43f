//! DP-Adam and decaying clips: post-processing of the releases of DP-SGD.

use std::ops::ControlFlow;

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    Budget, DpAdamPlan, DpSgdPlan, NoObserver, PlanError, PublicFacts, Release, RunError, Solver,
    SolverPlan,
};
use dpopt_oracle::{
    Access, Convexity, Counts, Estimate, Estimator, Glm, PrivateData, PrivateGradient,
};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, NoiseMultiplier, Refused, SamplingRate,
    Spend,
};

fn facts() -> PublicFacts {
    PublicFacts {
        records: 2_000,
        dim: 3,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 1.0,
        smoothness: 0.25,
        initial_gap: 1.0,
        row_norm: 1.0,
        convexity: Convexity::Convex,
    }
}

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(2.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn sgd(steps: u64, step_size: f64, momentum: f64) -> DpSgdPlan {
    let rate = SamplingRate::new(0.1).unwrap();
    DpSgdPlan::with_parameters(&facts(), &budget(), steps, rate, step_size, momentum, 0.5).unwrap()
}

/// Answers with given gradients, and can't change its clip radius.
struct Scripted(Vec<[f64; 3]>, usize);

impl Estimator for Scripted {
    fn dim(&self) -> usize {
        3
    }
    fn reserve(&mut self, _: &Spend) -> Result<(), Refused> {
        Ok(())
    }
    fn refresh(&mut self, _: &[f64], _: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.1 += 1;
        Ok(Estimate::new(&self.0[self.1 - 1], 0.0, 0.0))
    }
    fn advance(&mut self, point: &[f64], z: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.refresh(point, z)
    }
    fn draw_index(&mut self, _: u64) -> u64 {
        0
    }
    fn settle(&mut self) -> Result<Event, Refused> {
        Ok(Event::gaussian(NoiseMultiplier::new(1.0).unwrap()))
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// Two steps of Adam by hand, with round numbers: b1 = 1/2, b2 = 3/4, eta = 1, no floor to speak of.
/// g = 2, then -1: m = 1, v = 1, m^ = 2, v^ = 4: w = -1. Then m = 0, so that w stays.
/// g = 4, then 4: m^/sqrt(v^) = 1 each time: w = -2.
/// g = 0, then 3: 0 first; then m = 3/2, m^ = 2, v = 9/4, v^ = 9/4/(7/16) = 36/7: w = -2/sqrt(36/7).
#[test]
fn adam_makes_the_steps_of_its_formula() {
    let plan = DpAdamPlan::on(sgd(2, 1.0, 0.5), 0.75, 1e-12, false).unwrap();
    let mut estimator = Scripted(vec![[2.0, 4.0, 0.0], [-1.0, 4.0, 3.0]], 0);
    let point = plan.run(&mut estimator, &mut NoObserver).unwrap().point;
    for (w, expected) in point
        .iter()
        .zip([-1.0, -2.0, -2.0 / (36.0f64 / 7.0).sqrt()])
    {
        assert!((w - expected).abs() < 1e-9, "{point:?}");
    }
    // With the noise taken off, a first gradient of twice its size has v^ - s^2 = 3 s^2.
    let noisy = DpAdamPlan::on(sgd(1, 1.0, 0.5), 0.75, 1e-12, true).unwrap();
    let s = noisy.releases.noise_std;
    let mut estimator = Scripted(vec![[2.0 * s, 0.0, 0.0]], 0);
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
fn all_spend_what_dp_sgd_spends() {
    let plain = Solver::DpSgd.plan(&facts(), &budget(), 50).unwrap();
    for solver in [Solver::DpAdam, Solver::DpSgdDecay] {
        let plan = solver.plan(&facts(), &budget(), 50).unwrap();
        assert_eq!(plan.spend(), plain.spend());
        assert_eq!(plan.access(), plain.access());
        assert_eq!(
            (plan.steps(), plan.predicted_bound()),
            (plain.steps(), None)
        );
        assert_eq!(solver.to_string().parse(), Ok(solver));
    }
}

#[test]
fn a_decaying_clip_takes_the_noise_along() {
    let plan = sgd(5, 0.1, 0.0).with_clip_decay(0.0625).unwrap();
    let clips: Vec<f64> = (0..5).map(|step| plan.clip_at(step)).collect();
    for (clip, expected) in clips.iter().zip([0.5, 0.25, 0.125, 0.0625, 0.03125]) {
        assert!((clip - expected).abs() < 1e-15);
    }
    let fixed = plan.run(&mut Scripted(Vec::new(), 0), &mut NoObserver);
    assert!(matches!(fixed, Err(RunError::FixedClip)));
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
    let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator)
        .unwrap()
        .with_access(Access::Poisson(plan.sampling_rate));
    let mut noise = Vec::new();
    let solver = SolverPlan::DpSgd(plan.clone());
    solver
        .run(&mut estimator, &mut |release: &Release<'_>| {
            noise.push(release.noise_norm);
            ControlFlow::Continue(())
        })
        .unwrap();
    for (step, noise) in noise.iter().enumerate() {
        let expected = 3f64.sqrt() * plan.noise_std * 0.5f64.powi(step as i32);
        assert!(
            (noise / expected - 1.0).abs() < 1e-6,
            "{step} {noise} {expected}"
        );
    }
    let guarantee = estimator.curator().guarantee(budget().delta).unwrap();
    assert!(guarantee.epsilon() <= 2.0 && guarantee.epsilon() > 1.9);
    assert!(sgd(5, 0.1, 0.0).with_clip_decay(0.0).is_err());
}

/// 2000 rows on three axes, with an estimator that samples as `plan` does.
fn on_axes(plan: &DpSgdPlan, run: impl FnOnce(&mut PrivateGradient<'_>)) {
    let mut design = Design::sparse(3).unwrap();
    for i in 0..2_000u32 {
        design.push_row(&[(i % 3, 1.0)]).unwrap();
    }
    let row_norm = ClipNorm::new(1.0).unwrap();
    let labels = vec![1.0; 2_000];
    let data = PrivateData::made_up(design, labels, row_norm, Adjacency::ReplaceOne, None).unwrap();
    let curator = Curator::simulated(data.adjacency(), 7);
    let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator)
        .unwrap()
        .with_access(Access::Poisson(plan.sampling_rate));
    run(&mut estimator);
}

/// The noise norms of the releases of a run.
fn noise_of(plan: &SolverPlan, estimator: &mut PrivateGradient<'_>) -> Vec<f64> {
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
    let fixed = adam.run(&mut Scripted(Vec::new(), 0), &mut NoObserver);
    assert!(matches!(fixed, Err(RunError::FixedClip)));
    on_axes(&releases, |estimator| {
        let noise = noise_of(&SolverPlan::DpAdam(adam), estimator);
        for (step, noise) in noise.iter().enumerate() {
            let expected = 3f64.sqrt() * releases.noise_std * 0.5f64.powi(step as i32);
            assert!((noise / expected - 1.0).abs() < 1e-6, "{step} {noise}");
        }
    });
}

/// Answers as scripted, with any clip.
struct Pliant(Scripted);

impl Estimator for Pliant {
    fn dim(&self) -> usize {
        3
    }
    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.0.reserve(spend)
    }
    fn refresh(&mut self, point: &[f64], z: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.0.refresh(point, z)
    }
    fn advance(&mut self, point: &[f64], z: NoiseMultiplier) -> Result<Estimate<'_>, Refused> {
        self.0.advance(point, z)
    }
    fn set_clip(&mut self, _: ClipNorm) -> bool {
        true
    }
    fn draw_index(&mut self, _: u64) -> u64 {
        0
    }
    fn settle(&mut self) -> Result<Event, Refused> {
        self.0.settle()
    }
    fn counts(&self) -> Counts {
        Counts::default()
    }
}

/// Two steps with b1 = 1/2, b2 = 3/4, noise s and then s/2, gradients 2s and 2s: v^ = 4 s^2 twice, and the noise in it is
/// s^2, then (3/16 s^2 + 1/16 s^2)/(7/16) = 4/7 s^2: steps of 2/sqrt 3 and 2/sqrt(24/7).
#[test]
fn the_noise_that_is_subtracted_is_that_of_the_releases() {
    let releases = sgd(2, 1.0, 0.5).with_clip_decay(0.5).unwrap();
    let s = releases.noise_std;
    let adam = DpAdamPlan::on(releases, 0.75, 1e-12, true).unwrap();
    let mut estimator = Pliant(Scripted(vec![[2.0 * s; 3]; 2], 0));
    let point = adam.run(&mut estimator, &mut NoObserver).unwrap().point;
    let expected = -2.0 / 3f64.sqrt() - 2.0 / (24f64 / 7.0).sqrt();
    assert!((point[0] - expected).abs() < 1e-6, "{point:?} {expected}");
}

/// A plan without a decay does not set a clip: it must not inherit the last radius of the run before.
#[test]
fn a_second_run_begins_at_the_first_radius() {
    let plan = sgd(5, 0.1, 0.0);
    let decaying = plan.clone().with_clip_decay(0.0625).unwrap();
    on_axes(&plan, |estimator| {
        assert!(Estimator::set_clip(
            estimator,
            ClipNorm::new(plan.clip).unwrap()
        ));
        let first = noise_of(&SolverPlan::DpSgd(decaying.clone()), estimator);
        let second = noise_of(&SolverPlan::DpSgd(plan.clone()), estimator);
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
