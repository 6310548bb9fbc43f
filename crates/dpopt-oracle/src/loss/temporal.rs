//! Temporal differences: a value of states whose errors, as features tell them apart, are nothing.

use dpopt_linalg::{Domain, dot, norm};

use super::saddle::{SaddleConstants, SaddleLoss, TwiceSaddle};

/// The largest second derivative of tanh, 4/(3 sqrt 3), rounded up.
const BENT: f64 = 0.769_801;

/// A step from one state to another: features of both, of norm at most 1, and a reward in [-1, 1].
#[derive(Debug, Clone, PartialEq)]
pub struct Transition {
    from: Vec<f64>,
    to: Vec<f64>,
    reward: f64,
}

impl Transition {
    /// Features that are longer than 1 are shortened to it, and the reward is the nearest number in [-1, 1]; what is no number counts as
    /// zero: a bad record is no error.
    #[must_use]
    pub fn new(from: Vec<f64>, to: Vec<f64>, reward: f64) -> Self {
        let bounded = |mut features: Vec<f64>| {
            let most = features.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            if !(features.iter().all(|x| x.is_finite()) && most < 1e150) {
                features.fill(0.0);
                return features;
            }
            let length = norm(&features) * (1.0 + 1e-12);
            if length > 1.0 {
                features.iter_mut().for_each(|x| *x /= length);
            }
            features
        };
        Self {
            from: bounded(from),
            to: bounded(to),
            reward: if reward.is_nan() {
                0.0
            } else {
                reward.clamp(-1.0, 1.0)
            },
        }
    }
}

/// The mean squared projected Bellman error of V = tanh(<w, phi>) as a saddle problem.
///
/// # Formula
/// With delta = reward + gamma V(phi') - V(phi), gamma < 1 the discount:
///
/// f = delta <y, phi> - (<y, phi>^2 + c norm(y)^2)/2, norm(y) <= r = 1.5 (2 + gamma)/c.
///
/// y* = (E phi phi^T + c)^-1 E delta phi is inside: norm(E delta phi) <= 2 + gamma. Constants, with |tanh''| <= t = 4/(3 sqrt 3):
/// C_x = r (1 + gamma), C_y = 2 + gamma + (1 + c) r, L_xx = r t (1 + gamma), L_xy = 1 + gamma, L_yy = 1 + c, m = c (of each record); the Frobenius
/// norm of the Hessian in y is at most 1 + c sqrt(d), the others are of rank one or two and no longer than their norms above.
///
/// # Source
/// The dual form of the projected error: Liu et al. 2015 (UAI); a nonlinear value: Wai et al. 2019 (NeurIPS).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TemporalDifference {
    features: usize,
    discount: f64,
    weight: f64,
}

/// Numbers that make no such problem.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "a discount is in [0, 1) and the weight of the regulariser positive, got {discount} and {weight}"
)]
#[non_exhaustive]
pub struct TemporalError {
    /// gamma.
    pub discount: f64,
    /// c.
    pub weight: f64,
}

impl TemporalDifference {
    /// Of so many features, with gamma and c.
    ///
    /// # Errors
    /// [`TemporalError`].
    pub fn new(features: usize, discount: f64, weight: f64) -> Result<Self, TemporalError> {
        if !((0.0..1.0).contains(&discount) && weight > 0.0 && weight.is_finite()) {
            return Err(TemporalError { discount, weight });
        }
        Ok(Self {
            features,
            discount,
            weight,
        })
    }

    /// Whether it is between states with these features. One that is not counts as nothing.
    fn fits(&self, of: &Transition) -> bool {
        of.from.len() == self.features && of.to.len() == self.features
    }

    fn radius(&self) -> f64 {
        1.5 * (2.0 + self.discount) / self.weight
    }

    /// delta, and the first and second derivatives of its two values.
    fn error(&self, of: &Transition, x: &[f64]) -> (f64, [(f64, f64); 2]) {
        let at = |features: &[f64]| {
            let value = dot(features, x).tanh();
            let slope = 1.0 - value * value;
            (value, (slope, -2.0 * value * slope))
        };
        let ((next, of_next), (now, of_now)) = (at(&of.to), at(&of.from));
        let delta = of.reward + self.discount * next - now;
        (delta, [of_next, of_now])
    }
}

impl SaddleLoss for TemporalDifference {
    type Records = Vec<Transition>;

    fn x_dim(&self, _: &Vec<Transition>) -> usize {
        self.features
    }

    fn domain(&self) -> Domain {
        Domain::ball(self.features, self.radius())
    }

    fn saddle_constants(&self, _: &Vec<Transition>) -> SaddleConstants {
        let (both, radius, c) = (1.0 + self.discount, self.radius(), self.weight);
        let (in_x, in_y) = (
            radius * BENT * both,
            1.0 + c * (self.features as f64).sqrt(),
        );
        SaddleConstants {
            lipschitz_x: radius * both,
            lipschitz_y: 1.0 + both + (1.0 + c) * radius,
            smooth_xx: in_x,
            smooth_xy: both,
            smooth_yy: 1.0 + c,
            hessian_frobenius: (in_x * in_x + 2.0 * both * both + in_y * in_y).sqrt(),
        }
    }

    fn value(&self, of: &Transition, x: &[f64], y: &[f64]) -> f64 {
        if !self.fits(of) {
            return 0.0;
        }
        let (delta, _) = self.error(of, x);
        let along = dot(y, &of.from);
        delta * along - 0.5 * (along * along + self.weight * dot(y, y))
    }

    fn gradient(&self, of: &Transition, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        if !self.fits(of) {
            return;
        }
        let (delta, [(next, _), (now, _)]) = self.error(of, x);
        let along = dot(y, &of.from);
        let pull = delta - along;
        for i in 0..x.len() {
            out.0[i] += along * (self.discount * next * of.to[i] - now * of.from[i]);
            out.1[i] += pull * of.from[i] - self.weight * y[i];
        }
    }
}

impl TwiceSaddle for TemporalDifference {
    fn hessian_vector(
        &self,
        of: &Transition,
        x: &[f64],
        y: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        if !self.fits(of) {
            return;
        }
        let (_, [(next, next_bend), (now, now_bend)]) = self.error(of, x);
        let (dx, dy) = direction.split_at(x.len());
        let (of_x, of_y) = out.split_at_mut(x.len());
        let along = dot(y, &of.from);
        let (on_next, on_now) = (dot(&of.to, dx), dot(&of.from, dx));
        let across = dot(&of.from, dy);
        let change = self.discount * next * on_next - now * on_now - across;
        for i in 0..x.len() {
            let bend =
                self.discount * next_bend * on_next * of.to[i] - now_bend * on_now * of.from[i];
            let slope = self.discount * next * of.to[i] - now * of.from[i];
            of_x[i] += along * bend + across * slope;
            of_y[i] += change * of.from[i] - self.weight * dy[i];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Joint, Loss as _, laws};

    fn records() -> Vec<Transition> {
        let features = |k: f64| (0..3).map(|i| (k + f64::from(i) * 1.7).sin()).collect();
        let of = |k: u32| {
            let k = f64::from(k);
            Transition::new(features(k), features(2.0 * k + 0.4), (3.0 * k).cos())
        };
        (0..5).map(of).collect()
    }

    #[test]
    fn temporal_differences_keep_the_laws() {
        let loss = TemporalDifference::new(3, 0.9, 0.5).unwrap();
        for scale in [0.5, 1.0] {
            let joint = Joint::new(loss, scale).unwrap();
            for point in laws::points(joint.dim(&records()), 6, 2.0) {
                let found = crate::check_gradient(&joint, &records(), &point).unwrap();
                assert!(found.worst < 1e-7, "{found:?}");
            }
            laws::second_derivatives(&joint, &records(), 2.0);
        }
    }

    /// One state that stays where it is, w = 0: delta is the reward, y* = reward/(1 + c).
    #[test]
    fn one_state_by_hand() {
        let loss = TemporalDifference::new(1, 0.5, 0.25).unwrap();
        let stays = Transition::new(vec![1.0 - 1e-9], vec![1.0 - 1e-9], 0.5);
        let (mut of_x, mut of_y) = ([0.0], [0.0]);
        loss.gradient(&stays, &[0.0], &[0.4], (&mut of_x, &mut of_y));
        // (gamma - 1) y, and 0.5 - 1.25 * 0.4.
        assert!((of_x[0] + 0.2).abs() < 1e-8 && of_y[0].abs() < 1e-8);
        let wild = Transition::new(vec![f64::NAN, 1.0], vec![3.0, 4.0], f64::INFINITY);
        assert_eq!((&wild.from[..], wild.reward), (&[0.0, 0.0][..], 1.0));
        assert!((wild.to[0] - 0.6).abs() < 1e-9 && norm(&wild.to) <= 1.0);
        // Of other features than the problem's.
        let other = Transition::new(vec![0.5], vec![0.5, 0.1], 1.0);
        let (mut of_x, mut of_y, mut curved) = ([0.0], [0.0], [0.0; 2]);
        assert_eq!(loss.value(&other, &[0.3], &[0.4]), 0.0);
        loss.gradient(&other, &[0.3], &[0.4], (&mut of_x, &mut of_y));
        loss.hessian_vector(&other, &[0.3], &[0.4], &[1.0, 1.0], &mut curved);
        assert_eq!((of_x, of_y, curved), ([0.0], [0.0], [0.0; 2]));
        for (discount, weight) in [(1.0, 1.0), (-0.1, 1.0), (0.5, 0.0), (0.5, f64::NAN)] {
            assert!(TemporalDifference::new(1, discount, weight).is_err());
        }
    }
}
