//! Models of several classes.

use std::num::NonZeroUsize;

use dpopt_linalg::Row;
use dpopt_oracle::{Example, PrivateData, Softmax, Tally};
use dpopt_privacy::{Adjacency, Curator, Mu};
use dpopt_solver::normal_reach;
use serde::{Deserialize, Serialize};

use super::measured::Measured;
use super::release::{EvaluationError, MeanOf, Sums, TallyPlan, check, too_large_by};
use crate::confusion::{class_of, largest};

/// A plan to evaluate a model of K classes once.
///
/// # Formula
/// Released is a [`Tally`]. Up to [`ClassesPlan::LARGEST_TABLE`] classes its cells are the K^2 pairs of a class and a prediction, the place of
/// the largest output; beyond that the 2 K pairs of a class and whether the prediction is right. Shares are: whether it is right; with a cap M
/// on the log loss l = -ln softmax(z)_y, min(l, M)/M; under add-remove a constant 1. R^2 = 1 + m/4 with m shares.
///
/// # Privacy
/// One `Gaussian(z)` on all records: each record is in one cell. `docs/privacy/certificates.md`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassesPlan {
    /// Its cost and its noise.
    pub tally: TallyPlan,
    /// K.
    pub classes: usize,
    /// M.
    pub loss_cap: Option<f64>,
}

impl ClassesPlan {
    /// The most classes whose confusion table is released: 16,384 counts. With more, recalls have two counts each.
    pub const LARGEST_TABLE: usize = 128;

    /// A plan that spends `mu` on so many records, of K classes.
    ///
    /// # Errors
    /// [`EvaluationError`] but for those of data and releases: fewer than two classes, a cap or a failure probability that is none.
    pub fn new(
        (records, adjacency): (u64, Adjacency),
        mu: Mu,
        classes: usize,
        (loss_cap, failure): (Option<f64>, f64),
    ) -> Result<Self, EvaluationError> {
        let most = isize::MAX as usize / 64;
        let fits = (2..=most).contains(&classes);
        check("the number of classes", classes as f64, fits)?;
        let cap = loss_cap.unwrap_or(1.0);
        check("the cap on the log loss", cap, cap > 0.0 && cap.is_finite())?;
        let shares = Self::shares(loss_cap, adjacency);
        let radius = Tally::radius(classes, shares);
        Ok(Self {
            tally: TallyPlan::new((records, adjacency), mu, failure, radius)?,
            classes,
            loss_cap,
        })
    }

    fn shares(loss_cap: Option<f64>, adjacency: Adjacency) -> usize {
        1 + usize::from(loss_cap.is_some()) + TallyPlan::extra(adjacency)
    }

    /// Whether the confusion table is released.
    #[must_use]
    pub fn has_table(&self) -> bool {
        self.classes <= Self::LARGEST_TABLE
    }

    /// Cells for each class.
    fn width(&self) -> usize {
        match self.has_table() {
            true => self.classes,
            false => 2,
        }
    }

    /// Half of the width of the interval of the accuracy, where the number of records is public.
    #[must_use]
    pub fn accuracy_half_width(&self) -> f64 {
        self.tally.half_width()
    }

    /// Releases the counts of a model with these outputs, one for each class, from what the curator has reserved: [`TallyPlan::spend`].
    /// Settling is the caller's.
    ///
    /// # Privacy
    /// The outputs have to be a function of the row and of what is public.
    ///
    /// # Errors
    /// [`EvaluationError`], as [`super::PrivateEvaluation::release`].
    pub fn release<S: Fn(Row<'_>) -> Vec<f64> + Sync>(
        &self,
        data: &PrivateData,
        outputs: S,
        curator: Curator,
        threads: NonZeroUsize,
    ) -> Result<(ClassCounts, Curator), EvaluationError> {
        let (classes, cap) = (self.classes, self.loss_cap);
        let (table, width) = (self.has_table(), self.width());
        let place = |record: Example<'_>, shares: &mut [f64]| {
            let class = class_of(record.label as f32, classes);
            let outputs = outputs(record.row);
            let called = match outputs.is_empty() {
                true => 0,
                false => largest(&outputs).min(classes - 1),
            };
            let right = called == class;
            let loss = cap.map(|cap| Softmax::cross_entropy(&outputs, class) / cap);
            let of = [Some(f64::from(u8::from(right))), loss];
            for (share, of) in shares.iter_mut().zip(of.into_iter().flatten()) {
                *share = of;
            }
            class * width + if table { called } else { usize::from(right) }
        };
        let shares = Self::shares(cap, self.tally.adjacency);
        let tally = Tally::new(classes * width, shares, place);
        let (sums, curator) = self.tally.release(data, tally, curator, threads)?;
        Ok((ClassCounts { plan: *self, sums }, curator))
    }
}

/// Released counts of classes and predictions, and what their noise is.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassCounts {
    plan: ClassesPlan,
    sums: Sums,
}

/// A confusion table with noise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReleasedTable {
    /// A row for each class, a column for each prediction: released counts, below 0 maybe.
    pub counts: Vec<Vec<f64>>,
    /// All true counts are within this of them at once, with probability 1 - `failure`.
    pub half_width: f64,
}

/// An evaluation of a model of several classes on private records.
///
/// Each interval holds with probability 1 - `failure` over the noise, for these records, whatever they are; those of recalls hold together, so
/// do those of sizes, and those of the table. Of a class without records the recall is not defined, and nothing is said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClassesEvaluation {
    /// Failure probability of each interval.
    pub failure: f64,
    /// Number of records: none where it is private.
    pub records: Option<u64>,
    /// Deviation of the noise of each count.
    pub count_std: f64,
    /// Share of the records whose class has the largest output.
    pub accuracy: MeanOf,
    /// Mean of the log losses, each capped at `loss_cap`.
    pub log_loss: Option<MeanOf>,
    /// M.
    pub loss_cap: Option<f64>,
    /// Recall of each class.
    pub recalls: Vec<Measured>,
    /// Number of records of each class.
    pub sizes: Vec<Measured>,
    /// None beyond [`ClassesPlan::LARGEST_TABLE`] classes.
    pub confusion: Option<ReleasedTable>,
    /// Where an estimate is missing: the factor by which the noise over the number of records has to fall until none is, by the released counts,
    /// to a power of 2. None where no estimate is missing, or where the counts do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise_too_large_by: Option<f64>,
}

impl ClassCounts {
    /// All that they say: post-processing, at no cost.
    #[must_use]
    pub fn evaluation(&self) -> ClassesEvaluation {
        let noise_too_large_by = too_large_by(|factor| {
            let less = Self {
                plan: self.plan,
                sums: self.sums.with_noise_over(factor),
            };
            let found = less.all();
            let accuracy = [&found.accuracy.records];
            let mut of = accuracy.into_iter().chain(&found.recalls);
            of.all(|of| of.estimate.is_some())
        });
        ClassesEvaluation {
            noise_too_large_by,
            ..self.all()
        }
    }

    fn all(&self) -> ClassesEvaluation {
        let (plan, sums) = (&self.plan, &self.sums);
        let (failure, classes, width) = (plan.tally.failure, plan.classes, plan.width());
        let cells = classes * width;
        let rows = || sums.values[..cells.min(sums.values.len())].chunks(width);
        let union = |of: usize| normal_reach(0.5 * failure / of as f64);
        let reach = union(classes);
        let most = sums.known().map_or(f64::INFINITY, |records| records as f64);
        let recall = |(class, row): (usize, &[f64])| {
            let all: f64 = row.iter().sum();
            let right = row[if plan.has_table() { class } else { 1 }];
            let others = (width - 1) as f64;
            sums.part_of([right, all - right], [1.0, others], reach)
        };
        let size = |row: &[f64]| {
            let all: f64 = row.iter().sum();
            let counts = width as f64;
            let off = reach * sums.deviation * counts.sqrt() + sums.off(counts);
            let [low, high] = [all - off, all + off].map(|end| end.clamp(0.0, most));
            Measured::new(Some(all), [low, high], [0.0, most])
        };
        let table = || ReleasedTable {
            counts: rows().map(<[f64]>::to_vec).collect(),
            half_width: union(cells) * sums.deviation + sums.off(1.0),
        };
        ClassesEvaluation {
            failure,
            records: sums.known(),
            count_std: sums.deviation,
            accuracy: sums.mean(cells),
            log_loss: plan.loss_cap.map(|cap| sums.mean(cells + 1).scaled(cap)),
            loss_cap: plan.loss_cap,
            recalls: rows().enumerate().map(recall).collect(),
            sizes: rows().map(size).collect(),
            confusion: plan.has_table().then(table),
            noise_too_large_by: None,
        }
    }
}
