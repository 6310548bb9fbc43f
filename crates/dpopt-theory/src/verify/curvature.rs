//! What is claimed of the cost of one certificate of curvature, and the twins that must be caught.
//!
//! `sosp-curvature/*`: the squared mu that a certificate of lambda_min > -lambda cost, times n^2/s^2, along lambda/L1, in 20 dimensions. A trial
//! also shows the same release a saddle at -lambda; where that is certified, or the flat spectrum is not, the trial counts as a certificate at a
//! cost that does not depend on lambda. `adaptive-batch/lazy`: planned records of Hessians of a whole run, episodes times batch.

use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSettings, CurvatureBy, Episode, EpisodeEnd, EpisodeTerms,
    HessianFacts, PublicFacts, Radii, SecondOrderTargets, normal_reach,
};
use dpopt_oracle::Oracle as _;
use dpopt_oracle::query::{HessianMatrix, unpack_symmetric};
use dpopt_privacy::{Adjacency, ClipNorm, Event, NoiseMultiplier, Spend, Which};

use super::claim::{Axis, Claim, Design, Experiment, Measured, Trial};
use super::common::{DELTA, Plans, Privacy, Size};
use crate::checks::{CheckError, Effort};
use crate::simulation::SimulatedOracle;
use crate::zoo::Spectrum;

const DIM: usize = 20;
const RECORDS: u64 = 1 << 40;
/// With what probability a certificate may be false, an exit less curved than said, or a saddle be missed.
const P: f64 = 1e-4;
/// n^2 mu^2/s^2 of a trial that went wrong.
const WRONG: f64 = 1e9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// A whole Hessian, C_F = L1.
    Direct,
    Shifted,
    /// The recursion without a shift, of the same noise and length.
    Centred,
    /// The noise, exit radius and length of the printed episode, charged at its exit radius.
    Printed,
}

struct OneCertificate {
    claim: Claim,
    by: By,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let row = |id: &str| {
        Claim::new(&format!("sosp-curvature/{id}"), Axis::Curvature, -2.0)
            .by(
                "sosp",
                "docs/theory/second-order.md, Theorem 1; docs/theory/second-order.md",
            )
            .on("spectra")
            .measuring("squared mu of a certificate")
            .within(0.1, 0.2, "logarithms of the number of steps, and 1 + eta l")
    };
    let mut add =
        |claim, by| all.push(Box::new(OneCertificate { claim, by }) as Box<dyn Experiment>);
    add(row("lambda"), By::Shifted);
    add(row("lambda-direct"), By::Direct);
    let centred = row("centred").control("Episodes without their shift leave what is flat.");
    add(centred, By::Centred);
    let printed = row("printed")
        .control("Queries at the printed radius, charged as such: another L1/lambda.");
    add(printed, By::Printed);
    for (id, printed) in [("lazy", false), ("lazy-printed", true)] {
        let claim = Claim::new(&format!("adaptive-batch/{id}"), Axis::Accuracy, -2.0)
            .by(
                "adaptive-batch",
                "docs/theory/second-order.md; LT25, section 4.3",
            )
            .on("plans")
            .measuring("planned records of Hessians")
            .within(0.15, 0.3, "logarithms of the number of episodes");
        let claim = match printed {
            true => claim.control(
                "As many records as the printed episodes need: another (L1/lambda)^(1/2).",
            ),
            false => claim,
        };
        let plans = Plans::new();
        all.push(Box::new(Lazy {
            claim,
            printed,
            plans,
        }));
    }
    all
}

impl OneCertificate {
    fn episode(&self, lambda: f64) -> Result<Episode, CheckError> {
        let terms = EpisodeTerms {
            dim: DIM,
            smoothness: 1.0,
            curvature: lambda,
            missed: P,
            false_exit: P,
        };
        let planned = Episode::cheapest(&terms, 0.5 * lambda).ok_or("no episode")?;
        Ok(match self.by {
            By::Centred => Episode {
                shift: 0.0,
                ..planned
            },
            // sigma = gamma/sqrt d, Xi = 0.7 sqrt(alpha/rho), alpha = 16 gamma, lambda = sqrt(rho alpha); the length that misses P.
            By::Printed => {
                let noise = lambda / (11.2 * (DIM as f64).sqrt());
                let steps = (1.0 / (noise * P)).ln() / lambda.ln_1p();
                Episode {
                    shift: 0.0,
                    noise,
                    steps: steps.ceil() as u64,
                    ..planned
                }
            }
            _ => planned,
        })
    }

    /// Whether `of` is certified, and what that cost.
    fn certifies(&self, of: &Spectrum, lambda: f64, seed: u64) -> Result<(bool, f64), CheckError> {
        let adjacency = Adjacency::ReplaceOne;
        let mut oracle = SimulatedOracle::over(of.clone(), adjacency, seed);
        let cap = Event::gaussian(NoiseMultiplier::new(1e-6)?);
        oracle.books().reserve(&Spend::AtMost(cap))?;
        let (point, records) = (vec![0.0; DIM], RECORDS as f64);
        let unit = records * records / adjacency.sum_sensitivity().powi(2);
        if self.by != By::Direct {
            let radii = match self.by {
                By::Printed => Radii::Full,
                _ => Radii::Realised,
            };
            let episode = self.episode(lambda)?;
            let ran = episode.run(&mut oracle, &point, Which::All, (records, radii))?;
            return Ok((ran.end == EpisodeEnd::Stayed, unit * ran.cost));
        }
        let quantile = normal_reach(P);
        let operator = (2.0 * DIM as f64).sqrt() + (2.0 * (1.0 / P).ln()).sqrt();
        let std = 0.5 * lambda / (quantile + operator);
        let z = NoiseMultiplier::new(std * records / adjacency.sum_sensitivity())?;
        let matrix = HessianMatrix {
            point: &point,
            radius: ClipNorm::new(1.0)?,
        };
        let released = oracle.hessian(matrix, Which::All, z)?;
        let whole = unpack_symmetric(DIM, &released.mean).ok_or("another shape")?;
        let least = dpopt_linalg::symmetric_spectrum(DIM, &whole)?.eigenvalues[0];
        let certified = least - quantile * released.noise_std >= -lambda;
        Ok((certified, unit * z.get().powi(-2)))
    }
}

impl Experiment for OneCertificate {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let points = (0..7).map(|k| 0.6 * 10f64.powf(-0.25 * f64::from(k)));
        Design::new(points.rev().collect()).with_seeds(effort.pick(64, 256))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let lambda = trial.x;
        // As curved as may be without being left, but for Hessians whose Frobenius norm would be clipped.
        let flat = match self.by {
            By::Direct => 0.0,
            By::Printed => 0.3 * lambda,
            _ => {
                // Also of one that has lost its shift.
                let terms = self.episode(lambda)?.terms;
                let planned = Episode::cheapest(&terms, 0.5 * lambda).ok_or("no episode")?;
                planned.flat * planned.shift
            }
        };
        let flat = Spectrum::new(vec![-flat; DIM], RECORDS);
        let mut saddle = vec![0.0; DIM];
        saddle[0] = -lambda;
        let saddle = Spectrum::new(saddle, RECORDS);
        let (certified, cost) = self.certifies(&flat, lambda, trial.seed)?;
        let (missed, _) = self.certifies(&saddle, lambda, trial.seed)?;
        // What the printed one certifies is not looked at: its cost is.
        let right = self.by == By::Printed || certified && !missed;
        let unit = 4.0 / (RECORDS as f64).powi(2);
        let measured = Measured::new(if right { cost } else { WRONG });
        Ok(match self.by {
            By::Shifted => {
                let most = self.episode(lambda)?;
                let most = most.cost(Adjacency::ReplaceOne, RECORDS as f64);
                measured.with_bound(most / unit)
            }
            _ => measured,
        })
    }
}

struct Lazy {
    claim: Claim,
    printed: bool,
    plans: Plans<AdaptiveBatchPlan>,
}

impl Lazy {
    fn plan(alpha: f64) -> Result<AdaptiveBatchPlan, CheckError> {
        let size = Size {
            records: 1 << 52,
            dim: 100,
            // So little that sampling is of no account.
            privacy: Privacy::Mu(1e-6),
        };
        let facts = PublicFacts::unit(size.records, size.dim);
        let hessian = HessianFacts {
            lipschitz: 1.0,
            frobenius: 10.0,
        };
        let settings = AdaptiveBatchSettings::new(u64::MAX)
            .with_targets(SecondOrderTargets::coupled(alpha, 1.0))
            .with_curvature_by(CurvatureBy::Episodes);
        Ok(AdaptiveBatchPlan::new(
            &facts,
            &hessian,
            &size.budget(DELTA)?,
            settings,
        )?)
    }
}

impl Experiment for Lazy {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, _: Effort) -> Design {
        let points = (0..7).map(|k| 0.01 * 10f64.powf(0.25 * f64::from(k)));
        Design::new(points.collect())
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let plan = self.plans.at(trial.x, || Self::plan(trial.x))?;
        let schedule = plan.schedule();
        let episode = schedule.episode.ok_or("no episode was planned")?;
        let lambda = schedule.targets.curvature;
        // n mu/s of the printed ones is 11.2 (Gamma d)^(1/2) L1/lambda.
        let batch = match self.printed {
            true => {
                let steps = 10.0 / lambda.ln_1p();
                11.2 * (steps * episode.terms.dim as f64).sqrt() / lambda
            }
            false => schedule.hessian_batch as f64,
        };
        Ok(Measured::new(batch * schedule.most_candidates as f64))
    }
}
