//! What the noise, the errors and the reads of a period add up to, for each way to estimate.

use dpopt_privacy::{Participation, PrefixError, PrefixKind, PrefixNoise};

use super::estimate::PassEstimate;

/// Over a period of q steps of x: N = q (K + 1) releases, the first of them an anchor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Period {
    /// q.
    pub(super) steps: u64,
    /// N - 1.
    pub(super) variations: u64,
    /// gamma: deviation of the noise in an estimate that changes bring in, over that of one change.
    pub(super) noise: f64,
    /// nu: by how many deviations of one change the noise moves between two releases, in the mean over the period.
    pub(super) jitter: f64,
    /// phi: the sum over the period of how sampling errors move, over that for changes from release to release.
    pub(super) wobble: f64,
    /// delta: how often the path of a period is read.
    pub(super) reads: f64,
}

impl Period {
    pub(super) fn new(estimate: PassEstimate, steps: u64, inner: u64) -> Result<Self, PrefixError> {
        let releases = steps.saturating_mul(inner + 1);
        let variations = releases.saturating_sub(1);
        let count = variations.max(1) as f64;
        let (noise, jitter, wobble, reads) = match estimate {
            PassEstimate::Chain => (count.sqrt(), 1.0, 1.0, 1.0),
            PassEstimate::Prefix(kind) => {
                let of = PrefixNoise::new(kind, variations.max(1), Participation::Single)?;
                let worst = of.worst_variance().sqrt();
                let jitter = match kind {
                    PrefixKind::Independent => 1.0,
                    _ => 2.0 * worst,
                };
                (worst, jitter, 1.0, 1.0)
            }
            PassEstimate::Rounds => {
                let depth = f64::from(depth(releases));
                // 2 sum over j of sqrt(2^(j - 1)), over sqrt(N - 1).
                let sum = (depth.exp2().sqrt() - 1.0) / (2f64.sqrt() - 1.0);
                let deep = depth.max(1.0);
                (deep.sqrt(), 2.0, 2.0 * sum / count.sqrt(), deep)
            }
        };
        Ok(Self {
            steps,
            variations,
            noise,
            jitter,
            wobble,
            reads,
        })
    }
}

/// D: the depth of the least tree with so many leaves.
pub(super) fn depth(leaves: u64) -> u32 {
    leaves.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with 2^D leaves, walked leaf by leaf: what is made and thrown away between two leaves.
    #[test]
    fn sums_over_a_tree_are_as_counted() {
        for releases in 2u64..200 {
            let depth = depth(releases);
            assert!(releases <= 1 << depth && releases > (1 << depth) / 2);
            let of = Period::new(PassEstimate::Rounds, releases, 0).unwrap();
            // The nodes of leaf l: one for each binary one, at the depth of its place.
            let nodes = |leaf: u64| (0..depth).filter(move |bit| leaf >> bit & 1 == 1);
            let most = (0..releases).map(|l| nodes(l).count()).max().unwrap();
            assert!(most as f64 <= of.noise.powi(2) * (1.0 + 1e-9), "{releases}");
            // Made and discarded nodes, each with the root of its share of an even path.
            let (mut jitter, mut wobble) = (0.0, 0.0);
            for leaf in 1..releases {
                let low = leaf.trailing_zeros();
                let discarded = nodes(leaf - 1).filter(|bit| *bit < low);
                for bit in discarded.chain([low]) {
                    jitter += 1.0;
                    wobble += f64::from(1u32 << bit).sqrt();
                }
            }
            let count = (releases - 1) as f64;
            assert!(jitter / count <= of.jitter, "{releases}");
            // An even path of length N - 1 of unit steps.
            assert!(wobble <= of.wobble * count + 1e-9, "{releases} {wobble}");
            let read: f64 = (1..releases)
                .map(|l| f64::from(1u32 << l.trailing_zeros()))
                .sum();
            assert!(read <= of.reads * count, "{releases}");
        }
    }

    #[test]
    fn prefix_noise_beats_the_chain_from_a_few_steps_on() {
        let of = |estimate| Period::new(estimate, 64, 1).unwrap().noise;
        let chain = of(PassEstimate::Chain);
        assert_eq!(chain, 127f64.sqrt());
        for kind in [PrefixKind::Tree, PrefixKind::Honaker, PrefixKind::Toeplitz] {
            assert!(of(PassEstimate::Prefix(kind)) < chain, "{kind}");
        }
        assert_eq!(of(PassEstimate::Prefix(PrefixKind::Independent)), chain);
        // (ln N)/pi + 1.07.
        let toeplitz = of(PassEstimate::Prefix(PrefixKind::Toeplitz));
        let printed = 127f64.ln() / std::f64::consts::PI + 1.07;
        assert!(
            (toeplitz / printed - 1.0).abs() < 0.02,
            "{toeplitz} {printed}"
        );
    }
}
