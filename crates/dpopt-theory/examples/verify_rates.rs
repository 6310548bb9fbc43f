//! Measures every rate that this library claims: what `cargo xtask verify-rates` runs.
//!
//! `[--brief | --quick | --full] [--only ID]... [--json FILE] [--out DIR] [--seed N] [--threads N]
//! [--memory-gib G] [--unconfirmed] [--list]`. `--brief` measures the first row of each group and its first broken twin. With `--unconfirmed` it measures the rows that are set aside. With `--out` the folder gets a page with plots, the rows, and the
//! journal from which an interrupted run goes on. The exit code is 1 when a claim fails, 2 when the
//! run could not be made.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command talks to the person who runs it"
)]

use std::error::Error;
use std::io::{IsTerminal as _, Write as _};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use dpopt_theory::verify::{Effort, Progress, Registry, Report, Verification};

#[derive(Default)]
struct Options {
    effort: Effort,
    only: Vec<String>,
    json: Option<PathBuf>,
    out: Option<PathBuf>,
    seed: u64,
    threads: Option<NonZeroUsize>,
    memory_gib: Option<f64>,
    unconfirmed: bool,
    brief: bool,
    list: bool,
}

fn read(words: impl Iterator<Item = String>) -> Result<Options, Box<dyn Error>> {
    let mut options = Options::default();
    let mut words = words;
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--brief" => options.brief = true,
            "--quick" => options.effort = Effort::Quick,
            "--full" => options.effort = Effort::Full,
            "--only" => options.only.push(value()?),
            "--json" => options.json = Some(value()?.into()),
            "--out" => options.out = Some(value()?.into()),
            "--seed" => options.seed = value()?.parse()?,
            "--threads" => options.threads = Some(value()?.parse()?),
            "--memory-gib" => options.memory_gib = Some(value()?.parse()?),
            "--unconfirmed" => options.unconfirmed = true,
            "--list" => options.list = true,
            other => return Err(format!("verify-rates has no option `{other}`").into()),
        }
    }
    Ok(options)
}

fn registry(options: &Options) -> Registry {
    let all = match options.unconfirmed {
        true => Registry::unconfirmed(),
        false => Registry::builtin(),
    };
    if options.brief { all.brief() } else { all }
}

#[expect(clippy::disallowed_methods, reason = "a command reports wall time")]
fn run(options: &Options) -> Result<Report, Box<dyn Error>> {
    let registry = registry(options);
    let start = std::time::Instant::now();
    let threads = match options.threads {
        Some(threads) => threads,
        None => std::thread::available_parallelism()?,
    };
    let mut verification = Verification::new(&registry)
        .with_effort(options.effort)
        .with_seed(options.seed)
        .with_threads(threads);
    for id in &options.only {
        verification = verification.only(id);
    }
    if let Some(gib) = options.memory_gib {
        verification = verification.with_memory(gib * f64::from(1 << 30));
    }
    if let Some(out) = &options.out {
        std::fs::create_dir_all(out)?;
        verification = verification.with_journal(&out.join("trials.jsonl"));
    }
    let drawn = std::io::stderr().is_terminal();
    verification = verification.with_progress(move |p: Progress<'_>| {
        if drawn {
            let filled = 30 * p.done / p.all.max(1);
            eprint!(
                "\r[{}{}] {}/{} {:<32}",
                "#".repeat(filled),
                ".".repeat(30 - filled),
                p.done,
                p.all,
                p.id
            );
            if p.done == p.all {
                eprintln!();
            }
        }
    });
    let report = verification.run()?;
    let seconds = start.elapsed().as_secs_f64();
    print!("{}", report.table());
    println!("{seconds:.1} s on {threads} threads");
    let mut rows = serde_json::to_value(&report)?;
    rows["seconds"] = seconds.into();
    let rows = format!("{rows:#}\n");
    if let Some(json) = &options.json {
        std::fs::write(json, &rows)?;
    }
    if let Some(out) = &options.out {
        std::fs::write(out.join("rates.json"), &rows)?;
        std::fs::write(out.join("rates.html"), report.page())?;
    }
    Ok(report)
}

fn main() -> ExitCode {
    let done = read(std::env::args().skip(1)).and_then(|options| {
        if options.list {
            for id in registry(&options).names() {
                writeln!(std::io::stdout(), "{id}")?;
            }
            return Ok(true);
        }
        Ok(run(&options)?.passed())
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(why) => {
            eprintln!("verify-rates: {why}");
            ExitCode::from(2)
        }
    }
}
