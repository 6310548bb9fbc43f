//! Blocks against plain sums, against records made to change the rounding of others, and against a twin that gives
//! records their blocks by rank.

use std::panic::{AssertUnwindSafe, catch_unwind};

use dpopt_lanes::Width;
use proptest::prelude::*;

use super::super::super::{Bound, FixedBlocks, LatticeSum};
use super::*;

mod terms;

use crate::adjacency::Adjacency;
use crate::ticket::TicketError;
use crate::units::{ClipNorm, SamplingRate};

/// One record: the two factors of each matrix.
type Parts = Vec<(Vec<f32>, Vec<f32>)>;

fn bound(radius: f64, dim: usize) -> Bound {
    Bound::new(ClipNorm::new(radius).unwrap(), dim).unwrap()
}

fn all() -> FixedBlocks {
    FixedBlocks::of_all(Adjacency::ReplaceOne).unwrap()
}

fn sampled() -> FixedBlocks {
    FixedBlocks::of_samples(Adjacency::ReplaceOne, SamplingRate::new(0.01).unwrap()).unwrap()
}

/// Panels of one layer.
struct Layer {
    left: Vec<[f32; SINGLES]>,
    right: Vec<[f32; SINGLES]>,
    shape: (usize, usize),
}

fn panels(records: &[&Parts], places: usize) -> Vec<Layer> {
    let put = |rows: Vec<&Vec<f32>>| {
        let mut out = vec![[0.0; SINGLES]; places * rows[0].len().div_ceil(SINGLES)];
        for (r, row) in rows.iter().enumerate() {
            for (p, part) in row.chunks(SINGLES).enumerate() {
                out[p * places + r][..part.len()].copy_from_slice(part);
            }
        }
        out
    };
    let layers = records.first().map_or(0, |r| r.len());
    (0..layers)
        .map(|l| Layer {
            left: put(records.iter().map(|r| &r[l].0).collect()),
            right: put(records.iter().map(|r| &r[l].1).collect()),
            shape: (records[0][l].0.len(), records[0][l].1.len()),
        })
        .collect()
}

/// Adds the records of one block.
fn add(sum: &mut LatticeSum, block: u64, records: &[&Parts]) {
    let places = records.len() + 3;
    let mut layers = panels(records, places);
    let mut factors: Vec<BlockFactors<'_>> = layers
        .iter_mut()
        .map(|layer| BlockFactors {
            left: &mut layer.left,
            left_len: layer.shape.0,
            right: &mut layer.right,
            right_len: layer.shape.1,
            places,
            terms: 1,
        })
        .collect();
    let width = sum.blocks().unwrap().width();
    let positions = block * width..(block + 1) * width;
    if !records.is_empty() {
        sum.add_outer_block(
            positions,
            records.len(),
            &mut factors,
            &mut BlockWork::new(),
        );
    }
}

/// The integers of the records at these positions; none where a position was not drawn.
fn placed(bound: Bound, blocks: FixedBlocks, records: &[Option<Parts>]) -> Vec<i64> {
    let mut sum = LatticeSum::in_blocks(bound, blocks);
    for (b, block) in records.chunks(blocks.width() as usize).enumerate() {
        let read: Vec<&Parts> = block.iter().flatten().collect();
        add(&mut sum, b as u64, &read);
    }
    sum.sum
}

/// The same, all of them under one factor.
fn placed_times(
    (bound, factor): (Bound, f64),
    blocks: FixedBlocks,
    records: &[Option<Parts>],
) -> Vec<i64> {
    let mut sum = LatticeSum::in_blocks(bound, blocks);
    sum.times(factor, |sum| {
        for (b, block) in records.chunks(blocks.width() as usize).enumerate() {
            let read: Vec<&Parts> = block.iter().flatten().collect();
            add(sum, b as u64, &read);
        }
    });
    sum.sum
}

/// The broken twin: blocks by rank among the records that are read.
fn by_rank(bound: Bound, blocks: FixedBlocks, records: &[Option<Parts>]) -> Vec<i64> {
    let read: Vec<Option<Parts>> = records.iter().filter(|r| r.is_some()).cloned().collect();
    placed(bound, blocks, &read)
}

/// Squared distance in steps.
fn moved(a: &[i64], b: &[i64]) -> u128 {
    let square = |d: i64| (i128::from(d) * i128::from(d)) as u128;
    a.iter().zip(b).map(|(a, b)| square(a - b)).sum()
}

/// The radius in steps, rounded down, squared.
fn radius(bound: &Bound) -> u128 {
    let radius = (bound.radius() / bound.step()).floor() as u128;
    radius * radius
}

fn uniforms(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

const SHAPES: [(usize, usize); 3] = [(19, 9), (10, 50), (1, 3)];
const DIM: usize = 19 * 9 + 500 + 3;

fn record(next: &mut impl FnMut() -> f32, size: f32) -> Parts {
    SHAPES
        .iter()
        .map(|&(m, n)| {
            let left = (0..m).map(|_| next()).collect();
            (left, (0..n).map(|_| size * next()).collect())
        })
        .collect()
}

/// The clipped contribution in steps, in double precision.
fn plain(bound: &Bound, blocks: FixedBlocks, record: &Parts) -> Vec<f64> {
    let all: Vec<f64> = record
        .iter()
        .flat_map(|(a, b)| {
            a.iter()
                .flat_map(move |&x| b.iter().map(move |&y| f64::from(x) * f64::from(y)))
        })
        .collect();
    let norm = all.iter().map(|x| x * x).sum::<f64>().sqrt();
    let k = blocks.most() as f64;
    let radius = bound.radius() / bound.step() - (bound.dim() as f64).sqrt();
    let limit = radius / (1.0 + 2.0 * k * k * 2f64.powi(-24));
    let steps = (1.0 / bound.step()).min(limit / norm);
    all.iter().map(|x| x * steps).collect()
}

#[test]
fn a_block_is_the_sum_of_clipped_contributions_within_the_stated_error() {
    let bound = bound(1.5, DIM);
    let mut next = uniforms(3);
    // A block of all records, a sampled one, and one with more records than singles are good for.
    for (blocks, count) in [(all(), 128), (all(), 5), (sampled(), 160), (sampled(), 400)] {
        let records: Vec<Parts> = (0..count)
            .map(|i| record(&mut next, [1e-4, 0.02, 30.0][i % 3]))
            .collect();
        let mut sum = LatticeSum::in_blocks(bound, blocks);
        add(&mut sum, 7, &records.iter().collect::<Vec<_>>());
        let mut expected = vec![0.0; DIM];
        let mut norms = 0.0;
        for record in &records {
            let contribution = plain(&bound, blocks, record);
            norms += contribution.iter().map(|x| x * x).sum::<f64>().sqrt();
            expected
                .iter_mut()
                .zip(&contribution)
                .for_each(|(e, x)| *e += x);
        }
        let error = sum
            .sum
            .iter()
            .zip(&expected)
            .map(|(&k, x)| (k as f64 - x).powi(2));
        // Summation, the scaled factors and the room left for them, and the lattice.
        let terms = if count > 160 { 0.0 } else { count as f64 };
        let allowed =
            norms * ((terms + 1.0) * 2f64.powi(-24) + 2f64.powi(-19)) + (DIM as f64).sqrt();
        assert!(error.sum::<f64>().sqrt() <= allowed, "{count}");
        assert!(norms > 1e3 * allowed && sum.added == count as u64);
    }
}

/// A factor acts before the clip: by a power of two it is the same, to the bit, as factors that are so many times as long, and whatever
/// it is, no record moves the sum by more than the radius.
#[test]
fn a_factor_of_the_sum_is_honoured() {
    let bound = bound(1.5, DIM);
    let mut next = uniforms(5);
    let records: Vec<Option<Parts>> = (0..128)
        .map(|i| Some(record(&mut next, [1e-4, 0.02, 30.0][i % 3])))
        .collect();
    let longer = |times: f32| -> Vec<Option<Parts>> {
        let mut all = records.clone();
        for layers in all.iter_mut().flatten() {
            for (left, _) in layers {
                left.iter_mut().for_each(|x| *x *= times);
            }
        }
        all
    };
    for factor in [1.0_f32, 0.25, 8.0, 1024.0, -2.0] {
        let weighted = placed_times((bound, factor.into()), all(), &records);
        assert_eq!(weighted, placed(bound, all(), &longer(factor)), "{factor}");
    }
    let plain = placed(bound, all(), &records);
    assert_ne!(placed_times((bound, 3.0), all(), &records), plain);
    for factor in [0.0, f64::NAN] {
        let weighted = placed_times((bound, factor), all(), &records);
        assert!(weighted.iter().all(|k| *k == 0), "{factor}");
    }
    for factor in [3.7, 1e300, f64::INFINITY, 1e-300, -1e30] {
        let with = placed_times((bound, factor), all(), &records);
        for at in [0, 1, 2, 127] {
            let mut other = records.clone();
            other[at] = None;
            let without = placed_times((bound, factor), all(), &other);
            assert!(moved(&with, &without) <= radius(&bound), "{factor} {at}");
        }
    }
}

/// Records in steps of a bound of radius 1 in one dimension, where a step is 2^-29.
fn steps(k: i64) -> Parts {
    vec![(vec![1.0], vec![k as f32 * 2f32.powi(-29)])]
}

/// A block whose sum is rounded up 94 times, by 2^10 steps each, if its first record is there, and not at all if it is
/// not, or comes last.
///
/// The 33 records after the first lead to just below 2^34, and with the first one above it, where singles are
/// multiples of 2^11. The others take off 2^10 each: exact below, a tie above that goes back to
/// the even number that it came from.
fn rounding_block() -> Vec<Option<Parts>> {
    let first = 535_000_000 / 4096 * 4096;
    let climb = (1i64 << 34) / 33 / 4096 * 4096;
    let all = std::iter::once(first)
        .chain(std::iter::repeat_n(climb, 33))
        .chain(std::iter::repeat_n(-1024, 94));
    all.map(|k| Some(steps(k))).collect()
}

#[test]
fn rounding_that_one_record_changes_is_within_the_radius_and_needs_its_slack() {
    let bound = bound(1.0, 1);
    let block = rounding_block();
    let mut other = block.clone();
    other[0] = None;
    let (with, without) = (placed(bound, all(), &block), placed(bound, all(), &other));
    let first = 535_000_000 / 4096 * 4096;
    assert_eq!(with[0] - without[0], first + 94 * 1024);
    assert!(moved(&with, &without) <= radius(&bound));
    // The same record where it comes last, and so changes no rounding.
    let mut turned = block.clone();
    turned.rotate_left(1);
    let mut other = turned.clone();
    other[127] = None;
    let (with, without) = (placed(bound, all(), &turned), placed(bound, all(), &other));
    assert!((with[0] - without[0] - first).abs() <= 1024);
}

#[test]
fn blocks_by_rank_are_caught() {
    let bound = bound(1.0, 1);
    let data: Vec<Option<Parts>> = (0..20).flat_map(|_| rounding_block()).collect();
    let mut other = data.clone();
    other[0] = None;
    let distance = |sums: fn(Bound, FixedBlocks, &[Option<Parts>]) -> Vec<i64>| {
        moved(&sums(bound, all(), &data), &sums(bound, all(), &other))
    };
    assert!(distance(placed) <= radius(&bound));
    // Every later block loses its first record to the one before, and with it 94 roundings.
    assert!(distance(by_rank) > radius(&bound));
}

/// What a hostile owner might send.
fn hostile(kind: usize, next: &mut impl FnMut() -> f32) -> Option<Parts> {
    let mut record = record(next, [1e-3, 1.0, 1e30, 1e-30][kind % 4]);
    let bad = [
        f32::NAN,
        f32::INFINITY,
        f32::MAX,
        -f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        0.0,
    ];
    match kind / 4 {
        0 => return None,
        1 => {}
        2 => record[kind % 3].0.fill(bad[kind % 7]),
        3 => record[kind % 3].1.fill(bad[kind % 7]),
        4 => record[kind % 3].0[0] = bad[kind % 7],
        5 => record[kind % 3].1[0] = bad[kind % 7],
        // Huge on the one side and tiny on the other.
        6 => record.iter_mut().for_each(|(a, b)| {
            a.iter_mut().for_each(|x| *x *= 1e38);
            b.iter_mut().for_each(|x| *x *= 1e-38);
        }),
        _ => record.iter_mut().for_each(|(a, b)| {
            a.iter_mut().for_each(|x| *x *= 1e-38);
            b.iter_mut().for_each(|x| *x *= 1e38);
        }),
    }
    Some(record)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Drawn or not drawn: the radius. In the place of one another: twice that.
    #[test]
    fn one_record_moves_a_sum_by_at_most_the_radius(
        seed in any::<u64>(),
        kinds in prop::collection::vec(0usize..32, 2),
        place in 0usize..300,
        exponent in -300i32..260,
        samples in any::<bool>(),
        density in 0usize..5,
    ) {
        let bound = bound(1.2345 * 10f64.powi(exponent), DIM);
        let blocks = if samples { sampled() } else { all() };
        let mut next = uniforms(seed);
        // Most are clipped at usual radii; some places are empty.
        let mut data: Vec<Option<Parts>> = (0..300)
            .map(|i| (i % 5 >= density).then(|| record(&mut next, 3.0)))
            .collect();
        let mut ends = Vec::new();
        for kind in [0, kinds[0], kinds[1]] {
            data[place] = hostile(kind, &mut next);
            ends.push(placed(bound, blocks, &data));
        }
        prop_assert!(moved(&ends[0], &ends[1]) <= radius(&bound));
        prop_assert!(moved(&ends[0], &ends[2]) <= radius(&bound));
        prop_assert!(moved(&ends[1], &ends[2]) <= 4 * radius(&bound));
    }

    /// Long records with full mantissas in few dimensions, where rounding adds up, and where the sum hovers.
    #[test]
    fn long_records_do_not_break_the_radius(
        values in prop::collection::vec(-(1i64 << 29)..1 << 29, 160),
        place in 0usize..160,
        up in 0usize..160,
        samples in any::<bool>(),
    ) {
        let bound = bound(1.0, 1);
        let mut data: Vec<Option<Parts>> = values
            .iter()
            .enumerate()
            .map(|(i, &k)| Some(steps(if i < up { k.abs() } else { k })))
            .collect();
        let blocks = if samples { sampled() } else { all() };
        let with = placed(bound, blocks, &data);
        data[place] = None;
        prop_assert!(moved(&with, &placed(bound, blocks, &data)) <= radius(&bound));
    }
}

/// One more record than singles are good for sends a block the other way.
#[test]
fn the_way_of_long_blocks_is_within_the_radius_of_the_other() {
    let bound = bound(1.0, DIM);
    let mut next = uniforms(9);
    let mut data: Vec<Option<Parts>> = (0..161).map(|_| Some(record(&mut next, 30.0))).collect();
    let long = placed(bound, sampled(), &data);
    for place in [0, 80, 160] {
        let taken = data[place].take();
        assert!(moved(&long, &placed(bound, sampled(), &data)) <= radius(&bound));
        data[place] = taken;
    }
}

#[test]
fn a_record_that_is_not_finite_leaves_the_others_as_they_are() {
    let bound = bound(1.0, DIM);
    let mut next = uniforms(4);
    let good: Vec<Option<Parts>> = (0..100).map(|_| Some(record(&mut next, 3.0))).collect();
    for (place, bad) in [(0, f32::NAN), (99, f32::INFINITY), (50, f32::NEG_INFINITY)] {
        for (layer, left) in [(0, true), (1, false), (2, true)] {
            let (mut broken, mut zero) = (good.clone(), good.clone());
            let parts = broken[place].as_mut().unwrap();
            let factor = if left {
                &mut parts[layer].0
            } else {
                &mut parts[layer].1
            };
            factor[0] = bad;
            let parts = zero[place].as_mut().unwrap();
            parts.iter_mut().for_each(|(a, b)| {
                a.fill(0.0);
                b.fill(0.0);
            });
            assert_eq!(placed(bound, all(), &broken), placed(bound, all(), &zero));
        }
    }
}

#[test]
fn all_fused_widths_give_the_same_bits() {
    let mut next = uniforms(5);
    let records: Vec<Parts> = (0..77).map(|_| record(&mut next, 1e6)).collect();
    let layers = panels(&records.iter().collect::<Vec<_>>(), 80);
    let layer = &layers[1];
    let product = |width: Width| {
        let mut sum = vec![0i64; 500];
        width
            .run(AddProducts {
                left: &layer.left,
                right: &layer.right,
                places: 80,
                count: 77,
                sum: &mut sum,
                columns: 50,
            })
            .map(|()| sum)
    };
    let fused = product(Width::Fused).unwrap();
    assert!(fused.iter().any(|&k| k != 0));
    for width in [Width::V3, Width::V4] {
        assert!(
            product(width).is_none_or(|found| found == fused),
            "{width:?}"
        );
    }
}

#[test]
fn what_would_break_the_proof_is_refused() {
    let bound = bound(1.0, 1);
    let one = steps(5);
    let put = |sum: &mut LatticeSum, positions: Range<u64>| {
        let mut layers = panels(&[&one], 1);
        let layer = &mut layers[0];
        let factors = BlockFactors {
            left: &mut layer.left,
            left_len: 1,
            right: &mut layer.right,
            right_len: 1,
            places: 1,
            terms: 1,
        };
        sum.add_outer_block(positions, 1, &mut [factors], &mut BlockWork::new());
    };
    let refused = |work: &dyn Fn()| catch_unwind(AssertUnwindSafe(work)).is_err();
    let new = || LatticeSum::in_blocks(bound, all());
    assert!(!refused(&|| put(&mut new(), 128..256)));
    // Two blocks, no positions, the same block twice, and back to an earlier one.
    assert!(refused(&|| put(&mut new(), 127..129)));
    assert!(refused(&|| put(&mut new(), 3..3)));
    for second in [0..128, 256..384] {
        assert!(refused(&|| {
            let mut sum = new();
            put(&mut sum, 256..384);
            put(&mut sum, second.clone());
        }));
    }
    assert!(refused(&|| put(&mut LatticeSum::new(bound), 0..128)));
    // A block that two threads share, blocks of another width, and a sum that has none.
    for (other, blocks) in [(130..140, all()), (0..1, sampled())] {
        assert!(refused(&|| {
            let (mut a, mut b) = (new(), LatticeSum::in_blocks(bound, blocks));
            put(&mut a, 128..130);
            put(&mut b, other.clone());
            let _ = a.merge(b);
        }));
    }
    assert!(refused(&|| {
        let _ = new().merge(LatticeSum::new(bound));
    }));
    // Positions that are not fixed.
    assert!(FixedBlocks::of_all(Adjacency::AddRemove).is_none());
    for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
        let sealed = crate::ticket::sealed(new(), bound, adjacency);
        assert!(matches!(sealed, Err(TicketError::OtherBlocks { .. })));
    }
    assert!(crate::ticket::sealed(new(), bound, Adjacency::ReplaceOne).is_ok());
}

#[test]
fn the_slack_is_under_half_a_percent() {
    for blocks in [all(), sampled()] {
        let bound = bound(1.0, 100_000);
        let kept = limit(&bound, blocks.most(), 1) / (bound.radius() / bound.step());
        assert!(kept > 0.995 && kept < 0.9985, "{kept}");
    }
    assert_eq!((all().most(), sampled().most()), (128, 160));
}
