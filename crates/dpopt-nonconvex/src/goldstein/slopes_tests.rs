//! Plans from values against numbers of 40 digits, computed apart from this code.

use std::num::NonZeroUsize;

use dpopt_oracle::query::smoothed_gradient_bound;
use dpopt_solver::{Plan, PlanError, PublicFacts};

use super::bound::{Aim, Reading};
use super::slopes::{Known, Slopes};
use super::tests::{RADIUS, budget, close, facts};
use super::{GoldsteinPlan, GoldsteinSettings};

/// At radius 0.2 and a = 0.0002.
pub(super) const AIM: Aim = Aim {
    gap: 1.0002,
    spread: 0.1998,
};
pub(super) const MU: f64 = 0.236704380663436;

/// n, d, m, C (kappa_m for none), T, M; N, A, c, eta, bound.
type SlopesRow = (
    u64,
    usize,
    usize,
    Option<f64>,
    u64,
    u64,
    f64,
    f64,
    f64,
    f64,
    f64,
);

/// Unclipped slopes of a loss with L = 1.
pub(super) fn lipschitz(directions: usize) -> Slopes {
    Slopes {
        directions,
        clip: smoothed_gradient_bound(1.0, directions),
        known: Known::Lipschitz,
    }
}

#[test]
fn bounds_from_values_are_those_of_the_theorem() {
    let third = 1.0 / 9.0;
    let rows: [SlopesRow; 7] = [
        (
            3_000,
            10,
            10,
            None,
            1_500,
            100,
            0.771317308633,
            10.0 * third,
            0.0,
            0.000302907000114,
            0.429766582826,
        ),
        (
            3_000,
            10,
            10,
            Some(1.3),
            1_500,
            100,
            0.448426662925,
            10.0 * third,
            0.64518755113,
            0.000345385808554,
            1.68801302391,
        ),
        (
            3_000,
            10,
            2,
            None,
            1_500,
            100,
            0.834867838815,
            50.0 * third,
            0.0,
            0.000158225026298,
            0.668637919607,
        ),
        (
            3_000,
            10,
            1,
            None,
            1_500,
            100,
            1.09080739876,
            100.0 * third,
            0.0,
            0.000112806569597,
            0.869990363513,
        ),
        (
            100_000,
            100,
            100,
            Some(1.5),
            5_000,
            250,
            0.0896189727294,
            100.0 / 99.0,
            0.00361785395134,
            9.97882917917e-5,
            0.260519217481,
        ),
        (
            100_000,
            100,
            1,
            Some(0.4),
            5_000,
            250,
            0.238983927278,
            1e4 / 99.0,
            0.000868259602489,
            1.00155915698e-5,
            1.39903007721,
        ),
        (
            20_000,
            2,
            1,
            Some(1.0),
            4_000,
            200,
            0.0534384306924,
            2.34314575051,
            0.0,
            9.17804725277e-5,
            0.342386215354,
        ),
    ];
    for (n, d, m, clip, steps, block, noise, square, bias, step_size, bound) in rows {
        let facts = facts(n, d);
        let at = format!("n = {n}, d = {d}, m = {m}");
        let slopes = Slopes {
            clip: clip.unwrap_or_else(|| smoothed_gradient_bound(1.0, m)),
            ..lipschitz(m)
        };
        let reading = Reading::all(n as f64, MU, steps);
        close(slopes.noise(&facts, &reading), noise, 1e-10, &at);
        close(slopes.length(&facts).powi(2), square, 1e-10, &at);
        assert!(
            (slopes.clip_bias(&facts) - bias).abs() <= 1e-10 * bias,
            "{at}"
        );
        let quality = slopes.quality(&facts, &reading);
        let found = AIM.cap(block) / (quality.size * (block as f64).sqrt());
        close(found, step_size, 1e-10, &at);
        // The pinned bounds leave out what rounding to the lattice may be off.
        close(AIM.bound(steps, block, &quality), bound, 1e-6, &at);
    }
    for (d, m, clip, bias) in [
        (10, 10, 2.0, 0.160397603091),
        (100, 100, 2.0, 2.13812856443e-7),
        (100, 1, 0.3, 0.035724723952),
        (100, 10, 1.0, 0.00185813511092),
    ] {
        let slopes = Slopes {
            clip,
            ..lipschitz(m)
        };
        close(slopes.clip_bias(&facts(1_000, d)), bias, 1e-10, "clip bias");
    }
    for (m, kappa) in [
        (1, 1.0),
        (2, 1.08239220029),
        (3, 1.22474487139),
        (10, 2.2360679775),
        (100, 7.07106781187),
    ] {
        close(smoothed_gradient_bound(1.0, m), kappa, 1e-11, "kappa");
    }
    // A line has one direction, and the gap of the sphere says nothing there.
    close(
        lipschitz(1).length(&facts(1_000, 1)),
        1.0,
        1e-11,
        "A in one dimension",
    );
}

/// d times the integral of f from `from` to 1, by Simpson's rule.
fn integral(d: usize, from: f64, f: impl Fn(f64) -> f64) -> f64 {
    let parts = 20_000;
    let step = (1.0 - from) / f64::from(parts);
    let sum: f64 = (0..=parts)
        .map(|k| {
            let weight = match k {
                0 => 1.0,
                _ if k == parts => 1.0,
                _ if k % 2 == 1 => 4.0,
                _ => 2.0,
            };
            weight * f(from + step * f64::from(k))
        })
        .sum();
    d as f64 * sum * step / 3.0
}

/// Along one direction no slope of a loss with L = 1 is above t with a larger probability than that of a linear loss, |y_1| > t,
/// which is at most (1 - t^2)^((d - 1)/2). What a linear loss loses is a lower limit, and never far below.
#[test]
fn the_clip_of_one_slope_shifts_no_more_than_its_proven_tail() {
    for d in [2, 3, 5, 10, 100] {
        let mut nearest = f64::INFINITY;
        for clip in [0.02, 0.1, 0.3, 0.5, 0.7, 0.95] {
            let slopes = Slopes {
                clip,
                ..lipschitz(1)
            };
            let stated = slopes.clip_bias(&facts(1_000, d));
            let power = 0.5 * (d as f64 - 1.0);
            // Smooth at 1 up to a power of 1/2, whose rule is off by 1e-6.
            let proven = integral(d, clip, |t| (1.0 - t * t).max(0.0).powf(power));
            assert!(
                proven <= stated * (1.0 + 1e-9),
                "{d}, {clip}: {proven} {stated}"
            );
            // y_1 = sin of an angle whose density goes as cos^(d - 2).
            let angle = |s: f64| 0.5 * std::f64::consts::PI * s;
            let density = |s: f64| angle(s).cos().max(0.0).powi(d as i32 - 2);
            let over = |s: f64| density(s) * (angle(s).sin() - clip);
            let from = 2.0 / std::f64::consts::PI * clip.asin();
            let linear = integral(d, from, over) / integral(1, 0.0, density);
            assert!(
                linear <= proven * (1.0 + 1e-5),
                "{d}, {clip}: {linear} {proven}"
            );
            nearest = nearest.min(stated / linear);
        }
        assert!(nearest < 2.1, "{d}: {nearest}");
    }
}

/// At the radius, along so many directions.
pub(super) fn settings(directions: Option<u64>) -> GoldsteinSettings {
    let directions = directions.and_then(|m| NonZeroUsize::new(m as usize));
    GoldsteinSettings::at_radius(RADIUS).from_values(directions)
}

fn from_values(
    facts: &PublicFacts,
    most: u64,
    directions: Option<u64>,
) -> Result<GoldsteinPlan, PlanError> {
    GoldsteinPlan::new(facts, &budget(), &settings(directions), most)
}

/// No clip of a fine grid has a lower bound, for a given number of directions; and none of the plans is clipped longer than
/// kappa L.
#[test]
fn a_plan_from_values_has_the_best_clip() {
    for (n, d, m, most) in [
        (3_000, 10, 10, u64::MAX),
        (3_000, 10, 1, u64::MAX),
        (100_000, 100, 100, 5_000),
        (100_000, 100, 1, 100_000),
        (100_000, 100, 16, u64::MAX),
        (3_000, 2, 2, u64::MAX),
        (1_000, 1, 1, u64::MAX),
    ] {
        let facts = facts(n, d);
        let plan = from_values(&facts, most, Some(m as u64)).unwrap();
        let schedule = plan.schedule();
        let found = plan.bound().unwrap().value;
        let kappa = smoothed_gradient_bound(1.0, m);
        let at = format!("n = {n}, d = {d}, m = {m}: {schedule:?}");
        assert_eq!(schedule.directions.unwrap().get(), m, "{at}");
        assert!(schedule.clip <= kappa, "{at}");
        assert_eq!(schedule.steps % schedule.block, 0, "{at}");
        for k in 1..=400 {
            let slopes = Slopes {
                clip: kappa * f64::from(k) / 400.0,
                ..lipschitz(m)
            };
            let quality = |steps: u64| slopes.quality(&facts, &Reading::all(n as f64, MU, steps));
            let other = AIM.best(schedule.steps, quality).unwrap();
            assert!(found <= other.bound * 1.005, "{at}: {found} {other:?}");
        }
        let noise = plan.noise_std() * (d as f64).sqrt();
        let slopes = Slopes {
            clip: schedule.clip,
            ..lipschitz(m)
        };
        let reading = Reading {
            multiplier: schedule.noise_multiplier.get(),
            ..Reading::all(n as f64, MU, schedule.steps)
        };
        close(noise, slopes.noise(&facts, &reading), 1e-11, &at);
        let values = 2.0 * m as f64 * schedule.steps as f64 * n as f64;
        assert_eq!((plan.values(), plan.gradients()), (values, 0.0), "{at}");
    }
}

#[test]
fn directions_are_the_fewest_of_the_nearly_best_plans() {
    for (n, d, most) in [
        (3_000, 10, u64::MAX),
        (100_000, 100, 5_000),
        (1_000_000, 100, u64::MAX),
    ] {
        let facts = facts(n, d);
        let planned = from_values(&facts, most, None).unwrap();
        let value = |plan: &GoldsteinPlan| plan.bound().unwrap().value;
        let mut candidates: Vec<u64> = (0..7).map(|k| 1 << k).filter(|m| *m < d as u64).collect();
        candidates.push(d as u64);
        let all: Vec<GoldsteinPlan> = candidates
            .iter()
            .filter_map(|m| from_values(&facts, most, Some(*m)).ok())
            .collect();
        let least = all.iter().map(value).fold(f64::INFINITY, f64::min);
        assert!(value(&planned) <= 1.02 * least);
        for other in all.iter().filter(|plan| value(plan) <= 1.02 * least) {
            assert!(planned.values() <= other.values());
        }
    }
}

#[test]
fn plans_from_values_are_refused_as_others_are() {
    let Err(PlanError::VacuousGoldstein {
        needed: Some(needed),
        solver: "goldstein-zo",
        ..
    }) = from_values(&facts(50, 10), u64::MAX, None)
    else {
        panic!();
    };
    assert!(from_values(&facts(needed, 10), u64::MAX, None).is_ok());
    assert!(from_values(&facts(needed - 1, 10), u64::MAX, None).is_err());
}
