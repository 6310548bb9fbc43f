//! Products of a block of rows with a matrix, each row's computed in the same order wherever it stands.

use dpopt_lanes::{Kernel, LANES, Lanes, dispatch, zeros_after};

/// Rows that share one read of the matrix. Tuned, with [`WIDE`]: 24 sums and what is added to them fill the 32
/// registers of AVX-512.
const ROWS: usize = 8;
/// Vectors of columns that are summed together.
const WIDE: usize = 3;
/// Rows of the matrix that are read before the sums go back to memory. Tuned: this many of [`WIDE`] vectors share
/// the innermost cache with the rows.
const DEPTH: usize = 128;

/// A matrix laid out for [`Packed::multiply`].
pub struct Packed {
    rows: usize,
    columns: usize,
    /// Panel p has columns 8 p to 8 p + 7, zeros beyond the last: a vector for each row.
    panels: Vec<[f64; LANES]>,
}

impl Packed {
    /// The matrix of k rows and n columns with these entries.
    pub fn new(rows: usize, columns: usize, entry: impl Fn(usize, usize) -> f64) -> Self {
        let mut panels = vec![[0.0; LANES]; rows * columns.div_ceil(LANES)];
        for (p, panel) in panels.chunks_exact_mut(rows.max(1)).enumerate() {
            let first = p * LANES;
            for (k, chunk) in panel.iter_mut().enumerate() {
                for (lane, x) in chunk.iter_mut().enumerate().take(columns - first) {
                    *x = entry(k, first + lane);
                }
            }
        }
        Self {
            rows,
            columns,
            panels,
        }
    }

    /// Products of rows with this matrix.
    ///
    /// # Formula
    /// `out[i][j] = sum_k rows[i][k] M[k][j]`, from 0 on in increasing order of k, by fused multiply-adds where the
    /// processor has them. The bits of a row of the result depend on that row and the matrix alone: not on the other
    /// rows, their number or the row's place among them.
    ///
    /// # Shapes
    /// `rows`: (count, k); `out`: (count, n).
    ///
    /// # Panics
    /// When the shapes don't fit, which does not depend on what the rows hold.
    pub fn multiply(&self, rows: &[f64], out: &mut [f64]) {
        let count = out.len().checked_div(self.columns).unwrap_or(0);
        assert!(
            out.len() == count * self.columns && rows.len() == count * self.rows,
            "rows and products don't fit the matrix"
        );
        if self.rows == 0 {
            out.fill(0.0);
            return;
        }
        dispatch(Multiply {
            matrix: self,
            rows,
            out,
        });
    }
}

struct Multiply<'a> {
    matrix: &'a Packed,
    rows: &'a [f64],
    out: &'a mut [f64],
}

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, lanes: L) {
        let panels = self.matrix.columns.div_ceil(LANES);
        for start in (0..self.matrix.rows).step_by(DEPTH) {
            let mut p = 0;
            while p + WIDE <= panels {
                self.columns_of::<L, WIDE>(lanes, p, start);
                p += WIDE;
            }
            match panels - p {
                2 => self.columns_of::<L, 2>(lanes, p, start),
                1 => self.columns_of::<L, 1>(lanes, p, start),
                _ => {}
            }
        }
    }
}

impl Multiply<'_> {
    /// Adds what rows `start` and after of the matrix give in the J panels from `first` on.
    #[inline(always)]
    fn columns_of<L: Lanes, const J: usize>(&mut self, lanes: L, first: usize, start: usize) {
        let (k, n) = (self.matrix.rows, self.matrix.columns);
        let depth = DEPTH.min(k - start);
        let panels: [&[[f64; LANES]]; J] =
            std::array::from_fn(|j| &self.matrix.panels[(first + j) * k + start..][..depth]);
        let all = self
            .rows
            .chunks(ROWS * k)
            .zip(self.out.chunks_mut(ROWS * n));
        for (rows, out) in all {
            group(lanes, rows, out, [k, n], [start, first], panels);
        }
    }
}

/// Up to [`ROWS`] rows and J panels. Each sum takes up one product after the other, whatever J and the number of
/// rows are; where rows are missing the last one is taken once more.
#[inline(always)]
fn group<L: Lanes, const J: usize>(
    lanes: L,
    rows: &[f64],
    out: &mut [f64],
    [k, n]: [usize; 2],
    [start, first]: [usize; 2],
    panels: [&[[f64; LANES]]; J],
) {
    let count = out.len() / n;
    let zero = lanes.splat(0.0);
    let mut sums = [[zero; J]; ROWS];
    if start > 0 {
        for (r, sums) in sums.iter_mut().enumerate().take(count) {
            for (j, sum) in sums.iter_mut().enumerate() {
                let from = &out[r * n + (first + j) * LANES..(r + 1) * n];
                *sum = lanes.doubles(&zeros_after(from));
            }
        }
    }
    let depth = panels
        .iter()
        .fold(usize::MAX, |d, panel| d.min(panel.len()));
    let mut entries: [&[f64]; ROWS] = [&[]; ROWS];
    for (r, entries) in entries.iter_mut().enumerate() {
        *entries = &rows[r.min(count - 1) * k + start..][..depth];
    }
    let [r0, r1, r2, r3, r4, r5, r6, r7] = entries;
    // One by one, not in a loop over an array: they have to stay in registers.
    let [
        mut s0,
        mut s1,
        mut s2,
        mut s3,
        mut s4,
        mut s5,
        mut s6,
        mut s7,
    ] = sums;
    let panels = panels.map(|panel| &panel[..depth]);
    for i in 0..depth {
        let mut columns = [zero; J];
        for j in 0..J {
            columns[j] = lanes.doubles(&panels[j][i]);
        }
        s0 = lanes.add_multiples(r0[i], columns, s0);
        s1 = lanes.add_multiples(r1[i], columns, s1);
        s2 = lanes.add_multiples(r2[i], columns, s2);
        s3 = lanes.add_multiples(r3[i], columns, s3);
        s4 = lanes.add_multiples(r4[i], columns, s4);
        s5 = lanes.add_multiples(r5[i], columns, s5);
        s6 = lanes.add_multiples(r6[i], columns, s6);
        s7 = lanes.add_multiples(r7[i], columns, s7);
    }
    let sums = [s0, s1, s2, s3, s4, s5, s6, s7];
    for (r, sums) in sums.iter().enumerate().take(count) {
        for (j, &sum) in sums.iter().enumerate() {
            let to = &mut out[r * n + (first + j) * LANES..(r + 1) * n];
            for (to, x) in to.iter_mut().zip(lanes.to_doubles(sum)) {
                *to = x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_lanes::{Width, each_width};

    fn entry(seed: usize) -> f64 {
        ((seed * 7919 + 13) % 1009) as f64 / 64.0 - 7.5
    }

    /// Small multiples of 2^-6: all sums are exact.
    #[test]
    fn products_agree_with_exact_integers() {
        for (count, k, n) in [
            (1, 1, 1),
            (9, 300, 50),
            (16, 128, 24),
            (7, 129, 10),
            (3, 5, 17),
            (0, 4, 3),
        ] {
            let matrix = Packed::new(k, n, |i, j| entry(i * n + j));
            let rows: Vec<f64> = (0..count * k).map(|i| entry(i + 5)).collect();
            let mut out = vec![f64::NAN; count * n];
            matrix.multiply(&rows, &mut out);
            for i in 0..count {
                for j in 0..n {
                    let exact: i64 = (0..k)
                        .map(|l| (rows[i * k + l] * 64.0) as i64 * (entry(l * n + j) * 64.0) as i64)
                        .sum();
                    assert_eq!(out[i * n + j], exact as f64 / 4096.0);
                }
            }
        }
    }

    /// Rows with long mantissas, alone and among others at every place: the same bits; and a NaN stays in its row.
    #[test]
    fn a_row_of_the_result_depends_on_its_row_alone() {
        let (k, n) = (261, 43);
        let matrix = Packed::new(k, n, |i, j| ((i * 31 + j * 17) as f64).sin());
        let rows: Vec<f64> = (0..21 * k).map(|i| (i as f64 * 0.37).cos()).collect();
        let product = |rows: &[f64]| {
            let mut out = vec![0.0; rows.len() / k * n];
            matrix.multiply(rows, &mut out);
            out
        };
        let together = product(&rows);
        for i in 0..21 {
            let alone = product(&rows[i * k..][..k]);
            assert_eq!(alone, together[i * n..][..n]);
        }
        for bad in [f64::NAN, f64::INFINITY] {
            for place in [0, 7, 8, 20] {
                let mut other = rows.clone();
                other[place * k] = bad;
                for (i, (a, b)) in product(&other)
                    .chunks(n)
                    .zip(together.chunks(n))
                    .enumerate()
                {
                    assert_eq!(a == b, i != place);
                }
            }
        }
    }

    #[test]
    fn all_fused_widths_give_the_same_bits() {
        let (count, k, n) = (11, 140, 37);
        let matrix = Packed::new(k, n, |i, j| ((i * 31 + j * 17) as f64).sin());
        let rows: Vec<f64> = (0..count * k).map(|i| (i as f64 * 0.37).cos()).collect();
        struct Run<'a>(&'a Packed, &'a [f64], usize);
        impl Kernel for Run<'_> {
            type Output = Vec<f64>;
            #[inline(always)]
            fn run<L: Lanes>(self, lanes: L) -> Vec<f64> {
                let mut out = vec![0.0; self.2];
                let (matrix, rows) = (self.0, self.1);
                Multiply {
                    matrix,
                    rows,
                    out: &mut out,
                }
                .run(lanes);
                out
            }
        }
        let fused = Width::Fused.run(Run(&matrix, &rows, count * n)).unwrap();
        for (width, found) in each_width(|| Run(&matrix, &rows, count * n)) {
            if width != Width::Plain {
                assert_eq!(found, fused, "{width:?}");
            }
        }
    }
}
