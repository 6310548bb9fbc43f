//! Spectrum of a dense symmetric matrix, by faer.

use faer::Mat;

/// The spectrum could not be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SpectrumError {
    /// The buffer is not a square matrix.
    #[error("a symmetric matrix of order {order} needs {} entries, got {entries}", order * order)]
    NotSquare {
        /// Stated order.
        order: usize,
        /// Entries given.
        entries: usize,
    },
    /// An entry is not finite.
    #[error("entry ({row}, {column}) is not finite")]
    NotFinite {
        /// Row of the entry.
        row: usize,
        /// Column of the entry.
        column: usize,
    },
    /// The iteration did not converge.
    #[error("the symmetric eigenvalue iteration did not converge for order {order}")]
    NoConvergence {
        /// Order of the matrix.
        order: usize,
    },
}

/// Eigenvalues in increasing order and a unit eigenvector of the least one.
#[derive(Debug, Clone, PartialEq)]
pub struct SymmetricSpectrum {
    /// Eigenvalues, smallest first.
    pub eigenvalues: Vec<f64>,
    /// Unit eigenvector of the smallest eigenvalue.
    pub least_direction: Vec<f64>,
}

/// Full spectrum of a symmetric matrix.
///
/// # Shapes
/// `entries`: (order, order), row-major; only the lower triangle is read.
///
/// # Errors
/// [`SpectrumError`] when the shape is wrong, an entry is not finite, or the iteration fails.
///
/// # Complexity
/// About 9 order^3 operations, on the calling thread.
pub fn symmetric_spectrum(
    order: usize,
    entries: &[f64],
) -> Result<SymmetricSpectrum, SpectrumError> {
    check(order, entries)?;
    let all = eigen(order, |i, j| entries[i * order + j], 1)?;
    Ok(SymmetricSpectrum {
        eigenvalues: all.values,
        least_direction: all.vectors,
    })
}

pub(crate) fn check(order: usize, entries: &[f64]) -> Result<(), SpectrumError> {
    if order == 0 || entries.len() != order * order {
        return Err(SpectrumError::NotSquare {
            order,
            entries: entries.len(),
        });
    }
    if let Some(position) = entries.iter().position(|x| !x.is_finite()) {
        return Err(SpectrumError::NotFinite {
            row: position / order,
            column: position % order,
        });
    }
    Ok(())
}

/// The spectrum of a symmetric matrix, and unit eigenvectors of its `count` least eigenvalues (of all, where there are fewer).
///
/// # Shapes
/// As [`symmetric_spectrum`].
///
/// # Errors
/// As [`symmetric_spectrum`].
pub fn least_eigenvectors(
    order: usize,
    entries: &[f64],
    count: usize,
) -> Result<Eigen, SpectrumError> {
    check(order, entries)?;
    eigen(order, |i, j| entries[i * order + j], count)
}

/// Eigenvalues, smallest first, and the vectors of the first few of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Eigen {
    /// All eigenvalues, smallest first.
    pub values: Vec<f64>,
    /// (number of vectors, order), row-major: one unit eigenvector after the other.
    pub vectors: Vec<f64>,
}

/// The spectrum of a symmetric matrix with finite entries, of which the lower triangle is read,
/// and the first `vectors` eigenvectors.
pub(crate) fn eigen(
    order: usize,
    entry: impl Fn(usize, usize) -> f64,
    vectors: usize,
) -> Result<Eigen, SpectrumError> {
    let matrix = Mat::from_fn(order, order, |i, j| entry(i.max(j), i.min(j)));
    let decomposition = matrix
        .self_adjoint_eigen(faer::Side::Lower)
        .map_err(|_| SpectrumError::NoConvergence { order })?;
    let values = decomposition.S().column_vector();
    let all = decomposition.U();
    Ok(Eigen {
        values: (0..order).map(|i| values[i]).collect(),
        vectors: (0..vectors.min(order))
            .flat_map(|k| (0..order).map(move |i| all[(i, k)]))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_spectrum() {
        // [[2, 1], [1, 2]] has eigenvalues 1 and 3, with (1, -1)/sqrt 2 for the least.
        let both = least_eigenvectors(2, &[2.0, 1.0, 1.0, 2.0], 5).unwrap();
        assert_eq!(both.vectors.len(), 4);
        let sum = both.vectors[2].abs() + both.vectors[3].abs();
        assert!((sum - 2f64.sqrt()).abs() < 1e-15 && both.vectors[2] * both.vectors[3] > 0.0);
        let spectrum = symmetric_spectrum(2, &[2.0, 1.0, 1.0, 2.0]).unwrap();
        assert!((spectrum.eigenvalues[0] - 1.0).abs() < 1e-14);
        assert!((spectrum.eigenvalues[1] - 3.0).abs() < 1e-14);
        let v = &spectrum.least_direction;
        assert!((v[0] + v[1]).abs() < 1e-14 && (v[0].abs() - 0.5f64.sqrt()).abs() < 1e-14);
    }

    #[test]
    fn bad_input_is_an_error() {
        assert!(matches!(
            symmetric_spectrum(2, &[1.0; 3]),
            Err(SpectrumError::NotSquare { .. })
        ));
        assert!(matches!(
            symmetric_spectrum(1, &[f64::NAN]),
            Err(SpectrumError::NotFinite { row: 0, column: 0 })
        ));
    }
}
