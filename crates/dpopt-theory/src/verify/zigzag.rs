//! Broken walks in blocks on a zigzag whose teeth are as long as their steps: controls of where the gradient is asked for.
//!
//! A walk that asks at the start of each segment, or at the same share of each, sees a steady descent where there is none: what it
//! asked for never gets short, whatever its number of steps.

use std::cell::RefCell;

use dpopt_nonconvex::{Budget, PublicFacts};
use dpopt_nonconvex::{
    GOLDSTEIN, GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings, NoObserver, Plan,
};
use dpopt_oracle::{Linear, Oracle as _, Question};
use dpopt_privacy::ClipNorm;

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, budget, completed, half_decades};
use crate::around::Around;
use crate::checks::{CheckError, Effort, mixed};
use crate::problem::{Problem, ProblemConstants};
use crate::simulation::SimulatedOracle;

/// Where on its segment a broken walk asks.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Asks {
    /// At x_t and not at z_t.
    AtStart,
    /// At one share for all steps.
    OneShare,
}

struct Zigzags {
    claim: Claim,
    asks: Asks,
}

pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let control = |name: &str, asks, note: &str| -> Box<dyn Experiment> {
        let claim = Claim::new(name, Axis::Steps, -1.0 / 3.0)
            .by(GOLDSTEIN.name, "docs/theory/goldstein.md, Theorem 1")
            .on("zigzag")
            .measuring("length of the mean of the gradients asked for, mean over blocks")
            .control(note);
        Box::new(Zigzags { claim, asks })
    };
    vec![
        control(
            "goldstein/at-start",
            Asks::AtStart,
            "The gradient is asked for at x_t and not at z_t.",
        ),
        control(
            "goldstein/one-share",
            Asks::OneShare,
            "One s for all steps.",
        ),
    ]
}

/// A piecewise linear function of one number, of slopes 1 and -1 between the first break and the last.
struct Zigzag {
    breaks: Vec<f64>,
    /// Before each break.
    values: Vec<f64>,
}

impl Zigzag {
    /// Falls for a quarter of a segment before and after each point at which a steady descent starts a segment, and rises between.
    fn along(schedule: &GoldsteinSchedule) -> Self {
        let (mut at, mut length) = (0.0f64, 0.0f64);
        let mut breaks = vec![-0.25 * schedule.cap];
        for step in 0..schedule.steps {
            if step.is_multiple_of(schedule.block) {
                length = 0.0;
            }
            if length > 0.0 {
                breaks.extend([at + 0.25 * length, at + 0.75 * length]);
            }
            at += length;
            length = (length + schedule.step_size).min(schedule.cap);
        }
        let mut values = vec![0.0];
        for (k, pair) in breaks.windows(2).enumerate() {
            let slope = if k % 2 == 0 { -1.0 } else { 1.0 };
            values.push(values[k] + slope * (pair[1] - pair[0]));
        }
        Self { breaks, values }
    }

    /// The number of breaks at or before a point, and the slope there.
    fn piece(&self, at: f64) -> (usize, f64) {
        let before = self.breaks.partition_point(|x| *x <= at);
        let slope = match before {
            // It comes down from the left, and stays as it is on the right.
            0 => -1.0,
            _ if before == self.breaks.len() => 0.0,
            odd if odd % 2 == 1 => -1.0,
            _ => 1.0,
        };
        (before, slope)
    }
}

impl Problem for Zigzag {
    fn dim(&self) -> usize {
        1
    }

    fn constants(&self) -> ProblemConstants {
        // No tooth is higher than its half length.
        let highest = self.values.iter().fold(0.0f64, |most, x| most.max(x.abs()));
        ProblemConstants::first_order(1.0, f64::INFINITY, highest)
    }

    fn value(&self, point: &[f64]) -> f64 {
        let (before, slope) = self.piece(point[0]);
        let k = before.max(1) - 1;
        self.values[k] + slope * (point[0] - self.breaks[k])
    }

    fn gradient(&self, point: &[f64], out: &mut [f64]) {
        out[0] = self.piece(point[0]).1;
    }
}

/// So many records that noise counts for nothing, in one dimension.
fn plan(steps: u64) -> Result<GoldsteinPlan, CheckError> {
    let facts = PublicFacts {
        smoothness: f64::INFINITY,
        row_norm: f64::INFINITY,
        ..PublicFacts::unit(1_000_000_000_000, 1)
    };
    let budget: Budget = budget(1.0, DELTA)?;
    let settings = GoldsteinSettings {
        // Far below a segment.
        smoothing_share: 1e-7,
        ..GoldsteinSettings::at_radius(1.0)
    };
    Ok(GoldsteinPlan::new(&facts, &budget, &settings, steps)?)
}

/// What a walk knows of itself: the start of the segment, its length, and the number of the step.
#[derive(Clone, Copy)]
struct Place {
    at: f64,
    length: f64,
    step: u64,
}

/// The mean over blocks of the length of the mean of the gradients that were asked for: by the walk itself, or by a broken one.
fn error(plan: &GoldsteinPlan, asks: Option<Asks>, seed: u64) -> Result<f64, CheckError> {
    let schedule = *plan.schedule();
    let zigzag = Zigzag::along(&schedule);
    let inner = SimulatedOracle::new(&zigzag, plan.facts().records, plan.facts().adjacency, seed);
    let share = mixed(seed, 1) as f64 / u64::MAX as f64;
    let (mut sum, clip) = (0.0, ClipNorm::new(schedule.clip)?);
    let total = RefCell::new(0.0);
    let mut place = Place {
        at: 0.0,
        length: 0.0,
        step: 0,
    };
    // All that a walk does with a release is public, so it can be followed from outside.
    let mut oracle = Around::new(inner, |inner, question| {
        let Question::Mean { of, over, noise } = question else {
            return inner.answer(question);
        };
        if place.step.is_multiple_of(schedule.block) {
            place.length = 0.0;
        }
        let asked = match asks {
            None => of.point()[0],
            Some(Asks::AtStart) => place.at,
            Some(Asks::OneShare) => place.at + share * place.length,
        };
        let point = [asked];
        let answer = inner.mean(Linear::field(&point, clip), over, noise)?;
        place.at += place.length;
        place.length -= schedule.step_size * answer.mean[0];
        place.length = place.length.clamp(-schedule.cap, schedule.cap);
        place.step += 1;
        sum += zigzag.piece(asked).1;
        if place.step.is_multiple_of(schedule.block) {
            *total.borrow_mut() += (sum / schedule.block as f64).abs();
            sum = 0.0;
        }
        Ok(dpopt_oracle::Answer::Mean(answer))
    });
    completed(plan.run(&mut oracle, &mut NoObserver)?.stop)?;
    drop(oracle);
    Ok(total.into_inner() / (schedule.steps / schedule.block) as f64)
}

impl Experiment for Zigzags {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, _: Effort) -> Design {
        Design::new(half_decades(100.0, 3)).with_seeds(6)
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let plan = plan(trial.x as u64)?;
        let bound = plan.bound().ok_or("the plan states no bound")?.value;
        Ok(Measured::new(error(&plan, Some(self.asks), trial.seed)?).with_bound(bound))
    }
}

#[cfg(test)]
mod tests {
    use dpopt_testkit::one_in;

    use super::*;

    /// On the same zigzag the walk that asks anywhere is as good as its bound, and the others see a descent that is not there. By
    /// four standard errors: of walks whose mean is the bound, one in 30,000 fails.
    #[test]
    fn the_right_walk_is_not_misled() {
        for steps in one_in(2, [1_000, 10_000]) {
            let plan = plan(steps).unwrap();
            let bound = plan.bound().unwrap().value;
            let within = |asks| {
                let all: Vec<f64> = (0..40)
                    .map(|seed| error(&plan, asks, seed).unwrap())
                    .collect();
                let mean = all.iter().sum::<f64>() / 40.0;
                let squares = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
                let four = 4.0 * (squares / (39.0 * 40.0)).sqrt();
                (mean - four, mean)
            };
            assert!(within(None).0 < bound, "{steps}");
            // Far off: with these seeds, and with any others but for a negligible share.
            assert!(within(Some(Asks::AtStart)).1 > 0.99, "{steps}");
            assert!(within(Some(Asks::OneShare)).1 > 2.0 * bound, "{steps}");
        }
    }

    #[test]
    fn values_and_slopes_of_a_zigzag_agree() {
        let plan = plan(100).unwrap();
        let zigzag = Zigzag::along(plan.schedule());
        let mut slope = [0.0];
        for k in -50..400 {
            let x = 0.0071 * f64::from(k) + 0.00013;
            zigzag.gradient(&[x], &mut slope);
            let rise = zigzag.value(&[x + 1e-7]) - zigzag.value(&[x - 1e-7]);
            assert!((rise / 2e-7 - slope[0]).abs() < 1e-6, "{x}");
        }
    }
}
