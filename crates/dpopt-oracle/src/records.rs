//! Bodies of records: what a pass over the data needs to know of them.

use dpopt_linalg::{Design, Row};
use dpopt_privacy::ClipNorm;

/// A body of records that can be visited by position.
///
/// It is a shape, not a permission: [`crate::PrivateData`] holds one and gives nothing of it out.
pub trait Records: Sync {
    /// One record as a loss sees it.
    type Record<'a>: Copy
    where
        Self: 'a;

    /// Number of records. Private under add/remove adjacency.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record at position `i`, below [`Records::len`].
    fn record(&self, i: usize) -> Self::Record<'_>;
}

impl<T: Sync> Records for Vec<T> {
    type Record<'a>
        = &'a T
    where
        T: 'a;

    fn len(&self) -> usize {
        self.len()
    }

    fn record(&self, i: usize) -> &T {
        &self[i]
    }
}

/// Rows of features with a label each, brought under public bounds.
///
/// # Privacy
/// Each row is rescaled to the public bound on its norm; a row or label that is not finite becomes
/// a row of zeros with label 0. What is done to one record does not depend on another.
#[derive(Clone)]
pub struct Examples {
    design: Design,
    labels: Vec<f32>,
    norms: Vec<f32>,
    row_norm: f64,
}

/// One row with its label.
#[derive(Clone, Copy)]
pub struct Example<'a> {
    /// The features.
    pub row: Row<'a>,
    /// The label.
    pub label: f64,
    /// At least the norm of the row; 0 only for a row of zeros.
    pub norm: f64,
}

impl Examples {
    /// Enforces the bound `row_norm` on every row; none when rows and labels differ in number.
    pub(crate) fn new(
        mut design: Design,
        mut labels: Vec<f32>,
        row_norm: ClipNorm,
    ) -> Option<Self> {
        let rows = design.rows();
        if rows != labels.len() {
            return None;
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
        Some(Self {
            design,
            labels,
            norms,
            row_norm: bound,
        })
    }

    /// Number of features, d.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.design.columns()
    }

    /// The public bound on row norms.
    #[must_use]
    pub fn row_norm(&self) -> f64 {
        self.row_norm
    }
}

impl Records for Examples {
    type Record<'a> = Example<'a>;

    fn len(&self) -> usize {
        self.design.rows()
    }

    fn record(&self, i: usize) -> Example<'_> {
        Example {
            row: self.design.row(i),
            label: f64::from(self.labels[i]),
            norm: f64::from(self.norms[i]),
        }
    }
}
