//! Audits of certificates of saddle problems: replays on hostile records and on rows with cells, and a test between two worlds.

use std::num::NonZeroUsize;

use dpopt_minimax::{CertificateNoise, ScoredCertificatePlan, saddle_certificate};
use dpopt_oracle::{
    AucSaddle, EqualOpportunity, GroupDro, Joint, Oracle as _, PrivateData, PrivateMean,
    ScoreSaddle,
};
use dpopt_privacy::{Adjacency, Curator, Event, Spend};

use super::common::{DELTA, DIM, RELATIONS, budget, noise};
use super::groups::{pairs, shares};
use super::hostile::{private, with_canary};
use super::hostile_saddle::{HostileSaddle, facts};
use super::labelled::{Labelled, ROWS, design, examples};
use super::{
    Behaviour, Canary, CheckError, Claim, CuratorReplay, Hostile, Ran, Registry, Statistic, World,
    hostile_pairs,
};

const GROUP: &str = "saddle-certificate";
const RECORDS: usize = 8;
/// d1 and d2 of replays.
const DIMS: (usize, usize) = (3, 2);
const SCALE: f64 = 0.5;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        registry.add(hostile(adjacency)?);
    }
    let shares = shares()?;
    scored(registry, "group-dro", GroupDro::new(&shares, true, 1.0)?)?;
    scored(
        registry,
        "equal-opportunity",
        EqualOpportunity::new(&shares, 1.0)?,
    )?;
    scored(registry, "auc", AucSaddle::new(&shares)?)?;
    canary(registry)
}

/// Two norms and a Hessian of records that are long in x, in y or in both, or no numbers: y is in the middle of a large domain, so that the
/// Hessian is released too.
fn hostile(adjacency: Adjacency) -> Result<CuratorReplay<Vec<Hostile>>, CheckError> {
    let noise = CertificateNoise {
        x: noise(2.0)?,
        y: Some(noise(3.0)?),
        hessian: Some(noise(1.5)?),
    };
    let mut facts = facts(adjacency, RECORDS as u64, DIMS);
    facts.domain = dpopt_linalg::Domain::ball(DIMS.1, 1e6);
    Ok(CuratorReplay::new(
        &format!("{GROUP}/replay/{adjacency}"),
        GROUP,
        adjacency,
        move |_| hostile_pairs(adjacency, RECORDS),
        move |curator, records: &Vec<Hostile>| {
            let data = private(records, adjacency, RECORDS)?;
            let loss = HostileSaddle {
                x: DIMS.0,
                y: DIMS.1,
            };
            let joint = Joint::new(loss, SCALE)?;
            let mut means = PrivateMean::new(&data, joint, curator)?.with_hessians();
            let all = [Some(noise.x), noise.y, noise.hessian];
            let events = all.into_iter().flatten().map(Event::gaussian).collect();
            let spend = Spend::Fixed(Event::Composed { events });
            means.books().reserve(&spend)?;
            let point = vec![0.1; DIMS.0 + DIMS.1];
            let found = saddle_certificate(&facts, SCALE, &point, (&noise, 0.05), &mut means);
            Ok(match found {
                Ok(found) => Ran::of(&means.into_curator(), format!("{found:?}")),
                Err(why) => Ran::refusal(why),
            })
        },
    ))
}

/// The planned certificate of an objective, on rows with cells.
fn scored<S: ScoreSaddle + Clone + Send + 'static>(
    registry: &mut Registry,
    name: &str,
    objective: S,
) -> Result<(), CheckError> {
    let adjacency = Adjacency::ReplaceOne;
    let all = DIM + objective.extra() + objective.domain().dim();
    let coordinates = (!objective.convex_in_x()).then_some(all);
    let plan = ScoredCertificatePlan::new(&budget(8.0)?, adjacency, (0.5, 0.05), coordinates)?;
    let x = vec![0.3; DIM + objective.extra()];
    let mut y = objective.domain().middle();
    y.iter_mut().for_each(|y| *y += 0.01);
    objective.domain().project(&mut y);
    registry.add(CuratorReplay::new(
        &format!("{GROUP}/replay-{name}/{adjacency}"),
        GROUP,
        adjacency,
        move |_| pairs(adjacency),
        move |curator: Curator, records: &Vec<Labelled>| {
            let data = examples(design(records)?, adjacency, ROWS)?;
            let at = (&x[..], &y[..], 1.0);
            let one = NonZeroUsize::MIN;
            Ok(match plan.release(&objective, &data, at, curator, one) {
                Ok((found, curator)) => Ran::of(&curator, format!("{found:?}")),
                Err(failed) => Ran::refusal(failed.why),
            })
        },
    ));
    Ok(())
}

/// One record, present or not, at epsilon 1: by the released norm of grad_x, to which it adds its whole clip.
fn canary(registry: &mut Registry) -> Result<(), CheckError> {
    let adjacency = Adjacency::AddRemove;
    let mu = budget(1.0)?.mu()?.get();
    // All but a hundredth of mu^2 for the norm that is looked at.
    let noise = CertificateNoise {
        x: noise(1.0 / (mu * 0.99f64.sqrt()))?,
        y: Some(noise(1.0 / (mu * 0.1))?),
        hessian: None,
    };
    let claim = Claim::gaussian(noise.cost().sqrt(), DELTA)?;
    let crowd = 100;
    let facts = facts(adjacency, crowd, (1, 1));
    let score = move |world: World, seed: u64| {
        let canary = Hostile::new(Behaviour::Constant, 10.0);
        let records = with_canary(world, adjacency, vec![Hostile::nothing()], canary);
        let data = PrivateData::made_up_of(records, adjacency, Some(crowd))?;
        let joint = Joint::new(HostileSaddle { x: 1, y: 1 }, 1.0)?;
        let curator = Curator::simulated(adjacency, seed);
        let mut means = PrivateMean::new(&data, joint, curator)?;
        let events = [Some(noise.x), noise.y].into_iter().flatten();
        let events = events.map(Event::gaussian).collect();
        means
            .books()
            .reserve(&Spend::Fixed(Event::Composed { events }))?;
        let found = saddle_certificate(&facts, 1.0, &[0.0; 2], (&noise, 0.05), &mut means)?;
        let found = found.ok_or("no certificate")?;
        Ok(found.norm.norm)
    };
    let name = format!("{GROUP}/canary/{adjacency}");
    let target = Canary::new(&name, GROUP, claim, Statistic::GaussianDp, score);
    registry.add(target.with_runs(20_000, 200_000).at_least(0.3));
    Ok(())
}
