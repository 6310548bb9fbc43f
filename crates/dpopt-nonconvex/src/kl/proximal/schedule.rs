//! What a plan of proximal rounds does.

use dpopt_privacy::{NoiseMultiplier, SamplingRate};

/// One round: minimise F(w) + L ||w - c||^2 in the ball of radius R around c, where c is the output of the last round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProximalRound {
    /// L.
    pub weight: f64,
    /// mu = 2 L - W, the modulus of strong convexity.
    pub modulus: f64,
    /// R.
    pub radius: f64,
    /// M: noisy gradients.
    pub steps: u64,
    /// tau: bound on the gap of the subproblem.
    pub gap: f64,
    /// Phi: bound on F - min F after the round.
    pub risk: f64,
}

/// What a [`ProximalPlan`](super::ProximalPlan) does.
#[derive(Debug, Clone, PartialEq)]
pub struct ProximalSchedule {
    /// Probability with which a record enters a step; none where every step reads all of them.
    pub sampling_rate: Option<SamplingRate>,
    /// Noise multiplier of each release.
    pub noise_multiplier: NoiseMultiplier,
    /// The rounds.
    pub rounds: Vec<ProximalRound>,
}
