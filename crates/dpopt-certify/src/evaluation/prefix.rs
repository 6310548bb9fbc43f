//! Counts of bins from released sums of their prefixes: each sum of neighbouring bins has the noise of a few counts.

/// The square root C of the matrix of prefix sums, a lower triangular Toeplitz matrix.
///
/// # Formula
/// C_ij = a_(i-j)/r, a_k = (2k choose k)/4^k, the coefficients of (1 - x)^(-1/2), and r the length of its first column, which is the longest.
/// Released is C x + N(0, s^2 I) with x the counts of bins. A prefix sum is r times a row of C of what is released, so its noise has the
/// deviation s (sum of a_k^2) at most, about s (1 + ln(B)/pi) for B bins, where counts with noise of their own would have s sqrt(B).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Prefix {
    /// a_k/r: what a record of bin 0 adds to sum k.
    column: Vec<f64>,
    /// r d_k, d_k the coefficients of (1 - x)^(1/2).
    inverse: Vec<f64>,
}

impl Prefix {
    pub(super) fn new(bins: usize) -> Self {
        let coefficients = |first: f64| {
            let mut next = 1.0;
            let all = (1..).map(move |k| {
                let k = f64::from(k);
                let now = next;
                next *= (k - 1.0 + first) / k;
                now
            });
            all.take(bins).collect::<Vec<f64>>()
        };
        let (root, inverse) = (coefficients(0.5), coefficients(-0.5));
        // No contribution is longer than 1, whatever its roundings.
        let longest = root.iter().map(|a| a * a).sum::<f64>().sqrt() * (1.0 + 1e-12);
        Self {
            column: root.iter().map(|a| a / longest).collect(),
            inverse: inverse.iter().map(|d| longest * d).collect(),
        }
    }

    /// The contribution of a record in the first bin.
    pub(super) fn column(&self) -> &[f64] {
        &self.column
    }

    /// The counts: C^-1 y.
    pub(super) fn counts(&self, released: &[f64]) -> Vec<f64> {
        let upto = |i: usize| {
            let pairs = self.inverse[..=i].iter().zip(released[..=i].iter().rev());
            pairs.map(|(d, y)| d * y).sum()
        };
        (0..released.len().min(self.inverse.len()))
            .map(upto)
            .collect()
    }

    /// The weights of what is released in a sum of counts with these weights: C^-T w.
    pub(super) fn weights(&self, of_counts: &[f64]) -> Vec<f64> {
        let from = |i: usize| {
            let pairs = self.inverse.iter().zip(&of_counts[i..]);
            pairs.map(|(d, w)| d * w).sum()
        };
        (0..of_counts.len()).map(from).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By the definition: C^2 is the matrix of prefix sums over r^2, C^-1 C x is x, and w . x is (C^-T w) . C x.
    #[test]
    fn it_is_the_root_of_the_prefix_sums() {
        let bins = 9;
        let prefix = Prefix::new(bins);
        let of = |i: usize, j: usize| if i < j { 0.0 } else { prefix.column[i - j] };
        let length = (0..bins).map(|i| of(i, 0).powi(2)).sum::<f64>();
        assert!(length <= 1.0 && length > 1.0 - 1e-11, "{length}");
        let scale = (0..bins).map(|k| of(k, 0)).next().unwrap().powi(2);
        for i in 0..bins {
            for j in 0..bins {
                let square: f64 = (0..bins).map(|k| of(i, k) * of(k, j)).sum();
                let wanted = if i < j { 0.0 } else { scale };
                assert!((square - wanted).abs() < 1e-12, "{i} {j} {square}");
            }
        }
        let x: Vec<f64> = (0..bins).map(|i| ((7 * i * i + 3) % 11) as f64).collect();
        let w: Vec<f64> = (0..bins).map(|i| ((5 * i + 2) % 7) as f64 - 3.0).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let y: Vec<f64> = (0..bins)
            .map(|i| (0..bins).map(|j| of(i, j) * x[j]).sum())
            .collect();
        for (found, wanted) in prefix.counts(&y).iter().zip(&x) {
            assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
        }
        assert!((dot(&prefix.weights(&w), &y) - dot(&w, &x)).abs() < 1e-9);
    }
}
