//! The start against closed forms, and refusals.

use dpopt_linalg::{Design, dot};
use dpopt_oracle::{Glm, PrivateData, PrivateMean, QuadraticLink, Scale};
use dpopt_privacy::{Adjacency, Curator, Delta};

use super::*;

const ROWS: u64 = 4000;
const P: usize = 3;

fn columns(r: usize) -> NonZeroUsize {
    NonZeroUsize::new(r).unwrap()
}

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn loss(r: usize) -> QuadraticLink {
    let ball = ClipNorm::new(2.0).unwrap();
    QuadraticLink::new(Glm::Logistic, columns(r), ball).with_threshold(Scale::new(1.0).unwrap())
}

/// Unit vectors: those that differ along the third axis, those that are the same along the first; the second axis has half of each.
fn data(n: u64) -> PrivateData {
    let mut rows = Vec::new();
    let mut labels = Vec::new();
    for i in 0..n {
        let (axis, label) = [(2, 1.0), (0, -1.0), (1, 1.0), (1, -1.0)][(i % 4) as usize];
        let mut row = [0.0; P];
        row[axis] = 1.0;
        rows.extend(row);
        labels.push(label);
    }
    let design = Design::dense(P, rows).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    let data = PrivateData::made_up(design, labels, one, Adjacency::ReplaceOne, None).unwrap();
    data.with_label_bound(one)
}

fn plan_of(mean: &PrivateMean<'_, QuadraticLink>, r: usize, share: f64) -> CurvatureStart {
    let constants = mean.constants_at(&[0.0; P]);
    let facts = PublicFacts {
        convexity: constants.convexity,
        ..PublicFacts::unit(ROWS, P)
    };
    CurvatureStart::new(&facts, &constants, columns(r), 0.5, (&budget(), share)).unwrap()
}

/// With s = sigma(1) and u = sigma(-1) = 1 - s the Hessian of one column is diag(2 u/4, 2 (u - s)/4, -2 s/4).
#[test]
fn the_start_lies_along_the_least_eigenvectors() {
    let data = data(ROWS);
    let mut mean = PrivateMean::new(&data, loss(1), Curator::simulated(Adjacency::ReplaceOne, 3))
        .unwrap()
        .with_hessians();
    let plan = plan_of(&mean, 2, CurvatureStart::SHARE);
    let found = plan.release(&mut mean).unwrap();
    let slope = 1.0 / (1.0 + (-1.0f64).exp());
    let expected = [-slope / 2.0, (1.0 - 2.0 * slope) / 2.0, (1.0 - slope) / 2.0];
    // Five deviations in operator norm.
    let slack = plan.noise_std * (6f64.sqrt() + 5.0);
    assert!(slack < 0.1, "{slack}");
    for (found, expected) in found.eigenvalues.iter().zip(expected) {
        assert!((found - expected).abs() < slack, "{found} {expected}");
    }
    // Columns of length 1/2 at right angles, the first near the third axis.
    let column = |j: usize| -> Vec<f64> { (0..P).map(|c| found.point[2 * c + j]).collect() };
    let (first, second) = (column(0), column(1));
    assert!((dot(&first, &first) - 0.25).abs() < 1e-12);
    assert!((dot(&second, &second) - 0.25).abs() < 1e-12);
    assert!(dot(&first, &second).abs() < 1e-12);
    assert!(first[2].abs() > 0.45 && second[1].abs() > 0.45);
}

/// The squares of the two parts add up to that of the budget, and C_F is that of one column at 0: 2 X^2/(1 + e^-1).
#[test]
fn the_budget_is_split_by_squares() {
    let data = data(ROWS);
    let mean = PrivateMean::new(&data, loss(1), Curator::simulated(Adjacency::ReplaceOne, 3));
    let mean = mean.unwrap();
    for share in [0.1, CurvatureStart::SHARE, 0.9] {
        let plan = plan_of(&mean, 2, share);
        let first = plan.noise_multiplier.get().powi(-2);
        let rest = plan.rest.mu().unwrap().get().powi(2);
        let whole = gdp::mu_for(budget().epsilon, budget().delta)
            .unwrap()
            .get()
            .powi(2);
        assert!(first + rest <= whole);
        let exactly = first + plan.rest_mu.get().powi(2);
        // A budget's mu is planned with 1e-9 less of it.
        assert!((exactly / whole - 1.0).abs() < 1e-8 && rest <= plan.rest_mu.get().powi(2));
        assert!(
            (first + rest) / whole > 1.0 - 1e-6,
            "{first} {rest} {whole}"
        );
        assert!((first / whole - share).abs() < 1e-6);
        let expected = 2.0 / (1.0 + (-1.0f64).exp());
        assert!((plan.clip.get() - expected).abs() < 1e-12);
        let std = 2.0 * expected * plan.noise_multiplier.get() / ROWS as f64;
        assert!((plan.noise_std / std - 1.0).abs() < 1e-12);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let data = data(ROWS);
    let curator = || Curator::simulated(Adjacency::ReplaceOne, 3);
    let mut mean = PrivateMean::new(&data, loss(1), curator()).unwrap();
    let plan = plan_of(&mean, 2, 0.5);
    // Without Hessians nothing is spent.
    assert!(plan.release(&mut mean).is_err());
    assert_eq!(mean.curator_mut().spent(), Event::NoOp);
    // The loss of two columns has another dimension.
    let mut two = PrivateMean::new(&data, loss(2), curator())
        .unwrap()
        .with_hessians();
    let refused = plan.release(&mut two);
    let expected = CurvatureStartError::Dimension {
        plan: P,
        oracle: 2 * P,
    };
    assert_eq!(refused.unwrap_err().to_string(), expected.to_string());
    let constants = mean.constants_at(&[0.0; P]);
    let facts = |dim| PublicFacts {
        convexity: constants.convexity,
        ..PublicFacts::unit(ROWS, dim)
    };
    let made = |dim, r, length, share| {
        CurvatureStart::new(
            &facts(dim),
            &constants,
            columns(r),
            length,
            (&budget(), share),
        )
    };
    assert!(made(P, 3, 1.0, 0.5).is_ok());
    for (dim, r, length, share) in [
        (P, 4, 1.0, 0.5),
        (P, 2, 0.0, 0.5),
        (P, 2, f64::NAN, 0.5),
        (P, 2, 1.0, 0.0),
        (P, 2, 1.0, 1.0),
        (P, 2, 1.0, f64::NAN),
        (1025, 2, 1.0, 0.5),
    ] {
        assert!(
            made(dim, r, length, share).is_err(),
            "{dim} {r} {length} {share}"
        );
    }
    let none = PublicFacts {
        records: 0,
        ..facts(P)
    };
    let refused = CurvatureStart::new(&none, &constants, columns(2), 1.0, (&budget(), 0.5));
    let name = "records";
    assert_eq!(
        refused.unwrap_err(),
        PlanError::BadFact { name, value: 0.0 }
    );
}
