//! Toeplitz factors whose coefficients a planner chose.

use super::error::PrefixError;
use super::toeplitz::COEFFICIENT_BITS;

/// Where the coefficients are given; between two of these places they lie on a line.
const PLACES: [u64; 24] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
    3072, 4096,
];
/// Fractional bits of what is given.
const BITS: u32 = 31;

/// The coefficients of a banded Toeplitz factor C, chosen by a planner from public numbers.
///
/// # Formula
/// c_0 = 1, c_k at the [places](TunedFactor::PLACES) as given, on a line between two places, and 0 from `band` on. They
/// never rise and are never below 0, whatever was given: so the sensitivity is that of the participations 0, b, 2b, …, as for the square
/// root (`docs/privacy/sums.md`). What is given is rounded to multiples of 2^-31, and what comes out **is** the factor.
///
/// ```
/// use dpopt_privacy::{Participation, PrefixKind, PrefixNoise, TunedFactor};
///
/// // Of band 3: 1, 1/2 and 3/8, the first coefficients of the square root.
/// let factor = TunedFactor::new(3, &[0.5, 0.375])?;
/// let twice = Participation::Repeated { most: 2, apart: 3 };
/// let tuned = PrefixNoise::new(PrefixKind::Tuned(factor), 6, twice)?;
/// let root = PrefixNoise::new(PrefixKind::Banded { band: 3 }, 6, twice)?;
/// assert_eq!(tuned.sensitivity(), root.sensitivity());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TunedFactor {
    band: u64,
    /// In units of 2^-31, not rising, at most one.
    knots: [u32; PLACES.len()],
}

impl TunedFactor {
    /// Where coefficients are given.
    pub const PLACES: [u64; 24] = PLACES;
    /// The widest band.
    pub const MAX_BAND: u64 = PLACES[PLACES.len() - 1];

    /// With `band` coefficients, of which these are those at the first [places](TunedFactor::PLACES); those at later places
    /// are 0.
    ///
    /// # Errors
    /// [`PrefixError::NoBand`]; [`PrefixError::BandTooWide`]; [`PrefixError::Coefficient`] for one that is not in [0, 1] or
    /// above the one before.
    pub fn new(band: u64, coefficients: &[f64]) -> Result<Self, PrefixError> {
        if band == 0 {
            return Err(PrefixError::NoBand);
        }
        if band > Self::MAX_BAND {
            let limit = Self::MAX_BAND;
            return Err(PrefixError::BandTooWide { band, limit });
        }
        let mut knots = [0; PLACES.len()];
        let mut before = 1.0;
        for ((knot, &value), &place) in knots.iter_mut().zip(coefficients).zip(&PLACES) {
            if !(0.0..=before).contains(&value) {
                return Err(PrefixError::Coefficient {
                    place,
                    value,
                    before,
                });
            }
            before = value;
            *knot = (value * f64::from(1_u32 << BITS)).round() as u32;
        }
        Ok(Self { band, knots })
    }

    /// Number of diagonals.
    #[must_use]
    pub fn band(&self) -> u64 {
        self.band
    }

    /// c_0, …, c_{band−1}.
    #[must_use]
    pub fn coefficients(&self) -> Vec<f64> {
        let unit = (1_u64 << COEFFICIENT_BITS) as f64;
        let column = self.column(Self::MAX_BAND as usize);
        column.into_iter().map(|c| c as f64 / unit).collect()
    }

    /// The first `len` coefficients at most, in units of 2^-52.
    ///
    /// Between the places k and k' of values v ≥ v' it is v − ⌊(v − v')(j − k)/(k' − k)⌋: not rising, and v' at k'.
    pub(super) fn column(&self, len: usize) -> Vec<u64> {
        let fine = |knot: u32| u64::from(knot) << (COEFFICIENT_BITS - BITS);
        let mut column = Vec::new();
        let (mut from, mut high) = (0, fine(1 << BITS));
        for (&to, &knot) in PLACES.iter().zip(&self.knots) {
            let low = fine(knot);
            for j in from..to {
                let fallen = u128::from(high - low) * u128::from(j - from) / u128::from(to - from);
                column.push(high - fallen as u64);
            }
            (from, high) = (to, low);
        }
        column.truncate(len.min(self.band as usize));
        column
    }
}

impl std::fmt::Display for TunedFactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "tuned Toeplitz of band {}", self.band)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coefficients_go_through_what_is_given_and_never_rise() {
        let given: Vec<f64> = (1..=24).map(|i| 1.0 / f64::from(i + 1)).collect();
        let factor = TunedFactor::new(4096, &given).unwrap();
        let column = factor.coefficients();
        assert_eq!(column.len(), 4096);
        assert_eq!(column[0], 1.0);
        for (&place, value) in PLACES.iter().zip(&given) {
            if place < 4096 {
                assert!((column[place as usize] - value).abs() < 1e-9);
            }
        }
        // On a line: half-way between places 4 and 6.
        assert!((column[5] - (given[3] + given[4]) / 2.0).abs() < 1e-9);
        assert!(column.is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn what_rises_or_leaves_the_unit_interval_is_refused() {
        for (given, place) in [
            (vec![1.5], 1),
            (vec![-0.1], 1),
            (vec![f64::NAN], 1),
            (vec![0.5, 0.6], 2),
        ] {
            let error = TunedFactor::new(8, &given).unwrap_err();
            assert!(
                matches!(error, PrefixError::Coefficient { place: at, .. } if at == place),
                "{error}"
            );
        }
        assert_eq!(TunedFactor::new(0, &[]), Err(PrefixError::NoBand));
        assert!(matches!(
            TunedFactor::new(5000, &[]),
            Err(PrefixError::BandTooWide { band: 5000, .. })
        ));
    }
}
