//! What the tests of this crate run on several ranks: `mpirun -n 2 ranks WHAT ...`.
//!
//! | what | |
//! | --- | --- |
//! | `streams` | every solver of a minimum, every access: the recorded bits |
//! | `saddles` | every solver of a saddle problem |
//! | `differ WHAT` | rank 1 says something else: `seed`, `plan`, `adjacency` |
//! | `leave` | rank 1 ends with an error of its own |
//! | `late` | rank 1 hangs |
//! | `releases LEDGER` | 40 runs of 10 releases on a ledger, for who kills ranks |
//! | `early LEDGER` | the same, broken: shown before they are charged |
//! | `measure ROWS DIM` | so many rows on each rank: time, rounds and bytes of a pass |
#![allow(clippy::print_stdout, reason = "the tests read it")]
#![allow(clippy::disallowed_methods, reason = "it measures time")]

#[path = "../../dpopt-nonconvex/tests/streams/cases.rs"]
#[allow(clippy::pedantic, reason = "a file of another crate")]
mod cases;
#[path = "../../dpopt-oracle/tests/streams/ranks.rs"]
mod ranks;
#[path = "../../dpopt-minimax/tests/streams/cases.rs"]
#[allow(clippy::pedantic, reason = "as above")]
mod saddles;
#[path = "../../dpopt-oracle/tests/streams/table.rs"]
mod table;

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use dpopt_linalg::Design;
use dpopt_oracle::{Glm, Linear, PrivateData, PrivateMean};
use dpopt_privacy::filter::FilterKind;
use dpopt_privacy::{
    Adjacency, Body, Bound, ClipNorm, Curator, Delta, Epsilon, Event, LatticeSum, Ledger,
    NoiseMultiplier, Spend, Together, Which,
};

const MINIMA: &str = include_str!("../../dpopt-nonconvex/tests/data/streams.tsv");
const SADDLES: &str = include_str!("../../dpopt-minimax/tests/data/streams.tsv");

/// One release costs 1e-4 in squared mu.
const Z: f64 = 100.0;
const RUNS: u64 = 40;
const RELEASES: u64 = 10;

type Done = Result<(), Box<dyn Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let limit = match words.first() {
        Some(&"late" | &"releases" | &"early") => Duration::from_secs(5),
        _ => Duration::from_secs(120),
    };
    let done = dpopt_mpi::start(limit)
        .map_err(Box::<dyn Error>::from)
        .and_then(|(engine, ranks)| {
            let together = Together::new(Box::new(ranks))?;
            let rank = together.rank();
            let done = run(together, &words);
            if let Err(error) = &done {
                // Before the engine ends, which the others take part in: at the first failure `mpirun` kills the rest.
                say(&format!("error: rank {rank}: {error}"));
            }
            drop(engine);
            Ok(done.is_ok())
        });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn run(together: Together, words: &[&str]) -> Done {
    match words {
        ["streams"] => {
            let table = ranks::as_rank(together.clone(), || cases::all(NonZeroUsize::MIN));
            table.assert_is(MINIMA);
        }
        ["saddles"] => {
            let table = ranks::as_rank(together.clone(), || saddles::all(NonZeroUsize::MIN));
            table.assert_is(SADDLES);
        }
        ["differ", what] => differ(&together, what)?,
        ["leave"] if together.rank() == 1 => return Err("no records here".into()),
        ["leave"] => together.agree("the plan")?,
        ["late"] => {
            if together.rank() == 1 {
                hang();
            }
            together.agree("the plan")?;
        }
        ["releases", ledger] => releases(&together, Path::new(ledger), false)?,
        ["early", ledger] => releases(&together, Path::new(ledger), true)?,
        ["measure", rows, dim] => measure(&together, rows.parse()?, dim.parse()?)?,
        _ => return Err("unknown".into()),
    }
    say("done");
    Ok(())
}

/// A line by itself.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("{line}\n").as_bytes());
    let _ = out.flush();
}

fn differ(together: &Together, what: &str) -> Done {
    let other = together.rank() == 1;
    let seed = u64::from(other && what == "seed");
    let adjacency = match other && what == "adjacency" {
        true => Adjacency::ZeroOut,
        false => Adjacency::ReplaceOne,
    };
    let mut curator = Curator::simulated(adjacency, seed).joined(together)?;
    let times = 1 + u64::from(other && what == "plan");
    let event = Event::gaussian(NoiseMultiplier::new(Z)?);
    curator.reserve(&Spend::Fixed(event.repeated(times)))?;
    Ok(())
}

/// Until somebody ends the process.
fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Shows each release after it. `early`: before it is charged, which the books have to tell.
fn releases(together: &Together, path: &Path, early: bool) -> Done {
    say(&format!(
        "process {} {}",
        together.rank(),
        std::process::id()
    ));
    let mut shown = File::options()
        .create(true)
        .append(true)
        .open(path.with_extension(together.rank().to_string()))?;
    // Into a file first: what `mpirun` has not passed on is lost when it ends.
    let mut show = || -> Done {
        shown.write_all(b".")?;
        say(&format!("made {}", together.rank()));
        Ok(())
    };
    let adjacency = Adjacency::ReplaceOne;
    let (z, bound) = (
        NoiseMultiplier::new(Z)?,
        Bound::new(ClipNorm::new(1.0)?, 1)?,
    );
    if early {
        (0..RUNS * RELEASES).try_for_each(|_| show())?;
        hang();
    }
    for _ in 0..RUNS {
        let mut curator = Curator::protected(adjacency)?.joined(together)?;
        if together.is_first() {
            let (epsilon, delta) = (Epsilon::new(50.0)?, Delta::new(1e-6)?);
            let ledger = Ledger::open_or_create(path, epsilon, delta, adjacency, FilterKind::Gdp)?;
            curator = curator.with_ledger(ledger)?;
        }
        curator.reserve(&Spend::Fixed(Event::gaussian(z).repeated(RELEASES)))?;
        for _ in 0..RELEASES {
            let ticket = curator.grant(Which::All, Body::of(8), bound, z)?;
            let mut sum = LatticeSum::new(bound);
            sum.add_scaled(1.0, &[0.5]);
            curator.redeem(ticket, sum)?;
            show()?;
        }
        curator.settle()?;
    }
    Ok(())
}

/// Gradients of so many rows on each rank.
fn measure(together: &Together, rows: usize, dim: usize) -> Done {
    const PASSES: u32 = 20;
    let mut state = together.rank() as u64 + 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 40) as f32 / (1 << 24) as f32 - 0.5
    };
    let entries = (0..rows * dim).map(|_| next()).collect();
    let labels = (0..rows)
        .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let norm = ClipNorm::new((dim as f64).sqrt())?;
    let design = Design::dense32(dim, entries)?;
    let adjacency = Adjacency::ReplaceOne;
    let data = PrivateData::new(design, labels, norm, adjacency, None)?.joined(together)?;
    let curator = Curator::protected(adjacency)?.joined(together)?;
    let mut means = PrivateMean::new(&data, Glm::Logistic, curator)?;
    let z = NoiseMultiplier::new(1.0)?;
    let spend = Event::gaussian(z).repeated(1 + u64::from(PASSES));
    means.curator_mut().reserve(&Spend::Fixed(spend))?;
    let point = vec![0.1; dim];
    let mut pass = || means.release(&Linear::field(&point, norm), Which::All, z);
    pass()?;
    let before = together.traffic();
    let start = Instant::now();
    for _ in 0..PASSES {
        pass()?;
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(PASSES);
    let after = together.traffic();
    let each = |after: u64, before: u64| (after - before) as f64 / f64::from(PASSES);
    if together.is_first() {
        say(&format!(
            "{} ranks, {rows} rows of {dim} on each: {:.3} ms a pass, {} rounds, {} bytes",
            together.ranks(),
            1e3 * seconds,
            each(after.rounds, before.rounds),
            8.0 * each(after.words, before.words),
        ));
    }
    Ok(())
}
