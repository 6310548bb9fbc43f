//! The losses of objectives, and what solvers with a bound are told of them.

use dpopt::minimax::{
    Allowance, PlanError, SOLVERS, SaddleFacts, SaddleLimits, ScoredCertificatePlan,
};
use dpopt::oracle::{
    AucSaddle, BlockClips, CellShares, EqualOpportunity, GroupDro, ScoreSaddle, Scored, SharesError,
};

use super::{Built, Objective, Sizes, Wanted};
use crate::error::CliError;

/// Clips that shorten nothing.
const NONE: BlockClips = BlockClips {
    x: f64::INFINITY,
    y: f64::INFINITY,
};

impl Built {
    pub(super) fn facts(&self, sizes: Sizes) -> SaddleFacts {
        match self {
            Self::GroupDro(of) => facts(sizes, of),
            Self::EqualOpportunity(of) => facts(sizes, of),
            Self::Auc(of) => facts(sizes, of),
        }
    }

    /// Refuses a certificate that could say nothing.
    pub(super) fn check(&self, of: &ScoredCertificatePlan, sizes: Sizes) -> Result<(), CliError> {
        let sizes = (sizes.records, sizes.columns, sizes.row_norm);
        let checked = match self {
            Self::GroupDro(loss) => of.check(loss.objective(), sizes),
            Self::EqualOpportunity(loss) => of.check(loss.objective(), sizes),
            Self::Auc(loss) => of.check(loss.objective(), sizes),
        };
        checked.map_err(CliError::Plan)
    }
}

impl Wanted {
    /// The loss with these shares and the clips of the objective, or (`whole`) with none.
    pub(super) fn built(
        &self,
        (shares, by_class): (&CellShares, bool),
        row_norm: f64,
        whole: bool,
    ) -> Result<Built, CliError> {
        let built: Result<Built, SharesError> = match self.objective {
            Objective::GroupDro => GroupDro::new(shares, by_class, self.weight)
                .map(|of| Built::GroupDro(clipped(of, row_norm, whole))),
            Objective::EqualOpportunity => EqualOpportunity::new(shares, self.weight)
                .map(|of| Built::EqualOpportunity(clipped(of, row_norm, whole))),
            Objective::LogLoss | Objective::Auc => {
                AucSaddle::new(shares).map(|of| Built::Auc(clipped(of, row_norm, whole)))
            }
        };
        built.map_err(|error| self.no_shares(error))
    }

    /// Refuses a solver with a bound. Where even for whole fields, and records that have exactly these shares, its bound says nothing, that is
    /// the reason and it has the numbers; else that fields are shortened, or that constants are not proven for the shares of the records.
    pub(super) fn bounded(
        &self,
        built: &Built,
        (shares, by_class): (&CellShares, bool),
        sizes: Sizes,
        (allowance, limits): (&Allowance, &SaddleLimits),
    ) -> Result<(), CliError> {
        if self.solver.bound.is_none() {
            return Ok(());
        }
        let whole = self.built((shares, by_class), sizes.row_norm, true)?;
        let whole = SaddleFacts {
            whole: true,
            ..whole.facts(sizes)
        };
        let planned = self.solver.plan_within(&whole, allowance, limits);
        if let Err(error @ PlanError::VacuousSaddle { .. }) = planned {
            return Err(CliError::Plan(error));
        }
        let facts = built.facts(sizes);
        let why = PlanError::Shortened {
            clip_x: facts.record.lipschitz_x,
            clip_y: facts.record.lipschitz_y,
        };
        let runs: Vec<&str> = SOLVERS
            .iter()
            .filter(|solver| solver.bound.is_none())
            .map(|solver| solver.name)
            .collect();
        let problem = format!(
            "{}: {why} (n = {}, d = {}, rarest share {:.4}); {} would run, and state no bound",
            self.solver,
            sizes.records,
            facts.x_dim + facts.y_dim(),
            facts.rarest.unwrap_or(1.0),
            runs.join(", ")
        );
        Err(CliError::flag("--solver", problem))
    }
}

fn clipped<S: ScoreSaddle>(of: S, row_norm: f64, whole: bool) -> Scored<S> {
    if whole {
        Scored::new(of, NONE)
    } else {
        Scored::with_own_clips(of, row_norm)
    }
}

fn facts<S: ScoreSaddle>(sizes: Sizes, of: &Scored<S>) -> SaddleFacts {
    SaddleFacts::scored(
        sizes.records,
        sizes.adjacency,
        sizes.columns,
        sizes.row_norm,
        of,
    )
}
