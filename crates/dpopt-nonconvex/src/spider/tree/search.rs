//! The planner of tree-based private SPIDER: depth, batches, rounds and reach.

use dpopt_solver::PublicFacts;
use dpopt_solver::search::{bisect, whole};

use super::settings::{MAX_DEPTH, TreeSettings, TreeTarget};

/// Ratio of neighbouring numbers of rounds in the first pass of the search.
const GRID_RATIO: f64 = 1.05;
/// Numbers of rounds that the second pass tries around the best of the first.
const FINE: u64 = 200;
/// Steps of the golden section for the reach; each shortens the interval by 0.618.
const SECTIONS: u32 = 48;
/// ln of the largest reach over the least that is tried.
const SPAN: f64 = 14.0;

/// A tree and how it is walked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) rounds: u64,
    pub(super) depth: u32,
    pub(super) root_batch: u64,
    pub(super) reach: f64,
    /// What the error of an estimate has to be below.
    pub(super) accuracy: f64,
    /// What is minimised: the bound on the gradient norm.
    pub(super) bound: f64,
}

/// m_j of a right child at depth j: max(1, floor(b/2^j)).
pub(super) fn batch(root_batch: u64, depth: u32) -> u64 {
    root_batch.checked_shr(depth).unwrap_or(0).max(1)
}

/// Records of one round, b + sum_j 2^(j-1) m_j. Saturates.
pub(super) fn records_per_round(root_batch: u64, depth: u32) -> u64 {
    (1..=depth).fold(root_batch, |sum, j| {
        sum.saturating_add((1u64 << (j - 1)).saturating_mul(batch(root_batch, j)))
    })
}

/// The largest root batch of at least 2^D whose rounds read at most `records`; none where there is none.
fn largest_root(records: u64, depth: u32) -> Option<u64> {
    let least = 1u64 << depth;
    if records_per_round(least, depth) > records {
        return None;
    }
    // Without the floors a round reads b (1 + D/2); each of them saves less than one record.
    let mean = (records as f64 / (1.0 + 0.5 * f64::from(depth))) as u64;
    let mut low = mean.saturating_sub(1).max(least);
    if records_per_round(low, depth) > records {
        low = least;
    }
    let high = low.max(mean).saturating_add(2 * least + 2).min(records + 1);
    Some(bisect(low, high, |root| {
        records_per_round(root, depth) <= records
    }))
}

/// The part of the error of an estimate that does not depend on the reach P, and the factor of P^2.
struct Errors {
    sampling: [f64; 2],
    noise: [f64; 2],
    /// ln(4 T 2^D/p), for the high-probability form.
    log: f64,
}

/// The search for one set of facts.
pub(super) struct Search<'a> {
    pub(super) facts: &'a PublicFacts,
    pub(super) settings: &'a TreeSettings,
    pub(super) mu: f64,
    pub(super) max_leaves: u64,
}

impl Search<'_> {
    /// The least bound, or none where no round can be made.
    pub(super) fn best(&self) -> Option<Candidate> {
        let mut best: Option<Candidate> = None;
        for rounds in whole(1.0, self.facts.records as f64, GRID_RATIO) {
            self.try_rounds(rounds, &mut best);
        }
        let centre = best?.rounds;
        let (low, high) = ((centre as f64 / 1.06) as u64, (centre as f64 * 1.06) as u64);
        let stride = ((high - low) / FINE).max(1);
        let mut rounds = low.max(1);
        while rounds <= high.min(self.facts.records) {
            self.try_rounds(rounds, &mut best);
            rounds += stride;
        }
        best
    }

    fn try_rounds(&self, rounds: u64, best: &mut Option<Candidate>) {
        let depths = match self.settings.depth {
            Some(depth) => depth..=depth,
            None => 0..=MAX_DEPTH,
        };
        for depth in depths {
            if rounds > self.max_leaves >> depth {
                break;
            }
            let Some(root) = largest_root(self.facts.records / rounds, depth) else {
                break;
            };
            let errors = self.errors(rounds, depth, root);
            let least = best.map_or(f64::INFINITY, |best| best.bound);
            if self.bound(self.need(&errors, 0.0), self.least_drive(rounds, depth)) >= least {
                continue;
            }
            let (reach, bound) = self.best_reach(rounds, depth, &errors);
            if bound < least {
                *best = Some(Candidate {
                    rounds,
                    depth,
                    root_batch: root,
                    reach,
                    accuracy: bound / 3.0,
                    bound,
                });
            }
        }
    }

    /// Sums over the longest path, with the integer batches.
    fn errors(&self, rounds: u64, depth: u32, root_batch: u64) -> Errors {
        let root = root_batch as f64;
        let mut sampling = [1.0 / root, 0.0];
        let mut noise = [1.0 / (root * root), 0.0];
        for j in 1..=depth {
            let size = batch(root_batch, j) as f64;
            let share = 0.25f64.powi(j as i32) / size;
            sampling[1] += share;
            noise[1] += share / size;
        }
        sampling[0] *= self.facts.lipschitz * self.facts.lipschitz;
        noise[0] *= self.facts.lipschitz * self.facts.lipschitz;
        let leaves = rounds as f64 * (1u64 << depth) as f64;
        let log = match self.settings.target {
            TreeTarget::HighProbability { failure } => (4.0 * leaves / failure).ln(),
            _ => 0.0,
        };
        Errors {
            sampling,
            noise,
            log,
        }
    }

    /// What the error of an estimate is at most, in the sense of the target, at reach P.
    fn need(&self, errors: &Errors, reach: f64) -> f64 {
        let at = |[fixed, moving]: [f64; 2], share: f64| fixed + share * reach * reach * moving;
        let scale = self.facts.adjacency.sum_sensitivity() / self.mu;
        let dim = self.facts.dim as f64;
        let mean_square =
            |share: f64| at(errors.sampling, share) + dim * scale * scale * at(errors.noise, share);
        match self.settings.target {
            TreeTarget::Heuristic { safety } => safety * mean_square(1.0).sqrt(),
            // A right child at depth j lies on the paths of half of the leaves.
            TreeTarget::Mean => mean_square(0.5).sqrt(),
            TreeTarget::HighProbability { .. } => {
                scale * at(errors.noise, 1.0).sqrt() * (dim.sqrt() + (2.0 * errors.log).sqrt())
                    + (8.0 * at(errors.sampling, 1.0) * errors.log).sqrt()
            }
        }
    }

    /// L1 F0/(T P) + P/2^(D+1).
    fn drive(&self, rounds: u64, depth: u32, reach: f64) -> f64 {
        self.facts.smoothness * self.facts.initial_gap / (rounds as f64 * reach)
            + 0.5 * reach / (1u64 << depth) as f64
    }

    /// The reach at which [`Self::drive`] is least.
    fn longest_reach(&self, rounds: u64, depth: u32) -> f64 {
        let leaves = (1u64 << depth) as f64;
        (2.0 * leaves * self.facts.smoothness * self.facts.initial_gap / rounds as f64).sqrt()
    }

    fn least_drive(&self, rounds: u64, depth: u32) -> f64 {
        self.drive(rounds, depth, self.longest_reach(rounds, depth))
    }

    fn bound(&self, need: f64, drive: f64) -> f64 {
        match self.settings.target {
            TreeTarget::Mean => drive + 2.0 * need,
            _ => 3.0 * need.max(drive),
        }
    }

    /// The reach with the least bound. Both parts are convex in it, and from the longest reach on both rise.
    fn best_reach(&self, rounds: u64, depth: u32, errors: &Errors) -> (f64, f64) {
        let golden = 0.5 * (5f64.sqrt() - 1.0);
        let at = |log: f64| {
            let reach = log.exp();
            self.bound(self.need(errors, reach), self.drive(rounds, depth, reach))
        };
        let mut high = self.longest_reach(rounds, depth).ln();
        let mut low = high - SPAN;
        let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
        let (mut at_left, mut at_right) = (at(left), at(right));
        for _ in 0..SECTIONS {
            if at_left <= at_right {
                high = right;
                (right, at_right) = (left, at_left);
                left = high - golden * (high - low);
                at_left = at(left);
            } else {
                low = left;
                (left, at_left) = (right, at_right);
                right = low + golden * (high - low);
                at_right = at(right);
            }
        }
        if at_left <= at_right {
            (left.exp(), at_left)
        } else {
            (right.exp(), at_right)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_root_is_the_largest() {
        for depth in 0..=6u32 {
            for records in 1..600u64 {
                let brute = (1u64 << depth..=records)
                    .rev()
                    .find(|&b| records_per_round(b, depth) <= records);
                assert_eq!(largest_root(records, depth), brute, "{records} {depth}");
            }
        }
        for records in [1u64 << 52, u64::MAX / 2] {
            let b = largest_root(records, 10).unwrap();
            assert!(records_per_round(b, 10) <= records);
            assert!(records_per_round(b + 1, 10) > records);
        }
    }
}
