//! Audits of private certificates: a gradient norm, a least eigenvalue, both together.

use dpopt_nonconvex::PublicFacts;
use dpopt_oracle::Oracle as _;
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Mu, Spend};

use super::common::{DELTA, DIM, RELATIONS, mu_for};
use super::hostile::{HostileMeans, means, on_hostile, private, with_canary};
use super::plans;
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, Ran, Registry, Statistic,
};
use dpopt_certify::{GradientNormPlan, LeastEigenvaluePlan, SecondOrderPlan, SecondOrderTargets};

const GROUP: &str = "certificates";
const RECORDS: usize = 6;
/// Public number of records of scored runs, so that no interval is too wide.
const CROWD: u64 = 10_000;

/// A plan of each kind.
#[derive(Debug, Clone, Copy)]
enum Certificate {
    Norm(GradientNormPlan),
    Eigenvalue(LeastEigenvaluePlan),
    Second(SecondOrderPlan),
}

impl Certificate {
    const NAMES: [&'static str; 5] = [
        "gradient-norm",
        "least-eigenvalue",
        "second-order",
        "second-order-short",
        "second-order-episode",
    ];

    fn new(name: &str, records: u64, adjacency: Adjacency, mu: f64) -> Result<Self, CheckError> {
        let facts = PublicFacts {
            records,
            initial_gap: 1.0,
            ..plans::facts(adjacency, DIM)
        };
        let (mu, clip) = (Mu::new(mu)?, ClipNorm::new(1.0)?);
        let (failure, width) = (0.05, 2.0);
        Ok(match name {
            "gradient-norm" => Self::Norm(GradientNormPlan::new(&facts, mu, clip, failure, width)?),
            "second-order-episode" => {
                let targets = SecondOrderTargets {
                    gradient: 0.99,
                    curvature: 0.99,
                };
                Self::Second(SecondOrderPlan::with_episode(&facts, mu, failure, targets)?)
            }
            "second-order" | "second-order-short" => {
                // Nearly every gradient is short enough for the Hessian to be released, or few are.
                let gradient = if name == "second-order" { 0.99 } else { 0.2 };
                let targets = SecondOrderTargets {
                    gradient,
                    curvature: 0.99,
                };
                Self::Second(SecondOrderPlan::new(&facts, clip, mu, failure, targets)?)
            }
            _ => Self::Eigenvalue(LeastEigenvaluePlan::new(&facts, mu, clip, failure, width)?),
        })
    }

    fn spend(&self) -> Spend {
        match self {
            Self::Norm(plan) => plan.spend(),
            Self::Eigenvalue(plan) => plan.spend(),
            Self::Second(plan) => plan.spend(),
        }
    }

    /// What was released, and all that is shown; or what was refused.
    fn release(
        &self,
        means: &mut HostileMeans<'_>,
        point: &[f64],
    ) -> Result<(f64, String), String> {
        match self {
            Self::Norm(plan) => plan
                .release(means, point)
                .map(|found| (found.released, format!("{found:?}"))),
            Self::Eigenvalue(plan) => plan
                .release(means, point)
                .map(|found| (found.released, format!("{found:?}"))),
            Self::Second(plan) => plan
                .release(means, point)
                .map(|found| (found.gradient.high, format!("{found:?}"))),
        }
        .map_err(|error| error.to_string())
    }
}

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for name in Certificate::NAMES {
            // So much that six records are enough for an interval, or for an episode.
            let mu = if name.contains("episode") { 1e3 } else { 20.0 };
            let plan = Certificate::new(name, RECORDS as u64, adjacency, mu)?;
            registry.add(replay(name, plan, (adjacency, RECORDS)));
        }
    }
    for adjacency in [Adjacency::AddRemove, Adjacency::ReplaceOne] {
        // The parts of the second-order one are scored by themselves: of the whole only ends that are cut to the range are shown.
        for name in &Certificate::NAMES[..2] {
            registry.add(canary(name, adjacency, 1)?.at_least(0.5));
        }
    }
    registry.add(canary(Certificate::NAMES[0], Adjacency::AddRemove, 2)?.control());
    Ok(())
}

/// Released once, refused the second time, and at a point of another problem.
fn replay(name: &str, plan: Certificate, of: (Adjacency, usize)) -> CuratorReplay<Vec<Hostile>> {
    let name = format!("certificate-{name}/replay");
    on_hostile(&name, GROUP, of, move |mut means| {
        means.books().curator_mut().reserve(&plan.spend())?;
        let found = plan.release(&mut means, &[0.1, -0.2, 0.3]);
        let outcome = format!(
            "{found:?} {:?} {:?} {:?}",
            plan.release(&mut means, &[0.1, -0.2, 0.3]),
            plan.release(&mut means, &[0.1]),
            means.counts(),
        );
        Ok(Ran::of(means.curator(), outcome))
    })
}

/// One certificate at epsilon 1, or as many as `times` in its name: then the claim must fall.
fn canary(name: &'static str, adjacency: Adjacency, times: u64) -> Result<Canary, CheckError> {
    let mu = mu_for(1.0)?;
    let in_place = adjacency.record_count_is_public();
    // Under replace-one the records are really there: few, and a wider interval for them.
    let (public, mu) = if in_place {
        (60, 3.0 * mu)
    } else {
        (CROWD, mu)
    };
    let plan = Certificate::new(name, public, adjacency, mu)?;
    let claim = Claim::of(plan.spend().event(), DELTA, adjacency)?;
    // The gradient and the eigenvalue are far from zero along the first axis, and the canary adds to
    // them; of eigenvalues the least is seen, so it is negative.
    let sign = if name == "least-eigenvalue" {
        -1.0
    } else {
        1.0
    };
    let score = move |world, seed| {
        let mut curator = Curator::simulated(adjacency, seed);
        let record = Hostile::new(Behaviour::Constant, sign);
        let others = if in_place { public as usize - 1 } else { 40 };
        let records = with_canary(world, adjacency, vec![record; others], record);
        let data = private(&records, adjacency, public as usize)?;
        let mut score = 0.0;
        for _ in 0..times {
            curator.reserve(&plan.spend())?;
            let mut means = means(&data, curator)?;
            let point = [0.1, -0.2, 0.3];
            score += sign * plan.release(&mut means, &point)?.0;
            // The caller forgets what was spent before.
            curator = Curator::simulated(adjacency, seed.wrapping_add(1));
        }
        Ok(score)
    };
    let kind = if times == 1 {
        "canary"
    } else {
        "canary-of-two"
    };
    let canary = Canary::new(
        &format!("certificate-{name}/{kind}/{adjacency}"),
        if times == 1 { GROUP } else { "twins" },
        claim,
        Statistic::GaussianDp,
        score,
    );
    Ok(canary.with_runs(40_000, 400_000))
}
