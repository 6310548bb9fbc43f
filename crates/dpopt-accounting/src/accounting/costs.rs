//! Costs that add up: what one event takes from a filter, in the filter's own measure.

use super::parts::Parts;
use super::{Accountant, AccountingError, rdp};
use crate::adjacency::Adjacency;
use crate::event::Event;

/// Squared Gaussian-DP parameter of an event, rounded up; 0 when nothing was released.
///
/// # Errors
/// [`AccountingError::UnsupportedEvent`] for sampled releases and for what is no Gaussian,
/// [`AccountingError::UnsupportedAdjacency`], [`AccountingError::Unprotected`].
pub fn squared_mu(event: &Event, adjacency: Adjacency) -> Result<f64, AccountingError> {
    let parts = Parts::of(Accountant::Gdp, event, adjacency)?;
    if !parts.is_gaussian() {
        return Err(AccountingError::UnsupportedEvent {
            accountant: Accountant::Gdp,
            path: String::new(),
            event: Box::new(event.clone()),
        });
    }
    Ok(parts.releases.mu_squared())
}

/// zCDP parameter of an event, rounded up; 0 when nothing was released.
///
/// # Errors
/// As for [`squared_mu`], and for a concentrated release with a constant beside its rho.
pub fn rho(event: &Event, adjacency: Adjacency) -> Result<f64, AccountingError> {
    let (rho, constant) = Parts::of(Accountant::Zcdp, event, adjacency)?.concentrated();
    if constant > 0.0 || !rho.is_finite() {
        return Err(AccountingError::UnsupportedEvent {
            accountant: Accountant::Zcdp,
            path: String::new(),
            event: Box::new(event.clone()),
        });
    }
    Ok(rho)
}

/// Renyi divergence of an event at one order, rounded up; 0 when nothing was released.
///
/// # Errors
/// [`AccountingError`] for an unsupported event or an order that is not above 1.
pub fn renyi(event: &Event, order: f64, adjacency: Adjacency) -> Result<f64, AccountingError> {
    let parts = Parts::of(Accountant::Rdp, event, adjacency)?;
    rdp::divergence_of(&parts, order, adjacency)
}
