//! How many records a step reads, with how much noise, and how many steps there are: the same for all rounds.

use dpopt_oracle::{Batch, Level, Schedule};
use dpopt_privacy::{Accountant, Adjacency, Event, NoiseMultiplier, SamplingRate, Spend};
use dpopt_solver::search::geometric;
use dpopt_solver::{Budget, PlanError, PublicFacts};
use serde::{Deserialize, Serialize};

use super::inner::Inner;

/// Records whose gradients take as long as the rest of a step (noise of each coordinate, above all). A tuned constant.
const OVERHEAD: f64 = 32.0;
/// Noise multipliers of a sampled step that are tried.
const MULTIPLIERS: [f64; 12] = [0.5, 0.6, 0.7, 0.85, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 16.0];

/// Which records a step reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProximalReads {
    /// Whichever costs less.
    #[default]
    Auto,
    /// All.
    Everything,
    /// A fresh Poisson sample.
    Poisson,
}

/// What the planner may choose.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProximalSettings {
    /// Which records a step reads.
    pub reads: ProximalReads,
    /// How much larger the bound on the gap of a subproblem may be than the least one possible, relative to it, for the sake of fewer
    /// gradients. The bound on the risk goes as its power kappa/2.
    pub slack: f64,
    /// Most steps.
    pub max_steps: u64,
}

impl ProximalSettings {
    /// The cheapest of all ways to read, with a slack of 1/4 (a tuned constant).
    #[must_use]
    pub fn new(max_steps: u64) -> Self {
        Self {
            reads: ProximalReads::Auto,
            slack: 0.25,
            max_steps,
        }
    }

    /// With these reads.
    #[must_use]
    pub fn reading(self, reads: ProximalReads) -> Self {
        Self { reads, ..self }
    }

    /// With this slack.
    #[must_use]
    pub fn with_slack(self, slack: f64) -> Self {
        Self { slack, ..self }
    }
}

/// Records, noise and number of the steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// Expected size of a Poisson sample; none for all records.
    pub(super) batch: Option<f64>,
    pub(super) steps: u64,
    pub(super) noise_multiplier: NoiseMultiplier,
    pub(super) accountant: Accountant,
}

/// One that was not calibrated yet.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    batch: Option<f64>,
    steps: f64,
    multiplier: f64,
}

impl Candidate {
    fn gradients(&self, records: f64) -> f64 {
        self.steps * (self.batch.unwrap_or(records) + OVERHEAD)
    }
}

/// The cheapest reading whose bound on a gap is within the slack of the least.
pub(super) fn choose(
    facts: &PublicFacts,
    budget: &Budget,
    settings: &ProximalSettings,
    tail: impl Fn(bool) -> f64,
) -> Result<Reading, PlanError> {
    let mu = budget.mu()?.get();
    let bound = |candidate: &Candidate| {
        let batch = candidate.batch;
        inner(facts, candidate.multiplier, batch, tail(batch.is_some()))
            .product(candidate.steps, 0.0)
    };
    let all: Vec<(Candidate, f64)> = candidates(facts, mu, settings)
        .into_iter()
        .map(|candidate| (candidate, bound(&candidate)))
        .collect();
    let least = all
        .iter()
        .map(|(_, bound)| *bound)
        .fold(f64::INFINITY, f64::min);
    let records = facts.records as f64;
    let chosen = all
        .iter()
        .filter(|(_, bound)| *bound <= least * (1.0 + settings.slack))
        .map(|(candidate, _)| *candidate)
        .min_by(|a, b| a.gradients(records).total_cmp(&b.gradients(records)));
    // A slack that is no number lets nothing pass.
    let chosen = chosen.ok_or(PlanError::BadFact {
        name: "slack",
        value: settings.slack,
    })?;
    calibrated(facts, budget, mu, &chosen)
}

fn candidates(facts: &PublicFacts, mu: f64, settings: &ProximalSettings) -> Vec<Candidate> {
    let (records, most) = (facts.records as f64, settings.max_steps.max(1) as f64);
    let mut all = Vec::new();
    if settings.reads != ProximalReads::Poisson {
        for steps in geometric(1.0, most.min(1e18), 2f64.powf(0.125)).map(f64::round) {
            all.push(Candidate {
                batch: None,
                steps,
                multiplier: steps.sqrt() / mu,
            });
        }
    }
    if settings.reads != ProximalReads::Everything {
        for batch in geometric(1.0, 0.5 * records, 2f64.powf(0.25)) {
            for multiplier in MULTIPLIERS {
                let rate = batch / records;
                let steps =
                    (mu * mu / (rate * rate * divergence(facts.adjacency, multiplier))).floor();
                if (1.0..=most).contains(&steps) {
                    all.push(Candidate {
                        batch: Some(batch),
                        steps,
                        multiplier,
                    });
                }
            }
        }
        if all.is_empty() {
            // As few steps as may be, of half the records.
            let rate = 0.5f64;
            all.push(Candidate {
                batch: Some((rate * records).max(1.0)),
                steps: most,
                multiplier: (1.0 + most * rate * rate / (mu * mu)).sqrt(),
            });
        }
    }
    all
}

/// mu^2 of a sampled Gaussian over the square of its rate, at small rates: the central limit stands in for the accountant
/// in the search.
fn divergence(adjacency: Adjacency, multiplier: f64) -> f64 {
    let inverse = (multiplier * multiplier).recip();
    match adjacency {
        // The two means are half the sensitivity off, on either side: E of the squared difference of the ratios.
        Adjacency::ReplaceOne => 4.0 * (0.25 * inverse).sinh(),
        _ => inverse.exp_m1(),
    }
}

fn calibrated(
    facts: &PublicFacts,
    budget: &Budget,
    mu: f64,
    chosen: &Candidate,
) -> Result<Reading, PlanError> {
    let steps = chosen.steps as u64;
    let Some(batch) = chosen.batch else {
        return Ok(Reading {
            batch: None,
            steps,
            noise_multiplier: NoiseMultiplier::new((steps as f64).sqrt() / mu)?,
            accountant: Accountant::Gdp,
        });
    };
    let rate = SamplingRate::new((batch / facts.records as f64).min(1.0))?;
    let event = |z| -> Event { spend(facts, Some(rate), z, steps).event().clone() };
    let (accountant, noise_multiplier) = budget.calibrated(facts.adjacency, event)?;
    Ok(Reading {
        batch: Some(batch),
        steps,
        noise_multiplier,
        accountant,
    })
}

/// The inner solver with this noise.
pub(super) fn inner(facts: &PublicFacts, multiplier: f64, batch: Option<f64>, tail: f64) -> Inner {
    let divisor = batch.unwrap_or(facts.records as f64);
    Inner {
        noise_std: facts.adjacency.sum_sensitivity() * facts.lipschitz * multiplier / divisor,
        lipschitz: facts.lipschitz,
        dim: facts.dim as f64,
        batch,
        tail,
    }
}

/// What so many steps cost.
pub(super) fn spend(
    facts: &PublicFacts,
    sampling_rate: Option<SamplingRate>,
    noise_multiplier: NoiseMultiplier,
    steps: u64,
) -> Spend {
    let level = Level {
        batch: sampling_rate.map_or(Batch::All, Batch::Poisson),
        noise_multiplier,
    };
    Schedule::new(facts.records).releases(level, steps).spend()
}
