//! Runs on samples beside other releases: the composition, and not a sum of squares; rgda on samples.

use std::ops::ControlFlow;

use dpopt_linalg::Domain;
use dpopt_minimax::{
    Allowance, Budget, GDA, Plan, PlanError, Release, ReleaseKind, RgdaPlan, Run, SGDA,
    SaddleFacts, SaddleLimits, SgdaPlan, SharesPlan, Stop,
};
use dpopt_oracle::{Joint, PrivateData, PrivateMean, SaddleConstants, SaddleLoss};
use dpopt_privacy::accounting::AccountingError;
use dpopt_privacy::{
    Accountant, Adjacency, Curator, Delta, Epsilon, Event, NoiseMultiplier, SamplingRate, Spend,
};

use crate::common::unit;

const RELATIONS: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::ZeroOut,
    Adjacency::AddRemove,
];

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn limits() -> SaddleLimits {
    SaddleLimits::steps(100_000_000)
}

/// What PLDs say of a composition: another computation than the one that the noise was calibrated with, where that was by contours.
fn epsilon(event: &Event, adjacency: Adjacency) -> f64 {
    let all: Vec<f64> = [Accountant::Pld, Accountant::Rdp, Accountant::Exact]
        .into_iter()
        .filter_map(|accountant| {
            let found = accountant.epsilon(event, budget().delta, adjacency);
            found.ok()
        })
        .collect();
    all.into_iter().fold(f64::INFINITY, f64::min)
}

/// Shares, the run, and a certificate: together the budget, under each relation, and nearly all of it.
#[test]
fn what_is_beside_a_sampled_run_is_in_its_composition() {
    let shares = SharesPlan::new(&budget()).unwrap();
    let after = Spend::Fixed(Event::gaussian(NoiseMultiplier::new(20.0).unwrap()).repeated(2));
    for adjacency in RELATIONS {
        let facts = unit(20_000, adjacency);
        let allowance = Allowance::all(&budget());
        let allowance = allowance
            .less(&shares.spend())
            .unwrap()
            .less(&after)
            .unwrap();
        let plan = SgdaPlan::new(&facts, &allowance, &limits()).unwrap();
        let of = |events: &[&Spend]| {
            let events = events.iter().map(|spend| spend.event().clone()).collect();
            epsilon(&Event::composed(events), adjacency)
        };
        let all = of(&[&shares.spend(), &plan.spend(), &after]);
        assert!(all <= 1.0 + 1e-9 && all > 0.99, "{adjacency}: {all}");
        // A plan that takes the whole budget for itself is over it.
        let alone = SgdaPlan::new(&facts, &Allowance::all(&budget()), &limits()).unwrap();
        let broken = of(&[&shares.spend(), &alone.spend(), &after]);
        assert!(broken > 1.005, "{adjacency}: {broken}");
        // And the reservations that a curator names before the first release cost what was planned.
        let mut curator = Curator::protected(adjacency).unwrap();
        curator
            .reserve_then(&shares.spend(), &[plan.spend(), after.clone()])
            .unwrap();
        let reserved = epsilon(&curator.reserved(), adjacency);
        assert!((reserved - all).abs() < 1e-9, "{reserved} {all}");
    }
}

/// What can't be subtracted is refused, and so is a budget that is used up.
#[test]
fn an_allowance_refuses_what_is_not_gaussian() {
    let z = NoiseMultiplier::new(2.0).unwrap();
    let allowance = Allowance::all(&budget());
    let sampled = Event::gaussian(z).poisson_sampled(SamplingRate::new(0.1).unwrap());
    for spend in [Spend::Fixed(sampled), Spend::AtMost(Event::gaussian(z))] {
        let error = allowance.clone().less(&spend).unwrap_err();
        let expected = matches!(
            error,
            PlanError::Accounting(AccountingError::UnsupportedEvent { .. })
        );
        assert!(expected, "{error}");
    }
    let spent = allowance.less(&Spend::Fixed(Event::gaussian(z))).unwrap();
    assert!(spent.gaussian().is_err());
    let facts = unit(20_000, Adjacency::ReplaceOne);
    for solver in [&GDA, &SGDA] {
        assert!(solver.plan_within(&facts, &spent, &limits()).is_err());
    }
}

/// A number of releases that is fixed fixes all that a run spends, whatever else the facts say: a run that was named before shares were known
/// is the run that was named.
#[test]
fn spends_do_not_depend_on_facts_that_shares_change() {
    let shares = SharesPlan::new(&budget()).unwrap();
    let allowance = Allowance::all(&budget()).less(&shares.spend()).unwrap();
    for solver in [&GDA, &SGDA] {
        let mut facts = unit(20_000, Adjacency::ReplaceOne);
        facts.whole = false;
        facts.mean.value_gap = f64::INFINITY;
        let mut limits = SaddleLimits::steps(2_000);
        let first = solver.plan_within(&facts, &allowance, &limits).unwrap();
        limits.exact_steps = Some(first.steps());
        facts.record.lipschitz_y = 7.0;
        facts.record.smooth_yy = 9.0;
        facts.mean.strong_concavity = 0.25;
        facts.mean.value_smoothness = 5.0;
        let other = solver.plan_within(&facts, &allowance, &limits).unwrap();
        assert_eq!(first.spend(), other.spend(), "{solver}");
        let shown = |plan: &dyn Plan| format!("{:?}", plan.items());
        assert_ne!(shown(&*first), shown(&*other), "{solver}");
    }
}

/// Fewer gradients, a target near that on all records, and a composition that the budget pays for, under each relation.
#[test]
fn samples_save_gradients_and_cost_no_more() {
    for adjacency in RELATIONS {
        let facts = unit(1_000_000, adjacency);
        let whole = RgdaPlan::new(&facts, &budget(), &limits()).unwrap();
        let allowance = Allowance::all(&budget());
        let plan = RgdaPlan::sampled(&facts, &allowance, &limits()).unwrap();
        assert_eq!(plan.name(), "sampled-rgda");
        let (a, b) = (plan.target(), whole.target());
        // The accountant of samples of a fixed size is not tight.
        assert!(a > b && a < 1.6 * b, "{adjacency}: {a} {b}");
        assert!(plan.gradients() < 0.5 * whole.gradients(), "{adjacency}");
        let cost = epsilon(plan.spend().event(), adjacency);
        assert!(cost <= 1.0 + 1e-9 && cost > 0.95, "{adjacency}: {cost}");
        assert_eq!(plan.bound().unwrap().value, 1.5 * a);
    }
}

/// Records whose slope in y pulls to the other side of 0 wherever y is, and whose slope in x never gets short: paths of y are as long as no smooth
/// loss has them, and anchors come early.
struct Restless;

impl SaddleLoss for Restless {
    type Records = Vec<f64>;
    const MAY_PANIC: bool = false;

    fn x_dim(&self, _: &Vec<f64>) -> usize {
        1
    }

    fn domain(&self) -> Domain {
        Domain::ball(1, 1.0)
    }

    fn saddle_constants(&self, _: &Vec<f64>) -> SaddleConstants {
        small(1).record
    }

    fn value(&self, _: &f64, x: &[f64], y: &[f64]) -> f64 {
        x[0] - y[0].abs()
    }

    fn gradient(&self, size: &f64, _: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        out.0[0] += size;
        out.1[0] -= size.copysign(y[0]);
    }
}

fn small(records: u64) -> SaddleFacts {
    SaddleFacts {
        x_dim: 1,
        domain: Domain::ball(1, 1.0),
        ..unit(records, Adjacency::ReplaceOne)
    }
}

/// A run that has no anchor left before its target keeps its point and its books, says why it ended, and states no bound.
#[test]
fn without_anchors_a_run_keeps_what_it_has() {
    let records = 60_000u64;
    let allowance = Allowance::all(&budget());
    let plan = RgdaPlan::sampled(&small(records), &allowance, &limits()).unwrap();
    assert!(plan.bound().is_some());
    let blocks = plan.blocks().unwrap();
    let data =
        PrivateData::made_up_of(vec![1.0; records as usize], Adjacency::ReplaceOne, None).unwrap();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let joint = Joint::new(Restless, blocks.scale).unwrap();
    let mut means = PrivateMean::new(&data, joint, curator).unwrap();
    let (mut anchors, mut last) = (0, Vec::new());
    let mut watch = |release: &Release<'_>| {
        anchors += u64::from(release.kind == ReleaseKind::Anchor);
        last = release.point.to_vec();
        ControlFlow::Continue(())
    };
    let start = [0.0; 2];
    let run = Run::new(&mut watch).starting_at(Some(&start));
    let outcome = plan.run_with(&mut means, run).unwrap();
    assert_eq!(outcome.stop, Stop::BudgetUsed);
    assert!(outcome.bound().is_none() && plan.bound().is_some());
    assert!(outcome.steps > 1 && outcome.steps < plan.steps());
    // The point that it had come to, which the last release was at or a step from.
    assert!(outcome.point.iter().all(|x| x.is_finite()));
    assert!(outcome.point[0] < 0.0, "{:?} {last:?}", outcome.point);
    // All that was planned is reserved, and every anchor of it is spent.
    assert_eq!(means.curator().reserved(), *plan.spend().event());
    assert_eq!(outcome.spent, means.curator().spent());
    let count = |event: &Event| {
        let leaves = event.leaves().into_iter();
        let anchors = leaves
            .filter(|(leaf, _)| matches!(leaf, Event::Gaussian { .. }))
            .map(|(_, count)| count);
        anchors.sum::<u64>()
    };
    assert_eq!(count(&outcome.spent), anchors);
    assert_eq!(count(plan.spend().event()), anchors);
    let cost = epsilon(&outcome.spent, Adjacency::ReplaceOne);
    assert!(cost > 0.0 && cost <= 1.0 + 1e-9, "{cost}");
}
