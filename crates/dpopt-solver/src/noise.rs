//! Noise of recursive estimates: how long it may be, and how a budget is split between anchors and variations.

/// t with P(chi_d > t) <= failure for the length of a vector of `dim` standard normal numbers.
///
/// # Source
/// Chernoff: P(chi_d^2 > u d) <= exp(-(d/2)(u - 1 - ln u)) for u > 1.
#[must_use]
pub fn chi_reach(dim: f64, failure: f64) -> f64 {
    if dim == 0.0 {
        return 0.0;
    }
    let needed = 2.0 * (1.0 / failure).ln() / dim;
    let short = |u: f64| u - 1.0 - u.ln() < needed;
    let mut high = 2.0;
    while short(high) {
        high *= 2.0;
    }
    let mut low = 1.0;
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if short(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    (high * dim).sqrt()
}

/// Multipliers of anchors and variations of which so many are released, such that A z_v^2 + B z_u^2 is `variance`, and the least squared mu that
/// this costs.
///
/// # Formula
/// N_v/z_v^2 + N_u/z_u^2 is least at z_v^2 = V sqrt(N_v/A)/c, z_u^2 = V sqrt(N_u/B)/c with c = sqrt(A N_v) + sqrt(B N_u), where it is c^2/V.
#[derive(Debug, Clone, Copy)]
pub struct Split {
    /// z_v.
    pub anchor: f64,
    /// z_u.
    pub variation: f64,
    /// Squared mu.
    pub cost: f64,
}

impl Split {
    /// A and N_v, B and N_u, V.
    #[must_use]
    pub fn new((a, anchors): (f64, f64), (b, variations): (f64, f64), variance: f64) -> Self {
        let (roots, other) = ((a * anchors).sqrt(), (b * variations).sqrt());
        let sum = roots + other;
        let anchor = (variance * (anchors / a).sqrt() / sum).sqrt();
        Self {
            anchor,
            variation: if b * variations > 0.0 {
                (variance * (variations / b).sqrt() / sum).sqrt()
            } else {
                anchor
            },
            cost: sum * sum / variance,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P(chi_1 > 1.96) = 0.05, P(chi_2 > t) = exp(-t^2/2), P(chi_10^2 > 18.307) = 0.05: never below, and not far above.
    #[test]
    fn lengths_of_normal_vectors() {
        // Chernoff's bound has the right exponent and not the factor before it, which counts most in few dimensions.
        for (dim, failure, known, most) in [
            (1.0, 0.05, 1.959_964, 1.6),
            (2.0, 1e-5, (2.0 * 1e5f64.ln()).sqrt(), 1.2),
            (10.0, 0.05, 18.307_04f64.sqrt(), 1.2),
            (100.0, 0.05, 124.342_1f64.sqrt(), 1.1),
        ] {
            let found = chi_reach(dim, failure);
            let ratio = found / known;
            assert!(ratio >= 1.0 && ratio < most, "{dim} {found} {known}");
        }
        assert_eq!(chi_reach(0.0, 0.1), 0.0);
    }

    #[test]
    fn splits_meet_their_variance_at_the_least_cost() {
        let (a, b, variance) = (0.3, 0.02, 1e-4);
        let at = Split::new((a, 7.0), (b, 90.0), variance);
        assert!((a * at.anchor.powi(2) + b * at.variation.powi(2) - variance).abs() < 1e-16);
        let cost = |v: f64, u: f64| 7.0 / (v * v) + 90.0 / (u * u);
        assert!((cost(at.anchor, at.variation) / at.cost - 1.0).abs() < 1e-12);
        for change in [0.98f64, 1.02] {
            let anchor = at.anchor * change;
            let variation = ((variance - a * anchor * anchor) / b).sqrt();
            assert!(cost(anchor, variation) > at.cost);
        }
    }
}
