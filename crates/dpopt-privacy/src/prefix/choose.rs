//! The best kind of noise for a period.

use super::{Participation, PrefixError, PrefixKind, PrefixNoise};

/// The error to minimise over the prefix sums of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorMeasure {
    /// The largest variance.
    Worst,
    /// The mean of the variances.
    Mean,
}

/// Most products that one band may cost when it is looked at (tuned: a fraction of a second).
const BAND_WORK: u64 = 1 << 27;

impl PrefixNoise {
    /// The factorisation with the least variance for `len` steps, among all kinds and a list of
    /// bands: 2^k, 3·2^(k−1), and `apart`, where len·band is at most 2^27. Of equal ones (within
    /// 1e-9) the one that is cheaper to run.
    ///
    /// For one participation and the worst variance that is the Toeplitz factor from length 2 on
    /// (bands serve the mean only, and gain about 2 % there); for participation in every step,
    /// independent noise, than which no factorisation has a smaller worst variance.
    ///
    /// # Complexity
    /// O(len · largest band looked at).
    ///
    /// # Errors
    /// As [`PrefixNoise::new`].
    pub fn best(
        len: u64,
        participation: Participation,
        measure: ErrorMeasure,
    ) -> Result<Self, PrefixError> {
        let variance = |noise: &Self| match measure {
            ErrorMeasure::Worst => noise.worst_variance(),
            ErrorMeasure::Mean => noise.mean_variance(),
        };
        let mut best = Self::new(PrefixKind::Independent, len, participation)?;
        for kind in candidates(len, participation, measure) {
            let next = Self::new(kind, len, participation)?;
            if variance(&next) < variance(&best) * (1.0 - 1e-9) {
                best = next;
            }
        }
        Ok(best)
    }
}

/// All kinds but independent noise, the cheapest first.
fn candidates(len: u64, participation: Participation, measure: ErrorMeasure) -> Vec<PrefixKind> {
    let mut kinds = vec![PrefixKind::Tree, PrefixKind::Honaker];
    if participation != Participation::Single || measure != ErrorMeasure::Worst {
        let (_, apart) = participation.limits(len);
        let mut bands: Vec<u64> = (1..24).flat_map(|k| [1 << k, 3 << (k - 1)]).collect();
        bands.push(apart);
        bands.sort_unstable();
        bands.dedup();
        bands.retain(|&band| 1 < band && band < len && band * len <= BAND_WORK);
        kinds.extend(bands.into_iter().map(|band| PrefixKind::Banded { band }));
    }
    kinds.push(PrefixKind::Toeplitz);
    kinds
}
