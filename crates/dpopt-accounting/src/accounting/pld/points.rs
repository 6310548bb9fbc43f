//! Privacy losses with finitely many values, and how they are cut to a lattice.
//!
//! Each stands for a pair `(P, Q)` that dominates a release: pure and approximate differential privacy,
//! randomised response, discrete Laplace noise, and whatever is known by its Renyi divergences only.
//! Which pair, and why it dominates: `docs/privacy/accounting.md`.

use libm::{exp, expm1, log};

use super::error::PldError;

/// Most values of a loss.
pub(super) const MOST_POINTS: u64 = 1 << 20;

/// The law of a privacy loss under P.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Points {
    /// Losses, increasing, and their masses.
    pub(super) upper: Vec<(f64, f64)>,
    /// The same for the lower bound, where it is another law; otherwise empty.
    pub(super) lower: Vec<(f64, f64)>,
    /// Mass at an infinite loss, from above.
    pub(super) infinite: f64,
    /// The same from below, for the lower bound.
    pub(super) infinite_lower: f64,
    /// The lattice that makes bounds close has points at this distance, or at a part of it.
    pub(super) grain: Option<f64>,
}

impl Points {
    /// `(epsilon, delta)`-DP: gives the bit away with probability delta, otherwise lies with probability
    /// `1 / (1 + e^epsilon)`; with probability `1 - share` both inputs give the same answer.
    pub(super) fn response(epsilon: f64, share: f64, delta: f64) -> Self {
        let odds = exp(-epsilon);
        let kept = (1.0 - delta) * share;
        let truth = (epsilon, kept / (1.0 + odds));
        let lie = (-epsilon, kept * odds / (1.0 + odds));
        let rest = (1.0 - delta) * (1.0 - share);
        let (upper, grain) = if rest > 0.0 {
            (vec![lie, (0.0, rest), truth], epsilon)
        } else {
            (vec![lie, truth], 2.0 * epsilon)
        };
        Self {
            upper,
            lower: Vec::new(),
            infinite: delta,
            infinite_lower: delta,
            grain: Some(grain),
        }
    }

    /// Noise of mass `tanh(a/2) e^{-a |x|}` on one integer that moves by `shift`: loss `a (2 j - shift)`.
    pub(super) fn discrete_laplace(a: f64, shift: u64) -> Result<Self, PldError> {
        if shift > MOST_POINTS {
            return Err(PldError::TooFine {
                cells: shift as f64,
                limit: MOST_POINTS as f64,
            });
        }
        let n = shift as f64;
        let end = 1.0 / (1.0 + exp(-a));
        let upper = (0..=shift)
            .map(|j| {
                let j = j as f64;
                let mass = if j == 0.0 {
                    end * exp(-a * n)
                } else if j == n {
                    end
                } else {
                    libm::tanh(0.5 * a) * exp(-a * (n - j))
                };
                (a * (2.0 * j - n), mass)
            })
            .collect();
        Ok(Self {
            upper,
            lower: Vec::new(),
            infinite: 0.0,
            infinite_lower: 0.0,
            grain: Some(2.0 * a),
        })
    }

    /// Any release whose delta at epsilon, in both directions, is at most `ceiling(epsilon)` for each epsilon of at
    /// least 0. The lower bound is that of no release.
    ///
    /// `H_a` of the release is convex in a, hence at most the greatest convex minorant of the ceiling, and hence at
    /// most the broken line through points on that minorant: that of a law with losses there.
    pub(super) fn below(ceiling: impl Fn(f64) -> f64, most: f64) -> Self {
        let side: Vec<(f64, f64)> = (0..=CURVE)
            .map(|i| most * (f64::from(i) / f64::from(CURVE)).powi(2))
            .map(|epsilon| (epsilon, ceiling(epsilon)))
            .collect();
        Self::through(&side)
    }

    /// Any release whose delta, in both directions, is at most these at these epsilons from 0 on, in increasing order. As
    /// [`Points::below`].
    pub(super) fn through(side: &[(f64, f64)]) -> Self {
        // (log a, bound on H_a), by a, which itself may be beyond the range of numbers; H_0 = 1.
        let mut line: Vec<(f64, f64)> = vec![(f64::NEG_INFINITY, 1.0)];
        for &(epsilon, ceiling) in side.iter().rev().filter(|at| at.0 > 0.0) {
            // H_a(P, Q) = 1 - a + a H_{1/a}(Q, P).
            let a = exp(-epsilon);
            let mirrored = (1.0 - a + a * ceiling) * SLACK;
            push_convex(&mut line, (-epsilon, mirrored.min(1.0)));
        }
        for &(epsilon, ceiling) in side {
            push_convex(&mut line, (epsilon, (ceiling * SLACK).min(1.0)));
        }
        // Slopes rise from point to point; Q has the rise at a as the mass of a loss of log a, and P has a times that.
        let mut upper = Vec::new();
        for i in 1..line.len() {
            let left = slope(line[i - 1], line[i], line[i].0);
            let right = line
                .get(i + 1)
                .map_or(0.0, |next| slope(line[i], *next, line[i].0));
            let rise = right - left;
            if rise > 0.0 {
                // A slope is good to a few units.
                let slack = 8.0 * f64::EPSILON * (left.abs() + right.abs());
                upper.push((line[i].0, rise + slack));
            }
        }
        Self {
            upper,
            lower: vec![(0.0, 1.0)],
            infinite: line.last().map_or(1.0, |end| end.1),
            infinite_lower: 0.0,
            grain: None,
        }
    }

    pub(super) fn lowest(&self) -> f64 {
        self.upper.first().map_or(0.0, |p| p.0)
    }

    /// The largest loss of the bound from above; infinite where some mass is.
    pub(super) fn supremum(&self) -> f64 {
        match self.upper.last() {
            Some(top) if self.infinite == 0.0 => top.0,
            _ => f64::INFINITY,
        }
    }

    fn top(&self) -> f64 {
        self.upper.last().map_or(0.0, |p| p.0)
    }

    /// Cuts the law at step `h`.
    pub(super) fn cut(&self, h: f64, max_cells: usize) -> Result<PointCells, PldError> {
        let top = self.top();
        let offset = top - (top / h).floor() * h;
        let place = |loss: f64| ((loss - offset) / h).floor();
        let lowest = self
            .lower
            .first()
            .map_or(self.lowest(), |p| p.0.min(self.lowest()));
        let highest = self.lower.last().map_or(top, |p| p.0.max(top));
        let first = place(lowest) - 1.0;
        let cells = place(highest) - first + 2.0;
        if !cells.is_finite() || cells > 4.0 * max_cells as f64 {
            return Err(PldError::TooFine {
                cells,
                limit: 4.0 * max_cells as f64,
            });
        }
        let n = cells as usize;
        let mut out = PointCells {
            first: first as i64,
            up: vec![0.0; n],
            down: vec![0.0; n],
            lower: vec![0.0; n + 1],
            lower_up: vec![0.0; n],
            lower_down: vec![0.0; n],
            offset,
            loss_error: 0.0,
            exponent: 1.0,
        };
        let (up_total, down_total) = (-expm1(-h), expm1(h));
        let own = &self.upper;
        let other = if self.lower.is_empty() {
            own
        } else {
            &self.lower
        };
        for (list, is_lower) in [(own, false), (other, true)] {
            for &(loss, mass) in list {
                if mass <= 0.0 {
                    continue;
                }
                let rounding = 16.0 * f64::EPSILON * (loss.abs() + offset.abs() + h);
                let exact = (loss - offset) / h;
                let nearest = exact.round();
                // A loss on a lattice point but for its rounding is on it.
                let cell = if (exact - nearest).abs() * h <= rounding {
                    nearest
                } else {
                    exact.floor()
                };
                let distance = loss - (cell * h + offset);
                let above = if cell == nearest && distance.abs() <= 2.0 * rounding {
                    0.0
                } else {
                    distance.clamp(0.0, h)
                };
                out.loss_error = out
                    .loss_error
                    .max((distance - above).abs() + 2.0 * rounding);
                out.exponent = out.exponent.max(log(mass).abs());
                let k = (cell - first) as usize;
                if is_lower {
                    // A smaller loss: rule 2.
                    out.lower[k] += mass;
                    out.lower_up[k] += mass * -expm1(-above) / up_total;
                    out.lower_down[k] += mass * expm1(h - above) / down_total;
                } else {
                    out.up[k] += mass * -expm1(-above) / up_total;
                    out.down[k] += mass * expm1(h - above) / down_total;
                }
            }
        }
        Ok(out)
    }

    /// Losses and logarithms of masses, to plan with: of neighbours together where there are many.
    pub(super) fn plan_nodes(&self) -> Vec<(f64, f64)> {
        let together = self.upper.len().div_ceil(PLANNED).max(1);
        self.upper
            .chunks(together)
            .map(|chunk| {
                let mass: f64 = chunk.iter().map(|p| p.1).sum();
                let loss = match chunk {
                    [(loss, _)] => *loss,
                    _ => chunk.iter().map(|p| p.0 * p.1).sum::<f64>() / mass,
                };
                (loss, log(mass))
            })
            .filter(|(_, ln)| ln.is_finite())
            .collect()
    }
}

/// Nodes of a plan.
const PLANNED: usize = 1 << 14;

/// For the rounding of values of the curve.
const SLACK: f64 = 1.0 + 1e-12;

/// Points on each side of a broken line.
const CURVE: i32 = 2000;

/// `e^at` times the slope between two points of a line, given by log a.
fn slope(one: (f64, f64), next: (f64, f64), at: f64) -> f64 {
    let run = if at == next.0 {
        -expm1(one.0 - next.0)
    } else {
        expm1(next.0 - one.0)
    };
    (next.1 - one.1) / run
}

/// Adds a point to the right of a convex line; what would bend it downwards is left out.
fn push_convex(line: &mut Vec<(f64, f64)>, new: (f64, f64)) {
    while let [.., before, last] = line[..] {
        if slope(before, last, last.0) < slope(last, new, last.0) {
            break;
        }
        line.pop();
    }
    line.push(new);
}

/// A law of points in cells, as in `lattice.rs`; the lower law on lattice points.
pub(super) struct PointCells {
    pub(super) first: i64,
    pub(super) up: Vec<f64>,
    pub(super) down: Vec<f64>,
    pub(super) lower: Vec<f64>,
    /// The lower law in cells, to be averaged where its points are dense.
    pub(super) lower_up: Vec<f64>,
    pub(super) lower_down: Vec<f64>,
    pub(super) offset: f64,
    pub(super) loss_error: f64,
    pub(super) exponent: f64,
}
