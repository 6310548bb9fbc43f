//! Optimal composition of mechanisms whose privacy losses lie in an interval of length epsilon: exponential mechanisms.
//!
//! Each may be chosen after the answers of those before it. With one answer of loss `t` and one of `t - epsilon`, `0 <= t <= epsilon`, of
//! probability `p_t = (e^epsilon - e^t)/(e^epsilon - 1)` and `1 - p_t`,
//!
//! ```text
//! delta_0(x) = (1 - e^x)_+,   delta_j(x) = sup over t of p_t delta_{j-1}(x - t) + (1 - p_t) delta_{j-1}(x - t + epsilon)
//! ```
//!
//! is the largest delta at epsilon = x of j such mechanisms (Dong, Durfee and Rogers 2020, Section 5). Both ends are certified: the lower one
//! is attained by t on a grid, the upper one covers all t between. `docs/privacy/accounting.md`.

use libm::{exp, expm1};

use super::AccountingError;
use super::pld::PldBounds;
use crate::units::{Delta, Epsilon};

/// Most mechanisms.
pub const MOST: u64 = 2000;
/// Additions that one grid may cost.
const WORK: f64 = 6e8;
/// Relative width that is aimed at.
const AIM: f64 = 5e-4;
/// Error of one step, relative, from above.
const ROUNDING: f64 = 64.0 * f64::EPSILON;
/// Above this range nothing is gained over adding up, and powers of e leave the range of numbers.
const WIDEST: f64 = 300.0;

fn out_of_range(quantity: &'static str, value: f64) -> AccountingError {
    AccountingError::OutOfRange { quantity, value }
}

fn check(count: u64) -> Result<(), AccountingError> {
    if count == 0 || count > MOST {
        return Err(out_of_range("the number of mechanisms", count as f64));
    }
    Ok(())
}

/// What the steps of one grid have in common.
struct Grid {
    /// Cells of an interval of length epsilon.
    cells: usize,
    /// `p_t` and `1 - p_t` at the points.
    p: Vec<(f64, f64)>,
    /// `e^g`.
    growth: f64,
}

impl Grid {
    fn new(range: f64, cells: usize) -> Self {
        let g = range / cells as f64;
        let p = (0..=cells)
            .map(|a| {
                let (t, left) = (a as f64 * g, (cells - a) as f64 * g);
                let whole = expm1(-range);
                (expm1(-left) / whole, exp(t - range) * expm1(-t) / whole)
            })
            .collect();
        Self {
            cells,
            p,
            growth: exp(g),
        }
    }

    /// Lower and upper values at one point, from those before it: `old(i)` at `x - epsilon + i g`, `i` up to twice the cells.
    fn best(&self, lower: &[f64], upper: &[f64]) -> (f64, f64) {
        let m = self.cells;
        let (mut low, mut high) = (0.0_f64, 0.0_f64);
        for a in 0..=m {
            let (p, rest) = self.p[a];
            // x - t and x - t + epsilon.
            low = low.max(p * lower[m - a] + rest * lower[2 * m - a]);
            let (one, other) = (upper[m - a], upper[2 * m - a]);
            let here = p * one + rest * other;
            high = high.max(here);
            if a == m {
                break;
            }
            // Between two points: each loss is spread to both. The share of the upper one is at most `growth` times that
            // of p's way from one end to the other.
            let (next, beyond) = (upper[m - a - 1], upper[2 * m - a - 1]);
            let way = p - self.p[a + 1].0;
            let (gain, far) = (next - one, beyond - other);
            let slope = way * (other - one) + self.growth * (p * gain + rest * far);
            let bend = self.growth * way * (far - gain);
            high = high.max(here + slope + bend);
            if bend < 0.0 {
                let at = (-0.5 * slope / bend).clamp(0.0, 1.0);
                high = high.max(here + at * slope + at * at * bend);
            }
        }
        (low * (1.0 - ROUNDING), high * (1.0 + ROUNDING))
    }
}

/// Both ends of delta at `x` with so many cells.
fn on_grid(range: f64, count: usize, x: f64, cells: usize) -> PldBounds {
    let grid = Grid::new(range, cells);
    let g = range / cells as f64;
    // Level j needs the points x + i g, |i| up to (count - j) cells.
    let width = count * cells;
    let at = |i: usize| x + (i as f64 - width as f64) * g;
    let error = 4.0 * f64::EPSILON * (x.abs() + count as f64 * range);
    let start = |i: usize, slack: f64| -expm1((at(i) + slack).min(0.0));
    let mut lower: Vec<f64> = (0..=2 * width).map(|i| start(i, error)).collect();
    let mut upper: Vec<f64> = (0..=2 * width).map(|i| start(i, -error)).collect();
    for j in 1..=count {
        let reach = (count - j) * cells;
        // Beyond j epsilon on either side all is known.
        let end = j as f64 * range * (1.0 + 1e-12) + 2.0 * error;
        let mut new_lower = vec![0.0; 2 * reach + 1];
        let mut new_upper = vec![0.0; 2 * reach + 1];
        for i in 0..=2 * reach {
            let here = x + (i as f64 - reach as f64) * g;
            if here >= end {
                continue;
            }
            if here <= -end {
                new_lower[i] = -expm1(here + error);
                new_upper[i] = -expm1(here - error);
                continue;
            }
            let part = i..=i + 2 * cells;
            (new_lower[i], new_upper[i]) = grid.best(&lower[part.clone()], &upper[part]);
        }
        (lower, upper) = (new_lower, new_upper);
    }
    PldBounds {
        lower: lower.first().copied().unwrap_or(0.0).max(0.0),
        upper: upper.first().copied().unwrap_or(1.0).min(1.0),
    }
}

/// Both ends of delta at `epsilon` of `count` mechanisms of range `range`, within about a thousandth where 6e8 additions are enough.
///
/// # Errors
/// [`AccountingError::OutOfRange`] for no mechanism or more than [`MOST`], and for an epsilon that is negative or no number.
pub fn delta(range: Epsilon, count: u64, epsilon: f64) -> Result<PldBounds, AccountingError> {
    check(count)?;
    if !(epsilon >= 0.0 && epsilon.is_finite()) {
        return Err(out_of_range("epsilon", epsilon));
    }
    Ok(refined(range, count, epsilon, |found| {
        found.width() <= AIM * found.lower || found.upper < 1e-290
    }))
}

/// On finer grids until it is enough.
fn refined(
    range: Epsilon,
    count: u64,
    epsilon: f64,
    enough: impl Fn(&PldBounds) -> bool,
) -> PldBounds {
    let (range, n) = (range.get(), count as usize);
    let mut best = PldBounds {
        lower: 0.0,
        upper: 1.0,
    };
    if range > WIDEST {
        return best;
    }
    let mut cells = 4_usize;
    // The cone of points that an answer needs, each with all t.
    let work = |cells: usize| (n as f64 * cells as f64).powi(2) / 1.5;
    while cells == 4 || (work(cells) <= WORK && cells <= 1 << 14) {
        let found = on_grid(range, n, epsilon, cells);
        best.lower = best.lower.max(found.lower);
        best.upper = best.upper.min(found.upper);
        if enough(&best) {
            break;
        }
        cells *= 2;
    }
    best
}

/// Both ends of epsilon at `delta`.
///
/// # Errors
/// As [`delta`](fn@delta).
pub fn epsilon(range: Epsilon, count: u64, delta: Delta) -> Result<PldBounds, AccountingError> {
    check(count)?;
    let whole = range.get() * count as f64 * (1.0 + 1e-12);
    let mut ends = PldBounds {
        lower: 0.0,
        upper: whole,
    };
    // Each probe is a certificate for one of the ends, or shows that the truth is within the width of it.
    let target = delta.get();
    let probe = |x: f64| {
        refined(range, count, x, |found| {
            found.upper <= target || found.lower > target || found.width() <= AIM * found.lower
        })
    };
    let mut take = |x: f64| {
        let found = probe(x);
        if found.upper <= target {
            ends.upper = ends.upper.min(x);
        } else if found.lower > target {
            ends.lower = ends.lower.max(x);
        }
        (ends, found.upper <= target || found.lower > target)
    };
    let (mut low, mut high) = (0.0, whole);
    while high - low > 2e-4 * high {
        let middle = 0.5 * (low + high);
        match take(middle) {
            (now, true) => (low, high) = (now.lower, now.upper),
            (_, false) => {
                for side in [2.5e-4, 1e-3, 1e-2] {
                    if take(middle * (1.0 + side)).1 {
                        break;
                    }
                }
                for side in [2.5e-4, 1e-3, 1e-2] {
                    if take(middle * (1.0 - side)).1 {
                        break;
                    }
                }
                break;
            }
        }
    }
    Ok(ends)
}
