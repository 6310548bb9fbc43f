//! The law of the span against all coordinates, and embedded problems.

use dpopt_nonconvex::{Budget, NoObserver, Plan, PublicFacts, Release, SpiderBoostPlan};
use dpopt_oracle::Convexity;
use dpopt_privacy::{Delta, Epsilon};
use std::ops::ControlFlow;

use super::*;
use crate::problem::{Problem, ProblemConstants};
use crate::simulation::{SimulatedOracle, in_span};

/// The same problem with all d coordinates.
struct Wide(RampGlm, usize);

impl Problem for Wide {
    fn dim(&self) -> usize {
        self.1
    }
    fn constants(&self) -> ProblemConstants {
        ProblemConstants::first_order(1.0, 1.0, RampGlm::GAP)
    }
    fn value(&self, _: &[f64]) -> f64 {
        f64::NAN
    }
    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        self.0.gradient(&point[..3], &mut out[..3]);
    }
}

/// Means over 400 runs of the last displacement's length and of the last gradient: d normals against the span. Each pair of
/// means within 4.5 standard errors of their difference (false alarm below 10^-4 together).
#[test]
fn lengths_and_gradients_have_the_law_of_all_coordinates() {
    let (n, d) = (2_000, 60);
    let facts = PublicFacts {
        initial_gap: RampGlm::GAP,
        convexity: Convexity::Convex,
        ..PublicFacts::unit(n, d)
    };
    let budget = Budget {
        epsilon: Epsilon::new(2.0).unwrap(),
        delta: Delta::new(1e-5).unwrap(),
    };
    let plan = SpiderBoostPlan::new(&facts, &budget, 40).unwrap();
    let made = plan.schedule();
    assert!(made.phase >= 4 && made.steps >= 12, "{plan:?}");
    let glm = RampGlm::plain(3, 0.3);
    let narrow = in_span(&plan, 3).unwrap();
    let collect = |plan: &dyn Plan, oracle: &mut dyn Oracle| {
        let (mut length, mut gradient) = (0.0, 0.0);
        let mut watch = |release: &Release<'_>| {
            length = release.norm;
            gradient = glm.original_norm(&release.point[..3]);
            ControlFlow::Continue(())
        };
        plan.run(oracle, &mut watch).unwrap();
        [length, gradient]
    };
    let runs = 400;
    let wide = Wide(glm.clone(), d);
    let mut samples = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
    for seed in 0..runs {
        let mut full = SimulatedOracle::new(&wide, n, Adjacency::ReplaceOne, seed);
        let mut span = SpanOracle::new(glm.clone(), d, n, Adjacency::ReplaceOne, seed + runs);
        for (which, found) in [collect(&plan, &mut full), collect(&narrow, &mut span)]
            .into_iter()
            .enumerate()
        {
            samples[which][0].push(found[0]);
            samples[which][1].push(found[1]);
        }
    }
    for quantity in 0..2 {
        for power in [1, 2] {
            let moments = |which: usize| {
                let all = samples[which][quantity].iter().map(|x: &f64| x.powi(power));
                let mean = all.clone().sum::<f64>() / runs as f64;
                let variance = all.map(|x| (x - mean).powi(2)).sum::<f64>() / runs as f64;
                (mean, variance / runs as f64)
            };
            let ((a, u), (b, v)) = (moments(0), moments(1));
            assert!(
                (a - b).abs() < 4.5 * (u + v).sqrt(),
                "{quantity} {power}: {a} {b}"
            );
        }
    }
    // A plan that was not brought to the span does not fit.
    let mut again = SpanOracle::new(glm, d, n, Adjacency::ReplaceOne, 0);
    assert!(plan.run(&mut again, &mut NoObserver).is_err());
}

/// An embedded problem in its own span has the inner products and gradients of the embedding.
#[test]
fn an_embedded_problem_is_that_of_its_images() {
    let map = dpopt_linalg::JlMap::gaussian(40, 500, 9).unwrap();
    let images: Vec<Vec<f64>> = (0..4)
        .map(|j| {
            let mut column = vec![0.0; 40];
            map.column(j, &mut column);
            column
        })
        .collect();
    let glm = RampGlm::embedded(&images, 0.2, 1.05);
    for (j, image) in images.iter().enumerate() {
        let row = &glm.rows[4 * j..4 * (j + 1)];
        let expected = norm(image).min(1.05);
        assert!((norm(row) - expected).abs() < 1e-12);
        for (l, other) in images.iter().enumerate() {
            let product = dpopt_linalg::dot(row, &glm.rows[4 * l..4 * (l + 1)]);
            let exact = glm.scales[j] * glm.scales[l] * dpopt_linalg::dot(image, other);
            assert!((product - exact).abs() < 1e-12);
        }
    }
    assert!(glm.scales.iter().any(|c| *c < 1.0) && glm.scales.contains(&1.0));
    let mut gradient = vec![0.0; 4];
    glm.gradient(&[0.0; 4], &mut gradient);
    // At the origin the ramp alone pulls: -g/2 times its row.
    let expected = 0.1 * norm(&glm.rows[..4]);
    assert!((norm(&gradient) - expected).abs() < 1e-15);
    assert!((glm.original_norm(&[0.0; 4]) - 0.1).abs() < 1e-15);
}
