//! The replay audit: run on one data set, replay on its neighbours, compare with the claim.

use std::panic::AssertUnwindSafe;

use dpopt_privacy::{
    Adjacency, ChangedRecord, Curator, Event, ReplayForAudits, ReplayReport, ReplayedMechanism,
};

use super::ledger::own_cost;
use super::{AuditError, AuditTape, CheckError, Claim, Effort, Kind, Label, Row, Settings, Target};
use crate::checks::mixed;

/// Slack for the rounding of roots and quotients, relative.
const SLACK: f64 = 1e-9;
/// Why a row passes.
const WITHIN: &str = "within the claim on all neighbours";

/// Two neighbouring data sets.
#[derive(Debug, Clone)]
pub struct Pair<D> {
    /// What is special about them.
    pub name: String,
    /// The data of the recorded run.
    pub recorded: D,
    /// The data of the replay.
    pub replayed: D,
    /// The record that differs.
    pub changed: ChangedRecord,
}

/// What one run shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// What the curator says was spent ([`Curator::spent`]).
    pub spent: Event,
    /// Everything else that is public: points, refusals, errors, counts. Must be the same in both
    /// runs; write numbers with all their digits.
    pub outcome: String,
    /// Whether the run ended in a refusal.
    pub refused: bool,
}

impl Ran {
    /// What the curator says, where nothing was refused.
    #[must_use]
    pub fn of(curator: &Curator, outcome: String) -> Self {
        Self {
            spent: curator.spent(),
            outcome,
            refused: false,
        }
    }

    /// Nothing but a refusal.
    pub fn refusal(why: impl std::fmt::Display) -> Self {
        Self {
            spent: Event::NoOp,
            outcome: why.to_string(),
            refused: true,
        }
    }
}

type CuratorRun<D> = Box<dyn Fn(Curator, &D) -> Result<Ran, CheckError> + Send + Sync>;
type Make<D> = Box<dyn Fn(Effort) -> Vec<Pair<D>> + Send + Sync>;

/// A replay audit of something that releases through a [`Curator`].
///
/// # Formula
/// For every pair, mu_replay^2 is the sum of the squared displacements of all Gaussian releases. It must be at
/// most the mu^2 that the ledger claims for them, each displacement at most its own claim, and the sum of the
/// largest changes of log-probabilities of selections at most their epsilons. On samples the changed
/// record is always drawn, and the comparison is with the claim without sampling. Besides:
/// whatever is public must be the same in both runs, and the ledger must agree with [`own_cost`].
pub struct CuratorReplay<D> {
    label: Label,
    adjacency: Adjacency,
    delta: f64,
    must_refuse: bool,
    pairs: Make<D>,
    run: CuratorRun<D>,
}

impl<D: Send + Sync> CuratorReplay<D> {
    /// A target with these pairs of neighbours (more of them, if it likes, for a full audit) and this run.
    #[must_use]
    pub fn new(
        name: &str,
        group: &str,
        adjacency: Adjacency,
        pairs: impl Fn(Effort) -> Vec<Pair<D>> + Send + Sync + 'static,
        run: impl Fn(Curator, &D) -> Result<Ran, CheckError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            label: Label::new(name, group),
            adjacency,
            delta: 1e-6,
            must_refuse: false,
            pairs: Box::new(pairs),
            run: Box::new(run),
        }
    }

    /// Demands that every run ends in a refusal, the same for both neighbours.
    #[must_use]
    pub fn refused(self) -> Self {
        self.refused_unless(false)
    }

    /// Demands that where this is not `allowed`.
    #[must_use]
    pub fn refused_unless(mut self, allowed: bool) -> Self {
        self.must_refuse = !allowed;
        self
    }

    /// Declares it a broken twin, whose claim must be refuted.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.label.control = true;
        self
    }

    /// One pair: the row's numbers and what is wrong.
    fn pair(&self, pair: &Pair<D>, seed: u64, findings: &mut Findings) -> Result<(), CheckError> {
        let tape = ReplayForAudits::new(self.adjacency, seed, pair.changed)?;
        let run = |curator, data| {
            std::panic::catch_unwind(AssertUnwindSafe(|| (self.run)(curator, data)))
                .unwrap_or_else(|_| Err(format!("{}: a run panicked", self.label.name).into()))
        };
        let recorded = run(tape.recorder(), &pair.recorded)?;
        let replayed = run(tape.replayer(), &pair.replayed)?;
        let report = tape.report();
        let mut problem = |what: String| {
            findings.problems.push(format!("{}: {what}", pair.name));
        };
        if let Some(divergence) = &report.divergence {
            problem(divergence.to_string());
        }
        if recorded != replayed {
            problem(format!(
                "public outcomes differ: {} and {}",
                recorded.outcome, replayed.outcome
            ));
        }
        if self.must_refuse && !recorded.refused {
            problem("was not refused".to_owned());
        }
        let own = own_cost(&report.releases, self.adjacency);
        for what in own.disagreements(&recorded.spent, &report.releases, self.adjacency)? {
            problem(what);
        }
        let (squared_mu, epsilon) = moved(&report);
        for (number, release) in report.releases.iter().enumerate() {
            if !(release.displacement <= release.limit * (1.0 + SLACK)) {
                problem(format!(
                    "release {number} moves by {} of its noise, the claim is {}",
                    release.displacement, release.limit
                ));
            }
        }
        if !(squared_mu <= own.unsampled_squared_mu * (1.0 + SLACK)) {
            problem(format!(
                "replay mu {} is above the claimed {}",
                squared_mu.sqrt(),
                own.unsampled_squared_mu.sqrt()
            ));
        }
        if !(epsilon <= own.epsilon * (1.0 + SLACK)) {
            problem(format!(
                "replay epsilon {} is above the claimed {}",
                epsilon, own.epsilon
            ));
        }
        findings.squared_mu = findings.squared_mu.max(squared_mu);
        findings.epsilon = findings.epsilon.max(epsilon);
        findings.claimed_squared_mu = findings.claimed_squared_mu.max(own.unsampled_squared_mu);
        findings.claimed_epsilon = findings.claimed_epsilon.max(own.epsilon);
        if recorded.spent != Event::NoOp {
            // Most pairs spend the same, and accountants are slow.
            let known = findings.known.as_ref();
            if known.is_none_or(|known| *known != recorded.spent) {
                let claim = Claim::of(&recorded.spent, self.delta, self.adjacency)?;
                findings.guarantee = Some(findings.guarantee.unwrap_or(0.0).max(claim.epsilon));
                findings.known = Some(recorded.spent);
            }
        }
        Ok(())
    }
}

/// What all pairs of a target came to.
#[derive(Default)]
struct Findings {
    squared_mu: f64,
    claimed_squared_mu: f64,
    epsilon: f64,
    claimed_epsilon: f64,
    guarantee: Option<f64>,
    /// What was spent on the pair before.
    known: Option<Event>,
    problems: Vec<String>,
}

/// The squared mu of Gaussian releases, and the epsilon of selections.
pub(super) fn moved(report: &ReplayReport) -> (f64, f64) {
    let (mut squared_mu, mut epsilon) = (0.0, 0.0);
    for release in &report.releases {
        let displacement = release.displacement;
        match release.mechanism {
            ReplayedMechanism::Sum | ReplayedMechanism::Norm | ReplayedMechanism::Prefix { .. } => {
                squared_mu += displacement.powi(2);
            }
            _ => epsilon += displacement,
        }
    }
    (squared_mu, epsilon)
}

impl<D: Send + Sync> Target for CuratorReplay<D> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn audit(&self, settings: &Settings) -> Result<Row, AuditError> {
        let seed = self.label.seed(settings);
        let pairs = (self.pairs)(settings.effort);
        let mut findings = Findings::default();
        for (number, pair) in pairs.iter().enumerate() {
            self.pair(pair, mixed(seed, number as u64), &mut findings)?;
        }
        let sound = findings.problems.is_empty() && !pairs.is_empty();
        let some = |x: f64, there: f64| (there > 0.0).then_some(x);
        let why = match findings.problems.as_slice() {
            [] if self.must_refuse => "refused alike on all neighbours".to_owned(),
            [] => WITHIN.to_owned(),
            [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
        };
        let claimed = findings.claimed_squared_mu;
        Ok(Row {
            claimed_epsilon: findings.guarantee,
            delta: self.delta,
            replay_mu: some(findings.squared_mu.sqrt(), claimed),
            claimed_mu: some(claimed.sqrt(), claimed),
            replay_epsilon: some(findings.epsilon, findings.claimed_epsilon),
            ..self
                .label
                .row(Kind::Replay, pairs.len() as u64, !sound, why)
        })
    }
}

type MechanismRun<D> = Box<dyn Fn(&mut AuditTape, &D, usize) -> f64 + Send + Sync>;

/// A replay audit of a mechanism of one's own that draws from an [`AuditTape`]. Its run returns the mu that
/// it claims for itself; the third argument is the position of the changed record, to force it into
/// samples.
pub struct MechanismReplay<D> {
    label: Label,
    delta: f64,
    pairs: Make<D>,
    run: MechanismRun<D>,
}

impl<D: Send + Sync> MechanismReplay<D> {
    /// A target with these pairs of neighbours and this run.
    #[must_use]
    pub fn new(
        name: &str,
        group: &str,
        pairs: impl Fn(Effort) -> Vec<Pair<D>> + Send + Sync + 'static,
        run: impl Fn(&mut AuditTape, &D, usize) -> f64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            label: Label::new(name, group),
            delta: 1e-6,
            pairs: Box::new(pairs),
            run: Box::new(run),
        }
    }

    /// Declares it a broken twin, whose claim must be refuted.
    #[must_use]
    pub fn control(mut self) -> Self {
        self.label.control = true;
        self
    }
}

impl<D: Send + Sync> Target for MechanismReplay<D> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn audit(&self, settings: &Settings) -> Result<Row, AuditError> {
        let seed = self.label.seed(settings);
        let pairs = (self.pairs)(settings.effort);
        let (mut replay, mut claimed) = (0.0_f64, 0.0_f64);
        let mut problem = None;
        for (number, pair) in pairs.iter().enumerate() {
            let seed = mixed(seed, number as u64);
            let mut tape = AuditTape::recording(seed);
            let (ChangedRecord::InPlace(at)
            | ChangedRecord::Added(at)
            | ChangedRecord::Removed(at)) = pair.changed;
            let at = at as usize;
            let claim = (self.run)(&mut tape, &pair.recorded, at);
            let mut tape = tape.rewound(seed);
            let again = (self.run)(&mut tape, &pair.replayed, at);
            let squares: f64 = tape.displacements().iter().map(|x| x * x).sum();
            let mu = squares.sqrt();
            if tape.diverged() || claim != again {
                problem = Some(format!("{}: public behaviour differs", pair.name));
            } else if !(mu <= claim * (1.0 + SLACK)) {
                problem = Some(format!("{}: replay mu {mu} above {claim}", pair.name));
            }
            replay = replay.max(mu);
            claimed = claimed.max(claim);
        }
        let claim = Claim::gaussian(claimed, self.delta).map_err(CheckError::from)?;
        let refuted = problem.is_some();
        let why = problem.unwrap_or_else(|| WITHIN.to_owned());
        Ok(Row {
            claimed_epsilon: Some(claim.epsilon),
            delta: self.delta,
            // JSON has no infinity; `why` says it.
            replay_mu: replay.is_finite().then_some(replay),
            claimed_mu: Some(claimed),
            ..self
                .label
                .row(Kind::Replay, pairs.len() as u64, refuted, why)
        })
    }
}
