//! The curator: the only reader of sensitive values.
//!
//! A run reserves what its plan will spend, then releases. Each release adds exact rounded
//! Gaussian noise to an exact sum, derives its own event and takes it off the reservation; what
//! was not reserved is refused before any noise is drawn.

use crate::adjacency::Adjacency;
use crate::budget::{BudgetError, BudgetFile, ReservationId};
use crate::event::Event;
use crate::guarantee::{Guarantee, Mode};
use crate::lattice::{Access, LatticeError, MAX_RECORDS, Sensitive, Vector};
use crate::noise::{Key, NoiseError, Purpose, ReplayKeyForTests, RoundedGaussian, StreamIds};
use crate::sample::PoissonSample;
use crate::units::{Delta, NoiseMultiplier, SamplingRate};

/// What a run may spend.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Spend {
    /// Exactly these releases, or a part of them: the multipliers, rates and counts are fixed
    /// before any record is read. What is released may still depend on earlier releases.
    Fixed(Event),
}

impl Spend {
    /// The releases as one event.
    #[must_use]
    pub fn event(&self) -> &Event {
        match self {
            Spend::Fixed(event) => event,
        }
    }
}

/// A release, a reservation or a guarantee was refused. Nothing was released and nothing charged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The release is not part of what was reserved, or that part is used up.
    #[error("the release {event} is not covered by what is left of the reservation")]
    NotReserved {
        /// The event that the release would have caused.
        event: Event,
    },
    /// A second reservation was attempted while one is open.
    #[error("a reservation is already open; settle it before making another")]
    AlreadyReserved,
    /// The reservation contains something other than (sampled) Gaussian releases.
    #[error(
        "this curator only makes Gaussian releases, on all records or on a Poisson sample, and can't reserve {event}"
    )]
    UnsupportedSpend {
        /// The event that can't be made.
        event: Event,
    },
    /// The sum was computed under another adjacency than the curator's.
    #[error("a sum under {sum} adjacency can't be released by a curator of {curator} adjacency")]
    AdjacencyMismatch {
        /// Adjacency of the sum.
        sum: Adjacency,
        /// Adjacency of the curator.
        curator: Adjacency,
    },
    /// The sample's sum was released before; one sample is one event.
    #[error("this Poisson sample was already used for a release")]
    SampleUsed,
    /// The sample does not come from this curator, or is not the last one drawn.
    #[error("the Poisson sample was not drawn by this curator")]
    ForeignSample,
    /// The noise does not fit the lattice.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// The noise can't be drawn.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// The shared budget can't pay.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A guarantee was asked for that can't be stated.
    #[error("no guarantee: {0}")]
    NoGuarantee(&'static str),
    /// The accountant refused the event.
    #[error(transparent)]
    Accounting(#[from] crate::accounting::AccountingError),
}

static NEXT_SAMPLE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

struct Reservation {
    event: Event,
    left: Vec<(Event, u64)>,
    in_budget: Option<ReservationId>,
}

/// Holds the key, the ledger of the run and, if there is one, the shared budget.
///
/// # Privacy
/// The sequence reserve, release..., settle is charged as follows. The reservation is written to
/// the shared budget, and synced, before the first release. A release is matched against the
/// reservation by its derived event: (records touched, noise multiplier). Its noise has standard
/// deviation at least noise multiplier x sensitivity, rounded up.
pub struct Curator {
    adjacency: Adjacency,
    mode: Mode,
    key: Key,
    streams: StreamIds,
    budget: Option<BudgetFile>,
    reservation: Option<Reservation>,
    reserved: Vec<Event>,
    spent: Vec<(Event, u64)>,
    /// Whether a reservation was made after a release, so that its terms may depend on it.
    adaptive: bool,
    last_sample: Option<(u64, bool)>,
}

impl Curator {
    /// A curator for a protected run, keyed by the operating system.
    ///
    /// # Errors
    /// [`Refused::Noise`] when the operating system has no random bytes.
    pub fn protected(adjacency: Adjacency) -> Result<Self, Refused> {
        Ok(Self::with_key(adjacency, Mode::Protected, Key::from_os()?))
    }

    /// A curator whose noise anybody can repeat from `seed`. The mechanism is the same; it gives
    /// no guarantee.
    #[must_use]
    pub fn simulated(adjacency: Adjacency, seed: u64) -> Self {
        Self::with_key(
            adjacency,
            Mode::Simulated,
            ReplayKeyForTests::from_seed(seed).into_key(),
        )
    }

    fn with_key(adjacency: Adjacency, mode: Mode, key: Key) -> Self {
        Self {
            adjacency,
            mode,
            key,
            streams: StreamIds::new(),
            budget: None,
            reservation: None,
            reserved: Vec::new(),
            spent: Vec::new(),
            adaptive: false,
            last_sample: None,
        }
    }

    /// Charges this curator's runs to a budget that several runs share.
    ///
    /// # Errors
    /// [`BudgetError::AdjacencyMismatch`] when the budget is for another adjacency;
    /// [`BudgetError::Simulated`] for a simulation, whose releases nothing protects;
    /// [`BudgetError::TooLate`] when something was reserved, or another budget attached, before.
    pub fn with_budget(mut self, budget: BudgetFile) -> Result<Self, BudgetError> {
        budget.check_adjacency(self.adjacency)?;
        if self.mode == Mode::Simulated {
            return Err(BudgetError::Simulated);
        }
        if !self.reserved.is_empty() || self.budget.is_some() {
            return Err(BudgetError::TooLate);
        }
        self.budget = Some(budget);
        Ok(self)
    }

    /// The neighbouring relation of everything this curator releases.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// Protected or simulated.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets aside what a run will spend, before its first release.
    ///
    /// # Errors
    /// [`Refused`] when the shared budget can't pay, a reservation is open, or the event holds
    /// anything but Gaussian releases.
    pub fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        if self.reservation.is_some() {
            return Err(Refused::AlreadyReserved);
        }
        let event = spend.event();
        let left = event.leaves();
        for (leaf, _) in &left {
            let inner = match leaf {
                Event::PoissonSampled { event, .. } => event,
                other => other,
            };
            if !matches!(inner, Event::Gaussian { .. }) {
                return Err(Refused::UnsupportedSpend {
                    event: leaf.clone(),
                });
            }
        }
        let in_budget = match &mut self.budget {
            Some(budget) => Some(budget.reserve(event)?),
            None => None,
        };
        self.adaptive |= !self.spent.is_empty();
        self.reserved.push(event.clone());
        self.reservation = Some(Reservation {
            event: event.clone(),
            left,
            in_budget,
        });
        Ok(())
    }

    /// Draws a Poisson sample: each of `records` positions enters with probability `rate`
    /// (rounded down to a multiple of 2^-64), independently.
    ///
    /// # Errors
    /// [`LatticeError::TooManyRecords`] when `records` exceeds [`MAX_RECORDS`].
    pub fn poisson_sample(
        &mut self,
        rate: SamplingRate,
        records: usize,
    ) -> Result<PoissonSample, Refused> {
        if records as u64 > MAX_RECORDS {
            return Err(LatticeError::TooManyRecords {
                records: records as u64,
                limit: MAX_RECORDS,
            }
            .into());
        }
        let mut stream = self.key.stream(self.streams.next(Purpose::Sampling)?)?;
        // Rate 1 takes every record; below it the product is an exact integer below 2^64,
        // or loses only bits under one, downwards.
        let threshold = (rate.get() * 18_446_744_073_709_551_616.0) as u64;
        let all = rate.get() >= 1.0;
        let positions = (0..records)
            .filter(|_| all || rand::Rng::next_u64(&mut stream) < threshold)
            .map(|i| i as u32)
            .collect();
        // Unique in the process, so that a sample of another curator is recognised.
        let id = NEXT_SAMPLE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.last_sample = Some((id, false));
        Ok(PoissonSample::new(id, rate, positions))
    }

    /// A number below `bound` (0 for a bound of 0), independent of the data; the bias is below
    /// bound / 2^64.
    pub fn draw_index(&mut self, bound: u64) -> u64 {
        // Perturbations are outside the privacy analysis, so a used-up stream may repeat.
        let Ok(id) = self.streams.next(Purpose::Perturbation) else {
            return 0;
        };
        let Ok(mut stream) = self.key.stream(id) else {
            return 0;
        };
        let word = rand::Rng::next_u64(&mut stream);
        ((u128::from(word) * u128::from(bound)) >> 64) as u64
    }

    /// Releases a sum with Gaussian noise.
    ///
    /// # Formula
    /// step * (S + round(s Z)), with S the sum in steps, Z standard normal in each coordinate and
    /// s = noise multiplier x sensitivity / step, rounded up. Exactly
    /// Gaussian-DP with mu = 1 / noise multiplier (for a sum over all records).
    ///
    /// # Shapes
    /// One number per coordinate of the sum, in the units of the sum.
    ///
    /// # Errors
    /// [`Refused`]; nothing has been released or charged then.
    pub fn release(
        &mut self,
        sum: &Sensitive<Vector>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Vec<f64>, Refused> {
        if sum.adjacency != self.adjacency {
            return Err(Refused::AdjacencyMismatch {
                sum: sum.adjacency,
                curator: self.adjacency,
            });
        }
        let gaussian = Event::gaussian(noise_multiplier);
        let event = match sum.access {
            Access::All => gaussian,
            Access::Poisson { sample, rate } => {
                match self.last_sample {
                    Some((last, used)) if last == sample => {
                        if used {
                            return Err(Refused::SampleUsed);
                        }
                    }
                    _ => return Err(Refused::ForeignSample),
                }
                gaussian.poisson_sampled(rate)
            }
        };
        // Round the scale up: the product errs by less than one unit in the last place.
        let exact = noise_multiplier.get() * sum.bound.sensitivity_in_steps(self.adjacency);
        let noise = RoundedGaussian::new(exact.next_up())?;
        let left = self
            .reservation
            .as_mut()
            .and_then(|r| r.left.iter_mut().find(|(leaf, n)| *n > 0 && *leaf == event));
        let Some((_, left)) = left else {
            return Err(Refused::NotReserved { event });
        };
        let mut stream = self.key.stream(self.streams.next(Purpose::Noise)?)?;
        // Charged first: from here on nothing can fail.
        *left -= 1;
        match self.spent.iter_mut().find(|(known, _)| *known == event) {
            Some((_, count)) => *count += 1,
            None => self.spent.push((event, 1)),
        }
        if let (Access::Poisson { .. }, Some((_, used))) = (sum.access, &mut self.last_sample) {
            *used = true;
        }
        let mut noisy: Vec<i128> = sum.payload.sum.iter().map(|&k| i128::from(k)).collect();
        noise.add_wrapping_wide(&mut stream, &mut noisy);
        let step = sum.bound.step();
        Ok(noisy.iter().map(|&k| k as f64 * step).collect())
    }

    /// Closes the reservation, telling the shared budget what was really spent.
    ///
    /// # Errors
    /// [`Refused::Budget`] when the budget file can't be written; the reservation then stands as
    /// the payment.
    pub fn settle(&mut self) -> Result<Event, Refused> {
        let Some(reservation) = self.reservation.take() else {
            return Ok(Event::NoOp);
        };
        let mut used = Vec::new();
        for ((leaf, total), (_, left)) in reservation.event.leaves().iter().zip(&reservation.left) {
            if total > left {
                used.push(leaf.clone().repeated(total - left));
            }
        }
        let event = all_of(used);
        if let (Some(budget), Some(id)) = (&mut self.budget, reservation.in_budget) {
            budget.settle(id, &event)?;
        }
        Ok(event)
    }

    /// Everything released so far, as one event.
    #[must_use]
    pub fn spent(&self) -> Event {
        let one = |(event, count): &(Event, u64)| event.clone().repeated(*count);
        all_of(self.spent.iter().map(one).collect())
    }

    /// Everything reserved so far, as one event: what the guarantee is stated for.
    #[must_use]
    pub fn reserved(&self) -> Event {
        match self.reserved.as_slice() {
            [one] => one.clone(),
            many => all_of(many.to_vec()),
        }
    }

    /// The guarantee of everything this curator has reserved, at `delta`.
    ///
    /// # Privacy
    /// The accountants compose releases whose multipliers, rates and counts were fixed before the
    /// first of them. What was reserved after a release may depend on it, and then nothing here
    /// bounds the whole: use a curator for each run and a shared budget, which is a filter.
    ///
    /// # Errors
    /// [`Refused::NoGuarantee`] in a simulation and after a reservation that followed a release;
    /// [`Refused::Accounting`] when no accountant takes
    /// the event.
    pub fn guarantee(&self, delta: Delta) -> Result<Guarantee, Refused> {
        if self.adaptive {
            return Err(Refused::NoGuarantee(
                "a reservation was made after a release and may depend on it; use one curator for each run and a shared budget",
            ));
        }
        match self.mode {
            Mode::Protected => Ok(Guarantee::state(&self.reserved(), delta, self.adjacency)?),
            Mode::Simulated => Err(Refused::NoGuarantee(
                "the noise of a simulation can be repeated from its seed",
            )),
        }
    }
}

/// A composition; nothing when there is nothing to compose.
fn all_of(events: Vec<Event>) -> Event {
    if events.is_empty() {
        Event::NoOp
    } else {
        Event::composed(events)
    }
}
