//! The least or greatest eigenvalue of a symmetric operator that is known by its products:
//! Lanczos with full reorthogonalisation, thick restarts, and a bound on what it may have missed.

mod tail;
#[cfg(test)]
mod tests;

use crate::spectrum::{Eigen, SpectrumError, eigen};
use crate::vector::{add_scaled, dot, norm, norm_upper};
use tail::Tail;

/// A product whose components along older basis vectors differ by more than this from what
/// symmetry demands, relative to the largest product so far, is refused. Tuned: far above the
/// rounding of sums, below what difference quotients of gradients give.
const ASYMMETRY: f64 = 1e-6;
/// Remainders of this many units of rounding count as zero.
const EXHAUSTED: f64 = 64.0 * f64::EPSILON;
/// Steps between two looks at the projected spectrum.
const LOOK: usize = 8;
/// Coordinates that a change of basis treats at a time.
const CHUNK: usize = 512;

/// An end of the spectrum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The least eigenvalue.
    Least,
    /// The greatest eigenvalue.
    Greatest,
}

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LanczosSettings {
    /// Vectors kept at a time, each of d numbers. At least 4.
    pub basis: usize,
    /// Both the residual and [`ExtremeEigenvalue::beyond`] have to fall below this times the norm
    /// of the operator. In (0, 1); below about 1e-14 rounding is in the way.
    pub tolerance: f64,
    /// Probability, over the start, at which `beyond` is asked to be small. In (0, 1).
    pub failure: f64,
    /// Most products with the operator.
    pub max_products: usize,
}

impl Default for LanczosSettings {
    fn default() -> Self {
        Self {
            basis: 64,
            tolerance: 1e-9,
            failure: 1e-6,
            max_products: 4000,
        }
    }
}

/// Why the iteration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LanczosStatus {
    /// Residual and the possible excess are below the tolerance.
    Converged,
    /// The products of the start span no more directions: what is found is exact up to rounding.
    Exhausted,
    /// The products were used up; the numbers in the result say how far it came.
    NotConverged,
}

/// No eigenvalue could be computed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LanczosError {
    /// The start has no coordinates, is zero, or is not finite.
    #[error("the start must be a finite nonzero vector; its norm is {norm} in dimension {dim}")]
    Start {
        /// Its norm.
        norm: f64,
        /// Its dimension.
        dim: usize,
    },
    /// A setting is out of range.
    #[error("setting {name} is out of range: {value}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A product with a unit vector is not finite.
    #[error("product {product} with the operator is not finite")]
    NotFinite {
        /// Which product, from 1.
        product: usize,
    },
    /// The operator is not symmetric.
    #[error(
        "product {product} shows that the operator is not symmetric: a component that has to be 0 is {component:e}, where products are up to {scale:e} long"
    )]
    NotSymmetric {
        /// Which product, from 1.
        product: usize,
        /// The offending component.
        component: f64,
        /// The longest product so far.
        scale: f64,
    },
    /// The projected problem could not be solved.
    #[error(transparent)]
    Spectrum(#[from] SpectrumError),
}

/// An approximate extreme eigenvalue, with what is known of its error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ExtremeEigenvalue {
    /// theta = <v, A v>: the least eigenvalue is at most theta, the greatest at least theta (up to
    /// `rounding`).
    pub value: f64,
    /// v, of norm 1.
    pub direction: Vec<f64>,
    /// ||A v - theta v||, rounded up, from a product of its own: **some** eigenvalue lies within
    /// this of theta, whatever the start was. That it is the extreme one is what
    /// [`ExtremeEigenvalue::beyond`] is about.
    pub residual: f64,
    /// Size of the rounding errors of the iteration; those of the products are not known here.
    pub rounding: f64,
    /// The longest product with a unit vector: a lower bound on the norm of A.
    pub scale: f64,
    /// Products with the operator.
    pub products: usize,
    /// Why it ended.
    pub status: LanczosStatus,
    end: End,
    tail: Tail,
}

impl ExtremeEigenvalue {
    /// By how much the extreme eigenvalue may lie beyond `value`, with probability at least
    /// `1 - failure` over a start with the uniform law on the sphere (a vector of independent
    /// normals will do). Nothing is assumed of the spectrum: gaps, clusters and multiplicities are
    /// all covered. 0 is never returned but for d = 1; rounding is added.
    ///
    /// A start that was not drawn like this has no such bound: an operator may have its least
    /// eigenvalue orthogonal to every product.
    ///
    /// # Formula
    /// Let theta_i be all Ritz values, those that restarts discarded included, and beta_i the norms of the
    /// remainders. The monic polynomial with these roots, at A, maps the start b to a vector of norm
    /// prod beta_i. For an eigenvalue lambda on whose eigenspace b has a component of norm c this gives
    /// c prod |theta_i - lambda| <= prod beta_i. For the least eigenvalue, P(c < t) is at most
    /// t sqrt(2(d-1)/pi), or t for d = 2. So with t at probability `failure` the bound is the
    /// root delta of sum ln(theta_i - theta + delta) = sum ln beta_i - ln t. It is decided on one
    /// event for all lengths of the iteration, so stopping when it is small does no harm.
    ///
    /// # References
    /// Van Dorsselaer, Hochstenbach and van der Vorst 2000 (without restarts). The bound before the
    /// fact is Kuczynski and Wozniakowski 1992, Theorem 4.2: a relative error of eps is exceeded after k
    /// steps with probability at most 1.648 sqrt(d) exp(-sqrt(eps) (2k - 1)). Proof in `docs/theory/certificates.md`.
    #[must_use]
    pub fn beyond(&self, failure: f64) -> f64 {
        let theta = match self.end {
            End::Least => self.value,
            End::Greatest => -self.value,
        };
        self.tail.beyond(theta, failure, self.direction.len()) + self.rounding
    }
}

/// The least or greatest eigenvalue of the symmetric operator of which `product(v, out)` writes
/// A v to `out`.
///
/// # Shapes
/// `start`, `v` and `out`: d. `out` holds zeros at each call.
///
/// # Algorithm
/// Lanczos with full reorthogonalisation; when `basis` vectors are there, it restarts with the Ritz
/// vectors of the two fifths of the Ritz values nearest to the wanted end (thick restart), whose span
/// is again a Krylov space. The last product checks the result.
///
/// # Errors
/// [`LanczosError`]. That the tolerance was not reached is no error, but a [`LanczosStatus`].
///
/// # Complexity
/// One product, and 4 d times the number of basis vectors, for each step; (basis + 3) d numbers.
///
/// # References
/// Wu and Simon 2000 (thick restarts); Parlett, The Symmetric Eigenvalue Problem, Theorem 4.5.1
/// (residual bound).
pub fn extreme_eigenvalue(
    start: &[f64],
    end: End,
    settings: &LanczosSettings,
    product: impl FnMut(&[f64], &mut [f64]),
) -> Result<ExtremeEigenvalue, LanczosError> {
    check(start, settings)?;
    let sign = match end {
        End::Least => 1.0,
        End::Greatest => -1.0,
    };
    let mut run = Run::new(start, sign, settings, product);
    let status = loop {
        run.step()?;
        let exhausted = run.exhausted();
        let full = run.basis.len() == run.capacity;
        let spent = run.products + 1 >= settings.max_products;
        if !(exhausted || full || spent || run.basis.len().is_multiple_of(LOOK)) {
            run.extend();
            continue;
        }
        let ritz = run.ritz()?;
        let theta = ritz.values[0];
        if exhausted {
            break LanczosStatus::Exhausted;
        }
        let last = ritz.vectors[run.basis.len() - 1];
        let allowed = settings.tolerance * run.scale;
        if run.beta * last.abs() <= allowed
            && run
                .tail(&ritz.values)
                .beyond(theta, settings.failure, start.len())
                <= allowed
        {
            break LanczosStatus::Converged;
        }
        if spent {
            break LanczosStatus::NotConverged;
        }
        if full {
            run.restart(&ritz);
        } else {
            run.extend();
        }
    };
    run.finish(status, end)
}

fn check(start: &[f64], settings: &LanczosSettings) -> Result<(), LanczosError> {
    let length = norm(start);
    if !(length > 0.0 && length.is_finite()) {
        return Err(LanczosError::Start {
            norm: length,
            dim: start.len(),
        });
    }
    let open = |x: f64| x > 0.0 && x < 1.0;
    for (name, value, ok) in [
        ("basis", settings.basis as f64, settings.basis >= 4),
        ("tolerance", settings.tolerance, open(settings.tolerance)),
        ("failure", settings.failure, open(settings.failure)),
        (
            "max_products",
            settings.max_products as f64,
            settings.max_products >= 2,
        ),
    ] {
        if !ok {
            return Err(LanczosError::Setting { name, value });
        }
    }
    Ok(())
}

/// One iteration towards the least eigenvalue of `sign` times the operator.
struct Run<P> {
    product: P,
    sign: f64,
    capacity: usize,
    /// Orthonormal; the last one has not been multiplied yet when a step begins.
    basis: Vec<Vec<f64>>,
    /// The projection of the operator on the basis, (capacity, capacity), row-major, symmetric.
    projected: Vec<f64>,
    /// The part of the last product outside the span of the basis, and its norm.
    rest: Vec<f64>,
    beta: f64,
    scale: f64,
    products: usize,
    /// Ritz values that restarts gave up.
    discarded: Vec<f64>,
    log_beta: f64,
}

impl<P: FnMut(&[f64], &mut [f64])> Run<P> {
    fn new(start: &[f64], sign: f64, settings: &LanczosSettings, product: P) -> Self {
        // In two steps, so that a start of any scale becomes a unit vector.
        let length = norm(start);
        let mut first: Vec<f64> = start.iter().map(|x| x / length).collect();
        let length = norm(&first);
        first.iter_mut().for_each(|x| *x /= length);
        let capacity = settings.basis.min(start.len());
        Self {
            product,
            sign,
            capacity,
            basis: vec![first],
            projected: vec![0.0; capacity * capacity],
            rest: vec![0.0; start.len()],
            beta: 0.0,
            scale: 0.0,
            products: 0,
            discarded: Vec::new(),
            log_beta: 0.0,
        }
    }

    /// Multiplies the last basis vector and splits the product into its part in the span of the
    /// basis and the rest.
    fn step(&mut self) -> Result<(), LanczosError> {
        let last = self.basis.len() - 1;
        multiply(
            &mut self.product,
            self.sign,
            &self.basis[last],
            &mut self.rest,
            &mut self.products,
        )?;
        let length = norm(&self.rest);
        self.scale = self.scale.max(length);
        // First what is known: the diagonal, and the entries that symmetry gives.
        let mut diagonal = dot(&self.basis[last], &self.rest);
        add_scaled(&mut self.rest, -diagonal, &self.basis[last]);
        for i in 0..last {
            let known = self.projected[i * self.capacity + last];
            if known != 0.0 {
                add_scaled(&mut self.rest, -known, &self.basis[i]);
            }
        }
        // Then what rounding left, until it leaves nothing.
        let mut before = norm(&self.rest);
        for pass in 0..4 {
            let components: Vec<f64> = self.basis.iter().map(|v| dot(v, &self.rest)).collect();
            if pass == 0 {
                let component = components[..last]
                    .iter()
                    .fold(0.0f64, |a, x| a.max(x.abs()));
                if component > ASYMMETRY * self.scale {
                    return Err(LanczosError::NotSymmetric {
                        product: self.products,
                        component,
                        scale: self.scale,
                    });
                }
            }
            diagonal += components[last];
            for (v, component) in self.basis.iter().zip(&components) {
                add_scaled(&mut self.rest, -component, v);
            }
            let after = norm(&self.rest);
            let enough = after >= 0.7 * before;
            before = after;
            if enough || after <= EXHAUSTED * self.scale {
                break;
            }
        }
        self.projected[last * self.capacity + last] = diagonal;
        self.beta = before;
        // A remainder of a few units of rounding may be all rounding.
        self.log_beta += (self.beta + EXHAUSTED * self.scale).ln();
        Ok(())
    }

    fn exhausted(&self) -> bool {
        self.basis.len() == self.rest.len() || self.beta <= EXHAUSTED * self.scale
    }

    /// The rest becomes the next basis vector.
    fn extend(&mut self) {
        let k = self.basis.len();
        self.projected[(k - 1) * self.capacity + k] = self.beta;
        self.projected[k * self.capacity + k - 1] = self.beta;
        self.push_rest();
    }

    fn push_rest(&mut self) {
        let mut next = self.rest.clone();
        next.iter_mut().for_each(|x| *x /= self.beta);
        let length = norm(&next);
        next.iter_mut().for_each(|x| *x /= length);
        self.basis.push(next);
    }

    fn kept(&self) -> usize {
        (2 * self.basis.len() / 5).max(1)
    }

    /// Spectrum of the projection, with the vectors that a restart keeps.
    fn ritz(&self) -> Result<Eigen, SpectrumError> {
        let k = self.basis.len();
        let entry = |i: usize, j: usize| self.projected[i * self.capacity + j];
        eigen(k, entry, self.kept())
    }

    fn tail(&self, ritz: &[f64]) -> Tail {
        let roots = self.discarded.iter().chain(ritz).copied().collect();
        Tail::new(roots, self.log_beta)
    }

    /// Keeps the Ritz vectors nearest to the wanted end, and the rest.
    fn restart(&mut self, ritz: &Eigen) {
        let (k, kept) = (self.basis.len(), self.kept());
        self.rotate(&ritz.vectors, kept);
        self.projected.fill(0.0);
        for i in 0..kept {
            let coupling = self.beta * ritz.vectors[i * k + k - 1];
            self.projected[i * self.capacity + i] = ritz.values[i];
            self.projected[i * self.capacity + kept] = coupling;
            self.projected[kept * self.capacity + i] = coupling;
        }
        self.discarded.extend_from_slice(&ritz.values[kept..]);
        self.push_rest();
    }

    /// The basis becomes its combinations with the first `count` coefficient vectors, in place.
    fn rotate(&mut self, coefficients: &[f64], count: usize) {
        let (k, dim) = (self.basis.len(), self.rest.len());
        let mut block = vec![0.0; count * CHUNK];
        for from in (0..dim).step_by(CHUNK) {
            let to = dim.min(from + CHUNK);
            block.fill(0.0);
            for (row, out) in coefficients
                .chunks_exact(k)
                .zip(block.chunks_exact_mut(CHUNK))
            {
                for (v, c) in self.basis.iter().zip(row) {
                    add_scaled(&mut out[..to - from], *c, &v[from..to]);
                }
            }
            for (v, out) in self.basis.iter_mut().zip(block.chunks_exact(CHUNK)) {
                v[from..to].copy_from_slice(&out[..to - from]);
            }
        }
        self.basis.truncate(count);
    }

    /// The Ritz vector and its residual, from a product of its own.
    fn finish(
        mut self,
        status: LanczosStatus,
        end: End,
    ) -> Result<ExtremeEigenvalue, LanczosError> {
        let ritz = self.ritz()?;
        let tail = self.tail(&ritz.values);
        self.rotate(&ritz.vectors, 1);
        let mut direction = self.basis.swap_remove(0);
        let length = norm(&direction);
        direction.iter_mut().for_each(|x| *x /= length);
        let mut image = self.rest;
        multiply(
            &mut self.product,
            self.sign,
            &direction,
            &mut image,
            &mut self.products,
        )?;
        let scale = self.scale.max(norm(&image));
        let theta = dot(&direction, &image);
        add_scaled(&mut image, -theta, &direction);
        let rounding = EXHAUSTED * scale;
        Ok(ExtremeEigenvalue {
            value: self.sign * theta,
            residual: norm_upper(&image) + 4.0 * f64::EPSILON * scale,
            direction,
            rounding,
            scale,
            products: self.products,
            status,
            end,
            tail,
        })
    }
}

fn multiply(
    product: &mut impl FnMut(&[f64], &mut [f64]),
    sign: f64,
    v: &[f64],
    out: &mut [f64],
    products: &mut usize,
) -> Result<(), LanczosError> {
    out.fill(0.0);
    product(v, out);
    *products += 1;
    let mut finite = true;
    for x in out.iter_mut() {
        finite &= x.is_finite();
        *x *= sign;
    }
    if finite {
        Ok(())
    } else {
        Err(LanczosError::NotFinite { product: *products })
    }
}
