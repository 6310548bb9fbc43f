//! What may be asked of private records, and what comes back.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use dpopt_privacy::{
    ClipNorm, Epsilon, NoiseMultiplier, Participation, PrefixKind, Together, Which,
};

use super::{Pass, Smoothing};
use crate::query::{
    ChainProduct, Directional, HessianMatrix, HessianVector, Linear, Slopes, ValueChange,
};

/// A question about the records behind an [`Oracle`](super::Oracle).
///
/// # Privacy
/// Points, radii, multipliers, shifts and sizes must be functions of releases and public values.
#[derive(Debug)]
#[non_exhaustive]
pub enum Question<'a> {
    /// The mean of a linear query over some records.
    Mean {
        /// What each record is asked for.
        of: Linear<'a>,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The norm of the mean plus a public shift: as sensitive as the mean, one number with the noise of one coordinate.
    Norm {
        /// What each record is asked for.
        of: Linear<'a>,
        /// The coordinates whose norm it is; none: all.
        within: Option<Range<usize>>,
        /// Added to the mean; empty for none.
        shift: &'a [f64],
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The index of one of these queries, each with a public shift (which may be empty), whose mean over all records has
    /// a small norm, by the exponential mechanism: P(i) proportional to
    /// exp(-epsilon ||mean_i + shift_i||/(2 s C/n)). All have one clip radius C.
    LeastNorm {
        /// The queries.
        among: &'a [(Linear<'a>, &'a [f64])],
        /// epsilon of the mechanism.
        epsilon: Epsilon,
    },
    /// The mean of slopes along shared directions: m numbers.
    Slopes {
        /// What each record is asked for.
        of: Slopes<'a>,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The mean Hessian, laid out as [`HessianMatrix`] does: d (d + 1)/2 numbers.
    Hessian {
        /// What each record is asked for.
        of: HessianMatrix<'a>,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The product of a chained Hessian, whose links are means over slices of their own, with a public vector.
    Chain {
        /// What is asked for.
        of: ChainProduct<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The mean product of the Hessian with a public vector: d numbers.
    HessianVector {
        /// What each record is asked for.
        of: HessianVector<'a>,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The mean of a linear query of the field that has each record's loss averaged along its own row.
    Averaged {
        /// What each record is asked for.
        of: Linear<'a>,
        /// r: over how much to both sides.
        reach: ClipNorm,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The mean of a linear query of the smoothed field, each record with an offset or a frame of its own.
    Smoothed {
        /// What each record is asked for.
        of: Linear<'a>,
        /// How the loss is smoothed.
        smoothing: Smoothing,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The mean loss, each record's loss counting as the nearest number in [centre - radius, centre + radius].
    Value {
        /// The point.
        point: &'a [f64],
        /// Middle of the range.
        centre: f64,
        /// Half of its length.
        radius: ClipNorm,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// How the mean loss changes from one point to another, each record's change counting as the nearest number in [-radius, radius].
    ValueChange {
        /// What each record is asked for.
        of: ValueChange<'a>,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// The mean slope along a public direction, each record's counting as the nearest number in [-radius, radius]: one number.
    Directional {
        /// What each record is asked for.
        of: Directional<'a>,
        /// The records.
        over: Which<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
    /// Opens a period of prefix sums of means, with fresh noise. It is charged here, once, where every step reads all
    /// records; otherwise by each slice at the first step that reads it.
    OpenPeriod(&'a PeriodTerms),
    /// Adds the mean of the query to the period and releases the sum of all its steps so far. The sum without noise
    /// never leaves the period. A record adds at most the period's share, whatever the query's own radius is.
    Step {
        /// The period.
        period: &'a mut Period,
        /// What each record is asked for.
        of: Linear<'a>,
        /// The records: those that the participation says.
        over: Which<'a>,
    },
    /// [`Question::Step`], of the smoothed field.
    SmoothedStep {
        /// The period.
        period: &'a mut Period,
        /// What each record is asked for.
        of: Linear<'a>,
        /// How the loss is smoothed.
        smoothing: Smoothing,
        /// The records: those that the participation says.
        over: Which<'a>,
    },
    /// One pass over unread records in order, released with output perturbation.
    Pass {
        /// Its public terms.
        pass: Pass<'a>,
        /// Noise multiplier z.
        noise: NoiseMultiplier,
    },
}

impl Question<'_> {
    /// Notes the points that it asks at, which all ranks have to have.
    pub(crate) fn note(&self, together: &Together) {
        let linear = |of: &Linear<'_>| {
            together.note_numbers(of.point());
            if let Some((segment, _)) = of.before() {
                together.note_numbers(segment.from);
            }
        };
        together.note(&self.kind());
        match self {
            Question::Mean { of, .. }
            | Question::Averaged { of, .. }
            | Question::Smoothed { of, .. }
            | Question::Step { of, .. }
            | Question::SmoothedStep { of, .. } => linear(of),
            Question::Norm { of, shift, .. } => {
                linear(of);
                together.note_numbers(shift);
            }
            Question::LeastNorm { among, .. } => {
                for (of, shift) in *among {
                    linear(of);
                    together.note_numbers(shift);
                }
            }
            Question::Slopes { of, .. } => {
                together.note_numbers(of.point);
                of.directions.iter().for_each(|y| together.note_numbers(y));
            }
            Question::Hessian { of, .. } => together.note_numbers(of.point),
            Question::Chain { of, .. } => {
                together.note_numbers(of.direction);
                of.links
                    .iter()
                    .for_each(|link| together.note_numbers(link.at()));
            }
            Question::HessianVector { of, .. } => {
                together.note_numbers(of.point);
                together.note_numbers(of.direction);
            }
            Question::Value { point, centre, .. } => {
                together.note_numbers(point);
                together.note_numbers(&[*centre]);
            }
            Question::ValueChange { of, .. } => {
                together.note_numbers(of.from);
                together.note_numbers(of.to);
            }
            Question::Directional { of, .. } => {
                together.note_numbers(of.point);
                together.note_numbers(of.direction);
            }
            Question::OpenPeriod(terms) => together.note(&format_args!("{terms:?}")),
            Question::Pass { pass, .. } => together.note(&format_args!("{pass:?}")),
        }
    }

    /// The name of the kind, in the plural, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Question::Mean { .. } => "means",
            Question::Norm { .. } => "norms",
            Question::LeastNorm { .. } => "selections",
            Question::Slopes { .. } => "slopes",
            Question::Hessian { .. } => "Hessians",
            Question::Chain { .. } => "products of chained Hessians",
            Question::HessianVector { .. } => "products with Hessians",
            Question::Averaged { .. } => "averages along rows",
            Question::Smoothed { .. } | Question::SmoothedStep { .. } => "smoothed fields",
            Question::Value { .. } => "values",
            Question::ValueChange { .. } => "changes of values",
            Question::Directional { .. } => "slopes along a direction",
            Question::OpenPeriod(_) | Question::Step { .. } => "prefix sums",
            Question::Pass { .. } => "passes over single records",
        }
    }
}

/// The answer to a [`Question`].
#[derive(Debug)]
#[non_exhaustive]
pub enum Answer {
    /// To [`Question::Mean`], [`Question::Slopes`], [`Question::Hessian`], [`Question::HessianVector`], [`Question::Chain`],
    /// [`Question::Averaged`], [`Question::Smoothed`], [`Question::Pass`], and steps of periods.
    Mean(Mean),
    /// To [`Question::Norm`], [`Question::Value`], [`Question::ValueChange`] and [`Question::Directional`].
    Number(Number),
    /// To [`Question::LeastNorm`].
    Chosen(usize),
    /// To [`Question::OpenPeriod`].
    Period(Period),
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
    /// With this value and the standard deviation of the noise in each coordinate.
    #[must_use]
    pub fn new(mean: Vec<f64>, noise_std: f64) -> Self {
        Self { mean, noise_std }
    }
}

/// A released number: a norm, or a mean value.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Number {
    /// The number, with noise.
    pub number: f64,
    /// Standard deviation of the noise.
    pub noise_std: f64,
}

impl Number {
    /// With this value and the standard deviation of its noise.
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

/// An open period of prefix sums: the oracle that opened it knows what is inside. It ends when it is dropped.
pub struct Period(Box<dyn Any + Send>);

impl Period {
    /// With what an implementation of [`Oracle`](super::Oracle) keeps of it.
    #[must_use]
    pub fn new(inside: impl Any + Send) -> Self {
        Self(Box::new(inside))
    }

    /// What is inside, if it is a `T`.
    pub fn inside<T: Any>(&mut self) -> Option<&mut T> {
        self.0.downcast_mut()
    }
}

impl fmt::Debug for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Period")
    }
}
