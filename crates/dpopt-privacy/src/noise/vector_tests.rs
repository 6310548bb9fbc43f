//! Tests of long vectors: blocks, threads, and draws that are found again.

use super::dyadic::low_bits;
use std::num::NonZeroUsize;

use dpopt_lanes::Threads;

use super::blocks::BlockSource;
use super::digits::BitSource;
use super::error::NoiseError;
use super::purpose::Purpose;
use super::real::{BLOCK_DRAWS, LONG_BITS, RealNormal, fill_long, refine};
use super::rounded_gaussian::RoundedGaussian;
use super::stream::{Key, ReplayKeyForTests, StreamId};
use super::testkit::Narrow;

const ID: StreamId = StreamId::new(Purpose::Noise, 12);

fn threads(count: usize) -> Threads {
    Threads::new(NonZeroUsize::new(count).unwrap())
}

fn noise(scale: f64, length: usize, count: usize) -> Vec<i64> {
    let key = ReplayKeyForTests::from_seed(31);
    let mut sums = vec![0; length];
    RoundedGaussian::new(scale)
        .unwrap()
        .add_release(key.as_key(), ID, &threads(count), &mut sums)
        .unwrap();
    sums
}

/// The number of threads and the length of the vector change nothing, at scales where few and
/// where all draws need a second word.
#[test]
fn threads_and_length_do_not_change_the_noise() {
    for scale in [3.0, 1e10, 2e15, 2_f64.powi(59)] {
        let all = noise(scale, 100_003, 1);
        for count in [2, 3, 16, 1000] {
            assert_eq!(noise(scale, 100_003, count), all, "{scale} {count}");
        }
        for length in [1, 2, 511, 512, 513, 8192, 8193, 20_000] {
            assert_eq!(noise(scale, length, 2), all[..length], "{scale} {length}");
        }
    }
}

#[test]
fn blocks_differ_and_wide_sums_get_the_same_noise() {
    let all = noise(1e12, 4 * BLOCK_DRAWS, 1);
    for (a, b) in all.iter().zip(&all[BLOCK_DRAWS..]) {
        assert_ne!(a, b);
    }
    let mut wide = vec![i128::MAX; all.len()];
    RoundedGaussian::new(1e12)
        .unwrap()
        .add_release(
            ReplayKeyForTests::from_seed(31).as_key(),
            ID,
            &threads(2),
            &mut wide,
        )
        .unwrap();
    for (k, sum) in all.iter().zip(wide) {
        assert_eq!(sum, i128::MAX.wrapping_add(i128::from(*k)));
    }
}

/// Counts how often a digit that decided on one candidate is given to the next. With digits of one
/// bit every box that the curve cuts asks for some.
struct Counting {
    bits: Narrow<1>,
    /// Levels read since the last refusal.
    read: usize,
    again: usize,
    refusals: usize,
}

impl BitSource for Counting {
    const DIGIT_BITS: u32 = 1;

    fn word(&mut self) -> u64 {
        self.bits.word()
    }

    fn digit(&mut self) -> u64 {
        self.bits.digit()
    }

    fn extension(&mut self, level: usize) -> u64 {
        self.again += usize::from(level <= self.read);
        self.read = self.read.max(level);
        self.bits.digit()
    }

    fn refused(&mut self) {
        self.read = 0;
        self.refusals += 1;
    }
}

/// That a candidate was refused says something about its digits: the next one has others.
#[test]
fn a_refused_candidate_takes_its_digits_along() {
    let mut source = Counting {
        bits: Narrow::new(140),
        read: 0,
        again: 0,
        refusals: 0,
    };
    for _ in 0..20_000 {
        source.read = 0;
        let mut normal = RealNormal::draw(&mut source);
        normal.digit(9, &mut source);
    }
    assert!(source.refusals > 100, "{}", source.refusals);
    assert_eq!(source.again, 0);

    let key = ReplayKeyForTests::from_seed(8);
    let (mut block, _) = BlockSource::of_draw(key.as_key(), ID, 0).unwrap();
    let mut seen = std::collections::HashSet::new();
    for draw in 0..BLOCK_DRAWS as u64 {
        block.begin(draw);
        for _ in 0..4 {
            for level in 1..4 {
                // A chance meeting has probability below 1e-11.
                assert!(seen.insert(block.extension(level)));
            }
            block.refused();
        }
    }
    // And they are found again.
    block.begin(7);
    assert!(seen.contains(&block.extension(2)));
    block.refused();
    assert!(seen.contains(&block.extension(2)));
}

#[test]
fn what_can_not_be_drawn_is_refused_first() {
    let key = ReplayKeyForTests::from_seed(1);
    let noise = RoundedGaussian::new(1.0).unwrap();
    let empty: &mut [i64] = &mut [];
    let refused = noise.add_release(key.as_key(), ID, &threads(1), empty);
    assert_eq!(refused, Err(NoiseError::EmptyVector));
    assert_eq!(
        fill_long(key.as_key(), ID, &threads(1), &mut []),
        Err(NoiseError::EmptyVector)
    );
    let far = refine(key.as_key(), ID, 1 << 33, 10);
    assert!(
        matches!(far, Err(NoiseError::BlockOutOfRange { .. })),
        "{far:?}"
    );
    let last = (1_u64 << 33) - 1;
    assert!(refine(key.as_key(), ID, last, 10).is_ok());
}

/// Two vectors of one release would get the same noise: every one takes the blocks from 0 on.
#[test]
fn a_vector_begins_at_the_first_block() {
    let key = ReplayKeyForTests::from_seed(1);
    let later = ID.with_block(3).unwrap();
    let expected = Err(NoiseError::NotFirstBlock { block: 3 });
    let mut sums = [5_i64; 3];
    let noise = RoundedGaussian::new(1e6).unwrap();
    assert_eq!(
        noise.add_release(key.as_key(), later, &threads(1), &mut sums),
        expected
    );
    assert_eq!(sums, [5; 3]);
    assert_eq!(refine(key.as_key(), later, 0, 10).err(), expected.err());
}

/// A refined draw is the one that was filled in, and its digits do not depend on how many are asked
/// for.
#[test]
fn a_refined_draw_is_the_same_draw() {
    let key = ReplayKeyForTests::from_seed(77);
    let length = 60_000;
    let mut out = vec![0_i128; length];
    fill_long(key.as_key(), ID, &threads(2), &mut out).unwrap();
    let mut largest = 0;
    for (index, &size) in out.iter().enumerate() {
        if size.abs() > out[largest].abs() {
            largest = index;
        }
    }
    // The tail, first and last of blocks, and others.
    assert!(out[largest].abs() > 4 << LONG_BITS);
    let picked = [largest, 0, 1, 511, 512, 513, 1023, 30_000, length - 1];
    for index in picked {
        let of = |bits| refine(key.as_key(), ID, index as u64, bits).unwrap();
        let fine = of(400);
        for bits in [0, 1, 54, 55, 56, 118, 119, 120, 200, 399] {
            let coarse = of(bits);
            assert_eq!(coarse.size, &fine.size >> (400 - bits), "{index} {bits}");
            assert_eq!(coarse.negative, fine.negative);
        }
        let filled = out[index];
        assert_eq!(fine.negative, filled < 0);
        assert_eq!(
            low_bits(&of(LONG_BITS).size),
            filled.unsigned_abs(),
            "{index}"
        );
        // 64 digits after the head are not all alike.
        let tail = low_bits(&(&fine.size >> (400 - 55 - 64))) as u64;
        assert!((4..=60).contains(&tail.count_ones()), "{index}");
    }
}

/// Rounding a refined draw gives the noise that was added: both see the same real number.
#[test]
fn rounded_noise_is_the_real_draw_rounded() {
    let key = ReplayKeyForTests::from_seed(31);
    for exponent in [0, 30, 50, 60_u32] {
        let sums = noise(f64::from(exponent).exp2(), 1500, 1);
        for (index, &k) in sums.iter().enumerate() {
            if index % 7 > 0 {
                continue;
            }
            // ⌊2^e·|w| + 1/2⌋ from one digit more.
            let real = refine(key.as_key(), ID, index as u64, exponent + 1).unwrap();
            let size = ((low_bits(&real.size) + 1) >> 1) as i64;
            assert_eq!(
                k,
                if real.negative {
                    size.wrapping_neg()
                } else {
                    size
                },
                "{exponent} {index}"
            );
        }
    }
}

#[test]
fn a_forked_key_adds_nothing() {
    let key = Key::of_another_process();
    let mut sums = [5_i64; 3];
    let refused = RoundedGaussian::new(1.0)
        .unwrap()
        .add_release(&key, ID, &threads(2), &mut sums);
    assert!(matches!(refused, Err(NoiseError::Forked { .. })));
    assert_eq!(sums, [5; 3]);
    assert!(matches!(
        fill_long(&key, ID, &threads(1), &mut [0]),
        Err(NoiseError::Forked { .. })
    ));
    assert!(matches!(
        refine(&key, ID, 0, 60),
        Err(NoiseError::Forked { .. })
    ));
}
