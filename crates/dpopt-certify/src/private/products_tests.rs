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
fn records(size: f32, count: u64, declared: Option<u64>) -> PrivateData {
    let mut rows = Design::sparse(DIM).unwrap();
    for _ in 0..count {
        rows.push_row(&[(0, 1.0)]).unwrap();
    }
    let labels = (0..count).map(|i| if i % 2 == 0 { size } else { -size });
    let norm = ClipNorm::new(1.0).unwrap();
    let adjacency = match declared {
        Some(_) => Adjacency::AddRemove,
        None => Adjacency::ReplaceOne,
    };
    PrivateData::made_up(rows, labels.collect(), norm, adjacency, declared).unwrap()
}

fn certified(size: f32, seed: u64) -> (SecondOrderCertificate, f64, f64) {
    let plan = plan(Adjacency::ReplaceOne, MU).unwrap();
    let data = records(size, RECORDS, None);
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

/// Three times as many records as were declared: with curvatures of 1, of which the mean has 3, which is above L1, an episode leaves along a
/// direction that is curved upwards. Nothing may be said of an end below zero. With curvatures of 0 it certifies as elsewhere.
#[test]
fn more_records_than_declared_make_no_saddle() {
    let declared = RECORDS / 2;
    let facts = PublicFacts {
        records: declared,
        ..facts(Adjacency::AddRemove)
    };
    let mu = Mu::new(MU).unwrap();
    let plan = SecondOrderPlan::with_episode(&facts, mu, 0.05, TARGETS).unwrap();
    for (size, flat) in [(0.0, false), (1.0, true)] {
        let data = records(size, 3 * declared, Some(declared));
        let mut curator = Curator::simulated(Adjacency::AddRemove, 3);
        curator.reserve(&plan.spend()).unwrap();
        let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
        let found = plan.release(&mut mean, &[0.0; DIM]).unwrap();
        let interval = found.curvature.unwrap();
        assert_eq!(found.certified, flat);
        assert_eq!(interval.high, f64::INFINITY);
        if flat {
            assert_eq!(interval.low, -TARGETS.curvature);
        } else {
            assert_eq!(interval.low, f64::NEG_INFINITY);
            // It did leave, along e_1.
            assert!(found.direction.unwrap()[0].abs() > 0.5);
        }
    }
}

/// Products of Hessians longer than L1 would be those of no matrix: the norm is released, and an episode is neither run nor paid for.
#[test]
fn clipped_products_certify_nothing() {
    let facts = PublicFacts {
        smoothness: 0.9 * facts(Adjacency::ReplaceOne).smoothness,
        ..facts(Adjacency::ReplaceOne)
    };
    let mu = Mu::new(MU).unwrap();
    let plan = SecondOrderPlan::with_episode(&facts, mu, 0.05, TARGETS).unwrap();
    let data = records(1.0, RECORDS, None);
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    curator.reserve(&plan.spend()).unwrap();
    let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
    let found = plan.release(&mut mean, &[0.0; DIM]).unwrap();
    assert!(found.covered.is_err() && !found.certified && found.curvature.is_none());
    assert!(found.gradient.high <= TARGETS.gradient);
    let spent = mean.curator_mut().settle().unwrap();
    let spent = costs::squared_mu(&spent, Adjacency::ReplaceOne).unwrap();
    let episode = plan.episode().unwrap();
    let norm = MU * MU - episode.cost(Adjacency::ReplaceOne, RECORDS as f64);
    assert!((spent / norm - 1.0).abs() < 1e-6, "{spent} {norm}");
}

/// What no budget tells is not refused for its cost; what is asked of a number, and not of a target, has a whole Hessian or no plan.
#[test]
fn what_products_can_not_tell_is_refused_by_its_name() {
    let wide = PublicFacts {
        dim: 100_000_000,
        ..facts(Adjacency::ReplaceOne)
    };
    let clip = ClipNorm::new(wide.smoothness).unwrap();
    let huge = Mu::new(1e9).unwrap();
    let hidden = SecondOrderPlan::new(&wide, clip, huge, 1e-4, TARGETS);
    assert!(
        matches!(hidden, Err(PrivateCertificateError::NoEpisode { dim, .. }) if dim == wide.dim),
        "{hidden:?}"
    );
    let facts = facts(Adjacency::ReplaceOne);
    let whole = |facts: &PublicFacts, frobenius: f64| {
        let clip = ClipNorm::new(frobenius * facts.smoothness).unwrap();
        SecondOrderPlan::with_hessian(facts, clip, huge, 0.05, TARGETS)
    };
    assert!(matches!(
        whole(&facts, 1.0),
        Err(PrivateCertificateError::TooManyDimensions { dim: DIM, .. })
    ));
    let few = PublicFacts { dim: 50, ..facts };
    assert!(whole(&few, 200.0).unwrap().episode().is_none());
}

/// Where an episode would be cheaper than a whole Hessian, but leaves too little for the norm, the whole plan is made if there is one.
#[test]
fn an_episode_that_starves_the_norm_is_no_reason_for_no_plan() {
    let few = PublicFacts {
        dim: 50,
        ..facts(Adjacency::ReplaceOne)
    };
    let targets = SecondOrderTargets {
        gradient: 0.01,
        ..TARGETS
    };
    let frobenius = 16.0 * few.smoothness;
    let clip = ClipNorm::new(frobenius).unwrap();
    let quantile = two_sided(0.05) + 100f64.sqrt();
    let whole = few.noise_std(frobenius, 1.0) * quantile / (0.75 * targets.curvature);
    let mut starved = 0;
    for step in 0..160 {
        let mu = Mu::new(10f64.powf(-0.9 + 0.005 * f64::from(step))).unwrap();
        let any = SecondOrderPlan::new(&few, clip, mu, 0.05, targets);
        let by_hessian = SecondOrderPlan::with_hessian(&few, clip, mu, 0.05, targets);
        let by_products = SecondOrderPlan::with_episode(&few, mu, 0.05, targets);
        assert!(any.is_ok() || by_hessian.is_err(), "{mu:?}");
        let cheaper = products::cheapest(&few, mu, 0.05, targets.curvature)
            .is_ok_and(|(_, cost)| whole * whole > cost);
        starved += u64::from(cheaper && by_products.is_err() && any.is_ok());
    }
    assert!(starved > 0);
}

/// L1 = 1.5 and C_F = 2 in two dimensions, on which a plan clips Hessians to 1.8: longer than any eigenvalue, shorter than the Hessian of diag(1.5, 1.3).
#[test]
fn hessians_that_may_be_shortened_are_said_to_be() {
    use dpopt_oracle::{ClosureLoss, Constants, Convexity};
    let of = |told: Option<f64>, clip: f64| {
        let constants = Constants::new(1.0, 1.5, 1.0, Convexity::Nonconvex);
        let constants = match told {
            Some(frobenius) => constants.with_hessian_frobenius(frobenius),
            None => constants,
        };
        let loss = ClosureLoss::new(
            2,
            constants,
            |_: &u64, _: &[f64]| 0.0,
            |_: &u64, _: &[f64], _: &mut [f64]| {},
        );
        let loss = loss.with_hessian_vector(|_: &u64, _: &[f64], v: &[f64], out: &mut [f64]| {
            out[0] += 1.5 * v[0];
            out[1] += 1.3 * v[1];
        });
        let facts = PublicFacts {
            smoothness: 1.5,
            lipschitz: 1.0,
            initial_gap: 1.0,
            dim: 2,
            ..facts(Adjacency::ReplaceOne)
        };
        let (mu, clip) = (Mu::new(MU).unwrap(), ClipNorm::new(clip).unwrap());
        let plan = SecondOrderPlan::new(&facts, clip, mu, 0.05, TARGETS).unwrap();
        let records = vec![0; RECORDS as usize];
        let data = PrivateData::made_up_of(records, Adjacency::ReplaceOne, None).unwrap();
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        curator.reserve(&plan.spend()).unwrap();
        let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
        let found = plan.release(&mut mean, &[0.0; 2]).unwrap();
        assert!(found.covered.is_ok() || !found.certified);
        found.covered.is_err()
    };
    assert!(of(Some(2.0), 1.8));
    assert!(!of(Some(2.0), 2.0) && !of(Some(1.7), 1.8));
    // Where C_F is not known, sqrt(2) L1 = 2.12 is as good.
    assert!(of(None, 2.1) && !of(None, 2.13));
}
