//! Ratios of two noisy numbers.

use super::measured::Measured;

/// Two sums of counts x and n with Gaussian noise, and the covariance of the noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ratio {
    /// x and n.
    pub(super) of: [f64; 2],
    /// Variance of the noise of x, covariance, variance of that of n.
    pub(super) covariance: [f64; 3],
    /// How far x - theta n may be off by rounding, for theta at most 1 in size.
    pub(super) rounding: f64,
}

impl Ratio {
    /// x/(x + y), of noise of these variances and this covariance.
    pub(super) fn share([x, y]: [f64; 2], [of_x, both, of_y]: [f64; 3], rounding: f64) -> Self {
        Self {
            of: [x, x + y],
            covariance: [of_x, of_x + both, of_x + 2.0 * both + of_y],
            rounding,
        }
    }

    /// All theta in `within` with |x - theta n| <= t sqrt(v_x - 2 theta c + theta^2 v_n), from the least to the largest: where theta is the
    /// ratio of the true sums, x - theta n is the noise alone, whose deviation is known, so this holds the ratio with the probability that t
    /// has (Fieller 1954), however large the noise is. An empty set, which is such a miss, becomes the nearest point.
    pub(super) fn interval(&self, reach: f64, within: [f64; 2]) -> [f64; 2] {
        let [x, n] = self.of;
        let [vx, c, vn] = self.covariance;
        // The least deviation at any theta, so that rounding is a multiple of it.
        let least = if vn > 0.0 { vx - c * c / vn } else { vx };
        let t = reach + self.rounding / least.max(f64::MIN_POSITIVE).sqrt();
        let t2 = t * t;
        let (a, b, d) = (n * n - t2 * vn, -x * n + t2 * c, x * x - t2 * vx);
        // Slack for the rounding of these three.
        let slack = 1e-12 * (x * x + n * n + t2 * (vx + vn));
        let holds = |theta: f64| (a * theta + 2.0 * b) * theta + d <= slack;
        let root = (b * b - a * d).max(0.0).sqrt();
        // Without cancellation: the product of the roots is d/a.
        let far = -b - root.copysign(b);
        let roots = [far / a, d / far].into_iter();
        let inside = |theta: &f64| (within[0]..=within[1]).contains(theta);
        let ends = within.into_iter().chain(roots.filter(inside));
        let found = ends.filter(|theta| holds(*theta));
        let (low, high) = found.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), theta| {
            (low.min(theta), high.max(theta))
        });
        if low <= high {
            return [low, high];
        }
        let nearest = within
            .into_iter()
            .min_by(|one, other| {
                let off = |theta: f64| (a * theta + 2.0 * b) * theta + d;
                off(*one).total_cmp(&off(*other))
            })
            .unwrap_or(within[0]);
        [nearest, nearest]
    }

    /// The ratio of the noisy sums with its interval; without an estimate where n is not above 0.
    pub(super) fn measured(&self, reach: f64, within: [f64; 2]) -> Measured {
        let [x, n] = self.of;
        let released = (n > 0.0).then(|| x / n);
        Measured::new(released, self.interval(reach, within), within)
    }
}

/// All a in [0, 1] with n KL(mean, a) <= `needed`: the means of laws on [0, 1] of which n draws have this mean with more than that
/// probability (Hoeffding 1963, theorem 1).
pub(super) fn chernoff(mean: f64, records: f64, needed: f64) -> [f64; 2] {
    let term = |m: f64, a: f64| if m > 0.0 { m * (m / a).ln() } else { 0.0 };
    let far = |a: f64| records * (term(mean, a) + term(1.0 - mean, 1.0 - a)) > needed;
    let end = |mut out: f64, mut inside: f64| {
        for _ in 0..60 {
            let middle = 0.5 * (out + inside);
            if far(middle) {
                out = middle;
            } else {
                inside = middle;
            }
        }
        out
    };
    [end(0.0, mean), end(1.0, mean)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_noise_in_the_denominator_it_is_the_plain_interval() {
        let ratio = Ratio {
            of: [30.0, 100.0],
            covariance: [16.0, 0.0, 0.0],
            rounding: 0.0,
        };
        let [low, high] = ratio.interval(2.0, [0.0, 1.0]);
        assert!(
            (low - 0.22).abs() < 1e-9 && (high - 0.38).abs() < 1e-9,
            "{low} {high}"
        );
        assert_eq!(ratio.measured(2.0, [0.0, 1.0]).estimate, Some(0.3));
    }

    /// x = 3, y = 1, deviations 1, t = 1: (3 - 4a)^2 = (1 - a)^2 + a^2 is 14 a^2 - 22 a + 8 = 0, of roots 4/7 and 1.
    #[test]
    fn fieller_by_hand() {
        let ratio = Ratio::share([3.0, 1.0], [1.0, 0.0, 1.0], 0.0);
        let [low, high] = ratio.interval(1.0, [0.0, 1.0]);
        assert!(
            (low - 4.0 / 7.0).abs() < 1e-9 && (high - 1.0).abs() < 1e-9,
            "{low} {high}"
        );
    }

    #[test]
    fn nothing_seen_says_nothing() {
        for of in [[0.0, 0.0], [-1.0, 0.5]] {
            let ratio = Ratio::share(of, [1.0, 0.0, 1.0], 0.0);
            assert_eq!(ratio.interval(2.0, [0.0, 1.0]), [0.0, 1.0]);
            assert_eq!(ratio.measured(2.0, [0.0, 1.0]).estimate, None);
        }
        // Far from anything that could be: the nearest end.
        let ratio = Ratio::share([100.0, -50.0], [1.0, 0.0, 1.0], 0.0);
        assert_eq!(ratio.interval(2.0, [0.0, 1.0]), [1.0, 1.0]);
    }

    /// No success in n draws: (1 - a)^n = e^-needed.
    #[test]
    fn chernoff_in_closed_form() {
        let needed = 40f64.ln();
        let [low, high] = chernoff(0.0, 50.0, needed);
        assert_eq!(low, 0.0);
        assert!((high - (1.0 - (-needed / 50.0).exp())).abs() < 1e-12);
        let [low, high] = chernoff(1.0, 50.0, needed);
        assert!((low - (-needed / 50.0).exp()).abs() < 1e-12 && high == 1.0);
    }
}
