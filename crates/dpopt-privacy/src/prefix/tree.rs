//! The binary tree of prefix sums, and its estimate with less variance.
//!
//! Steps are numbered from 1. A node of height h is a block of 2^h steps that ends at a multiple
//! of 2^h; its sum is released with unit noise when its last step has come. Prefix t is put
//! together from the nodes of the binary digits of t: **every** prefix, also the last and also the
//! only one, has the noise of at least one node.
//!
//! | | nodes used | noise variance of a node of height h |
//! | --- | --- | --- |
//! | plain | those that end at an odd multiple of 2^h | 1 |
//! | reduced (Honaker 2015, bottom-up) | all | v_h = 1/(2 − 2^-h) |
//!
//! The reduced estimate of a node weighs its own noisy sum by v_h and the estimates of its two
//! halves, added, by 1 − v_h: the inverse-variance mean of variances 1 and 2 v_{h−1}.

use super::Nodes;

/// Heights of the nodes over `len` steps: ⌊log₂ len⌋ + 1.
pub(super) fn levels(len: u64) -> u32 {
    u64::BITS - len.leading_zeros()
}

/// Variance of a reduced node over that of a plain one.
pub(super) fn reduced_variance(height: u32) -> f64 {
    // A shift of 1075 or more is zero, as it should be.
    1.0 / (2.0 - (-f64::from(height)).exp2())
}

/// Variance of prefix `t`, for unit noise at each node.
pub(super) fn variance(nodes: Nodes, t: u64) -> f64 {
    match nodes {
        Nodes::Plain => f64::from(t.count_ones()),
        Nodes::Reduced => (0..u64::BITS)
            .filter(|&h| t >> h & 1 == 1)
            .map(reduced_variance)
            .sum(),
    }
}

/// An upper bound on the squared sensitivity of the vector of all used nodes, where a record moves
/// at most `most` steps by at most 1 each, at least `apart` steps apart.
///
/// # Privacy
/// Node sums have non-negative weights, so equal directions are the worst: the square is
/// Σ_nodes (participations in the node)². On one height the nodes are disjoint and hold at most
/// m = min(most, ⌈2^h/apart⌉) participations each, most·m bounds Σ p², as does (number of
/// nodes)·m². Exact for one participation (the first step lies in a node of every height) and
/// for participation in every step; between them an upper bound.
pub(super) fn squared_sensitivity(nodes: Nodes, len: u64, most: u64, apart: u64) -> f64 {
    let most = most.min((len - 1) / apart + 1);
    (0..levels(len))
        .map(|h| {
            let count = match nodes {
                Nodes::Plain => (len >> h).div_ceil(2),
                Nodes::Reduced => len >> h,
            };
            let inside = most.min((1_u64 << h).div_ceil(apart));
            let by_participations = u128::from(most) * u128::from(inside);
            let by_nodes = u128::from(count) * u128::from(inside) * u128::from(inside);
            by_participations.min(by_nodes)
        })
        // Below 2^24 · 2^48, so that the conversion is off by half a unit at most.
        .sum::<u128>() as f64
        * (1.0 + f64::EPSILON)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps (0-based) of all used nodes over `len` steps.
    fn used(nodes: Nodes, len: u64) -> Vec<std::ops::Range<u64>> {
        let mut out = Vec::new();
        for h in 0..levels(len) {
            let size = 1 << h;
            for end in (size..=len).step_by(size as usize) {
                if nodes == Nodes::Reduced || (end / size) % 2 == 1 {
                    out.push(end - size..end);
                }
            }
        }
        out
    }

    #[test]
    fn every_prefix_is_covered_once_by_used_nodes() {
        for len in 1..=130_u64 {
            let nodes = used(Nodes::Plain, len);
            for t in 1..=len {
                let mut covered = vec![0; len as usize];
                let mut end = 0;
                let mut count = 0;
                for h in (0..levels(t)).rev().filter(|h| t >> h & 1 == 1) {
                    let node = end..end + (1 << h);
                    assert!(nodes.contains(&node), "{len} {t} {node:?}");
                    node.clone().for_each(|step| covered[step as usize] += 1);
                    end = node.end;
                    count += 1;
                }
                assert!((0..len).all(|s| covered[s as usize] == u32::from(s < t)));
                assert!(count >= 1 && variance(Nodes::Plain, t) == f64::from(count));
            }
        }
    }

    /// The tree as printed in three papers covers Σ − 1 of Σ = 2^p steps at the last index, and
    /// nothing at all for Σ = 1.
    #[test]
    fn the_printed_cover_leaves_the_last_step_without_noise() {
        let printed = |len: u64, t: u64| {
            let mut end = 0;
            let mut size = len.next_power_of_two() / 2;
            while end < t && size > 0 {
                if end + size <= t {
                    end += size;
                }
                size /= 2;
            }
            end
        };
        for len in [1, 2, 4, 8, 1024] {
            assert_eq!(printed(len, len), len - 1);
        }
    }

    #[test]
    fn sensitivity_bounds_every_pattern_and_is_exact_at_both_ends() {
        for nodes in [Nodes::Plain, Nodes::Reduced] {
            for len in 1..=13_u64 {
                let used = used(nodes, len);
                for most in 1..=len {
                    for apart in 1..=len {
                        let mut worst = 0;
                        for pattern in 1_u64..1 << len {
                            let at: Vec<u64> = (0..len).filter(|j| pattern >> j & 1 == 1).collect();
                            if at.len() as u64 > most || at.windows(2).any(|p| p[1] - p[0] < apart)
                            {
                                continue;
                            }
                            let squares = used.iter().map(|node| {
                                let inside = at.iter().filter(|j| node.contains(j)).count() as u64;
                                inside * inside
                            });
                            worst = worst.max(squares.sum());
                        }
                        let claimed = squared_sensitivity(nodes, len, most, apart);
                        assert!(worst as f64 <= claimed, "{nodes:?} {len} {most} {apart}");
                        if most == 1 || apart == 1 && most == len {
                            assert!(worst as f64 >= claimed * (1.0 - 1e-15));
                        }
                    }
                }
            }
        }
    }

    /// Values from an independent computation with 30 digits.
    #[test]
    fn variances_agree_with_reference_values() {
        for (t, plain, reduced) in [
            (1, 1.0, 1.0),
            (2, 1.0, 0.666_666_666_666_666_6),
            (3, 2.0, 1.666_666_666_666_666_7),
            (100, 3.0, 1.583_302_087_239_095),
            (1023, 10.0, 5.802_859_135_945_373),
            (1024, 1.0, 0.500_244_259_892_525_6),
            (100_000, 6.0, 3.010_641_754_933_352),
        ] {
            assert_eq!(variance(Nodes::Plain, t), plain);
            assert!((variance(Nodes::Reduced, t) / reduced - 1.0).abs() < 1e-13);
        }
    }

    /// Depth of the tree for a number of steps, from an independent computation.
    #[test]
    fn levels_agree_with_reference_values() {
        for (len, depth) in [
            (1, 1),
            (2, 2),
            (3, 2),
            (4, 3),
            (8, 4),
            (100, 7),
            (1023, 10),
            (1024, 11),
            (2047, 11),
            (100_000, 17),
            (1_000_000, 20),
        ] {
            assert_eq!(levels(len), depth);
            assert!(
                (squared_sensitivity(Nodes::Plain, len, 1, 1) - f64::from(depth)).abs() < 1e-12
            );
        }
    }
}
