//! Bodies of records: what a pass over the data needs to know of them.

use dpopt_linalg::{Design, Entries, JlMap, Row};
use dpopt_privacy::{ClipNorm, RowBound};

use crate::data_error::DataError;

/// A body of records that can be visited by position.
///
/// It is a shape, not a permission: [`crate::PrivateData`] holds one and gives nothing of it out.
pub trait Records: Sync {
    /// One record as a loss sees it.
    type Record<'a>: Copy
    where
        Self: 'a;

    /// Whether a record can be an erased one: a row of zeros, or whatever else stands for no record here. Under
    /// zero-out adjacency a record is exchanged for such a one, so a loss has to vanish on it.
    const HAS_ERASED: bool = false;

    /// Number of records. Private under add/remove adjacency.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record at position `i`, below [`Records::len`].
    fn record(&self, i: usize) -> Self::Record<'_>;

    /// The position of record `i` among all records, where this body is a part of records that stay in a file. A query whose
    /// contribution depends on the position goes by this.
    fn slot(&self, i: usize) -> usize {
        i
    }

    /// From here on the record at `i` says that it is at `slot_of(i)` among all records. A body that can't say so gives back false, and no
    /// query whose contribution depends on positions is asked of a part of it.
    fn place(&mut self, slot_of: &dyn Fn(usize) -> usize) -> bool {
        let _ = slot_of;
        false
    }
}

/// Records that can be put in another order.
pub trait Reorder: Records {
    /// The record at `order[i]` moves to position i. `order` names each position once.
    fn reorder(&mut self, order: &[u32]);
}

impl<T: Sync> Reorder for Vec<T> {
    fn reorder(&mut self, order: &[u32]) {
        let mut old: Vec<Option<T>> = std::mem::take(self).into_iter().map(Some).collect();
        self.extend(order.iter().filter_map(|&i| old[i as usize].take()));
    }
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
    /// Of what is stored of each row: without the factor of a row of bytes or of equal entries.
    bounds: Vec<RowBound>,
    slots: Slots,
    /// The entries of a one-hot row; empty for other storages.
    ones: Vec<f32>,
    row_norm: f64,
    label_bound: Option<f64>,
}

/// Which records these are among all.
#[derive(Clone)]
pub(crate) enum Slots {
    /// Neighbours from this one on.
    From(usize),
    /// Those at these positions. **Secret** for a sample.
    Listed(Vec<u32>),
}

/// Rows whose measured norm is below this share of the bound are below it by any measure: 1 - 2^-16, while upper bounds on a
/// norm exceed it by at most 2^-20 and 2^32 roundings.
const CLEARLY: f64 = 1.0 - 1.0 / 65536.0;

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
    /// Enforces the bound `row_norm` on every row.
    ///
    /// # Shapes
    /// `design`: (n, d); `labels`: n.
    ///
    /// # Errors
    /// [`DataError::LabelCount`].
    pub fn new(design: Design, labels: Vec<f32>, row_norm: ClipNorm) -> Result<Self, DataError> {
        if design.rows() != labels.len() {
            return Err(DataError::LabelCount);
        }
        let mut examples = Self::empty(&design, row_norm, None);
        (examples.design, examples.labels) = (design, labels);
        examples.enforce();
        Ok(examples)
    }

    /// No rows, of the storage of `like`.
    pub(crate) fn empty(like: &Design, row_norm: ClipNorm, label_bound: Option<f64>) -> Self {
        Self {
            design: like.without_rows(),
            labels: Vec::new(),
            bounds: Vec::new(),
            slots: Slots::From(0),
            ones: Vec::new(),
            row_norm: row_norm.get(),
            label_bound,
        }
    }

    /// Where new rows and labels are put, and which they are among all; to be followed by [`Examples::enforce`].
    pub(crate) fn buffers(&mut self) -> (&mut Design, &mut Vec<f32>, &mut Slots) {
        (&mut self.design, &mut self.labels, &mut self.slots)
    }

    /// Brings all rows and labels under their bounds.
    pub(crate) fn enforce(&mut self) {
        let rows = self.design.rows().min(self.labels.len());
        if self.ones.is_empty() && rows > 0 && matches!(self.design.row(0), Row::OneHot(..)) {
            self.ones = vec![1.0; self.design.columns()];
        }
        self.bounds.clear();
        for i in 0..rows {
            let bound = self.enforce_row(i);
            self.bounds.push(bound);
        }
        if let Some(bound) = self.label_bound {
            self.clamp_labels(bound);
        }
    }

    /// Brings row `i` under the bound and measures what is stored of it. A row that is clearly shorter is read once.
    fn enforce_row(&mut self, i: usize) -> RowBound {
        let found = self.measure(i);
        let factor = match self.design.row(i) {
            Row::Bytes(_, factor) | Row::OneHot(_, factor) => f64::from(factor.abs()),
            _ => 1.0,
        };
        // The measure is at least the norm, and the margin above the rounding of any other upper bound on it: the row would
        // be left alone below too. Not so for what is no number.
        if found.norm() * factor <= self.row_norm * CLEARLY && self.labels[i].is_finite() {
            return found;
        }
        let _ = self.design.bound_row(i, self.row_norm);
        if !self.labels[i].is_finite() {
            self.design.scale_row(i, 0.0);
            self.labels[i] = 0.0;
        }
        // Measured after the row has its final entries.
        self.measure(i)
    }

    fn measure(&self, i: usize) -> RowBound {
        let dim = self.design.columns();
        match self.design.row(i) {
            Row::Dense(x) => RowBound::dense(x),
            Row::Dense32(x) => RowBound::dense(x),
            Row::Bytes(x, _) => RowBound::dense(x),
            Row::Sparse(columns, x) => RowBound::sparse(columns, x, dim),
            Row::OneHot(columns, _) => {
                RowBound::sparse(columns, &self.ones[..columns.len().min(dim)], dim)
            }
        }
    }

    /// `map` x for each row x, rescaled to at most `row_norm`, with the same labels.
    ///
    /// # Formula
    /// x -> c Phi x with c = min(1, `row_norm`/||Phi x||). A row of zeros stays one; a row whose image is
    /// not finite becomes one.
    ///
    /// # Errors
    /// [`DataError::Map`] when the map takes rows of another length.
    pub fn embedded(&self, map: &JlMap, row_norm: ClipNorm) -> Result<Self, DataError> {
        let mut embedded = Self::new(map.embed(&self.design)?, self.labels.clone(), row_norm)?;
        embedded.label_bound = self.label_bound;
        embedded.slots = self.slots.clone();
        Ok(embedded)
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

    /// The public bound on labels, if one was set.
    #[must_use]
    pub fn label_bound(&self) -> Option<f64> {
        self.label_bound
    }

    /// Clamps every label to `[-bound, bound]`.
    #[must_use]
    pub fn with_label_bound(mut self, bound: ClipNorm) -> Self {
        self.bound_labels(bound);
        self
    }

    /// Clamps every label to `[-bound, bound]`, by a branch.
    pub(crate) fn bound_labels(&mut self, bound: ClipNorm) {
        let bound = bound.get().min(self.label_bound.unwrap_or(f64::INFINITY));
        self.clamp_labels(bound);
        self.label_bound = Some(bound);
    }

    fn clamp_labels(&mut self, bound: f64) {
        let single = below(bound);
        for label in &mut self.labels {
            if *label > single {
                *label = single;
            } else if *label < -single {
                *label = -single;
            }
        }
    }

    /// About how many entries a row has. How many a sparse one has is private, so for those it is a guess.
    pub(crate) fn entries_per_row(&self) -> f64 {
        const SPARSE: f64 = 32.0;
        let columns = self.columns() as f64;
        match self.design.entries() {
            Entries::Sparse | Entries::OneHot => columns.min(SPARSE),
            _ => columns,
        }
    }

    pub(crate) fn design(&self) -> &Design {
        &self.design
    }

    pub(crate) fn labels(&self) -> &[f32] {
        &self.labels
    }

    /// Whether row `i` is one of zeros, as its bound tells.
    pub(crate) fn is_zero(&self, i: usize) -> bool {
        let factor = match self.design.row(i) {
            Row::Bytes(_, factor) | Row::OneHot(_, factor) => factor,
            Row::Dense(_) | Row::Dense32(_) | Row::Sparse(..) => 1.0,
        };
        factor == 0.0 || self.bounds[i].norm() == 0.0
    }

    /// The bounds of what is stored of each row.
    pub(crate) fn bounds(&self) -> &[RowBound] {
        &self.bounds
    }
}

impl Records for Examples {
    type Record<'a> = Example<'a>;

    const HAS_ERASED: bool = true;

    fn len(&self) -> usize {
        self.design.rows()
    }

    fn record(&self, i: usize) -> Example<'_> {
        Example {
            row: self.design.row(i),
            label: f64::from(self.labels[i]),
            norm: self.design.row(i).norm_upper(),
        }
    }

    fn slot(&self, i: usize) -> usize {
        match &self.slots {
            Slots::From(first) => first + i,
            Slots::Listed(list) => list.get(i).map_or(i, |&slot| slot as usize),
        }
    }

    fn place(&mut self, slot_of: &dyn Fn(usize) -> usize) -> bool {
        let slots = (0..self.len()).map(|i| slot_of(i) as u32).collect();
        self.slots = Slots::Listed(slots);
        true
    }
}

impl Reorder for Examples {
    fn reorder(&mut self, order: &[u32]) {
        *self = self.only(order);
    }
}

impl Examples {
    /// Those at these positions, in this order.
    pub(crate) fn only(&self, positions: &[u32]) -> Self {
        let at = |&i: &u32| i as usize;
        Self {
            design: self.design.gathered(positions),
            labels: positions.iter().map(at).map(|i| self.labels[i]).collect(),
            bounds: positions.iter().map(at).map(|i| self.bounds[i]).collect(),
            slots: self.slots.clone(),
            ones: self.ones.clone(),
            row_norm: self.row_norm,
            label_bound: self.label_bound,
        }
    }
}

/// The largest number in single precision that is at most `bound`, which is positive.
fn below(bound: f64) -> f32 {
    let nearest = bound as f32;
    if f64::from(nearest) > bound {
        nearest.next_down()
    } else {
        nearest
    }
}
