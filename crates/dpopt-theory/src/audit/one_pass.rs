//! Audits of one pass to a second-order certificate: each way through the walk, to its last record, with one record changed in each place of
//! every batch.
//!
//! What a walk may do wrong (read a slice again, add up a period in pieces, release an exact number) is among the twins.

use std::sync::Arc;

use dpopt_nonconvex::{AdaptiveBatchSchedule, Budget, NoObserver, Plan, PublicFacts};
use dpopt_oracle::{Batch, Oracle as _, PrivateData, PrivateMean, Question};
use dpopt_privacy::{Adjacency, Curator, PrefixKind, Which};

use super::common::{DELTA, DIM, RELATIONS, budget};
use super::hostile::on_hostile;
use super::plans::{self, ALWAYS, MANY, facts, one_pass};
use super::solvers::{walk, walks};
use super::{
    Behaviour, Canary, CheckError, Claim, Hostile, HostileLoss, Registry, Statistic,
    TranscriptMeter, Watched, WatchedKind, World,
};
use crate::around::Around;

const GROUP: &str = "adaptive-batch";
pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        let accepted = adjacency.record_count_is_public();
        let budget = budget(1.0)?;
        let facts = PublicFacts {
            records: MANY,
            ..facts(adjacency, DIM)
        };
        let mut add = |what: &str, change: fn(&mut AdaptiveBatchSchedule)| {
            let plan = one_pass(&facts, &budget, change)?;
            let plan: Arc<dyn Plan> = Arc::new(plan);
            let target = walks((GROUP, what), &plan, (adjacency, MANY), None);
            registry.add(target.refused_unless(accepted));
            Ok::<(), CheckError>(())
        };
        // A period of three estimates, then one that ends by its drift, and so on until the records are read.
        add("descending", |schedule| schedule.candidate = 0.0)?;
        // Periods that end by their drift alone; batches of one record and more.
        add("drifting", |schedule| {
            schedule.candidate = 0.0;
            schedule.period = 20;
            schedule.drift = 0.7;
            schedule.variation = Batch::PerLength(5.0);
        })?;
        // Each step is so long that an anchor is no larger than its variation would be.
        add("anchors-are-cheaper", |schedule| {
            schedule.candidate = 0.0;
            schedule.drift = ALWAYS;
            schedule.period = 20;
            schedule.variation = Batch::PerLength(1e3);
        })?;
        // A Hessian, then the norm of the certificate.
        add("certifying", |schedule| schedule.targets.curvature = ALWAYS)?;
        // The same where no norm is short enough: step, anchor, Hessian and norm, to the last record.
        add("never-short", |schedule| {
            schedule.targets.curvature = ALWAYS;
            schedule.targets.gradient = -ALWAYS;
        })?;
        for kind in [
            PrefixKind::Tree,
            PrefixKind::Honaker,
            PrefixKind::Independent,
        ] {
            let plan = one_pass(&facts, &budget, |schedule| {
                schedule.candidate = 0.0;
                schedule.noise = kind;
            })?;
            let plan: Arc<dyn Plan> = Arc::new(plan);
            let what = format!("descending-{kind:?}").to_lowercase();
            let target = walks((GROUP, &what), &plan, (adjacency, MANY), None);
            registry.add(target.refused_unless(accepted));
        }
        episodes(registry, (adjacency, accepted), &facts)?;
        if accepted {
            registry.add(TranscriptMeter::slice_caps(adjacency));
        }
        again(registry, adjacency, &facts, &budget)?;
    }
    canary(registry)
}

/// Episodes on slices with a cap each, which pays for some of the products and not for all of every episode: runs that certify, runs that leave
/// saddles, and runs that go on untold.
fn episodes(
    registry: &mut Registry,
    (adjacency, accepted): (Adjacency, bool),
    facts: &PublicFacts,
) -> Result<(), CheckError> {
    // A squared mu of some 60.
    let budget = budget(60.0)?;
    for (what, noise) in [("episodes", 0.3), ("episodes-short-of-budget", 0.1)] {
        let episode = plans::episode(noise, 9)?;
        let plan = one_pass(facts, &budget, |schedule| {
            schedule.episode = Some(episode);
            schedule.targets.curvature = ALWAYS;
            schedule.targets.gradient = -ALWAYS;
        })?;
        let plan: Arc<dyn Plan> = Arc::new(plan);
        let target = walks((GROUP, what), &plan, (adjacency, MANY), None);
        registry.add(target.refused_unless(accepted));
    }
    Ok(())
}

/// A certificate on records that were read before: the slice has paid all that a record may cost, and the curator refuses.
fn again(
    registry: &mut Registry,
    adjacency: Adjacency,
    facts: &PublicFacts,
    budget: &Budget,
) -> Result<(), CheckError> {
    let plan = one_pass(facts, budget, |schedule| {
        schedule.targets.curvature = ALWAYS;
    })?;
    let name = format!("{GROUP}/certificate-on-read-records");
    let target = on_hostile(&name, GROUP, (adjacency, MANY as usize), move |means| {
        let mut read = None;
        let oracle = Around::new(means, |means, question| match question {
            Question::Hessian { of, noise, .. } => {
                let slice = means.books().take_slice(2)?;
                let over = Which::Slice(read.insert(slice));
                means.answer(Question::Hessian { of, over, noise })
            }
            Question::Norm {
                of, shift, noise, ..
            } => {
                let over = read.as_ref().map_or(Which::All, Which::Slice);
                means.answer(Question::Norm {
                    of,
                    within: None,
                    shift,
                    over,
                    noise,
                })
            }
            other => means.answer(other),
        });
        Ok(walk(&plan, oracle))
    });
    registry.add(target.refused());
    Ok(())
}

/// A whole run, in which the first record of the batch that gives a step its sign is turned round: told from that release.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    let facts = PublicFacts {
        records: MANY,
        ..facts(adjacency, DIM)
    };
    let budget = budget(1.0)?;
    let plan = one_pass(&facts, &budget, |_| {})?;
    let claim = Claim::gaussian(budget.mu()?.get(), DELTA)?;
    let score = move |world: World, seed: u64| {
        let sign = match world {
            World::In => 1.0,
            World::Out => -1.0,
        };
        // After three of an anchor and two of a Hessian.
        let mut records = vec![Hostile::nothing(); MANY as usize];
        records[5] = Hostile::new(Behaviour::Constant, sign);
        let data = PrivateData::made_up_of(records, adjacency, None)?;
        let curator = Curator::simulated(adjacency, seed);
        let means = PrivateMean::new(&data, HostileLoss { dim: DIM }, curator)?.with_hessians();
        let mut watched = Watched::new(means);
        plan.run(&mut watched, &mut NoObserver)?;
        let mut means = watched.releases().iter();
        let first = means.find(|release| release.kind == WatchedKind::Mean);
        Ok(first.ok_or("no gradient was released")?.released[0])
    };
    let name = format!("{GROUP}/canary/{adjacency}");
    let target = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000));
    Ok(())
}
