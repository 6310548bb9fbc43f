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
    // Strides in the logarithm that grow until the answer changes. Costs mostly grow at least
    // like the square root of a parameter, so there is no need to go far beyond twice the excess,
    // where an evaluation may be slow.
    let (mut near, mut stride) = (first, std::f64::consts::LN_2);
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
        let step = stride.min(2.5 * near.excess.abs() + 0.7);
        let next = if way.abs() <= step || T::adjacent(near.at, end) {
            end
        } else {
            T::from_ln(ln + step.copysign(way), near.at, end)
        };
        let reached = probe(next)?;
        if (reached.excess <= 0.0) != fits {
            break reached;
        }
        near = reached;
        stride *= 2.0;
    };
    let (good, bad) = if fits { (near, far) } else { (far, near) };
    close(good, bad, probe).map(Boundary::At)
}

/// Narrows a bracket to neighbours by false position in the logarithms, with every third step
/// in the middle, so that the bracket closes from both ends whatever the function.
fn close<T: Parameter, E>(
    mut good: Probe<T>,
    mut bad: Probe<T>,
    probe: impl Fn(T) -> Result<Probe<T>, E>,
) -> Result<T, E> {
    for round in 0..400_u32 {
        if T::adjacent(good.at, bad.at) {
            break;
        }
        let (from, to) = (good.at.ln(), bad.at.ln());
        let share = -good.excess / (bad.excess - good.excess);
        let mut at = good.at;
        if round % 3 != 2 && share.is_finite() {
            // Aim a little past the root, to the side that is farther away.
            let push = if share < 0.5 { 0.3 } else { -0.3 } * good.at.resolution();
            let share = share + push / (to - from).abs();
            at = T::from_ln(from + (to - from) * share.clamp(0.0, 1.0), good.at, bad.at);
        }
        if at == good.at || at == bad.at {
            at = T::midpoint(good.at, bad.at);
        }
        let found = probe(at)?;
        if found.excess <= 0.0 {
            good = found;
        } else {
            bad = found;
        }
    }
    Ok(good.at)
}
