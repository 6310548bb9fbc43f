//! The public numbers of one factorisation: what it costs and how accurate it is.

use super::toeplitz::Factor;
use super::{Nodes, Participation, PrefixError, PrefixKind, tree};
use crate::event::{Event, StepCounts};
use crate::units::NoiseMultiplier;

/// One way to add noise to the prefix sums of a period: kind, length, participation, and what
/// follows from them. Public: no data, no noise.
///
/// # Formula
/// The noise multiplier z of a period means the same for every kind: the period as a whole is a
/// Gaussian mechanism with mu = 1/z. With sensitivity(C) the norm of the displacement of C x
/// where one record moves its steps by 1, the unit noise w is scaled to z·sensitivity(C) times
/// the L2 sensitivity of one step, and the noise of prefix t has the variance
///
/// ```text
/// variance(t) = sensitivity(C)² · Σ_j B_tj²      in units of (z · sensitivity of one step)².
/// ```
///
/// # References
/// Denisov, McMahan, Rush, Smith and Thakurta 2022 (arXiv 2202.08312); Kalinin and Lampert 2024
/// (arXiv 2405.13763) for participation; Honaker 2015 for the reduced tree.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixNoise {
    kind: PrefixKind,
    len: u64,
    participation: Participation,
    squared_sensitivity: f64,
    /// Σ_j B_tj² for t = 1, …, len.
    unit_variances: Vec<f64>,
    /// The same of the differences of successive rows of B, for a Toeplitz kind.
    squared_steps: Option<Vec<f64>>,
}

impl PrefixNoise {
    /// Longest period: 2^24 steps.
    pub const MAX_LEN: u64 = 1 << 24;

    /// The factorisation of this kind for `len` steps.
    ///
    /// # Complexity
    /// O(len), for a band O(band · len).
    ///
    /// # Errors
    /// [`PrefixError`] for no steps or too many, no band, no participation.
    pub fn new(
        kind: PrefixKind,
        len: u64,
        participation: Participation,
    ) -> Result<Self, PrefixError> {
        if len == 0 {
            return Err(PrefixError::NoSteps);
        }
        if len > Self::MAX_LEN {
            return Err(PrefixError::TooLong {
                len,
                limit: Self::MAX_LEN,
            });
        }
        if kind == (PrefixKind::Banded { band: 0 }) {
            return Err(PrefixError::NoBand);
        }
        if let Participation::Repeated { most, apart } = participation
            && (most == 0 || apart == 0)
        {
            return Err(PrefixError::NoParticipation { most, apart });
        }
        if let Participation::Sampled { apart } = participation {
            if apart == 0 {
                return Err(PrefixError::NoParticipation { most: 1, apart });
            }
            let band = width(kind, len);
            if band > apart && apart < len {
                return Err(PrefixError::BandsMeet { band, apart });
            }
        }
        let (most, apart) = participation.limits(len);
        let mut squared_steps = None;
        let (squared_sensitivity, unit_variances) = match (nodes(kind), factor(kind, len)) {
            (Some(nodes), _) => (
                tree::squared_sensitivity(nodes, len, most, apart),
                (1..=len).map(|t| tree::variance(nodes, t)).collect(),
            ),
            (None, Some(factor)) => {
                let (sums, steps) = factor.variances();
                squared_steps = Some(steps);
                (
                    factor.squared_sensitivity(most as usize, apart as usize),
                    sums,
                )
            }
            // Independent noise: C is the identity.
            (None, None) => (most as f64, (1..=len).map(|t| t as f64).collect()),
        };
        Ok(Self {
            kind,
            len,
            participation,
            squared_sensitivity,
            unit_variances,
            squared_steps,
        })
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> PrefixKind {
        self.kind
    }

    /// Steps of a period.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a period is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// How often a record takes part.
    #[must_use]
    pub fn participation(&self) -> Participation {
        self.participation
    }

    /// An upper bound, good to a few roundings, on the L2 norm by which one record can displace
    /// C x, where each of its steps moves by a norm of at most 1. For a tree between one
    /// participation and all it is a bound only; otherwise it is attained.
    #[must_use]
    pub fn sensitivity(&self) -> f64 {
        self.squared_sensitivity.sqrt().next_up()
    }

    /// Variance of the noise in prefix sum number `step`, counted from 1, in units of (noise
    /// multiplier × sensitivity of one step)², before rounding to the lattice; none beyond the
    /// period.
    #[must_use]
    pub fn variance(&self, step: u64) -> Option<f64> {
        let unit = self.unit_variances.get(step.checked_sub(1)? as usize)?;
        Some(self.squared_sensitivity * unit)
    }

    /// Variance of what the noise of prefix sum number `step` has more than that of the one before, in the same units: the
    /// noise of a difference of two releases. For the Honaker tree an upper bound. None beyond the period.
    #[must_use]
    pub fn step_variance(&self, step: u64) -> Option<f64> {
        let place = step.checked_sub(1)? as usize;
        let variance = *self.unit_variances.get(place)?;
        let before = match place.checked_sub(1) {
            None => return Some(self.squared_sensitivity * variance),
            Some(place) => self.unit_variances[place],
        };
        let unit = match (self.nodes(), &self.squared_steps) {
            // The new node, in place of those of all lower heights.
            (Some(Nodes::Plain), _) => 1.0 + f64::from(step.trailing_zeros()),
            // Noises of two sums have a covariance of at least 0.
            (Some(Nodes::Reduced), _) => variance + before,
            (None, Some(steps)) => steps[place],
            (None, None) => 1.0,
        };
        Some(self.squared_sensitivity * unit)
    }

    /// The largest variance of a prefix sum.
    #[must_use]
    pub fn worst_variance(&self) -> f64 {
        self.squared_sensitivity * self.worst_unit_variance()
    }

    /// The mean of the variances of all prefix sums of the period.
    #[must_use]
    pub fn mean_variance(&self) -> f64 {
        let sum: f64 = self.unit_variances.iter().sum();
        self.squared_sensitivity * (sum / self.len as f64)
    }

    /// The exact cost of one record's part in a period.
    ///
    /// # Formula
    /// A Gaussian release of this noise multiplier; for a tree in which every record is in one
    /// leaf the tree event with the multiplier of a node, which is the same (mu = √levels / node
    /// multiplier = 1 / noise multiplier, up to a rounding) and which other accountants read too.
    ///
    /// # Privacy
    /// Charged once for the period where a step may read all records; where steps read slices,
    /// to each slice that takes part, at its first step. Where they read samples of slices it is the event that is sampled, and
    /// every step is charged.
    ///
    /// # Errors
    /// [`PrefixError::NoiseOverflow`] where the multiplier of a node is not a finite number.
    pub fn event(&self, noise_multiplier: NoiseMultiplier) -> Result<Event, PrefixError> {
        if nodes(self.kind).is_none() || self.participation != Participation::Single {
            return Ok(Event::gaussian(noise_multiplier));
        }
        Ok(Event::SingleEpochTreeAggregation {
            noise_multiplier: self.unit_noise(noise_multiplier)?,
            step_counts: StepCounts::One(self.len),
        })
    }

    /// Standard deviation of the unit noise w (of a node, for a tree) over the L2 sensitivity of
    /// one step: noise multiplier × sensitivity, rounded up.
    ///
    /// # Errors
    /// [`PrefixError::NoiseOverflow`] where that is not a finite number.
    pub fn unit_noise(
        &self,
        noise_multiplier: NoiseMultiplier,
    ) -> Result<NoiseMultiplier, PrefixError> {
        let z = noise_multiplier.get();
        NoiseMultiplier::new((z * self.sensitivity()).next_up()).map_err(|_| {
            PrefixError::NoiseOverflow {
                noise_multiplier: z,
            }
        })
    }

    /// Largest Σ_j B_tj².
    pub(crate) fn worst_unit_variance(&self) -> f64 {
        self.unit_variances.iter().copied().fold(0.0, f64::max)
    }

    /// The nodes that are released, for a tree.
    pub(super) fn nodes(&self) -> Option<Nodes> {
        nodes(self.kind)
    }

    /// The factor C, for a Toeplitz kind.
    pub(super) fn factor(&self) -> Option<Factor> {
        factor(self.kind, self.len)
    }
}

fn nodes(kind: PrefixKind) -> Option<Nodes> {
    match kind {
        PrefixKind::Tree => Some(Nodes::Plain),
        PrefixKind::Honaker => Some(Nodes::Reduced),
        _ => None,
    }
}

/// Over how many rows of C a step reaches.
fn width(kind: PrefixKind, len: u64) -> u64 {
    let band = match kind {
        PrefixKind::Independent => 1,
        PrefixKind::Banded { band } => band,
        PrefixKind::Tuned(factor) => factor.band(),
        PrefixKind::Tree | PrefixKind::Honaker | PrefixKind::Toeplitz => len,
    };
    band.min(len)
}

fn factor(kind: PrefixKind, len: u64) -> Option<Factor> {
    // Below 2^24.
    let len = len as usize;
    match kind {
        PrefixKind::Toeplitz => Some(Factor::new(len, len)),
        PrefixKind::Banded { band } => Some(Factor::new(
            len,
            usize::try_from(band).unwrap_or(usize::MAX).min(len),
        )),
        PrefixKind::Tuned(tuned) => Some(Factor::of_column(len, tuned.column(len))),
        _ => None,
    }
}
