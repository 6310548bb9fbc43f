//! The episode itself: products with the Hessian, one after the other.

use dpopt_linalg::norm_upper;
use dpopt_oracle::query::HessianVector;
use dpopt_oracle::{AskError, Mean, Oracle};
use dpopt_privacy::{ClipNorm, NoiseMultiplier, Slice, Which};

use super::Episode;

/// Lengths are rounded up to powers of 2^(1/16), so that there are few noise multipliers. A choice: at most 9 % of a cost.
const PER_OCTAVE: f64 = 16.0;
/// Down to 2^-10 of the longest.
const OCTAVES: f64 = 10.0;
/// Relative, of a release's noise: multipliers are rounded.
const NOISE_TOLERANCE: f64 = 1e-6;

/// What products are clipped to. The noise is the same, and so are the laws of what is released where no clip bites.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Radii {
    /// M, the length at an exit: all products are one event, which can be reserved.
    Full,
    /// M ||v||, rounded up to a public grid: what is charged is what was needed. For filters, whose releases are chosen on the way.
    Realised,
}

/// How an episode ended.
#[derive(Debug, Clone, PartialEq)]
pub enum EpisodeEnd {
    /// It stayed: lambda_min(H) > -lambda, but with probability p.
    Stayed,
    /// It left along this unit vector u: <u, H u> <= -h, but with probability p'.
    Left(Vec<f64>),
    /// A number was beyond the range of floats.
    Diverged,
}

/// What an episode did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EpisodeRun {
    /// How it ended.
    pub end: EpisodeEnd,
    /// Products that were released.
    pub products: u64,
    /// What they cost, in squared mu, on the records that were read.
    pub cost: f64,
}

impl Episode {
    /// Runs it at `point` with the noise for so many records, over all of them or a slice; of `Which::Next` the slice is taken once. Beside
    /// what a release allocates it allocates one vector, once.
    ///
    /// # Shapes
    /// `point`: d.
    ///
    /// # Errors
    /// [`AskError`]: what was released before it was paid for, and says nothing. [`AskError::Shape`] for another d than planned for;
    /// [`AskError::NotOffered`] over samples; [`AskError::OtherNoise`] where a product came with another noise than q M, as it does over
    /// another number of records than `records`.
    pub fn run(
        &self,
        oracle: &mut dyn Oracle,
        point: &[f64],
        over: Which<'_>,
        (records, radii): (f64, Radii),
    ) -> Result<EpisodeRun, AskError> {
        let dim = self.terms.dim;
        if point.len() != dim {
            return Err(AskError::Shape { dim });
        }
        match over {
            Which::All | Which::Slice(_) => self.run_over(oracle, point, (over, records), radii),
            Which::Next(len) => {
                let slice: Slice = oracle.books().take_slice(len)?;
                let over = (Which::Slice(&slice), records);
                self.run_over(oracle, point, over, radii)
            }
            Which::Poisson(_)
            | Which::FixedSize(_)
            | Which::Sampled(..)
            | Which::Truncated(..)
            | Which::Allocated(_)
            | Which::AllocatedIn(..) => Err(AskError::NotOffered {
                what: "episodes over samples",
            }),
        }
    }

    fn run_over(
        &self,
        oracle: &mut dyn Oracle,
        point: &[f64],
        (over, records): (Which<'_>, f64),
        radii: Radii,
    ) -> Result<EpisodeRun, AskError> {
        let full = self.multiplier(oracle.facts().adjacency, records);
        let (smoothness, part) = (self.terms.smoothness, self.shift / self.terms.smoothness);
        let mut run = EpisodeRun {
            end: EpisodeEnd::Stayed,
            products: 0,
            cost: 0.0,
        };
        // The product with 0 is 0, so that the first step is noise alone, and public.
        let mut v = vec![0.0; self.terms.dim];
        oracle.books().draw_normals(&mut v)?;
        for x in &mut v {
            *x *= self.noise;
        }
        let mut length = norm_upper(&v);
        for _ in 0..self.products() {
            if !(length < 1.0) {
                break;
            }
            let of_full = match radii {
                Radii::Full => 1.0,
                Radii::Realised => on_grid(length),
            };
            let multiplier = NoiseMultiplier::new(full / of_full);
            let radius = ClipNorm::new(smoothness * of_full);
            let (Ok(noise), Ok(radius)) = (multiplier, radius) else {
                run.end = EpisodeEnd::Diverged;
                return Ok(run);
            };
            let of = HessianVector {
                point,
                direction: &v,
                radius: Some(radius),
            };
            let released = oracle.hessian_vector(of, over, noise)?;
            run.products += 1;
            run.cost += noise.get().powi(-2);
            check_noise(self.product_noise() * smoothness, &released)?;
            for (x, product) in v.iter_mut().zip(&released.mean) {
                *x = (*x - product / smoothness) / (1.0 + part);
            }
            length = norm_upper(&v);
        }
        if !length.is_finite() {
            run.end = EpisodeEnd::Diverged;
        } else if length >= 1.0 {
            for x in &mut v {
                *x /= length;
            }
            run.end = EpisodeEnd::Left(v);
        }
        Ok(run)
    }
}

/// Theorem 1 is about noise of deviation q M, no more and no less. A mean of nothing but zeros may have none: then H is 0, and nothing is missed.
fn check_noise(planned: f64, released: &Mean) -> Result<(), AskError> {
    let found = released.noise_std;
    let nothing = found == 0.0 && released.mean.iter().all(|x| *x == 0.0);
    // NaN is another noise.
    if nothing || (found - planned).abs() <= NOISE_TOLERANCE * planned {
        return Ok(());
    }
    Err(AskError::OtherNoise { planned, found })
}

/// The least number of the grid that is at least `length`, which is below 1.
fn on_grid(length: f64) -> f64 {
    let down = (-length.log2() * PER_OCTAVE).floor();
    let on = |down: f64| (-down / PER_OCTAVE).exp2();
    let down = down.clamp(0.0, OCTAVES * PER_OCTAVE);
    // The logarithm is rounded.
    if on(down) >= length || down == 0.0 {
        on(down)
    } else {
        on(down - 1.0)
    }
}
