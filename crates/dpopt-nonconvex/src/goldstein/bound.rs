//! The bound of a walk in blocks on fresh estimates, and the block length that makes it least.

use dpopt_solver::PublicFacts;

/// Most block lengths that a search tries.
const TRIALS: u64 = 2_000;

/// Up to so many blocks the longest that fit are tried.
const FEW: u64 = 64;

/// What a walk is planned for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim {
    /// F0' = F0 + L a: the gap of the smoothed loss.
    pub(super) gap: f64,
    /// rho = r - a: what of the radius a block may spread over.
    pub(super) spread: f64,
}

/// What an estimate is worth, in units of a gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Quality {
    /// G1: root mean square length of an estimate, at most.
    pub(super) size: f64,
    /// N': root mean square length of its error, which has mean zero given the past.
    pub(super) error: f64,
    /// c: length of the part of the error that may always point the same way.
    pub(super) bias: f64,
}

/// What an estimate reads, and with which noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Reading {
    /// z.
    pub(super) multiplier: f64,
    /// What the sum is divided by.
    pub(super) read: f64,
    /// 0 where all records are read, 1 - q in a Poisson sample of rate q, 1 for unread records.
    pub(super) chance: f64,
    /// Whether the size of the sample varies.
    pub(super) poisson: bool,
}

impl Reading {
    /// Everything, in one of so many steps that share `mu`.
    pub(super) fn all(records: f64, mu: f64, steps: u64) -> Self {
        Self {
            multiplier: (steps as f64).sqrt() / mu,
            read: records,
            chance: 0.0,
            poisson: false,
        }
    }

    /// A Poisson sample of `records`.
    pub(super) fn sample(records: f64, rate: f64, multiplier: f64) -> Self {
        Self {
            multiplier,
            read: records * rate,
            chance: 1.0 - rate,
            poisson: true,
        }
    }

    /// So many unread records, each of which pays `mu` once.
    pub(super) fn unread(batch: f64, mu: f64) -> Self {
        Self {
            multiplier: 1.0 / mu,
            read: batch,
            chance: 1.0,
            poisson: false,
        }
    }
}

/// The block of the least bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    /// M.
    pub(super) len: u64,
    /// T, a multiple of M.
    pub(super) steps: u64,
    pub(super) quality: Quality,
    pub(super) bound: f64,
}

impl Quality {
    /// Of a mean of clipped gradients.
    pub(super) fn of_gradients(facts: &PublicFacts, reading: &Reading) -> Self {
        let (l, root) = (facts.lipschitz, (facts.dim as f64).sqrt());
        let sensitivity = facts.adjacency.sum_sensitivity() * l;
        let noise = root * sensitivity * reading.multiplier / reading.read;
        let sampling = l * (reading.chance / reading.read).sqrt();
        let varying = if reading.poisson { sampling } else { 0.0 };
        Self {
            size: l.hypot(noise).hypot(varying),
            error: noise.hypot(sampling),
            // Rounding and the slack of the clip, of a lattice whose step is at most 2^-29 of the radius.
            bias: l * ((root + 1.0) * 2f64.powi(-29) + 2f64.powi(-44)),
        }
    }
}

impl Aim {
    /// D = 2 rho/(M + 1): no point of a block is then farther than rho from their mean.
    pub(super) fn cap(&self, block: u64) -> f64 {
        2.0 * self.spread / (block as f64 + 1.0)
    }

    /// F0'/(D T) + (c_R G1 + N')/sqrt M + 2 c: the mean, over the blocks, of the Goldstein distance at r.
    /// (`docs/theory/goldstein.md`, Theorem 1.)
    pub(super) fn bound(&self, steps: u64, block: u64, quality: &Quality) -> f64 {
        if block < 2 {
            // Such a walk never moves.
            return f64::INFINITY;
        }
        let progress = self.gap / (self.cap(block) * steps as f64);
        let noise = (quality.size + quality.error) / (block as f64).sqrt();
        progress + noise + 2.0 * quality.bias
    }

    /// The best block of a walk of at most `most` steps, the estimate being as good as `quality` says of their number.
    pub(super) fn best(&self, most: u64, quality: impl Fn(u64) -> Quality) -> Option<Block> {
        if most < 2 {
            return None;
        }
        let of = |len: u64| {
            let steps = most / len * len;
            let quality = quality(steps);
            Block {
                len,
                steps,
                quality,
                bound: self.bound(steps, len, &quality),
            }
        };
        // The least over real numbers is at (k rho T/F0')^(2/3), and is flat: a fifth around it holds the best whole one, up to
        // what whole numbers of blocks lose. Where there are few blocks that is much, so that the longest of each number is tried too.
        let rough = quality(most);
        let k = rough.size + rough.error;
        let ideal = (k * self.spread * most as f64 / self.gap).powf(2.0 / 3.0);
        let clamp = |len: f64| (len as u64).clamp(2, most);
        let (low, high) = match most {
            ..=TRIALS => (2, most),
            _ => (clamp(0.8 * ideal), clamp(1.2 * ideal + 2.0)),
        };
        let stride = (high - low).div_ceil(TRIALS).max(1);
        (low..=high)
            .step_by(stride as usize)
            .chain((1..=FEW).map(|blocks| (most / blocks).max(2)))
            .map(of)
            .min_by(|a, b| a.bound.total_cmp(&b.bound))
    }
}
