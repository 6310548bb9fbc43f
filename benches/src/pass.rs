//! The clipped pass of logistic regression on one thread or more, beside a plain read of its data.
//!
//! Fixed blocks of rows: inner products, slopes, scaled rows onto the lattice, while the memory is asked for
//! the block that follows.

use std::num::NonZeroUsize;
use std::thread;

use dpopt_linalg::{Ahead, Entry, logistic, logistic_changes, row_products, sparse_products};
use dpopt_privacy::{Bound, ClipNorm, LatticeSum, RowBound, SparseRow};
use pulp::{Simd, WithSimd};

/// Bytes in a block of rows. Tuned: two blocks, the point and the sum share the innermost cache.
const BLOCK: usize = 8 << 10;
/// Rows that the kernels take together.
const GROUP: usize = 8;

/// Dense records with labels 0 and 1.
pub struct Dense<T> {
    columns: usize,
    entries: Vec<T>,
    labels: Vec<f32>,
    bounds: Vec<RowBound>,
}

/// Sparse records with labels 0 and 1.
pub struct Sparse {
    columns: usize,
    starts: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
    labels: Vec<f32>,
    bounds: Vec<RowBound>,
}

/// What a pass computes.
#[derive(Clone, Copy)]
pub enum Query<'a> {
    /// The gradient at a point.
    Gradient(&'a [f64]),
    /// The gradient at point + displacement less that at the point.
    Difference(&'a [f64], &'a [f64]),
}

/// An entry whose bits can be added up.
pub trait Bits: Entry {
    /// Adds the bits of a slice, as wide as the processor can.
    fn add_up(slice: &[Self]) -> u64;
}

macro_rules! bits {
    ($type:ty, $word:ty) => {
        impl Bits for $type {
            #[inline(always)]
            fn add_up(slice: &[Self]) -> u64 {
                const LANES: usize = 512 / size_of::<$type>();
                let mut sums = [0 as $word; LANES];
                let (chunks, rest) = slice.as_chunks::<LANES>();
                for chunk in chunks {
                    for lane in 0..LANES {
                        sums[lane] = sums[lane].wrapping_add(chunk[lane].to_bits());
                    }
                }
                let rest = rest.iter().map(|x| x.to_bits());
                sums.into_iter()
                    .chain(rest)
                    .fold(0, |sum, bits| sum.wrapping_add(u64::from(bits)))
            }
        }
    };
}
bits!(f32, u32);
bits!(f64, u64);

/// Whether a plain read asks for memory ahead of itself.
#[derive(Clone, Copy)]
pub enum Asking {
    /// It leaves that to the processor.
    No,
    /// A page ahead.
    Ahead,
}

/// A plain read of a slice: the sum of its bits.
struct Read<'a, T>(&'a [T], Asking);

impl<T: Bits> WithSimd for Read<'_, T> {
    type Output = u64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> u64 {
        match self.1 {
            Asking::No => T::add_up(self.0),
            Asking::Ahead => {
                let piece = 512 / size_of::<T>();
                let later = [&self.0[self.0.len().min(8 * piece)..]];
                let mut ahead = Ahead::new(&later);
                let mut sum = 0u64;
                for chunk in self.0.chunks(piece) {
                    // As many lines as the piece has.
                    for _ in 0..512 / (16 * size_of::<T>()) {
                        ahead.step();
                    }
                    sum = sum.wrapping_add(T::add_up(chunk));
                }
                sum
            }
        }
    }
}

/// Repeatable numbers in [-1, 1).
pub fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1u32 << 23) - 1.0
    }
}

/// Splits 0..count over threads and adds up what they return.
fn split<R: Send>(
    count: usize,
    threads: NonZeroUsize,
    work: impl Fn(std::ops::Range<usize>) -> R + Sync,
    add: impl Fn(R, R) -> R,
) -> R {
    let threads = threads.get();
    let part = |t: usize| count * t / threads..count * (t + 1) / threads;
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (1..threads)
            .map(|t| scope.spawn(move || work(part(t))))
            .collect();
        let mut total = work(part(0));
        for worker in workers {
            match worker.join() {
                Ok(sum) => total = add(total, sum),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        total
    })
}

fn merge(a: LatticeSum, b: LatticeSum) -> LatticeSum {
    match a.merge(b) {
        Ok(sum) => sum,
        Err(error) => unreachable!("fewer than 2^32 records: {error}"),
    }
}

/// The bound of a sum of gradients of norm at most 1.
///
/// # Errors
/// Those of [`Bound::new`].
pub fn bound(columns: usize) -> Result<Bound, Box<dyn std::error::Error>> {
    Ok(Bound::new(ClipNorm::new(1.0)?, columns)?)
}

impl<T: Bits> Dense<T> {
    /// Made-up records, entries of about unit rows.
    pub fn new(records: usize, columns: usize, entry: impl Fn(f64) -> T) -> Self {
        let mut number = numbers(1);
        let size = (3.0 / columns as f64).sqrt();
        let entries: Vec<T> = (0..records * columns)
            .map(|_| entry(size * number()))
            .collect();
        Self {
            columns,
            labels: (0..records)
                .map(|_| if number() < 0.0 { 0.0 } else { 1.0 })
                .collect(),
            bounds: entries.chunks(columns).map(RowBound::dense).collect(),
            entries,
        }
    }

    /// Bytes of the entries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.entries.as_slice())
    }

    /// Reads every entry once and does nothing with it.
    #[must_use]
    pub fn read(&self, threads: NonZeroUsize, asking: Asking) -> u64 {
        let arch = pulp::Arch::new();
        split(
            self.entries.len(),
            threads,
            |range| arch.dispatch(Read(&self.entries[range], asking)),
            u64::wrapping_add,
        )
    }

    /// The clipped sum of a query over all records.
    #[must_use]
    pub fn pass(&self, query: Query<'_>, bound: Bound, threads: NonZeroUsize) -> LatticeSum {
        let work = |records| self.pass_over(query, bound, records);
        split(self.labels.len(), threads, work, merge)
    }

    fn pass_over(
        &self,
        query: Query<'_>,
        bound: Bound,
        records: std::ops::Range<usize>,
    ) -> LatticeSum {
        let d = self.columns;
        let height = (BLOCK / (d * size_of::<T>()))
            .max(1)
            .next_multiple_of(GROUP);
        let mut sum = LatticeSum::new(bound);
        let mut rows: Vec<&[T]> = Vec::with_capacity(height);
        let (mut scales, mut moves) = (vec![0.0; height], vec![0.0; height]);
        let mut first = records.start;
        while first < records.end {
            let end = (first + height).min(records.end);
            let count = end - first;
            rows.clear();
            rows.extend(self.entries[first * d..end * d].chunks_exact(d));
            let next = [&self.entries[end * d..(end + height).min(records.end) * d]];
            let mut ahead = Ahead::new(&next);
            let scales = &mut scales[..count];
            match query {
                Query::Gradient(w) => {
                    row_products(&rows, [w], [scales], &mut ahead);
                    logistic(scales);
                    for (scale, label) in scales.iter_mut().zip(&self.labels[first..]) {
                        *scale -= f64::from(*label);
                    }
                }
                Query::Difference(w, displacement) => {
                    let moves = &mut moves[..count];
                    row_products(&rows, [w, displacement], [scales, moves], &mut ahead);
                    logistic_changes(scales, moves);
                }
            }
            sum.add_rows(&rows, scales, &self.bounds[first..end], || ahead.step());
            first = end;
        }
        sum
    }
}

impl Sparse {
    /// Made-up one-hot records: `fields` entries of 1/sqrt(fields), each in a range of columns of its own.
    #[must_use]
    pub fn new(records: usize, columns: usize, fields: usize) -> Self {
        let mut number = numbers(1);
        let width = columns / fields;
        let value = (1.0 / fields as f64).sqrt() as f32;
        let mut sparse = Self {
            columns,
            starts: vec![0],
            indices: Vec::with_capacity(records * fields),
            values: vec![value; records * fields],
            labels: Vec::with_capacity(records),
            bounds: Vec::with_capacity(records),
        };
        for _ in 0..records {
            let start = sparse.indices.len();
            for field in 0..fields {
                // Squared: some categories are frequent.
                let category = (number() * number()).abs() * width as f64;
                sparse
                    .indices
                    .push((field * width + category as usize) as u32);
            }
            sparse.starts.push(start + fields);
            sparse.labels.push(if number() < 0.0 { 0.0 } else { 1.0 });
            sparse.bounds.push(RowBound::sparse(
                &sparse.indices[start..],
                &sparse.values[start..start + fields],
                columns,
            ));
        }
        sparse
    }

    /// Bytes of the entries and their columns.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of_val(self.indices.as_slice()) + size_of_val(self.values.as_slice())
    }

    /// Number of entries.
    #[must_use]
    pub fn stored(&self) -> usize {
        self.indices.len()
    }

    /// Reads every entry and column once.
    #[must_use]
    pub fn read(&self, threads: NonZeroUsize, asking: Asking) -> u64 {
        let arch = pulp::Arch::new();
        let work = |range: std::ops::Range<usize>| {
            let columns = &self.indices[range.clone()];
            let columns = columns.iter().fold(0u64, |sum, &x| sum + u64::from(x));
            columns.wrapping_add(arch.dispatch(Read(&self.values[range], asking)))
        };
        split(self.indices.len(), threads, work, u64::wrapping_add)
    }

    /// The clipped sum of the gradients at a point.
    #[must_use]
    pub fn pass(&self, point: &[f64], bound: Bound, threads: NonZeroUsize) -> LatticeSum {
        debug_assert_eq!(point.len(), self.columns);
        const HEIGHT: usize = 64;
        let work = |records: std::ops::Range<usize>| {
            let mut sum = LatticeSum::new(bound);
            let mut rows: Vec<SparseRow<'_>> = Vec::with_capacity(HEIGHT);
            let mut scales = Vec::with_capacity(HEIGHT);
            let mut first = records.start;
            while first < records.end {
                let end = (first + HEIGHT).min(records.end);
                rows.clear();
                rows.extend((first..end).map(|i| {
                    let span = self.starts[i]..self.starts[i + 1];
                    (&self.indices[span.clone()], &self.values[span])
                }));
                scales.clear();
                scales.extend(rows.iter().map(|(columns, values)| {
                    let [product] = sparse_products(columns, values, [point]);
                    product
                }));
                logistic(&mut scales);
                for (scale, label) in scales.iter_mut().zip(&self.labels[first..]) {
                    *scale -= f64::from(*label);
                }
                sum.add_sparse_rows(&rows, &scales, &self.bounds[first..end]);
                first = end;
            }
            sum
        };
        split(self.labels.len(), threads, work, merge)
    }
}
