//! Adding multiples of many rows at once, each row read once more and no oftener.
//!
//! A contribution goes onto the lattice by one multiply-add per entry: 1.5 * 2^52 plus the product
//! has the nearest integer in its low bits, the bit patterns are added as they are, and the
//! constant's own bits are taken off per group of rows.

use dpopt_lanes::{Entry, Kernel, LANES, Lanes, dispatch, zeros_before};

use super::{Bound, LatticeSum, MAGIC, MAX_RECORDS, RowBound};

/// Rows that share one read and one write of the sum.
pub(super) const GROUP: usize = 8;
/// Half as many, for the end of a batch.
const HALF: usize = GROUP / 2;
/// Rows that are looked at before the first of them is added.
pub(super) const BATCH: usize = 64;
/// 2^-1000: a quotient below has lost digits, or is about to.
pub(super) const SMALLEST: f64 = f64::from_bits(23 << 52);

/// Column numbers and entries of a sparse row.
pub type SparseRow<'a> = (&'a [u32], &'a [f32]);

impl LatticeSum {
    /// Adds clip(`scales[i]` * `rows[i]`) for every i.
    ///
    /// # Formula
    /// With N the norm of `bounds[i]` and c = |`scales[i]`|, the scale is cut to min(c, clip / N), and every
    /// entry is rounded to the nearest step, ties to even. What a row adds depends on it, its
    /// scale, its bound and the radius alone.
    ///
    /// # Privacy
    /// Each row is one contribution of norm at most the radius, if `bounds[i]` was made from `rows[i]`; keeping
    /// them together is the caller's duty. A row adds zero, and counts all the same, where its bound or scale is
    /// not finite or where its length is not the dimension.
    ///
    /// # Shapes
    /// `rows`: slices of d entries; `scales` and `bounds`: one per row.
    ///
    /// `meanwhile` is called about once for every 32 entries that are added: a place to ask the memory for the
    /// rows that come next. How often it is called depends on how many rows add zero, so it must keep no
    /// count and do nothing else.
    ///
    /// # Panics
    /// When the three slices differ in length, which does not depend on what rows hold.
    pub fn add_rows<T: Entry>(
        &mut self,
        rows: &[&[T]],
        scales: &[f64],
        bounds: &[RowBound],
        mut meanwhile: impl FnMut(),
    ) {
        assert!(
            rows.len() == scales.len() && rows.len() == bounds.len(),
            "one scale and one bound per row"
        );
        let clip = Clip::new(&self.bound);
        let (dim, weight) = (self.bound.dim, self.weight);
        let room = self.take_room(rows.len());
        let mut steps = [0.0; BATCH];
        let batches = rows[..room]
            .chunks(BATCH)
            .zip(scales.chunks(BATCH))
            .zip(bounds.chunks(BATCH));
        for ((rows, scales), bounds) in batches {
            let steps = &mut steps[..rows.len()];
            let mut plain = rows.iter().all(|row| row.len() == dim);
            dispatch(Steps {
                clip,
                weight,
                scales,
                bounds,
                steps,
                plain: &mut plain,
            });
            if plain {
                self.add_batch(rows, steps, &mut meanwhile);
            } else {
                self.add_mixed(rows, scales, bounds, &mut meanwhile);
            }
        }
    }

    /// Adds clip(`scales[i]` * `rows[i]`) for every sparse row i, in time proportional to its
    /// entries. It adds what [`LatticeSum::add_rows`] adds for the same row with its zeros.
    ///
    /// # Privacy
    /// As for [`LatticeSum::add_rows`]. The bound vouches for the columns too.
    ///
    /// # Panics
    /// When the three slices differ in length, which does not depend on what rows hold.
    pub fn add_sparse_rows(&mut self, rows: &[SparseRow<'_>], scales: &[f64], bounds: &[RowBound]) {
        self.add_entries(rows, scales, bounds);
    }

    /// The same for rows of ones at these columns.
    ///
    /// # Privacy
    /// # Panics
    /// As for [`LatticeSum::add_sparse_rows`].
    pub fn add_one_hot_rows(&mut self, rows: &[&[u32]], scales: &[f64], bounds: &[RowBound]) {
        self.add_entries(rows, scales, bounds);
    }

    fn add_entries<R: AtColumns>(&mut self, rows: &[R], scales: &[f64], bounds: &[RowBound]) {
        assert!(
            rows.len() == scales.len() && rows.len() == bounds.len(),
            "one scale and one bound per row"
        );
        let room = self.take_room(rows.len());
        dispatch(Sparse {
            clip: Clip::new(&self.bound),
            sum: self,
            rows: &rows[..room],
            scales,
            bounds,
        });
    }

    /// Counts as many of `count` contributions as there is room for, whatever they hold.
    pub(super) fn take_room(&mut self, count: usize) -> usize {
        let room = (MAX_RECORDS - self.added).min(count as u64);
        self.added += room;
        room as usize
    }

    fn add_batch<T: Entry>(&mut self, rows: &[&[T]], steps: &[f64], meanwhile: &mut impl FnMut()) {
        dispatch(Dense {
            sum: &mut self.sum,
            rows,
            steps,
            meanwhile,
        });
    }

    /// Adds a batch in which some rows can't be added, or not in the plain way.
    #[cold]
    fn add_mixed<T: Entry>(
        &mut self,
        rows: &[&[T]],
        scales: &[f64],
        bounds: &[RowBound],
        meanwhile: &mut impl FnMut(),
    ) {
        let clip = Clip::new(&self.bound);
        let (dim, weight) = (self.bound.dim, self.weight);
        let mut batch: ([&[T]; BATCH], [f64; BATCH]) = ([&[]; BATCH], [0.0; BATCH]);
        let mut live = 0;
        for ((&row, &scale), &bound) in rows.iter().zip(scales).zip(bounds) {
            let scale = scale * weight;
            match clip.multiple(scale, bound) {
                Multiple::Steps(steps) if row.len() == dim => {
                    (batch.0[live], batch.1[live]) = (row, steps);
                    live += 1;
                }
                Multiple::Extreme if row.len() == dim => self.add_extreme(scale, row),
                _ => {}
            }
        }
        self.add_batch(&batch.0[..live], &batch.1[..live], meanwhile);
    }

    /// Adds a row whose norm and scale are far apart.
    #[cold]
    fn add_extreme<T: Entry>(&mut self, scale: f64, row: &[T]) {
        let entries = row.iter().map(|&x| Into::<f64>::into(x));
        if let Some(scaling) = self.bound.scaling(scale, entries.clone()) {
            for (sum, x) in self.sum.iter_mut().zip(entries) {
                *sum += scaling.round(x);
            }
        }
    }
}

/// A clipped scale.
#[derive(Clone, Copy)]
pub(super) enum Multiple {
    /// The contribution is zero.
    Zero,
    /// In lattice steps, with its sign.
    Steps(f64),
    /// Scale and norm are so far apart that the product of entries and clipped scale must be formed
    /// with care.
    Extreme,
}

/// The part of a bound that clipping a scale needs.
#[derive(Clone, Copy)]
pub(super) struct Clip {
    clip: f64,
    /// 1 / step, exactly.
    per_step: f64,
}

impl Clip {
    pub(super) fn new(bound: &Bound) -> Self {
        Self {
            clip: bound.clip,
            per_step: 1.0 / bound.step,
        }
    }

    /// How a row within `bound` is scaled and clipped.
    #[inline]
    pub(super) fn multiple(self, scale: f64, bound: RowBound) -> Multiple {
        let norm = bound.norm();
        if !scale.is_finite() || !norm.is_finite() || scale == 0.0 || norm == 0.0 {
            return Multiple::Zero;
        }
        self.scaled(scale, norm)
    }

    /// A finite scale, not zero, of what is at most `norm` long, a finite number above zero.
    #[inline]
    pub(super) fn scaled(self, scale: f64, norm: f64) -> Multiple {
        let mut kept = scale.abs();
        // An infinite product is too long like any other.
        if kept * norm > self.clip {
            kept = (self.clip / norm) * (1.0 - 4.0 * f64::EPSILON);
            // A quotient that is almost subnormal has lost digits.
            if kept < SMALLEST {
                return Multiple::Extreme;
            }
        }
        let steps = kept * self.per_step;
        if steps.is_finite() {
            Multiple::Steps(steps.copysign(scale))
        } else {
            Multiple::Extreme
        }
    }
}

/// The clipped scales of a batch, in lattice steps: [`Clip::multiple`] for many rows at once.
struct Steps<'a> {
    clip: Clip,
    /// The factor of each scale.
    weight: f64,
    scales: &'a [f64],
    bounds: &'a [RowBound],
    steps: &'a mut [f64],
    /// Set to false where a row's entries may not be finite or its multiple is extreme.
    plain: &'a mut bool,
}

impl Kernel for Steps<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Clip { clip, per_step } = self.clip;
        let mut odd = 0;
        for ((steps, &scale), &bound) in self.steps.iter_mut().zip(self.scales).zip(self.bounds) {
            let norm = bound.norm();
            let scale = scale * self.weight;
            let size = scale.abs();
            let long = size * norm > clip;
            let cut = (clip / norm) * (1.0 - 4.0 * f64::EPSILON);
            let whole = (if long { cut } else { size }) * per_step;
            // A scale that is not finite: a multiple of zero, and the entries are finite.
            let kept = if size < f64::INFINITY { whole } else { 0.0 };
            *steps = kept.copysign(scale);
            odd |= u64::from(!(norm < f64::INFINITY));
            odd |= u64::from(!(kept < f64::INFINITY));
            odd |= u64::from(long) & u64::from(cut < SMALLEST);
        }
        if odd != 0 {
            *self.plain = false;
        }
    }
}

/// Adds the rows of a batch.
pub(super) struct Dense<'a, 'r, T, F> {
    pub(super) sum: &'a mut [i64],
    pub(super) rows: &'a [&'r [T]],
    pub(super) steps: &'a [f64],
    pub(super) meanwhile: &'a mut F,
}

impl<T: Entry, F: FnMut()> Kernel for Dense<'_, '_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        // The columns after the last whole chunk are read together with those before them, into a
        // sum of their own: most lanes of it are not wanted.
        let mut last = [0; LANES];
        let (groups, rest) = self.rows.as_chunks::<GROUP>();
        let (steps, rest_steps) = self.steps.as_chunks::<GROUP>();
        for (group, steps) in groups.iter().zip(steps) {
            add_group(lanes, self.sum, &mut last, group, steps, self.meanwhile);
        }
        // Whole halves of a group, then what is left.
        let (halves, rest) = rest.as_chunks::<HALF>();
        let (steps, rest_steps) = rest_steps.as_chunks::<HALF>();
        for (half, steps) in halves.iter().zip(steps) {
            add_group(lanes, self.sum, &mut last, half, steps, self.meanwhile);
        }
        for (row, steps) in rest.iter().zip(rest_steps) {
            add_group(lanes, self.sum, &mut last, &[*row], &[*steps], &mut || {});
        }
        let short = self.sum.len() % LANES;
        let tail = self.sum.len() - short;
        for (sum, last) in self.sum[tail..].iter_mut().zip(&last[LANES - short..]) {
            *sum = sum.wrapping_add(*last);
        }
    }
}

/// Adds R rows.
#[inline(always)]
fn add_group<L: Lanes, T: Entry, const R: usize>(
    lanes: L,
    sum: &mut [i64],
    last: &mut [i64; LANES],
    rows: &[&[T]; R],
    steps: &[f64; R],
    meanwhile: &mut impl FnMut(),
) {
    let columns = sum.len();
    let magic = lanes.splat(MAGIC);
    // The constant's bits, once per row, are taken off in front.
    let start = 0u64.wrapping_sub(MAGIC.to_bits().wrapping_mul(R as u64)) as i64;
    let start = lanes.words(&[start; LANES]);
    let sums = sum.as_chunks_mut::<LANES>().0;
    let mut multiples = [magic; R];
    let mut chunks: [&[[T; LANES]]; R] = [&[]; R];
    for r in 0..R {
        multiples[r] = lanes.splat(steps[r]);
        chunks[r] = &rows[r][..columns].as_chunks::<LANES>().0[..sums.len()];
    }
    for j in 0..sums.len() {
        for _ in 0..R / HALF {
            meanwhile();
        }
        // Two partial sums: shorter chains of additions.
        let mut total = [lanes.words(&sums[j]), start];
        for r in 0..R {
            let x = T::load(lanes, &chunks[r][j]);
            total[r % 2] = lanes.add(
                total[r % 2],
                lanes.bits(lanes.mul_add(x, multiples[r], magic)),
            );
        }
        sums[j] = lanes.to_words(lanes.add(total[0], total[1]));
    }
    if columns.is_multiple_of(LANES) {
        return;
    }
    let mut total = lanes.add(lanes.words(last), start);
    for r in 0..R {
        let x = match rows[r].last_chunk::<LANES>() {
            Some(x) => T::load(lanes, x),
            None => lanes.doubles(&zeros_before(rows[r])),
        };
        total = lanes.add(total, lanes.bits(lanes.mul_add(x, multiples[r], magic)));
    }
    *last = lanes.to_words(total);
}

/// The nearest integer of x * steps.
#[inline(always)]
pub(super) fn nearest<L: Lanes>(lanes: L, x: f64, steps: f64) -> i64 {
    let sum = lanes.mul_add_one(x, steps, MAGIC);
    sum.to_bits().wrapping_sub(MAGIC.to_bits()) as i64
}

/// A row with entries at some columns.
trait AtColumns: Copy {
    fn entries(self) -> impl ExactSizeIterator<Item = (u32, f64)> + Clone;
}

impl AtColumns for SparseRow<'_> {
    #[inline(always)]
    fn entries(self) -> impl ExactSizeIterator<Item = (u32, f64)> + Clone {
        let both = self.0.iter().zip(self.1);
        both.map(|(&column, &x)| (column, f64::from(x)))
    }
}

/// Ones.
impl AtColumns for &[u32] {
    #[inline(always)]
    fn entries(self) -> impl ExactSizeIterator<Item = (u32, f64)> + Clone {
        self.iter().map(|&column| (column, 1.0))
    }
}

/// Adds sparse rows.
struct Sparse<'a, R> {
    clip: Clip,
    sum: &'a mut LatticeSum,
    rows: &'a [R],
    scales: &'a [f64],
    bounds: &'a [RowBound],
}

impl<R: AtColumns> Kernel for Sparse<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let weight = self.sum.weight;
        let (bound, sum) = (&self.sum.bound, &mut self.sum.sum[..]);
        for ((&row, &scale), &of_row) in self.rows.iter().zip(self.scales).zip(self.bounds) {
            let scale = scale * weight;
            match self.clip.multiple(scale, of_row) {
                Multiple::Zero => {}
                Multiple::Steps(steps) => {
                    for (column, x) in row.entries() {
                        let k = nearest(lanes, x, steps);
                        if let Some(sum) = sum.get_mut(column as usize) {
                            *sum = sum.wrapping_add(k);
                        }
                    }
                }
                Multiple::Extreme => {
                    let all = row.entries().map(|(_, x)| x);
                    if let Some(scaling) = bound.scaling(scale, all) {
                        for (column, x) in row.entries() {
                            if let Some(sum) = sum.get_mut(column as usize) {
                                *sum = sum.wrapping_add(scaling.round(x));
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
