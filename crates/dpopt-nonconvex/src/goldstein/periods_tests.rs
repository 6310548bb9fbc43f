//! Walks in periods against numbers of 40 digits, computed apart from this code from the formulas of Theorem 3 (c_d by
//! Gamma functions, Toeplitz coefficients by binomials).

use std::num::{NonZeroU64, NonZeroUsize};

use dpopt_oracle::{Batch, FnOracle, Oracle, OracleFacts, SmoothedFields};
use dpopt_privacy::{Accountant, Adjacency, Curator, Epsilon, Event};
use dpopt_solver::{Access, Budget, NoObserver, Plan, PlanError, PublicFacts, RunError};

use super::periods::{Charged, Periodic, Reads, Shape, smoothing_constant};
use super::tests::{RADIUS, budget, close, facts};
use super::{GoldsteinPeriod, GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings};

const MU: f64 = 0.236704380663436;

fn of(sensitivity: f64, facts: PublicFacts) -> PublicFacts {
    let adjacency = match sensitivity {
        2.0 => Adjacency::ReplaceOne,
        _ => Adjacency::ZeroOut,
    };
    PublicFacts { adjacency, ..facts }
}

fn periodic(facts: &PublicFacts, reads: Reads) -> Periodic<'_> {
    Periodic {
        facts,
        mu: MU,
        radius: RADIUS,
        reads,
        charged: Charged::AsNoise,
        fields: SmoothedFields::Gradients,
        constant: smoothing_constant(facts.dim),
    }
}

/// n, d, s, Sigma, B1, B2, a, M, T; bound, G1.
type Slices = (u64, usize, f64, u64, f64, f64, f64, f64, f64, f64, f64);

const SLICES: [Slices; 8] = [
    (
        1_000_000,
        2,
        2.0,
        64,
        115.0,
        1.0,
        0.0615,
        3776.0,
        358720.0,
        0.0930859702205,
        1.16586302487,
    ),
    (
        10_000_000,
        2,
        2.0,
        128,
        242.0,
        1.0,
        0.0433,
        14720.0,
        2944000.0,
        0.0380848931371,
        1.09080605871,
    ),
    (
        10_000_000,
        2,
        2.0,
        32,
        440.0,
        32.0,
        0.0198,
        1632.0,
        212160.0,
        0.0579113496692,
        1.06073557447,
    ),
    (
        10_000_000,
        10,
        2.0,
        128,
        367.0,
        2.0,
        0.069,
        11776.0,
        2001920.0,
        0.052508745933,
        1.11167116623,
    ),
    (
        100_000,
        2,
        1.0,
        16,
        48.0,
        2.0,
        0.067,
        592.0,
        14800.0,
        0.257758808634,
        1.21492173437,
    ),
    (
        1_000_000,
        5,
        1.0,
        24,
        100.0,
        3.0,
        0.07,
        1752.0,
        175200.0,
        0.0913467181062,
        1.14877445307,
    ),
    (
        300_000,
        1,
        2.0,
        8,
        40.0,
        4.0,
        0.05,
        800.0,
        40000.0,
        0.148715638541,
        1.26790132046,
    ),
    (
        1_000_000,
        50,
        2.0,
        2,
        300.0,
        30.0,
        0.04,
        600.0,
        6000.0,
        0.400920574995,
        1.33681368161,
    ),
];

/// n, d, s, Sigma, a, M, T, offsets, frames, from values, noise as a bias; bound, G1.
type All = (
    u64,
    usize,
    f64,
    u64,
    f64,
    f64,
    f64,
    u64,
    u64,
    bool,
    bool,
    f64,
    f64,
);

const ALL_RECORDS: [All; 6] = [
    (
        10_000,
        50,
        2.0,
        4,
        0.1,
        200.0,
        10000.0,
        10000,
        133,
        false,
        true,
        0.900062063623,
        1.34712786924,
    ),
    (
        10_000,
        10,
        2.0,
        8,
        0.05,
        200.0,
        8000.0,
        10000,
        285,
        false,
        false,
        0.196931647572,
        1.12804058248,
    ),
    (
        3_000,
        10,
        2.0,
        2,
        0.03,
        300.0,
        12000.0,
        3000,
        85,
        false,
        false,
        0.247970128066,
        1.75291206551,
    ),
    (
        100_000,
        2,
        1.0,
        16,
        0.06,
        1600.0,
        160000.0,
        100000,
        3703,
        false,
        false,
        0.0637666707682,
        1.00701346361,
    ),
    (
        10_000,
        5,
        2.0,
        1,
        0.1,
        100.0,
        4000.0,
        10000,
        333,
        true,
        true,
        0.656615766593,
        1.19892417457,
    ),
    (
        2_000,
        3,
        1.0,
        6,
        0.08,
        150.0,
        1500.0,
        700,
        71,
        true,
        false,
        0.586652922302,
        1.16719689427,
    ),
];

#[test]
fn bounds_of_walks_in_periods_are_those_of_theorem_3() {
    for (records, dim, s, len, anchor, change, smoothing, block, steps, bound, size) in SLICES {
        let facts = of(s, facts(records, dim));
        let periodic = periodic(&facts, Reads::Slices);
        let shape = Shape {
            anchor,
            change,
            smoothing,
            block,
            steps,
        };
        let (_, variances) = periodic.noise(len).unwrap();
        let worth = periodic.worth(len, &variances, &shape);
        let at = format!("n = {records}, d = {dim}, Sigma = {len}");
        close(worth.bound, bound, 1e-8, &at);
        close(worth.size, size, 1e-8, &at);
        // What is planned is at least as good as what the records suffice for.
        if steps / len as f64 * (anchor + (len as f64 - 1.0) * change) > records as f64 {
            continue;
        }
        let settings = GoldsteinSettings {
            period: NonZeroU64::new(len),
            ..GoldsteinSettings::at_radius(RADIUS)
        };
        let plan = GoldsteinPlan::single_pass(&facts, &budget(), &settings).unwrap();
        // Of a population nothing is stated under zero-out.
        let Some(planned) = plan.bound().map(|bound| bound.value) else {
            assert_eq!(facts.adjacency, Adjacency::ZeroOut, "{at}");
            continue;
        };
        assert!(planned <= bound * 1.002, "{at}: {planned}");
    }
    for (n, dim, s, len, smoothing, block, steps, offsets, frames, values, as_bias, bound, size) in
        ALL_RECORDS
    {
        let facts = of(s, facts(n, dim));
        let reads = Reads::All {
            most: u64::MAX,
            offsets,
            frames,
        };
        let mut periodic = periodic(&facts, reads);
        if values {
            periodic.fields = SmoothedFields::Values;
        }
        if as_bias {
            periodic.charged = Charged::AsBias;
        }
        let shape = Shape {
            anchor: n as f64,
            change: n as f64,
            smoothing,
            block,
            steps,
        };
        let (_, variances) = periodic.noise(len).unwrap();
        let worth = periodic.worth(len, &variances, &shape);
        let at = format!("n = {n}, d = {dim}, Sigma = {len}");
        close(worth.bound, bound, 1e-8, &at);
        close(worth.size, size, 1e-8, &at);
    }
    for (dim, expected) in [
        (1, 1.0),
        (2, 1.273239544735),
        (3, 1.5),
        (5, 1.875),
        (10, 2.586899392478),
        (50, 5.670174066887),
        (1001, 25.25024319654),
    ] {
        close(smoothing_constant(dim), expected, 2e-9, "c_d");
        assert!(smoothing_constant(dim) >= expected * (1.0 - 1e-12));
    }
}

/// In one pass periods are taken where they are better, and no other way to spend the records is much better.
#[test]
fn periods_win_with_many_records() {
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let fresh = GoldsteinSettings {
        period: NonZeroU64::new(1),
        ..settings
    };
    // 1.5 (F0' k^2/(rho T))^(1/3) for the best B, and the best of a search over Sigma, B1, B2, a and M in real numbers, both apart
    // from this code.
    for (records, dim, plain, periods) in [
        (100_000, 2, 0.22228, 0.25608),
        (1_000_000, 2, 0.10317, 0.09299),
        (3_000_000, 2, 0.07154, 0.05823),
        (10_000_000, 2, 0.04789, 0.03557),
        (1_000_000, 10, 0.13381, 0.14672),
        (10_000_000, 10, 0.06211, 0.05175),
    ] {
        let facts = facts(records, dim);
        let plan = |settings| GoldsteinPlan::single_pass(&facts, &budget(), settings).unwrap();
        let (best, fresh) = (plan(&settings), plan(&fresh));
        let at = format!("n = {records}, d = {dim}");
        assert_eq!(best.schedule().period.is_some(), periods < plain, "{at}");
        assert!(fresh.schedule().period.is_none());
        let value = |plan: &GoldsteinPlan| plan.bound().unwrap().value;
        close(value(&fresh), plain, 0.02, &at);
        if periods < plain {
            close(value(&best), periods, 0.015, &at);
        }
        let GoldsteinSchedule { steps, block, .. } = *best.schedule();
        if let Some(period) = best.schedule().period {
            // Whole periods in blocks, whole blocks, and no record twice.
            assert!(
                block.is_multiple_of(period.len) && steps.is_multiple_of(block),
                "{at}"
            );
            let Access::SinglePass { anchor, variation } = best.access() else {
                panic!("{best:?}");
            };
            let each = anchor + (period.len - 1) * variation;
            assert!(steps / period.len * each <= records, "{at}");
            assert_eq!(period.changes, Batch::Next(variation));
            let spent = Accountant::least(best.spend().event(), budget().delta, facts.adjacency);
            assert!(
                spent.unwrap().1 <= budget().epsilon.get() * (1.0 + 1e-9),
                "{at}"
            );
        }
    }
}

/// However large the radius and the budget, so that long periods would pay.
#[test]
fn no_plan_takes_more_steps_than_are_allowed() {
    let generous = Budget {
        epsilon: Epsilon::new(500.0).unwrap(),
        ..budget()
    };
    for most in [2, 3, 24, 200] {
        for radius in [0.2, 3.0, 30.0, 1e3] {
            let settings = GoldsteinSettings::at_radius(radius);
            let facts = facts(600, 4);
            for plan in [
                GoldsteinPlan::recursive(&facts, &generous, &settings, most),
                GoldsteinPlan::paper_multi(&facts, &generous, &settings, most),
                GoldsteinPlan::paper_multi_within(&facts, &generous, &settings, most),
            ] {
                let Ok(plan) = plan else { continue };
                assert!(plan.steps() <= most, "{radius}: {plan:?}");
                assert!(plan.schedule().block <= plan.steps());
            }
        }
    }
    let settings = GoldsteinSettings::at_radius(30.0);
    let plan = GoldsteinPlan::recursive(&facts(600, 4), &generous, &settings, 24);
    assert!(plan.unwrap().steps() > 12);
}

/// The paper's plans state its bounds, which are above ours; recursion on all records gains nothing on fresh estimates.
#[test]
fn plans_of_the_paper_are_worse_than_ours() {
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let value = |plan: Result<GoldsteinPlan, PlanError>| plan.unwrap().bound().unwrap().value;
    for (records, dim) in [(10_000, 10), (10_000, 50), (30_000, 50)] {
        let facts = facts(records, dim);
        let most = 10_000;
        let ours = value(GoldsteinPlan::new(&facts, &budget(), &settings, most));
        let recursive = value(GoldsteinPlan::recursive(&facts, &budget(), &settings, most));
        let printed = GoldsteinPlan::paper_multi(&facts, &budget(), &settings, most).unwrap();
        let period = printed.schedule().period.unwrap();
        let spent = Accountant::least(printed.spend().event(), budget().delta, facts.adjacency);
        close(spent.unwrap().1, budget().epsilon.get(), 1e-3, "epsilon");
        assert!(period.prefix.is_none() && printed.steps() <= most);
        let paper = printed.bound().unwrap().value;
        assert!(
            ours < recursive && recursive < paper,
            "{ours} {recursive} {paper}"
        );
    }
    let facts = facts(3_000_000, 2);
    let ours = value(GoldsteinPlan::single_pass(&facts, &budget(), &settings));
    let single = |fields| GoldsteinPlan::paper_single(&facts, &budget(), &settings, fields);
    let gradients = value(single(SmoothedFields::Gradients));
    let values = value(single(SmoothedFields::Values));
    assert!(
        1.5 * ours < gradients && gradients < values,
        "{ours} {gradients} {values}"
    );
    let schedule = *single(SmoothedFields::Gradients).unwrap().schedule();
    let period = schedule.period.unwrap();
    assert_eq!(
        (schedule.batch, period.changes),
        (Batch::Next(period.len), Batch::Next(1))
    );
}

#[test]
fn walks_in_periods_are_refused_with_the_numbers() {
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let shifted = PublicFacts {
        adjacency: Adjacency::AddRemove,
        ..facts(10_000, 10)
    };
    let refused = |plan| matches!(plan, Err(PlanError::NeedsPositions { .. }));
    assert!(refused(GoldsteinPlan::recursive(
        &shifted,
        &budget(),
        &settings,
        1_000
    )));
    assert!(refused(GoldsteinPlan::paper_multi(
        &shifted,
        &budget(),
        &settings,
        1_000
    )));
    let fields = SmoothedFields::Values;
    assert!(refused(GoldsteinPlan::paper_single(
        &shifted,
        &budget(),
        &settings,
        fields
    )));
    let Err(PlanError::VacuousGoldstein {
        needed: Some(needed),
        ..
    }) = GoldsteinPlan::recursive(&facts(100, 10), &budget(), &settings, u64::MAX)
    else {
        panic!();
    };
    let at = |records| {
        GoldsteinPlan::recursive(&facts(records, 10), &budget(), &settings, u64::MAX).is_ok()
    };
    assert!(at(needed) && !at(needed - 1), "{needed}");
    let many = facts(10_000_000, 2);
    let plan = |settings| GoldsteinPlan::single_pass(&many, &budget(), settings).unwrap();
    // A plan by hand that can't be walked is refused there.
    let good = plan(&settings);
    let bad = |change: fn(&mut GoldsteinSchedule)| {
        let mut schedule = *good.schedule();
        change(&mut schedule);
        let plan = GoldsteinPlan::by_hand(good.facts(), good.budget(), good.settings(), schedule);
        matches!(
            plan.walk(&[0.0; 2]),
            Err(RunError::Schedule { .. } | RunError::Clip(_))
        )
    };
    assert!(good.walk(&[0.0; 2]).is_ok());
    assert!(bad(|schedule| schedule.smoothing = 0.0));
    assert!(bad(|schedule| schedule.clip = 0.0));
    assert!(bad(|schedule| {
        schedule.period = schedule.period.map(|mut period| {
            period.lipschitz = f64::NAN;
            period
        });
    }));
}

/// A plan by hand that is to read more records than there are, or has noise that there isn't, or draws more than there is room for.
#[test]
fn periods_that_cannot_be_are_refused_before_a_release() {
    let many = facts(1_000_000, 2);
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let good = GoldsteinPlan::single_pass(&many, &budget(), &settings).unwrap();
    let by_hand = |records: u64, change: &dyn Fn(&mut GoldsteinSchedule, &mut GoldsteinPeriod)| {
        let mut schedule = *good.schedule();
        let mut period = schedule.period.unwrap();
        change(&mut schedule, &mut period);
        schedule.period = Some(period);
        let facts = facts(records, 2);
        GoldsteinPlan::by_hand(&facts, good.budget(), good.settings(), schedule)
    };
    let refused = |plan: &GoldsteinPlan| match plan.walk(&[0.0; 2]) {
        Ok(_) => None,
        Err(RunError::Schedule { name, value, .. }) => Some((name, value)),
        Err(other) => panic!("{other}"),
    };
    let Access::SinglePass { anchor, variation } = good.access() else {
        panic!();
    };
    let len = good.schedule().period.unwrap().len;
    let read = good.steps() / len * (anchor + (len - 1) * variation);
    assert_eq!(refused(&by_hand(read, &|_, _| ())), None);
    let unread = "number of unread records";
    let short = by_hand(read - 1, &|_, _| ());
    assert_eq!(refused(&short), Some((unread, read as f64)));
    // Nothing is reserved or asked for.
    let known = OracleFacts::new(2, read - 1, Adjacency::ReplaceOne, short.needs());
    let curator = Curator::simulated(Adjacency::ReplaceOne, 2);
    let mut oracle = FnOracle::new(known, curator, |_, question| panic!("{question:?}"));
    let run = short.run(&mut oracle, &mut NoObserver);
    assert!(matches!(run, Err(RunError::Schedule { .. })));
    assert_eq!(oracle.books().counts().releases, 0);
    assert_eq!(oracle.books().curator().reserved(), Event::NoOp);
    // Fresh estimates too.
    let fresh = GoldsteinSchedule {
        period: None,
        steps: 11,
        block: 11,
        batch: Batch::Next(10),
        ..*good.schedule()
    };
    let fresh =
        |records| GoldsteinPlan::by_hand(&facts(records, 2), good.budget(), good.settings(), fresh);
    assert_eq!(refused(&fresh(110)), None);
    assert_eq!(refused(&fresh(109)), Some((unread, 110.0)));
    // Prefix noise where records are read again.
    let all = |changes: bool| {
        by_hand(1_000_000, &move |schedule, period| match changes {
            true => period.changes = Batch::All,
            false => schedule.batch = Batch::All,
        })
    };
    let again = "prefix noise of changes whose records are read again";
    assert_eq!(refused(&all(true)).map(|found| found.0), Some(again));
    assert_eq!(refused(&all(false)).map(|found| found.0), Some(again));
    let long = (1u64 << 24) + 2;
    let longer = by_hand(1_000_000, &|_, period| period.len = long);
    assert_eq!(refused(&longer), Some(("period", long as f64)));
    // 2^20 frames of four numbers are as many as there is room for.
    let frames = |frames: u64| {
        let count = NonZeroUsize::new(frames as usize).unwrap();
        by_hand(u64::MAX, &|_, period| {
            (period.frames, period.changes) = (count, Batch::Next(frames));
        })
    };
    assert_eq!(refused(&frames(1 << 20)), None);
    let numbers = "number of coordinates of offsets or of frames";
    let more = (1 << 20) + 1;
    assert_eq!(refused(&frames(more)), Some((numbers, 4.0 * more as f64)));
}

#[test]
fn units_of_losses_far_from_one_change_nothing() {
    let near = facts(1_000_000, 2);
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let bound = |facts: &PublicFacts| {
        let plan = GoldsteinPlan::single_pass(facts, &budget(), &settings).unwrap();
        plan.bound().unwrap().value / facts.lipschitz
    };
    for unit in [1e-163, 1e155] {
        let far = PublicFacts {
            lipschitz: unit,
            initial_gap: unit,
            ..near
        };
        close(bound(&far), bound(&near), 1e-9, "bound");
    }
}
