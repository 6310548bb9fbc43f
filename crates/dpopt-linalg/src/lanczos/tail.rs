//! How far an eigenvalue may lie beyond the Ritz values when the start was random.

/// Ritz values and remainders of a run, as the bound needs them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tail {
    /// Roots of the polynomial that maps the start to the last remainder.
    roots: Vec<f64>,
    /// Log of the norm of that remainder.
    log_norm: f64,
}

impl Tail {
    pub(super) fn new(roots: Vec<f64>, log_norm: f64) -> Self {
        Self { roots, log_norm }
    }

    /// delta with sum ln(root - theta + delta) = ln(norm of the remainder) - ln t, where a uniform start has
    /// a component shorter than t on any fixed line with probability at most `failure`.
    pub(super) fn beyond(&self, theta: f64, failure: f64, dim: usize) -> f64 {
        if !(failure > 0.0) {
            return f64::INFINITY;
        }
        if failure >= 1.0 || dim == 1 {
            return 0.0;
        }
        // The density of one coordinate is largest at 0 for d >= 3, where it is at most
        // sqrt((d-1)/(2 pi)) by Gautschi's inequality; the angle is uniform for d = 2.
        let slope = if dim == 2 {
            1.0
        } else {
            (2.0 * (dim as f64 - 1.0) / std::f64::consts::PI).sqrt()
        };
        let goal = self.log_norm + (slope / failure).ln();
        let excess = |log_delta: f64| {
            let delta = log_delta.exp();
            let sum: f64 = self
                .roots
                .iter()
                .map(|root| ((root - theta).max(0.0) + delta).ln())
                .sum();
            sum - goal
        };
        if self.roots.is_empty() || goal == f64::NEG_INFINITY {
            return 0.0;
        }
        // With all roots at theta the sum is smallest: ln delta is at most goal over their number.
        let mut high = goal / self.roots.len() as f64;
        let mut low = high.min(0.0) - 1.0;
        while excess(low) > 0.0 {
            low = 2.0 * low - 1.0;
            if low < -700.0 {
                return (-700.0f64).exp();
            }
        }
        for _ in 0..100 {
            let middle = 0.5 * (low + high);
            if excess(middle) > 0.0 {
                high = middle;
            } else {
                low = middle;
            }
        }
        high.exp()
    }
}
