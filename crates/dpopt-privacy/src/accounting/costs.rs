//! Costs that add up: what one event takes from a filter, in the filter's own measure.

use super::parts::Parts;
use super::releases::Releases;
use super::{Accountant, AccountingError, rdp};
use crate::adjacency::Adjacency;
use crate::event::Event;

/// Squared Gaussian-DP parameter of an event, rounded up; 0 when nothing was released.
///
/// # Errors
/// [`AccountingError::UnsupportedEvent`] for sampled releases, [`AccountingError::Unprotected`].
pub fn squared_mu(event: &Event) -> Result<f64, AccountingError> {
    Ok(Releases::of(Accountant::Gdp, event)?.mu_squared())
}

/// zCDP parameter of an event, rounded up; 0 when nothing was released.
///
/// # Errors
/// As for [`squared_mu`].
pub fn rho(event: &Event) -> Result<f64, AccountingError> {
    Ok(0.5 * Releases::of(Accountant::Zcdp, event)?.mu_squared())
}

/// Renyi divergence of an event at one order, rounded up; 0 when nothing was released.
///
/// # Errors
/// [`AccountingError`] for an unsupported event or an order that is not above 1.
pub fn renyi(event: &Event, order: f64, adjacency: Adjacency) -> Result<f64, AccountingError> {
    let parts = Parts::of(Accountant::Rdp, event, adjacency)?;
    rdp::divergence_of(&parts, order, adjacency)
}
