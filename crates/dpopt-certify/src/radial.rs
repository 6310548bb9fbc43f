//! The Goldstein distance of a radial function, from one function of one variable.

use crate::error::CertificateError;

/// Cells of the grid on each smooth piece. Tuned: 1e-9 for slopes that vary on the scale of the
/// radius; a slope that oscillates faster needs breaks between.
const CELLS: usize = 2048;

/// The norm of the Goldstein subdifferential of F(x) = Psi(||x - c||), in d >= 2 dimensions: the
/// distance of conv{grad F(y): ||y - x|| <= radius} from 0.
///
/// # Formula
/// With psi = Psi', r = ||x - c|| = `distance` and a = `radius`: 0 if r <= a. Otherwise let
/// cos t(p) = (r^2 + p^2 - a^2)/(2 r p) for p in [r - a, r + a], the widest angle at which the ball
/// holds points at distance p from c. By averaging over the rotations around the axis x - c, the hull's
/// part of the axis is the hull of psi(p) and psi(p) cos t(p). So the distance is 0 if psi changes
/// sign, and else min |psi(p)| cos t(p).
///
/// # Shapes
/// `slope`: psi, for positive arguments. `breaks`: where psi jumps, in any order; both one-sided
/// limits count, which are taken at the neighbouring numbers.
///
/// # Errors
/// [`CertificateError::OutOfRange`] for a distance or radius that is negative or not finite,
/// [`CertificateError::NotFinite`] for a slope that is not.
pub fn radial_goldstein(
    distance: f64,
    radius: f64,
    slope: impl Fn(f64) -> f64,
    breaks: &[f64],
) -> Result<f64, CertificateError> {
    for (name, value) in [("distance", distance), ("radius", radius)] {
        if !(value >= 0.0 && value.is_finite()) {
            return Err(CertificateError::OutOfRange { name, value });
        }
    }
    if distance <= radius {
        return Ok(0.0);
    }
    let (low, high) = (distance - radius, distance + radius);
    let mut ends = vec![low, high];
    ends.extend(breaks.iter().copied().filter(|b| *b > low && *b < high));
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    let cosine = |p: f64| {
        // 1 - cos t = (a^2 - (r - p)^2)/(2 r p) does not cancel.
        let gap = distance - p;
        (1.0 - (radius - gap) * (radius + gap) / (2.0 * distance * p)).clamp(0.0, 1.0)
    };
    let mut least = f64::INFINITY;
    let mut signs = [false; 2];
    let mut finite = true;
    let mut at = |p: f64| {
        let psi = slope(p);
        finite &= psi.is_finite();
        signs[0] |= psi <= 0.0;
        signs[1] |= psi >= 0.0;
        let value = psi.abs() * cosine(p);
        least = least.min(value);
        value
    };
    if radius == 0.0 {
        at(distance);
    }
    for piece in ends.windows(2) {
        let inside = |end: f64, other: f64| {
            if breaks.contains(&end) {
                if other > end {
                    end.next_up()
                } else {
                    end.next_down()
                }
            } else {
                end
            }
        };
        let (from, to) = (inside(piece[0], piece[1]), inside(piece[1], piece[0]));
        let node = |k: usize| from + (to - from) * (k as f64 / CELLS as f64);
        let values: Vec<f64> = (0..=CELLS).map(|k| at(node(k).min(to))).collect();
        let best = (0..=CELLS)
            .min_by(|&i, &j| values[i].total_cmp(&values[j]))
            .unwrap_or(0);
        // Golden section in the two cells around the best node.
        let (mut a, mut b) = (
            node(best.saturating_sub(1)),
            node((best + 1).min(CELLS)).min(to),
        );
        let golden = 0.5 * (5f64.sqrt() - 1.0);
        for _ in 0..80 {
            let (left, right) = (b - golden * (b - a), a + golden * (b - a));
            if at(left) <= at(right) {
                b = right;
            } else {
                a = left;
            }
        }
    }
    if !finite {
        return Err(CertificateError::NotFinite("slope"));
    }
    Ok(if signs[0] && signs[1] { 0.0 } else { least })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(r: f64, a: f64) -> f64 {
        radial_goldstein(r, a, |p| if p > 1.0 { 1.0 } else { -1.0 }, &[1.0]).unwrap()
    }

    #[test]
    fn the_ring_has_its_closed_form() {
        for (r, a) in [
            (1.2, 0.25),
            (1.2, 0.1),
            (1.2, 0.2),
            (0.5, 0.2),
            (0.1, 0.2),
            (3.0, 1.5),
            (0.9, 0.1),
        ] {
            let exact: f64 = if r <= a || f64::abs(r - 1.0) <= a {
                0.0
            } else {
                (1.0 - (a / r) * (a / r)).sqrt()
            };
            // At |r - 1| = a the sign change is at the edge, up to rounding.
            if f64::abs(f64::abs(r - 1.0) - a) > 1e-9 {
                assert!((ring(r, a) - exact).abs() < 1e-9, "{r} {a} {}", ring(r, a));
            }
        }
    }

    /// psi = 1/(1 + p): with m = r^2 - a^2 the derivative of (p^2 + m)/(p (1 + p)) vanishes where
    /// p^2 = m (1 + 2p), so at p = m + sqrt(m^2 + m).
    #[test]
    fn the_logarithm_has_its_closed_form() {
        for (r, a) in [(1.0f64, 0.3), (2.0, 0.5), (5.0, 1.0), (0.4, 0.39)] {
            let m = r * r - a * a;
            let p = (m + (m * m + m).sqrt()).clamp(r - a, r + a);
            let exact = (r * r + p * p - a * a) / (2.0 * r * p * (1.0 + p));
            let found = radial_goldstein(r, a, |p| 1.0 / (1.0 + p), &[]).unwrap();
            assert!((found - exact).abs() < 1e-10, "{r} {a}: {found} {exact}");
        }
    }

    #[test]
    fn edges_and_bad_input() {
        assert_eq!(radial_goldstein(0.0, 0.0, |_| 1.0, &[]), Ok(0.0));
        // Radius 0 is the gradient.
        assert_eq!(radial_goldstein(2.0, 0.0, |p| p, &[]), Ok(2.0));
        assert!(radial_goldstein(f64::NAN, 1.0, |_| 1.0, &[]).is_err());
        assert!(radial_goldstein(1.0, -1.0, |_| 1.0, &[]).is_err());
        assert_eq!(
            radial_goldstein(2.0, 0.5, |_| f64::NAN, &[]),
            Err(CertificateError::NotFinite("slope"))
        );
    }
}
