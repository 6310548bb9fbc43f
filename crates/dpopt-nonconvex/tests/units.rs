//! Plans in other units: a loss in cents for euros, rows in millimetres for metres. What has no unit must not change, and
//! bounds must scale as gradients do.

use dpopt_nonconvex::{
    Budget, ConvexFacts, DpAdamPlan, DpSgdPlan, JlFacts, JlPlan, NoisyGdPlan, PublicFacts,
    PublicRank, RecursiveGdPlan, RecursiveSgdPlan, SampledSpiderBoostPlan, Solver, SpiderBoostPlan,
    TreeSettings, TreeSpiderPlan, TreeTarget,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon};

const STEPS: u64 = 1 << 40;

fn facts(records: u64, dim: usize) -> PublicFacts {
    PublicFacts {
        records,
        dim,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 1.0,
        smoothness: 0.75,
        initial_gap: 0.6,
        row_norm: 1.0,
        convexity: Convexity::Convex,
    }
}

/// The loss times `loss` and rows times `rows`, so that points are divided by `rows`.
fn scaled(facts: &PublicFacts, loss: f64, rows: f64) -> PublicFacts {
    PublicFacts {
        lipschitz: facts.lipschitz * loss * rows,
        smoothness: facts.smoothness * loss * rows * rows,
        initial_gap: facts.initial_gap * loss,
        row_norm: facts.row_norm * rows,
        ..*facts
    }
}

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    }
}

/// What of a plan has no unit, then what has that of a gradient, then that of a step along one, then that of a step.
#[derive(Debug, Default)]
struct Shape {
    numbers: Vec<f64>,
    gradients: Vec<f64>,
    step_sizes: Vec<f64>,
    lengths: Vec<f64>,
}

fn shapes(f: &PublicFacts, radius: f64) -> Vec<(&'static str, Shape)> {
    let b = budget();
    let gd = |plan: NoisyGdPlan| Shape {
        numbers: vec![
            plan.steps as f64,
            plan.momentum,
            plan.noise_multiplier.get(),
        ],
        gradients: vec![
            plan.clip,
            plan.noise_std,
            plan.predicted_bound.unwrap_or(0.0),
        ],
        step_sizes: vec![plan.step_size],
        ..Shape::default()
    };
    let sgd = |plan: &DpSgdPlan| Shape {
        numbers: vec![
            plan.steps as f64,
            plan.momentum,
            plan.sampling_rate.get(),
            plan.noise_multiplier.get(),
            plan.clip_decay,
        ],
        gradients: vec![plan.clip, plan.noise_std],
        step_sizes: vec![plan.step_size],
        ..Shape::default()
    };
    let spider = |plan: SpiderBoostPlan| Shape {
        numbers: vec![
            plan.steps as f64,
            plan.phase as f64,
            plan.anchor_share,
            plan.variation_noise_multiplier.get(),
        ],
        gradients: vec![plan.clip, plan.predicted_bound.unwrap()],
        step_sizes: vec![plan.step_size],
        ..Shape::default()
    };
    let tree = |target| {
        let settings = TreeSettings::new(target).even_if_vacuous();
        let plan = TreeSpiderPlan::new(f, &b, settings, STEPS).unwrap();
        Shape {
            numbers: vec![
                plan.rounds as f64,
                f64::from(plan.depth),
                plan.batches[0] as f64,
            ],
            gradients: vec![plan.clip, plan.aim, plan.reach],
            lengths: vec![plan.step_length],
            ..Shape::default()
        }
    };
    let sampled = SampledSpiderBoostPlan::new(f, &b, 1 << 12).unwrap();
    let convex = ConvexFacts {
        public: *f,
        radius: Some(radius),
    };
    let stages = |outline: &dpopt_nonconvex::Outline| {
        let mut shape = Shape {
            numbers: vec![outline.growth, outline.stages.len() as f64],
            gradients: vec![outline.bound],
            ..Shape::default()
        };
        shape
            .lengths
            .extend(outline.stages.iter().map(|stage| stage.radius));
        shape
            .step_sizes
            .extend(outline.stages.iter().map(|stage| 1.0 / stage.modulus));
        shape
    };
    let gd_stages = RecursiveGdPlan::even_if_vacuous(&convex, &b, STEPS).unwrap();
    let sgd_stages = RecursiveSgdPlan::even_if_vacuous(&convex, &b).unwrap();
    let adam = DpAdamPlan::new(f, &b, STEPS).unwrap();
    let rank = PublicRank::new(3).unwrap();
    let jl = JlFacts {
        facts: PublicFacts {
            dim: 300_000,
            records: 10 * f.records,
            ..*f
        },
        rank: Some(rank),
        seed: 1,
    };
    let jl = JlPlan::new(&jl, &b, Solver::SpiderBoost, 1 << 20).unwrap();
    vec![
        (
            "noisy-gd-theory",
            gd(NoisyGdPlan::theory(f, &b, STEPS).unwrap()),
        ),
        ("noisy-gd", gd(NoisyGdPlan::momentum(f, &b, STEPS).unwrap())),
        (
            "noisy-gd-within-rank",
            gd(NoisyGdPlan::within_rank(f, &b, STEPS, rank).unwrap()),
        ),
        ("dp-sgd", sgd(&DpSgdPlan::new(f, &b, STEPS).unwrap())),
        (
            "dp-sgd-decay",
            sgd(&DpSgdPlan::decaying(f, &b, STEPS).unwrap()),
        ),
        (
            "dp-adam",
            Shape {
                // Adam's step size is a length: the size of a gradient cancels.
                lengths: vec![adam.releases.step_size],
                gradients: vec![adam.stabiliser, adam.releases.noise_std],
                ..Shape::default()
            },
        ),
        (
            "spiderboost",
            spider(SpiderBoostPlan::new(f, &b, STEPS).unwrap()),
        ),
        (
            "spiderboost-within-rank",
            spider(SpiderBoostPlan::within_rank(f, &b, STEPS, rank).unwrap()),
        ),
        (
            "sampled-spiderboost",
            Shape {
                numbers: vec![
                    sampled.steps as f64,
                    sampled.phase as f64,
                    sampled.batch as f64,
                    sampled.variation_noise_multiplier.get(),
                ],
                gradients: vec![sampled.clip, sampled.predicted_bound.unwrap()],
                step_sizes: vec![sampled.step_size],
                ..Shape::default()
            },
        ),
        ("tree-mean", tree(TreeTarget::Mean)),
        (
            "tree-hp",
            tree(TreeTarget::HighProbability { failure: 0.05 }),
        ),
        (
            "tree-heuristic",
            tree(TreeTarget::Heuristic { safety: 1.5 }),
        ),
        ("recursive-gd", stages(&gd_stages.outline)),
        ("recursive-sgd", stages(&sgd_stages.outline)),
        (
            "jl",
            Shape {
                numbers: vec![jl.rows as f64, jl.stretch, jl.distortion],
                gradients: vec![jl.slack, jl.predicted_bound.unwrap()],
                ..Shape::default()
            },
        ),
    ]
}

#[test]
fn plans_follow_their_units() {
    let base = facts(20_000, 12);
    let before = shapes(&base, 1.5);
    // Powers of two: all roundings are the same.
    for (loss, rows) in [
        (2f64.powi(-20), 1.0),
        (1.0, 2f64.powi(14)),
        (2f64.powi(30), 2f64.powi(-9)),
    ] {
        let after = shapes(&scaled(&base, loss, rows), 1.5 / rows);
        for ((name, old), (_, new)) in before.iter().zip(&after) {
            for (olds, news, factor) in [
                (&old.numbers, &new.numbers, 1.0),
                (&old.gradients, &new.gradients, loss * rows),
                (&old.step_sizes, &new.step_sizes, 1.0 / (loss * rows * rows)),
                (&old.lengths, &new.lengths, 1.0 / rows),
            ] {
                assert_eq!(olds.len(), news.len(), "{name}");
                for (old, new) in olds.iter().zip(news) {
                    assert!(
                        (new - old * factor).abs() <= 1e-6 * (old * factor).abs(),
                        "{name}, loss {loss}, rows {rows}: {old:?} times {factor} became {new:?}"
                    );
                }
            }
        }
    }
}
