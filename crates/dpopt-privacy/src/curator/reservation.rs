//! What a run may spend, and what it has left of it.

use std::collections::BTreeMap;

use super::made::Made;
use crate::accounting::costs;
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::ledger::ReservationId;
use crate::refused::Refused;
use crate::units::NoiseMultiplier;
use crate::which::Account;

/// What a run may spend.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Spend {
    /// Exactly these releases, or a part of them: the multipliers, rates and counts are fixed
    /// before any record is read. What is released may still depend on earlier releases.
    ///
    /// One [`Event::ParallelComposed`] may be among them: every slice of the curator's pool may then be
    /// charged up to one of its inner events, which must have no release in common. The first
    /// release on a slice decides which one.
    Fixed(Event),
    /// Gaussian releases on all records whose multipliers are chosen on the way, with a sum of
    /// squared mu of at most that of this composition of Gaussians: a privacy filter.
    ///
    /// Smith and Thakurta 2022 ("Fully adaptive composition for Gaussian differential privacy"):
    /// such a run is as private as the composition.
    AtMost(Event),
    /// Releases under a cap, then fixed ones: [`Spend::at_most_then`].
    AtMostThen(AtMostThen),
    /// Gaussian releases on slices of the pool, periods of prefix sums among them, whose multipliers are chosen on the way: of every slice the
    /// squared mu of the releases that read it add up to at most that of a composition of Gaussians. [`Spend::at_most_on_each_slice`].
    AtMostOnEachSlice(SliceCap),
}

impl Spend {
    /// Gaussian releases as [`Spend::AtMost`] `cap` has them, and after the last of them those of `then`, which are fixed
    /// before any record is read: a search whose steps are chosen on the way, and a selection among what it found.
    ///
    /// The first release of `then` ends the others. So there are two mechanisms, one after the other, each with a
    /// guarantee that was fixed beforehand, and ordinary adaptive composition holds.
    #[must_use]
    pub fn at_most_then(cap: Event, then: Event) -> Self {
        Spend::AtMostThen(AtMostThen {
            whole: Event::composed(vec![cap.clone(), then.clone()]),
            cap,
            then,
        })
    }

    /// The filter of [`Spend::AtMost`] for every slice by itself, with this cap.
    ///
    /// A record is in one slice, and what does not read that is the same for both neighbours: along the record's own path the squared mu add up
    /// to at most the cap, in every transcript, so that the run is as private as it (`docs/privacy/adaptive.md`).
    #[must_use]
    pub fn at_most_on_each_slice(cap: Event) -> Self {
        Spend::AtMostOnEachSlice(SliceCap {
            whole: Event::ParallelComposed {
                events: vec![cap.clone()],
            },
            cap,
        })
    }

    /// The releases, or the cap on them, as one event: what a guarantee is stated for.
    #[must_use]
    pub fn event(&self) -> &Event {
        match self {
            Spend::Fixed(event) | Spend::AtMost(event) => event,
            Spend::AtMostThen(both) => &both.whole,
            Spend::AtMostOnEachSlice(of_slice) => &of_slice.whole,
        }
    }
}

/// What [`Spend::at_most_on_each_slice`] makes.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceCap {
    cap: Event,
    whole: Event,
}

/// What [`Spend::at_most_then`] makes.
#[derive(Debug, Clone, PartialEq)]
pub struct AtMostThen {
    cap: Event,
    then: Event,
    whole: Event,
}

/// An open reservation.
pub(super) struct Reservation {
    /// What it is recorded, charged and guaranteed as.
    pub(super) event: Event,
    pub(super) in_ledger: Option<ReservationId>,
    /// On which argument sensitivities may rest that are claimed; none may be without one.
    pub(super) rests_on: Option<&'static str>,
    terms: Terms,
}

enum Terms {
    Fixed {
        /// Leaves on all records, with what was reserved of each and what is left.
        whole: Vec<(Event, u64, u64)>,
        /// Leaves that a slice may be charged, how often, and in which of the alternatives.
        share: Vec<(Event, u64, usize)>,
        /// What each slice has used of its share, in the order of `share`.
        used: BTreeMap<u64, Vec<u64>>,
    },
    AtMost {
        cap: f64,
        used: f64,
        made: Made,
        /// Leaves for after the last release under the cap, with what was reserved of each and what is left.
        then: Vec<(Event, u64, u64)>,
    },
    OnEachSlice {
        cap: f64,
        made: Made,
        used: BTreeMap<u64, OfSlice>,
    },
}

/// What a slice has used of its cap, and the numbers of the releases that read it, with how often.
#[derive(Default)]
pub(super) struct OfSlice {
    used: f64,
    releases: Vec<(usize, u64)>,
}

/// Where one release is taken off: there is room for it.
pub(super) enum Place<'a> {
    /// What is left of a leaf.
    Leaf(&'a mut u64),
    /// The shares of slices.
    Share {
        used: &'a mut BTreeMap<u64, Vec<u64>>,
        slices: &'a [u64],
        at: usize,
        parts: usize,
    },
    /// What is used of a cap.
    Cap {
        used: &'a mut f64,
        total: f64,
        made: &'a mut Made,
    },
    /// What a slice has used of its cap.
    SliceCap {
        made: &'a mut Made,
        used: &'a mut BTreeMap<u64, OfSlice>,
        slice: u64,
        total: f64,
    },
}

impl Reservation {
    /// The terms of `spend`, if the curator has releases for all of it.
    pub(super) fn new(spend: &Spend, adjacency: Adjacency) -> Result<Self, Refused> {
        let (event, terms) = match spend {
            Spend::Fixed(event) => (event.clone(), fixed(event, adjacency)?),
            Spend::AtMost(event) => at_most(event, adjacency)?,
            Spend::AtMostOnEachSlice(of_slice) => on_each_slice(&of_slice.cap, adjacency)?,
            Spend::AtMostThen(both) => {
                let (event, mut terms) = at_most(&both.cap, adjacency)?;
                let Terms::Fixed { whole, share, .. } = fixed(&both.then, adjacency)? else {
                    return Err(unsupported(&both.then, ""));
                };
                let gaussian = |leaf: &Event| matches!(leaf, Event::Gaussian { .. });
                if !share.is_empty() || whole.iter().any(|(leaf, ..)| gaussian(leaf)) {
                    return Err(unsupported(
                        &both.then,
                        ": after the releases under a cap come those on all records that are no Gaussians",
                    ));
                }
                if let Terms::AtMost { then, .. } = &mut terms {
                    *then = whole;
                }
                (Event::composed(vec![event, both.then.clone()]), terms)
            }
        };
        Ok(Self {
            event,
            in_ledger: None,
            rests_on: None,
            terms,
        })
    }

    /// How the noise of the releases is made, and what it rests on besides, for the ledger.
    pub(super) fn noise(&self) -> String {
        match &self.rests_on {
            None => self.source().to_owned(),
            Some(argument) => format!("{} (if {argument})", self.source()),
        }
    }

    fn source(&self) -> &'static str {
        let selects = |leaf: &Event| {
            matches!(
                leaf,
                Event::ExponentialMechanism { .. } | Event::RepeatAndSelect { .. }
            )
        };
        let leaves = self.event.leaves();
        let selections = leaves.iter().filter(|(leaf, _)| selects(leaf)).count();
        match selections {
            0 => "rounded-gaussian",
            all if all == leaves.len() => "exact-selection",
            _ => "rounded-gaussian and exact-selection",
        }
    }

    /// Where `event` would be taken off what is left, if enough is left.
    pub(super) fn find<'a>(
        &'a mut self,
        event: &Event,
        account: &'a Account,
        adjacency: Adjacency,
    ) -> Result<Place<'a>, Refused> {
        let refused_for = |slice: Option<u64>| Refused::NotReserved {
            event: event.clone(),
            slice,
        };
        let refused = || refused_for(account.slices().first().copied());
        match (&mut self.terms, account) {
            (Terms::Fixed { whole, .. }, Account::Whole) => leaf(whole, event).ok_or_else(refused),
            (Terms::Fixed { share, used, .. }, Account::Slice(_) | Account::Chain(_)) => {
                let at = share
                    .iter()
                    .position(|(leaf, ..)| leaf == event)
                    .ok_or_else(refused)?;
                let (_, most, alternative) = share[at];
                let other =
                    |(n, part): (&u64, &(Event, u64, usize))| *n > 0 && part.2 != alternative;
                // All of them, before any is charged.
                for slice in account.slices() {
                    if let Some(counts) = used.get(slice)
                        && (counts[at] >= most || counts.iter().zip(&*share).any(other))
                    {
                        return Err(refused_for(Some(*slice)));
                    }
                }
                Ok(Place::Share {
                    used,
                    slices: account.slices(),
                    at,
                    parts: share.len(),
                })
            }
            (
                Terms::AtMost {
                    cap,
                    used,
                    made,
                    then,
                },
                Account::Whole,
            ) => {
                if !matches!(event, Event::Gaussian { .. }) {
                    return leaf(then, event).ok_or_else(refused);
                }
                // What comes then has begun.
                if then.iter().any(|(_, reserved, left)| left < reserved) {
                    return Err(refused());
                }
                let cost = costs::squared_mu(event, adjacency)?;
                let total = (*used + cost).next_up();
                // Written so that a total that is not a number is refused.
                if !(total <= *cap) {
                    return Err(Refused::OverCap {
                        cost,
                        left: (*cap - *used).max(0.0),
                        cap: *cap,
                    });
                }
                Ok(Place::Cap { used, total, made })
            }
            // What is paid for is taken off nothing.
            (_, Account::Paid)
            | (Terms::AtMost { .. }, Account::Slice(_) | Account::Chain(_))
            | (Terms::OnEachSlice { .. }, Account::Whole | Account::Chain(_)) => Err(refused()),
            (Terms::OnEachSlice { cap, made, used }, Account::Slice(slice)) => {
                let sampled = matches!(
                    event,
                    Event::PoissonSampled { .. } | Event::RandomAllocation { .. }
                );
                if !made_on_slices(event) || sampled {
                    return Err(refused());
                }
                let before = used.get(slice).map_or(0.0, |of| of.used);
                let cost = costs::squared_mu(event, adjacency)?;
                let total = (before + cost).next_up();
                // Written so that a total that is not a number is refused.
                if !(total <= *cap) {
                    return Err(Refused::OverCap {
                        cost,
                        left: (*cap - before).max(0.0),
                        cap: *cap,
                    });
                }
                Ok(Place::SliceCap {
                    made,
                    used,
                    slice: *slice,
                    total,
                })
            }
        }
    }

    /// What was released so far, as one event.
    pub(super) fn used(&self) -> Event {
        match &self.terms {
            Terms::Fixed { whole, share, used } => {
                let mut events: Vec<Event> = whole
                    .iter()
                    .filter(|(_, reserved, left)| reserved > left)
                    .map(|(leaf, reserved, left)| leaf.clone().repeated(reserved - left))
                    .collect();
                // Slices that were used alike are alike to the accountant.
                let patterns: std::collections::BTreeSet<&Vec<u64>> = used.values().collect();
                let slices: Vec<Event> = patterns
                    .into_iter()
                    .map(|counts| {
                        let times = share.iter().zip(counts);
                        all_of(
                            times
                                .filter(|(_, count)| **count > 0)
                                .map(|((leaf, ..), count)| leaf.clone().repeated(*count))
                                .collect(),
                        )
                    })
                    .collect();
                if !slices.is_empty() {
                    events.push(Event::ParallelComposed { events: slices });
                }
                all_of(events)
            }
            Terms::OnEachSlice { made, used, .. } => {
                // Slices that were used alike are alike to the accountant.
                let patterns: std::collections::BTreeSet<&Vec<(usize, u64)>> =
                    used.values().map(|of| &of.releases).collect();
                let slices = patterns.into_iter().map(|releases| {
                    let times = releases.iter();
                    all_of(
                        times
                            .filter_map(|(at, n)| Some(made.get(*at)?.clone().repeated(*n)))
                            .collect(),
                    )
                });
                let events: Vec<Event> = slices.collect();
                match events.is_empty() {
                    true => Event::NoOp,
                    false => Event::ParallelComposed { events },
                }
            }
            Terms::AtMost { made, then, .. } => {
                let then = then
                    .iter()
                    .filter(|(_, reserved, left)| reserved > left)
                    .map(|(leaf, reserved, left)| (leaf, reserved - left));
                all_of(
                    made.iter()
                        .chain(then)
                        .map(|(leaf, count)| leaf.clone().repeated(count))
                        .collect(),
                )
            }
        }
    }
}

impl Place<'_> {
    /// Takes `event`, for which this is the place.
    pub(super) fn take(self, event: &Event) {
        match self {
            Place::Leaf(left) => *left -= 1,
            Place::Share {
                used,
                slices,
                at,
                parts,
            } => {
                for slice in slices {
                    used.entry(*slice).or_insert_with(|| vec![0; parts])[at] += 1;
                }
            }
            Place::Cap { used, total, made } => {
                *used = total;
                made.count(event);
            }
            Place::SliceCap {
                made,
                used,
                slice,
                total,
            } => {
                let at = made.count(event);
                let of = used.entry(slice).or_default();
                of.used = total;
                match of.releases.iter_mut().find(|(known, _)| *known == at) {
                    Some((_, count)) => *count += 1,
                    None => {
                        of.releases.push((at, 1));
                        of.releases.sort_unstable();
                    }
                }
            }
        }
    }
}

/// The leaf that is this event and of which something is left.
fn leaf<'a>(leaves: &'a mut [(Event, u64, u64)], event: &Event) -> Option<Place<'a>> {
    let found = leaves
        .iter_mut()
        .find(|(leaf, _, left)| *left > 0 && leaf == event);
    found.map(|(_, _, left)| Place::Leaf(left))
}

fn unsupported(event: &Event, why: &'static str) -> Refused {
    Refused::UnsupportedSpend {
        event: event.clone(),
        why,
    }
}

/// A cap on Gaussian releases: what is recorded, and its terms.
fn at_most(event: &Event, adjacency: Adjacency) -> Result<(Event, Terms), Refused> {
    if let Some((leaf, _)) = event
        .leaves()
        .into_iter()
        .find(|(leaf, _)| !matches!(leaf, Event::Gaussian { .. }))
    {
        return Err(unsupported(&leaf, ": a cap is a composition of Gaussians"));
    }
    // Costs and their sum are rounded up; the margin lets the cap's own releases
    // pass all the same. What is recorded is the cap with its margin.
    let cap = costs::squared_mu(event, adjacency)? * (1.0 + 1e-9);
    // Out of range only where the cap is nothing at all, or not a finite number.
    let noise = NoiseMultiplier::new((1.0 / cap).sqrt() * (1.0 - 1e-15))
        .map_err(|_| unsupported(event, ": its squared mu is not a positive finite number"))?;
    let terms = Terms::AtMost {
        cap,
        used: 0.0,
        made: Made::default(),
        then: Vec::new(),
    };
    Ok((Event::gaussian(noise), terms))
}

/// The same for every slice by itself.
fn on_each_slice(cap: &Event, adjacency: Adjacency) -> Result<(Event, Terms), Refused> {
    let whole = |event| Event::ParallelComposed {
        events: vec![event],
    };
    if !adjacency.record_count_is_public() {
        return Err(unsupported(
            &whole(cap.clone()),
            ": one more record would shift every later slice",
        ));
    }
    let (event, terms) = at_most(cap, adjacency)?;
    let cap = match terms {
        Terms::AtMost { cap, .. } => cap,
        _ => 0.0,
    };
    let terms = Terms::OnEachSlice {
        cap,
        made: Made::default(),
        used: BTreeMap::new(),
    };
    Ok((whole(event), terms))
}

fn fixed(event: &Event, adjacency: Adjacency) -> Result<Terms, Refused> {
    let mut whole = Vec::new();
    let mut share: Option<Vec<(Event, u64, usize)>> = None;
    for (leaf, count) in event.leaves() {
        if let Event::ParallelComposed { events } = &leaf {
            if !adjacency.record_count_is_public() {
                return Err(unsupported(
                    &leaf,
                    ": one more record would shift every later slice",
                ));
            }
            if count != 1 || share.is_some() {
                return Err(unsupported(&leaf, ": slices have their shares once"));
            }
            let mut all: Vec<(Event, u64, usize)> = Vec::new();
            for (alternative, event) in events.iter().enumerate() {
                for (part, most) in event.leaves() {
                    if !made_on_slices(&part) {
                        return Err(unsupported(&part, " for a slice"));
                    }
                    if all
                        .iter()
                        .any(|(known, _, of)| *known == part && *of != alternative)
                    {
                        return Err(unsupported(
                            &leaf,
                            ": two shares have a release in common, which would not say which of them it begins",
                        ));
                    }
                    all.push((part, most, alternative));
                }
            }
            share = Some(all);
        } else if made_on_all(&leaf, adjacency) {
            whole.push((leaf, count, count));
        } else {
            return Err(unsupported(&leaf, ""));
        }
    }
    Ok(Terms::Fixed {
        whole,
        share: share.unwrap_or_default(),
        used: BTreeMap::new(),
    })
}

/// Whether the curator has a release on all records, or on a sample of them, that is this event.
fn made_on_all(leaf: &Event, adjacency: Adjacency) -> bool {
    match leaf {
        Event::Gaussian { .. }
        | Event::PrefixSums { .. }
        | Event::ExponentialMechanism { .. }
        | Event::RepeatAndSelect { .. } => true,
        Event::PoissonSampled { event, .. } | Event::RandomAllocation { event, .. } => {
            matches!(**event, Event::Gaussian { .. })
        }
        Event::SampledWithoutReplacement { event, .. } => {
            adjacency == Adjacency::ReplaceOne && matches!(**event, Event::Gaussian { .. })
        }
        Event::TruncatedSubsampledGaussian { .. } => adjacency.record_count_is_public(),
        _ => false,
    }
}

/// Whether the curator has a release on one slice that is this event.
fn made_on_slices(leaf: &Event) -> bool {
    match leaf {
        Event::Gaussian { .. } | Event::SingleEpochTreeAggregation { .. } => true,
        Event::PoissonSampled { event, .. } | Event::RandomAllocation { event, .. } => {
            matches!(**event, Event::Gaussian { .. })
        }
        _ => false,
    }
}

/// A composition; nothing when there is nothing to compose.
pub(super) fn all_of(mut events: Vec<Event>) -> Event {
    match events.len() {
        0 => Event::NoOp,
        1 => events.remove(0),
        _ => Event::composed(events),
    }
}
