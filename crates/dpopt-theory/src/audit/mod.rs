//! Audits: attacks on the library's own guarantees, that must fail, and on broken twins, that must not.
//!
//! | audit | question | what it can't show |
//! | --- | --- | --- |
//! | replay ([`CuratorReplay`], [`MechanismReplay`]) | by how much, in units of the noise, does one record move every release? Does the ledger add up? | whether the noise has its law |
//! | canary ([`Canary`]) | over many runs, how well is a record's presence told from what is released? | leaks that the score does not look at |
//! | one-run ([`OneRun`]) | the same from one run with many canaries | much at a small epsilon |
//!
//! A [`Registry`] holds targets; [`Registry::standard`] has one for every mechanism and solver of this
//! library, and broken twins as controls. A mechanism or solver of one's own is added to it:
//!
//! ```
//! use dpopt_theory::audit::{Canary, Claim, Registry, Settings, Statistic, World};
//! use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};
//!
//! // A count with rounded Gaussian noise of 4 steps: mu = 1/4.
//! let noise = RoundedGaussian::new(4.0)?;
//! let count = Canary::new("my-count", "mine", Claim::gaussian(0.25, 1e-6)?, Statistic::GaussianDp, move |world, seed| {
//!     let key = ReplayKeyForTests::from_seed(seed);
//!     let noise = noise.sample(&mut key.stream(StreamId::new(Purpose::Noise, 0)));
//!     Ok((noise + i128::from(world == World::In)) as f64)
//! });
//! let mut registry = Registry::empty();
//! registry.add(count.with_runs(20_000, 100_000));
//! let report = registry.run(&Settings::quick(), None, &mut |_| {})?;
//! assert!(report.rows[0].lower_bound.is_some_and(|found| found > 0.5));
//! assert!(report.passed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What each number means: `docs/audit.md`.

mod adaptive;
pub mod binomial;
mod canary;
mod certificates;
mod crooked;
mod estimators;
mod hostile;
mod ledger;
mod mechanisms;
mod members;
mod meter;
mod one_run;
mod passes;
mod periods;
mod plans;
mod projected;
mod proximal;
mod queries;
mod replay;
mod samplers;
mod selections;
mod solvers;
mod statistic;
mod tape;
mod twins;
mod variants;
mod watch;

#[cfg(test)]
mod tests;

use dpopt_nonconvex::{PlanError, RunError};
use dpopt_oracle::{AskError, DataError, EstimatorError};
use dpopt_privacy::accounting::AccountingError;
use dpopt_privacy::noise::NoiseError;
use dpopt_privacy::selection::SelectionError;
use dpopt_privacy::{
    Adjacency, Delta, Event, LatticeError, PrefixError, Refused, ReplayError, UnitError,
};
use serde::Serialize;

pub use adaptive::PrintedAdaptive;
pub use canary::{Canary, World};
pub use hostile::{Behaviour, Hostile, HostileLoss, hostile_pairs};
pub use ledger::{OwnCost, own_cost};
pub use meter::TranscriptMeter;
pub use one_run::{OneRun, one_run_bound, one_run_p_value};
pub use replay::{CuratorReplay, MechanismReplay, Pair, Ran};
pub use statistic::{Errors, LowerBound, ScaledEvent, Statistic};
pub use tape::AuditTape;
pub use watch::{Watched, WatchedRelease};

/// An audit could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuditError {
    /// No target or group has this name.
    #[error("no audit is called `{asked}`; known are {}", known.join(", "))]
    UnknownTarget {
        /// What was asked for.
        asked: String,
        /// The groups there are.
        known: Vec<String>,
    },
    /// A confidence outside (0, 1), or no runs.
    #[error("{name} must be {needs}, got {value}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// What it must be.
        needs: &'static str,
        /// What it was.
        value: f64,
    },
    /// A score was not a number.
    #[error("run {run} of {target} has the score {score}")]
    Score {
        /// The target.
        target: String,
        /// The run.
        run: u64,
        /// The score.
        score: f64,
    },
    /// The data sets of a replay are no neighbours.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The target's own run failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The curator refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A question was not answered.
    #[error(transparent)]
    Ask(#[from] AskError),
    /// The accountant refused.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
    /// No plan could be made.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The data could not be set up.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The estimator could not be set up.
    #[error(transparent)]
    Estimator(#[from] EstimatorError),
    /// A number is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A bound is out of range.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
    /// Noise is out of range.
    #[error(transparent)]
    Noise(#[from] NoiseError),
    /// A selection is out of range.
    #[error(transparent)]
    Selection(#[from] SelectionError),
    /// A period is out of range.
    #[error(transparent)]
    Prefix(#[from] PrefixError),
    /// What a target of one's own has to say.
    #[error("{0}")]
    Other(String),
}

/// How deep an audit goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Whether each target makes its larger number of runs.
    pub full: bool,
    /// Confidence of each lower bound.
    pub confidence: f64,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Settings {
    /// Little more than a minute for the standard registry on two cores.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            full: false,
            confidence: 0.99,
            seed: 1,
        }
    }

    /// Deeper: about ten times as many runs.
    #[must_use]
    pub fn full() -> Self {
        Self {
            full: true,
            ..Self::quick()
        }
    }

    fn check(&self) -> Result<(), AuditError> {
        if self.confidence > 0.0 && self.confidence < 1.0 {
            Ok(())
        } else {
            Err(AuditError::Setting {
                name: "confidence",
                needs: "between 0 and 1",
                value: self.confidence,
            })
        }
    }
}

/// What a target says of itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// Its epsilon.
    pub epsilon: f64,
    /// At this delta; 0 for pure DP.
    pub delta: f64,
    /// Its mu, where it is Gaussian-DP.
    pub mu: Option<f64>,
}

impl Claim {
    /// mu-GDP, read at `delta`.
    ///
    /// # Errors
    /// [`AuditError::Unit`] for a mu or delta out of range.
    pub fn gaussian(mu: f64, delta: f64) -> Result<Self, AuditError> {
        Ok(Self {
            epsilon: statistic::epsilon_of(mu, delta)?,
            delta,
            mu: Some(mu),
        })
    }

    /// epsilon-DP.
    #[must_use]
    pub fn pure(epsilon: f64) -> Self {
        Self {
            epsilon,
            delta: 0.0,
            mu: None,
        }
    }

    /// What the accountants say of `event`; a mu where it is a composition of Gaussians.
    ///
    /// # Errors
    /// The accountants' refusals.
    pub fn of(event: &Event, delta: f64, adjacency: Adjacency) -> Result<Self, AuditError> {
        let (_, epsilon) = dpopt_privacy::Accountant::least(event, Delta::new(delta)?, adjacency)?;
        let squared = dpopt_privacy::accounting::costs::squared_mu(event, adjacency);
        Ok(Self {
            epsilon,
            delta,
            mu: squared.ok().map(f64::sqrt),
        })
    }
}

/// Something to audit. [`CuratorReplay`], [`MechanismReplay`], [`Canary`] and [`OneRun`] are ready-made.
pub trait Target: Send + Sync {
    /// Its name, unique in a registry.
    fn name(&self) -> &str;

    /// The group that `--only` selects: a solver or a family of mechanisms.
    fn group(&self) -> &str;

    /// Audits it.
    ///
    /// # Errors
    /// [`AuditError`] where the audit itself could not be made; a guarantee that does not hold is a row
    /// that says so.
    fn audit(&self, settings: &Settings) -> Result<Row, AuditError>;
}

/// Whether a row is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// The claim stands, or the broken twin was caught.
    Pass,
    /// The claim is refuted, the auditor is too loose, or the broken twin was not caught.
    Fail,
}

/// Which audit a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Deterministic replay on neighbours.
    Replay,
    /// Many runs with and without a canary.
    Canary,
    /// One run with many canaries.
    OneRun,
}

/// One target's result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Name of the target.
    pub target: String,
    /// Its group.
    pub group: String,
    /// Which audit.
    pub audit: Kind,
    /// The claimed epsilon; none where the target releases nothing.
    pub claimed_epsilon: Option<f64>,
    /// The delta of both epsilons.
    pub delta: f64,
    /// Statistical audits: epsilon is at least this.
    pub lower_bound: Option<f64>,
    /// Replay: the largest root of the sum of squared displacements over all cases.
    pub replay_mu: Option<f64>,
    /// The mu that is claimed; in a replay that of the releases without sampling.
    pub claimed_mu: Option<f64>,
    /// Replay of selections: the largest change of a log-probability over all cases.
    pub replay_epsilon: Option<f64>,
    /// Confidence of the lower bound; none for a replay, which is deterministic.
    pub confidence: Option<f64>,
    /// Runs, canaries, or pairs of neighbours.
    pub trials: u64,
    /// Whether it is a broken twin, which must be caught.
    pub control: bool,
    /// The verdict.
    pub status: Status,
    /// What decided it.
    pub why: String,
}

/// The rows of a registry.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// In the order of the registry.
    pub rows: Vec<Row>,
}

impl Report {
    /// Whether every claim stands and every broken twin was caught.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.rows.iter().all(|row| row.status == Status::Pass)
    }
}

/// One step of an audit, for whoever draws progress.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Targets done.
    pub done: usize,
    /// Targets in all.
    pub all: usize,
    /// The row that was just finished.
    pub row: &'a Row,
}

/// Targets, in order.
#[derive(Default)]
pub struct Registry {
    targets: Vec<Box<dyn Target>>,
}

impl Registry {
    /// No targets.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Every mechanism and solver of this library, and broken twins.
    ///
    /// # Errors
    /// [`AuditError`] where a target can't be set up.
    pub fn standard() -> Result<Self, AuditError> {
        let mut registry = Self::empty();
        mechanisms::register(&mut registry)?;
        selections::register(&mut registry)?;
        samplers::register(&mut registry)?;
        estimators::register(&mut registry)?;
        periods::register(&mut registry)?;
        queries::register(&mut registry)?;
        certificates::register(&mut registry)?;
        solvers::register(&mut registry)?;
        variants::register(&mut registry)?;
        passes::register(&mut registry)?;
        projected::register(&mut registry)?;
        adaptive::register(&mut registry)?;
        members::register(&mut registry)?;
        proximal::register(&mut registry)?;
        twins::register(&mut registry)?;
        crooked::register(&mut registry)?;
        Ok(registry)
    }

    /// Adds a target.
    pub fn add(&mut self, target: impl Target + 'static) {
        self.targets.push(Box::new(target));
    }

    /// The groups, each once.
    #[must_use]
    pub fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = Vec::new();
        for target in &self.targets {
            if !groups.iter().any(|known| known == target.group()) {
                groups.push(target.group().to_owned());
            }
        }
        groups
    }

    /// Audits the targets of one group, or the one of that name, or all of them.
    ///
    /// # Errors
    /// [`AuditError::UnknownTarget`], [`AuditError::Setting`], and where an audit could not be made.
    pub fn run(
        &self,
        settings: &Settings,
        only: Option<&str>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Report, AuditError> {
        settings.check()?;
        let asked = |target: &dyn Target| {
            only.is_none_or(|only| target.group() == only || target.name() == only)
        };
        let all = self.targets.iter().map(Box::as_ref);
        let targets: Vec<&dyn Target> = all.filter(|target| asked(*target)).collect();
        if let (true, Some(only)) = (targets.is_empty(), only) {
            return Err(AuditError::UnknownTarget {
                asked: only.to_owned(),
                known: self.groups(),
            });
        }
        let mut rows = Vec::new();
        for target in &targets {
            rows.push(target.audit(settings)?);
            if let Some(row) = rows.last() {
                progress(Progress {
                    done: rows.len(),
                    all: targets.len(),
                    row,
                });
            }
        }
        Ok(Report { rows })
    }
}

/// A verdict from whether the claim was refuted.
fn verdict(control: bool, refuted: bool) -> Status {
    if control == refuted {
        Status::Pass
    } else {
        Status::Fail
    }
}

/// A seed for each use, far from those of other uses: the finaliser of SplitMix64.
fn mixed(seed: u64, use_: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(use_.wrapping_add(1)));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A seed for a name.
fn seed_of(name: &str, seed: u64) -> u64 {
    name.bytes()
        .fold(mixed(seed, 0), |hash, byte| mixed(hash, u64::from(byte)))
}
