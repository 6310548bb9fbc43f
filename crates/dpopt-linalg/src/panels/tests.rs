//! Products in single precision against integers, and a row's bits against the company it keeps.

use super::*;
use dpopt_lanes::{Width, each_width};

fn panels(rows: &[Vec<f32>], columns: usize) -> Panels {
    let mut out = Panels::zeros(rows.len(), columns);
    for (r, row) in rows.iter().enumerate() {
        for (to, from) in out.row_mut(r).zip(row.chunks(SINGLES)) {
            to[..from.len()].copy_from_slice(from);
        }
    }
    out
}

fn product(matrix: &PackedSingles, rows: &[Vec<f32>], columns: usize) -> Vec<Vec<f32>> {
    let mut out = Panels::zeros(rows.len(), matrix.columns());
    out.chunks_mut().fill([f32::NAN; SINGLES]);
    matrix.multiply(&panels(rows, columns), rows.len(), &mut out);
    (0..rows.len())
        .map(|r| {
            let all = out.row(r).flatten().copied();
            all.take(matrix.columns()).collect()
        })
        .collect()
}

/// Small integers: sums stay below 2^24 and are exact.
fn entry(seed: usize) -> f64 {
    ((seed * 7919 + 13) % 101) as f64 - 50.0
}

#[test]
fn products_agree_with_exact_integers() {
    for (count, k, n) in [
        (1, 1, 1),
        (9, 300, 50),
        (16, 128, 48),
        (7, 129, 10),
        (3, 5, 17),
        (0, 4, 3),
    ] {
        let entries: Vec<f64> = (0..k * n).map(entry).collect();
        let start: Vec<f64> = (0..n).map(|j| entry(j + 3)).collect();
        let rows: Vec<Vec<f32>> = (0..count)
            .map(|i| (0..k).map(|l| entry(i * k + l + 5) as f32).collect())
            .collect();
        let out = product(&PackedSingles::new(n, &entries, &start), &rows, k);
        let turned: Vec<f64> = (0..k * n).map(|i| entries[i % k * n + i / k]).collect();
        let other = product(&PackedSingles::transposed(k, &turned), &rows, k);
        for i in 0..count {
            for j in 0..n {
                let exact: i64 = (0..k)
                    .map(|l| rows[i][l] as i64 * entries[l * n + j] as i64)
                    .sum();
                assert_eq!(out[i][j] as i64, exact + start[j] as i64);
                assert_eq!(other[i][j] as i64, exact);
            }
        }
    }
}

/// Rows with long mantissas, alone and among others at every place: the same bits; and a NaN stays in its row.
#[test]
fn a_row_of_the_result_depends_on_its_row_alone() {
    let (k, n) = (261, 43);
    let entries: Vec<f64> = (0..k * n).map(|i| (i as f64 * 0.31).sin()).collect();
    let matrix = PackedSingles::new(n, &entries, &entries[..n]);
    let rows: Vec<Vec<f32>> = (0..21)
        .map(|r| (0..k).map(|i| ((r * k + i) as f32 * 0.37).cos()).collect())
        .collect();
    let together = product(&matrix, &rows, k);
    for i in 0..21 {
        assert_eq!(product(&matrix, &rows[i..=i], k)[0], together[i]);
    }
    for bad in [f32::NAN, f32::INFINITY] {
        for place in [0, 7, 8, 20] {
            let mut other = rows.clone();
            other[place][0] = bad;
            for (i, (a, b)) in product(&matrix, &other, k)
                .iter()
                .zip(&together)
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
    let entries: Vec<f64> = (0..k * n).map(|i| (i as f64 * 0.31).sin()).collect();
    let matrix = PackedSingles::new(n, &entries, &[]);
    let rows: Vec<Vec<f32>> = (0..count)
        .map(|r| (0..k).map(|i| ((r * k + i) as f32 * 0.37).cos()).collect())
        .collect();
    let rows = panels(&rows, k);
    struct Run<'a>(&'a PackedSingles, &'a Panels, usize);
    impl Kernel for Run<'_> {
        type Output = Vec<[f32; SINGLES]>;
        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> Vec<[f32; SINGLES]> {
            let mut out = Panels::zeros(self.2, self.0.columns);
            Multiply {
                matrix: self.0,
                rows: &self.1.chunks,
                out: &mut out.chunks,
                places: self.1.places,
                count: self.2,
            }
            .run(lanes);
            out.chunks
        }
    }
    let fused = Width::Fused.run(Run(&matrix, &rows, count)).unwrap();
    for (width, found) in each_width(|| Run(&matrix, &rows, count)) {
        if width != Width::Plain {
            assert_eq!(found, fused, "{width:?}");
        }
    }
}
