//! Problems with known constants, simulation, rate checks and audits.
//!
//! The promises of theory, checked against measurements:
//!
//! - the problem zoo: [`RampBowl`], [`Radial`] powers and their log-periodic, weakly
//!   convex and nonsmooth relatives, [`Wells`], and the instances of lower bounds, with exact values,
//!   gradients, Hessians, Goldstein distances and constants (a [`Problem`], a
//!   [`SecondOrderProblem`], a [`GoldsteinProblem`]);
//! - [`Probe`]: an attempt to refute the constants of any problem;
//! - [`WeightedRecords`]: records with multiplicities, so that 10^9 records cost what the distinct
//!   ones do;
//! - [`SimulatedOracle`]: the oracle of a protected run over such records, or over a problem in
//!   closed form, with plain floating-point noise of the right size. It protects nobody and states
//!   no guarantee;
//! - [`LogLogFit`]: the slope of a measured rate, with a confidence interval;
//! - [`verify`]: rates, measured against what theory claims; [`audit`]: attacks on the guarantees
//!   themselves. Both have broken twins that they must catch, and share [`checks`].
//!
//! Private records are read by the estimators of `dpopt-oracle` only. Certificates are in
//! `dpopt-certify`.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod around;
pub mod audit;
pub mod checks;
mod minimax;
mod probe;
mod problem;
mod rates;
mod simulation;
pub mod verify;
mod zoo;

pub use around::Around;
pub use minimax::{JointProblem, MinimaxProblem, OfProblem, SecondOrderMinimax};
pub use probe::{Audited, Finding, Probe, ProbeReport};
pub use problem::{
    GoldsteinProblem, Kl, Problem, ProblemConstants, ProblemError, SecondOrderProblem,
};
pub use rates::{FitError, LogLogFit};
pub use simulation::{
    ClosedForm, FloatPrefixNoise, NoiseRule, PlaneOracle, Population, RampGlm, SimulatedOracle,
    SpanGradient, SpanOracle, Unread, WeightedError, WeightedLoss, WeightedRecords, Within,
    in_span,
};
pub use zoo::{
    AffineLoss, Barrier, Coins, CosineSaddle, Coupled, CubicSaddles, Fingerprint, LeCam,
    LogPeriodic, Logarithm, Majority, MeanBall, MeanBallMean, OverMean, Power, Profile,
    QuadraticGame, Radial, Ramp, RampBowl, RampCone, RampLimits, Ring, Slide, SmoothRamp,
    SmoothedCone, Softplus, Spectrum, Spokes, Tilt, TiltedPower, TiltedProblem, TiltedSquare,
    TwoPoint, WeaklyConvex, Wells, schur_least,
};
