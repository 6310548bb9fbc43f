//! How `sosp` goes about it: flags, and what was chosen.

use clap::{Args, ValueEnum};
use dpopt::nonconvex::{
    Budget, CurvatureBy, Estimates, ExtraFacts, Plan, PlanError, PublicFacts, SOSP, SospPlan,
    SospSettings, Steps,
};
use dpopt::oracle::query::MAX_PRIVATE_HESSIAN_DIM;
use serde::{Deserialize, Serialize};

use crate::args::SolverArg;
use crate::error::CliError;

/// How `sosp` goes about it.
#[derive(Debug, Clone, Copy, Default, Args)]
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
