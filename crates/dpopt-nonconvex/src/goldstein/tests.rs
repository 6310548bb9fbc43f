//! The bound and the planner against numbers of 40 digits, computed apart from this code.

use std::num::NonZeroU64;

use dpopt_oracle::{Batch, SmoothedFields};
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_solver::{Budget, Plan, PlanError, PublicFacts, RunError};

use super::bound::{Aim, Quality, Reading};
use super::{GoldsteinPlan, GoldsteinSchedule, GoldsteinSettings};

pub(super) const RADIUS: f64 = 0.2;

pub(super) fn facts(records: u64, dim: usize) -> PublicFacts {
    PublicFacts {
        smoothness: f64::INFINITY,
        row_norm: f64::INFINITY,
        ..PublicFacts::unit(records, dim)
    }
}

/// mu = 0.236704380663436.
pub(super) fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

pub(super) fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let off = (found / expected - 1.0).abs();
    assert!(off <= tolerance, "{what}: {found} for {expected}");
}

/// n, d, most steps; T, M, N, D, eta, bound.
type Row = (u64, usize, u64, u64, u64, f64, f64, f64, f64);

#[test]
fn plans_on_all_records_are_the_best() {
    let rows: [Row; 6] = [
        (
            300,
            3,
            u64::MAX,
            420,
            35,
            0.999741494689,
            0.0111,
            0.00132687524743,
            0.622545096686,
        ),
        (
            1_000,
            10,
            u64::MAX,
            1_386,
            77,
            0.99473022757,
            0.00512307692308,
            0.000413918490599,
            0.414962174388,
        ),
        (
            3_000,
            10,
            u64::MAX,
            12_578,
            331,
            0.998868323183,
            0.00120361445783,
            4.68062816478e-5,
            0.198658502994,
        ),
        (
            10_000,
            10,
            10_000,
            9_990,
            185,
            0.26705852397,
            0.00214838709677,
            0.000152604385028,
            0.142335088042,
        ),
        (
            10_000,
            50,
            10_000,
            9_996,
            238,
            0.597340314281,
            0.0016719665272,
            9.30419298415e-5,
            0.174069870973,
        ),
        (
            100_000,
            100,
            10_000,
            9_971,
            169,
            0.0843709731458,
            0.00235058823529,
            0.000180174334832,
            0.126361261231,
        ),
    ];
    for (records, dim, cap, steps, block, noise, step_cap, step_size, bound) in rows {
        let settings = GoldsteinSettings::at_radius(RADIUS);
        let plan = GoldsteinPlan::new(&facts(records, dim), &budget(), &settings, cap).unwrap();
        let schedule = plan.schedule();
        let at = format!("n = {records}, d = {dim}");
        assert_eq!((schedule.steps, schedule.block), (steps, block), "{at}");
        close(plan.noise_std() * (dim as f64).sqrt(), noise, 1e-8, &at);
        close(schedule.cap, step_cap, 1e-11, &at);
        close(schedule.step_size, step_size, 1e-8, &at);
        // The pinned bounds leave out what rounding to the lattice may be off.
        close(plan.bound().unwrap().value, bound, 1e-6, &at);
        assert_eq!(plan.bound().unwrap().radius, Some(RADIUS));
    }
}

#[test]
fn bounds_of_samples_and_of_slices_are_those_of_the_theorem() {
    let aim = Aim {
        gap: 1.0002,
        spread: 0.1998,
    };
    // 10,000 records in 10 dimensions, rate 0.01, multiplier 2.5: N = 0.158113883008.
    let poisson = Quality::of_gradients(&facts(10_000, 10), &Reading::sample(1e4, 0.01, 2.5));
    close(poisson.size, 1.01730034896, 1e-11, "G1");
    close(poisson.error, 0.186815416923, 1e-11, "N'");
    close(
        aim.bound(8_000, 200, &poisson),
        0.14803179279,
        2e-7,
        "bound",
    );
    // One record less or more: s = 1.
    let add_remove = PublicFacts {
        adjacency: Adjacency::AddRemove,
        ..facts(1_000, 10)
    };
    let mu = 0.236704380663436;
    let all = Quality::of_gradients(&add_remove, &Reading::all(1_000.0, mu, 500));
    close(all.error, 0.298729909098, 1e-11, "N");
    close(aim.bound(500, 100, &all), 0.639846237713, 2e-7, "bound");
    // n, d, B, T, M, N', bound.
    for (records, dim, batch, steps, block, error, bound) in [
        (10_000, 2, 12, 832, 52, 1.03676611843, 0.498921130354),
        (100_000, 10, 27, 3_700, 148, 1.00814003093, 0.29930997125),
        (
            1_000_000,
            100,
            146,
            6_840,
            180,
            0.58461079588,
            0.195926258075,
        ),
        (
            10_000_000,
            2,
            21,
            476_181,
            3_033,
            0.609418320007,
            0.0479051951701,
        ),
    ] {
        let facts = facts(records, dim);
        let unread = Quality::of_gradients(&facts, &Reading::unread(f64::from(batch), mu));
        close(unread.error, error, 1e-11, "N'");
        close(aim.bound(steps, block, &unread), bound, 1e-6, "bound");
        let best = aim.best(records / batch as u64, |_| unread).unwrap();
        assert_eq!((best.steps, best.len), (steps, block));
        // The planner looks among all batches.
        let settings = GoldsteinSettings {
            period: NonZeroU64::new(1),
            ..GoldsteinSettings::at_radius(RADIUS)
        };
        let plan = GoldsteinPlan::single_pass(&facts, &budget(), &settings).unwrap();
        assert!(plan.bound().unwrap().value <= bound * (1.0 + 1e-4));
        let Batch::Next(read) = plan.schedule().batch else {
            panic!("{plan:?}");
        };
        assert!(read * plan.schedule().steps <= records);
    }
}

/// No block that could be chosen is better than the one that was, and whole blocks lose little.
#[test]
fn the_search_finds_the_best_block() {
    let aim = Aim {
        gap: 1.0002,
        spread: 0.1998,
    };
    // From blocks of a few steps to one of the whole run, and what lies between one block and two.
    for most in [2, 3, 10, 97, 1_000, 3_000, 10_000] {
        for spread in [0.2, 20.0, 52.54, 62.1, 69.34, 500.0] {
            let aim = Aim { spread, ..aim };
            let quality = |steps: u64| {
                // A multiplier that grows with the number of steps.
                let reading = Reading::all(5_000_000.0, (steps as f64).sqrt().recip(), steps);
                Quality::of_gradients(&facts(1_000, 10), &reading)
            };
            let found = aim.best(most, quality).unwrap();
            let least = (2..=most)
                .map(|block| {
                    let steps = most / block * block;
                    aim.bound(steps, block, &quality(steps))
                })
                .fold(f64::INFINITY, f64::min);
            assert!(
                found.bound <= least * 1.001,
                "{most} {spread}: {found:?} {least}"
            );
        }
    }
    assert!(aim.best(1, |_| unreachable!()).is_none());
    // 1.5 (F0' k^2/(rho T))^(1/3).
    let quality = Quality {
        size: 2f64.sqrt(),
        error: 1.0,
        bias: 0.0,
    };
    close(
        aim.best(1_000, |_| quality).unwrap().bound,
        0.461783954012,
        0.02,
        "closed form",
    );
}

#[test]
fn a_sampled_plan_is_nearly_as_good_in_far_fewer_passes() {
    let settings = GoldsteinSettings::at_radius(RADIUS);
    for (adjacency, worse) in [(Adjacency::ReplaceOne, 1.1), (Adjacency::ZeroOut, 1.15)] {
        let facts = PublicFacts {
            adjacency,
            ..facts(10_000, 10)
        };
        let all = GoldsteinPlan::new(&facts, &budget(), &settings, 20_000).unwrap();
        let sampled = GoldsteinPlan::sampled(&facts, &budget(), &settings, 20_000).unwrap();
        let ratio = sampled.bound().unwrap().value / all.bound().unwrap().value;
        assert!((1.0..worse).contains(&ratio), "{adjacency}: {ratio}");
        assert!(sampled.gradients() < all.gradients() / 50.0, "{adjacency}");
        let accountant = sampled.accountant().unwrap();
        let event = sampled.spend();
        let (epsilon, delta) = (budget().epsilon, budget().delta);
        let cost = accountant.epsilon(event.event(), delta, adjacency).unwrap();
        assert!(cost <= epsilon.get(), "{cost}");
    }
}

#[test]
fn refusals_name_what_would_do() {
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let plan = |facts: &PublicFacts| GoldsteinPlan::new(facts, &budget(), &settings, u64::MAX);
    let Err(PlanError::VacuousGoldstein {
        needed: Some(needed),
        trivial,
        ..
    }) = plan(&facts(50, 10))
    else {
        panic!();
    };
    assert_eq!(trivial, 1.0);
    assert!(plan(&facts(needed, 10)).is_ok());
    assert!(plan(&facts(needed - 1, 10)).is_err());
    for share in [0.0, 1e-20, 1.0, f64::NAN] {
        let settings = GoldsteinSettings {
            smoothing_share: share,
            ..settings
        };
        assert!(GoldsteinPlan::new(&facts(1_000, 10), &budget(), &settings, 100).is_err());
    }
}

/// A radius beyond what the walk reaches makes one block of the whole run, and a warning.
#[test]
fn a_radius_out_of_reach_is_said_to_be() {
    let warned = |radius| {
        let settings = GoldsteinSettings::at_radius(radius);
        let plan = GoldsteinPlan::new(&facts(3_000, 10), &budget(), &settings, 1_000).unwrap();
        (plan.schedule().block == 1_000, plan.warning(1.0).is_some())
    };
    assert_eq!(warned(0.2), (false, false));
    assert_eq!(warned(1e4), (true, true));
}

#[test]
fn units_far_from_one_change_nothing() {
    let aim = Aim {
        gap: 1.0002,
        spread: 0.1998,
    };
    for unit in [1e-163, 1e155] {
        let far = PublicFacts {
            lipschitz: unit,
            ..facts(1_000, 10)
        };
        let scaled = Aim {
            gap: aim.gap * unit,
            ..aim
        };
        let at = |facts| Quality::of_gradients(facts, &Reading::sample(1e4, 0.01, 2.5));
        let bound = scaled.bound(500, 100, &at(&far)) / unit;
        close(
            bound,
            aim.bound(500, 100, &at(&facts(1_000, 10))),
            1e-12,
            "bound",
        );
    }
}

#[test]
fn steps_are_those_of_their_rule_and_a_bad_schedule_is_refused() {
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let good = GoldsteinPlan::new(&facts(1_000, 10), &budget(), &settings, u64::MAX).unwrap();
    let GoldsteinSchedule { cap, block, .. } = *good.schedule();
    let size = good.noise_std().hypot(1.0 / 10f64.sqrt()) * 10f64.sqrt();
    let step = cap / (size * (block as f64).sqrt());
    close(good.schedule().step_size, step, 1e-9, "eta");
    let bad = |change: fn(&mut GoldsteinSchedule)| {
        let mut schedule = *good.schedule();
        change(&mut schedule);
        let plan = GoldsteinPlan::by_hand(good.facts(), good.budget(), good.settings(), schedule);
        matches!(plan.walk(&[0.0; 10]), Err(RunError::Schedule { .. }))
    };
    assert!(good.walk(&[0.0; 10]).is_ok());
    assert!(bad(|schedule| schedule.block = 0));
    assert!(bad(|schedule| schedule.cap = f64::NAN));
    assert!(bad(|schedule| schedule.step_size = 1e308));
    assert!(bad(|schedule| schedule.smoothing = 0.0));
}

/// Theorem 3 is about gradients; a frame of more than 2^22 numbers is not drawn.
#[test]
fn periods_are_not_planned_for_what_they_are_not_for() {
    let settings = GoldsteinSettings::at_radius(RADIUS);
    let values = settings.from_values(None);
    let asked = |settings: GoldsteinSettings| GoldsteinSettings {
        period: NonZeroU64::new(8),
        ..settings
    };
    let refused = |plan| matches!(plan, Err(PlanError::NoPeriods { .. }));
    let many = facts(10_000_000, 2);
    let fields = SmoothedFields::Gradients;
    {
        let settings = values;
        let multi = GoldsteinPlan::paper_multi(&many, &budget(), &settings, 1_000);
        let within = GoldsteinPlan::paper_multi_within(&many, &budget(), &settings, 1_000);
        let single = GoldsteinPlan::paper_single(&many, &budget(), &settings, fields);
        let recursive = GoldsteinPlan::recursive(&many, &budget(), &settings, 1_000);
        let pass = GoldsteinPlan::single_pass(&many, &budget(), &asked(settings));
        assert!(
            [multi, within, single, recursive, pass]
                .into_iter()
                .all(refused)
        );
    }
    let wide = |dim, settings| {
        GoldsteinPlan::recursive(&facts(1_000_000_000, dim), &budget(), settings, 1_000)
    };
    assert!(refused(wide(2_049, &settings)));
    // One frame for all records may be drawn, and says nothing.
    let one = wide(2_048, &settings);
    assert!(matches!(one, Err(PlanError::VacuousGoldstein { .. })));
}
