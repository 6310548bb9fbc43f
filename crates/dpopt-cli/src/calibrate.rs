//! `dpopt calibrate`: the parameter that just meets a budget.

use clap::Args;
use dpopt::privacy::accounting::{AccountingError, calibrate};
use dpopt::privacy::{Accountant, Adjacency, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate};
use serde::Serialize;

use crate::account::{conventions, steps as releases};
use crate::args::{self, AccountantArg, NoiseOver};
use crate::error::CliError;
use crate::statement::{rounded_up, scientific};
use crate::summary::{print, print_json};
use crate::tell::with_patience;

/// Flags of `dpopt calibrate`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("given").multiple(true).required(true).args(["noise_multiplier", "steps", "sampling_rate"])
)]
pub(crate) struct CalibrateArgs {
    /// Standard deviation of the noise over what --noise-over says; without it, the least one is found
    #[arg(long, value_name = "S", value_parser = args::noise_multiplier, allow_hyphen_values = true)]
    noise_multiplier: Option<NoiseMultiplier>,
    /// What the noise multiplier is over, given or found. Both are the same but under replace-one, where the default asks for
    /// more noise
    #[arg(long, value_enum, default_value_t = NoiseOver::Clip)]
    noise_over: NoiseOver,
    /// Number of releases; without it, the largest one is found
    #[arg(long, value_name = "T", value_parser = args::count, allow_hyphen_values = true)]
    steps: Option<u64>,
    /// Probability with which a record enters a step's Poisson sample, 1: no sampling; without
    /// it, the largest one is found
    #[arg(long, value_name = "Q", value_parser = args::sampling_rate, allow_hyphen_values = true)]
    sampling_rate: Option<SamplingRate>,
    /// Privacy budget epsilon
    #[arg(long, value_name = "E", value_parser = args::epsilon, allow_hyphen_values = true)]
    epsilon: Epsilon,
    /// Privacy budget delta
    #[arg(long, value_name = "D", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Delta,
    /// Which data sets count as neighbours: replace-one, add-remove or zero-out
    #[arg(long, value_parser = args::any_adjacency)]
    adjacency: Adjacency,
    /// auto (gdp without sampling, otherwise exact), gdp, zcdp, rdp, pld or exact
    #[arg(long, default_value = "auto")]
    accountant: AccountantArg,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found, and what it costs.
#[derive(Serialize)]
struct Json {
    found: &'static str,
    /// Over what `noise_over` says; that of `event` is over the sensitivity.
    noise_multiplier: NoiseMultiplier,
    noise_over: NoiseOver,
    noise_in_words: String,
    steps: u64,
    sampling_rate: SamplingRate,
    epsilon: f64,
    target_epsilon: Epsilon,
    delta: Delta,
    adjacency: Adjacency,
    adjacency_in_words: &'static str,
    accountant: Accountant,
    event: Event,
}

impl CalibrateArgs {
    /// Solves for the parameter that was left out.
    fn solve(&self) -> Result<Json, CliError> {
        let sampled = self.sampling_rate.is_none_or(|rate| rate.get() < 1.0);
        let accountant = match self.accountant {
            AccountantArg::Named(accountant) => accountant,
            AccountantArg::Auto => {
                let rate = SamplingRate::new(if sampled { 0.5 } else { 1.0 });
                let rate = rate.map_err(AccountingError::from)?;
                let noise = NoiseMultiplier::new(1.0).map_err(AccountingError::from)?;
                Accountant::tightest_for(&releases(noise, rate, 1), self.adjacency)?
            }
        };
        let (epsilon, delta, adjacency) = (self.epsilon, self.delta, self.adjacency);
        let noise = self.noise_multiplier;
        let noise = noise.map(|stated| self.noise_over.read(stated, adjacency));
        let given = (noise.transpose()?, self.steps, self.sampling_rate);
        let (found, noise, steps, rate) = match given {
            (None, Some(steps), Some(rate)) => {
                let event = |noise| releases(noise, rate, steps);
                let noise =
                    calibrate::noise_multiplier(accountant, epsilon, delta, adjacency, event)?;
                ("noise_multiplier", noise, steps, rate)
            }
            (Some(noise), None, Some(rate)) => {
                let event = |steps| releases(noise, rate, steps);
                let steps = calibrate::steps(accountant, epsilon, delta, adjacency, event)?;
                ("steps", noise, steps, rate)
            }
            (Some(noise), Some(steps), None) => {
                let event = |rate| releases(noise, rate, steps);
                let rate = calibrate::sampling_rate(accountant, epsilon, delta, adjacency, event)?;
                ("sampling_rate", noise, steps, rate)
            }
            (Some(_), Some(_), Some(_)) => {
                return Err(CliError::flag(
                    "--noise-multiplier, --steps, --sampling-rate",
                    "all three leave nothing to find; leave one out, or ask `dpopt account`",
                ));
            }
            _ => {
                return Err(CliError::flag(
                    "--noise-multiplier, --steps, --sampling-rate",
                    "two of them are needed; the third is found",
                ));
            }
        };
        let event = releases(noise, rate, steps);
        let stated = self.noise_over.state(noise, adjacency)?;
        // Where the exact accountant did not know well enough, another one was asked.
        let (accountant, achieved) = calibrate::cost(accountant, &event, delta, adjacency)?;
        Ok(Json {
            found,
            noise_multiplier: stated,
            noise_over: self.noise_over,
            noise_in_words: self.noise_over.words(stated, adjacency),
            steps,
            sampling_rate: rate,
            epsilon: achieved,
            target_epsilon: epsilon,
            delta,
            adjacency,
            adjacency_in_words: args::adjacency_in_words(adjacency),
            accountant,
            event,
        })
    }
}

pub(crate) fn run(args: &CalibrateArgs) -> Result<(), CliError> {
    let solution = with_patience("still searching", || args.solve())?;
    if args.json {
        return print_json(&solution);
    }
    // All digits: a number that was rounded would not be the one that was certified.
    let found = match solution.found {
        "noise_multiplier" => format!("noise multiplier {}", solution.noise_multiplier),
        "steps" => format!("{} steps", solution.steps),
        _ => format!("sampling rate {}", solution.sampling_rate),
    };
    let line = format!(
        "{found}: epsilon {} at delta {} under {} adjacency, by the {} accountant ({})\n",
        rounded_up(solution.epsilon),
        scientific(solution.delta),
        solution.adjacency,
        solution.accountant,
        solution.event
    );
    print(&(line + &conventions(solution.adjacency, Some(solution.noise_in_words))))
}
