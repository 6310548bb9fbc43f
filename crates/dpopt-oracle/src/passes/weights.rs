//! The weights of a weighted average of iterates, and what one record can do to it.

/// theta_i = 1/S_i with S_i = (1 - a) S_{i-1} + 1: the weight of the i-th of m points in the running average
/// avg += theta_i (w_i - avg), which makes the weights of all points proportional to (1 - a)^-i. The power itself,
/// which overflows, is never formed.
pub(super) fn shares(decay: f64, points: u64) -> Vec<f64> {
    let mut total = 0.0;
    (0..points)
        .map(|_| {
            total = total * (1.0 - decay) + 1.0;
            1.0 / total
        })
        .collect()
}

/// How far the average moves when one iterate is moved by 1 and every later step shrinks the distance by
/// 1 - a: the largest, over the position of the record, of the sum over i >= r of p_i (1 - a)^(i - r), with p the
/// weights that `shares` **really** gives, rounded up.
///
/// All terms are positive, so that the relative error is below 4 roundings for each of the m steps.
pub(super) fn influence(decay: f64, shares: &[f64]) -> f64 {
    let keep = 1.0 - decay;
    let (mut later, mut tail, mut largest) = (1.0f64, 0.0f64, 0.0f64);
    for theta in shares.iter().rev() {
        tail = theta * later + keep * tail;
        largest = largest.max(tail);
        later *= 1.0 - theta;
    }
    largest * (1.0 + 16.0 * (shares.len() as f64 + 1.0) * f64::EPSILON)
}

/// The same in closed form, for planners: the largest over k = 1..=m of k q^(k-1) / (1 + q + ... + q^(m-1)), with
/// q = 1 - a.
///
/// k is the number of iterates that the record reaches; k = m is the first record. (`faster-rates-stationary`,
/// section 2.3.)
#[must_use]
pub fn pass_influence(decay: f64, records: u64) -> f64 {
    let m = records.max(1) as f64;
    // Without a regulariser the first record moves all iterates alike; where a step forgets all before it, the last one is
    // the whole average.
    if decay <= 0.0 || decay >= 1.0 {
        return 1.0;
    }
    let log = (-decay).ln_1p();
    let total = -(m * log).exp_m1() / decay;
    let of = |k: f64| k * ((k - 1.0) * log).exp() / total;
    // k q^k is largest at k = -1/ln q.
    let top = (-1.0 / log).clamp(1.0, m);
    of(top.floor()).max(of(top.ceil().min(m)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, term by term, from powers.
    fn naive(decay: f64, m: u64) -> f64 {
        let q: f64 = 1.0 - decay;
        let total: f64 = (0..m).map(|i| q.powi(i as i32)).sum();
        (0..m)
            .map(|j| (m - j) as f64 * q.powi((m - j - 1) as i32) / total)
            .fold(0.0, f64::max)
    }

    #[test]
    fn the_closed_form_is_the_definition() {
        for m in [1, 2, 3, 10, 57, 400] {
            for decay in [1e-9, 1e-3, 0.02, 0.3, 0.9] {
                let (fast, slow) = (pass_influence(decay, m), naive(decay, m));
                assert!(
                    (fast / slow - 1.0).abs() < 1e-6,
                    "{m} {decay}: {fast} {slow}"
                );
                let real = influence(decay, &shares(decay, m));
                assert!(real >= slow * (1.0 - 1e-12) && real < slow * (1.0 + 1e-9));
            }
        }
    }

    /// A single record is the last one too: leaving out k = m would state a sensitivity of zero.
    #[test]
    fn a_batch_of_one_has_full_influence() {
        assert_eq!(pass_influence(0.1, 1), 1.0);
        for decay in [0.0, 1.0, 1.0 - 1e-16, 1e-300] {
            for m in [1, 7] {
                assert!(
                    (pass_influence(decay, m) - 1.0).abs() < 1e-12,
                    "{decay} {m}"
                );
            }
        }
        assert!(influence(0.1, &shares(0.1, 1)) >= 1.0);
    }

    /// Known values: 0.370 at m = 1000 with a m = 2 ln n in the first phase, and towards 1 in
    /// later ones.
    #[test]
    fn the_share_of_the_plain_bound_is_as_published() {
        // n = 2000: phase one has m = 1000 and eta M m = 2 ln n; each later one an eighth of that.
        let first = 2.0 * 2000f64.ln();
        for (phase, expected, tolerance) in [
            (0, 0.370, 0.002),
            (1, 0.43, 0.01),
            (2, 0.89, 0.01),
            (3, 0.985, 0.005),
        ] {
            let m = 1000 >> phase;
            let decay = first / 8f64.powi(phase) / f64::from(m);
            let measured = pass_influence(decay, u64::from(m as u32));
            assert!(
                (measured - expected).abs() < tolerance,
                "{phase}: {measured}"
            );
        }
    }

    #[test]
    fn the_weighted_average_is_the_naive_one_and_stays_finite() {
        let points: [f64; 6] = [1.0, -2.0, 0.5, 4.0, 0.25, 3.0];
        let decay: f64 = 0.2;
        let weights: Vec<f64> = (1..=6).map(|i| (1.0 - decay).powi(-i)).collect();
        let naive = points.iter().zip(&weights).map(|(x, w)| x * w).sum::<f64>()
            / weights.iter().sum::<f64>();
        let mut average = 0.0;
        for (x, theta) in points.iter().zip(shares(decay, 6)) {
            average += theta * (x - average);
        }
        assert!((average - naive).abs() < 1e-14);
        // (1 - a)^-m has 45757 digits here.
        let last = shares(0.1, 1_000_000).pop().unwrap();
        assert!((last - 0.1).abs() < 1e-12);
    }
}
