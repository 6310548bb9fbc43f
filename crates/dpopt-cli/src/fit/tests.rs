//! The gap of factors where runs start.

use dpopt::linalg::Design;

use super::*;

/// Every loss of a record at every start of a seed, U = 0 included, is at most the gap that plans are given, and one of a longer factor
/// is not: values are at least 0, so the gap bounds F(start) - min F.
#[test]
fn the_gap_holds_where_factors_start() {
    let row_norm = 2.0;
    let none = NetworkArgs {
        hidden: None,
        output_weights: None,
        activation: Activation::Relu,
    };
    for phi in Glm::SMOOTH {
        let mut longest = 0.0f64;
        let mut longer = 0.0f64;
        let name = LossName::Quadratic(phi);
        let mut gap = f64::NAN;
        for (rank, seed) in [(1u64, 0u64), (1, 7), (2, 1), (3, 2)] {
            let ball = LinkArgs { ball: Some(4.0) };
            let fit = Fit::new(name, &none, (ball, Some(rank)), None).unwrap();
            gap = fit.constants(row_norm, Some(1.0)).initial_gap;
            let at = Fit {
                seed: Some(seed),
                ..fit.clone()
            };
            let start = at.start(3, row_norm).unwrap();
            // Along the first column, where a row is seen best, and across.
            let along: Vec<f64> = start.iter().step_by(rank as usize).copied().collect();
            let size = norm_of(&along);
            let best = along.iter().map(|u| row_norm * u / size);
            let rows: Vec<f64> = best.chain([0.0, 0.0, 0.0, 0.5, -0.1, 0.3]).collect();
            let design = Design::dense(3, rows).unwrap();
            let long: Vec<f64> = start.iter().map(|u| 3.0 * u).collect();
            for row in 0..3 {
                for label in [-1.0, -0.3, 0.0, 1.0] {
                    let labels = phi.is_classification() && label != -1.0 && label != 1.0;
                    if labels {
                        continue;
                    }
                    let at = |point: &[f64]| phi.value(fit.score(design.row(row), point), label);
                    longest = longest.max(at(&start)).max(at(&vec![0.0; start.len()]));
                    longer = longer.max(at(&long));
                }
            }
        }
        assert!(longest <= gap * (1.0 + 1e-12), "{phi}: {longest} {gap}");
        assert!(longer > gap, "{phi}: {longer} {gap}");
    }
}

fn norm_of(of: &[f64]) -> f64 {
    of.iter().map(|u| u * u).sum::<f64>().sqrt()
}
