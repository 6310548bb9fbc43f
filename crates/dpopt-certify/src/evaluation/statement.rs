//! What released counts say.

use dpopt_solver::normal_reach;
use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::plan::PrivateEvaluation;
use super::ranking::Noisy;
use super::ratio::{Ratio, chernoff};

/// How many records of each class are on each side of the threshold. The four intervals hold together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BinaryConfusion {
    /// Positive, and above.
    pub true_positives: Measured,
    /// Negative, and above.
    pub false_positives: Measured,
    /// Negative, and not above.
    pub true_negatives: Measured,
    /// Positive, and not above.
    pub false_negatives: Measured,
}

/// A point of the ROC curve. All intervals of the curve hold together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RocPoint {
    /// Records with a score above it are called positive.
    pub threshold: f64,
    /// Share of the negatives above it.
    pub false_positive_rate: Measured,
    /// Share of the positives above it.
    pub true_positive_rate: Measured,
}

/// A line of the calibration table. All its intervals hold together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibrated {
    /// The score is above this; none for the first bin.
    pub above: Option<f64>,
    /// And at most this; none for the last bin.
    pub up_to: Option<f64>,
    /// Released number of records, below 0 maybe.
    pub records: f64,
    /// Share of the positives among them.
    pub positives: Measured,
}

/// The same for the population that the records are independent draws from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OfPopulation {
    /// Share of the right calls.
    pub accuracy: Measured,
    /// Of a random positive and a random negative.
    pub auc: Measured,
    /// Capped at M.
    pub log_loss: Option<Measured>,
}

/// An evaluation of scores of two classes on private records.
///
/// Each interval holds with probability 1 - `failure` over the noise, for these records, whatever they are; those of a table hold
/// together. Of a class without records rates and the area are not defined, and nothing is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Of each interval.
    pub failure: f64,
    /// Number of records: none where it is private.
    pub records: Option<u64>,
    /// Deviation of the noise of each count.
    pub count_std: f64,
    /// Share of the records whose score is above 0 if they are positive, and not above otherwise.
    pub accuracy: Measured,
    /// Share of the positives.
    pub positives: Measured,
    /// Area under the ROC curve: a random positive is above a random negative, ties half. What is in one bin may be in any order.
    pub auc: Measured,
    /// Mean of the log losses, each capped at `loss_cap`.
    pub log_loss: Option<Measured>,
    /// M.
    pub loss_cap: Option<f64>,
    /// At the threshold 0.
    pub confusion: BinaryConfusion,
    /// Of those called positive, how many are.
    pub precision: Measured,
    /// At every edge between bins, by increasing threshold.
    pub roc: Vec<RocPoint>,
    /// By bins of the score.
    pub calibration: Vec<Calibrated>,
    /// None where the number of records is private.
    pub population: Option<OfPopulation>,
}

/// Released counts of bins, and what their noise is.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluationCounts {
    plan: PrivateEvaluation,
    positives: Vec<f64>,
    negatives: Vec<f64>,
    /// Sum of l/M - 1/2.
    loss: Option<f64>,
    /// Of the noise of each number.
    deviation: f64,
    /// How far the vector of sums is off beside it, at most, for each record.
    rounding: f64,
}

impl EvaluationCounts {
    /// From the released sums.
    pub(super) fn new(
        plan: &PrivateEvaluation,
        sums: &[f64],
        deviation: f64,
        rounding: f64,
    ) -> Self {
        let cells = sums.as_chunks::<2>().0.iter().take(plan.bins.count());
        Self {
            plan: *plan,
            positives: cells.clone().map(|cell| cell[1]).collect(),
            negatives: cells.map(|cell| cell[0]).collect(),
            loss: plan.loss_cap.and_then(|_| sums.last().copied()),
            deviation,
            rounding,
        }
    }

    /// Released numbers of positives, by bin.
    #[must_use]
    pub fn positives(&self) -> &[f64] {
        &self.positives
    }

    /// Released numbers of negatives, by bin.
    #[must_use]
    pub fn negatives(&self) -> &[f64] {
        &self.negatives
    }

    /// All that they say: post-processing, at no cost.
    #[must_use]
    pub fn evaluation(&self) -> Evaluation {
        let failure = self.plan.tally.failure;
        let bins = self.plan.bins.count();
        let half = bins / 2;
        let (p, q) = (&self.positives, &self.negatives);
        let sum = |of: &[f64]| of.iter().sum::<f64>();
        let [tp, fp] = [p, q].map(|of| sum(&of[half..]));
        let [fneg, tn] = [p, q].map(|of| sum(&of[..half]));
        let two_sided = |failure: f64| normal_reach(0.5 * failure);

        let each = two_sided(failure / 4.0);
        let confusion = BinaryConfusion {
            true_positives: self.count(tp, each),
            false_positives: self.count(fp, each),
            true_negatives: self.count(tn, each),
            false_negatives: self.count(fneg, each),
        };
        let share = |[x, of_x]: [f64; 2], [y, of_y]: [f64; 2], reach| {
            self.share(([x, y], [of_x, of_y]), reach)
        };
        let edges = 1..bins;
        let each = two_sided(failure / (2.0 * edges.len() as f64));
        let roc = edges.map(|edge| {
            let (above, below) = ((bins - edge) as f64, edge as f64);
            let rate =
                |of: &[f64]| share([sum(&of[edge..]), above], [sum(&of[..edge]), below], each);
            RocPoint {
                threshold: self.plan.bins.edge(edge),
                false_positive_rate: rate(q),
                true_positive_rate: rate(p),
            }
        });
        let each = two_sided(failure / bins as f64);
        let calibration = (0..bins).map(|bin| Calibrated {
            above: (bin > 0).then(|| self.plan.bins.edge(bin)),
            up_to: (bin + 1 < bins).then(|| self.plan.bins.edge(bin + 1)),
            records: p[bin] + q[bin],
            positives: share([p[bin], 1.0], [q[bin], 1.0], each),
        });
        let reach = two_sided(failure);
        Evaluation {
            failure,
            records: self.known(),
            count_std: self.deviation,
            accuracy: self.part(tp + tn, fp + fneg, reach),
            positives: self.part(tp + fneg, fp + tn, reach),
            auc: self.noisy().measured(failure),
            log_loss: self.log_loss(reach),
            loss_cap: self.plan.loss_cap,
            confusion,
            precision: share([tp, half as f64], [fp, half as f64], reach),
            roc: roc.collect(),
            calibration: calibration.collect(),
            population: self.known().map(|records| self.population(records)),
        }
    }

    /// The number of records, where it is public.
    fn known(&self) -> Option<u64> {
        let public = self.plan.tally.adjacency.record_count_is_public();
        public.then_some(self.plan.tally.records)
    }

    fn noisy(&self) -> Noisy<'_> {
        Noisy {
            positives: &self.positives,
            negatives: &self.negatives,
            deviation: self.deviation,
            rounding: self.off(1.0),
        }
    }

    /// How far a sum of so many counts is off beside the noise.
    fn off(&self, counts: f64) -> f64 {
        let all: f64 = self.positives.iter().chain(&self.negatives).sum();
        // Where the number of records is private it is no larger than this, but with a probability below 1e-15.
        let most = all + 8.0 * self.deviation * (2.0 * self.positives.len() as f64).sqrt();
        let records = (self.plan.tally.records as f64).max(most);
        records * self.rounding * counts.sqrt()
    }

    /// Of a quarter of all counts. Where n is public their sum is known, and a quarter of what it is off belongs to these.
    fn count(&self, released: f64, reach: f64) -> Measured {
        let counts = 0.5 * self.positives.len() as f64;
        let (value, variance) = match self.known() {
            Some(records) => {
                let all: f64 = self.positives.iter().chain(&self.negatives).sum();
                (released + 0.25 * (records as f64 - all), 0.75 * counts)
            }
            None => (released, counts),
        };
        let off = reach * self.deviation * variance.sqrt() + self.off(4.0 * counts);
        let most = self.known().map_or(f64::INFINITY, |records| records as f64);
        within(value, [value - off, value + off], [0.0, most])
    }

    /// x/(x + y), of sums of so many counts each.
    fn share(&self, (of, counts): ([f64; 2], [f64; 2]), reach: f64) -> Measured {
        let variance = self.deviation * self.deviation;
        let off = self.off(counts[0] + counts[1]);
        let ratio = Ratio::share(of, counts.map(|k| k * variance), off);
        let ends = ratio.interval(reach, [0.0, 1.0]);
        measured(ratio.estimate(ends), ends)
    }

    /// Of all records the part x, the others being y: half of all counts each.
    fn part(&self, x: f64, y: f64, reach: f64) -> Measured {
        let counts = self.positives.len() as f64;
        let Some(records) = self.known() else {
            return self.share(([x, y], [counts, counts]), reach);
        };
        let records = records as f64;
        let value = 0.5 * (x - y) / records + 0.5;
        let off = reach * self.deviation * (0.5 * counts).sqrt() + self.off(2.0 * counts);
        let off = off / records;
        within(value, [value - off, value + off], [0.0, 1.0])
    }

    /// M (sum/n + 1/2).
    fn log_loss(&self, reach: f64) -> Option<Measured> {
        let (cap, sum) = (self.plan.loss_cap?, self.loss?);
        let variance = self.deviation * self.deviation;
        let counts = 2.0 * self.positives.len() as f64;
        let ratio = match self.known() {
            Some(records) => Ratio {
                of: [sum, records as f64],
                covariance: [variance, 0.0, 0.0],
                rounding: self.off(1.0),
            },
            None => Ratio {
                of: [sum, self.positives.iter().chain(&self.negatives).sum()],
                covariance: [variance, 0.0, counts * variance],
                rounding: self.off(1.0 + counts),
            },
        };
        let ends = ratio.interval(reach, [-0.5, 0.5]);
        let loss = |part: f64| cap * (part + 0.5);
        Some(measured(loss(ratio.estimate(ends)), ends.map(loss)))
    }

    /// Half of the failure for the noise, half for the draw of the records.
    fn population(&self, records: u64) -> OfPopulation {
        let half = 0.5 * self.plan.tally.failure;
        let reach = normal_reach(0.5 * half);
        let n = records as f64;
        let (p, q) = (&self.positives, &self.negatives);
        let middle = self.plan.bins.count() / 2;
        let right: f64 = p[middle..].iter().chain(&q[..middle]).sum();
        let wrong: f64 = p[..middle].iter().chain(&q[middle..]).sum();
        // Either end by itself.
        let needed = (2.0 / half).ln();
        let widened = |of: Measured, scale: f64| {
            let low = chernoff(of.low / scale, n, needed)[0];
            let high = chernoff(of.high / scale, n, needed)[1];
            measured(of.estimate, [scale * low, scale * high])
        };
        let log_loss = self.log_loss(reach);
        OfPopulation {
            accuracy: widened(self.part(right, wrong, reach), 1.0),
            auc: self.auc_of_population(half),
            log_loss: log_loss
                .zip(self.plan.loss_cap)
                .map(|(loss, cap)| widened(loss, cap)),
        }
    }

    /// With the smaller class at least m, the area of these records is further off than t with probability 2 exp(-2 m t^2) (Hoeffding 1963,
    /// section 5b), given the classes. A quarter of the failure is for m.
    fn auc_of_population(&self, half: f64) -> Measured {
        let here = self.noisy().measured(half);
        let counts = self.positives.len() as f64;
        let lower = normal_reach(0.25 * half) * self.deviation * counts.sqrt() + self.off(counts);
        let sums = [&self.positives, &self.negatives].map(|of| of.iter().sum::<f64>() - lower);
        let fewest = sums[0].min(sums[1]).max(0.0);
        let off = ((4.0 / half).ln() / (2.0 * fewest)).sqrt();
        within(here.estimate, [here.low - off, here.high + off], [0.0, 1.0])
    }
}

fn measured(estimate: f64, [low, high]: [f64; 2]) -> Measured {
    Measured {
        estimate,
        low,
        high,
    }
}

/// What of an interval can be.
fn within(value: f64, ends: [f64; 2], [least, most]: [f64; 2]) -> Measured {
    let [low, high] = ends.map(|end| end.clamp(least, most));
    measured(value.clamp(low, high), [low, high])
}
