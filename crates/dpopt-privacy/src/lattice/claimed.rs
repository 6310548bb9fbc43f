//! Outputs whose sensitivity is proved elsewhere: a type of their own, and labelled.
//!
//! A [`LatticeSum`](super::LatticeSum) enforces its sensitivity. The last point of a pass over the records
//! has one only by a theorem about the loss; clipping can't give it. Such an output never becomes a
//! [`Sensitive`] that others can use: it is released by [`crate::Curator::release_claimed`], which writes
//! down what it rests on.

use zeroize::Zeroizing;

use crate::adjacency::Adjacency;
use crate::sensitive::{Access, Sensitive, Touched, Vector};
use crate::units::ClipNorm;

use super::{Bound, LatticeError};

/// Coordinates are clamped to this many steps, far inside the integers.
const MOST_STEPS: f64 = (1_u64 << 61) as f64;

/// A claim that one record moves an output by at most so much.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SensitivityClaim {
    bound: Bound,
    adjacency: Adjacency,
    argument: &'static str,
}

impl SensitivityClaim {
    /// Claims that the vector **as the program computes it**, rounding included, moves by at most
    /// `sensitivity` in L2 norm between neighbours under `adjacency`, by `argument`. `reach` is a public bound
    /// on its coordinates; longer ones are cut off.
    ///
    /// # Formula
    /// The stated sensitivity is that of the vector and sqrt(d) steps of the lattice, on which each
    /// coordinate is put by rounding to nearest.
    ///
    /// # Privacy
    /// Nothing here checks the claim. A release of such an output needs a reservation that names `argument`
    /// ([`crate::Curator::reserve_claimed`]), and the guarantee names it.
    ///
    /// # Errors
    /// [`LatticeError`]; [`LatticeError::ReachTooLong`] where the integers can't hold `reach`.
    pub fn new(
        sensitivity: ClipNorm,
        reach: f64,
        dim: usize,
        adjacency: Adjacency,
        argument: &'static str,
    ) -> Result<Self, LatticeError> {
        let share = sensitivity.get() / adjacency.sum_sensitivity();
        // The step is at most 2^-29 of the radius, so sqrt(d) of them are less than what is added; the
        // rest is for the rounding of this line.
        let slack = (dim as f64).sqrt() * super::pow2(-28) + super::pow2(-40);
        let radius = ClipNorm::new(share * (1.0 + slack))
            .or_else(|_| ClipNorm::new(f64::MAX))
            .unwrap_or(sensitivity);
        let bound = Bound::new(radius, dim)?;
        let limit = MOST_STEPS * bound.step();
        // Written so that a NaN reach is refused.
        if !(reach <= limit) {
            return Err(LatticeError::ReachTooLong { reach, limit });
        }
        Ok(Self {
            bound,
            adjacency,
            argument,
        })
    }

    /// Why the claim holds, in a word or two.
    #[must_use]
    pub fn argument(&self) -> &'static str {
        self.argument
    }

    /// The stated sensitivity, rounding to the lattice included.
    #[must_use]
    pub fn sensitivity(&self) -> f64 {
        self.bound.radius() * self.adjacency.sum_sensitivity()
    }

    /// What it is worth to the curator before anything is read.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// The adjacency of its neighbours.
    pub(crate) fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// An output on the lattice: clamped, and zero where a number is not finite.
    pub(crate) fn integers(&self, output: &[f64]) -> Zeroizing<Vec<i64>> {
        let mut sum = Zeroizing::new(vec![0; self.bound.dim()]);
        if output.iter().all(|x| x.is_finite()) {
            for (sum, x) in sum.iter_mut().zip(output) {
                // Exact: the step is a power of two. A quotient that overflows is clamped like the others.
                let steps = (x / self.bound.step()).clamp(-MOST_STEPS, MOST_STEPS);
                *sum = steps.round_ties_even() as i64;
            }
        }
        sum
    }

    /// Seals `output`, computed from the records that `touched` says. Each coordinate is clamped, which is
    /// 1-Lipschitz, and rounded to the lattice. An output that holds a number that is not finite counts as zero
    /// as a whole: the claim has to cover that too. Missing coordinates count as zero.
    #[must_use]
    pub fn seal(self, output: &[f64], touched: Touched) -> Claimed {
        let sum = self.integers(output).to_vec();
        Claimed {
            sealed: Sensitive {
                payload: Vector { sum },
                bound: self.bound,
                adjacency: self.adjacency,
                access: Access::of(&touched),
            },
            argument: self.argument,
        }
    }
}

/// An output computed from private records, with a sensitivity that its maker claims.
///
/// # Privacy
/// As [`Sensitive`]: no `Clone`, no `Debug`, no accessor. It can be released and nothing else: it has no
/// norm, is no step of a period and no score.
///
/// ```compile_fail
/// fn copy(secret: dpopt_privacy::Claimed) { let _ = secret.clone(); }
/// ```
pub struct Claimed {
    pub(crate) sealed: Sensitive<Vector>,
    pub(crate) argument: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curator::Curator;
    use crate::event::Event;
    use crate::sensitive::Reads;
    use crate::{Delta, Epsilon, FilterKind, Ledger, NoiseMultiplier, Refused, Spend};
    use proptest::prelude::*;

    fn claim(sensitivity: f64, reach: f64, dim: usize, adjacency: Adjacency) -> SensitivityClaim {
        let sensitivity = ClipNorm::new(sensitivity).unwrap();
        SensitivityClaim::new(sensitivity, reach, dim, adjacency, "a test").unwrap()
    }

    proptest! {
        /// Two outputs as far apart as claimed are no further apart on the lattice than stated.
        #[test]
        fn rounding_is_paid_for(
            base in prop::collection::vec(-100.0..100.0f64, 1..20),
            way in prop::collection::vec(-1.0..1.0f64, 20),
            exponent in -60i32..3,
        ) {
            let way = &way[..base.len()];
            let length = way.iter().map(|x| x * x).sum::<f64>().sqrt();
            prop_assume!(length > 0.1);
            let sensitivity = 2f64.powi(exponent);
            for adjacency in [Adjacency::ReplaceOne, Adjacency::ZeroOut] {
                let Ok(claim) = SensitivityClaim::new(
                    ClipNorm::new(sensitivity).unwrap(), 200.0, base.len(), adjacency, "a test",
                ) else { continue };
                let moved: Vec<f64> = base.iter().zip(way)
                    .map(|(x, v)| x + v * sensitivity / length * 0.999_999).collect();
                // What the program holds differs by the rounding of this sum too.
                let apart = dpopt_distance(&base, &moved);
                prop_assume!(apart <= sensitivity);
                let (a, b) = (claim.seal(&base, Touched::All), claim.seal(&moved, Touched::All));
                let steps: f64 = a.sealed.payload.sum.iter().zip(&b.sealed.payload.sum)
                    .map(|(x, y)| ((x - y) as f64).powi(2)).sum::<f64>().sqrt();
                prop_assert!(steps <= a.sealed.sensitivity_in_steps() * (1.0 + 1e-15));
                prop_assert!(steps * claim.bound().step() >= 0.99 * apart - claim.bound().step() * 5.0);
            }
        }
    }

    fn dpopt_distance(a: &[f64], b: &[f64]) -> f64 {
        a.iter()
            .zip(b)
            .map(|(x, y)| (x - y) * (x - y))
            .sum::<f64>()
            .sqrt()
    }

    #[test]
    fn what_is_stated_covers_the_claim() {
        for dim in [1, 1000, 1 << 30] {
            let stated = claim(1.0, 4.0, dim, Adjacency::ReplaceOne);
            let rounding = (dim as f64).sqrt() * stated.bound().step();
            assert!(stated.sensitivity() >= 1.0 + rounding);
            assert!(stated.sensitivity() <= 1.0 + 1e-3);
        }
    }

    #[test]
    fn a_reach_that_the_integers_do_not_hold_is_refused() {
        let one = ClipNorm::new(1.0).unwrap();
        for reach in [f64::NAN, f64::INFINITY, 1e10] {
            let refused = SensitivityClaim::new(one, reach, 2, Adjacency::ReplaceOne, "a test");
            assert!(matches!(refused, Err(LatticeError::ReachTooLong { .. })));
        }
        assert!(SensitivityClaim::new(one, 1e9, 2, Adjacency::ReplaceOne, "a test").is_ok());
    }

    #[test]
    fn outputs_that_are_no_numbers_count_as_zero_and_long_ones_are_cut() {
        let claim = claim(1.0, 4.0, 2, Adjacency::ReplaceOne);
        for bad in [f64::NAN, f64::INFINITY] {
            let sealed = claim.seal(&[1.0, bad], Touched::All);
            assert_eq!(sealed.sealed.payload.sum, [0, 0]);
        }
        let sealed = claim.seal(&[1e300, -1e300], Touched::All);
        assert_eq!(sealed.sealed.payload.sum, [1 << 61, -(1 << 61)]);
    }

    #[test]
    fn a_guarantee_names_what_it_rests_on() {
        let noise = NoiseMultiplier::new(2.0).unwrap();
        let delta = Delta::new(1e-5).unwrap();
        let spend = Spend::Fixed(Event::gaussian(noise));
        let claim = claim(1.0, 4.0, 2, Adjacency::ReplaceOne);
        let sealed = || claim.seal(&[0.5, 0.5], Touched::All);
        let curator = || Curator::protected(Adjacency::ReplaceOne).unwrap();
        let refused = |curator: &mut Curator| {
            let checked = curator.check_release_claimed(Reads::All, &claim, noise);
            let released = curator.release_claimed(&sealed(), noise);
            let unnamed =
                |e| matches!(e, Refused::ClaimNotReserved { argument } if argument == "a test");
            unnamed(checked.unwrap_err()) && unnamed(released.unwrap_err())
        };
        let mut silent = curator();
        assert!(refused(&mut silent));
        silent.reserve(&spend).unwrap();
        assert!(refused(&mut silent));
        assert!(silent.guarantee(delta).unwrap().rests_on().is_empty());
        let mut other = curator();
        other.reserve_claimed(&spend, "another").unwrap();
        assert!(refused(&mut other));
        let mut curator = curator();
        curator.reserve_claimed(&spend, claim.argument()).unwrap();
        // Named before anything is released.
        assert_eq!(curator.guarantee(delta).unwrap().rests_on(), ["a test"]);
        curator
            .check_release_claimed(Reads::All, &claim, noise)
            .unwrap();
        assert_eq!(curator.release_claimed(&sealed(), noise).unwrap().len(), 2);
        assert!(curator.release_claimed(&sealed(), noise).is_err());
        // It stays named when the run is over, and a later reservation is not covered by it.
        curator.settle().unwrap();
        assert_eq!(curator.guarantee(delta).unwrap().rests_on(), ["a test"]);
        curator.reserve(&spend).unwrap();
        assert!(refused(&mut curator));
    }

    /// A budget that several runs share rests on what each of them rests on.
    #[test]
    fn a_ledger_names_what_its_total_rests_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.jsonl");
        let (epsilon, delta) = (Epsilon::new(1.0).unwrap(), Delta::new(1e-6).unwrap());
        let adjacency = Adjacency::ReplaceOne;
        let noise = NoiseMultiplier::new(20.0).unwrap();
        for argument in [None, Some("a test")] {
            let ledger =
                Ledger::open_or_create(&path, epsilon, delta, adjacency, FilterKind::Gdp).unwrap();
            let curator = Curator::protected(adjacency).unwrap();
            let mut curator = curator.with_ledger(ledger).unwrap();
            let spend = Spend::Fixed(Event::gaussian(noise));
            match argument {
                None => curator.reserve(&spend).unwrap(),
                Some(argument) => curator.reserve_claimed(&spend, argument).unwrap(),
            }
        }
        let runs = Ledger::verify(&path, None).unwrap().runs;
        assert_eq!(runs[0].noise, "rounded-gaussian");
        assert_eq!(runs[1].noise, "rounded-gaussian (if a test)");
    }
}
