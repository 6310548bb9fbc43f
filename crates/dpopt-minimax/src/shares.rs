//! Shares of cells by one charged release, for who has none from outside the records.

use dpopt_oracle::Oracle;
use dpopt_oracle::{CellCounts, CellShares, PrivateData, PrivateMean, Running, SharesError};
use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Epsilon, Event, Mu, NoiseMultiplier, Spend, Which,
};
use dpopt_solver::{Budget, PlanError, PublicFacts, RunError, normal_reach};

/// The part of mu^2 that the histogram gets. Chosen, not tuned: at n = 200,000 and epsilon 1 a share then has an error of 0.0004.
const PART: f64 = 0.01;
/// Below how many deviations of the noise a cell has no share: what is not seen above the noise may be empty, and weights are one over
/// shares.
const SEEN: f64 = 4.0;

/// What a release of shares will cost, and what is left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SharesPlan {
    /// Of the one release.
    pub noise_multiplier: NoiseMultiplier,
    /// The budget of what comes after it.
    pub rest: Budget,
}

/// No shares were released, or none that can be used.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct SharesReleaseError {
    /// Why.
    pub why: NoShares,
    /// What was released all the same: [`Event::NoOp`] for nothing.
    pub spent: Box<Event>,
}

/// Why there are no shares.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoShares {
    /// The release.
    #[error(transparent)]
    Run(#[from] RunError),
    /// What was released, or the declared number of records.
    #[error(transparent)]
    Shares(#[from] SharesError),
    /// The noise hides all cells but one, whatever the records are: nothing is released.
    #[error(
        "of {records} records the noise of this budget lets only cells be seen that have more than {least:.3} of them, and no two can have:          shares from outside the records, more records or a larger epsilon are needed"
    )]
    Hidden {
        /// The share.
        least: f64,
        /// The public number of records.
        records: u64,
    },
}

impl SharesReleaseError {
    fn before(error: impl Into<RunError>) -> Self {
        let (why, spent) = (NoShares::Run(error.into()), Box::new(Event::NoOp));
        Self { why, spent }
    }
}

impl SharesPlan {
    /// A hundredth of mu^2 for the shares.
    ///
    /// # Formula
    /// mu is that of the budget; the histogram is a Gaussian of mu/10, and what comes after it may be sqrt(0.99) mu-GDP: squares add up.
    ///
    /// # Errors
    /// [`PlanError::Accounting`].
    pub fn new(budget: &Budget) -> Result<Self, PlanError> {
        let mu = budget.mu()?.get();
        let rest = Mu::new(mu * (1.0 - PART).sqrt())?;
        // Rounded down by more than the accountant rounds up.
        let epsilon = gdp::epsilon(rest, budget.delta) * (1.0 - 1e-9);
        Ok(Self {
            noise_multiplier: NoiseMultiplier::new(1.0 / (mu * PART.sqrt()))?,
            rest: Budget {
                epsilon: Epsilon::new(epsilon)?,
                delta: budget.delta,
            },
        })
    }

    /// What will be reserved for it.
    #[must_use]
    pub fn spend(&self) -> Spend {
        Spend::Fixed(Event::gaussian(self.noise_multiplier))
    }

    /// No cell with a share has more than so many times its released share of the records, and so no union of cells that all have one,
    /// with probability 1 - `failure` over the noise.
    ///
    /// # Formula
    /// With c_k the released counts over n, t their deviation and q the upper normal quantile at failure/(2 cells), all |c_k - n_k/n| <= q t at
    /// once (and the rounding to the lattice more). The share is c_k over the sum of those that are seen, and that sum is at most
    /// 1 + cells q t; so the ratio is at most 1 + cells q t + q t/(least share).
    #[must_use]
    pub fn excess(
        &self,
        shares: &CellShares,
        (records, adjacency): (u64, Adjacency),
        failure: f64,
    ) -> f64 {
        let cells = 2 * shares.groups();
        let deviation = adjacency.sum_sensitivity() * self.noise_multiplier.get() / records as f64;
        let off = normal_reach(failure / (2 * cells) as f64) * deviation
            + PublicFacts::rounding(1.0, cells);
        let least = shares.cells().map(|(_, share)| share).fold(1.0, f64::min);
        1.0 + cells as f64 * off + off / least
    }

    /// A cell has a released share where it is seen to have more than this share of the records: four deviations of the noise.
    #[must_use]
    pub fn seen_above(&self, records: u64, adjacency: Adjacency) -> f64 {
        SEEN * adjacency.sum_sensitivity() * self.noise_multiplier.get() / records as f64
    }

    /// Releases the shares of the cells of so many groups. `after` is what will be reserved for the run that uses them, and for what
    /// comes after it, by plans whose releases do not depend on the shares: see
    /// [`SaddleLimits::exact_steps`](crate::SaddleLimits::exact_steps).
    ///
    /// # Privacy
    /// One Gaussian release of the counts, of which each record is in one. All that follows, which cells are too small to have a share
    /// included, is computed from it.
    ///
    /// # Errors
    /// [`SharesReleaseError`], which says whether the release was made; [`NoShares::Hidden`] before it.
    pub fn release(
        &self,
        data: &PrivateData,
        groups: usize,
        mut curator: Curator,
        after: &[Spend],
    ) -> Result<(CellShares, Curator), SharesReleaseError> {
        let z = self.noise_multiplier;
        let spend = self.spend();
        let before = SharesReleaseError::before;
        let clip = ClipNorm::new(1.0).map_err(|error| before(RunError::Clip(error)))?;
        let records = data.public_records();
        let least = self.seen_above(records, data.adjacency());
        if least >= 0.5 {
            let (why, spent) = (NoShares::Hidden { least, records }, Box::new(Event::NoOp));
            return Err(SharesReleaseError { why, spent });
        }
        curator
            .reserve_then(&spend, after)
            .map_err(RunError::from)
            .map_err(before)?;
        let means = PrivateMean::new(data, CellCounts { groups }, curator);
        let mut means = means.map_err(RunError::from).map_err(before)?;
        match shares_of(&mut means, groups, clip, z) {
            Ok(shares) => Ok((shares, means.into_curator())),
            Err(why) => {
                let spent = Box::new(means.curator().spent());
                Err(SharesReleaseError { why, spent })
            }
        }
    }
}

/// No cell of so many independent draws has more than so many times its share, with probability 1 - `failure` over the draws, where the
/// shares are those of what is drawn from. For shares that come from outside the records: the records' own are others.
///
/// # Formula
/// With s a share of `cells` and a >= s, more than n a of n draws are of its cell with probability at most e^(-n KL(a, s)), KL(a, s) = a ln(a/s) +
/// (1 - a) ln((1 - a)/(1 - s)); a is the least one at which that is `failure`/cells, at most 1, and the result the largest a/s.
///
/// # Source
/// Chernoff's bound (Hoeffding 1963, theorem 1).
#[must_use]
pub fn sampled_excess(shares: &CellShares, records: u64, failure: f64) -> f64 {
    let cells = shares.cells().count() as f64;
    let needed = (cells / failure).ln() / records as f64;
    let of_cell = |share: f64| {
        let unlikely = |a: f64| {
            let rest = if a < 1.0 {
                (1.0 - a) * ((share - a) / (1.0 - share)).ln_1p()
            } else {
                0.0
            };
            a * ((a - share) / share).ln_1p() + rest >= needed
        };
        let (mut low, mut high) = (share, 1.0);
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if unlikely(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        // Above the rounding of the exponent.
        (high * (1.0 + 1e-9)).min(1.0) / share
    };
    shares
        .cells()
        .map(|(_, share)| of_cell(share))
        .fold(1.0, f64::max)
}

/// The one release.
fn shares_of(
    means: &mut PrivateMean<'_, CellCounts>,
    groups: usize,
    clip: ClipNorm,
    z: NoiseMultiplier,
) -> Result<CellShares, NoShares> {
    let mut running = Running::new(2 * groups, clip);
    let origin = vec![0.0; 2 * groups];
    let released = running.anchor(means, &origin, Which::All, z);
    let estimate = released.map_err(RunError::from)?.estimate();
    let least = SEEN * estimate.noise_std;
    let shares = CellShares::released(estimate.gradient, least)?;
    means.books().settle().map_err(RunError::from)?;
    Ok(shares)
}
