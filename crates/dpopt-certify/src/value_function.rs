//! The largest value over y of a saddle problem, as an objective: an inner solve to a proved gap, and how far off it may leave what is said.

use dpopt_linalg::{Domain, add_scaled, dot};
use dpopt_oracle::{PublicRecords, Records, SaddleLoss, TwiceSaddle};

use crate::error::CertificateError;
use crate::objective::{Curved, Objective};

/// F(x, y) in closed form or over public records, strongly concave in y on a closed convex Y.
pub trait Saddle {
    /// Coordinates of x.
    fn x_dim(&self) -> usize;

    /// Y.
    fn domain(&self) -> Domain;

    /// Constants of the inner solve and its errors.
    fn inner(&self) -> InnerConstants;

    /// F(x, y).
    fn value(&self, x: &[f64], y: &[f64]) -> f64;

    /// Writes grad_x F and grad_y F.
    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64]));

    /// Writes the product of the Hessian in (x, y) with `direction`.
    ///
    /// # Shapes
    /// `direction` and `out`: x + y numbers.
    fn hessian_vector(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]);
}

/// Constants of F. They are claims of the caller: errors are proved from them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InnerConstants {
    /// m: F(x, .) is m-strongly concave.
    pub strong_concavity: f64,
    /// L_yy: Lipschitz constant of grad_y F in y; at least m.
    pub smooth_yy: f64,
    /// L_xy: Lipschitz constant of grad_x F in y.
    pub smooth_xy: f64,
    /// rho_J: Lipschitz constant in y of the Hessian of F in (x, y); infinite where none is known.
    pub joint_hessian_lipschitz: f64,
}

/// How far what is said of Phi at a point may be from the truth, but for rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ValueError {
    /// Phi is at least the value, and at most that much more.
    pub value: f64,
    /// The gradient of Phi is within that of the gradient.
    pub gradient: f64,
    /// No eigenvalue of the Hessian of Phi is further than that from the one that is told; none where y* may touch the boundary of its
    /// domain, where Phi may have no Hessian, or no constant is known.
    pub curvature: Option<f64>,
    /// y is within that of y*.
    pub distance: f64,
    /// Steps of the inner solve.
    pub steps: usize,
    /// Whether it reached its tolerance.
    pub converged: bool,
}

/// Phi(x) = max over y in Y of F(x, y).
///
/// # Formula
/// Steps y+ = P(y + (1/L_yy) grad_y F) until ||G||/m is at most the tolerance, G = L_yy (y+ - y). Then, of y+:
/// F(x, y*) - F(x, y+) <= ||G||^2/(2 m) and ||y+ - y*|| <= ||G||/m. The gradient is grad_x F(x, y+), at most L_xy ||y+ - y*|| from grad Phi;
/// a product of the Hessian is H v + B C^-1 B^T v (C z = B^T v by conjugate gradients), at most rho_J ||y+ - y*|| (1 + (L_xy/m)^2)
/// from that of Phi.
///
/// *Proof.* For z in Y, concavity and the projection give F(z) <= F(y+) + <G, z - y> - ||G||^2/(2 L_yy) - (m/2)||z - y||^2, of which the
/// largest value over z is at most F(y+) + ||G||^2/(2 m). At z = y*, and since F(y*) - F(y+) >= (m/2)||y* - y+||^2, the distance follows. For the
/// Hessian: v^T hess Phi v is the largest value over w of (v, w)^T M(y*) (v, w), that at y+ likewise, the best w of either is at most L_xy/m
/// times as long as v, and forms of both differ by at most rho_J ||y+ - y*|| (1 + ||w||^2).
///
/// # Privacy
/// For public data and closed forms only.
pub struct ValueFunction<'a, S: ?Sized> {
    saddle: &'a S,
    tolerance: f64,
    max_steps: usize,
}

/// The end of an inner solve.
struct Inner {
    y: Vec<f64>,
    residual: f64,
    steps: usize,
}

impl<'a, S: Saddle + ?Sized> ValueFunction<'a, S> {
    /// With y to within 1e-10 of y*, by at most 100,000 steps.
    ///
    /// # Errors
    /// [`CertificateError::NotFinite`] for constants that are not positive and finite (rho_J may be infinite), or a domain without a bound.
    pub fn new(saddle: &'a S) -> Result<Self, CertificateError> {
        let of = saddle.inner();
        let positive = |x: f64| x > 0.0 && x.is_finite();
        if !positive(of.strong_concavity) || !(of.smooth_yy >= of.strong_concavity) {
            return Err(CertificateError::NotFinite("strong concavity"));
        }
        if !(of.smooth_yy.is_finite() && of.smooth_xy >= 0.0 && of.smooth_xy.is_finite()) {
            return Err(CertificateError::NotFinite("smoothness"));
        }
        Ok(Self {
            saddle,
            tolerance: 1e-10,
            max_steps: 100_000,
        })
    }

    /// With y to within `tolerance` of y*, by at most so many steps. Whatever they reach, the error tells.
    #[must_use]
    pub fn within(self, tolerance: f64, max_steps: usize) -> Self {
        Self {
            tolerance,
            max_steps,
            ..self
        }
    }

    /// Bound on the errors of Phi at `point`.
    ///
    /// # Shapes
    /// `point`: that of x.
    #[must_use]
    pub fn error(&self, point: &[f64]) -> ValueError {
        let of = self.saddle.inner();
        let Inner { y, residual, steps } = self.solve(point);
        let distance = residual / of.strong_concavity;
        let lift = of.smooth_xy / of.strong_concavity;
        let inside = self.saddle.domain().margin(&y) > distance;
        let curvature = of.joint_hessian_lipschitz * distance * (1.0 + lift * lift);
        ValueError {
            value: 0.5 * residual * residual / of.strong_concavity,
            gradient: of.smooth_xy * distance,
            curvature: (inside && curvature.is_finite()).then_some(curvature),
            distance,
            steps,
            converged: distance <= self.tolerance,
        }
    }

    /// y*(x), as far as the inner solve found it.
    #[must_use]
    pub fn best_response(&self, point: &[f64]) -> Vec<f64> {
        self.solve(point).y
    }

    fn solve(&self, x: &[f64]) -> Inner {
        let (domain, of) = (self.saddle.domain(), self.saddle.inner());
        let mut y = domain.middle();
        let (mut of_x, mut of_y) = (vec![0.0; x.len()], vec![0.0; y.len()]);
        let mut steps = 0;
        loop {
            self.saddle.gradient(x, &y, (&mut of_x, &mut of_y));
            let mut next = y.clone();
            add_scaled(&mut next, 1.0 / of.smooth_yy, &of_y);
            domain.project(&mut next);
            let moved: f64 = next.iter().zip(&y).map(|(a, b)| (a - b).powi(2)).sum();
            let residual = of.smooth_yy * moved.sqrt();
            steps += 1;
            y = next;
            // Numbers that are none end it too.
            if !(residual > of.strong_concavity * self.tolerance) || steps >= self.max_steps {
                return Inner { y, residual, steps };
            }
        }
    }
}

impl<S: Saddle + ?Sized> Objective for ValueFunction<'_, S> {
    fn dim(&self) -> usize {
        self.saddle.x_dim()
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.saddle.value(point, &self.best_response(point))
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        let y = self.best_response(point);
        let mut of_y = vec![0.0; y.len()];
        self.saddle.gradient(point, &y, (out, &mut of_y));
    }
}

impl<S: Saddle + ?Sized> ValueFunction<'_, S> {
    /// H v + B C^-1 B^T v at (x, y).
    fn product(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]) {
        let (d1, dim) = (x.len(), x.len() + y.len());
        let times = |of_x: &[f64], of_y: &[f64]| {
            let (joint, mut all) = ([of_x, of_y].concat(), vec![0.0; dim]);
            self.saddle.hessian_vector(x, y, &joint, &mut all);
            all
        };
        let (no_x, no_y) = (vec![0.0; d1], vec![0.0; y.len()]);
        let first = times(direction, &no_y);
        // C z = B^T v.
        let mut residual = first[d1..].to_vec();
        let mut z = no_y.clone();
        let mut along = residual.clone();
        let mut square = dot(&residual, &residual);
        let enough = 1e-30 * square;
        for _ in 0..10 * (y.len() + 1) {
            if !(square > enough) {
                break;
            }
            let curved: Vec<f64> = times(&no_x, &along)[d1..].iter().map(|c| -c).collect();
            let step = square / dot(&along, &curved);
            add_scaled(&mut z, step, &along);
            add_scaled(&mut residual, -step, &curved);
            let next = dot(&residual, &residual);
            let ratio = next / square;
            square = next;
            for (along, r) in along.iter_mut().zip(&residual) {
                *along = r + ratio * *along;
            }
        }
        let second = times(&no_x, &z);
        for (out, (a, b)) in out.iter_mut().zip(first[..d1].iter().zip(&second)) {
            *out = a + b;
        }
    }
}

impl<S: Saddle + ?Sized> Curved for ValueFunction<'_, S> {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        self.product(point, &self.best_response(point), direction, out);
    }

    /// Result of one inner solve.
    fn hessian(&self, point: &[f64]) -> Vec<f64> {
        let dim = self.dim();
        let y = self.best_response(point);
        let mut hessian = vec![0.0; dim * dim];
        for (j, row) in hessian.chunks_exact_mut(dim.max(1)).enumerate() {
            let mut unit = vec![0.0; dim];
            unit[j] = 1.0;
            self.product(point, &y, &unit, row);
        }
        hessian
    }
}

/// The mean of a saddle loss over public records.
///
/// # Privacy
/// For public data only: no noise is added and nothing charged.
pub struct SaddleMean<'a, L: SaddleLoss> {
    records: &'a L::Records,
    loss: &'a L,
    inner: InnerConstants,
}

impl<'a, L: SaddleLoss> SaddleMean<'a, L> {
    /// The mean over `data`, with constants of the mean.
    ///
    /// # Errors
    /// [`CertificateError::NoRecords`].
    pub fn new(
        data: &'a PublicRecords<L::Records>,
        loss: &'a L,
        inner: InnerConstants,
    ) -> Result<Self, CertificateError> {
        let records = data.records();
        if records.is_empty() {
            return Err(CertificateError::NoRecords);
        }
        Ok(Self {
            records,
            loss,
            inner,
        })
    }
}

impl<L: TwiceSaddle> Saddle for SaddleMean<'_, L> {
    fn x_dim(&self) -> usize {
        self.loss.x_dim(self.records)
    }

    fn domain(&self) -> Domain {
        self.loss.domain()
    }

    fn inner(&self) -> InnerConstants {
        self.inner
    }

    fn value(&self, x: &[f64], y: &[f64]) -> f64 {
        let count = self.records.len();
        let all = (0..count).map(|i| self.loss.value(self.records.record(i), x, y));
        all.sum::<f64>() / count as f64
    }

    fn gradient(&self, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        let count = self.records.len();
        let (mut of_x, mut of_y) = (vec![0.0; x.len()], vec![0.0; y.len()]);
        out.0.fill(0.0);
        out.1.fill(0.0);
        for i in 0..count {
            of_x.fill(0.0);
            of_y.fill(0.0);
            let record = self.records.record(i);
            self.loss.gradient(record, x, y, (&mut of_x, &mut of_y));
            add_scaled(out.0, 1.0 / count as f64, &of_x);
            add_scaled(out.1, 1.0 / count as f64, &of_y);
        }
    }

    fn hessian_vector(&self, x: &[f64], y: &[f64], direction: &[f64], out: &mut [f64]) {
        let count = self.records.len();
        let mut one = vec![0.0; out.len()];
        out.fill(0.0);
        for i in 0..count {
            one.fill(0.0);
            let record = self.records.record(i);
            self.loss.hessian_vector(record, x, y, direction, &mut one);
            add_scaled(out, 1.0 / count as f64, &one);
        }
    }
}
