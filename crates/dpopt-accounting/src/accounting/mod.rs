//! Accountants: what an [`Event`] costs in (epsilon, delta).
//!
//! | accountant | takes | answer |
//! | --- | --- | --- |
//! | [`Accountant::Gdp`] | compositions of Gaussians and of trees of them | exact |
//! | [`Accountant::Zcdp`] | whatever has a zCDP parameter | upper bound |
//! | [`Accountant::Rdp`] | whatever has a Renyi divergence | upper bound |
//! | [`Accountant::Pld`] | Gaussians and Laplace noise, plain and Poisson-sampled, beside pure, approximate, discrete and concentrated releases | upper bound within about 0.1 % (see [`pld`] for the lower one) |
//! | [`Accountant::Exact`] | Gaussians and Poisson-sampled Gaussians | exact up to about 1e-9 (see [`exact`] for the certified interval) |
//! | [`Accountant::Pure`] | pure and approximate DP | the optimum for equal epsilons, otherwise an upper bound |
//! | [`Accountant::Basic`] | pure and approximate DP beside anything that another one takes | upper bound: the sum of both |
//!
//! Which accountant takes which event under which relation: `docs/accounting.md`.
//!
//! Every reported epsilon and delta is rounded up, by a slack that covers the rounding errors of
//! its own evaluation. An accountant refuses an event that it cannot account for.
//!
//! ```
//! use dpopt_accounting::{Accountant, Adjacency, Delta, Event, NoiseMultiplier};
//! let event = Event::gaussian(NoiseMultiplier::new(2.0)?).repeated(4);
//! let accountant = Accountant::tightest_for(&event, Adjacency::ReplaceOne)?;
//! let epsilon = accountant.epsilon(&event, Delta::new(1e-5)?, Adjacency::ReplaceOne)?;
//! assert!((epsilon - 4.377178095681).abs() < 1e-11);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod basic;
pub mod bounded_range;
pub mod calibrate;
pub mod costs;
pub mod curves;
mod error;
pub mod exact;
pub mod gdp;
pub mod group;
mod kind;
mod moments;
mod parts;
pub mod pld;
pub mod pure;
pub mod rdp;
mod reduce;
mod releases;
pub mod selection;
pub mod special;
mod truncation;
mod without_replacement;
pub mod zcdp;

use std::borrow::Cow;

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon};
use basic::Split;
pub use error::AccountingError;
pub use kind::{Accountant, UnknownAccountant};
#[doc(hidden)]
pub use moments::log_inverse_gamma;
use parts::Parts;
use releases::Releases;

/// What contours say of the event: `few` of one with few kinds of samples, otherwise `many`.
fn contour(
    event: &Event,
    few: impl Fn(&Event) -> Result<exact::ExactBounds, exact::ExactError>,
    many: impl Fn(&Releases) -> Result<exact::ExactBounds, exact::ExactError>,
) -> Result<exact::ExactBounds, AccountingError> {
    let releases = Releases::of(Accountant::Exact, event)?;
    if releases.sampled.len() <= MOST_KINDS {
        return Ok(few(event)?);
    }
    match many(&releases) {
        Ok(bounds) => Ok(bounds),
        Err(error @ exact::ExactError::TooManySteps { .. }) => Err(error.into()),
        // Far apart, and then groups that dominate them are what is left.
        Err(_) => {
            let above = few(&releases.coarser(MOST_GROUPS)?)?;
            Ok(exact::ExactBounds {
                lower: 0.0,
                ..above
            })
        }
    }
}

/// Kinds of samples that have contours of their own. Tuned.
const MOST_KINDS: usize = 300;
/// Groups of samples that stand for all, where they are too far apart to be mixed. Tuned: a few seconds.
const MOST_GROUPS: usize = 2000;
/// Groups of samples that bound all from below. Tuned.
const MOST_BELOW: usize = 120;

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
        if self == Accountant::Basic {
            return Split::of(event, adjacency)?.epsilon(delta, adjacency);
        }
        if self == Accountant::Exact {
            Releases::of(self, event)?;
        }
        let parts = Parts::of(self, event, adjacency)?;
        if parts.is_empty() {
            return Ok(0.0);
        }
        let epsilon = match self {
            // Answered above, by the accountants of its groups.
            Accountant::Basic => f64::INFINITY,
            Accountant::Gdp => match parts.releases.mu()? {
                Some(mu) => gdp::epsilon(mu, delta),
                None => 0.0,
            },
            Accountant::Zcdp => zcdp::epsilon_of(parts.concentrated(), delta)?,
            Accountant::Rdp => rdp::epsilon_of(&parts, delta, adjacency),
            Accountant::Pld => pld::upper_epsilon(event, delta, adjacency)?,
            Accountant::Exact => Self::stated(event, delta, adjacency)?,
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
        let all = self.deltas(event, &[epsilon], adjacency)?;
        Ok(all.first().copied().unwrap_or(1.0))
    }

    /// [`Self::delta`] at each of several epsilons, in their order. [`Self::Pld`] builds the losses of allocations, most of its work, once.
    ///
    /// # Errors
    /// As [`Self::delta`].
    pub fn deltas(
        self,
        event: &Event,
        epsilons: &[Epsilon],
        adjacency: Adjacency,
    ) -> Result<Vec<f64>, AccountingError> {
        if self == Accountant::Basic {
            let split = Split::of(event, adjacency)?;
            let each = epsilons.iter().map(|&e| split.delta(e, adjacency));
            return each.collect();
        }
        if self == Accountant::Exact {
            Releases::of(self, event)?;
        }
        let parts = Parts::of(self, event, adjacency)?;
        if parts.is_empty() {
            return Ok(vec![0.0; epsilons.len()]);
        }
        if self == Accountant::Pld {
            let all = pld::deltas(event, epsilons, adjacency)?;
            return Ok(all.into_iter().map(|delta| delta.upper.min(1.0)).collect());
        }
        let one = |&epsilon: &Epsilon| -> Result<f64, AccountingError> {
            Ok(match self {
                // Answered above.
                Accountant::Basic | Accountant::Pld => 1.0,
                Accountant::Gdp => parts
                    .releases
                    .mu()?
                    .map_or(0.0, |mu| gdp::delta(mu, epsilon)),
                Accountant::Zcdp => zcdp::delta_of(parts.concentrated(), epsilon)?,
                Accountant::Rdp => rdp::delta_of(&parts, epsilon, adjacency),
                Accountant::Exact => {
                    let epsilon = epsilon.get();
                    contour(
                        event,
                        |event| exact::delta(event, epsilon, adjacency),
                        |all| exact::delta_of_schedule(all, MOST_BELOW, epsilon, adjacency),
                    )?
                    .upper
                }
                Accountant::Pure => pure::delta_of(&parts, epsilon)?,
            })
        };
        epsilons.iter().map(one).collect()
    }

    /// The accountant to start with for events of this shape: [`Self::Gdp`], which is exact in
    /// closed form, when every release is a plain Gaussian or a tree of them, otherwise
    /// [`Self::Exact`], [`Self::Pld`] (after [`Self::Pure`] where there is no Gaussian and no Laplace noise), [`Self::Rdp`] or
    /// [`Self::Basic`], the first that takes the event. The second and third may still refuse an event that is beyond their numeric range;
    /// [`Self::least`] then asks the others.
    ///
    /// # Errors
    /// [`AccountingError`] when no accountant takes the event.
    pub fn tightest_for(event: &Event, adjacency: Adjacency) -> Result<Self, AccountingError> {
        if Parts::of(Accountant::Gdp, event, adjacency).is_ok() {
            Ok(Accountant::Gdp)
        } else if Releases::of(Accountant::Exact, event).is_ok() {
            Ok(Accountant::Exact)
        } else if Releases::of(Accountant::Pld, event).is_ok()
            && Parts::of(Accountant::Pld, event, adjacency).is_ok()
        {
            Ok(Accountant::Pld)
        } else if Parts::of(Accountant::Pure, event, adjacency).is_ok() {
            Ok(Accountant::Pure)
        } else if Parts::of(Accountant::Pld, event, adjacency).is_ok() {
            Ok(Accountant::Pld)
        } else {
            match Parts::of(Accountant::Rdp, event, adjacency) {
                Ok(_) => Ok(Accountant::Rdp),
                Err(_) if Self::splits(event, adjacency) => Ok(Accountant::Basic),
                Err(refusal) => Err(refusal),
            }
        }
    }

    /// Whether basic composition has two groups to compose.
    fn splits(event: &Event, adjacency: Adjacency) -> bool {
        Split::of(event, adjacency).is_ok_and(|split| split.is_proper())
    }

    /// The least epsilon that any accountant here states for `event` at `delta`, and which.
    /// The exact ones need no comparison; where [`Self::Exact`] refuses, or its certified
    /// interval is wider than a thousandth, the smallest of all bounds is taken. With Laplace
    /// noise it is the smallest of [`Self::Pld`], [`Self::Pure`] and [`Self::Rdp`], and with pure or approximate releases
    /// beside others the smallest of what takes the whole and of [`Self::Basic`].
    ///
    /// # Errors
    /// The refusal of [`Accountant::tightest_for`]'s choice when none has an answer.
    pub fn least(
        event: &Event,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<(Self, f64), AccountingError> {
        let first = Self::tightest_for(event, adjacency)?;
        match first {
            Accountant::Gdp => first.epsilon(event, delta, adjacency).map(|e| (first, e)),
            Accountant::Exact => Self::least_sampled(event, delta, adjacency),
            _ => {
                let mut others = vec![Accountant::Pld, Accountant::Pure, Accountant::Rdp];
                // Of one group alone it would ask here again.
                if Self::splits(event, adjacency) {
                    others.push(Accountant::Basic);
                }
                others.retain(|&other| other != first);
                let answer = first.epsilon(event, delta, adjacency).map(|e| (first, e));
                Self::smaller(answer, &others, event, delta, adjacency)
            }
        }
    }

    /// The certified interval of [`Self::Exact`], whose upper end is what that accountant states. Of more than 300 kinds of
    /// samples the upper end is that of mixtures of few that dominate them, mostly within a thousandth, and the lower one that
    /// of 120 groups that they dominate.
    ///
    /// # Errors
    /// As [`Self::epsilon`].
    pub fn interval(
        event: &Event,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<exact::ExactBounds, AccountingError> {
        Parts::of(Accountant::Exact, event, adjacency)?;
        contour(
            event,
            |event| exact::epsilon(event, delta, adjacency),
            |all| exact::epsilon_of_schedule(all, MOST_BELOW, delta, adjacency),
        )
    }

    /// The upper end of the interval, unless it is wide for want of resolution. (Of many samples the lower end is that of groups.)
    fn stated(event: &Event, delta: Delta, adjacency: Adjacency) -> Result<f64, AccountingError> {
        let bounds = Self::interval(event, delta, adjacency)?;
        if bounds.is_wide() && Releases::of(Accountant::Exact, event)?.sampled.len() <= MOST_KINDS {
            let exact::ExactBounds { lower, upper } = bounds;
            return Err(exact::ExactError::Wide { lower, upper }.into());
        }
        Ok(bounds.upper)
    }

    /// As [`Self::least`], for events that [`Self::Exact`] takes.
    fn least_sampled(
        event: &Event,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<(Self, f64), AccountingError> {
        let exact = match Self::interval(event, delta, adjacency) {
            Ok(bounds) if !bounds.is_wide() => return Ok((Accountant::Exact, bounds.upper)),
            answer => answer.map(|bounds| (Accountant::Exact, bounds.upper)),
        };
        let releases = Releases::of(Accountant::Exact, event)?;
        let event = if releases.sampled.len() > MOST_KINDS {
            // The lower end is that of groups: the width says nothing about the upper one.
            if let Ok(known) = exact {
                return Ok(known);
            }
            Cow::Owned(releases.coarser(MOST_GROUPS)?)
        } else {
            Cow::Borrowed(event)
        };
        let others = [Accountant::Pld, Accountant::Rdp];
        Self::smaller(exact, &others, &event, delta, adjacency)
    }

    /// The smallest of a first answer and those of others that have one.
    fn smaller(
        first: Result<(Self, f64), AccountingError>,
        others: &[Self],
        event: &Event,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<(Self, f64), AccountingError> {
        others
            .iter()
            .filter_map(|&other| Some((other, other.epsilon(event, delta, adjacency).ok()?)))
            .fold(first, |best, next| match best {
                Ok(known) if known.1 <= next.1 => Ok(known),
                _ => Ok(next),
            })
    }
}
