//! The measured rates of private SpiderBoost and noisy gradient descent on the ramp-bowl.
//!
//! Error = the worst, over a logarithmic grid of ramp slopes g, of the mean over runs of the
//! output's gradient norm. The output is uniform over the points of a run, so the mean over a
//! run's points is its expectation given the run; taking that instead of one drawn point removes
//! most of the sampling error, and a few runs suffice.
//!
//! Tolerances. The bounds go as n^(-2/3) and n^(-1/2); integer T and q, and the finite range of
//! n, move the slope of the *planned* bounds by 0.01. The worst error over the grid of ratio
//! 1.26 may sit between two slopes, where it is lower by at most a few per cent, and the sampling
//! error of a worst mean is about as large; two such deviations of 5 % in opposite directions at
//! the ends of two decades move a slope by ln(1.1)/ln(100) = 0.02. So 0.08 leaves room for four
//! times that, and is less than half of the distance 1/6 between the two rates. Seeds are fixed:
//! the outcome does not vary from run to run.

use std::ops::ControlFlow;

use dpopt_linalg::norm;
use dpopt_nonconvex::{
    Budget, NoisyGdPlan, PublicFacts, Release, SolverPlan, SpiderBoostPlan, Stop,
};
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_theory::{LogLogFit, NoiseRule, Problem as _, Ramp, RampBowl, SimulatedEstimator};

const RUNS: u64 = 4;
/// 10^3 to 10^5 in half-decades.
const RECORDS: [u64; 5] = [1_000, 3_162, 10_000, 31_623, 100_000];
const TOLERANCE: f64 = 0.08;

struct Measured {
    bounds: Vec<f64>,
    /// Worst mean and worst root mean square over the grid of slopes.
    means: Vec<f64>,
    rms: Vec<f64>,
    slope: LogLogFit,
}

/// One size of the problem.
#[derive(Clone, Copy)]
struct Setting {
    records: u64,
    dim: usize,
    epsilon: f64,
}

impl Setting {
    fn budget(&self) -> Budget {
        Budget {
            epsilon: Epsilon::new(self.epsilon).unwrap(),
            delta: Delta::new(1e-5).unwrap(),
        }
    }
}

fn by_records(records: &[u64]) -> Vec<(f64, Setting)> {
    let setting = |records| Setting {
        records,
        dim: 10,
        epsilon: 1.0,
    };
    records.iter().map(|&n| (n as f64, setting(n))).collect()
}

fn by_dim() -> Vec<(f64, Setting)> {
    let setting = |dim| Setting {
        records: 30_000,
        dim,
        epsilon: 1.0,
    };
    let dims = [10usize, 30, 100, 300];
    dims.iter().map(|&d| (d as f64, setting(d))).collect()
}

/// Against mu, not epsilon: at fixed delta mu is no power of epsilon.
fn by_mu() -> Vec<(f64, Setting)> {
    let setting = |epsilon| Setting {
        records: 10_000,
        dim: 30,
        epsilon,
    };
    [0.25, 0.5, 1.0, 2.0, 4.0]
        .map(|epsilon| {
            let setting = setting(epsilon);
            (setting.budget().mu().unwrap().get(), setting)
        })
        .to_vec()
}

/// 20 slopes from 0.25 = L0/4 down to 0.003.
fn slopes() -> impl Iterator<Item = f64> {
    (0..20).map(|k| 0.25 * (0.003f64 / 0.25).powf(f64::from(k) / 19.0))
}

fn measure(
    settings: &[(f64, Setting)],
    rule: NoiseRule,
    ramp: Ramp,
    plan: impl Fn(&PublicFacts, &Budget) -> SolverPlan,
) -> Measured {
    let (mut bounds, mut means, mut rms) = (Vec::new(), Vec::new(), Vec::new());
    for (_, setting) in settings {
        let (n, dim) = (setting.records, setting.dim);
        let (mut bound, mut worst_mean, mut worst_square) = (0.0, 0.0f64, 0.0f64);
        for (k, slope) in slopes().enumerate() {
            let slope = slope.min(RampBowl::largest_slope(1.0, 1.0, 0.5, ramp));
            let problem = RampBowl::new(dim, 1.0, 1.0, 0.5, ramp, slope).unwrap();
            let plan = plan(&problem.facts(n, Adjacency::ReplaceOne), &setting.budget());
            bound = plan.predicted_bound().unwrap();
            let (mut sum, mut squares, mut points) = (0.0, 0.0, 0u64);
            for run in 0..RUNS {
                let seed = (n << 16) + ((k as u64) << 8) + run;
                let mut estimator =
                    SimulatedEstimator::new(&problem, n, Adjacency::ReplaceOne, seed)
                        .with_rule(rule);
                let mut gradient = vec![0.0; dim];
                let outcome = plan
                    .run(&mut estimator, &mut |release: &Release<'_>| {
                        problem.gradient(release.point, &mut gradient);
                        let exact = norm(&gradient);
                        sum += exact;
                        squares += exact * exact;
                        points += 1;
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                assert_eq!(outcome.stop, Stop::Completed);
                // Where F is quadratic the estimate halves with each step of a phase, down to
                // steps that vanish in rounding; those release nothing.
                assert!(outcome.spent.release_count() <= plan.steps());
            }
            worst_mean = worst_mean.max(sum / points as f64);
            worst_square = worst_square.max(squares / points as f64);
        }
        bounds.push(bound);
        means.push(worst_mean);
        rms.push(worst_square.sqrt());
    }
    let x: Vec<f64> = settings.iter().map(|(x, _)| *x).collect();
    let slope = LogLogFit::new(&x, &means, 0.95).unwrap();
    Measured {
        bounds,
        means,
        rms,
        slope,
    }
}

fn spiderboost(facts: &PublicFacts, budget: &Budget) -> SolverPlan {
    SolverPlan::SpiderBoost(SpiderBoostPlan::new(facts, budget, 1_000_000).unwrap())
}

fn noisy_gd(facts: &PublicFacts, budget: &Budget) -> SolverPlan {
    SolverPlan::NoisyGd(NoisyGdPlan::theory(facts, budget, 1_000_000).unwrap())
}

fn report(name: &str, m: &Measured) -> String {
    format!(
        "{name}: slope {:.3} [{:.3}, {:.3}], worst means {:.4?}, rms {:.4?}, bounds {:.4?}",
        m.slope.slope, m.slope.low, m.slope.high, m.means, m.rms, m.bounds
    )
}

fn under_the_bound(m: &Measured) -> bool {
    // The bound is on the root mean square, which is above the mean.
    m.rms.iter().zip(&m.bounds).all(|(e, b)| e <= b)
}

#[test]
fn spiderboost_has_its_rate_and_keeps_its_bound() {
    let m = measure(
        &by_records(&RECORDS),
        NoiseRule::Displacement,
        Ramp::Straight,
        spiderboost,
    );
    let text = report("spiderboost", &m);
    assert!((m.slope.slope + 2.0 / 3.0).abs() < TOLERANCE, "{text}");
    assert!(under_the_bound(&m), "{text}");
    // The problem is a hard one: an error far below the bound would say little.
    assert!(
        m.means.iter().zip(&m.bounds).all(|(e, b)| e > &(0.6 * b)),
        "{text}"
    );
}

#[test]
fn noisy_gradient_descent_has_its_rate_and_keeps_its_bound() {
    let m = measure(
        &by_records(&RECORDS),
        NoiseRule::Displacement,
        Ramp::Straight,
        noisy_gd,
    );
    let text = report("noisy gradient descent", &m);
    assert!((m.slope.slope + 0.5).abs() < TOLERANCE, "{text}");
    assert!(under_the_bound(&m), "{text}");
    assert!(
        m.means.iter().zip(&m.bounds).all(|(e, b)| e > &(0.6 * b)),
        "{text}"
    );
}

/// The rates in d and mu are those of sqrt(d)/(n mu). Deviations of 5 % at the ends move a slope by
/// ln(1.1)/ln(30) = 0.03 in d and ln(1.1)/ln(13) = 0.04 in mu; the two rates in d are 1/12 apart, so
/// 0.04 tells them apart there.
#[test]
fn the_rates_in_dimension_and_privacy() {
    type Planner = fn(&PublicFacts, &Budget) -> SolverPlan;
    let solvers: [(&str, Planner, f64); 2] = [
        ("spiderboost", spiderboost, 2.0 / 3.0),
        ("noisy gradient descent", noisy_gd, 0.5),
    ];
    for (name, plan, rate) in solvers {
        for (settings, expected, tolerance) in
            [(by_dim(), 0.5 * rate, 0.04), (by_mu(), -rate, TOLERANCE)]
        {
            let m = measure(&settings, NoiseRule::Displacement, Ramp::Straight, plan);
            let text = report(name, &m);
            assert!((m.slope.slope - expected).abs() < tolerance, "{text}");
            assert!(under_the_bound(&m), "{text}");
        }
    }
}

#[test]
fn the_bound_holds_on_the_nonconvex_ramp() {
    let m = measure(
        &by_records(&RECORDS[..4]),
        NoiseRule::Displacement,
        Ramp::Wavy,
        spiderboost,
    );
    let text = report("spiderboost, wavy", &m);
    assert!(under_the_bound(&m), "{text}");
}

#[test]
fn noise_by_the_lipschitz_constant_fails_this_test() {
    let m = measure(
        &by_records(&RECORDS[..4]),
        NoiseRule::Lipschitz,
        Ramp::Straight,
        spiderboost,
    );
    let text = report("control", &m);
    // Both criteria catch it: the bound at every n, and the slope.
    assert!(m.means.iter().zip(&m.bounds).all(|(e, b)| e > b), "{text}");
    assert!((m.slope.slope + 2.0 / 3.0).abs() > TOLERANCE, "{text}");
}
