//! The area under the ROC curve from noisy sums of prefixes of bins.

use dpopt_solver::normal_reach;

use super::measured::Measured;
use super::prefix::Prefix;

/// Releases of the two classes in bins of increasing score: C p and C q, each with independent
/// Gaussian noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noisy<'a> {
    pub(super) prefix: &'a Prefix,
    /// Positives and negatives.
    pub(super) released: [&'a [f64]; 2],
    /// Deviation of the noise of a number.
    pub(super) deviation: f64,
    /// How far the released vector of a class is off beside it.
    pub(super) rounding: f64,
}

/// Steps of the search for an end.
const STEPS: usize = 500;
/// The part of the failure that goes to the length of what the positives' own noise is multiplied with: chosen, as it hardly matters.
const LENGTH: f64 = 0.1;

impl Noisy<'_> {
    /// The area, ties of a bin counting half; none where a class is not above 0.
    fn area(&self) -> Option<f64> {
        let [p, q] = self.released.map(|of| self.prefix.counts(of));
        let (mut below, mut wins) = (0.0, 0.0);
        for (p, q) in p.iter().zip(&q) {
            wins += p * (below + 0.5 * q);
            below += q;
        }
        let all: f64 = p.iter().sum();
        (all > 0.0 && below > 0.0).then(|| wins / (all * below))
    }

    /// Where the area is, whatever the order within bins, but with probability `failure`.
    ///
    /// # Formula
    /// `docs/privacy/certificates.md`: the form D(theta) = p^T (L - theta 1 1^T) q is 0 at the area, L without ties for the lower end and with them for
    /// the upper one; of noisy sums it is further off than its bound with probability failure/2 at most.
    pub(super) fn measured(&self, failure: f64) -> Measured {
        let grid = |k: usize| k as f64 / STEPS as f64;
        let ends = [false, true].map(|ties| Form::new(self, ties, 0.5 * failure));
        let low = (0..=STEPS).map(grid).find(|theta| {
            let (form, bound) = ends[0].at(*theta);
            form <= bound
        });
        let high = (0..=STEPS).rev().map(grid).find(|theta| {
            let (form, bound) = ends[1].at(*theta);
            form >= -bound
        });
        // One step outwards: what lies between two that are excluded.
        let step = grid(1);
        let (low, high) = (
            (low.unwrap_or(1.0) - step).max(0.0),
            (high.unwrap_or(0.0) + step).min(1.0),
        );
        // They may pass each other where the counts are no counts.
        let ends = [low.min(high), high.max(low)];
        Measured::new(self.area(), ends, [0.0, 1.0])
    }
}

/// D and its bound as functions of theta, M = K - theta a a^T on the released sums, K = C^-T L C^-1 and a = C^-T 1.
struct Form {
    /// Deviation of the noise, and how far a vector is off beside it.
    noise: [f64; 2],
    /// q* of [`reach`] and t = ln(1/f) of the length.
    reach: [f64; 2],
    /// D = form[0] - theta form[1].
    form: [f64; 2],
    /// ||M y_q||^2, ||M^T y_p||^2 and ||M||_F^2 by powers of theta.
    squares: [[f64; 3]; 3],
    /// ||M M^T||_F^2 by powers of theta.
    fourth: [f64; 5],
}

impl Form {
    fn new(of: &Noisy<'_>, ties: bool, failure: f64) -> Self {
        let bins = of.prefix.column().len();
        // L^T C^-T column by column gives L C^-1 by rows; then C^-T of its columns.
        let ones = |from: usize| {
            let weight = |j: usize| if j < from { 1.0 } else { 0.0 };
            of.prefix
                .weights(&(0..bins).map(weight).collect::<Vec<f64>>())
        };
        let rows: Vec<Vec<f64>> = (0..bins).map(|i| ones(i + usize::from(ties))).collect();
        let mut k = vec![vec![0.0; bins]; bins];
        for j in 0..bins {
            let column: Vec<f64> = rows.iter().map(|row| row[j]).collect();
            for (row, value) in k.iter_mut().zip(of.prefix.weights(&column)) {
                row[j] = value;
            }
        }
        let a = ones(bins);
        let across: Vec<Vec<f64>> = (0..bins)
            .map(|j| k.iter().map(|row| row[j]).collect())
            .collect();
        let [yp, yq] = of.released;
        let [kq, kp, ka] = [times(&k, yq), times(&across, yp), times(&k, &a)];
        let [aq, ap, aa, aka] = [dot(&a, yq), dot(&a, yp), dot(&a, &a), dot(&a, &ka)];
        // K K^T less theta (Ka a^T + a Ka^T) and theta^2 |a|^2 a a^T.
        let gram: Vec<Vec<f64>> = k
            .iter()
            .map(|row| k.iter().map(|other| dot(row, other)).collect())
            .collect();
        let whole: f64 = gram.iter().map(|row| dot(row, row)).sum();
        let (ga, kaka) = (times(&gram, &a), dot(&ka, &ka));
        let square =
            |k: &[f64], scale: f64| [dot(k, k), -2.0 * scale * dot(&a, k), scale * scale * aa];
        Self {
            noise: [of.deviation, of.rounding],
            reach: [
                reach(failure * (1.0 - LENGTH)),
                (1.0 / (failure * LENGTH)).ln(),
            ],
            form: [dot(yp, &kq), ap * aq],
            squares: [
                square(&kq, aq),
                square(&kp, ap),
                [k.iter().map(|row| dot(row, row)).sum(), -2.0 * aka, aa * aa],
            ],
            fourth: [
                whole,
                -4.0 * dot(&ga, &ka),
                2.0 * (kaka * aa + aka * aka) + 2.0 * aa * dot(&ga, &a),
                -4.0 * aa * aa * aka,
                aa.powi(4),
            ],
        }
    }

    /// D at theta, and how far it is off at most.
    fn at(&self, theta: f64) -> (f64, f64) {
        let value = |powers: &[f64]| {
            let (mut sum, mut size) = (0.0, 0.0);
            for c in powers.iter().rev() {
                (sum, size) = (sum * theta + c, size * theta + c.abs());
            }
            // Not below 0, and up by what rounding may take.
            sum.max(0.0) + 1e-12 * size
        };
        let [of_negatives, of_positives, frobenius] = self.squares.map(|powers| value(&powers));
        let fourth = value(&self.fourth).sqrt();
        let [s, off] = self.noise;
        let [q, t] = self.reach;
        let side = (2.0 * t * fourth).sqrt() * s;
        let inner =
            side * side + of_positives - s * s * frobenius + 2.0 * t.sqrt() * s * s * fourth;
        let length = side + inner.max(0.0).sqrt();
        let form = self.form[0] - theta * self.form[1];
        let (r, u) = (of_negatives.sqrt(), of_positives.sqrt());
        let rounding = off * (r + u + length + off * frobenius.sqrt());
        let slack = 1e-12 * (form.abs() + self.form[0].abs() + r + u);
        (form, q * s * length.hypot(r) + rounding + slack)
    }
}

/// q with exp(-q^2/2)/4 + P(Z > q) <= failure: the probability that x a + y b > q sqrt(x^2 + y^2) for some x, y >= 0, of a standard normal pair.
fn reach(failure: f64) -> f64 {
    let (mut low, mut high) = (0.0, failure);
    for _ in 0..60 {
        let tail = 0.5 * (low + high);
        let q = normal_reach(tail);
        match 0.25 * (-0.5 * q * q).exp() + tail <= failure {
            true => low = tail,
            false => high = tail,
        }
    }
    normal_reach(low)
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times(matrix: &[Vec<f64>], vector: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, vector)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(counts: [&[f64]; 2], deviation: f64) -> Measured {
        let prefix = Prefix::new(counts[0].len());
        let released = counts.map(|of| {
            let sum = |i: usize| (0..=i).map(|j| prefix.column()[i - j] * of[j]).sum();
            (0..of.len()).map(sum).collect::<Vec<f64>>()
        });
        let [p, q] = &released;
        let noisy = Noisy {
            prefix: &prefix,
            released: [p, q],
            deviation,
            rounding: 0.0,
        };
        noisy.measured(0.05)
    }

    /// Without noise the ends are those that the order within bins leaves open: 4 of 9 pairs are sure, 5 tied.
    #[test]
    fn without_noise_only_ties_are_open() {
        let found = measured([&[1.0, 2.0], &[2.0, 1.0]], 1e-9);
        let step = 1.01 / STEPS as f64;
        assert!((found.low - 4.0 / 9.0).abs() <= 2.0 * step, "{found:?}");
        assert!((found.high - 8.0 / 9.0).abs() <= 2.0 * step, "{found:?}");
        assert!((found.estimate.unwrap() - 6.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn an_empty_class_says_nothing() {
        for (p, q) in [([0.0, 0.0], [50.0, 50.0]), ([50.0, 50.0], [0.0, 0.0])] {
            let found = measured([&p, &q], 1.0);
            assert_eq!((found.low, found.high, found.estimate), (0.0, 1.0, None));
        }
        let found = measured([&[-3.0, 1.0], &[0.0, -2.0]], 1.0);
        assert!(found.low <= found.high);
    }

    /// P(a and b both above 0, a^2 + b^2 > q^2) = exp(-q^2/2)/4 of a standard normal pair; of 0.05 q is 2.107 (0.02715 + 0.01756 is 0.0447 at
    /// 2.107, by tables Phi(-2.107) = 0.01756), and a little more as the reach is an upper bound.
    #[test]
    fn the_reach_is_that_of_a_quarter_of_the_plane() {
        for failure in [0.05f64, 0.0225, 0.01] {
            let q = reach(failure);
            let simple = normal_reach(failure);
            assert!(q > simple && q < 1.3 * simple, "{q} {simple}");
            assert!(0.25 * (-0.5 * q * q).exp() <= failure);
        }
    }
}
