//! Records that are held out of training, and what the model is worth on them.

use std::num::NonZeroUsize;

use clap::Args;
use dpopt::data::tabular::{Label, Schema};
use dpopt::nonconvex::Budget;
use dpopt::oracle::{DataError, PrivateData};
use dpopt::privacy::{Adjacency, Delta, Epsilon, Guarantee};

use crate::args;
use crate::error::CliError;
use crate::evaluated::{Evaluated, HeldOutRecords, Planned};
use crate::fit::Fit;
use crate::ranks;

/// Flags of a hold-out.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct HoldOutArgs {
    /// Hold out this share of the records, drawn by a public seed: they are protected, not trained on, and what the model is evaluated on
    /// (with --evaluate)
    #[arg(long, value_name = "SHARE", value_parser = args::probability, allow_hyphen_values = true)]
    holdout: Option<f64>,
    /// Evaluate the model on the records that were held out, with noise: accuracy, AUC, log loss, confusion, ROC and calibration tables, or
    /// recalls of several classes, or errors of a number, each with an interval. A record is in one part, so that this takes nothing from training: SHARE is of the squared mu of the
    /// budget, on the hold-out, and all of it unless said (less leaves room for `dpopt evaluate` later)
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "1", value_parser = share)]
    evaluate: Option<f64>,
    /// Seed of the draw of the records that are held out: public, and chosen without looking at them. Default: drawn from the operating
    /// system, and named in the report
    #[arg(
        long,
        value_name = "S",
        requires = "holdout",
        allow_hyphen_values = true
    )]
    holdout_seed: Option<u64>,
    /// Bins of scores of two classes that an evaluation counts records in: an even number. Default: by the number of records and the noise
    #[arg(
        long,
        value_name = "B",
        requires = "evaluate",
        allow_hyphen_values = true
    )]
    bins: Option<usize>,
}

fn share(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if (1e-3..=1.0).contains(&value) => Ok(value),
        _ => Err("a share from 0.001 to 1 is needed".to_owned()),
    }
}

/// So many records are that share.
fn held(holdout: f64, records: u64) -> u64 {
    (holdout * records as f64).round() as u64
}

/// What to do where there are no two parts.
fn no_parts(holdout: f64, error: DataError, records: u64) -> CliError {
    let remedy = match error {
        DataError::HoldOut { .. } => {
            format!(" ({holdout:?} of {records}): give another share or more records")
        }
        DataError::HoldOutInAFile => {
            ": leave out --in-place and give the table itself, not a file of rows".to_owned()
        }
        _ => String::new(),
    };
    CliError::flag("--holdout", format!("{error}{remedy}"))
}

/// The records that were held out, and the plan for them.
pub(crate) struct HeldOut {
    data: PrivateData,
    seed: u64,
    share: f64,
    bins: Option<usize>,
}

impl HoldOutArgs {
    /// Refuses what can't be, before a record is read. `test`, `ledger`: whether they were given.
    pub(crate) fn check(
        self,
        adjacency: Adjacency,
        (test, ledger): (bool, bool),
    ) -> Result<(), CliError> {
        let refused = |flag, problem: &str| Err(CliError::flag(flag, problem));
        match (self.holdout, self.evaluate) {
            (None, None) => return Ok(()),
            (Some(_), None) => {
                return refused(
                    "--holdout",
                    "records are held out to be evaluated on: give --evaluate too",
                );
            }
            (None, Some(_)) => {
                return refused(
                    "--evaluate",
                    "it is made on records that were not trained on: give --holdout SHARE too (0.2, say), or `dpopt evaluate` other records",
                );
            }
            (Some(_), Some(_)) => {}
        }
        if test {
            return refused(
                "--test",
                "a test set is evaluated without noise, outside the protection, and --evaluate is its place where there is none: give one \
                 of the two",
            );
        }
        if ledger {
            return refused(
                "--evaluate",
                "a ledger pays for one run, and adds up what parts of the records cost; train on a file of its own, and evaluate the rest \
                 with `dpopt evaluate --ledger`",
            );
        }
        if adjacency == Adjacency::ReplaceOne {
            return Ok(());
        }
        let why = match adjacency.record_count_is_public() {
            true => {
                "under zero-out adjacency an erased record would still be counted; take replace-one"
                    .to_owned()
            }
            false => {
                DataError::NoHoldOut(adjacency).to_string()
                    + ", and evaluate with `dpopt evaluate`; or take replace-one"
            }
        };
        Err(CliError::flag("--holdout", why))
    }

    /// Refuses records that stay in their file: they are not drawn from.
    pub(crate) fn check_memory(self, in_a_file: bool, records: u64) -> Result<(), CliError> {
        match self.holdout {
            Some(holdout) if in_a_file => {
                Err(no_parts(holdout, DataError::HoldOutInAFile, records))
            }
            _ => Ok(()),
        }
    }

    /// How many of so many records would be trained on, and what the evaluation of the others would tell, in words.
    pub(crate) fn planned(
        self,
        (records, label): (u64, &Label),
        adjacency: Adjacency,
        budget: &Budget,
    ) -> Result<Option<(u64, String)>, CliError> {
        let (Some(holdout), Some(share)) = (self.holdout, self.evaluate) else {
            return Ok(None);
        };
        let held = held(holdout, records);
        if held == 0 || held >= records {
            return Err(no_parts(
                holdout,
                DataError::HoldOut { held, records },
                records,
            ));
        }
        let budget = (budget.epsilon, budget.delta);
        let planned = Planned::new((held, adjacency), budget, share, (label, self.bins))?;
        let told = planned.foretold()?;
        let words = format!("of {held} records held out: {told}");
        Ok(Some((records - held, words)))
    }

    /// The records to train on, and those that are held out, with a plan for them.
    pub(crate) fn split(
        self,
        (data, label): (PrivateData, &Label),
        epsilon: Epsilon,
        delta: Delta,
    ) -> Result<(PrivateData, Option<HeldOut>), CliError> {
        let (Some(holdout), Some(share)) = (self.holdout, self.evaluate) else {
            return Ok((data, None));
        };
        let records = data.public_records();
        let held = held(holdout, records);
        let seed = match self.holdout_seed {
            Some(seed) => seed,
            None => ranks::draw_seed()?,
        };
        let parts = data.set_aside(held, seed);
        let (data, held) = parts.map_err(|error| no_parts(holdout, error, records))?;
        let held = HeldOut {
            data: held,
            seed,
            share,
            bins: self.bins,
        };
        // Refused now, if it can't be made.
        held.plan(label, epsilon, delta)?;
        Ok((data, Some(held)))
    }
}

impl HeldOut {
    fn plan(&self, label: &Label, epsilon: Epsilon, delta: Delta) -> Result<Planned, CliError> {
        let of = (self.data.public_records(), self.data.adjacency());
        let how = (label, self.bins);
        Planned::new(of, (epsilon, delta), self.share, how)
    }

    /// Evaluates a released point, by a curator of its own, for no more than the run's guarantee: so that is the guarantee of both.
    pub(crate) fn evaluate(
        &self,
        (fit, plain): (&Fit, bool),
        point: &[f64],
        (schema, run): (&Schema, &Guarantee),
        threads: Option<NonZeroUsize>,
    ) -> Result<Evaluated, CliError> {
        let planned = self.plan(schema.label(), Epsilon::new(run.epsilon())?, run.delta())?;
        let plan = planned.of_model(fit, point, self.data.row_norm())?;
        let curator = ranks::curator(self.data.adjacency())?;
        // There is no ledger to settle with.
        let released = planned.release(&plan, &self.data, (fit, point), (curator, threads))?;
        let records = self.data.public_records();
        let held_out = HeldOutRecords {
            records,
            seed: self.seed,
        };
        Ok(Evaluated::new(
            released.told,
            &released.guarantee,
            (schema, schema.is_draft()),
            (records, Some(held_out)),
            plain,
        ))
    }
}
