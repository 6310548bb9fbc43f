//! Means with floating-point noise, over a population of any size.

use dpopt_linalg::{add_scaled, norm};
use dpopt_oracle::{Ask, Counts, Mean, Means, Number, Over, PeriodTerms};
use dpopt_privacy::noise::{KeyedStream, NoiseError, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::selection::SelectionError;
use dpopt_privacy::{
    Adjacency, Bound, ClipNorm, Curator, Epsilon, Event, LatticeSum, NoiseMultiplier, PoolError,
    Prefix, Reads, Refused, Slice, Spend, Touched,
};
use rand_distr::{Distribution as _, StandardNormal};

use super::population::Population;
use super::prefix::FloatPrefixNoise;
use super::weighted::{Unread, add_clipped, length, poisson};

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

/// The private means of a [`Population`], **for simulation only**.
///
/// # Formula
/// As [`Means`] says, with clipping and sums in floating point and Gaussian noise of the size that
/// a protected run has: z s C/m per coordinate. What is read has the law that it has for the
/// expanded data set: all copies, binomial numbers of them, or hypergeometric ones (slices are
/// disjoint, of records in a uniformly random order). The noise of prefix sums has the law of the
/// factorisation, without its rounding.
///
/// # Privacy
/// None: the noise is floating point and can be repeated from the seed. Reservations, caps, slices
/// and periods are kept by a simulated [`Curator`], by the rules of a protected run; it states no
/// guarantee.
///
/// # Complexity
/// A mean costs one gradient of each distinct record (two for a change); Poisson and fixed-size
/// samples besides one random number for each distinct record, whatever its multiplicity.
pub struct SimulatedMeans<P> {
    population: P,
    records: u64,
    curator: Curator,
    key: ReplayKeyForTests,
    noise: KeyedStream,
    /// Samples drawn so far; each has a stream of its own.
    samples: u32,
    unread: Option<Unread>,
    counts: Counts,
    rule: NoiseRule,
}

/// Records of a simulated pool, which may be read several times.
#[derive(Debug)]
pub struct SimulatedSlice {
    slice: Slice,
    copies: Vec<u64>,
}

/// An open period of simulated prefix sums.
pub struct SimulatedPeriod {
    /// Keeps the books: a period of sums of zeros in one dimension.
    books: Prefix,
    noise: FloatPrefixNoise,
    sum: Vec<f64>,
    share: f64,
}

impl<P: Population> SimulatedMeans<P> {
    /// Means over `population` under `adjacency`. Equal seeds give equal runs.
    #[must_use]
    pub fn new(population: P, adjacency: Adjacency, seed: u64) -> Self {
        let key = ReplayKeyForTests::from_seed(seed);
        let noise = key.stream(StreamId::new(Purpose::Noise, 0));
        Self {
            records: population.multiplicities().iter().sum(),
            population,
            curator: Curator::simulated(adjacency, seed),
            key,
            noise,
            samples: 0,
            unread: None,
            counts: Counts::default(),
            rule: NoiseRule::Displacement,
        }
    }

    /// Scales the noise of variations by `rule` instead.
    #[must_use]
    pub fn with_rule(mut self, rule: NoiseRule) -> Self {
        self.rule = rule;
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
        self.curator.spent()
    }

    /// The exact mean over all records of what is asked, clipped, without noise.
    #[must_use]
    pub fn exact(&self, ask: &Ask<'_>) -> Vec<f64> {
        self.clipped_mean(
            ask,
            self.population.multiplicities(),
            self.records as f64,
            ask.radius().get(),
        )
    }

    /// (1/size) sum_i copies_i clip(q(x_i)).
    fn clipped_mean(&self, ask: &Ask<'_>, copies: &[u64], size: f64, radius: f64) -> Vec<f64> {
        let dim = self.population.dim();
        let mut sum = vec![0.0; dim];
        let (mut before, mut out) = (sum.clone(), sum.clone());
        for (i, &copies) in copies.iter().enumerate() {
            if copies == 0 {
                continue;
            }
            match ask {
                Ask::Field { point, .. } => self.population.gradient(i, point, &mut out),
                Ask::Change { segment, clip, .. } => {
                    self.population.gradient(i, segment.from, &mut before);
                    self.population.gradient(i, segment.to, &mut out);
                    let kept = |norm: f64| (clip.get() / norm).min(1.0);
                    let (old, new) = (kept(length(&before)), kept(length(&out)));
                    if old == 1.0 && new == 1.0 {
                        self.population.change(i, segment, &before, &mut out);
                    } else {
                        for (out, before) in out.iter_mut().zip(&before) {
                            *out = *out * new - before * old;
                        }
                    }
                }
                Ask::Momentum {
                    segment,
                    clip,
                    momentum,
                    ..
                } => {
                    self.population.gradient(i, segment.from, &mut before);
                    self.population.gradient(i, segment.to, &mut out);
                    let kept = |norm: f64| (clip.get() / norm).min(1.0);
                    let (old, new) = (kept(length(&before)), kept(length(&out)));
                    let kept = momentum.kept();
                    if old == 1.0 && new == 1.0 {
                        let mut change = out.clone();
                        self.population.change(i, segment, &before, &mut change);
                        momentum.combine(&mut out, &change);
                    } else {
                        for (out, before) in out.iter_mut().zip(&before) {
                            *out = *out * new - kept * (before * old);
                        }
                    }
                }
            }
            add_clipped(&out, radius, copies as f64 / size, &mut sum);
        }
        sum
    }

    /// Charges a release within `radius` over `over` and draws what it reads: the copies, the public
    /// number that the mean divides by, and the noise of the mean. Nothing is charged, and no slice
    /// taken, where it is refused.
    fn read(
        &mut self,
        over: Over<'_, SimulatedSlice>,
        radius: f64,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<(Vec<u64>, f64, f64), Refused> {
        self.prepare(over)?;
        let size = self.nominal(over);
        let noise = self.adjacency().sum_sensitivity() * radius * noise_multiplier.get();
        // A sample of no records is refused as such.
        let std = if size > 0.0 {
            positive(noise / size)?
        } else {
            0.0
        };
        let reads = self.reads(over);
        self.curator.charge_simulated(reads, noise_multiplier)?;
        let (copies, _) = self.draw(over)?;
        Ok((copies, size, std))
    }

    /// The public number that a mean divides by.
    fn nominal(&self, over: Over<'_, SimulatedSlice>) -> f64 {
        match over {
            Over::Everything => self.records as f64,
            Over::Poisson(rate) => self.records as f64 * rate.get(),
            Over::FixedSize(size) | Over::Next(size) => size as f64,
            Over::Slice(slice) => slice.slice.len() as f64,
        }
    }

    fn reads<'s>(&self, over: Over<'s, SimulatedSlice>) -> Reads<'s> {
        match over {
            Over::Everything => Reads::All,
            Over::Poisson(rate) => Reads::Poisson(rate),
            Over::FixedSize(size) => Reads::FixedSize {
                size,
                records: self.records,
            },
            Over::Next(_) => Reads::NextSlice,
            Over::Slice(slice) => Reads::Slice(&slice.slice),
        }
    }

    /// Opens the pool and refuses what it can't hand out.
    fn prepare(&mut self, over: Over<'_, SimulatedSlice>) -> Result<(), Refused> {
        let Over::Next(asked) = over else {
            return Ok(());
        };
        self.open_pool()?;
        let left = self.curator.records_left();
        if asked == 0 {
            return Err(PoolError::EmptySlice.into());
        }
        if asked > left {
            return Err(PoolError::UsedUp { asked, left }.into());
        }
        Ok(())
    }

    fn open_pool(&mut self) -> Result<(), Refused> {
        if self.unread.is_none() {
            self.curator.open_pool(self.records, 0)?;
            self.unread = Some(Unread::new(self.population.multiplicities()));
        }
        Ok(())
    }

    /// The copies that are read, and what the books should say of them.
    fn draw(&mut self, over: Over<'_, SimulatedSlice>) -> Result<(Vec<u64>, Touched), Refused> {
        let all = self.population.multiplicities().to_vec();
        Ok(match over {
            Over::Everything => (all, Touched::All),
            Over::Poisson(rate) => (poisson(&all, rate, &mut self.sampling()), Touched::All),
            Over::FixedSize(size) => {
                let records = self.records;
                let copies = Unread::new(&all)
                    .take(size, &mut self.sampling())
                    .map_err(|_| Refused::SampleSize { size, records })?;
                (copies, Touched::All)
            }
            Over::Next(len) => {
                let SimulatedSlice { slice, copies } = self.take(len)?;
                (copies, Touched::Slice(slice))
            }
            Over::Slice(SimulatedSlice { slice, copies }) => {
                (copies.clone(), Touched::Slice(slice.clone()))
            }
        })
    }

    fn take(&mut self, len: u64) -> Result<SimulatedSlice, Refused> {
        self.open_pool()?;
        let slice = self.curator.take_slice(len)?;
        let mut stream = self.sampling();
        let copies = match &mut self.unread {
            Some(unread) => unread.take(len, &mut stream),
            None => return Err(PoolError::NotOpen.into()),
        };
        let asked = len;
        let left = self.curator.records_left();
        let copies = copies.map_err(|_| PoolError::UsedUp { asked, left })?;
        Ok(SimulatedSlice { slice, copies })
    }

    /// The stream of the next sample.
    fn sampling(&mut self) -> KeyedStream {
        let id = StreamId::new(Purpose::Sampling, self.samples);
        self.samples = self.samples.wrapping_add(1);
        self.key.stream(id)
    }

    /// What a protected run refuses before it looks at the books.
    fn admit(&self, ask: &Ask<'_>) -> Result<(), Refused> {
        let dim = self.population.dim();
        if !ask.fits(dim) {
            return Err(Refused::QueryShape { dim });
        }
        if self.adjacency() == Adjacency::ZeroOut && !self.population.vanishes_on_erased() {
            return Err(Refused::ZeroRows);
        }
        Ok(())
    }

    fn count(&mut self, read: f64, gradients: f64, values: f64) {
        self.counts.releases += 1;
        self.counts.records += read;
        self.counts.gradients += read * gradients;
        self.counts.values += read * values;
        self.counts.passes = self.counts.gradients / self.records as f64;
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.noise)
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

fn gradients_of(ask: &Ask<'_>) -> f64 {
    match ask {
        Ask::Field { .. } => 1.0,
        Ask::Change { .. } | Ask::Momentum { .. } => 2.0,
    }
}

impl<P: Population> Means for SimulatedMeans<P> {
    type Slice = SimulatedSlice;
    type Period = SimulatedPeriod;

    fn dim(&self) -> usize {
        self.population.dim()
    }

    fn records(&self) -> u64 {
        self.records
    }

    fn adjacency(&self) -> Adjacency {
        self.curator.adjacency()
    }

    fn lipschitz(&self) -> f64 {
        self.population.lipschitz()
    }

    fn smoothness(&self) -> f64 {
        match self.rule {
            NoiseRule::Displacement => self.population.smoothness(),
            NoiseRule::Lipschitz => f64::INFINITY,
        }
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        self.curator.reserve(spend)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        self.curator.settle()
    }

    fn records_left(&self) -> u64 {
        self.unread.as_ref().map_or(self.records, Unread::total)
    }

    fn take_slice(&mut self, len: u64) -> Result<SimulatedSlice, Refused> {
        self.take(len)
    }

    fn slice_len(&self, slice: &SimulatedSlice) -> u64 {
        slice.slice.len()
    }

    fn mean(
        &mut self,
        ask: &Ask<'_>,
        over: Over<'_, SimulatedSlice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, Refused> {
        self.admit(ask)?;
        let radius = ask.radius().get();
        let (copies, size, std) = self.read(over, radius, noise_multiplier)?;
        let mut mean = self.clipped_mean(ask, &copies, size, radius);
        for x in &mut mean {
            *x += std * self.normal();
        }
        self.count(size, gradients_of(ask), 0.0);
        Ok(Mean::new(mean, std))
    }

    fn mean_norm(
        &mut self,
        ask: &Ask<'_>,
        shift: &[f64],
        over: Over<'_, SimulatedSlice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        self.admit(ask)?;
        let radius = ask.radius().get();
        let (copies, size, std) = self.read(over, radius, noise_multiplier)?;
        let mut mean = self.clipped_mean(ask, &copies, size, radius);
        if !shift.is_empty() {
            add_scaled(&mut mean, 1.0, shift);
        }
        self.count(size, gradients_of(ask), 0.0);
        Ok(Number::new(norm(&mean) + std * self.normal(), std))
    }

    /// By Gumbel noise on the scores, which has the law of the exponential mechanism.
    fn least_norm(
        &mut self,
        among: &[(Ask<'_>, &[f64])],
        epsilon: Epsilon,
    ) -> Result<usize, Refused> {
        let Some((first, _)) = among.first() else {
            return Err(SelectionError::NoCandidates.into());
        };
        let radius = first.radius().get();
        for (ask, _) in among {
            self.admit(ask)?;
            if ask.radius().get() != radius {
                return Err(SelectionError::NormsDiffer.into());
            }
        }
        self.curator.charge_simulated_selection(epsilon)?;
        let sensitivity = self.adjacency().sum_sensitivity() * radius / self.records as f64;
        let mut best = (f64::NEG_INFINITY, 0);
        for (i, (ask, shift)) in among.iter().enumerate() {
            let mut mean = self.exact(ask);
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
        self.count(self.records as f64 * among.len() as f64, 1.0, 0.0);
        Ok(best.1)
    }

    fn mean_value(
        &mut self,
        point: &[f64],
        centre: f64,
        radius: ClipNorm,
        over: Over<'_, SimulatedSlice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        let dim = self.population.dim();
        if point.len() != dim {
            return Err(Refused::QueryShape { dim });
        }
        if self.adjacency() == Adjacency::ZeroOut {
            return Err(Refused::ZeroRows);
        }
        let (copies, size, std) = self.read(over, radius.get(), noise_multiplier)?;
        let mut sum = [0.0];
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                let value = self.population.value(i, point) - centre;
                add_clipped(&[value], radius.get(), copies as f64 / size, &mut sum);
            }
        }
        self.count(size, 0.0, 1.0);
        Ok(Number::new(centre + sum[0] + std * self.normal(), std))
    }

    fn open_period(&mut self, terms: &PeriodTerms) -> Result<SimulatedPeriod, Refused> {
        let PeriodTerms {
            kind,
            len,
            participation,
            share,
            noise_multiplier,
        } = *terms;
        let dim = self.population.dim();
        let unit = FloatPrefixNoise::new(kind, len, participation, dim, 1.0)?
            .noise()
            .unit_noise(noise_multiplier)?;
        let scale = positive(unit.get() * self.adjacency().sum_sensitivity() * share.get())?;
        let noise = FloatPrefixNoise::new(kind, len, participation, dim, scale)?;
        let bound = Bound::new(share, 1)?;
        let books = self
            .curator
            .prefix(kind, bound, len, noise_multiplier, participation)?;
        Ok(SimulatedPeriod {
            books,
            noise,
            sum: vec![0.0; dim],
            share: share.get(),
        })
    }

    fn push(
        &mut self,
        period: &mut SimulatedPeriod,
        ask: &Ask<'_>,
        over: Over<'_, SimulatedSlice>,
    ) -> Result<Mean, Refused> {
        self.admit(ask)?;
        self.prepare(over)?;
        let bound = period.books.bound();
        let reads = self.reads(over);
        period.books.check_step(reads, bound, &mut self.curator)?;
        let size = self.nominal(over);
        let (copies, touched) = self.draw(over)?;
        let zero = LatticeSum::new(bound).finish(self.adjacency(), touched);
        period.books.push(zero, &mut self.curator)?;
        let radius = ask.radius().get().min(period.share * size);
        let step = self.clipped_mean(ask, &copies, size, radius);
        add_scaled(&mut period.sum, 1.0, &step);
        let mut mean = vec![0.0; step.len()];
        let draw = |out: &mut [f64]| {
            for x in out {
                *x = StandardNormal.sample(&mut self.noise);
            }
        };
        period.noise.next(draw, &mut mean)?;
        add_scaled(&mut mean, 1.0, &period.sum);
        self.count(size, gradients_of(ask), 0.0);
        // A step that was taken has a standard deviation.
        let std = period.noise.standard_deviation(period.noise.steps());
        Ok(Mean::new(mean, std.unwrap_or(f64::NAN)))
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        self.curator.draw_index(bound)
    }

    fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused> {
        self.curator.draw_normals(out)
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
