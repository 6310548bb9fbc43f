//! Audits of certificates of saddle problems: replays of the planned certificate of each objective.

use std::num::NonZeroUsize;

use dpopt_minimax::ScoredCertificatePlan;
use dpopt_oracle::{AucSaddle, EqualOpportunity, GroupDro, ScoreSaddle};
use dpopt_privacy::{Adjacency, Curator};

use super::common::{DIM, budget};
use super::groups::{pairs, shares};
use super::labelled::{Labelled, ROWS, design, examples};
use super::{CheckError, CuratorReplay, Ran, Registry};

const GROUP: &str = "saddle-certificate";

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    let shares = shares()?;
    scored(registry, "group-dro", GroupDro::new(&shares, true, 1.0)?)?;
    scored(
        registry,
        "equal-opportunity",
        EqualOpportunity::new(&shares, 1.0)?,
    )?;
    scored(registry, "auc", AucSaddle::new(&shares)?)
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
