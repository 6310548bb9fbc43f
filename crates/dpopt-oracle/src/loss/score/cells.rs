//! The cell of a record, its class and its group, and the public shares of cells.

use serde::Serialize;

/// A class and a group, coded in a record's label: the only place where the code is read or written.
///
/// # Formula
/// The label is 1 + group for the positive class and -(1 + group) for the other one, so its sign is the class, as every loss of classes
/// reads it. Whatever is no such number is a cell too: its integer part is taken, and a number below 1 in size is group 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cell {
    /// The class.
    pub positive: bool,
    /// The group, from 0.
    pub group: usize,
}

impl Cell {
    /// The label of this cell.
    #[must_use]
    pub fn label(self) -> f32 {
        let size = (1 + self.group) as f32;
        if self.positive { size } else { -size }
    }

    /// The cell of a label.
    #[must_use]
    pub fn of(label: f64) -> Self {
        Self {
            positive: label > 0.0,
            // A NaN and what is below zero become 0.
            group: (label.abs() - 1.0) as usize,
        }
    }

    /// 1 or -1.
    #[must_use]
    pub fn sign(self) -> f64 {
        if self.positive { 1.0 } else { -1.0 }
    }
}

/// How far shares may be from adding up to one: published ones are rounded.
const ROUNDED: f64 = 1e-3;
/// And shares that are not.
const EXACT: f64 = 1e-12;

/// Public shares of the cells: from outside the records, or released.
///
/// A cell without a share belongs to no group: its records are in no mean of a group.
///
/// # Privacy
/// Weights are made from them, so they are as public as the weights. There is no way from records to shares but
/// [`CellCounts`](super::CellCounts), whose sums are released and charged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellShares {
    /// For each group: the negative and the positive class.
    shares: Vec<[Option<f64>; 2]>,
    /// Whether they are neither released nor rounded.
    #[serde(skip)]
    exact: bool,
}

/// Shares that are none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SharesError {
    /// Not a share.
    #[error(
        "the share of group {group} ({class}) is {share}, and a share is above 0 and at most 1"
    )]
    Share {
        /// The group, from 0.
        group: usize,
        /// Positive or negative.
        class: &'static str,
        /// The number.
        share: f64,
    },
    /// They are not shares of one whole.
    #[error("the shares add up to {sum}, not to 1")]
    Sum {
        /// Their sum.
        sum: f64,
    },
    /// Nothing to tell apart.
    #[error("the shares name {cells} {what}, and at least 2 are needed")]
    TooFew {
        /// How many there are.
        cells: usize,
        /// Of what.
        what: &'static str,
    },
    /// A cell that counts, and whose share nobody knows.
    #[error(
        "the share of group {group} ({class}) is unknown, and its records are of a class whose share is needed: take shares of the two \
         classes alone"
    )]
    Unknown {
        /// The group, from 0.
        group: usize,
        /// Positive or negative.
        class: &'static str,
    },
    /// A number of the objective.
    #[error("{name} must be a positive finite number, got {value}")]
    Number {
        /// Which.
        name: &'static str,
        /// Its value.
        value: f64,
    },
}

impl CellShares {
    /// Of each group the share of its negative and of its positive class among all records, none for a cell that belongs to no group.
    ///
    /// # Errors
    /// [`SharesError::Share`], and [`SharesError::Sum`] beyond 0.001.
    pub fn new(shares: Vec<[Option<f64>; 2]>) -> Result<Self, SharesError> {
        for (group, pair) in shares.iter().enumerate() {
            for (share, class) in pair.iter().zip(["negative", "positive"]) {
                if let Some(share) = share.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
                    return Err(SharesError::Share {
                        group,
                        class,
                        share,
                    });
                }
            }
        }
        let sum: f64 = shares.iter().flatten().flatten().sum();
        if (sum - 1.0).abs() > ROUNDED {
            return Err(SharesError::Sum { sum });
        }
        let exact = (sum - 1.0).abs() <= EXACT;
        Ok(Self { shares, exact })
    }

    /// From released counts of the cells, which may be below zero: `counts[2 g + c]` of group g and class c (1 for positive). A cell that
    /// counts less than `least` has no share, and the others are divided by their sum.
    ///
    /// # Errors
    /// [`SharesError::Number`] for a `least` that is not positive, or counts that are not finite; [`SharesError::TooFew`] where no cell
    /// counts as much.
    pub fn released(counts: &[f64], least: f64) -> Result<Self, SharesError> {
        let bad = |name, value| Err(SharesError::Number { name, value });
        if !(least > 0.0 && least.is_finite()) {
            return bad("the least count", least);
        }
        if let Some(value) = counts.iter().find(|count| !count.is_finite()) {
            return bad("a released count", *value);
        }
        let seen = |count: &f64| *count >= least;
        let sum: f64 = counts.iter().copied().filter(seen).sum();
        if sum == 0.0 {
            let (cells, what) = (0, "cells");
            return Err(SharesError::TooFew { cells, what });
        }
        let share = |count: f64| Some(count).filter(seen).map(|count| count / sum);
        let pairs = counts.as_chunks::<2>().0;
        let shares = Self::new(pairs.iter().map(|pair| pair.map(share)).collect())?;
        Ok(Self {
            exact: false,
            ..shares
        })
    }

    /// Equal shares of all cells of so many groups: for plans that are made before shares are known.
    ///
    /// # Errors
    /// [`SharesError::TooFew`] for none.
    pub fn even(groups: usize) -> Result<Self, SharesError> {
        if groups == 0 {
            let (cells, what) = (0, "groups");
            return Err(SharesError::TooFew { cells, what });
        }
        let share = Some(0.5 / groups as f64);
        let shares = Self::new(vec![[share; 2]; groups])?;
        Ok(Self {
            exact: false,
            ..shares
        })
    }

    /// Whether they are stated as what they are: they add up to 1 to the last digits, and are neither released nor assumed. Constants
    /// of the mean hold for these alone.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.exact
    }

    /// Groups, those without a share included.
    #[must_use]
    pub fn groups(&self) -> usize {
        self.shares.len()
    }

    /// The share of a cell.
    #[must_use]
    pub fn of(&self, cell: Cell) -> Option<f64> {
        let pair = self.shares.get(cell.group)?;
        pair[usize::from(cell.positive)]
    }

    /// The first cell without a share.
    #[must_use]
    pub fn unknown(&self) -> Option<Cell> {
        let pairs = self.shares.iter().enumerate();
        let mut all =
            pairs.flat_map(|(group, pair)| [(false, group), (true, group)].into_iter().zip(pair));
        let ((positive, group), _) = all.find(|(_, share)| share.is_none())?;
        Some(Cell { positive, group })
    }

    /// All cells with a share, by group.
    pub fn cells(&self) -> impl Iterator<Item = (Cell, f64)> + '_ {
        self.shares.iter().enumerate().flat_map(|(group, pair)| {
            let cell = move |positive| Cell { positive, group };
            [false, true]
                .into_iter()
                .filter_map(move |class| Some((cell(class), pair[usize::from(class)]?)))
        })
    }

    /// The share of the positive class.
    #[must_use]
    pub fn positive(&self) -> f64 {
        let positive = self.cells().filter(|(cell, _)| cell.positive);
        positive.map(|(_, share)| share).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_code_cells_and_anything_is_one() {
        for group in [0, 1, 5, 1000] {
            for positive in [false, true] {
                let cell = Cell { positive, group };
                assert_eq!(Cell::of(f64::from(cell.label())), cell);
            }
        }
        let group = |label| Cell::of(label).group;
        assert_eq!(
            (group(f64::NAN), group(0.0), group(-0.5), group(2.7)),
            (0, 0, 0, 1)
        );
        assert!(!Cell::of(f64::NAN).positive);
        // Far beyond all groups: no share.
        let shares = CellShares::new(vec![[Some(0.5), Some(0.5)]]).unwrap();
        assert_eq!(shares.of(Cell::of(1e300)), None);
        assert_eq!(shares.of(Cell::of(f64::INFINITY)), None);
    }

    #[test]
    fn shares_are_shares() {
        let of = |a, b| CellShares::new(vec![[Some(a), Some(b)], [Some(0.25), None]]);
        assert!(of(0.5, 0.25).is_ok() && of(0.5003, 0.25).is_ok());
        assert_eq!(of(0.5, 0.5), Err(SharesError::Sum { sum: 1.25 }));
        for bad in [0.0, -0.1, 1.5, f64::NAN] {
            assert!(
                matches!(of(bad, 0.25), Err(SharesError::Share { .. })),
                "{bad}"
            );
        }
        let shares = of(0.5, 0.25).unwrap();
        assert_eq!((shares.groups(), shares.positive()), (2, 0.25));
        assert_eq!(shares.cells().count(), 3);
    }

    #[test]
    fn released_counts_become_shares_whatever_the_noise() {
        let shares = CellShares::released(&[-5.0, 60.0, 40.0, 1.0], 5.0).unwrap();
        let found: Vec<f64> = shares.cells().map(|(_, share)| share).collect();
        assert_eq!(found, [0.6, 0.4]);
        assert!(CellShares::released(&[0.0, 1.0], 2.0).is_err());
        assert!(CellShares::released(&[f64::NAN, 1.0], 1.0).is_err());
        assert!(CellShares::released(&[1.0, 1.0], 0.0).is_err());
    }
}
