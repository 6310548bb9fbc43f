//! A release of the norm of a mean.

use std::num::NonZeroUsize;

use dpopt_privacy::{Adjacency, LatticeSum, NoiseMultiplier, PoolError, Refused, Touched};

use crate::estimator::PrivateMean;
use crate::loss::Loss;
use crate::pass::{clipped_pass, everything};
use crate::query::Query;

/// A released norm of the mean of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct MeanNorm {
    /// The norm with its noise: may be negative.
    pub norm: f64,
    /// Standard deviation of the noise.
    pub noise_std: f64,
    /// How far the lattice may have moved the norm of the mean of what is at most the radius long:
    /// sqrt(d) + 3 steps, half of it for rounding, half for the clip that makes room for it.
    pub rounding: f64,
}

/// Releases the norm of the mean of `query` over all records; none when the query has no bound,
/// because all contributions are zero.
///
/// The norm is one number, so its noise does not grow with the dimension, as that of a released
/// vector does.
///
/// # Privacy
/// One `Gaussian(z)` on all records: the norm is 1-Lipschitz in the sum. The rules of
/// [`PrivateMean::release`] on adjacencies apply. `docs/privacy/certificates.md`.
///
/// # Errors
/// [`Refused`]; nothing was released then.
pub fn release_norm<L: Loss>(
    mean: &mut PrivateMean<'_, L>,
    query: &impl Query<L>,
    noise_multiplier: NoiseMultiplier,
    threads: NonZeroUsize,
) -> Result<Option<MeanNorm>, Refused> {
    let data = mean.data();
    let adjacency = data.adjacency();
    if !query.fits(mean.dim()) {
        return Err(Refused::QueryShape { dim: mean.dim() });
    }
    let Some(bound) = query.bound(mean.loss())? else {
        return Ok(None);
    };
    if adjacency == Adjacency::ZeroOut && !query.vanishes_on_zero_rows() {
        return Err(Refused::ZeroRows);
    }
    if query.needs_fixed_positions() && !adjacency.record_count_is_public() {
        return Err(PoolError::Adjacency { adjacency }.into());
    }
    let public = data.public_records() as f64;
    let sum = clipped_pass(
        mean.loss(),
        data.records(),
        query,
        &|| LatticeSum::new(bound),
        &everything(data.records()),
        public,
        threads,
    )?;
    let sealed = sum.finish(adjacency, Touched::All).norm();
    let released = mean.curator_mut().release(&sealed, noise_multiplier)?;
    // As the curator has it: the radius and one step for the rounding of the norm.
    let sensitivity = (bound.radius() + bound.step()) * adjacency.sum_sensitivity();
    Ok(Some(MeanNorm {
        norm: released / public,
        noise_std: noise_multiplier.get() * sensitivity / public,
        rounding: ((bound.dim() as f64).sqrt() + 3.0) * bound.step(),
    }))
}
