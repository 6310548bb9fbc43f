//! The area under the ROC curve from noisy counts of bins.

use super::measured::Measured;

/// Counts of the two classes in bins of increasing score, each with independent Gaussian noise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noisy<'a> {
    pub(super) positives: &'a [f64],
    pub(super) negatives: &'a [f64],
    /// Deviation of the noise of a count.
    pub(super) deviation: f64,
    /// How far a count is off beside it.
    pub(super) rounding: f64,
}

/// Steps of the search for an end.
const STEPS: usize = 500;
/// The part of the failure that goes to what the noise of one class does to that of the other: chosen, as it hardly matters.
const CROSSED: f64 = 0.05;

impl Noisy<'_> {
    /// The area, ties of a bin counting half; none where a class is not above 0.
    fn area(&self) -> Option<f64> {
        let (mut below, mut wins) = (0.0, 0.0);
        for (p, q) in self.positives.iter().zip(self.negatives) {
            wins += p * (below + 0.5 * q);
            below += q;
        }
        let all: f64 = self.positives.iter().sum();
        (all > 0.0 && below > 0.0).then(|| wins / (all * below))
    }

    /// Where the area is, whatever the order within bins, but with probability `failure`.
    ///
    /// # Formula
    /// `docs/privacy/evaluation.md`: the form D(theta) = p^T (L - theta 1 1^T) q is 0 at the area, L without ties for the lower end and with them for
    /// the upper one; of noisy counts it is further off than its bound with probability failure/2 at most.
    pub(super) fn measured(&self, failure: f64) -> Measured {
        let low = (0..=STEPS)
            .map(|k| k as f64 / STEPS as f64)
            .find(|theta| {
                let (form, bound) = self.form(*theta, 0.0, 0.5 * failure);
                form <= bound
            })
            .unwrap_or(1.0);
        let high = (0..=STEPS)
            .rev()
            .map(|k| k as f64 / STEPS as f64)
            .find(|theta| {
                let (form, bound) = self.form(*theta, 1.0, 0.5 * failure);
                form >= -bound
            })
            .unwrap_or(0.0);
        // One step outwards: what lies between two that are excluded.
        let step = 1.0 / STEPS as f64;
        let (low, high) = ((low - step).max(0.0), (high + step).min(1.0));
        // They may pass each other where the counts are no counts.
        let (low, high) = (low.min(high), high.max(low));
        let area = self.area().unwrap_or(0.5 * (low + high));
        let estimate = area.clamp(low, high);
        Measured {
            estimate,
            low,
            high,
        }
    }

    /// D at theta, and how far its noise reaches up or down.
    fn form(&self, theta: f64, ties: f64, failure: f64) -> (f64, f64) {
        let entry = |i: usize, j: usize| match j.cmp(&i) {
            std::cmp::Ordering::Less => 1.0 - theta,
            std::cmp::Ordering::Equal => ties - theta,
            std::cmp::Ordering::Greater => -theta,
        };
        let (p, q) = (self.positives, self.negatives);
        let count = p.len();
        let (mut form, mut mq2, mut square) = (0.0, 0.0, 0.0);
        let mut columns = vec![0.0; count];
        let (mut most, mut sums) = (0.0f64, vec![0.0; count]);
        for i in 0..count {
            let (mut row, mut sum) = (0.0, 0.0);
            for (j, q) in q.iter().enumerate() {
                let entry = entry(i, j);
                row += entry * q;
                columns[j] += entry * p[i];
                square += entry * entry;
                sum += entry.abs();
                sums[j] += entry.abs();
            }
            form += p[i] * row;
            mq2 += row * row;
            most = most.max(sum);
        }
        let (mq, mp) = (
            mq2.sqrt(),
            columns.iter().map(|c| c * c).sum::<f64>().sqrt(),
        );
        let frobenius = square.sqrt();
        // ||M||_2^2 <= ||M||_1 ||M||_inf.
        let widest = sums.into_iter().fold(0.0, f64::max);
        let operator = (most * widest).sqrt().min(frobenius);
        let s = self.deviation;
        // Two norms of M times noise, and the form of noise and noise.
        let each = failure * CROSSED / 3.0;
        let noise = s * (frobenius + (2.0 * (1.0 / each).ln()).sqrt() * operator);
        let main = dpopt_solver::normal_reach(failure * (1.0 - CROSSED));
        let crossed = dpopt_solver::normal_reach(each);
        let bound = main * s * (mq + noise).hypot(mp + noise) + crossed * s * noise;
        let off = self.rounding * (count as f64).sqrt();
        let rounding = off * (mq + mp + 2.0 * noise + off * frobenius);
        (form, bound + rounding + 1e-12 * (form.abs() + mq + mp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(positives: &'a [f64], negatives: &'a [f64], deviation: f64) -> Noisy<'a> {
        Noisy {
            positives,
            negatives,
            deviation,
            rounding: 0.0,
        }
    }

    /// Without noise the ends are those that the order within bins leaves open: 4 of 9 pairs are sure, 5 tied.
    #[test]
    fn without_noise_only_ties_are_open() {
        let noisy = of(&[1.0, 2.0], &[2.0, 1.0], 1e-9);
        let found = noisy.measured(0.05);
        let step = 1.01 / STEPS as f64;
        assert!((found.low - 4.0 / 9.0).abs() <= 2.0 * step, "{found:?}");
        assert!((found.high - 8.0 / 9.0).abs() <= 2.0 * step, "{found:?}");
        assert!((found.estimate - 6.0 / 9.0).abs() < 1e-12);
    }

    #[test]
    fn an_empty_class_says_nothing() {
        for (p, q) in [([0.0, 0.0], [50.0, 50.0]), ([50.0, 50.0], [0.0, 0.0])] {
            let found = of(&p, &q, 1.0).measured(0.05);
            assert_eq!((found.low, found.high), (0.0, 1.0));
        }
        let found = of(&[-3.0, 1.0], &[0.0, -2.0], 1.0).measured(0.05);
        assert!(found.low <= found.high);
    }
}
