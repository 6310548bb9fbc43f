//! The privacy loss of one step on a lattice, once rounded so that every hockey-stick
//! divergence can only grow and once so that it can only shrink.
//!
//! Both rest on one fact: `delta(eps) = E_P[(1 - e^eps Y)_+]` with `Y = e^{-L}`, and for a
//! composition `Y` is a product of independent factors, in each of which the integrand is
//! convex and does not increase. Spreading a factor without moving its mean, or lowering it,
//! makes delta larger; averaging it, or raising it, makes delta smaller.

use libm::{exp, expm1, log};

use super::any::{AnyPair, Truncated};
use super::error::PldError;
use super::law::Law;
use super::points::Points;

/// Most quadrature intervals for one step.
const MAX_INTERVALS: f64 = 8e6;

/// Mass that may be missing in an upper law by rounding.
const MISSING: f64 = 1e-9;

/// How many points above may pay for lifting a cell.
const BORROW: usize = 64;

/// Points of a lower law that are too few to be dense.
const FEW: usize = 64;

/// The same for the cell of a lower atom.
const BORROW_FOR_ATOM: usize = 2048;

/// One step cut into the cells `[i h, (i+1) h]` of its loss, less an offset.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// `i` of the first cell.
    pub(super) first: i64,
    /// Mass that each cell sends to its upper end when `E[Y]` and mass are both kept.
    up: Vec<f64>,
    /// Mass that each cell sends to its lower end.
    down: Vec<f64>,
    h: f64,
    /// The lattice of this step is `i h + offset`. It puts an atom at the upper end of the
    /// range on a lattice point: nothing above could pay for averaging it there.
    pub(super) offset: f64,
    /// Whether there is an atom in the first cell.
    atom_below: bool,
    /// Bound on the mass left of the first cell.
    below: f64,
    /// Bound on the mass right of the last cell.
    pub(super) above: f64,
    /// Mass at an infinite loss, from above.
    pub(super) infinite: f64,
    /// The same from below.
    pub(super) infinite_lower: f64,
    /// The lower law, where it is known already.
    lower: Option<Vec<f64>>,
    /// Bound on the error of a computed loss.
    pub(super) loss_error: f64,
    /// Bound on the relative error of a computed mass.
    pub(super) relative_error: f64,
}

/// Nodes in (0, 1) and weights of Gauss-Legendre rules with 3 to 8 points.
pub(super) struct Rules(Vec<Vec<(f64, f64)>>);

impl Rules {
    pub(super) fn new() -> Self {
        Self((0..=8).map(legendre).collect())
    }

    /// A rule whose relative error is below 1e-16 on an interval of `width` for a function
    /// that stays of one size within `radius` of it: the error falls like `(4r/w)^{-2n}`.
    pub(super) fn pick(&self, width: f64, radius: f64) -> &[(f64, f64)] {
        let n = (23.0 / log(4.0 * radius / width)).ceil();
        let n = if n.is_finite() {
            n.clamp(3.0, 8.0)
        } else {
            8.0
        };
        self.0.get(n as usize).map_or(&[], Vec::as_slice)
    }
}

fn legendre(n: usize) -> Vec<(f64, f64)> {
    let mut rule = Vec::with_capacity(n);
    for k in 0..n {
        let mut x = libm::cos(std::f64::consts::PI * (k as f64 + 0.75) / (n as f64 + 0.5));
        let mut derivative = 1.0;
        for _ in 0..12 {
            let (mut before, mut value) = (1.0, x);
            for j in 2..=n {
                let j = j as f64;
                (before, value) = (
                    value,
                    ((2.0 * j - 1.0) * x * value - (j - 1.0) * before) / j,
                );
            }
            derivative = n as f64 * (x * value - before) / (x * x - 1.0);
            x -= value / derivative;
        }
        rule.push((
            0.5 * (1.0 - x),
            1.0 / ((1.0 - x * x) * derivative * derivative),
        ));
    }
    rule
}

/// `e^x - 1`; the series serves the small arguments that nearly all cells have.
fn expm1_fast(x: f64) -> f64 {
    if x.abs() < 0.01 {
        x * (1.0
            + x * (0.5
                + x * (1.0 / 6.0
                    + x * (1.0 / 24.0
                        + x * (1.0 / 120.0 + x * (1.0 / 720.0 + x * (1.0 / 5040.0)))))))
    } else {
        expm1(x)
    }
}

impl Cells {
    /// Cuts `pair` at step `h`, leaving mass of about `e^{ln_below}` and `e^{ln_above}` out.
    pub(super) fn new(
        pair: &AnyPair,
        h: f64,
        ln_below: f64,
        ln_above: f64,
        max_cells: usize,
    ) -> Result<Self, PldError> {
        match pair {
            AnyPair::Normal(pair) => Self::cut(pair, h, ln_below, ln_above, max_cells),
            AnyPair::Laplace(pair) => Self::cut(pair, h, ln_below, ln_above, max_cells),
            AnyPair::Fixed(pair) => Self::cut(pair, h, ln_below, ln_above, max_cells),
            AnyPair::Mixture(pair) => Self::cut(&**pair, h, ln_below, ln_above, max_cells),
            AnyPair::Truncated(pair) => Self::truncated(pair, h, (ln_below, ln_above), max_cells),
            AnyPair::Points(points) => Self::of_points(points, h, max_cells),
        }
    }

    /// The two laws together, and the lower one by itself.
    fn truncated(
        pair: &Truncated,
        h: f64,
        (ln_below, ln_above): (f64, f64),
        max_cells: usize,
    ) -> Result<Self, PldError> {
        let cut = |pair: &AnyPair, gain: f64| {
            let (below, above) = ((ln_below - gain).min(-1.0), (ln_above - gain).min(-1.0));
            Cells::new(pair, h, below, above, max_cells)
        };
        let within = cut(&pair.within, 0.0)?;
        let ln = log(pair.overflow);
        let beyond = if ln > ln_above {
            Some(cut(&pair.beyond, ln)?)
        } else {
            None
        };
        let least = cut(&pair.least, 0.0)?;
        let ends = |cells: &Cells| (cells.first, cells.first + cells.up.len() as i64);
        let all = [Some(&within), beyond.as_ref(), Some(&least)];
        let (mut first, mut end) = ends(&within);
        for (a, b) in all.into_iter().flatten().map(ends) {
            first = first.min(a);
            end = end.max(b);
        }
        let n = (end - first) as usize;
        let mut out = Cells {
            first,
            up: vec![0.0; n],
            down: vec![0.0; n],
            lower: Some(vec![0.0; n + 1]),
            ..within.clone()
        };
        let keep = 1.0 - pair.overflow;
        (out.below, out.above) = (0.0, 0.0);
        for (cells, share) in [(Some(&within), keep), (beyond.as_ref(), pair.overflow)] {
            let Some(cells) = cells else {
                // So rare that it may count as a failure.
                out.above += share;
                continue;
            };
            let at = (cells.first - first) as usize;
            for (i, (up, down)) in cells.up.iter().zip(&cells.down).enumerate() {
                out.up[at + i] += share * up;
                out.down[at + i] += share * down;
            }
            // Lifted to the second point of its own cells, which is not below that of all.
            let left = share * cells.below;
            out.up[at] += left;
            out.above += share * cells.above;
            out.loss_error = out.loss_error.max(cells.loss_error);
            out.relative_error = out.relative_error.max(cells.relative_error) + f64::EPSILON;
        }
        out.loss_error = out.loss_error.max(least.loss_error);
        out.relative_error = out.relative_error.max(least.relative_error);
        let at = (least.first - first) as usize;
        if let Some(lower) = &mut out.lower {
            for (i, mass) in least.averaged().into_iter().enumerate() {
                lower[at + i] = mass;
            }
        }
        Ok(out)
    }

    fn of_points(points: &Points, h: f64, max_cells: usize) -> Result<Self, PldError> {
        let cut = points.cut(h, max_cells)?;
        let mut cells = Self {
            first: cut.first,
            up: cut.lower_up,
            down: cut.lower_down,
            h,
            offset: cut.offset,
            atom_below: false,
            below: 0.0,
            above: 0.0,
            infinite: points.infinite,
            infinite_lower: points.infinite_lower,
            lower: None,
            loss_error: cut.loss_error,
            relative_error: f64::EPSILON * (64.0 + 8.0 * cut.exponent),
        };
        // Points that are dense on the lattice are averaged like a density.
        let dense = match points.lower.len() {
            0 => points.grain.is_none_or(|grain| grain < 4.0 * h),
            n => n > FEW,
        };
        cells.lower = Some(if dense { cells.averaged() } else { cut.lower });
        cells.up = cut.up;
        cells.down = cut.down;
        cells.whole()
    }

    fn cut(
        pair: &impl Law,
        h: f64,
        ln_below: f64,
        ln_above: f64,
        max_cells: usize,
    ) -> Result<Self, PldError> {
        let low = pair.lower_point(ln_below);
        let high = pair.upper_point(ln_above);
        let [lower_atom, upper_atom] = pair.atoms();
        let offset = if upper_atom > 0.0 {
            let top = pair.loss(high);
            top - (top / h).floor() * h
        } else {
            0.0
        };
        let first = ((pair.loss(low) - offset) / h).floor();
        // The quotient is a whole number where there is an offset.
        let last = if upper_atom > 0.0 {
            ((pair.loss(high) - offset) / h).round()
        } else {
            (pair.loss(high) / h).floor()
        };
        let cells = last - first + 1.0;
        let finest = pair.radius(low.abs().max(high.abs()));
        let intervals = (high - low) / (0.2 * finest) + cells;
        if !intervals.is_finite() || intervals > MAX_INTERVALS || cells > 4.0 * max_cells as f64 {
            return Err(PldError::TooFine {
                cells: intervals,
                limit: MAX_INTERVALS,
            });
        }
        let n = cells as usize;
        let first = first as i64;
        let rules = Rules::new();
        let (up_total, down_total) = (-expm1(-h), expm1(h));
        let (mut up, mut down) = (Vec::with_capacity(n), Vec::with_capacity(n));
        let (density, loss) = pair.log_density_and_loss(low);
        let mut exponent = density.abs();
        let mut loss_error =
            16.0 * f64::EPSILON * (loss.abs() + h + pair.slope(low) * pair.reach(low));
        let mut from = low;
        for k in 0..n {
            let bottom = (first + k as i64) as f64 * h + offset;
            let to = if k + 1 == n {
                high
            } else {
                pair.inverse(bottom + h).clamp(from, high)
            };
            let (mut cell_up, mut cell_down) = (0.0, 0.0);
            let mut a = from;
            while a < to {
                // Within this radius every exponential involved grows by at most e^1.5.
                let radius = pair.radius(a);
                let b = if to - a <= 0.2 * radius {
                    to
                } else {
                    a + 0.2 * radius
                };
                let b = b.min(pair.next_break(a));
                if b <= a {
                    break;
                }
                let width = b - a;
                for &(x, weight) in rules.pick(width, radius) {
                    let (log_density, loss) = pair.log_density_and_loss(a + width * x);
                    let mass = exp(log_density) * weight * width;
                    let above = (loss - bottom).clamp(0.0, h);
                    cell_up += mass * -expm1_fast(-above);
                    cell_down += mass * expm1_fast(h - above);
                }
                a = b;
            }
            up.push(cell_up / up_total);
            down.push(cell_down / down_total);
            // The cut points are rounded too. A loss outside its cell was clamped above, so
            // the most by which the ends leave the cell counts as an error of the loss.
            if to > from {
                let (density, loss) = pair.log_density_and_loss(to);
                let outside = (loss - bottom - h).max(bottom - pair.loss(from)).max(0.0);
                let rounding = 16.0
                    * f64::EPSILON
                    * (loss.abs().max(bottom.abs()) + pair.slope(to) * pair.reach(to));
                loss_error = loss_error.max(outside + rounding);
                exponent = exponent.max(density.abs());
            }
            from = to;
        }
        let atom_below = lower_atom > 0.0 && pair.lower_tail(low) == 0.0;
        if upper_atom > 0.0 {
            // The exponents of the density may cancel: this is as large as they come.
            exponent = exponent.max(4.0 * pair.reach(high));
        }
        let lower_atom = if atom_below { lower_atom } else { 0.0 };
        for (k, mass, y) in [(0, lower_atom, low), (n - 1, upper_atom, high)] {
            if mass > 0.0 {
                let bottom = (first + k as i64) as f64 * h + offset;
                let distance = pair.loss(y) - bottom;
                let above = distance.clamp(0.0, h);
                up[k] += mass * -expm1(-above) / up_total;
                down[k] += mass * expm1(h - above) / down_total;
                let rounding =
                    16.0 * f64::EPSILON * (bottom.abs() + h + pair.slope(y) * pair.reach(y));
                loss_error = loss_error.max((distance - above).abs() + rounding);
                exponent = exponent.max(log(mass).abs());
            }
        }
        Self {
            first,
            up,
            down,
            h,
            offset,
            atom_below,
            below: pair.lower_tail(low),
            above: pair.upper_tail(high),
            infinite: 0.0,
            infinite_lower: 0.0,
            lower: None,
            loss_error,
            relative_error: f64::EPSILON * (64.0 + 8.0 * exponent) + pair.density_error(),
        }
        .whole()
    }

    /// The same, unless the upper law lacks mass: what is missing would count as no loss at all.
    fn whole(self) -> Result<Self, PldError> {
        let inside: f64 = self.up.iter().zip(&self.down).map(|(a, b)| a + b).sum();
        let mass = inside + self.below + self.above + self.infinite;
        if mass >= 1.0 - MISSING {
            Ok(self)
        } else {
            Err(PldError::Incomplete { mass })
        }
    }

    /// Masses on the lattice from `first` on, spread: mass and mean of `Y` are kept in each
    /// cell (connect the dots). What lies left of the cells is moved up to their second
    /// point; what lies right of them is the caller's to put at infinity.
    pub(super) fn spread(&self) -> Vec<f64> {
        let n = self.up.len();
        let mut masses = vec![0.0; n + 1];
        for k in 0..n {
            masses[k] += self.down[k];
            masses[k + 1] += self.up[k];
        }
        masses[1] += self.below;
        masses
    }

    /// Masses on the lattice from `first` on, averaged: each point takes a share of the cell
    /// below and shares from above whose average `Y` is at most what the point says, and `Y`
    /// is then raised to it. What lies outside the cells is dropped.
    pub(super) fn averaged(&self) -> Vec<f64> {
        if let Some(lower) = &self.lower {
            return lower.clone();
        }
        let n = self.up.len();
        let mut masses = vec![0.0; n + 1];
        // In units of 1 - e^{-h}: what cell k has to give at its lower end is `up[k]`, what it
        // costs to lift it to its upper end is `down[k] e^h`. `lifted` is the share of cell k
        // that is lifted; nothing lies above the last cell to pay for it.
        let growth = exp(self.h);
        let unit = -expm1(-self.h);
        let safety = 1.0 - 16.0 * self.relative_error;
        let mut lifted = 0.0;
        for k in (0..n).rev() {
            let mass = self.up[k] + self.down[k];
            masses[k + 1] += lifted * mass;
            masses[k] += (1.0 - lifted) * mass;
            if k == 0 {
                break;
            }
            let available = (1.0 - lifted) * self.up[k] * safety;
            let cost = self.down[k - 1] * growth;
            // The smooth solution of "cost of lifting = what is available" keeps the shares
            // from oscillating from cell to cell.
            let smooth = self.up[k] / (self.up[k] + cost);
            // A spike has no cell below that could use what it has to give: lift more of it.
            let spike = if k >= 2 {
                1.0 - 0.5 * self.down[k - 2] * growth / self.up[k - 1]
            } else if self.atom_below && self.up[0] < 2.0 * libm::sqrt(self.h) * self.down[0] {
                // An atom close to the point below it had better stay there.
                0.0
            } else {
                1.0
            };
            let reach = if k == 1 && self.atom_below {
                BORROW_FOR_ATOM
            } else {
                BORROW
            };
            let wish = smooth.max(spike).clamp(0.0, 1.0);
            if !wish.is_finite() || cost <= 0.0 {
                lifted = 0.0;
                continue;
            }
            // What is missing is taken from the points above, the nearest first.
            let mut missing = wish * cost - available;
            let mut j = k + 1;
            while missing > 0.0 && j <= n && j <= k + reach {
                let worth = -expm1(-((j - k) as f64) * self.h) / unit * safety;
                let taken = masses[j].min(missing / worth);
                masses[j] -= taken;
                masses[k] += taken;
                missing -= taken * worth;
                j += 1;
            }
            lifted = (wish - missing.max(0.0) / cost).max(0.0) * safety;
        }
        masses
    }
}
