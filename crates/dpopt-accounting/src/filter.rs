//! Adaptive budgets in memory: a filter, which refuses the release that would pass the budget,
//! and an odometer, which says at any time what was spent.
//!
//! Both are for releases whose kind, noise and number are chosen **after** seeing earlier ones.
//! What may be chosen is the next event, as a function of everything released so far; the chosen
//! event must then truly describe the release. `docs/privacy/adaptive.md` has the proofs that
//! are ours, and says why privacy-loss distributions have neither a filter nor an odometer.
//!
//! | | measure | theorem |
//! | --- | --- | --- |
//! | filter | squared mu of Gaussians | Smith and Thakurta 2022 |
//! | filter | rho of zCDP | Whitehouse, Ramdas, Rogers and Wu 2023 |
//! | filter | Renyi divergence at one order | Feldman and Zrnic 2021 |
//! | filter | Renyi divergences at several orders | the same per order at delta over their number |
//! | odometer | Renyi divergences at several orders | Ville's inequality for their mixture |
//!
//! ```
//! use dpopt_accounting::filter::{Filter, Odometer};
//! use dpopt_accounting::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier};
//! let (epsilon, delta) = (Epsilon::new(1.0)?, Delta::new(1e-5)?);
//! let mut filter = Filter::gdp(epsilon, delta, Adjacency::AddRemove)?;
//! let mut odometer = Odometer::new(Adjacency::AddRemove);
//! let release = Event::gaussian(NoiseMultiplier::new(20.0)?);
//! let mut made = 0;
//! while filter.try_spend(&release, Adjacency::AddRemove).is_ok() {
//!     odometer.spend(&release, Adjacency::AddRemove)?; // then release
//!     made += 1;
//! }
//! assert_eq!(made, 28);
//! assert!(odometer.epsilon(delta) < 1.7);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::accounting::special::log_add_exp;
use crate::accounting::{AccountingError, costs, gdp, zcdp};
use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::units::{Delta, Epsilon, Mu, Rho};

/// The measure in which the releases of an adaptive budget add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FilterKind {
    /// Sum of squared Gaussian-DP parameters: exact for Gaussian releases on all records.
    Gdp,
    /// Sum of zCDP parameters.
    Zcdp,
    /// Sum of Renyi divergences, by default at the order 1 + 2 ln(1/delta)/epsilon; takes
    /// Poisson-sampled releases too.
    Rdp,
}

impl FilterKind {
    /// All of them, from the one in which Gaussian releases on all records cost the least.
    pub const ALL: [Self; 3] = [Self::Gdp, Self::Zcdp, Self::Rdp];

    /// Which releases it has a cost for, and which it refuses, in words.
    #[must_use]
    pub fn scope(self) -> &'static str {
        match self {
            Self::Gdp => {
                "it takes Gaussian noise on all records or on slices of them, and refuses samples and selections"
            }
            Self::Zcdp => {
                "it takes Gaussian noise and selections on all records or on slices of them, and refuses samples"
            }
            Self::Rdp => {
                "it takes Gaussian noise, selections, Poisson samples and samples of a fixed size, and refuses allocations and truncated batches"
            }
        }
    }

    /// The epsilon of the largest run of Gaussian noise on all records that such a budget pays, by the tight accountant; 0 where it pays none.
    ///
    /// # Errors
    /// [`AccountingError`] where the terms can't be accounted.
    pub fn largest_run(self, epsilon: Epsilon, delta: Delta) -> Result<f64, AccountingError> {
        let meter = Meter::new(self, epsilon, delta)?;
        Ok(meter.map_or(0.0, |meter| meter.epsilon_of(meter.capacity(), delta)))
    }

    /// Whether it has a cost for `event`.
    #[must_use]
    pub fn accounts(self, event: &Event, adjacency: Adjacency) -> bool {
        let meter = Meter::fixed(self, None, f64::INFINITY);
        meter.cost(event, adjacency).is_ok()
    }
}

impl std::fmt::Display for FilterKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FilterKind::Gdp => "gdp",
            FilterKind::Zcdp => "zcdp",
            FilterKind::Rdp => "rdp",
        })
    }
}

/// A filter refused: the release must not be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Exhausted {
    /// The release costs more than is left. Nothing was charged.
    #[error(
        "the budget can't pay: the release costs {cost:.6} and {left:.6} of {capacity:.6} are left ({unit})"
    )]
    Spent {
        /// Cost of the release in the filter's unit; at the order that has most left relative to
        /// its cost, where there are several.
        cost: f64,
        /// What is left in that unit.
        left: f64,
        /// The whole budget in that unit.
        capacity: f64,
        /// The unit: squared mu, rho, or Renyi divergence.
        unit: &'static str,
    },
    /// The release is stated under another adjacency than the budget.
    #[error("a budget for {budget} adjacency can't pay for a release under {release} adjacency")]
    AdjacencyMismatch {
        /// Adjacency of the budget.
        budget: Adjacency,
        /// Adjacency of the release.
        release: Adjacency,
    },
    /// epsilon is too small at every order: there would be nothing to spend.
    #[error("epsilon {epsilon} at delta {delta} leaves nothing to spend in a Renyi filter")]
    TooTight {
        /// The epsilon.
        epsilon: f64,
        /// The delta.
        delta: f64,
    },
    /// No order was given.
    #[error("a Renyi filter needs at least one order")]
    NoOrders,
    /// The event can't be accounted in the filter's measure.
    #[error("this budget can't account the release: {0}")]
    Accounting(#[from] AccountingError),
}

/// A measure and what may be spent in it.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Meter {
    kind: FilterKind,
    /// Renyi order; ignored by the other measures.
    order: f64,
    capacity: f64,
}

impl Meter {
    /// The largest sum of costs that certainly is (epsilon, delta)-DP, rounded down. The Renyi
    /// measure is at its default order. `None` when nothing is left to spend.
    pub fn new(
        kind: FilterKind,
        epsilon: Epsilon,
        delta: Delta,
    ) -> Result<Option<Self>, AccountingError> {
        let (order, capacity) = match kind {
            FilterKind::Gdp => {
                let mu = gdp::mu_for(epsilon, delta)?.get();
                (2.0, (mu * mu).next_down())
            }
            FilterKind::Zcdp => (2.0, zcdp::rho_for(epsilon, delta)?.get()),
            FilterKind::Rdp => {
                let order = 1.0 + 2.0 * (-delta.get().ln()) / epsilon.get();
                return Self::renyi(epsilon, delta, order);
            }
        };
        Ok(Some(Self {
            kind,
            order,
            capacity,
        }))
    }

    /// The Renyi measure at one order.
    pub fn renyi(
        epsilon: Epsilon,
        delta: Delta,
        order: f64,
    ) -> Result<Option<Self>, AccountingError> {
        if !(order.is_finite() && order > 1.0) {
            return Err(AccountingError::InvalidOrder { order });
        }
        let capacity = renyi_capacity(epsilon.get(), order, delta.get()) * (1.0 - 1e-12);
        Ok((capacity > 0.0).then_some(Self {
            kind: FilterKind::Rdp,
            order,
            capacity,
        }))
    }

    /// A measure with a capacity that was fixed earlier.
    pub fn fixed(kind: FilterKind, order: Option<f64>, capacity: f64) -> Self {
        Self {
            kind,
            order: order.unwrap_or(2.0),
            capacity,
        }
    }

    /// The largest sum of costs that is admitted.
    pub fn capacity(&self) -> f64 {
        self.capacity
    }

    /// The Renyi order, where there is one.
    pub fn order(&self) -> Option<f64> {
        (self.kind == FilterKind::Rdp).then_some(self.order)
    }

    /// Cost of an event in the measure's unit, rounded up; 0 when nothing was released.
    pub fn cost(&self, event: &Event, adjacency: Adjacency) -> Result<f64, AccountingError> {
        if event.release_count() == 0 {
            return Ok(0.0);
        }
        let cost = match self.kind {
            FilterKind::Gdp => costs::squared_mu(event, adjacency)?,
            FilterKind::Zcdp => costs::rho(event, adjacency)?,
            FilterKind::Rdp => costs::renyi(event, self.order, adjacency)?,
        };
        Ok(cost * (1.0 + 1e-12))
    }

    /// Whether `cost` fits beside what is used. A cost that is not a number does not.
    pub fn fits(&self, used: f64, cost: f64) -> bool {
        used + cost <= self.capacity
    }

    /// What a cost is a number of.
    pub fn unit(&self) -> &'static str {
        match self.kind {
            FilterKind::Gdp => "squared mu",
            FilterKind::Zcdp => "rho",
            FilterKind::Rdp => "Renyi divergence",
        }
    }

    /// The epsilon at `delta` of releases of this cost together, whatever they are: what the
    /// measure converts it to. 0 when the cost is not positive.
    pub fn epsilon_spent(&self, cost: f64, delta: Delta) -> f64 {
        if !(cost > 0.0) {
            return 0.0;
        }
        match self.kind {
            FilterKind::Gdp => self.epsilon_of(cost, delta),
            FilterKind::Zcdp => {
                Rho::new(cost).map_or(f64::INFINITY, |rho| zcdp::epsilon(rho, delta))
            }
            FilterKind::Rdp => renyi_epsilon(cost, self.order, delta.get()),
        }
    }

    /// The epsilon at `delta` of a run of Gaussians on all records that costs `cost`, by the
    /// tight accountant, whatever the measure; 0 when the cost is not positive.
    pub fn epsilon_of(&self, cost: f64, delta: Delta) -> f64 {
        if !(cost > 0.0) {
            return 0.0;
        }
        let squared_mu = match self.kind {
            FilterKind::Gdp => cost,
            FilterKind::Zcdp => 2.0 * cost,
            FilterKind::Rdp => 2.0 * cost / self.order,
        };
        Mu::new(squared_mu.sqrt()).map_or(0.0, |mu| gdp::epsilon(mu, delta))
    }
}

/// The epsilon to which a divergence of `cost` at `order` converts at delta; the inverse of
/// [`renyi_capacity`], rounded up.
fn renyi_epsilon(cost: f64, order: f64, delta: f64) -> f64 {
    let gain = -(-1.0 / order).ln_1p();
    let loss = (delta.ln() + order.ln()) / (order - 1.0);
    let size = cost + gain + (order.ln() - delta.ln()) / (order - 1.0);
    (cost - gain - loss + 1e-14 * size).max(0.0)
}

/// The Renyi divergence at `order` that converts to epsilon at delta: the conversion of Canonne,
/// Kamath and Steinke (2020), Proposition 12, solved for the divergence and rounded down (the
/// terms cancel where epsilon is small); may be negative.
fn renyi_capacity(epsilon: f64, order: f64, delta: f64) -> f64 {
    let gain = -(-1.0 / order).ln_1p();
    let loss = (delta.ln() + order.ln()) / (order - 1.0);
    let size = epsilon + gain + (order.ln() - delta.ln()) / (order - 1.0);
    epsilon + gain + loss - 1e-14 * size
}

/// A privacy filter: admits releases as long as all of them together stay (epsilon, delta)-DP,
/// whatever the rule by which they are chosen.
///
/// Ask **before** each release and make it only if the filter said yes: a charge is final, and
/// stands also when the release then fails. For a budget on disk that outlives a crash and is
/// shared by processes, see the `Ledger` of `dpopt-privacy`.
#[derive(Debug, Clone, PartialEq)]
pub struct Filter {
    adjacency: Adjacency,
    meters: Vec<Meter>,
    used: Vec<f64>,
}

impl Filter {
    /// A filter on the sum of squared mu of Gaussian releases.
    ///
    /// Smith and Thakurta 2022 ("Fully adaptive composition for Gaussian differential privacy"):
    /// adaptively chosen Gaussian mechanisms whose sum of squares stays at or below mu^2 in
    /// every transcript are mu-GDP. Nothing is lost against a schedule fixed beforehand.
    ///
    /// # Errors
    /// [`Exhausted::Accounting`] when no mu in the range of `f64` meets the target.
    pub fn gdp(epsilon: Epsilon, delta: Delta, adjacency: Adjacency) -> Result<Self, Exhausted> {
        Self::of_kind(FilterKind::Gdp, epsilon, delta, adjacency)
    }

    /// A filter on the sum of zCDP parameters.
    ///
    /// Whitehouse, Ramdas, Rogers and Wu 2023 ("Fully-adaptive composition in differential
    /// privacy"), and Feldman and Zrnic 2021 at every order.
    ///
    /// # Errors
    /// As [`Filter::gdp`].
    pub fn zcdp(epsilon: Epsilon, delta: Delta, adjacency: Adjacency) -> Result<Self, Exhausted> {
        Self::of_kind(FilterKind::Zcdp, epsilon, delta, adjacency)
    }

    /// A filter on the sum of Renyi divergences at the order `1 + 2 ln(1/delta)/epsilon`, which
    /// is near the best for many equal Gaussians. Takes Poisson-sampled releases, for which a
    /// lower order is often better: [`Filter::renyi_orders`] with one order has no other cost.
    ///
    /// Feldman and Zrnic 2021 ("Individual privacy accounting via a Renyi filter").
    ///
    /// # Errors
    /// [`Exhausted::TooTight`] when nothing could be spent.
    pub fn renyi(epsilon: Epsilon, delta: Delta, adjacency: Adjacency) -> Result<Self, Exhausted> {
        Self::of_kind(FilterKind::Rdp, epsilon, delta, adjacency)
    }

    /// A filter on Renyi divergences at several orders, fixed here: it admits a release while at
    /// least one order can pay.
    ///
    /// Which order is the last to pay may depend on the releases, so one order's theorem is not
    /// enough. Each order has a filter of its own for (epsilon, delta / number of orders); the
    /// transcripts are split by the first order that still pays at their end, and the deltas add.
    /// The proof is in `docs/privacy/adaptive.md`. Orders at which nothing could be spent are
    /// left out (and counted).
    ///
    /// # Errors
    /// [`Exhausted::NoOrders`], [`Exhausted::TooTight`], or an order that is not above 1.
    pub fn renyi_orders(
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
        orders: &[f64],
    ) -> Result<Self, Exhausted> {
        if orders.is_empty() {
            return Err(Exhausted::NoOrders);
        }
        let share = (delta.get() / orders.len() as f64).next_down();
        let too_tight = Exhausted::TooTight {
            epsilon: epsilon.get(),
            delta: delta.get(),
        };
        let share = Delta::new(share).map_err(|_| too_tight.clone())?;
        let mut meters = Vec::with_capacity(orders.len());
        for order in orders {
            meters.extend(Meter::renyi(epsilon, share, *order)?);
        }
        if meters.is_empty() {
            return Err(too_tight);
        }
        Ok(Self::new(meters, adjacency))
    }

    fn of_kind(
        kind: FilterKind,
        epsilon: Epsilon,
        delta: Delta,
        adjacency: Adjacency,
    ) -> Result<Self, Exhausted> {
        match Meter::new(kind, epsilon, delta)? {
            Some(meter) => Ok(Self::new(vec![meter], adjacency)),
            None => Err(Exhausted::TooTight {
                epsilon: epsilon.get(),
                delta: delta.get(),
            }),
        }
    }

    fn new(meters: Vec<Meter>, adjacency: Adjacency) -> Self {
        let used = vec![0.0; meters.len()];
        Self {
            adjacency,
            meters,
            used,
        }
    }

    /// Charges `event` if the budget can pay for it. On `Ok` the release may be made; on an error
    /// nothing was charged and it must not be.
    ///
    /// # Errors
    /// [`Exhausted::Spent`], [`Exhausted::AdjacencyMismatch`], or [`Exhausted::Accounting`] for
    /// an event that the filter's measure has no theorem for. A smaller release may still fit.
    pub fn try_spend(&mut self, event: &Event, adjacency: Adjacency) -> Result<(), Exhausted> {
        if adjacency != self.adjacency {
            return Err(Exhausted::AdjacencyMismatch {
                budget: self.adjacency,
                release: adjacency,
            });
        }
        let costs = self
            .meters
            .iter()
            .map(|meter| meter.cost(event, adjacency))
            .collect::<Result<Vec<_>, _>>()?;
        let sums: Vec<f64> = self
            .used
            .iter()
            .zip(&costs)
            .map(|(u, c)| add(*u, *c))
            .collect();
        let pays = |(meter, sum): (&Meter, &f64)| meter.fits(*sum, 0.0);
        if self.meters.iter().zip(&sums).any(pays) {
            self.used = sums;
            return Ok(());
        }
        let closest = (0..self.meters.len()).max_by(|a, b| {
            let room = |i: usize| (self.meters[i].capacity - self.used[i]) / costs[i];
            room(*a).total_cmp(&room(*b))
        });
        let at = closest.unwrap_or_default();
        Err(Exhausted::Spent {
            cost: costs[at],
            left: (self.meters[at].capacity - self.used[at]).max(0.0),
            capacity: self.meters[at].capacity,
            unit: self.meters[at].unit(),
        })
    }

    /// The part of the budget that was spent, between 0 and 1; of the order that has most left,
    /// where there are several.
    #[must_use]
    pub fn spent(&self) -> f64 {
        let parts = self.meters.iter().zip(&self.used);
        parts
            .map(|(meter, used)| used / meter.capacity)
            .fold(1.0, f64::min)
    }

    /// The neighbouring relation under which the budget is stated.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }
}

/// A sum of costs, rounded up.
fn add(used: f64, cost: f64) -> f64 {
    if cost == 0.0 {
        used
    } else {
        (used + cost).next_up()
    }
}

/// A privacy odometer: what was spent so far, at any time, whatever the rule by which releases
/// are chosen and by which they end.
///
/// Let L be the privacy loss of everything released so far, the logarithm of its likelihood
/// ratio between two neighbouring inputs, and U the reading [`Odometer::epsilon`] at a delta that
/// was fixed beforehand. Then for either of the two inputs
///
/// `P(at some time L > U) <= delta`.
///
/// (While a session of above-threshold is open, what holds is that the transcripts which end with a
/// reading of at most epsilon are (epsilon, delta)-DP.)
///
/// So a reading may be quoted when the run ends, although the end was chosen by looking at the
/// releases. It is a statement about one delta; quoting whichever of several deltas looks best
/// needs their sum. The price against an epsilon for a schedule that was fixed beforehand is some
/// ten or twenty per cent.
///
/// Why: if each release, given those before, has a Renyi divergence of at most `d` at order a,
/// then `exp((a-1) (L - sum d))` is a nonnegative supermartingale that starts at 1 (this is the
/// step of Feldman and Zrnic 2021, and of Whitehouse et al. 2023, Section 5), and so is its mean
/// over a fixed set of orders. By Ville's inequality that mean ever exceeds 1/delta
/// with probability at most delta; U is where it reaches 1/delta.
#[derive(Debug, Clone, PartialEq)]
pub struct Odometer {
    adjacency: Adjacency,
    orders: Vec<f64>,
    spent: Vec<f64>,
}

/// Orders of [`Odometer::new`]: `1 + 2^(k/2)` for these k.
const ORDER_RANGE: std::ops::RangeInclusive<i32> = -8..=24;

impl Odometer {
    /// An odometer with the orders `1 + 2^(k/2)`, k from -8 to 24.
    #[must_use]
    pub fn new(adjacency: Adjacency) -> Self {
        let order = |k: i32| 1.0 + (0.5 * f64::from(k)).exp2();
        let orders: Vec<f64> = ORDER_RANGE.map(order).collect();
        Self {
            adjacency,
            spent: vec![0.0; orders.len()],
            orders,
        }
    }

    /// An odometer with orders of one's own, fixed before the first release. Few good ones read
    /// lower than many.
    ///
    /// # Errors
    /// [`Exhausted::NoOrders`], or an order that is not above 1.
    pub fn with_orders(adjacency: Adjacency, orders: &[f64]) -> Result<Self, Exhausted> {
        if orders.is_empty() {
            return Err(Exhausted::NoOrders);
        }
        if let Some(bad) = orders.iter().find(|o| !(o.is_finite() && **o > 1.0)) {
            return Err(AccountingError::InvalidOrder { order: *bad }.into());
        }
        Ok(Self {
            adjacency,
            orders: orders.to_vec(),
            spent: vec![0.0; orders.len()],
        })
    }

    /// Adds a release. Takes Gaussians and Poisson-sampled Gaussians in any composition.
    ///
    /// # Errors
    /// [`Exhausted::AdjacencyMismatch`] or [`Exhausted::Accounting`]; nothing was added.
    pub fn spend(&mut self, event: &Event, adjacency: Adjacency) -> Result<(), Exhausted> {
        if adjacency != self.adjacency {
            return Err(Exhausted::AdjacencyMismatch {
                budget: self.adjacency,
                release: adjacency,
            });
        }
        let costs = self
            .orders
            .iter()
            .map(|order| costs::renyi(event, *order, adjacency))
            .collect::<Result<Vec<_>, _>>()?;
        for (spent, cost) in self.spent.iter_mut().zip(costs) {
            // An order at which the cost overflows is lost; the others stay.
            let sum = add(*spent, cost);
            *spent = if sum.is_nan() { f64::INFINITY } else { sum };
        }
        Ok(())
    }

    /// The reading at `delta`, rounded up: with probability at least `1 - delta` the privacy loss
    /// never exceeds the reading of its time. 0 while nothing was released; infinite when every
    /// order overflowed.
    #[must_use]
    pub fn epsilon(&self, delta: Delta) -> f64 {
        if self.spent.iter().all(|spent| *spent == 0.0) {
            return 0.0;
        }
        // log of the mean over the orders of exp((a-1) (u - spent)), which grows with u.
        let target = (self.orders.len() as f64).ln() - delta.get().ln();
        let excess = |u: f64| {
            let term = |(order, spent): (&f64, &f64)| (order - 1.0) * (u - spent);
            let terms = self.orders.iter().zip(&self.spent).map(term);
            terms.fold(f64::NEG_INFINITY, log_add_exp) - target
        };
        // Every order alone bounds the root from above.
        let alone = |(order, spent): (&f64, &f64)| spent + target / (order - 1.0);
        let bounds = self.orders.iter().zip(&self.spent).map(alone);
        let mut high = bounds.fold(f64::INFINITY, f64::min);
        if !high.is_finite() {
            return f64::INFINITY;
        }
        high *= 1.0 + 1e-12;
        let mut low = 0.0;
        while high - low > 1e-13 * high {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                break;
            }
            // A margin for the rounding of the terms, whose size is that of the products.
            if excess(middle) > 1e-12 * (1.0 + target) {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }

    /// The neighbouring relation of the releases.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }
}

#[cfg(test)]
mod tests;
