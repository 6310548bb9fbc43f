//! The second-order certificate on a public subspace: coverage, what it leaves out, and what it refuses.

use dpopt_linalg::Design;
use dpopt_oracle::query::{Subspace, SubspaceError};
use dpopt_oracle::{Glm, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, Mu};
use dpopt_solver::PublicFacts;

use super::*;

const LOSS: Glm = Glm::Welsch;
const DIM: usize = 4;
const RECORDS: usize = 400;
const P: f64 = 0.2;

/// At 0 the gradient is 0 and the Hessian diagonal: half of the records stand on axis 0 with labels +-1.7, where the second derivative
/// (1 - y^2) e^(-y^2/2) is negative, the others on axis 1 with labels of 0, where it is 1.
fn data() -> PrivateData {
    let mut rows = vec![0.0; RECORDS * DIM];
    let mut labels = vec![0.0; RECORDS];
    for (i, (row, label)) in rows.chunks_exact_mut(DIM).zip(&mut labels).enumerate() {
        row[i % 2] = 1.0;
        if i % 2 == 0 {
            *label = if i % 4 == 0 { 1.7f32 } else { -1.7 };
        }
    }
    let design = Design::dense(DIM, rows).unwrap();
    let norm = ClipNorm::new(1.0).unwrap();
    PrivateData::made_up(design, labels, norm, Adjacency::ReplaceOne, None).unwrap()
}

/// What it is on axis 0, in the mean.
fn saddle() -> f64 {
    let y = f64::from(1.7f32);
    -0.5 * (1.0 - y * y) * (-0.5 * y * y).exp()
}

fn axes(axes: [usize; 2]) -> Subspace {
    let mut columns = vec![0.0; 2 * DIM];
    columns[axes[0]] = 1.0;
    columns[DIM + axes[1]] = 1.0;
    Subspace::new(DIM, columns).unwrap()
}

fn plan(
    mu: f64,
    curvature: f64,
    columns: Option<usize>,
) -> Result<SecondOrderPlan, PrivateCertificateError> {
    let constants = LOSS.constants(1.0);
    let facts =
        PublicFacts::glm(RECORDS as u64, DIM, Adjacency::ReplaceOne, 1.0, constants).unwrap();
    let frobenius = ClipNorm::new(facts.smoothness).unwrap();
    let (mu, gradient) = (Mu::new(mu).unwrap(), 0.5);
    let targets = SecondOrderTargets {
        gradient,
        curvature,
    };
    match columns {
        None => SecondOrderPlan::new(&facts, frobenius, mu, P, targets),
        Some(k) => SecondOrderPlan::in_subspace(&facts, frobenius, mu, P, targets, k),
    }
}

fn means<'a>(data: &'a PrivateData, plan: &SecondOrderPlan, seed: u64) -> PrivateMean<'a, Glm> {
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    curator.reserve(&plan.spend()).unwrap();
    PrivateMean::new(data, LOSS, curator).unwrap()
}

/// The target is a hair below the truth, so that a certificate is false: with probability p/2 = .1, of 2,000 runs more than 254 with
/// probability below 5e-5. Without its margin it would be about half of them.
#[test]
fn a_false_certificate_of_the_subspace_is_rare() {
    let data = data();
    let plan = plan(4.0, (1.0 - 1e-6) * saddle(), Some(2)).unwrap();
    let (mut false_ones, mut without) = (0, 0);
    for seed in 0..2_000 {
        let mut means = means(&data, &plan, seed);
        let found = plan
            .release_on(&mut means, &[0.0; DIM], &axes([0, 2]))
            .unwrap();
        assert_eq!(found.subspace, Some(2));
        false_ones += u32::from(found.certified);
        let low = found.curvature.map_or(f64::NEG_INFINITY, |at| at.low);
        let margin = plan.margins().curvature;
        without += u32::from(low + margin >= -found.targets.curvature);
    }
    assert!((120..=254).contains(&false_ones), "{false_ones}");
    assert!(without > 800, "{without}");
}

/// The saddle's direction is not in the subspace, and a certificate of the subspace says nothing of it; one of the whole is not made.
#[test]
fn a_certificate_says_nothing_outside_of_its_subspace() {
    let data = data();
    let (part, whole) = (
        plan(30.0, 0.1, Some(2)).unwrap(),
        plan(30.0, 0.1, None).unwrap(),
    );
    let mut of_part = means(&data, &part, 1);
    let found = part
        .release_on(&mut of_part, &[0.0; DIM], &axes([1, 2]))
        .unwrap();
    assert!(found.certified, "{found:?}");
    let direction = found.direction.unwrap();
    assert_eq!(direction.len(), DIM);
    assert_eq!((direction[0], direction[3]), (0.0, 0.0));
    let mut of_whole = means(&data, &whole, 1);
    let found = whole.release(&mut of_whole, &[0.0; DIM]).unwrap();
    assert!(!found.certified && found.subspace.is_none());
    assert!(found.direction.unwrap()[0].abs() > 0.9);
    // Turned columns of the same subspace find the same.
    let half = 0.5f64.sqrt();
    let mut columns = vec![0.0; 2 * DIM];
    (columns[0], columns[2]) = (half, half);
    (columns[DIM], columns[DIM + 2]) = (half, -half);
    let turned = Subspace::new(DIM, columns).unwrap();
    for subspace in [axes([0, 2]), turned] {
        let mut means = means(&data, &part, 2);
        let found = part.release_on(&mut means, &[0.0; DIM], &subspace).unwrap();
        let at = found.curvature.unwrap();
        assert!(at.low <= -saddle() && -saddle() <= at.high, "{at:?}");
        assert!(found.direction.unwrap()[0].abs() > 0.9);
    }
}

#[test]
fn subspaces_that_do_not_fit_are_refused_before_anything_is_released() {
    use PrivateCertificateError as E;
    let data = data();
    let (part, whole) = (
        plan(30.0, 0.1, Some(2)).unwrap(),
        plan(30.0, 0.1, None).unwrap(),
    );
    let origin = &[0.0; DIM];
    let mut means = means(&data, &part, 1);
    let three = {
        let mut columns = vec![0.0; 3 * DIM];
        (0..3).for_each(|k| columns[k * DIM + k] = 1.0);
        Subspace::new(DIM, columns).unwrap()
    };
    let mut short = vec![0.0; 6];
    (short[0], short[4]) = (1.0, 1.0);
    let short = Subspace::new(3, short).unwrap();
    let other = |found: Result<SecondOrderCertificate, E>| {
        let error = found.unwrap_err();
        assert!(matches!(error, E::OtherData { .. }), "{error}");
    };
    other(part.release(&mut means, origin));
    other(part.release_on(&mut means, origin, &three));
    other(part.release_on(&mut means, origin, &short));
    other(whole.release_on(&mut means, origin, &axes([0, 1])));
    assert_eq!(means.curator().spent(), Event::NoOp);
    for columns in [0, DIM + 1] {
        let refused = plan(30.0, 0.1, Some(columns)).unwrap_err();
        assert!(matches!(refused, E::OutOfRange { .. }), "{refused}");
    }
    let bent = Subspace::new(2, vec![1.0, 0.0, 0.6, 0.8]).unwrap_err();
    assert!(
        matches!(bent, SubspaceError::NotOrthonormal { i: 0, j: 1, found, .. } if found == 0.6)
    );
}
