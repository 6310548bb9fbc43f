//! Dense factors of prefix sums from their definitions, and the privacy of a Gaussian sequence
//! from its covariance alone.

use dpopt_privacy::{Participation, PrefixKind, TunedFactor};

type Matrix = Vec<Vec<f64>>;

/// Nearly level, then falling: 1, 1, 0.875, 0.875, 0.5, 0.375, 0.25, on lines.
pub(crate) fn tuned() -> PrefixKind {
    let given = [1.0, 0.875, 0.875, 0.5, 0.25];
    PrefixKind::Tuned(TunedFactor::new(7, &given).unwrap())
}

/// (B, C) with A = B C: noise of prefix t is row t of B times unit noise, and unit noise hides
/// C x.
pub(crate) fn unit_maps(kind: PrefixKind, len: usize) -> (Matrix, Matrix) {
    match kind {
        PrefixKind::Tree => plain_tree(len),
        PrefixKind::Honaker => reduced_tree(len),
        PrefixKind::Independent => toeplitz(len, 1),
        PrefixKind::Toeplitz => toeplitz(len, len),
        PrefixKind::Banded { band } => toeplitz(len, band as usize),
        PrefixKind::Tuned(factor) => of_column(len, factor.coefficients()),
        other => panic!("no dense form of {other}"),
    }
}

fn toeplitz(len: usize, band: usize) -> (Matrix, Matrix) {
    let mut column = vec![1.0; len];
    for k in 1..len {
        column[k] = column[k - 1] * (2 * k - 1) as f64 / (2 * k) as f64;
    }
    column.iter_mut().skip(band).for_each(|c| *c = 0.0);
    of_column(len, column)
}

/// B = A C^-1 for the Toeplitz matrix of this column.
fn of_column(len: usize, mut column: Vec<f64>) -> (Matrix, Matrix) {
    column.resize(len, 0.0);
    // B C = A, column by column of the Toeplitz matrices.
    let mut b = vec![0.0; len];
    for m in 0..len {
        b[m] = 1.0 - (0..m).map(|j| b[j] * column[m - j]).sum::<f64>();
    }
    let dense = |first: &[f64]| {
        (0..len)
            .map(|t| {
                (0..len)
                    .map(|j| if j <= t { first[t - j] } else { 0.0 })
                    .collect()
            })
            .collect()
    };
    (dense(&b), dense(&column))
}

/// All dyadic blocks inside the steps, as (start, size).
fn blocks(len: usize) -> Vec<(usize, usize)> {
    let sizes = (0..).map(|h| 1 << h).take_while(|&size| size <= len);
    sizes
        .flat_map(|size| (0..len / size).map(move |i| (i * size, size)))
        .collect()
}

fn members(blocks: &[(usize, usize)], len: usize) -> Matrix {
    blocks
        .iter()
        .map(|&(start, size)| {
            (0..len)
                .map(|j| f64::from(u8::from((start..start + size).contains(&j))))
                .collect()
        })
        .collect()
}

fn cover(t: usize) -> Vec<(usize, usize)> {
    let (mut start, mut out) = (0, Vec::new());
    for h in (0..usize::BITS).rev() {
        if t >> h & 1 == 1 {
            out.push((start, 1 << h));
            start += 1 << h;
        }
    }
    out
}

fn plain_tree(len: usize) -> (Matrix, Matrix) {
    let used: Vec<_> = blocks(len)
        .into_iter()
        .filter(|&(start, size)| (start / size).is_multiple_of(2))
        .collect();
    let b = (1..=len)
        .map(|t| {
            let cover = cover(t);
            used.iter()
                .map(|node| f64::from(u8::from(cover.contains(node))))
                .collect()
        })
        .collect();
    (b, members(&used, len))
}

fn reduced_tree(len: usize) -> (Matrix, Matrix) {
    let all = blocks(len);
    // Weights of all releases in the estimate of one block: least squares from below.
    fn estimate(all: &[(usize, usize)], (start, size): (usize, usize)) -> (Vec<f64>, f64) {
        let own = all.iter().position(|&node| node == (start, size)).unwrap();
        let mut weights = vec![0.0; all.len()];
        if size == 1 {
            weights[own] = 1.0;
            return (weights, 1.0);
        }
        let half = size / 2;
        let (left, variance) = estimate(all, (start, half));
        let (right, _) = estimate(all, (start + half, half));
        // Inverse-variance mean of 1 and 2·variance.
        let weight = 2.0 * variance / (1.0 + 2.0 * variance);
        for (w, (l, r)) in weights.iter_mut().zip(left.iter().zip(&right)) {
            *w = (1.0 - weight) * (l + r);
        }
        weights[own] = weight;
        (weights, weight)
    }
    let b = (1..=len)
        .map(|t| {
            let mut row = vec![0.0; all.len()];
            for node in cover(t) {
                for (sum, w) in row.iter_mut().zip(estimate(&all, node).0) {
                    *sum += w;
                }
            }
            row
        })
        .collect();
    (b, members(&all, len))
}

/// B Bᵀ.
pub(crate) fn covariance(b: &[Vec<f64>]) -> Matrix {
    b.iter()
        .map(|x| {
            b.iter()
                .map(|y| x.iter().zip(y).map(|(x, y)| x * y).sum())
                .collect()
        })
        .collect()
}

/// All records that take part with weight 1 as `participation` allows.
pub(crate) fn records(len: usize, participation: Participation) -> Vec<Vec<f64>> {
    let (most, apart) = match participation {
        Participation::Single => (1, len),
        Participation::Every => (len, 1),
        Participation::Repeated { most, apart } => (most as usize, apart as usize),
        other => panic!("no records for {other:?}"),
    };
    (1_u32..1 << len)
        .filter(|pattern| {
            let at: Vec<usize> = (0..len).filter(|j| pattern >> j & 1 == 1).collect();
            at.len() <= most && at.windows(2).all(|pair| pair[1] - pair[0] >= apart)
        })
        .map(|pattern| (0..len).map(|j| f64::from(pattern >> j & 1)).collect())
        .collect()
}

/// mu² of releasing A x with Gaussian noise of this covariance: (A x)ᵀ Σ⁻¹ (A x); nothing where
/// some direction has no noise.
pub(crate) fn squared_mu(covariance: &[Vec<f64>], record: &[f64]) -> Option<f64> {
    let mut total = 0.0;
    let prefix: Vec<f64> = record
        .iter()
        .map(|x| {
            total += x;
            total
        })
        .collect();
    let solution = solve(covariance, &prefix)?;
    Some(solution.iter().zip(&prefix).map(|(a, b)| a * b).sum())
}

/// Cholesky factor of a covariance; nothing where it is singular.
pub(crate) fn cholesky(covariance: &[Vec<f64>]) -> Option<Matrix> {
    let n = covariance.len();
    let mut l = vec![vec![0.0; n]; n];
    for i in 0..n {
        for j in 0..=i {
            let known: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            let rest = covariance[i][j] - known;
            if i == j {
                if rest <= 1e-9 * covariance[i][i] || rest.is_nan() {
                    return None;
                }
                l[i][i] = rest.sqrt();
            } else {
                l[i][j] = rest / l[j][j];
            }
        }
    }
    Some(l)
}

/// L⁻¹ x.
pub(crate) fn whiten(l: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = Vec::new();
    for (row, x) in l.iter().zip(x) {
        let known: f64 = row.iter().zip(&out).map(|(l, y)| l * y).sum();
        out.push((x - known) / row[out.len()]);
    }
    out
}

/// Σ⁻¹ x.
pub(crate) fn solve(covariance: &[Vec<f64>], x: &[f64]) -> Option<Vec<f64>> {
    let l = cholesky(covariance)?;
    let mut y = whiten(&l, x);
    for i in (0..y.len()).rev() {
        let known: f64 = (i + 1..y.len()).map(|k| l[k][i] * y[k]).sum();
        y[i] = (y[i] - known) / l[i][i];
    }
    Some(y)
}
