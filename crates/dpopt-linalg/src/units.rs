//! Inner products of rows with the weights of a layer of units, each entry of a row read once for all of them.

use dpopt_lanes::{Entry, Kernel, LANES, Lanes, dispatch};

/// Chunks of units that are summed together: enough sums in flight to hide the time that one multiply-add takes.
const WIDE: usize = 4;
/// Dense rows that are multiplied together.
const GROUP: usize = 4;

/// The weights of k units for p inputs, laid out for products with rows.
pub struct UnitWeights {
    inputs: usize,
    units: usize,
    /// `wide` chunks of units for each input, zeros beyond the last unit.
    wide: usize,
    chunks: Vec<[f64; LANES]>,
}

impl UnitWeights {
    /// The weights of `units` units.
    ///
    /// # Shapes
    /// `weights`: (p, k), the k weights of an input beside each other.
    ///
    /// # Panics
    /// When there is no unit, or the weights don't fill rows.
    #[must_use]
    pub fn new(units: usize, weights: &[f64]) -> Self {
        assert!(
            units > 0 && weights.len().is_multiple_of(units),
            "weights that fill rows, one entry for each unit"
        );
        let wide = units.div_ceil(LANES);
        let inputs = weights.len() / units;
        let mut chunks = vec![[0.0; LANES]; inputs * wide];
        for (row, to) in weights
            .chunks_exact(units)
            .zip(chunks.chunks_exact_mut(wide))
        {
            for (from, to) in row.chunks(LANES).zip(to) {
                to[..from.len()].copy_from_slice(from);
            }
        }
        Self {
            inputs,
            units,
            wide,
            chunks,
        }
    }

    /// The weights of `units` units, from the transposed matrix.
    ///
    /// # Shapes
    /// `weights`: (k, p), the p weights of a unit beside each other.
    ///
    /// # Panics
    /// As [`UnitWeights::new`].
    #[must_use]
    pub fn transposed(units: usize, weights: &[f64]) -> Self {
        assert!(
            units > 0 && weights.len().is_multiple_of(units),
            "weights that fill rows, one row for each unit"
        );
        let (wide, inputs) = (units.div_ceil(LANES), weights.len() / units);
        let mut chunks = vec![[0.0; LANES]; inputs * wide];
        for (j, row) in weights.chunks_exact(inputs.max(1)).enumerate() {
            for (c, w) in row.iter().enumerate() {
                chunks[c * wide + j / LANES][j % LANES] = *w;
            }
        }
        Self {
            inputs,
            units,
            wide,
            chunks,
        }
    }

    /// p.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// k.
    #[must_use]
    pub fn units(&self) -> usize {
        self.units
    }

    /// Inner products of each dense row with each unit's weights, in `f64`.
    ///
    /// # Formula
    /// `out[i k + j] = sum_c rows[i][c] weights[c k + j]`, added up in the order of the columns, by fused multiply-adds where the
    /// processor has them. The bits depend on the row and the weights alone.
    ///
    /// # Shapes
    /// `rows`: slices of p entries (those beyond are left out); `out`: (rows, k).
    ///
    /// # Panics
    /// When `out` has another length.
    pub fn products<T: Entry>(&self, rows: &[&[T]], out: &mut [f64]) {
        self.run(rows, out);
    }

    /// The same for sparse rows of columns and entries; columns beyond p are left out.
    ///
    /// # Panics
    /// As [`UnitWeights::products`].
    pub fn sparse_products(&self, rows: &[(&[u32], &[f32])], out: &mut [f64]) {
        self.run(rows, out);
    }

    fn run<R: Visit>(&self, rows: &[R], out: &mut [f64]) {
        assert!(
            out.len() == rows.len() * self.units,
            "one product for each row and unit"
        );
        dispatch(Products {
            weights: self,
            rows,
            out,
        });
    }
}

/// A row whose entries can be visited.
trait Visit: Copy {
    fn entries(self) -> impl Iterator<Item = (usize, f64)>;

    /// The sums of some rows with W chunks of units from `first` on, each as if it were alone.
    #[inline(always)]
    fn sums<L: Lanes, const W: usize, const R: usize>(
        lanes: L,
        weights: &UnitWeights,
        first: usize,
        rows: [Self; R],
    ) -> [[[f64; LANES]; W]; R] {
        alone(lanes, weights, first, rows)
    }
}

#[inline(always)]
fn alone<L: Lanes, V: Visit, const W: usize, const R: usize>(
    lanes: L,
    weights: &UnitWeights,
    first: usize,
    rows: [V; R],
) -> [[[f64; LANES]; W]; R] {
    let mut found = [[[0.0; LANES]; W]; R];
    for r in 0..R {
        found[r] = sums::<L, V, W>(lanes, weights, first, rows[r]);
    }
    found
}

impl<T: Entry> Visit for &[T] {
    #[inline(always)]
    fn entries(self) -> impl Iterator<Item = (usize, f64)> {
        self.iter().map(|&x| x.into()).enumerate()
    }

    /// The chains of sums of several rows are in flight together, and each chunk of weights is read once for all of them.
    #[inline(always)]
    fn sums<L: Lanes, const W: usize, const R: usize>(
        lanes: L,
        weights: &UnitWeights,
        first: usize,
        rows: [Self; R],
    ) -> [[[f64; LANES]; W]; R] {
        let (inputs, wide) = (weights.inputs, weights.wide);
        if R == 1 || rows.iter().any(|row| row.len() < inputs) {
            return alone(lanes, weights, first, rows);
        }
        let mut sums = [[lanes.splat(0.0); W]; R];
        let chunks = weights.chunks[..inputs * wide].chunks_exact(wide);
        let mut entries = [[0.0; LANES]; R];
        // Columns after the last whole chunk are read one by one.
        let whole = inputs / LANES * LANES;
        for (column, chunks) in chunks.enumerate() {
            let lane = column % LANES;
            if lane == 0 {
                for r in 0..R {
                    entries[r] = match rows[r][column..].first_chunk() {
                        Some(chunk) if column < whole => lanes.to_doubles(T::load(lanes, chunk)),
                        _ => last_entries(&rows[r][column..inputs]),
                    };
                }
            }
            let chunks = &chunks[first..][..W];
            for r in 0..R {
                let x = lanes.splat(entries[r][lane]);
                for w in 0..W {
                    sums[r][w] = lanes.mul_add(x, lanes.doubles(&chunks[w]), sums[r][w]);
                }
            }
        }
        let mut found = [[[0.0; LANES]; W]; R];
        for r in 0..R {
            for w in 0..W {
                found[r][w] = lanes.to_doubles(sums[r][w]);
            }
        }
        found
    }
}

impl Visit for (&[u32], &[f32]) {
    #[inline(always)]
    fn entries(self) -> impl Iterator<Item = (usize, f64)> {
        let both = self.0.iter().zip(self.1);
        both.map(|(&column, &x)| (column as usize, f64::from(x)))
    }
}

/// The last entries of a row, zeros after them.
fn last_entries<T: Entry>(row: &[T]) -> [f64; LANES] {
    let mut all = [0.0; LANES];
    for (to, &from) in all.iter_mut().zip(row) {
        *to = from.into();
    }
    all
}

struct Products<'a, R> {
    weights: &'a UnitWeights,
    rows: &'a [R],
    out: &'a mut [f64],
}

impl<R: Visit> Kernel for Products<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let (groups, rest) = self.rows.as_chunks::<GROUP>();
        let (out, last) = self
            .out
            .split_at_mut(groups.len() * GROUP * self.weights.units);
        let all = out.chunks_exact_mut(GROUP * self.weights.units);
        for (rows, out) in groups.iter().zip(all) {
            products(lanes, self.weights, *rows, out);
        }
        let all = last.chunks_exact_mut(self.weights.units);
        for (row, out) in rest.iter().zip(all) {
            products(lanes, self.weights, [*row], out);
        }
    }
}

/// The products of some rows with all units.
#[inline(always)]
fn products<L: Lanes, V: Visit, const R: usize>(
    lanes: L,
    weights: &UnitWeights,
    rows: [V; R],
    out: &mut [f64],
) {
    let mut first = 0;
    while first < weights.wide {
        let out = &mut out[first * LANES..];
        first += match weights.wide - first {
            1 => some_units::<L, V, 1, R>(lanes, weights, first, rows, out),
            2 => some_units::<L, V, 2, R>(lanes, weights, first, rows, out),
            3 => some_units::<L, V, 3, R>(lanes, weights, first, rows, out),
            _ => some_units::<L, V, WIDE, R>(lanes, weights, first, rows, out),
        };
    }
}

/// The products of a row with the units from chunk `first` on.
fn store(found: &[[f64; LANES]], weights: &UnitWeights, first: usize, out: &mut [f64]) {
    let end = weights.units - first * LANES;
    for (from, to) in found.iter().zip(out[..end].chunks_mut(LANES)) {
        to.copy_from_slice(&from[..to.len()]);
    }
}

/// The products of some rows with W chunks of units; W.
#[inline(always)]
fn some_units<L: Lanes, V: Visit, const W: usize, const R: usize>(
    lanes: L,
    weights: &UnitWeights,
    first: usize,
    rows: [V; R],
    out: &mut [f64],
) -> usize {
    // As many sums as the registers hold.
    if L::REGISTERS >= 32 || W == 1 {
        let found = V::sums::<L, W, R>(lanes, weights, first, rows);
        for row in 0..R {
            store(&found[row], weights, first, &mut out[row * weights.units..]);
        }
    } else {
        for (row, &one) in rows.iter().enumerate() {
            let [found] = V::sums::<L, W, 1>(lanes, weights, first, [one]);
            store(&found, weights, first, &mut out[row * weights.units..]);
        }
    }
    W
}

/// The products with W chunks of units from `first` on.
#[inline(always)]
fn sums<L: Lanes, R: Visit, const W: usize>(
    lanes: L,
    weights: &UnitWeights,
    first: usize,
    row: R,
) -> [[f64; LANES]; W] {
    let mut sums = [lanes.splat(0.0); W];
    for (column, x) in row.entries() {
        let start = column.saturating_mul(weights.wide).saturating_add(first);
        if let Some(chunks) = weights
            .chunks
            .get(start..)
            .and_then(<[_]>::first_chunk::<W>)
        {
            let x = lanes.splat(x);
            for w in 0..W {
                sums[w] = lanes.mul_add(x, lanes.doubles(&chunks[w]), sums[w]);
            }
        }
    }
    sums.map(|sum| lanes.to_doubles(sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Integers, whose products are exact whatever the order.
    #[test]
    fn products_are_sums_of_products() {
        for units in [1, 2, 7, 8, 9, 16, 24, 33, 64, 71] {
            let inputs = 5;
            let weights: Vec<f64> = (0..inputs * units)
                .map(|i| (i * i % 23) as f64 - 11.0)
                .collect();
            let layer = UnitWeights::new(units, &weights);
            assert_eq!((layer.inputs(), layer.units()), (inputs, units));
            let rows: [[f32; 5]; 3] = [
                [1.0, 0.0, -2.0, 0.0, 3.0],
                [0.0; 5],
                [4.0, 5.0, 6.0, 7.0, 8.0],
            ];
            let expected: Vec<f64> = rows
                .iter()
                .flat_map(|row| {
                    let weights = &weights;
                    (0..units).map(move |j| {
                        (0..inputs)
                            .map(|c| f64::from(row[c]) * weights[c * units + j])
                            .sum()
                    })
                })
                .collect();
            let mut out = vec![f64::NAN; 3 * units];
            layer.products(&rows.each_ref().map(|row| &row[..]), &mut out);
            assert_eq!(out, expected);
            out.fill(f64::NAN);
            let all: Vec<u32> = (0..5).collect();
            // A column that is not there is left out.
            let beyond: (&[u32], &[f32]) = (&[0, 2, 4, 9], &[1.0, -2.0, 3.0, 5.0]);
            layer.sparse_products(&[beyond, (&[], &[]), (&all, &rows[2])], &mut out);
            assert_eq!(out, expected);
        }
    }

    /// Together and alone, in every storage, with columns after the last whole lanes, and beside a row that is too short.
    #[test]
    fn rows_together_have_the_bits_of_rows_alone() {
        for (inputs, units) in [(21, 10), (8, 19), (16, 33), (3, 1), (784, 10)] {
            let weights: Vec<f64> = (0..inputs * units)
                .map(|i| (i as f64 * 0.7).sin())
                .collect();
            let layer = UnitWeights::new(units, &weights);
            let bytes: Vec<u8> = (0..11 * inputs).map(|i| (i * i % 253) as u8).collect();
            let doubles: Vec<f64> = bytes.iter().map(|&x| f64::from(x)).collect();
            let mut rows: Vec<&[f64]> = doubles.chunks(inputs).collect();
            let bits = |out: Vec<f64>| -> Vec<u64> { out.iter().map(|x| x.to_bits()).collect() };
            let of = |rows: &[&[f64]]| {
                let mut out = vec![f64::NAN; rows.len() * units];
                layer.products(rows, &mut out);
                bits(out)
            };
            let alone: Vec<u64> = rows.iter().flat_map(|row| of(&[row])).collect();
            assert_eq!(of(&rows), alone);
            let mut out = vec![f64::NAN; 11 * units];
            layer.products(&bytes.chunks(inputs).collect::<Vec<_>>(), &mut out);
            assert_eq!(bits(out), alone);
            rows[5] = &rows[5][..inputs - 1];
            let with_a_short_one = of(&rows);
            assert_eq!(with_a_short_one[..5 * units], alone[..5 * units]);
            assert_eq!(with_a_short_one[6 * units..], alone[6 * units..]);
        }
    }

    /// A row's bits do not depend on its company.
    #[test]
    fn a_row_alone_gives_the_same_bits() {
        let weights: Vec<f64> = (0..6 * 19).map(|i| (f64::from(i) * 0.7).sin()).collect();
        let layer = UnitWeights::new(19, &weights);
        let rows: Vec<Vec<f64>> = (0..9)
            .map(|i| (0..6).map(|c| f64::from(i * 6 + c).cos()).collect())
            .collect();
        let rows: Vec<&[f64]> = rows.iter().map(|row| &row[..]).collect();
        let mut all = vec![0.0; 9 * 19];
        layer.products(&rows, &mut all);
        for (row, expected) in rows.iter().zip(all.chunks_exact(19)) {
            let mut alone = [0.0; 19];
            layer.products(&[row], &mut alone);
            assert_eq!(
                alone.map(f64::to_bits)[..],
                expected.iter().map(|x| x.to_bits()).collect::<Vec<_>>()
            );
        }
    }
}
