//! Gradient descent ascent: its rule by hand, and that its dual settles.

use std::ops::ControlFlow;

use dpopt_linalg::{Design, Domain};
use dpopt_minimax::{
    Budget, GdaPlan, Observer, Plan, Release, Run, RunError, SaddleFacts, SaddleLimits,
};
use dpopt_oracle::{
    AucSaddle, Cell, CellShares, EqualOpportunity, GroupDro, Joint, PrivateData, PrivateMean,
    ScoreSaddle, Scored,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};

use crate::common::unit;

fn budget(epsilon: f64) -> Budget {
    Budget {
        epsilon: Epsilon::new(epsilon).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn limits() -> SaddleLimits {
    SaddleLimits::steps(10_000)
}

/// Keeps every point.
#[derive(Default)]
struct Points(Vec<Vec<f64>>);

impl Observer for Points {
    fn on_release(&mut self, release: &Release<'_>) -> ControlFlow<()> {
        self.0.push(release.point.to_vec());
        ControlFlow::Continue(())
    }
}

/// By the formulas, from numbers that were worked out by hand: C_x = C_y = 1, so s = 1/4, C = sqrt(1 + 1/16); L_xx = 2 - 1.
#[test]
fn the_rule_by_hand() {
    let plan = GdaPlan::new(
        &unit(100_000, Adjacency::ReplaceOne),
        &budget(1.0),
        &limits(),
    )
    .unwrap();
    let of = plan.schedule();
    assert_eq!(of.scale, 0.25);
    assert!((of.clip - (17f64 / 16.0).sqrt()).abs() < 1e-15);
    let steps = of.steps as f64;
    assert!((of.momentum - (1.0 - 10.0 / steps)).abs() < 1e-15);
    assert!((of.dual_step_size - 10.0 / steps / 4.0).abs() < 1e-15);
    // The noise of all releases together is that of one of multiplier 1/mu.
    let mu = budget(1.0).mu().unwrap().get();
    assert!((of.noise_multiplier.get() * mu / steps.sqrt() - 1.0).abs() < 1e-12);
    // q = 0.75/tau with tau = 2 C/(n mu).
    let q = 0.75 * 1e5 * mu / (2.0 * of.clip);
    assert_eq!(steps, (10.0 * (q / 9.0).sqrt()).ceil());
    // As long a run as q steps of 1/L_xx = 1: the rounded number of steps makes each a little shorter.
    let horizon = of.step_size * steps * steps * 9.0 / 100.0;
    assert!(
        of.step_size <= 1.0 && of.step_size > 0.98,
        "{}",
        of.step_size
    );
    assert!((horizon / q - 1.0).abs() < 1e-12, "{horizon} {q}");
    assert!(plan.bound().is_none());
}

/// A plan without y and an oracle without y agree that there are no blocks.
#[test]
fn without_y_there_are_no_blocks() {
    let mut facts = unit(1000, Adjacency::ReplaceOne);
    facts.domain = Domain::Everywhere { dim: 0 };
    facts.mean.strong_concavity = 0.0;
    let plan = GdaPlan::new(&facts, &budget(1.0), &limits()).unwrap();
    assert_eq!(plan.blocks(), None);
    assert!(
        GdaPlan::new(&unit(1000, Adjacency::ReplaceOne), &budget(1.0), &limits())
            .unwrap()
            .blocks()
            .is_some()
    );
}

#[test]
fn points_outside_of_the_domain_are_refused() {
    let plan = GdaPlan::new(&unit(1000, Adjacency::ReplaceOne), &budget(1.0), &limits()).unwrap();
    let mut start = plan.start();
    assert!(plan.walk(&start).is_ok());
    // y_0 = 2 in a ball of radius 1.
    start[5] = 2.0 / plan.schedule().scale;
    assert!(matches!(
        plan.walk(&start),
        Err(RunError::StartOutside { coordinate: 5, .. })
    ));
}

/// Records with a constant feature and one of their own; the positive class is a tenth, and hard to tell.
fn table() -> (PrivateData, CellShares) {
    let (mut rows, mut labels) = (Vec::new(), Vec::new());
    for i in 0..20_000u32 {
        let (positive, group) = (i % 10 == 0, (i / 10 % 2) as usize);
        let signal = if positive { 0.3 } else { -0.3 } + f64::from(i * 7919 % 1000) / 1000.0 - 0.5;
        rows.extend([1.0, signal]);
        labels.push(Cell { positive, group }.label());
    }
    let share = |positive: f64| Some(0.5 * positive);
    let shares = CellShares::new(vec![[share(0.9), share(0.1)]; 2]).unwrap();
    let design = Design::dense(2, rows).unwrap();
    let norm = ClipNorm::new(1.5).unwrap();
    let data = PrivateData::made_up(design, labels, norm, Adjacency::ReplaceOne, None).unwrap();
    (data, shares)
}

/// The largest coordinate of y on the way, in the last half of the run, and the last point.
fn largest_weight(weight: f64, slower: f64) -> (f64, Vec<f64>, usize) {
    let (data, shares) = table();
    let loss = Scored::with_own_clips(GroupDro::new(&shares, true, weight).unwrap(), 1.5);
    let facts = SaddleFacts::scored(20_000, Adjacency::ReplaceOne, 2, 1.5, &loss);
    let plan = GdaPlan::new(&facts, &budget(8.0), &limits()).unwrap();
    let mut schedule = *plan.schedule();
    schedule.dual_step_size /= slower;
    let plan = GdaPlan::by_hand(&facts, &budget(8.0), schedule);
    let joint = Joint::new(loss, schedule.scale).unwrap();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    let mut means = PrivateMean::new(&data, joint, curator).unwrap();
    let mut points = Points::default();
    let start = plan.start();
    let run = Run::new(&mut points).starting_at(Some(&start));
    let outcome = plan.run_with(&mut means, run).unwrap();
    let blocks = plan.blocks().unwrap();
    let late = &points.0[points.0.len() / 2..];
    let weights = late.iter().flat_map(|point| blocks.split(point).1);
    let domain = facts.domain.dim();
    (weights.fold(0.0, f64::max), outcome.point, domain)
}

/// By the rule the weights settle inside of the simplex; a dual that is as fast as its curvature allows swings to vertices.
#[test]
fn the_dual_does_not_swing() {
    let (slow, _, groups) = largest_weight(0.5, 1.0);
    assert_eq!(groups, 4);
    assert!(slow < 0.7, "{slow}");
    let (fast, ..) = largest_weight(0.5, 1.0 / 128.0);
    assert!(fast > 0.95, "{fast}");
}

/// Weak regularisers have a dual that is paced by how it is coupled, not by its curvature m: for L_xy^2/L_xx = 4 g = 16 that is 1. At the pace of
/// m it swings.
#[test]
fn weak_regularisers_do_not_swing() {
    // All four groups are alike but for their classes: no weight is far from 1/4. At m = 0.02 the swing ends in vertices.
    for (weight, swing) in [(0.2, 0.5), (0.02, 0.95)] {
        let (slow, ..) = largest_weight(weight, 1.0);
        let (fast, ..) = largest_weight(weight, weight);
        assert!(slow < 0.4 && fast > swing, "{weight}: {slow} {fast}");
    }
}

/// lambda by hand: m = 0.2 and four groups are as m = 1.
#[test]
fn the_pace_of_the_dual_by_hand() {
    let (_, shares) = table();
    let dual = |weight| {
        let loss = Scored::with_own_clips(GroupDro::new(&shares, true, weight).unwrap(), 1.5);
        let facts = SaddleFacts::scored(20_000, Adjacency::ReplaceOne, 2, 1.5, &loss);
        let of = *GdaPlan::new(&facts, &budget(8.0), &limits())
            .unwrap()
            .schedule();
        of.dual_step_size / (1.0 - of.momentum)
    };
    for (weight, expected) in [(0.01, 0.25), (0.2, 0.25), (1.0, 0.25), (2.0, 0.125)] {
        assert!((dual(weight) / expected - 1.0).abs() < 1e-9, "{weight}");
    }
}

/// The start has all weight on the constant model: its worst group has no record right. Afterwards each group has most.
#[test]
fn the_worst_group_is_served() {
    let (_, point, _) = largest_weight(0.5, 1.0);
    for positive in [false, true] {
        let right = (0..1000u32).filter(|i| {
            let signal = if positive { 0.3 } else { -0.3 } + f64::from(*i) / 1000.0 - 0.5;
            (point[0] + signal * point[1] > 0.0) == positive
        });
        // The best that one threshold can do is 0.8 for both.
        assert!(right.count() > 650, "{positive} {point:?}");
    }
}

#[test]
fn objectives_have_facts_that_agree() {
    let (_, shares) = table();
    let facts = |facts: SaddleFacts| facts.check().unwrap();
    let relation = Adjacency::ReplaceOne;
    facts(SaddleFacts::scored(
        9,
        relation,
        3,
        2.0,
        &own(GroupDro::new(&shares, false, 1.0)),
    ));
    facts(SaddleFacts::scored(
        9,
        relation,
        3,
        2.0,
        &own(EqualOpportunity::new(&shares, 1.0)),
    ));
    facts(SaddleFacts::scored(
        9,
        relation,
        3,
        2.0,
        &own(AucSaddle::new(&shares)),
    ));
}

fn own<S: ScoreSaddle, E: std::fmt::Debug>(objective: Result<S, E>) -> Scored<S> {
    Scored::with_own_clips(objective.unwrap(), 2.0)
}

/// A plan for one domain of y is not run over another, whatever the blocks are.
#[test]
fn a_plan_for_another_domain_is_refused() {
    let shares = CellShares::new(vec![[Some(0.5), Some(0.2)], [Some(0.2), Some(0.1)]]).unwrap();
    let loss = Scored::with_own_clips(EqualOpportunity::new(&shares, 1.0).unwrap(), 1.0);
    let facts = SaddleFacts::scored(4, Adjacency::ReplaceOne, 2, 1.0, &loss);
    let other = SaddleFacts {
        domain: Domain::ball(2, 1.0),
        ..facts.clone()
    };
    for (facts, same) in [(facts, true), (other, false)] {
        let plan = GdaPlan::new(&facts, &budget(1.0), &SaddleLimits::steps(2)).unwrap();
        let design = Design::dense(2, vec![0.1; 8]).unwrap();
        let norm = ClipNorm::new(1.0).unwrap();
        let labels = vec![1.0, -1.0, 2.0, -2.0];
        let data = PrivateData::made_up(design, labels, norm, Adjacency::ReplaceOne, None).unwrap();
        let joint = Joint::new(loss.clone(), plan.schedule().scale).unwrap();
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut means = PrivateMean::new(&data, joint, curator).unwrap();
        let found = plan.run_with(&mut means, Run::new(&mut Points::default()));
        match found {
            Ok(_) => assert!(same),
            Err(error) => assert!(!same && matches!(error, RunError::Domain { .. }), "{error}"),
        }
        assert_eq!(means.counts().releases > 0, same);
    }
}
