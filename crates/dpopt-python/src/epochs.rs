//! Slices of the records in turn, epoch after epoch, under noise that is correlated over all steps.

use dpopt::nonconvex::{Budget, DpMfPlan, DpMfSchedule, DpMfSettings, PublicFacts};
use dpopt::privacy::{
    Adjacency, Body, Bound, Curator, Delta, Epsilon, Event, NoiseMultiplier, PoolError, Prefix,
    Refused, Slice, Which,
};
use dpopt::solver::Batches;
use pyo3::prelude::*;

use crate::accounting::noise;
use crate::errors::{self, user};
use crate::granted::Granted;

/// What a caller says of them: epochs, least records of a slice, momentum, and the share of the steps over which step sizes fall.
pub(crate) type Wanted = (u64, u64, f64, f64);

/// The schedule of DP-MF that is tuned for them, at this noise multiplier.
pub(crate) fn schedule(
    (epochs, batch, momentum, cool_down): Wanted,
    (records, dim, adjacency): (u64, usize, Adjacency),
    noise_multiplier: f64,
) -> PyResult<DpMfSchedule> {
    let facts = PublicFacts {
        adjacency,
        ..PublicFacts::unit(records, dim)
    };
    // The factor does not depend on it, and the noise is the caller's.
    let budget = Budget {
        epsilon: Epsilon::new(1.0).map_err(errors::unit)?,
        delta: Delta::new(1e-6).map_err(errors::unit)?,
    };
    let settings = DpMfSettings {
        epochs,
        batch,
        sampling_rate: None,
        batches: Batches::Poisson,
        band: None,
        step_size: 1.0,
        momentum,
        cool_down,
        clip: 1.0,
    };
    let plan = DpMfPlan::with_settings(&facts, &budget, settings, u64::MAX);
    Ok(DpMfSchedule {
        noise_multiplier: noise(noise_multiplier)?,
        ..*plan.map_err(errors::no_plan)?.schedule()
    })
}

/// What all of them cost: each slice pays for the period, and no record is in two.
pub(crate) fn event(schedule: &DpMfSchedule) -> PyResult<Event> {
    let noise = schedule.noise().map_err(user)?;
    let one = noise.event(schedule.noise_multiplier).map_err(user)?;
    Ok(Event::ParallelComposed { events: vec![one] })
}

/// A period that is under way.
pub(crate) struct Epochs {
    period: Prefix,
    slices: Vec<Slice>,
    /// The last release.
    sum: Vec<f64>,
}

impl Epochs {
    pub(crate) fn new(
        schedule: &DpMfSchedule,
        records: u64,
        bound: Bound,
        curator: &mut Curator,
    ) -> Result<Self, Refused> {
        curator.open_pool(records, 0)?;
        let slices = (0..schedule.slices)
            .map(|slice| curator.take_slice(schedule.records_of(slice, records)))
            .collect::<Result<_, _>>()?;
        let z: NoiseMultiplier = schedule.noise_multiplier;
        let participation = schedule.participation();
        Ok(Self {
            period: curator.prefix(schedule.factor, bound, schedule.steps(), z, participation)?,
            slices,
            sum: vec![0.0; bound.dim()],
        })
    }

    /// Grants the step on the next slice.
    pub(crate) fn grant(
        &self,
        body: Body,
        curator: &mut Curator,
    ) -> Result<Granted<Option<Self>>, Refused> {
        let next = self.period.steps() % (self.slices.len() as u64).max(1);
        let slice = Which::Slice(&self.slices[next as usize]);
        let ticket = self.period.grant(slice, body, curator)?;
        Ok(Granted::new(ticket, |ticket, sum, curator, epochs| {
            let Some(Self {
                period, sum: last, ..
            }) = epochs
            else {
                return Err(PoolError::NotOpen.into());
            };
            let next = period.redeem(ticket, sum, curator)?;
            let before = std::mem::replace(last, next);
            Ok(last.iter().zip(before).map(|(x, y)| x - y).collect())
        }))
    }
}
