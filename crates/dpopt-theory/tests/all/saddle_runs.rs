//! Runs of saddle plans: what they refuse, what they state, and Theorems 1 and 2 where y has to be tracked (kappa_y > 1).

use std::ops::ControlFlow;

use dpopt_linalg::distance;
use dpopt_minimax::{
    Budget, NoObserver, Plan, Release, ReleaseKind, RgdaAnytimePlan, RgdaAnytimeSettings, RgdaPlan,
    Run, RunError, SaddleFacts, SaddleLimits, SpiderGdaPlan, Stop, Value,
};
use dpopt_oracle::{Linear, Oracle as _, Regularizer, Scale};
use dpopt_privacy::{Adjacency, ClipNorm, Delta, Epsilon, Event, NoiseMultiplier, Spend, Which};
use dpopt_theory::{
    ClosedForm, CosineSaddle, Coupled, JointProblem, MinimaxProblem, NoiseRule, Ramp, RampBowl,
    SimulatedOracle,
};

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn limits() -> SaddleLimits {
    SaddleLimits::steps(100_000_000)
}

fn simulated<'a, P: MinimaxProblem>(
    joint: &'a JointProblem<'a, P>,
    records: u64,
    seed: u64,
) -> SimulatedOracle<ClosedForm<'a, JointProblem<'a, P>>> {
    let population = ClosedForm::new(joint, records).with_blocks(joint.blocks());
    SimulatedOracle::over(population, Adjacency::ReplaceOne, seed)
}

/// A ramp under y with this kappa_y, d1 = d2 = 5.
fn coupled(slope: f64, kappa: f64) -> Coupled<RampBowl> {
    let ramp = RampBowl::new(5, 1.0, 1.0, 0.5, Ramp::Straight, slope).unwrap();
    let problem = Coupled::new(ramp, 5, 0.5, 1.0).unwrap();
    problem.with_condition(kappa).unwrap()
}

fn count(plan: &dyn Plan, name: &str) -> u64 {
    let item = plan.items().into_iter().find(|item| item.name == name);
    match item.unwrap().value {
        Value::Count(count) => count,
        other => panic!("{name}: {other:?}"),
    }
}

fn scale(plan: &dyn Plan) -> f64 {
    plan.blocks().unwrap().scale
}

/// What a run of `rgda` did.
struct Walked {
    /// Anchors beyond those that were planned.
    early: i64,
    /// The largest error of v over a/2, at the points that steps start from.
    error: f64,
    /// The slope of Phi at the end over 3 a/2.
    slope: f64,
    stop: Stop,
}

fn walked(plan: &RgdaPlan, problem: &Coupled<RampBowl>, records: u64, seed: u64) -> Walked {
    let joint = JointProblem::new(problem, scale(plan));
    let (before, inner) = (count(plan, "steps_of_y_before"), count(plan, "inner_steps"));
    let (mut anchors, mut releases, mut worst) = (0, 0, 0.0f64);
    let mut watch = |release: &Release<'_>| {
        anchors += u64::from(release.kind == ReleaseKind::Anchor);
        releases += 1;
        let settled =
            release.step >= before && (release.step + 1 - before).is_multiple_of(inner + 1);
        if settled {
            let exact = problem.value_gradient(&release.point[..5]);
            worst = worst.max(distance(&release.vector[..5], &exact));
        }
        ControlFlow::Continue(())
    };
    let mut oracle = simulated(&joint, records, seed);
    let outcome = plan
        .run_from(&joint.start(), &mut oracle, &mut watch)
        .unwrap();
    let outer: u64 = (releases - before) / (inner + 1);
    let planned = before + outer.div_ceil(count(plan, "period"));
    Walked {
        early: anchors as i64 - planned as i64,
        error: worst / (0.5 * plan.target()),
        slope: problem.value_slope(&outcome.point[..5]) / (1.5 * plan.target()),
        stop: outcome.stop,
    }
}

/// Theorem 1 with p = 1e-4, so that 36 runs break it with probability 0.0036 at most.
#[test]
fn rgda_tracks_y_as_planned() {
    let records = 1_000_000;
    let mut limits = limits();
    limits.failure = 1e-4;
    for kappa in [2.0, 4.0, 10.0] {
        let facts = coupled(0.1, kappa).facts(records);
        assert!((facts.mean.condition() / kappa - 1.0).abs() < 1e-12);
        let plan = RgdaPlan::new(&facts, &budget(), &limits).unwrap();
        assert!(count(&plan, "inner_steps") > 1);
        for seed in 0..12 {
            // Ramps that end at once, in the middle, and never but at their foot.
            let slope = plan.target() * [0.8, 1.2, 2.0][seed as usize % 3];
            let found = walked(&plan, &coupled(slope, kappa), records, seed);
            assert_eq!((found.stop, found.early), (Stop::SmallEstimate, 0));
            assert!(found.error <= 1.0 && found.slope <= 1.0);
        }
    }
}

/// A plan that takes y for better conditioned than it is makes errors that the other's plan excludes.
#[test]
fn a_plan_for_another_condition_breaks_its_bound() {
    let records = 1_000_000;
    let mut facts = coupled(0.1, 10.0).facts(records);
    facts.mean.strong_concavity = facts.mean.smooth_yy;
    let plan = RgdaPlan::new(&facts, &budget(), &limits()).unwrap();
    let broken = (0..4).filter(|&seed| {
        let problem = coupled(2.0 * plan.target(), 10.0);
        let found = walked(&plan, &problem, records, seed);
        found.early > 0 || found.error > 1.0
    });
    assert_eq!(broken.count(), 4);
}

/// Theorem 2: the root mean square slope of runs, on ramps at several shares of the bound, is below it.
#[test]
fn spider_gda_tracks_y_as_planned() {
    let records = 1_000_000;
    for kappa in [2.0, 4.0, 10.0] {
        let plan =
            SpiderGdaPlan::new(&coupled(0.1, kappa).facts(records), &budget(), &limits()).unwrap();
        let bound = plan.bound().unwrap().value;
        let (before, inner) = (
            count(&plan, "steps_of_y_before"),
            count(&plan, "inner_steps"),
        );
        for ratio in [0.5, 0.8, 1.5] {
            let problem = coupled(ratio * bound, kappa);
            let joint = JointProblem::new(&problem, scale(&plan));
            let (mut squares, mut anchors) = (Vec::new(), 0);
            // The output is uniform over the points that steps start from: their mean is its expectation.
            let mut watch = |release: &Release<'_>| {
                anchors += u64::from(release.kind == ReleaseKind::Anchor);
                if release.step >= before && (release.step + 1 - before).is_multiple_of(inner + 1) {
                    squares.push(problem.value_slope(&release.point[..5]).powi(2));
                }
                ControlFlow::Continue(())
            };
            for seed in 0..2 {
                let mut oracle = simulated(&joint, records, seed);
                let outcome = plan
                    .run_from(&joint.start(), &mut oracle, &mut watch)
                    .unwrap();
                assert_eq!(outcome.stop, Stop::Completed);
                assert!(outcome.bound().is_some());
            }
            assert_eq!(anchors, 2 * count(&plan, "anchors"));
            assert_eq!(squares.len() as u64, 2 * plan.outer_steps());
            let found = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
            assert!(found <= bound, "{kappa} {ratio}: {found} of {bound}");
        }
    }
}

/// The releases before the first step of x are counted too: K_0 is not small where kappa_y is 10.
#[test]
fn plans_fit_into_the_releases_that_are_allowed() {
    let facts = coupled(0.1, 10.0).facts(1_000_000);
    let plan = |most: u64| -> [Option<Box<dyn Plan>>; 2] {
        let limits = SaddleLimits::steps(most);
        let rgda = RgdaPlan::new(&facts, &budget(), &limits).ok();
        let spider = SpiderGdaPlan::new(&facts, &budget(), &limits).ok();
        [
            rgda.map(|plan| Box::new(plan) as Box<dyn Plan>),
            spider.map(|plan| Box::new(plan) as Box<dyn Plan>),
        ]
    };
    for (which, free) in plan(100_000_000).into_iter().enumerate() {
        let free = free.unwrap();
        assert!(count(&*free, "steps_of_y_before") > 50);
        let steps = free.steps();
        for most in [steps, steps - 1, steps - 30, steps / 2, 60, 1] {
            if let Some(found) = &plan(most)[which] {
                assert!(found.steps() <= most, "{} {most}", found.name());
            }
        }
        assert!(plan(steps)[which].is_some() && plan(1)[which].is_none());
    }
}

#[test]
fn regularizers_are_refused() {
    let problem = CosineSaddle::new(3, 3).unwrap();
    let plan = RgdaPlan::new(&problem.facts(100_000), &budget(), &limits()).unwrap();
    let joint = JointProblem::new(&problem, scale(&plan));
    let mut oracle = simulated(&joint, 100_000, 1);
    let mut observer = NoObserver;
    let start = joint.start();
    let run = Run::new(&mut observer)
        .starting_at(Some(&start))
        .with_regularizer(Regularizer::Ridge(Scale::new(0.1).unwrap()));
    let error = plan.run_with(&mut oracle, run).unwrap_err();
    assert!(
        matches!(error, RunError::NoRegularizer { solver: "rgda" }),
        "{error}"
    );
    assert_eq!(oracle.counts(), simulated(&joint, 100_000, 1).counts());
}

/// A plan of smaller constants, at the same blocks, is about another field: it states nothing. A certificate needs the clip alone.
#[test]
fn nothing_is_stated_of_a_field_that_was_not_planned_for() {
    let problem = CosineSaddle::new(3, 3).unwrap();
    let records = 100_000;
    let stated = |facts: &SaddleFacts, rule: NoiseRule| {
        let settings = RgdaAnytimeSettings::new(1_000_000).first_order();
        let plans: [Box<dyn Plan>; 3] = [
            Box::new(RgdaPlan::new(facts, &budget(), &limits()).unwrap()),
            Box::new(SpiderGdaPlan::new(facts, &budget(), &limits()).unwrap()),
            Box::new(RgdaAnytimePlan::new(facts, &budget(), settings).unwrap()),
        ];
        plans.map(|plan| {
            let joint = JointProblem::new(&problem, scale(&*plan));
            let mut oracle = simulated(&joint, records, 2).with_rule(rule);
            let outcome = plan
                .run_from(&joint.start(), &mut oracle, &mut NoObserver)
                .unwrap();
            outcome.bound().is_some()
        })
    };
    let honest = problem.facts(records);
    assert_eq!(stated(&honest, NoiseRule::Displacement), [true; 3]);
    let mut shorter = honest.clone();
    shorter.record.lipschitz_x *= 0.99;
    assert_eq!(stated(&shorter, NoiseRule::Displacement), [false; 3]);
    let mut flatter = honest.clone();
    flatter.record.smooth_xx *= 0.95;
    let only_certified = [false, false, true];
    assert_eq!(stated(&flatter, NoiseRule::Displacement), only_certified);
    // Noise that does not know the displacement.
    assert_eq!(stated(&honest, NoiseRule::Lipschitz), only_certified);
}

/// A range beyond the end is read as far as there is something, as the curator does.
#[test]
fn simulated_norms_of_ranges_beyond_the_end() {
    let problem = CosineSaddle::new(2, 3).unwrap();
    let joint = JointProblem::new(&problem, 1.0);
    let point = [0.5, -0.2, 0.3, 0.4, 0.1];
    let (mut of_x, mut of_y) = (vec![0.0; 2], vec![0.0; 3]);
    problem.gradient(&point[..2], &point[2..], (&mut of_x, &mut of_y));
    let all = [of_x, of_y].concat();
    let z = NoiseMultiplier::new(0.1).unwrap();
    let mut oracle = simulated(&joint, 1_000_000, 3);
    let cap = Event::gaussian(NoiseMultiplier::new(0.01).unwrap());
    oracle.books().reserve(&Spend::AtMost(cap)).unwrap();
    let field = Linear::field(&point, ClipNorm::new(100.0).unwrap());
    for (from, to) in [(0, 99), (2, 6), (3, 5), (5, 9), (7, 9)] {
        let found = oracle
            .norm_within(field, Some(from..to), &[], (Which::All, z))
            .unwrap();
        let expected = all.iter().skip(from).map(|g| g * g).sum::<f64>().sqrt();
        assert!(
            (found.number - expected).abs() <= 6.0 * found.noise_std,
            "{from} {to}"
        );
        assert!(found.noise_std < 1e-4);
    }
}
