//! Episodes of the faithful algorithm, and what a walk leaves behind.

use serde::Serialize;

/// How an episode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CentredEnd {
    /// The walk came to the radius. **No proof of a saddle**: a flat point may be left too, and the loss may rise.
    Left,
    /// All of its steps were made within the radius.
    Stayed,
    /// The run ended first.
    Cut,
}

/// One episode: a walk in the noisy quadratic model at a candidate. Public.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CentredEpisode {
    /// The step of the run at which it began, counted from 0.
    pub step: u64,
    /// Where.
    pub anchor: Vec<f64>,
    /// The norm of the released estimate there.
    pub gradient: f64,
    /// Links of the chained Hessian: slices that paid for each of its products.
    pub links: u64,
    /// Steps made, each of one product.
    pub length: u64,
    /// How far from the anchor its last step led, before it was brought back to the radius.
    pub radius: f64,
    /// Left or not.
    pub end: CentredEnd,
}

/// What a walk leaves behind.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) trajectory: Vec<Vec<f64>>,
    pub(super) episodes: Vec<CentredEpisode>,
}
