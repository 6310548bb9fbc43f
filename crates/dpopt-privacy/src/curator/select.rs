//! Selections: which candidate is best, a quantile.

use zeroize::{Zeroize as _, Zeroizing};

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::lattice::Bound;
use crate::noise::{KeyedStream, Purpose};
use crate::refused::Refused;
use crate::replay::{Facts, ReplayedMechanism, ReplayedReads};
use crate::sample::Body;
use crate::selection::{
    self, BaseMeasure, QuantileBin, Rate, SelectionError, SensitiveQuantile, SensitiveScores,
    Target,
};
use crate::ticket::{self, ForChoice, Ticket};
use crate::units::Epsilon;
use crate::which::{Account, Which};

use super::Curator;

impl Curator {
    /// Selects a candidate by the exponential mechanism, drawn exactly.
    ///
    /// # Formula
    /// `P(i)` proportional to `exp(epsilon score_i / spread)`, which is
    /// `exp(epsilon score_i / (2 sensitivity))` but for monotone and lopsided scores, whose
    /// spread is smaller. The law is that of noisy max with Gumbel noise of scale `spread / epsilon`.
    ///
    /// # Privacy
    /// One [`Event::ExponentialMechanism`]: bounded range epsilon.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged then.
    ///
    /// # References
    /// McSherry and Talwar 2007; Durfee and Rogers 2019 for the range.
    pub fn exponential(
        &mut self,
        scores: &SensitiveScores,
        epsilon: Epsilon,
    ) -> Result<usize, Refused> {
        self.exponential_from(scores, None, epsilon)
    }

    /// The same with a public base measure: `P(i)` is proportional to
    /// `base_i exp(epsilon score_i / spread)`. A candidate of weight 0 is never selected.
    ///
    /// # Privacy
    /// One [`Event::ExponentialMechanism`], if the weights are public.
    ///
    /// # Errors
    /// As [`Curator::exponential`], and [`SelectionError::BaseMeasureLength`] or
    /// [`SelectionError::BaseMeasureZero`].
    pub fn exponential_with_base(
        &mut self,
        scores: &SensitiveScores,
        base: &[u64],
        epsilon: Epsilon,
    ) -> Result<usize, Refused> {
        if base.len() != scores.sums.len() {
            return Err(SelectionError::BaseMeasureLength {
                got: base.len(),
                candidates: scores.sums.len(),
            }
            .into());
        }
        if base.iter().all(|&weight| weight == 0) {
            return Err(SelectionError::BaseMeasureZero.into());
        }
        self.exponential_from(scores, Some(base), epsilon)
    }

    fn exponential_from(
        &mut self,
        scores: &SensitiveScores,
        base: Option<&[u64]>,
        epsilon: Epsilon,
    ) -> Result<usize, Refused> {
        let rate = self.rate_of(scores, epsilon)?;
        let event = Event::ExponentialMechanism { epsilon };
        let kind = ReplayedMechanism::Exponential;
        self.note(&format_args!("{base:?}"));
        self.choose(scores, epsilon, event, kind, |sums, stream| {
            selection::exponential(sums, base, rate, stream)
        })
    }

    /// Pays for a choice, draws it and, in a replay, exchanges it.
    fn choose(
        &mut self,
        scores: &SensitiveScores,
        epsilon: Epsilon,
        event: Event,
        kind: ReplayedMechanism,
        draw: impl FnOnce(&[i64], &mut KeyedStream) -> usize,
    ) -> Result<usize, Refused> {
        self.note(&format_args!("{kind:?} {:?}", scores.bound));
        let sums = ticket::whole(Zeroizing::new(scores.sums.clone()), self.together.as_ref())?;
        let mut stream = self.pay(&event)?;
        let chosen = draw(&sums, &mut stream);
        let spread = scores.bound.spread_in_steps(scores.adjacency);
        Ok(self.chosen(kind, event, epsilon, spread, &sums, chosen))
    }

    /// Grants a selection among norms of sums within `bound` over all records, each with a public
    /// shift: see [`Curator::redeem_choice`].
    ///
    /// # Privacy
    /// One [`Event::ExponentialMechanism`], charged when the ticket is redeemed.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been charged then.
    pub fn grant_choice(
        &mut self,
        body: Body,
        bound: Bound,
        epsilon: Epsilon,
    ) -> Result<Ticket<ForChoice>, Refused> {
        self.noting(|curator| {
            // Below 2^34, and rounded up.
            let spread = (2.0 * bound.norm_sensitivity_in_steps(curator.adjacency)).ceil() as u64;
            let rate = Rate::new(epsilon, spread)?;
            curator.can_draw(bound)?;
            let event = Event::ExponentialMechanism { epsilon };
            let priced = curator.price(Which::All, body, event)?;
            let together = curator.together.clone();
            curator.granted(priced, |price| ForChoice {
                event: price.event,
                bound,
                epsilon,
                spread,
                rate,
                scores: Vec::new(),
                together,
            })
        })
    }

    /// Selects one of the candidates that were added to the ticket ([`Ticket::add`]) whose shifted
    /// norm is small, by the exponential mechanism, drawn exactly.
    ///
    /// # Formula
    /// `P(i)` proportional to `exp(-epsilon norm_i / (2 sensitivity))`, with the sensitivity of
    /// one norm: the clip radius and a lattice step, twice that under replace-one.
    ///
    /// # Privacy
    /// One [`Event::ExponentialMechanism`]: bounded range epsilon. One record moves every norm by
    /// at most the sensitivity, in either direction, so the changes of two of them differ by at
    /// most twice that.
    ///
    /// # Errors
    /// [`Refused::Ticket`] for a ticket that is not good any more, [`SelectionError::NoCandidates`],
    /// and [`Refused::Ledger`]. Nothing has been released or charged then.
    pub fn redeem_choice(&mut self, ticket: Ticket<ForChoice>) -> Result<usize, Refused> {
        self.noting(|curator| {
            ticket.hold.check(curator.now())?;
            let terms = &ticket.terms;
            if terms.scores.is_empty() {
                return Err(SelectionError::NoCandidates.into());
            }
            let mut stream = curator.pay(&terms.event)?;
            let chosen = selection::exponential(&terms.scores, None, terms.rate, &mut stream);
            Ok(curator.chosen(
                ReplayedMechanism::Exponential,
                terms.event.clone(),
                terms.epsilon,
                terms.spread,
                &terms.scores,
                chosen,
            ))
        })
    }

    /// Selects the bin that holds a quantile, by the exponential mechanism on ranks, drawn exactly.
    ///
    /// # Formula
    /// With a records below, c inside and b above a bin, and the target alpha,
    /// `utility = −max(0, (1 − alpha) a − alpha (b + c), alpha b − (1 − alpha)(a + c))`, and
    /// `P(bin)` is proportional to `width exp(epsilon utility / spread)`, or without the width. The
    /// spread is 2 under replace-one and `2 max(alpha, 1 − alpha)` otherwise, where the number of
    /// records is private.
    ///
    /// # Privacy
    /// One [`Event::ExponentialMechanism`].
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged then.
    pub fn quantile(
        &mut self,
        values: &SensitiveQuantile,
        target: Target,
        base: BaseMeasure,
        epsilon: Epsilon,
    ) -> Result<QuantileBin, Refused> {
        self.same_adjacency(values.adjacency)?;
        let rate = Rate::new(epsilon, target.spread(values.adjacency))?;
        let event = Event::ExponentialMechanism { epsilon };
        // Below 2^32 in all.
        let counts: Vec<i64> = values.counts.iter().map(|&count| count as i64).collect();
        self.note(&format_args!("{target:?} {base:?} {:?}", values.bins));
        let counts = ticket::whole(Zeroizing::new(counts), self.together.as_ref())?;
        let counts: Zeroizing<Vec<u64>> =
            Zeroizing::new(counts.iter().map(|&count| count as u64).collect());
        let mut stream = self.pay(&event)?;
        let mut utilities = target.utilities(&counts);
        let widths = match base {
            BaseMeasure::Width => Some(values.bins.widths()),
            BaseMeasure::Bins => None,
        };
        let bin = selection::exponential(&utilities, widths, rate, &mut stream);
        let kind = ReplayedMechanism::Exponential;
        let spread = target.spread(values.adjacency);
        let bin = self.chosen(kind, event, epsilon, spread, &utilities, bin);
        utilities.zeroize();
        Ok(values.bins.bin(bin))
    }

    /// The choice, or in a replay that of the recorded run.
    fn chosen(
        &self,
        mechanism: ReplayedMechanism,
        charged: Event,
        epsilon: Epsilon,
        spread: u64,
        scores: &[i64],
        chosen: usize,
    ) -> usize {
        let Some(seat) = &self.replay else {
            if let Some(together) = &self.together {
                together.note(&chosen);
            }
            return chosen;
        };
        let facts = Facts {
            mechanism,
            reads: ReplayedReads::All,
            charged,
            noise_steps: spread as f64 / epsilon.get(),
            radius_steps: spread as f64,
            limit: epsilon.get(),
        };
        seat.choice(facts, scores, chosen)
    }

    /// How fast probabilities fall with these scores, if they may be read.
    fn rate_of(&self, scores: &SensitiveScores, epsilon: Epsilon) -> Result<Rate, Refused> {
        self.same_adjacency(scores.adjacency)?;
        let spread = scores.bound.spread_in_steps(scores.adjacency);
        Ok(Rate::new(epsilon, spread)?)
    }

    pub(super) fn same_adjacency(&self, sum: Adjacency) -> Result<(), Refused> {
        if sum == self.adjacency {
            Ok(())
        } else {
            Err(Refused::AdjacencyMismatch {
                sum,
                curator: self.adjacency,
            })
        }
    }

    /// Charges a release on all records and opens its stream; nothing can fail after it.
    fn pay(&mut self, event: &Event) -> Result<KeyedStream, Refused> {
        self.check(event, &Account::Whole)?;
        let stream = self.stream(Purpose::Noise)?;
        self.charge(event, &Account::Whole)?;
        Ok(stream)
    }
}
