//! Losses from a user's functions.

use super::{Constants, Differentiable, Loss, TwiceDifferentiable};

/// A loss made of two closures on records of any type; or of one, which gives values ([`ClosureLoss::values`]): then it has no
/// gradient, and only solvers that ask for values alone run on it. A third gives second derivatives
/// ([`ClosureLoss::with_hessian_vector`]).
///
/// ```
/// use dpopt_oracle::{ClosureLoss, Constants, Convexity};
/// // A bounded loss of one number: 1 - exp(-(w - x)^2 / 2).
/// let constants = Constants::new((-0.5f64).exp(), 1.0, 1.0, Convexity::Nonconvex);
/// let loss = ClosureLoss::new(
///     1,
///     constants,
///     |x: &f64, w: &[f64]| -(-0.5 * (w[0] - x).powi(2)).exp_m1(),
///     |x: &f64, w: &[f64], out: &mut [f64]| {
///         let r = w[0] - x;
///         out[0] += r * (-0.5 * r * r).exp();
///     },
/// );
/// # let _ = loss;
/// ```
///
/// # Privacy
/// The closures must be functions of the record and the point alone. A record on which one panics,
/// or returns something that is not finite, contributes zero, silently. Constants that are wrong
/// cost accuracy only: contributions are clipped. [`crate::check_gradient`], [`crate::check_hessian_vector`] and
/// [`crate::check_constants`] try both on public data.
pub struct ClosureLoss<T, V, G, H = ()> {
    dim: usize,
    constants: Constants,
    value: V,
    gradient: G,
    hessian_vector: H,
    record: std::marker::PhantomData<fn(&T)>,
}

impl<T, V, G> ClosureLoss<T, V, G>
where
    T: Sync,
    V: Fn(&T, &[f64]) -> f64 + Sync,
    G: Fn(&T, &[f64], &mut [f64]) + Sync,
{
    /// A loss in `dim` parameters. `gradient` adds to its last argument, which holds zeros.
    pub fn new(dim: usize, constants: Constants, value: V, gradient: G) -> Self {
        Self {
            dim,
            constants,
            value,
            gradient,
            hessian_vector: (),
            record: std::marker::PhantomData,
        }
    }
}

impl<T, V, G> ClosureLoss<T, V, G>
where
    T: Sync,
    G: Fn(&T, &[f64], &mut [f64]) + Sync,
{
    /// With second derivatives: `hessian_vector` adds the product of the Hessian at its second argument with its third to its last,
    /// which holds zeros. For a solver or a certificate that reads Hessians the constants need
    /// [`Constants::with_hessian_lipschitz`] and [`Constants::with_hessian_frobenius`] too.
    ///
    /// # Privacy
    /// As for the other closures. A product that is not the derivative of the gradient costs accuracy only.
    pub fn with_hessian_vector<H>(self, hessian_vector: H) -> ClosureLoss<T, V, G, H>
    where
        H: Fn(&T, &[f64], &[f64], &mut [f64]) + Sync,
    {
        ClosureLoss {
            dim: self.dim,
            constants: self.constants,
            value: self.value,
            gradient: self.gradient,
            hessian_vector,
            record: self.record,
        }
    }
}

impl<T, V> ClosureLoss<T, V, ()>
where
    T: Sync,
    V: Fn(&T, &[f64]) -> f64 + Sync,
{
    /// A loss in `dim` parameters that is a program: values, and no gradient. It need not be continuous; a constant that it has
    /// not got is infinite.
    ///
    /// ```compile_fail
    /// use dpopt_oracle::{ClosureLoss, Constants, Convexity, Differentiable};
    /// let constants = Constants::new(f64::INFINITY, f64::INFINITY, 1.0, Convexity::Nonconvex);
    /// let error = |x: &f64, w: &[f64]| f64::from(u8::from(*x > w[0]));
    /// fn gradient_of(_: impl Differentiable) {}
    /// gradient_of(ClosureLoss::values(1, constants, error));
    /// ```
    pub fn values(dim: usize, constants: Constants, value: V) -> Self {
        Self {
            dim,
            constants,
            value,
            gradient: (),
            hessian_vector: (),
            record: std::marker::PhantomData,
        }
    }
}

impl<T, V, G, H> Loss for ClosureLoss<T, V, G, H>
where
    T: Sync + 'static,
    V: Fn(&T, &[f64]) -> f64 + Sync,
    G: Sync,
    H: Sync,
{
    type Records = Vec<T>;

    fn dim(&self, _: &Vec<T>) -> usize {
        self.dim
    }

    fn constants_on(&self, _: &Vec<T>) -> Constants {
        self.constants
    }

    fn value(&self, record: &T, point: &[f64]) -> f64 {
        (self.value)(record, point)
    }
}

impl<T, V, G, H> Differentiable for ClosureLoss<T, V, G, H>
where
    T: Sync + 'static,
    V: Fn(&T, &[f64]) -> f64 + Sync,
    G: Fn(&T, &[f64], &mut [f64]) + Sync,
    H: Sync,
{
    fn gradient(&self, record: &T, point: &[f64], out: &mut [f64]) {
        (self.gradient)(record, point, out);
    }
}

impl<T, V, G, H> TwiceDifferentiable for ClosureLoss<T, V, G, H>
where
    T: Sync + 'static,
    V: Fn(&T, &[f64]) -> f64 + Sync,
    G: Fn(&T, &[f64], &mut [f64]) + Sync,
    H: Fn(&T, &[f64], &[f64], &mut [f64]) + Sync,
{
    fn hessian_vector(&self, record: &T, point: &[f64], direction: &[f64], out: &mut [f64]) {
        (self.hessian_vector)(record, point, direction, out);
    }
}
