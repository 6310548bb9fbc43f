//! Tree-based private SPIDER: its planner against a table computed apart and from scratch, its walk against
//! the recursion of the paper, with the real estimator on small simulated data.

use std::ops::ControlFlow;

use dpopt_linalg::{distance, norm};
use dpopt_nonconvex::{
    NoObserver, Outcome, OutputRule, Plan as _, PlanError, PublicFacts, Release, ReleaseKind,
    RunError, Stop, TreeNoise, TreeSettings, TreeSpiderPlan, TreeSpiderSchedule, TreeTarget,
};
use dpopt_oracle::{
    ClosureLoss, Constants, Convexity, Differentiable, Oracle, PrivateData, PrivateMean, Question,
};
use dpopt_privacy::accounting::special::ndtr;
use dpopt_privacy::{Adjacency, Curator, Event, NoiseMultiplier, Refused};

use crate::common::{Through, budget, facts, z};

const MOST: u64 = 1 << 40;
const MEAN: TreeTarget = TreeTarget::Mean;
const HP: TreeTarget = TreeTarget::HighProbability { failure: 0.05 };
const RULE: TreeTarget = TreeTarget::Heuristic { safety: 1.5 };

fn plan(facts: &PublicFacts, target: TreeTarget) -> TreeSpiderPlan {
    let settings = TreeSettings::new(target).even_if_vacuous();
    TreeSpiderPlan::new(facts, &budget(1.0), settings, MOST).unwrap()
}

/// d, n, target, alpha, (b, D, P, T). Computed apart.
type Printed = (usize, u64, TreeTarget, f64, (u64, u32, f64, f64));
const TABLE: [Printed; 11] = [
    (10, 10_000, RULE, 0.190, (327, 2, 0.7, 15.0)),
    (10, 100_000, RULE, 0.0838, (794, 3, 0.5, 50.0)),
    (10, 1_000_000, RULE, 0.0351, (4_965, 5, 1.0, 57.0)),
    (10, 10_000_000, RULE, 0.0159, (19_678, 6, 1.0, 127.0)),
    (1_000, 1_000_000, RULE, 0.0714, (11_629, 4, 1.0, 28.0)),
    (100_000, 10_000_000, RULE, 0.0705, (112_669, 4, 1.0, 29.0)),
    (10, 10_000, HP, 0.399, (822, 1, 0.7, 8.0)),
    (10, 100_000, HP, 0.197, (3_324, 2, 0.7, 15.0)),
    (10, 1_000_000, HP, 0.102, (13_045, 3, 0.7, 30.0)),
    (10, 10_000_000, HP, 0.0501, (57_488, 4, 0.7, 57.0)),
    (1_000, 1_000_000, HP, 0.114, (15_889, 3, 0.7, 25.0)),
];

/// What an estimate's error has to be below, from scratch; `half` of the children for the mean over leaves.
fn need(
    f: &PublicFacts,
    mu: f64,
    batches: &[u64],
    reach: f64,
    rounds: f64,
    target: TreeTarget,
) -> f64 {
    let depth = batches.len() as i32 - 1;
    let share = if target == MEAN { 0.5 } else { 1.0 };
    let (mut sampling, mut noise) = (0.0, 0.0);
    for (j, &m) in batches.iter().enumerate() {
        let length = if j == 0 {
            f.lipschitz * f.lipschitz
        } else {
            share * (reach * 0.5f64.powi(j as i32)).powi(2)
        };
        sampling += length / m as f64;
        noise += length * (2.0 / (m as f64 * mu)).powi(2);
    }
    let dim = f.dim as f64;
    match target {
        TreeTarget::Heuristic { safety } => safety * (sampling + dim * noise).sqrt(),
        TreeTarget::HighProbability { failure } => {
            let l = (4.0 * rounds * 2f64.powi(depth) / failure).ln();
            noise.sqrt() * (dim.sqrt() + (2.0 * l).sqrt()) + (8.0 * sampling * l).sqrt()
        }
        _ => (sampling + dim * noise).sqrt(),
    }
}

/// The alpha of a plan by the closed forms (L0^2 + P^2)/b and (L0^2 + D P^2)/b^2 that its table was
/// made with, T P alpha >= 4 L1 F0 and P/2^D <= alpha.
fn specified(f: &PublicFacts, target: TreeTarget, shape: (u64, u32, f64, f64)) -> f64 {
    let mu = budget(1.0).mu().unwrap().get();
    let (root, depth, reach, rounds) = shape;
    let (b, dim) = (root as f64, f.dim as f64);
    let sampling = (1.0 + reach * reach) / b;
    let noise = 4.0 * (1.0 + f64::from(depth) * reach * reach) / (b * mu).powi(2);
    let by_error = match target {
        TreeTarget::HighProbability { failure } => {
            let l = (4.0 * rounds * 2f64.powi(depth as i32) / failure).ln();
            noise.sqrt() * (dim.sqrt() + (2.0 * l).sqrt()) + (8.0 * sampling * l).sqrt()
        }
        _ => 1.5 * (sampling + dim * noise).sqrt(),
    };
    let by_descent = 4.0 * f.smoothness * f.initial_gap / (rounds * reach);
    by_error
        .max(by_descent)
        .max(reach / f64::from(1u32 << depth))
}

/// The table follows from its constraints (to 5 %: P is printed to one digit). Ours have a better constant in the
/// descent, so that the plans are better than those of the table, by up to 40 %.
#[test]
fn the_table_is_reproduced_and_beaten() {
    for (dim, records, target, printed, shape) in TABLE {
        let f = facts(dim, records);
        let spec = specified(&f, target, shape);
        assert!(
            (spec / printed - 1.0).abs() < 0.05,
            "{dim} {records}: {spec} {printed}"
        );
        let ours = plan(&f, target).aim().unwrap() / 3.0;
        assert!(
            ours < printed && ours > 0.6 * printed,
            "{dim} {records}: {ours} {printed}"
        );
    }
}

#[test]
fn plans_satisfy_their_formulas() {
    let mu = budget(1.0).mu().unwrap().get();
    for target in [MEAN, HP, RULE] {
        for records in [20, 333, 10_000, 1_234_567, 1 << 40] {
            for dim in [1, 10, 2_000] {
                let f = facts(dim, records);
                let p = plan(&f, target);
                let expected: Vec<u64> = (0..=p.schedule().depth)
                    .map(|j| (p.schedule().batches[0] >> j).max(1))
                    .collect();
                assert_eq!(p.schedule().batches, expected);
                assert!(p.schedule().batches[0] >= p.schedule().leaves());
                let per_round: u64 = p.schedule().batches[0]
                    + (1..p.schedule().batches.len())
                        .map(|j| p.schedule().batches[j] << (j - 1))
                        .sum::<u64>();
                assert_eq!(p.schedule().records_per_round(), per_round);
                assert!(p.schedule().rounds * per_round <= records);
                assert!(p.gradients() <= 2.0 * records as f64);
                assert_eq!(
                    p.schedule().step_length,
                    p.schedule().reach / p.schedule().leaves() as f64
                );
                let rounds = p.schedule().rounds as f64;
                let error = need(
                    &f,
                    mu,
                    &p.schedule().batches,
                    p.schedule().reach,
                    rounds,
                    target,
                );
                let drive = 0.5 / (rounds * p.schedule().reach)
                    + 0.5 * p.schedule().reach / p.schedule().leaves() as f64;
                let bound = if target == MEAN {
                    drive + 2.0 * error
                } else {
                    3.0 * error.max(drive)
                };
                assert!(
                    (p.aim().unwrap() / bound - 1.0).abs() < 1e-9,
                    "{records} {dim}: {} {bound}",
                    p.aim().unwrap()
                );
                assert_eq!(
                    p.predicted_bound(),
                    (target != RULE).then_some(p.aim().unwrap())
                );
                assert_eq!(
                    p.schedule().threshold,
                    (target != MEAN).then_some(2.0 * (p.aim().unwrap() / 3.0))
                );
            }
        }
    }
}

/// No tree is the baseline: its error falls as n^(-1/4), a tree's as n^(-1/3), where noise doesn't matter.
#[test]
fn trees_beat_the_baseline_and_the_rates_are_theirs() {
    let slope = |depth: Option<u32>| {
        let aim = |n: f64| {
            let mut settings = TreeSettings::new(MEAN).even_if_vacuous();
            settings.depth = depth;
            let f = facts(10, n as u64);
            TreeSpiderPlan::new(&f, &budget(1.0), settings, MOST)
                .unwrap()
                .aim()
                .unwrap()
        };
        (aim(1e15) / aim(1e11)).ln() / 1e4f64.ln()
    };
    let (tree, flat) = (slope(None), slope(Some(0)));
    assert!((flat + 0.25).abs() < 0.005, "{flat}");
    // The logarithm: a round of depth D costs 1 + D/2 roots, and D grows with n.
    assert!(tree < -0.29 && tree > -0.34, "{tree}");
}

#[test]
fn bad_requests_are_typed_and_carry_numbers() {
    let try_plan = |f: &PublicFacts, settings| TreeSpiderPlan::new(f, &budget(1.0), settings, MOST);
    // 2^3 roots and 3 times 4 children.
    let error = try_plan(&facts(10, 19), TreeSettings::new(MEAN).with_depth(3)).unwrap_err();
    assert!(
        matches!(
            error,
            PlanError::TooFewRecords {
                records: 19,
                needed: 20,
                ..
            }
        ),
        "{error}"
    );
    let deep = TreeSettings::new(MEAN).with_depth(31);
    assert!(matches!(
        try_plan(&facts(10, 100), deep),
        Err(PlanError::TooDeep { depth: 31, .. })
    ));
    for bad in [0.0, 1.0, f64::NAN] {
        let settings = TreeSettings::new(TreeTarget::HighProbability { failure: bad });
        assert!(matches!(
            try_plan(&facts(10, 1_000_000), settings),
            Err(PlanError::BadFact {
                name: "failure",
                ..
            })
        ));
    }
}

const DIM: usize = 3;
type Record = [f64; DIM];

/// (1 + x_3) |w|^2/2 + <x, w>: records that differ in slope and in curvature. Clips at 8 never act.
fn loss() -> impl Differentiable<Records = Vec<Record>> {
    let constants = Constants::new(8.0, 2.0, 32.0, Convexity::Convex);
    let value = |x: &Record, w: &[f64]| {
        w.iter()
            .zip(x)
            .map(|(w, x)| 0.5 * (1.0 + 0.25 * x.abs()) * w * w + x * w)
            .sum()
    };
    ClosureLoss::new(
        DIM,
        constants,
        value,
        |x: &Record, w: &[f64], out: &mut [f64]| {
            for ((out, w), x) in out.iter_mut().zip(w).zip(x) {
                *out += (1.0 + 0.25 * x.abs()) * w + x;
            }
        },
    )
}

fn gradient(records: &[Record], w: &[f64]) -> Vec<f64> {
    (0..DIM)
        .map(|k| {
            let one = |x: &Record| (1.0 + 0.25 * x[k].abs()) * w[k] + x[k];
            records.iter().map(one).sum::<f64>() / records.len() as f64
        })
        .collect()
}

fn various(count: usize) -> Vec<Record> {
    let at = |i: usize, k: usize| (0.7 * i as f64 + 1.9 * k as f64).sin() - 0.8;
    (0..count).map(|i| [at(i, 0), at(i, 1), at(i, 2)]).collect()
}

/// A plan of a stated shape; `noise` is the multiplier.
fn shaped(records: u64, rounds: u64, batches: &[u64], step: f64, noise: f64) -> TreeSpiderPlan {
    let mut f = facts(DIM, records);
    (f.lipschitz, f.smoothness) = (8.0, 2.0);
    let p = plan(&f, MEAN);
    let depth = batches.len() as u32 - 1;
    let schedule = TreeSpiderSchedule {
        depth,
        rounds,
        batches: batches.to_vec(),
        step_length: step,
        reach: step * f64::from(1u32 << depth) * f.smoothness,
        noise_multiplier: NoiseMultiplier::new(noise).unwrap(),
        output: OutputRule::SmallestReleasedNorm,
        ..p.schedule().clone()
    };
    TreeSpiderPlan::by_hand(&f, &budget(1.0), *p.settings(), schedule)
}

/// The same plan with something else in its schedule.
fn with(plan: &TreeSpiderPlan, change: impl FnOnce(&mut TreeSpiderSchedule)) -> TreeSpiderPlan {
    let mut schedule = plan.schedule().clone();
    change(&mut schedule);
    TreeSpiderPlan::by_hand(plan.facts(), plan.budget(), *plan.settings(), schedule)
}

fn with_noise(plan: &TreeSpiderPlan, noise: TreeNoise) -> TreeSpiderPlan {
    let settings = plan.settings().with_noise(noise);
    let schedule = plan.schedule().clone();
    TreeSpiderPlan::by_hand(plan.facts(), plan.budget(), settings, schedule)
}

struct Run {
    outcome: Outcome,
    points: Vec<Vec<f64>>,
    norms: Vec<f64>,
    kinds: Vec<ReleaseKind>,
    left: u64,
}

fn walk(p: &TreeSpiderPlan, records: &[Record], seed: u64) -> Run {
    let data = PrivateData::made_up_of(records.to_vec(), Adjacency::ReplaceOne, None).unwrap();
    let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    let mut means = PrivateMean::new(&data, loss(), curator).unwrap();
    let (mut points, mut norms, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    let outcome = p
        .run(&mut means, &mut |release: &Release<'_>| {
            points.push(release.point.to_vec());
            norms.push(release.norm);
            kinds.push(release.kind);
            ControlFlow::Continue(())
        })
        .unwrap();
    Run {
        outcome,
        points,
        norms,
        kinds,
        left: means.books().records_left(),
    }
}

/// Algorithm 2 as the paper writes it, by recursion: each node reads the next records of the file.
struct ByRecursion<'a> {
    records: &'a [Record],
    batches: &'a [u64],
    step: f64,
    read: usize,
    point: Vec<f64>,
    leaves: Vec<Vec<f64>>,
    furthest: Vec<f64>,
}

impl ByRecursion<'_> {
    fn take(&mut self, depth: usize) -> &[Record] {
        let from = self.read;
        self.read += self.batches[depth] as usize;
        &self.records[from..self.read]
    }

    fn round(&mut self) {
        let w = self.point.clone();
        let g = gradient(self.take(0), &w);
        self.node(0, w, g);
    }

    fn node(&mut self, depth: usize, w: Vec<f64>, g: Vec<f64>) {
        if depth + 1 == self.batches.len() {
            self.leaves.push(w.clone());
            let scale = self.step / norm(&g);
            self.point = w.iter().zip(&g).map(|(w, g)| w - scale * g).collect();
            return;
        }
        self.node(depth + 1, w.clone(), g.clone());
        let here = self.point.clone();
        self.furthest[depth + 1] = self.furthest[depth + 1].max(distance(&here, &w));
        let batch = self.take(depth + 1).to_vec();
        let (new, old) = (gradient(&batch, &here), gradient(&batch, &w));
        let g = (0..DIM).map(|k| g[k] + new[k] - old[k]).collect();
        self.node(depth + 1, here, g);
    }
}

/// Order, parents, slices, the root after the last leaf, and lengths, for every depth up to 6, in both noise modes.
#[test]
fn the_walk_is_the_recursion_of_the_paper() {
    for depth in 0..=6usize {
        for noise in [TreeNoise::Actual, TreeNoise::Path] {
            // Batches that halve with floors, down to one record.
            let batches: Vec<u64> = (0..=depth).map(|j| (75u64 >> j).max(1)).collect();
            let per_round: u64 =
                batches[0] + (1..=depth).map(|j| batches[j] << (j - 1)).sum::<u64>();
            let records = various(3 * per_round as usize + 5);
            let p = shaped(records.len() as u64, 3, &batches, 0.02, 1e-8);
            let p = with_noise(&p, noise);
            let run = walk(&p, &records, 4);
            let mut paper = ByRecursion {
                records: &records,
                batches: &batches,
                step: 0.02,
                read: 0,
                point: vec![0.0; DIM],
                leaves: Vec::new(),
                furthest: vec![0.0; depth + 1],
            };
            (0..3).for_each(|_| paper.round());
            assert_eq!(run.points.len(), paper.leaves.len());
            assert_eq!(run.points.len(), 3 << depth);
            for (a, b) in run.points.iter().zip(&paper.leaves) {
                assert!(distance(a, b) < 1e-5, "{depth}: {a:?} {b:?}");
            }
            for (j, &far) in paper.furthest.iter().enumerate().skip(1) {
                assert!(far <= 0.02 * f64::from(1u32 << (depth - j)) * (1.0 + 1e-9));
            }
            for (leaf, kind) in run.kinds.iter().enumerate() {
                let root = leaf % (1 << depth) == 0;
                assert_eq!(*kind == ReleaseKind::Anchor, root);
            }
            // Every step has the planned length, that between rounds too.
            for pair in run.points.windows(2) {
                assert!((distance(&pair[0], &pair[1]) / 0.02 - 1.0).abs() < 1e-9);
            }
            assert_eq!(run.outcome.stop, Stop::Completed);
            assert_eq!(run.left, 5);
            assert_eq!(run.outcome.counts.records, 3.0 * per_round as f64);
            let twice = 2.0 * per_round as f64 - 75.0;
            assert_eq!(run.outcome.counts.gradients, 3.0 * twice);
            assert!((p.gradients() - 3.0 * twice).abs() < 1e-9);
        }
    }
}

/// With one gradient for all records the tree is normalised gradient descent with T 2^D steps.
#[test]
fn with_equal_records_it_is_normalised_descent() {
    let records = vec![[-1.0, 0.5, 0.25]; 400];
    let p = shaped(400, 8, &[16, 8, 4, 2], 0.01, 1e-8);
    let run = walk(&p, &records, 1);
    assert_eq!(run.points.len(), 64);
    let mut w = vec![0.0; DIM];
    for point in &run.points {
        assert!(distance(point, &w) < 1e-5);
        let g = gradient(&records[..1], &w);
        let scale = 0.01 / norm(&g);
        w.iter_mut().zip(&g).for_each(|(w, g)| *w -= scale * g);
    }
}

#[test]
fn an_early_stop_leaves_later_records_unread_and_a_full_run_says_so() {
    let records = vec![[-1.0, 0.5, 0.25]; 400];
    let p = shaped(400, 8, &[16, 8, 4, 2], 0.02, 1e-8);
    let full = walk(&p, &records, 1);
    assert_eq!(full.outcome.stop, Stop::Completed);
    // Between the norms of leaves 10 and 11: stops at 11, the fourth leaf of the second round.
    let between = 0.5 * (full.norms[10] + full.norms[11]);
    let p = with(&p, |schedule| schedule.threshold = Some(between));
    let early = walk(&p, &records, 1);
    assert_eq!(early.outcome.stop, Stop::SmallEstimate);
    assert_eq!((early.outcome.steps, early.points.len()), (12, 12));
    assert!(distance(&early.outcome.point, &early.points[11]) == 0.0);
    // Root and 7 children of the first round; root and children 1, 2, 3 of the second.
    let read = (16 + 4 * 2 + 2 * 4 + 8) + (16 + 2 + 4 + 2);
    assert_eq!(early.left, 400 - read);
    // A run that never stops returns the leaf of the smallest estimate.
    let p = with(&p, |schedule| schedule.threshold = Some(1e-12));
    let never = walk(&p, &records, 1);
    assert_eq!(never.outcome.stop, Stop::Completed);
    let best = (0..64)
        .min_by(|&a, &b| never.norms[a].total_cmp(&never.norms[b]))
        .unwrap();
    assert_eq!(never.outcome.point, never.points[best]);
}

#[test]
fn it_is_refused_where_it_can_not_run() {
    let p = shaped(40, 1, &[8, 4], 0.1, 1.0);
    // More rounds than the records are enough for: refused before one of them is read.
    let long = with(&p, |schedule| schedule.rounds = 8);
    let data = PrivateData::made_up_of(various(40), Adjacency::ReplaceOne, None).unwrap();
    let means =
        || PrivateMean::new(&data, loss(), Curator::simulated(Adjacency::ReplaceOne, 1)).unwrap();
    let mut unread = means();
    let error = long.run(&mut unread, &mut NoObserver).unwrap_err();
    let RunError::TooFewUnread { needed, left, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((needed, left), (long.unread(), 40));
    assert_eq!(unread.curator().spent(), Event::NoOp);
    assert_eq!(unread.books().records_left(), 40);
    // So is a plan for as many as there are where some were read before.
    let mut read = means();
    read.books().take_slice(41 - p.unread()).unwrap();
    let error = p.run(&mut read, &mut NoObserver).unwrap_err();
    let RunError::TooFewUnread { needed, left, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((needed, left), (p.unread(), p.unread() - 1));
    // Another noise than the plan's is not in the reservation.
    let mut quiet = Through::new(means(), |inner, question| match question {
        Question::Mean { of, over, noise } => {
            let noise = z(0.5 * noise.get());
            inner.answer(Question::Mean { of, over, noise })
        }
        other => inner.answer(other),
    });
    let error = p.run(&mut quiet, &mut NoObserver).unwrap_err();
    assert!(
        matches!(error, RunError::Refused(Refused::NotReserved { .. })),
        "{error}"
    );
    assert_eq!(quiet.inner.counts().releases, 0);
}

/// The noise of the last leaf of a round in path mode is exactly normal, of the variance sigma_0^2 + sum_j sigma_j^2.
/// Kolmogorov-Smirnov at level 1e-4 (2.23/sqrt N), for noise by the path; the same statistic catches noise by the
/// root's clip, and noise from nominal batches b/2^j where the floor is half of that.
#[test]
fn the_last_leaf_has_the_planned_noise() {
    let records = vec![[-0.5, 0.25, 0.125]; 64];
    let batches = [7u64, 3, 1];
    let p = with_noise(&shaped(64, 1, &batches, 0.05, 0.2), TreeNoise::Path);
    let variance = |sizes: [f64; 3], radius: &dyn Fn(i32) -> f64| -> f64 {
        (0..3)
            .map(|j| (2.0 * 0.2 * radius(j) / sizes[j as usize]).powi(2))
            .sum()
    };
    let path = |j: i32| {
        if j == 0 {
            8.0
        } else {
            p.schedule().reach * 0.5f64.powi(j)
        }
    };
    let right = variance([7.0, 3.0, 1.0], &path);
    let by_clip = variance([7.0, 3.0, 1.0], &|_| 8.0);
    let nominal = (2.0 * 0.2 * 8.0 / 7.0f64).powi(2) * 0.5;
    let mut residuals = Vec::new();
    for seed in 0..400 {
        let data = PrivateData::made_up_of(records.clone(), Adjacency::ReplaceOne, None).unwrap();
        let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        let mut means = PrivateMean::new(&data, loss(), curator).unwrap();
        let mut tree = p.estimate().unwrap();
        means.books().reserve(&p.spend()).unwrap();
        let mut w = vec![0.0; DIM];
        let mut last = Vec::new();
        for _ in 0..4 {
            let g = tree.estimate(&mut means, &w).unwrap();
            let g = g.estimate.gradient.to_vec();
            let exact = gradient(&records, &w);
            last = g.iter().zip(&exact).map(|(g, e)| g - e).collect();
            let scale = p.schedule().step_length / norm(&g);
            w.iter_mut().zip(&g).for_each(|(w, g)| *w -= scale * g);
        }
        residuals.extend(last);
    }
    residuals.sort_by(f64::total_cmp);
    let count = residuals.len() as f64;
    let statistic = |variance: f64| {
        let gap = |(i, r): (usize, &f64)| {
            let p = ndtr(r / variance.sqrt());
            (p - i as f64 / count)
                .abs()
                .max((p - (i + 1) as f64 / count).abs())
        };
        residuals.iter().enumerate().map(gap).fold(0.0, f64::max) * count.sqrt()
    };
    assert!(statistic(right) < 2.23, "{}", statistic(right));
    assert!(statistic(by_clip) > 2.23 && statistic(nominal) > 2.23);
}

/// Theorem 4 as printed: its C makes 2 alpha C larger than any gradient, so the walk "succeeds" at the start.
#[test]
fn the_printed_threshold_stops_at_the_start_whatever_the_gradient() {
    let (n, d, epsilon) = (1e6f64, 10.0f64, 1.0f64);
    let (delta, gap, p) = (1e-5, 0.5, 0.05);
    let b = f64::max(
        n.powf(2.0 / 3.0),
        n.sqrt() * f64::powf(d, 0.25) / f64::sqrt(epsilon),
    );
    // D 2^(D+1) = b.
    let (mut low, mut high) = (0.0, 60.0);
    for _ in 0..200 {
        let middle: f64 = 0.5 * (low + high);
        if middle * (middle + 1.0).exp2() < b {
            low = middle;
        } else {
            high = middle;
        }
    }
    let rounds = n / (b * (low / 2.0 + 1.0));
    let alpha = 2f64.sqrt() * f64::max(n.powf(-1.0 / 3.0), (d.sqrt() / (n * epsilon)).sqrt());
    let c = 256.0 * f64::ln(1.25 / delta) * (2.0 * rounds * (low + 1.0).exp2() / p).ln()
        + 8.0 * gap * (2.0 * low).sqrt() * (low / 2.0 + 1.0) / 2.0;
    assert!(c > 3e4 && 3.0 * c * alpha > 1e3, "{c} {alpha}");
    // A gradient of sqrt(3), far above the 0.3 that it could reach here.
    let records = vec![[-1.0, 1.0, 1.0]; 400];
    let printed = with(&shaped(400, 8, &[16, 8, 4, 2], 0.1, 1e-3), |schedule| {
        schedule.threshold = Some(2.0 * c * alpha);
    });
    let run = walk(&printed, &records, 1);
    assert_eq!(
        (run.outcome.stop, run.outcome.steps),
        (Stop::SmallEstimate, 1)
    );
    assert_eq!(run.outcome.point, vec![0.0; DIM]);
    let repaired = with(&printed, |schedule| schedule.threshold = None);
    let repaired = walk(&repaired, &records, 1);
    assert!(norm(&gradient(&records, &repaired.outcome.point)) < 0.3);
}
