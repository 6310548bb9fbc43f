//! In which of some public cells a record is, and numbers of it between 0 and 1, to be released.

use crate::loss::{Constants, Convexity, Differentiable, Loss};
use crate::records::{Example, Examples};

/// A loss whose gradient says in which cell a record is, and how large some shares of it are, at every point: the mean gradient is a table of
/// counts beside some means, and its release the way to an evaluation on private records.
///
/// # Formula
/// C cells and m shares: C + m numbers, of which that of the record's cell is 1, those of the other cells are 0, and the last m are its shares
/// less 1/2. With a profile ([`Tally::spread`]) of length B and norm 1 at most, a record of cell j of a block of B cells adds the first B - j
/// weights of the profile from its cell to the end of the block. A share below 0 counts as 0, one above 1 or that is no number as 1, a cell that is not there as the last.
///
/// # Privacy
/// A contribution is no longer than sqrt(c + m/4), c = 1 where there are cells and else 0, which the clip enforces: see [`Tally::radius`]. Cell and shares are functions of
/// the record and of public numbers, on the word of whoever wrote them.
#[derive(Debug, Clone)]
pub struct Tally<P> {
    place: P,
    cells: usize,
    shares: usize,
    profile: Vec<f64>,
}

/// Most shares.
const MOST: usize = 4;

impl<P: Fn(Example<'_>, &mut [f64]) -> usize + Sync> Tally<P> {
    /// A tally of so many cells and shares, at most four. `place`: the cell of a record, and its shares, written over ones.
    #[must_use]
    pub fn new(cells: usize, shares: usize, place: P) -> Self {
        Self {
            place,
            cells,
            shares: shares.min(MOST),
            profile: vec![1.0],
        }
    }

    /// With these weights of the cells from that of the record to the end of its block. An empty profile is that of one cell.
    #[must_use]
    pub fn spread(self, profile: Vec<f64>) -> Self {
        match profile.is_empty() {
            true => self,
            false => Self { profile, ..self },
        }
    }
}

impl Tally<()> {
    /// The length of contributions, rounded up.
    #[must_use]
    pub fn radius(cells: usize, shares: usize) -> f64 {
        let squared = f64::from(u8::from(cells > 0)) + 0.25 * shares.min(MOST) as f64;
        let root = squared.sqrt();
        match root * root == squared {
            true => root,
            false => root.next_up(),
        }
    }
}

impl<P: Fn(Example<'_>, &mut [f64]) -> usize + Sync> Loss for Tally<P> {
    type Records = Examples;

    fn dim(&self, _: &Examples) -> usize {
        self.cells + self.shares
    }

    fn constants_on(&self, _: &Examples) -> Constants {
        let radius = Tally::radius(self.cells, self.shares);
        Constants::new(radius, 0.0, f64::INFINITY, Convexity::Convex)
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        let mut own = vec![0.0; point.len()];
        self.gradient(record, point, &mut own);
        own.iter().zip(point).map(|(a, b)| a * b).sum()
    }
}

impl<P: Fn(Example<'_>, &mut [f64]) -> usize + Sync> Differentiable for Tally<P> {
    fn gradient(&self, record: Example<'_>, _: &[f64], out: &mut [f64]) {
        let mut shares = [1.0; MOST];
        let shares = &mut shares[..self.shares];
        let cell = (self.place)(record, shares).min(self.cells.saturating_sub(1));
        let (counts, sums) = out.split_at_mut(self.cells);
        let block = self.profile.len();
        let end = (cell / block + 1).saturating_mul(block).min(counts.len());
        let block = counts.get_mut(cell..end).unwrap_or_default();
        for (count, weight) in block.iter_mut().zip(&self.profile) {
            *count += weight;
        }
        for (sum, share) in sums.iter_mut().zip(shares) {
            let share = match share.is_nan() {
                true => 1.0,
                false => share.clamp(0.0, 1.0),
            };
            *sum += share - 0.5;
        }
    }
}

#[cfg(test)]
mod tests {
    use dpopt_linalg::Design;

    use super::*;

    /// By hand, of what is one and of what is none.
    #[test]
    fn a_contribution_is_one_cell_and_shares_that_are_some() {
        let design = Design::dense(1, vec![0.5]).unwrap();
        for (cell, shares, expected) in [
            (0, [0.0, 1.0], [1.0, 0.0, -0.5, 0.5]),
            (1, [0.25, -3.0], [0.0, 1.0, -0.25, -0.5]),
            (usize::MAX, [f64::NAN, f64::INFINITY], [0.0, 1.0, 0.5, 0.5]),
        ] {
            let tally = Tally::new(2, 2, |_: Example<'_>, out: &mut [f64]| {
                out.copy_from_slice(&shares);
                cell
            });
            let record = Example {
                row: design.row(0),
                norm: 0.5,
                label: 1.0,
            };
            let mut out = [0.0; 4];
            tally.gradient(record, &[], &mut out);
            assert_eq!(out, expected);
            let length = out.iter().map(|x| x * x).sum::<f64>().sqrt();
            assert!(length <= Tally::radius(2, 2));
        }
    }

    /// sqrt(1), sqrt(5/4), sqrt(3/2), sqrt(3)/2, to the last bit or the one above it.
    #[test]
    fn the_radius_is_rounded_up() {
        for (cells, shares, squared) in [(3, 0, 1.0), (3, 1, 1.25), (9, 2, 1.5), (0, 3, 0.75)] {
            let radius = Tally::radius(cells, shares);
            assert!(radius * radius >= squared && radius < f64::sqrt(squared) * (1.0 + 1e-15));
        }
    }
}
