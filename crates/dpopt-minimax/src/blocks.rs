//! What steps and errors of the two blocks have to do with each other.

use dpopt_solver::PublicFacts;

use crate::facts::SaddleFacts;

/// The numbers of a saddle problem under one scale of y, in which planners think. Without y all that belongs to it is zero.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbers {
    /// d1 and d2.
    pub(crate) x_dim: f64,
    pub(crate) y_dim: f64,
    /// s.
    pub(crate) scale: f64,
    /// w = L_xy/m.
    pub(crate) coupling: f64,
    /// r = 1 - m/L_yy: an exact ascent step of size 1/L_yy brings y so much nearer.
    pub(crate) contraction: f64,
    /// lambda = 1/L_yy.
    pub(crate) rate: f64,
    pub(crate) smooth_xy: f64,
    pub(crate) strong_concavity: f64,
    /// L_Phi.
    pub(crate) value_smoothness: f64,
    /// Diameter of Y.
    pub(crate) diameter: f64,
    /// Noise of an anchor per coordinate and multiplier: (sensitivity) C/n.
    pub(crate) anchor: f64,
    /// Noise of a variation per coordinate, multiplier and length of the displacement: (sensitivity) L/n.
    pub(crate) variation: f64,
    /// C_y.
    pub(crate) clip_y: f64,
    /// C and L.
    pub(crate) clip: f64,
    pub(crate) smoothness: f64,
}

impl Numbers {
    pub(crate) fn new(facts: &SaddleFacts, scale: f64) -> Self {
        let joint = facts.joint(scale);
        let with_y = facts.y_dim() > 0;
        let of_y = |value: f64| if with_y { value } else { 0.0 };
        Self {
            x_dim: facts.x_dim as f64,
            y_dim: facts.y_dim() as f64,
            scale,
            coupling: of_y(facts.mean.coupling()),
            contraction: of_y(1.0 - 1.0 / facts.mean.condition()).max(0.0),
            rate: of_y(1.0 / facts.mean.smooth_yy),
            smooth_xy: of_y(facts.mean.smooth_xy),
            strong_concavity: if with_y {
                facts.mean.strong_concavity
            } else {
                1.0
            },
            value_smoothness: facts.mean.value_smoothness,
            diameter: of_y(facts.domain.diameter()),
            anchor: joint.noise_std(joint.lipschitz, 1.0),
            variation: joint.noise_std(joint.smoothness, 1.0),
            clip_y: of_y(facts.record.lipschitz_y),
            clip: joint.lipschitz,
            smoothness: joint.smoothness,
        }
    }

    /// Inner steps after which y is so much nearer (a `factor` above 1), at least one; none without y.
    pub(crate) fn inner_steps(&self, factor: f64) -> u64 {
        match self.contraction {
            _ if self.y_dim == 0.0 => 0,
            r if r < 1e-9 => 1,
            r => (factor.ln() / -r.ln()).ceil().max(1.0) as u64,
        }
    }

    /// r^K.
    pub(crate) fn left(&self, inner: u64) -> f64 {
        self.contraction.powf(inner as f64)
    }

    /// Squared path of y, over s^2, in an outer step of length 1 without noise: c_K^2 (lambda L_xy/(1 - r^K))^2/s^2.
    pub(crate) fn movement(&self, inner: u64) -> f64 {
        if inner == 0 {
            return 0.0;
        }
        let first = self.rate * self.smooth_xy / (1.0 - self.left(inner));
        squares(self.contraction, inner) * (first / self.scale).powi(2)
    }

    /// (2 sqrt d + 4) 2^-29: rounding of a mean over its radius.
    pub(crate) fn rounding(&self) -> f64 {
        PublicFacts::rounding(1.0, (self.x_dim + self.y_dim) as usize)
    }
}

/// The scales to try: around the one with the least noise of an anchor in grad Phi, s^2 = w sqrt(d2) C_x/(sqrt(d1) C_y).
pub(crate) fn scales(facts: &SaddleFacts) -> Vec<f64> {
    if facts.y_dim() == 0 {
        return vec![1.0];
    }
    let noise = facts.mean.coupling() * (facts.y_dim() as f64 / facts.x_dim as f64).sqrt();
    let least = (noise * facts.record.lipschitz_x / facts.record.lipschitz_y).sqrt();
    (-6..=6)
        .map(|k| least * 2f64.powf(0.25 * f64::from(k)))
        .collect()
}

/// 1 + r^2 + ... + r^(2 (K - 1)).
pub(crate) fn squares(r: f64, inner: u64) -> f64 {
    if r >= 1.0 {
        return inner as f64;
    }
    (1.0 - r.powf(2.0 * inner as f64)) / (1.0 - r * r)
}
