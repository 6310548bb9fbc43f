//! A solver of one's own, from public items alone: a plan, a walk, and an entry of a registry.
//!
//! `cargo run --release -p dpopt --example own_solver`
#![allow(clippy::print_stdout, reason = "an example shows its result")]

use dpopt::oracle::{AskError, Batch, Level, Running, Schedule};
use dpopt::prelude::*;
use dpopt::solver::{
    Asked, Auto, Item, Needs, PlanError, ReleaseKind, RunError, Terms, Unit, Walk, find,
};

/// Sign descent: w <- w - eta sign(g), g a fresh noisy clipped mean gradient.
#[derive(Debug)]
struct SignPlan {
    terms: Terms,
    step_length: f64,
    noise: NoiseMultiplier,
}

static SIGN_GD: Solver = Solver {
    name: "sign-gd",
    summary: "an example",
    paper: "Bernstein et al. 2018",
    needs: Needs::NOTHING,
    uses_rank: false,
    bound: None,
    auto: Auto::Never("it is an example"),
    theory_page: None,
    privacy_page: "privacy/estimator.md",
    planner: |facts, _, budget, limits| Ok(Box::new(SignPlan::new(facts, budget, limits)?)),
};

impl SignPlan {
    fn new(facts: &PublicFacts, budget: &Budget, limits: &Limits) -> Result<Self, PlanError> {
        facts.check()?;
        let steps = limits.max_steps.clamp(1, 50);
        let noise = NoiseMultiplier::new((steps as f64).sqrt() / budget.mu()?.get())?;
        let level = Level {
            batch: Batch::All,
            noise_multiplier: noise,
        };
        let schedule = Schedule::new(facts.records).releases(level, steps);
        Ok(Self {
            terms: Terms::new(facts, budget, steps, schedule.spend()),
            step_length: 1.0 / (facts.row_norm * steps as f64),
            noise,
        })
    }
}

impl Plan for SignPlan {
    fn name(&self) -> &'static str {
        SIGN_GD.name
    }

    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn items(&self) -> Vec<Item<'_>> {
        vec![
            Item::count("steps", self.steps()),
            Item::number("step_length", self.step_length, Unit::LENGTH),
            Item::ratio("noise_multiplier", self.noise.get()),
        ]
    }

    fn walk(&self, start: &[f64]) -> Result<Box<dyn Walk + '_>, RunError> {
        let clip = ClipNorm::new(self.clip()).map_err(RunError::Clip)?;
        Ok(Box::new(SignWalk {
            plan: self,
            running: Running::new(start.len(), clip),
        }))
    }
}

struct SignWalk<'a> {
    plan: &'a SignPlan,
    running: Running,
}

impl Walk for SignWalk<'_> {
    fn ask(
        &mut self,
        _: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let z = self.plan.noise;
        let released = self.running.anchor(oracle, point, Which::All, z)?;
        Ok(Asked::estimate(ReleaseKind::Anchor, released.estimate()))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        for ((next, w), g) in next.iter_mut().zip(point).zip(gradient) {
            *next = w - self.plan.step_length * g.signum();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ours: Vec<&'static Solver> = SOLVERS.iter().copied().chain([&SIGN_GD]).collect();
    let solver = find(&ours, "sign-gd")?;
    assert!(find(SOLVERS, "sign-gd").is_err());

    let adjacency = Adjacency::ReplaceOne;
    let sign = |i: u16| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
    let rows = (0..400).flat_map(|i| [0.8 * f64::from(sign(i)), 0.5]);
    let design = Design::dense(2, rows.collect())?;
    let labels = (0..400).map(sign).collect();
    let data = PrivateData::new(design, labels, ClipNorm::new(1.0)?, adjacency, None)?;
    let facts = PublicFacts::glm(400, 2, adjacency, 1.0, Glm::Logistic.constants(1.0))?;
    let budget = Budget {
        epsilon: Epsilon::new(8.0)?,
        delta: Delta::new(1e-5)?,
    };
    let limits = Limits::steps(30);
    let plan = solver.plan(&facts, &ExtraFacts::default(), &budget, &limits)?;
    let run = GlmRun::new(&data, Glm::Logistic, Curator::protected(adjacency)?);
    let (outcome, curator) = run.run(&*plan, &mut NoObserver)?;
    println!("{:?} after {} steps", outcome.stop, outcome.steps);

    assert_eq!((outcome.stop, outcome.steps), (Stop::Completed, 30));
    // The first feature tells the label.
    assert!(outcome.point[0] > 0.5, "{:?}", outcome.point);
    assert_eq!(outcome.bound(), None);
    let epsilon = curator.guarantee(budget.delta)?.epsilon();
    assert!(epsilon <= 8.0 && epsilon > 7.9, "{epsilon}");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
