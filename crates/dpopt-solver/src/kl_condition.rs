//! The Kurdyka-Lojasiewicz condition, its other names, and what follows from it.

use serde::Serialize;

use crate::error::PlanError;

/// F(w) - min F <= gamma^kappa ||grad F(w)||^kappa for all w of some region.
///
/// kappa = 2 is the Polyak-Lojasiewicz condition. For F that is not differentiable, ||grad F(w)|| is the
/// smallest norm of a Clarke subgradient. The condition is an assumption about F: nothing here checks it.
///
/// # Units
/// With F in units of loss and w in units of length, gamma is in loss^(1/kappa - 1) length.
///
/// Source: Menart, Ullah, Arora, Bassily and Guzman, "Differentially Private Non-Convex Optimization under the KL
/// Condition with Optimal Rates", Eq. 1 and Definition 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct KlCondition {
    gamma: f64,
    kappa: f64,
}

impl KlCondition {
    /// The condition with these constants.
    ///
    /// # Errors
    /// [`PlanError::BadFact`] unless gamma is positive and kappa at least 1, both finite.
    pub fn new(gamma: f64, kappa: f64) -> Result<Self, PlanError> {
        for (name, value, least) in [("gamma", gamma, f64::MIN_POSITIVE), ("kappa", kappa, 1.0)] {
            if !(value >= least && value.is_finite()) {
                return Err(PlanError::BadFact { name, value });
            }
        }
        Ok(Self { gamma, kappa })
    }

    /// The Polyak-Lojasiewicz condition 1/2 ||grad F||^2 >= m (F - min F): kappa = 2, gamma = 1/sqrt(2 m).
    ///
    /// A strongly convex F with modulus m has it.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn polyak_lojasiewicz(modulus: f64) -> Result<Self, PlanError> {
        PlanError::positive("modulus", modulus)?;
        Self::new((2.0 * modulus).sqrt().recip(), 2.0)
    }

    /// The Lojasiewicz form ||grad F|| >= c (F - min F)^theta: kappa = 1/theta, gamma = 1/c.
    ///
    /// # Errors
    /// [`PlanError::BadFact`]; theta is at most 1.
    pub fn lojasiewicz(scale: f64, exponent: f64) -> Result<Self, PlanError> {
        PlanError::positive("scale", scale)?;
        PlanError::positive("exponent", exponent)?;
        Self::new(scale.recip(), exponent.recip())
    }

    /// From growth of a **convex** F, F(w) - min F >= lambda^tau ||w - w_p||^tau with w_p the nearest minimiser and tau > 1:
    /// kappa = tau/(tau - 1), gamma = 1/lambda (Lemma 6).
    ///
    /// Because F(w) - min F <= ||grad F|| r and r <= gamma (F - min F)^(1/tau).
    ///
    /// # Errors
    /// [`PlanError::BadFact`]; tau must be above 1.
    pub fn growth(lambda: f64, tau: f64) -> Result<Self, PlanError> {
        PlanError::positive("lambda", lambda)?;
        if !(tau > 1.0) {
            return Err(PlanError::BadFact {
                name: "tau",
                value: tau,
            });
        }
        Self::new(lambda.recip(), tau / (tau - 1.0))
    }

    /// gamma.
    #[must_use]
    pub fn gamma(&self) -> f64 {
        self.gamma
    }

    /// kappa.
    #[must_use]
    pub fn kappa(&self) -> f64 {
        self.kappa
    }

    /// The largest excess F(w) - min F at a gradient norm of at most `gradient_norm`: (gamma norm)^kappa.
    #[must_use]
    pub fn excess_bound(&self, gradient_norm: f64) -> f64 {
        (self.gamma * gradient_norm).powf(self.kappa)
    }

    /// The least gradient norm where the excess is at least `excess`: excess^(1/kappa)/gamma.
    #[must_use]
    pub fn gradient_norm_at(&self, excess: f64) -> f64 {
        excess.powf(self.kappa.recip()) / self.gamma
    }

    /// The excess over its bound: above 1 the condition fails at this point; 1 where it is tight.
    /// 0 where both are 0.
    #[must_use]
    pub fn ratio(&self, excess: f64, gradient_norm: f64) -> f64 {
        if excess == 0.0 {
            0.0
        } else {
            excess / self.excess_bound(gradient_norm)
        }
    }

    /// The condition with the smaller exponent `kappa` that follows from this one and ||grad F|| <= L0:
    /// gamma'^kappa' = gamma^kappa L0^(kappa - kappa').
    ///
    /// # Errors
    /// [`PlanError::BadFact`] for an exponent below 1 or above the present one, which does not follow.
    pub fn weakened(&self, kappa: f64, lipschitz: f64) -> Result<Self, PlanError> {
        PlanError::positive("lipschitz", lipschitz)?;
        if !(kappa <= self.kappa) {
            return Err(PlanError::BadFact {
                name: "kappa",
                value: kappa,
            });
        }
        let ratio = self.kappa / kappa;
        Self::new(self.gamma.powf(ratio) * lipschitz.powf(ratio - 1.0), kappa)
    }

    /// The condition of s F: gamma s^((1 - kappa)/kappa).
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn of_scaled_loss(&self, scale: f64) -> Result<Self, PlanError> {
        PlanError::positive("scale", scale)?;
        Self::new(
            self.gamma * scale.powf((1.0 - self.kappa) / self.kappa),
            self.kappa,
        )
    }

    /// The condition of v -> F(s v): gamma/s.
    ///
    /// # Errors
    /// [`PlanError::BadFact`].
    pub fn of_scaled_argument(&self, scale: f64) -> Result<Self, PlanError> {
        PlanError::positive("scale", scale)?;
        Self::new(self.gamma / scale, self.kappa)
    }

    /// Where a minimiser is sure to be: within kappa/(kappa - 1) gamma F0^((kappa - 1)/kappa) of a point whose excess is F0
    /// (Remark 1, by Lemma 7). `None` for kappa = 1, where no radius follows (the formula in print divides by zero there).
    #[must_use]
    pub fn reach(&self, excess: f64) -> Option<f64> {
        let share = (self.kappa - 1.0) / self.kappa;
        (share > 0.0).then(|| self.gamma * excess.powf(share) / share)
    }

    /// gamma^2 L excess^(-(2 - kappa)/kappa): the condition number at an excess, without units. For an L-smooth F with a
    /// minimiser in the region and kappa <= 2 it is at least 1/2 at the true excess of every point, because
    /// ||grad F||^2 <= 2 L (F - min F). A smaller number means that a constant is wrong, or that
    /// `excess` is a loose bound.
    #[must_use]
    pub fn condition_number(&self, smoothness: f64, excess: f64) -> f64 {
        self.gamma * self.gamma * smoothness * excess.powf((self.kappa - 2.0) / self.kappa)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F(w) = |w|^tau/tau has ||grad F|| = |w|^(tau - 1), so the condition is tight everywhere with
    /// gamma = tau^(1/tau - 1).
    fn power(tau: f64) -> KlCondition {
        KlCondition::new(tau.powf(tau.recip() - 1.0), tau / (tau - 1.0)).unwrap()
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} against {b}");
    }

    #[test]
    fn a_power_is_tight_however_it_is_scaled() {
        for tau in [4.0 / 3.0, 1.5, 2.0, 3.0, 11.0] {
            for (s, t) in [(1.0, 1.0), (7.0, 1.0), (1.0, 0.3), (0.2, 5.0)] {
                let kl = power(tau).of_scaled_loss(s).unwrap();
                let kl = kl.of_scaled_argument(t).unwrap();
                for w in [0.01f64, 0.5, 3.0] {
                    let excess = s * (t * w).powf(tau) / tau;
                    let norm = s * t * (t * w).powf(tau - 1.0);
                    near(kl.ratio(excess, norm), 1.0);
                    near(kl.gradient_norm_at(excess), norm);
                }
            }
        }
    }

    #[test]
    fn the_other_names_mean_the_same() {
        // w^2 m/2 is strongly convex with modulus m.
        let m = 0.3f64;
        let kl = KlCondition::polyak_lojasiewicz(m).unwrap();
        near(kl.ratio(m / 2.0, m), 1.0);
        // |grad| = c excess^theta with theta = 1/2 and c = sqrt(2 m).
        let same = KlCondition::lojasiewicz((2.0 * m).sqrt(), 0.5).unwrap();
        near(same.gamma(), kl.gamma());
        near(same.kappa(), kl.kappa());
        // Growth with (lambda^2 = m/2, 2) gives a constant that holds and is not tight: gamma = sqrt(2/m).
        let grown = KlCondition::growth((m / 2.0).sqrt(), 2.0).unwrap();
        assert!(grown.ratio(m / 2.0, m) < 1.0);
        near(grown.gamma(), 2.0 * kl.gamma());
    }

    #[test]
    fn a_weakened_condition_holds_where_gradients_are_short() {
        let strong = power(1.5);
        let weak = strong.weakened(1.2, 2.0).unwrap();
        for w in [1e-6f64, 0.1, 1.0, 4.0] {
            // The gradient is sqrt(w), at most L0 = 2 here, and the weaker one is tight at w = 4.
            let ratio = weak.ratio(w.powf(1.5) / 1.5, w.sqrt());
            assert!(ratio <= 1.0 + 1e-12, "{ratio} at {w}");
            if w == 4.0 {
                near(ratio, 1.0);
            }
        }
        assert!(strong.weakened(3.5, 2.0).is_err());
        assert!(strong.weakened(0.9, 2.0).is_err());
    }

    #[test]
    fn the_reach_holds_the_minimiser() {
        for tau in [1.5, 2.0, 3.0] {
            let kl = power(tau);
            let reach = kl.reach(2.0f64.powf(tau) / tau).unwrap();
            // Tight for a power: the gradient flow is a straight line.
            near(reach, 2.0);
        }
        assert_eq!(KlCondition::new(1.0, 1.0).unwrap().reach(1.0), None);
    }

    #[test]
    fn the_condition_number_has_no_units() {
        let (smoothness, excess) = (3.0, 0.7);
        let kl = KlCondition::new(0.9, 1.5).unwrap();
        let here = kl.condition_number(smoothness, excess);
        let (s, t) = (5.0, 0.2);
        let there = kl.of_scaled_loss(s).unwrap().of_scaled_argument(t).unwrap();
        near(
            there.condition_number(smoothness * s * t * t, excess * s),
            here,
        );
        // w^2/2: gamma^2 L = 1/2, the least that is possible.
        near(power(2.0).condition_number(1.0, 0.1), 0.5);
    }

    #[test]
    fn wrong_constants_are_refused() {
        for (gamma, kappa) in [
            (0.0, 2.0),
            (-1.0, 2.0),
            (f64::NAN, 2.0),
            (1.0, 0.99),
            (1.0, f64::INFINITY),
        ] {
            assert!(KlCondition::new(gamma, kappa).is_err());
        }
        assert!(KlCondition::polyak_lojasiewicz(0.0).is_err());
        assert!(KlCondition::growth(1.0, 1.0).is_err());
        assert!(KlCondition::lojasiewicz(1.0, 1.5).is_err());
    }
}
