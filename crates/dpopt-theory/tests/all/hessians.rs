//! Simulated Hessians have the law of protected ones; the problems of second order are what they say.
//!
//! Normal deviates are compared at 6 standard deviations (2e-9), at fixed seeds.

use dpopt_linalg::Design;
use dpopt_oracle::query::{HessianMatrix, unpack_symmetric};
use dpopt_oracle::{AskError, Examples, Glm, Oracle, PrivateData, PrivateMean};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, SamplingRate, Spend, Which,
};
use dpopt_theory::{
    Audited, ClosedForm, CubicSaddles, Probe, Problem as _, ProblemError, RampLimits,
    SecondOrderProblem as _, SimulatedOracle, Slide, SmoothRamp, Tilt, TiltedProblem, WeightedLoss,
    WeightedRecords, Wells,
};

use crate::attack::audit;

use Audited::{
    HessianFrobenius, HessianLipschitz, InitialGap, Lipschitz, Smoothness, WeakConvexity,
};

const LOSS: Glm = Glm::Welsch;
const ROWS: [[f64; 2]; 3] = [[0.6, -0.8], [0.5, 0.5], [-1.0, 0.0]];
const LABELS: [f32; 3] = [1.0, 0.5, -0.25];
const COPIES: [u64; 3] = [3, 2, 1];
const POINT: [f64; 2] = [0.3, -0.4];
/// Shorter than the Hessian of the second record, longer than that of the third.
const CLIP: f64 = 0.3;

fn clip(radius: f64) -> ClipNorm {
    ClipNorm::new(radius).unwrap()
}

fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn of(radius: f64) -> HessianMatrix<'static> {
    HessianMatrix {
        point: &POINT,
        radius: clip(radius),
    }
}

/// phi''(<x, w> - y) x x^T of the Welsch loss 1 - exp(-t^2/2), packed and clipped by hand.
fn contribution(i: usize) -> [f64; 3] {
    let [a, b] = ROWS[i];
    let t = a * POINT[0] + b * POINT[1] - f64::from(LABELS[i]);
    let bend = (1.0 - t * t) * (-0.5 * t * t).exp();
    let packed = [bend * a * a, 2f64.sqrt() * bend * a * b, bend * b * b];
    let length = packed.iter().map(|x| x * x).sum::<f64>().sqrt();
    packed.map(|x| x * (CLIP / length).min(1.0))
}

fn by_hand() -> [f64; 3] {
    let mut mean = [0.0; 3];
    for (i, copies) in COPIES.into_iter().enumerate() {
        let weight = copies as f64 / 6.0;
        for (mean, x) in mean.iter_mut().zip(contribution(i)) {
            *mean += weight * x;
        }
    }
    mean
}

fn weighted() -> WeightedRecords<Examples> {
    let rows = Design::dense(2, ROWS.concat()).unwrap();
    let examples = Examples::new(rows, LABELS.to_vec(), clip(1.0)).unwrap();
    WeightedRecords::new(examples, COPIES.to_vec()).unwrap()
}

fn expanded() -> PrivateData {
    let which = [0, 0, 0, 1, 1, 2];
    let rows = which.iter().flat_map(|&i| ROWS[i]).collect();
    let labels = which.iter().map(|&i| LABELS[i]).collect();
    let design = Design::dense(2, rows).unwrap();
    PrivateData::made_up(design, labels, clip(1.0), Adjacency::ReplaceOne, None).unwrap()
}

/// Means and variances of what is released `count` times, less what is expected, in units of `std`.
fn moments(oracle: &mut dyn Oracle, count: u64, over: Which<'_>, std: f64) -> Vec<(f64, f64)> {
    let mut sums = [(0.0, 0.0); 3];
    for _ in 0..count {
        let mean = oracle.hessian(of(CLIP), over, z(0.5)).unwrap();
        assert!(
            (mean.noise_std / (2.0 * CLIP * 0.5 / 6.0) - 1.0).abs() < 1e-12 || over != Which::All
        );
        for (sum, (x, exact)) in sums.iter_mut().zip(mean.mean.iter().zip(by_hand())) {
            let off = (x - exact) / std;
            *sum = (sum.0 + off, sum.1 + off * off);
        }
    }
    let n = count as f64;
    sums.iter()
        .map(|(sum, squares)| (sum / n, squares / n))
        .collect()
}

/// The same law over all records as the private mean: the same mean, noise of z s C/n on each packed coordinate.
#[test]
fn simulated_hessians_have_the_law_of_protected_ones() {
    let data = weighted();
    let private = expanded();
    let population = WeightedLoss::new(&LOSS, &data).with_hessians();
    let mut simulated = SimulatedOracle::over(population, Adjacency::ReplaceOne, 3);
    let curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    let mut real = PrivateMean::new(&private, LOSS, curator)
        .unwrap()
        .with_hessians();
    let count = 20_000;
    let std = 2.0 * CLIP * 0.5 / 6.0;
    let n = count as f64;
    let oracles: [&mut dyn Oracle; 2] = [&mut real, &mut simulated];
    for oracle in oracles {
        let spend = Event::gaussian(z(0.5)).repeated(count);
        oracle.books().reserve(&Spend::Fixed(spend)).unwrap();
        for (mean, square) in moments(oracle, count, Which::All, std) {
            assert!(mean.abs() < 6.0 / n.sqrt(), "{mean}");
            assert!((square - 1.0).abs() < 6.0 * (2.0 / n).sqrt(), "{square}");
        }
        // Two products and two gradients each: d = 2.
        assert_eq!(oracle.books().counts().gradients, 4.0 * 6.0 * n);
    }
    // The unpacked matrix has 1/sqrt 2 of the noise beside the diagonal: a twin that does not know of the layout would be caught.
    let matrix = unpack_symmetric(2, &[0.0, 1.0, 0.0]).unwrap();
    assert!((matrix[1] - std::f64::consts::FRAC_1_SQRT_2).abs() < 1e-15);
}

/// A Poisson sample of Hessians: sum x^2 q (1 - q)/(q n)^2 by sampling, beside the noise.
#[test]
fn sampled_hessians_have_the_right_variance() {
    let data = weighted();
    let population = WeightedLoss::new(&LOSS, &data).with_hessians();
    let mut simulated = SimulatedOracle::over(population, Adjacency::ReplaceOne, 4);
    let rate = SamplingRate::new(0.4).unwrap();
    let count = 20_000;
    let spend = Event::gaussian(z(0.5))
        .poisson_sampled(rate)
        .repeated(count);
    simulated.books().reserve(&Spend::Fixed(spend)).unwrap();
    let n = count as f64;
    let found = moments(&mut simulated, count, Which::Poisson(rate), 1.0);
    for (j, (mean, square)) in found.into_iter().enumerate() {
        let squares: f64 = (0..3)
            .map(|i| COPIES[i] as f64 * contribution(i)[j].powi(2))
            .sum();
        let noise = 2.0 * CLIP * 0.5 / (0.4 * 6.0);
        let variance = squares * 0.6 / (0.4 * 36.0) + noise * noise;
        assert!(mean.abs() < 6.0 * (variance / n).sqrt());
        assert!((square / variance - 1.0).abs() < 6.0 * (2.5 / n).sqrt());
    }
}

/// A problem in closed form: its Hessian, clipped where it is longer in Frobenius norm, and none where none was asked for.
#[test]
fn a_problem_in_closed_form_answers_with_its_hessian() {
    let wells = Wells::new(4, 0.1, vec![0.5, 0.25]).unwrap();
    let point = [0.0; 4];
    let exact = [-0.4, -0.15, 0.1, 0.1];
    let length = exact.iter().map(|x| x * x).sum::<f64>().sqrt();
    let spend = Spend::Fixed(Event::gaussian(z(1e-9)).repeated(2));
    for (radius, kept) in [(1.0, 1.0), (0.2, 0.2 / length)] {
        let population = ClosedForm::new(&wells, 1000).with_hessians();
        let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, 1);
        oracle.books().reserve(&spend).unwrap();
        let radius = clip(radius);
        let of = HessianMatrix {
            point: &point,
            radius,
        };
        let released = oracle.hessian(of, Which::All, z(1e-9)).unwrap();
        let matrix = unpack_symmetric(4, &released.mean).unwrap();
        for (k, x) in matrix.iter().enumerate() {
            let expected = if k % 5 == 0 { kept * exact[k / 5] } else { 0.0 };
            assert!((x - expected).abs() < 1e-10, "{k} {x} {expected}");
        }
    }
    let mut without = SimulatedOracle::new(&wells, 1000, Adjacency::ReplaceOne, 1);
    let of = HessianMatrix {
        point: &point,
        radius: clip(1.0),
    };
    without.books().reserve(&spend).unwrap();
    assert!(matches!(
        without.hessian(of, Which::All, z(1e-9)),
        Err(AskError::NotOffered { .. })
    ));
    assert_eq!(without.spent(), Event::NoOp);
}

/// Records that differ: their mean Hessian is the problem's, and each is within the constants of the tilted problem.
#[test]
fn tilted_records_have_the_hessian_of_the_problem_in_the_mean() {
    let wells = Wells::new(4, 0.1, vec![0.5, 0.25]).unwrap();
    let known = wells.constants();
    let tilted = TiltedProblem::new(wells.clone(), 0.2, 0.1, 0.5).unwrap();
    let tilts: Vec<Tilt> = (0..4)
        .map(|i| Tilt {
            share: 0.2 * f64::from(i - 2) / 2.0,
            direction: vec![0.05; 4],
            wave: (0..4).map(|j| f64::from(u8::from(i == j))).collect(),
            phase: f64::from(i),
        })
        .collect();
    let data = TiltedProblem::<Wells>::opposites(&tilts, 1000).unwrap();
    let population = WeightedLoss::new(&tilted, &data).with_hessians();
    let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, 1);
    let spend = Spend::Fixed(Event::gaussian(z(1e-9)));
    oracle.books().reserve(&spend).unwrap();
    let point = [0.3, -1.0, 0.5, 2.0];
    let frobenius = 1.2 * known.hessian_frobenius + 0.5;
    let of = HessianMatrix {
        point: &point,
        radius: clip(frobenius),
    };
    let released = oracle.hessian(of, Which::All, z(1e-9)).unwrap();
    let matrix = unpack_symmetric(4, &released.mean).unwrap();
    for (j, row) in matrix.chunks_exact(4).enumerate() {
        let mut unit = [0.0; 4];
        unit[j] = 1.0;
        let mut product = [0.0; 4];
        wells.hessian_vector(&point, &unit, &mut product);
        for (x, expected) in row.iter().zip(product) {
            assert!((x - expected).abs() < 1e-10);
        }
    }
}

fn limits(gap: f64) -> RampLimits {
    RampLimits {
        lipschitz: 1.0,
        smoothness: 1.0,
        hessian_lipschitz: 1.0,
        hessian_frobenius: 1.0,
        initial_gap: gap,
    }
}

#[test]
fn smooth_ramps_are_within_their_limits() {
    for (dim, slope) in [(2, 0.3), (5, 0.3), (5, 0.05)] {
        let ramp = SmoothRamp::new(dim, limits(0.5), slope).unwrap();
        let known = ramp.constants();
        for (value, limit) in [
            (known.lipschitz, 1.0),
            (known.smoothness, 1.0),
            (known.hessian_lipschitz, 1.0),
            (known.hessian_frobenius, 1.0),
        ] {
            assert!(value <= limit * (1.0 + 1e-12), "{known:?}");
        }
        let report = Probe::new(1.5 * 0.5 / slope + 3.0, 11).second_order(&ramp);
        let least = [
            (Lipschitz, 0.85),
            (Smoothness, 0.9),
            (HessianLipschitz, 0.9),
            (HessianFrobenius, 0.9),
            (InitialGap, 0.99),
        ];
        audit("smooth ramp", &report, &least);
        // The gradient is s long all the way, and nothing is left to fall after it.
        let (mut point, mut gradient) = (vec![0.0; dim], vec![0.0; dim]);
        ramp.gradient(&point, &mut gradient);
        assert_eq!(gradient[0], -slope);
        assert!((ramp.value(&point) - 0.5).abs() < 1e-15);
        point[0] = 100.0;
        assert!(ramp.value(&point).abs() < 1e-13);
    }
    let largest = SmoothRamp::largest_slope(limits(0.02));
    assert!(SmoothRamp::new(3, limits(0.02), largest).is_ok());
    assert!(matches!(
        SmoothRamp::new(3, limits(0.02), 1.01 * largest),
        Err(ProblemError::SlopeTooLarge { .. })
    ));
    assert!(SmoothRamp::new(1, limits(0.5), 0.1).is_err());
    assert!(SmoothRamp::new(3, limits(f64::NAN), 0.1).is_err());
}

#[test]
fn slides_are_as_long_as_their_gap() {
    for (dim, slope) in [(2, 0.3), (5, 0.05)] {
        let slide = Slide::new(dim, 1.0, slope).unwrap();
        let report = Probe::new(1.2 * slide.valley() + 2.0, 13).second_order(&slide);
        let least = [
            (Lipschitz, 0.99),
            (Smoothness, 0.9),
            (HessianLipschitz, 0.9),
            (HessianFrobenius, 0.9),
            (InitialGap, 0.99),
        ];
        audit("slide", &report, &least);
        let mut point = vec![0.0; dim];
        assert!((slide.value(&point) - 1.0).abs() < 1e-12);
        point[0] = slide.valley();
        assert_eq!(slide.value(&point), 0.0);
        // Half of the way the gradient is at least 0.9 times what it is at most.
        point[0] = 0.5 * slide.valley();
        let mut gradient = vec![0.0; dim];
        slide.gradient(&point, &mut gradient);
        assert!(
            gradient[0] < -0.9 * slope && gradient[0] > -slope,
            "{gradient:?}"
        );
    }
    assert!(Slide::new(1, 1.0, 0.1).is_err());
    assert!(Slide::new(3, 1.0, f64::NAN).is_err());
}

/// A step of 2 c/rho along the saddle ends in the minimum, (2/3) c^3/rho^2 lower: as much as is promised, and no more.
#[test]
fn steps_of_curvature_are_tight_on_cubic_saddles() {
    let chain = CubicSaddles::new(5, 2.0, vec![0.5, 0.25, 0.125]).unwrap();
    let report = Probe::new(2.0, 12).second_order(&chain);
    let least = [
        (Lipschitz, 0.99),
        (Smoothness, 0.99),
        (HessianLipschitz, 0.95),
        (HessianFrobenius, 0.99),
        (WeakConvexity, 0.95),
        (InitialGap, 0.99),
    ];
    audit("cubic saddles", &report, &least);
    let mut point = [0.0; 5];
    let mut gradient = [1.0; 5];
    let mut fallen = 0.0;
    for (j, c) in [0.5f64, 0.25, 0.125].into_iter().enumerate() {
        chain.gradient(&point, &mut gradient);
        assert!(gradient.iter().all(|g| g.abs() < 1e-15));
        assert_eq!(chain.least_eigenvalue(&point), -c);
        point[j] = if j == 1 { -1.0 } else { 1.0 } * c;
        fallen += 2.0 / 3.0 * c.powi(3) / 4.0;
        assert!((chain.value(&point) + fallen).abs() < 1e-15);
    }
    assert_eq!(chain.least_eigenvalue(&point), 0.0);
    assert!((fallen - chain.constants().initial_gap).abs() < 1e-15);
    assert!(CubicSaddles::new(2, 1.0, vec![0.1; 3]).is_err());
    assert!(CubicSaddles::new(2, 1.0, vec![-0.1]).is_err());
    assert!(CubicSaddles::new(2, 0.0, vec![0.1]).is_err());
}
