//! Replays of private proximal point on Poisson samples. (On all records it is among all solvers.)

use dpopt_nonconvex::Plan as _;
use dpopt_privacy::{Curator, SamplingRate};

use super::hostile::{Hostile, hostile_pairs};
use super::mechanisms::RELATIONS;
use super::plans::{FEW, proximal};
use super::replay::CuratorReplay;
use super::solvers::walk_on_hostile;
use super::{AuditError, Registry};

const DIM: usize = 3;

pub(super) fn register(registry: &mut Registry) -> Result<(), AuditError> {
    for adjacency in RELATIONS {
        let all = proximal(adjacency, DIM, None)?;
        let sampled = proximal(adjacency, DIM, Some(SamplingRate::new(0.3)?))?;
        // The spend of a plan covers its own access and no other.
        for (name, access) in [
            ("replay-samples", None),
            ("refused-full-for-samples", Some(all.access())),
        ] {
            let plan = sampled.clone();
            let target = CuratorReplay::new(
                &format!("proximal-point/{name}/{adjacency}"),
                "proximal-point",
                adjacency,
                move |_| hostile_pairs(adjacency, FEW as usize),
                move |curator: Curator, records: &Vec<Hostile>| {
                    walk_on_hostile(&plan, records, (adjacency, FEW), access, curator)
                },
            );
            registry.add(match access {
                None => target,
                Some(_) => target.refused(),
            });
        }
    }
    Ok(())
}
