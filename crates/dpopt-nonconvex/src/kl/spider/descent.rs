//! How many steps a phase needs: the recursion of the excess in the worst case.

/// Steps that are followed one by one before the integral is used.
const FOLLOWED: u32 = 16;
/// Panels of the trapezoidal rule.
const PANELS: u32 = 12;

/// Steps of length a G/L against estimates whose error is at most b G, with G = Lambda^(1/kappa)/gamma the gradient norm that the KL
/// condition grants where the excess is Lambda, the level of the phase.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// a.
    pub(super) step: f64,
    /// b.
    pub(super) error: f64,
    pub(super) kappa: f64,
}

impl Pace {
    /// delta(x) = a sqrt(x^(2/kappa) - b^2) - a^2/2: what one step takes off an excess of x Lambda >= Lambda, in units of G^2/L. Concave and
    /// increasing in x.
    pub(super) fn progress(&self, x: f64) -> f64 {
        let square = if self.kappa == 2.0 {
            x
        } else {
            x.powf(2.0 / self.kappa)
        };
        self.step * (square - self.error * self.error).sqrt() - 0.5 * self.step * self.step
    }

    /// What one step can at most add to an excess of at most Lambda, in units of G^2/L, unless the estimate is so short that
    /// the phase ends.
    pub(super) fn overshoot(&self) -> f64 {
        (self.step * (2.0 * self.error - 1.0) + 0.5 * self.step * self.step).max(0.0)
    }

    /// Enough steps from an excess of `from` Lambda to one of at most `to` Lambda, from >= to >= 1; `condition` is
    /// gamma^2 L Lambda^(-(2 - kappa)/kappa), by which G^2/L = Lambda/condition. At least one; infinite where a step gains nothing.
    ///
    /// # Formula
    /// x <- x - delta(x)/condition. After some steps one by one: as delta increases, each further step covers at least 1 of
    /// condition times the integral of 1/delta from `to` to x, and 1/delta is convex (delta is concave and positive), so the trapezoidal rule is never
    /// below that integral.
    pub(super) fn steps(&self, from: f64, to: f64, condition: f64) -> f64 {
        if !(self.progress(to) > 0.0) {
            return f64::INFINITY;
        }
        let mut x = from;
        for done in 1..=FOLLOWED {
            x -= self.progress(x) / condition;
            if x <= to {
                return f64::from(done);
            }
        }
        f64::from(FOLLOWED) + (condition * self.reluctance(x, to)).ceil()
    }

    /// At least the integral of 1/delta from `to` to `from`, on a geometric grid.
    fn reluctance(&self, from: f64, to: f64) -> f64 {
        let ratio = (from / to).powf(f64::from(PANELS).recip());
        let (mut x, mut here) = (to, self.progress(to).recip());
        let mut sum = 0.0;
        for panel in 1..=PANELS {
            let next = if panel == PANELS { from } else { x * ratio };
            let there = self.progress(next).recip();
            sum += 0.5 * (here + there) * (next - x);
            (x, here) = (next, there);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(pace: &Pace, from: f64, to: f64, condition: f64) -> f64 {
        let (mut x, mut steps) = (from, 0.0);
        while x > to {
            x -= pace.progress(x) / condition;
            steps += 1.0;
        }
        steps
    }

    /// The steps are enough, and few more than needed.
    #[test]
    fn steps_suffice() {
        for kappa in [1.0, 1.1, 1.5, 2.0] {
            for (step, error) in [(0.5, 0.25), (0.1, 0.8), (0.3, 0.6)] {
                let pace = Pace { step, error, kappa };
                for (from, to) in [(1.2, 1.0), (2.0, 1.1), (13.0, 1.0)] {
                    for condition in [0.5, 3.0, 400.0, 1e5] {
                        let exact = followed(&pace, from, to, condition);
                        let planned = pace.steps(from, to, condition);
                        assert!(planned >= exact, "{kappa} {step} {from} {condition}");
                        assert!(planned <= 1.03 * exact + 2.0, "{planned} {exact}");
                    }
                }
            }
        }
    }

    /// Against a brute search over all gradients and errors in the plane: delta is the least progress, attained.
    #[test]
    fn progress_is_the_worst_case() {
        for (a, b) in [(0.5, 0.25), (0.1, 0.8)] {
            let pace = Pace {
                step: a,
                error: b,
                kappa: 2.0,
            };
            let mut least = f64::INFINITY;
            for turn in 0..20_000 {
                for share in [0.25, 0.5, 1.0] {
                    let angle = f64::from(turn) / 20_000.0 * std::f64::consts::TAU;
                    let g = [1.0 + share * b * angle.cos(), share * b * angle.sin()];
                    least = least.min(a * g[0] / g[0].hypot(g[1]) - 0.5 * a * a);
                }
            }
            assert!((least - pace.progress(1.0)).abs() < 1e-7, "{least}");
        }
    }
}
