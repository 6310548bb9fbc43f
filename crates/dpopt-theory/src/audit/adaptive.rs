//! Audits of adaptive gradient descent: a canary, and the printed algorithm as a broken twin.

use dpopt_nonconvex::{
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, NoObserver, NormQueries, Plan, PublicFacts,
};
use dpopt_oracle::PrivateMean;
use dpopt_privacy::{Adjacency, ChangedRecord, Curator};

use super::common::{DELTA, budget};
use super::hostile::private;
use super::plans::facts;
use super::{
    AuditTape, Behaviour, Canary, CheckError, Claim, Hostile, HostileLoss, MechanismReplay, Pair,
    Registry, Statistic, Watched, World,
};

const GROUP: &str = "adaptive-gd";
const STEPS: u64 = 8;
/// Public number of records of scored runs.
const CROWD: u64 = 50;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let printed = PrintedAdaptive {
        records: 1e6,
        dim: 20,
        rho: 1.0,
    };
    let twin = MechanismReplay::new(
        "adaptive-gd/as-printed",
        GROUP,
        |_| {
            vec![Pair {
                name: "opposite".to_owned(),
                recorded: 1.0,
                replayed: -1.0,
                changed: ChangedRecord::InPlace(0),
            }]
        },
        move |tape: &mut AuditTape, sign: &f64, _| {
            printed.run(tape, *sign);
            (2.0 * printed.rho).sqrt()
        },
    );
    registry.add(twin.control());
    canary(registry)
}

/// Algorithm 3 as it is printed, with its own books: a broken twin (E-9 to E-12 of the errata).
///
/// F(w) = ||w - c||^2/2 with ||c|| = 1, L0 = 2, L1 = 1, beta = 0.05, and one record whose gradient is L0 or -L0 along the first
/// axis, wherever it is asked.
#[derive(Debug, Clone, Copy)]
pub struct PrintedAdaptive {
    /// n.
    pub records: f64,
    /// d.
    pub dim: usize,
    /// The rho that it claims to spend.
    pub rho: f64,
}

impl PrintedAdaptive {
    /// One run with that record as it is (1.0) or turned round (-1.0). Returns what the algorithm's own books say that it spent.
    pub fn run(&self, tape: &mut AuditTape, sign: f64) -> f64 {
        let (n, d, rho) = (self.records, self.dim as f64, self.rho);
        let (lipschitz, eta) = (2.0, 0.5);
        let log = (n * rho.sqrt() / 0.05).ln();
        let norm_noise = lipschitz / (n.sqrt() * rho.powf(0.25));
        let floor = 2.0 * lipschitz / (n * rho.sqrt());
        let mut point = vec![0.0; self.dim];
        let mut books = 0.0;
        while books <= 0.5 * rho {
            let mut gradient = point.clone();
            gradient[0] += sign * lipschitz / n - 1.0;
            let released = tape.gaussian(&[dpopt_linalg::norm(&gradient)], norm_noise)[0];
            let noise = (released / (d * log).sqrt()).max(floor);
            let step = tape.gaussian(&gradient, noise);
            for (w, g) in point.iter_mut().zip(&step) {
                *w -= eta * g;
            }
            let charged = lipschitz * lipschitz * d * log / (n * n * released * released);
            books += charged.min(0.5 * rho) + rho.sqrt() / n;
        }
        books
    }

    /// What a run really costs in rho: the squared displacements of all releases on the neighbour, half their sum.
    #[must_use]
    pub fn true_cost(&self, seed: u64) -> f64 {
        let mut tape = AuditTape::recording(seed);
        self.run(&mut tape, 1.0);
        let mut tape = tape.rewound(seed);
        self.run(&mut tape, -1.0);
        0.5 * tape.displacements().iter().map(|x| x * x).sum::<f64>()
    }
}

/// One record in a crowd that points the other way or not, by the log-likelihood ratio of all that
/// is released. The claim is mu-GDP.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    // Noise that fits the crowd: the run spends what it has.
    let facts = PublicFacts {
        records: CROWD,
        ..facts(Adjacency::ReplaceOne, 1)
    };
    let settings = AdaptiveSettings::new()
        .with_norms(NormQueries::Relative)
        .with_selection(AdaptiveSelection::Last)
        .with_max_steps(STEPS);
    let plan = AdaptiveGdPlan::new(&facts, &budget(8.0)?, settings)?;
    let claim = Claim::gaussian(plan.mu(), DELTA)?;
    let score = move |world: World, seed: u64| score(&plan, world, seed);
    let name = format!("{GROUP}/canary");
    let target = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(8_000, 80_000));
    Ok(())
}

fn score(plan: &AdaptiveGdPlan, world: World, seed: u64) -> Result<f64, CheckError> {
    let sign = match world {
        World::In => 1.0,
        World::Out => -1.0,
    };
    let mut records = vec![Hostile::new(Behaviour::Constant, 0.9); CROWD as usize];
    records[0] = Hostile::new(Behaviour::Constant, sign);
    let adjacency = plan.facts().adjacency;
    let data = private(&records, adjacency, records.len())?;
    let curator = Curator::simulated(adjacency, seed);
    let means = PrivateMean::new(&data, HostileLoss { dim: 1 }, curator)?;
    let mut watched = Watched::new(means);
    plan.run(&mut watched, &mut NoObserver)?;
    // The mean gradient is 0.9 of the others, and of the record 1/n up or down.
    let n = CROWD as f64;
    let middle = 0.9 * (n - 1.0) / n;
    let ratio = |released: f64, deviation: f64| (released - middle) / (n * deviation * deviation);
    let all = watched.releases().iter();
    Ok(all.map(|r| ratio(r.released[0], r.deviation)).sum())
}
