//! From the records to the population, at a point that was chosen by looking at them.

use std::f64::consts::PI;

use dpopt_oracle::NoSample;
use dpopt_solver::{PlanError, PublicFacts, SecondOrderTargets};
use serde::Serialize;

use super::PrivateCertificateError;

/// Radii of nets that are tried: R 2^(-k/4). A choice; all of them are public.
const NETS: u32 = 240;

/// How far the gradient and the Hessian of the mean loss of n records can be from the population's, at every point of a ball at once.
///
/// # Formula
/// R the least of (L0/L1) 2^k, k = 0, 1, ..., that is at least `reach`; p_k = p 6/(pi (k + 1))^2. With probability 1 - p over the records,
/// for all k and all points within R of the centre at once,
///
/// ||grad F_P - grad F_D|| <= L0 (1 + sqrt(2 ln(2N/p_k)))/sqrt n + 2 L1 r,  
/// ||hess F_P - hess F_D|| <= L1 (sqrt(2l/n) + 2l/(3n)) + 2 rho r,  l = ln(4 d N/p_k),  N = (1 + 2R/r)^d,
///
/// each with the r for which it is least. Proof: `docs/theory/second-order.md`, "The population".
///
/// The records are n independent draws from the population. L0, L1 and rho are constants of **each** record's loss on the whole ball.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PopulationGap {
    /// Gap of gradients.
    pub gradient: f64,
    /// Gap of Hessians, in operator norm.
    pub curvature: f64,
    /// R.
    pub radius: f64,
    /// p.
    pub failure: f64,
}

impl PopulationGap {
    /// At points up to `reach` from a centre that does not depend on the records: the origin, or a public start. The point may.
    ///
    /// # Errors
    /// [`NoSample::Adjacency`] but under replace-one; [`PrivateCertificateError::OfPopulation`] where a gap is as large as what every
    /// point has (L0, L1); facts and numbers out of range.
    pub fn new(
        facts: &PublicFacts,
        hessian_lipschitz: f64,
        reach: f64,
        failure: f64,
    ) -> Result<Self, PrivateCertificateError> {
        facts.check()?;
        NoSample::refuse(facts.adjacency)?;
        PlanError::positive("the Lipschitz constant of the Hessian", hessian_lipschitz)?;
        if !(reach >= 0.0 && reach.is_finite()) {
            let (name, value) = ("reach", reach);
            return Err(PrivateCertificateError::OutOfRange { name, value });
        }
        PrivateCertificateError::fraction("failure", failure)?;
        let PublicFacts {
            lipschitz,
            smoothness,
            ..
        } = *facts;
        let (n, dim) = (facts.records as f64, facts.dim as f64);
        let (mut radius, mut power) = (lipschitz / smoothness, 0.0);
        while radius < reach {
            radius *= 2.0;
            power += 1.0;
        }
        let share = failure * 6.0 / (PI * (power + 1.0)).powi(2);
        let least = |gap: &dyn Fn(f64, f64) -> f64| {
            let nets = (0..=NETS).map(|k| radius * (-0.25 * f64::from(k)).exp2());
            let gaps = nets.map(|r| gap(r, dim * (2.0 * radius / r).ln_1p()));
            // For the rounding of all of it.
            gaps.fold(f64::INFINITY, f64::min) * (1.0 + 1e-12)
        };
        let gradient = least(&|r, net| {
            let root = (2.0 * (net + (2.0 / share).ln())).sqrt();
            lipschitz * (1.0 + root) / n.sqrt() + 2.0 * smoothness * r
        });
        let curvature = least(&|r, net| {
            let l = net + (4.0 * dim / share).ln();
            smoothness * ((2.0 * l / n).sqrt() + 2.0 * l / (3.0 * n)) + 2.0 * hessian_lipschitz * r
        });
        for (what, added, limit) in [
            ("the population's gradient", gradient, lipschitz),
            ("the population's least eigenvalue", curvature, smoothness),
        ] {
            // NaN must be refused.
            if !(added < limit) {
                return Err(PrivateCertificateError::OfPopulation {
                    what,
                    added,
                    limit,
                    records: facts.records,
                    dim: facts.dim,
                });
            }
        }
        Ok(Self {
            gradient,
            curvature,
            radius,
            failure,
        })
    }

    /// Targets for the population from a certificate of the mean over the records. The probabilities
    /// of failure add up.
    #[must_use]
    pub fn added_to(&self, of_records: SecondOrderTargets) -> SecondOrderTargets {
        SecondOrderTargets {
            gradient: of_records.gradient + self.gradient,
            curvature: of_records.curvature + self.curvature,
        }
    }
}

#[cfg(test)]
mod tests {

    use dpopt_privacy::Adjacency;

    use super::*;
    use crate::random::Normals;

    fn facts(dim: usize, records: u64) -> PublicFacts {
        PublicFacts {
            initial_gap: 0.5,
            ..PublicFacts::unit(records, dim)
        }
    }

    /// At R = 32 = 2^5 and p_5 = p/59.2, n = 10^6, p = .05; minimised over r apart. At d = 10 r = 3.2e-4, ln N = 122.2:
    /// 1 + sqrt(2 (122.2 + 7.8)) = 17.1 over 1000, and 6.3e-4. The specification has .022 and .063.
    #[test]
    fn known_sizes() {
        for (dim, gradient) in [(10, 0.01775), (100, 0.05021)] {
            let gap = PopulationGap::new(&facts(dim, 1_000_000), 1.0, 30.0, 0.05).unwrap();
            assert_eq!(gap.radius, 32.0);
            assert!((gap.gradient / gradient - 1.0).abs() < 0.002, "{gap:?}");
            assert!(gap.gradient < if dim == 10 { 0.022 } else { 0.063 });
            // ln(4d/p_5) for ln(2/p_5), 2l/3n for 1/sqrt n.
            assert!((gap.curvature - gap.gradient).abs() < 0.001, "{gap:?}");
        }
        // A step over a power of two is a step of the bound, and 1/sqrt n is its rate.
        let at = |reach, records| {
            let gap = PopulationGap::new(&facts(10, records), 1.0, reach, 0.05);
            gap.unwrap().gradient
        };
        assert_eq!(at(0.0, 10_000), at(1.0, 10_000));
        assert!(at(1.001, 10_000) > at(1.0, 10_000));
        let ratio = at(3.0, 10_000) / at(3.0, 1_000_000);
        assert!(ratio > 8.0 && ratio < 10.0, "{ratio}");
    }

    /// f(w; x) = cos(w + x), x uniform: F_P = 0, and the longest gradient and Hessian of F_D over the line are |mean of e^(ix)|, exactly. Of
    /// 20,000 data sets 20 may exceed the gap at p = .001, and 47 with a probability below 1e-6. A third of it is exceeded by e^(-n gap^2/9) =
    /// .0052 of them, 105, and is refused.
    #[test]
    fn no_point_of_the_line_is_farther_off_than_stated() {
        let records = 400;
        let gap = PopulationGap::new(&facts(1, records), 1.0, 4.0, 0.001).unwrap();
        let mut draws = Normals::new(9);
        let (mut over, mut third) = (0, 0);
        for _ in 0..20_000 {
            let (mut re, mut im) = (0.0, 0.0);
            for _ in 0..records {
                let x = std::f64::consts::TAU * draws.uniform();
                re += x.cos();
                im += x.sin();
            }
            let longest = re.hypot(im) / records as f64;
            over += u32::from(longest > gap.gradient.min(gap.curvature));
            third += u32::from(3.0 * longest > gap.gradient.min(gap.curvature));
        }
        assert!(over < 47 && third > 60, "{over} {third}");
    }

    #[test]
    fn what_no_theorem_covers_is_refused() {
        let refused = |facts: &PublicFacts, rho, reach, failure| {
            PopulationGap::new(facts, rho, reach, failure).unwrap_err()
        };
        let usual = facts(10, 1_000_000);
        let zero_out = PublicFacts {
            adjacency: Adjacency::ZeroOut,
            ..usual
        };
        use PrivateCertificateError as E;
        assert!(matches!(
            refused(&zero_out, 1.0, 1.0, 0.05),
            E::NoSample(NoSample::Adjacency { .. })
        ));
        assert!(matches!(
            refused(&facts(100, 500), 1.0, 1.0, 0.05),
            E::OfPopulation { .. }
        ));
        for (rho, reach, failure) in [(0.0, 1.0, 0.05), (1.0, f64::NAN, 0.05), (1.0, 1.0, 1.0)] {
            assert!(matches!(
                refused(&usual, rho, reach, failure),
                E::Plan(_) | E::OutOfRange { .. }
            ));
        }
    }
}
