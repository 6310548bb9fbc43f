//! Problems whose objective is known in closed form.

use dpopt_solver::{KlCondition, PlanError};

/// Constants of an objective F, each with a proof on the problem's own page. All hold in
/// the ball of radius `radius` around `centre` (everywhere, if that is infinite); infinity says that
/// there is no such constant, or that none is known.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ProblemConstants {
    /// L0: bound on the gradient norm.
    pub lipschitz: f64,
    /// L1: Lipschitz constant of the gradient.
    pub smoothness: f64,
    /// rho: Lipschitz constant of the Hessian in the operator norm.
    pub hessian_lipschitz: f64,
    /// C_F: bound on the Frobenius norm of the Hessian.
    pub hessian_frobenius: f64,
    /// The least c >= 0 known for which F + (c/2)||w||^2 is convex; 0 for a convex F.
    pub weak_convexity: f64,
    /// sup F - inf F.
    pub range: f64,
    /// F0 = F(0) - inf F.
    pub initial_gap: f64,
    /// gamma and kappa of the Kurdyka-Lojasiewicz inequality, if F has one.
    pub kl: Option<Kl>,
    /// Where the ball begins; the origin, if empty.
    pub centre: Vec<f64>,
    /// How far it reaches.
    pub radius: f64,
}

/// The (gamma, kappa)-KL inequality F(w) - inf F <= (gamma ||grad F(w)||)^kappa.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Kl {
    /// gamma.
    pub gamma: f64,
    /// kappa; 2 is the Polyak-Lojasiewicz inequality.
    pub kappa: f64,
}

impl Kl {
    /// The same as a checked condition.
    ///
    /// # Errors
    /// As [`KlCondition::new`].
    pub fn condition(self) -> Result<KlCondition, PlanError> {
        KlCondition::new(self.gamma, self.kappa)
    }
}

impl ProblemConstants {
    /// L0, L1 and F0, everywhere; nothing else is known.
    #[must_use]
    pub fn first_order(lipschitz: f64, smoothness: f64, initial_gap: f64) -> Self {
        Self {
            lipschitz,
            smoothness,
            hessian_lipschitz: f64::INFINITY,
            hessian_frobenius: f64::INFINITY,
            // A gradient with Lipschitz constant L1 bends down by no more.
            weak_convexity: smoothness,
            range: f64::INFINITY,
            initial_gap,
            kl: None,
            centre: Vec::new(),
            radius: f64::INFINITY,
        }
    }

    /// With rho.
    #[must_use]
    pub fn with_hessian_lipschitz(mut self, rho: f64) -> Self {
        self.hessian_lipschitz = rho;
        self
    }

    /// With C_F.
    #[must_use]
    pub fn with_hessian_frobenius(mut self, frobenius: f64) -> Self {
        self.hessian_frobenius = frobenius;
        self
    }

    /// With a constant of weak convexity, 0 for a convex function.
    #[must_use]
    pub fn with_weak_convexity(mut self, weak_convexity: f64) -> Self {
        self.weak_convexity = weak_convexity;
        self
    }

    /// With sup F - inf F.
    #[must_use]
    pub fn with_range(mut self, range: f64) -> Self {
        self.range = range;
        self
    }

    /// With the KL inequality.
    #[must_use]
    pub fn with_kl(mut self, gamma: f64, kappa: f64) -> Self {
        self.kl = Some(Kl { gamma, kappa });
        self
    }

    /// Holding in a ball only.
    #[must_use]
    pub fn within(mut self, centre: Vec<f64>, radius: f64) -> Self {
        self.centre = centre;
        self.radius = radius;
        self
    }
}

/// An objective F with exact value, gradient and constants. Solvers start at the origin.
pub trait Problem {
    /// Dimension d of points and gradients.
    fn dim(&self) -> usize;

    /// All that is known.
    fn constants(&self) -> ProblemConstants;

    /// L0: bound on the gradient norm.
    fn lipschitz(&self) -> f64 {
        self.constants().lipschitz
    }

    /// L1: Lipschitz constant of the gradient.
    fn smoothness(&self) -> f64 {
        self.constants().smoothness
    }

    /// F0 = F(0) - inf F.
    fn initial_gap(&self) -> f64 {
        self.constants().initial_gap
    }

    /// F at `point`.
    ///
    /// # Shapes
    /// `point`: d.
    fn value(&self, point: &[f64]) -> f64;

    /// Writes the gradient of F at `point` to `out`; at a kink, some Clarke subgradient.
    ///
    /// # Shapes
    /// `point` and `out`: d.
    fn gradient(&self, point: &[f64], out: &mut [f64]);
}

/// A problem with second derivatives, known exactly.
pub trait SecondOrderProblem: Problem {
    /// Writes the product of the Hessian of F at `point` with `direction` to `out`.
    ///
    /// # Shapes
    /// `point`, `direction` and `out`: d.
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]);

    /// The least eigenvalue of the Hessian of F at `point`.
    fn least_eigenvalue(&self, point: &[f64]) -> f64;
}

/// A problem whose distance to Goldstein stationarity is known exactly.
pub trait GoldsteinProblem: Problem {
    /// The least norm in the Goldstein subdifferential of F at `point`: in the convex hull of all
    /// Clarke subgradients within `radius`.
    fn goldstein_distance(&self, point: &[f64], radius: f64) -> f64;
}
