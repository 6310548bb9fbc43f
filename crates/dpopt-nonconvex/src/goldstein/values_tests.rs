//! Plans from values on samples and slices, and of bounded losses, against numbers of 40 digits, computed apart from this code.

use std::num::NonZeroUsize;

use dpopt_oracle::Batch;
use dpopt_privacy::{Adjacency, SamplingRate};
use dpopt_solver::{
    Access, BoundSense, BoundedValues, ExtraFacts, Limits, Plan, PlanError, PublicFacts, Solver,
};

use super::bound::{Aim, Reading};
use super::slopes::{Known, Slopes, steepest_mean};
use super::slopes_tests::{AIM, MU, lipschitz, settings};
use super::tests::{budget, close, facts};
use super::{
    GOLDSTEIN, GOLDSTEIN_ZO, GOLDSTEIN_ZO_PASS, GOLDSTEIN_ZO_SAMPLED, GoldsteinPlan,
    GoldsteinSettings,
};

/// n, d, m, q, z, T, M; N, G1, bound.
type SampleRow = (u64, usize, usize, f64, f64, u64, u64, f64, f64, f64);

#[test]
fn bounds_of_slopes_on_samples_and_on_slices_are_those_of_the_theorem() {
    let rows: [SampleRow; 3] = [
        (
            10_000,
            10,
            10,
            0.01,
            2.5,
            8_000,
            200,
            0.353553390593,
            1.11674129104,
            0.220819018395,
        ),
        (
            10_000,
            10,
            2,
            0.01,
            2.5,
            8_000,
            200,
            0.382683432365,
            2.39937536975,
            0.402210869363,
        ),
        // Four records a step: the size of the sample counts.
        (
            2_000,
            2,
            1,
            0.002,
            30.0,
            8_000,
            200,
            30.0,
            30.0487563905,
            4.31242383244,
        ),
    ];
    for (n, d, m, rate, multiplier, steps, block, noise, size, bound) in rows {
        let (facts, slopes) = (facts(n, d), lipschitz(m));
        let at = format!("n = {n}, d = {d}, m = {m}");
        let reading = Reading::sample(n as f64, rate, multiplier);
        close(slopes.noise(&facts, &reading), noise, 1e-10, &at);
        let quality = slopes.quality(&facts, &reading);
        close(quality.size, size, 1e-10, &at);
        close(quality.error, size, 1e-10, &at);
        close(AIM.bound(steps, block, &quality), bound, 1e-6, &at);
    }
    // n, d, m, C, B, T, M; N, G1, c, bound.
    let passes = [
        (
            (100_000, 10, 10, None, 60.0, 1_666, 98),
            (0.99576636366, 1.45005577896, 0.0, 0.4416933805),
        ),
        (
            (100_000, 10, 1, None, 60.0, 1_650, 150),
            (1.40822629644, 3.61859260115, 0.0, 0.819976396385),
        ),
        (
            (1_000_000, 100, 100, Some(1.5), 150.0, 6_600, 200),
            (
                0.844935777865,
                1.31301846096,
                0.00361785395134,
                0.269152378144,
            ),
        ),
    ];
    for ((n, d, m, clip, batch, steps, block), (noise, size, bias, bound)) in passes {
        let facts = facts(n, d);
        let at = format!("one pass, n = {n}, d = {d}, m = {m}");
        let slopes = Slopes {
            clip: clip.unwrap_or(lipschitz(m).clip),
            ..lipschitz(m)
        };
        let reading = Reading::unread(batch, MU);
        close(slopes.noise(&facts, &reading), noise, 1e-10, &at);
        let quality = slopes.quality(&facts, &reading);
        close(quality.size, size, 1e-10, &at);
        assert!((slopes.clip_bias(&facts) - bias).abs() <= 1e-10, "{at}");
        close(AIM.bound(steps, block, &quality), bound, 1e-6, &at);
    }
}

/// No batch and no clip of a grid has a lower bound, for a given number of directions; records are read once.
#[test]
fn one_pass_of_slopes_has_the_best_batch() {
    for (n, d, m) in [
        (20_000, 3, 3),
        (100_000, 10, 10),
        (300_000, 10, 2),
        (1_000_000, 60, 60),
    ] {
        let facts = facts(n, d);
        let plan =
            GoldsteinPlan::single_pass(&facts, &budget(), &settings(Some(m as u64))).unwrap();
        let at = format!("n = {n}, d = {d}, m = {m}: {:?}", plan.schedule());
        let Batch::Next(batch) = plan.schedule().batch else {
            panic!("{at}");
        };
        assert!(batch * plan.steps() <= n, "{at}");
        assert_eq!(plan.name(), "goldstein-zo-pass");
        assert_eq!(plan.bound_sense(), BoundSense::PopulationMean);
        let found = plan.bound().unwrap().value;
        for k in 1..=40 {
            let slopes = Slopes {
                clip: lipschitz(m).clip * f64::from(k) / 40.0,
                ..lipschitz(m)
            };
            for trial in 1..=60 {
                let other = (batch as f64 * 1.1f64.powi(trial - 30)).ceil();
                let quality = slopes.quality(&facts, &Reading::unread(other, MU));
                if let Some(block) = AIM.best(n / other as u64, |_| quality) {
                    assert!(found <= block.bound * 1.005, "{at}: {found} {block:?}");
                }
            }
        }
        let values = 2.0 * m as f64 * plan.steps() as f64 * batch as f64;
        assert_eq!((plan.values(), plan.gradients()), (values, 0.0), "{at}");
    }
    let shifted = PublicFacts {
        adjacency: Adjacency::AddRemove,
        ..facts(100_000, 10)
    };
    assert!(matches!(
        GoldsteinPlan::single_pass(&shifted, &budget(), &settings(None)),
        Err(PlanError::NeedsPositions {
            solver: "goldstein-zo-pass",
            slices,
            ..
        }) if slices > 100
    ));
}

/// Samples have the directions of the plan on all records, noise of their own calibration, and a bound near that of all records.
#[test]
fn slopes_on_samples_are_planned_near_those_on_all_records() {
    for adjacency in [
        Adjacency::ReplaceOne,
        Adjacency::AddRemove,
        Adjacency::ZeroOut,
    ] {
        let facts = PublicFacts {
            adjacency,
            ..facts(20_000, 10)
        };
        let all = GoldsteinPlan::new(&facts, &budget(), &settings(None), 2_000).unwrap();
        let sampled = GoldsteinPlan::sampled(&facts, &budget(), &settings(None), 2_000).unwrap();
        let (schedule, bound) = (sampled.schedule(), sampled.bound().unwrap().value);
        assert_eq!(schedule.directions, all.schedule().directions);
        assert_eq!(sampled.name(), "goldstein-zo-sampled");
        let least = all.bound().unwrap().value;
        assert!(
            bound > least && bound < 1.15 * least,
            "{adjacency}: {bound} {least}"
        );
        assert!(sampled.values() < 0.5 * all.values(), "{adjacency}");
        let Batch::Poisson(rate) = schedule.batch else {
            panic!("{schedule:?}");
        };
        assert_eq!(sampled.access(), Access::Poisson(rate));
        let slopes = Slopes {
            clip: schedule.clip,
            ..lipschitz(schedule.directions.unwrap().get())
        };
        let multiplier = schedule.noise_multiplier.get();
        let reading = Reading::sample(20_000.0, rate.get(), multiplier);
        let quality = slopes.quality(&facts, &reading);
        let at = AIM.bound(schedule.steps, schedule.block, &quality);
        close(at, bound, 1e-11, "bound");
        assert!(sampled.accountant().is_some());
        let same = GoldsteinPlan::sampled_at(
            &facts,
            &budget(),
            &settings(schedule.directions.map(|m| m.get() as u64)),
            all.steps(),
            SamplingRate::new(rate.get()).unwrap(),
        );
        assert_eq!(same.unwrap().schedule(), schedule);
    }
    // The number of records that would do, does.
    let few = GoldsteinPlan::sampled(&facts(60, 10), &budget(), &settings(None), 5_000);
    let Err(PlanError::VacuousGoldstein {
        needed: Some(needed),
        solver: "goldstein-zo-sampled",
        ..
    }) = few
    else {
        panic!("{few:?}");
    };
    let enough = facts(needed, 10);
    assert!(GoldsteinPlan::sampled(&enough, &budget(), &settings(None), 5_000).is_ok());
    let pass = GoldsteinPlan::single_pass(&facts(500, 10), &budget(), &settings(None));
    let Err(PlanError::VacuousGoldstein {
        needed: Some(needed),
        ..
    }) = pass
    else {
        panic!("{pass:?}");
    };
    let (enough, fewer) = (facts(needed, 10), facts(needed - 1, 10));
    assert!(GoldsteinPlan::single_pass(&enough, &budget(), &settings(None)).is_ok());
    assert!(GoldsteinPlan::single_pass(&fewer, &budget(), &settings(None)).is_err());
}

/// Of values in an interval of length c0 nothing else is known: n, d, m, c0, a, r, T, M; C, N, G1, L_a, bound, eta.
#[test]
fn bounds_of_bounded_losses_are_those_of_the_theorem() {
    for (d, steepest) in [
        (1, 1.0),
        (2, 1.27323954473516),
        (3, 1.5),
        (10, 2.58689939247779),
        (1_000, 25.2376338389997),
        (1_000_000, 797.88476027403),
    ] {
        close(steepest_mean(d), steepest, 1e-9, "c_d");
    }
    let rows = [
        (
            (20_000, 2, 2, 1.0, 0.5, 1.0, 2_000, 100),
            [
                std::f64::consts::SQRT_2,
                0.0377866767186,
                1.41471828748,
                1.27323954474,
                0.308193657497,
                0.00139971189835,
            ],
        ),
        (
            (20_000, 5, 1, 3.0, 0.1, 0.4, 4_000, 200),
            [
                15.0,
                2.00394115097,
                75.0267670911,
                28.125,
                10.7988246561,
                3.7511350377e-6,
            ],
        ),
        (
            (100_000, 30, 30, 2.0, 0.25, 0.25, 2_000, 100),
            [
                21.9089023002,
                0.453440120623,
                21.9135941357,
                17.6270295084,
                4.58471882713,
                2.25909771754e-5,
            ],
        ),
    ];
    for ((n, d, m, range, smoothing, radius, steps, block), expected) in rows {
        let at = format!("n = {n}, d = {d}, m = {m}");
        // No constant of the loss is known, and its gap is not asked for.
        let nothing = PublicFacts {
            lipschitz: f64::INFINITY,
            initial_gap: f64::INFINITY,
            ..facts(n, d)
        };
        let settings = GoldsteinSettings {
            bounded: Some(BoundedValues { range, smoothing }),
            ..GoldsteinSettings::at_radius(radius).from_values(NonZeroUsize::new(m))
        };
        let plan = GoldsteinPlan::new(&nothing, &budget(), &settings, steps).unwrap();
        let bound = plan.bound().unwrap();
        let words = format!(
            "Goldstein distance at radius {radius} of the smoothed loss F_a, at smoothing a = {smoothing}"
        );
        assert_eq!(bound.subject(), words);
        let [clip, noise, size, steepest, value, step_size] = expected;
        close(plan.clip(), clip, 1e-10, &at);
        close(plan.trivial_bound(), steepest, 1e-9, &at);
        assert_eq!(plan.schedule().smoothing, smoothing);
        // At the pinned block, which is not the best.
        let slopes = Slopes::unclipped(plan.facts(), Known::Each(range / (2.0 * smoothing)), m);
        let reading = Reading::all(n as f64, MU, steps);
        close(slopes.noise(plan.facts(), &reading), noise, 1e-10, &at);
        let quality = slopes.quality(plan.facts(), &reading);
        close(quality.size, size, 1e-10, &at);
        let aim = Aim {
            gap: range,
            spread: radius,
        };
        close(aim.bound(steps, block, &quality), value, 1e-6, &at);
        let eta = aim.cap(block) / (quality.size * (block as f64).sqrt());
        close(eta, step_size, 1e-10, &at);
        assert!(bound.value <= value * (1.0 + 1e-6), "{at}: {bound:?}");
        // What the plan states is the theorem's number for the steps and the block that it takes.
        let schedule = plan.schedule();
        let reading = Reading::all(n as f64, MU, schedule.steps);
        let quality = slopes.quality(plan.facts(), &reading);
        let own = aim.bound(schedule.steps, schedule.block, &quality);
        close(bound.value, own, 1e-12, &at);
    }
}

/// The smoothed loss is as steep as the loss at most: a bound that is below c_d c0/(2 a) and not below L says nothing.
#[test]
fn a_known_constant_makes_more_bounds_vacuous() {
    let plan = |lipschitz: f64, smoothing: f64| {
        let known = PublicFacts {
            lipschitz,
            ..facts(20_000, 2)
        };
        let range = 1.0;
        let settings = GoldsteinSettings {
            bounded: Some(BoundedValues { range, smoothing }),
            ..GoldsteinSettings::at_radius(1.0).from_values(NonZeroUsize::new(2))
        };
        GoldsteinPlan::new(&known, &budget(), &settings, 2_000)
    };
    let unknown = plan(f64::INFINITY, 0.01).unwrap();
    let stated = unknown.bound().unwrap().value;
    assert!(stated > 3.0 && stated < 4.5, "{stated}");
    close(
        unknown.trivial_bound(),
        63.6619772367581,
        1e-9,
        "4/pi of 50",
    );
    for lipschitz in [1.0, 0.99 * stated] {
        let refused = plan(lipschitz, 0.01);
        assert!(
            matches!(refused, Err(PlanError::VacuousGoldstein { bound, trivial, .. })
                if trivial == lipschitz && (bound / stated - 1.0).abs() < 1e-12),
            "{refused:?}"
        );
    }
    let known = plan(1.01 * stated, 0.01).unwrap();
    assert_eq!(known.bound(), unknown.bound());
    assert_eq!(known.schedule(), unknown.schedule());
    // Points that are moved by less than their rounding tell nothing.
    for (smoothing, fine) in [(0.9e-9, false), (1.1e-9, true), (1.5, true), (20.0, true)] {
        let plan = plan(f64::INFINITY, smoothing);
        let refused = matches!(plan, Err(PlanError::BadFact { name: "smoothing", value }) if value == smoothing);
        assert_eq!(refused, !fine, "{smoothing}: {plan:?}");
    }
}

#[test]
fn bounded_losses_are_planned_from_values_alone() {
    let nothing = PublicFacts {
        lipschitz: f64::INFINITY,
        initial_gap: f64::INFINITY,
        ..facts(50_000, 4)
    };
    let extra = |range, smoothing| {
        ExtraFacts::default()
            .with_goldstein_radius(0.5)
            .with_bounded_values(BoundedValues { range, smoothing })
    };
    let limits = Limits::steps(5_000);
    let plan =
        |solver: &Solver, extra: &ExtraFacts| solver.plan(&nothing, extra, &budget(), &limits);
    let right = extra(1.0, 0.5);
    for solver in [&GOLDSTEIN_ZO, &GOLDSTEIN_ZO_SAMPLED, &GOLDSTEIN_ZO_PASS] {
        let bound = plan(solver, &right).unwrap().bound().unwrap();
        assert_eq!(bound.smoothing, Some(0.5), "{solver}");
        // No L and no range.
        let without = ExtraFacts::default().with_goldstein_radius(0.5);
        assert!(matches!(
            plan(solver, &without),
            Err(PlanError::BadFact {
                name: "lipschitz",
                ..
            })
        ));
    }
    assert!(matches!(
        plan(&GOLDSTEIN, &right),
        Err(PlanError::ValuesAlone {
            solver: "goldstein",
            ..
        })
    ));
    for (bad, what) in [
        (extra(0.0, 0.5), "value_range"),
        (extra(f64::INFINITY, 0.5), "value_range"),
        (extra(1.0, 0.0), "smoothing"),
        (extra(1.0, f64::NAN), "smoothing"),
    ] {
        let refused = plan(&GOLDSTEIN_ZO, &bad);
        assert!(matches!(refused, Err(PlanError::BadFact { name, .. }) if name == what));
    }
}
