//! A certificate of an objective of scores at the point that a run released, by any solver.

use std::num::NonZeroUsize;

use dpopt_linalg::norm;
use dpopt_oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use dpopt_oracle::{
    At, Batch, BlockClips, Blocks, DomainStamp, Joint, Level, Linear, MeanAt, Number, Oracle,
    PrivateData, PrivateMean, RecordAt, Schedule, ScoreSaddle, Scored,
};
use dpopt_privacy::accounting::gdp;
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Epsilon, Mu, NoiseMultiplier, Spend, Which};
use dpopt_solver::{
    Budget, Covered, Known, PlanError, Premises, PublicFacts, RunError, SaddleShape, normal_reach,
};
use serde::Serialize;

use crate::certificate::{FAR, OnlyFirstOrder, Sampling, curvature, first_order, premises, spread};
use crate::facts::{MeanFacts, SaddleFacts};

/// Part of a certificate's cost that is the Hessian's. A choice.
const HESSIAN_SHARE: f64 = 0.5;
/// C_x over s C_y where the norm of grad_x is released, and s C_y over C_x where that of grad_y is: a joint clip is then that of one block.
const APART: f64 = 1e3;
/// Above the constants of a point, for their rounding.
const ROOM: f64 = 1.0 + 1e-9;

/// What a certificate at the point of a run will cost, and what is left for the run.
///
/// # Privacy
/// Its multipliers are known before the run: [`Curator::promise`] names its reservation, and the whole is a fixed composition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredCertificatePlan {
    /// Of each of the two norms.
    pub norms: NoiseMultiplier,
    /// Of the Hessian.
    pub hessian: Option<NoiseMultiplier>,
    /// The budget of the run.
    pub rest: Budget,
    /// p: the probability with which what is certified may be false.
    pub failure: f64,
}

/// What holds with probability 1 - p at a released point (x, y) of an objective, Phi its largest value over y. Public.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScoredCertificate {
    /// ||grad Phi(x)|| is at most that.
    pub gradient: f64,
    /// No gradient of Phi at x is longer than that, whatever records they are of which no cell exceeds the `excess`.
    pub gradient_by_shares_alone: f64,
    /// ||y - y*(x)|| is at most that.
    pub distance: f64,
    /// The Hessian of Phi at x has no eigenvalue below that, or why nothing is known of it.
    pub curvature: Result<f64, OnlyFirstOrder>,
    /// The same, by the `excess` alone.
    pub curvature_by_shares_alone: f64,
    /// All of this is for records of which no cell has more than so many times its stated share.
    pub excess: f64,
    /// The released norm of grad_x, and its deviation.
    pub norm: (f64, f64),
    /// That of grad_y.
    pub norm_of_y: (f64, f64),
    /// p.
    pub failure: f64,
    #[serde(skip)]
    covered: Covered,
}

/// A certificate whose releases were not made, or not all of them.
#[derive(thiserror::Error)]
#[error("{why}")]
#[non_exhaustive]
pub struct CertificateFailed {
    /// Why.
    #[source]
    pub why: RunError,
    /// The curator, whose guarantee stands.
    pub curator: Box<Curator>,
}

impl std::fmt::Debug for CertificateFailed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.why, f)
    }
}

impl CertificateFailed {
    fn with(mut curator: Curator, why: impl Into<RunError>) -> Self {
        // The first error is the one to tell.
        drop(curator.settle());
        Self {
            why: why.into(),
            curator: Box::new(curator),
        }
    }
}

/// A certificate that can't be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CertifyError {
    /// A share of the budget that is none.
    #[error("the share of the budget for a certificate is between 0 and 1, got {share}")]
    Share {
        /// The number.
        share: f64,
    },
    /// What is left for the run is less than any epsilon.
    #[error(
        "a share of {share} of epsilon {epsilon:e} leaves no epsilon for the run: a smaller share, or more of a budget, is needed"
    )]
    NothingLeft {
        /// The share.
        share: f64,
        /// The epsilon of the whole.
        epsilon: f64,
    },
    /// The mean is over a declared number of records.
    #[error(
        "a certificate is about the mean over the true number of records, and under {adjacency} that is private"
    )]
    DeclaredSize {
        /// The relation.
        adjacency: Adjacency,
    },
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

impl ScoredCertificatePlan {
    /// A certificate for this share of mu^2, which is false with probability at most `failure`. Half of it is the Hessian's, of that many
    /// `coordinates` of x and y together. Of none (`None`: the objective is convex in x, and none is needed) and of more than
    /// [`MAX_PRIVATE_HESSIAN_DIM`] no Hessian is released, and all of it is the norms'.
    ///
    /// # Errors
    /// [`CertifyError`]. Under add-remove the mean would be over a declared number of records, and under zero-out these objectives are
    /// refused.
    pub fn new(
        budget: &Budget,
        adjacency: Adjacency,
        (share, failure): (f64, f64),
        coordinates: Option<usize>,
    ) -> Result<Self, CertifyError> {
        if !(share > 0.0 && share < 1.0) {
            return Err(CertifyError::Share { share });
        }
        PlanError::fraction("failure", failure)?;
        if adjacency != Adjacency::ReplaceOne {
            return Err(CertifyError::DeclaredSize { adjacency });
        }
        let mu = budget.mu()?.get();
        let cost = share * mu * mu;
        let fits = coordinates.is_some_and(|all| all <= MAX_PRIVATE_HESSIAN_DIM);
        let of_hessian = if fits { HESSIAN_SHARE * cost } else { 0.0 };
        let multiplier = |cost: f64| {
            NoiseMultiplier::new(cost.powf(-0.5)).map_err(|error| PlanError::from(error).into())
        };
        let rest = Mu::new(mu * (1.0 - share).sqrt()).map_err(PlanError::from)?;
        // Rounded down by more than the accountant rounds up.
        let epsilon = gdp::epsilon(rest, budget.delta) * (1.0 - 1e-9);
        if epsilon <= 0.0 {
            let epsilon = budget.epsilon.get();
            return Err(CertifyError::NothingLeft { share, epsilon });
        }
        let hessian = fits.then(|| multiplier(of_hessian));
        Ok(Self {
            norms: multiplier(0.5 * (cost - of_hessian))?,
            hessian: hessian.transpose().map_err(|error: CertifyError| error)?,
            rest: Budget {
                epsilon: Epsilon::new(epsilon).map_err(PlanError::from)?,
                delta: budget.delta,
            },
            failure,
        })
    }

    /// Refuses a certificate that could say nothing at the start (x = 0, y in the middle of its domain), were both norms released there as
    /// zero, on so many records of so many columns and of norm at most `row_norm`.
    ///
    /// # Formula
    /// q s_x + (L_xy/m) q s_y, s_x and s_y the noise of the norms under the clips of that point, against the longest gradient that Phi has there
    /// by the shares alone.
    ///
    /// # Errors
    /// [`PlanError::VacuousSaddle`].
    pub fn check<S: ScoreSaddle>(
        &self,
        objective: &S,
        (records, columns, row_norm): (u64, usize, f64),
    ) -> Result<(), PlanError> {
        let (y, extra) = (objective.domain().middle(), vec![0.0; objective.extra()]);
        let at = At {
            extra: &extra,
            y: &y,
        };
        let record = objective.record_at(row_norm, 0.0, at);
        let mean = objective.mean_at(row_norm, at, 1.0);
        let noise = Adjacency::ReplaceOne.sum_sensitivity() * self.norms.get() / records as f64;
        let bound = normal_reach(self.failure / 5.0)
            * noise
            * (record.x + mean.smooth_xy / mean.strong_concavity * record.y);
        if bound < mean.lipschitz {
            return Ok(());
        }
        let of_hessian = self.hessian.map_or(0.0, |z| z.get().powi(-2));
        Err(PlanError::VacuousSaddle {
            solver: "saddle-certificate",
            bound,
            trivial: mean.lipschitz,
            records,
            dim: columns + extra.len() + y.len(),
            mu: (2.0 * self.norms.get().powi(-2) + of_hessian).sqrt(),
            rarest: Some(objective.rarest()),
            runs: "the solver alone",
        })
    }

    /// What will be reserved for it.
    #[must_use]
    pub fn spend(&self) -> Spend {
        let level = |noise_multiplier| Level {
            batch: Batch::All,
            noise_multiplier,
        };
        let norms = Schedule::new(1).releases(level(self.norms), 2);
        match self.hessian {
            Some(z) => norms.releases(level(z), 1).spend(),
            None => norms.spend(),
        }
    }

    /// Releases it at (x, y): x the weights and the numbers behind them. None where the point is too far away for products.
    ///
    /// # Formula
    /// That of [`saddle_certificate`](crate::saddle_certificate), of the objective with no block shortened: the clips of the releases are
    /// the constants that hold at this point for every row of norm at most X. The domain is [`ScoreSaddle::open_domain`]. `excess`: how many
    /// times its stated share of the records no cell exceeds; 1 for shares that are theirs.
    ///
    /// # Privacy
    /// Two norms and, where y* is seen to be inside of its domain, a Hessian clipped in Frobenius norm: three Gaussian releases on all
    /// records, of multipliers that were planned. Clips follow from the point, which is released.
    ///
    /// # Errors
    /// [`CertificateFailed`], with the curator.
    pub fn release<S: ScoreSaddle + Clone>(
        &self,
        objective: &S,
        data: &PrivateData,
        (x, y, excess): (&[f64], &[f64], f64),
        curator: Curator,
        threads: NonZeroUsize,
    ) -> Result<(Option<ScoredCertificate>, Curator), CertificateFailed> {
        let extra = objective.extra();
        let columns = x.len().saturating_sub(extra);
        let fits = columns == data.dim() && y.len() == objective.domain().dim();
        if !fits || !x.iter().chain(y).all(|w| w.abs() <= FAR) {
            return Ok((None, curator));
        }
        let row_norm = data.row_norm();
        let (weights, behind) = x.split_at(columns);
        let at = At { extra: behind, y };
        let record = objective.record_at(row_norm, row_norm * norm(weights) * ROOM, at);
        let mean = objective.mean_at(row_norm, at, excess);
        // A block that is zero for every record has a clip too.
        let (of_x, of_y) = (
            (record.x * ROOM).max(f64::MIN_POSITIVE.sqrt()),
            (record.y * ROOM).max(f64::MIN_POSITIVE.sqrt()),
        );
        let q = normal_reach(self.failure / 5.0);
        let with = Releasing {
            objective,
            data,
            threads,
            x,
            y,
        };
        let best = self.scale(&record, mean.smooth_xy / mean.strong_concavity, y.len());
        let facts = with.facts(best, (&record, &mean));
        let (covered, mut curator) = with.covered(&facts, best, self.hessian.is_some(), curator)?;
        if let Err(error) = curator.reserve(&self.spend()) {
            return Err(CertificateFailed::with(curator, error));
        }
        let scale = of_x / of_y;
        let apart = (scale / APART, scale * APART);
        let clip = |scale: f64| of_x.hypot(scale * of_y) * ROOM;
        let (first, curator) = with.norm(true, apart.0, (clip(apart.0), self.norms), curator)?;
        let (second, curator) = with.norm(false, apart.1, (clip(apart.1), self.norms), curator)?;
        let upper = |number: Number, clip: f64| {
            number.number + q * number.noise_std + PublicFacts::rounding(clip, x.len() + y.len())
        };
        let slope = upper(second, clip(apart.1)) / apart.1;
        let bounds = (upper(first, clip(apart.0)).max(0.0), Some(slope));
        let (gradient, distance) = first_order(&facts, y, bounds);
        let (found, mut curator) = match self.hessian {
            None if mean.concavity == 0.0 => (Err(OnlyFirstOrder::Convex), curator),
            None => (Err(OnlyFirstOrder::NoHessian), curator),
            Some(z) => with.hessian(&facts, best, (distance, z, self.failure), curator)?,
        };
        if let Err(error) = curator.settle() {
            return Err(CertificateFailed::with(curator, error));
        }
        Ok((
            Some(ScoredCertificate {
                gradient,
                gradient_by_shares_alone: mean.lipschitz,
                distance,
                curvature: found,
                curvature_by_shares_alone: 0.0 - mean.concavity,
                excess,
                norm: (first.number, first.noise_std),
                norm_of_y: (second.number / apart.1, second.noise_std / apart.1),
                failure: self.failure,
                covered,
            }),
            curator,
        ))
    }

    /// The scale of y under which the margin of the Hessian is the least, for a lift of norm `w`, its bound.
    fn scale(&self, record: &RecordAt, w: f64, y: usize) -> f64 {
        let margin = |scale: f64| record.frobenius(scale) * spread(w / scale, y, self.failure);
        let scales = (-16..=16).map(|half| 2f64.powf(0.5 * f64::from(half)));
        let mut best = (f64::INFINITY, 1.0);
        for scale in scales {
            let here = margin(scale);
            if here < best.0 {
                best = (here, scale);
            }
        }
        best.1
    }
}

/// A lower bound on eigenvalues, or why there is none.
type Curvature = Result<f64, OnlyFirstOrder>;

/// Means of an objective of which no block is shortened.
type WholeMeans<'a, S> = PrivateMean<'a, Joint<Scored<S>>>;

/// Releases at one point.
struct Releasing<'a, S> {
    objective: &'a S,
    data: &'a PrivateData,
    threads: NonZeroUsize,
    x: &'a [f64],
    y: &'a [f64],
}

impl<'a, S: ScoreSaddle + Clone> Releasing<'a, S> {
    /// The facts of this point.
    fn facts(&self, scale: f64, (record, mean): (&RecordAt, &MeanAt)) -> SaddleFacts {
        SaddleFacts {
            records: self.data.public_records(),
            adjacency: self.data.adjacency(),
            x_dim: self.x.len(),
            domain: self.objective.open_domain(),
            record: record.constants(scale),
            mean: MeanFacts {
                strong_concavity: mean.strong_concavity,
                smooth_yy: mean.smooth_yy,
                smooth_xy: mean.smooth_xy,
                value_smoothness: f64::INFINITY,
                value_gap: f64::INFINITY,
                value_hessian_lipschitz: f64::INFINITY,
                joint_hessian_lipschitz: mean.joint_hessian_lipschitz,
            },
            whole: true,
            rarest: None,
        }
    }

    /// Refuses what the theorem does not cover, before anything is reserved.
    fn covered(
        &self,
        facts: &SaddleFacts,
        scale: f64,
        hessian: bool,
        curator: Curator,
    ) -> Result<(Covered, Curator), CertificateFailed> {
        let (means, point) = self.means(scale, curator)?;
        let known = means
            .facts()
            .with_all_constants(&means.constants_at(&point));
        let premises = premises(facts, scale, (hessian, false));
        // The best y is the same over the open set, which is another than that of the loss.
        let domain = DomainStamp::of(&self.objective.domain());
        let saddle = premises.saddle.map(|shape| SaddleShape { domain, ..shape });
        let held = Premises { saddle, ..premises }.hold(&Known::of(&known));
        match held {
            Ok(covered) => Ok((covered, means.into_curator())),
            Err(why) => Err(CertificateFailed::with(means.into_curator(), why)),
        }
    }

    /// Means of the whole loss at this scale of y, and its joint point.
    fn means(
        &self,
        scale: f64,
        curator: Curator,
    ) -> Result<(WholeMeans<'a, S>, Vec<f64>), CertificateFailed> {
        let none = BlockClips {
            x: f64::INFINITY,
            y: f64::INFINITY,
        };
        let loss = Scored::new(self.objective.clone(), none);
        let blocks = Blocks {
            x: self.x.len(),
            y: self.y.len(),
            scale,
        };
        let Ok(joint) = Joint::new(loss, scale) else {
            let why = RunError::Blocks {
                solver: "saddle-certificate",
                plan: Some(blocks),
                oracle: None,
            };
            return Err(CertificateFailed::with(curator, why));
        };
        let means = PrivateMean::new_or_back(self.data, joint, curator);
        let means = means.map_err(|(error, back)| CertificateFailed::with(*back, error))?;
        let means = means.with_hessians().with_threads(self.threads);
        Ok((means, blocks.join(self.x, self.y)))
    }

    fn norm(
        &self,
        of_x: bool,
        scale: f64,
        (clip, z): (f64, NoiseMultiplier),
        curator: Curator,
    ) -> Result<(Number, Curator), CertificateFailed> {
        let clip = match ClipNorm::new(clip) {
            Ok(clip) => clip,
            Err(error) => return Err(CertificateFailed::with(curator, RunError::Clip(error))),
        };
        let (mut means, point) = self.means(scale, curator)?;
        let x = self.x.len();
        let within = if of_x { 0..x } else { x..point.len() };
        let field = Linear::field(&point, clip);
        match means.norm_within(field, Some(within), &[], (Which::All, z)) {
            Ok(found) => Ok((found, means.into_curator())),
            Err(error) => Err(CertificateFailed::with(means.into_curator(), error)),
        }
    }

    fn hessian(
        &self,
        facts: &SaddleFacts,
        scale: f64,
        (distance, z, failure): (f64, NoiseMultiplier, f64),
        curator: Curator,
    ) -> Result<(Curvature, Curator), CertificateFailed> {
        let (mut means, point) = self.means(scale, curator)?;
        let (added, over) = (
            Sampling::none(failure),
            (Which::All, &mut means as &mut dyn Oracle),
        );
        let found = curvature(facts, scale, (&point, distance), (z, &added), over);
        let curator = means.into_curator();
        match found {
            Ok((found, _)) => Ok((found.map(|found| found.least), curator)),
            Err(error) => Err(CertificateFailed::with(curator, error)),
        }
    }
}
