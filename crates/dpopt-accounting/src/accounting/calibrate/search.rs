//! The search for the boundary between the values of a parameter that meet a target and those
//! that do not. One routine serves all parameters; they differ in their scale and direction.

/// A parameter that is searched on a logarithmic scale.
pub(super) trait Parameter: Copy + PartialEq {
    /// Natural logarithm.
    fn ln(self) -> f64;
    /// The value with this logarithm, rounded to something in the closed range of the two ends.
    fn from_ln(ln: f64, one: Self, other: Self) -> Self;
    /// A value strictly between two that are not adjacent.
    fn midpoint(one: Self, other: Self) -> Self;
    /// Whether nothing worth trying lies between the two.
    fn adjacent(one: Self, other: Self) -> bool;
    /// Distance of neighbours, in the logarithm.
    fn resolution(self) -> f64;
}

/// Relative width of the last bracket of a real parameter.
const TOLERANCE: f64 = 2e-7;

impl Parameter for f64 {
    fn ln(self) -> f64 {
        f64::ln(self)
    }

    fn from_ln(ln: f64, one: Self, other: Self) -> Self {
        ln.exp().clamp(one.min(other), one.max(other))
    }

    fn midpoint(one: Self, other: Self) -> Self {
        one * (other / one).sqrt()
    }

    fn adjacent(one: Self, other: Self) -> bool {
        let (low, high) = (one.min(other), one.max(other));
        high <= low * (1.0 + TOLERANCE)
    }

    fn resolution(self) -> f64 {
        TOLERANCE
    }
}

impl Parameter for u64 {
    fn ln(self) -> f64 {
        (self as f64).ln()
    }

    fn from_ln(ln: f64, one: Self, other: Self) -> Self {
        // The conversion saturates.
        (ln.exp().round() as u64).clamp(one.min(other), one.max(other))
    }

    fn midpoint(one: Self, other: Self) -> Self {
        one.midpoint(other)
    }

    fn adjacent(one: Self, other: Self) -> bool {
        one.abs_diff(other) <= 1
    }

    fn resolution(self) -> f64 {
        1.0 / self as f64
    }
}

/// Where the boundary is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Boundary<T> {
    /// The value meets the target, and one next to it does not.
    At(T),
    /// Every value that was tried meets the target, the dearest one included.
    AllFit,
    /// Not even the cheapest value meets the target.
    NoneFits,
}

/// A value and the logarithm of its cost over the target: at most 0 where it fits.
#[derive(Debug, Clone, Copy)]
struct Probe<T> {
    at: T,
    excess: f64,
}

/// Finds the boundary between `cheapest` and `dearest`, of which either may be the larger.
///
/// `excess` is the logarithm of the cost over the target. It should not fall from `cheapest` to
/// `dearest`. Where it does (an accountant with a numerical error of its own), the answer still
/// meets the target and still has a neighbour that does not, but there may be further
/// such places. A value is only ever returned after its own `excess` was found to be at most 0.
///
/// # Errors
/// Those of `excess`.
pub(super) fn boundary<T: Parameter, E>(
    start: T,
    cheapest: T,
    dearest: T,
    excess: impl Fn(T) -> Result<f64, E>,
) -> Result<Boundary<T>, E> {
    let probe = |at: T| {
        Ok(Probe {
            at,
            excess: excess(at)?,
        })
    };
    let first = probe(start)?;
    let fits = first.excess <= 0.0;
    let end = if fits { dearest } else { cheapest };
    // Steps in the logarithm that overshoot a little where the cost is inversely proportional to
    // the parameter, and grow until the answer changes.
    let (mut near, mut before, mut reach) = (first, None, 1.05);
    let far = loop {
        if near.at == end {
            return Ok(if fits {
                Boundary::AllFit
            } else {
                Boundary::NoneFits
            });
        }
        let ln = near.at.ln();
        let way = end.ln() - ln;
        let excess = near.excess.abs().min(1.0 + 2.0 * reach);
        let step = (reach * excess + 0.05).max(near.at.resolution());
        let next = if way.abs() <= step || T::adjacent(near.at, end) {
            end
        } else {
            T::from_ln(ln + step.copysign(way), near.at, end)
        };
        let reached = probe(next)?;
        if (reached.excess <= 0.0) != fits {
            break reached;
        }
        before = Some(near);
        near = reached;
        reach *= 2.0;
    };
    let (good, bad) = if fits { (near, far) } else { (far, near) };
    close(good, bad, before, probe).map(Boundary::At)
}

/// Narrows a bracket to neighbours by inverse quadratic interpolation through its ends and the
/// end before. Each probe aims past the estimated root by its estimated error, so that the far
/// end closes in; a bracket that two probes did not halve is halved.
fn close<T: Parameter, E>(
    mut good: Probe<T>,
    mut bad: Probe<T>,
    mut before: Option<Probe<T>>,
    probe: impl Fn(T) -> Result<Probe<T>, E>,
) -> Result<T, E> {
    let mut widths = [f64::INFINITY; 2];
    for _ in 0..400_u32 {
        if T::adjacent(good.at, bad.at) {
            break;
        }
        let width = (good.at.ln() - bad.at.ln()).abs();
        let mut at = good.at;
        if !(width > 0.5 * widths[0])
            && let Some(ln) = aim(&good, &bad, before.as_ref())
        {
            at = T::from_ln(ln, good.at, bad.at);
        }
        if at == good.at || at == bad.at {
            at = T::midpoint(good.at, bad.at);
        }
        widths = [widths[1], width];
        let found = probe(at)?;
        if found.excess <= 0.0 {
            before = Some(good);
            good = found;
        } else {
            before = Some(bad);
            bad = found;
        }
    }
    Ok(good.at)
}

/// Logarithm of the next value to try, none where nothing can be interpolated.
fn aim<T: Parameter>(good: &Probe<T>, bad: &Probe<T>, before: Option<&Probe<T>>) -> Option<f64> {
    let (from, to) = (good.at.ln(), bad.at.ln());
    let (a, b) = (good.excess, bad.excess);
    let line = from + (to - from) * (-a / (b - a));
    if !line.is_finite() {
        return None;
    }
    let width = (to - from).abs();
    let (mut root, mut error) = (line, 0.02 * width);
    if let Some(before) = before {
        let (third, c) = (before.at.ln(), before.excess);
        let curve = from * b * c / ((a - b) * (a - c))
            + to * a * c / ((b - a) * (b - c))
            + third * a * b / ((c - a) * (c - b));
        error = 0.0;
        if curve > from.min(to) && curve < from.max(to) {
            (root, error) = (curve, 0.02 * (curve - line).abs());
        }
    }
    let error = error.max(0.3 * good.at.resolution());
    let far = if (root - from).abs() > (root - to).abs() {
        from
    } else {
        to
    };
    Some(root + error.copysign(far - root))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::{Boundary, boundary};

    type Never = std::convert::Infallible;

    /// The boundary and how often the function was asked.
    fn count(f: impl Fn(f64) -> f64, cheapest: f64, dearest: f64) -> (Boundary<f64>, u32) {
        let asked = Cell::new(0);
        let excess = |x: f64| {
            asked.set(asked.get() + 1);
            Ok::<_, Never>(f(x))
        };
        let Ok(found) = boundary(1.0, cheapest, dearest, excess);
        (found, asked.get())
    }

    #[test]
    fn smooth_functions_take_few_probes() {
        for root in [1e-5, 0.3, 0.9999, 1.0, 1.0001, 4.0, 1234.5, 1e14] {
            for power in [0.5, 1.0, 1.7] {
                let f = |x: f64| power * (root / x).ln() + 0.1 * ((root / x).powf(0.3) - 1.0);
                let (found, asked) = count(f, 1e15, 1e-6);
                let Boundary::At(found) = found else {
                    panic!("{root} {power}: {found:?}");
                };
                assert!(
                    f(found) <= 0.0 && f(found * (1.0 - 1e-6)) > 0.0,
                    "{root} {power}"
                );
                assert!(asked <= 16, "{root} {power}: {asked}");
            }
        }
    }

    #[test]
    fn rough_functions_are_still_bracketed() {
        let wavering = |x: f64| (3.0 / x).ln() + 1e-3 * (1e5 * x).sin();
        let step = |x: f64| if x < 3.0 { 1.0 } else { -1.0 };
        let cliff = |x: f64| {
            if x < 3.0 {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            }
        };
        let flat = |x: f64| if x < 3.0 { 1e-300 } else { 0.0 };
        let functions: [&dyn Fn(f64) -> f64; 4] = [&wavering, &step, &cliff, &flat];
        for f in functions {
            let (found, asked) = count(f, 1e15, 1e-6);
            let Boundary::At(found) = found else {
                panic!("{found:?}");
            };
            assert!(
                f(found) <= 0.0 && (found / 3.0 - 1.0).abs() < 2e-3,
                "{found}"
            );
            assert!(asked < 150, "{asked}");
        }
    }

    #[test]
    fn whole_numbers_are_found_exactly() {
        for last in [1, 2, 3, 7, 100, 12_345, (1 << 51) - 1] {
            for power in [0.5, 1.0] {
                let excess = |n: u64| {
                    let ratio = n as f64 / (last as f64 + 0.5);
                    Ok::<_, Never>(power * ratio.ln())
                };
                let Ok(found) = boundary(1, 1, 1 << 53, excess);
                assert_eq!(found, Boundary::At(last), "{power}");
            }
        }
    }

    #[test]
    fn no_boundary_is_told() {
        assert_eq!(count(|_| 1.0, 1e15, 1e-6).0, Boundary::NoneFits);
        assert_eq!(count(|_| -1.0, 1e15, 1e-6).0, Boundary::AllFit);
        assert_eq!(count(|_| f64::NEG_INFINITY, 1e-18, 1.0).0, Boundary::AllFit);
    }
}
