//! Audits of a search among held-out candidates and the certificate of what it finds: replays on hostile records.

use dpopt_certify::{HoldOutPlan, SecondOrderPlan, SecondOrderTargets};
use dpopt_nonconvex::PublicFacts;
use dpopt_oracle::Oracle as _;
use dpopt_privacy::{ClipNorm, Epsilon, Mu};

use super::common::{DIM, RELATIONS};
use super::hostile::on_hostile;
use super::plans::facts;
use super::{CheckError, Ran, Registry};

const GROUP: &str = "hold-out";
const RECORDS: usize = 6;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        let facts = PublicFacts {
            records: RECORDS as u64,
            ..facts(adjacency, DIM)
        };
        let targets = SecondOrderTargets {
            gradient: 0.99,
            curvature: 0.99,
        };
        // So large that six records are enough for a threshold above zero.
        let (epsilon, mu) = (Epsilon::new(200.0)?, Mu::new(200.0)?);
        let clip = ClipNorm::new(facts.smoothness)?;
        let certificate = SecondOrderPlan::with_hessian(&facts, clip, mu, 0.5, targets)?;
        let plan = HoldOutPlan::of(&facts, epsilon, 0.5, certificate, 3)?;
        let name = format!("{GROUP}/search");
        registry.add(on_hostile(
            &name,
            GROUP,
            (adjacency, RECORDS),
            move |mut means| {
                means.books().reserve(&plan.spend())?;
                let points: [&[f64]; 3] = [&[0.3, -0.2, 0.1], &[5.0, 0.0, 0.0], &[0.0; DIM]];
                let found = plan.release(&mut means, &points);
                let spent = means.curator().spent();
                Ok(Ran {
                    spent,
                    refused: found.is_err(),
                    outcome: format!("{found:?} {:?}", means.books().counts()),
                })
            },
        ));
    }
    Ok(())
}
