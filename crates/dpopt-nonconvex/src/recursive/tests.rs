//! Plans, walks and runs of recursive regularisation.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_oracle::{
    Answer, AskError, Books, Constants, Convexity, Mean, Offers, Oracle, OracleFacts, Question,
};
use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{Accountant, Adjacency, Curator, Delta, Epsilon, Which};
use dpopt_solver::{Budget, NoObserver, Plan, PlanError, PublicFacts, Release, Stop};

use super::*;

fn facts(records: u64, dim: usize) -> ConvexFacts {
    let constants = Constants::new(1.0, 1.0, 1.0, Convexity::Convex);
    ConvexFacts {
        public: PublicFacts::glm(records, dim, Adjacency::ReplaceOne, 1.0, constants).unwrap(),
        radius: Some(1.0),
    }
}

fn budget(epsilon: f64) -> Budget {
    Budget {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    }
}

/// The mean loss (a/2) ||w - w*||^2, without noise and without sampling error, and what was asked of it.
struct Bowl {
    curvature: f64,
    minimiser: Vec<f64>,
    slices: Vec<u64>,
    reads: Vec<u64>,
    passes: Vec<f64>,
    books: Books,
}

impl Bowl {
    fn new(dim: usize) -> Self {
        let mut minimiser = vec![0.0; dim];
        minimiser[0] = 0.6;
        minimiser[1] = -0.8;
        Self {
            curvature: 0.05,
            minimiser,
            slices: Vec::new(),
            reads: Vec::new(),
            passes: Vec::new(),
            books: Books::new(Curator::simulated(Adjacency::ReplaceOne, 1), 300_000),
        }
    }

    fn gradient_at(&self, point: &[f64]) -> Vec<f64> {
        point
            .iter()
            .zip(&self.minimiser)
            .map(|(w, m)| self.curvature * (w - m))
            .collect()
    }
}

impl Oracle for Bowl {
    fn facts(&self) -> OracleFacts {
        let offers = Offers::MEANS | Offers::PASSES;
        OracleFacts::new(self.minimiser.len(), 300_000, Adjacency::ReplaceOne, offers)
    }
    fn books(&mut self) -> &mut Books {
        &mut self.books
    }
    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        match question {
            Question::Mean { of, over, .. } => {
                let Which::Slice(slice) = over else {
                    panic!("{over:?}");
                };
                // A slice of the pool is taken in each stage.
                let taken = self.books.curator().records_taken();
                if self.slices.iter().sum::<u64>() < taken {
                    self.slices.push(slice.len());
                    self.reads.push(0);
                }
                *self.reads.last_mut().unwrap() += 1;
                Ok(Answer::Mean(Mean::new(self.gradient_at(of.point()), 0.0)))
            }
            Question::Pass { pass, .. } => {
                self.slices.push(pass.records);
                self.passes.push(pass.step_size * (1.0 + pass.modulus));
                let mut point = pass.start.to_vec();
                for _ in 0..pass.records {
                    let gradient = self.gradient_at(&point);
                    for ((w, g), c) in point.iter_mut().zip(&gradient).zip(pass.centre) {
                        *w -= pass.step_size * (g + pass.modulus * (*w - c));
                    }
                }
                Ok(Answer::Mean(Mean::new(point, 0.0)))
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn without_noise_both_keep_far_within_their_bounds() {
    let (facts, budget) = (facts(300_000, 10), budget(1.0));
    let plan = RecursiveGdPlan::new(&facts, &budget, 1_000_000).unwrap();
    let mut bowl = Bowl::new(10);
    let outcome = plan.run(&mut bowl, &mut NoObserver).unwrap();
    let error = norm(&bowl.gradient_at(&outcome.point));
    assert!(
        error < 0.5 * plan.predicted_bound().unwrap() && error > 0.0,
        "{error} {plan:?}"
    );
    // Stages read slices of their own, each as often as planned.
    assert!(bowl.slices.iter().sum::<u64>() <= 300_000);
    let planned: Vec<u64> = plan.stages().iter().map(|stage| stage.steps).collect();
    assert_eq!(bowl.reads, planned);
    assert_eq!(outcome.steps, plan.steps());

    let plan = RecursiveSgdPlan::new(&facts, &budget).unwrap();
    let mut bowl = Bowl::new(10);
    let outcome = plan.run(&mut bowl, &mut NoObserver).unwrap();
    let error = norm(&bowl.gradient_at(&outcome.point));
    assert!(
        error < 0.5 * plan.predicted_bound().unwrap() && error > 0.0,
        "{error} {plan:?}"
    );
    // One pass at most, and never a step that is longer than privacy allows.
    assert!(bowl.slices.iter().sum::<u64>() <= 300_000);
    assert_eq!(bowl.slices.iter().sum::<u64>() as f64, plan.gradients());
    assert!(bowl.passes.iter().all(|&step| step <= 1.0 + 1e-9));
}

#[test]
fn a_plan_spends_its_budget_and_no_more() {
    let budget = budget(1.0);
    let gd = RecursiveGdPlan::with_growth(&facts(1_000_000, 10), &budget, 1 << 40, 2.0).unwrap();
    let sgd = RecursiveSgdPlan::with_growth(&facts(1_000_000, 10), &budget, 2.0).unwrap();
    assert!(gd.stages().len() > 3 && sgd.stages().len() > 3);
    let mu = gdp::mu_for(budget.epsilon, budget.delta).unwrap().get();
    for spend in [gd.spend(), sgd.spend()] {
        let (_, epsilon) =
            Accountant::least(spend.event(), budget.delta, Adjacency::ReplaceOne).unwrap();
        assert!(epsilon <= 1.0 && epsilon > 0.999, "{epsilon}");
    }
    for stage in gd.stages() {
        // K releases of mu_i = sensitivity/sigma each add up to mu.
        let each = 2.0 / stage.outline.records as f64 / stage.noise_std;
        let spent = (stage.steps as f64).sqrt() * each;
        assert!((spent / mu - 1.0).abs() < 1e-8);
        // E14: the modulus of stage t is lambda (2^t - 1) and not its last weight times two.
        assert!(stage.step_size * (1.0 + stage.outline.modulus) <= 1.0 + 1e-9);
    }
    // E11: as printed, with K^2 for K and n for n/T, a stage spends T/sqrt(K) of mu: here more than all of it where K
    // is small, and a small part where it is large.
    let printed = |stage: &GdStage| gd.stages().len() as f64 / (stage.steps as f64).sqrt();
    assert!(gd.stages().iter().any(|stage| printed(stage) > 1.5));
    assert!(gd.stages().iter().any(|stage| printed(stage) < 0.9));
    let modulus = |t: usize| gd.outline().weight * (2f64.powi(t as i32 + 1) - 1.0);
    for (t, stage) in gd.outline().stages.iter().enumerate() {
        assert!((stage.modulus / modulus(t) - 1.0).abs() < 1e-12);
    }
}

/// E12: K = kappa ln kappa is not enough for ln(K)/K <= 1/kappa.
#[test]
fn the_printed_number_of_steps_is_too_small() {
    let kappa: f64 = 10.0;
    let printed = kappa * kappa.ln();
    assert!(printed.ln() / printed > 1.0 / kappa);
    let (facts, budget) = (facts(1_000_000, 10), budget(1.0));
    let plan = RecursiveGdPlan::with_growth(&facts, &budget, 1 << 40, 2.0).unwrap();
    for stage in plan.stages() {
        let modulus = stage.outline.modulus;
        assert!(stage.step_size <= 1.0 / (1.0 + modulus) * (1.0 + 1e-12));
        // And still (1 - eta M)^-K reaches what the bound needs: e^(eta M K).
        let reached = -(stage.steps as f64) * (-stage.step_size * modulus).ln_1p();
        assert!(reached >= stage.step_size * modulus * stage.steps as f64);
    }
}

#[test]
fn the_centre_stands_for_the_sum_of_all_regularisers() {
    let mut centre = Centre::new(2);
    let points = [[0.0, 0.0], [1.0, -2.0], [0.5, 0.25], [-3.0, 0.125]];
    let weights = [0.01, 0.02, 0.04, 0.08];
    for (weight, point) in weights.iter().zip(&points) {
        centre.add(*weight, point);
    }
    let at = [0.7, -0.3];
    for j in 0..2 {
        let explicit: f64 = weights
            .iter()
            .zip(&points)
            .map(|(weight, point)| weight * (at[j] - point[j]))
            .sum();
        let short = centre.modulus * (at[j] - centre.point[j]);
        assert!((explicit - short).abs() < 1e-15);
    }
}

/// Lemma D.1 on quadratics: the minimiser of stage t stays in the ball of stage t, wherever in their balls the
/// released points were.
#[test]
fn minimisers_of_stages_stay_in_their_balls() {
    let curvatures = [1.0, 0.3, 0.01, 0.0];
    let minimiser: [f64; 4] = [0.5, -0.5, 0.5, 0.5];
    for seed in 0..200u32 {
        let mut centre = Centre::new(4);
        let mut point = vec![0.0; 4];
        let (mut weight, mut radius) = (0.001 * f64::from(1 + seed % 7), 1.0f64);
        for stage in 0..10u32 {
            centre.add(weight, &point);
            let best: Vec<f64> = (0..4)
                .map(|j| {
                    let pulled = curvatures[j] * minimiser[j] + centre.modulus * centre.point[j];
                    pulled / (curvatures[j] + centre.modulus)
                })
                .collect();
            assert!(norm(&best) <= radius * (1.0 + 1e-12), "{seed} {stage}");
            // The worst released points are on the border of the ball.
            let angle = f64::from(seed * 31 + stage * 17);
            point = vec![
                angle.cos(),
                angle.sin(),
                (2.0 * angle).cos(),
                (3.0 * angle).sin(),
            ];
            let length = norm(&point);
            point.iter_mut().for_each(|w| *w *= radius / length);
            weight *= 2.0;
            radius = radius.hypot(radius);
        }
    }
}

#[test]
fn vacuous_plans_are_made_on_request() {
    let (good, small) = (facts(100_000, 10), facts(100, 10));
    let budget = budget(1.0);
    assert!(
        RecursiveGdPlan::even_if_vacuous(&small, &budget, 1_000)
            .unwrap()
            .predicted_bound()
            .unwrap()
            >= 1.0
    );
    assert!(matches!(
        RecursiveGdPlan::with_growth(&good, &budget, 1_000, 1.0),
        Err(PlanError::BadFact { name: "growth", .. })
    ));
}

#[test]
fn a_run_that_is_stopped_returns_what_it_has() {
    let (facts, budget) = (facts(100_000, 10), budget(1.0));
    let plan = RecursiveGdPlan::new(&facts, &budget, 1_000_000).unwrap();
    let mut bowl = Bowl::new(10);
    let stop = &mut |release: &Release<'_>| match release.step {
        4 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let start = vec![0.25; 10];
    let outcome = plan.run_from(&start, &mut bowl, stop).unwrap();
    assert_eq!((outcome.stop, outcome.steps), (Stop::ByObserver, 5));
    assert!(distance(&outcome.point, &start) > 0.0);
    assert!(
        plan.run_from(&start[1..], &mut bowl, &mut NoObserver)
            .is_err()
    );
}
