//! The sensitivity of passes by brute force, hostile records, and what is refused.

use super::*;
use crate::loss::{ConvexGlm, Differentiable, Glm, Loss, Scale};
use crate::positions::Positions;
use crate::records::{Example, Examples};
use dpopt_linalg::{Design, distance};
use dpopt_privacy::{Delta, Event, Refused, Spend};

const ORIGIN: [f64; 2] = [0.0, 0.0];

/// A row of two numbers and a label.
type Row2 = ([f64; 2], f32);

fn data(rows: &[Row2], adjacency: Adjacency) -> PrivateData {
    let design = Design::dense(2, rows.iter().flat_map(|row| row.0).collect()).unwrap();
    let labels = rows.iter().map(|row| row.1).collect();
    PrivateData::made_up(design, labels, ClipNorm::new(1.0).unwrap(), adjacency, None).unwrap()
}

fn huber() -> ConvexGlm {
    ConvexGlm::new(Glm::Huber(Scale::new(0.5).unwrap())).unwrap()
}

fn pass(records: u64, step_size: f64, modulus: f64) -> Pass<'static> {
    Pass {
        start: &ORIGIN,
        centre: &ORIGIN,
        modulus,
        step_size,
        origin: &ORIGIN,
        radius: 10.0,
        records,
    }
}

fn curator(adjacency: Adjacency) -> Curator {
    Curator::simulated(adjacency, 1)
}

/// The output of a pass before noise, and what is claimed of it.
fn output<L: ConvexSmooth<Records = Examples> + Copy>(
    loss: L,
    rows: &[Row2],
    pass: &Pass<'_>,
) -> (Vec<f64>, f64) {
    let adjacency = Adjacency::ReplaceOne;
    let data = data(rows, adjacency);
    let perturbed = OutputPerturbed::new(&data, loss, curator(adjacency)).unwrap();
    let terms = perturbed.terms(pass).unwrap();
    let first = Positions::Range(0..pass.records as usize).into();
    let moved = perturbed.walk(pass, &terms, pass.start, first).unwrap();
    (moved, terms.claim.sensitivity())
}

/// The largest move over all positions and all replacements, over what is claimed.
fn attained<L: ConvexSmooth<Records = Examples> + Copy>(
    loss: L,
    rows: &[Row2],
    others: &[Row2],
    pass: &Pass<'_>,
) -> f64 {
    let (base, claimed) = output(loss, rows, pass);
    let mut largest: f64 = 0.0;
    for i in 0..rows.len() {
        for other in others {
            let mut neighbour = rows.to_vec();
            neighbour[i] = *other;
            largest = largest.max(distance(&base, &output(loss, &neighbour, pass).0));
        }
    }
    largest / claimed
}

/// Slopes of full size and opposite signs, whatever the point: as linear losses.
const UP: Row2 = ([1.0, 0.0], -1e30);
const DOWN: Row2 = ([1.0, 0.0], 1e30);

#[test]
fn linear_losses_of_opposite_signs_attain_the_sensitivity() {
    for m in [1, 2, 3, 20, 100] {
        for (step_size, modulus) in [(0.1, 0.0), (0.1, 0.5), (0.3, 2.0), (0.01, 40.0)] {
            let share = attained(
                huber(),
                &vec![UP; m],
                &[DOWN],
                &pass(m as u64, step_size, modulus),
            );
            assert!(
                share <= 1.0 && share > 0.999,
                "{m} {step_size} {modulus}: {share}"
            );
        }
    }
}

/// The printed range of j starts at 1, which fits the average before each step only.
#[test]
fn leaving_out_the_first_term_would_understate_the_sensitivity() {
    let printed = |decay: f64, m: u64| {
        let total: f64 = (1..=m).map(|i| (1.0 - decay).powi(-(i as i32))).sum();
        (1..m)
            .map(|j| (m - j) as f64 * (1.0 - decay).powi(-(j as i32 + 1)) / total)
            .fold(0.0, f64::max)
    };
    for (m, least) in [(1, 1.0), (2, 0.4), (3, 0.3)] {
        let pass = pass(m, 1e-4, 0.5);
        let (base, _) = output(huber(), &vec![UP; m as usize], &pass);
        let mut neighbour = vec![UP; m as usize];
        neighbour[0] = DOWN;
        let moved = distance(&base, &output(huber(), &neighbour, &pass).0);
        let claimed = 2.0 * pass.step_size * 0.5 * printed(pass.step_size * pass.modulus, m);
        assert!(
            claimed <= (1.0 - least) * moved * (1.0 + 1e-3),
            "{m}: {claimed} {moved}"
        );
    }
}

/// Numbers in [0, 1) that need no generator.
fn spread(i: u64) -> f64 {
    ((i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 11) as f64) / (1_u64 << 53) as f64
}

fn rows(m: u64, seed: u64) -> Vec<Row2> {
    (0..m)
        .map(|i| {
            let angle = std::f64::consts::TAU * spread(7 * i + seed);
            let length = spread(11 * i + seed + 1).sqrt();
            let row = [length * angle.cos(), length * angle.sin()];
            (row, (4.0 * spread(13 * i + seed + 2) - 2.0) as f32)
        })
        .collect()
}

const HOSTILE: [Row2; 8] = [
    ([f64::NAN, 1.0], 1.0),
    ([f64::INFINITY, 1.0], -1.0),
    ([1e300, -1e300], 1.0),
    ([0.0, 0.0], 1.0),
    ([1.0, 0.0], f32::NAN),
    ([0.6, 0.8], f32::MAX),
    ([-0.6, -0.8], f32::MAX),
    ([1e-310, 5e-324], f32::MIN),
];

#[test]
fn no_record_moves_a_pass_by_more_than_claimed() {
    let logistic = ConvexGlm::new(Glm::Logistic).unwrap();
    let clipped = huber().with_slope_clip(ClipNorm::new(0.1).unwrap());
    let start = [0.3, -0.2];
    let centre = [-2.0, 5.0];
    for (m, step_size, modulus, radius) in [
        (1, 0.5, 0.5, 1.0),
        (3, 0.9, 0.1, 0.05),
        (17, 0.2, 1.0, 0.5),
        (40, 0.05, 3.0, 100.0),
        // As late phases are: the rounding of points of length 1 is a good part of what is claimed.
        (5, 1e-14, 0.5, 2.0),
        (2, 1e-16, 0.5, 2.0),
    ] {
        let pass = Pass {
            start: &start,
            centre: &centre,
            radius,
            ..pass(m, step_size, modulus)
        };
        let others: Vec<Row2> = HOSTILE.into_iter().chain([UP, DOWN]).collect();
        for seed in 0..3 {
            for loss in [logistic, huber(), clipped] {
                let share = attained(loss, &rows(m, seed), &others, &pass);
                assert!(share <= 1.0, "{loss:?} {m} {step_size}: {share}");
            }
        }
    }
}

/// 300 coordinates, where sums of products round at every turn: at step sizes down to those where rounding is all there is,
/// with regularisers so strong that a step forgets the point, and in a ball far from the origin.
#[test]
fn long_points_move_by_no_more_than_claimed() {
    let dim = 300_u64;
    let row = |seed: u64, sign: f64| -> Vec<f64> {
        let entry = |j: u64| spread(31 * j + seed) - 0.5;
        let length = (0..dim).map(|j| entry(j).powi(2)).sum::<f64>().sqrt();
        (0..dim).map(|j| sign * entry(j) / length).collect()
    };
    let vector = |seed, length: f64| row(seed, length);
    let adjacency = Adjacency::ReplaceOne;
    let walked = |rows: &[(u64, f64, f32)], pass: &Pass<'_>, loss: ConvexGlm| {
        let entries = rows.iter().flat_map(|(seed, sign, _)| row(*seed, *sign));
        let design = Design::dense(dim as usize, entries.collect()).unwrap();
        let labels = rows.iter().map(|row| row.2).collect();
        let one = ClipNorm::new(1.0).unwrap();
        let data = PrivateData::made_up(design, labels, one, adjacency, None).unwrap();
        let perturbed = OutputPerturbed::new(&data, loss, curator(adjacency)).unwrap();
        let terms = perturbed.terms(pass).unwrap();
        let first = Positions::Range(0..pass.records as usize).into();
        let moved = perturbed.walk(pass, &terms, pass.start, first).unwrap();
        (moved, terms.claim.sensitivity())
    };
    let m = 6;
    let logistic = ConvexGlm::new(Glm::Logistic).unwrap();
    for (step_size, modulus, away, radius) in [
        (0.5, 0.5, 0.0, 3.0),
        (1e-8, 1e8 - 2.0, 0.0, 3.0),
        (1e-12, 0.5, 1.0, 3.0),
        (1e-16, 0.5, 1e3, 1e-3),
        (1e-15, 0.0, 1e6, 1.0),
    ] {
        let (origin, centre) = (vector(1, away), vector(2, 5.0));
        let start: Vec<f64> = origin
            .iter()
            .zip(vector(3, 0.9 * radius))
            .map(|(o, v)| o + v)
            .collect();
        let pass = Pass {
            start: &start,
            centre: &centre,
            modulus,
            step_size,
            origin: &origin,
            radius,
            records: m,
        };
        for loss in [logistic, huber()] {
            let rows: Vec<_> = (0..m)
                .map(|i| (10 + i, 1.0, 0.3 - 0.1 * i as f32))
                .collect();
            let (base, claimed) = walked(&rows, &pass, loss);
            for at in 0..m as usize {
                for other in [
                    (10, -1.0, 1.0),
                    (77, 1.0, f32::MAX),
                    (78, 1e-200, -1.0),
                    (10, 1.0, f32::MIN),
                ] {
                    let mut neighbour = rows.clone();
                    neighbour[at] = other;
                    let moved = distance(&base, &walked(&neighbour, &pass, loss).0);
                    assert!(
                        moved <= claimed,
                        "{loss:?} {step_size} {at}: {moved} {claimed}"
                    );
                }
            }
        }
    }
}

/// A loss that is not convex, said to be: the twin that the brute force must catch.
#[derive(Clone, Copy)]
struct FalseClaim;

impl Loss for FalseClaim {
    type Records = Examples;
    fn dim(&self, records: &Examples) -> usize {
        records.columns()
    }
    fn constants_on(&self, records: &Examples) -> crate::Constants {
        Glm::Welsch.constants_on(records)
    }
    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        Loss::value(&Glm::Welsch, record, point)
    }
}

impl Differentiable for FalseClaim {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        Glm::Welsch.gradient(record, point, out);
    }
}

impl ConvexSmooth for FalseClaim {
    const ARGUMENT: &'static str = "a false claim";
    fn gradient_error(&self, _: &Examples, _: f64) -> f64 {
        1e-12
    }
}

#[test]
fn a_nonconvex_loss_under_a_false_claim_is_caught() {
    // Two points a little apart, where the slope falls: the one ahead leaves the other behind. An integration of
    // the recursion by hand gives 2.6.
    let far: Row2 = ([1.0, 0.0], -3.0);
    let others = [([1.0, 0.0], -1.0), ([1.0, 0.0], 1.0)];
    let share = attained(FalseClaim, &vec![far; 200], &others, &pass(200, 0.1, 0.0));
    assert!(share > 2.5 && share < 2.7, "{share}");
}

#[test]
fn only_convex_and_smooth_losses_are_taken() {
    use crate::loss::NotConvexSmooth::{Kink, Nonconvex};
    for glm in Glm::ALL {
        let taken = ConvexGlm::new(glm);
        match glm {
            Glm::Logistic | Glm::Huber(_) | Glm::Poisson(_) => assert!(taken.is_ok()),
            Glm::Hinge | Glm::Absolute | Glm::Pinball(_) => assert_eq!(taken, Err(Kink(glm))),
            _ => assert_eq!(taken, Err(Nonconvex(glm))),
        }
    }
}

/// Reserves one pass.
fn ready<'a>(data: &'a PrivateData, noise: NoiseMultiplier) -> OutputPerturbed<'a, ConvexGlm> {
    let mut perturbed = OutputPerturbed::new(data, huber(), curator(data.adjacency())).unwrap();
    let spend = Spend::Fixed(Event::ParallelComposed {
        events: vec![Event::gaussian(noise)],
    });
    perturbed.books().reserve(&spend).unwrap();
    perturbed
}

#[test]
fn what_is_refused_takes_no_records() {
    let noise = NoiseMultiplier::new(2.0).unwrap();
    let data = data(&[UP; 4], Adjacency::ReplaceOne);
    let mut perturbed = ready(&data, noise);
    let short = [0.0];
    let mut refused = |pass: Pass<'_>, z: NoiseMultiplier| perturbed.pass(&pass, z).unwrap_err();
    assert!(
        matches!(refused(pass(2, 0.8, 0.5), noise), AskError::Pass(PassError::StepTooLong { limit, .. }) if (limit - 1.0 / 1.5).abs() < 1e-12)
    );
    assert!(matches!(
        refused(
            Pass {
                centre: &short,
                ..pass(2, 0.1, 0.5)
            },
            noise
        ),
        AskError::Pass(PassError::Shape { found: 1, dim: 2 })
    ));
    for (name, bad) in [
        ("the step size", pass(2, f64::NAN, 0.5)),
        ("the modulus", pass(2, 0.1, -1.0)),
        (
            "the radius",
            Pass {
                radius: f64::INFINITY,
                ..pass(2, 0.1, 0.5)
            },
        ),
        (
            "the start",
            Pass {
                start: &[f64::NAN, 0.0],
                ..pass(2, 0.1, 0.5)
            },
        ),
        ("the number of records", pass(0, 0.1, 0.5)),
    ] {
        assert!(
            matches!(refused(bad, noise), AskError::Pass(PassError::Terms { name: found, .. }) if found == name),
            "{name}"
        );
    }
    let other = NoiseMultiplier::new(1.0).unwrap();
    assert!(matches!(
        refused(pass(2, 0.1, 0.5), other),
        AskError::Refused(Refused::NotReserved { .. })
    ));
    assert!(matches!(
        refused(pass(5, 0.1, 0.5), noise),
        AskError::Refused(Refused::Pool(PoolError::UsedUp { asked: 5, left: 4 }))
    ));
    // All four records are still there, and one slice is charged.
    perturbed.pass(&pass(4, 0.1, 0.5), noise).unwrap();
    assert_eq!(perturbed.books().counts().gradients, 4.0);
    assert!(perturbed.pass(&pass(1, 0.1, 0.5), noise).is_err());
}

/// Weights are those of the records that are really averaged. Where a pass of 1000 ends after one record, that one
/// record has all the weight, and the claim for 1000 is 0.37 of the truth.
#[test]
fn a_pool_of_more_positions_than_records_ends_with_the_records() {
    let noise = NoiseMultiplier::new(2.0).unwrap();
    for (positions, skipped) in [(1000, 0), (1001, 1), (5000, 4000)] {
        let data = data(&[UP, DOWN], Adjacency::ReplaceOne);
        let mut perturbed = ready(&data, noise);
        let there = 2u64.saturating_sub(skipped);
        perturbed
            .curator_mut()
            .open_pool(positions, skipped)
            .unwrap();
        let long = pass(1000, 0.01, 1.0);
        let refused = perturbed.pass(&long, noise).unwrap_err();
        assert!(
            matches!(refused, AskError::Refused(Refused::Pool(PoolError::UsedUp { asked: 1000, left })) if left == there),
            "{refused}"
        );
        // Nothing is lost: what is there can be read.
        assert_eq!(
            perturbed
                .pass(&pass(there.max(1), 0.01, 1.0), noise)
                .is_ok(),
            there > 0
        );
    }
    let share = |m| pass_influence(0.01, m);
    assert!(share(1) > 2.7 * share(1000));
}

#[test]
fn insertions_shift_slices_and_are_refused() {
    let design = Design::dense(2, vec![0.5; 4]).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    let data =
        PrivateData::made_up(design, vec![1.0; 2], one, Adjacency::AddRemove, Some(2)).unwrap();
    let refused = OutputPerturbed::new(&data, huber(), curator(Adjacency::AddRemove)).err();
    assert!(matches!(
        refused,
        Some(EstimatorError::Pool(PoolError::Adjacency { .. }))
    ));
}

#[test]
fn a_guarantee_says_that_the_loss_is_taken_at_its_word() {
    let noise = NoiseMultiplier::new(2.0).unwrap();
    let data = data(&[UP, DOWN], Adjacency::ZeroOut);
    let mut perturbed = ready(&data, noise);
    *perturbed.curator_mut() = Curator::protected(Adjacency::ZeroOut).unwrap();
    perturbed
        .books()
        .reserve(&Spend::Fixed(Event::ParallelComposed {
            events: vec![Event::gaussian(noise)],
        }))
        .unwrap();
    perturbed.pass(&pass(2, 0.1, 0.5), noise).unwrap();
    let guarantee = perturbed
        .curator()
        .guarantee(Delta::new(1e-5).unwrap())
        .unwrap();
    assert_eq!(guarantee.rests_on(), [ConvexGlm::ARGUMENT]);
}

/// The noise has the standard deviation that is stated: 4000 coordinates that no record touches. The mean of as
/// many squares is off by 0.11 with probability below 1e-6.
#[test]
fn the_noise_is_as_wide_as_stated() {
    let dim = 4000;
    let mut design = Design::sparse(dim).unwrap();
    for _ in 0..3 {
        design.push_row(&[(0, 1.0)]).unwrap();
    }
    let one = ClipNorm::new(1.0).unwrap();
    let data =
        PrivateData::made_up(design, vec![1.0; 3], one, Adjacency::ReplaceOne, None).unwrap();
    let noise = NoiseMultiplier::new(3.0).unwrap();
    let mut perturbed = ready(&data, noise);
    let zero = vec![0.0; dim];
    let wide = Pass {
        start: &zero,
        centre: &zero,
        origin: &zero,
        ..pass(3, 0.1, 0.5)
    };
    let released = perturbed.pass(&wide, noise).unwrap();
    let square = released.mean[1..].iter().map(|x| x * x).sum::<f64>() / (dim - 1) as f64;
    let stated = released.noise_std * released.noise_std;
    assert!((square / stated - 1.0).abs() < 0.11, "{square} {stated}");
    // s = 2 eta L0 times the influence, up to rounding.
    let expected = 3.0 * 2.0 * 0.1 * 0.5 * pass_influence(0.05, 3);
    assert!((released.noise_std / expected - 1.0).abs() < 1e-5);
}
