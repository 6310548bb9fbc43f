//! Zeroth-order queries: their means, their sure bounds, and what they refuse.

use std::num::NonZeroUsize;

use dpopt_oracle::query::{
    Frames, SmoothedDifference, SmoothedGradient, smoothed_change_radius, smoothed_gradient_bound,
};
use dpopt_oracle::{
    AskError, ClosureLoss, Constants, Convexity, Loss, PrivateData, PrivateMean, Query, Segment,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, PoolError, Refused, Spend, Which};

use crate::common::{clip, z};

fn frames(dim: usize, count: usize, seed: u64) -> Frames {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    Frames::draw(&mut curator, dim, NonZeroUsize::new(count).unwrap()).unwrap()
}

type ValueOf = dyn Fn(&Vec<f64>, &[f64]) -> f64 + Sync;

/// A loss from values alone; its gradient is never asked for.
fn values<V: Fn(&Vec<f64>, &[f64]) -> f64 + Sync>(
    dim: usize,
    value: V,
) -> impl Loss<Records = Vec<Vec<f64>>> {
    let constants = Constants::new(1.0, f64::INFINITY, 1.0, Convexity::Nonconvex);
    ClosureLoss::new(
        dim,
        constants,
        value,
        |_: &Vec<f64>, _: &[f64], out: &mut [f64]| {
            out.fill(f64::NAN);
        },
    )
}

fn norm(v: &[f64]) -> f64 {
    v.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// A linear loss has its slope, exactly, from every frame: sum_j <c, y_j> y_j = c.
#[test]
fn a_linear_loss_is_recovered_from_one_frame() {
    let loss = values(4, |c: &Vec<f64>, w: &[f64]| {
        c.iter().zip(w).map(|(c, w)| c * w).sum()
    });
    let frames = frames(4, 1, 1);
    let c = vec![0.1, -0.7, 0.3, 0.2];
    let query = SmoothedGradient {
        point: &[1.0, 2.0, 3.0, 4.0],
        smoothing: 0.25,
        frames: &frames,
        clip: clip(1.0),
    };
    let mut out = vec![0.0; 4];
    query.contribution(&loss, &c, &mut out);
    for (out, c) in out.iter().zip(&c) {
        assert!((out - c).abs() < 1e-13);
    }
}

/// 1-Lipschitz losses with kinks: no fresh estimate is longer than kappa_d, no change longer than
/// sqrt(d) |w - w'| / alpha. The loss |<e, w>| attains the second.
#[test]
fn the_sure_bounds_hold_and_are_attained() {
    let alpha = 0.2;
    for dim in [1, 2, 3, 8] {
        let distance = |a: &Vec<f64>, w: &[f64]| {
            let apart: Vec<f64> = a.iter().zip(w).map(|(a, w)| a - w).collect();
            norm(&apart)
        };
        let largest = |_: &Vec<f64>, w: &[f64]| w.iter().fold(0.0f64, |m, x| m.max(x.abs()));
        let zigzag = |a: &Vec<f64>, w: &[f64]| {
            let t: f64 = a.iter().zip(w).map(|(a, w)| a * w).sum::<f64>() / norm(a);
            0.3 * ((t / 0.3).rem_euclid(2.0) - 1.0).abs()
        };
        let losses: [Box<ValueOf>; 3] = [Box::new(distance), Box::new(largest), Box::new(zigzag)];
        let mut worst: f64 = 0.0;
        for (which, value) in losses.into_iter().enumerate() {
            let loss = values(dim, value);
            for seed in 0..60 {
                let frames = frames(dim, 1, seed);
                let at = |s: f64| -> Vec<f64> {
                    (0..dim)
                        .map(|j| s * (0.7 + (seed as f64) * 0.31 + j as f64).sin())
                        .collect()
                };
                let (record, from, to) = (at(0.5), at(0.1), at(0.12));
                let displacement: Vec<f64> = to.iter().zip(&from).map(|(a, b)| a - b).collect();
                let segment = Segment::new(&from, &to, &displacement).unwrap();
                let clip = ClipNorm::new(1e9).unwrap();
                let fresh = SmoothedGradient {
                    point: &to,
                    smoothing: alpha,
                    frames: &frames,
                    clip,
                };
                let mut out = vec![0.0; dim];
                fresh.contribution(&loss, &record, &mut out);
                let bound = smoothed_gradient_bound(1.0, dim);
                assert!(
                    norm(&out) <= bound * (1.0 + 1e-9),
                    "{which} {dim} {}",
                    norm(&out)
                );
                let radius = smoothed_change_radius(1.0, &segment, alpha);
                let change = SmoothedDifference {
                    segment,
                    smoothing: alpha,
                    frames: &frames,
                    radius,
                };
                let mut out = vec![0.0; dim];
                change.contribution(&loss, &record, &mut out);
                let ratio = norm(&out) / radius.unwrap().get();
                assert!(ratio <= 1.0 + 1e-9, "{which} {dim} {ratio}");
                worst = worst.max(ratio);
            }
        }
        // In one dimension a kink within the stencil attains the bound.
        assert!(dim > 1 || worst > 0.99, "{dim} {worst}");
    }
    // kappa_1 = 1, kappa_2 = 1.083, kappa_8 = 2.
    for (dim, kappa) in [(1, 1.0), (2, 1.0824), (8, 2.0)] {
        assert!((smoothed_gradient_bound(1.0, dim) - kappa).abs() < 1e-4);
    }
}

/// The mean over many frames is the gradient of the smoothed loss. For |w|^2 / 2 smoothing adds a
/// constant only, so that is w itself; every frame gives it exactly. For w_0^3 it is
/// 3 w_0^2 + 3 alpha^2 / (d + 2) in the first coordinate.
#[test]
fn the_mean_over_frames_is_the_smoothed_gradient() {
    let (dim, alpha, count) = (3, 0.5, 20_000);
    let loss = values(dim, |_: &Vec<f64>, w: &[f64]| w[0].powi(3));
    let frames = frames(dim, count, 5);
    let data =
        PrivateData::made_up_of(vec![vec![0.0]; count], Adjacency::ReplaceOne, None).unwrap();
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 6);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z(0.1))))
        .unwrap();
    let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
    let query = SmoothedGradient {
        point: &[0.4, 0.1, -0.2],
        smoothing: alpha,
        frames: &frames,
        clip: ClipNorm::new(20.0).unwrap(),
    };
    let got = mean.release(&query, Which::All, z(0.1)).unwrap().unwrap();
    let expected = 3.0 * 0.16 + 3.0 * alpha * alpha / (dim as f64 + 2.0);
    // A frame's estimate is bounded by 3; six standard errors of 3 / sqrt(20,000).
    assert!(
        (got.mean[0] - expected).abs() < 0.13 / 2.0,
        "{:?} {expected}",
        got.mean
    );
    assert!(got.mean[1].abs() < 0.065 && got.mean[2].abs() < 0.065);
    assert_eq!(mean.counts().values, 2.0 * 3.0 * count as f64);
    assert_eq!(mean.counts().gradients, 0.0);
}

/// Frames go by position, so the queries are refused where positions shift; and nothing is charged.
#[test]
fn a_change_without_a_bound_is_refused_and_not_taken_for_zero() {
    let segment = Segment::new(&[0.0; 2], &[1.0; 2], &[1.0; 2]).unwrap();
    for (lipschitz, smoothing) in [(f64::INFINITY, 0.1), (1.0, 0.0), (1e300, 1e-300)] {
        let radius = smoothed_change_radius(lipschitz, &segment, smoothing);
        let query = SmoothedDifference {
            segment,
            smoothing,
            frames: &frames(2, 1, 1),
            radius,
        };
        let loss = values(2, |_: &Vec<f64>, _: &[f64]| 0.0);
        assert!(query.bound(&loss).is_err(), "{lipschitz} {smoothing}");
    }
    let equal = Segment::new(&[1.0; 2], &[1.0; 2], &[0.0; 2]).unwrap();
    assert!(smoothed_change_radius(f64::INFINITY, &equal, 0.1).is_none());
}

#[test]
fn positions_must_stay() {
    let loss = values(1, |_: &Vec<f64>, w: &[f64]| w[0].abs());
    let frames = frames(1, 2, 5);
    let data = PrivateData::made_up_of(vec![vec![0.0]; 4], Adjacency::AddRemove, Some(4)).unwrap();
    let mut curator = Curator::simulated(Adjacency::AddRemove, 6);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z(1.0))))
        .unwrap();
    let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
    let query = SmoothedGradient {
        point: &[0.4],
        smoothing: 0.1,
        frames: &frames,
        clip: clip(1.0),
    };
    assert!(matches!(
        mean.release(&query, Which::All, z(1.0)),
        Err(AskError::Refused(Refused::Pool(
            PoolError::Adjacency { .. }
        )))
    ));
    assert_eq!(mean.curator().spent(), Event::NoOp);
}
