//! What the cases have in common: sizes, budgets, and the shortest way to each of them.

use dpopt_nonconvex::{Budget, Plan};
use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{Adjacency, Bound, ClipNorm, Delta, Epsilon, NoiseMultiplier};

use super::{CheckError, Claim};

/// delta of all claims.
pub(super) const DELTA: f64 = 1e-6;
/// The relations.
pub(super) const RELATIONS: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];
/// Parameters of most runs.
pub(super) const DIM: usize = 3;

pub(super) fn noise(z: f64) -> Result<NoiseMultiplier, CheckError> {
    Ok(NoiseMultiplier::new(z)?)
}

/// The mu of this epsilon.
pub(super) fn mu_for(epsilon: f64) -> Result<f64, CheckError> {
    Ok(gdp::mu_for(Epsilon::new(epsilon)?, Delta::new(DELTA)?)?.get())
}

pub(super) fn bound(dim: usize) -> Result<Bound, CheckError> {
    Ok(Bound::new(ClipNorm::new(1.0)?, dim)?)
}

pub(super) fn budget(epsilon: f64) -> Result<Budget, CheckError> {
    Ok(Budget {
        epsilon: Epsilon::new(epsilon)?,
        delta: Delta::new(DELTA)?,
    })
}

/// What a plan claims.
pub(super) fn claim_of(plan: &dyn Plan, adjacency: Adjacency) -> Result<Claim, CheckError> {
    Claim::of(plan.spend().event(), DELTA, adjacency)
}

/// The number of records that is declared where it is not public.
pub(super) fn declared(adjacency: Adjacency, records: usize) -> Option<u64> {
    (!adjacency.record_count_is_public()).then_some(records as u64)
}
