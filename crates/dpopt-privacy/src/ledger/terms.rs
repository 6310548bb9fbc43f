//! The terms of a ledger, fixed when it is made: what may be spent, and how costs add up.

use serde::{Deserialize, Serialize};

use super::error::{Damage, LedgerError};
use crate::accounting::Accountant;
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::filter::{FilterKind, Meter};
use crate::units::{Delta, Epsilon};

/// Name of the format, in the first line.
pub(super) const FORMAT: &str = "dpopt-ledger";
/// Its version. Raise it when an older reader could take a new file for less than it says.
pub(super) const VERSION: u64 = 2;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Terms {
    format: String,
    version: u64,
    /// Random, so that ledgers of equal terms are told apart.
    id: String,
    pub(super) epsilon: Epsilon,
    pub(super) delta: Delta,
    pub(super) adjacency: Adjacency,
    pub(super) filter: FilterKind,
    /// Renyi order of the filter; only for [`FilterKind::Rdp`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    order: Option<f64>,
    /// What may be spent, in the filter's unit.
    pub(super) capacity: f64,
}

impl Terms {
    pub(super) fn new(
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        filter: FilterKind,
    ) -> Result<Self, LedgerError> {
        let too_tight = || LedgerError::TooTight {
            epsilon: epsilon.get(),
            delta: delta.get(),
        };
        let meter = Meter::new(filter, epsilon, delta)?.ok_or_else(too_tight)?;
        Ok(Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            id: String::new(),
            epsilon,
            delta,
            adjacency,
            filter,
            order: meter.order(),
            capacity: meter.capacity(),
        })
    }

    /// The same with a name of 128 random bits.
    pub(super) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.id);
        self
    }

    /// Whether these are the terms that a caller asks for; the capacity of an older version may
    /// be a little below.
    pub(super) fn are(&self, asked: &Self) -> bool {
        self.epsilon == asked.epsilon
            && self.delta == asked.delta
            && self.adjacency == asked.adjacency
            && self.filter == asked.filter
    }

    /// What a file says must not be more than epsilon and delta allow today.
    pub(super) fn check(&self) -> Result<(), Damage> {
        let allowed = Meter::new(self.filter, self.epsilon, self.delta)
            .ok()
            .flatten();
        let order = allowed.and_then(|meter| meter.order());
        let allowed = allowed.map_or(0.0, |meter| meter.capacity());
        if self.capacity <= allowed * (1.0 + 1e-9) && self.order == order {
            Ok(())
        } else {
            Err(Damage::Capacity {
                capacity: self.capacity,
                allowed,
            })
        }
    }

    /// Cost of an event in the filter's unit, rounded up.
    pub(super) fn cost(&self, event: &Event) -> Result<f64, LedgerError> {
        let cost = self.meter().cost(event, self.adjacency);
        cost.map_err(|source| LedgerError::OtherFilter {
            filter: self.filter,
            others: FilterKind::ALL
                .into_iter()
                .filter(|kind| kind.accounts(event, self.adjacency))
                .collect(),
            source: Box::new(source),
        })
    }

    /// Whether `cost` fits beside what is used.
    pub(super) fn pay(&self, used: f64, cost: f64) -> Result<(), LedgerError> {
        let meter = self.meter();
        if meter.fits(used, cost) {
            return Ok(());
        }
        let left = self.capacity - used;
        Err(LedgerError::Exhausted {
            cost,
            left: left.max(0.0),
            capacity: self.capacity,
            unit: meter.unit(),
            epsilon_left: self.epsilon_of(left),
        })
    }

    pub(super) fn epsilon_of(&self, left: f64) -> f64 {
        self.meter().epsilon_of(left, self.delta)
    }

    /// The epsilon, at the ledger's delta, of releases that cost `cost` together, as the measure
    /// states it: what a budget of this cost would have been called. 0 for no cost.
    pub(super) fn epsilon_spent(&self, cost: f64) -> f64 {
        self.meter().epsilon_spent(cost, self.delta)
    }

    /// The same of one run, where its releases may be known to be less: the Renyi measure at one
    /// order says little about costs far below its capacity.
    pub(super) fn epsilon_alone(&self, cost: f64, releases: &Event) -> f64 {
        let spent = self.epsilon_spent(cost);
        if self.filter != FilterKind::Rdp || spent == 0.0 {
            return spent;
        }
        let alone = Accountant::Rdp.epsilon(releases, self.delta, self.adjacency);
        alone.map_or(spent, |alone| alone.min(spent))
    }

    pub(super) fn unit(&self) -> &'static str {
        self.meter().unit()
    }

    /// The measure with the capacity of the file, which may be a little below today's.
    fn meter(&self) -> Meter {
        Meter::fixed(self.filter, self.order, self.capacity)
    }
}
