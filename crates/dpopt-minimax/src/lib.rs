//! Planners and walks for private minimax problems.
//!
//! Problem: minimise Phi(x) = max over y in Y of F(x, y), F the mean over records of f(x, y; record), strongly concave in y, under
//! differential privacy. As in `dpopt-nonconvex`: **plan** from [`SaddleFacts`] and a [`Budget`], **run** against an
//! [`Oracle`](dpopt_oracle::Oracle) over a [`Joint`](dpopt_oracle::Joint) loss, certify.
//!
//! A walk moves on joint points (x, y/s) and is given joint estimates of (grad_x, s grad_y): one release, one clip and one charge serve
//! both blocks, inner steps included.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod allowance;
mod anytime;
mod blocks;
mod certificate;
mod facts;
mod gda;
mod pass;
mod perturb;
mod place;
mod registry;
mod rgda;
mod scored;
mod sgda;
mod shares;
mod solver;
mod spider_gda;
mod tracker;

pub use dpopt_solver::*;

pub use allowance::Allowance;
pub use anytime::{RGDA_ANYTIME, RgdaAnytimePlan, RgdaAnytimeSettings};
pub use certificate::{
    CertificateNoise, OnlyFirstOrder, SaddleCertificate, SaddleCertificateError,
    saddle_certificate, saddle_certificate_unread,
};
pub use facts::{MeanFacts, SaddleFacts};
pub use gda::{GDA, GdaPlan, GdaSchedule};
pub use pass::{
    PassEstimate, RGDA_CHAIN, RGDA_PREFIX, RGDA_ROUNDS, RgdaPassPlan, RgdaPassSchedule,
    RgdaPassSettings,
};
pub use perturb::{PERTURB_AND_WATCH, PerturbAndWatchPlan, PerturbSettings};
pub use registry::{REMOVED, SOLVERS, solver};
pub use rgda::{RGDA, RgdaPlan, SAMPLED_RGDA, SampledRgdaSchedule};
pub use scored::{CertificateFailed, CertifyError, ScoredCertificate, ScoredCertificatePlan};
pub use sgda::{SGDA, SgdaPlan};
pub use shares::{NoShares, SharesPlan, SharesReleaseError, sampled_excess};
pub use solver::{SaddleLimits, SaddlePlanned, SaddlePlanner, SaddleSolver};
pub use spider_gda::{SPIDER_GDA, SpiderGdaPlan};
