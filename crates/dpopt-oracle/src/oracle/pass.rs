//! The terms of a pass over single records.

/// Public parameters of a pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pass<'a> {
    /// Where it starts; brought into the ball first.
    pub start: &'a [f64],
    /// Centre c of the term (M/2) ||w - c||^2 that is added to each record's loss.
    pub centre: &'a [f64],
    /// M, its modulus; may be 0.
    pub modulus: f64,
    /// Step size eta, at most 1/(L1 + M).
    pub step_size: f64,
    /// Centre of the ball that each step is projected on.
    pub origin: &'a [f64],
    /// Its radius R.
    pub radius: f64,
    /// How many unread records it reads, m.
    pub records: u64,
}
