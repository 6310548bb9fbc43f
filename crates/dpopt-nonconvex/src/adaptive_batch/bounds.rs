//! Tails of means over unread records, and the fewest records for which one is short enough.

/// What a mean over `m` records of numbers in [-radius, radius], with normal noise added, is above its expectation with probability at most
/// e^-log: sqrt(2 log (radius^2/m + std^2)), by Hoeffding's lemma.
pub(super) fn hoeffding(log: f64, radius: f64, m: f64, std: f64) -> f64 {
    (2.0 * log * (radius * radius / m + std * std)).sqrt()
}

/// The t with t^2 = 2 log (variance + range t/3): Bernstein's tail, of numbers, of martingales in a Hilbert space (Pinelis 1994, Theorem 3.4,
/// with a 2 before the exponential) and of the largest eigenvalue of a sum of matrices (Tropp 2012, with a d).
pub(crate) fn bernstein(log: f64, variance: f64, range: f64) -> f64 {
    let half = range * log / 3.0;
    half + (half * half + 2.0 * log * variance).sqrt()
}

/// More records than that are no number of records.
const MOST: f64 = 1e15;

/// The fewest records, to within a part in 2^30, for which a margin that falls with them is at most `target`; none where there are none.
pub(crate) fn fewest(target: f64, margin: impl Fn(f64) -> f64) -> Option<f64> {
    let (mut low, mut high) = (1.0f64, MOST);
    // NaN is no margin.
    if !(margin(high) <= target) {
        return None;
    }
    if margin(low) <= target {
        return Some(low);
    }
    for _ in 0..36 {
        let middle = (low * high).sqrt();
        if margin(middle) <= target {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high.ceil())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_solve_their_equations() {
        for (log, variance, range) in [(3.0, 0.2, 0.01), (10.0, 1e-6, 1.0), (0.5, 4.0, 0.0)] {
            let t = bernstein(log, variance, range);
            let right = 2.0 * log * (variance + range * t / 3.0);
            assert!((t * t / right - 1.0).abs() < 1e-12);
        }
        // sqrt(2 * 2 * (9/4 + 4)) = 5.
        assert!((hoeffding(2.0, 3.0, 4.0, 2.0) - 5.0).abs() < 1e-15);
    }

    #[test]
    fn the_fewest_records_are_the_fewest() {
        for records in [1.0, 2.0, 17.0, 1e6, 1e9] {
            // 1/sqrt(m) <= 1/sqrt(records), a hair more.
            let found = fewest(1.0 / (records - 1e-3f64).sqrt(), |m| 1.0 / m.sqrt()).unwrap();
            assert!((found / records - 1.0).abs() < 1e-5, "{records} {found}");
        }
        assert_eq!(fewest(0.0, |m| 1.0 / m), None);
        assert_eq!(fewest(1.0, |_| f64::NAN), None);
    }
}
