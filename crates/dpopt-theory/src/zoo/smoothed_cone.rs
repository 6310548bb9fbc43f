//! The smoothed loss of a ramp beside a cone, by quadrature.

use std::f64::consts::PI;

use dpopt_linalg::norm;

use super::RampCone;
use crate::problem::Problem as _;
use crate::simulation::Population;

/// Nodes of a table.
const NODES: usize = 2_000;
/// The cone's table ends at so many radii of the ball.
const FAR: f64 = 40.0;

/// [`RampCone`] smoothed over the ball of radius a: its gradient is grad F_a, its value F itself, at most L a away.
///
/// # Formula
/// With v uniform in the unit ball of R^d, its first coordinate v_1 and its others v', and z, u as there,
///
/// grad F_a = (-s P(v_1 < (F0/s - z)/a), (u/||u||) g(||u||/a)/2), g(x) = E (x + |v'| c)/sqrt(x^2 + |v'|^2 + 2 x |v'| c),
///
/// where v_1 has a density as (1 - t^2)^((d-1)/2), |v'| one as t^(d-2) (1 - t^2)^(1/2), and c, the cosine of the angle of v' and u, one
/// as (1 - t^2)^((d-4)/2) (for d = 2: 1 and -1). Tables are interpolated, with errors of at most 1e-3 L.
#[derive(Debug, Clone)]
pub struct SmoothedCone {
    cone: RampCone,
    smoothing: f64,
    records: [u64; 1],
    /// P(v_1 < t) for t from -1 to 1.
    below: Vec<f64>,
    /// g(x) for x from 0 to [`FAR`].
    slope: Vec<f64>,
    /// E |v'|^2 (d - 2)/(2 (d - 1)): g is 1 less this over x^2 far away.
    falloff: f64,
}

impl SmoothedCone {
    /// Of `records` equal records.
    #[must_use]
    pub fn new(cone: RampCone, smoothing: f64, records: u64) -> Self {
        let d = cone.dim() as f64;
        Self {
            cone,
            smoothing,
            records: [records.max(1)],
            below: marginal(d),
            slope: radial(d),
            falloff: (d - 1.0) / (d + 2.0) * (d - 2.0) / (2.0 * (d - 1.0)),
        }
    }
}

/// P(v_1 < t) at the nodes.
fn marginal(d: f64) -> Vec<f64> {
    let mut sums = vec![0.0];
    let mut sum = 0.0;
    for k in 0..NODES {
        let middle = 2.0 * (k as f64 + 0.5) / NODES as f64 - 1.0;
        sum += (1.0 - middle * middle).powf(0.5 * (d - 1.0));
        sums.push(sum);
    }
    sums.iter().map(|part| part / sum).collect()
}

/// g at the nodes.
fn radial(d: f64) -> Vec<f64> {
    // |v'| = sin(phi), and the angle of v' and u; weights with the Jacobians.
    let (lengths, angles) = (48, 48);
    let middle = |k: usize, of: usize| (k as f64 + 0.5) / of as f64;
    let mut points = Vec::new();
    for i in 0..lengths {
        let phi = 0.5 * PI * middle(i, lengths);
        let length = phi.sin();
        let weight = length.powf(d - 2.0) * phi.cos().powi(2);
        for j in 0..angles {
            let (cosine, share) = if d > 2.0 {
                let angle = PI * middle(j, angles);
                (angle.cos(), angle.sin().powf(d - 3.0))
            } else {
                (if j % 2 == 0 { 1.0 } else { -1.0 }, 1.0)
            };
            points.push((length, cosine, weight * share));
        }
    }
    let total: f64 = points.iter().map(|(_, _, weight)| weight).sum();
    // Most weights are nothing in many dimensions.
    points.retain(|(_, _, weight)| *weight > 1e-9 * total);
    (0..=NODES)
        .map(|k| {
            let x = FAR * k as f64 / NODES as f64;
            let slope = |&(length, cosine, weight): &(f64, f64, f64)| {
                let along = x + length * cosine;
                let square = (x * x + length * length + 2.0 * x * length * cosine).max(1e-300);
                weight * along / square.sqrt()
            };
            points.iter().map(slope).sum::<f64>() / total
        })
        .collect()
}

/// The table at `share` of its length, from 0 to 1.
fn between(table: &[f64], share: f64) -> f64 {
    let at = share.clamp(0.0, 1.0) * NODES as f64;
    let low = (at as usize).min(NODES - 1);
    table[low] + (at - low as f64) * (table[low + 1] - table[low])
}

impl Population for SmoothedCone {
    fn dim(&self) -> usize {
        self.cone.dim()
    }

    fn multiplicities(&self) -> &[u64] {
        &self.records
    }

    fn lipschitz(&self) -> f64 {
        self.cone.lipschitz()
    }

    fn smoothness(&self) -> f64 {
        (self.cone.dim() as f64).sqrt() * self.cone.lipschitz() / self.smoothing
    }

    fn value(&self, _: usize, point: &[f64]) -> f64 {
        self.cone.value(point)
    }

    fn gradient(&self, _: usize, point: &[f64], out: &mut [f64]) {
        self.cone.gradient(point, out);
        let ahead = (self.cone.end() - point[0]) / self.smoothing;
        out[0] = -self.cone.slope() * between(&self.below, 0.5 * (ahead + 1.0));
        let x = norm(&point[1..]) / self.smoothing;
        let shrunk = if x < FAR {
            between(&self.slope, x / FAR)
        } else {
            1.0 - self.falloff / (x * x)
        };
        out[1..].iter_mut().for_each(|u| *u *= shrunk);
    }
}

#[cfg(test)]
mod tests {
    use dpopt_privacy::{Adjacency, Curator};

    use super::*;

    /// Against means over a ball of 20,000 draws: standard errors are at most 0.5/sqrt(20,000) = 0.0036 a coordinate. Five of them,
    /// and what interpolation may be off.
    #[test]
    fn the_gradient_is_the_mean_over_the_ball() {
        for dim in [2, 3, 10, 50] {
            let cone = RampCone::new(dim, 1.0, 0.4).unwrap();
            let smoothed = SmoothedCone::new(cone, 0.1, 1);
            let mut curator = Curator::simulated(Adjacency::ReplaceOne, 7);
            for (z, u) in [
                (0.0, 0.03),
                (2.47, 0.1),
                (2.53, 0.4),
                (2.5, 0.005),
                (9.0, 30.0),
            ] {
                let mut point = vec![0.0; dim];
                (point[0], point[dim - 1]) = (z, u);
                let (mut expected, mut one) = (vec![0.0; dim], vec![0.0; dim]);
                let draws = 20_000;
                let count = std::num::NonZeroUsize::new(draws).unwrap();
                let offsets =
                    dpopt_oracle::query::Offsets::draw(&mut curator, dim, 0.1, count).unwrap();
                let clip = dpopt_privacy::ClipNorm::new(1.0).unwrap();
                let query = dpopt_oracle::query::BallGradient {
                    point: &point,
                    offsets: &offsets,
                    clip,
                };
                let mut moved = vec![0.0; dim];
                for slot in 0..draws {
                    let gradient = |w: &[f64], out: &mut [f64]| cone.gradient(w, out);
                    query.write(slot, gradient, &mut moved, &mut one);
                    for (sum, x) in expected.iter_mut().zip(&one) {
                        *sum += x / draws as f64;
                    }
                }
                let mut found = vec![0.0; dim];
                smoothed.gradient(0, &point, &mut found);
                for (found, expected) in found.iter().zip(&expected) {
                    let off = (found - expected).abs();
                    assert!(off < 0.018 + 0.001, "{dim} {z} {u}: {found} {expected}");
                }
            }
        }
    }
}
