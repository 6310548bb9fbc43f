//! From public facts to a plan: a named solver's, or the one that the `auto` rule picks, with a projection where one is
//! asked for.

mod batches;
mod passes;
mod project;

use clap::Args;
use dpopt::nonconvex::{
    Auto, AutoReason, BoundedValues, Budget, ExtraFacts, HessianFacts, JlBranch, JlFacts, JlPlan,
    Limits, NOISY_GD, Plan, PlanError, PublicFacts, PublicRank, SAMPLED_SPIDERBOOST, SOLVERS, SOSP,
    SecondOrderTargets, Solver, WalkConstants, auto, auto_in_passes,
};

use batches::BatchArgs;

use crate::args::{self, AnySolver, SolverArg, offered};
use crate::chosen::Chosen;
use crate::error::CliError;
use crate::fit::Fit;
use crate::sosp_args::SospArgs;

use project::Project;

/// Flags that decide how a solver is planned.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ChooseArgs {
    /// Public bound on the distance from the starting point to a minimiser of the population risk;
    /// recursive-gd and recursive-sgd need it. A claim, never measured on the records: if it is
    /// wrong the stated bound may be, and the guarantee is not
    #[arg(long, value_name = "R", value_parser = args::positive, allow_hyphen_values = true)]
    radius: Option<f64>,
    /// Goldstein radius: how far from the result the gradients may lie whose mean is to be short; the
    /// goldstein solvers need it, and the bound falls with its cube root. For goldstein-envelope
    /// it is also over how much each record's loss is averaged along its row, each record's gradients are taken at points of its own
    /// within it, and the weights have to be those of a linear score. With it auto considers goldstein and
    /// goldstein-sampled for a loss with kinks. A choice, in the unit of the weights
    #[arg(long, value_name = "R", value_parser = args::positive, allow_hyphen_values = true)]
    goldstein_radius: Option<f64>,
    /// Along how many directions a step from values alone asks for slopes, 1 to the number of weights, for
    /// goldstein-zo, goldstein-zo-sampled and goldstein-zo-pass (default: planned)
    #[arg(long, value_name = "M", value_parser = args::count, allow_hyphen_values = true)]
    directions: Option<u64>,
    #[command(flatten)]
    batches: BatchArgs,
    /// Length of an interval that holds every record's loss at all points, for the goldstein solvers from
    /// values alone: then no Lipschitz constant is needed, and the bound is on the loss smoothed by
    /// --smoothing. A claim like --radius
    #[arg(long, value_name = "C0", requires = "smoothing", value_parser = args::positive, allow_hyphen_values = true)]
    value_range: Option<f64>,
    /// Radius of the ball over which a loss with a --value-range is smoothed. A choice, in the unit of the weights
    #[arg(long, value_name = "A", requires = "value_range", value_parser = args::positive, allow_hyphen_values = true)]
    smoothing: Option<f64>,
    /// rho: Lipschitz constant of each record's Hessian, for sosp and adaptive-batch; default: that of the loss. A
    /// claim like --radius
    #[arg(long, value_name = "RHO", value_parser = args::positive, allow_hyphen_values = true)]
    hessian_lipschitz: Option<f64>,
    /// C_F: bound on the Frobenius norm of a record's Hessian, to which it is clipped, for sosp and
    /// adaptive-batch; default: that of the loss
    #[arg(long, value_name = "C", value_parser = args::positive, allow_hyphen_values = true)]
    hessian_frobenius: Option<f64>,
    /// For sosp and adaptive-batch: end at the first certificate that the gradient norm is at most A and
    /// (--curvature) the least eigenvalue of the Hessian at least -L. Default: as small as the budget, or the
    /// records, suffice for
    #[arg(long, value_name = "A", requires = "curvature", value_parser = args::positive, allow_hyphen_values = true)]
    gradient: Option<f64>,
    /// See --gradient
    #[arg(long, value_name = "L", requires = "gradient", value_parser = args::positive, allow_hyphen_values = true)]
    curvature: Option<f64>,
    /// Probability with which the bound of sosp or adaptive-batch may be false; default 0.05
    #[arg(long, value_name = "P", value_parser = args::probability, allow_hyphen_values = true)]
    failure: Option<f64>,
    /// How adaptive-batch is planned: typical (a rule of thumb: runs end in a certificate as a rule; default) or
    /// rigorous (they do with the stated probability, from some ten times the records). A certificate is a theorem's with either
    #[arg(long, value_name = "HOW", value_parser = args::walk_constants, allow_hyphen_values = true)]
    walk_constants: Option<WalkConstants>,
    #[command(flatten)]
    sosp: SospArgs,
    /// Public bound on the rank of the rows, for spiderboost, noisy-gd-theory and projections; with
    /// --hidden K gradients span K times as many dimensions. A claim like --radius. Of a quadratic loss it is
    /// something else: the number of columns of its factor
    #[arg(long, value_name = "R", value_parser = args::count, allow_hyphen_values = true)]
    rank: Option<u64>,
    /// Run the solver on rows under a random projection and lift its result: auto (the branch with
    /// the least proven bound, none included), rank (needs --rank), rank-free, or a number of
    /// dimensions, for which no bound is stated
    #[arg(long, value_name = "HOW", allow_hyphen_values = true)]
    project: Option<Project>,
    /// Seed of the projection: public, and chosen without looking at the records
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires = "project",
        allow_hyphen_values = true
    )]
    project_seed: u64,
    /// Most steps (of one stage, where there are stages); default 2000, for solvers with a proven
    /// bound 100000. auto weighs time too, but for a number that is given here
    #[arg(long, value_name = "T", value_parser = args::count, allow_hyphen_values = true)]
    max_steps: Option<u64>,
    /// Most passes over the data: the plan has as few steps as that asks for, and the bound that it then has
    #[arg(long, value_name = "P", value_parser = args::positive, allow_hyphen_values = true)]
    max_passes: Option<f64>,
}

/// Whether it reads unread records for a certificate of second order.
fn in_slices(solver: &Solver) -> bool {
    solver.needs.hessian && solver.needs.positions
}

/// A solver, its plan, and why a rule picked it, if one did.
type Picked = (&'static Solver, Box<dyn Plan>, Option<AutoReason>);

impl ChooseArgs {
    /// With a cap on the passes, and nothing else.
    pub(crate) fn within(max_passes: Option<f64>) -> Self {
        Self {
            max_passes,
            ..Self::default()
        }
    }

    /// The flags that a solver with certificates of second order shares with the others of its kind, and its own.
    pub(crate) fn of_use_to(&self, solver: &Solver) -> Self {
        let mut own = self.clone();
        own.walk_constants = own.walk_constants.filter(|_| in_slices(solver));
        if *solver != SOSP {
            own.sosp = SospArgs::default();
        }
        own
    }

    /// Whether rows are to be projected.
    pub(crate) fn projects(&self) -> bool {
        self.project.is_some()
    }

    /// --rank, as the number of columns of a factor.
    pub(crate) fn columns(&self) -> Option<u64> {
        self.rank
    }

    fn rank(&self) -> Result<Option<PublicRank>, CliError> {
        let rank = |rank| {
            let rank = usize::try_from(rank)
                .map_err(|_| CliError::flag("--rank", "too large for this machine"))?;
            PublicRank::new(rank).map_err(CliError::from)
        };
        self.rank.map(rank).transpose()
    }

    /// Most steps, if they were given. Refuses the flags that no solver of saddle problems has a use for.
    pub(crate) fn of_saddle(&self) -> Result<Option<u64>, CliError> {
        let own = [
            ("--radius", self.radius.is_some()),
            ("--goldstein-radius", self.goldstein_radius.is_some()),
            ("--directions", self.directions.is_some()),
            ("--value-range", self.value_range.is_some()),
            ("--hessian-lipschitz", self.hessian_lipschitz.is_some()),
            ("--hessian-frobenius", self.hessian_frobenius.is_some()),
            ("--gradient", self.gradient.is_some()),
            ("--failure", self.failure.is_some()),
            ("--walk-constants", self.walk_constants.is_some()),
            ("--rank", self.rank.is_some()),
            ("--project", self.project.is_some()),
        ];
        let own = own.iter().find(|(_, given)| *given).map(|(flag, _)| *flag);
        if let Some(flag) = own.or(self.batches.given()).or(self.sosp.given()) {
            let problem = "solvers of saddle problems have no use for it";
            return Err(CliError::flag(flag, problem));
        }
        if self.max_passes.is_some() {
            let problem = "of solvers of saddle problems --max-steps is the cap: of gda and spider-gda a step is a pass or two";
            return Err(CliError::flag("--max-passes", problem));
        }
        Ok(self.max_steps)
    }

    /// Refuses flags that the solver has no use for: who gives them expects something of them.
    pub(crate) fn check(&self, solver: SolverArg, of_factor: bool) -> Result<(), CliError> {
        self.sosp.check(solver)?;
        let useless = |flag, problem: String| Err(CliError::flag(flag, problem));
        if let (Some(radius), SolverArg::Named(solver)) = (self.radius, solver)
            && !solver.needs.radius
        {
            return useless(
                "--radius",
                format!("{solver} has no use for it (got {radius})"),
            );
        }
        if let (Some(_), SolverArg::Auto) = (self.radius, solver) {
            let problem = format!(
                "auto picks no solver that uses it; name {}",
                listed(|solver| solver.needs.radius)
            );
            return useless("--radius", problem);
        }
        if let (Some(radius), false) = (self.goldstein_radius, uses_goldstein(solver)) {
            let problem = format!(
                "only {}, and auto for losses with kinks, have a use for it (got {radius})",
                listed(|solver| solver.needs.goldstein)
            );
            return useless("--goldstein-radius", problem);
        }
        let values = matches!(solver, SolverArg::Named(solver) if solver.needs.values);
        if let (Some(directions), false) = (self.directions, values) {
            let problem = format!(
                "only {} have a use for it (got {directions})",
                listed(|solver| solver.needs.values)
            );
            return useless("--directions", problem);
        }
        self.batches.check(solver)?;
        let curved = matches!(solver, SolverArg::Named(solver) if solver.needs.hessian);
        let of_second_order = [
            ("--hessian-lipschitz", self.hessian_lipschitz),
            ("--hessian-frobenius", self.hessian_frobenius),
            ("--gradient", self.gradient),
            ("--curvature", self.curvature),
            ("--failure", self.failure),
        ];
        if let Some((flag, Some(value))) = of_second_order
            .iter()
            .find(|(_, value)| value.is_some() && !curved)
        {
            let problem = format!(
                "only {} has a use for it (got {value})",
                listed(|solver| solver.needs.hessian)
            );
            return useless(flag, problem);
        }
        if let Some(constants) = self.walk_constants
            && !matches!(solver, SolverArg::Named(solver) if in_slices(solver))
        {
            let problem = format!(
                "only {} has a use for it (got {constants})",
                listed(in_slices)
            );
            return useless("--walk-constants", problem);
        }
        let smooths = |solver: &Solver| solver.needs.values && solver.needs.goldstein;
        if let Some(range) = self.value_range
            && !matches!(solver, SolverArg::Named(solver) if smooths(solver))
        {
            let problem = format!("only {} have a use for it (got {range})", listed(smooths));
            return useless("--value-range", problem);
        }
        if let (Some(rank), SolverArg::Named(solver), None) = (self.rank, solver, self.project)
            && !(solver.uses_rank || of_factor)
        {
            let problem = format!(
                "{solver} has no use for it (got {rank}); {} and --project have",
                listed(|solver| solver.uses_rank)
            );
            return useless("--rank", problem);
        }
        let Some(project) = self.project else {
            return Ok(());
        };
        if let (SolverArg::Auto, Some(_)) = (solver, self.goldstein_radius) {
            let problem = "the solvers that have a use for --goldstein-radius have no proof under a projection";
            return useless("--project", problem.to_owned());
        }
        match solver {
            SolverArg::Named(solver) if solver.needs.radius => {
                let problem = format!(
                    "{solver} needs a bound on the distance to a minimiser, and projected rows have other minimisers"
                );
                useless("--project", problem)
            }
            SolverArg::Named(solver) if solver.needs.goldstein || solver.needs.hessian => {
                let problem = format!("{solver} has no proof under a projection");
                useless("--project", problem)
            }
            SolverArg::Named(solver)
                if solver.bound.is_some_and(|(_, sense)| sense.of_population())
                    && !matches!(project, Project::To(_)) =>
            {
                let problem = format!(
                    "the bound of {solver} is for a population, and no branch of the projection has a proof for it; give a \
                     number of dimensions"
                );
                useless("--project", problem)
            }
            _ => Ok(()),
        }
    }

    /// Whether the loss is claimed to have values in an interval.
    pub(crate) fn bounds_values(&self) -> bool {
        self.value_range.is_some()
    }

    /// Plans, in as many passes as that takes.
    fn planned(
        &self,
        solver: SolverArg,
        fit: &Fit,
        facts: &PublicFacts,
        budget: &Budget,
    ) -> Result<Chosen, CliError> {
        self.check(solver, fit.link.is_some())?;
        if let Some(perceptron) = &fit.perceptron {
            let named = match solver {
                SolverArg::Named(solver) => Some(solver),
                SolverArg::Auto | SolverArg::Saddle(_) => None,
            };
            let claims = [
                ("--goldstein-radius", self.goldstein_radius.is_some()),
                ("--rank", self.rank.is_some()),
            ];
            let able = listed(|solver| solver.needs.no_constants);
            perceptron.check_solver((named, &able), fit.head, &claims)?;
        }
        self.sosp.check_dim(facts.dim)?;
        if let SolverArg::Named(solver) = solver
            && solver.needs.hessian
            && !facts.smoothness.is_finite()
        {
            let problem = format!(
                "{solver} needs second derivatives, and {} has none everywhere (L1 is {})",
                fit.name(),
                facts.smoothness
            );
            return Err(CliError::flag("--loss", problem));
        }
        fit.check_projected(self.projects())?;
        if let (Some(radius), SolverArg::Auto, true) =
            (self.goldstein_radius, solver, facts.smoothness.is_finite())
        {
            let problem = format!(
                "auto has a use for it for losses with kinks only, and this one has none (got {radius}); name one of {}",
                listed(|solver| solver.needs.goldstein)
            );
            return Err(CliError::flag("--goldstein-radius", problem));
        }
        let of_rows = self.rank.filter(|_| fit.link.is_none());
        let rank = of_rows.and(self.rank()?);
        let rank = rank.map(|rank| rank.of_units(fit.width()));
        let mut claims = Vec::new();
        claims.extend(self.radius.map(|radius| ("radius", radius)));
        claims.extend(self.goldstein_radius.map(|r| ("goldstein_radius", r)));
        claims.extend(self.value_range.map(|range| ("value_range", range)));
        claims.extend(of_rows.map(|rank| ("rank", rank as f64)));
        let mut extra = ExtraFacts::default();
        (extra.radius, extra.rank) = (self.radius, rank);
        extra.goldstein_radius = self.goldstein_radius;
        extra.directions = self.directions;
        extra.batches = self.batches.choice();
        extra.bounded_values = self
            .value_range
            .zip(self.smoothing)
            .map(|(range, smoothing)| BoundedValues { range, smoothing });
        extra.hessian = self.hessian_facts(fit, facts);
        extra.failure = self.failure;
        extra.typical = fit.typical(facts.dim, facts.row_norm);
        extra.walk_constants = self.walk_constants;
        let targets = self.gradient.zip(self.curvature);
        extra.second_order = targets.map(|(gradient, curvature)| SecondOrderTargets {
            gradient,
            curvature,
        });
        let mut how = None;
        let (solver, plan, picked) = match self.project {
            Some(project) => {
                let jl = JlFacts {
                    facts: *facts,
                    rank,
                    seed: self.project_seed,
                };
                let by_rule = solver == SolverArg::Auto;
                let (solver, plan) = self.projected(solver, project, &jl, budget)?;
                let why = match plan.predicted_bound() {
                    Some(_) => AutoReason::LeastBound,
                    None => AutoReason::NoBoundHolds,
                };
                let picked = by_rule.then_some(why);
                (solver, Box::new(plan) as Box<dyn Plan>, picked)
            }
            None => match solver {
                SolverArg::Named(sosp) if *sosp == SOSP => {
                    let (plan, chosen) = self.sosp.plan(facts, &extra, budget, self.cap(sosp))?;
                    how = Some(chosen);
                    (sosp, plan, None)
                }
                solver => self.plain(solver, facts, &extra, budget)?,
            },
        };
        fit.check_plan(&*plan)?;
        Ok(Chosen {
            solver: AnySolver::Minimiser(solver),
            plan,
            picked,
            claims,
            how,
            resumed: false,
            by_rule: false,
            odd: extra
                .hessian
                .filter(|_| solver.needs.hessian)
                .and_then(|hessian| hessian.warning(facts)),
            reach: None,
            no_sample: None,
        })
    }

    /// What is told of the Hessians, or follows from the loss where the constants are its own.
    fn hessian_facts(&self, fit: &Fit, facts: &PublicFacts) -> Option<HessianFacts> {
        let of_loss = fit.constants(facts.row_norm, Some(1.0));
        let own = (of_loss.lipschitz, of_loss.smoothness) == (facts.lipschitz, facts.smoothness);
        let known = own.then(|| HessianFacts::of(&of_loss));
        Some(HessianFacts {
            lipschitz: self.hessian_lipschitz.or(known.map(|of| of.lipschitz))?,
            frobenius: self.hessian_frobenius.or(known.map(|of| of.frobenius))?,
        })
    }

    fn plain(
        &self,
        solver: SolverArg,
        facts: &PublicFacts,
        extra: &ExtraFacts,
        budget: &Budget,
    ) -> Result<Picked, PlanError> {
        let solver = match solver {
            SolverArg::Named(solver) => solver,
            // Refused before, where there is no saddle problem.
            SolverArg::Saddle(_) | SolverArg::Auto => {
                let choice = match (self.max_steps, self.max_passes) {
                    (None, Some(passes)) => auto_in_passes(facts, extra, budget, passes)?,
                    (steps, _) => auto(facts, extra, budget, steps.map(Limits::steps).as_ref())?,
                };
                return Ok((choice.solver, choice.plan, Some(choice.reason)));
            }
        };
        let limits = Limits::steps(self.cap(solver));
        let plan = solver.plan(facts, extra, budget, &limits)?;
        Ok((solver, plan, None))
    }

    /// The base solver and the plan; with auto that of the solvers compared by `auto` whose projected bound is the
    /// smallest.
    fn projected(
        &self,
        solver: SolverArg,
        project: Project,
        jl: &JlFacts,
        budget: &Budget,
    ) -> Result<(&'static Solver, JlPlan), CliError> {
        let dim = jl.facts.dim;
        if let Project::To(rows) = project
            && rows >= dim
        {
            let problem = format!("{rows} dimensions are no fewer than the {dim} features");
            return Err(CliError::flag("--project", problem));
        }
        let plan = |solver: &Solver| -> Result<JlPlan, PlanError> {
            let cap = self.cap(solver);
            match project {
                Project::Auto => JlPlan::new(jl, budget, solver, cap),
                Project::Rank => JlPlan::within(JlBranch::Rank, jl, budget, solver, cap),
                Project::RankFree => JlPlan::within(JlBranch::RankFree, jl, budget, solver, cap),
                Project::To(rows) => JlPlan::given(rows, jl, budget, solver, cap),
            }
        };
        if let SolverArg::Named(solver) = solver {
            return Ok((solver, plan(solver)?));
        }
        // A sample is planned for anew in every number of dimensions, for a minute and more, and its bound is no smaller.
        let compared = SOLVERS
            .iter()
            .filter(|solver| solver.auto == Auto::ByBound && **solver != &SAMPLED_SPIDERBOOST);
        let mut best: Result<(&'static Solver, JlPlan), PlanError> = Err(PlanError::NoBaseBound);
        for solver in compared {
            let found = plan(solver).map(|plan| (*solver, plan));
            best = match (best, found) {
                (Ok(old), Ok(new)) if new.1.predicted_bound() > old.1.predicted_bound() => Ok(old),
                (_, Ok(new)) => Ok(new),
                (Ok(old), Err(PlanError::Vacuous { .. })) => Ok(old),
                (_, Err(error)) => Err(error),
            };
        }
        let (solver, best) = best?;
        // In a number of dimensions of one's own nothing is proven, and there is nothing to compare.
        if best.predicted_bound().is_none() {
            return Ok((&NOISY_GD, plan(&NOISY_GD)?));
        }
        Ok((solver, best))
    }

    fn cap(&self, solver: &Solver) -> u64 {
        let usual = || solver.usual_limits().max_steps;
        self.max_steps.unwrap_or_else(usual)
    }
}

/// Whether a Goldstein radius is of use: to `auto` for losses with kinks.
fn uses_goldstein(solver: SolverArg) -> bool {
    match solver {
        SolverArg::Auto => true,
        SolverArg::Named(solver) => solver.needs.goldstein,
        SolverArg::Saddle(_) => false,
    }
}

/// Whether it can be planned for any loss with kinks of which two constants are known.
pub(crate) fn plans_kinks(solver: SolverArg) -> bool {
    match solver {
        SolverArg::Auto => true,
        SolverArg::Named(solver) => solver.needs.goldstein || !solver.states_a_bound(),
        SolverArg::Saddle(_) => false,
    }
}

/// The names of some solvers, in words.
fn listed(which: impl Fn(&Solver) -> bool) -> String {
    let found = offered().filter(|solver| which(solver));
    let names: Vec<&str> = found.map(|solver| solver.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests;
