//! Audits of saddle solvers that read each record once, and of certificates: replays on hostile records, by hand so that a handful of them is
//! read to the last.

use std::sync::Arc;

use dpopt_minimax::{
    CertificateNoise, PassEstimate, Plan, RgdaPassPlan, RgdaPassSchedule, SaddleCertificate,
    saddle_certificate, saddle_certificate_unread,
};
use dpopt_oracle::{Blocks, Joint, Oracle as _, PrivateMean};
use dpopt_privacy::{Adjacency, Event, NoiseMultiplier, PrefixKind, Spend};

use super::common::{RELATIONS, budget};
use super::hostile::{hostile_pairs, private};
use super::hostile_saddle::{HostileSaddle, facts, means, saddle_pairs};
use super::solvers::walk;
use super::{CheckError, CuratorReplay, Hostile, Ran, Registry};

const RECORDS: usize = 12;
/// d1 and d2.
const DIMS: (usize, usize) = (3, 2);
const Z: f64 = 4.0;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for (what, estimate) in [
            ("", PassEstimate::Chain),
            ("/tree", PassEstimate::Prefix(PrefixKind::Tree)),
            ("/honaker", PassEstimate::Prefix(PrefixKind::Honaker)),
            ("/toeplitz", PassEstimate::Prefix(PrefixKind::Toeplitz)),
            (
                "/banded",
                PassEstimate::Prefix(PrefixKind::Banded { band: 2 }),
            ),
            (
                "/independent",
                PassEstimate::Prefix(PrefixKind::Independent),
            ),
            ("", PassEstimate::Rounds),
        ] {
            // Batches of one record, to the last; and anchors of two, changes of one to three.
            for (size, anchor, rate) in [("ones", 1, 1e-3), ("more", 2, 20.0)] {
                let plan = by_hand(adjacency, estimate, (anchor, rate))?;
                let name = format!("{}{what}/{size}/{adjacency}", estimate.solver());
                registry.add(replay(&name, Arc::new(plan), adjacency));
            }
        }
        for on in [On::All, On::Slice, On::SliceReadBefore] {
            registry.add(certificate(adjacency, on));
        }
    }
    Ok(())
}

/// Two periods of two steps of x each, and more than there are records for.
fn by_hand(
    adjacency: Adjacency,
    estimate: PassEstimate,
    (anchor_batch, rate): (u64, f64),
) -> Result<RgdaPassPlan, CheckError> {
    let schedule = RgdaPassSchedule {
        estimate,
        scale: 1.0,
        inner: 1,
        before: 1,
        period: 2,
        periods: 5,
        length: 0.05,
        anchor_batch,
        rate,
        noise_multiplier: NoiseMultiplier::new(Z)?,
    };
    let facts = facts(adjacency, RECORDS as u64, DIMS);
    Ok(RgdaPassPlan::by_hand(&facts, &budget(1.0)?, schedule)?)
}

fn pairs(adjacency: Adjacency) -> Vec<super::Pair<Vec<Hostile>>> {
    let mut all = hostile_pairs(adjacency, RECORDS);
    all.extend(saddle_pairs(adjacency, RECORDS, DIMS));
    all
}

fn replay(
    name: &str,
    plan: Arc<RgdaPassPlan>,
    adjacency: Adjacency,
) -> CuratorReplay<Vec<Hostile>> {
    let group = plan.name();
    CuratorReplay::new(
        name,
        group,
        adjacency,
        move |_| pairs(adjacency),
        move |curator, records: &Vec<Hostile>| {
            let data = private(records, adjacency, RECORDS)?;
            let means = means(&data, &*plan, curator)?;
            Ok(walk(&*plan, means))
        },
    )
    .refused_unless(adjacency.record_count_is_public())
}

/// What a certificate is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    All,
    Slice,
    /// A slice that has paid for a certificate already: refused.
    SliceReadBefore,
}

fn certificate(adjacency: Adjacency, on: On) -> CuratorReplay<Vec<Hostile>> {
    let name = match on {
        On::All => "all",
        On::Slice => "slice",
        On::SliceReadBefore => "slice-read-before",
    };
    let allowed = match on {
        On::All => true,
        On::Slice => adjacency.record_count_is_public(),
        On::SliceReadBefore => false,
    };
    CuratorReplay::new(
        &format!("saddle-certificate/{name}/{adjacency}"),
        "saddle-certificate",
        adjacency,
        move |_| pairs(adjacency),
        move |curator, records: &Vec<Hostile>| {
            let data = private(records, adjacency, RECORDS)?;
            let (x, y) = DIMS;
            let blocks = Blocks { x, y, scale: 1.0 };
            let loss = Joint::new(HostileSaddle { x, y }, blocks.scale)?;
            let mut means = PrivateMean::new(&data, loss, curator)?.with_hessians();
            let found = release(&mut means, adjacency, on)?;
            let refused = found.is_err();
            Ok(Ran {
                spent: means.books().curator().spent(),
                refused,
                outcome: format!("{found:?}"),
            })
        },
    )
    .refused_unless(allowed)
}

type Certified = Result<Option<SaddleCertificate>, String>;

fn release(
    means: &mut PrivateMean<'_, Joint<HostileSaddle>>,
    adjacency: Adjacency,
    on: On,
) -> Result<Certified, CheckError> {
    let z = NoiseMultiplier::new(Z)?;
    let noise = CertificateNoise {
        x: z,
        y: Some(z),
        hessian: Some(z),
    };
    let three = Event::gaussian(z).repeated(3);
    let spend = match on {
        On::All => three,
        _ => Event::ParallelComposed {
            events: vec![three],
        },
    };
    if let Err(refused) = means.books().reserve(&Spend::Fixed(spend)) {
        return Ok(Err(refused.to_string()));
    }
    let facts = facts(adjacency, RECORDS as u64, DIMS);
    let point = [0.3, -0.2, 0.1, 0.02, 0.01];
    if on == On::All {
        let found = saddle_certificate(&facts, 1.0, &point, (&noise, 0.05), means);
        return Ok(found.map_err(|error| error.to_string()));
    }
    let slice = match means.books().take_slice(RECORDS as u64 / 2) {
        Ok(slice) => slice,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let mut last = Ok(None);
    for _ in 0..if on == On::Slice { 1 } else { 4 } {
        let found =
            saddle_certificate_unread(&facts, 1.0, &point, (&noise, 0.05), (&slice, &mut *means));
        last = match found {
            // Not paid for.
            Ok(None) => Err("no certificate".to_owned()),
            other => other.map_err(|error| error.to_string()),
        };
        if last.is_err() {
            break;
        }
    }
    Ok(last)
}
