//! How long a Gaussian vector can be.

/// Largest dimension at which the exact quantile is computed; beyond it the closed bound is within 1e-3 of it at any
/// probability that a plan asks for, and rounding in the logarithms would show.
const MOST_EXACT: usize = 10_000_000;

/// q with P(||N(0, I_d)|| >= q) <= e^-l, up to rounding the least one: the quantile of the chi distribution.
///
/// # Formula
/// P(||g|| >= y) = Q(d/2, y^2/2), the regularised incomplete gamma function, by its continued fraction (DLMF 8.9.2). The
/// density y^(d-1) e^(-y^2/2) is log-concave, so the survival function is, and h = -ln Q is convex and increasing in y: Newton's
/// steps for h(y) = l that start at or above the root come down to it and never pass it, so that stopping early is safe.
/// They start at [`closed`].
///
/// Below the quantile of about one half (where the fraction converges slowly) sqrt(d + 2) is returned, which is larger.
pub(crate) fn noise_reach(dim: usize, l: f64) -> f64 {
    let top = closed(dim, l);
    let least = (dim as f64 + 2.0).sqrt();
    if dim > MOST_EXACT || top <= least {
        return top.max(least);
    }
    let (survival, _) = minus_log_survival(dim, least);
    if survival >= l {
        return least;
    }
    let mut y = top;
    for _ in 0..50 {
        let (h, slope) = minus_log_survival(dim, y);
        let next = y - (h - l) / slope;
        // Also where a rounding error has passed the root.
        if !(next < y * (1.0 - 1e-14)) {
            break;
        }
        y = next.max(least);
    }
    y * (1.0 + 1e-9)
}

/// sqrt(d + 2 sqrt(d l) + 2 l) (Laurent and Massart 2000, Lemma 1): never below [`noise_reach`], and quick.
pub(crate) fn closed(dim: usize, l: f64) -> f64 {
    let d = dim as f64;
    (d + 2.0 * (d * l).sqrt() + 2.0 * l).sqrt()
}

/// -ln P(||N(0, I_d)|| >= y) and its derivative, for y^2 >= d + 2.
fn minus_log_survival(dim: usize, y: f64) -> (f64, f64) {
    let (a, x) = (0.5 * dim as f64, 0.5 * y * y);
    let fraction = fraction(a, x);
    // Gamma(a, x) = e^-x x^a fraction, and the density of the norm over Q is (2/y)/fraction.
    let log = a * x.ln() - x - libm::lgamma(a) + fraction.ln();
    (-log, 2.0 / (y * fraction))
}

/// The continued fraction of Gamma(a, x) e^x x^-a, by Lentz's method.
fn fraction(a: f64, x: f64) -> f64 {
    let mut b = x + 1.0 - a;
    let mut c = f64::MAX;
    let mut d = b.recip();
    let mut product = d;
    for i in 1..100_000 {
        let i = f64::from(i);
        let numerator = -i * (i - a);
        b += 2.0;
        d = (numerator * d + b).recip();
        c = b + numerator / c;
        product *= c * d;
        if (c * d - 1.0).abs() < 1e-15 {
            break;
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upper quantiles of chi squared from printed tables.
    #[test]
    fn quantiles_agree_with_tables() {
        for (dim, p, chi_squared) in [
            (1, 0.05, 3.841_459),
            (1, 0.001, 10.827_566),
            (2, 0.01, 9.210_340),
            (5, 0.005, 16.749_602),
            (10, 0.05, 18.307_038),
            (20, 0.001, 45.314_747),
            (50, 0.01, 76.153_891),
            (100, 0.005, 140.169_489),
        ] {
            let q = noise_reach(dim, -f64::ln(p));
            assert!(
                (q * q / chi_squared - 1.0).abs() < 1e-7,
                "{dim} {p} {}",
                q * q
            );
        }
    }

    /// With two coordinates P(||g|| >= q) = e^(-q^2/2).
    #[test]
    fn two_dimensions_are_exact_far_out() {
        for l in [2.1, 3.0, 30.0, 300.0] {
            let q = noise_reach(2, l);
            assert!(q * q >= 2.0 * l && q * q <= 2.0 * l * (1.0 + 1e-8), "{l}");
        }
    }

    #[test]
    fn it_grows_and_stays_below_the_closed_bound() {
        for dim in [1, 2, 3, 20, 1000, 1_000_000] {
            let mut before = 0.0;
            for l in [0.01, 0.5, 1.0, 2.0, 5.0, 10.0, 40.0, 400.0] {
                let q = noise_reach(dim, l);
                assert!(q >= before && q.is_finite(), "{dim} {l} {q}");
                assert!(q <= closed(dim, l).max((dim as f64 + 2.0).sqrt()) * (1.0 + 2e-9));
                before = q;
            }
        }
        // Where dimensions are many the norm is near sqrt(d): Wilson and Hilferty's normal approximation of the cube
        // root is good to 1e-5 there. z(0.001) = 3.090232.
        let d = 1e6f64;
        let approximate =
            d * (1.0 - 2.0 / (9.0 * d) + 3.090_232 * (2.0 / (9.0 * d)).sqrt()).powi(3);
        let exact = noise_reach(1_000_000, 1000f64.ln()).powi(2);
        assert!((exact / approximate - 1.0).abs() < 1e-6);
        assert!(noise_reach(20_000_000, 7.0) >= 20_000_000f64.sqrt());
    }
}
