//! Values that only the curator reads.

use zeroize::Zeroize;

use crate::adjacency::Adjacency;
use crate::lattice::Bound;
use crate::sample::{FixedSizeSample, PoissonSample};
use crate::slice::Slice;
use crate::units::SamplingRate;

/// Which records a sum was taken over.
pub enum Touched {
    /// Every record.
    All,
    /// The records of a Poisson sample; the token is used up.
    Poisson(PoissonSample),
    /// The records of a sample of fixed size; the token is used up.
    FixedSize(FixedSizeSample),
    /// The records of one slice of a pool.
    Slice(Slice),
}

/// Which records a release is going to read: public, and known before anything is drawn or read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reads<'a> {
    /// Every record.
    All,
    /// A Poisson sample at this rate.
    Poisson(SamplingRate),
    /// A sample of `size` of `records` records.
    FixedSize {
        /// Records to be drawn.
        size: u64,
        /// Records to draw from.
        records: u64,
    },
    /// A slice that was taken before.
    Slice(&'a Slice),
    /// The slice that the pool hands out next.
    NextSlice,
}

/// A value computed from private records, with its sensitivity and adjacency.
///
/// # Privacy
/// It implements neither `Clone`, `Debug`, `Display` nor `Serialize` and has no accessor: the
/// only way out is a [`crate::Curator`], which adds noise and charges for it.
///
/// ```compile_fail
/// fn copy(secret: dpopt_privacy::Sensitive<dpopt_privacy::Vector>) { let _ = secret.clone(); }
/// ```
pub struct Sensitive<T> {
    pub(crate) payload: T,
    pub(crate) bound: Bound,
    pub(crate) adjacency: Adjacency,
    pub(crate) access: Access,
}

impl<T> Sensitive<T> {
    /// The adjacency under which the sensitivity holds.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// The bound on one record's contribution.
    #[must_use]
    pub fn bound(&self) -> Bound {
        self.bound
    }
}

impl<P: Payload> Sensitive<P> {
    /// The value in lattice steps, one number for each coordinate.
    pub(crate) fn integers(&self) -> Vec<i128> {
        self.payload.integers(sealed::Inside(()))
    }

    /// L2 sensitivity, in lattice steps.
    pub(crate) fn sensitivity_in_steps(&self) -> f64 {
        // Exact: below 2^32, with at most 53 bits.
        let rounding = P::ROUNDING_STEPS * self.adjacency.sum_sensitivity();
        self.bound.sensitivity_in_steps(self.adjacency) + rounding
    }
}

impl Sensitive<Vector> {
    /// The L2 norm of the sum, in whole lattice steps, rounded down.
    ///
    /// # Privacy
    /// The norm is 1-Lipschitz, so one record moves it by at most the radius, and one step more for
    /// the rounding; a record in the place of another by at most twice that. A release of it is a release of its own, charged like any other. A Poisson sample
    /// pays for one release only, the sum or its norm.
    #[must_use]
    pub fn norm(&self) -> Sensitive<Scalar> {
        self.norm_from(&[])
    }

    /// The L2 norm of the sum plus a public `shift`, in whole lattice steps, rounded down. The shift is in the units of the
    /// sum and rounded to its lattice; coordinates that it lacks are 0, and so are those that are no numbers.
    ///
    /// # Privacy
    /// As [`Sensitive::norm`]: a public shift moves both neighbours' sums alike.
    #[must_use]
    pub fn norm_from(&self, shift: &[f64]) -> Sensitive<Scalar> {
        let value = self.bound.norm_in_steps(&self.payload.sum, shift);
        Sensitive {
            payload: Scalar { value },
            bound: self.bound,
            adjacency: self.adjacency,
            access: self.access,
        }
    }
}

/// What a [`Sensitive`] can hold for a Gaussian release: lattice integers.
///
/// Sealed: [`Vector`] and [`Scalar`].
pub trait Payload: sealed::Integers {
    /// What a release of it looks like.
    type Plain;

    /// The release from its coordinates.
    #[doc(hidden)]
    fn plain(coordinates: impl Iterator<Item = f64>) -> Self::Plain;
}

pub(crate) mod sealed {
    /// Says that the caller is in this crate: a bound on [`super::Payload`] brings the methods of [`Integers`] into scope
    /// elsewhere too, where the trait can't be named.
    pub struct Inside(pub(crate) ());

    /// The lattice integers of a payload; not to be named outside the crate.
    pub trait Integers {
        /// By how many steps rounding may add to what one record more or less moves.
        const ROUNDING_STEPS: f64;

        /// The integers, one for each coordinate.
        fn integers(&self, inside: Inside) -> Vec<i128>;
    }
}

/// Payload of a [`Sensitive`] vector: opaque.
pub struct Vector {
    pub(crate) sum: Vec<i64>,
}

impl sealed::Integers for Vector {
    const ROUNDING_STEPS: f64 = 0.0;

    fn integers(&self, _: sealed::Inside) -> Vec<i128> {
        self.sum.iter().map(|&k| i128::from(k)).collect()
    }
}

impl Payload for Vector {
    type Plain = Vec<f64>;

    fn plain(coordinates: impl Iterator<Item = f64>) -> Vec<f64> {
        coordinates.collect()
    }
}

impl Drop for Vector {
    fn drop(&mut self) {
        self.sum.zeroize();
    }
}

/// Payload of a [`Sensitive`] number: opaque.
pub struct Scalar {
    pub(crate) value: i128,
}

impl sealed::Integers for Scalar {
    const ROUNDING_STEPS: f64 = 1.0;

    fn integers(&self, _: sealed::Inside) -> Vec<i128> {
        vec![self.value]
    }
}

impl Payload for Scalar {
    type Plain = f64;

    fn plain(mut coordinates: impl Iterator<Item = f64>) -> f64 {
        coordinates.next().unwrap_or(0.0)
    }
}

impl Drop for Scalar {
    fn drop(&mut self) {
        self.value.zeroize();
    }
}

/// Which records a value may depend on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Access {
    All,
    Poisson {
        sample: u64,
        rate: SamplingRate,
    },
    FixedSize {
        sample: u64,
        size: u64,
        records: u64,
    },
    Slice {
        pool: u64,
        slice: u64,
    },
}

impl Access {
    pub(crate) fn of(touched: &Touched) -> Self {
        match touched {
            Touched::All => Access::All,
            Touched::Poisson(sample) => Access::Poisson {
                sample: sample.id(),
                rate: sample.rate(),
            },
            Touched::FixedSize(sample) => Access::FixedSize {
                sample: sample.id(),
                size: sample.size(),
                records: sample.records(),
            },
            Touched::Slice(slice) => Access::Slice {
                pool: slice.pool(),
                slice: slice.number(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lattice::LatticeSum;
    use crate::units::ClipNorm;

    /// A record drawn into a sample moves the rounded norm by up to C and one step, and the pair of
    /// distributions that accounts for samples under replace-one takes it for half of the whole.
    #[test]
    fn the_norm_allows_for_the_rounding_of_both_records() {
        let radius = ClipNorm::new(1.3).unwrap();
        for adjacency in [
            Adjacency::ReplaceOne,
            Adjacency::AddRemove,
            Adjacency::ZeroOut,
        ] {
            let sum = LatticeSum::new(Bound::new(radius, 3).unwrap());
            let norm = sum.finish(adjacency, Touched::All).norm();
            let one = norm.bound.radius() / norm.bound.step() + 1.0;
            let factor = if adjacency == Adjacency::ReplaceOne {
                2.0
            } else {
                1.0
            };
            assert_eq!(norm.sensitivity_in_steps(), factor * one);
        }
    }

    /// Two sums that one contribution tells apart, near the ends of the integers or not, under shifts that are huge, tiny, or no
    /// numbers: what is paid for covers how far their norms are apart.
    #[test]
    fn a_hostile_shift_moves_neighbours_alike() {
        let bound = Bound::new(ClipNorm::new(1.3).unwrap(), 4).unwrap();
        let most = (bound.radius() / bound.step()).floor() as i64;
        let norm = |sum: [i64; 4], shift: &[f64]| {
            let payload = Vector { sum: sum.to_vec() };
            let (adjacency, access) = (Adjacency::AddRemove, Access::All);
            let sum = Sensitive {
                payload,
                bound,
                adjacency,
                access,
            };
            let norm = sum.norm_from(shift);
            (norm.payload.value, norm.sensitivity_in_steps())
        };
        let huge = 4_611_686_018_427_387_903_i64;
        let numbers = [
            0.0,
            -0.0,
            1.0,
            -1.0 / 3.0,
            f64::MIN_POSITIVE / 8.0,
            1e10,
            -1e10,
            1e300,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            // Steps that cancel the largest sums.
            -(huge as f64) * bound.step(),
        ];
        for base in [0, 1, -7, most, 1 << 40, huge - most, most - huge] {
            for first in numbers {
                for second in numbers {
                    let shift = [first, second, first, 0.0];
                    for moved in [
                        [most, 0, 0, 0],
                        [0, -most, 0, 0],
                        [most / 2, -most / 2, most / 2, -most / 2],
                        [1, 0, 0, 0],
                    ] {
                        let sum = [base, base, -base, 0];
                        let other = std::array::from_fn(|i| sum[i] + moved[i]);
                        let (here, sensitivity) = norm(sum, &shift);
                        let (there, _) = norm(other, &shift);
                        let apart = (here - there).unsigned_abs() as f64;
                        assert!(
                            apart <= sensitivity,
                            "{apart} {sensitivity} {base} {shift:?}"
                        );
                        assert!(here >= 0 && there >= 0);
                    }
                }
            }
        }
    }
}
