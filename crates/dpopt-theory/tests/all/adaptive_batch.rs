//! One pass to a second-order certificate for the population: what runs reach on samples, and how often a certificate is false.
//!
//! Every run draws its records independently from a population whose risk is known exactly. Shares of what is false are held against what is
//! planned by lower Clopper-Pearson limits at 99.9 %; seeds are fixed.

use dpopt_linalg::norm;
use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSchedule, AdaptiveBatchSettings, BoundSense, Budget,
    HessianFacts, NoObserver, Outcome, Plan, PublicFacts, Release, SecondOrderTargets, Stop,
    WalkConstants,
};
use dpopt_oracle::Loss as _;
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_theory::audit::binomial::upper_tail;
use dpopt_theory::{
    CubicSaddles, SecondOrderProblem, SimulatedOracle, Slide, Tilt, TiltedProblem, WeightedLoss,
    WeightedRecords, Wells,
};

const ONE: HessianFacts = HessianFacts {
    lipschitz: 1.0,
    frobenius: 1.0,
};

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

/// L0 = L1 = F0 = 1.
fn facts(dim: usize, records: u64) -> PublicFacts {
    PublicFacts::unit(records, dim)
}

/// splitmix64, as numbers in [0, 1).
fn uniforms(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// A sample of so many records, each of these kinds with this probability.
fn sample(kinds: &[(Tilt, f64)], records: u64, seed: u64) -> WeightedRecords<Vec<Tilt>> {
    let mut next = uniforms(seed ^ 0x5eed);
    let mut copies = vec![0u64; kinds.len()];
    for _ in 0..records {
        let mut left = next();
        let found = kinds.iter().position(|(_, share)| {
            left -= share;
            left < 0.0
        });
        copies[found.unwrap_or(kinds.len() - 1)] += 1;
    }
    let tilts = kinds.iter().map(|(tilt, _)| tilt.clone()).collect();
    WeightedRecords::new(tilts, copies).unwrap()
}

/// Waves of 20 directions with their opposites, equally likely, so that their mean is nothing.
fn waves(dim: usize) -> Vec<(Tilt, f64)> {
    let both = |tilt: Tilt| [(tilt.opposite(), 1.0 / 40.0), (tilt, 1.0 / 40.0)];
    Tilt::waves(dim, 20).into_iter().flat_map(both).collect()
}

/// A run on a sample, shown to an observer.
fn run_on<P: SecondOrderProblem + Sync>(
    loss: &TiltedProblem<P>,
    kinds: &[(Tilt, f64)],
    plan: &dyn Plan,
    seed: u64,
    observer: &mut dyn dpopt_nonconvex::Observer,
) -> Outcome {
    let records = sample(kinds, plan.facts().records, seed);
    let population = WeightedLoss::new(loss, &records).with_hessians();
    let mut oracle = SimulatedOracle::over(population, Adjacency::ReplaceOne, seed);
    plan.run(&mut oracle, observer).unwrap()
}

/// Whether the bound of a run is true of the population.
fn holds(problem: &dyn SecondOrderProblem, outcome: &Outcome) -> bool {
    let bound = outcome.bound().expect("no bound");
    assert_eq!(bound.sense, BoundSense::PopulationWithProbability);
    let mut gradient = vec![0.0; outcome.point.len()];
    problem.gradient(&outcome.point, &mut gradient);
    let least = problem.least_eigenvalue(&outcome.point);
    norm(&gradient) <= bound.value && least >= -bound.curvature.unwrap()
}

fn settings(constants: WalkConstants, alpha: f64) -> AdaptiveBatchSettings {
    AdaptiveBatchSettings::new(1_000_000)
        .with_constants(constants)
        .with_targets(SecondOrderTargets {
            gradient: alpha,
            curvature: alpha.sqrt().min(0.9),
        })
}

/// Runs on slides of slopes around what makes a candidate, and how many of them end in a certificate.
fn on_slides(constants: WalkConstants, alpha: f64, records: u64, seeds: u64) -> (u64, u64, f64) {
    const DIM: usize = 10;
    let (facts, kinds) = (facts(DIM, records), waves(DIM));
    let plan = AdaptiveBatchPlan::new(&facts, &ONE, &budget(), settings(constants, alpha)).unwrap();
    let (mut certified, mut all, mut read) = (0, 0, 0.0f64);
    for ratio in [0.4, 0.65, 0.8, 0.95, 1.1, 1.5] {
        let slope = (ratio * alpha).min(0.9);
        let slide = Slide::new(DIM, 1.0, slope).unwrap();
        let loss = TiltedProblem::new(slide, 0.0, 0.0, 1.0 - slope).unwrap();
        let known = loss.constants_on(&Vec::new());
        assert!((known.lipschitz - 1.0).abs() < 1e-12 && known.hessian_lipschitz <= 1.0);
        for seed in 0..seeds {
            let outcome = run_on(&loss, &kinds, &plan, seed, &mut NoObserver);
            all += 1;
            match outcome.stop {
                Stop::Certified => {
                    certified += 1;
                    assert!(holds(&slide, &outcome), "{ratio} {seed} {outcome:?}");
                    assert!(outcome.bound().unwrap().value <= alpha);
                    read = read.max(outcome.counts.records);
                }
                stop => {
                    assert_eq!(outcome.bound(), None);
                    assert_eq!(stop, Stop::RecordsExhausted, "{ratio} {seed}");
                }
            }
        }
    }
    (certified, all, read)
}

/// What one pass has to reach: the worst of slopes, real records.
#[test]
fn typical_runs_end_in_certificates() {
    for (alpha, records) in [(0.5, 12_000), (0.2, 60_000), (0.1, 300_000)] {
        let (certified, all, read) = on_slides(WalkConstants::Typical, alpha, records, 8);
        assert!(read <= records as f64);
        assert!(certified * 20 >= all * 19, "{alpha}: {certified} of {all}");
    }
}

#[test]
fn rigorous_runs_end_in_certificates() {
    for (alpha, records) in [(0.9, 120_000), (0.5, 500_000)] {
        let (certified, all, read) = on_slides(WalkConstants::Rigorous, alpha, records, 2);
        assert_eq!(certified, all, "{alpha}");
        // The theorem is for the dearest run.
        assert!(read < 0.7 * records as f64, "{alpha}: {read}");
    }
}

/// A saddle at the start, of which the certificate says nothing: the walk leaves it along what a Hessian shows, and F falls.
#[test]
fn runs_leave_the_saddle_that_they_start_at() {
    let wells = Wells::new(8, 0.1, vec![0.5, 0.25]).unwrap();
    let loss = TiltedProblem::new(wells.clone(), 0.0, 0.0, 0.2).unwrap();
    let (known, kinds) = (loss.constants_on(&Vec::new()), waves(8));
    let hessian = HessianFacts::of(&known);
    let facts = PublicFacts {
        lipschitz: known.lipschitz,
        smoothness: known.smoothness,
        initial_gap: known.initial_gap,
        ..facts(8, 400_000)
    };
    let targets = SecondOrderTargets {
        gradient: 0.15,
        curvature: 0.3,
    };
    let settings = AdaptiveBatchSettings::new(1_000_000).with_targets(targets);
    let plan = AdaptiveBatchPlan::new(&facts, &hessian, &budget(), settings).unwrap();
    for seed in 0..8 {
        let outcome = run_on(&loss, &kinds, &plan, seed, &mut NoObserver);
        assert_eq!(outcome.stop, Stop::Certified, "{seed}");
        assert!(
            holds(&wells, &outcome) && !outcome.returned_start(),
            "{outcome:?}"
        );
        let value = dpopt_theory::Problem::value(&wells, &outcome.point);
        assert!(value < -0.3, "{value}");
    }
}

/// Whether so many hits in so many trials are too many for probability `p`: whether the lower limit is above it.
fn beyond(hits: u64, trials: u64, p: f64) -> bool {
    upper_tail(hits, trials, p) < 1e-3
}

/// A schedule with all margins of certificates times so much.
fn with_margins(
    plan: &AdaptiveBatchPlan,
    times: f64,
    change: impl FnOnce(&mut AdaptiveBatchSchedule),
) -> AdaptiveBatchPlan {
    let mut schedule = *plan.schedule();
    schedule.certificate_log *= times * times;
    change(&mut schedule);
    let (facts, budget) = (plan.facts(), plan.budget());
    AdaptiveBatchPlan::by_hand(facts, plan.hessian(), budget, *plan.settings(), schedule).unwrap()
}

/// Records that are told apart the worst: curvatures of -1 and 1 along the first axis at the origin, -lambda in the mean, where the gradient
/// is zero. How many of so many runs are certified there.
fn false_curvatures(times: f64, runs: u64) -> (u64, f64) {
    const DIM: usize = 3;
    let plan = AdaptiveBatchPlan::new(
        &facts(DIM, 12_000),
        &ONE,
        &budget(),
        settings(WalkConstants::Typical, 0.5),
    )
    .unwrap();
    let lambda = 1.001 * plan.schedule().targets.curvature;
    // Nothing but the wave.
    let flat = CubicSaddles::new(DIM, 1.0, vec![1e-9]).unwrap();
    let loss = TiltedProblem::new(flat, 0.0, 0.0, 1.0).unwrap();
    let wave = Tilt {
        wave: vec![1.0, 0.0, 0.0],
        phase: 0.0,
        ..Tilt::linear(vec![0.0; DIM])
    };
    let kinds = [
        (wave.clone(), 0.5 * (1.0 + lambda)),
        (wave.opposite(), 0.5 * (1.0 - lambda)),
    ];
    let of_one = (-plan.schedule().certificate_log).exp();
    let plan = with_margins(&plan, times, |schedule| schedule.most_candidates = 1);
    let wrong = (0..runs)
        .filter(|seed| {
            let outcome = run_on(&loss, &kinds, &plan, *seed, &mut NoObserver);
            outcome.stop == Stop::Certified && outcome.returned_start()
        })
        .count();
    (wrong as u64, of_one)
}

/// Slopes of -1 and 1, alpha in the mean, everywhere, at a walk that takes every point for a candidate: certificates that were asked for, and
/// false ones.
fn false_gradients(times: f64, runs: u64) -> (u64, u64, f64) {
    const DIM: usize = 3;
    let alpha = 0.5;
    let plan = AdaptiveBatchPlan::new(
        &facts(DIM, 12_000),
        &ONE,
        &budget(),
        settings(WalkConstants::Typical, alpha),
    )
    .unwrap();
    let mean = 1.001 * alpha;
    let flat = CubicSaddles::new(DIM, 1.0, vec![1e-9]).unwrap();
    let loss = TiltedProblem::new(flat, 0.0, 1.0, 0.0).unwrap();
    let kinds = [
        (Tilt::linear(vec![1.0, 0.0, 0.0]), 0.5 * (1.0 + mean)),
        (Tilt::linear(vec![-1.0, 0.0, 0.0]), 0.5 * (1.0 - mean)),
    ];
    let of_one = (-plan.schedule().certificate_log).exp();
    let plan = with_margins(&plan, times, |schedule| schedule.candidate = 10.0);
    let (mut asked, mut wrong) = (0, 0);
    for seed in 0..runs {
        let outcome = run_on(&loss, &kinds, &plan, seed, &mut NoObserver);
        asked += outcome.norms;
        wrong += u64::from(outcome.stop == Stop::Certified);
    }
    (asked, wrong, of_one)
}

/// The two events of Theorem 1 are as rare as their shares of p are planned to be, on the records that make them the likeliest; with half of
/// the margins they are not.
#[test]
fn certificates_of_the_population_are_rarely_false() {
    const RUNS: u64 = 1_500;
    let (wrong, of_one) = false_curvatures(1.0, RUNS);
    assert!(!beyond(wrong, RUNS, of_one), "{wrong} curvatures");
    let (wrong, _) = false_curvatures(0.5, RUNS);
    assert!(beyond(wrong, RUNS, of_one), "{wrong} curvatures with half");
    let (asked, wrong, of_one) = false_gradients(1.0, RUNS);
    assert!(
        asked > 1_000 && !beyond(wrong, asked, of_one),
        "{wrong} of {asked} gradients"
    );
    let (asked, wrong, _) = false_gradients(0.5, RUNS);
    assert!(
        beyond(wrong, asked, of_one),
        "{wrong} of {asked} gradients with half"
    );
}

/// Noise and sampling that are left out of the margins, each by itself: a certificate of these records and not of the population is false of
/// it more often than planned.
#[test]
fn a_margin_without_sampling_is_caught() {
    // Noise alone: 8.4/b_c of a deviation, where sampling has 1/sqrt b_c.
    let plan = AdaptiveBatchPlan::new(
        &facts(3, 12_000),
        &ONE,
        &budget(),
        settings(WalkConstants::Typical, 0.5),
    )
    .unwrap();
    let batch = plan.schedule().norm_batch as f64;
    let noise = 2.0 * plan.schedule().noise_multiplier / batch;
    let share = noise / noise.hypot(batch.sqrt().recip());
    let (asked, wrong, of_one) = false_gradients(share, 600);
    assert!(beyond(wrong, asked, of_one), "{wrong} of {asked}");
}

/// Fewer records than the walk needs: it ends when the next batch is not there in full, says so, and states nothing.
#[test]
fn exhaustion_is_labelled() {
    let kinds = waves(10);
    let slide = Slide::new(10, 1.0, 0.2).unwrap();
    let loss = TiltedProblem::new(slide, 0.0, 0.0, 0.8).unwrap();
    let plan = AdaptiveBatchPlan::new(
        &facts(10, 60_000),
        &ONE,
        &budget(),
        settings(WalkConstants::Typical, 0.2),
    )
    .unwrap();
    let mut ends = Vec::new();
    for records in [3, 2_000, 5_000, 12_000] {
        let facts = facts(10, records);
        let few =
            AdaptiveBatchPlan::by_hand(&facts, &ONE, &budget(), *plan.settings(), *plan.schedule())
                .unwrap();
        let mut shortest = (f64::INFINITY, Vec::new());
        let mut observer = |release: &Release<'_>| {
            if release.norm < shortest.0 {
                shortest = (release.norm, release.point.to_vec());
            }
            std::ops::ControlFlow::Continue(())
        };
        let outcome = run_on(&loss, &kinds, &few, 5, &mut observer);
        assert_eq!(outcome.stop, Stop::RecordsExhausted, "{records}");
        assert_eq!(outcome.bound(), None);
        assert!(outcome.counts.records <= records as f64);
        // No saddle on the way: the shortest estimate of all, or the start.
        if records == 3 {
            assert!(outcome.returned_start() && outcome.steps == 0);
        } else {
            assert_eq!(outcome.point, shortest.1, "{records}");
        }
        ends.push(outcome.steps);
    }
    assert!(ends.is_sorted() && ends[0] < ends[3], "{ends:?}");
}
