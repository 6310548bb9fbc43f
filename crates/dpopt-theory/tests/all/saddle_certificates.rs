//! Certificates of saddle problems: how often they are false, and twins that must be.
//!
//! Shares of what is false are held against what is planned by lower Clopper-Pearson limits at 99.9 %; seeds are fixed.
#![allow(
    clippy::print_stdout,
    reason = "the numbers of the pages, with --nocapture"
)]

use dpopt_linalg::norm;
use dpopt_minimax::{
    CertificateNoise, OnlyFirstOrder, SaddleCertificate, SaddleFacts, saddle_certificate,
};
use dpopt_oracle::{Answer, Mean, Number, Oracle, Question};
use dpopt_privacy::{Adjacency, Event, NoiseMultiplier, Spend};
use dpopt_theory::audit::binomial::upper_tail;
use dpopt_theory::{
    Around, ClosedForm, CosineSaddle, JointProblem, MinimaxProblem, QuadraticGame,
    SecondOrderMinimax, SimulatedOracle,
};

const FAILURE: f64 = 0.02;
/// A tenth of the squared mu of (1, 1e-6).
const COST: f64 = 0.0056;
const SCALE: f64 = 0.8;
const TRIALS: u64 = 1000;

/// Whether so many hits in so many trials are too many for probability `p`.
fn beyond(hits: u64, trials: u64, p: f64) -> bool {
    upper_tail(hits, trials, p) < 1e-3
}

/// A certificate at (x, y), by what `around` makes of an honest oracle's answers.
fn certified(
    problem: &impl SecondOrderMinimax,
    facts: &SaddleFacts,
    (x, y): (&[f64], &[f64]),
    seed: u64,
    lie: impl Fn(f64) -> f64,
) -> SaddleCertificate {
    let joint = JointProblem::new(problem, SCALE);
    let population = ClosedForm::new(&joint, facts.records)
        .with_hessians()
        .with_blocks(joint.blocks());
    let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed);
    let cap = Event::gaussian(NoiseMultiplier::new((1.01 * COST).powf(-0.5)).unwrap());
    oracle.books().reserve(&Spend::AtMost(cap)).unwrap();
    let mut lying = Around::new(
        oracle,
        |inner: &mut SimulatedOracle<_>, question: Question<'_>| {
            Ok(match inner.answer(question)? {
                Answer::Mean(x) => {
                    let std = lie(x.noise_std);
                    Answer::Mean(Mean::new(x.mean, std))
                }
                Answer::Number(x) => Answer::Number(Number::new(x.number, lie(x.noise_std))),
                other => other,
            })
        },
    );
    let noise = CertificateNoise::for_cost(facts, SCALE, COST, true).unwrap();
    let point = joint.blocks().join(x, y);
    saddle_certificate(facts, SCALE, &point, (&noise, FAILURE), &mut lying)
        .unwrap()
        .unwrap()
}

/// y* moved by `off` in a direction that the seed decides.
fn moved(problem: &CosineSaddle, x: &[f64], off: f64, seed: u64) -> Vec<f64> {
    let mut y = problem.best_response(x);
    let angle = |i: usize| ((seed * 31 + i as u64 + 1) as f64 * 1.7).sin();
    let direction: Vec<f64> = (0..y.len()).map(angle).collect();
    let length = norm(&direction);
    y.iter_mut()
        .zip(direction)
        .for_each(|(y, u)| *y += off * u / length);
    y
}

/// Of so many certificates: how many are false, and the median lower end.
fn falsehoods(
    problem: &CosineSaddle,
    records: u64,
    (x, off): (&[f64], f64),
    trials: u64,
) -> (u64, f64) {
    let facts = problem.facts(records);
    let (slope, least) = (problem.value_slope(x), problem.value_least_eigenvalue(x));
    let mut ends = Vec::new();
    let mut wrong = 0;
    // Other noise at each point and size.
    let cell = least.to_bits() ^ records.rotate_left(20) ^ (x.len() as u64).rotate_left(40);
    for trial in 0..trials {
        let y = moved(problem, x, off, trial);
        let found = certified(problem, &facts, (x, &y), cell ^ trial, |std| std);
        let curvature = found.hessian.unwrap();
        assert!(found.cost <= COST * 1.001);
        wrong +=
            u64::from(found.gradient < slope || curvature.least > least || found.distance < off);
        ends.push(curvature.least);
    }
    ends.sort_unstable_by(f64::total_cmp);
    (wrong, ends[ends.len() / 2])
}

/// At a minimum, with y off by its own noise: 1,000 runs.
#[test]
fn certificates_at_minima_are_true_and_say_something() {
    // Another program has, with C_F = sqrt(d) L: 0.72, 1.07, 1.20, 1.245 for d = 10; 0.71, 1.10, 1.24 at 3e4, 1e5, 1e6 for 40; 0.71, 1.20 at 1e5, 1e6 for 160.
    for (dim, records, expected) in [
        (10, 10_000, 0.72),
        (10, 30_000, 1.07),
        (10, 100_000, 1.2),
        (10, 1_000_000, 1.245),
        (40, 30_000, 0.71),
        (40, 100_000, 1.1),
        (160, 100_000, 0.71),
        (160, 1_000_000, 1.2),
    ] {
        let problem = CosineSaddle::new(dim / 2, dim / 2).unwrap();
        let mut x = vec![0.0; dim / 2];
        x[0] = std::f64::consts::PI;
        let off = (dim as f64).sqrt() * 40.0 / records as f64;
        let (wrong, end) = falsehoods(&problem, records, (&x, off), TRIALS);
        println!("minimum, d = {dim}, n = {records}: {wrong} false, median {end:.3}");
        assert!(!beyond(wrong, TRIALS, FAILURE), "{dim} {records} {wrong}");
        assert!(end > 0.93 * expected, "{dim} {records} {end}");
    }
}

/// No saddle is certified to be less of one, the weak ones included.
#[test]
fn saddles_are_certified_as_such() {
    for (dim, records) in [
        (10, 10_000),
        (10, 100_000),
        (10, 1_000_000),
        (40, 30_000),
        (40, 1_000_000),
        (160, 1_000_000),
    ] {
        for tau in [1.0, 0.35, 0.3] {
            let half = dim / 2;
            let problem = CosineSaddle::new(half, half).unwrap();
            let problem = problem.with_cosine(tau, 0.5, 1.0).unwrap();
            let (curvature, x) = (tau - 0.25, vec![0.0; half]);
            let (wrong, end) = falsehoods(&problem, records, (&x, 0.02), TRIALS);
            println!(
                "curvature -{curvature:.2}, d = {dim}, n = {records}: {wrong} false, median {end:.3}"
            );
            assert!(!beyond(wrong, TRIALS, FAILURE), "{tau} {records} {wrong}");
            assert!(end < -curvature + 1e-9);
        }
    }
}

/// Hidden convexity: f_xx = -1, and a certificate that the point is a minimum.
#[test]
fn curvature_that_only_y_gives_is_certified() {
    let problem = CosineSaddle::new(1, 1)
        .unwrap()
        .with_cosine(1.0, 1.0, 0.5)
        .unwrap();
    let (wrong, end) = falsehoods(&problem, 1_000_000, (&[0.0], 0.0), 300);
    assert!(!beyond(wrong, 300, FAILURE) && end > 0.9, "{wrong} {end}");
}

/// The margins are needed: what an oracle does that understates its noise three times is caught.
#[test]
fn understated_noise_makes_certificates_false() {
    let problem = CosineSaddle::new(1, 1)
        .unwrap()
        .with_cosine(1.0, 0.05, 1.0)
        .unwrap();
    let (records, x) = (10_000, [0.0]);
    let (facts, least) = (
        problem.facts(records),
        problem.value_least_eigenvalue(&[0.0]),
    );
    let wrong = |factor: f64| {
        (0..1000)
            .filter(|seed| {
                let found = certified(&problem, &facts, (&x, &[0.0]), *seed, |std| std * factor);
                found.hessian.unwrap().least > least || found.gradient < 0.0
            })
            .count() as u64
    };
    assert!(!beyond(wrong(1.0), 1000, FAILURE));
    assert!(beyond(wrong(1.0 / 3.0), 1000, FAILURE));
}

/// W = 5 and d2 = 20: noise of B' and C' counts W and W^2 times. With the margin of H' alone nearly half of the lower ends are false.
#[test]
fn noise_of_the_lift_counts() {
    let mut a = vec![10.0; 20];
    a[0] = -13.0;
    let mut b = vec![0.0; 20];
    b[0] = 5.0 * SCALE;
    let problem = QuadraticGame::new(a, b, vec![1.0; 20], 4.0).unwrap();
    let (records, x) = (1_000_000, [0.0; 20]);
    let (facts, least) = (problem.facts(records), problem.value_least_eigenvalue(&x));
    assert!((least - 3.0).abs() < 1e-12);
    let noise = CertificateNoise::for_cost(&facts, SCALE, COST, true).unwrap();
    let std = noise.hessian.unwrap().get() * 2.0 * facts.record.frobenius(SCALE) / records as f64;
    // The upper normal quantile at p/5 = 0.004.
    let margin = 2.652_07 * std;
    let (mut wrong, mut without, trials) = (0, 0, 1000);
    for seed in 0..trials {
        let found = certified(&problem, &facts, (&x, &[0.0; 20]), seed, |std| std);
        let found = found.hessian.unwrap();
        wrong += u64::from(found.least > least);
        without += u64::from(found.estimate - margin > least);
    }
    assert!(!beyond(wrong, trials, FAILURE), "{wrong}");
    assert!(without > trials / 10, "{without}");
}

/// The Hessian is released at y and not at y*: a twin that takes rho_J for 0 is false.
#[test]
fn the_change_of_the_hessian_with_y_counts() {
    let problem = CosineSaddle::new(1, 1).unwrap();
    let x = [0.5];
    // On the side where f_xx is larger than at y*.
    let y = [problem.best_response(&x)[0] - 0.2];
    let (records, least) = (1_000_000, problem.value_least_eigenvalue(&x));
    let honest = problem.facts(records);
    let mut twin = problem.facts(records);
    twin.mean.joint_hessian_lipschitz = 0.0;
    for seed in 0..50 {
        let end = |facts| {
            let found = certified(&problem, facts, (&x, &y), seed, |std| std);
            found.hessian.unwrap().least
        };
        assert!(end(&honest) <= least);
        assert!(end(&twin) > least);
    }
}

/// grad_x F = 0 at an y that is far from y*: the distance of y is what keeps the certificate true. A twin that overstates m ten times is false.
#[test]
fn the_distance_of_y_counts() {
    let problem = CosineSaddle::new(1, 1).unwrap();
    // -tau sin x + b y cos x = 0.
    let x = [0.5f64];
    let y = [x[0].tan() / 0.5];
    let (records, slope) = (1_000_000, problem.value_slope(&x));
    let honest = problem.facts(records);
    let mut twin = problem.facts(records);
    twin.mean.strong_concavity = 10.0;
    twin.mean.smooth_yy = 10.0;
    for seed in 0..50 {
        let gradient = |facts| certified(&problem, facts, (&x, &y), seed, |std| std).gradient;
        assert!(gradient(&honest) >= slope);
        assert!(gradient(&twin) < slope);
    }
    // There the edge of Y is nearer than the distance says.
    let found = certified(&problem, &honest, (&x, &y), 1, |std| std);
    assert_eq!(found.hessian.err(), Some(OnlyFirstOrder::DomainMayBind));
}

/// With next to no coupling nothing but the normal margins of the norm and of the Hessian is left, and half of the estimates are on the wrong
/// side.
#[test]
fn the_margins_of_norm_and_hessian_count() {
    let problem = QuadraticGame::new(vec![-1.0], vec![1e-4], vec![1.0], 4.0).unwrap();
    let (records, trials, x) = (100_000, 1000, [0.5]);
    let (facts, slope, least) = (
        problem.facts(records),
        problem.value_slope(&x),
        problem.value_least_eigenvalue(&x),
    );
    let (mut wrong, mut below, mut above) = ([0, 0], 0, 0);
    for seed in 0..trials {
        let y = problem.best_response(&x);
        let found = certified(&problem, &facts, (&x, &y), seed, |std| std);
        let hessian = found.hessian.unwrap();
        wrong[0] += u64::from(found.gradient < slope);
        wrong[1] += u64::from(hessian.least > least);
        below += u64::from(found.norm.norm < slope);
        above += u64::from(hessian.estimate > least);
    }
    assert!(
        wrong.iter().all(|wrong| !beyond(*wrong, trials, FAILURE)),
        "{wrong:?}"
    );
    assert!(below > trials / 3 && above > trials / 3, "{below} {above}");
}
