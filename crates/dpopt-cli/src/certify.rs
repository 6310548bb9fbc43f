//! `dpopt certify`: how stationary the point of a finished model is on private records, for a price.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::mem::discriminant;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use dpopt::certify::{
    Interval, PrivateCertificateError, SecondOrderCertificate, SecondOrderPlan, SecondOrderTargets,
};
use dpopt::data::formats::Format;
use dpopt::nonconvex::{PublicFacts, Stop};
use dpopt::oracle::{
    Convexity, EstimatorError, Examples, Glm, PrivateData, PrivateMean, TwiceDifferentiable,
    Weighted,
};
use dpopt::privacy::accounting::gdp;
use dpopt::privacy::{ClipNorm, Curator, Delta, Epsilon, Event, Refused};
use serde::Serialize;

use crate::args;
use crate::artefacts::{Readers, Taken, taken, write_file, write_new};
use crate::class_weights::LabelWeights;
use crate::error::CliError;
use crate::input::{self, Input};
use crate::interrupt::Interrupt;
use crate::ledger::{LedgerArgs, Shared};
use crate::loss::LossName;
use crate::model::Model;
use crate::outputs::json_text;
use crate::paths::Paths;
use crate::rescue::ended;
use crate::statement::{Protected, Statement, rounded_up, scientific};
use crate::summary::{paragraph, print, print_json};
use crate::tell::warn;
use crate::weak::weak;

/// Flags of `dpopt certify`.
#[derive(Debug, Args)]
pub(crate) struct CertifyArgs {
    /// Model written by `dpopt train --out`: linear or a factor, of a loss with two derivatives
    #[arg(long, value_name = "FILE", value_parser = args::model())]
    model: PathBuf,
    /// Private records that it is certified on; `-`: a table on standard input
    #[arg(long, value_name = "FILE")]
    data: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Privacy budget epsilon of the certificate. It comes on top of what the model cost; --ledger holds both
    #[arg(long, value_name = "E", value_parser = args::epsilon, allow_hyphen_values = true)]
    epsilon: Epsilon,
    /// Privacy budget delta of the certificate; should be well below one over the number of records
    #[arg(long, value_name = "D", default_value = "1e-6", value_parser = args::delta, allow_hyphen_values = true)]
    delta: Delta,
    /// Certify that the gradient norm is at most A (with --curvature); default: tell how long it is
    #[arg(long, value_name = "A", requires = "curvature", value_parser = args::positive, allow_hyphen_values = true)]
    gradient: Option<f64>,
    /// Certify that the least eigenvalue of the Hessian is at least -L (with --gradient); default: tell what it is
    #[arg(long, value_name = "L", requires = "gradient", value_parser = args::positive, allow_hyphen_values = true)]
    curvature: Option<f64>,
    /// Probability with which a certificate may be false
    #[arg(
        long,
        value_name = "P",
        default_value_t = 0.05,
        value_parser = args::probability,
        allow_hyphen_values = true
    )]
    failure: f64,
    #[command(flatten)]
    ledger: LedgerArgs,
    /// Threads, up to 1024; default: as many as the machine offers. The result does not depend on it
    #[arg(long, value_name = "N", value_parser = args::threads, allow_hyphen_values = true)]
    threads: Option<NonZeroUsize>,
    /// File for the certificate as JSON, beside what is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace a certificate at --out, and nothing else
    #[arg(long, requires = "out")]
    force: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Why there is none of several classes.
const OF_CLASSES: &str = "a model of several classes has no certificate of second order here; `dpopt evaluate` measures it";
/// What the file of a certificate is known by.
const FORMAT: &str = "dpopt-certificate-1";

/// What is printed as JSON.
#[derive(Serialize)]
struct Json<'a> {
    format: &'static str,
    /// None where no targets were given.
    certified: Option<bool>,
    targets: Option<SecondOrderTargets>,
    failure: f64,
    gradient_norm: Interval,
    /// None where the gradient norm was not certified: then nothing was spent on it. An end is null where nothing is known of it.
    least_eigenvalue: Option<Interval>,
    /// Of what all this is, and of what it says nothing.
    of: String,
    loss: LossName,
    /// Of the mean that all this is of; none: all records count alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    class_weights: Option<&'a BTreeMap<String, f64>>,
    dim: usize,
    /// Over how many the mean is taken: under add-remove a declared number, and the true one is private.
    mean_over: u64,
    privacy: &'a Statement,
}

/// Releases a gradient norm and, where that meets its target, a Hessian, at the model's point. The neighbouring relation is the model's.
pub(crate) fn run(args: &CertifyArgs) -> Result<(), CliError> {
    Paths::new()
        .reads("--model", Some(&args.model))
        .reads("--data", Some(&args.data))
        .reads("--labels", args.labels.as_deref())
        .writes("--ledger", args.ledger.path())
        .writes("--out", args.out.as_deref())
        .check()?;
    if let Some(out) = &args.out {
        check_place(out, args.force)?;
    }
    let model = Model::load(&args.model)?;
    let point = certifiable(&model)?;
    let (loss, adjacency) = (model.loss, model.privacy.adjacency);
    args.ledger.check_alone()?;
    let ledger = Shared::check(&args.ledger, adjacency, None)?;
    let files = ["--data", "--labels"];
    let input = Input::new(&args.data, args.labels.as_deref(), args.format, files)?;
    let table = input.read(&model.schema)?;
    let clip = |radius| ClipNorm::new(radius).map_err(EstimatorError::from);
    // Where the number of records is private the declared one is the model's.
    let declared = (!adjacency.record_count_is_public()).then_some(model.privacy.records);
    let row_norm = clip(table.row_norm)?;
    let data = PrivateData::new(table.design, table.labels, row_norm, adjacency, declared);
    // A schema's labels are -1 and 1, or between.
    let data = data
        .map_err(|source| CliError::Data {
            path: input.name(),
            source,
        })?
        .with_label_bound(clip(1.0)?);
    let link = model.link()?;
    let Some(phi) = loss.scalar() else {
        return Err(CliError::flag("--model", OF_CLASSES));
    };
    let weights = model.weights()?;
    // At this point, and not on a ball: a certificate is of the point alone.
    let constants = match link {
        // At 0 all gradients are, and a bound has to be above that.
        Some(link) if point.iter().all(|u| *u == 0.0) => {
            link.constants_within(data.row_norm(), data.label_bound())
        }
        Some(link) => link.constants_of(&point, data.row_norm(), data.label_bound()),
        None => phi.constants_within(data.row_norm(), data.label_bound()),
    };
    let constants = match &weights {
        Some(weights) => weights.constants(constants),
        None => constants,
    };
    let facts = PublicFacts::glm(
        data.public_records(),
        point.len(),
        adjacency,
        data.row_norm(),
        constants,
    )?;
    let asked = args.gradient.zip(args.curvature);
    let targets = asked.map(|(gradient, curvature)| SecondOrderTargets {
        gradient,
        curvature,
    });
    let frobenius = clip(constants.hessian_frobenius)?;
    let mu = gdp::mu_for(args.epsilon, args.delta)?;
    let plan = match targets {
        Some(targets) => SecondOrderPlan::new(&facts, frobenius, mu, args.failure, targets)?,
        // What the least eigenvalue is, a whole Hessian tells alone.
        None => {
            let widest = SecondOrderTargets::widest(facts.lipschitz, facts.smoothness);
            let plan = SecondOrderPlan::with_hessian(&facts, frobenius, mu, args.failure, widest);
            plan.map_err(without_target)?
        }
    };
    for warning in weak(Some(args.epsilon), args.delta, facts.records) {
        warn(&warning);
    }
    let mut curator = Curator::protected(adjacency)?;
    if let Some(ledger) = ledger {
        let table = (facts.records, model.schema.label());
        let (file, _) = ledger.open(plan.spend().event(), &args.ledger, (table, None))?;
        curator = curator.with_ledger(file).map_err(CliError::Ledger)?;
    }
    let spend = plan.spend();
    let reserved = curator.reserve(&spend);
    reserved.map_err(|refused| CliError::from_run(refused.into()))?;
    // What is paid for is not lost at a signal.
    Interrupt::finishing()?;
    // Of what is reserved, so that nothing but the settling comes after the release.
    let guarantee = curator.guarantee(args.delta)?;
    let threads = args
        .threads
        .or_else(|| std::thread::available_parallelism().ok());
    let threads = threads.unwrap_or(NonZeroUsize::MIN);
    let on = (&plan, &data, curator, threads, &point[..]);
    let weighted = LabelWeights::of_mean(weights.as_ref());
    let weights = weights.map(|of| of.factors().clone());
    let (found, settled) = match (link, weights) {
        (Some(link), None) => release(link, on)?,
        (Some(link), Some(weights)) => release(Weighted::new(link, weights), on)?,
        (None, None) => release(phi, on)?,
        (None, Some(weights)) => release(Weighted::new(phi, weights), on)?,
    };
    let draft = model.schema.is_draft() || model.privacy.draft_schema;
    let event = spend.event();
    let privacy = Statement::new(
        &guarantee,
        (Protected::Certified, facts.records),
        Stop::Completed,
        Some(event),
        None,
        draft,
    );
    let of = of(&privacy, &weighted);
    let certificate = Json {
        format: FORMAT,
        certified: targets.map(|_| found.certified),
        targets,
        failure: found.failure,
        gradient_norm: found.gradient,
        least_eigenvalue: found.curvature,
        of: of.clone(),
        loss,
        class_weights: model.class_weights.as_ref(),
        dim: facts.dim,
        mean_over: facts.records,
        privacy: &privacy,
    };
    let convex = constants.convexity == Convexity::Convex;
    let printed = if args.json {
        print_json(&certificate)
    } else {
        print(&words(&found, (targets.is_some(), convex), (&of, &privacy)))
    };
    // What was released is shown first, and paid for whatever happens here.
    let written = args.out.as_ref().map(|out| {
        let write = if args.force { write_file } else { write_new };
        check_place(out, args.force)
            .and_then(|()| json_text(&certificate))
            .and_then(|text| write(out, text.as_bytes(), "--out", Readers::Mask))
    });
    let settled = settled.err().map(CliError::from);
    ended(&certificate, printed, settled, written)
}

/// In many dimensions curvature is told for a target, and not as a number.
fn without_target(error: PrivateCertificateError) -> CliError {
    match error {
        PrivateCertificateError::TooManyDimensions { .. } => CliError::flag(
            "--curvature",
            format!(
                "needed: {error}, and products with it tell only whether a given curvature is there (with --gradient)"
            ),
        ),
        error => error.into(),
    }
}

/// Releases and settles: what was found, and how the settling went.
fn release<L: TwiceDifferentiable<Records = Examples>>(
    loss: L,
    (plan, data, curator, threads, point): (
        &SecondOrderPlan,
        &PrivateData,
        Curator,
        NonZeroUsize,
        &[f64],
    ),
) -> Result<(SecondOrderCertificate, Result<Event, Refused>), CliError> {
    let mut mean = PrivateMean::new(data, loss, curator)?.with_threads(threads);
    let released = plan.release(&mut mean, point);
    let settled = mean.curator_mut().settle();
    let found = released.map_err(|error| match mean.curator().spent() {
        Event::NoOp => error.into(),
        _ => CliError::BrokeOff(Box::new(error.into())),
    })?;
    Ok((found, settled))
}

/// Refuses a place where a file is, an empty one too, but for another certificate that is to be replaced.
fn check_place(out: &Path, force: bool) -> Result<(), CliError> {
    if taken(out, "--out")? == Taken::Device || !out.exists() {
        return Ok(());
    }
    let problem = match force {
        false => format!("{} exists; --force replaces a certificate", out.display()),
        true if is_certificate(out) => return Ok(()),
        true => format!(
            "{} is no certificate, and --force replaces nothing else",
            out.display()
        ),
    };
    Err(CliError::flag("--out", problem))
}

/// Whether a file begins as a certificate does: its format stands first. No more of it is read, however long it is.
fn is_certificate(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(128).read_to_end(&mut start));
    start.retain(|byte| !byte.is_ascii_whitespace());
    let expected = format!("{{\"format\":\"{FORMAT}\",");
    read.is_ok() && start.starts_with(expected.as_bytes())
}

/// The model's point, if its loss has a Hessian.
fn certifiable(model: &Model) -> Result<Vec<f64>, CliError> {
    let smooth = Glm::SMOOTH
        .iter()
        .any(|smooth| model.loss.scalar().as_ref().map(discriminant) == Some(discriminant(smooth)));
    let problem = if model.is_perceptron() {
        "a perceptron whose output weights are trained has no constants that a certificate could rest on".to_owned()
    } else if model.loss == LossName::Softmax {
        OF_CLASSES.to_owned()
    } else if model.is_network() {
        "a network of hidden units has no certificate of second order here".to_owned()
    } else if !smooth {
        format!(
            "{} has no second derivative everywhere: train with another --loss ({}); `dpopt train` certifies runs on such losses from their \
             releases",
            model.loss,
            Glm::SMOOTH.map(|smooth| smooth.to_string()).join(", ")
        )
    } else {
        return Ok(model.point());
    };
    Err(CliError::flag("--model", problem))
}

/// Of what a certificate is, and of what it says nothing.
fn of(privacy: &Statement, weighted: &str) -> String {
    let of = if privacy.adjacency.record_count_is_public() {
        format!("the mean loss of these records{weighted}")
    } else {
        format!(
            "the sum of these records' losses over {}, the declared number of them (the true one is protected){weighted}",
            privacy.records
        )
    };
    format!(
        "of {of} at the model's weights: nothing is said of other points, of the population that the records come from, or of whether this \
         is a minimum"
    )
}

fn words(
    found: &SecondOrderCertificate,
    (asked, convex): (bool, bool),
    (of, privacy): (&str, &Statement),
) -> String {
    let mut text = String::new();
    let percent = 100.0 * (1.0 - found.failure);
    let targets = found.targets;
    // Writing to a `String` can't fail.
    let _ = match (asked, found.certified) {
        (false, _) => Ok(()),
        (true, true) => writeln!(
            text,
            "Certified  the gradient norm is at most {}, and the least eigenvalue of the Hessian at least -{}",
            targets.gradient, targets.curvature
        ),
        (true, false) => writeln!(
            text,
            "NOT certified: gradient norm at most {} and least eigenvalue at least -{}; that is no proof of the opposite",
            targets.gradient, targets.curvature
        ),
    };
    let _ = writeln!(
        text,
        "Gradient   its norm is between {:.4e} and {:.4e}",
        found.gradient.low, found.gradient.high
    );
    let _ = match &found.curvature {
        Some(at) => writeln!(
            text,
            "Curvature  the least eigenvalue of the Hessian is {}{}",
            range(at),
            match at.low {
                _ if at.high < 0.0 => ": the point is no local minimum",
                0.0 if convex => ": not below 0, as the loss is convex",
                _ => "",
            }
        ),
        None => writeln!(
            text,
            "Curvature  not asked for, and not paid for: {}",
            match &found.covered {
                Err(why) => why.to_string(),
                Ok(_) => "the gradient norm was not certified".to_owned(),
            }
        ),
    };
    paragraphs(
        &mut text,
        &[format!(
            "{of}; each interval holds with {percent} % probability, and so do the upper end of the first and the lower end of the second \
             together"
        )],
    );
    let _ = writeln!(
        text,
        "Privacy    epsilon {} at delta {}, {}",
        rounded_up(privacy.epsilon),
        scientific(privacy.delta),
        privacy.adjacency
    );
    paragraphs(&mut text, &privacy.words);
    let cost = "This is the cost of the certificate alone. What the model cost on the same records comes on top of it.";
    paragraphs(&mut text, &[cost.to_owned()]);
    text
}

/// Under add-remove ends may be infinite.
fn range(at: &Interval) -> String {
    match (at.low.is_finite(), at.high.is_finite()) {
        (true, true) => format!("between {:.4e} and {:.4e}", at.low, at.high),
        (true, false) => format!("at least {:.4e}", at.low),
        (false, true) => format!("at most {:.4e}", at.high),
        (false, false) => "not known: nothing follows from what was released".to_owned(),
    }
}

/// Adds these, wrapped.
fn paragraphs(text: &mut String, all: &[String]) {
    let mut lines = Vec::new();
    for one in all {
        // Nor can writing to a `Vec`.
        let _ = paragraph(&mut lines, one);
    }
    text.push_str(&String::from_utf8_lossy(&lines));
}
