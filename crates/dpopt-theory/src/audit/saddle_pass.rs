//! Audits of the certificates of saddle points: replays on hostile records.

use dpopt_linalg::Domain;
use dpopt_minimax::{
    CertificateNoise, SaddleCertificate, saddle_certificate, saddle_certificate_unread,
};
use dpopt_oracle::{Blocks, Joint, Oracle as _, PrivateMean};
use dpopt_privacy::{Adjacency, Event, NoiseMultiplier, Spend};

use super::common::RELATIONS;
use super::hostile::{hostile_pairs, private};
use super::hostile_saddle::{HostileSaddle, facts, saddle_pairs};
use super::{CheckError, CuratorReplay, Hostile, Ran, Registry};

const RECORDS: usize = 12;
/// d1 and d2.
const DIMS: (usize, usize) = (3, 2);
const Z: f64 = 4.0;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        for on in [On::All, On::Slice, On::SliceReadBefore] {
            registry.add(certificate(adjacency, on));
        }
    }
    Ok(())
}

fn pairs(adjacency: Adjacency) -> Vec<super::Pair<Vec<Hostile>>> {
    let mut all = hostile_pairs(adjacency, RECORDS);
    all.extend(saddle_pairs(adjacency, RECORDS, DIMS));
    all
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
    let mut facts = facts(adjacency, RECORDS as u64, DIMS);
    // So large that y is inside, and the Hessian is released too.
    facts.domain = Domain::ball(DIMS.1, 1e6);
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
