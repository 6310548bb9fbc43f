//! Claims about adaptive noisy gradient descent, and the twins that must be caught.
//!
//! Excess risk is measured on powers r^tau/tau, whose KL condition is tight everywhere, kappa = tau/(tau - 1): the mean over
//! starting radii from 1/4 to 1, because at kappa = 2 each step divides the risk, and from one radius the result goes down in
//! stairs as n grows. Records are tilted (L0 is twice the problem's), which leaves the mean as it is, so runs are made
//! in closed form in the plane ([`PlaneOracle`]); that is how dimensions can be far above n mu. Theorem 5 is measured on
//! the ramp-bowl: the norm of the gradient at the point of the smallest released norm, the worst over slopes.

use dpopt_nonconvex::{
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, KlCondition, NoObserver, NormQueries,
    Plan as _, PublicFacts,
};
use dpopt_oracle::{Answer, AskError, Number, Oracle, Question};

use super::claim::{Axis, Claim, Design, Expect, Experiment, Measured, Trial};
use super::common::{Privacy, Size, gradient_norm, half_decades, share};
use crate::around::Around;
use crate::checks::{CheckError, Effort};
use crate::problem::Problem;
use crate::simulation::{PlaneOracle, Within};
use crate::zoo::{Power, Radial, Ramp, RampBowl};
use dpopt_certify::random::Normals;

/// L0 of tilted records with X = 1 on problems whose gradients are at most 1 long.
const CLIP: f64 = 2.0;
/// The delta of the budgets: small, because mu goes down to 1e-3.
const DELTA: f64 = 1e-10;
/// Few dimensions.
const FEW: usize = 20;
/// So many dimensions that all else is small beside them.
const MANY: usize = 1_000_000_000_000;

/// Most steps of a broken twin.
const TWIN_STEPS: u64 = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Twin {
    Honest,
    /// The norm of a noisy gradient, in place of a noisy norm: noise in d dimensions for one number.
    VectorNorm,
    /// A gradient as exact as the first one asks for, at every step.
    FirstNoise,
}

struct AdaptiveExperiment {
    claim: Claim,
    norms: NormQueries,
    /// None on the ramp-bowl.
    tau: Option<f64>,
    many: bool,
    twin: Twin,
}

/// The experiments of this file.
pub(super) fn experiments() -> Vec<Box<dyn Experiment>> {
    use NormQueries::{Fixed, Relative};
    let mut all: Vec<Box<dyn Experiment>> = Vec::new();
    let mut add = |claim, norms, tau, many, twin| {
        all.push(Box::new(AdaptiveExperiment {
            claim,
            norms,
            tau,
            many,
            twin,
        }));
    };
    for (tau, name) in [(2.0, "2"), (3.0, "3"), (4.0, "4")] {
        let kappa = tau / (tau - 1.0);
        let fast = 2.0 * kappa / (4.0 - kappa);
        // At kappa = 2 a run with fixed norms makes half a dozen steps, and chance decides too much of it.
        let few = |rate: f64| if tau == 2.0 { f64::NAN } else { rate };
        for (norms, many, rates) in [
            (Relative, false, [-fast, f64::NAN, -fast]),
            (Relative, true, [-fast, 0.5 * fast, -fast]),
            (
                Fixed,
                false,
                [few(-0.5 * kappa), f64::NAN, few(-0.5 * kappa)],
            ),
            (Fixed, true, [-fast, 0.5 * fast, -fast]),
        ] {
            for (axis, rate) in [Axis::Records, Axis::Dimension, Axis::Mu]
                .into_iter()
                .zip(rates)
            {
                if rate.is_nan() {
                    continue;
                }
                let norms_name = match norms {
                    Fixed => "fixed",
                    _ => "relative",
                };
                let dims = if many { "-wide" } else { "" };
                let id = format!("adaptive-gd/{norms_name}{dims}-pow{name}-{}", axis.symbol());
                add(risk(&id, axis, rate), norms, Some(tau), many, Twin::Honest);
            }
        }
    }
    let control = risk("adaptive-gd/fixed-as-relative", Axis::Records, -1.2)
        .control("Norms with the same noise each time under the claim of relative ones: can a fit tell the two?");
    add(control, Fixed, Some(3.0), false, Twin::Honest);
    let control = risk("adaptive-gd/vector-norm", Axis::Records, -1.2).control(
        "The norm of a gradient with noise in d dimensions, for a norm with noise in one.",
    );
    add(control, Relative, Some(3.0), true, Twin::VectorNorm);
    let control = risk("adaptive-gd/first-noise", Axis::Records, -1.2)
        .control("Every gradient has the noise of the first: it does not follow the norm.");
    add(control, Relative, Some(3.0), false, Twin::FirstNoise);
    let control = stationary("adaptive-gd/ramp-as-spiderboost", Axis::Records, -2.0 / 3.0).control(
        "Adaptive gradient descent under the claim of SpiderBoost: can a fit tell the two?",
    );
    add(control, Relative, None, true, Twin::Honest);
    all
}

/// A claim about the excess risk on powers.
fn risk(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("adaptive-gd", "arXiv 2311.13447, Theorem 4, repaired")
        .on("power")
        .measuring("excess risk of the last point")
        .on_average()
        .within(
            0.08,
            0.16,
            "stairs in n at kappa = 2, and noise decides when a run with fixed norms ends",
        )
}

/// A claim about the gradient norm, without a KL condition.
fn stationary(id: &str, axis: Axis, predicted: f64) -> Claim {
    Claim::new(id, axis, predicted)
        .by("adaptive-gd", "arXiv 2311.13447, Theorem 5, repaired")
        .on("ramp-bowl")
        .expecting(Expect::Equal)
        .within(0.08, 0.16, "the scale of norms is halved in steps")
}

impl AdaptiveExperiment {
    fn size(&self, x: f64) -> Size {
        let (records, dim) = match (self.tau, self.many) {
            (None, _) => (1e7, 1_000_000),
            // d far below (n mu)^(kappa/2), and yet so many that sqrt(d) is most of q.
            (_, false) if self.claim.axis == Axis::Dimension => (1e10, FEW),
            (_, false) => (1e8, FEW),
            // As many records as keep the smallest mu from being vacuous.
            (_, true) if self.claim.axis == Axis::Mu => (1e12, MANY),
            (_, true) => (1e10, MANY),
        };
        let size = Size {
            records: records as u64,
            dim,
            privacy: Privacy::Mu(2f64.sqrt()),
        };
        size.along(self.claim.axis, x)
    }

    fn points(&self) -> Vec<f64> {
        let decades = |from: f64| -> Vec<f64> {
            (0..7)
                .map(|k| from * 10f64.powf(0.5 * f64::from(k)))
                .collect()
        };
        match (self.claim.axis, self.tau, self.many) {
            (Axis::Records, None, _) => half_decades(3e5, 7),
            (Axis::Records, _, false) => half_decades(1e4, 7),
            (Axis::Records, _, true) => half_decades(1e9, 7),
            (Axis::Dimension, None, _) => half_decades(1e5, 7),
            (Axis::Dimension, _, false) => half_decades(300.0, 5),
            (Axis::Dimension, _, true) => half_decades(1e11, 7),
            (_, None, _) => decades(1e-2),
            _ => decades(1e-3),
        }
    }

    fn plan(
        &self,
        problem: &dyn Problem,
        size: &Size,
        selection: AdaptiveSelection,
        clip: f64,
    ) -> Result<AdaptiveGdPlan, CheckError> {
        let facts = PublicFacts {
            lipschitz: clip,
            ..size.facts(problem)
        };
        let mut settings = AdaptiveSettings::new()
            .with_norms(self.norms)
            .with_selection(selection);
        if self.twin != Twin::Honest {
            // What it asks for is cheap, and it does not get anywhere: without a limit it would go on and on.
            settings = settings.with_max_steps(TWIN_STEPS);
        }
        Ok(AdaptiveGdPlan::new(&facts, &size.budget(DELTA)?, settings)?)
    }

    fn on_power(&self, trial: &Trial, tau: f64) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let start = 0.25f64.powf((trial.member as f64 + 0.5) / trial.members as f64);
        let whole = Radial::new(Power::new(tau)?, 2, 1.0, 1.0)?;
        let plan = self.plan(&whole, &size, AdaptiveSelection::Last, CLIP)?;
        let kl = KlCondition::new(tau.powf(1.0 / tau - 1.0), tau / (tau - 1.0))?;
        // Vacuous at the smallest sizes, where it says nothing.
        let bound = plan.risk_bound(&kl).ok();
        let problem = Radial::new(Power::new(tau)?, 2, start, 1.0)?;
        let records = plan.facts().records;
        let plane = PlaneOracle::new(problem, size.dim as f64, records, trial.seed)?;
        let root_dim = (size.dim as f64).sqrt();
        let mut twin = Around::new(plane, twisted(self.twin, trial.seed ^ 1, root_dim));
        let outcome = Within::new(&plan, 2).run(&mut twin, &mut NoObserver)?;
        let excess = twin.inner().problem().value(&outcome.point);
        // A number that no root of can be told from 0 is no error of a run.
        let measured = Measured::new(excess.max(f64::MIN_POSITIVE));
        Ok(match bound {
            Some(bound) if self.twin == Twin::Honest => measured.with_bound(bound),
            _ => measured,
        })
    }

    fn on_ramp(&self, trial: &Trial) -> Result<Measured, CheckError> {
        let size = self.size(trial.x);
        let least = 0.05 * size.relative_noise().sqrt();
        let slope = 0.25 * (least / 0.25).powf(share(trial));
        let problem = RampBowl::new(3, 1.0, 1.0, 0.5, Ramp::Straight, slope)?;
        // L0 from 1.4 to 2.8, by the seed: the scale of norms is L0 over a power of two, which would make stairs in n.
        let clip = 1.4 * 2f64.powf(Normals::new(trial.seed ^ 2).uniform());
        let plan = self.plan(&problem, &size, AdaptiveSelection::SmallestNorm, clip)?;
        let records = plan.facts().records;
        let mut plane = PlaneOracle::new(problem, size.dim as f64, records, trial.seed)?;
        let outcome = Within::new(&plan, 3).run(&mut plane, &mut NoObserver)?;
        let measured = Measured::new(gradient_norm(&problem, &outcome.point));
        Ok(match plan.predicted_bound() {
            Some(bound) => measured.with_bound(bound),
            None => measured,
        })
    }
}

impl Experiment for AdaptiveExperiment {
    fn claim(&self) -> &Claim {
        &self.claim
    }

    fn design(&self, effort: Effort) -> Design {
        let (members, seeds) = match (self.tau, self.norms) {
            (None, _) => (10, 8),
            // Chance decides when the noise of a norm ends the run.
            (_, NormQueries::Fixed) if !self.many => (16, 64),
            (Some(2.0), _) => (16, 12),
            _ => (6, 1),
        };
        Design::new(self.points())
            .with_members(members)
            .with_seeds(effort.pick(seeds, 4 * seeds))
    }

    fn trial(&self, trial: &Trial) -> Result<Measured, CheckError> {
        match self.tau {
            Some(tau) => self.on_power(trial, tau),
            None => self.on_ramp(trial),
        }
    }

    /// z^kappa, where psi = z sigma decides: the logarithm of Theorem 4's second term. It is that of the most that noise does over
    /// many steps; at kappa = 2 a run makes half a dozen of them, whatever n is, and there is none.
    fn correction(&self, x: f64) -> f64 {
        let (Some(tau), NormQueries::Fixed, false) = (self.tau, self.norms, self.many) else {
            return 1.0;
        };
        if tau == 2.0 {
            return 1.0;
        }
        let size = self.size(x);
        let norms = size.records as f64 * size.mu() / 2f64.sqrt();
        (2.0 * (2.0 * norms / 0.05).ln()).powf(0.5 * tau / (tau - 1.0))
    }
}

/// What a broken twin of the solver would make of an oracle for the root of so many dimensions.
fn twisted<O: Oracle>(
    twin: Twin,
    seed: u64,
    root_dim: f64,
) -> impl FnMut(&mut O, Question<'_>) -> Result<Answer, AskError> {
    let mut random = Normals::new(seed);
    let mut first = None;
    move |inner, question| {
        let question = match question {
            Question::Mean { of, over, noise } if twin == Twin::FirstNoise => {
                let noise = *first.get_or_insert(noise);
                Question::Mean { of, over, noise }
            }
            other => other,
        };
        match inner.answer(question)? {
            Answer::Number(released) if twin == Twin::VectorNorm => {
                // The length of noise in many dimensions is sqrt(d) to a percent.
                let noise = released.noise_std * (root_dim + random.uniform());
                let number = released.number.hypot(noise);
                Ok(Answer::Number(Number::new(number, released.noise_std)))
            }
            other => Ok(other),
        }
    }
}
