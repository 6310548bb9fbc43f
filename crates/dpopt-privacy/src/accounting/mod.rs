//! Accountants: what an [`Event`] costs in (epsilon, delta).
//!
//! | accountant | takes | answer |
//! | --- | --- | --- |
//! | [`Accountant::Gdp`] | compositions of Gaussians and of trees of them | exact |
//! | [`Accountant::Zcdp`] | whatever has a zCDP parameter | upper bound |
//! | [`Accountant::Rdp`] | whatever has a Renyi divergence | upper bound |
//! | [`Accountant::Pld`] | Gaussians and Poisson-sampled Gaussians | upper bound within about 0.1 % (see [`pld`] for the lower one) |
//!//! | [`Accountant::Pure`] | pure and approximate DP | the optimum for equal epsilons, otherwise an upper bound |
//!
//! Which accountant takes which event under which relation: `docs/accounting.md`.
//!
//! Every reported epsilon and delta is rounded up, by a slack that covers the rounding errors of
//! its own evaluation. An accountant refuses an event that it cannot account for.
//!
//! ```
//! use dpopt_privacy::{Accountant, Adjacency, Delta, Event, NoiseMultiplier};
//! let event = Event::gaussian(NoiseMultiplier::new(2.0)?).repeated(4);
//! let accountant = Accountant::tightest_for(&event, Adjacency::ReplaceOne)?;
//! let epsilon = accountant.epsilon(&event, Delta::new(1e-5)?, Adjacency::ReplaceOne)?;
//! assert!((epsilon - 4.377178095681).abs() < 1e-11);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod calibrate;
pub mod costs;
pub mod gdp;
mod moments;
mod parts;
pub mod pld;
pub mod pure;
pub mod rdp;
mod releases;
pub mod special;
mod without_replacement;
pub mod zcdp;

use serde::{Deserialize, Serialize};

use crate::adjacency::Adjacency;
use crate::event::{Event, EventError};
use crate::units::{Delta, Epsilon, UnitError};
use parts::Parts;
use releases::Releases;

/// An accountant could not answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum AccountingError {
    /// The event contains something that the accountant has no theorem for.
    #[error("the {accountant} accountant cannot account for {event}{}", at(path))]
    UnsupportedEvent {
        /// Who refused.
        accountant: Accountant,
        /// Where the part is in the event; empty for the whole of it.
        path: String,
        /// The part of the event that was refused.
        event: Box<Event>,
    },
    /// There is no theorem for this event under this neighbouring relation.
    #[error(
        "{event}{} cannot be accounted for under {adjacency} adjacency",
        at(path)
    )]
    UnsupportedAdjacency {
        /// The relation.
        adjacency: Adjacency,
        /// Where the part is in the event; empty for the whole of it.
        path: String,
        /// The part of the event that was refused.
        event: Box<Event>,
    },
    /// The event is not valid.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The event contains an unprotected release: no finite epsilon with delta below 1 holds.
    #[error("the event contains an unprotected release, so no epsilon holds")]
    Unprotected,
    /// A number left the range of `f64` or of its unit.
    #[error("{quantity} came out as {value}, which is out of range")]
    OutOfRange {
        /// Name of the quantity.
        quantity: &'static str,
        /// Its value.
        value: f64,
    },
    /// A Renyi order is not a finite number above 1.
    #[error("a Renyi order must be a finite number above 1, got {order}")]
    InvalidOrder {
        /// The rejected order.
        order: f64,
    },
    /// No noise multiplier up to the largest one tried meets the target.
    #[error(
        "epsilon {target_epsilon} at delta {target_delta} is out of reach: \
         at noise multiplier {noise_multiplier} epsilon is still {achieved_epsilon}"
    )]
    Unreachable {
        /// Wanted epsilon.
        target_epsilon: f64,
        /// At this delta.
        target_delta: f64,
        /// Largest noise multiplier tried.
        noise_multiplier: f64,
        /// What it gives; NaN when the accountant had no finite answer.
        achieved_epsilon: f64,
    },
    /// Even the smallest noise multiplier tried meets the target, so there is no least one.
    #[error(
        "epsilon {target_epsilon} at delta {target_delta} is met at every noise multiplier \
         down to {noise_multiplier}: the event does not depend on it"
    )]
    Unconstrained {
        /// Wanted epsilon.
        target_epsilon: f64,
        /// At this delta.
        target_delta: f64,
        /// Smallest noise multiplier tried.
        noise_multiplier: f64,
    },
    /// A parameter is out of the range of its unit.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The privacy-loss distribution can't be computed.
    #[error(transparent)]
    Pld(#[from] pld::PldError),
}

fn at(path: &str) -> String {
    match path {
        "" => String::new(),
        path => format!(" (at {path})"),
    }
}

/// A method that turns an event into (epsilon, delta).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Accountant {
    /// Gaussian differential privacy: exact for compositions of Gaussian releases, also in trees.
    Gdp,
    /// Zero-concentrated differential privacy: compositions of unsampled releases.
    Zcdp,
    /// Renyi differential privacy at all real orders: everything but approximate differential
    /// privacy and samples of anything but Gaussians.
    Rdp,
    /// Privacy-loss distributions: the certified upper bound of [`pld`]. Gaussian and
    /// Poisson-sampled Gaussian releases in any composition.
    Pld,
    /// Pure and approximate differential privacy: [`pure`] composition.
    Pure,
}

impl Accountant {
    /// The least epsilon that this accountant can state for `event` at `delta`, rounded up;
    /// 0 when nothing was released or delta alone covers it.
    ///
    /// # Errors
    /// [`AccountingError::UnsupportedEvent`], [`AccountingError::Unprotected`], or
    /// [`AccountingError::OutOfRange`] when epsilon is not a finite `f64`.
    pub fn epsilon(
        self,
        event: &Event,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<f64, AccountingError> {
        if self == Accountant::Pld {
            Releases::of(self, event)?;
        }
        let parts = Parts::of(self, event, adjacency)?;
        if parts.is_empty() {
            return Ok(0.0);
        }
        let epsilon = match self {
            Accountant::Gdp => match parts.releases.mu()? {
                Some(mu) => gdp::epsilon(mu, delta),
                None => 0.0,
            },
            Accountant::Zcdp => zcdp::epsilon_of(parts.concentrated(), delta)?,
            Accountant::Rdp => rdp::epsilon_of(&parts, delta, adjacency),
            Accountant::Pld => pld::epsilon(event, delta, adjacency)?.upper,
            Accountant::Pure => pure::epsilon_of(&parts, delta)?,
        };
        if epsilon.is_finite() {
            Ok(epsilon)
        } else {
            Err(AccountingError::OutOfRange {
                quantity: "epsilon",
                value: epsilon,
            })
        }
    }

    /// The least delta that this accountant can state for `event` at `epsilon`, rounded up and
    /// at most 1; 0 when nothing was released.
    ///
    /// # Errors
    /// [`AccountingError::UnsupportedEvent`], [`AccountingError::Unprotected`], or
    /// [`AccountingError::OutOfRange`].
    pub fn delta(
        self,
        event: &Event,
        epsilon: Epsilon,
        adjacency: Adjacency,
    ) -> Result<f64, AccountingError> {
        if self == Accountant::Pld {
            Releases::of(self, event)?;
        }
        let parts = Parts::of(self, event, adjacency)?;
        if parts.is_empty() {
            return Ok(0.0);
        }
        Ok(match self {
            Accountant::Gdp => parts
                .releases
                .mu()?
                .map_or(0.0, |mu| gdp::delta(mu, epsilon)),
            Accountant::Zcdp => zcdp::delta_of(parts.concentrated(), epsilon)?,
            Accountant::Rdp => rdp::delta_of(&parts, epsilon, adjacency),
            Accountant::Pld => pld::delta(event, epsilon.get(), adjacency)?.upper.min(1.0),
            Accountant::Pure => pure::delta_of(&parts, epsilon)?,
        })
    }

    /// The accountant to start with for events of this shape: [`Self::Gdp`], which is exact, when
    /// every release is a plain Gaussian or a tree of them, otherwise [`Self::Pld`],
    /// [`Self::Pure`] or [`Self::Rdp`], the first that takes the event.
    ///
    /// # Errors
    /// [`AccountingError`] when no accountant takes the event.
    pub fn tightest_for(event: &Event, adjacency: Adjacency) -> Result<Self, AccountingError> {
        if Parts::of(Accountant::Gdp, event, adjacency).is_ok() {
            Ok(Accountant::Gdp)
        } else if Releases::of(Accountant::Pld, event).is_ok() {
            Ok(Accountant::Pld)
        } else if Parts::of(Accountant::Pure, event, adjacency).is_ok() {
            Ok(Accountant::Pure)
        } else {
            Parts::of(Accountant::Rdp, event, adjacency).map(|_| Accountant::Rdp)
        }
    }

    /// The least epsilon that any accountant here states for `event` at `delta`, and which: of
    /// those that take the event, every one is a bound, and which of them is smallest depends on
    /// the event alone.
    ///
    /// # Errors
    /// The refusal of [`Accountant::tightest_for`]'s choice when none has an answer.
    pub fn least(
        event: &Event,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<(Self, f64), AccountingError> {
        let first = Self::tightest_for(event, adjacency)?;
        let answer = first.epsilon(event, delta, adjacency);
        let mut best = answer.map(|epsilon| (first, epsilon));
        if first == Accountant::Gdp {
            return best;
        }
        if let Ok(other) = Accountant::Rdp.epsilon(event, delta, adjacency) {
            let better = match &best {
                Ok((_, epsilon)) => other < *epsilon,
                Err(_) => true,
            };
            if better {
                best = Ok((Accountant::Rdp, other));
            }
        }
        best
    }

    /// Whether there is a theorem here for Poisson samples.
    fn takes_samples(self) -> bool {
        matches!(self, Accountant::Rdp | Accountant::Pld)
    }

    /// Every accountant, in the order of the table above.
    pub const ALL: [Accountant; 5] = [
        Accountant::Gdp,
        Accountant::Zcdp,
        Accountant::Rdp,
        Accountant::Pld,
        Accountant::Pure,
    ];
}

impl std::fmt::Display for Accountant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Accountant::Gdp => "gdp",
            Accountant::Zcdp => "zcdp",
            Accountant::Rdp => "rdp",
            Accountant::Pld => "pld",
            Accountant::Pure => "pure",
        })
    }
}

/// A name is not that of an accountant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no accountant is called `{name}`; known: gdp, zcdp, rdp, pld, pure")]
pub struct UnknownAccountant {
    /// The rejected name.
    pub name: String,
}

impl std::str::FromStr for Accountant {
    type Err = UnknownAccountant;

    fn from_str(name: &str) -> Result<Self, UnknownAccountant> {
        Accountant::ALL
            .into_iter()
            .find(|accountant| accountant.to_string() == name)
            .ok_or_else(|| UnknownAccountant {
                name: name.to_owned(),
            })
    }
}
