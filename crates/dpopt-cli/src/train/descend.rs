//! The run itself: reserves, releases, settles.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use dpopt::linalg::norm;
use dpopt::nonconvex::{Observer, Outcome, Plan, Release};
use dpopt::oracle::PrivateData;
use dpopt::privacy::{Curator, Delta, Event, Guarantee};

use crate::certificate::{self, Certificate, NoCertificate};
use crate::certified::Certified;
use crate::checkpoints::Saver;
use crate::chosen::{Chosen, Reach};
use crate::clock::Stopwatch;
use crate::error::CliError;
use crate::fit::Fit;
use crate::interrupt::Interrupt;
use crate::objective::{Dual, Ready, Uncertified};
use crate::progress::Progress;
use crate::ranks;
use crate::trace::Recorder;

/// Watches a run: keeps what was released, writes checkpoints, moves the bar, stops on a signal.
struct Watcher<'a> {
    plan: &'a dyn Plan,
    record: Recorder,
    progress: Progress,
    interrupt: Interrupt,
    saver: Saver,
    released: bool,
    /// The largest norm of a point.
    longest: f64,
}

impl Observer for Watcher<'_> {
    fn on_release(&mut self, release: &Release<'_>) -> ControlFlow<()> {
        self.released = true;
        self.longest = self.longest.max(norm(release.point));
        self.record.add(release, self.plan);
        self.progress.step();
        self.saver.on_release(release);
        if ranks::any(self.interrupt.asked()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// What a run leaves.
pub(super) struct Finished {
    pub(super) outcome: Outcome,
    pub(super) certificate: Certificate,
    /// Of a saddle problem.
    pub(super) dual: Option<Dual>,
    /// Of a saddle problem, where one was wanted.
    pub(super) certified: Option<Result<Certified, Uncertified>>,
    pub(super) guarantee: Guarantee,
    /// All that was released, before the run too.
    pub(super) spent: Event,
    pub(super) record: Recorder,
    pub(super) seconds: f64,
    pub(super) reach: Option<Reach>,
    /// Why the last checkpoint is missing, if it is.
    pub(super) trouble: Option<String>,
}

/// What is run, beside the data.
pub(super) struct Job<'a> {
    pub(super) chosen: &'a Chosen,
    pub(super) fit: &'a Fit,
    /// A checkpoint's point, or that of a network; none: the origin.
    pub(super) start: Option<&'a [f64]>,
    pub(super) delta: Delta,
    /// A saddle problem.
    pub(super) ready: Option<&'a Ready>,
    /// None: all that there are.
    pub(super) threads: Option<NonZeroUsize>,
    /// Whether a projection of the rows is run on.
    pub(super) projects: bool,
    /// Whether progress is shown.
    pub(super) shows: bool,
}

/// Reserves, releases, settles.
pub(super) fn descend(
    data: &PrivateData,
    job: &Job<'_>,
    curator: Curator,
    interrupt: &Interrupt,
    saver: Saver,
) -> Result<Finished, CliError> {
    let plan = &*job.chosen.plan;
    let threads = job
        .threads
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN);
    let mut watcher = Watcher {
        plan,
        record: Recorder::new(plan),
        progress: Progress::new(
            plan.steps(),
            job.shows,
            data.adjacency().record_count_is_public(),
        ),
        interrupt: interrupt.clone(),
        saver,
        released: false,
        longest: 0.0,
    };
    let clock = Stopwatch::start();
    let result = match job.ready {
        Some(ready) => ready
            .run(data, plan, curator, threads, &mut watcher)
            .map(|of| {
                let of_saddle = Some((of.dual, of.certificate));
                (
                    of.outcome,
                    of.curator,
                    Err(NoCertificate::Saddle),
                    of_saddle,
                )
            }),
        None => {
            let run = job.fit.run(data, curator).with_threads(threads);
            let run = run.starting_at(job.start);
            certificate::run(run, job.chosen, job.projects, &mut watcher)
                .map(|(outcome, curator, certificate)| (outcome, curator, certificate, None))
        }
    };
    let seconds = clock.seconds();
    watcher.progress.finish();
    let (outcome, curator, certificate, of_saddle) = result.map_err(|error| {
        let error = CliError::from_run(error);
        if watcher.released {
            CliError::BrokeOff(Box::new(error))
        } else {
            error
        }
    })?;
    let reach = job.fit.link.map(|link| Reach {
        walk: watcher.longest,
        result: norm(&outcome.point),
        ball: link.ball(),
    });
    let certificate = match reach {
        Some(reach) if !(reach.walk <= reach.ball) => certificate.and(Err(NoCertificate::LeftBall)),
        _ => certificate,
    };
    let (dual, certified) = of_saddle.unzip();
    let mut saver = watcher.saver;
    saver.save(&outcome.point, outcome.steps);
    let guarantee = curator
        .guarantee(job.delta)
        .map_err(|error| CliError::AfterRun(vec![error.into()]))?;
    Ok(Finished {
        outcome,
        certificate,
        dual,
        certified: certified.flatten(),
        guarantee,
        spent: curator.spent(),
        record: watcher.record,
        seconds,
        reach,
        trouble: saver.trouble(),
    })
}
