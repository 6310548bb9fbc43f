//! From trials to verdicts.

use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use rand::Rng as _;
use serde::Serialize;

use super::claim::{Claim, Design, Expect, Experiment};
use super::error::VerifyError;
use super::journal::Outcome;
use crate::checks::{Effort, Status};
use crate::rates::LogLogFit;

/// Confidence of all intervals.
const CONFIDENCE: f64 = 0.95;
/// Resamples of the seeds.
const RESAMPLES: usize = 400;

/// The measurement at one argument.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// The argument.
    pub x: f64,
    /// Mean error over seeds: of the worst problem of the family, or over all of them.
    pub error: f64,
    /// The number it was divided by before the fit.
    pub correction: f64,
    /// The planner's bound, the least one over the family.
    pub bound: Option<f64>,
    /// Largest ratio of a problem's root mean square error to its bound.
    pub of_bound: Option<f64>,
    /// Ratio of the error to the lower bound for any solver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of_floor: Option<f64>,
    /// Trials that failed.
    pub failed: usize,
}

/// The verdict on one claim.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// The claim.
    #[serde(flatten)]
    pub claim: Claim,
    /// The fitted exponent; NaN without a fit.
    pub measured: f64,
    /// Its interval: the hull of that of the regression and that of resampled seeds.
    pub ci: [f64; 2],
    /// The exponent without the correction.
    pub uncorrected: f64,
    /// ln of the factor in front of the power.
    pub intercept: f64,
    /// log10 of the largest argument over the least.
    pub decades: f64,
    /// Number of arguments.
    pub points: usize,
    /// Whether every problem's root mean square error is at most its bound; none without bounds.
    pub bound_respected: Option<bool>,
    /// Trials.
    pub trials: usize,
    /// Trials that failed.
    pub failed: usize,
    /// The verdict.
    pub status: Status,
    /// The reasons against the claim; for a control, what caught it.
    pub why: Vec<String>,
    /// The points.
    pub data: Vec<Point>,
}

/// The verdicts of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// How thorough it was.
    pub effort: Effort,
    /// The seed.
    pub seed: u64,
    /// One row for each claim.
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether every claim was confirmed and every control caught.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.status == Status::Pass)
    }
}

/// Outcomes by argument, problem and seed.
pub(super) struct Cells(Vec<Vec<Vec<Outcome>>>);

impl Cells {
    pub(super) fn collect(
        design: &Design,
        outcome: impl Fn(usize, usize, usize) -> Outcome,
    ) -> Self {
        Self(
            (0..design.points.len())
                .map(|point| {
                    (0..design.members)
                        .map(|member| {
                            (0..design.seeds)
                                .map(|seed| outcome(point, member, seed))
                                .collect()
                        })
                        .collect()
                })
                .collect(),
        )
    }

    /// Errors of the trials that succeeded.
    fn errors(&self) -> Vec<Vec<Vec<f64>>> {
        let of = |cell: &Vec<Outcome>| cell.iter().flatten().map(|m| m.error).collect();
        self.0
            .iter()
            .map(|members| members.iter().map(of).collect())
            .collect()
    }

    fn failures(&self) -> impl Iterator<Item = &str> {
        let all = self.0.iter().flatten().flatten();
        all.filter_map(|outcome| outcome.as_ref().err().map(String::as_str))
    }
}

/// The verdict on one experiment.
pub(super) fn judge(
    experiment: &dyn Experiment,
    design: &Design,
    cells: &Cells,
) -> Result<Row, VerifyError> {
    let claim = experiment.claim();
    let x = &design.points;
    let errors = cells.errors();
    let data: Vec<Point> = (0..x.len())
        .map(|i| {
            point(
                experiment,
                x[i],
                &cells.0[i],
                combine(claim.worst, &errors[i]),
            )
        })
        .collect();
    let corrections: Vec<f64> = data.iter().map(|p| p.correction).collect();
    let raw: Vec<f64> = data.iter().map(|p| p.error).collect();
    let corrected: Vec<f64> = raw.iter().zip(&corrections).map(|(e, c)| e / c).collect();
    let fit = LogLogFit::new(x, &corrected, CONFIDENCE);
    let uncorrected = LogLogFit::new(x, &raw, CONFIDENCE).map_or(f64::NAN, |fit| fit.slope);
    let ci = fit.as_ref().map_or([f64::NAN; 2], |fit| {
        let seeds = resampled(claim, x, &errors, &corrections, fit.slope);
        [fit.low.min(seeds[0]), fit.high.max(seeds[1])]
    });
    let bounded = data.iter().any(|p| p.of_bound.is_some());
    let respected = data
        .iter()
        .all(|p| p.of_bound.is_none_or(|ratio| ratio <= 1.0));
    let failed: usize = data.iter().map(|p| p.failed).sum();
    let measured = fit.as_ref().map_or(f64::NAN, |fit| fit.slope);
    let mut why = Vec::new();
    if failed > 0 {
        let first = cells.failures().next().unwrap_or_default();
        why.push(format!(
            "{failed} of {} trials failed, the first with: {first}",
            design.trials()
        ));
    }
    let fitted = match &fit {
        Ok(_) => {
            why.extend(against(claim, measured, ci));
            true
        }
        Err(error) => {
            why.push(error.to_string());
            false
        }
    };
    if bounded && !respected {
        let worst = data.iter().filter_map(|p| p.of_bound).fold(0.0, f64::max);
        why.push(format!("the error is up to {worst:.2} times the bound"));
    }
    let shares = data.iter().filter_map(|p| p.of_bound);
    let least = shares.fold(f64::INFINITY, f64::min);
    if claim.tight > 0.0 && !claim.control && !(bounded && least >= claim.tight) {
        why.push(format!(
            "the error is down to {least:.2} of the bound, below {}: the family is too easy",
            claim.tight
        ));
    }
    let least = data.iter().filter_map(|p| p.of_floor).reduce(f64::min);
    if let Some(least) = least.filter(|least| !(*least >= 1.0)) {
        why.push(format!(
            "the error is down to {least:.2} of a lower bound for any solver"
        ));
    }
    // A twin is caught by what it measures, not by failing to run.
    let ran = failed == 0 && fitted;
    let pass = ran && (why.is_empty() != claim.control);
    if claim.control && ran && why.is_empty() {
        why.push("the broken twin was not caught".to_owned());
    }
    Ok(Row {
        claim: claim.clone(),
        measured,
        ci,
        uncorrected,
        intercept: fit.map_or(f64::NAN, |fit| fit.intercept),
        decades: (x[x.len() - 1] / x[0]).log10(),
        points: x.len(),
        bound_respected: bounded.then_some(respected),
        trials: design.trials(),
        failed,
        status: Status::of(pass),
        why,
        data,
    })
}

/// The reasons of a fitted exponent against the claim.
fn against(claim: &Claim, measured: f64, ci: [f64; 2]) -> Vec<String> {
    let mut why = Vec::new();
    let (predicted, tolerance) = (claim.predicted, claim.tolerance);
    let off = match claim.expect {
        Expect::Equal => (measured - predicted).abs(),
        Expect::AtMost => measured - predicted,
    };
    if !(off <= tolerance) {
        why.push(format!(
            "the exponent is {measured:.3}, more than {tolerance} from {predicted:.3}"
        ));
    }
    let width = ci[1] - ci[0];
    // A wide interval is no sign that a twin is broken.
    if !claim.control && !(width <= claim.width) {
        why.push(format!(
            "the interval is {width:.3} wide, and {} decides nothing",
            claim.width
        ));
    }
    why
}

/// One error for one argument, from the errors of each problem and seed.
fn combine(worst: bool, members: &[Vec<f64>]) -> f64 {
    let means = members
        .iter()
        .filter(|seeds| !seeds.is_empty())
        .map(|s| mean(s));
    if worst {
        means.fold(0.0, f64::max)
    } else {
        mean(&means.collect::<Vec<_>>())
    }
}

/// The mean; 0 of an empty list.
fn mean(v: &[f64]) -> f64 {
    v.iter().sum::<f64>() / v.len().max(1) as f64
}

fn point(experiment: &dyn Experiment, x: f64, members: &[Vec<Outcome>], error: f64) -> Point {
    let mut bound: Option<f64> = None;
    let mut of_bound: Option<f64> = None;
    let mut floor: Option<f64> = None;
    for member in members {
        let done: Vec<_> = member.iter().flatten().collect();
        floor = done
            .iter()
            .filter_map(|m| m.floor)
            .chain(floor)
            .reduce(f64::max);
        let bounds: Vec<f64> = done.iter().filter_map(|m| m.bound).collect();
        if bounds.is_empty() {
            continue;
        }
        let least = bounds.iter().copied().fold(f64::INFINITY, f64::min);
        let squares: Vec<f64> = done.iter().map(|m| m.square).collect();
        let ratio = mean(&squares).sqrt() / least;
        bound = Some(bound.map_or(least, |b| b.min(least)));
        of_bound = Some(of_bound.map_or(ratio, |r| r.max(ratio)));
    }
    Point {
        x,
        error,
        correction: experiment.correction(x),
        bound,
        of_bound,
        of_floor: floor.map(|floor| error / floor),
        failed: members.iter().flatten().filter(|o| o.is_err()).count(),
    }
}

/// The interval of the exponent when each problem's seeds are drawn again, with replacement.
///
/// With k seeds a resample varies by sqrt((k - 1)/k) too little; the deviations are stretched by the
/// inverse. With one seed there is nothing to resample.
fn resampled(
    claim: &Claim,
    x: &[f64],
    errors: &[Vec<Vec<f64>>],
    corrections: &[f64],
    slope: f64,
) -> [f64; 2] {
    let least = errors.iter().flatten().map(Vec::len).min().unwrap_or(0);
    if least < 2 {
        return [slope; 2];
    }
    let key = ReplayKeyForTests::from_seed(claim.id.len() as u64);
    let mut stream = key.stream(StreamId::new(Purpose::Sampling, 0));
    let mut slopes: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            let y: Vec<f64> = errors
                .iter()
                .zip(corrections)
                .map(|(members, c)| {
                    let drawn: Vec<Vec<f64>> = members
                        .iter()
                        .map(|seeds| redraw(seeds, &mut stream))
                        .collect();
                    combine(claim.worst, &drawn) / c
                })
                .collect();
            LogLogFit::new(x, &y, CONFIDENCE).ok().map(|fit| fit.slope)
        })
        .collect();
    slopes.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let i = (share * (slopes.len().max(1) - 1) as f64).round() as usize;
        slopes.get(i).copied().unwrap_or(slope)
    };
    let stretch = (least as f64 / (least - 1) as f64).sqrt();
    let tail = 0.5 * (1.0 - CONFIDENCE);
    [tail, 1.0 - tail].map(|share| slope + stretch * (at(share) - slope))
}

fn redraw(seeds: &[f64], stream: &mut KeyedStream) -> Vec<f64> {
    let below = |n: usize, word: u64| ((u128::from(word) * n as u128) >> 64) as usize;
    seeds
        .iter()
        .map(|_| seeds[below(seeds.len(), stream.next_u64())])
        .collect()
}
