//! DP-MF: the planned factor against dense matrices and all patterns of participation, the walk against one written apart, and what
//! no run can have.

use std::ops::ControlFlow;

use dpopt_linalg::dot;
use dpopt_nonconvex::{
    Batches, DP_MF, DpMfPlan, DpMfSchedule, DpMfSettings, ExtraFacts, Limits, NoObserver,
    NoisyGdPlan, Plan, PlanError, Release, RunError,
};
use dpopt_oracle::Oracle as _;
use dpopt_privacy::{
    Accountant, Adjacency, Event, PrefixError, PrefixKind, PrefixNoise, Spend, TunedFactor,
};

use crate::common::{
    DIM, LOSS, ROWS, budget, estimator, facts, facts_of_few, facts_under, few, raw, z,
};

type Matrix = Vec<Vec<f64>>;

fn settings(epochs: u64, batch: u64, momentum: f64) -> DpMfSettings {
    DpMfSettings {
        epochs,
        batch,
        sampling_rate: None,
        batches: Batches::Poisson,
        band: None,
        step_size: 0.5,
        momentum,
        cool_down: 0.0,
        clip: 1.0,
    }
}

/// A plan of so many epochs of so many slices of 10 records.
fn plan(epochs: u64, slices: u64, momentum: f64, band: Option<u64>) -> DpMfPlan {
    let settings = DpMfSettings {
        band,
        ..settings(epochs, 10, momentum)
    };
    DpMfPlan::with_settings(&facts(4, 10 * slices), &budget(1.0), settings, 1 << 20).unwrap()
}

fn lower(len: usize, column: impl Fn(usize) -> f64) -> Matrix {
    (0..len)
        .map(|t| {
            (0..len)
                .map(|j| t.checked_sub(j).map_or(0.0, &column))
                .collect()
        })
        .collect()
}

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    let n = a.len();
    let entry = |i: usize, j: usize| (0..n).map(|k| a[i][k] * b[k][j]).sum();
    (0..n)
        .map(|i| (0..n).map(|j| entry(i, j)).collect())
        .collect()
}

/// By forward substitution, column by column.
fn inverse(c: &Matrix) -> Matrix {
    let n = c.len();
    let mut out = vec![vec![0.0; n]; n];
    for j in 0..n {
        for i in j..n {
            let unit = f64::from(u8::from(i == j));
            let known: f64 = (j..i).map(|k| c[i][k] * out[k][j]).sum();
            out[i][j] = (unit - known) / c[i][i];
        }
    }
    out
}

/// The points after each step of heavy-ball steps of length 1 against unit steps: W.
fn workload(len: usize, momentum: f64) -> Matrix {
    let velocity = lower(len, |k| momentum.powi(k as i32));
    times(&lower(len, |_| 1.0), &velocity)
}

/// The largest squared norm of a sum of columns, at most `most` of them and `apart` apart: every pattern.
fn worst_pattern(c: &Matrix, most: u64, apart: u64) -> f64 {
    fn extend(c: &Matrix, most: u64, apart: u64, from: usize, sum: &[f64]) -> f64 {
        let mut worst: f64 = sum.iter().map(|x| x * x).sum();
        if most == 0 {
            return worst;
        }
        for step in from..c.len() {
            let sum: Vec<f64> = sum.iter().zip(c).map(|(s, row)| s + row[step]).collect();
            worst = worst.max(extend(c, most - 1, apart, step + apart as usize, &sum));
        }
        worst
    }
    extend(c, most, apart, 0, &vec![0.0; c.len()])
}

/// Mean over the points of the squared norms of the rows of W C^-1, times the squared sensitivity.
fn mean_error(c: &Matrix, w: &Matrix, square: f64) -> f64 {
    let noise = times(w, &inverse(c));
    let squares: f64 = noise.iter().flatten().map(|x| x * x).sum();
    square * squares / c.len() as f64
}

fn dense(factor: TunedFactor, len: usize) -> Matrix {
    let column = factor.coefficients();
    lower(len, |k| column.get(k).copied().unwrap_or(0.0))
}

fn tuned(plan: &DpMfPlan) -> TunedFactor {
    match plan.schedule().factor {
        PrefixKind::Tuned(factor) => factor,
        other => panic!("{other}"),
    }
}

const SHAPES: [(u64, u64); 8] = [
    (1, 1),
    (1, 24),
    (1, 64),
    (2, 32),
    (3, 8),
    (4, 16),
    (6, 4),
    (8, 8),
];

#[test]
fn what_is_planned_is_what_dense_matrices_say() {
    for (epochs, slices) in SHAPES {
        for band in [None, Some(1), Some(3), Some(epochs * slices)] {
            let band = band.filter(|&band| band <= epochs * slices);
            let plan = plan(epochs, slices, 0.9, band);
            let len = (epochs * slices) as usize;
            let noise = plan.schedule().noise().unwrap();
            let c = dense(tuned(&plan), len);
            let square = worst_pattern(&c, epochs, slices);
            let claimed = noise.sensitivity().powi(2);
            assert!(claimed >= square * (1.0 - 1e-14), "{epochs} {slices}");
            assert!(claimed <= square * (1.0 + 1e-9), "{epochs} {slices}");
            let back = inverse(&c);
            let b = times(&lower(len, |_| 1.0), &back);
            for t in 0..len {
                let squares = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>() * square;
                let step = t as u64 + 1;
                for (claimed, exact) in [
                    (noise.variance(step), squares(&b[t])),
                    (noise.step_variance(step), squares(&back[t])),
                ] {
                    let claimed = claimed.unwrap();
                    assert!((claimed / exact - 1.0).abs() < 1e-9, "{claimed} {exact}");
                }
            }
            // The mean of all gradients: the noise of the last prefix sum over their number.
            let unit = 2.0 * plan.schedule().noise_multiplier.get() * 0.1;
            let last = b[len - 1].iter().map(|x| x * x).sum::<f64>();
            let expected = unit * (square * last).sqrt() / len as f64;
            assert!((plan.mean_noise_std().unwrap() / expected - 1.0).abs() < 1e-9);
        }
    }
}

/// Against the square roots of the sums and of the workload with as many bands and with all, and against independent noise.
#[test]
fn no_square_root_leaves_less_noise_at_the_points() {
    for (epochs, slices) in SHAPES {
        for momentum in [0.0, 0.5, 0.9] {
            let len = (epochs * slices) as usize;
            let w = workload(len, momentum);
            let error = |c: &Matrix| mean_error(c, &w, worst_pattern(c, epochs, slices));
            let own = error(&dense(tuned(&plan(epochs, slices, momentum, None)), len));
            // (1 - x)^(-1/2) and (1 - beta x)^(-1/2), multiplied as power series.
            let root =
                |x: f64, k: usize| -> f64 { (1..=k).map(|j| x * (1.0 - 0.5 / j as f64)).product() };
            let of_workload =
                |k: usize| -> f64 { (0..=k).map(|j| root(1.0, j) * root(momentum, k - j)).sum() };
            for band in [1, slices as usize, len] {
                let cut = |k: usize, c: f64| if k < band { c } else { 0.0 };
                let sums = lower(len, |k| cut(k, root(1.0, k)));
                let both = lower(len, |k| cut(k, of_workload(k)));
                for other in [sums, both] {
                    let other = error(&other);
                    assert!(
                        own <= other * (1.0 + 1e-12),
                        "{epochs} {slices} {momentum} {band}: {own} {other}"
                    );
                }
            }
            // Two bands are too few, and that is noticed.
            if slices > 2 && epochs > 1 {
                let narrow = error(&dense(tuned(&plan(epochs, slices, momentum, Some(2))), len));
                assert!(narrow > 1.01 * own);
            }
        }
    }
}

/// The same where step sizes fall at the end: what is planned for that leaves no more noise than any of these, nor than what is planned
/// without it.
#[test]
fn a_cool_down_is_part_of_the_workload() {
    let mut gained = 0;
    for (epochs, slices) in [(1, 24), (1, 64), (4, 16), (6, 4), (8, 8)] {
        for (momentum, cool_down) in [(0.0, 0.5), (0.9, 0.3), (0.9, 1.0)] {
            let len = (epochs * slices) as usize;
            let cooling = (cool_down * len as f64).round();
            let sizes: Vec<f64> = (0..len)
                .map(|step| ((len - step) as f64 / (cooling + 1.0)).min(1.0))
                .collect();
            let w: Matrix = workload(len, momentum)
                .into_iter()
                .map(|row| row.iter().zip(&sizes).map(|(w, size)| w * size).collect())
                .collect();
            let settings = DpMfSettings {
                cool_down,
                ..settings(epochs, 10, momentum)
            };
            let facts = facts(4, 10 * slices);
            let own = DpMfPlan::with_settings(&facts, &budget(1.0), settings, 1 << 20).unwrap();
            let error = |c: &Matrix| mean_error(c, &w, worst_pattern(c, epochs, slices));
            let own = error(&dense(tuned(&own), len));
            let without = error(&dense(tuned(&plan(epochs, slices, momentum, None)), len));
            let at = format!("{epochs} {slices} {momentum} {cool_down}: {own} {without}");
            assert!(own <= without * (1.0 + 1e-3), "{at}");
            gained += usize::from(own < 0.998 * without);
            let root = |k: usize| -> f64 { (1..=k).map(|j| 1.0 - 0.5 / j as f64).product() };
            for band in [1, slices as usize, len] {
                let cut = |k: usize| if k < band { root(k) } else { 0.0 };
                let other = error(&lower(len, cut));
                assert!(own <= other * (1.0 + 1e-12), "{at} {band} {other}");
            }
        }
    }
    // A planner that leaves it out gains nothing.
    assert!(gained >= 5, "{gained}");
}

/// Of the sums themselves tuning leaves less noise than the square root with the best number of bands does.
#[test]
fn tuning_beats_the_square_root_of_the_sums_over_epochs() {
    for (epochs, slices) in [(4, 16), (6, 4), (8, 8)] {
        let len = (epochs * slices) as usize;
        let w = workload(len, 0.0);
        let error = |c: &Matrix| mean_error(c, &w, worst_pattern(c, epochs, slices));
        let own = error(&dense(tuned(&plan(epochs, slices, 0.0, None)), len));
        let least = (1..=len as u64)
            .map(|band| {
                let participation = plan(epochs, slices, 0.0, Some(1))
                    .schedule()
                    .participation();
                let noise =
                    PrefixNoise::new(PrefixKind::Banded { band }, len as u64, participation);
                noise.unwrap().mean_variance()
            })
            .fold(f64::INFINITY, f64::min);
        assert!(own < least, "{own} {least}");
    }
}

/// The noise of the last point over that of heavy-ball steps against full batches at the same budget and horizon, from power series: B is
/// 1/((1 - x) C), the velocity 1/(1 - beta x) of its differences.
fn relative_noise(plan: &DpMfPlan) -> f64 {
    let (schedule, records) = (plan.schedule(), plan.facts().records);
    let (len, beta) = (plan.steps() as usize, schedule.momentum);
    let column = tuned(plan).coefficients();
    let mut b: Vec<f64> = Vec::new();
    let (mut moved, mut squares) = (0.0, 0.0);
    let (mut velocity, mut reach) = (0.0, 0.0);
    for m in 0..len {
        let known = column.iter().enumerate().skip(1).take(m);
        b.push(1.0 - known.map(|(k, c)| c * b[m - k]).sum::<f64>());
        moved = beta * moved + b[m];
        squares += moved * moved;
        velocity = beta * velocity + 1.0;
        reach += velocity;
    }
    let square = schedule.noise().unwrap().sensitivity().powi(2);
    let share = 1.0 / (records / schedule.slices) as f64;
    (square * squares).sqrt() * share / (reach / records as f64)
}

/// The last sum moves by epochs x share if all steps of a record move alike: so no factor leaves less noise there than full batches do. And
/// what is planned leaves little more of it in the last point.
#[test]
fn noise_is_at_least_that_of_all_records_and_not_much_more() {
    for (records, epsilon) in [(20_000, 1.0), (200_000, 0.5), (200_000, 3.0)] {
        let facts = facts(50, records);
        let plan = DpMfPlan::new(&facts, &budget(epsilon), 10_000).unwrap();
        let schedule = plan.schedule();
        let mu = budget(epsilon).mu().unwrap().get();
        let full = facts.noise_std(schedule.clip, 1.0 / mu);
        assert!(plan.mean_noise_std().unwrap() > full * (1.0 - 1e-9));
        // A choice of the planner's, and the longer slices among uneven ones.
        let relative = relative_noise(&plan);
        assert!(relative < 1.25 * 1.02, "{relative} {schedule:?}");
        assert_eq!(schedule.noise_multiplier.get(), 1.0 / mu);
        assert!(plan.steps() <= 10_000);
        assert_eq!(plan.gradients(), (schedule.epochs * records) as f64);
    }
    // Few steps are kept to.
    for most in [1, 2, 7, 100] {
        let plan = DpMfPlan::new(&facts(50, 200_000), &budget(1.0), most).unwrap();
        assert!((1..=most).contains(&plan.steps()));
    }
    // Few records, which don't come out even.
    for records in [2, 10, 11, 37, 97] {
        for most in [1, 3, 4, 5, 30] {
            let plan = DpMfPlan::new(&facts(3, records), &budget(50.0), most).unwrap();
            assert!((1..=most).contains(&plan.steps()), "{records} {most}");
            let schedule = plan.schedule();
            let each = (0..schedule.slices).map(|slice| schedule.records_of(slice, records));
            assert_eq!(each.sum::<u64>(), records);
        }
    }
    // One record, and a budget that allows hardly a step.
    let plan = DpMfPlan::new(&facts(3, 1), &budget(0.1), 100).unwrap();
    assert_eq!(plan.schedule().slices, 1);
}

#[test]
fn a_run_without_noise_is_momentum_on_slices_in_turn() {
    let data = few(Adjacency::ReplaceOne);
    let facts = facts_of_few(Adjacency::ReplaceOne);
    let (rows, labels) = raw();
    let settings = DpMfSettings {
        // Eight slices, of 8, 8, 8, 8, 7, 7, 7 and 7 records.
        cool_down: 0.25,
        ..settings(3, 7, 0.8)
    };
    let planned = DpMfPlan::with_settings(&facts, &budget(1.0), settings, 100).unwrap();
    for factor in [
        planned.schedule().factor,
        PrefixKind::Independent,
        PrefixKind::Toeplitz,
        PrefixKind::Tree,
    ] {
        let schedule = DpMfSchedule {
            noise_multiplier: z(1e-9),
            factor,
            clip: 0.4,
            ..*planned.schedule()
        };
        let plan = DpMfPlan::by_hand(&facts, &budget(1.0), schedule);
        let mut oracle = estimator(&data, 3);
        let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
        assert_eq!(outcome.counts.passes, 3.0);
        // Written apart.
        let (mut w, mut v) = (vec![0.0; DIM], vec![0.0; DIM]);
        let ends = [0, 8, 16, 24, 32, 39, 46, 53, 60];
        for step in 0..24_usize {
            let slice = ends[step % 8]..ends[step % 8 + 1];
            let mut mean = [0.0; DIM];
            for i in slice.clone() {
                let (x, y) = (&rows[i], f64::from(labels[i]));
                let g = x.map(|x_j| LOSS.slope(dot(x, &w), y) * x_j);
                let norm = dot(&g, &g).sqrt();
                let kept = (0.4 / norm).min(1.0) / slice.len() as f64;
                mean.iter_mut().zip(&g).for_each(|(m, g)| *m += kept * g);
            }
            // The last six of 24 steps: 6/7, 5/7, ... of the step size.
            let cooled = ((24 - step) as f64 / 7.0).min(1.0);
            for i in 0..DIM {
                v[i] = 0.8 * v[i] - 0.5 * cooled * mean[i];
                w[i] += v[i];
            }
        }
        for (found, expected) in outcome.point.iter().zip(&w) {
            assert!(
                (found - expected).abs() < 1e-6,
                "{factor} {found} {expected}"
            );
        }
    }
}

/// One Gaussian of multiplier 1/mu for each record, however many epochs; every slice has paid for it after the first.
#[test]
fn a_run_costs_one_gaussian() {
    let data = few(Adjacency::ReplaceOne);
    let facts = facts_of_few(Adjacency::ReplaceOne);
    for epochs in [1, 4] {
        let plan =
            DpMfPlan::with_settings(&facts, &budget(1.0), settings(epochs, 10, 0.9), 100).unwrap();
        let mu = budget(1.0).mu().unwrap().get();
        let share = Event::gaussian(z(1.0 / mu));
        let spend = Event::ParallelComposed {
            events: vec![share],
        };
        assert_eq!(plan.spend(), Spend::Fixed(spend));
        for stop in [u64::MAX, 2] {
            let mut oracle = estimator(&data, 5);
            let mut seen = Vec::new();
            let mut observer = |release: &Release<'_>| {
                seen.push(release.noise_norm);
                if release.step >= stop {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let outcome = plan.run(&mut oracle, &mut observer).unwrap();
            let worth =
                Accountant::Gdp.epsilon(&outcome.spent, budget(1.0).delta, Adjacency::ReplaceOne);
            assert!((worth.unwrap() - 1.0).abs() < 1e-6, "{:?}", outcome.spent);
            assert_eq!(
                oracle.books().records_left(),
                if stop == 2 { 30 } else { 0 }
            );
            assert!(seen.iter().all(|noise| *noise > 0.0));
        }
    }
}

#[test]
fn numbers_that_no_run_can_have_are_refused_before_anything_is_drawn() {
    let facts = facts(4, 100);
    let refused = |change: fn(&mut DpMfSettings)| {
        let mut settings = settings(4, 10, 0.9);
        change(&mut settings);
        DpMfPlan::with_settings(&facts, &budget(1.0), settings, 100).unwrap_err()
    };
    let limits = |error: PlanError| match error {
        PlanError::Contradiction {
            name, value, limit, ..
        } => (name, value, limit),
        other => panic!("{other}"),
    };
    let bad = |error: PlanError| match error {
        PlanError::BadFact { name, .. } => name,
        other => panic!("{other}"),
    };
    assert_eq!(limits(refused(|s| s.batch = 101)), ("batch", 101.0, 100.0));
    assert_eq!(limits(refused(|s| s.band = Some(41))), ("band", 41.0, 40.0));
    assert_eq!(
        limits(refused(|s| s.momentum = 1.0)),
        ("momentum", 1.0, 1.0)
    );
    assert_eq!(
        limits(refused(|s| s.momentum = -0.1)),
        ("momentum", -0.1, 0.0)
    );
    assert_eq!(
        limits(refused(|s| s.cool_down = 1.5)),
        ("cool_down", 1.5, 1.0)
    );
    assert_eq!(bad(refused(|s| s.batch = 0)), "batch");
    assert_eq!(bad(refused(|s| s.epochs = 0)), "epochs");
    assert_eq!(bad(refused(|s| s.band = Some(0))), "band");
    assert_eq!(bad(refused(|s| s.step_size = -1.0)), "step_size");
    assert!(matches!(
        refused(|s| s.momentum = f64::NAN),
        PlanError::Contradiction {
            name: "momentum",
            ..
        }
    ));
    // Eleven epochs of ten slices.
    assert!(matches!(
        refused(|s| s.epochs = 11),
        PlanError::TooFewSteps {
            needed: 110,
            most: 100,
            ..
        }
    ));
    assert!(matches!(
        refused(|s| s.epochs = u64::MAX),
        PlanError::TooFewSteps { .. }
    ));
    // By hand, when it is walked.
    let data = few(Adjacency::ReplaceOne);
    let facts = facts_of_few(Adjacency::ReplaceOne);
    let plan = DpMfPlan::with_settings(&facts, &budget(1.0), settings(2, 10, 0.9), 100).unwrap();
    let walked = |change: fn(&mut DpMfSchedule)| {
        let mut schedule = *plan.schedule();
        change(&mut schedule);
        let plan = DpMfPlan::by_hand(&facts, &budget(1.0), schedule);
        let mut oracle = estimator(&data, 1);
        let error = plan.run(&mut oracle, &mut NoObserver).unwrap_err();
        assert_eq!(oracle.books().counts().releases, 0);
        assert_eq!(oracle.books().records_left(), ROWS as u64);
        match error {
            RunError::Schedule { name, .. } => name,
            other => panic!("{other}"),
        }
    };
    assert_eq!(walked(|s| s.epochs = 0), "number of steps");
    assert_eq!(walked(|s| s.slices = 0), "number of steps");
    assert_eq!(walked(|s| s.slices = 61), "number of slices");
    assert_eq!(walked(|s| s.momentum = 1.0), "momentum");
    assert!(matches!(
        TunedFactor::new(4, &[0.5, 0.7]),
        Err(PrefixError::Coefficient { place: 2, .. })
    ));
}

#[test]
fn one_record_more_would_shift_all_slices() {
    let facts = facts_under(4, 1000, Adjacency::AddRemove);
    let by_hand = DpMfPlan::with_settings(&facts, &budget(1.0), settings(2, 10, 0.9), 1000);
    let planned = DP_MF.plan(
        &facts,
        &ExtraFacts::default(),
        &budget(1.0),
        &Limits::steps(1000),
    );
    assert!(matches!(
        by_hand,
        Err(PlanError::NeedsPositions {
            slices: 100,
            records: 1000,
            ..
        })
    ));
    assert!(matches!(planned, Err(PlanError::NeedsPositions { .. })));
}

/// In as many passes as dp-mf makes, full batches are few steps: noisy gradient descent has no plan near it.
#[test]
fn passes_are_fewer_than_those_of_full_batches() {
    let facts = facts(50, 200_000);
    let full = NoisyGdPlan::momentum(&facts, &budget(1.0), 10_000).unwrap();
    let own = DpMfPlan::new(&facts, &budget(1.0), 10_000).unwrap();
    assert!(own.gradients() < 0.2 * full.gradients());
}
