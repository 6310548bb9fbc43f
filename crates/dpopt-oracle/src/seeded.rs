//! Numbers and orders that are functions of a public seed. Nothing here protects anybody.

/// Uniform in (0, 1): 53 bits, at the middle of their interval.
pub(crate) fn uniform(state: &mut u64) -> f64 {
    ((split_mix(state) >> 11) as f64 + 0.5) * 2f64.powi(-53)
}

/// The positions below `len`: runs of so many neighbours (the last one shorter) in a pseudo-random order, and each in one within.
///
/// Fisher and Yates, with the high half of a product for a number below a bound: from independent uniform words an order of k things would
/// be at most k^2 2^-64 from uniform in total variation. From 2^64 seeds there are at most 2^64 orders, of k! = 2^65.5 for k = 21.
pub(crate) fn order(len: usize, run: usize, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let run = run.max(1);
    // There are at most 2^32 records.
    let mut runs: Vec<u32> = (0..len.div_ceil(run)).map(|k| k as u32).collect();
    shuffle(&mut runs, &mut state);
    if run == 1 {
        return runs;
    }
    let mut order = Vec::with_capacity(len);
    for k in runs {
        let first = k as usize * run;
        let start = order.len();
        order.extend((first..len.min(first + run)).map(|i| i as u32));
        shuffle(&mut order[start..], &mut state);
    }
    order
}

fn shuffle<T>(all: &mut [T], state: &mut u64) {
    for last in (1..all.len()).rev() {
        let below = (u128::from(split_mix(state)) * (last as u128 + 1)) >> 64;
        all.swap(last, below as usize);
    }
}

/// The generator of Steele, Lea and Flood (2014), "Fast splittable pseudorandom number generators", figure 17.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{order, split_mix};

    /// The first outputs for the seed 1234567, as the authors' C program prints them (Vigna, splitmix64.c).
    #[test]
    fn the_generator_is_the_published_one() {
        let mut state = 1_234_567;
        let found: Vec<u64> = (0..3).map(|_| split_mix(&mut state)).collect();
        assert_eq!(
            found,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    /// From the two definitions alone, computed in Python with whole numbers of any length.
    #[test]
    fn an_order_is_that_of_its_seed() {
        assert_eq!(order(10, 1, 0), [4, 9, 2, 5, 1, 7, 6, 0, 3, 8]);
        assert_eq!(order(10, 1, 1), [9, 0, 1, 4, 8, 2, 3, 7, 6, 5]);
    }

    /// Each of the 24 orders of four things, and in two runs: of 24,000 seeds the count of each has mean 1,000 and deviation 31, or
    /// mean 3,000 and deviation 51 of the 8 that two blocks can have. Bounds are six of them: false alarms below 1e-7.
    #[test]
    fn orders_are_uniform_and_keep_runs_together() {
        for (run, orders, off) in [(1, 24, 190), (4, 24, 190), (9, 24, 190), (2, 8, 310)] {
            let mut counts = std::collections::HashMap::new();
            for seed in 0..24_000 {
                *counts.entry(order(4, run, seed)).or_insert(0i64) += 1;
            }
            assert_eq!(counts.len(), orders);
            for (found, count) in counts {
                assert!(
                    (count - 24_000 / orders as i64).abs() < off,
                    "{found:?} {count}"
                );
                if orders == 8 {
                    assert_eq!(found[0] / 2, found[1] / 2, "{found:?}");
                }
            }
        }
        let mut found = order(10, 4, 7);
        found.sort_unstable();
        assert!(found.into_iter().eq(0..10));
        assert!(order(0, 4, 7).is_empty());
    }
}
