//! Audits of chains, releases over several slices that all pay: products with chained Hessians, and
//! broken twins.

use dpopt_oracle::{AskError, ChainSettings, HessianChain, Oracle as _, Schedule, share_of};
use dpopt_privacy::{Body, Bound, ClipNorm, Curator, Event, LatticeSum, Slice, Spend, Which};

use super::common::{DIM, RELATIONS, noise};
use super::hostile::{HostileMeans, neighbours, on_hostile};
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
