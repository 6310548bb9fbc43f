//! The pair of a Gaussian on a sample of fixed size under replace-one.
//!
//! With unit shift and standard deviation s the curve `H_a` of one release is that of `(1-q) N(0) + q N(1)` against
//! `N(0)` for a >= 1, and that of `N(0)` against `(1-q) N(0) + q N(1)` for a < 1. Its law has the positive losses of
//! the first pair, the negative ones of the second, and an atom at 0: `docs/privacy/accounting.md`.

use libm::{erfc, log};

use super::law::{Kind, Law};
use super::pair::Pair;

/// The variable is that of the first pair above 1/2, and that of the second, reflected, below -1/2. The atom is spread
/// over what lies between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FixedPair {
    gains: Pair,
    losses: Pair,
}

impl FixedPair {
    pub(super) fn new(q: f64, s: f64) -> Self {
        let of = |kind| Pair { kind, q, s };
        Self {
            gains: of(Kind::Remove),
            losses: of(Kind::Add),
        }
    }

    /// Mass at a loss of 0: `(1 - q) (1 - 2 Phi(-1 / (2 s)))`.
    fn atom(&self) -> f64 {
        let t = 0.5 / self.gains.s * std::f64::consts::FRAC_1_SQRT_2;
        // Above by the error of the function where it is near 1.
        (1.0 - self.gains.q) * (1.0 - erfc(t)) * (1.0 + 1e-15) + 2.0 * f64::EPSILON
    }

    fn side(&self, y: f64) -> Option<&Pair> {
        if y > EDGE {
            Some(&self.gains)
        } else if y < -EDGE {
            Some(&self.losses)
        } else {
            None
        }
    }
}

/// Where the losses change sign.
const EDGE: f64 = 0.5;

impl Law for FixedPair {
    fn loss(&self, y: f64) -> f64 {
        self.side(y).map_or(0.0, |pair| pair.loss(y))
    }

    fn log_density_and_loss(&self, y: f64) -> (f64, f64) {
        match self.side(y) {
            Some(pair) => pair.log_density_and_loss(y),
            None => (log(self.atom()), 0.0),
        }
    }

    fn slope(&self, y: f64) -> f64 {
        self.side(y).map_or(0.0, |pair| pair.slope(y))
    }

    fn inverse(&self, l: f64) -> f64 {
        if l > 0.0 {
            self.gains.inverse(l).max(EDGE)
        } else if l < 0.0 {
            self.losses.inverse(l).min(-EDGE)
        } else {
            EDGE
        }
    }

    fn upper_tail(&self, y: f64) -> f64 {
        if y >= EDGE {
            self.gains.upper_tail(y)
        } else {
            1.0
        }
    }

    fn lower_tail(&self, y: f64) -> f64 {
        if y <= -EDGE {
            self.losses.lower_tail(y)
        } else {
            1.0
        }
    }

    fn upper_point(&self, ln_mass: f64) -> f64 {
        self.gains.upper_point(ln_mass).max(1.1 * EDGE)
    }

    fn lower_point(&self, ln_mass: f64) -> f64 {
        self.losses.lower_point(ln_mass).min(-1.1 * EDGE)
    }

    fn loss_sup(&self) -> f64 {
        f64::INFINITY
    }

    fn reach(&self, y: f64) -> f64 {
        self.gains.reach(y)
    }

    fn radius(&self, y: f64) -> f64 {
        self.gains.radius(y)
    }

    fn atoms(&self) -> [f64; 2] {
        [0.0; 2]
    }

    fn next_break(&self, y: f64) -> f64 {
        if y < -EDGE {
            -EDGE
        } else if y < EDGE {
            EDGE
        } else {
            f64::INFINITY
        }
    }
}
