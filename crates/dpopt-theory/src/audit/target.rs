//! Targets, what they claim, and the rows that come of them.

use dpopt_privacy::accounting::costs;
use dpopt_privacy::{Accountant, Adjacency, Delta, Event, UnitError};
use serde::Serialize;

use super::error::AuditError;
use super::statistic::epsilon_of;
use crate::checks::{self, CheckError, Effort, Named, Status};

/// How deep an audit goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Whether each target makes its larger number of runs.
    pub effort: Effort,
    /// Confidence of each lower bound.
    pub confidence: f64,
    /// Everything random follows from it.
    pub seed: u64,
}

impl Settings {
    /// A quarter of an hour for the standard registry on two cores; with [`Effort::Brief`] a third of that.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            effort: Effort::Quick,
            confidence: 0.99,
            seed: 1,
        }
    }

    /// Deeper: about ten times as many runs.
    #[must_use]
    pub fn full() -> Self {
        Self {
            effort: Effort::Full,
            ..Self::quick()
        }
    }

    pub(super) fn check(&self) -> Result<(), AuditError> {
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
    /// For a mu or delta out of range.
    pub fn gaussian(mu: f64, delta: f64) -> Result<Self, UnitError> {
        Ok(Self {
            epsilon: epsilon_of(mu, delta)?,
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
    pub fn of(event: &Event, delta: f64, adjacency: Adjacency) -> Result<Self, CheckError> {
        let (_, epsilon) = Accountant::least(event, Delta::new(delta)?, adjacency)?;
        let squared = costs::squared_mu(event, adjacency);
        Ok(Self {
            epsilon,
            delta,
            mu: squared.ok().map(f64::sqrt),
        })
    }
}

/// How a target is called, and whether it has to fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Its name, unique in a registry.
    pub name: String,
    /// The group that `--only` selects: a solver or a family of mechanisms.
    pub group: String,
    /// Whether it is a broken twin, whose claim must be refuted.
    pub control: bool,
}

impl Label {
    /// Of a target that is no broken twin.
    #[must_use]
    pub fn new(name: &str, group: &str) -> Self {
        Self {
            name: name.to_owned(),
            group: group.to_owned(),
            control: false,
        }
    }

    /// A seed of this target's own.
    pub(super) fn seed(&self, settings: &Settings) -> u64 {
        checks::seed_of(&self.name, settings.seed)
    }

    /// The row of an audit that found the claim refuted or not, without any numbers.
    #[must_use]
    pub fn row(&self, audit: Kind, trials: u64, refuted: bool, why: String) -> Row {
        Row {
            target: self.name.clone(),
            group: self.group.clone(),
            audit,
            claimed_epsilon: None,
            delta: 0.0,
            lower_bound: None,
            replay_mu: None,
            claimed_mu: None,
            replay_epsilon: None,
            confidence: None,
            trials,
            control: self.control,
            status: Status::of(self.control == refuted),
            why,
        }
    }
}

/// Something to audit. [`CuratorReplay`](super::CuratorReplay), [`MechanismReplay`](super::MechanismReplay),
/// [`Canary`](super::Canary) and [`OneRun`](super::OneRun) are ready-made.
pub trait Target: Send + Sync {
    /// Its name and group.
    fn label(&self) -> &Label;

    /// Audits it.
    ///
    /// # Errors
    /// [`AuditError`] where the audit itself could not be made; a guarantee that does not hold is a row
    /// that says so.
    fn audit(&self, settings: &Settings) -> Result<Row, AuditError>;
}

impl Named for dyn Target {
    fn name(&self) -> &str {
        &self.label().name
    }

    fn group(&self) -> &str {
        &self.label().group
    }

    fn is_control(&self) -> bool {
        self.label().control
    }
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
