//! Private data: records go in and do not come out.

use dpopt_linalg::{Design, Row};
use dpopt_privacy::{Adjacency, ClipNorm, MAX_RECORDS};

/// Private data could not be set up. None of these depends on a record; under add/remove
/// [`DataError::TooManyRecords`] tells that there are more than 2^32 of them.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Rows and labels differ in number. The numbers themselves may be private.
    #[error("rows and labels differ in number")]
    LabelCount,
    /// No records, where the number of records is public.
    #[error("no records: under {0} adjacency the data must hold at least one")]
    Empty(Adjacency),
    /// Under add/remove the number of records is private and a declared size is needed.
    #[error("add-remove adjacency hides the number of records: declare a public size")]
    PublicSizeMissing,
    /// A declared size was given although the number of records is public, and they differ.
    #[error(
        "{declared} records declared, but under {adjacency} adjacency the size is public and is {actual}"
    )]
    PublicSizeDiffers {
        /// Declared size.
        declared: u64,
        /// Number of rows.
        actual: u64,
        /// The adjacency.
        adjacency: Adjacency,
    },
    /// More records than one exact sum holds.
    #[error("more than {MAX_RECORDS} records")]
    TooManyRecords,
    /// A declared public size of zero.
    #[error("the declared public size must be at least 1")]
    PublicSizeZero,
}

/// Records under protection.
///
/// # Privacy
/// There is no way to read a record, a row count under add/remove, or a statistic back; only the
/// estimators of this crate use them, through lattice sums. The adjacency is fixed here. Each row
/// is rescaled to the public bound; a row or label that is not finite becomes a row of zeros,
/// which contributes nothing to any query.
///
/// ```compile_fail
/// fn peek(data: &dpopt_oracle::PrivateData) { println!("{data:?}"); }
/// ```
pub struct PrivateData {
    design: Design,
    labels: Vec<f32>,
    norms: Vec<f32>,
    adjacency: Adjacency,
    row_norm: f64,
    public_records: u64,
}

/// One record as queries see it.
pub(crate) struct Record<'a> {
    pub(crate) row: Row<'a>,
    pub(crate) label: f64,
    /// At least the norm of the row.
    pub(crate) norm: f64,
}

impl PrivateData {
    /// Takes ownership of the records.
    ///
    /// # Shapes
    /// `design`: (n, d); `labels`: n.
    ///
    /// # Privacy
    /// `public_records` is the size that planners, normalisers and reports use. Under add/remove
    /// it must be declared and need not be the number of rows (which is private); otherwise it is
    /// the number of rows and may be left out.
    ///
    /// # Errors
    /// [`DataError`].
    pub fn new(
        mut design: Design,
        mut labels: Vec<f32>,
        row_norm: ClipNorm,
        adjacency: Adjacency,
        public_records: Option<u64>,
    ) -> Result<Self, DataError> {
        let rows = design.rows();
        if rows != labels.len() {
            return Err(DataError::LabelCount);
        }
        if rows as u64 > MAX_RECORDS {
            return Err(DataError::TooManyRecords);
        }
        let public_records = if adjacency.record_count_is_public() {
            if rows == 0 {
                return Err(DataError::Empty(adjacency));
            }
            match public_records {
                Some(declared) if declared != rows as u64 => {
                    return Err(DataError::PublicSizeDiffers {
                        declared,
                        actual: rows as u64,
                        adjacency,
                    });
                }
                _ => rows as u64,
            }
        } else {
            public_records.ok_or(DataError::PublicSizeMissing)?
        };
        if public_records == 0 {
            return Err(DataError::PublicSizeZero);
        }
        let bound = row_norm.get();
        let mut norms = Vec::with_capacity(rows);
        for i in 0..rows {
            let norm = design.row(i).norm_upper();
            let usable = design.row(i).is_finite() && labels[i].is_finite();
            if !usable || !norm.is_finite() {
                design.scale_row(i, 0.0);
                labels[i] = 0.0;
                norms.push(0.0);
                continue;
            }
            if norm > bound {
                design.scale_row(i, bound / norm * (1.0 - 4.0 * f64::EPSILON));
            }
            norms.push((design.row(i).norm_upper() as f32).next_up());
        }
        Ok(Self {
            design,
            labels,
            norms,
            adjacency,
            row_norm: bound,
            public_records,
        })
    }

    /// Number of features, d.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.design.columns()
    }

    /// The neighbouring relation of everything computed from these records.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// The public size: planners and normalisers use this, never the number of rows.
    #[must_use]
    pub fn public_records(&self) -> u64 {
        self.public_records
    }

    /// The public bound on row norms.
    #[must_use]
    pub fn row_norm(&self) -> f64 {
        self.row_norm
    }

    /// Physical rows; private under add/remove.
    pub(crate) fn rows(&self) -> usize {
        self.design.rows()
    }

    pub(crate) fn record(&self, i: usize) -> Record<'_> {
        Record {
            row: self.design.row(i),
            label: f64::from(self.labels[i]),
            norm: f64::from(self.norms[i]),
        }
    }
}

/// Records declared to be outside the protection: test sets and synthetic data.
///
/// Evaluation on it is exact and free. Never build it from records that are to be protected.
#[derive(Clone)]
pub struct PublicData {
    design: Design,
    labels: Vec<f32>,
}

impl PublicData {
    /// Declares these records public.
    ///
    /// # Shapes
    /// `design`: (n, d); `labels`: n.
    ///
    /// # Errors
    /// [`DataError::LabelCount`].
    pub fn new(design: Design, labels: Vec<f32>) -> Result<Self, DataError> {
        if design.rows() == labels.len() {
            Ok(Self { design, labels })
        } else {
            Err(DataError::LabelCount)
        }
    }

    /// The rows.
    #[must_use]
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &[f32] {
        &self.labels
    }

    /// <w, x> for every row x.
    #[must_use]
    pub fn scores(&self, point: &[f64]) -> Vec<f64> {
        (0..self.design.rows())
            .map(|i| self.design.row(i).dot(point))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(rows: &[[f64; 2]]) -> Design {
        Design::dense(2, rows.iter().flatten().copied().collect()).unwrap()
    }

    fn norm(x: f64) -> ClipNorm {
        ClipNorm::new(x).unwrap()
    }

    #[test]
    fn rows_are_brought_under_the_bound_and_bad_ones_erased() {
        let data = PrivateData::new(
            design(&[
                [3.0, 4.0],
                [f64::NAN, 1.0],
                [0.1, 0.0],
                [1.0, 1.0],
                [1e300, 1e300],
            ]),
            vec![1.0, 1.0, -1.0, f32::NAN, 1.0],
            norm(1.0),
            Adjacency::ReplaceOne,
            None,
        )
        .unwrap();
        for i in 0..5 {
            assert!(data.record(i).row.norm_upper() <= 1.0 + 1e-12);
        }
        for erased in [1, 3] {
            assert_eq!(data.record(erased).row.dot(&[1.0, 1.0]), 0.0);
        }
        assert!((data.record(0).row.dot(&[1.0, 0.0]) - 0.6).abs() < 1e-12);
        assert_eq!(data.record(2).row.dot(&[1.0, 0.0]), 0.1);
    }

    #[test]
    fn the_size_is_declared_exactly_where_it_is_private() {
        let make = |adjacency, rows: usize, declared| {
            PrivateData::new(
                design(&vec![[0.0, 0.0]; rows]),
                vec![1.0; rows],
                norm(1.0),
                adjacency,
                declared,
            )
        };
        assert_eq!(
            make(Adjacency::AddRemove, 3, None).err(),
            Some(DataError::PublicSizeMissing)
        );
        assert_eq!(
            make(Adjacency::AddRemove, 0, Some(10))
                .unwrap()
                .public_records(),
            10
        );
        assert_eq!(
            make(Adjacency::ReplaceOne, 0, None).err(),
            Some(DataError::Empty(Adjacency::ReplaceOne))
        );
        assert!(matches!(
            make(Adjacency::ReplaceOne, 3, Some(4)).err(),
            Some(DataError::PublicSizeDiffers {
                declared: 4,
                actual: 3,
                ..
            })
        ));
        assert_eq!(
            make(Adjacency::AddRemove, 3, Some(0)).err(),
            Some(DataError::PublicSizeZero)
        );
    }
}
