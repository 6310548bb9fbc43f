//! Certificates by episodes on private records, in more dimensions than a Hessian is formed in.

use dpopt_linalg::Design;
use dpopt_oracle::{Glm, PrivateData, PrivateMean};
use dpopt_privacy::accounting::costs;
use dpopt_privacy::{Adjacency, Curator, Spend};

use super::*;

const LOSS: Glm = Glm::Welsch;
const DIM: usize = 1500;
const RECORDS: u64 = 3000;
const MU: f64 = 4.0;
const TARGETS: SecondOrderTargets = SecondOrderTargets {
    gradient: 0.1,
    curvature: 0.4,
};

fn facts(adjacency: Adjacency) -> PublicFacts {
    PublicFacts::glm(RECORDS, DIM, adjacency, 1.0, LOSS.constants(1.0)).unwrap()
}

fn plan(adjacency: Adjacency, mu: f64) -> Result<SecondOrderPlan, PrivateCertificateError> {
    let facts = facts(adjacency);
    let frobenius = ClipNorm::new(facts.smoothness).unwrap();
    SecondOrderPlan::new(&facts, frobenius, Mu::new(mu).unwrap(), 0.05, TARGETS)
}

/// Rows e_1, with labels of both signs and this size: at 0 the mean gradient is zero, and the Hessian (1 - y^2) e^(-y^2/2) e_1 e_1'.
fn records(size: f32) -> PrivateData {
    let mut rows = Design::sparse(DIM).unwrap();
    for _ in 0..RECORDS {
        rows.push_row(&[(0, 1.0)]).unwrap();
    }
    let labels = (0..RECORDS).map(|i| if i % 2 == 0 { size } else { -size });
    let norm = ClipNorm::new(1.0).unwrap();
    PrivateData::made_up(rows, labels.collect(), norm, Adjacency::ReplaceOne, None).unwrap()
}

fn certified(size: f32, seed: u64) -> (SecondOrderCertificate, f64, f64) {
    let plan = plan(Adjacency::ReplaceOne, MU).unwrap();
    let data = records(size);
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    curator.reserve(&plan.spend()).unwrap();
    let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
    let found = plan.release(&mut mean, &[0.0; DIM]).unwrap();
    let spent = mean.curator_mut().settle().unwrap();
    let spent = costs::squared_mu(&spent, Adjacency::ReplaceOne).unwrap();
    let reserved = costs::squared_mu(plan.spend().event(), Adjacency::ReplaceOne).unwrap();
    (found, spent, reserved)
}

/// Curvatures of 0 and of 2 e^(-3/2) = 0.446 below: the one is certified, the other is left along e_1. What is spent is what was needed.
#[test]
fn above_the_limit_of_hessians_products_tell_curvature() {
    for (size, flat) in [(1.0, true), (3f32.sqrt(), false)] {
        let (found, spent, reserved) = certified(size, 5);
        assert_eq!(found.certified, flat, "{found:?}");
        let curvature = found.curvature.unwrap();
        if flat {
            assert_eq!(curvature.low, -TARGETS.curvature);
            assert!(found.direction.is_none());
        } else {
            assert!(curvature.high <= -0.25 * TARGETS.curvature && curvature.high > -0.446);
            let direction = found.direction.unwrap();
            // <u, H u> = -0.446 u_1^2.
            assert!(0.446 * direction[0] * direction[0] >= -curvature.high);
        }
        // Of mu^2 a norm took its share, and the episode a part of its own.
        assert!((reserved / (MU * MU) - 1.0).abs() < 1e-6, "{reserved}");
        assert!(spent < 0.8 * reserved, "{spent} {reserved}");
    }
}

#[test]
fn plans_say_what_tells_curvature() {
    let wide = plan(Adjacency::ReplaceOne, MU).unwrap();
    assert!(wide.episode().is_some() && matches!(wide.spend(), Spend::AtMost(_)));
    assert_eq!(wide.margins().curvature, TARGETS.curvature);
    // Twice the noise under replace-one: an episode takes four times as much of mu^2.
    let cost = |adjacency| {
        let plan = plan(adjacency, 1e3).unwrap();
        let episode = plan.episode().unwrap();
        episode.cost(adjacency, RECORDS as f64)
    };
    let ratio = cost(Adjacency::ReplaceOne) / cost(Adjacency::AddRemove);
    assert!((ratio - 4.0).abs() < 1e-9, "{ratio}");
    let dear = plan(Adjacency::ReplaceOne, 0.5);
    assert!(
        matches!(dear, Err(PrivateCertificateError::DearEpisode { cost, budget, .. }) if cost > budget),
        "{dear:?}"
    );
    // In few dimensions a whole Hessian, unless Hessians of records are long in Frobenius norm.
    let few = PublicFacts {
        dim: 50,
        ..facts(Adjacency::ReplaceOne)
    };
    for (frobenius, episodes) in [(1.0, false), (7.0, false), (200.0, true)] {
        let clip = ClipNorm::new(frobenius * few.smoothness).unwrap();
        let plan = SecondOrderPlan::new(&few, clip, Mu::new(100.0).unwrap(), 0.05, TARGETS);
        assert_eq!(plan.unwrap().episode().is_some(), episodes, "{frobenius}");
    }
}
