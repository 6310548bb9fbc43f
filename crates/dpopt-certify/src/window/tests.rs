//! Pinned numbers, coverage, and what is refused.

use dpopt_linalg::{distance, norm};
use dpopt_oracle::{Offers, OracleFacts};
use dpopt_privacy::{Adjacency, SamplingRate};
use dpopt_solver::{Access, ReleaseKind, Withheld};

use super::plan::{Sampling, noise_slack, sampling_slack};
use super::stated::WindowSlack;
use super::watch::{Seen, Windows};
use super::{WindowError, WindowPlan, WindowSubject, WindowTerms};
use crate::random::Normals;

const DIM: usize = 3;

fn terms() -> WindowTerms {
    WindowTerms {
        releases: 64,
        window: 8,
        failure: 0.2,
        noise_std: 0.3,
        records: 12,
        adjacency: Adjacency::ReplaceOne,
        dim: DIM,
        access: Access::FullBatch,
        lipschitz: 1.0,
        clip: 1.0,
        differentiable: true,
        whole: true,
    }
}

fn windows(terms: WindowTerms) -> Windows {
    Windows::new(WindowPlan::new(terms).unwrap(), 1 << 20)
}

fn seen<'a>(terms: &WindowTerms, step: u64, point: &'a [f64], vector: &'a [f64]) -> Seen<'a> {
    Seen {
        step,
        steps: terms.releases,
        kind: ReleaseKind::Anchor,
        point,
        vector,
        noise_norm: (terms.dim as f64).sqrt() * terms.noise_std,
        oracle: OracleFacts::new(terms.dim, terms.records, terms.adjacency, Offers::MEANS),
    }
}

fn close(found: f64, pinned: f64) {
    assert!((found - pinned).abs() <= 1e-11 * pinned, "{found} {pinned}");
}

/// Computed by another program with 40 digits.
#[test]
fn what_is_added_is_what_the_formulas_say() {
    let all = 2000.0 * 2001.0 / 2.0;
    close(
        0.05 + noise_slack(0.01, 10.0, 64.0, all, 0.05),
        0.0698961328339,
    );
    let poisson = Sampling::Poisson {
        rate: 0.001355,
        mean_size: 271.0,
    };
    close(
        sampling_slack(poisson, 1.0, 160.0, all, 0.025),
        0.0297893343001,
    );
    // The larger the sample, the more Bernstein's form is worth.
    for (size, window, factor) in [(1.0, 2.0, 2.0), (1e4, 100.0, 1.0)] {
        let log = (2.0 * all / 0.025f64).ln();
        let root = (2.0 * log / (size * window)).sqrt();
        let found = sampling_slack(Sampling::Fixed { size }, 1.0, window, all, 0.025);
        assert!((factor * root..=factor * root * 1.01).contains(&found));
    }
}

#[test]
fn a_plan_splits_what_it_may_fail_by_and_adds_rounding() {
    let all = WindowPlan::new(terms()).unwrap();
    assert_eq!(all.windows(), 8);
    let slack = all.slack();
    let noise = noise_slack(0.3, 3f64.sqrt(), 8.0, 8.0, 0.2);
    assert!(slack.noise >= noise && slack.noise <= noise * (1.0 + 2e-6));
    assert_eq!(slack.sampling, 0.0);
    let step = 2f64.powi(-29);
    close(
        slack.rounding,
        (1.5 * 3f64.sqrt() + 1.0) * step + 2f64.powi(-44),
    );
    let rate = SamplingRate::new(0.25).unwrap();
    let sampled = WindowPlan::new(WindowTerms {
        access: Access::Poisson(rate),
        ..terms()
    })
    .unwrap();
    let poisson = Sampling::Poisson {
        rate: 0.25,
        mean_size: 3.0,
    };
    close(
        sampled.slack().sampling,
        sampling_slack(poisson, 1.0, 8.0, 8.0, 0.1),
    );
    let noise = noise_slack(0.3, 3f64.sqrt(), 8.0, 8.0, 0.1);
    assert!(sampled.slack().noise >= noise);
    assert!(!sampled.of_population() && !all.of_population());
}

#[test]
fn what_the_value_is_of_is_said() {
    let of = |terms: WindowTerms| WindowPlan::new(terms).unwrap().subject();
    assert_eq!(of(terms()), WindowSubject::GoldsteinDistance);
    let kinks = WindowTerms {
        differentiable: false,
        ..terms()
    };
    assert_eq!(of(kinks), WindowSubject::ComponentWise);
    let clipped = WindowTerms { clip: 0.5, ..kinks };
    assert_eq!(of(clipped), WindowSubject::ClippedGradients);
    // Where no constant is known every clip may bite.
    let unknown = WindowTerms {
        lipschitz: f64::INFINITY,
        ..terms()
    };
    assert_eq!(of(unknown), WindowSubject::ClippedGradients);
    let unread = WindowTerms {
        access: Access::SinglePass {
            anchor: 5,
            variation: 5,
        },
        ..terms()
    };
    assert!(WindowPlan::new(unread).unwrap().of_population());
    // An erased record is no draw from the population.
    let erased = WindowTerms {
        adjacency: Adjacency::ZeroOut,
        ..unread
    };
    assert!(matches!(
        WindowPlan::new(erased),
        Err(WindowError::NoSample(_))
    ));
}

/// The constants of the oracle count, and not the caller's: gradients that may be longer than the clip are clipped ones, and where the clip is no
/// bound for what sampling adds nothing is said.
#[test]
fn longer_gradients_than_planned_are_clipped_ones() {
    let zeros = [0.0; DIM];
    let of = |terms: WindowTerms, known: Option<f64>| {
        let mut windows = windows(terms);
        for step in 0..terms.releases {
            let mut seen = seen(&terms, step, &zeros, &zeros);
            if let Some(known) = known {
                seen.oracle = seen.oracle.with_constants(known, f64::INFINITY);
            }
            windows.take(&seen);
        }
        windows.certificate().map(|found| found.of)
    };
    let whole = Ok(WindowSubject::GoldsteinDistance);
    for known in [None, Some(1.0), Some(0.5)] {
        assert_eq!(of(terms(), known), whole);
    }
    for known in [Some(1.001), Some(f64::INFINITY)] {
        assert_eq!(of(terms(), known), Ok(WindowSubject::ClippedGradients));
        let wide = WindowTerms {
            clip: 2.0,
            ..terms()
        };
        let refused = of(wide, known);
        assert!(
            matches!(refused, Err(WindowError::LongerGradients { .. })),
            "{refused:?}"
        );
        assert_eq!(of(wide, Some(1.0)), whole);
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let refused = |terms, name| {
        let Err(WindowError::OutOfRange { name: found, .. }) = WindowPlan::new(terms) else {
            panic!("{name}");
        };
        assert_eq!(found, name);
    };
    for failure in [0.0, 1.0, -0.1, f64::NAN] {
        refused(WindowTerms { failure, ..terms() }, "failure");
    }
    for window in [0, 65] {
        refused(WindowTerms { window, ..terms() }, "window");
    }
    for bad in [0.0, -1.0, f64::NAN] {
        let with = |change: fn(&mut WindowTerms, f64)| {
            let mut terms = terms();
            change(&mut terms, bad);
            terms
        };
        refused(with(|terms, x| terms.noise_std = x), "noise_std");
        refused(with(|terms, x| terms.clip = x), "clip");
        refused(with(|terms, x| terms.lipschitz = x), "lipschitz");
    }
    refused(WindowTerms { dim: 0, ..terms() }, "dim");
    refused(
        WindowTerms {
            access: Access::FixedSize(0),
            ..terms()
        },
        "sample size",
    );
    refused(
        WindowTerms {
            records: 0,
            ..terms()
        },
        "records",
    );
}

/// A plan without blocks gets the least power of two that is exact enough, or the whole run.
#[test]
fn a_window_suits_the_noise() {
    let window = |noise_std, releases| {
        let terms = WindowTerms {
            noise_std,
            releases,
            ..terms()
        };
        terms.with_suited_window().window
    };
    assert_eq!(window(1e-6, 1000), 1);
    let found = window(0.01, 1_000_000);
    assert!(found.is_power_of_two());
    let slack = |window| {
        let terms = WindowTerms {
            noise_std: 0.01,
            releases: 1_000_000,
            window,
            ..terms()
        };
        WindowPlan::new(terms).unwrap().slack().total()
    };
    assert!(slack(found) <= 0.02 && slack(found / 2) > 0.02);
    assert_eq!(window(10.0, 1000), 1000);
    assert_eq!(window(10.0, 1), 1);
}

/// Two windows of two at the end of five releases: the first release is in none.
#[test]
fn the_least_window_is_kept_with_its_points() {
    let terms = WindowTerms {
        releases: 5,
        window: 2,
        dim: 1,
        ..terms()
    };
    let steps = [(9.0, 0.0), (0.0, 1.0), (1.0, 3.0), (4.0, -1.0), (6.0, 1.5)];
    for (memory, radius, exact) in [(1 << 10, 1.0, true), (0, 3.0, false)] {
        let mut windows = Windows::new(WindowPlan::new(terms).unwrap(), memory);
        for (step, (point, vector)) in steps.iter().enumerate() {
            windows.take(&seen(&terms, step as u64, &[*point], &[*vector]));
        }
        let found = windows.certificate().unwrap();
        assert_eq!((found.first_step, found.window, found.windows), (3, 2, 2));
        assert_eq!((found.released, found.point.as_slice()), (0.25, &[5.0][..]));
        assert_eq!(found.radius_is_exact, exact);
        close(found.radius, radius);
        close(found.radius_around(&[7.0]), radius + 2.0);
        close(found.value, 0.25 + found.slack.total());
        assert!(found.slack.rounding > WindowPlan::new(terms).unwrap().slack().rounding);
        close(found.probability, 0.8);
    }
}

/// A run that stops early has the windows that it completed, of as many as were planned.
#[test]
fn an_early_stop_changes_no_count() {
    let terms = terms();
    let run = |releases: u64| {
        let mut windows = windows(terms);
        for step in 0..releases {
            windows.take(&seen(&terms, step, &[0.0; DIM], &[0.1; DIM]));
        }
        windows.certificate()
    };
    assert_eq!(run(7), Err(WindowError::NoWindow { window: 8 }));
    let (early, whole) = (run(8).unwrap(), run(64).unwrap());
    assert_eq!(early.windows, 8);
    assert_eq!(early.value, whole.value);
}

#[test]
fn releases_that_are_not_fresh_or_not_those_of_the_plan_are_refused() {
    let terms = terms();
    let zeros = [0.0; DIM];
    let after = |bad: Seen<'_>| {
        let mut windows = windows(terms);
        for step in 0..bad.step.min(8) {
            windows.take(&seen(&terms, step, &zeros, &zeros));
        }
        windows.take(&bad);
        // What comes later doesn't mend it.
        for step in bad.step..64 {
            windows.take(&seen(&terms, step, &zeros, &zeros));
        }
        windows.certificate().unwrap_err()
    };
    let good = |step| seen(&terms, step, &zeros, &zeros);
    for kind in [ReleaseKind::Variation, ReleaseKind::Pass, ReleaseKind::Norm] {
        let found = after(Seen { kind, ..good(8) });
        assert_eq!(found, WindowError::Kind { step: 8, kind });
    }
    let noise_norm = 1.001 * good(3).noise_norm;
    for noise_norm in [noise_norm, 0.0, f64::NAN] {
        let found = after(Seen {
            noise_norm,
            ..good(3)
        });
        assert!(matches!(found, WindowError::Noise { step: 3, .. }));
    }
    let steps = 65;
    assert!(matches!(
        after(Seen { steps, ..good(3) }),
        WindowError::Order { steps: 65, .. }
    ));
    assert!(matches!(
        after(good(11)),
        WindowError::Order {
            expected: 8,
            step: 11,
            ..
        }
    ));
    for (point, vector) in [(&zeros[..2], &zeros[..]), (&zeros[..], &zeros[..2])] {
        assert_eq!(
            after(Seen {
                point,
                vector,
                ..good(0)
            }),
            WindowError::Dimension {
                planned: 3,
                released: 2
            }
        );
    }
}

/// How the noise of a simulated run comes about.
#[derive(Clone, Copy, PartialEq)]
enum Noise {
    /// Drawn anew for each release.
    Fresh,
    /// Drawn once, and used for all releases of the run: the broken twin.
    Reused,
}

/// Walks that try to hide their gradient: the next point is where the noise of the last release cancels it. Returns how many of
/// `runs` have a window of which the claim is wrong, whichever that is.
fn misses(terms: WindowTerms, noise: Noise, runs: u64, less: impl Fn(WindowSlack) -> f64) -> u64 {
    let records: Vec<Vec<f64>> = {
        let mut draw = Normals::new(7);
        (0..terms.records).map(|_| draw.direction(DIM)).collect()
    };
    let rate = match terms.access {
        Access::Poisson(rate) => rate.get(),
        _ => 1.0,
    };
    let slack = less(WindowPlan::new(terms).unwrap().slack());
    let mut missed = 0;
    for run in 0..runs {
        let mut draw = Normals::new(1_000 + run);
        let once = draw.vector(DIM);
        let mut kept = windows(terms);
        let mut point = vec![0.0; DIM];
        let (mut truth, mut released) = (vec![0.0; DIM], vec![0.0; DIM]);
        let mut means: Vec<(f64, f64)> = Vec::new();
        for step in 0..terms.releases {
            // A record's gradient at y is y + its direction, clipped to 1.
            let (mut all, mut sample) = (vec![0.0; DIM], vec![0.0; DIM]);
            for record in &records {
                let gradient: Vec<f64> = record.iter().zip(&point).map(|(r, y)| r + y).collect();
                let scale = 1.0 / norm(&gradient).max(1.0);
                let drawn = rate == 1.0 || draw.uniform() < rate;
                for i in 0..DIM {
                    let part = scale * gradient[i] / records.len() as f64;
                    all[i] += part;
                    sample[i] += if drawn { part / rate } else { 0.0 };
                }
            }
            let fresh = draw.vector(DIM);
            let used = match noise {
                Noise::Fresh => &fresh,
                Noise::Reused => &once,
            };
            let vector: Vec<f64> = sample
                .iter()
                .zip(used)
                .map(|(v, w)| v + terms.noise_std * w)
                .collect();
            kept.take(&seen(&terms, step, &point, &vector));
            for i in 0..DIM {
                truth[i] += all[i] / terms.window as f64;
                released[i] += vector[i] / terms.window as f64;
                point[i] = -2.0 * terms.noise_std * used[i];
            }
            if (step + 1) % terms.window == 0 {
                means.push((norm(&truth), norm(&released)));
                truth.fill(0.0);
                released.fill(0.0);
            }
        }
        let wrong = |(truth, released): &(f64, f64)| *truth > released + slack;
        // The one that is kept, and with it the one that a chooser would like to see fail.
        kept.certificate().unwrap();
        missed += u64::from(means.iter().any(wrong));
    }
    missed
}

/// zeta of the runs and four standard errors.
fn allowed(zeta: f64, runs: u64) -> u64 {
    let runs = runs as f64;
    (zeta * runs + 4.0 * (zeta * (1.0 - zeta) * runs).sqrt()) as u64
}

/// Settings at which the slack is far below the length of a gradient, so that a claim can be wrong: noise alone, and samples almost
/// alone.
fn settings() -> [WindowTerms; 2] {
    let by_noise = WindowTerms {
        noise_std: 0.1,
        window: 8,
        releases: 256,
        ..terms()
    };
    let by_samples = WindowTerms {
        noise_std: 0.002,
        access: Access::Poisson(SamplingRate::new(0.3).unwrap()),
        window: 128,
        releases: 256,
        ..terms()
    };
    [by_noise, by_samples]
}

#[test]
fn at_most_zeta_of_the_runs_have_a_window_that_is_wrong() {
    let runs = 1_000;
    for terms in settings() {
        let total = WindowPlan::new(terms).unwrap().slack().total();
        assert!(total < 0.35, "{total}");
        let missed = misses(terms, Noise::Fresh, runs, |slack| slack.total());
        assert!(missed <= allowed(terms.failure, runs), "{missed}");
    }
}

/// An eighth of what is added is too little: the runs tell.
#[test]
fn less_than_what_is_added_is_caught() {
    let runs = 300;
    for terms in settings() {
        let missed = misses(terms, Noise::Fresh, runs, |slack| slack.total() / 8.0);
        assert!(missed > allowed(terms.failure, runs), "{missed}");
    }
}

/// Noise that is used again does not average out.
#[test]
fn noise_that_is_used_again_is_caught() {
    let runs = 500;
    let terms = WindowTerms {
        window: 32,
        ..terms()
    };
    let all = |slack: WindowSlack| slack.total();
    let missed = misses(terms, Noise::Reused, runs, all);
    assert!(missed > 2 * allowed(terms.failure, runs), "{missed}");
    // The same walks with noise of their own.
    assert!(misses(terms, Noise::Fresh, runs, all) <= allowed(terms.failure, runs));
}

#[test]
fn other_records_inexact_sums_and_points_that_are_not_finite_are_refused() {
    let terms = terms();
    let zeros = [0.0; DIM];
    let after = |bad: Seen<'_>| {
        let mut windows = windows(terms);
        windows.take(&bad);
        windows.certificate().unwrap_err()
    };
    let good = || seen(&terms, 0, &zeros, &zeros);
    use WindowError::NotCovered as Not;
    let mut hidden = good();
    hidden.oracle.adjacency = Adjacency::AddRemove;
    assert!(matches!(after(hidden), Not(Withheld::DeclaredSize { .. })));
    let mut more = good();
    more.oracle.records = 13;
    let found = after(more);
    assert!(matches!(
        found,
        Not(Withheld::OtherRecords { found: 13, .. })
    ));
    let mut short = good();
    short.oracle.exact_sums = false;
    assert_eq!(after(short), Not(Withheld::SinglePrecision));
    let far = [0.0, f64::INFINITY, 0.0];
    for (point, vector) in [(&far, &zeros), (&zeros, &far)] {
        let found = after(seen(&terms, 0, point, vector));
        assert_eq!(found, WindowError::NotFinite { step: 0 });
    }
    let hidden = WindowTerms {
        adjacency: Adjacency::AddRemove,
        ..terms
    };
    assert_eq!(
        WindowPlan::new(hidden).err(),
        Some(WindowError::DeclaredSize)
    );
}

/// The points' mean is what distances are taken to, up to rounding.
#[test]
fn radii_hold_every_point() {
    let terms = WindowTerms {
        window: 64,
        ..terms()
    };
    let plan = WindowPlan::new(terms).unwrap();
    let mut draw = Normals::new(3);
    let points: Vec<Vec<f64>> = (0..64).map(|_| draw.vector(DIM)).collect();
    let run = |memory| {
        let mut windows = Windows::new(plan, memory);
        for (step, point) in points.iter().enumerate() {
            windows.take(&seen(&terms, step as u64, point, &[0.0; DIM]));
        }
        windows.certificate().unwrap()
    };
    let (exact, loose) = (run(64 * DIM), run(64 * DIM - 1));
    let away = points.iter().map(|point| distance(point, &exact.point));
    let farthest = away.fold(0.0, f64::max);
    close(exact.radius, farthest);
    assert!(exact.radius_is_exact && !loose.radius_is_exact);
    assert!((farthest..=3.0 * farthest).contains(&loose.radius));
    let away = points.iter().map(|point| distance(point, &[1.0; DIM]));
    assert!(away.fold(0.0, f64::max) <= exact.radius_around(&[1.0; DIM]));
}
