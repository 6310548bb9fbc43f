//! Repeat-and-select: the best of a secret number of private runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::adjacency::Adjacency;
use crate::event::Event;
use crate::noise::digits::BitSource as _;
use crate::noise::{KeyedStream, Purpose};
use crate::part::Part;
use crate::refused::Refused;
use crate::selection::{Best, Repetitions, Tuning};
use crate::which::Account;

use super::inner::Inner;
use super::reservation::Reservation;
use super::{Curator, Spend};

/// The best of several runs, each of which trains one of several candidates on one part of a table and scores the result on the other.
///
/// # Formula
/// [`Event::RepeatAndSelect`] of an [`Event::ParallelComposed`] of what each candidate spends and of what a score does.
///
/// # Privacy
/// A record is in one part, and a run trains one candidate, which it says: so at every order, and at every epsilon, a run costs a record
/// at most the dearest of these (`docs/privacy/selection.md`).
#[derive(Debug, Clone, PartialEq)]
pub struct TuningInParts {
    tuning: Tuning,
    adjacency: Adjacency,
    /// What is trained on, and what is scored on.
    parts: [Part; 2],
    trained: Vec<Spend>,
    scored: Spend,
}

impl TuningInParts {
    /// Of candidates that spend this each on the first part, and a score that spends that on the second. The mean and the shape of the
    /// number of runs are those of [`Tuning::new`].
    ///
    /// # Errors
    /// [`Refused::UnsupportedSpend`] under an adjacency that hides the number of records, of which one more would move others to the
    /// other part; for no candidate; and for a selection, which does not tell which part it is of. [`Refused::OtherPart`] for parts that
    /// are not those of one split. [`Refused::Selection`] as [`Tuning::new`].
    pub fn new(
        adjacency: Adjacency,
        parts: [Part; 2],
        (trained, scored): (Vec<Spend>, Spend),
        (mean, shape): (f64, f64),
    ) -> Result<Self, Refused> {
        let [train, score] = parts;
        if !train.completes(score) {
            return Err(Refused::OtherPart {
                own: train,
                found: Some(score),
            });
        }
        let mut events: Vec<Event> = Vec::new();
        for spend in trained.iter().chain([&scored]) {
            let event = Reservation::new(spend, adjacency)?.event;
            let leaves = event.leaves();
            if let Some((leaf, _)) = leaves.into_iter().find(|(leaf, _)| selects(leaf)) {
                return Err(Refused::UnsupportedSpend {
                    event: leaf,
                    why: " in an inner run on a part: it does not tell which records it reads",
                });
            }
            if !events.contains(&event) {
                events.push(event);
            }
        }
        let event = Event::ParallelComposed { events };
        let why = match (adjacency.record_count_is_public(), trained.is_empty()) {
            (false, _) => ": one more record would move others to the other part",
            (_, true) => ": there is no candidate",
            _ => {
                let tuning = Tuning::new(event, mean, shape)?;
                return Ok(Self {
                    tuning,
                    adjacency,
                    parts,
                    trained,
                    scored,
                });
            }
        };
        Err(Refused::UnsupportedSpend { event, why })
    }

    /// What to reserve.
    #[must_use]
    pub fn event(&self) -> Event {
        self.tuning.event()
    }

    /// The mean number of runs: what to report. The number itself is secret.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.tuning.mean()
    }
}

/// Whether it is a selection.
fn selects(leaf: &Event) -> bool {
    matches!(
        leaf,
        Event::ExponentialMechanism { .. } | Event::RepeatAndSelect { .. }
    )
}

/// One inner run: its candidate, and a curator for each part, which makes one reservation: what the tuning names for it.
pub struct InnerRun {
    /// The number of the candidate, in the order of the tuning: each is as likely.
    pub candidate: usize,
    /// Of the part that is trained on.
    pub train: Curator,
    /// Of the part that is scored on.
    pub score: Curator,
}

impl Curator {
    /// Makes a private run a random number of times and returns the best outcome.
    ///
    /// `run` makes **one** run: it gets a curator of its own, whose reservation is the tuning's
    /// event for one run and which makes no other, and returns a value and its score; both must
    /// be functions of releases of that curator and of public values, such as hyper-parameters
    /// that it draws at random. The larger score wins, the earlier run at a tie; a score that is
    /// not a number loses to all others. A run that fails should return that as its value, with a
    /// low score: nothing else may end the repetitions early.
    ///
    /// # Shapes
    /// Nothing where the number of runs was zero, which only a Poisson number can be.
    ///
    /// # Privacy
    /// One [`crate::Event::RepeatAndSelect`] (Papernot and Steinke 2022, Theorems 2 and 6), charged before
    /// the first run. The inner runs are not charged beside it. How many there were is secret:
    /// report the tuning's mean. An inner run states no guarantee. What `run` writes anywhere but into its result is outside the
    /// guarantee.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged, and `run` not been called, then.
    pub fn repeat_and_select<T>(
        &mut self,
        tuning: &Tuning,
        run: impl Fn(&mut Curator) -> (T, f64),
    ) -> Result<Option<Best<T>>, Refused> {
        let spend = Spend::Fixed(tuning.run().clone());
        // The same terms for every run: if they can be reserved once, they always can.
        Reservation::new(&spend, self.adjacency)?;
        self.best_of(tuning, |outer, stream, over| {
            let mut inner = outer.inner_run(stream, vec![spend.clone()], None, over);
            inner.reserve(&spend)?;
            Ok(run(&mut inner))
        })
    }

    /// As [`Curator::repeat_and_select`], of runs that train on one part of a table and score on the other. Each has a candidate, drawn
    /// uniformly, whose spend it reserves with the first of its curators, as a solver does, and scores with the second.
    ///
    /// # Privacy
    /// As there. The curators refuse releases of records that are not of their part ([`Refused::OtherPart`]), and reservations that the
    /// tuning does not name ([`Refused::InnerRun`]); kept beyond its run, a curator releases nothing. There is one reservation, the outer
    /// one; what an inner run reserves, releases and settles is in no ledger.
    ///
    /// # Errors
    /// As there.
    pub fn repeat_and_select_in_parts<T>(
        &mut self,
        tuning: &TuningInParts,
        run: impl Fn(InnerRun) -> (T, f64),
    ) -> Result<Option<Best<T>>, Refused> {
        self.same_adjacency(tuning.adjacency)?;
        let [train, score] = tuning.parts;
        self.best_of(&tuning.tuning, |outer, stream, over| {
            let candidate = stream.below(tuning.trained.len() as u64) as usize;
            let trained = tuning.trained.get(candidate).cloned();
            let trained = trained.into_iter().collect();
            Ok(run(InnerRun {
                candidate,
                train: outer.inner_run(stream, trained, Some(train), over),
                score: outer.inner_run(stream, vec![tuning.scored.clone()], Some(score), over),
            }))
        })
    }

    fn best_of<T>(
        &mut self,
        tuning: &Tuning,
        run: impl Fn(&Self, &mut KeyedStream, &Arc<AtomicBool>) -> Result<(T, f64), Refused>,
    ) -> Result<Option<Best<T>>, Refused> {
        match self.together.clone() {
            Some(together) => together.uncounted(|| self.best_of_any(tuning, run)),
            None => self.best_of_any(tuning, run),
        }
    }

    fn best_of_any<T>(
        &mut self,
        tuning: &Tuning,
        run: impl Fn(&Self, &mut KeyedStream, &Arc<AtomicBool>) -> Result<(T, f64), Refused>,
    ) -> Result<Option<Best<T>>, Refused> {
        let event = tuning.event();
        self.check(&event, &Account::Whole)?;
        let repetitions = Repetitions::new(tuning);
        let mut stream = self.stream(Purpose::Noise)?;
        self.charge(&event, &Account::Whole)?;
        let mut best: Option<Best<T>> = None;
        for _ in 0..repetitions.draw(&mut stream) {
            let over = Arc::new(AtomicBool::new(false));
            let outcome = run(self, &mut stream, &over);
            over.store(true, Ordering::Release);
            let (value, score) = outcome?;
            let score = if score.is_nan() {
                f64::NEG_INFINITY
            } else {
                score
            };
            if best.as_ref().is_none_or(|best| score > best.score) {
                best = Some(Best { value, score });
            }
        }
        Ok(best)
    }

    /// A curator with a key of its own, and no ledger.
    fn inner_run(
        &self,
        stream: &mut KeyedStream,
        may_reserve: Vec<Spend>,
        part: Option<Part>,
        over: &Arc<AtomicBool>,
    ) -> Self {
        let mut inner = Self::with_key(self.adjacency, self.mode, self.key.derive(stream));
        inner.inner = Some(Inner {
            may_reserve,
            part,
            over: Arc::clone(over),
        });
        inner.threads = self.threads.clone();
        inner.replay.clone_from(&self.replay);
        inner.together.clone_from(&self.together);
        inner
    }
}
