//! Checkers of a loss of one's own, for **public** records: they report what the records hold.

use dpopt_linalg::{distance, dot, norm};

use super::{Differentiable, Loss, TwiceDifferentiable};
use crate::records::Records;

/// A check could not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A point does not have the loss's dimension.
    #[error("the loss has {loss} parameters, the point {point}")]
    Dimension {
        /// Parameters of the loss.
        loss: usize,
        /// Coordinates of the point.
        point: usize,
    },
    /// Nothing to check.
    #[error("no records, or no points")]
    Nothing,
}

/// How the gradients of a loss compare with difference quotients of its values.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GradientCheck {
    /// Largest of |g_j - q_j| / (1 + |g_j| + |q_j|) over records and coordinates.
    pub worst: f64,
    /// Record of the worst.
    pub record: usize,
    /// Coordinate of the worst.
    pub coordinate: usize,
    /// The gradient there.
    pub gradient: f64,
    /// The difference quotient there.
    pub quotient: f64,
    /// Records whose value or gradient at the point is not finite; their contribution would be 0.
    pub not_finite: Vec<usize>,
}

/// Compares gradients with central difference quotients of step h_j = 6e-6 (1 + |w_j|), the cube
/// root of the rounding unit: for a smooth loss the quotient is good to some 1e-10.
///
/// **Not private**: names records.
///
/// # Shapes
/// `point`: d.
///
/// # Errors
/// [`CheckError`].
pub fn check_gradient<L: Differentiable>(
    loss: &L,
    records: &L::Records,
    point: &[f64],
) -> Result<GradientCheck, CheckError> {
    check_shapes(loss, records, std::slice::from_ref(&point))?;
    let mut found = GradientCheck {
        worst: 0.0,
        record: 0,
        coordinate: 0,
        gradient: 0.0,
        quotient: 0.0,
        not_finite: Vec::new(),
    };
    let mut moved = point.to_vec();
    let mut gradient = vec![0.0; point.len()];
    for i in 0..records.len() {
        let record = records.record(i);
        gradient.fill(0.0);
        loss.gradient(record, point, &mut gradient);
        let value = loss.value(record, point);
        if !value.is_finite() || gradient.iter().any(|g| !g.is_finite()) {
            found.not_finite.push(i);
            continue;
        }
        for j in 0..point.len() {
            let step = 6e-6 * (1.0 + point[j].abs());
            moved[j] = point[j] + step;
            let (above, high) = (loss.value(record, &moved), moved[j]);
            moved[j] = point[j] - step;
            let (below, low) = (loss.value(record, &moved), moved[j]);
            moved[j] = point[j];
            let quotient = (above - below) / (high - low);
            let error = (gradient[j] - quotient).abs() / (1.0 + gradient[j].abs() + quotient.abs());
            // A quotient that is not a number is as bad as can be.
            if !(error <= found.worst) {
                found = GradientCheck {
                    worst: if error.is_nan() { f64::INFINITY } else { error },
                    record: i,
                    coordinate: j,
                    gradient: gradient[j],
                    quotient,
                    not_finite: found.not_finite,
                };
            }
        }
    }
    Ok(found)
}

/// How the Hessian products of a loss compare with difference quotients of its gradients, and with each other.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HessianCheck {
    /// Largest of |h_j - q_j|/(1 + |h_j| + |q_j|) over records, directions and coordinates: a product that is the derivative of the gradient
    /// has some 1e-9.
    pub worst: f64,
    /// Record of the worst.
    pub record: usize,
    /// Its direction.
    pub direction: usize,
    /// Its coordinate.
    pub coordinate: usize,
    /// Largest of |<u, H v> - <v, H u>|/(1 + ||u|| ||H v|| + ||v|| ||H u||) over records and pairs of directions: a symmetric one has
    /// rounding.
    pub asymmetry: f64,
    /// Record and pair of directions of the largest.
    pub asymmetric: (usize, usize, usize),
    /// Records with a product or a gradient that is not finite; their contribution would be 0.
    pub not_finite: Vec<usize>,
}

/// Compares products with the Hessian at `point` with central difference quotients of gradients, of step h = 6e-6 (1 + ||w||)/||v||
/// along each direction v, and looks for asymmetry between each two of them. A certificate of a loss whose product fails either is one of
/// another function, or of none.
///
/// **Not private**: names records.
///
/// # Shapes
/// `point`, each of `directions`: d; two or more show asymmetry. A direction of zeros is left out.
///
/// # Errors
/// [`CheckError`].
pub fn check_hessian_vector<L: TwiceDifferentiable>(
    loss: &L,
    records: &L::Records,
    point: &[f64],
    directions: &[&[f64]],
) -> Result<HessianCheck, CheckError> {
    check_shapes(loss, records, std::slice::from_ref(&point))?;
    check_shapes(loss, records, directions)?;
    let mut found = HessianCheck {
        worst: 0.0,
        record: 0,
        direction: 0,
        coordinate: 0,
        asymmetry: 0.0,
        asymmetric: (0, 0, 0),
        not_finite: Vec::new(),
    };
    let as_bad_as_can_be = |x: f64| if x.is_nan() { f64::INFINITY } else { x };
    for i in 0..records.len() {
        let record = records.record(i);
        let gradient = |side: f64, v: &[f64]| {
            let at: Vec<f64> = point.iter().zip(v).map(|(w, v)| w + side * v).collect();
            let mut out = vec![0.0; point.len()];
            loss.gradient(record, &at, &mut out);
            out
        };
        let product = |v: &&[f64]| {
            let mut out = vec![0.0; point.len()];
            loss.hessian_vector(record, point, v, &mut out);
            out
        };
        let products: Vec<Vec<f64>> = directions.iter().map(product).collect();
        let here = gradient(0.0, point);
        if !products
            .iter()
            .flatten()
            .chain(&here)
            .all(|x| x.is_finite())
        {
            found.not_finite.push(i);
            continue;
        }
        for (k, (v, product)) in directions.iter().zip(&products).enumerate() {
            let length = norm(v);
            if length == 0.0 {
                continue;
            }
            let step = 6e-6 * (1.0 + norm(point)) / length;
            let pairs = gradient(step, v).into_iter().zip(gradient(-step, v));
            for (j, (h, (after, before))) in product.iter().zip(pairs).enumerate() {
                let quotient = (after - before) / (2.0 * step);
                let error = (h - quotient).abs() / (1.0 + h.abs() + quotient.abs());
                // A quotient that is not a number is as bad as can be.
                if !(error <= found.worst) {
                    found.worst = as_bad_as_can_be(error);
                    (found.record, found.direction, found.coordinate) = (i, k, j);
                }
            }
            for (l, (u, other)) in directions.iter().zip(&products).enumerate().take(k) {
                let apart = (dot(u, product) - dot(v, other)).abs();
                let size = 1.0 + norm(u) * norm(product) + length * norm(other);
                if !(apart / size <= found.asymmetry) {
                    found.asymmetry = as_bad_as_can_be(apart / size);
                    found.asymmetric = (i, l, k);
                }
            }
        }
    }
    Ok(found)
}

/// The largest constants that were seen, beside those claimed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConstantsCheck {
    /// Largest gradient norm.
    pub lipschitz: f64,
    /// Largest ||grad f(w) - grad f(w')|| / ||w - w'|| over pairs of the points.
    pub smoothness: f64,
    /// Largest gap F(0) - F(w) of the mean loss, over the points; 0 when no point is below.
    pub initial_gap: f64,
    /// Records and points at which the gradient was longer than claimed.
    pub too_long: Vec<(usize, usize)>,
    /// Records with a pair of points between which the gradient changed faster than claimed.
    pub too_curved: Vec<(usize, usize, usize)>,
}

impl ConstantsCheck {
    /// Whether nothing contradicts the claimed constants.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.too_long.is_empty() && self.too_curved.is_empty()
    }
}

/// Probes the claimed L0 and L1 at these points and between all pairs of them. A claim that
/// survives is not proved; one that fails is wrong.
///
/// **Not private**: names records.
///
/// # Shapes
/// each of `points`: d.
///
/// # Errors
/// [`CheckError`].
pub fn check_constants<L: Differentiable>(
    loss: &L,
    records: &L::Records,
    points: &[&[f64]],
) -> Result<ConstantsCheck, CheckError> {
    check_shapes(loss, records, points)?;
    let claimed = loss.constants_on(records);
    let dim = points[0].len();
    let mut found = ConstantsCheck {
        lipschitz: 0.0,
        smoothness: 0.0,
        initial_gap: 0.0,
        too_long: Vec::new(),
        too_curved: Vec::new(),
    };
    let origin = vec![0.0; dim];
    let mut gaps = vec![0.0; points.len()];
    // The measured ratios carry rounding errors.
    let slack = 1.0 + 1e-9;
    for i in 0..records.len() {
        let record = records.record(i);
        let at_origin = loss.value(record, &origin);
        let gradients: Vec<Vec<f64>> = points
            .iter()
            .map(|point| {
                let mut gradient = vec![0.0; dim];
                loss.gradient(record, point, &mut gradient);
                gradient
            })
            .collect();
        for (k, gradient) in gradients.iter().enumerate() {
            gaps[k] += at_origin - loss.value(record, points[k]);
            let length = norm(gradient);
            found.lipschitz = found.lipschitz.max(length);
            if !(length <= claimed.lipschitz * slack) {
                found.too_long.push((i, k));
            }
            for (l, other) in gradients.iter().enumerate().take(k) {
                let apart = distance(points[k], points[l]);
                if apart == 0.0 {
                    continue;
                }
                let ratio = distance(gradient, other) / apart;
                found.smoothness = found.smoothness.max(ratio);
                // Two gradients are known to a few units in the last place.
                let rounding = 1e-15 * (length + norm(other)) / apart;
                if !(ratio <= claimed.smoothness * slack + rounding) {
                    found.too_curved.push((i, l, k));
                }
            }
        }
    }
    let records = records.len() as f64;
    found.initial_gap = gaps
        .iter()
        .fold(0.0, |worst: f64, gap| worst.max(gap / records));
    Ok(found)
}

fn check_shapes<L: Loss>(
    loss: &L,
    records: &L::Records,
    points: &[&[f64]],
) -> Result<(), CheckError> {
    if records.is_empty() || points.is_empty() {
        return Err(CheckError::Nothing);
    }
    let dim = loss.dim(records);
    match points.iter().find(|point| point.len() != dim) {
        Some(point) => Err(CheckError::Dimension {
            loss: dim,
            point: point.len(),
        }),
        None => Ok(()),
    }
}
