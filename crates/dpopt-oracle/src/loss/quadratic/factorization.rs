//! Matrix factorisation and completion: a low-rank matrix from some of its entries.

use std::num::NonZeroUsize;

use dpopt_privacy::{ClipNorm, LatticeSum};

use super::constants;
use crate::loss::Momentum;
use crate::loss::{Constants, Differentiable, Glm, Loss, Segment, TwiceDifferentiable};
use crate::positions::Positions;
use crate::records::Records;

/// Observed entries of a matrix of a public shape. One entry is one record.
///
/// # Privacy
/// Values are clamped to the public bound, where there is one. An entry outside the shape, or not
/// finite, contributes nothing to any query. The unit of protection is one entry, **not** all
/// entries of a row.
#[derive(Clone)]
pub struct ObservedEntries {
    rows: usize,
    columns: usize,
    entries: Vec<Observed>,
    label_bound: Option<f64>,
}

/// One observed entry.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observed {
    /// Its row.
    pub row: u32,
    /// Its column.
    pub column: u32,
    /// Its value.
    pub value: f64,
}

impl ObservedEntries {
    /// Entries of a matrix of shape (`rows`, `columns`).
    #[must_use]
    pub fn new(
        rows: usize,
        columns: usize,
        mut entries: Vec<Observed>,
        label_bound: Option<ClipNorm>,
    ) -> Self {
        let label_bound = label_bound.map(ClipNorm::get);
        for entry in &mut entries {
            // One that is not finite stays so.
            if let Some(bound) = label_bound
                && entry.value.is_finite()
            {
                entry.value = entry.value.clamp(-bound, bound);
            }
        }
        Self {
            rows,
            columns,
            entries,
            label_bound,
        }
    }
}

impl Records for ObservedEntries {
    type Record<'a> = ObservedRecord;

    const HAS_ERASED: bool = true;

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn record(&self, i: usize) -> ObservedRecord {
        let entry = self.entries[i];
        let (row, column) = (entry.row as usize, entry.column as usize);
        let inside = row < self.rows && column < self.columns && entry.value.is_finite();
        ObservedRecord {
            place: inside.then_some((row, self.rows + column)),
            value: entry.value,
        }
    }
}

/// An entry as the loss sees it: which two rows of the stacked factors it touches, if any.
#[derive(Debug, Clone, Copy)]
pub struct ObservedRecord {
    place: Option<(usize, usize)>,
    value: f64,
}

/// Matrix factorisation with a scalar loss phi.
///
/// # Formula
/// f(P, Q; (i, j, y)) = phi(<p_i, q_j>, y). With ||(P, Q)||_F <= R: G = R, B = 1 (the form <p, q>
/// has eigenvalues +-1); see the constants of the module's page.
///
/// # Shapes
/// A point is P over Q: (rows + columns, r), row-major; at most 2^32 parameters.
///
/// # Complexity
/// 2 r per record and pass, whatever the shape: only two rows of the point are touched. They go
/// onto the lattice with 24 significant bits.
///
/// # Privacy
/// Never panics, no state; clipped wherever the factors are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatrixFactorization {
    phi: Glm,
    rank: usize,
    ball: f64,
}

/// The two rows of a point that a record touches.
#[derive(Clone, Copy)]
struct Pair<'a> {
    p: &'a [f64],
    q: &'a [f64],
}

impl Pair<'_> {
    fn product(&self) -> f64 {
        self.p.iter().zip(self.q).map(|(p, q)| p * q).sum()
    }
}

impl MatrixFactorization {
    /// With factors of `rank` columns and constants for the ball ||(P, Q)||_F <= `ball`.
    #[must_use]
    pub fn new(phi: Glm, rank: NonZeroUsize, ball: ClipNorm) -> Self {
        Self {
            phi,
            rank: rank.get(),
            ball: ball.get(),
        }
    }

    fn pair<'a>(&self, record: &ObservedRecord, point: &'a [f64]) -> Option<Pair<'a>> {
        let (p, q) = record.place?;
        let row = |i: usize| point.get(i * self.rank..(i + 1) * self.rank);
        Some(Pair {
            p: row(p)?,
            q: row(q)?,
        })
    }

    /// The gradient's two rows, q then p times the slope.
    fn rows(&self, at: Pair<'_>, value: f64, out: &mut [f64]) {
        let slope = self.phi.slope(at.product(), value);
        let (first, second) = out.split_at_mut(self.rank);
        for (out, q) in first.iter_mut().zip(at.q) {
            *out = slope * q;
        }
        for (out, p) in second.iter_mut().zip(at.p) {
            *out = slope * p;
        }
    }

    /// Their change: phi'(z') dq + (phi'(z') - phi'(z)) q and the same with p, where z' - z =
    /// <dp, q'> + <p, dq>.
    fn row_changes(&self, from: Pair<'_>, by: Pair<'_>, value: f64, out: &mut [f64]) {
        let mut dz = 0.0;
        for l in 0..self.rank {
            dz += by.p[l] * (from.q[l] + by.q[l]) + from.p[l] * by.q[l];
        }
        let z = from.product();
        let after = self.phi.slope(z + dz, value);
        let change = self.phi.slope_change(z, dz, value);
        for l in 0..self.rank {
            out[l] = after * by.q[l] + change * from.q[l];
            out[self.rank + l] = after * by.p[l] + change * from.p[l];
        }
    }

    /// Adds the two rows to a vector of all parameters.
    fn scatter(&self, record: &ObservedRecord, rows: &[f64], out: &mut [f64]) {
        let Some((p, q)) = record.place else {
            return;
        };
        for (place, rows) in [p, q].into_iter().zip(rows.chunks_exact(self.rank)) {
            for (out, x) in out.iter_mut().skip(place * self.rank).zip(rows) {
                *out += x;
            }
        }
    }
}

/// Puts two rows on the lattice without touching the other coordinates.
struct Sparse {
    columns: Vec<u32>,
    values: Vec<f32>,
}

impl Sparse {
    fn new(rank: usize) -> Self {
        Self {
            columns: vec![0; 2 * rank],
            values: vec![0.0; 2 * rank],
        }
    }

    /// Counts a record without a place, too.
    fn add(&mut self, record: &ObservedRecord, rows: &[f64], sum: &mut LatticeSum) {
        let largest = rows.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        let half = rows.len() / 2;
        let start = |place: usize| u32::try_from(place * half).ok();
        let starts = record.place.map(|(p, q)| (start(p), start(q)));
        let (Some((Some(p), Some(q))), true) = (starts, largest > 0.0) else {
            sum.add_scaled_sparse::<f64>(0.0, &[], &[]);
            return;
        };
        for l in 0..half {
            self.columns[l] = p.saturating_add(l as u32);
            self.columns[half + l] = q.saturating_add(l as u32);
        }
        // In [-1, 1]: single precision keeps 24 bits of them, however small the change.
        for (value, x) in self.values.iter_mut().zip(rows) {
            *value = (x / largest) as f32;
        }
        sum.add_scaled_sparse(largest, &self.columns, &self.values);
    }
}

impl Loss for MatrixFactorization {
    type Records = ObservedEntries;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &ObservedEntries) -> usize {
        records
            .rows
            .saturating_add(records.columns)
            .saturating_mul(self.rank)
    }

    fn constants_on(&self, records: &ObservedEntries) -> Constants {
        // q = <p, q>: two blocks, each the identity of order r.
        let norms = (1.0, (2.0 * self.rank as f64).sqrt());
        let scalar = self.phi.constants_within(1.0, records.label_bound);
        constants(scalar, self.ball, norms)
    }

    fn value(&self, record: ObservedRecord, point: &[f64]) -> f64 {
        self.pair(&record, point)
            .map_or(0.0, |at| self.phi.value(at.product(), record.value))
    }
}

impl Differentiable for MatrixFactorization {
    fn gradient(&self, record: ObservedRecord, point: &[f64], out: &mut [f64]) {
        if let Some(at) = self.pair(&record, point) {
            let mut rows = vec![0.0; 2 * self.rank];
            self.rows(at, record.value, &mut rows);
            self.scatter(&record, &rows, out);
        }
    }

    fn gradient_change(&self, record: ObservedRecord, segment: &Segment<'_>, out: &mut [f64]) {
        let from = self.pair(&record, segment.from);
        if let (Some(from), Some(by)) = (from, self.pair(&record, segment.displacement)) {
            let mut rows = vec![0.0; 2 * self.rank];
            self.row_changes(from, by, record.value, &mut rows);
            self.scatter(&record, &rows, out);
        }
    }

    fn add_gradients(
        &self,
        records: &ObservedEntries,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        let mut rows = vec![0.0; 2 * self.rank];
        let mut sparse = Sparse::new(self.rank);
        for i in positions.iter() {
            let record = records.record(i);
            rows.fill(0.0);
            if let Some(at) = self.pair(&record, point) {
                self.rows(at, record.value, &mut rows);
            }
            sparse.add(&record, &rows, sum);
        }
    }

    fn add_changes(
        &self,
        records: &ObservedEntries,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        let (mut before, mut after) = (vec![0.0; 2 * self.rank], vec![0.0; 2 * self.rank]);
        let mut change = vec![0.0; 2 * self.rank];
        let mut sparse = Sparse::new(self.rank);
        for i in positions.iter() {
            let record = records.record(i);
            change.fill(0.0);
            after.fill(0.0);
            let pair = |point| self.pair(&record, point);
            let pairs = (
                pair(segment.from),
                pair(segment.to),
                pair(segment.displacement),
            );
            if let (Some(from), Some(to), Some(by)) = pairs {
                self.rows(from, record.value, &mut before);
                self.rows(to, record.value, &mut after);
                if !momentum.subtract(&mut after, &before, clip) {
                    self.row_changes(from, by, record.value, &mut change);
                    momentum.combine(&mut after, &change);
                }
            }
            sparse.add(&record, &after, sum);
        }
    }
}

impl TwiceDifferentiable for MatrixFactorization {
    /// Two rows: phi'' dz q + phi' dq and the same with p, where dz = <dp, q> + <p, dq>.
    ///
    /// # Complexity
    /// O(r), whatever the shape.
    fn hessian_vector(
        &self,
        record: ObservedRecord,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let at = self.pair(&record, point);
        if let (Some(at), Some(by)) = (at, self.pair(&record, direction)) {
            let z = at.product();
            let dz: f64 = (0..self.rank)
                .map(|l| by.p[l] * at.q[l] + at.p[l] * by.q[l])
                .sum();
            let slope = self.phi.slope(z, record.value);
            let bend = self.phi.curvature(z, record.value) * dz;
            let mut rows = vec![0.0; 2 * self.rank];
            for l in 0..self.rank {
                rows[l] = bend * at.q[l] + slope * by.q[l];
                rows[self.rank + l] = bend * at.p[l] + slope * by.p[l];
            }
            self.scatter(&record, &rows, out);
        }
    }
}
