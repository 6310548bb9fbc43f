//! A contribution's bits depend on its record and the public points only, and one record moves a
//! release by no more than the sensitivity.
//!
//! Un-noised sums can't be read. Two simulated curators with the same seed draw the same noise,
//! so equal releases mean equal sums, and the difference of two releases is that of the sums.

use std::num::NonZeroUsize;

use dpopt_linalg::{Design, norm};
use dpopt_oracle::{Glm, PrivateData, PrivateGradient};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, SamplingRate, Spend, Which,
};

use crate::common::{sparse, uniforms, z};

const DIM: usize = 5;

/// A record with a dense row.
type Record = ([f64; DIM], f32);

/// Rows of all lengths (some above the bound 1), some with zeros, labels of both kinds.
fn records(count: usize, seed: u64) -> Vec<Record> {
    let mut next = uniforms(seed);
    (0..count)
        .map(|i| {
            let scale = 10f64.powf(1.5 * next() - 1.0);
            let mut row = [0.0; DIM];
            for x in &mut row {
                let value = next();
                // Single precision, so that all stores hold the same numbers.
                *x = f64::from((if value > 0.6 { 0.0 } else { scale * value }) as f32);
            }
            let label = if i % 3 == 0 { next() } else { next().signum() };
            (row, label as f32)
        })
        .collect()
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Store {
    Dense,
    Dense32,
    Sparse,
}

const STORES: [Store; 3] = [Store::Dense, Store::Dense32, Store::Sparse];

fn private(records: &[Record], store: Store, adjacency: Adjacency, public: u64) -> PrivateData {
    let flat = || records.iter().flat_map(|(row, _)| row.iter().copied());
    let design = match store {
        Store::Dense => Design::dense(DIM, flat().collect()).unwrap(),
        Store::Dense32 => Design::dense32(DIM, flat().map(|x| x as f32).collect()).unwrap(),
        Store::Sparse => sparse(DIM, records.iter().map(|(row, _)| &row[..])),
    };
    let labels = records.iter().map(|(_, label)| *label).collect();
    let declared = (adjacency == Adjacency::AddRemove).then_some(public);
    let bound = ClipNorm::new(1.0).unwrap();
    PrivateData::made_up(design, labels, bound, adjacency, declared).unwrap()
}

const MULTIPLIER: f64 = 1e-3;

fn open<'a>(data: &'a PrivateData, loss: Glm, clip: Option<f64>) -> PrivateGradient<'a> {
    let curator = Curator::simulated(data.adjacency(), 99);
    let mut estimator = PrivateGradient::new(data, loss, curator).unwrap();
    if let Some(clip) = clip {
        estimator = estimator.with_clip(ClipNorm::new(clip).unwrap());
    }
    let event = Event::gaussian(z(MULTIPLIER)).repeated(100);
    estimator.reserve(&Spend::Fixed(event)).unwrap();
    estimator
}

/// Points along which the estimate is moved: from the origin by steps of all sizes up to 1, and
/// on; the first are tiny, so that they differ from the point before.
fn trail() -> Vec<[f64; DIM]> {
    let direction = [0.48, -0.6, 0.0, 0.64, 1e-3];
    [
        1e-300,
        1e-200,
        1e-100,
        1e-30,
        1e-12,
        1e-4,
        1e-1,
        1.0,
        1.0 + 1e-9,
        1e3,
        1e300,
    ]
    .map(|t| direction.map(|x| t * x))
    .to_vec()
}

/// The releases of a fixed program: variations along the trail from the origin, with the changes
/// of the estimate, and anchors at all its points.
fn releases(estimator: &mut PrivateGradient<'_>) -> Vec<Vec<f64>> {
    let mut out = Vec::new();
    for point in trail() {
        out.push(
            estimator
                .advance(&point, z(MULTIPLIER))
                .unwrap()
                .gradient
                .to_vec(),
        );
    }
    for point in trail() {
        out.push(
            estimator
                .refresh(&point, z(MULTIPLIER))
                .unwrap()
                .gradient
                .to_vec(),
        );
    }
    out
}

fn bits(all: &[Vec<f64>]) -> Vec<u64> {
    all.iter().flatten().map(|x| x.to_bits()).collect()
}

#[test]
fn the_order_of_the_records_does_not_matter() {
    let forward = records(300, 1);
    let mut shuffled = forward.clone();
    shuffled.reverse();
    shuffled.rotate_left(101);
    shuffled.swap(3, 250);
    for loss in Glm::ALL {
        for store in STORES {
            for clip in [None, Some(0.05)] {
                let run = |records: &[Record]| {
                    let data = private(records, store, Adjacency::ReplaceOne, 0);
                    bits(&releases(&mut open(&data, loss, clip)))
                };
                assert_eq!(run(&forward), run(&shuffled), "{loss} {store:?} {clip:?}");
            }
        }
    }
}

#[test]
fn padding_and_splitting_by_zero_rows_does_not_matter() {
    // Under add/remove the normaliser is declared, so rows that contribute nothing are invisible
    // wherever they stand. They shift all others against vector lanes and thread blocks.
    let plain = records(300, 2);
    let zero = ([0.0; DIM], 1.0);
    let erased = ([f64::NAN, 1.0, 1.0, 1.0, 1.0], 1.0);
    let mut padded = vec![zero; 7];
    for (i, record) in plain.iter().enumerate() {
        padded.push(*record);
        if i % 13 == 0 {
            padded.push(zero);
        }
        if i % 50 == 0 {
            padded.push(erased);
        }
    }
    for loss in Glm::ALL {
        for store in STORES {
            let run = |records: &[Record]| {
                let data = private(records, store, Adjacency::AddRemove, 300);
                bits(&releases(&mut open(&data, loss, None)))
            };
            assert_eq!(run(&plain), run(&padded), "{loss} {store:?}");
        }
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    // Enough work for eight threads, which take it in pieces that end inside of vector lanes and blocks.
    let many = records(16_001, 3);
    for loss in Glm::ALL {
        for store in [Store::Dense, Store::Sparse] {
            let data = private(&many, store, Adjacency::ReplaceOne, 0);
            let run = |threads: usize| {
                let estimator = open(&data, loss, None);
                let threads = NonZeroUsize::new(threads).unwrap();
                bits(&releases(&mut estimator.with_threads(threads)))
            };
            let one = run(1);
            for threads in [2, 3, 5, 8] {
                assert!(one == run(threads), "{loss} {store:?} {threads}");
            }
        }
    }
}

#[test]
fn a_sample_depends_on_positions_only_through_who_is_in_it() {
    // Poisson samples are drawn by position: with the same seed the same positions are in, so
    // records outside the sample may be anything.
    let rate = SamplingRate::new(0.3).unwrap();
    let plain = records(400, 4);
    let data = private(&plain, Store::Dense, Adjacency::ReplaceOne, 0);
    let run = |data: &PrivateData| {
        let curator = Curator::simulated(data.adjacency(), 5);
        let mut estimator = PrivateGradient::new(data, Glm::Welsch, curator)
            .unwrap()
            .reading(Which::Poisson(rate), Which::Poisson(rate));
        let event = Event::gaussian(z(MULTIPLIER)).poisson_sampled(rate);
        estimator.reserve(&Spend::Fixed(event)).unwrap();
        let estimate = estimator.refresh(&[0.1; DIM], z(MULTIPLIER)).unwrap();
        estimate.gradient.to_vec()
    };
    let base = run(&data);
    let mut inside = 0;
    for i in 0..plain.len() {
        let mut other = plain.clone();
        other[i] = ([0.9, -0.3, 0.1, 0.0, 0.2], -0.4);
        let moved = run(&private(&other, Store::Dense, Adjacency::ReplaceOne, 0));
        inside += usize::from(moved != base);
    }
    // Binomial(400, 0.3): 120 +- 9.2; within six deviations.
    assert!(inside.abs_diff(120) < 55, "{inside}");
}

/// Records that a hostile owner might send.
fn hostile() -> Vec<Record> {
    let e = |x: f64| {
        let mut row = [0.0; DIM];
        row[0] = x;
        row
    };
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let mut all = vec![
        (e(1.0), 1.0),
        (e(-1.0), 1.0),
        (e(1.0), -1.0),
        (e(nan), 1.0),
        (e(inf), 1.0),
        (e(-inf), -1.0),
        ([nan; DIM], f32::NAN),
        ([inf; DIM], f32::INFINITY),
        ([1e300; DIM], 1.0),
        ([f64::MAX; DIM], 1.0),
        ([1e38; DIM], -1.0),
        (e(1e-320), 1.0),
        ([1e-40; DIM], 1.0),
        (e(1.0), f32::NAN),
        (e(1.0), f32::INFINITY),
        (e(1.0), f32::MAX),
        (e(-1.0), f32::MIN),
        (e(1.0), 1e30),
        (e(1.0), 0.0),
        (e(1.0), 1e-45),
        ([0.0; DIM], 1.0),
        ([0.48, -0.6, 0.0, 0.64, 1e-3], 0.5),
        ([-0.48, 0.6, 0.0, -0.64, -1e-3], 0.5),
    ];
    all.extend(records(20, 6));
    all
}

/// Releases of the fixed program with their sensitivities: the change of the estimate by each
/// variation, and each anchor.
fn traced(data: &PrivateData, loss: Glm, clip: Option<f64>) -> Vec<(Vec<f64>, f64, f64)> {
    let mut estimator = open(data, loss, clip);
    let mut out = Vec::new();
    let mut last = vec![0.0; DIM];
    for point in trail() {
        let estimate = estimator.advance(&point, z(MULTIPLIER)).unwrap();
        let change = estimate.gradient.iter().zip(&last).map(|(a, b)| a - b);
        let change: Vec<f64> = change.collect();
        // Adding to the running estimate rounds.
        let rounding = norm(estimate.gradient) + norm(&last);
        last = estimate.gradient.to_vec();
        out.push((change, estimate.release_std / MULTIPLIER, rounding));
    }
    for point in trail() {
        let estimate = estimator.refresh(&point, z(MULTIPLIER)).unwrap();
        let sensitivity = estimate.release_std / MULTIPLIER;
        out.push((
            estimate.gradient.to_vec(),
            sensitivity,
            norm(estimate.gradient),
        ));
    }
    out
}

#[test]
fn one_record_moves_a_release_by_at_most_the_sensitivity() {
    const ROWS: usize = 40;
    for (adjacency, s) in [(Adjacency::ReplaceOne, 2.0), (Adjacency::AddRemove, 1.0)] {
        for loss in Glm::ALL {
            let constants = loss.constants(1.0);
            for store in STORES {
                for clip in [None, Some(0.01)] {
                    let base = records(ROWS, 7);
                    let make = |records: &[Record]| {
                        let data = private(records, store, adjacency, ROWS as u64);
                        traced(&data, loss, clip)
                    };
                    // Replace-one: record 17 is one of the hostile ones; add/remove: without it
                    // against with it.
                    let mut neighbours: Vec<Vec<_>> = Vec::new();
                    for record in hostile() {
                        let mut other = base.clone();
                        if adjacency == Adjacency::ReplaceOne {
                            other[17] = record;
                        } else {
                            other.insert(17, record);
                        }
                        neighbours.push(make(&other));
                    }
                    if adjacency == Adjacency::AddRemove {
                        // Each against the common part only.
                        neighbours.insert(0, make(&base));
                    }
                    let pairs = match adjacency {
                        Adjacency::AddRemove => 1,
                        _ => neighbours.len(),
                    };
                    let radius = clip.unwrap_or(constants.lipschitz);
                    for a in &neighbours[..pairs] {
                        for b in &neighbours {
                            for (k, (a, b)) in a.iter().zip(b).enumerate() {
                                assert_eq!(a.1, b.1, "the noise depends on public numbers only");
                                let moved: Vec<f64> =
                                    a.0.iter().zip(&b.0).map(|(x, y)| x - y).collect();
                                let slack = 4.0 * f64::EPSILON * (a.1 + a.2 + b.2);
                                assert!(
                                    norm(&moved) <= a.1 + slack,
                                    "{adjacency} {loss} {store:?} {clip:?} release {k}: {:e} > {:e}",
                                    norm(&moved),
                                    a.1
                                );
                                // And the sensitivity is the stated one.
                                let largest = s * radius / ROWS as f64 * (1.0 + 1e-9);
                                assert!(a.1 <= 2.0 * largest);
                                if k >= trail().len() {
                                    assert!((a.1 / largest - 1.0).abs() < 1e-8);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_sensitivity_is_attained() {
    // Opposite records beyond the clip radius: the release moves by nearly 2C/n (an anchor), so
    // the test above is not passed by an estimator that ignores its data.
    let data = |label: f32| {
        let mut all = records(40, 8);
        all[17] = ([1.0, 0.0, 0.0, 0.0, 0.0], label);
        private(&all, Store::Dense, Adjacency::ReplaceOne, 0)
    };
    let release = |data: &PrivateData| {
        let mut estimator = open(data, Glm::Logistic, Some(0.3));
        let estimate = estimator.refresh(&[0.0; DIM], z(MULTIPLIER)).unwrap();
        estimate.gradient.to_vec()
    };
    let (a, b) = (release(&data(1.0)), release(&data(-1.0)));
    let moved: Vec<f64> = a.iter().zip(&b).map(|(x, y)| x - y).collect();
    let sensitivity = 2.0 * 0.3 / 40.0;
    assert!(norm(&moved) > 0.999_999 * sensitivity && norm(&moved) <= sensitivity * (1.0 + 1e-12));
}

#[test]
fn small_differences_keep_their_accuracy() {
    // f(w + v) - f(w) along a short v is (Hessian) v to first order: at 1e-300 as exactly as at
    // 1e-6, up to the lattice (2^-29 of the radius) and the noise (1e-3 of it over n).
    let all = records(40, 9);
    let data = private(&all, Store::Dense, Adjacency::ReplaceOne, 0);
    for loss in Glm::SMOOTH {
        let change = |t: f64| {
            let mut estimator = open(&data, loss, None);
            let point = [0.48 * t, -0.6 * t, 0.0, 0.64 * t, 0.0];
            let estimate = estimator.advance(&point, z(MULTIPLIER)).unwrap();
            let per_t = estimate.gradient.iter().map(|g| g / t);
            per_t.collect::<Vec<f64>>()
        };
        let expected = change(1e-6);
        // Radii below 2^-900 are rounded up to it, so 1e-250 is the smallest that keeps scale.
        for t in [1e-9, 1e-30, 1e-100, 1e-200, 1e-250] {
            let found = change(t);
            let apart: Vec<f64> = found.iter().zip(&expected).map(|(a, b)| a - b).collect();
            let scale = loss.constants(1.0).smoothness;
            // The noise is the same multiple of the radius in each.
            assert!(
                norm(&apart) < 2e-5 * scale,
                "{loss} {t:e}: {found:?} {expected:?}"
            );
        }
    }
}

/// Dividing by the realised size of a sample would rescale the whole release, noise included, when
/// one record joins: with the public size it moves by that record's contribution alone.
#[test]
fn a_poisson_mean_divides_by_the_public_size() {
    let rate = SamplingRate::new(0.5).unwrap();
    let noise = NoiseMultiplier::new(100.0).unwrap();
    let (public, clip) = (40, 0.7);
    let all = records(31, 11);
    let release = |records: &[Record], seed: u64| {
        let data = private(records, Store::Dense, Adjacency::AddRemove, public);
        let mut curator = Curator::simulated(Adjacency::AddRemove, seed);
        let event = Event::gaussian(noise).poisson_sampled(rate);
        curator.reserve(&Spend::Fixed(event)).unwrap();
        let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator)
            .unwrap()
            .with_clip(ClipNorm::new(clip).unwrap())
            .reading(Which::Poisson(rate), Which::Poisson(rate));
        let estimate = estimator.refresh(&[0.1; DIM], noise).unwrap();
        estimate.gradient.to_vec()
    };
    let largest = clip / (0.5 * public as f64);
    let mut moved = 0;
    for seed in 0..40 {
        // The last record joins; the others keep their positions, hence their coins.
        let (with, without) = (release(&all, seed), release(&all[..30], seed));
        let difference: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
        assert!(norm(&difference) <= largest * (1.0 + 1e-9), "seed {seed}");
        moved += usize::from(norm(&difference) > 0.0);
        // An empty data set still gets its noise.
        assert!(norm(&release(&[], seed)) > 0.0);
    }
    // Binomial(40, 1/2) leaves 6..=34 with probability below 1e-5; the seeds are fixed.
    assert!((6..=34).contains(&moved), "{moved}");
}
