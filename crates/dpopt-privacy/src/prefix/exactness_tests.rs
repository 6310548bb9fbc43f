//! Exact rounding of correlated noise: forced ties, extreme scales, and an evaluation with more
//! digits that shares no code with the product but the drawn normals.

use super::correlated::{Correlated, Recurrence};
use super::exact::{self, Response, Scale, Source};
use super::normals;
use super::toeplitz::Factor;
use crate::noise::{Key, Purpose, ReplayKeyForTests, StreamId};

const DIM: usize = 24;

fn steps(len: usize) -> Vec<StreamId> {
    (0..len as u32)
        .map(|t| StreamId::new(Purpose::Noise, t))
        .collect()
}

/// The noise of all steps with `bits` known bits on the fast path, and how often the exact path was
/// needed.
fn run(key: &Key, factor: &Factor, len: usize, bits: u32, scale: f64) -> (Vec<Vec<i128>>, usize) {
    let steps = steps(len);
    let scale = Scale::new(scale);
    let mut recurrence = Recurrence::with_bits(factor, bits);
    let mut block = Correlated::new();
    let mut response = Response::new(1);
    response.extend_to(len, recurrence.decrements());
    let mut exact = 0;
    let all = (1..=len)
        .map(|t| {
            let error = recurrence.advance();
            let mut w = vec![0; DIM];
            normals::fill(key, steps[t - 1], bits, &mut w).unwrap();
            let mut out = vec![0; DIM];
            for index in block.next(&w, &recurrence, error, scale, &mut out) {
                let source = Source {
                    key,
                    steps: &steps[..t],
                    index,
                };
                out[index] =
                    exact::round(&source, scale, recurrence.decrements(), &response).unwrap();
                exact += 1;
            }
            out
        })
        .collect();
    (all, exact)
}

/// The same noise by a recurrence with 68 digits after the point; nothing where they do not
/// decide.
fn evaluate(key: &Key, factor: &Factor, len: usize, scale: f64) -> Vec<Vec<Option<i128>>> {
    const BITS: u32 = 68;
    let decrements = factor.decrements();
    let mut z: Vec<Vec<i128>> = Vec::new();
    for id in steps(len) {
        let next = (0..DIM)
            .map(|index| {
                let w = normals::refine(key, id, index, 2).unwrap();
                let size = i128::from(w.size[2]) << BITS
                    | (i128::from(w.size[1]) << (BITS - 64))
                    | i128::from(w.size[0] >> (128 - BITS));
                let mut sum = if w.negative { -size } else { size };
                for (d, row) in decrements.iter().zip(z.iter().rev()) {
                    sum += (i128::from(*d) * row[index]) >> 52;
                }
                sum
            })
            .collect();
        z.push(next);
    }
    let Scale { mantissa, exponent } = Scale::new(scale);
    // Every w and every product is off by less than a unit.
    let off = |t: usize| ((t + 1) * (t + 2)) as i128;
    z.iter()
        .enumerate()
        .map(|(t, row)| {
            row.iter()
                .map(|z| {
                    let round = |z: i128| {
                        // In halves: the product with a mantissa of 53 bits needs 128 and more.
                        let (high, low) = (z >> 40, z & ((1 << 40) - 1));
                        let m = i128::from(mantissa);
                        let shift = BITS as i32 - exponent - 40;
                        let product = high * m + ((low * m) >> 40);
                        (product + (1 << (shift - 1))) >> shift
                    };
                    let ends = [round(z - off(t) - 2), round(z + off(t) + 2)];
                    (ends[0] == ends[1]).then_some(ends[0])
                })
                .collect()
        })
        .collect()
}

#[test]
fn every_number_of_digits_gives_the_same_noise() {
    let key = ReplayKeyForTests::from_seed(21).into_key();
    for (len, band) in [(24, 24), (24, 4), (24, 1), (1, 1)] {
        let factor = Factor::new(len, band);
        for scale in [0.05, 1000.25, 2f64.powi(33) * 1.7, 2f64.powi(44)] {
            let (usual, _) = run(&key, &factor, len, 119, scale);
            // With few digits nearly everything is a tie: the exact path decides.
            for bits in [0, 30, 64] {
                let (coarse, exact) = run(&key, &factor, len, bits, scale);
                assert_eq!(coarse, usual, "{len} {band} {scale} {bits}");
                if scale > 1e9 && bits < 30 {
                    assert_eq!(exact, len * DIM);
                }
            }
            let finer = evaluate(&key, &factor, len, scale);
            let mut decided = 0;
            for (row, finer) in usual.iter().zip(&finer) {
                for (&got, &expected) in row.iter().zip(finer) {
                    if let Some(expected) = expected {
                        assert_eq!(got, expected, "{len} {band} {scale}");
                        decided += 1;
                    }
                }
            }
            // An undecided one has probability below 2^44 · 2^-57.
            assert!(decided >= len * DIM - 2, "{decided}");
        }
    }
}

/// At all but the shortest precision the exact path is rare, and without it it is the rule.
#[test]
fn the_exact_path_is_rare() {
    let key = ReplayKeyForTests::from_seed(22).into_key();
    let factor = Factor::new(200, 200);
    // Per number 2·s·e: 2^61 · 25 · 2^-119 < 2^-53.
    assert_eq!(run(&key, &factor, 200, 119, 2f64.powi(60)).1, 0);
    assert!(run(&key, &factor, 20, 50, 2f64.powi(60)).1 > 400);
}

/// A twin that trusts its low digits instead of going on is found out by the comparison above.
#[test]
fn a_twin_that_does_not_refine_differs() {
    let key = ReplayKeyForTests::from_seed(21).into_key();
    let factor = Factor::new(30, 30);
    let scale = 2f64.powi(33);
    let (exact, _) = run(&key, &factor, 30, 119, scale);
    let mut recurrence = Recurrence::with_bits(&factor, 30);
    let mut block = Correlated::new();
    let mut differs = 0;
    for (t, id) in steps(30).into_iter().enumerate() {
        let error = recurrence.advance();
        let mut w = vec![0; DIM];
        normals::fill(&key, id, 30, &mut w).unwrap();
        let mut out = vec![0; DIM];
        let _ = block.next(&w, &recurrence, error, Scale::new(scale), &mut out);
        differs += out.iter().zip(&exact[t]).filter(|(a, b)| a != b).count();
    }
    assert!(differs > 15 * DIM);
}
