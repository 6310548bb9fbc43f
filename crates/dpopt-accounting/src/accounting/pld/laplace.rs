//! The pairs of Laplace noise, plain and on a Poisson sample, and that of bounded range.
//!
//! Of `Lap(1, b)` against `Lap(0, b)` only the log ratio `v` in `[-1/b, 1/b]` matters. Under
//! `Lap(1, b)` it has atoms of `1/2` at the upper end and `e^{-1/b} / 2` at the lower one, and
//! the density `e^{(v - 1/b)/2} / 4` between; under `Lap(0, b)` the law is `e^{-v}` times that.
//!
//! The pair of a range of epsilon has the density of `1/b = epsilon` and no atoms, normalised.

use libm::{exp, log, log1p};

use super::law::{Kind, Law, log_mix, log_mix_inverse, mix_weight};

const LN_2: f64 = std::f64::consts::LN_2;
const LN_4: f64 = 2.0 * LN_2;

/// A pair of Laplace laws or of mixtures of them, in the variable `v`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LaplacePair {
    /// [`Kind::Plain`] stands for the unsampled pair. [`Kind::Replace`] has no pair in one
    /// variable; it is refused before it gets here.
    pub(super) kind: Kind,
    pub(super) q: f64,
    /// `1/b`, the largest `v`.
    pub(super) end: f64,
    /// Whether it is the pair of a bounded range, which has no atoms.
    pub(super) range: bool,
}

impl LaplacePair {
    /// Distance between the least and the largest loss.
    pub(super) fn span(&self) -> f64 {
        self.loss(self.end) - self.loss(-self.end)
    }

    /// Density under P at `v`, as a logarithm, of the pair without sampling.
    fn ln_heavy(&self, v: f64) -> f64 {
        let total = if self.range {
            LN_2 + log(-libm::expm1(-self.end))
        } else {
            LN_4
        };
        0.5 * (v - self.end) - total
    }

    /// Weight of P over the law of `v` under `Lap(1, b)`, as a logarithm.
    fn ln_weight(&self, v: f64) -> f64 {
        match self.kind {
            Kind::Remove => log_mix(self.q, v) - v,
            _ => 0.0,
        }
    }
}

impl Law for LaplacePair {
    fn loss(&self, v: f64) -> f64 {
        match self.kind {
            Kind::Remove => log_mix(self.q, v),
            Kind::Add => -log_mix(self.q, -v),
            _ => v,
        }
    }

    fn log_density_and_loss(&self, v: f64) -> (f64, f64) {
        let heavy = self.ln_heavy(v);
        let loss = self.loss(v);
        match self.kind {
            Kind::Remove => (heavy - v + loss, loss),
            _ => (heavy, loss),
        }
    }

    fn slope(&self, v: f64) -> f64 {
        match self.kind {
            Kind::Remove => mix_weight(self.q, v),
            Kind::Add => mix_weight(self.q, -v),
            _ => 1.0,
        }
    }

    fn inverse(&self, l: f64) -> f64 {
        match self.kind {
            Kind::Remove => log_mix_inverse(self.q, l),
            Kind::Add => -log_mix_inverse(self.q, -l),
            _ => l,
        }
    }

    /// Nothing is cut off above: half of the mass of `Lap(1, b)` is at the end.
    fn upper_tail(&self, v: f64) -> f64 {
        if v >= self.end { 0.0 } else { 1.0 }
    }

    fn lower_tail(&self, v: f64) -> f64 {
        if v <= -self.end {
            return 0.0;
        }
        match self.kind {
            Kind::Remove => 1.0,
            _ if self.range => (2.0 * exp(self.ln_heavy(v)) + f64::MIN_POSITIVE).min(1.0),
            _ => 0.5 * exp(0.5 * (v - self.end)) * (1.0 + 1e-12) + f64::MIN_POSITIVE,
        }
    }

    fn upper_point(&self, _ln_mass: f64) -> f64 {
        self.end
    }

    fn lower_point(&self, ln_mass: f64) -> f64 {
        match self.kind {
            // Most of the mass is at the lower end.
            Kind::Remove => -self.end,
            _ => (self.end + 2.0 * ln_mass).max(-self.end),
        }
    }

    fn loss_sup(&self) -> f64 {
        match self.kind {
            Kind::Add => -log1p(self.q * libm::expm1(-self.end)),
            _ => self.loss(self.end),
        }
    }

    fn reach(&self, v: f64) -> f64 {
        v.abs() + self.end
    }

    /// Densities under P and Q are sums of `e^{v/2}`, `e^{-v/2}` and, for the pair that adds,
    /// `e^{-3v/2}`.
    fn radius(&self, _v: f64) -> f64 {
        1.0
    }

    fn atoms(&self) -> [f64; 2] {
        if self.range {
            return [0.0; 2];
        }
        [
            0.5 * exp(self.ln_weight(-self.end) - self.end),
            0.5 * exp(self.ln_weight(self.end)),
        ]
    }
}

/// Points and logarithms of weights at which the density is summed to plan: dense near the
/// upper end, where a strong tilt has its mass.
pub(super) fn plan_nodes(pair: &LaplacePair) -> Vec<(f64, f64)> {
    let full = 2.0 * pair.end;
    let mut nodes: Vec<_> = [-pair.end, pair.end]
        .into_iter()
        .zip(pair.atoms())
        .map(|(v, mass)| (pair.loss(v), log(mass)))
        .filter(|(_, ln)| ln.is_finite())
        .collect();
    let mut from = 0.0;
    while from < full && nodes.len() < 200_000 {
        let width = (0.02 * from)
            .clamp(1e-9 * full.min(1.0), 0.05_f64.max(full / 100_000.0))
            .min(full - from);
        let (ln, loss) = pair.log_density_and_loss(pair.end - from - 0.5 * width);
        nodes.push((loss, ln + log(width)));
        if from + width <= from {
            break;
        }
        from += width;
    }
    nodes
}
