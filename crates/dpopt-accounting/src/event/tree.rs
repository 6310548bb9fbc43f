//! What may have happened: the kinds of events, with the numbers of each.

use super::error::EventProblem;
use crate::units::{Epsilon, NoiseMultiplier, Rho, SamplingRate};

/// Numbers of steps of one tree or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepCounts {
    /// One tree with so many steps.
    One(u64),
    /// Several trees, each with its number of steps.
    Many(Box<[u64]>),
}

impl StepCounts {
    /// The counts as a list.
    #[must_use]
    pub fn as_slice(&self) -> &[u64] {
        match self {
            StepCounts::One(steps) => std::slice::from_ref(steps),
            StepCounts::Many(steps) => steps,
        }
    }
}

/// What was done to the data, as far as privacy is concerned.
#[non_exhaustive]
pub enum Event {
    /// Nothing was released.
    NoOp,
    /// Something was released without protection.
    NonPrivate,
    /// Gaussian noise with standard deviation `noise_multiplier` times the L2 sensitivity
    /// (of the unsampled query, under the stated adjacency) was added.
    Gaussian {
        /// Standard deviation over sensitivity.
        noise_multiplier: NoiseMultiplier,
    },
    /// Laplace noise of scale `noise_multiplier` times the L1 sensitivity was added to each
    /// coordinate.
    Laplace {
        /// Scale over L1 sensitivity.
        noise_multiplier: NoiseMultiplier,
    },
    /// Discrete Gaussian noise on the integers (Canonne, Kamath and Steinke 2020), of parameter
    /// sigma `noise_multiplier` times the L2 sensitivity, was added to each coordinate of an
    /// integer vector. Not in `dp_accounting`.
    DiscreteGaussian {
        /// Parameter sigma over L2 sensitivity.
        noise_multiplier: NoiseMultiplier,
    },
    /// Noise with mass `tanh(a/2) e^(-a |x|)` at each integer x was added to each coordinate of an
    /// integer vector of the L1 sensitivity `sensitivity`.
    DiscreteLaplace {
        /// The parameter a: positive and finite.
        noise_parameter: f64,
        /// L1 sensitivity: at least 1.
        sensitivity: u64,
    },
    /// The record's bucket with probability `1 - noise_parameter`, otherwise a uniform one. The
    /// empty record of the zero-out relation answers as some bucket, fixed or random.
    RandomizedResponse {
        /// Probability of a uniform answer: between 0 and 1.
        noise_parameter: f64,
        /// Number of buckets: at least 1.
        num_buckets: u64,
    },
    /// The inner event was applied to a Poisson sample of the records.
    PoissonSampled {
        /// Probability with which each record enters, independently.
        sampling_probability: SamplingRate,
        /// What was done with the sample.
        event: Box<Event>,
    },
    /// The inner event was applied to `sample_size` records drawn with replacement.
    SampledWithReplacement {
        /// Records to draw from.
        source_dataset_size: u64,
        /// Draws.
        sample_size: u64,
        /// What was done with the sample.
        event: Box<Event>,
    },
    /// The inner event was applied to `sample_size` different records, uniformly drawn.
    SampledWithoutReplacement {
        /// Records to draw from.
        source_dataset_size: u64,
        /// Records drawn; at most as many as there are.
        sample_size: u64,
        /// What was done with the sample.
        event: Box<Event>,
    },
    /// A Gaussian on a Poisson sample of which at most `truncated_batch_size` records are kept: which, does not depend on their contents.
    TruncatedSubsampledGaussian {
        /// Number of records, or a public bound on it; under add-remove that of the larger data set.
        dataset_size: u64,
        /// Probability with which each record is sampled.
        sampling_probability: SamplingRate,
        /// Most records in a batch: at least their mean number.
        truncated_batch_size: u32,
        /// Standard deviation over the sensitivity of the query without sampling.
        noise_multiplier: NoiseMultiplier,
    },
    /// The inner event happened at each of `num_steps` steps, and each record took part in `num_participations` of
    /// them: a uniformly drawn set of that size, independently of other records. Shuffling into batches of random sizes (balls in
    /// bins) is one participation. Not in `dp_accounting`.
    RandomAllocation {
        /// How many steps.
        num_steps: u64,
        /// In how many of them a record takes part: at least 1 and at most all.
        num_participations: u64,
        /// What was done at each step.
        event: Box<Event>,
    },
    /// The inner event happened `count` times, each possibly chosen after the ones before.
    SelfComposed {
        /// The repeated event.
        event: Box<Event>,
        /// How many times.
        count: u64,
    },
    /// The inner events all happened, each possibly chosen after the ones before.
    Composed {
        /// The events.
        events: Vec<Event>,
    },
    /// The inner events happened on disjoint slices of the records, one each. A record's slice is
    /// fixed by its position and not by its content. Not in `dp_accounting`.
    ParallelComposed {
        /// The events, one for each slice.
        events: Vec<Event>,
    },
    /// Prefix sums by binary trees with Gaussian noise at each node. Each record takes part in at
    /// most one step **over all trees**; which, is fixed by its position.
    SingleEpochTreeAggregation {
        /// Standard deviation at each node over the sensitivity of one step.
        noise_multiplier: NoiseMultiplier,
        /// Steps of each tree.
        step_counts: StepCounts,
    },
    /// Prefix sums by binary trees with restarts: each record takes part in at most one step
    /// **of each tree**; which, is fixed by its position. Not in `dp_accounting`.
    PrefixSums {
        /// Standard deviation at each node over the sensitivity of one step.
        noise_multiplier: NoiseMultiplier,
        /// Steps between restarts.
        step_counts: StepCounts,
    },
    /// The inner event was run a random number of times and the best outcome was released
    /// (Papernot and Steinke 2022, arXiv 2110.03620).
    RepeatAndSelect {
        /// One run.
        event: Box<Event>,
        /// Mean number of runs: at least 1.
        mean: f64,
        /// Shape of the number's law: 0 logarithmic, 1 geometric, infinite Poisson, otherwise
        /// truncated negative binomial.
        shape: f64,
    },
    /// A mechanism with Renyi divergences of at most `xi + rho alpha` for every order alpha > 1.
    ZCdp {
        /// Factor of the order.
        rho: Rho,
        /// Constant: at least 0.
        xi: f64,
    },
    /// An (epsilon, delta)-DP mechanism of which nothing else is known. Not in `dp_accounting` 0.6.
    EpsilonDelta {
        /// Finite, at least 0.
        epsilon: f64,
        /// At least 0, below 1.
        delta: f64,
    },
    /// A mechanism of bounded range epsilon: privacy losses between any two outcomes of a pair of
    /// neighbours differ by at most epsilon. The exponential mechanism with weights
    /// `exp(epsilon u / (2 sensitivity))` is one, hence Gumbel report-noisy-max. Not in
    /// `dp_accounting` 0.6.
    ExponentialMechanism {
        /// The range.
        epsilon: Epsilon,
    },
    /// Permute-and-flip selection (McKenna and Sheldon 2020), epsilon-DP. Not in `dp_accounting` 0.6.
    PermuteAndFlip {
        /// Its pure epsilon.
        epsilon: Epsilon,
    },
    /// The sparse vector technique, stopped after its allotted answers; `epsilon` is that of the
    /// whole run (Lyu, Su and Li 2017, Algorithm 1). Not in `dp_accounting`.
    AboveThreshold {
        /// Pure epsilon of the run.
        epsilon: Epsilon,
    },
    /// The index of the largest score after Laplace or exponential noise. Not in `dp_accounting`.
    ReportNoisyMax {
        /// Its pure epsilon.
        epsilon: Epsilon,
    },
    /// An event of a class that this crate does not know; no accountant takes it.
    Unsupported {
        /// The class name that was read, after the module name where that is not one of ours.
        class_name: String,
    },
}

/// A field of an event other than inner events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Field<'a> {
    Real(f64),
    Whole(u64),
    Steps(&'a StepCounts),
}

pub(super) type Fields<'a> = [Option<(&'static str, Field<'a>)>; 2];

pub(super) const POSITIVE: &str = "a positive finite number";
const NOT_NEGATIVE: &str = "a finite number of at least 0";
pub(super) const AT_LEAST_ONE: &str = "a whole number of at least 1";

impl Event {
    /// One Gaussian release.
    #[must_use]
    pub fn gaussian(noise_multiplier: NoiseMultiplier) -> Self {
        Event::Gaussian { noise_multiplier }
    }

    /// This event on a Poisson sample.
    #[must_use]
    pub fn poisson_sampled(self, rate: SamplingRate) -> Self {
        Event::PoissonSampled {
            sampling_probability: rate,
            event: Box::new(self),
        }
    }

    /// This event `count` times.
    #[must_use]
    pub fn repeated(self, count: u64) -> Self {
        Event::SelfComposed {
            event: Box::new(self),
            count,
        }
    }

    /// All of `events`.
    #[must_use]
    pub fn composed(events: Vec<Event>) -> Self {
        Event::Composed { events }
    }

    /// Name of the class.
    pub(super) fn class(&self) -> &str {
        match self {
            Event::NoOp => "NoOpDpEvent",
            Event::NonPrivate => "NonPrivateDpEvent",
            Event::Gaussian { .. } => "GaussianDpEvent",
            Event::Laplace { .. } => "LaplaceDpEvent",
            Event::DiscreteLaplace { .. } => "DiscreteLaplaceDpEvent",
            Event::RandomizedResponse { .. } => "RandomizedResponseDpEvent",
            Event::PoissonSampled { .. } => "PoissonSampledDpEvent",
            Event::SampledWithReplacement { .. } => "SampledWithReplacementDpEvent",
            Event::SampledWithoutReplacement { .. } => "SampledWithoutReplacementDpEvent",
            Event::RandomAllocation { .. } => "RandomAllocationDpEvent",
            Event::TruncatedSubsampledGaussian { .. } => "TruncatedSubsampledGaussianDpEvent",
            Event::SelfComposed { .. } => "SelfComposedDpEvent",
            Event::Composed { .. } => "ComposedDpEvent",
            Event::SingleEpochTreeAggregation { .. } => "SingleEpochTreeAggregationDpEvent",
            Event::RepeatAndSelect { .. } => "RepeatAndSelectDpEvent",
            Event::ZCdp { .. } => "ZCDpEvent",
            Event::DiscreteGaussian { .. } => "DiscreteGaussianDpEvent",
            Event::ParallelComposed { .. } => "ParallelComposedDpEvent",
            Event::PrefixSums { .. } => "PrefixSumsDpEvent",
            Event::EpsilonDelta { .. } => "EpsilonDeltaDpEvent",
            Event::ExponentialMechanism { .. } => "ExponentialMechanismDpEvent",
            Event::PermuteAndFlip { .. } => "PermuteAndFlipDpEvent",
            Event::AboveThreshold { .. } => "AboveThresholdDpEvent",
            Event::ReportNoisyMax { .. } => "ReportNoisyMaxDpEvent",
            Event::Unsupported { class_name } => class_name,
        }
    }

    /// The plain Poisson sample that a truncated one is whose limit never binds.
    pub(crate) fn untruncated(&self) -> Option<Self> {
        match self {
            Event::TruncatedSubsampledGaussian {
                dataset_size,
                sampling_probability,
                truncated_batch_size,
                noise_multiplier,
            } if u64::from(*truncated_batch_size) >= *dataset_size => {
                Some(Event::gaussian(*noise_multiplier).poisson_sampled(*sampling_probability))
            }
            _ => None,
        }
    }

    /// The fields other than inner events, in the order of the class.
    pub(super) fn fields(&self) -> Vec<Option<(&'static str, Field<'_>)>> {
        match self {
            Event::TruncatedSubsampledGaussian {
                dataset_size,
                sampling_probability,
                truncated_batch_size,
                noise_multiplier,
            } => vec![
                Some(("dataset_size", Field::Whole(*dataset_size))),
                Some((
                    "sampling_probability",
                    Field::Real(sampling_probability.get()),
                )),
                Some((
                    "truncated_batch_size",
                    Field::Whole(u64::from(*truncated_batch_size)),
                )),
                Some(("noise_multiplier", Field::Real(noise_multiplier.get()))),
            ],
            other => other.at_most_two_fields().to_vec(),
        }
    }

    fn at_most_two_fields(&self) -> Fields<'_> {
        use Field::{Real, Steps, Whole};
        match self {
            Event::TruncatedSubsampledGaussian { .. }
            | Event::NoOp
            | Event::NonPrivate
            | Event::Composed { .. }
            | Event::ParallelComposed { .. }
            | Event::Unsupported { .. } => [None, None],
            Event::Gaussian { noise_multiplier }
            | Event::Laplace { noise_multiplier }
            | Event::DiscreteGaussian { noise_multiplier } => [
                Some(("noise_multiplier", Real(noise_multiplier.get()))),
                None,
            ],
            Event::DiscreteLaplace {
                noise_parameter,
                sensitivity,
            } => [
                Some(("noise_parameter", Real(*noise_parameter))),
                Some(("sensitivity", Whole(*sensitivity))),
            ],
            Event::RandomizedResponse {
                noise_parameter,
                num_buckets,
            } => [
                Some(("noise_parameter", Real(*noise_parameter))),
                Some(("num_buckets", Whole(*num_buckets))),
            ],
            Event::PoissonSampled {
                sampling_probability,
                ..
            } => [
                Some(("sampling_probability", Real(sampling_probability.get()))),
                None,
            ],
            Event::SampledWithReplacement {
                source_dataset_size,
                sample_size,
                ..
            }
            | Event::SampledWithoutReplacement {
                source_dataset_size,
                sample_size,
                ..
            } => [
                Some(("source_dataset_size", Whole(*source_dataset_size))),
                Some(("sample_size", Whole(*sample_size))),
            ],
            Event::RandomAllocation {
                num_steps,
                num_participations,
                ..
            } => [
                Some(("num_steps", Whole(*num_steps))),
                Some(("num_participations", Whole(*num_participations))),
            ],
            Event::SelfComposed { count, .. } => [Some(("count", Whole(*count))), None],
            Event::SingleEpochTreeAggregation {
                noise_multiplier,
                step_counts,
            }
            | Event::PrefixSums {
                noise_multiplier,
                step_counts,
            } => [
                Some(("noise_multiplier", Real(noise_multiplier.get()))),
                Some(("step_counts", Steps(step_counts))),
            ],
            Event::RepeatAndSelect { mean, shape, .. } => {
                [Some(("mean", Real(*mean))), Some(("shape", Real(*shape)))]
            }
            Event::ZCdp { rho, xi } => [Some(("rho", Real(rho.get()))), Some(("xi", Real(*xi)))],
            Event::EpsilonDelta { epsilon, delta } => [
                Some(("epsilon", Real(*epsilon))),
                Some(("delta", Real(*delta))),
            ],
            Event::ExponentialMechanism { epsilon }
            | Event::PermuteAndFlip { epsilon }
            | Event::AboveThreshold { epsilon }
            | Event::ReportNoisyMax { epsilon } => [Some(("epsilon", Real(epsilon.get()))), None],
        }
    }

    /// Checks the numbers of this event alone. Units were checked when they were made.
    pub(super) fn check_fields(&self) -> Result<(), (&'static str, EventProblem)> {
        let range = |field, needs, value| Err((field, EventProblem::Range { needs, value }));
        let real = |ok: bool, field, needs, value: f64| {
            if ok {
                Ok(())
            } else {
                range(field, needs, value)
            }
        };
        let whole = |ok: bool, field, value: u64| {
            if ok {
                Ok(())
            } else {
                range(field, AT_LEAST_ONE, value as f64)
            }
        };
        match self {
            Event::DiscreteLaplace {
                noise_parameter: a,
                sensitivity,
            } => {
                real(a.is_finite() && *a > 0.0, "noise_parameter", POSITIVE, *a)?;
                whole(*sensitivity > 0, "sensitivity", *sensitivity)
            }
            Event::RandomizedResponse {
                noise_parameter: p,
                num_buckets,
            } => {
                let needs = "a number between 0 and 1";
                real((0.0..=1.0).contains(p), "noise_parameter", needs, *p)?;
                whole(*num_buckets > 0, "num_buckets", *num_buckets)
            }
            Event::SampledWithReplacement {
                source_dataset_size,
                sample_size,
                ..
            } => {
                whole(
                    *source_dataset_size > 0,
                    "source_dataset_size",
                    *source_dataset_size,
                )?;
                whole(*sample_size > 0, "sample_size", *sample_size)
            }
            Event::SampledWithoutReplacement {
                source_dataset_size: source,
                sample_size: size,
                ..
            } => {
                whole(*source > 0, "source_dataset_size", *source)?;
                whole(*size > 0, "sample_size", *size)?;
                let needs = "a sample no larger than its source";
                real(size <= source, "sample_size", needs, *size as f64)
            }
            Event::RandomAllocation {
                num_steps: steps,
                num_participations: times,
                ..
            } => {
                whole(*steps > 0, "num_steps", *steps)?;
                whole(*times > 0, "num_participations", *times)?;
                let needs = "no more participations than steps";
                real(times <= steps, "num_participations", needs, *times as f64)
            }
            Event::TruncatedSubsampledGaussian {
                dataset_size: size,
                sampling_probability: rate,
                truncated_batch_size: most,
                ..
            } => {
                whole(*size > 0, "dataset_size", *size)?;
                whole(*most > 0, "truncated_batch_size", u64::from(*most))?;
                let needs = "a largest batch no smaller than the mean one";
                let most = f64::from(*most);
                let fits = most >= *size as f64 * rate.get();
                real(fits, "truncated_batch_size", needs, most)
            }
            Event::SelfComposed { count: 0, .. } => Err(("count", EventProblem::Empty)),
            Event::Composed { events } | Event::ParallelComposed { events }
                if events.is_empty() =>
            {
                Err(("events", EventProblem::Empty))
            }
            Event::SingleEpochTreeAggregation { step_counts, .. }
            | Event::PrefixSums { step_counts, .. } => {
                let steps = step_counts.as_slice();
                if steps.is_empty() {
                    return Err(("step_counts", EventProblem::Empty));
                }
                whole(!steps.contains(&0), "step_counts", 0)
            }
            Event::RepeatAndSelect { mean, shape, .. } => {
                let needs = "a finite number of at least 1";
                real(mean.is_finite() && *mean >= 1.0, "mean", needs, *mean)?;
                real(*shape >= 0.0, "shape", "a number of at least 0", *shape)
            }
            Event::ZCdp { xi, .. } => real(xi.is_finite() && *xi >= 0.0, "xi", NOT_NEGATIVE, *xi),
            Event::EpsilonDelta { epsilon, delta } => {
                let ok = epsilon.is_finite() && *epsilon >= 0.0;
                real(ok, "epsilon", NOT_NEGATIVE, *epsilon)?;
                let needs = "a number of at least 0 and below 1";
                real((0.0..1.0).contains(delta), "delta", needs, *delta)
            }
            _ => Ok(()),
        }
    }
}
