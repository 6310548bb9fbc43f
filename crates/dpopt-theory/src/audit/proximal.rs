//! Replays of private proximal point on Poisson samples. (On all records it is among all solvers.)

use dpopt_nonconvex::Plan as _;
use dpopt_privacy::{Curator, SamplingRate};

use super::common::{DIM, RELATIONS};
use super::hostile::{Hostile, hostile_pairs};
use super::plans::{FEW, proximal};
use super::registry::Registry;
use super::replay::CuratorReplay;
use super::solvers::walk_on_hostile;
use crate::checks::CheckError;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
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
            registry.add(target.refused_unless(access.is_none()));
        }
    }
    Ok(())
}
