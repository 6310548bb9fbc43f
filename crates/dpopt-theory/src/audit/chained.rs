//! Audits of chains, releases over several slices that all pay: of products with chained Hessians, and of broken twins.

use dpopt_oracle::{AskError, ChainSettings, HessianChain, Oracle as _, Schedule, share_of};
use dpopt_privacy::{
    Body, Bound, ChangedRecord, ClipNorm, Curator, Event, LatticeSum, Slice, Spend, Which,
};

use super::common::{DIM, RELATIONS, noise};
use super::hostile::{HostileMeans, neighbours, on_hostile};
use super::twins::{LEFT, Neighbours, Twin, Z, add, clipped_sum, one, ran};
use super::{CheckError, CuratorReplay, Ran, Registry};

const GROUP: &str = "chains";
/// Three links, of three, one and two records.
const LINKS: [u64; 3] = [3, 1, 2];
const RECORDS: u64 = 6;

pub(super) fn register(registry: &mut Registry) -> Result<(), CheckError> {
    for adjacency in RELATIONS {
        let accepted = adjacency.record_count_is_public();
        let products = on_hostile(
            &format!("{GROUP}/products"),
            GROUP,
            (adjacency, 12),
            |mut means| {
                let mut text = String::new();
                let ended = products(&mut means, &mut text);
                Ok(Ran {
                    spent: means.curator().spent(),
                    refused: ended.is_err(),
                    outcome: format!("{text} {ended:?} {:?}", means.counts()),
                })
            },
        );
        registry.add(products.refused_unless(accepted));
        if !accepted {
            continue;
        }
        let replay = |name: &str, group: &str, mistake| {
            CuratorReplay::new(
                &format!("{name}/{adjacency}"),
                group,
                adjacency,
                move |_| {
                    let bases = [vec![0.2; RECORDS as usize], vec![-1.0; RECORDS as usize]];
                    let contents = [("opposite", 1.0, -1.0), ("too long", 1e9, -0.5)];
                    neighbours(adjacency, &bases, &contents, &0.0)
                },
                move |curator, records: &Vec<f64>| growing(mistake, curator, records),
            )
        };
        registry.add(replay("chains/growing", GROUP, Mistake::None));
        for (name, mistake) in [
            (
                "chain-charges-its-newest-slice/curator",
                Mistake::NewestOnly,
            ),
            ("share-of-a-chain-as-a-root/curator", Mistake::ShareAsRoot),
            ("scalar-on-read-records/curator", Mistake::ScalarUncharged),
        ] {
            registry.add(replay(name, "twins", mistake).control());
        }
    }
    for twin in &TWINS {
        add(registry, twin)?;
    }
    Ok(())
}

/// Products with a chain that grows from one link to three, along directions that are short, long, zero and no number; with the links of a
/// chain that has begun anew; and until the first slice has paid all that is reserved.
fn products(means: &mut HostileMeans<'_>, text: &mut String) -> Result<(), CheckError> {
    let z = noise(2.0)?;
    means
        .books()
        .reserve(&Schedule::new(12).slice(z, 6).spend())?;
    let mut chain = HessianChain::new(ChainSettings {
        smoothness: 1.0,
        lipschitz: 1.0,
        anchor: 3,
        per_length: 10.0,
        share: share_of(1.0, 3.0)?,
        noise_multiplier: z,
    })?;
    let mut point = vec![0.1; DIM];
    let along = [0.3, -0.4, 0.5];
    for step in 0..3 {
        match step {
            0 => chain.anchor(means, &point)?,
            _ => chain.extend(means, &point)?,
        }
        let links = chain.links().to_vec();
        for scale in if step == 0 { [1.0, 0.0] } else { [1.0, 9.0] } {
            let direction = along.map(|x| scale * x);
            let product = chain.product(means, &links, &direction)?;
            *text += &format!("{product:?};");
            for (w, g) in point.iter_mut().zip(&product.mean) {
                // So far that a change reads one record or two.
                *w += 0.05 * g.signum();
            }
        }
    }
    let links = chain.links().to_vec();
    let refused = chain.product(means, &links, &along);
    if !matches!(refused, Err(AskError::Refused(_))) {
        return Err("a slice paid more than its share".into());
    }
    // Changes have paid less, and go on without the anchor.
    let kept = chain.product(means, &links[1..], &[f64::NAN; DIM])?;
    *text += &format!("{refused:?} {kept:?};");
    chain.anchor(means, &point)?;
    let short = chain.product(means, chain.links(), &along[..2]);
    let both = [&links[1..], chain.links()].concat();
    let kept = chain.product(means, &both, &along)?;
    *text += &format!("{short:?} {kept:?};");
    Ok(())
}

/// What is wrong with a chain of three slices, one product after each.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// A product is charged to the slice that was taken last.
    NewestOnly,
    /// The noise is scaled to the root of the mean of the squared shares, and what is longer is added in pieces.
    ShareAsRoot,
    /// The curvature along what was found is read from the first slice, and released by another curator.
    ScalarUncharged,
}

fn growing(mistake: Mistake, mut curator: Curator, records: &[f64]) -> Result<Ran, CheckError> {
    let z = noise(2.0)?;
    let shares = LINKS.map(|len| 1.0 / len as f64);
    let root = (shares.iter().map(|x| x * x).sum::<f64>() / 3.0).sqrt();
    let (radius, pieces, times) = match mistake {
        Mistake::ShareAsRoot => (root, 2, 3),
        Mistake::NewestOnly => (1.0, 1, 1),
        _ => (1.0, 1, 3),
    };
    let share = Event::gaussian(z).repeated(times);
    curator.reserve(&Spend::Fixed(Event::ParallelComposed {
        events: vec![share],
    }))?;
    curator.open_pool(RECORDS, 0)?;
    let bound = Bound::new(ClipNorm::new(radius)?, 1)?;
    // Clipped to 1, weighted by the length of the slice.
    let add_slice = |sum: &mut LatticeSum, slice: &Slice| {
        let positions = slice.positions();
        for x in &records[positions.start as usize..positions.end as usize] {
            let part = x.clamp(-1.0, 1.0) / slice.len() as f64;
            for _ in 0..pieces {
                sum.add_scaled(1.0 / f64::from(pieces), &[part]);
            }
        }
    };
    let mut chain: Vec<Slice> = Vec::new();
    let mut text = String::new();
    for len in LINKS {
        chain.push(curator.take_slice(len)?);
        let body = Body::of(RECORDS);
        let released = if mistake == Mistake::NewestOnly {
            let newest = &chain[chain.len() - 1];
            let ticket = curator.grant(Which::Slice(newest), body, bound, z)?;
            let mut sum = LatticeSum::new(bound);
            chain.iter().for_each(|slice| add_slice(&mut sum, slice));
            curator.redeem(ticket, sum)?
        } else {
            let links: Vec<&Slice> = chain.iter().collect();
            let ticket = curator.grant_chain(&links, body, bound, z)?;
            let parts = chain.iter().map(|slice| {
                let mut part = LatticeSum::new(bound);
                add_slice(&mut part, slice);
                part
            });
            let parts = parts.collect();
            curator.redeem_chain(ticket, parts)?
        };
        text += &format!("{released:?};");
    }
    if mistake == Mistake::ScalarUncharged {
        let mut unheard = Curator::simulated(curator.adjacency(), 7);
        unheard.reserve(&Spend::Fixed(Event::gaussian(z)))?;
        let ticket = unheard.grant(Which::All, Body::of(RECORDS), bound, z)?;
        let mut sum = LatticeSum::new(bound);
        chain.iter().for_each(|slice| add_slice(&mut sum, slice));
        text += &format!("{:?};", unheard.redeem(ticket, sum)?);
    }
    Ok(Ran::of(&curator, text))
}

/// Of one record that is zero in the other world.
const ERASED: Neighbours = Neighbours(&[1.0, 0.3], &[0.0, 0.3], ChangedRecord::InPlace(0));

const TWINS: [Twin; 6] = [
    Twin {
        // Two episodes, the second on a chain that has grown by a slice, which alone pays for it.
        name: "chain-charges-its-newest-slice",
        data: ERASED,
        run: |tape, data, _| {
            let oldest = data[0].clamp(-1.0, 1.0);
            let first = tape.gaussian(&[oldest], Z)[0];
            let second = tape.gaussian(&[oldest + data[1]], Z)[0];
            ran(1.0 / Z, first + second)
        },
    },
    Twin {
        // An anchor over four records and a change of one: the change's part is the longest, and above the root of the mean of both squares.
        name: "share-of-a-chain-as-a-root",
        data: ERASED,
        run: |tape, data, _| {
            let (anchor, change) = (0.25_f64, 1.0_f64);
            let root = (0.5 * (anchor * anchor + change * change)).sqrt();
            let sum = anchor * data[1] + change * data[0].clamp(-1.0, 1.0);
            one(tape, sum, Z * root)
        },
    },
    Twin {
        // A direction pays for its products; the curvature along it, one number of the same records, goes without.
        name: "scalar-on-read-records",
        data: LEFT,
        run: |tape, data, _| {
            let product = tape.gaussian(&[clipped_sum(data)], Z)[0];
            let curvature = tape.gaussian(&[clipped_sum(data)], Z)[0];
            ran(1.0 / Z, product + curvature)
        },
    },
    Twin {
        // Each record's Hessian x diag(1/2, 3) is divided by what one step of a power iteration from e_1 says of its norm: 1/2, so not at all. The
        // product is along e_2.
        name: "hessian-clipped-by-a-power-iteration",
        data: LEFT,
        run: |tape, data, _| {
            let product = |x: &f64| {
                let found = (0.5 * x).abs();
                3.0 * x / found.max(1.0)
            };
            one(tape, data.iter().map(product).sum(), Z)
        },
    },
    Twin {
        // Adaptive-batch P3: one tree of seven leaves, noise for three nodes. The period begins anew at leaf 5, which takes back what leaf 1 put in:
        // both are in (1), (1, 2), (1..4), (5), (5, 6).
        name: "literal-tree-over-restarts",
        data: ERASED,
        run: |tape, data, _| {
            let x = data[0].clamp(-1.0, 1.0);
            let nodes = tape.gaussian(&[x, x, x, -x, -x], 3f64.sqrt() * Z);
            let signs = [1.0, 1.0, 1.0, -1.0, -1.0];
            ran(1.0 / Z, dpopt_linalg::dot(&nodes, &signs))
        },
    },
    Twin {
        // Adaptive-batch P8: the batch of a change follows the step to come, a quarter of the one that was made; the noise is that of the share
        // that would be kept to if it followed the latter, four records.
        name: "batch-by-the-current-step",
        data: ERASED,
        run: |tape, data, _| {
            let (made, coming, per_length) = (1.0, 0.25, 4.0);
            let batch: f64 = per_length * coming;
            let mean = made * data[0].clamp(-1.0, 1.0) / batch;
            one(tape, mean, Z * made / (per_length * made))
        },
    },
];
