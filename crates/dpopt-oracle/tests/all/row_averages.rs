//! Losses averaged along the rows of their records: closed forms, sure bounds, and refusals.

use dpopt_linalg::Design;
use dpopt_oracle::query::RowAverage;
use dpopt_oracle::{
    Activation, AskError, AveragedMeans, Batch, Glm, Head, Level, Linear, Mlp, Offers, Oracle,
    PrivateData, PrivateMean, Quantile, Recursive, RecursiveSettings, Refresh, Scale, Schedule,
};
use dpopt_privacy::{Adjacency, Curator, Event, Which};

use crate::common::{clip, simulated, sparse, uniforms, z};

/// The mean of the slope over [z - h, z + h] by Simpson's rule, for smooth losses.
fn by_quadrature(loss: Glm, z: f64, h: f64, y: f64) -> f64 {
    let parts = 400;
    let at = |k: i32| loss.slope(z - h + 2.0 * h * f64::from(k) / f64::from(parts), y);
    let weight = |k: i32| match k {
        _ if k == 0 || k == parts => 1.0,
        _ if k % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=parts).map(|k| weight(k) * at(k)).sum::<f64>() / (3.0 * f64::from(parts))
}

#[test]
fn mean_slopes_are_means_of_slopes() {
    for loss in [
        Glm::Logistic,
        Glm::Sigmoid,
        Glm::Welsch,
        Glm::GemanMcClure,
        Glm::Cauchy,
    ] {
        for y in [-1.0, 1.0, 0.4] {
            for k in -30..=30 {
                let z = 0.2 * f64::from(k) + 0.013;
                for h in [1e-3, 0.1, 0.7, 1.5] {
                    let (found, expected) =
                        (loss.mean_slope(z, h, y), by_quadrature(loss, z, h, y));
                    let at = format!("{loss} at {z}, {h}, {y}: {found} for {expected}");
                    // The rule's error: (2h)^5/(2880 (parts/2)^4) of a fifth derivative below 1e3.
                    assert!((found - expected).abs() <= 1e-8, "{at}");
                }
            }
        }
    }
}

/// Of kinks: the absolute error becomes Huber's loss over its scale, and so do those made of it.
#[test]
fn mean_slopes_of_kinks_are_ramps() {
    let tau = Quantile::new(0.9).unwrap();
    for h in [1e-9, 0.02, 0.5, 3.0] {
        let huber = Glm::Huber(Scale::new(h).unwrap());
        for k in -40..=40 {
            let (z, y) = (0.11 * f64::from(k), 0.3);
            let ramp = huber.slope(z, y) / h;
            let close = |found: f64, expected: f64, name: &str| {
                let at = format!("{name} at {z}, {h}: {found} for {expected}");
                assert!((found - expected).abs() <= 1e-15, "{at}");
            };
            close(Glm::Absolute.mean_slope(z, h, y), ramp, "absolute");
            let pinball = Glm::Pinball(tau).mean_slope(z, h, y);
            close(pinball, 0.5 * ramp + 0.5 - 0.9, "pinball");
            let hinge = Glm::Hinge.mean_slope(z, h, 1.0);
            close(hinge, 0.5 * (huber.slope(z, 1.0) / h) - 0.5, "hinge");
        }
    }
}

/// Bounds of the theorem: at most the steepest slope l long, and l/h-Lipschitz. With a short way the change is the difference to
/// all digits that the difference has, and more than that.
#[test]
fn changes_are_differences_and_no_longer_than_the_way_over_the_reach() {
    let mut next = uniforms(5);
    for loss in Glm::ALL {
        let steepest = loss.constants(1.0).lipschitz;
        for _ in 0..4_000 {
            let (z, y) = (4.0 * next(), if next() > 0.0 { 1.0 } else { -1.0 });
            let h = 10f64.powf(1.5 * next() - 0.5);
            let dz = next() * 10f64.powf(3.0 * next() - 2.0);
            let (from, to) = (loss.mean_slope(z, h, y), loss.mean_slope(z + dz, h, y));
            let change = loss.mean_slope_change(z, dz, h, y);
            let at = format!("{loss} at {z}, {dz}, {h}, {y}: {change}, {from} to {to}");
            assert!(from.abs() <= steepest * (1.0 + 1e-12), "{at}");
            assert!((change - (to - from)).abs() <= 1e-13 / h.min(1.0), "{at}");
            let most = (steepest * dz.abs() / h).min(2.0 * steepest);
            assert!(change.abs() <= most * (1.0 + 1e-9), "{at}");
        }
    }
    // On a ramp the change is the way over the reach, down to next to nothing.
    for dz in [1e-3, 1e-9, 1e-30, 1e-200, 1e-300] {
        let (z, h) = (0.1, 0.5);
        let found = Glm::Absolute.mean_slope_change(z, dz, h, 0.0);
        assert!((found / (dz / h) - 1.0).abs() < 1e-15, "{dz}: {found}");
    }
    for loss in Glm::ALL {
        assert_eq!(loss.mean_slope(0.7, 0.0, 1.0), loss.slope(0.7, 1.0));
        assert_eq!(
            loss.mean_slope_change(0.7, 0.2, 0.0, 1.0),
            loss.slope_change(0.7, 0.2, 1.0)
        );
        assert!(loss.mean_slope(f64::NAN, 0.3, 1.0).is_nan(), "{loss}");
    }
}

const DIM: usize = 3;
const ROWS: usize = 40;
const REACH: f64 = 0.3;

fn rows() -> (Vec<f64>, Vec<f32>) {
    let mut next = uniforms(11);
    let entries = (0..ROWS * DIM).map(|_| 0.5 * next()).collect();
    let labels = (0..ROWS).map(|_| next() as f32).collect();
    (entries, labels)
}

fn private(design: Design, adjacency: Adjacency) -> PrivateData {
    let declared = (!adjacency.record_count_is_public()).then_some(ROWS as u64);
    PrivateData::made_up(design, rows().1, clip(1.0), adjacency, declared).unwrap()
}

/// (1/n) sum of (f(w + r e) - f(w - r e))/(2 r) e, from values.
fn expected(loss: Glm, point: &[f64]) -> Vec<f64> {
    let (entries, labels) = rows();
    let mut mean = vec![0.0; DIM];
    for (row, label) in entries.chunks_exact(DIM).zip(labels) {
        let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        let product: f64 = row.iter().zip(point).map(|(x, w)| x * w).sum();
        let value = |step: f64| loss.value(product + step * norm, f64::from(label));
        let slope = (value(REACH) - value(-REACH)) / (2.0 * REACH);
        for (mean, x) in mean.iter_mut().zip(row) {
            *mean += slope * x / norm / ROWS as f64;
        }
    }
    mean
}

/// Means, and estimates that follow a walk by changes, are the averages made of values, in every storage and under every
/// adjacency.
#[test]
fn estimates_follow_the_averaged_loss() {
    let (entries, _) = rows();
    let stores = |k: usize| match k {
        0 => Design::dense(DIM, entries.clone()).unwrap(),
        1 => Design::dense32(DIM, entries.iter().map(|x| *x as f32).collect()).unwrap(),
        _ => sparse(DIM, entries.chunks_exact(DIM)),
    };
    let mut next = uniforms(3);
    for (k, adjacency) in [
        Adjacency::ReplaceOne,
        Adjacency::AddRemove,
        Adjacency::ZeroOut,
    ]
    .into_iter()
    .enumerate()
    {
        for loss in Glm::ALL {
            let data = private(stores(k), adjacency);
            let quiet = |batch| Level {
                batch,
                noise_multiplier: z(1e-7),
            };
            let settings = RecursiveSettings {
                clip: clip(loss.constants(1.0).lipschitz),
                anchor: quiet(Batch::All),
                variation: quiet(Batch::All),
                refresh: Refresh::every(5),
            };
            let curator = Curator::simulated(adjacency, 3);
            let mut means = PrivateMean::new(&data, loss, curator).unwrap();
            let spend = Schedule::new(ROWS as u64).recursive(&settings, 2, 8);
            means.books().reserve(&spend.spend()).unwrap();
            let mut averaged = AveragedMeans::new(&mut means, clip(REACH));
            let smoothness = averaged.facts().smoothness;
            let constants = loss.constants(1.0);
            let least = constants.smoothness.min(constants.lipschitz / REACH);
            assert!((smoothness / least - 1.0).abs() < 1e-9, "{loss}");
            let mut estimate = Recursive::new(DIM, settings).unwrap();
            let mut point = vec![0.2, -0.1, 0.4];
            for step in 0..10 {
                let found = estimate.estimate(&mut averaged, &point).unwrap();
                let found = found.estimate.gradient.to_vec();
                for (found, expected) in found.iter().zip(expected(loss, &point)) {
                    // Norms are rounded up by 2^-20, and singles are 2^-24 off.
                    let off = (found - expected).abs();
                    assert!(off < 3e-5, "{loss}, {adjacency}, step {step}: off by {off}");
                }
                let way = 10f64.powf(-1.0 - f64::from(step) / 3.0);
                point.iter_mut().for_each(|w| *w += way * next());
            }
        }
    }
}

/// A network has no row: refused before anything is charged, by name.
#[test]
fn losses_without_rows_are_refused() {
    let data = private(Design::dense(DIM, rows().0).unwrap(), Adjacency::ReplaceOne);
    let curator = simulated(Adjacency::ReplaceOne, 3, Event::gaussian(z(1.0)));
    let network = Mlp::new(&[DIM, 2, 1], Activation::Silu, Head::Squared).unwrap();
    let mut means = PrivateMean::new(&data, network, curator).unwrap();
    let point = vec![0.1; means.dim()];
    let query = RowAverage::new(Linear::field(&point, clip(1.0)), clip(REACH));
    let refused = means.release(&query, Which::All, z(1.0));
    let not_offered = |refused: &AskError| matches!(refused, AskError::NotOffered { .. });
    assert!(refused.is_err_and(|why| not_offered(&why)));
    assert!(!means.facts().offers.covers(Offers::ROW_AVERAGES));
    let mut averaged = AveragedMeans::new(&mut means, clip(REACH));
    assert_eq!(averaged.facts().offers, Offers::NOTHING);
    let refused = averaged.mean(Linear::field(&point, clip(1.0)), Which::All, z(1.0));
    assert!(refused.is_err_and(|why| not_offered(&why)));
    // And norms are not among what it answers.
    let field = Linear::field(&point, clip(1.0));
    let refused = averaged.norm(field, &[], Which::All, z(1.0));
    assert!(refused.is_err_and(|why| not_offered(&why)));
    assert_eq!(means.curator().spent(), Event::NoOp);
}
