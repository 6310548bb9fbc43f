//! What is said of a tuning: in the model's file, in the statement, and by `dpopt explain`.

use dpopt::certify::TuningScore;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::args::AnySolver;
use crate::class_weights::in_words;
use crate::loss::LossName;
use crate::statement::rounded_up;

/// The law of the number of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Law {
    /// Poisson
    Poisson,
    /// Truncated negative binomial of shape 1
    Geometric,
    /// Truncated negative binomial of shape 0
    Logarithmic,
}

impl Law {
    pub(super) fn shape(self) -> f64 {
        match self {
            Self::Poisson => f64::INFINITY,
            Self::Geometric => 1.0,
            Self::Logarithmic => 0.0,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Poisson => "a Poisson",
            Self::Geometric => "a geometric",
            Self::Logarithmic => "a logarithmic",
        }
    }

    pub(super) fn theorem(self) -> &'static str {
        match self {
            Self::Poisson => "Theorem 6",
            Self::Geometric | Self::Logarithmic => "Theorem 2",
        }
    }
}

/// A candidate, whole. As in the model's file: what was chosen among is public.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) solver: AnySolver,
    pub(crate) loss: LossName,
    /// Hidden units of each layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hidden: Option<Vec<usize>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class_weights: Option<BTreeMap<String, f64>>,
    pub(crate) row_norm: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_passes: Option<f64>,
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let loss = loss_in_words(self.loss, self.hidden.clone());
        write!(f, "{}, {loss}", self.solver)?;
        if let Some(weights) = &self.class_weights {
            write!(f, ", class weights {}", in_words(weights))?;
        }
        write!(f, ", row norm {}", self.row_norm)?;
        match self.max_passes {
            None => Ok(()),
            Some(passes) => write!(f, ", at most {passes} passes"),
        }
    }
}

/// A loss, and the hidden units whose output it is of.
pub(super) fn loss_in_words(loss: LossName, hidden: Option<Vec<usize>>) -> String {
    let Some(hidden) = hidden else {
        return format!("{loss} loss");
    };
    let widths: Vec<String> = hidden.iter().map(ToString::to_string).collect();
    format!("{loss} loss of {} hidden units", widths.join(", "))
}

/// For serde, which asks by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(chosen: &usize) -> bool {
    *chosen == 0
}

/// How a model was chosen. All of it is public, or was released with the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TuningTold {
    /// All candidates, the chosen one too.
    pub(crate) candidates: Vec<Named>,
    /// The number of the chosen one, counted from 1; 0 before the choice.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) chosen: usize,
    /// By which of the numbers of the evaluation.
    pub(crate) score: TuningScore,
    /// The law of the number of runs, and its mean. The number itself is in no file.
    pub(crate) law: Law,
    pub(crate) mean_runs: f64,
    /// What one run was planned with.
    pub(crate) epsilon_of_a_run: f64,
}

impl TuningTold {
    /// What was chosen among, in a sentence.
    pub(crate) fn words(&self) -> String {
        let chosen = self.candidates.get(self.chosen.saturating_sub(1));
        format!(
            "chosen among {} candidates by {} on the records that were held out: number {}, {}",
            self.candidates.len(),
            self.score,
            self.chosen,
            chosen.map_or_else(|| "unknown".to_owned(), Named::to_string)
        )
    }

    /// What the statement says of it.
    pub(crate) fn paid(&self) -> String {
        format!(
            "The choice of settings is paid for, and part of these numbers: {law} number of runs, {mean} in the mean, each of a candidate \
             drawn at random, trained and scored with epsilon {epsilon} at the same delta, and nothing but the best run was kept (repeat-and-select, \
             Papernot and Steinke 2022, {theorem}). How many runs there were is secret, and somebody who sees how long the command took \
             learns something of it, which these numbers do not cover.",
            law = self.law.words(),
            mean = self.mean_runs,
            epsilon = rounded_up(self.epsilon_of_a_run),
            theorem = self.law.theorem()
        )
    }
}
