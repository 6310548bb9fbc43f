//! Noise in whole lattice steps: independent, and on the nodes of a tree.
//!
//! Every node's sum is an integer and its release adds a rounded Gaussian: rounding is
//! post-processing of each node's real Gaussian release. What follows are functions of these
//! releases. They are computed from the noise alone, which gives the same integers: sums commute,
//! and in the reduced tree the exact sums cancel before anything is rounded.

use zeroize::Zeroizing;

use super::{Nodes, tree};
use crate::noise::{KeyedStream, RoundedGaussian};

/// Running noise of one block: one fresh vector for every step, all added up.
pub(super) struct Independent {
    total: Zeroizing<Vec<i128>>,
}

impl Independent {
    pub(super) fn new(dim: usize) -> Self {
        Self {
            total: Zeroizing::new(vec![0; dim]),
        }
    }

    /// The noise of the next prefix sum.
    pub(super) fn next(
        &mut self,
        noise: RoundedGaussian,
        stream: &mut KeyedStream,
        out: &mut [i128],
    ) {
        noise.add_wrapping_wide(stream, &mut self.total);
        out.copy_from_slice(&self.total);
    }
}

/// Noise of one block on the nodes of a tree.
pub(super) struct Tree {
    nodes: Nodes,
    /// For each height the noise of the last node that ended there: needed while that node is
    /// part of the current prefix.
    last: Vec<Zeroizing<Vec<i128>>>,
}

impl Tree {
    pub(super) fn new(nodes: Nodes) -> Self {
        Self {
            nodes,
            last: Vec::new(),
        }
    }

    /// The noise of prefix `t`; steps are counted from 1 and come in order.
    pub(super) fn next(
        &mut self,
        t: u64,
        noise: RoundedGaussian,
        stream: &mut KeyedStream,
        out: &mut [i128],
    ) {
        let fresh = |stream: &mut KeyedStream| {
            let mut node = Zeroizing::new(vec![0; out.len()]);
            noise.fill(stream, &mut node);
            node
        };
        let height = t.trailing_zeros();
        let mut node = fresh(stream);
        if self.nodes == Nodes::Reduced {
            // The nodes that end here, from the leaf up, each joined with its left half.
            for h in 1..=height {
                let own = fresh(stream);
                let left = &self.last[h as usize - 1];
                for ((node, own), left) in node.iter_mut().zip(own.iter()).zip(left.iter()) {
                    *node = reduce(h, *own, left.wrapping_add(*node));
                }
            }
        }
        while self.last.len() <= height as usize {
            self.last.push(Zeroizing::new(Vec::new()));
        }
        self.last[height as usize] = node;
        out.fill(0);
        for (h, node) in self.last.iter().enumerate() {
            if t >> h & 1 == 1 {
                for (out, node) in out.iter_mut().zip(node.iter()) {
                    *out = out.wrapping_add(*node);
                }
            }
        }
    }
}

/// The noise of a reduced node from that of its own release and that of its halves' estimates.
///
/// With releases y = S + own and halves E = S + halves of the same exact sum S, the estimate is
/// E + round(v (y − E)), an integer function of releases; y − E = own − halves.
fn reduce(height: u32, own: i128, halves: i128) -> i128 {
    let step = tree::reduced_variance(height) * own.wrapping_sub(halves) as f64;
    halves.wrapping_add(step.round() as i128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::noise::{Purpose, ReplayKeyForTests, StreamId};

    /// The same estimate from releases S + noise, whatever S is.
    #[test]
    fn reducing_noise_is_reducing_releases() {
        for (own, left, right) in [(7, -3, 12), (1 << 70, 5, -(1 << 69)), (-9, 0, 1)] {
            for (s_left, s_right) in [(0, 0), (1 << 80, -17), (-123_456_789, 1 << 62)] {
                let released = own + s_left + s_right;
                let halves = (s_left + left) + (s_right + right);
                let step = tree::reduced_variance(3) * (released - halves) as f64;
                let estimate = halves + step.round() as i128;
                assert_eq!(estimate - s_left - s_right, reduce(3, own, left + right));
            }
        }
    }

    /// Which draws are in prefix t: the tree keeps one vector for each height, and prefix t is
    /// made of the nodes of its binary digits, none forgotten, at the last step neither.
    #[test]
    fn the_streaming_tree_is_the_tree() {
        let key = ReplayKeyForTests::from_seed(1);
        let noise = RoundedGaussian::new(1e6).unwrap();
        let stream = |t: u64| key.stream(StreamId::new(Purpose::Noise, t as u32));
        for len in [1, 2, 3, 64, 100] {
            let mut tree = Tree::new(Nodes::Plain);
            for t in 1..=len {
                let mut out = [0; 3];
                tree.next(t, noise, &mut stream(t), &mut out);
                let mut expected = [0; 3];
                let mut end = t;
                while end > 0 {
                    let mut node = [0; 3];
                    noise.fill(&mut stream(end), &mut node);
                    (0..3).for_each(|i| expected[i] += node[i]);
                    end &= end - 1;
                }
                assert_eq!(out, expected);
            }
            assert_eq!(tree.last.len(), tree::levels(len) as usize);
        }
    }
}
