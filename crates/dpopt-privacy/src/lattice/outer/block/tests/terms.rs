//! Records of more than one outer product for each matrix.

use super::*;

/// One record: for each matrix the factors of its terms.
type Terms = Vec<Parts>;

const COUNTS: [usize; 3] = [1, 4, 2];

/// Panels of one layer, those of all records one term after another.
fn layer(records: &[&Terms], l: usize, places: usize) -> Layer {
    let terms = records[0][l].len();
    let stacked: Vec<Parts> = (0..terms)
        .flat_map(|t| records.iter().map(move |record| vec![record[l][t].clone()]))
        .collect();
    let views: Vec<&Parts> = stacked.iter().collect();
    panels(&views, places).remove(0)
}

fn add_terms(sum: &mut LatticeSum, block: u64, records: &[&Terms]) {
    let Some(first) = records.first() else { return };
    let counts: Vec<usize> = first.iter().map(Vec::len).collect();
    let places = |terms: usize| records.len() * terms + 5;
    let mut layers: Vec<Layer> = (0..counts.len())
        .map(|l| layer(records, l, places(counts[l])))
        .collect();
    let mut factors: Vec<BlockFactors<'_>> = layers
        .iter_mut()
        .zip(&counts)
        .map(|(layer, &terms)| BlockFactors {
            left: &mut layer.left,
            left_len: layer.shape.0,
            right: &mut layer.right,
            right_len: layer.shape.1,
            places: places(terms),
            terms,
        })
        .collect();
    let width = sum.blocks().unwrap().width();
    let positions = block * width..(block + 1) * width;
    sum.add_outer_block(
        positions,
        records.len(),
        &mut factors,
        &mut BlockWork::new(),
    );
}

fn placed_terms(bound: Bound, blocks: FixedBlocks, records: &[Option<Terms>]) -> Vec<i64> {
    let mut sum = LatticeSum::in_blocks(bound, blocks);
    for (b, block) in records.chunks(blocks.width() as usize).enumerate() {
        let read: Vec<&Terms> = block.iter().flatten().collect();
        add_terms(&mut sum, b as u64, &read);
    }
    sum.sum
}

fn terms(next: &mut impl FnMut() -> f32, size: f32) -> Terms {
    SHAPES
        .iter()
        .zip(COUNTS)
        .map(|(&(m, n), count)| {
            let mut factor = |len: usize, size: f32| (0..len).map(|_| size * next()).collect();
            (0..count)
                .map(|_| (factor(m, 1.0), factor(n, size)))
                .collect()
        })
        .collect()
}

/// Terms that take each other off, but for `left` of one: in every matrix with more than one.
fn cancelling(next: &mut impl FnMut() -> f32, size: f32, left: f32) -> Terms {
    let mut record = terms(next, size);
    for parts in &mut record {
        for pair in parts.chunks_exact_mut(2) {
            pair[1] = pair[0].clone();
            pair[1].1.iter_mut().for_each(|x| *x *= left - 1.0);
        }
    }
    record
}

/// The matrices in double precision, and the root of the squares of the terms' norms added up.
fn exact(record: &Terms) -> (Vec<f64>, f64) {
    let (mut all, mut apart) = (Vec::new(), 0.0);
    for parts in record {
        let (m, n) = (parts[0].0.len(), parts[0].1.len());
        let mut matrix = vec![0.0; m * n];
        let mut lengths = 0.0;
        for (a, b) in parts {
            let norm = |x: &Vec<f32>| x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            lengths += norm(a) * norm(b);
            for (k, entry) in matrix.iter_mut().enumerate() {
                *entry += f64::from(a[k / n]) * f64::from(b[k % n]);
            }
        }
        apart += lengths * lengths;
        all.extend(matrix);
    }
    (all, apart.sqrt())
}

fn length(all: &[f64]) -> f64 {
    all.iter().map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn terms_add_up_within_the_stated_error() {
    let bound = bound(1.5, DIM);
    let mut next = uniforms(3);
    for (blocks, count) in [(all(), 128), (all(), 3), (sampled(), 160), (sampled(), 300)] {
        let records: Vec<Terms> = (0..count)
            .map(|i| match i % 4 {
                0 => cancelling(&mut next, 3.0, 0.125),
                k => terms(&mut next, [1e-4, 0.02, 30.0][k - 1]),
            })
            .collect();
        let mut sum = LatticeSum::in_blocks(bound, blocks);
        add_terms(&mut sum, 7, &records.iter().collect::<Vec<_>>());
        assert_eq!(sum.added, count as u64);
        // R / (1 + 2 k 2 gamma_(4 k)), by the stated formula.
        let k = blocks.most() as f64;
        let radius = bound.radius() / bound.step() - (bound.dim() as f64).sqrt();
        let limit = radius / (1.0 + 16.0 * k * k * 2f64.powi(-24));
        let mut expected = vec![0.0; DIM];
        let (mut lengths, mut kept) = (0.0, 0.0);
        for record in &records {
            let (matrices, apart) = exact(record);
            let longest = length(&matrices).max(0.5 * apart);
            let steps = (1.0 / bound.step()).min(limit / longest);
            lengths += apart * steps;
            kept += length(&matrices) * steps;
            expected
                .iter_mut()
                .zip(&matrices)
                .for_each(|(e, x)| *e += x * steps);
        }
        let error = sum
            .sum
            .iter()
            .zip(&expected)
            .map(|(&k, x)| (k as f64 - x).powi(2));
        let chain = if count > 160 { 0.0 } else { 4.0 * count as f64 };
        let allowed =
            lengths * ((chain + 1.0) * 2f64.powi(-24) + 2f64.powi(-19)) + (DIM as f64).sqrt();
        assert!(error.sum::<f64>().sqrt() <= allowed, "{count}");
        assert!(kept > 1e3 * allowed);
    }
}

/// One term twice over is what one matrix of one term gives, to the bit: no slack is due to it.
#[test]
fn one_term_is_as_before() {
    let bound = bound(1.0, DIM);
    let mut next = uniforms(8);
    let single: Vec<Parts> = (0..200).map(|_| record(&mut next, 3.0)).collect();
    let plain: Vec<Option<Parts>> = single.iter().cloned().map(Some).collect();
    let wrapped = single
        .iter()
        .map(|parts| Some(parts.iter().map(|part| vec![part.clone()]).collect()));
    let wrapped: Vec<Option<Terms>> = wrapped.collect();
    assert_eq!(
        placed(bound, all(), &plain),
        placed_terms(bound, all(), &wrapped)
    );
}

/// Terms a hundred times as long as what is left of them: what is added has terms of at most two radii, so that rounding stays what the proof
/// pays for. A twin that clips the whole alone would add a radius.
#[test]
fn terms_that_cancel_are_cut_by_their_own_length() {
    let bound = bound(1.0, 1);
    let size = 100.0f32;
    let record: Terms = vec![vec![(vec![1.0], vec![size]), (vec![1.0], vec![1.0 - size])]];
    let mut sum = LatticeSum::in_blocks(bound, all());
    add_terms(&mut sum, 0, &[&record]);
    let radius = bound.radius() / bound.step();
    let found = sum.sum[0] as f64;
    assert!(
        (found / radius - 2.0 / 199.0).abs() < 3e-4,
        "{}",
        found / radius
    );
}

#[test]
fn the_slack_of_terms_is_what_is_stated() {
    let bound = bound(1.0, 100_000);
    let kept = |blocks: FixedBlocks, terms| {
        1.0 - limit(&bound, blocks.most(), terms) / (bound.radius() / bound.step())
    };
    assert!(kept(all(), 2) > 0.007 && kept(sampled(), 4) < 0.025);
    assert!(kept(all(), 2) < 0.009 && kept(all(), 1) < 0.0025);
}

fn hostile_terms(kind: usize, next: &mut impl FnMut() -> f32) -> Option<Terms> {
    let mut record = match kind % 5 {
        0 => terms(next, 1e-3),
        1 => terms(next, 1e30),
        2 => cancelling(next, 1e4, 1e-6),
        3 => cancelling(next, 1e15, 0.0),
        _ => cancelling(next, 1.0, 1e-3),
    };
    let bad = [f32::NAN, f32::INFINITY, f32::MAX, -f32::MAX, 1e-45, 0.0];
    let parts = &mut record[kind % 3];
    let last = parts.len() - 1;
    match kind / 5 {
        0 => return None,
        1 => {}
        2 => parts[last].0.fill(bad[kind % 6]),
        3 => parts[last].1.fill(bad[kind % 6]),
        4 => parts[0].0[0] = bad[kind % 6],
        5 => parts[last].1[0] = bad[kind % 6],
        _ => parts.iter_mut().for_each(|(a, b)| {
            a.iter_mut().for_each(|x| *x *= 1e38);
            b.iter_mut().for_each(|x| *x *= 1e-38);
        }),
    }
    Some(record)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn one_record_of_terms_moves_a_sum_by_at_most_the_radius(
        seed in any::<u64>(),
        kinds in prop::collection::vec(0usize..35, 2),
        place in 0usize..300,
        exponent in -300i32..260,
        samples in any::<bool>(),
        density in 0usize..5,
    ) {
        let bound = bound(1.2345 * 10f64.powi(exponent), DIM);
        let blocks = if samples { sampled() } else { all() };
        let mut next = uniforms(seed);
        let mut data: Vec<Option<Terms>> = (0..300)
            .map(|i| (i % 5 >= density).then(|| {
                if i % 2 == 0 { terms(&mut next, 3.0) } else { cancelling(&mut next, 30.0, 0.1) }
            }))
            .collect();
        let mut ends = Vec::new();
        for kind in [0, kinds[0], kinds[1]] {
            data[place] = hostile_terms(kind, &mut next);
            ends.push(placed_terms(bound, blocks, &data));
        }
        prop_assert!(moved(&ends[0], &ends[1]) <= radius(&bound));
        prop_assert!(moved(&ends[0], &ends[2]) <= radius(&bound));
        prop_assert!(moved(&ends[1], &ends[2]) <= 4 * radius(&bound));
    }

    /// Full mantissas in one dimension, where the terms of the whole block climb before they come down.
    #[test]
    fn long_terms_do_not_break_the_radius(
        values in prop::collection::vec(-(1i64 << 29)..1 << 29, 160),
        swing in prop::collection::vec(0i64..1 << 29, 160),
        place in 0usize..160,
        samples in any::<bool>(),
    ) {
        let bound = bound(1.0, 1);
        let step = 2f32.powi(-29);
        let term = |k: i64| (vec![1.0f32], vec![k as f32 * step]);
        let mut data: Vec<Option<Terms>> = values
            .iter()
            .zip(&swing)
            .map(|(&k, &up)| Some(vec![vec![term(up), term(k - up)]]))
            .collect();
        let blocks = if samples { sampled() } else { all() };
        let with = placed_terms(bound, blocks, &data);
        data[place] = None;
        prop_assert!(moved(&with, &placed_terms(bound, blocks, &data)) <= radius(&bound));
    }
}
