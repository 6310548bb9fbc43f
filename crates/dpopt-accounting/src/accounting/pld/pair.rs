//! Dominating pairs on the real line, each written so that the privacy loss
//! `L(y) = log dP/dQ (y)` does not decrease in `y`.

use libm::{erfc, exp, log, log1p, sqrt};

use super::law::{Kind, Law, log_mix, log_mix_inverse, mix_weight};

const LN_SQRT_2PI: f64 = 0.918_938_533_204_672_8;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) kind: Kind,
    pub(super) q: f64,
    pub(super) s: f64,
}

/// Upper tail of the standard normal law, rounded up.
fn tail(t: f64) -> f64 {
    0.5 * erfc(t * std::f64::consts::FRAC_1_SQRT_2) * (1.0 + 1e-12) + f64::MIN_POSITIVE
}

impl Pair {
    fn u(&self, x: f64) -> f64 {
        (2.0 * x - 1.0) / (2.0 * self.s * self.s)
    }
}

impl Law for Pair {
    fn loss(&self, y: f64) -> f64 {
        match self.kind {
            Kind::Plain => self.u(y),
            Kind::Remove => log_mix(self.q, self.u(y)),
            Kind::Add => -log_mix(self.q, self.u(-y)),
            Kind::Replace => log_mix(self.q, self.u(y)) - log_mix(self.q, self.u(-y)),
        }
    }

    fn log_density_and_loss(&self, y: f64) -> (f64, f64) {
        let base = |t: f64| -0.5 * (t / self.s) * (t / self.s) - log(self.s) - LN_SQRT_2PI;
        match self.kind {
            Kind::Plain => (base(y - 1.0), self.u(y)),
            Kind::Remove => {
                let loss = log_mix(self.q, self.u(y));
                (base(y) + loss, loss)
            }
            Kind::Add => (base(y), -log_mix(self.q, self.u(-y))),
            Kind::Replace => {
                let right = log_mix(self.q, self.u(y));
                (base(y) + right, right - log_mix(self.q, self.u(-y)))
            }
        }
    }

    fn slope(&self, y: f64) -> f64 {
        let weight = match self.kind {
            Kind::Plain => 1.0,
            Kind::Remove => mix_weight(self.q, self.u(y)),
            Kind::Add => mix_weight(self.q, self.u(-y)),
            Kind::Replace => mix_weight(self.q, self.u(y)) + mix_weight(self.q, self.u(-y)),
        };
        weight / (self.s * self.s)
    }

    fn inverse(&self, l: f64) -> f64 {
        let s2 = self.s * self.s;
        match self.kind {
            Kind::Plain => l * s2 + 0.5,
            Kind::Remove => log_mix_inverse(self.q, l) * s2 + 0.5,
            Kind::Add => -(log_mix_inverse(self.q, -l) * s2 + 0.5),
            Kind::Replace => {
                // With w = exp(y / s^2) the equation is quadratic in w; its root is
                // log w = l/2 + asinh(A), A = (1-q) sinh(l/2) e^{1/(2 s^2)} / q.
                let half = 0.5 * l.abs();
                if half == 0.0 {
                    return 0.0;
                }
                let log_sinh = if half < 1.0 {
                    log(libm::sinh(half))
                } else {
                    half + log1p(-exp(-2.0 * half)) - std::f64::consts::LN_2
                };
                let log_a = log1p(-self.q) - log(self.q) + 0.5 / s2 + log_sinh;
                let asinh = if log_a > 20.0 {
                    log_a + std::f64::consts::LN_2 + 0.25 * exp(-2.0 * log_a)
                } else {
                    libm::asinh(exp(log_a))
                };
                (s2 * (half + asinh)).copysign(l)
            }
        }
    }

    fn upper_tail(&self, y: f64) -> f64 {
        match self.kind {
            Kind::Plain => tail((y - 1.0) / self.s),
            Kind::Add => tail(y / self.s),
            Kind::Remove | Kind::Replace => {
                (1.0 - self.q) * tail(y / self.s) + self.q * tail((y - 1.0) / self.s)
            }
        }
    }

    fn lower_tail(&self, y: f64) -> f64 {
        match self.kind {
            Kind::Plain => tail((1.0 - y) / self.s),
            Kind::Add => tail(-y / self.s),
            Kind::Remove | Kind::Replace => {
                (1.0 - self.q) * tail(-y / self.s) + self.q * tail((1.0 - y) / self.s)
            }
        }
    }

    fn upper_point(&self, ln_mass: f64) -> f64 {
        let z = |ln: f64| self.s * sqrt((-2.0 * ln).max(0.0));
        match self.kind {
            Kind::Plain => 1.0 + z(ln_mass),
            Kind::Add => z(ln_mass),
            Kind::Remove | Kind::Replace => z(ln_mass).max(1.0 + z(ln_mass - log(self.q))),
        }
    }

    fn lower_point(&self, ln_mass: f64) -> f64 {
        let z = self.s * sqrt((-2.0 * ln_mass).max(0.0));
        match self.kind {
            Kind::Plain => 1.0 - z,
            Kind::Add | Kind::Remove | Kind::Replace => -z,
        }
    }

    fn loss_sup(&self) -> f64 {
        match self.kind {
            Kind::Add => -log1p(-self.q),
            _ => f64::INFINITY,
        }
    }

    fn reach(&self, y: f64) -> f64 {
        y.abs() + 1.0
    }

    fn radius(&self, y: f64) -> f64 {
        self.s.min(self.s * self.s / self.reach(y))
    }

    fn atoms(&self) -> [f64; 2] {
        [0.0; 2]
    }
}
