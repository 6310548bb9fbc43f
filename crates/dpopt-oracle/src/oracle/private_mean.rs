//! Private records as an oracle: the mean of any query.

use std::num::NonZeroUsize;
use std::ops::Range;

use dpopt_privacy::{
    Adjacency, Body, Bound, ClipNorm, Curator, FixedBlocks, LatticeSum, NoiseMultiplier, PoolError,
    Prefix, Refused, Sample, Threads, Ticket, Which,
};

use super::{
    Answer, Books, Counts, Mean, Number, Offers, Oracle, OracleFacts, Period, PeriodTerms,
    Question, SmoothedDraw, Smoothing,
};
use crate::data::PrivateData;
use crate::error::{AskError, EstimatorError};
use crate::loss::{Constants, Differentiable, Loss, TwiceDifferentiable};
use crate::pass::clipped_pass;
use crate::placed::placed_pass;
use crate::positions::{Places, Positions};
use crate::query::{
    ChainProduct, HessianMatrix, HessianVector, Linear, Query, RowAverage, Slopes, Value,
    ValueChange,
};
use crate::records::Records;
use crate::threads::Cut;

/// Private records, a loss, and the curator that releases means of queries.
///
/// # Formula
/// (1/m) (sum over the records read of clip(q(x), C) + noise), with q a [`Query`] and m public: the
/// number of records, or the rate times it, or the length of the slice.
///
/// # Privacy
/// Each mean is one event of the curator: a Gaussian release with the given noise multiplier, on
/// all records, on one Poisson sample, or on one slice. Sensitivities are enforced, not assumed; a
/// wrong constant of a loss costs accuracy only. See `docs/privacy/estimator.md`.
pub struct PrivateMean<'a, L: Loss> {
    data: &'a PrivateData<L::Records>,
    loss: L,
    facts: OracleFacts,
    threads: Threads,
    books: Books,
    /// How Hessians, their products and those of chains are released, of a loss that has some.
    hessians: Option<SecondOrder<'a, L>>,
}

type ReleaseHessian<'a, L> = fn(
    &mut PrivateMean<'a, L>,
    &HessianMatrix<'_>,
    Which<'_>,
    NoiseMultiplier,
) -> Result<Option<Mean>, AskError>;

type ReleaseChain<'a, L> =
    fn(&mut PrivateMean<'a, L>, &ChainProduct<'_>, NoiseMultiplier) -> Result<Mean, AskError>;

type ReleaseProduct<'a, L> = fn(
    &mut PrivateMean<'a, L>,
    &HessianVector<'_>,
    Which<'_>,
    NoiseMultiplier,
) -> Result<Option<Mean>, AskError>;

struct SecondOrder<'a, L: Loss> {
    matrix: ReleaseHessian<'a, L>,
    product: ReleaseProduct<'a, L>,
    chain: ReleaseChain<'a, L>,
}

impl<'a, L: Loss> PrivateMean<'a, L> {
    /// Means over `data`, on one thread.
    ///
    /// # Errors
    /// [`EstimatorError::AdjacencyMismatch`]; [`dpopt_privacy::Refused::NotMadeUp`] for a curator that does not protect, on records that were
    /// not declared made-up.
    pub fn new(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
    ) -> Result<Self, EstimatorError> {
        Self::new_or_back(data, loss, curator).map_err(|(error, _)| error)
    }

    /// As [`PrivateMean::new`], and gives the curator back where it refuses: for one that has released before, whose guarantee stands.
    ///
    /// # Errors
    /// Those of [`PrivateMean::new`], with the curator.
    pub fn new_or_back(
        data: &'a PrivateData<L::Records>,
        loss: L,
        curator: Curator,
    ) -> Result<Self, (EstimatorError, Box<Curator>)> {
        if let Err(error) = data.check_curator(&curator) {
            return Err((error.into(), Box::new(curator)));
        }
        if curator.adjacency() != data.adjacency() {
            let error = EstimatorError::AdjacencyMismatch {
                curator: curator.adjacency(),
                data: data.adjacency(),
            };
            return Err((error, Box::new(curator)));
        }
        let constants = loss.constants_on(data.records());
        let means = Offers::MEANS | Offers::NORMS | Offers::SELECTIONS | Offers::PERIODS;
        let values = Offers::VALUES | Offers::VALUE_CHANGES;
        let offers = means | values | Offers::SLOPES | Offers::SMOOTHED | Offers::DIRECTIONAL;
        let (dim, records) = (loss.dim(data.records()), data.public_records());
        let facts = OracleFacts::new(dim, records, data.adjacency(), offers)
            .with_all_constants(&constants)
            .with_blocks(loss.blocks(data.records()))
            .with_domain(loss.domain().as_ref());
        if let Err(error) = data.agree_on(&facts) {
            return Err((Refused::from(error).into(), Box::new(curator)));
        }
        keep_memory(dim);
        Ok(Self {
            facts,
            data,
            loss,
            threads: Threads::one(),
            books: Books::new(curator, records),
            hessians: None,
        })
    }

    /// Public constants of the loss on these records' bounds.
    #[must_use]
    pub fn constants(&self) -> Constants {
        self.loss.constants_on(self.data.records())
    }

    /// Those that hold at one public point, and prove nothing of others: [`Loss::constants_at`].
    ///
    /// # Shapes
    /// `point`: d.
    #[must_use]
    pub fn constants_at(&self, point: &[f64]) -> Constants {
        self.loss.constants_at(self.data.records(), point)
    }

    /// Answers questions for Hessians, their products and their chains too ([`Offers::HESSIANS`], [`Offers::HESSIAN_PRODUCTS`],
    /// [`Offers::CHAINS`]).
    #[must_use]
    pub fn with_hessians(mut self) -> Self
    where
        L: TwiceDifferentiable,
    {
        self.hessians = Some(SecondOrder {
            matrix: |means, of, over, noise| means.release(of, over, noise),
            product: |means, of, over, noise| means.release(of, over, noise),
            chain: |means, of, noise| means.release_chain(of, noise),
        });
        let second = Offers::HESSIANS | Offers::HESSIAN_PRODUCTS | Offers::CHAINS;
        self.facts.offers = self.facts.offers | second;
        self
    }

    /// Uses up to `threads` threads, 256 at most: the calling one and a pool that is started here and lives as long
    /// as this. Results do not depend on their number, to the bit. A pass that is too small to gain is not split;
    /// where the system has no more threads to give, the calling one does all the work. The noise of long sums is drawn by
    /// as many.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZeroUsize) -> Self {
        self.threads = Threads::new(threads);
        let threads = self.threads.clone();
        self.curator_mut().share_threads(threads);
        self
    }

    /// The loss.
    #[must_use]
    pub fn loss(&self) -> &L {
        &self.loss
    }

    /// Number of parameters of the loss.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.facts.dim
    }

    /// The private records; only their public side can be seen.
    #[must_use]
    pub fn data(&self) -> &'a PrivateData<L::Records> {
        self.data
    }

    /// The curator, for its ledger and guarantee.
    #[must_use]
    pub fn curator(&self) -> &Curator {
        self.books.curator()
    }

    /// The curator, to reserve, settle and open a pool. Exchanging it for one that does not protect has all
    /// releases refused, unless the records were declared made-up. One that protects and has another ledger, or none, pays there and not
    /// on the ledger of this one.
    pub fn curator_mut(&mut self) -> &mut Curator {
        self.books.curator_mut()
    }

    /// The curator again, when no more means are to be released.
    #[must_use]
    pub fn into_curator(self) -> Curator {
        self.books.into_curator()
    }

    /// Nominal counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.books.counts()
    }

    /// Releases the mean of `query`; none when the query has no bound, because all contributions
    /// are zero: then nothing is released and nothing charged.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn release(
        &mut self,
        query: &dyn Query<L>,
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Option<Mean>, AskError> {
        let Some((bound, ticket, sum)) = self.summed(query, over, noise_multiplier)? else {
            return Ok(None);
        };
        let denominator = ticket.sample().denominator();
        let mut mean = self.books.curator_mut().redeem(ticket, sum)?;
        for x in &mut mean {
            *x /= denominator;
        }
        self.count(query, denominator);
        let sensitivity = bound.radius() * self.data.adjacency().sum_sensitivity();
        let noise_std = noise_multiplier.get() * sensitivity / denominator;
        Ok(Some(Mean::new(mean, noise_std)))
    }

    /// Releases the norm of the mean of `query`; none when the query has no bound.
    ///
    /// # Privacy
    /// The norm is as sensitive as the mean, and one lattice step more for its rounding. It is a
    /// release of its own; a sample pays for it or for the mean, not for both.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released then.
    pub fn release_norm(
        &mut self,
        query: &dyn Query<L>,
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Option<Number>, AskError> {
        self.release_norm_of(query, 0..usize::MAX, &[], (over, noise_multiplier))
    }

    /// As [`PrivateMean::release_norm`], of the coordinates in `within` alone, plus a public shift (empty for none).
    fn release_norm_of(
        &mut self,
        query: &dyn Query<L>,
        within: Range<usize>,
        shift: &[f64],
        (over, noise_multiplier): (Which<'_>, NoiseMultiplier),
    ) -> Result<Option<Number>, AskError> {
        let Some((bound, ticket, sum)) = self.summed(query, over, noise_multiplier)? else {
            return Ok(None);
        };
        let denominator = ticket.sample().denominator();
        let shift = times(shift, denominator);
        let curator = self.books.curator_mut();
        let norm = curator.redeem_norm_of(ticket, sum, within, &shift)?;
        self.count(query, denominator);
        let sensitivity = (bound.radius() + bound.step()) * self.data.adjacency().sum_sensitivity();
        let noise_std = noise_multiplier.get() * sensitivity / denominator;
        Ok(Some(Number::new(norm / denominator, noise_std)))
    }

    /// Releases the mean loss at `point`, each record's loss counting as the nearest number in
    /// [centre - radius, centre + radius], and as `centre` where it is not a finite number.
    ///
    /// # Formula
    /// centre + (1/m) (sum of clip(f(w; x) - centre, radius) + noise).
    ///
    /// # Errors
    /// [`AskError`]; [`AskError::ZeroRows`] under zero-out adjacency, where a row of zeros has a value.
    pub fn release_value(
        &mut self,
        point: &[f64],
        centre: f64,
        radius: ClipNorm,
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        let query = Value {
            point,
            centre,
            radius,
        };
        let released = self.release(&query, over, noise_multiplier)?;
        let (sum, noise_std) = released.map_or((0.0, 0.0), |m| (m.mean[0], m.noise_std));
        Ok(Number::new(centre + sum, noise_std))
    }

    /// The mean change of a query.
    pub(super) fn release_value_change(
        &mut self,
        of: &ValueChange<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        let released = self.release(of, over, noise)?;
        Ok(released.map_or(Number::new(0.0, 0.0), |m| {
            Number::new(m.mean[0], m.noise_std)
        }))
    }

    /// The mean slopes of a query: zeros where it has no bound.
    pub(super) fn release_slopes(
        &mut self,
        of: &Slopes<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        let mean = self.release(of, over, noise)?;
        Ok(mean.unwrap_or_else(|| Mean::new(vec![0.0; of.directions.count()], 0.0)))
    }

    /// What is public of the records and of the loss.
    pub(super) fn public(&self) -> OracleFacts {
        self.facts
    }

    /// The books.
    pub(super) fn own_books(&mut self) -> &mut Books {
        &mut self.books
    }

    /// The sum of `query` over the records of a ticket, which is not paid for yet.
    fn summed(
        &mut self,
        query: &dyn Query<L>,
        over: Which<'_>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Option<(Bound, Ticket, LatticeSum)>, AskError> {
        let Some(bound) = self.admit(query)? else {
            return Ok(None);
        };
        let body = self.body(over)?;
        let curator = self.books.curator_mut();
        let ticket = curator.grant(over, body, bound, noise_multiplier)?;
        let sum = self.sum(query, ticket.sample(), &|blocks| empty(bound, blocks))?;
        Ok(Some((bound, ticket, sum)))
    }

    /// Adds the mean of `query`, in which each record's part is clipped to the query's own radius and to
    /// that of the period, to `period`, and releases the sum of its steps.
    ///
    /// # Errors
    /// [`AskError`]; nothing was released or added then.
    fn push_step(
        &mut self,
        period: &mut Prefix,
        query: &dyn Query<L>,
        radius: ClipNorm,
        over: Which<'_>,
    ) -> Result<Mean, AskError> {
        self.admit(query)?;
        let bound = period.bound();
        let body = self.body(over)?;
        let ticket = period.grant(over, body, self.books.curator_mut())?;
        let denominator = ticket.sample().denominator();
        let sum = self.sum(query, ticket.sample(), &|_| {
            LatticeSum::weighted(bound, 1.0 / denominator, radius.get() / denominator)
        })?;
        let mean = period.redeem(ticket, sum, self.books.curator_mut())?;
        self.count(query, denominator);
        // A step that was taken has a standard deviation.
        let noise_std = period
            .standard_deviation(period.steps())
            .unwrap_or(f64::NAN);
        Ok(Mean::new(mean, noise_std))
    }

    fn open_prefix(&mut self, terms: &PeriodTerms) -> Result<Period, AskError> {
        let bound = Bound::new(terms.share, self.facts.dim)?;
        let PeriodTerms {
            kind,
            len,
            participation,
            noise_multiplier,
            ..
        } = *terms;
        let curator = self.books.curator_mut();
        Ok(Period::new(curator.prefix(
            kind,
            bound,
            len,
            noise_multiplier,
            participation,
        )?))
    }

    /// The bound of a query that may be asked of these records; none where nothing has to be released.
    fn admit(&self, query: &dyn Query<L>) -> Result<Option<Bound>, AskError> {
        // Before a pool is opened or a reservation looked at.
        self.data.check_curator(self.books.curator())?;
        if !query.fits(self.facts.dim) {
            return Err(AskError::Shape {
                dim: self.facts.dim,
            });
        }
        if !query.is_answered() {
            let what = "averages along rows of a loss without them";
            return Err(AskError::NotOffered { what });
        }
        let Some(bound) = query.bound(&self.loss)? else {
            return Ok(None);
        };
        let shape = (query.vanishes_on_zero_rows(), query.needs_fixed_positions());
        self.check_adjacency(shape)?;
        Ok(Some(bound))
    }

    /// Whether a query that vanishes on rows of zeros, or not, and needs fixed positions, or not, may be asked.
    fn check_adjacency(&self, (vanishes, fixed): (bool, bool)) -> Result<(), AskError> {
        let adjacency = self.data.adjacency();
        let erased = L::VANISHES_ON_ERASED || !<L::Records as Records>::HAS_ERASED;
        if adjacency == Adjacency::ZeroOut && !(erased && vanishes) {
            return Err(AskError::ZeroRows);
        }
        if fixed && !adjacency.record_count_is_public() {
            return Err(PoolError::Adjacency { adjacency }.into());
        }
        if fixed && !self.data.knows_positions() {
            return Err(AskError::UnknownPositions);
        }
        Ok(())
    }

    /// Draws what a question about the smoothed field needs, if that may be asked: offsets and frames may be many.
    fn draw_smoothed(
        &mut self,
        of: &Linear<'_>,
        smoothing: Smoothing,
        over: Which<'_>,
    ) -> Result<SmoothedDraw, AskError> {
        self.data.check_curator(self.books.curator())?;
        self.facts.check_point(of.point())?;
        self.check_adjacency((true, true))?;
        smoothing.draw(of, over, (self.facts, &mut self.books))
    }

    /// How many records there are to draw from. Opens the pool where the next slice is read.
    fn body(&mut self, over: Which<'_>) -> Result<Body, AskError> {
        if let Which::Next(_) = over {
            self.books.open_pool()?;
        }
        let body = Body::declared(self.data.public_records(), self.data.everything());
        let body = body.numbered(self.data.numbering());
        Ok(match self.data.run_here() {
            Some(run) => body.here(run.start as u64..run.end as u64),
            None => body,
        })
    }

    /// The sum of a query's contributions over `sample`, added to what `empty` makes, which is
    /// told of the blocks of positions that it may be in.
    fn sum(
        &self,
        query: &dyn Query<L>,
        sample: &Sample,
        empty: &(dyn Fn(Option<FixedBlocks>) -> LatticeSum + Sync),
    ) -> Result<LatticeSum, AskError> {
        // Asked once more where records are read: nothing passes this by.
        self.data.check_curator(self.books.curator())?;
        let (loss, records) = (&self.loss, self.data.records());
        let nominal = sample.denominator();
        let here = self.data.here_of(Places::of(sample));
        let places = here.places();
        let stored = self.data.stored();
        // Blocks read from a file are not blocks of fixed positions, and one that ends in the middle of a rank is two.
        let whole = stored.is_none() && self.data.shard().is_none();
        let in_blocks = query.sums_in_blocks() && whole;
        let blocks = sample.blocks().filter(|_| in_blocks);
        let empty = &|| empty(blocks);
        let none = empty();
        let evaluations = query.gradients_per_record() + query.values_per_record();
        let work = evaluations * loss.work(records);
        let cut = Cut::new(&self.threads, nominal, work, none.bound().dim());
        if let Some(stored) = stored {
            let add = |part: &_, at: Positions<'_>, sum: &mut _| query.add(loss, part, at, sum);
            return stored.pass(records, places, empty, cut.workers, &add);
        }
        let positions = places.without_order();
        let add = &|at: Positions<'_>, sum: &mut _| query.add(loss, records, at, sum);
        let threads = &self.threads;
        let sum = match none.blocks() {
            Some(blocks) => {
                let reached = (&positions, positions.reach(records.len()));
                placed_pass(add, empty, reached, blocks.width() as usize, cut, threads)
            }
            None => clipped_pass(add, empty, &positions, cut, threads),
        };
        Ok(sum?)
    }

    /// Counts one release of `query` over nominally `read` records.
    fn count(&mut self, query: &dyn Query<L>, read: f64) {
        let (gradients, values) = (query.gradients_per_record(), query.values_per_record());
        self.books.count(read, gradients, values);
    }
}

/// Has the allocator keep what the vectors of a release take. The one of glibc gives memory back to the system, and where it has seen no larger
/// block than a sum of 100,000 numbers it does so after each release: to map the pages again takes a third of the time of a small batch.
fn keep_memory(dim: usize) {
    /// Sums, noise and what a loss computes with. Tuned.
    const VECTORS: usize = 8;
    /// Of larger blocks that allocator learns nothing.
    const MOST: usize = 31 << 20;
    let bytes = dim.saturating_mul(VECTORS * size_of::<f64>()).min(MOST);
    let mut block = Vec::<u8>::new();
    // Where there is not so much, the release will tell.
    let _ = block.try_reserve_exact(bytes);
    drop(std::hint::black_box(block));
}

#[path = "chained.rs"]
mod chained;
#[path = "selected.rs"]
mod selected;

/// The field is the gradient of the loss.
impl<L: Differentiable> Oracle for PrivateMean<'_, L> {
    fn facts(&self) -> OracleFacts {
        let offers = match L::HAS_ROW_AVERAGES {
            true => self.facts.offers | Offers::ROW_AVERAGES,
            false => self.facts.offers,
        };
        OracleFacts {
            exact_sums: L::EXACT_SUMS,
            offers,
            ..self.facts
        }
    }

    fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        let dim = self.facts.dim;
        if let Some(together) = self.data.together() {
            question.note(together);
        }
        Ok(match question {
            Question::Mean { of, over, noise } => {
                let mean = self.release(&of, over, noise)?;
                // A linear query always has a bound; without one all contributions would be zero.
                Answer::Mean(mean.unwrap_or_else(|| Mean::new(vec![0.0; dim], 0.0)))
            }
            Question::Slopes { of, over, noise } => {
                Answer::Mean(self.release_slopes(&of, over, noise)?)
            }
            Question::Averaged {
                of,
                reach,
                over,
                noise,
            } => {
                let mean = self.release(&RowAverage::new(of, reach), over, noise)?;
                Answer::Mean(mean.unwrap_or_else(|| Mean::new(vec![0.0; dim], 0.0)))
            }
            Question::Smoothed {
                of,
                smoothing,
                over,
                noise,
            } => {
                let drawn = &self.draw_smoothed(&of, smoothing, over)?;
                let mean = self.release(&smoothing.query(&of, drawn)?, over, noise)?;
                Answer::Mean(mean.unwrap_or_else(|| Mean::new(vec![0.0; dim], 0.0)))
            }
            Question::Norm {
                of,
                within,
                shift,
                over,
                noise,
            } => {
                if !(shift.is_empty() || shift.len() == dim) {
                    return Err(AskError::Shape { dim });
                }
                let within = within.unwrap_or(0..usize::MAX);
                let norm = self.release_norm_of(&of, within, shift, (over, noise))?;
                Answer::Number(norm.unwrap_or_else(|| Number::new(0.0, 0.0)))
            }
            Question::LeastNorm { among, epsilon } => {
                if among
                    .iter()
                    .any(|(_, shift)| !(shift.is_empty() || shift.len() == dim))
                {
                    return Err(AskError::Shape { dim });
                }
                Answer::Chosen(self.select_least_norm(among, epsilon)?)
            }
            Question::Value {
                point,
                centre,
                radius,
                over,
                noise,
            } => Answer::Number(self.release_value(point, centre, radius, over, noise)?),
            Question::ValueChange { of, over, noise } => {
                Answer::Number(self.release_value_change(&of, over, noise)?)
            }
            Question::Directional { of, over, noise } => {
                let released = self.release(&of, over, noise)?;
                // It always has a bound.
                Answer::Number(released.map_or(Number::new(0.0, 0.0), |m| {
                    Number::new(m.mean[0], m.noise_std)
                }))
            }
            Question::OpenPeriod(terms) => Answer::Period(self.open_prefix(terms)?),
            Question::Step { period, of, over } => {
                let period = period.inside().ok_or(AskError::ForeignPeriod)?;
                Answer::Mean(self.push_step(period, &of, of.radius(), over)?)
            }
            Question::SmoothedStep {
                period,
                of,
                smoothing,
                over,
            } => {
                let period = period.inside().ok_or(AskError::ForeignPeriod)?;
                let drawn = &self.draw_smoothed(&of, smoothing, over)?;
                let query = smoothing.query(&of, drawn)?;
                Answer::Mean(self.push_step(period, &query, of.radius(), over)?)
            }
            Question::Hessian { of, over, noise } => {
                let Some(SecondOrder {
                    matrix: release, ..
                }) = self.hessians
                else {
                    return Err(AskError::NotOffered { what: "Hessians" });
                };
                let mean = release(self, &of, over, noise)?;
                Answer::Mean(mean.unwrap_or_else(|| Mean::new(vec![0.0; of.coordinates()], 0.0)))
            }
            Question::Chain { of, noise } => {
                let Some(SecondOrder { chain, .. }) = self.hessians else {
                    let what = "products of chained Hessians";
                    return Err(AskError::NotOffered { what });
                };
                Answer::Mean(chain(self, &of, noise)?)
            }
            Question::HessianVector { of, over, noise } => {
                let Some(SecondOrder { product, .. }) = self.hessians else {
                    let what = "products with Hessians";
                    return Err(AskError::NotOffered { what });
                };
                let mean = product(self, &of, over, noise)?;
                Answer::Mean(mean.unwrap_or_else(|| Mean::new(vec![0.0; dim], 0.0)))
            }
            other @ Question::Pass { .. } => {
                return Err(AskError::NotOffered { what: other.kind() });
            }
        })
    }
}

/// The empty sum within `bound`, in blocks where there are some.
fn empty(bound: Bound, blocks: Option<FixedBlocks>) -> LatticeSum {
    match blocks {
        Some(blocks) => LatticeSum::in_blocks(bound, blocks),
        None => LatticeSum::new(bound),
    }
}

/// A shift of a mean as one of the sum.
fn times(shift: &[f64], denominator: f64) -> Vec<f64> {
    shift.iter().map(|x| x * denominator).collect()
}
