//! What every estimator stands on: private means of one field of vectors.

use dpopt_privacy::{
    Adjacency, ClipNorm, Epsilon, Event, NoiseMultiplier, Participation, PrefixKind, Refused,
    SamplingRate, Spend,
};

use super::{Counts, Momentum};
use crate::loss::Segment;

/// Which records a mean is taken over. `S` is a slice that was taken before.
#[derive(Debug, PartialEq)]
pub enum Over<'a, S = dpopt_privacy::Slice> {
    /// All.
    Everything,
    /// A fresh Poisson sample at this rate; the mean divides by the rate times the public size.
    Poisson(SamplingRate),
    /// A fresh sample of so many records, all of that size being equally likely; under replace-one
    /// only.
    FixedSize(u64),
    /// The next so many unread records of the pool. They are handed out for good when the mean is
    /// released, and not at all when it is refused before records are read.
    Next(u64),
    /// A slice that was taken before, and may be read several times.
    Slice(&'a S),
}

impl<S> Clone for Over<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Over<'_, S> {}

/// What each record is asked for, at public points: a value of the field, or its change.
///
/// The field is the one of the [`Means`] that is asked; the gradient of a loss, for [`PrivateMean`](super::PrivateMean).
#[derive(Debug, Clone, Copy)]
pub enum Ask<'a> {
    /// The field at `point`, clipped to `clip` (an anchor).
    Field {
        /// w.
        point: &'a [f64],
        /// The clip radius C.
        clip: ClipNorm,
    },
    /// The change along `segment` of the field clipped to `clip`, clipped to `radius` once more (a
    /// variation).
    Change {
        /// From w' to w.
        segment: Segment<'a>,
        /// The clip radius C of the field at each end.
        clip: ClipNorm,
        /// The clip radius of the change: min(L1 ||w - w'||, 2 C) where nothing is to be shortened.
        radius: ClipNorm,
    },
    /// The field at the end of `segment` less (1 - a) times the field at its start, each clipped to `clip`, the
    /// whole clipped to `radius` once more (a step of recursive momentum): a times the field plus
    /// (1 - a) times its change.
    Momentum {
        /// From w' to w.
        segment: Segment<'a>,
        /// The clip radius C of the field at each end.
        clip: ClipNorm,
        /// The weight a of the fresh field.
        momentum: Momentum,
        /// The clip radius of the whole: a C + (1 - a) min(L1 ||w - w'||, 2 C) where nothing is to be shortened.
        radius: ClipNorm,
    },
}

impl Ask<'_> {
    /// The clip radius of what each record answers.
    #[must_use]
    pub fn radius(&self) -> ClipNorm {
        match self {
            Ask::Field { clip, .. } => *clip,
            Ask::Change { radius, .. } | Ask::Momentum { radius, .. } => *radius,
        }
    }

    /// Whether all its points have `dim` coordinates.
    #[must_use]
    pub fn fits(&self, dim: usize) -> bool {
        match self {
            Ask::Field { point, .. } => point.len() == dim,
            Ask::Change { segment, .. } | Ask::Momentum { segment, .. } => segment.fits(dim),
        }
    }
}

/// A released mean.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mean {
    /// One number per coordinate of the query.
    pub mean: Vec<f64>,
    /// Standard deviation of the noise in each coordinate.
    pub noise_std: f64,
}

impl Mean {
    /// What an implementation of [`Means`] returns.
    #[must_use]
    pub fn new(mean: Vec<f64>, noise_std: f64) -> Self {
        Self { mean, noise_std }
    }
}

/// A released number: a norm or a mean value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Number {
    /// The number, with noise.
    pub number: f64,
    /// Standard deviation of the noise.
    pub noise_std: f64,
}

impl Number {
    /// What an implementation of [`Means`] returns.
    #[must_use]
    pub fn new(number: f64, noise_std: f64) -> Self {
        Self { number, noise_std }
    }
}

/// What a period of prefix sums of means is opened with: public.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeriodTerms {
    /// Which factorisation the noise comes from.
    pub kind: PrefixKind,
    /// Largest number of steps.
    pub len: u64,
    /// In how many steps one record takes part.
    pub participation: Participation,
    /// The longest contribution of one record to one step's **mean**: clip radius over the number
    /// that the mean divides by, the largest over all steps. All noise of the period is scaled to it, and
    /// every step is clipped to it.
    pub share: ClipNorm,
    /// Noise multiplier z of the period as a whole, which is a Gaussian mechanism with mu = 1/z.
    pub noise_multiplier: NoiseMultiplier,
}

/// Private means of one field of vectors over one body of records, each released with noise and
/// paid for: what every estimator stands on.
///
/// A field gives each record a vector at each public point (its gradient, say). An implementation
/// holds the records and the budget; the estimators hold the points and decide what to ask next.
/// They are written once for all implementations.
///
/// # Formula
/// [`Means::mean`]: (1/m) (sum over the records read of clip(q(x), C) + noise), with m public (all
/// records, the rate times them, the size of the sample, the length of the slice), and noise of
/// standard deviation z s C in each coordinate, s = 2 under replace-one and 1 otherwise.
///
/// # Privacy
/// That of the implementation. Each call is one event, derived from what is read and the noise
/// multiplier. Points, radii, multipliers and sizes must be functions of releases and public values.
///
/// # Refusals
/// When a call returns [`Refused`] nothing was released, charged, or handed out of the pool; but where
/// records stay in a file and can't be read ([`Refused::Unreadable`]), the slice of the pass counts as read. A
/// release that the reservation can't pay is refused before a record is read, and so is a point of
/// the wrong length ([`Refused::QueryShape`]).
///
/// No method has a default, so that no wrapper can forget to forward one.
pub trait Means {
    /// A slice of the records that may be read several times.
    type Slice;
    /// An open period of prefix sums. It ends when it is dropped.
    type Period;

    /// Coordinates of points and means, d.
    fn dim(&self) -> usize;

    /// The public number of records.
    fn records(&self) -> u64;

    /// The neighbouring relation of all releases.
    fn adjacency(&self) -> Adjacency;

    /// The field of each record is at most this long (L0, for gradients), if the caller's constants are
    /// right; infinite where no bound is known.
    fn lipschitz(&self) -> f64;

    /// The field of each record is Lipschitz with this constant (L1, for gradients), if the caller's
    /// constants are right; infinite where none is known.
    fn smoothness(&self) -> f64;

    /// Sets aside what the run will spend, before its first release.
    ///
    /// # Errors
    /// [`Refused`] when the budget can't pay.
    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused>;

    /// Ends the run and says what was spent.
    ///
    /// # Errors
    /// [`Refused`] when a shared budget can't be written; the reservation then stands.
    fn settle(&mut self) -> Result<Event, Refused>;

    /// Records that no slice holds yet.
    fn records_left(&self) -> u64;

    /// Takes the next `len` unread records of the pool, to read them as often as is paid for.
    ///
    /// # Errors
    /// [`Refused::Pool`] when fewer are left (they stay available), for none, and under an adjacency
    /// without fixed positions.
    fn take_slice(&mut self, len: u64) -> Result<Self::Slice, Refused>;

    /// Length of a slice.
    fn slice_len(&self, slice: &Self::Slice) -> u64;

    /// Releases the mean of what is asked.
    ///
    /// # Errors
    /// [`Refused`].
    fn mean(
        &mut self,
        ask: &Ask<'_>,
        over: Over<'_, Self::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, Refused>;

    /// Releases the norm of the mean of what is asked plus a public `shift` (empty for none), which is as sensitive as the
    /// mean: one number with the noise of one coordinate.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::NotOffered`] where an implementation has no such release.
    fn mean_norm(
        &mut self,
        ask: &Ask<'_>,
        shift: &[f64],
        over: Over<'_, Self::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused>;

    /// Selects, by the exponential mechanism, one of these asks (each with a public shift, which may be empty) whose mean over
    /// all records has a small norm. All have one clip radius.
    ///
    /// # Formula
    /// P(i) proportional to exp(-epsilon ||mean_i + shift_i||/(2 sensitivity)), with the sensitivity of a mean: s C/n.
    ///
    /// # Errors
    /// [`Refused`]; [`Refused::NotOffered`] where an implementation has no such release.
    fn least_norm(
        &mut self,
        among: &[(Ask<'_>, &[f64])],
        epsilon: Epsilon,
    ) -> Result<usize, Refused>;

    /// Releases the mean loss at `point`, where each record's loss counts as the nearest number in
    /// [centre - radius, centre + radius].
    ///
    /// # Errors
    /// [`Refused`].
    fn mean_value(
        &mut self,
        point: &[f64],
        centre: f64,
        radius: ClipNorm,
        over: Over<'_, Self::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused>;

    /// Opens a period of prefix sums of means, with fresh noise.
    ///
    /// # Privacy
    /// Charged here, once, where every step reads all records; otherwise by each slice at the first
    /// step that reads it.
    ///
    /// # Errors
    /// [`Refused`].
    fn open_period(&mut self, terms: &PeriodTerms) -> Result<Self::Period, Refused>;

    /// Adds the mean of what is asked to the period and releases the sum of all its steps so far.
    /// The sum without noise never leaves the period.
    ///
    /// # Privacy
    /// A record adds at most the period's share to the mean, whatever the ask's own radius is: the
    /// shorter of the two clips.
    ///
    /// # Errors
    /// [`Refused`]; also for records other than the participation says, and after the last step.
    fn push(
        &mut self,
        period: &mut Self::Period,
        ask: &Ask<'_>,
        over: Over<'_, Self::Slice>,
    ) -> Result<Mean, Refused>;

    /// A number below `bound`, uniform and independent of the data.
    fn draw_index(&mut self, bound: u64) -> u64;

    /// Fills `out` with standard normals that are independent of the data, for perturbations: public,
    /// and not noise of a release.
    ///
    /// # Errors
    /// [`Refused`] when there are none left.
    fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused>;

    /// Nominal counts so far.
    fn counts(&self) -> Counts;
}

/// Lent to an estimator: what it was lent stays with the owner, for other releases and for its curator.
impl<M: Means + ?Sized> Means for &mut M {
    type Slice = M::Slice;
    type Period = M::Period;

    fn dim(&self) -> usize {
        (**self).dim()
    }

    fn records(&self) -> u64 {
        (**self).records()
    }

    fn adjacency(&self) -> Adjacency {
        (**self).adjacency()
    }

    fn lipschitz(&self) -> f64 {
        (**self).lipschitz()
    }

    fn smoothness(&self) -> f64 {
        (**self).smoothness()
    }

    fn reserve(&mut self, spend: &Spend) -> Result<(), Refused> {
        (**self).reserve(spend)
    }

    fn settle(&mut self) -> Result<Event, Refused> {
        (**self).settle()
    }

    fn records_left(&self) -> u64 {
        (**self).records_left()
    }

    fn take_slice(&mut self, len: u64) -> Result<Self::Slice, Refused> {
        (**self).take_slice(len)
    }

    fn slice_len(&self, slice: &Self::Slice) -> u64 {
        (**self).slice_len(slice)
    }

    fn mean(
        &mut self,
        ask: &Ask<'_>,
        over: Over<'_, Self::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Mean, Refused> {
        (**self).mean(ask, over, noise_multiplier)
    }

    fn mean_norm(
        &mut self,
        ask: &Ask<'_>,
        shift: &[f64],
        over: Over<'_, Self::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        (**self).mean_norm(ask, shift, over, noise_multiplier)
    }

    fn least_norm(
        &mut self,
        among: &[(Ask<'_>, &[f64])],
        epsilon: Epsilon,
    ) -> Result<usize, Refused> {
        (**self).least_norm(among, epsilon)
    }

    fn mean_value(
        &mut self,
        point: &[f64],
        centre: f64,
        radius: ClipNorm,
        over: Over<'_, Self::Slice>,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<Number, Refused> {
        (**self).mean_value(point, centre, radius, over, noise_multiplier)
    }

    fn open_period(&mut self, terms: &PeriodTerms) -> Result<Self::Period, Refused> {
        (**self).open_period(terms)
    }

    fn push(
        &mut self,
        period: &mut Self::Period,
        ask: &Ask<'_>,
        over: Over<'_, Self::Slice>,
    ) -> Result<Mean, Refused> {
        (**self).push(period, ask, over)
    }

    fn draw_index(&mut self, bound: u64) -> u64 {
        (**self).draw_index(bound)
    }

    fn draw_normals(&mut self, out: &mut [f64]) -> Result<(), Refused> {
        (**self).draw_normals(out)
    }

    fn counts(&self) -> Counts {
        (**self).counts()
    }
}
