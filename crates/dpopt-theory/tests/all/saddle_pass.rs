//! Saddle problems in one pass: where runs end, errors and paths against the plan, and certificates of the population.

use std::ops::ControlFlow;

use dpopt_linalg::distance;
use dpopt_minimax::{
    Budget, CertificateNoise, NoObserver, PassEstimate, Plan, Release, RgdaPassPlan,
    RgdaPassSchedule, RgdaPassSettings, RunError, SaddleFacts, SaddleLimits, Stop,
    saddle_certificate_unread,
};
use dpopt_oracle::{Blocks, Oracle as _, Segment};
use dpopt_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, PrefixKind, Spend};
use dpopt_theory::{
    CosineSaddle, Coupled, JointProblem, MinimaxProblem, Population, Ramp, RampBowl,
    SecondOrderMinimax, SimulatedOracle, Tilt, TiltedProblem, WeightedLoss,
};

const ALL: [PassEstimate; 4] = [
    PassEstimate::Chain,
    PassEstimate::Prefix(PrefixKind::Tree),
    PassEstimate::Prefix(PrefixKind::Toeplitz),
    PassEstimate::Rounds,
];
/// Part of the slope and the curvature in which records differ.
const SHARE: f64 = 0.5;

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(4.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn limits() -> SaddleLimits {
    SaddleLimits::steps(1 << 40)
}

/// A population with blocks, and Hessians where it has some.
struct Split<P>(P, Blocks);

impl<P: Population> Population for Split<P> {
    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn multiplicities(&self) -> &[u64] {
        self.0.multiplicities()
    }

    fn lipschitz(&self) -> f64 {
        self.0.lipschitz()
    }

    fn smoothness(&self) -> f64 {
        self.0.smoothness()
    }

    fn blocks(&self) -> Option<Blocks> {
        Some(self.1)
    }

    fn value(&self, record: usize, point: &[f64]) -> f64 {
        self.0.value(record, point)
    }

    fn gradient(&self, record: usize, point: &[f64], out: &mut [f64]) {
        self.0.gradient(record, point, out);
    }

    fn change(&self, record: usize, segment: &Segment<'_>, before: &[f64], out: &mut [f64]) {
        self.0.change(record, segment, before, out);
    }

    fn has_hessians(&self) -> bool {
        self.0.has_hessians()
    }

    fn hessian_vector(&self, record: usize, point: &[f64], direction: &[f64], out: &mut [f64]) {
        self.0.hessian_vector(record, point, direction, out);
    }
}

/// Facts of records that have 1/2 to 3/2 of the problem.
fn facts(problem: &dyn MinimaxProblem, records: u64) -> SaddleFacts {
    let mut facts = problem.facts(records);
    let (record, most) = (&mut facts.record, 1.0 + SHARE);
    record.lipschitz_x *= most;
    record.lipschitz_y *= most;
    record.smooth_xx *= most;
    record.smooth_xy *= most;
    record.smooth_yy *= most;
    record.hessian_frobenius *= most;
    facts
}

fn kinds(dim: usize) -> [Tilt; 1] {
    let share = SHARE;
    [Tilt {
        share,
        ..Tilt::linear(vec![0.0; dim])
    }]
}

fn coupled(slope: f64, kappa: f64) -> Coupled<RampBowl> {
    let ramp = RampBowl::new(5, 1.0, 1.0, 0.5, Ramp::Straight, slope).unwrap();
    let problem = Coupled::new(ramp, 5, 0.5, 1.0).unwrap();
    problem.with_condition(kappa).unwrap()
}

/// What is seen of a run: its outcome, the mean norm of grad Phi, and the mean squared error of v, at the points that steps start from.
fn seen<P: MinimaxProblem + Sync>(
    problem: &P,
    plan: &RgdaPassPlan,
    copies: u64,
    seed: u64,
) -> (dpopt_minimax::Outcome, f64, f64) {
    let blocks = plan.blocks().unwrap();
    let joint = JointProblem::new(problem, blocks.scale);
    let start = joint.start();
    let records = TiltedProblem::<RampBowl>::opposites(&kinds(blocks.dim()), copies).unwrap();
    let loss = TiltedProblem::new(joint, SHARE, 0.0, 0.0).unwrap();
    let population = Split(WeightedLoss::new(&loss, &records), blocks);
    let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed);
    let of = *plan.schedule();
    let (mut sum, mut squares, mut count) = (0.0, 0.0, 0.0);
    let mut watch = |release: &Release<'_>| {
        let since = release.step.checked_sub(of.before);
        if since.is_some_and(|since| since % (of.inner + 1) == of.inner) {
            let exact = problem.value_gradient(&release.point[..blocks.x]);
            sum += dpopt_linalg::norm(&exact);
            squares += distance(&release.vector[..blocks.x], &exact).powi(2);
            count += 1.0;
        }
        ControlFlow::Continue(())
    };
    let outcome = plan.run_from(&start, &mut oracle, &mut watch).unwrap();
    (outcome, sum / count, squares / count)
}

/// Also where y takes several steps: kappa_y = 3. The planned error is in the mean over runs, so that of one run is over thousands of steps or, at a fifth more, of few.
#[test]
fn errors_and_bounds_are_as_planned() {
    for (kappa, n) in [(1.0, 4_000_000), (3.0, 20_000_000)] {
        for estimate in ALL {
            let problem = coupled(0.2, kappa);
            let facts = facts(&problem, n);
            let settings = RgdaPassSettings::new(estimate);
            let plan = RgdaPassPlan::new(&facts, &budget(), settings, &limits()).unwrap();
            assert_eq!(plan.schedule().inner > 1, kappa > 1.0);
            let bound = plan.bound().unwrap().value;
            let (planned, _) = plan.aims().unwrap();
            let (mut errors, mut slopes) = (0.0, 0.0);
            let runs = 8;
            for seed in 0..runs {
                let (outcome, slope, error) = seen(&problem, &plan, 1 << 40, seed);
                assert_eq!(outcome.stop, Stop::Completed);
                assert!(outcome.counts.records <= n as f64);
                errors += error / runs as f64;
                slopes += slope / runs as f64;
            }
            let (error, slope) = (errors.sqrt(), slopes);
            assert!(error <= planned, "{estimate:?} {error} {planned}");
            // These records differ by little of what they may: it is not nothing.
            assert!(error > 0.03 * planned, "{estimate:?} {error} {planned}");
            assert!(slope <= bound, "{estimate:?} {slope} {bound}");
        }
    }
}

/// A walk that is longer than its records ends, reads no more than there are, and states nothing.
#[test]
fn runs_end_where_the_records_do() {
    let problem = coupled(0.2, 1.0);
    let facts = facts(&problem, 10_000);
    for estimate in ALL {
        let schedule = RgdaPassSchedule {
            estimate,
            scale: 1.0,
            inner: 1,
            before: 1,
            period: 4,
            periods: 1000,
            length: 0.01,
            anchor_batch: 300,
            rate: 5000.0,
            noise_multiplier: NoiseMultiplier::new(4.0).unwrap(),
        };
        let plan = RgdaPassPlan::by_hand(&facts, &budget(), schedule).unwrap();
        let (outcome, ..) = seen(&problem, &plan, 5000, 1);
        assert_eq!(outcome.stop, Stop::RecordsExhausted);
        assert_eq!(outcome.bound(), None);
        let left = 10_000.0 - outcome.counts.records;
        assert!(left >= 0.0, "{estimate:?} {left}");
        // What was left was less than one release needs: a joint displacement below 0.4, over a round's path.
        assert!(left < 2000.0, "{estimate:?} {left}");
    }
    // Fewer records than were planned for: refused before one is read.
    let settings = RgdaPassSettings::new(PassEstimate::Chain);
    let plan = RgdaPassPlan::new(
        &facts_of(&problem, 4_000_000),
        &budget(),
        settings,
        &limits(),
    )
    .unwrap();
    let blocks = plan.blocks().unwrap();
    let joint = JointProblem::new(&problem, blocks.scale);
    let start = joint.start();
    let population = dpopt_theory::ClosedForm::new(&joint, 1000).with_blocks(blocks);
    let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, 1);
    let error = plan
        .run_from(&start, &mut oracle, &mut NoObserver)
        .unwrap_err();
    assert!(matches!(error, RunError::TooFewUnread { .. }), "{error}");
}

fn facts_of(problem: &dyn MinimaxProblem, records: u64) -> SaddleFacts {
    facts(problem, records)
}

/// 1,000 certificates on slices of 3,000 records with hardly any noise, at a point that is neither stationary nor flat: at p = 0.1 each may be
/// false in 100 of them in the mean, and the chance of more than 143 is 1e-5. Without the margins for the sample half of them are.
#[test]
fn certificates_of_the_population_hold() {
    let problem = CosineSaddle::new(4, 4).unwrap();
    let facts = facts(&problem, 1 << 41);
    let blocks = facts.blocks(1.0);
    let joint = JointProblem::new(&problem, 1.0);
    let x = vec![0.7, 0.2, -0.1, 0.3];
    let y = problem.best_response(&x);
    let point = blocks.join(&x, &y);
    let (slope, least) = (problem.value_slope(&x), problem.value_least_eigenvalue(&x));
    let records = TiltedProblem::<RampBowl>::opposites(&kinds(8), 1 << 40).unwrap();
    let loss = TiltedProblem::new(joint, SHARE, 0.0, 0.0).unwrap();
    let z = NoiseMultiplier::new(1e-3).unwrap();
    let noise = CertificateNoise {
        x: z,
        y: Some(z),
        hessian: Some(z),
    };
    let (mut false_ones, mut bare, mut widths) = (0, 0, 0.0);
    for seed in 0..1000 {
        let population = Split(WeightedLoss::new(&loss, &records).with_hessians(), blocks);
        let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed);
        let three = Event::gaussian(z).repeated(3);
        let spend = Spend::Fixed(Event::ParallelComposed {
            events: vec![three],
        });
        oracle.books().reserve(&spend).unwrap();
        let slice = oracle.books().take_slice(3000).unwrap();
        let with = (&slice, &mut oracle as &mut dyn dpopt_oracle::Oracle);
        let found = saddle_certificate_unread(&facts, 1.0, &point, (&noise, 0.1), with)
            .unwrap()
            .unwrap();
        let curvature = found.hessian.unwrap();
        false_ones += usize::from(found.gradient < slope || curvature.least > least);
        // What was released alone.
        bare += usize::from(found.norm.norm < slope || curvature.estimate > least);
        widths += (found.gradient - slope) / 1000.0;
    }
    assert!(false_ones <= 143, "{false_ones}");
    assert!(bare > 375, "{bare}");
    assert!(widths < 3.0, "{widths}");
}

/// A run that keeps a third of its records for a certificate states what is true.
#[test]
fn certified_passes_state_what_is_true() {
    let problem = CosineSaddle::new(4, 4).unwrap();
    let n = 100_000_000;
    for estimate in ALL {
        let settings = RgdaPassSettings::new(estimate).certified_on(0.3);
        let plan = RgdaPassPlan::new(&facts(&problem, n), &budget(), settings, &limits()).unwrap();
        assert_eq!(plan.bound(), None);
        let blocks = plan.blocks().unwrap();
        let joint = JointProblem::new(&problem, blocks.scale);
        let start = joint.start();
        let records = TiltedProblem::<RampBowl>::opposites(&kinds(8), n / 2).unwrap();
        let loss = TiltedProblem::new(joint, SHARE, 0.0, 0.0).unwrap();
        for seed in 0..3 {
            let population = Split(WeightedLoss::new(&loss, &records).with_hessians(), blocks);
            let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed);
            let outcome = plan.run_from(&start, &mut oracle, &mut NoObserver).unwrap();
            let bound = outcome.bound().unwrap();
            let x = &outcome.point[..4];
            assert!(
                bound.value >= problem.value_slope(x),
                "{estimate:?} {bound:?}"
            );
            assert!(bound.value < plan.trivial_bound(), "{estimate:?} {bound:?}");
            // The slice of the certificate is read three times.
            assert!(outcome.counts.records <= 1.6 * n as f64);
            if let Some(curvature) = bound.curvature {
                assert!(-curvature <= problem.value_least_eigenvalue(x));
            }
        }
    }
}
