//! Statements from released counts.

use std::ops::Range;

use dpopt_solver::normal_reach;
use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::plan::PrivateEvaluation;
use super::prefix::Prefix;
use super::ranking::Noisy;
use super::ratio::{Ratio, chernoff};
use super::release::too_large_by;

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
    /// Probability that a random positive scores above a random negative.
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
    /// Failure probability of each interval.
    pub failure: f64,
    /// Number of records: none where it is private.
    pub records: Option<u64>,
    /// Deviation of the noise of each released number.
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
    /// Share of true positives among records called positive.
    pub precision: Measured,
    /// At edges between bins, 16 of them at most and the threshold 0 among them, by increasing threshold.
    pub roc: Vec<RocPoint>,
    /// Between these edges.
    pub calibration: Vec<Calibrated>,
    /// None where the number of records is private.
    pub population: Option<OfPopulation>,
    /// Where an estimate of the accuracy, the area, the log loss or the precision is missing: the factor by which the noise over the number of
    /// records has to fall until none is, by the released counts, to a power of 2. None where no estimate is missing, or where the counts do
    /// not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_too_large_by: Option<f64>,
}

/// Most lines of a table: with more of them each says less, and all have to hold together.
const SHOWN: usize = 16;

/// Released bins and their noise.
#[derive(Debug, Clone, PartialEq)]
pub struct EvaluationCounts {
    plan: PrivateEvaluation,
    prefix: Prefix,
    /// Positives and negatives.
    released: [Vec<f64>; 2],
    counts: [Vec<f64>; 2],
    /// Sum of 1/2 for right calls and -1/2 for wrong ones.
    right: f64,
    /// Sum of l/M - 1/2.
    loss: Option<f64>,
    /// Standard deviation of each number.
    deviation: f64,
    /// How far the vector of sums is off beside it, at most, for each record.
    rounding: f64,
}

/// A weighted sum of counts, and the weights of the released numbers in it: its noise is the same sum of independent noises.
#[derive(Debug, Clone)]
struct Sum {
    value: f64,
    weights: Vec<f64>,
}

impl Sum {
    /// Covariance of the two noises over s^2.
    fn covariance(&self, other: &Self) -> f64 {
        let pairs = self.weights.iter().zip(&other.weights);
        pairs.map(|(a, b)| a * b).sum()
    }

    fn length(&self) -> f64 {
        self.covariance(self).sqrt()
    }

    /// This and so many times the other.
    fn plus(&self, times: f64, other: &Self) -> Self {
        let pairs = self.weights.iter().zip(&other.weights);
        Self {
            value: self.value + times * other.value,
            weights: pairs.map(|(a, b)| a + times * b).collect(),
        }
    }
}

impl EvaluationCounts {
    /// From the released sums.
    pub(super) fn new(
        plan: &PrivateEvaluation,
        sums: &[f64],
        deviation: f64,
        rounding: f64,
    ) -> Self {
        let bins = plan.bins.count();
        let prefix = Prefix::new(bins);
        let class = |from: usize| -> Vec<f64> {
            let of = sums.iter().copied().chain(std::iter::repeat(0.0));
            of.skip(from).take(bins).collect()
        };
        let released = [class(bins), class(0)];
        Self {
            plan: *plan,
            counts: [&released[0], &released[1]].map(|of| prefix.counts(of)),
            prefix,
            released,
            right: sums.get(2 * bins).copied().unwrap_or(f64::NAN),
            loss: plan.loss_cap.and_then(|_| sums.get(2 * bins + 1).copied()),
            deviation,
            rounding,
        }
    }

    /// Estimated numbers of positives, by bin: they may be below 0.
    #[must_use]
    pub fn positives(&self) -> &[f64] {
        &self.counts[0]
    }

    /// Estimated numbers of negatives, by bin.
    #[must_use]
    pub fn negatives(&self) -> &[f64] {
        &self.counts[1]
    }

    /// All that they say: post-processing, at no cost.
    #[must_use]
    pub fn evaluation(&self) -> Evaluation {
        let found = self.all();
        let noise_too_large_by = too_large_by(|factor| {
            let less = Self {
                deviation: self.deviation / factor,
                ..self.clone()
            };
            let reach = less.reach(1);
            let [accuracy, precision] = less.first(reach);
            let loss = less.log_loss(reach);
            let of = [Some(accuracy), Some(precision), loss];
            let told = |of: &Measured| of.estimate.is_some();
            of.iter().flatten().all(told) && told(&less.noisy().measured(found.failure))
        });
        Evaluation {
            noise_too_large_by,
            ..found
        }
    }

    pub(super) fn all(&self) -> Evaluation {
        let failure = self.plan.tally.failure;
        let half = self.plan.bins.count() / 2;
        let table = self.called(half);
        let each = self.reach(4);
        let [
            true_positives,
            false_negatives,
            false_positives,
            true_negatives,
        ] = table.each_ref().map(|of| self.count(of, each));
        let reach = self.reach(1);
        let [accuracy, precision] = self.first(reach);
        let [tp, fneg, fp, tn] = &table;
        let (positives, negatives) = (tp.plus(1.0, fneg), fp.plus(1.0, tn));
        Evaluation {
            failure,
            records: self.known(),
            count_std: self.deviation,
            accuracy,
            positives: self.part(&positives, &negatives, reach),
            auc: self.noisy().measured(failure),
            log_loss: self.log_loss(reach),
            loss_cap: self.plan.loss_cap,
            confusion: BinaryConfusion {
                true_positives,
                false_positives,
                true_negatives,
                false_negatives,
            },
            precision,
            roc: self.roc(),
            calibration: self.calibration(),
            population: self.known().map(|records| self.population(records)),
            noise_too_large_by: None,
        }
    }

    /// The sum of the counts of these bins of the positives and of the negatives.
    fn sum(&self, positives: Range<usize>, negatives: Range<usize>) -> Sum {
        let bins = self.plan.bins.count();
        let (mut value, mut weights) = (0.0, Vec::with_capacity(2 * bins));
        for (bins_of, released) in [positives, negatives].into_iter().zip(&self.released) {
            let of = |bin| f64::from(u8::from(bins_of.contains(&bin)));
            let own = self
                .prefix
                .weights(&(0..bins).map(of).collect::<Vec<f64>>());
            value += own.iter().zip(released).map(|(w, y)| w * y).sum::<f64>();
            weights.extend(own);
        }
        Sum { value, weights }
    }

    /// At the threshold of this edge: positives above and below, negatives above and below.
    fn called(&self, edge: usize) -> [Sum; 4] {
        let bins = self.plan.bins.count();
        let (above, below) = (|| edge..bins, || 0..edge);
        [
            self.sum(above(), 0..0),
            self.sum(below(), 0..0),
            self.sum(0..0, above()),
            self.sum(0..0, below()),
        ]
    }

    fn every(&self) -> Sum {
        let bins = self.plan.bins.count();
        self.sum(0..bins, 0..bins)
    }

    /// Accuracy and precision.
    pub(super) fn first(&self, reach: f64) -> [Measured; 2] {
        let [tp, _, fp, _] = self.called(self.plan.bins.count() / 2);
        [self.mean(self.right, reach), self.share(&tp, &fp, reach)]
    }

    /// Quantile for so many two-sided intervals that hold together.
    fn reach(&self, intervals: usize) -> f64 {
        normal_reach(0.5 * self.plan.tally.failure / intervals as f64)
    }

    /// Edges of the tables, both ends among them: as many parts as there are bins, or the most whose number halves exactly.
    fn edges(&self) -> Vec<usize> {
        let half = self.plan.bins.count() / 2;
        let parts = half.min(SHOWN / 2);
        let side = |from: usize| (0..parts).map(move |k| from + k * half / parts);
        side(0).chain(side(half)).chain([2 * half]).collect()
    }

    fn roc(&self) -> Vec<RocPoint> {
        let edges = self.edges();
        let inner = edges.get(1..edges.len() - 1).unwrap_or_default();
        let each = self.reach(2 * inner.len());
        let point = |edge: &usize| {
            let [tp, fneg, fp, tn] = self.called(*edge);
            RocPoint {
                threshold: self.plan.bins.edge(*edge),
                false_positive_rate: self.share(&fp, &tn, each),
                true_positive_rate: self.share(&tp, &fneg, each),
            }
        };
        inner.iter().map(point).collect()
    }

    fn calibration(&self) -> Vec<Calibrated> {
        let (bins, edges) = (self.plan.bins.count(), self.edges());
        let each = self.reach(edges.len() - 1);
        let line = |ends: &[usize]| {
            let (from, to) = (ends[0], ends[1]);
            let [p, q] = [self.sum(from..to, 0..0), self.sum(0..0, from..to)];
            Calibrated {
                above: (from > 0).then(|| self.plan.bins.edge(from)),
                up_to: (to < bins).then(|| self.plan.bins.edge(to)),
                records: p.value + q.value,
                positives: self.share(&p, &q, each),
            }
        };
        edges.windows(2).map(line).collect()
    }

    /// The number of records, where it is public.
    fn known(&self) -> Option<u64> {
        let public = self.plan.tally.adjacency.record_count_is_public();
        public.then_some(self.plan.tally.records)
    }

    pub(super) fn noisy(&self) -> Noisy<'_> {
        Noisy {
            prefix: &self.prefix,
            released: [&self.released[0], &self.released[1]],
            deviation: self.deviation,
            rounding: self.off(1.0),
        }
    }

    /// How far a sum of the released numbers with weights of this length is off beside the noise.
    fn off(&self, length: f64) -> f64 {
        let every = self.every();
        // Where the number of records is private it is no larger than this, but with a probability below 1e-15.
        let most = every.value + 8.0 * self.deviation * every.length();
        (self.plan.tally.records as f64).max(most) * self.rounding * length
    }

    /// The best estimate of a sum, where all counts are known to add up to n.
    fn projected(&self, sum: &Sum) -> Sum {
        let Some(records) = self.known() else {
            return sum.clone();
        };
        let every = self.every();
        let times = sum.covariance(&every) / every.covariance(&every);
        let less = sum.plus(-times, &every);
        Sum {
            value: less.value + times * records as f64,
            ..less
        }
    }

    fn count(&self, of: &Sum, reach: f64) -> Measured {
        let sum = self.projected(of);
        let off = reach * self.deviation * sum.length() + self.off(sum.length());
        let most = self.known().map_or(f64::INFINITY, |records| records as f64);
        around(sum.value, off, [0.0, most])
    }

    /// x/(x + y).
    fn share(&self, x: &Sum, y: &Sum, reach: f64) -> Measured {
        let variance = self.deviation * self.deviation;
        let covariance = [x.covariance(x), x.covariance(y), y.covariance(y)];
        let off = self.off(x.length() + y.length());
        let ratio = Ratio::share([x.value, y.value], covariance.map(|of| of * variance), off);
        ratio.measured(reach, [0.0, 1.0])
    }

    /// The share x/(x + y) of all records.
    fn part(&self, x: &Sum, y: &Sum, reach: f64) -> Measured {
        let Some(records) = self.known() else {
            return self.share(x, y, reach);
        };
        let sum = self.projected(x);
        let off = reach * self.deviation * sum.length() + self.off(sum.length());
        around(sum.value / records as f64, off / records as f64, [0.0, 1.0])
    }

    /// M times the mean of l/M.
    pub(super) fn log_loss(&self, reach: f64) -> Option<Measured> {
        let (cap, sum) = (self.plan.loss_cap?, self.loss?);
        Some(self.mean(sum, reach).map(|part| cap * part))
    }

    /// sum/n + 1/2 of a share.
    fn mean(&self, sum: f64, reach: f64) -> Measured {
        let variance = self.deviation * self.deviation;
        let every = self.every();
        let ratio = match self.known() {
            Some(records) => Ratio {
                of: [sum, records as f64],
                covariance: [variance, 0.0, 0.0],
                rounding: self.off(1.0),
            },
            None => Ratio {
                of: [sum, every.value],
                covariance: [variance, 0.0, every.covariance(&every) * variance],
                rounding: self.off(1.0 + every.length()),
            },
        };
        ratio.measured(reach, [-0.5, 0.5]).map(|part| part + 0.5)
    }

    /// Half of the failure for the noise, half for the draw of the records.
    fn population(&self, records: u64) -> OfPopulation {
        let half = 0.5 * self.plan.tally.failure;
        let reach = normal_reach(0.5 * half);
        let n = records as f64;
        // Either end by itself.
        let needed = (2.0 / half).ln();
        let widened = |of: Measured, scale: f64| {
            let low = chernoff(of.low / scale, n, needed)[0];
            let high = chernoff(of.high / scale, n, needed)[1];
            Measured::new(of.estimate, [scale * low, scale * high], [0.0, scale])
        };
        let [accuracy, _] = self.first(reach);
        let log_loss = self.log_loss(reach);
        OfPopulation {
            accuracy: widened(accuracy, 1.0),
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
        let bins = self.plan.bins.count();
        let fewest = [self.sum(0..bins, 0..0), self.sum(0..0, 0..bins)].map(|class| {
            let length = class.length();
            class.value - normal_reach(0.25 * half) * self.deviation * length - self.off(length)
        });
        let fewest = fewest[0].min(fewest[1]).max(0.0);
        let off = ((4.0 / half).ln() / (2.0 * fewest)).sqrt();
        let ends = [here.low - off, here.high + off].map(|end| end.clamp(0.0, 1.0));
        Measured::new(here.estimate, ends, [0.0, 1.0])
    }
}

/// The interval around `value`, cut to `range`.
fn around(value: f64, off: f64, range: [f64; 2]) -> Measured {
    let ends = [value - off, value + off].map(|end| end.clamp(range[0], range[1]));
    Measured::new(Some(value), ends, range)
}
