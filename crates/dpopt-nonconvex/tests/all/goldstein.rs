//! The walk in blocks: what it asks, where it goes, what it returns.

use std::num::NonZeroUsize;

use dpopt_linalg::{Design, distance, dot, norm};
use dpopt_nonconvex::{
    AutoReason, EnvelopePlan, ExtraFacts, GOLDSTEIN, GOLDSTEIN_SAMPLED, GlmRun, GoldsteinPeriod,
    GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings, Limits, NoObserver, NoisyGdPlan,
    NoisyGdSchedule, OutputRule, Plan, PlanError, PublicFacts, RunError, SOLVERS, SpiderBoostPlan,
    Stop, auto,
};
use dpopt_oracle::{
    Activation, Answer, Batch, Convexity, FnOracle, Glm, Mean, Network, Offers, OracleFacts,
    PrivateData, Question, SmoothedFields,
};
use dpopt_privacy::{Accountant, Adjacency, ClipNorm, Curator, Event};

use crate::common::{budget, extra, facts, uniforms, z};

const DIM: usize = 3;
/// A direction of length 1.
const DOWN: [f64; DIM] = [0.6, 0.0, -0.8];

fn schedule(steps: u64, block: u64) -> GoldsteinSchedule {
    GoldsteinSchedule {
        steps,
        block,
        cap: 0.1,
        step_size: 0.05,
        smoothing: 1e-4,
        batch: Batch::All,
        directions: None,
        period: None,
        clip: 1.0,
        noise_multiplier: z(1.0),
    }
}

fn by_hand(schedule: GoldsteinSchedule) -> GoldsteinPlan {
    let radius = schedule.cap * (schedule.block as f64 + 1.0) / 2.0 + schedule.smoothing;
    let settings = GoldsteinSettings::at_radius(radius);
    GoldsteinPlan::by_hand(&facts(DIM, 100), &budget(1.0), &settings, schedule)
}

/// Walks down a field that is -DOWN everywhere, without noise: what was asked, and what came out.
fn walked(plan: &GoldsteinPlan, seed: u64) -> (Vec<Vec<f64>>, Vec<f64>) {
    let offers = plan.needs();
    let known = OracleFacts::new(DIM, 100, Adjacency::ReplaceOne, offers);
    let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    let mut asked = Vec::new();
    let mut oracle = FnOracle::new(known, curator, |_, question| {
        let mean = match question {
            Question::Mean { of, .. } if offers == Offers::MEANS => {
                asked.push(of.point().to_vec());
                DOWN.map(|x| -x).to_vec()
            }
            Question::Slopes { of, .. } if offers == Offers::SLOPES => {
                asked.push(of.point.to_vec());
                let mut slopes = vec![0.0; of.directions.count()];
                of.write(|w| -dot(w, &DOWN), &mut slopes);
                slopes
            }
            other => panic!("{other:?}"),
        };
        Ok(Answer::Mean(Mean::new(mean, 0.0)))
    });
    let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
    assert_eq!(outcome.stop, Stop::Completed);
    (asked, outcome.point)
}

/// After two steps of a block the displacement is D DOWN: each point is then a uniform share of a segment further, and one share for all
/// steps, or a fixed one, is told from that by its mean and its spread.
#[test]
fn gradients_are_asked_for_at_uniform_points_of_the_segments() {
    let (steps, block) = (4_000, 4_000);
    let (asked, _) = walked(&by_hand(schedule(steps, block)), 5);
    // Delta = 0, then 0.05, then 0.1 for good: the segment of step t starts at 0.05 + 0.1 (t - 2).
    let shares: Vec<f64> = (2..steps as usize)
        .map(|t| (dot(&asked[t], &DOWN) - 0.05) / 0.1 - (t - 2) as f64)
        .collect();
    // u is 1e-4 long at most, a thousandth of a segment.
    assert!(shares.iter().all(|s| (-1e-3..=1.001).contains(s)));
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    let variance = shares.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n;
    // Five standard errors, 1/sqrt(12 n) and 1/sqrt(180 n).
    assert!(
        (mean - 0.5).abs() < 5.0 / (12.0 * n).sqrt() + 1e-3,
        "{mean}"
    );
    assert!(
        (variance - 1.0 / 12.0).abs() < 5.0 / (180.0 * n).sqrt() + 1e-3,
        "{variance}"
    );
    // Across: u alone, in the ball.
    let across = |point: &[f64]| norm(&[point[1], dot(point, &[0.8, 0.0, 0.6])]);
    let longest = asked.iter().map(|point| across(point)).fold(0.0, f64::max);
    assert!(longest <= 1e-4 && longest > 0.9e-4, "{longest}");
}

/// Slopes smooth by themselves, so they are asked for on the segment, and whole frames find the gradient.
#[test]
fn slopes_are_asked_for_at_uniform_points_of_the_segments() {
    let whole = by_hand(GoldsteinSchedule {
        directions: NonZeroUsize::new(DIM),
        ..schedule(1_000, 1_000)
    });
    assert_eq!(whole.name(), "goldstein-zo");
    let (asked, _) = walked(&whole, 5);
    let shares: Vec<f64> = (2..asked.len())
        .map(|t| (dot(&asked[t], &DOWN) - 0.05) / 0.1 - (t - 2) as f64)
        .collect();
    assert!(shares.iter().all(|s| (-1e-6..=1.0 + 1e-6).contains(s)));
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    assert!((mean - 0.5).abs() < 0.05, "{mean}");
    // No u.
    let across = |point: &[f64]| norm(&[point[1], dot(point, &[0.8, 0.0, 0.6])]);
    assert!(asked.iter().all(|point| across(point) < 1e-6));
    // One direction finds it on average: every step is as long as the cap, and most lead down.
    let one = by_hand(GoldsteinSchedule {
        directions: NonZeroUsize::new(1),
        ..*whole.schedule()
    });
    let (asked, _) = walked(&one, 5);
    let down = dot(asked.last().expect("a point"), &DOWN);
    assert!((20.0..99.9).contains(&down), "{down}");
}

/// A period asks for the smoothed gradient at its first step and for the change from the point before at the others, each within
/// the radius of its own move; blocks hold whole periods.
#[test]
fn periods_ask_for_an_anchor_and_then_for_changes() {
    let one = NonZeroUsize::MIN;
    let plan = by_hand(GoldsteinSchedule {
        smoothing: 0.5,
        period: Some(GoldsteinPeriod {
            len: 4,
            changes: Batch::All,
            prefix: None,
            noise_multiplier: z(3.0),
            lipschitz: 1.0,
            fields: SmoothedFields::Gradients,
            offsets: one,
            frames: one,
        }),
        ..schedule(60, 12)
    });
    assert_eq!(plan.name(), "goldstein-recursive");
    let known = OracleFacts::new(DIM, 100, Adjacency::ReplaceOne, plan.needs());
    let curator = Curator::simulated(Adjacency::ReplaceOne, 2);
    let mut asked: Vec<Vec<f64>> = Vec::new();
    let mut oracle = FnOracle::new(known, curator, |_, question| {
        let Question::Smoothed {
            of,
            smoothing,
            noise,
            ..
        } = question
        else {
            panic!("{question:?}");
        };
        assert_eq!((smoothing.radius, smoothing.lipschitz), (0.5, 1.0));
        let anchor = asked.len().is_multiple_of(4);
        let mean = match of.before() {
            None => {
                assert!(anchor && noise == z(1.0) && of.radius().get() == 1.0);
                DOWN.map(|x| -x)
            }
            Some((segment, _)) => {
                assert!(!anchor && noise == z(3.0));
                assert_eq!(Some(segment.from), asked.last().map(|z| &z[..]));
                let length = distance(segment.from, segment.to);
                // 2 D, and sqrt(d) L move/a.
                assert!(length <= 0.2 * (1.0 + 1e-9));
                let radius = 3f64.sqrt() * length / 0.5;
                assert!((of.radius().get() / radius - 1.0).abs() < 1e-9);
                [0.0; DIM]
            }
        };
        asked.push(of.point().to_vec());
        Ok(Answer::Mean(Mean::new(mean.to_vec(), 0.0)))
    });
    let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
    assert_eq!(outcome.stop, Stop::Completed);
    assert_eq!(asked.len(), 60);
    // No u: all points are on the line. A block starts at rest.
    let across = |point: &[f64]| norm(&[point[1], dot(point, &[0.8, 0.0, 0.6])]);
    assert!(asked.iter().all(|point| across(point) < 1e-9));
    assert!(dot(&asked[59], &DOWN) > 4.0);
    assert!(distance(&asked[12], &asked[13]) <= 0.05 + 1e-9);
}

/// u is uniform in the ball: ||u||/a to the power d is uniform. On a sphere it would be 1.
#[test]
fn the_perturbation_fills_the_ball() {
    // Blocks of two: every other step starts at rest, so that u is all there is.
    let plan = by_hand(GoldsteinSchedule {
        step_size: 1e-30,
        ..schedule(4_000, 2)
    });
    let (asked, _) = walked(&plan, 9);
    let shares: Vec<f64> = asked.iter().map(|u| (norm(u) / 1e-4).powi(3)).collect();
    let n = shares.len() as f64;
    let mean = shares.iter().sum::<f64>() / n;
    assert!((mean - 0.5).abs() < 5.0 / (12.0 * n).sqrt(), "{mean}");
    assert!(shares.iter().all(|s| *s <= 1.0));
}

/// Blocks start at rest, their points lie within the radius of their mean, and that of one of them is returned, each as often.
#[test]
fn a_block_is_returned_and_its_points_are_within_the_radius() {
    let plan = by_hand(schedule(60, 12));
    let radius = plan.settings().radius;
    let mut chosen = [0u32; 5];
    for seed in 0..200 {
        let (asked, output) = walked(&plan, seed);
        let mut which = None;
        for (k, block) in asked.chunks(12).enumerate() {
            let mean: Vec<f64> = (0..DIM)
                .map(|i| block.iter().map(|y| y[i]).sum::<f64>() / 12.0)
                .collect();
            for point in block {
                assert!(distance(point, &mean) <= radius);
            }
            // At rest: the first two points of a block are a shift of u apart, up to half a step.
            assert!(distance(&block[0], &block[1]) <= 0.05 + 3e-4);
            if distance(&mean, &output) <= 1e-4 {
                which = Some(k);
            }
        }
        chosen[which.expect("the mean of a block")] += 1;
    }
    // Binomial(200, 1/5): 40, with a standard deviation of 5.7.
    assert!(
        chosen.iter().all(|count| (12..=68).contains(count)),
        "{chosen:?}"
    );
}

fn table(records: usize, adjacency: Adjacency) -> PrivateData {
    let mut next = uniforms(3);
    let mut rows = Vec::with_capacity(2 * records);
    let mut labels = Vec::with_capacity(records);
    for _ in 0..records {
        let row = [0.7 * next(), 0.7 * next()];
        labels.push((0.8 * row[0] - 0.5 * row[1]) as f32);
        rows.extend(row);
    }
    let design = Design::dense(2, rows).unwrap();
    let (one, declared) = (ClipNorm::new(1.0).unwrap(), Some(records as u64));
    let declared = declared.filter(|_| adjacency == Adjacency::AddRemove);
    PrivateData::new(design, labels, one, adjacency, declared)
        .unwrap()
        .with_label_bound(one)
}

fn kinks(records: u64, adjacency: Adjacency) -> PublicFacts {
    let constants = Glm::Absolute.constants_within(1.0, Some(1.0));
    PublicFacts::glm(records, 2, adjacency, 1.0, constants).unwrap()
}

/// Median regression, which has kinks: planned, paid for to the last release, and with a bound at the radius.
#[test]
fn a_loss_with_kinks_is_planned_run_and_bounded() {
    let records = 4_000;
    for adjacency in [
        Adjacency::ReplaceOne,
        Adjacency::ZeroOut,
        Adjacency::AddRemove,
    ] {
        let (data, facts) = (table(records, adjacency), kinks(records as u64, adjacency));
        for solver in SOLVERS.iter().filter(|solver| solver.accepts(adjacency)) {
            let plan = solver.plan(&facts, &extra(), &budget(4.0), &Limits::steps(400));
            if !solver.needs.goldstein && solver.states_a_bound() {
                // Proximal point has no use for the smoothness.
                let kinks = matches!(plan, Err(PlanError::Kinks));
                assert!(kinks || solver.name == "proximal-point", "{solver}");
                continue;
            }
            // Those without a bound plan by the gap.
            let plan = plan.unwrap();
            let curator = Curator::protected(adjacency).unwrap();
            let run = GlmRun::new(&data, Glm::Absolute, curator);
            let (outcome, _) = run.run(&*plan, &mut NoObserver).unwrap();
            assert_eq!(outcome.stop, Stop::Completed, "{solver}");
            let cost =
                |event: &Event| Accountant::least(event, budget(4.0).delta, adjacency).unwrap();
            let (spent, planned) = (cost(&outcome.spent), cost(plan.spend().event()));
            if solver.name == "goldstein-envelope" {
                // A phase comes to rest here, and a change over no way releases nothing; an anchor always does.
                let radius = extra().goldstein_radius.unwrap();
                let averaged = EnvelopePlan::averaged(&facts, radius).unwrap();
                let base = SpiderBoostPlan::new(&averaged, &budget(4.0), 400).unwrap();
                assert_eq!(base.steps(), plan.steps());
                let possible = base.schedule().anchors()..=plan.steps();
                assert!(possible.contains(&outcome.counts.releases), "{solver}");
                assert!(spent.1 <= planned.1, "{solver}");
            } else {
                assert_eq!(outcome.counts.releases, plan.steps(), "{solver}");
                assert_eq!(spent, planned, "{solver}");
            }
            let bound = outcome.bound();
            let of_population = solver.bound.is_some_and(|(_, sense)| sense.of_population());
            let stated = solver.needs.goldstein
                && adjacency.record_count_is_public()
                && (adjacency == Adjacency::ReplaceOne || !of_population);
            assert_eq!(bound.is_some(), stated, "{solver}");
            if let Some(bound) = bound {
                assert_eq!(Some(bound.quantity), solver.bound.map(|(of, _)| of));
                assert_eq!(bound.radius, extra().goldstein_radius);
                assert!(bound.value < 1.0 && bound.value > 0.0);
            }
        }
    }
}

/// A rule that only a walk in blocks can keep is refused elsewhere, before anything is reserved.
#[test]
fn a_block_is_not_asked_of_a_walk_without_blocks() {
    let facts = facts(DIM, 100);
    let plan = NoisyGdPlan::momentum(&facts, &budget(1.0), 10).unwrap();
    let schedule = NoisyGdSchedule {
        output: OutputRule::UniformBlock,
        ..*plan.schedule()
    };
    let plan = NoisyGdPlan::by_hand(&facts, &budget(1.0), schedule);
    let known = OracleFacts::new(DIM, 100, Adjacency::ReplaceOne, Offers::MEANS);
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut oracle = FnOracle::new(known, curator, |_, _| panic!("nothing may be asked"));
    let refused = plan.run(&mut oracle, &mut NoObserver);
    assert!(matches!(refused, Err(RunError::NoBlocks { .. })));
}

/// Sums in single precision shorten gradients by more than the bound allows for. In one pass the first release costs as much as all.
#[test]
fn inexact_sums_have_no_bound_and_one_pass_spends_all_at_once() {
    let facts = facts(DIM, 100_000);
    let settings = GoldsteinSettings::at_radius(1.0);
    let plan = GoldsteinPlan::new(&facts, &budget(1.0), &settings, 200).unwrap();
    for exact in [true, false] {
        let mut known = OracleFacts::new(DIM, facts.records, facts.adjacency, Offers::MEANS);
        known.exact_sums = exact;
        let curator = Curator::simulated(facts.adjacency, 1);
        let mut oracle = FnOracle::new(known, curator, |_, _| {
            Ok(Answer::Mean(Mean::new(DOWN.to_vec(), 0.0)))
        });
        let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
        assert_eq!(outcome.bound().is_some(), exact);
    }
    assert!(plan.share_spent(0) < 0.01);
    let pass = GoldsteinPlan::single_pass(&facts, &budget(1.0), &settings).unwrap();
    assert_eq!(pass.share_spent(0), 1.0);
}

/// The rule for kinks, from the plans themselves: the cheapest of those within 1.25 of the least bound.
#[test]
fn auto_takes_the_cheapest_of_the_nearly_best_at_a_radius() {
    let limits = Limits::steps(400);
    let mut taken = Vec::new();
    for (records, epsilon) in [
        (4_000, 4.0),
        (4_000, 0.5),
        (100_000, 0.5),
        (1_000_000, 4.0),
        (4_000, 3_000.0),
        (20, 0.1),
    ] {
        for convexity in [Convexity::Convex, Convexity::Nonconvex] {
            let facts = PublicFacts {
                convexity,
                ..kinks(records, Adjacency::ReplaceOne)
            };
            let found = auto(&facts, &extra(), &budget(epsilon), Some(&limits)).unwrap();
            let plans = [&GOLDSTEIN, &GOLDSTEIN_SAMPLED].map(|solver| {
                solver
                    .plan(&facts, &extra(), &budget(epsilon), &limits)
                    .ok()
            });
            let plans: Vec<_> = plans.into_iter().flatten().collect();
            let of = |plan: &dyn Plan| plan.bound().unwrap().value;
            let least = plans
                .iter()
                .map(|plan| of(&**plan))
                .fold(f64::INFINITY, f64::min);
            let good = plans.iter().filter(|plan| of(&***plan) <= 1.25 * least);
            let cheapest = good.min_by(|a, b| a.gradients().total_cmp(&b.gradients()));
            let (name, reason) = match cheapest {
                Some(plan) => (plan.name(), AutoReason::AtRadius),
                None => ("noisy-gd", AutoReason::VacuousAtRadius),
            };
            assert_eq!(
                (found.plan.name(), found.reason),
                (name, reason),
                "{records} {epsilon}"
            );
            assert_eq!(found.solver.name, name);
            taken.push(name);
        }
    }
    // Every line of the rule was seen.
    for name in ["noisy-gd", "goldstein", "goldstein-sampled"] {
        assert!(taken.contains(&name), "{taken:?}");
    }
    let plain = ExtraFacts::default();
    for (convexity, reason) in [
        (Convexity::Convex, AutoReason::Convex),
        (Convexity::Nonconvex, AutoReason::Kinks),
    ] {
        let facts = PublicFacts {
            convexity,
            ..kinks(4_000, Adjacency::ReplaceOne)
        };
        let found = auto(&facts, &plain, &budget(4.0), Some(&limits)).unwrap();
        assert_eq!((found.solver.name, found.reason), ("noisy-gd", reason));
    }
}

/// L0 = 2 and F0 = 3: C = 2, eta = 0.1 3/4 = 0.075, tau = 2 2/(n mu), q = 0.25 2/tau, T = ceil(10 sqrt(q/9)), beta = 1 - 10/T.
#[test]
fn the_plan_for_kinks_is_that_of_its_page() {
    let (records, mu) = (10_000u64, budget(1.0).mu().unwrap().get());
    let facts = PublicFacts {
        lipschitz: 2.0,
        initial_gap: 3.0,
        ..kinks(records, Adjacency::ReplaceOne)
    };
    let plan = NoisyGdPlan::momentum(&facts, &budget(1.0), 100_000).unwrap();
    let schedule = plan.schedule();
    assert_eq!(schedule.clip, 2.0);
    assert!((schedule.step_size - 0.075).abs() < 1e-15);
    let tau = 4.0 / (records as f64 * mu);
    let steps = (10.0 * (0.5 / tau / 9.0).sqrt()).ceil();
    assert!(steps > 50.0);
    assert_eq!(schedule.steps as f64, steps);
    assert!((schedule.momentum - (1.0 - 10.0 / steps)).abs() < 1e-12);
}

/// A network has a loss of its own output: another one is no part of the run.
#[test]
fn a_network_runs_with_its_own_loss_only() {
    let network = Network::new(2, Activation::Relu, Glm::Absolute).unwrap();
    let data = table(4_000, Adjacency::ReplaceOne);
    let constants = network.constants_within(1.0, Some(1.0));
    let facts = PublicFacts::glm(4_000, 4, Adjacency::ReplaceOne, 1.0, constants).unwrap();
    let plan = NoisyGdPlan::momentum(&facts, &budget(4.0), 3).unwrap();
    let run = |loss| {
        let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
        let run = GlmRun::new(&data, loss, curator).of_network(Some(network));
        run.run(&plan, &mut NoObserver).map(|_| ())
    };
    assert!(run(Glm::Absolute).is_ok());
    let refused = run(Glm::Hinge);
    assert!(matches!(
        refused,
        Err(RunError::OtherHead {
            loss: Glm::Hinge,
            head: Glm::Absolute
        })
    ));
}
