//! `dpopt account`: the epsilon of releases.

use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::privacy::{Accountant, Adjacency, Delta, Event, NoiseMultiplier, SamplingRate};
use serde::Serialize;
use serde_json::Value;

use crate::args::{self, AccountantArg};
use crate::attack::CurveReport;
use crate::error::CliError;
use crate::statement::{rounded_up, scientific};
use crate::summary::{print, print_json};

/// Flags of `dpopt account`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("releases").required(true).args(["noise_multiplier", "events"]))]
pub(crate) struct AccountArgs {
    /// Standard deviation of the noise over the sensitivity of the unsampled query, under the
    /// stated adjacency
    #[arg(long, value_name = "S", value_parser = args::noise_multiplier, allow_hyphen_values = true)]
    noise_multiplier: Option<NoiseMultiplier>,
    /// Probability with which a record enters a step's Poisson sample; 1: no sampling
    #[arg(long, value_name = "Q", value_parser = args::sampling_rate, default_value = "1", conflicts_with = "events", allow_hyphen_values = true)]
    sampling_rate: SamplingRate,
    /// Number of releases
    #[arg(long, value_name = "T", value_parser = args::count, default_value = "1", conflicts_with = "events", allow_hyphen_values = true)]
    steps: u64,
    /// Events in the shape of Google's dp_accounting: one event, a list, or the events.json of a run
    /// of `dpopt train` (ledger.json in 0.1)
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// delta; default: that of the events.json
    #[arg(long, value_name = "D", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Option<Delta>,
    /// Adjacency; default: that of the events.json, otherwise replace-one
    #[arg(long, value_parser = args::adjacency)]
    adjacency: Option<Adjacency>,
    /// auto (the one that states the least epsilon), gdp, zcdp, rdp, pld, exact or pure
    #[arg(long, default_value = "auto")]
    accountant: AccountantArg,
    /// Also print delta at several epsilons, and what an attacker can do at most
    #[arg(long)]
    curve: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Json {
    epsilon: f64,
    delta: Delta,
    adjacency: Adjacency,
    accountant: Accountant,
    releases: u64,
    event: Event,
    #[serde(flatten)]
    curve: Option<CurveReport>,
}

/// What a file of events says.
struct EventFile {
    event: Event,
    delta: Option<Delta>,
    adjacency: Option<Adjacency>,
}

pub(crate) fn run(args: &AccountArgs) -> Result<(), CliError> {
    let file = match (&args.events, args.noise_multiplier) {
        (Some(path), _) => read_events(path)?,
        (None, Some(noise_multiplier)) => EventFile {
            event: steps(noise_multiplier, args.sampling_rate, args.steps),
            delta: None,
            adjacency: None,
        },
        (None, None) => {
            let problem = "either this or --events is needed";
            return Err(CliError::flag("--noise-multiplier", problem));
        }
    };
    let Some(delta) = args.delta.or(file.delta) else {
        return Err(CliError::flag("--delta", "missing"));
    };
    let adjacency = match (args.adjacency, file.adjacency) {
        (Some(asked), Some(found)) if asked != found => {
            let problem = format!(
                "the file states its noise multipliers under {found}, and they mean something \
                 else under {asked}"
            );
            return Err(CliError::flag("--adjacency", problem));
        }
        (asked, found) => asked.or(found).unwrap_or(Adjacency::ReplaceOne),
    };
    let (accountant, epsilon) = match args.accountant {
        AccountantArg::Auto => Accountant::least(&file.event, delta, adjacency)?,
        AccountantArg::Named(accountant) => {
            let epsilon = accountant.epsilon(&file.event, delta, adjacency)?;
            (accountant, epsilon)
        }
    };
    let curve = args
        .curve
        .then(|| CurveReport::new(accountant, &file.event, adjacency))
        .transpose()?;
    if args.json {
        return print_json(&Json {
            epsilon,
            delta,
            adjacency,
            accountant,
            releases: file.event.release_count(),
            event: file.event,
            curve,
        });
    }
    let mut text = format!(
        "epsilon {} at delta {} under {adjacency} adjacency, by the {accountant} accountant \
         ({})\n",
        rounded_up(epsilon),
        scientific(delta),
        file.event
    );
    if let Some(curve) = curve {
        text.push_str(&curve.text());
    }
    print(&text)
}

/// Equal Gaussian releases, each on a Poisson sample of its own unless the rate is 1.
pub(crate) fn steps(noise: NoiseMultiplier, rate: SamplingRate, count: u64) -> Event {
    let one = Event::gaussian(noise);
    if rate.get() < 1.0 {
        one.poisson_sampled(rate).repeated(count)
    } else {
        one.repeated(count)
    }
}

fn read_events(path: &Path) -> Result<EventFile, CliError> {
    let bad = |problem: String| CliError::Content {
        path: path.to_owned(),
        problem,
    };
    let text = std::fs::read_to_string(path).map_err(|source| CliError::Read {
        path: path.to_owned(),
        source,
    })?;
    let value: Value =
        serde_json::from_str(&text).map_err(|error| bad(format!("not JSON: {error}")))?;
    let event = |value: &Value| {
        serde_json::from_value::<Event>(value.clone()).map_err(|error| bad(error.to_string()))
    };
    let ledger = value
        .as_object()
        .filter(|object| !object.contains_key("class_name"));
    let Some(ledger) = ledger else {
        let event = match &value {
            Value::Array(list) => {
                Event::composed(list.iter().map(event).collect::<Result<_, _>>()?)
            }
            other => event(other)?,
        };
        return Ok(EventFile {
            event,
            delta: None,
            adjacency: None,
        });
    };
    let event = match (ledger.get("event"), ledger.get("events")) {
        (Some(one), _) => event(one)?,
        (None, Some(Value::Array(list))) => {
            Event::composed(list.iter().map(event).collect::<Result<_, _>>()?)
        }
        _ => {
            let problem = "neither an event (no `class_name`) nor a ledger (no `event`)";
            return Err(bad(problem.to_owned()));
        }
    };
    Ok(EventFile {
        event,
        delta: field(ledger.get("delta")).map_err(|e| bad(format!("`delta`: {e}")))?,
        adjacency: field(ledger.get("adjacency")).map_err(|e| bad(format!("`adjacency`: {e}")))?,
    })
}

fn field<T: serde::de::DeserializeOwned>(
    value: Option<&Value>,
) -> Result<Option<T>, serde_json::Error> {
    value
        .map(|value| serde_json::from_value(value.clone()))
        .transpose()
}
