//! The walk in blocks: displacements that are learnt online, and an estimate at a random point of each.

use dpopt_linalg::{add_scaled, norm};
use dpopt_oracle::{
    AskError, Books, Fresh, FreshSlopes, Oracle, PrefixRecursive, Recursive, SmoothedMeans,
    Smoothing, StepKind,
};
use dpopt_solver::{Asked, Closing, ReleaseKind, RunError, Stop, Walk};

use super::schedule::{GoldsteinSchedule, PeriodSettings};

/// How a step asks.
enum Estimator {
    /// The gradient at z + u.
    Gradients(Fresh),
    /// Slopes at z.
    Values(FreshSlopes),
    /// The gradient of the smoothed loss at z, at the start of a period, and its changes.
    Recursive(Recursive, Smoothing),
    Prefix(Box<PrefixRecursive>, Smoothing),
}

impl Estimator {
    fn new(schedule: &GoldsteinSchedule, dim: usize) -> Result<Self, RunError> {
        let (clip, level) = (schedule.clip()?, schedule.level());
        if let Some(period) = &schedule.period {
            let smoothing = schedule.smoothing_of(period);
            let settings = schedule.settings_of(period, dim);
            return Ok(match settings.map_err(RunError::Clip)? {
                PeriodSettings::Independent(settings) => {
                    Estimator::Recursive(Recursive::new(dim, settings)?, smoothing)
                }
                PeriodSettings::Prefix(settings) => {
                    Estimator::Prefix(Box::new(PrefixRecursive::new(dim, settings)?), smoothing)
                }
            });
        }
        Ok(match schedule.directions {
            None => Estimator::Gradients(Fresh::new(dim, clip, level)?),
            Some(directions) => {
                let by = (directions, schedule.smoothing);
                Estimator::Values(FreshSlopes::new(dim, by, clip, level)?)
            }
        })
    }
}

/// Moves by Delta_t, no longer than D; asks at a uniform point of that segment, moved by a uniform vector of the ball of radius
/// a, or for an estimate that smooths by itself at that point; then Delta <- clip(Delta - eta g, D). Everything it draws is public.
pub(super) struct Blocks<'a> {
    schedule: &'a GoldsteinSchedule,
    estimate: Estimator,
    /// Delta_t.
    displacement: Vec<f64>,
    /// z_t + u_t; z_t where the estimate smooths by itself.
    asked: Vec<f64>,
    /// How far the start is moved at random, and then by what: all points are.
    moved: Option<(f64, Vec<f64>)>,
    /// The sum of the z_t of this block, and their number.
    points: Vec<f64>,
    len: u64,
    /// Steps made.
    done: u64,
    /// The block that is returned.
    chosen: u64,
    /// The mean of the points of the block to return.
    output: Option<Vec<f64>>,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(
        schedule: &'a GoldsteinSchedule,
        dim: usize,
        moved: Option<f64>,
    ) -> Result<Self, RunError> {
        let nothing = vec![0.0; dim];
        Ok(Self {
            schedule,
            estimate: Estimator::new(schedule, dim)?,
            displacement: nothing.clone(),
            asked: nothing.clone(),
            moved: moved.map(|reach| (reach, nothing.clone())),
            points: nothing,
            len: 0,
            done: 0,
            chosen: 0,
            output: None,
        })
    }

    /// Writes u_t to `asked`, and 0 for estimates that smooth by themselves.
    fn draw_offset(&mut self, books: &mut Books) -> Result<(), AskError> {
        let Estimator::Gradients(_) = self.estimate else {
            self.asked.fill(0.0);
            return Ok(());
        };
        Ok(books.draw_in_ball(self.schedule.smoothing, &mut self.asked)?)
    }

    /// Writes z_t + u_t, and adds z_t to the block.
    fn place(&mut self, point: &[f64], oracle: &mut dyn Oracle) -> Result<(), AskError> {
        let books = oracle.books();
        let along = uniform(books.draw_index(GRID));
        self.draw_offset(books)?;
        let sums = self.points.iter_mut().zip(point).zip(&self.displacement);
        for (asked, ((sum, w), delta)) in self.asked.iter_mut().zip(sums) {
            let z = w + along * delta;
            *sum += z;
            *asked += z;
        }
        if let Some((_, by)) = &self.moved {
            add_scaled(&mut self.points, 1.0, by);
            add_scaled(&mut self.asked, 1.0, by);
        }
        Ok(())
    }

    /// Ends the block `block`.
    fn end_block(&mut self, block: u64) {
        if block <= self.chosen {
            self.output = self.mean();
        }
        self.points.fill(0.0);
        self.len = 0;
    }

    /// The mean of the points of this block; none before the first.
    fn mean(&self) -> Option<Vec<f64>> {
        let len = self.len as f64;
        (self.len > 0).then(|| self.points.iter().map(|sum| sum / len).collect())
    }
}

impl Walk for Blocks<'_> {
    fn ask(
        &mut self,
        step: u64,
        point: &[f64],
        oracle: &mut dyn Oracle,
    ) -> Result<Asked<'_>, AskError> {
        let GoldsteinSchedule { steps, block, .. } = *self.schedule;
        if step == 0 {
            self.chosen = oracle.books().draw_index((steps / block).max(1));
            if let Some((reach, by)) = &mut self.moved {
                oracle.books().draw_in_ball(*reach, by)?;
            }
        }
        if step.is_multiple_of(block) {
            self.displacement.fill(0.0);
        }
        self.place(point, oracle)?;
        self.len += 1;
        let tracked = match &mut self.estimate {
            Estimator::Gradients(fresh) => fresh.estimate(oracle, &self.asked)?,
            Estimator::Values(slopes) => slopes.estimate(oracle, &self.asked)?,
            Estimator::Recursive(recursive, smoothing) => {
                recursive.estimate(&mut SmoothedMeans::new(oracle, *smoothing), &self.asked)?
            }
            Estimator::Prefix(prefix, smoothing) => {
                prefix.estimate(&mut SmoothedMeans::new(oracle, *smoothing), &self.asked)?
            }
        };
        let kind = match tracked.kind {
            StepKind::Anchor => ReleaseKind::Anchor,
            _ => ReleaseKind::Variation,
        };
        Ok(Asked::estimate_at(kind, &self.asked, tracked.estimate))
    }

    fn step(&mut self, point: &[f64], gradient: &[f64], next: &mut [f64]) {
        for ((next, w), delta) in next.iter_mut().zip(point).zip(&self.displacement) {
            *next = w + delta;
        }
        let eta = self.schedule.step_size;
        for (delta, g) in self.displacement.iter_mut().zip(gradient) {
            *delta -= eta * g;
        }
        let length = norm(&self.displacement);
        if length > self.schedule.cap {
            let shrink = self.schedule.cap / length;
            self.displacement.iter_mut().for_each(|x| *x *= shrink);
        }
        self.done += 1;
        if self.done.is_multiple_of(self.schedule.block) {
            self.end_block(self.done / self.schedule.block - 1);
        }
    }

    fn in_blocks(&self) -> bool {
        true
    }

    fn close(&mut self, _: Stop, _: &mut dyn Oracle) -> Result<Closing, AskError> {
        // A run that ended before the chosen block did returns the latest one, or the mean of the points so far.
        let finite = |point: &Vec<f64>| point.iter().all(|w| w.is_finite());
        let output = self.output.take().or_else(|| self.mean()).filter(finite);
        Ok(output.map_or_else(Closing::default, Closing::at))
    }
}

/// Into how many parts [0, 1] is cut.
const GRID: u64 = 1 << 52;

/// The middle of a part: exact, never 0 and never 1.
fn uniform(index: u64) -> f64 {
    (index as f64 + 0.5) / GRID as f64
}
