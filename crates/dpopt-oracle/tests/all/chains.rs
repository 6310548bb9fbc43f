//! Products with chained Hessians, on records whose Hessians are known in closed form.

use dpopt_oracle::query::{ChainProduct, HessianLink};
use dpopt_oracle::{
    AskError, ChainSettings, Constants, Convexity, Differentiable, HessianChain, Loss, Mean,
    Offers, Oracle, PrivateData, PrivateMean, Schedule, TwiceDifferentiable, share_of,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, NoiseMultiplier, PoolError, Refused};

const DIM: usize = 3;

/// x sum_i w_i^3/6: the Hessian of a record is x diag(w).
struct Cubic;

impl Loss for Cubic {
    type Records = Vec<f64>;
    const MAY_PANIC: bool = false;

    fn dim(&self, _: &Vec<f64>) -> usize {
        DIM
    }

    fn constants_on(&self, _: &Vec<f64>) -> Constants {
        Constants::new(1.0, 1.0, 1.0, Convexity::Nonconvex)
    }

    fn value(&self, record: &f64, point: &[f64]) -> f64 {
        record * point.iter().map(|w| w.powi(3)).sum::<f64>() / 6.0
    }
}

impl Differentiable for Cubic {
    fn gradient(&self, record: &f64, point: &[f64], out: &mut [f64]) {
        for (out, w) in out.iter_mut().zip(point) {
            *out += 0.5 * record * w * w;
        }
    }
}

impl TwiceDifferentiable for Cubic {
    fn hessian_vector(&self, record: &f64, point: &[f64], direction: &[f64], out: &mut [f64]) {
        for ((out, w), v) in out.iter_mut().zip(point).zip(direction) {
            *out += record * w * v;
        }
    }
}

/// So little noise that closed forms can be compared.
fn quiet() -> NoiseMultiplier {
    NoiseMultiplier::new(1e-7).unwrap()
}

fn data(records: Vec<f64>) -> PrivateData<Vec<f64>> {
    PrivateData::made_up_of(records, Adjacency::ReplaceOne, None).unwrap()
}

/// With room for so many products on each slice.
fn means(data: &PrivateData<Vec<f64>>, products: u64) -> PrivateMean<'_, Cubic> {
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut means = PrivateMean::new(data, Cubic, curator)
        .unwrap()
        .with_hessians();
    let spend = Schedule::new(100).slice(quiet(), products).spend();
    means.books().reserve(&spend).unwrap();
    means
}

fn chain() -> HessianChain {
    HessianChain::new(ChainSettings {
        smoothness: 10.0,
        lipschitz: 10.0,
        anchor: 40,
        per_length: 20.0,
        share: share_of(10.0, 20.0).unwrap(),
        noise_multiplier: quiet(),
    })
    .unwrap()
}

fn close(product: &Mean, expected: [f64; DIM]) {
    for (found, expected) in product.mean.iter().zip(expected) {
        // Noise of 1e-7, a lattice of 2^-29: five of the one and some of the other.
        assert!((found - expected).abs() < 2e-6, "{product:?} {expected}");
    }
}

/// Over records that are all alike the chain is the Hessian where it ends, wherever it went.
#[test]
fn a_chain_is_the_hessian_where_it_ends() {
    let data = data(vec![0.8; 100]);
    let mut means = means(&data, 5);
    assert!(means.facts().offers.covers(Offers::CHAINS));
    let mut chain = chain();
    let along = [0.5, -0.25, 0.125];
    let expected = |w: [f64; DIM]| [0, 1, 2].map(|i| 0.8 * w[i] * along[i]);
    let (first, second, third) = ([0.1, 0.2, 0.3], [0.4, 0.2, -0.3], [0.4, 0.9, -0.3]);
    chain.anchor(&mut means, &first).unwrap();
    let old = chain.links().to_vec();
    close(
        &chain.product(&mut means, &old, &along).unwrap(),
        expected(first),
    );
    chain.extend(&mut means, &second).unwrap();
    chain.extend(&mut means, &third).unwrap();
    // To where it is: nothing is taken.
    chain.extend(&mut means, &third).unwrap();
    // ceil(20 x .671), ceil(20 x .7).
    let lengths: Vec<u64> = chain
        .links()
        .iter()
        .map(|link| link.slice().len())
        .collect();
    assert_eq!(lengths, [40, 14, 14]);
    let links = chain.links().to_vec();
    close(
        &chain.product(&mut means, &links, &along).unwrap(),
        expected(third),
    );
    // An old chain goes on being asked.
    close(
        &chain.product(&mut means, &old, &along).unwrap(),
        expected(first),
    );
    close(
        &chain.product(&mut means, &links, &[0.0; DIM]).unwrap(),
        [0.0; DIM],
    );
    // 5 products on the anchor, 2 of them on the changes: 2 gradients of each record of an anchor, 4 of one of a change.
    let counts = means.counts();
    assert_eq!(counts.releases, 4);
    assert_eq!(counts.gradients, 4.0 * 80.0 + 2.0 * 4.0 * 28.0);
}

/// A mean over each slice, weighted by its own length: halves of the records differ.
#[test]
fn each_link_is_a_mean_over_its_own_records() {
    let records = [vec![0.2; 20], vec![0.6; 20], vec![-0.5; 30]].concat();
    let data = data(records);
    let mut means = means(&data, 1);
    let mut chain = chain();
    chain.anchor(&mut means, &[1.0; DIM]).unwrap();
    // A length of sqrt 2: 29 records.
    chain.extend(&mut means, &[2.0, 0.0, 1.0]).unwrap();
    let links = chain.links().to_vec();
    let product = chain.product(&mut means, &links, &[1.0, 1.0, 1.0]).unwrap();
    // Of the anchor .4, of the change -.5 x (1, -1, 0).
    close(&product, [0.4 - 0.5, 0.4 + 0.5, 0.4]);
}

/// What a record adds is clipped to M ||v||/m and rho ||w - w'|| ||v||/m, and to the share.
#[test]
fn a_part_is_clipped_by_its_link_and_by_the_share() {
    let data = data(vec![1.0; 10]);
    let mut means = means(&data, 4);
    let slice = means.books().take_slice(4).unwrap();
    let at = [3.0, 0.0, 0.0];
    let anchor = std::sync::Arc::new(HessianLink::anchor(slice, &at, 0.5));
    let slice = means.books().take_slice(2).unwrap();
    let change = HessianLink::change(slice, &at, &[0.0, 4.0, 0.0], 0.01);
    // rho x 5.
    assert!((change.radius(&[2.0, 0.0, 0.0]).unwrap().get() - 0.1).abs() < 1e-15);
    assert_eq!(change.radius(&[0.0; DIM]), None);
    let links = [anchor, std::sync::Arc::new(change)];
    let direction = [2.0, 0.0, 0.0];
    let mut product = |links: &[_], share: f64| {
        let share = ClipNorm::new(share).unwrap();
        let of = ChainProduct {
            links,
            direction: &direction,
            share,
        };
        means.chain(of, quiet()).unwrap()
    };
    // 6 is clipped to .5 x 2; -6 to .1.
    close(&product(&links[..1], 1.0), [1.0, 0.0, 0.0]);
    close(&product(&links, 1.0), [1.0 - 0.1, 0.0, 0.0]);
    // Four parts of at most .1, for .25.
    close(&product(&links[..1], 0.1), [0.4, 0.0, 0.0]);
}

#[test]
fn what_can_not_be_asked_is_refused_before_anything_is_taken() {
    let data = data(vec![1.0; 50]);
    let mut means = means(&data, 1);
    let mut chain = chain();
    assert!(chain.wants_anchor(&[0.0; DIM]));
    let short = chain.anchor(&mut means, &[0.0; 2]);
    assert!(matches!(short, Err(AskError::Shape { dim: DIM })));
    chain.anchor(&mut means, &[0.0; DIM]).unwrap();
    // A change over 2 length reads 40 records, as many as an anchor.
    assert!(!chain.wants_anchor(&[1.9, 0.0, 0.0]));
    assert!(chain.wants_anchor(&[2.0, 0.0, 0.0]));
    let far = chain.extend(&mut means, &[1.0, 0.0, 0.0]);
    assert!(matches!(
        far,
        Err(AskError::Refused(Refused::Pool(PoolError::UsedUp {
            asked: 20,
            left: 10
        })))
    ));
    assert_eq!(chain.links().len(), 1);
    let links = chain.links().to_vec();
    let short = chain.product(&mut means, &links, &[1.0]);
    assert!(matches!(short, Err(AskError::Shape { dim: DIM })));
    let none = chain.product(&mut means, &[], &[1.0; DIM]);
    assert!(matches!(
        none,
        Err(AskError::Refused(Refused::Pool(PoolError::EmptyChain)))
    ));
    chain.product(&mut means, &links, &[1.0; DIM]).unwrap();
    let again = chain.product(&mut means, &links, &[1.0; DIM]);
    assert!(matches!(
        again,
        Err(AskError::Refused(Refused::NotReserved {
            slice: Some(0),
            ..
        }))
    ));
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let settings = ChainSettings {
            per_length: rate,
            ..*chain.settings()
        };
        assert!(HessianChain::new(settings).is_err());
    }
    // Under add-remove no slice is taken; a loss without second derivatives offers no chains.
    let moving = PrivateData::made_up_of(vec![1.0; 50], Adjacency::AddRemove, Some(50)).unwrap();
    let curator = Curator::simulated(Adjacency::AddRemove, 1);
    let mut means = PrivateMean::new(&moving, Cubic, curator).unwrap();
    assert!(!means.facts().offers.covers(Offers::CHAINS));
    assert!(matches!(
        means.books().take_slice(3),
        Err(Refused::Pool(PoolError::Adjacency { .. }))
    ));
}
