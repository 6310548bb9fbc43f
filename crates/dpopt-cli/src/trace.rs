//! What a run released, step by step.

/// Released values of a run, one entry per release: public after the run.
#[derive(Debug, Default, Clone)]
pub(crate) struct Trace {
    /// Step, counted from 0.
    pub step: Vec<u64>,
    /// Norm of the released estimate.
    pub released_norm: Vec<f64>,
    /// The norm that pure noise would have.
    pub noise_norm: Vec<f64>,
    /// Whether the estimate was a fresh gradient.
    pub anchor: Vec<bool>,
}
