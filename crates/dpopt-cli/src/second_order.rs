//! Solvers of second order: how `sosp` goes about it, and what a certificate says, of whom, and what it does not say.

use clap::{Args, ValueEnum};
use dpopt::nonconvex::{
    Budget, CurvatureBy, Estimates, ExtraFacts, Item, Outcome, Plan, PlanError, PublicFacts, SOSP,
    SospPlan, SospSettings, Steps, Value,
};
use dpopt::oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use serde::{Deserialize, Serialize};

use crate::args::SolverArg;
use crate::certificate::four;
use crate::choose::Chosen;
use crate::error::CliError;

/// How `sosp` goes about it.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SospArgs {
    /// How sosp estimates gradients: a fresh one at each step, recursively (an anchor and the changes since), or
    /// auto, whichever promises more; default auto
    #[arg(long, value_name = "HOW")]
    estimates: Option<EstimatesArg>,
    /// How long steps of sosp are: planned from L1 and rho, or measured by released changes of the loss, for which neither has to be
    /// right and no bound is stated before the run; default planned
    #[arg(long, value_name = "HOW")]
    steps: Option<StepsArg>,
    /// How sosp tells curvature: direct, by whole Hessians (up to 1,024 weights), by episodes of products with them, or auto, the
    /// cheaper one; default auto
    #[arg(long, value_name = "HOW")]
    curvature_by: Option<CurvatureByArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EstimatesArg {
    Auto,
    Fresh,
    Recursive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StepsArg {
    Planned,
    Measured,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CurvatureByArg {
    Auto,
    Direct,
    Episodes,
}

/// What was chosen in the end, by flags or by the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct How {
    /// recursive or fresh.
    pub(crate) estimates: String,
    /// planned or measured.
    pub(crate) steps: String,
    /// direct or episodes.
    pub(crate) curvature_by: String,
}

impl How {
    fn of(plan: &SospPlan) -> Self {
        let level = plan.level();
        let of = |yes: bool, one: &str, other: &str| (if yes { one } else { other }).to_owned();
        Self {
            estimates: of(level.spider.is_some(), "recursive", "fresh"),
            steps: of(level.change_multiplier.is_some(), "measured", "planned"),
            curvature_by: of(level.episode.is_some(), "episodes", "direct"),
        }
    }

    /// Names and values, for a table.
    pub(crate) fn rows(&self) -> [(String, String); 3] {
        [
            ("estimates", &self.estimates),
            ("steps", &self.steps),
            ("curvature by", &self.curvature_by),
        ]
        .map(|(name, value)| (format!("chosen: {name}"), value.clone()))
    }

    /// One sentence.
    pub(crate) fn words(&self) -> String {
        format!(
            "Estimates of the gradient are {}, lengths of steps {}, and curvature is told {}.",
            self.estimates,
            self.steps,
            match self.curvature_by.as_str() {
                "episodes" => "by episodes of Hessian products",
                _ => "by whole Hessians",
            }
        )
    }
}

impl SospArgs {
    /// The first flag that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--estimates", self.estimates.is_some()),
            ("--steps", self.steps.is_some()),
            ("--curvature-by", self.curvature_by.is_some()),
        ];
        flags
            .iter()
            .find(|(_, given)| *given)
            .map(|(flag, _)| *flag)
    }

    /// Refuses flags that the solver has no use for, and those that contradict each other.
    pub(crate) fn check(&self, solver: SolverArg) -> Result<(), CliError> {
        let named = matches!(solver, SolverArg::Named(solver) if *solver == SOSP);
        if let (Some(flag), false) = (self.given(), named) {
            return Err(CliError::flag(
                flag,
                format!("only {SOSP} has a use for it"),
            ));
        }
        let recursive = self.estimates == Some(EstimatesArg::Recursive);
        let episodes = self.curvature_by == Some(CurvatureByArg::Episodes);
        if self.steps == Some(StepsArg::Measured) {
            if recursive {
                let problem =
                    "measured steps take fresh estimates, and recursive ones are planned by L1";
                return Err(CliError::flag("--estimates", problem));
            }
            if episodes {
                let problem = "measured steps take whole Hessians, and episodes are planned by L1";
                return Err(CliError::flag("--curvature-by", problem));
            }
        }
        if recursive && episodes {
            let problem = "recursive estimates are planned with whole Hessians only";
            return Err(CliError::flag("--curvature-by", problem));
        }
        Ok(())
    }

    /// Refuses whole Hessians in too many dimensions.
    pub(crate) fn check_dim(&self, dim: usize) -> Result<(), CliError> {
        if dim <= MAX_PRIVATE_HESSIAN_DIM {
            return Ok(());
        }
        let flags = [
            (
                "--curvature-by",
                self.curvature_by == Some(CurvatureByArg::Direct),
            ),
            (
                "--estimates",
                self.estimates == Some(EstimatesArg::Recursive),
            ),
            ("--steps", self.steps == Some(StepsArg::Measured)),
        ];
        match flags.iter().find(|(_, direct)| *direct) {
            Some((flag, _)) => Err(CliError::flag(
                flag,
                format!(
                    "takes whole Hessians, of at most {MAX_PRIVATE_HESSIAN_DIM} weights, and here are {dim}"
                ),
            )),
            None => Ok(()),
        }
    }

    /// The plan of `sosp`, and what was chosen.
    pub(crate) fn plan(
        &self,
        facts: &PublicFacts,
        extra: &ExtraFacts,
        budget: &Budget,
        most_steps: u64,
    ) -> Result<(Box<dyn Plan>, How), PlanError> {
        let mut settings = SospSettings::new(most_steps)
            .with_failure(extra.failure())
            .with_estimates(match self.estimates {
                Some(EstimatesArg::Fresh) => Estimates::Fresh,
                Some(EstimatesArg::Recursive) => Estimates::Recursive,
                Some(EstimatesArg::Auto) | None => Estimates::default(),
            })
            .with_curvature_by(match self.curvature_by {
                Some(CurvatureByArg::Direct) => CurvatureBy::Hessians,
                Some(CurvatureByArg::Episodes) => CurvatureBy::Episodes,
                Some(CurvatureByArg::Auto) | None => CurvatureBy::default(),
            });
        settings.targets = extra.second_order;
        settings.steps = match self.steps {
            Some(StepsArg::Measured) => Steps::Measured,
            Some(StepsArg::Planned) | None => Steps::Planned,
        };
        let hessian = extra.hessian_for(SOSP.name)?;
        let plan = SospPlan::new(facts, &hessian, budget, settings)?;
        let how = How::of(&plan);
        Ok((Box::new(plan), how))
    }
}

/// How a solver of second order went about it, and what is certified of its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SecondOrder {
    /// Of `sosp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) how: Option<How>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) certificate: Option<Certificate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) no_certificate_because: Option<String>,
}

/// A certificate that a run ended in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Certificate {
    /// The gradient norm is at most that.
    gradient: f64,
    /// No eigenvalue of the Hessian is below that.
    least_eigenvalue: f64,
    /// All of it is true with at least this probability.
    probability: f64,
    /// Of whom: true for the population that the records are independent draws from, false for these records alone.
    of_population: bool,
    /// All of it in words, and what it does not say.
    words: String,
}

impl SecondOrder {
    /// Of a run; none for solvers that certify nothing of second order.
    pub(crate) fn of(chosen: &Chosen, outcome: &Outcome) -> Option<Self> {
        if !chosen.solver.needs_hessian() {
            return None;
        }
        let bound = chosen.bound_of(outcome).map_err(|why| why.to_string());
        let found = bound.and_then(|bound| {
            let curvature = bound.curvature.ok_or("no curvature was certified")?;
            let failure = failure(&chosen.plan.items()).ok_or("its plan names no probability")?;
            let of_population = bound.sense.of_population();
            Ok(Certificate {
                gradient: bound.value,
                least_eigenvalue: 0.0 - curvature,
                probability: 1.0 - failure,
                of_population,
                words: words((bound.value, curvature), failure, of_population),
            })
        });
        let (certificate, no_certificate_because) = match found {
            Ok(found) => (Some(found), None),
            Err(why) => (None, Some(why)),
        };
        Some(Self {
            how: chosen.how.clone(),
            certificate,
            no_certificate_because,
        })
    }

    /// What is certified in words, if anything is.
    pub(crate) fn words(&self) -> Option<&str> {
        self.certificate.as_ref().map(|found| &*found.words)
    }
}

/// p of a plan.
fn failure(items: &[Item<'_>]) -> Option<f64> {
    let item = items.iter().find(|item| item.name == "failure")?;
    match item.value {
        Value::Number(number) => number,
        _ => None,
    }
}

fn words((gradient, curvature): (f64, f64), failure: f64, of_population: bool) -> String {
    let eigenvalue = match curvature {
        below if below <= 0.0 => format!("at least {}", -below),
        above => format!("at least -{}", four(above)),
    };
    let of = if of_population {
        "the mean loss of the population, if the records are independent draws from it in an order that tells nothing"
    } else {
        "the mean loss of these records"
    };
    let others = if of_population {
        ""
    } else {
        ", nor of the population that the records come from"
    };
    format!(
        "With probability {} the gradient norm is at most {} at the result and the least eigenvalue of the Hessian {eigenvalue}: of {of}. \
         This does not say that the result is a minimum or near one, nor how large the loss is, and nothing of other points{others}.",
        1.0 - failure,
        four(gradient),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_of_whom_and_what_is_not_said() {
        let of_records = words((0.123_41, 0.2), 0.05, false);
        assert!(of_records.starts_with(
            "With probability 0.95 the gradient norm is at most 0.1235 at the result and the least eigenvalue of the Hessian at least -0.2000: \
             of the mean loss of these records."
        ), "{of_records}");
        assert!(of_records.contains("nor of the population"));
        let of_all = words((0.1, -0.25), 0.05, true);
        assert!(
            of_all.contains("at least 0.25: of the mean loss of the population"),
            "{of_all}"
        );
        assert!(!of_all.contains("these records"));
    }
}
