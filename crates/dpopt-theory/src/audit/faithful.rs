//! Audits of the faithful algorithm: replays of episodes on chains, with one record changed in each place of every batch, to the last record.

use dpopt_nonconvex::{
    CentredEnd, FaithfulOutcome, FaithfulPlan, FaithfulSchedule, FaithfulSettings, NoObserver,
    PublicFacts, Run, RunError, Stop,
};
use dpopt_oracle::Oracle;
use dpopt_privacy::PrefixKind;

use super::common::{DIM, RELATIONS, budget};
use super::hostile::on_hostile;
use super::plans::{ALWAYS, HESSIANS, MANY, facts, with_positions};
use super::{CheckError, Ran, Registry, Watched};

const GROUP: &str = "adaptive-batch-faithful";

/// What a run has to have come to: an audit of a way that is not gone shows nothing.
type Came = fn(&FaithfulOutcome) -> bool;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let several = |run: &FaithfulOutcome| {
        // The second on a chain of an anchor and two changes, in which a period begins.
        let links: Vec<u64> = run.episodes.iter().map(|episode| episode.links).collect();
        links.starts_with(&[1, 3]) && run.outcome.stop == Stop::RecordsExhausted
    };
    let left = |run: &FaithfulOutcome| run.episodes.iter().any(|e| e.end == CentredEnd::Left);
    let exhausted = |run: &FaithfulOutcome| {
        run.episodes.is_empty() && run.outcome.stop == Stop::RecordsExhausted
    };
    let drifted = |run: &FaithfulOutcome| run.episodes.len() == 1 && run.episodes[0].links == 1;
    let capped = |run: &FaithfulOutcome| run.outcome.stop == Stop::Completed;
    for adjacency in RELATIONS {
        let mut add = |what: &str, came: Came, change: fn(&mut FaithfulSchedule)| {
            let facts = PublicFacts {
                records: MANY,
                ..facts(adjacency, DIM)
            };
            let plan = by_hand(&facts, change)?;
            let name = format!("{GROUP}/{what}");
            let target = on_hostile(&name, GROUP, (adjacency, MANY as usize), move |means| {
                let mut watched = Watched::new(means);
                let traced = plan.trace(&mut watched, Run::new(&mut NoObserver));
                if traced.as_ref().is_ok_and(|traced| !came(traced)) {
                    return Err(format!("the run does not go where it should: {traced:?}").into());
                }
                Ok(ran(&mut watched, &traced))
            });
            registry.add(target.refused_unless(adjacency.record_count_is_public()));
            Ok::<(), CheckError>(())
        };
        add("episodes-on-one-chain", several, |_| {})?;
        // Each episode is left at its first step, and brought back to the sphere.
        add("leaving", left, |schedule| {
            schedule.radius = 1e-6;
            schedule.episode = 1;
        })?;
        // Slices of Hessians are taken, and nobody reads them.
        add("descending", exhausted, |schedule| {
            schedule.candidate = 0.0;
            schedule.period = 3;
        })?;
        // A period and a chain begin in the only episode, which keeps its own.
        add("restart-in-an-episode", drifted, |schedule| {
            schedule.drift = 0.0;
            schedule.episode = 20;
        })?;
        // The noise that the library has for all else.
        add("toeplitz", several, |schedule| {
            schedule.noise = PrefixKind::Toeplitz;
        })?;
        add("all-steps", capped, |schedule| schedule.steps = 2)?;
    }
    Ok(())
}

fn ran<O: Oracle>(watched: &mut Watched<O>, traced: &Result<FaithfulOutcome, RunError>) -> Ran {
    let books = watched.books();
    let (spent, counts) = (books.curator().spent(), books.counts());
    Ran {
        spent,
        refused: traced.is_err(),
        outcome: format!("{traced:?} {counts:?} {:?}", watched.releases()),
    }
}

/// On 14 records: anchors of two records, changes of one, every point a candidate; two episodes of two steps for each chain.
fn by_hand(
    facts: &PublicFacts,
    change: fn(&mut FaithfulSchedule),
) -> Result<FaithfulPlan, CheckError> {
    let (budget, settings) = (budget(1.0)?, FaithfulSettings::new(100).with_target(0.9));
    let many = PublicFacts {
        records: 1 << 40,
        adjacency: with_positions(facts.adjacency),
        ..*facts
    };
    let planned = FaithfulPlan::new(&many, &HESSIANS, &budget, settings)?;
    let mut schedule = FaithfulSchedule {
        step_size: 1e-3,
        anchor_batch: 2,
        variation_rate: 2.0,
        period: 20,
        drift: ALWAYS,
        candidate: ALWAYS,
        hessian_batch: 2,
        hessian_rate: 2.0,
        episode: 2,
        radius: 1.0,
        episodes_per_chain: 2,
        steps: 100,
        ..*planned.schedule()
    };
    change(&mut schedule);
    let mu = budget.mu()?.get();
    schedule.product_noise_multiplier = (schedule.products() as f64).sqrt() / mu;
    Ok(FaithfulPlan::by_hand(
        facts, &HESSIANS, &budget, settings, schedule,
    )?)
}
