//! How far a standard normal number reaches.

/// t with P(Z > t) <= failure for a standard normal Z, at most 1 % above the quantile for rates up
/// to 0.05. By Sampford's bound P(Z > t) <= phi(t) 4/(3 t + sqrt(t^2 + 8)) (1953).
#[must_use]
pub fn normal_reach(failure: f64) -> f64 {
    let tail = |t: f64| {
        let density = (-0.5 * t * t).exp() / (2.0 * std::f64::consts::PI).sqrt();
        density * 4.0 / (3.0 * t + (t * t + 8.0).sqrt())
    };
    // The bound exp(-t^2/2)/2 is enough at the upper end, so the root is below it.
    let top = (2.0 * (0.5 / failure).ln().max(0.0)).sqrt() + 1e-9;
    // Newton's method on the logarithm, which is concave, from above.
    let mut near = top;
    for _ in 0..6 {
        let root = (near * near + 8.0).sqrt();
        let falls = near + (3.0 + near / root) / (3.0 * near + root);
        near += (tail(near) / failure).ln() / falls;
    }
    let (below, above) = (near * (1.0 - 1e-11), near * (1.0 + 1e-11));
    let (mut low, mut high) = match tail(below) > failure && tail(above) <= failure {
        true => (below, above),
        false => (0.0, top),
    };
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if tail(middle) > failure {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}
