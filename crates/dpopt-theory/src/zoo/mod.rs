//! The problem zoo: objectives of which everything is known exactly.
//!
//! | problem | what it is for |
//! | --- | --- |
//! | [`RampBowl`] | first-order rates: nearly as slow and as noisy as the bounds |
//! | [`RampCone`], [`SmoothedCone`] | rates of Goldstein distances: kinks on a ramp and a cone |
//! | [`Radial`] of [`Power`] | KL exponents, tight everywhere |
//! | [`Radial`] of [`LogPeriodic`] | the same exponents without convexity |
//! | [`Radial`] of [`WeaklyConvex`] | KL exponents above 2, weakly convex |
//! | [`Radial`] of [`Softplus`] | KL exponent 1, smooth |
//! | [`TiltedPower`] | KL exponents with a minimiser that the records decide |
//! | [`Radial`] of [`Ring`], [`Logarithm`] | exact Goldstein distances |
//! | [`Wells`] | strict saddles with exact curvature |
//! | [`CubicSaddles`] | saddles, and chains of them, where a step of curvature is tight; flat directions |
//! | [`Slide`] | rates of one pass to a second-order point: as long a way as the gap allows |
//! | [`SmoothRamp`] | second-order rates: the ramp-bowl with a Lipschitz Hessian |
//! | [`MeanBall`], [`LeCam`], [`Barrier`], [`TiltedSquare`], [`TwoPoint`] | instances of lower bounds |
//! | [`CosineSaddle`] | saddle problems with a strict saddle of Phi, or with curvature that only y gives |
//! | [`QuadraticGame`] | saddle problems with every eigenvalue of Phi |
//! | [`Coupled`] | any of the others as the Phi of a saddle problem: rates |
//! | [`Spokes`] | a sample whose gradients are far from its population's |
//! | [`Coins`] | convex generalised linear samples with a known population gradient |
//! | [`Fingerprint`] | records that give themselves away |
//! | [`TiltedProblem`] | any problem record by record, its mean unchanged |

mod barrier;
mod coins;
mod cosine_saddle;
mod coupled;
mod cubic_saddles;
mod fingerprint;
mod kinks;
mod le_cam;
mod log_periodic;
mod mean_ball;
mod over_mean;
mod power;
mod quadratic_game;
mod radial;
mod ramp_bowl;
mod ramp_cone;
mod slide;
mod smooth_ramp;
mod smoothed_cone;
mod softplus;
mod spectrum;
mod spokes;
mod tilted;
mod tilted_power;
mod tilted_square;
mod two_point;
mod weakly_convex;
mod wells;

pub use barrier::Barrier;
pub use coins::Coins;
pub use cosine_saddle::CosineSaddle;
pub use coupled::Coupled;
pub use cubic_saddles::CubicSaddles;
pub use fingerprint::Fingerprint;
pub use kinks::{Logarithm, Ring};
pub use le_cam::LeCam;
pub use log_periodic::LogPeriodic;
pub use mean_ball::{MeanBall, MeanBallMean};
pub use over_mean::{AffineLoss, OverMean};
pub use power::Power;
pub use quadratic_game::{QuadraticGame, schur_least};
pub use radial::{Profile, Radial};
pub use ramp_bowl::{Ramp, RampBowl};
pub use ramp_cone::RampCone;
pub use slide::Slide;
pub use smooth_ramp::{RampLimits, SmoothRamp};
pub use smoothed_cone::SmoothedCone;
pub use softplus::Softplus;
pub use spectrum::Spectrum;
pub use spokes::Spokes;
pub use tilted::{Tilt, TiltedProblem};
pub use tilted_power::TiltedPower;
pub use tilted_square::TiltedSquare;
pub use two_point::{Majority, TwoPoint};
pub use weakly_convex::WeaklyConvex;
pub use wells::Wells;
