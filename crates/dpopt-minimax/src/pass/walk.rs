//! The run of a pass.

use dpopt_linalg::norm;
use dpopt_oracle::{AskError, Oracle, StepKind};
use dpopt_privacy::{Slice, Which};
use dpopt_solver::{Asked, Closing, ReleaseKind, ReleasedNorm, Stop, Walk, in_stock};

use super::estimate::Estimates;
use super::schedule::{Reserved, RgdaPassSchedule};
use crate::certificate::{Sampling, measured};
use crate::facts::SaddleFacts;
use crate::place::{Moved, Place};

/// A run on its way. All of it is public.
pub(super) struct Pass<'a> {
    facts: &'a SaddleFacts,
    schedule: &'a RgdaPassSchedule,
    /// What is kept for a certificate, and the probability with which it may be false.
    reserved: Option<(&'a Reserved, f64)>,
    place: Place,
    estimates: Estimates,
    /// Steps of x.
    outer: u64,
    /// The next release is an anchor.
    fresh: bool,
    /// Releases so far.
    releases: u64,
    /// The step of x whose point is returned: drawn before the first release.
    drawn: Option<u64>,
    output: Option<Vec<f64>>,
    /// The shortest estimate, for a certificate.
    shortest: f64,
    /// The records for it.
    kept: Option<Slice>,
}

impl<'a> Pass<'a> {
    pub(super) fn new(
        facts: &'a SaddleFacts,
        (schedule, reserved): (&'a RgdaPassSchedule, Option<(&'a Reserved, f64)>),
        place: Place,
        estimates: Estimates,
    ) -> Self {
        Self {
            facts,
            schedule,
            reserved,
            place,
            estimates,
            outer: 0,
            fresh: true,
            releases: 0,
            drawn: None,
            output: None,
            shortest: f64::INFINITY,
            kept: None,
        }
    }

    /// Keeps the point that is returned, and goes on.
    fn leave(&mut self, gradient: &[f64]) {
        let slope = self.place.x_part(gradient);
        let length = norm(slope);
        let wanted = match self.reserved {
            None => self.drawn == Some(self.outer),
            Some(_) => length < self.shortest,
        };
        if wanted {
            self.shortest = length;
            self.output = Some(self.place.at().to_vec());
        }
        let of = self.schedule;
        // An estimate of zero points nowhere.
        if length > 0.0 {
            self.place.step(-of.length / length, slope);
        } else {
            self.place.step(0.0, slope);
        }
        self.outer += 1;
        self.fresh |= self.outer.is_multiple_of(of.period);
    }
}

impl Walk for Pass<'_> {
    fn ask(&mut self, _: u64, _: &[f64], oracle: &mut dyn Oracle) -> Result<Asked<'_>, AskError> {
        if self.drawn.is_none() {
            let steps = self.schedule.steps();
            self.drawn = Some(oracle.books().draw_index(steps));
            // First, so that no step can read them.
            if let Some((kept, _)) = self.reserved {
                self.kept = Some(oracle.books().take_slice(kept.records)?);
            }
        }
        if self.fresh {
            self.estimates.begin_phase();
        }
        let place = &self.place;
        let tracked = in_stock(self.estimates.estimate(oracle, place.at()))?;
        let Some(tracked) = tracked else {
            return Ok(Asked::Nothing(Stop::RecordsExhausted));
        };
        self.fresh = false;
        self.releases += 1;
        let kind = match tracked.kind {
            StepKind::Anchor => ReleaseKind::Anchor,
            _ => ReleaseKind::Variation,
        };
        Ok(Asked::estimate_at(kind, place.at(), tracked.estimate))
    }

    fn step(&mut self, _: &[f64], gradient: &[f64], next: &mut [f64]) {
        match self.place.ascend(gradient) {
            Moved::Before => self.fresh = true,
            Moved::Inner => {}
            Moved::Nothing => self.leave(gradient),
        }
        next.copy_from_slice(self.place.at());
    }

    fn finished(&self) -> bool {
        self.outer >= self.schedule.steps()
    }

    /// The certificate, where one is planned, on the records that were kept for it and are a fresh sample.
    fn close(&mut self, _: Stop, oracle: &mut dyn Oracle) -> Result<Closing, AskError> {
        let Some(point) = self.output.take() else {
            return Ok(Closing::default());
        };
        let mut closing = Closing::at(point);
        let (Some((planned, failure)), Some(kept), Some(point)) =
            (self.reserved, &self.kept, &closing.point)
        else {
            return Ok(closing);
        };
        // The run is as good without it, and states nothing then.
        if oracle.books().check_sample_of(kept).is_err() {
            return Ok(closing);
        }
        let (facts, scale) = (self.facts, self.schedule.scale);
        let added = Sampling::of(facts, scale, kept.len(), failure);
        let (noise, over) = ((&planned.noise, &added), Which::Slice(kept));
        let found = measured(facts, scale, point, noise, over, oracle)?;
        if let Some(found) = found {
            closing.norms = if facts.y_dim() > 0 { 2 } else { 1 };
            closing.norm = Some(ReleasedNorm {
                step: self.releases.saturating_sub(1),
                ..found.norm
            });
            closing.certified = Some(found.certified(facts, scale));
        }
        Ok(closing)
    }
}
