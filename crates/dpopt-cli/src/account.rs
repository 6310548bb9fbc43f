//! `dpopt account`: the epsilon of releases.

use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::privacy::accounting::group::{self, Group, GroupBound};
use dpopt::privacy::{
    Accountant, Adjacency, Delta, Event, EventFile, EventProblem, NoiseMultiplier, SamplingRate,
};
use serde::Serialize;

use crate::args::{self, AccountantArg, NoiseOver};
use crate::attack::CurveReport;
use crate::error::CliError;
use crate::statement::{rounded_up, scientific};
use crate::summary::{print, print_json};

/// Flags of `dpopt account`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("releases").required(true).args(["noise_multiplier", "events"]))]
pub(crate) struct AccountArgs {
    /// Standard deviation of the noise over what --noise-over says; needs --adjacency
    #[arg(long, value_name = "S", value_parser = args::noise_multiplier, allow_hyphen_values = true)]
    noise_multiplier: Option<NoiseMultiplier>,
    /// What noise multipliers are over. Both are the same but under replace-one: there a --noise-multiplier is over the clip radius
    /// by default, which states the larger epsilon, and of events from elsewhere it has to be said
    #[arg(long, value_enum)]
    noise_over: Option<NoiseOver>,
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
    /// Which data sets count as neighbours: replace-one, add-remove or zero-out; required, but for a file that says it (an events.json
    /// of `dpopt train` does)
    #[arg(long, value_parser = args::any_adjacency)]
    adjacency: Option<Adjacency>,
    /// auto (the one that states the least epsilon), gdp, zcdp, rdp, pld, exact, pure or basic
    #[arg(long, default_value = "auto")]
    accountant: AccountantArg,
    /// Also state what holds for so many records at once: those of one person, say
    #[arg(long, value_name = "K", value_parser = args::count, allow_hyphen_values = true)]
    group: Option<u64>,
    /// Number of records, or a public bound on it: a larger --group is refused
    #[arg(long, value_name = "N", value_parser = args::count, requires = "group", allow_hyphen_values = true)]
    records: Option<u64>,
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
    adjacency_in_words: &'static str,
    /// What the noise multiplier of the flags is over; that of `event` is over the sensitivity.
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_over: Option<NoiseOver>,
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_in_words: Option<String>,
    accountant: Accountant,
    releases: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<OfGroup>,
    event: Event,
    #[serde(flatten)]
    curve: Option<CurveReport>,
}

/// What holds at the same delta for several records.
#[derive(Serialize)]
struct OfGroup {
    records: Group,
    #[serde(flatten)]
    bound: GroupBound,
}

/// An epsilon under one relation is none under another, so no relation is assumed.
const NO_ADJACENCY: &str = "missing; epsilon depends on which data sets count as neighbours: add-remove (as in most tools and \
                             papers on DP-SGD), replace-one or zero-out";

pub(crate) fn run(args: &AccountArgs) -> Result<(), CliError> {
    let group = args.group.map(|group| {
        let found = match args.records {
            Some(records) => Group::of(group, records),
            None => Group::new(group),
        };
        found.map_err(|error| CliError::flag("--group", error.to_string()))
    });
    let group = group.transpose()?;
    let noise_over = args.noise_over.unwrap_or(NoiseOver::Clip);
    let file = match (&args.events, args.noise_multiplier, args.adjacency) {
        (Some(path), ..) => read_events(path)?,
        (None, Some(noise_multiplier), Some(adjacency)) => EventFile::from(steps(
            noise_over.read(noise_multiplier, adjacency)?,
            args.sampling_rate,
            args.steps,
        )),
        (None, Some(_), None) => return Err(CliError::flag("--adjacency", NO_ADJACENCY)),
        (None, None, _) => {
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
        (Some(adjacency), _) | (None, Some(adjacency)) => adjacency,
        (None, None) => return Err(CliError::flag("--adjacency", NO_ADJACENCY)),
    };
    if args.events.is_some() {
        check_convention(args.noise_over, file.adjacency, adjacency)?;
    }
    let noise = args
        .noise_multiplier
        .map(|stated| noise_over.words(stated, adjacency));
    let (accountant, epsilon) = match args.accountant {
        AccountantArg::Auto => Accountant::least(&file.event, delta, adjacency)?,
        AccountantArg::Named(accountant) => {
            let epsilon = accountant.epsilon(&file.event, delta, adjacency)?;
            (accountant, epsilon)
        }
    };
    let group = group.map(|records| {
        let bound = group::epsilon(&file.event, records, delta, adjacency)?;
        Ok::<_, CliError>(OfGroup { records, bound })
    });
    let group = group.transpose()?;
    let curve = args
        .curve
        .then(|| CurveReport::new(accountant, &file.event, adjacency))
        .transpose()?;
    if args.json {
        return print_json(&Json {
            epsilon,
            delta,
            adjacency,
            adjacency_in_words: args::adjacency_in_words(adjacency),
            noise_over: noise.as_ref().map(|_| noise_over),
            noise_in_words: noise,
            accountant,
            releases: file.event.release_count(),
            group,
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
    text.push_str(&conventions(adjacency, noise));
    if let Some(OfGroup { records, bound }) = group {
        let GroupBound { epsilon, route } = bound;
        let line = format!(
            "{} records at once: epsilon {} at the same delta, by the {route}\n",
            records.get(),
            rounded_up(epsilon)
        );
        text.push_str(&line);
    }
    if let Some(curve) = curve {
        text.push_str(&curve.text());
    }
    print(&text)
}

/// Multipliers in files of `dpopt train` are over the sensitivity. Those of other tools are over the clip radius, which is
/// half of it under replace-one, so there somebody has to say which it is.
fn check_convention(
    said: Option<NoiseOver>,
    in_file: Option<Adjacency>,
    adjacency: Adjacency,
) -> Result<(), CliError> {
    let differ = adjacency == Adjacency::ReplaceOne;
    let problem = match said {
        Some(NoiseOver::Sensitivity) => return Ok(()),
        None if in_file.is_some() || !differ => return Ok(()),
        Some(NoiseOver::Clip) if in_file.is_some() => {
            "the file is one of dpopt, whose noise multipliers are over the sensitivity"
        }
        Some(NoiseOver::Clip) if !differ => return Ok(()),
        Some(NoiseOver::Clip) => {
            "events are accounted over the sensitivity, which under replace-one is 2C: halve the noise multipliers of the file, and \
             say sensitivity"
        }
        None => {
            "missing; the file doesn't say what its noise multipliers are over, and under replace-one the clip radius (as in \
             dp_accounting) and the sensitivity are not the same"
        }
    };
    Err(CliError::flag("--noise-over", problem))
}

/// What a number is about, in a line of its own: it means something else under another relation or convention.
pub(crate) fn conventions(adjacency: Adjacency, noise: Option<String>) -> String {
    let neighbours = args::adjacency_in_words(adjacency);
    match noise {
        Some(noise) => format!("{adjacency}: {neighbours}; {noise}\n"),
        None => format!(
            "{adjacency}: {neighbours}; noise multipliers as in the file, over the sensitivity\n"
        ),
    }
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
    let text = std::fs::read_to_string(path).map_err(|source| CliError::Read {
        path: path.to_owned(),
        source,
    })?;
    EventFile::from_json(&text).map_err(|error| CliError::Content {
        path: path.to_owned(),
        problem: match &error.problem {
            EventProblem::Json(_) => format!("not JSON: {error}"),
            _ => error.to_string(),
        },
    })
}
