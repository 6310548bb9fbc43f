//! How many slices a run on samples has: more bands against less amplification.

use dpopt_privacy::{Event, NoiseMultiplier, SamplingRate};
use dpopt_solver::{Batches, Budget, PlanError, PublicFacts};

use super::super::dp_sgd::rate_for;
use super::workload::{COOL_DOWN, Knots, MOMENTUM, Workload, bands};

/// Slices and cycles through them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) slices: u64,
    pub(super) cycles: u64,
    /// Probability with which a record of a slice enters its step.
    pub(super) rate: SamplingRate,
}

/// What each slice is charged: a sample in every cycle, or an allocation in as many as it has steps.
pub(super) fn event(
    z: NoiseMultiplier,
    (batches, rate): (Batches, SamplingRate),
    cycles: u64,
) -> Event {
    let one = Event::gaussian(z);
    let share = match batches {
        Batches::Allocated => {
            let epoch = Batches::epoch(rate);
            epoch
                .event(one)
                .repeated(cycles.div_ceil(epoch.steps.max(1)))
        }
        _ => one.poisson_sampled(rate).repeated(cycles),
    };
    Event::ParallelComposed {
        events: vec![share],
    }
}

/// The shape with the least noise at the end of a walk that needs so many steps where it has the noise of all records.
pub(super) fn shape(
    facts: &PublicFacts,
    budget: &Budget,
    wanted: f64,
    max_steps: u64,
) -> Result<Shape, PlanError> {
    let mu = budget.mu()?.get();
    let most = max_steps.max(1) as f64;
    let mut steps = wanted.ceil().clamp(1.0, most) as u64;
    let mut best = None;
    // The noise changes slowly with the number of steps.
    for _ in 0..2 {
        let share = rate_for(facts, mu, steps)?.get();
        let widest = ((1.0 / share) as u64).min(facts.records).min(steps).max(1);
        let mut least = f64::INFINITY;
        let powers = (0..).map(|power| 1_u64 << power);
        for slices in powers.take_while(|&m| m < widest).chain([widest]) {
            let cycles = steps.div_ceil(slices).min(max_steps / slices).max(1);
            let rate = SamplingRate::new((share * slices as f64).min(1.0))?;
            let sampled = |z| Event::gaussian(z).poisson_sampled(rate).repeated(cycles);
            let (_, z) = budget.calibrated(facts.adjacency, sampled)?;
            let workload = Workload {
                epochs: cycles,
                slices,
                momentum: MOMENTUM,
                cool_down: COOL_DOWN,
                sampled: true,
            };
            let error = workload.error(&Knots::square_root(bands(slices, facts.dim), MOMENTUM));
            let relative = workload.relative(&error) * z.get() * mu / rate.get();
            if relative < least {
                least = relative;
                best = Some(Shape {
                    slices,
                    cycles,
                    rate,
                });
            }
        }
        steps = (wanted / least.max(1.0)).ceil().clamp(1.0, most) as u64;
    }
    // There is at least one slice.
    best.ok_or(PlanError::BadFact {
        name: "records",
        value: facts.records as f64,
    })
}
