//! Confidence limits of a probability, and tails of the binomial law.
//!
//! Clopper and Pearson's limits cover the probability with at least the stated confidence, whatever it
//! is; everything that a statistical audit claims rests on them.

/// The upper Clopper-Pearson limit: P(at most `hits` of `trials` | limit) = `alpha`.
///
/// # Formula
/// The p at which I_p(hits + 1, trials - hits) = 1 - `alpha`; 1 where all trials were hits.
#[must_use]
pub fn upper_limit(hits: u64, trials: u64, alpha: f64) -> f64 {
    if hits >= trials {
        return 1.0;
    }
    let (a, b) = (hits as f64 + 1.0, (trials - hits) as f64);
    // Rounded outwards: bisection ends with neighbours.
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    while high - low > 1e-15 + 1e-13 * high {
        let middle = low.midpoint(high);
        if middle <= low || middle >= high {
            break;
        }
        if incomplete_beta(a, b, middle) >= 1.0 - alpha {
            high = middle;
        } else {
            low = middle;
        }
    }
    high
}

/// P(X >= `least`) for X binomial with `trials` trials of probability `p`.
#[must_use]
pub fn upper_tail(least: u64, trials: u64, p: f64) -> f64 {
    if least == 0 {
        1.0
    } else if least > trials {
        0.0
    } else {
        incomplete_beta(least as f64, (trials - least) as f64 + 1.0, p)
    }
}

/// P(X = `hits`) for X binomial with `trials` trials of probability `p` strictly between 0 and 1.
#[must_use]
pub fn mass(hits: u64, trials: u64, p: f64) -> f64 {
    if hits > trials {
        return 0.0;
    }
    let (k, n) = (hits as f64, trials as f64);
    let choose = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    (choose + k * p.ln() + (n - k) * (-p).ln_1p()).exp()
}

/// I_x(a, b), the regularised incomplete beta function, for positive a and b; good to about 1e-9
/// relative for parameters up to 10^6.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The continued fraction converges quickly below the mean of the law.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(a, b, x) / a
    } else {
        1.0 - front * fraction(b, a, 1.0 - x) / b
    }
}

/// The continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / away(1.0 - (a + b) * x / (a + 1.0)));
    let mut value = d;
    for m in 1..20_000_u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away(1.0 + even * d);
        c = away(1.0 + even / c);
        value *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away(1.0 + odd * d);
        c = away(1.0 + odd / c);
        let change = d * c;
        value *= change;
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

/// log Gamma(x) for x > 0: Stirling's series, after moving x above 10.
fn ln_gamma(x: f64) -> f64 {
    let mut x = x;
    let mut product = 1.0;
    while x < 10.0 {
        product *= x;
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    // Bernoulli numbers B_2k / (2k (2k - 1)).
    let series = (1.0 / 12.0
        - inverse
            * (1.0 / 360.0
                - inverse * (1.0 / 1260.0 - inverse * (1.0 / 1680.0 - inverse / 1188.0))))
        / x;
    let half_log_two_pi = 0.918_938_533_204_672_8;
    (x - 0.5) * x.ln() - x + half_log_two_pi + series - product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact by the definition: with no hits the limit is 1 - alpha^(1/n), with n - 1 of n it solves
    /// 1 - p^n = alpha.
    #[test]
    fn limits_agree_with_closed_forms() {
        for n in [1_u64, 10, 1000, 100_000] {
            for alpha in [0.05, 0.005] {
                let exact = -(f64::ln(alpha) / n as f64).exp_m1();
                assert!((upper_limit(0, n, alpha) / exact - 1.0).abs() < 1e-8, "{n}");
                let exact = (f64::ln_1p(-alpha) / n as f64).exp();
                assert!((upper_limit(n - 1, n, alpha) - exact).abs() < 1e-9, "{n}");
                assert_eq!(upper_limit(n, n, alpha), 1.0);
            }
        }
    }

    /// Sums of exact masses, for numbers of trials at which they are exact.
    #[test]
    fn tails_are_sums_of_masses() {
        for (n, p) in [(7_u64, 0.3_f64), (40, 0.731), (200, 0.05)] {
            let mut masses = vec![(1.0 - p).powi(n as i32)];
            for k in 0..n {
                let last = masses[k as usize];
                masses.push(last * (n - k) as f64 / (k + 1) as f64 * p / (1.0 - p));
            }
            for k in 0..=n {
                assert!((mass(k, n, p) - masses[k as usize]).abs() < 1e-12);
                let tail: f64 = masses[k as usize..].iter().sum();
                assert!((upper_tail(k, n, p) - tail).abs() < 1e-11, "{n} {k}");
            }
        }
    }

    /// Published: Clopper and Pearson's 95 % interval for 10 of 100 ends at 0.1762226 (two-sided).
    #[test]
    fn limits_agree_with_published_ones() {
        assert!((upper_limit(10, 100, 0.025) - 0.176_222_6).abs() < 1e-7);
    }

    /// The limit fails to cover in at most a share alpha of all experiments, whatever p is: summed
    /// exactly over all outcomes.
    #[test]
    fn the_stated_confidence_holds_for_every_probability() {
        let (n, alpha) = (60, 0.05);
        let limits: Vec<f64> = (0..=n).map(|k| upper_limit(k, n, alpha)).collect();
        for i in 1..400 {
            let p = f64::from(i) / 400.0;
            let missed: f64 = (0..=n)
                .filter(|&k| limits[k as usize] < p)
                .map(|k| mass(k, n, p))
                .sum();
            assert!(missed <= alpha + 1e-9, "{p}: {missed}");
        }
    }
}
