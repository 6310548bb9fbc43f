//! Saddles that a step of curvature leaves by exactly as much as its theorem says.

use crate::problem::{
    Problem, ProblemConstants, ProblemError, SecondOrderProblem, in_range, positive,
};

/// F(w) = sum_{j <= K} h_j(w_j), where h_j'' rises from -c_j at 0 to c_j at 2 c_j/rho with slope rho, falls to 0 at 3 c_j/rho with slope rho, and is 0 beyond,
/// the same on the left. The coordinates after the first K are exactly flat.
///
/// The origin is a critical point with Hessian diag(-c_1, ..., -c_K, 0, ...): a strict saddle, or a chain of them, which are left one after the other.
/// **A step of curvature is tight here**: along coordinate j the descent -c r^2/2 + rho r^3/6 of the worst case is attained, its best length
/// 2 c_j/rho ends in the minimum, and F falls by (2/3) c_j^3/rho^2.
///
/// # Constants, everywhere
/// With c = (c_1, ..., c_K); h_j' is at most c_j^2/(2 rho) in size, at c_j/rho and from 3 c_j/rho on.
/// - L0 = ||c^2||/(2 rho), attained far out; L1 = max c; C_F = ||c||; rho; the last three are attained at 0.
/// - Weak convexity: max c.
/// - F0 = (2/3) sum c_j^3/rho^2, exactly.
#[derive(Debug, Clone, PartialEq)]
pub struct CubicSaddles {
    dim: usize,
    rho: f64,
    curvatures: Vec<f64>,
}

impl CubicSaddles {
    /// Dimension, rho, and the c_j of the first coordinates: from 1 to `dim` of them.
    ///
    /// # Errors
    /// [`ProblemError`].
    pub fn new(dim: usize, rho: f64, curvatures: Vec<f64>) -> Result<Self, ProblemError> {
        positive("hessian_lipschitz", rho)?;
        for &curvature in &curvatures {
            positive("curvature", curvature)?;
        }
        in_range(
            "number of saddles",
            curvatures.len() as f64,
            1.0,
            dim as f64,
        )?;
        Ok(Self {
            dim,
            rho,
            curvatures,
        })
    }

    fn sharpest(&self) -> f64 {
        self.curvatures.iter().copied().fold(0.0, f64::max)
    }

    fn root_sum(&self, power: i32) -> f64 {
        let powers = self.curvatures.iter().map(|c| c.powi(power));
        powers.sum::<f64>().sqrt()
    }

    /// h, h' and h'' at `x`.
    fn at(&self, c: f64, x: f64) -> [f64; 3] {
        let rho = self.rho;
        let (t, end) = (x.abs(), c / rho);
        let [value, slope, curvature] = if t <= 2.0 * end {
            [
                t * t * (rho * t / 6.0 - 0.5 * c),
                t * (0.5 * rho * t - c),
                rho * t - c,
            ]
        } else {
            let bottom = -2.0 / 3.0 * c * end * end;
            let bent = (t - 2.0 * end).min(end);
            let beyond = t - 2.0 * end - bent;
            let slope = bent * (c - 0.5 * rho * bent);
            [
                bottom + bent * bent * (0.5 * c - rho * bent / 6.0) + slope * beyond,
                slope,
                c - rho * bent,
            ]
        };
        [value, if x < 0.0 { -slope } else { slope }, curvature]
    }

    fn each<'a>(&'a self, point: &'a [f64]) -> impl Iterator<Item = [f64; 3]> + 'a {
        let pairs = self.curvatures.iter().zip(point);
        pairs.map(|(c, x)| self.at(*c, *x))
    }
}

impl Problem for CubicSaddles {
    fn dim(&self) -> usize {
        self.dim
    }

    fn constants(&self) -> ProblemConstants {
        let cubes: f64 = self.curvatures.iter().map(|c| c.powi(3)).sum();
        let gap = 2.0 / 3.0 * cubes / (self.rho * self.rho);
        let lipschitz = 0.5 * self.root_sum(4) / self.rho;
        ProblemConstants::first_order(lipschitz, self.sharpest(), gap)
            .with_hessian_lipschitz(self.rho)
            .with_hessian_frobenius(self.root_sum(2))
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.each(point).map(|[value, ..]| value).sum()
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        for (out, [_, slope, _]) in out.iter_mut().zip(self.each(point)) {
            *out = slope;
        }
    }
}

impl SecondOrderProblem for CubicSaddles {
    fn hessian_vector(&self, point: &[f64], direction: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let pairs = self.each(point).zip(direction);
        for (out, ([.., curvature], v)) in out.iter_mut().zip(pairs) {
            *out = curvature * v;
        }
    }

    fn least_eigenvalue(&self, point: &[f64]) -> f64 {
        let flat = if self.dim > self.curvatures.len() {
            0.0
        } else {
            f64::INFINITY
        };
        self.each(point).map(|[.., c]| c).fold(flat, f64::min)
    }
}
