//! One release of a table of counts and of some means: what it costs, how large its noise is, and what a mean is then.

use std::num::NonZeroUsize;

use dpopt_oracle::{
    AskError, EstimatorError, Example, PrivateData, PrivateMean, Running, ScoreBinsError, Tally,
};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, Mu, NoiseMultiplier, Spend, UnitError, Which,
};
use dpopt_solver::{PublicFacts, normal_reach};
use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::ratio::{Ratio, chernoff};

/// An evaluation could not be planned or made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// A parameter is out of range.
    #[error("{name} is out of range: {value}")]
    OutOfRange {
        /// Name of the parameter.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A row of zeros is counted like any other, so the contribution of an erased record does not vanish.
    #[error(
        "an evaluation counts records, an erased one too, and {0} adjacency needs contributions that vanish"
    )]
    Adjacency(Adjacency),
    /// The bins.
    #[error(transparent)]
    Bins(#[from] ScoreBinsError),
    /// The noise multiplier.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The data are not those that were planned for.
    #[error("planned for {planned} records, the data have {found}")]
    OtherData {
        /// In the plan.
        planned: u64,
        /// In the data.
        found: u64,
    },
    /// The data have another adjacency than was planned for, and the noise another size.
    #[error("planned for {planned} adjacency, the data have {found}")]
    OtherAdjacency {
        /// In the plan.
        planned: Adjacency,
        /// Adjacency of the data.
        found: Adjacency,
    },
    /// The data, or the clip.
    #[error(transparent)]
    Data(#[from] EstimatorError),
    /// The release was refused.
    #[error(transparent)]
    Ask(#[from] AskError),
}

/// Refuses a parameter.
pub(super) fn check(name: &'static str, value: f64, fits: bool) -> Result<(), EvaluationError> {
    match fits {
        true => Ok(()),
        false => Err(EvaluationError::OutOfRange { name, value }),
    }
}

/// The cost of a release of a [`Tally`], and its noise.
///
/// # Formula
/// S + N(0, s^2 I), S the sum of contributions of length R, s = 2 R z under replace-one and R z under add-remove, z = 1/mu.
///
/// # Privacy
/// One `Gaussian(z)` on all records: mu-GDP. `docs/privacy/certificates.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TallyPlan {
    /// z.
    pub noise_multiplier: NoiseMultiplier,
    /// s.
    pub count_std: f64,
    /// n; under add-remove a declared number.
    pub records: u64,
    /// Adjacency of the records.
    pub adjacency: Adjacency,
    /// Failure probability of each interval.
    pub failure: f64,
    /// R.
    #[serde(skip)]
    radius: f64,
}

impl TallyPlan {
    pub(super) fn new(
        (records, adjacency): (u64, Adjacency),
        mu: Mu,
        failure: f64,
        radius: f64,
    ) -> Result<Self, EvaluationError> {
        if adjacency == Adjacency::ZeroOut {
            return Err(EvaluationError::Adjacency(adjacency));
        }
        let name = "the failure probability";
        check(name, failure, failure > 0.0 && failure < 1.0)?;
        check("the number of records", records as f64, records > 0)?;
        let noise_multiplier = NoiseMultiplier::new(1.0 / mu.get())?;
        Ok(Self {
            noise_multiplier,
            count_std: adjacency.sum_sensitivity() * radius * noise_multiplier.get(),
            records,
            adjacency,
            failure,
            radius,
        })
    }

    /// The cost.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::gaussian(self.noise_multiplier))
    }

    /// Half of the width of the interval of a share, where the number of records is public.
    pub(super) fn half_width(&self) -> f64 {
        normal_reach(0.5 * self.failure) * self.count_std / self.records as f64
    }

    /// How many shares are released beside those that are wanted: a constant one, where the number of records is private.
    pub(super) fn extra(adjacency: Adjacency) -> usize {
        usize::from(!adjacency.record_count_is_public())
    }

    /// Releases it, from what the curator has reserved. Nothing is spent before the release, which is the last step that can fail.
    pub(super) fn release<P: Fn(Example<'_>, &mut [f64]) -> usize + Sync>(
        &self,
        data: &PrivateData,
        tally: Tally<P>,
        curator: Curator,
        threads: NonZeroUsize,
    ) -> Result<(Sums, Curator), EvaluationError> {
        let (planned, found) = (self.adjacency, data.adjacency());
        if planned != found {
            return Err(EvaluationError::OtherAdjacency { planned, found });
        }
        let (planned, found) = (self.records, data.public_records());
        if planned != found {
            return Err(EvaluationError::OtherData { planned, found });
        }
        let clip = ClipNorm::new(self.radius).map_err(EstimatorError::from)?;
        let mut means = PrivateMean::new(data, tally, curator)?.with_threads(threads);
        let dim = means.dim();
        let mut running = Running::new(dim, clip);
        let at = vec![0.0; dim];
        let released = running.anchor(&mut means, &at, Which::All, self.noise_multiplier)?;
        let estimate = released.estimate();
        let records = self.records as f64;
        let sums = Sums {
            plan: *self,
            values: estimate.gradient.iter().map(|x| x * records).collect(),
            deviation: estimate.noise_std * records,
            rounding: PublicFacts::rounding(self.radius, dim),
        };
        Ok((sums, means.into_curator()))
    }
}

/// The released counts.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sums {
    pub(super) plan: TallyPlan,
    pub(super) values: Vec<f64>,
    /// Standard deviation of each count.
    pub(super) deviation: f64,
    /// How far the vector of them is off beside it, at most, for each record.
    pub(super) rounding: f64,
}

/// A mean over the population that the records are independent draws from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeanOf {
    /// The number for these records.
    pub records: Measured,
    /// The number for the population; none where the number of records is private.
    pub population: Option<Measured>,
}

impl MeanOf {
    /// In another unit.
    pub(super) fn scaled(self, scale: f64) -> Self {
        let of = |of: Measured| of.map(|value| scale * value);
        Self {
            records: of(self.records),
            population: self.population.map(of),
        }
    }
}

/// The least power of 2, above 1, that is enough; none where 1 is, or where none of ten is.
pub(super) fn too_large_by(enough: impl Fn(f64) -> bool) -> Option<f64> {
    let mut factors = (0..=10).map(|k| f64::from(1u32 << k));
    factors
        .find(|factor| enough(*factor))
        .filter(|factor| *factor > 1.0)
}

impl Sums {
    /// The same values with less noise.
    pub(super) fn with_noise_over(&self, factor: f64) -> Self {
        Self {
            deviation: self.deviation / factor,
            ..self.clone()
        }
    }

    /// The number of records, where it is public.
    pub(super) fn known(&self) -> Option<u64> {
        let public = self.plan.adjacency.record_count_is_public();
        public.then_some(self.plan.records)
    }

    /// The released number of records: twice the sum of the last share less 1/2, which is 1/2 for each.
    fn counted(&self) -> f64 {
        2.0 * self.values.last().copied().unwrap_or(f64::NAN)
    }

    /// How far a combination of these numbers is off beside the noise, with weights of this sum of squares.
    pub(super) fn off(&self, squares: f64) -> f64 {
        let records = self.plan.records as f64;
        let most = match self.known() {
            Some(_) => records,
            // More are there with a probability below 1e-15.
            None => records.max(self.counted() + 16.0 * self.deviation),
        };
        most * self.rounding * squares.sqrt()
    }

    /// x/(x + y), of sums of so many counts each.
    pub(super) fn part_of(&self, of: [f64; 2], counts: [f64; 2], reach: f64) -> Measured {
        let variance = self.deviation * self.deviation;
        let off = self.off(counts[0] + counts[1]);
        let [of_x, of_y] = counts.map(|k| k * variance);
        Ratio::share(of, [of_x, 0.0, of_y], off).measured(reach, [0.0, 1.0])
    }

    /// The mean of a share.
    pub(super) fn mean(&self, share: usize) -> MeanOf {
        let failure = self.plan.failure;
        let population = self.known().map(|records| {
            // Half of the failure for the noise, half for the draw of the records, each end by itself.
            let half = 0.5 * failure;
            let here = self.mean_within(share, half);
            let needed = (2.0 / half).ln();
            let low = chernoff(here.low, records as f64, needed)[0];
            let high = chernoff(here.high, records as f64, needed)[1];
            Measured::new(here.estimate, [low, high], [0.0, 1.0])
        });
        MeanOf {
            records: self.mean_within(share, failure),
            population,
        }
    }

    fn mean_within(&self, share: usize, failure: f64) -> Measured {
        let sum = self.values.get(share).copied().unwrap_or(f64::NAN);
        let variance = self.deviation * self.deviation;
        let (records, of_records) = match self.known() {
            Some(records) => (records as f64, 0.0),
            None => (self.counted(), 4.0 * variance),
        };
        let ratio = Ratio {
            of: [sum, records],
            covariance: [variance, 0.0, of_records],
            // x - theta n is of x and of twice the last, theta at most 1/2 in size.
            rounding: self.off(2.0),
        };
        let less_half = ratio.measured(normal_reach(0.5 * failure), [-0.5, 0.5]);
        less_half.map(|mean| mean + 0.5)
    }
}
