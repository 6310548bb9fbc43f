//! `dpopt tune --dry-run`: what each run would get, and no run.

use dpopt::privacy::{Accountant, Delta, Event};
use serde::Serialize;

use super::search::{ADJACENCY, Searched, Terms};
use super::told::{Law, TuningTold};
use crate::error::CliError;
use crate::evaluated;
use crate::statement::{rounded_up, scientific};
use crate::summary::{print, print_json};

/// What is printed as JSON.
#[derive(Serialize)]
struct DryRun<'a> {
    #[serde(flatten)]
    tuning: &'a TuningTold,
    epsilon: f64,
    delta: Delta,
    accountant: Accountant,
    records: u64,
    held_out: u64,
    /// Of each candidate: passes over the records that are trained on.
    passes: Vec<f64>,
    /// Probabilities that a given candidate is never tried, and that there is no run.
    #[serde(skip_serializing_if = "Option::is_none")]
    never_tried: Option<f64>,
    no_run: f64,
    foretold: String,
    event: Event,
}

/// Shows what each run would get.
pub(super) fn show(
    json: bool,
    terms: &Terms<'_>,
    searched: &Searched,
    told: &TuningTold,
) -> Result<(), CliError> {
    let event = terms.plan(searched)?.event();
    let (accountant, epsilon) = Accountant::least(&event, terms.fixed.total.delta, ADJACENCY)?;
    let passes = searched.chosen.iter();
    let passes = passes.map(|of| of.plan.gradients() / terms.fixed.sizes[0] as f64);
    let (mean, candidates) = (told.mean_runs, told.candidates.len() as f64);
    let never = |times: f64| match told.law {
        Law::Poisson => Some((-mean / times).exp()),
        Law::Geometric => {
            // E[(1 - 1/j)^K] of a geometric K of this mean.
            let (gamma, miss) = (1.0 / mean, 1.0 - 1.0 / times);
            Some(gamma * miss / (1.0 - (1.0 - gamma) * miss))
        }
        Law::Logarithmic => None,
    };
    let shown = DryRun {
        tuning: told,
        epsilon,
        delta: terms.fixed.total.delta,
        accountant,
        records: terms.fixed.sizes.iter().sum(),
        held_out: terms.fixed.sizes[1],
        passes: passes.collect(),
        never_tried: never(candidates),
        no_run: match told.law {
            Law::Poisson => (-mean).exp(),
            Law::Geometric | Law::Logarithmic => 0.0,
        },
        foretold: evaluated::foretold(&searched.evaluation)?,
        event,
    };
    if json {
        return print_json(&shown);
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<30} {value}\n");
    for ((number, of), passes) in (1..).zip(&told.candidates).zip(&shown.passes) {
        line(
            &format!("candidate {number}"),
            format!("{of} ({passes:.1} passes)"),
        );
    }
    line(
        "score",
        format!("{}; its evaluation tells {}", told.score, shown.foretold),
    );
    line(
        "records",
        format!(
            "{} are trained on, {} are held out to score",
            terms.fixed.sizes[0], terms.fixed.sizes[1]
        ),
    );
    line(
        "runs",
        format!("{} number, {mean} in the mean", told.law.words()),
    );
    if let Some(never) = shown.never_tried {
        line(
            "a candidate is never tried",
            format!("with probability {never:.3}"),
        );
    }
    line(
        "no run at all",
        format!("with probability {:.2e}", shown.no_run),
    );
    line(
        "each run",
        format!(
            "epsilon {} at the same delta",
            rounded_up(told.epsilon_of_a_run)
        ),
    );
    line(
        "all together",
        format!(
            "epsilon {} at delta {}, {ADJACENCY}, by the {accountant} accountant ({})",
            rounded_up(epsilon),
            scientific(shown.delta),
            told.law.theorem()
        ),
    );
    line(
        "dry run",
        "nothing was charged, released or written".to_owned(),
    );
    print(&text)
}
