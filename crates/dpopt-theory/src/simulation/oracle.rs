//! Answers with floating-point noise, over a population of any size.

use std::collections::{BTreeMap, HashMap};

use dpopt_linalg::{add_scaled, dot, norm};
use dpopt_oracle::query::{Directional, Slopes, ValueChange};
use dpopt_oracle::{
    Answer, AskError, Books, Counts, Differentiable, Linear, Mean, Number, Offers, Oracle,
    OracleFacts, Period, PeriodTerms, Question,
};
use dpopt_privacy::noise::{KeyedStream, NoiseError, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::selection::SelectionError;
use dpopt_privacy::{
    Adjacency, Allocation, Body, Bound, ClipNorm, Curator, Epsilon, Event, LatticeSum,
    NoiseMultiplier, Participation, PoolError, Prefix, PrefixKind, Refused, Slice, Which,
};
use rand_distr::{Distribution as _, StandardNormal};

use super::population::{ClosedForm, Population, WeightedLoss};
use super::prefix::FloatPrefixNoise;
use super::weighted::{Unallocated, Unread, WeightedRecords, add_clipped, length, poisson};
use crate::problem::Problem;

/// How large the noise of a variation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoiseRule {
    /// By the clip radius of the difference, min(L1 ||w - w'||, 2 C).
    Displacement,
    /// By 2 C whatever the displacement: a broken twin, made by claiming no L1. It protects as well,
    /// but forgoes what a difference is asked for, and the rate with it. For controls of experiments only.
    Lipschitz,
}

/// The oracle of a protected run over a [`Population`], **for simulation only**.
///
/// # Formula
/// As [`Oracle`] says, with clipping and sums in floating point and Gaussian noise of the size that
/// a protected run has: z s C/m per coordinate. What is read has the law that it has for the
/// expanded data set: all copies, binomial numbers of them, or hypergeometric ones (slices are
/// disjoint, of records in a uniformly random order; the copies in a slice are drawn at its first
/// read). The noise of prefix sums has the law of the factorisation, without its rounding.
///
/// # Privacy
/// None: the noise is floating point and can be repeated from the seed. Reservations, caps, slices
/// and periods are kept by a simulated [`Curator`], by the rules of a protected run; it states no
/// guarantee.
///
/// # Complexity
/// A mean costs one gradient of each distinct record (two for a change); Poisson and fixed-size
/// samples besides one random number for each distinct record, whatever its multiplicity.
pub struct SimulatedOracle<P> {
    population: P,
    facts: OracleFacts,
    books: Books,
    key: ReplayKeyForTests,
    noise: KeyedStream,
    /// Samples drawn so far; each has a stream of its own.
    samples: u32,
    unread: Unread,
    /// The copies in each slice that was read, by its number.
    slices: HashMap<u64, Vec<u64>>,
    /// The allocation of which steps are left.
    allocated: BTreeMap<Option<u64>, Unallocated>,
}

/// An open period of simulated prefix sums.
struct SimulatedPeriod {
    /// Keeps the books: a period of sums of zeros in one dimension.
    books: Prefix,
    noise: FloatPrefixNoise,
    sum: Vec<f64>,
    share: f64,
}

/// What a release reads, and the noise of a mean over it.
struct Drawn {
    copies: Vec<u64>,
    /// The public number that the mean divides by.
    size: f64,
    /// Standard deviation of the noise of the mean.
    std: f64,
}

impl<'a, P: Problem + ?Sized> SimulatedOracle<ClosedForm<'a, P>> {
    /// As over `records` records under `adjacency`, all with the loss of `problem`. Equal seeds give equal runs. A number
    /// of records of 0 counts as 1.
    #[must_use]
    pub fn new(problem: &'a P, records: u64, adjacency: Adjacency, seed: u64) -> Self {
        Self::over(ClosedForm::new(problem, records), adjacency, seed)
    }
}

impl<'a, L: Differentiable> SimulatedOracle<WeightedLoss<'a, L>> {
    /// Over weighted records. Equal seeds give equal runs.
    #[must_use]
    pub fn weighted(
        loss: &'a L,
        data: &'a WeightedRecords<L::Records>,
        adjacency: Adjacency,
        seed: u64,
    ) -> Self {
        Self::over(WeightedLoss::new(loss, data), adjacency, seed)
    }
}

impl<P: Population> SimulatedOracle<P> {
    /// Over `population` under `adjacency`. Equal seeds give equal runs.
    #[must_use]
    pub fn over(population: P, adjacency: Adjacency, seed: u64) -> Self {
        let key = ReplayKeyForTests::from_seed(seed);
        let records = population.multiplicities().iter().sum();
        let means = Offers::MEANS | Offers::NORMS | Offers::SELECTIONS | Offers::PERIODS;
        let mut offers = means
            | Offers::VALUES
            | Offers::VALUE_CHANGES
            | Offers::SLOPES
            | Offers::SMOOTHED
            | Offers::DIRECTIONAL;
        if population.has_hessians() {
            let second = Offers::HESSIANS | Offers::HESSIAN_PRODUCTS | Offers::CHAINS;
            offers = offers | second;
        }
        Self {
            facts: OracleFacts::new(population.dim(), records, adjacency, offers)
                .with_constants(population.lipschitz(), population.smoothness())
                .with_blocks(population.blocks()),
            books: Books::new(Curator::simulated(adjacency, seed), records),
            noise: key.stream(StreamId::new(Purpose::Noise, 0)),
            key,
            samples: 0,
            unread: Unread::new(population.multiplicities()),
            slices: HashMap::new(),
            allocated: BTreeMap::new(),
            population,
        }
    }

    /// Scales the noise of variations by `rule` instead.
    #[must_use]
    pub fn with_rule(mut self, rule: NoiseRule) -> Self {
        self.facts.smoothness = match rule {
            NoiseRule::Displacement => self.population.smoothness(),
            NoiseRule::Lipschitz => f64::INFINITY,
        };
        self
    }

    /// What the means are taken of.
    #[must_use]
    pub fn population(&self) -> &P {
        &self.population
    }

    /// Everything "released" so far, as one event.
    #[must_use]
    pub fn spent(&self) -> Event {
        self.books.curator().spent()
    }

    /// Nominal counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.books.counts()
    }

    /// The exact mean over all records of what is asked, clipped, without noise.
    #[must_use]
    pub fn exact(&self, of: Linear<'_>) -> Vec<f64> {
        let copies = self.population.multiplicities();
        self.clipped_mean(of, copies, self.facts.records as f64, of.radius().get())
    }

    /// (1/size) sum_i copies_i clip(q(x_i)).
    fn clipped_mean(&self, of: Linear<'_>, copies: &[u64], size: f64, radius: f64) -> Vec<f64> {
        let mut sum = vec![0.0; self.facts.dim];
        let (mut before, mut out) = (sum.clone(), sum.clone());
        for (i, &copies) in copies.iter().enumerate() {
            if copies == 0 {
                continue;
            }
            self.population.gradient(i, of.point(), &mut out);
            if let Some((segment, momentum)) = of.before() {
                self.population.gradient(i, segment.from, &mut before);
                let kept = |norm: f64| (of.clip().get() / norm).min(1.0);
                let (old, new) = (kept(length(&before)), kept(length(&out)));
                if old == 1.0 && new == 1.0 {
                    let mut change = out.clone();
                    self.population.change(i, &segment, &before, &mut change);
                    momentum.combine(&mut out, &change);
                } else {
                    for (out, before) in out.iter_mut().zip(&before) {
                        *out = *out * new - momentum.kept() * (before * old);
                    }
                }
            }
            add_clipped(&out, radius, copies as f64 / size, &mut sum);
        }
        sum
    }

    /// Charges a release within `radius` and draws what it reads. Nothing is charged, and no slice taken, where it is
    /// refused.
    fn read(
        &mut self,
        over: Which<'_>,
        radius: f64,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Drawn, AskError> {
        self.prepare(over)?;
        let size = self.nominal(over);
        let noise = self.facts.adjacency.sum_sensitivity() * radius * noise_multiplier.get();
        // A sample of no records is refused as such.
        let std = if size > 0.0 {
            positive(noise / size)?
        } else {
            0.0
        };
        let records = self.facts.records;
        let curator = self.books.curator_mut();
        curator.charge_simulated(over, records, noise_multiplier)?;
        let copies = self.draw(over)?;
        Ok(Drawn { copies, size, std })
    }

    /// The public number that a mean divides by.
    fn nominal(&self, over: Which<'_>) -> f64 {
        let records = self.facts.records as f64;
        match over {
            Which::All => records,
            Which::Poisson(rate) => records * rate.get(),
            Which::FixedSize(size) | Which::Next(size) => size as f64,
            Which::Truncated(rate, _) => records * rate.get(),
            Which::Allocated(allocation) => records * allocation.share(),
            Which::Slice(slice) => slice.len() as f64,
            Which::Sampled(slice, rate) => slice.len() as f64 * rate.get(),
            Which::AllocatedIn(slice, allocation) => slice.len() as f64 * allocation.share(),
        }
    }

    /// Opens the pool where the next slice is read.
    fn prepare(&mut self, over: Which<'_>) -> Result<(), AskError> {
        if let Which::Next(_) = over {
            self.books.open_pool()?;
        }
        Ok(())
    }

    /// The copies that are read.
    fn draw(&mut self, over: Which<'_>) -> Result<Vec<u64>, AskError> {
        let all = self.population.multiplicities().to_vec();
        Ok(match over {
            Which::All => all,
            Which::Poisson(rate) => poisson(&all, rate, &mut self.sampling()),
            Which::FixedSize(size) => {
                let records = self.facts.records;
                Unread::new(&all)
                    .take(size, &mut self.sampling())
                    .map_err(|_| Refused::SampleSize { size, records })?
            }
            Which::Truncated(rate, most) => {
                let sampled = poisson(&all, rate, &mut self.sampling());
                let most = u64::from(most);
                match sampled.iter().sum::<u64>() <= most {
                    true => sampled,
                    false => Unread::new(&sampled)
                        .take(most, &mut self.sampling())
                        .map_err(|_| PoolError::EmptySlice)?,
                }
            }
            Which::Allocated(allocation) => self.step_of(None, &all, allocation),
            Which::AllocatedIn(slice, allocation) => {
                let copies = self.copies_of(slice)?;
                self.step_of(Some(slice.number()), &copies, allocation)
            }
            Which::Next(len) => {
                let slice = self.books.take_slice(len)?;
                self.take(&slice)?
            }
            Which::Slice(slice) => self.copies_of(slice)?,
            Which::Sampled(slice, rate) => {
                poisson(&self.copies_of(slice)?, rate, &mut self.sampling())
            }
        })
    }

    /// The copies of the next step of an allocation, within a slice or of all of them.
    fn step_of(&mut self, slice: Option<u64>, copies: &[u64], allocation: Allocation) -> Vec<u64> {
        let mut stream = self.sampling();
        let open = self.allocated.remove(&slice);
        let mut open = open.unwrap_or_else(|| Unallocated::new(copies, allocation));
        let step = open.step(&mut stream);
        if !open.is_over() {
            self.allocated.insert(slice, open);
        }
        step
    }

    /// The copies in a slice that may have been read before.
    fn copies_of(&mut self, slice: &Slice) -> Result<Vec<u64>, AskError> {
        if let Some(copies) = self.slices.get(&slice.number()) {
            return Ok(copies.clone());
        }
        let copies = self.take(slice)?;
        self.slices.insert(slice.number(), copies.clone());
        Ok(copies)
    }

    /// The copies in a slice that was not read before.
    fn take(&mut self, slice: &Slice) -> Result<Vec<u64>, AskError> {
        let (asked, left) = (slice.len(), self.unread.total());
        let mut stream = self.sampling();
        let taken = self.unread.take(asked, &mut stream);
        Ok(taken.map_err(|_| PoolError::UsedUp { asked, left })?)
    }

    /// The stream of the next sample.
    fn sampling(&mut self) -> KeyedStream {
        let id = StreamId::new(Purpose::Sampling, self.samples);
        self.samples = self.samples.wrapping_add(1);
        self.key.stream(id)
    }

    /// What a protected run refuses before it looks at the books.
    fn admit(&self, of: Linear<'_>, shift: &[f64]) -> Result<(), AskError> {
        let dim = self.facts.dim;
        if !(of.fits(dim) && (shift.is_empty() || shift.len() == dim)) {
            return Err(AskError::Shape { dim });
        }
        self.admit_relation()
    }

    /// An erased record has to contribute nothing.
    fn admit_relation(&self) -> Result<(), AskError> {
        if self.facts.adjacency == Adjacency::ZeroOut && !self.population.vanishes_on_erased() {
            return Err(AskError::ZeroRows);
        }
        Ok(())
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.noise)
    }

    /// The clipped mean plus a shift, and the standard deviation of the noise that it has to get.
    fn read_mean(
        &mut self,
        of: Linear<'_>,
        shift: &[f64],
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<(Vec<f64>, f64), AskError> {
        self.admit(of, shift)?;
        let radius = of.radius().get();
        let Drawn { copies, size, std } = self.read(over, radius, noise)?;
        let mut mean = self.clipped_mean(of, &copies, size, radius);
        if !shift.is_empty() {
            add_scaled(&mut mean, 1.0, shift);
        }
        self.books.count(size, of.gradients(), 0.0);
        Ok((mean, std))
    }

    /// By Gumbel noise on the scores, which has the law of the exponential mechanism.
    fn select(
        &mut self,
        among: &[(Linear<'_>, &[f64])],
        epsilon: Epsilon,
    ) -> Result<usize, AskError> {
        let Some((first, _)) = among.first() else {
            return Err(SelectionError::NoCandidates.into());
        };
        let radius = first.radius().get();
        for (of, shift) in among {
            self.admit(*of, shift)?;
            if of.radius().get() != radius {
                return Err(SelectionError::NormsDiffer.into());
            }
        }
        self.books
            .curator_mut()
            .charge_simulated_selection(epsilon)?;
        let records = self.facts.records as f64;
        let sensitivity = self.facts.adjacency.sum_sensitivity() * radius / records;
        let mut best = (f64::NEG_INFINITY, 0);
        for (i, (of, shift)) in among.iter().enumerate() {
            let mut mean = self.exact(*of);
            if !shift.is_empty() {
                add_scaled(&mut mean, 1.0, shift);
            }
            let uniform: f64 = rand_distr::Open01.sample(&mut self.noise);
            let gumbel = -(-uniform.ln()).ln();
            let score = gumbel - epsilon.get() * norm(&mean) / (2.0 * sensitivity);
            if score > best.0 {
                best = (score, i);
            }
        }
        self.books.count(records * among.len() as f64, 1.0, 0.0);
        Ok(best.1)
    }

    fn release_slopes(
        &mut self,
        of: Slopes<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Mean, AskError> {
        let dim = self.facts.dim;
        if !of.fits(dim) {
            return Err(AskError::Shape { dim });
        }
        self.admit_relation()?;
        let radius = of.clip.get();
        let Drawn { copies, size, std } = self.read(over, radius, noise)?;
        let mut slopes = vec![0.0; of.directions.count()];
        let mut mean = slopes.clone();
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                of.write(|point| self.population.value(i, point), &mut slopes);
                add_clipped(&slopes, radius, copies as f64 / size, &mut mean);
            }
        }
        for x in &mut mean {
            *x += std * self.normal();
        }
        self.books.count(size, 0.0, of.values());
        Ok(Mean::new(mean, std))
    }

    fn release_value(
        &mut self,
        point: &[f64],
        centre: f64,
        radius: ClipNorm,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        self.facts.check_point(point)?;
        if self.facts.adjacency == Adjacency::ZeroOut {
            return Err(AskError::ZeroRows);
        }
        let Drawn { copies, size, std } = self.read(over, radius.get(), noise)?;
        let mut sum = [0.0];
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                let value = self.population.value(i, point) - centre;
                add_clipped(&[value], radius.get(), copies as f64 / size, &mut sum);
            }
        }
        self.books.count(size, 0.0, 1.0);
        Ok(Number::new(centre + sum[0] + std * self.normal(), std))
    }

    fn release_value_change(
        &mut self,
        of: ValueChange<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        self.facts.check_point(of.from)?;
        self.facts.check_point(of.to)?;
        let radius = of.radius.get();
        let Drawn { copies, size, std } = self.read(over, radius, noise)?;
        let mut sum = [0.0];
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                let change = self.population.value(i, of.to) - self.population.value(i, of.from);
                add_clipped(&[change], radius, copies as f64 / size, &mut sum);
            }
        }
        self.books.count(size, 0.0, 2.0);
        Ok(Number::new(sum[0] + std * self.normal(), std))
    }

    fn release_directional(
        &mut self,
        of: Directional<'_>,
        over: Which<'_>,
        noise: NoiseMultiplier,
    ) -> Result<Number, AskError> {
        self.facts.check_point(of.point)?;
        self.facts.check_point(of.direction)?;
        let radius = of.radius.get();
        let Drawn { copies, size, std } = self.read(over, radius, noise)?;
        let (mut sum, mut gradient) = ([0.0], vec![0.0; of.point.len()]);
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                gradient.fill(0.0);
                self.population.gradient(i, of.point, &mut gradient);
                let along = dot(&gradient, of.direction);
                add_clipped(&[along], radius, copies as f64 / size, &mut sum);
            }
        }
        self.books.count(size, 1.0, 0.0);
        Ok(Number::new(sum[0] + std * self.normal(), std))
    }

    fn open(&mut self, terms: &PeriodTerms) -> Result<SimulatedPeriod, AskError> {
        let PeriodTerms {
            kind,
            len,
            participation,
            share,
            noise_multiplier,
        } = *terms;
        let dim = self.facts.dim;
        let unit = FloatPrefixNoise::new(kind, len, participation, dim, 1.0)?
            .noise()
            .unit_noise(noise_multiplier)?;
        let scale = positive(unit.get() * self.facts.adjacency.sum_sensitivity() * share.get())?;
        let noise = FloatPrefixNoise::new(kind, len, participation, dim, scale)?;
        let bound = Bound::new(share, 1)?;
        let curator = self.books.curator_mut();
        // The event is the same, and less noise is made for nobody.
        let charged = match kind {
            PrefixKind::Toeplitz | PrefixKind::Banded { .. }
                if participation == Participation::Single =>
            {
                PrefixKind::Independent
            }
            kind => kind,
        };
        Ok(SimulatedPeriod {
            books: curator.prefix(charged, bound, len, noise_multiplier, participation)?,
            noise,
            sum: vec![0.0; dim],
            share: share.get(),
        })
    }

    /// The step of a period, made of the copies that it reads, the public number that a mean divides by, and the radius.
    fn take_step(
        &mut self,
        period: &mut SimulatedPeriod,
        (radius, over): (f64, Which<'_>),
        mean_of: impl FnOnce(&Self, &[u64], f64, f64) -> Vec<f64>,
    ) -> Result<(Mean, f64), AskError> {
        self.prepare(over)?;
        let body = Body::of(self.facts.records);
        let curator = self.books.curator_mut();
        let ticket = period.books.grant(over, body, curator)?;
        let size = self.nominal(over);
        // The curator has taken the next slice already.
        let copies = match (over, ticket.sample().slice()) {
            (Which::Next(_), Some(slice)) => self.take(slice)?,
            _ => self.draw(over)?,
        };
        let zero = LatticeSum::new(period.books.bound());
        let curator = self.books.curator_mut();
        period.books.redeem(ticket, zero, curator)?;
        let radius = radius.min(period.share * size);
        let step = mean_of(self, &copies, size, radius);
        add_scaled(&mut period.sum, 1.0, &step);
        let mut mean = vec![0.0; step.len()];
        let draw = |out: &mut [f64]| {
            for x in out {
                *x = StandardNormal.sample(&mut self.noise);
            }
        };
        period.noise.next(draw, &mut mean)?;
        add_scaled(&mut mean, 1.0, &period.sum);
        // A step that was taken has a standard deviation.
        let std = period.noise.standard_deviation(period.noise.steps());
        Ok((Mean::new(mean, std.unwrap_or(f64::NAN)), size))
    }
}

fn positive(std: f64) -> Result<f64, Refused> {
    if std > 0.0 && std.is_finite() {
        return Ok(std);
    }
    Err(NoiseError::ScaleOutOfRange {
        scale: std,
        min: f64::MIN_POSITIVE,
        max: f64::MAX,
    }
    .into())
}

impl<P: Population> Oracle for SimulatedOracle<P> {
    fn facts(&self) -> OracleFacts {
        self.facts
    }

    fn books(&mut self) -> &mut Books {
        &mut self.books
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        Ok(match question {
            Question::Mean { of, over, noise } => {
                let (mut mean, std) = self.read_mean(of, &[], over, noise)?;
                for x in &mut mean {
                    *x += std * self.normal();
                }
                Answer::Mean(Mean::new(mean, std))
            }
            Question::Slopes { of, over, noise } => {
                Answer::Mean(self.release_slopes(of, over, noise)?)
            }
            Question::Smoothed {
                of,
                smoothing,
                over,
                noise,
            } => Answer::Mean(self.release_smoothed((of, smoothing), over, noise)?),
            Question::Norm {
                of,
                within,
                shift,
                over,
                noise,
            } => {
                let (mean, std) = self.read_mean(of, shift, over, noise)?;
                let within = within.unwrap_or(0..mean.len());
                // As the curator reads a range that goes beyond the end.
                let end = within.end.min(mean.len());
                let part = &mean[within.start.min(end)..end];
                Answer::Number(Number::new(norm(part) + std * self.normal(), std))
            }
            Question::LeastNorm { among, epsilon } => Answer::Chosen(self.select(among, epsilon)?),
            Question::Value {
                point,
                centre,
                radius,
                over,
                noise,
            } => Answer::Number(self.release_value(point, centre, radius, over, noise)?),
            Question::ValueChange { of, over, noise } => {
                Answer::Number(self.release_value_change(of, over, noise)?)
            }
            Question::Directional { of, over, noise } => {
                Answer::Number(self.release_directional(of, over, noise)?)
            }
            Question::Hessian { of, over, noise } if self.population.has_hessians() => {
                Answer::Mean(self.release_hessian(of, over, noise)?)
            }
            Question::Chain { of, noise } if self.population.has_hessians() => {
                Answer::Mean(self.release_chain(of, noise)?)
            }
            Question::HessianVector { of, over, noise } if self.population.has_hessians() => {
                Answer::Mean(self.release_product(of, over, noise)?)
            }
            Question::OpenPeriod(terms) => Answer::Period(Period::new(self.open(terms)?)),
            Question::Step { period, of, over } => {
                let period = period.inside().ok_or(AskError::ForeignPeriod)?;
                self.admit(of, &[])?;
                let radius = of.radius().get();
                let (mean, size) =
                    self.take_step(period, (radius, over), |oracle, copies, size, radius| {
                        oracle.clipped_mean(of, copies, size, radius)
                    })?;
                self.books.count(size, of.gradients(), 0.0);
                Answer::Mean(mean)
            }
            Question::SmoothedStep {
                period,
                of,
                smoothing,
                over,
            } => {
                let period = period.inside().ok_or(AskError::ForeignPeriod)?;
                let drawn = &self.draw_smoothed(of, smoothing, over)?;
                let query = smoothing.query(&of, drawn)?;
                let radius = of.radius().get();
                let (mean, size) =
                    self.take_step(period, (radius, over), |oracle, copies, size, radius| {
                        oracle.smoothed_mean(query, copies, size, radius)
                    })?;
                self.books.count(size, query.gradients(), query.values());
                Answer::Mean(mean)
            }
            other => return Err(AskError::NotOffered { what: other.kind() }),
        })
    }
}

#[path = "hessians.rs"]
mod hessians;
#[path = "smoothed.rs"]
mod smoothed;
#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
