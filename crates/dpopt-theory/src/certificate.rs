//! Exact certificates of stationarity, on public data.
//!
//! The numbers here are functions of the records without any noise. **Never compute them on
//! private data**: a gradient norm or an eigenvalue of a private mean reveals records, and nothing
//! would charge for it. The types help: they take [`PublicData`] only.

use dpopt_linalg::{SpectrumError, norm, symmetric_spectrum};
use dpopt_oracle::{Glm, PublicData};
use serde::Serialize;

/// Largest dimension for which [`second_order`] forms a Hessian (8 MiB, about 10^10 operations).
pub const MAX_HESSIAN_DIM: usize = 1024;

/// A certificate could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// The point has another dimension than the data.
    #[error("the data have {data} columns, the point has {point} coordinates")]
    Dimension {
        /// Columns of the design.
        data: usize,
        /// Coordinates of the point.
        point: usize,
    },
    /// A mean over no records.
    #[error("a certificate needs at least one record")]
    NoRecords,
    /// A record, the point, or a sum is not finite.
    #[error("the {0} is not finite")]
    NotFinite(&'static str),
    /// The dense Hessian would be too large.
    #[error("dimension {dim} is above {limit}, the largest for which a dense Hessian is formed")]
    TooManyDimensions {
        /// The dimension asked for.
        dim: usize,
        /// The largest possible.
        limit: usize,
    },
    /// The eigenvalues could not be computed.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
}

/// How close to first-order stationary a point is: F(w) and ||grad F(w)||, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FirstOrder {
    /// Mean loss F(w).
    pub value: f64,
    /// Norm of the mean gradient.
    pub gradient_norm: f64,
}

/// How close to second-order stationary a point is: ||grad F(w)|| and the least eigenvalue of the
/// Hessian of F at w.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SecondOrder {
    /// Norm of the mean gradient.
    pub gradient_norm: f64,
    /// Least eigenvalue of the Hessian; negative at a saddle.
    pub least_eigenvalue: f64,
    /// A unit eigenvector of it: the direction in which F bends down most (or up least).
    pub direction: Vec<f64>,
}

/// The exact mean loss and gradient norm of a generalised linear loss at `point`.
///
/// # Formula
/// F(w) = (1/n) sum phi(<w, x_i>, y_i), grad F(w) = (1/n) sum phi'(<w, x_i>, y_i) x_i.
///
/// # Shapes
/// `point`: one coordinate per column of the data.
///
/// # Errors
/// [`CertificateError`] for a wrong dimension, no records, or numbers that are not finite.
///
/// # Privacy
/// For public data only; see [`PublicData`].
pub fn first_order(
    data: &PublicData,
    loss: Glm,
    point: &[f64],
) -> Result<FirstOrder, CertificateError> {
    check(data, point)?;
    let mut value = 0.0;
    let mut gradient = vec![0.0; point.len()];
    for (i, z) in data.scores(point).into_iter().enumerate() {
        let label = f64::from(data.labels()[i]);
        value += loss.value(z, label);
        add_gradient(data, loss, i, z, &mut gradient);
    }
    let records = data.design().rows() as f64;
    let value = value / records;
    if !value.is_finite() {
        return Err(CertificateError::NotFinite("mean loss"));
    }
    Ok(FirstOrder {
        value,
        gradient_norm: mean_norm(&gradient, records)?,
    })
}

/// The exact gradient norm and least Hessian eigenvalue of a generalised linear loss at `point`.
///
/// # Formula
/// hess F(w) = (1/n) sum phi''(<w, x_i>, y_i) x_i x_i^T, summed over all records; its whole
/// spectrum is computed. The losses of [`Glm::SMOOTH`] have Lipschitz Hessians (with some constant rho), so
/// gradient norm at most alpha and least eigenvalue at least -sqrt(rho alpha) make an
/// alpha-second-order-stationary point in the usual sense.
///
/// # Shapes
/// `point`: one coordinate per column of the data, at most [`MAX_HESSIAN_DIM`] of them.
///
/// # Errors
/// [`CertificateError`], with [`CertificateError::TooManyDimensions`] above the limit.
///
/// # Complexity
/// n times the square of the stored entries per row, and 9 d^3; d^2 numbers of memory.
///
/// # Privacy
/// For public data only; see [`PublicData`].
pub fn second_order(
    data: &PublicData,
    loss: Glm,
    point: &[f64],
) -> Result<SecondOrder, CertificateError> {
    check(data, point)?;
    let dim = point.len();
    if dim > MAX_HESSIAN_DIM {
        return Err(CertificateError::TooManyDimensions {
            dim,
            limit: MAX_HESSIAN_DIM,
        });
    }
    let mut gradient = vec![0.0; dim];
    let mut hessian = vec![0.0; dim * dim];
    let mut entries: Vec<(usize, f64)> = Vec::with_capacity(dim);
    for (i, z) in data.scores(point).into_iter().enumerate() {
        add_gradient(data, loss, i, z, &mut gradient);
        let curvature = loss.curvature(z, f64::from(data.labels()[i]));
        entries.clear();
        data.design().row(i).for_each(|j, x| {
            if x != 0.0 {
                entries.push((j, x));
            }
        });
        // Columns increase, so this fills the lower triangle.
        for (k, &(row, x)) in entries.iter().enumerate() {
            let scaled = curvature * x;
            for &(column, y) in &entries[..=k] {
                hessian[row * dim + column] += scaled * y;
            }
        }
    }
    let records = data.design().rows() as f64;
    for x in &mut hessian {
        *x /= records;
    }
    let gradient_norm = mean_norm(&gradient, records)?;
    let spectrum = symmetric_spectrum(dim, &hessian)?;
    Ok(SecondOrder {
        gradient_norm,
        least_eigenvalue: spectrum.eigenvalues[0],
        direction: spectrum.least_direction,
    })
}

fn check(data: &PublicData, point: &[f64]) -> Result<(), CertificateError> {
    if data.design().columns() != point.len() {
        return Err(CertificateError::Dimension {
            data: data.design().columns(),
            point: point.len(),
        });
    }
    if data.design().rows() == 0 {
        return Err(CertificateError::NoRecords);
    }
    if !point.iter().all(|x| x.is_finite()) {
        return Err(CertificateError::NotFinite("point"));
    }
    Ok(())
}

fn add_gradient(data: &PublicData, loss: Glm, i: usize, z: f64, gradient: &mut [f64]) {
    let slope = loss.slope(z, f64::from(data.labels()[i]));
    data.design()
        .row(i)
        .for_each(|j, x| gradient[j] += slope * x);
}

fn mean_norm(sum: &[f64], records: f64) -> Result<f64, CertificateError> {
    let mean = norm(sum) / records;
    if mean.is_finite() {
        Ok(mean)
    } else {
        Err(CertificateError::NotFinite("mean gradient"))
    }
}

#[cfg(test)]
mod tests {
    use dpopt_linalg::{Design, dot};
    use proptest::prelude::*;

    use super::*;

    fn data(rows: &[[f64; 3]], labels: &[f32]) -> PublicData {
        let design = Design::dense(3, rows.iter().flatten().copied().collect()).unwrap();
        PublicData::new(design, labels.to_vec()).unwrap()
    }

    fn rows() -> impl Strategy<Value = (Vec<[f64; 3]>, Vec<f32>, [f64; 3])> {
        (1usize..12).prop_flat_map(|n| {
            (
                prop::collection::vec(prop::array::uniform3(-1.0..1.0f64), n),
                prop::collection::vec(prop_oneof![Just(-1.0f32), Just(1.0f32)], n),
                prop::array::uniform3(-2.0..2.0f64),
            )
        })
    }

    proptest! {
        #[test]
        fn certificates_are_derivatives_of_the_mean_loss((rows, labels, point) in rows()) {
            let data = data(&rows, &labels);
            for loss in Glm::SMOOTH {
                let value = |w: &[f64]| first_order(&data, loss, w).unwrap().value;
                let shifted = |j: usize, h: f64| {
                    let mut w = point;
                    w[j] += h;
                    w
                };
                let h = 1e-5;
                let numeric: Vec<f64> = (0..3)
                    .map(|j| (value(&shifted(j, h)) - value(&shifted(j, -h))) / (2.0 * h))
                    .collect();
                let exact = first_order(&data, loss, &point).unwrap().gradient_norm;
                prop_assert!((norm(&numeric) - exact).abs() < 1e-8);

                let second = second_order(&data, loss, &point).unwrap();
                prop_assert!((second.gradient_norm - exact).abs() < 1e-15);
                prop_assert!((norm(&second.direction) - 1.0).abs() < 1e-12);
                // The second difference along the direction is the eigenvalue.
                let along = |t: f64| {
                    let w: Vec<f64> =
                        point.iter().zip(&second.direction).map(|(w, v)| w + t * v).collect();
                    value(&w)
                };
                let t = 1e-3;
                let numeric = (along(t) - 2.0 * along(0.0) + along(-t)) / (t * t);
                prop_assert!((numeric - second.least_eigenvalue).abs() < 1e-4, "{loss}");
                // And no direction has less curvature.
                let curvature = |v: &[f64]| -> f64 {
                    rows.iter().zip(&labels).map(|(x, y)| {
                        loss.curvature(dot(x, &point), f64::from(*y)) * dot(x, v).powi(2)
                    }).sum::<f64>() / rows.len() as f64
                };
                for v in [[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.48, 0.6, -0.64]] {
                    prop_assert!(curvature(&v) >= second.least_eigenvalue - 1e-12);
                }
            }
        }
    }

    #[test]
    fn sparse_and_dense_agree() {
        let rows: [[f64; 3]; 3] = [[0.5, 0.0, -0.25], [0.0, 0.0, 0.0], [0.0, 1.0, 0.125]];
        let dense = data(&rows, &[1.0, -1.0, -1.0]);
        let mut design = Design::sparse(3).unwrap();
        design.push_row(&[(0, 0.5), (2, -0.25)]).unwrap();
        design.push_row(&[]).unwrap();
        design.push_row(&[(1, 1.0), (2, 0.125)]).unwrap();
        let sparse = PublicData::new(design, vec![1.0, -1.0, -1.0]).unwrap();
        let w = [0.3, -0.7, 1.1];
        let (a, b) = (
            second_order(&dense, Glm::Sigmoid, &w).unwrap(),
            second_order(&sparse, Glm::Sigmoid, &w).unwrap(),
        );
        assert!((a.least_eigenvalue - b.least_eigenvalue).abs() < 1e-15);
        assert!((a.gradient_norm - b.gradient_norm).abs() < 1e-15);
    }

    #[test]
    fn a_saddle_is_seen() {
        // Two antipodal Welsch records at distance 2 from the point: zero gradient, curvature -3 e^-2.
        let data = data(&[[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], &[2.0, -2.0]);
        let at = second_order(&data, Glm::Welsch, &[0.0; 3]).unwrap();
        assert!(at.gradient_norm < 1e-16);
        assert!((at.least_eigenvalue + 3.0 * (-2f64).exp()).abs() < 1e-15);
        assert!((at.direction[0].abs() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_can_not_be_certified_is_an_error() {
        let data = data(&[[1.0, 0.0, 0.0]], &[1.0]);
        let loss = Glm::Logistic;
        assert_eq!(
            first_order(&data, loss, &[0.0; 2]).err(),
            Some(CertificateError::Dimension { data: 3, point: 2 })
        );
        assert_eq!(
            first_order(&data, loss, &[f64::NAN, 0.0, 0.0]).err(),
            Some(CertificateError::NotFinite("point"))
        );
        let empty = PublicData::new(Design::sparse(3).unwrap(), vec![]).unwrap();
        assert_eq!(
            second_order(&empty, loss, &[0.0; 3]).err(),
            Some(CertificateError::NoRecords)
        );
        let bad = PublicData::new(
            Design::dense(3, vec![f64::NAN, 0.0, 0.0]).unwrap(),
            vec![1.0],
        )
        .unwrap();
        assert!(first_order(&bad, loss, &[0.0; 3]).is_err());
        assert!(second_order(&bad, loss, &[0.0; 3]).is_err());
        let dim = MAX_HESSIAN_DIM + 1;
        let mut wide = Design::sparse(dim).unwrap();
        wide.push_row(&[(0, 1.0)]).unwrap();
        let wide = PublicData::new(wide, vec![1.0]).unwrap();
        assert_eq!(
            second_order(&wide, loss, &vec![0.0; dim]).err(),
            Some(CertificateError::TooManyDimensions {
                dim,
                limit: MAX_HESSIAN_DIM
            })
        );
        assert!(first_order(&wide, loss, &vec![0.0; dim]).is_ok());
    }
}
