//! Basic composition of two groups: pure and approximate differential privacy, and the rest.
//!
//! If the releases of one group are together `(e1, d1)`-DP and those of the other `(e2, d2)`-DP, all
//! of them are `(e1 + e2, d1 + d2)`-DP, also where they alternate and each depends on what was released
//! before. The argument stands in `docs/privacy/accounting.md`.
//!
//! Gaussians, their samples and whatever has a tight accountant keep it; the price of a selection
//! beside them is its own epsilon, and no more.

use super::parts::Parts;
use super::releases::{Releases, sum_up, up};
use super::{Accountant, AccountingError, pure};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon};

/// An event in two groups.
pub(super) struct Split {
    /// What [`Accountant::Pure`] takes, but for Laplace noise.
    pure: Parts,
    /// The rest of the composition; [`Event::NoOp`] where there is none.
    rest: Event,
}

impl Split {
    /// Sorts the releases of `event`.
    ///
    /// # Errors
    /// That of [`Accountant::Rdp`], which takes the most, where no accountant takes the rest.
    pub(super) fn of(event: &Event, adjacency: Adjacency) -> Result<Self, AccountingError> {
        event.check()?;
        let takes = |who: Accountant, event: &Event| Parts::of(who, event, adjacency).is_ok();
        let has_density = |event: &Event| {
            Releases::of(Accountant::Pld, event).is_ok() && takes(Accountant::Pld, event)
        };
        let (mut pure, mut rest) = (Vec::new(), Vec::new());
        for (leaf, count) in event.leaves() {
            let group = if takes(Accountant::Pure, &leaf) && !has_density(&leaf) {
                &mut pure
            } else {
                &mut rest
            };
            group.push(if count == 1 {
                leaf
            } else {
                leaf.repeated(count)
            });
        }
        let (pure, rest) = (all_of(pure), all_of(rest));
        if ![Accountant::Rdp, Accountant::Pld]
            .into_iter()
            .any(|who| takes(who, &rest))
        {
            return Err(refusal(event, &rest, adjacency));
        }
        Ok(Self {
            pure: Parts::of(Accountant::Pure, &pure, adjacency)?,
            rest,
        })
    }

    /// Whether there is something in either group.
    pub(super) fn is_proper(&self) -> bool {
        !self.pure.is_empty() && self.rest != Event::NoOp
    }

    /// The sum of the epsilons, rounded up: the rest at what the pure group leaves of delta.
    pub(super) fn epsilon(
        &self,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<f64, AccountingError> {
        let (sum, failure) = pure::basic(&self.pure);
        let unreachable = AccountingError::OutOfRange {
            quantity: "epsilon",
            value: f64::INFINITY,
        };
        if self.rest == Event::NoOp {
            return if failure <= delta.get() {
                Ok(sum)
            } else {
                Err(unreachable)
            };
        }
        let left = if failure > 0.0 {
            // Rounded down: the two parts of delta don't add up to more than it.
            Delta::new((delta.get() - failure).next_down()).map_err(|_| unreachable)?
        } else {
            delta
        };
        let (_, rest) = Accountant::least(&self.rest, left, adjacency)?;
        Ok(sum_up(sum, rest))
    }

    /// The least sum of deltas over a few ways to share epsilon, rounded up.
    pub(super) fn delta(
        &self,
        epsilon: Epsilon,
        adjacency: Adjacency,
    ) -> Result<f64, AccountingError> {
        if self.pure.is_empty() {
            return least_delta(&self.rest, epsilon, adjacency);
        }
        if self.rest == Event::NoOp {
            return pure::delta_of(&self.pure, epsilon);
        }
        let (sum, _) = pure::basic(&self.pure);
        let mut least = 1.0_f64;
        // All of the sum, where there is more; and shares of it.
        for part in [
            sum,
            0.999 * epsilon.get(),
            0.5 * epsilon.get(),
            0.001 * epsilon.get(),
        ] {
            // Rounded down, and nothing where nothing is left.
            let left = (epsilon.get() - part).next_down();
            let (Ok(part), Ok(left)) = (Epsilon::new(part), Epsilon::new(left)) else {
                continue;
            };
            let one = pure::delta_of(&self.pure, part)?;
            let both = up(one + least_delta(&self.rest, left, adjacency)?);
            least = least.min(both);
        }
        Ok(least)
    }
}

fn least_delta(
    event: &Event,
    epsilon: Epsilon,
    adjacency: Adjacency,
) -> Result<f64, AccountingError> {
    let first = Accountant::tightest_for(event, adjacency)?;
    let answer = first.delta(event, epsilon, adjacency);
    if answer.is_ok() && matches!(first, Accountant::Gdp | Accountant::Exact) {
        return answer;
    }
    [Accountant::Pld, Accountant::Rdp]
        .into_iter()
        .filter(|&other| other != first)
        .filter_map(|other| other.delta(event, epsilon, adjacency).ok())
        .fold(answer, |best, next| match best {
            Ok(known) if known <= next => Ok(known),
            _ => Ok(next),
        })
}

fn all_of(mut events: Vec<Event>) -> Event {
    match events.len() {
        0 => Event::NoOp,
        1 => events.remove(0),
        _ => Event::composed(events),
    }
}

/// Why nobody takes the rest, with the place in `root`.
fn refusal(root: &Event, rest: &Event, adjacency: Adjacency) -> AccountingError {
    let found = rest.leaves().into_iter().find_map(|(leaf, count)| {
        let repeated = leaf.clone().repeated(count);
        let error = Parts::of(Accountant::Rdp, &repeated, adjacency).err()?;
        Some((leaf, error))
    });
    let Some((leaf, error)) = found else {
        return AccountingError::UnsupportedEvent {
            accountant: Accountant::Basic,
            path: String::new(),
            event: Box::new(root.clone()),
        };
    };
    match error {
        AccountingError::UnsupportedEvent { event, .. } => AccountingError::UnsupportedEvent {
            accountant: Accountant::Basic,
            path: place(root, &leaf, &event),
            event,
        },
        AccountingError::UnsupportedAdjacency {
            adjacency, event, ..
        } => AccountingError::UnsupportedAdjacency {
            adjacency,
            path: place(root, &leaf, &event),
            event,
        },
        other => other,
    }
}

/// The path in `root` to what was refused in one of its leaves.
fn place(root: &Event, leaf: &Event, refused: &Event) -> String {
    let (outer, inner) = (root.path_to(leaf), leaf.path_to(refused));
    match (outer.is_empty(), inner.is_empty()) {
        (_, true) => outer,
        (true, false) => inner,
        (false, false) => format!("{outer}.{inner}"),
    }
}
