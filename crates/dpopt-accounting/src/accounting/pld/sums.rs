//! The law of a sum of independent copies of a non-negative variable, from above and from below in convex order.
//!
//! Copies are added by doubling, as atoms on a grid that follows the law. From above, each atom is split to the ends of its cell, which
//! keeps mass and mean and spreads; from below, each cell becomes one atom at its mean. Nothing is subtracted, so that masses keep
//! their relative errors, however small they are (`docs/privacy/accounting.md`).

/// Width of a cell over the scale of the law there. Tuned.
pub(super) const FINENESS: f64 = 0.01;
/// Most cells of a grid: a wider law has wider ones.
const MOST: usize = 6000;
/// Atoms of the rough law by which a grid is planned.
const ROUGH: usize = 160;
/// Mass that may share the lowest cell, which begins at 0, for each copy.
const LOW: f64 = 1e-34;

/// Which bound a law is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// No convex function that does not fall has a smaller mean, but for what is lost.
    Upper,
    /// None has a larger mean.
    Lower,
}

/// The law of a sum of so many copies.
#[derive(Debug, Clone)]
pub(super) struct Sum {
    side: Side,
    /// Increasing.
    pub(super) at: Vec<f64>,
    pub(super) mass: Vec<f64>,
    /// Bound on the mean of what was cut off the sum at the top.
    pub(super) lost: f64,
    /// Bound on the relative error of a mass.
    pub(super) mass_error: f64,
    /// Bound on the relative error of a place.
    pub(super) place_error: f64,
}

/// What is in a cell: its parts at the upper and the lower end when mass and mean are kept, times its width.
struct Filled {
    up: Vec<f64>,
    down: Vec<f64>,
    /// Mass above the last cell, and the mean of what it is above by.
    beyond: f64,
    excess: f64,
}

impl Sum {
    /// One copy: `parts[i]` are what the cell between the places i and i + 1 has at its upper and lower end, `beyond` the mass above the
    /// last place and `lost` a bound on the mean of what it is above by; errors of masses and of places are relative.
    pub(super) fn one(
        side: Side,
        places: &[f64],
        parts: &[(f64, f64)],
        (beyond, lost): (f64, f64),
        (mass_error, place_error): (f64, f64),
    ) -> Self {
        let filled = Filled {
            up: parts.iter().map(|part| part.0).collect(),
            down: parts.iter().map(|part| part.1).collect(),
            beyond,
            excess: lost,
        };
        Self::of(side, places, &filled, |_| 1.0).with_errors(mass_error, place_error)
    }

    fn with_errors(self, mass_error: f64, place_error: f64) -> Self {
        Self {
            mass_error,
            place_error,
            ..self
        }
    }

    fn of(side: Side, places: &[f64], filled: &Filled, width: impl Fn(usize) -> f64) -> Self {
        let n = filled.up.len();
        let (mut at, mut mass) = (Vec::with_capacity(n + 1), vec![0.0; n + 1]);
        match side {
            Side::Upper => {
                at.extend_from_slice(places);
                for (i, (up, down)) in filled.up.iter().zip(&filled.down).enumerate() {
                    mass[i] += down / width(i);
                    mass[i + 1] += up / width(i);
                }
                mass[n] += filled.beyond;
            }
            Side::Lower => {
                mass.clear();
                // What is in the lowest cell is dropped: it reaches down to 0, and its mean is not known as well as the others.
                for (i, (up, down)) in filled.up.iter().zip(&filled.down).enumerate().skip(1) {
                    let both = up + down;
                    if both > 0.0 {
                        let cell = places[i + 1] - places[i];
                        at.push(places[i] + cell * (up / both));
                        mass.push(both / width(i));
                    }
                }
            }
        }
        let lost = match side {
            Side::Upper => filled.excess,
            Side::Lower => 0.0,
        };
        Self {
            side,
            at,
            mass,
            lost,
            mass_error: 0.0,
            place_error: 0.0,
        }
    }

    /// The sum of so many copies of this. `tail` is the scale of its upper tail over the distance to the middle, and `small` a mean that may
    /// be cut off for each copy.
    pub(super) fn copies(&self, steps: u64, tail: f64, small: f64) -> Self {
        let stages = f64::from(2 * steps.max(1).ilog2() + 1);
        let share = small / stages;
        let mut sum = self.clone();
        let mut count = 1_u64;
        for bit in (0..steps.ilog2()).rev() {
            count *= 2;
            sum = sum.plus(None, count as f64, tail, share);
            if steps >> bit & 1 == 1 {
                count += 1;
                sum = sum.plus(Some(self), count as f64, tail, share);
            }
        }
        sum
    }

    /// The sum of this and another, or of two copies: of so many in all.
    fn plus(&self, other: Option<&Self>, copies: f64, tail: f64, small: f64) -> Self {
        let second = other.unwrap_or(self);
        let places = self.grid(second, tail, (copies * LOW, copies * small));
        let filled = self.filled(other, &places);
        let sum = Self::of(self.side, &places, &filled, |i| places[i + 1] - places[i]);
        let terms = (self.at.len() + second.at.len() + 64) as f64 * f64::EPSILON;
        // A mean is known to so many units of its cell.
        let widest = match self.side {
            Side::Upper => 0.0,
            Side::Lower => places[1..]
                .windows(2)
                .fold(0.0, |most, cell| f64::max(most, cell[1] / cell[0] - 1.0)),
        };
        let lost = match self.side {
            Side::Upper => (sum.lost + self.lost + second.lost) * (1.0 + terms),
            Side::Lower => 0.0,
        };
        Self { lost, ..sum }.with_errors(
            self.mass_error + second.mass_error + terms,
            self.place_error.max(second.place_error) + 8.0 * f64::EPSILON + terms * widest,
        )
    }

    /// Each pair of atoms in its cell. A cell's sum is one over rows of sums over a row, of all together at most as many terms as both laws
    /// have atoms, one after the other.
    fn filled(&self, other: Option<&Self>, places: &[f64]) -> Filled {
        let second = other.unwrap_or(self);
        let n = places.len() - 1;
        let mut out = Filled {
            up: vec![0.0; n],
            down: vec![0.0; n],
            beyond: 0.0,
            excess: 0.0,
        };
        let top = places[n];
        let mut begin = 0;
        for (i, (&x, &p)) in self.at.iter().zip(&self.mass).enumerate() {
            let first = if other.is_none() { i } else { 0 };
            let row = second.at[first..].iter().zip(&second.mass[first..]);
            let mut k = begin;
            let (mut low, mut high) = (places[k], places[k + 1]);
            let (mut up, mut down) = (0.0, 0.0);
            let (mut beyond, mut excess) = (0.0, 0.0);
            for (j, (&y, &q)) in row.enumerate() {
                // Both orders of two different atoms.
                let q = if other.is_none() && j > 0 { 2.0 * q } else { q };
                let sum = x + y;
                if sum > high {
                    if sum > top {
                        beyond += q;
                        excess += q * (sum - top);
                        continue;
                    }
                    out.up[k] += p * up;
                    out.down[k] += p * down;
                    (up, down) = (0.0, 0.0);
                    while sum > places[k + 1] {
                        k += 1;
                    }
                    (low, high) = (places[k], places[k + 1]);
                }
                if j == 0 {
                    begin = k;
                }
                up += q * (sum - low);
                down += q * (high - sum);
            }
            out.up[k] += p * up;
            out.down[k] += p * down;
            out.beyond += p * beyond;
            out.excess += p * excess;
        }
        out
    }

    /// Few atoms at means, to plan with.
    fn rough(&self) -> Vec<(f64, f64)> {
        let by = self.at.len().div_ceil(ROUGH).max(1);
        let chunks = self.at.chunks(by).zip(self.mass.chunks(by));
        chunks
            .filter_map(|(at, mass)| {
                let total: f64 = mass.iter().sum();
                let mean = at.iter().zip(mass).map(|(x, p)| x * p).sum::<f64>() / total;
                (total > 0.0 && mean.is_finite()).then_some((mean, total))
            })
            .collect()
    }

    /// Ends of cells for a sum of these: 0, and then what follows the law. Any are valid.
    fn grid(&self, other: &Self, tail: f64, (lowest, small): (f64, f64)) -> Vec<f64> {
        let (one, two) = (self.rough(), other.rough());
        let mut sums: Vec<(f64, f64)> = one
            .iter()
            .flat_map(|(x, p)| two.iter().map(move |(y, q)| (x + y, p * q)))
            .collect();
        sums.sort_by(|a, b| a.0.total_cmp(&b.0));
        let quantile = |share: f64| {
            let mut below = 0.0;
            sums.iter()
                .find(|(_, p)| {
                    below += p;
                    below >= share
                })
                .map_or(0.0, |(x, _)| *x)
        };
        let (low, middle, upper) = (quantile(lowest), quantile(0.5), quantile(0.84));
        let bulk = 0.5 * (upper - quantile(0.16));
        // Where the mean of what is above is small.
        let (mut high, mut above, mut excess) = (f64::NAN, 0.0, 0.0);
        for &(x, p) in sums.iter().rev() {
            if high.is_finite() {
                let more = excess + above * (high - x);
                if more > small {
                    break;
                }
                excess = more;
            }
            high = x;
            above += p;
        }
        let mut fineness = FINENESS;
        loop {
            let width = |x: f64| fineness * bulk.max(tail * (x - middle)).min(tail * x);
            let mut places = vec![];
            let mut x = middle;
            while x > low && x > 0.0 && places.len() <= MOST {
                places.push(x);
                let next = x - width(x);
                if next >= x {
                    break;
                }
                x = next;
            }
            places.push(x.min(middle).max(0.5 * low));
            places.push(0.0);
            places.reverse();
            places.dedup();
            x = middle;
            while x < high && places.len() <= MOST {
                let next = x + width(x);
                if next <= x {
                    break;
                }
                x = next;
                places.push(x);
            }
            if places.len() < 2 {
                places.push(1.0);
            }
            if places.len() <= MOST || fineness > 1.0 {
                return places;
            }
            fineness *= 1.5;
        }
    }
}
