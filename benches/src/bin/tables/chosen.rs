//! `--chosen`: what a private choice of the row norm gains or costs against `auto`, by the plan of `dpopt tune` without flags.

use std::num::NonZeroUsize;

use dpopt::certify::{
    EvaluatedLabel, FittedModel, ModelEvaluation, TuningCandidate, TuningPlan, TuningRecords,
    TuningScore, auc, tuning_within,
};
use dpopt::data::tabular::{EncodedTable, Schema, draft_schema_from, read_table_from};
use dpopt::nonconvex::{Budget, ExtraFacts, Limits, Plan, PublicFacts, SOLVERS, Solver};
use dpopt::oracle::{Glm, PrivateData, PublicData};
use dpopt::privacy::accounting::gdp;
use dpopt::privacy::{Accountant, Adjacency, ClipNorm, Curator, Epsilon, Mu, Part};
use dpopt_benches::census::{Failure, seed};

use super::recipes::Recipe;
use super::{AUTO, repeats};

/// As `dpopt tune` has them.
const ROW_NORMS: [f64; 4] = [1.0, 2.0, 0.5, 0.25];
const MEAN: f64 = 5.0;
const HOLDOUT: f64 = 0.2;
const ADJACENCY: Adjacency = Adjacency::ReplaceOne;

/// What was found.
pub(super) struct Chosen {
    /// Mean AUC on the test set; 1/2 for a tuning without a run.
    pub(super) auc: f64,
    /// Epsilon of one run.
    pub(super) epsilon: f64,
    /// How often each row norm was chosen.
    pub(super) chosen: [u64; 4],
    pub(super) tunings: u64,
}

struct Encoded {
    train: EncodedTable,
    test: PublicData,
}

/// Plans of all row norms, the evaluation, and the epsilon of a run that they are for.
type Planned = (Vec<Box<dyn Plan>>, ModelEvaluation, f64);

/// Of the split of so many records that a seed makes.
fn tuning(of: &Planned, (records, held, seed): (u64, u64, u64)) -> Result<TuningPlan<'_>, Failure> {
    let candidates = of.0.iter().map(|plan| TuningCandidate {
        plan: &**plan,
        model: FittedModel::Linear(Glm::Logistic),
        weights: None,
        start: None,
    });
    Ok(TuningPlan::new(
        candidates.collect(),
        (of.1, TuningScore::Auc),
        (ADJACENCY, Part::of_split(records, held, seed)),
        (MEAN, f64::INFINITY),
    )?)
}

/// Tunings of a recipe's table under a budget.
pub(super) fn chosen(recipe: &Recipe, budget: &Budget) -> Result<Chosen, Failure> {
    let parts = recipe.csv();
    let draft = draft_schema_from(parts[0].as_bytes(), recipe.name, None)?;
    let draft = Schema::from_toml(&draft, "the draft")?;
    let mut all = Vec::new();
    for times in ROW_NORMS {
        let schema = draft.with_row_norm(times * draft.row_norm())?;
        let read = |text: &String| read_table_from(text.as_bytes(), "the recipe", &schema);
        let test = read(&parts[1])?;
        all.push(Encoded {
            train: read(&parts[0])?,
            test: PublicData::new(test.design, test.labels)?,
        });
    }
    let records = all.first().map_or(0, |of| of.train.labels.len()) as u64;
    let held = (HOLDOUT * records as f64).round() as u64;
    let loss = Glm::Logistic;
    let named = |solver: &&&Solver| solver.name == AUTO;
    let solver = SOLVERS.iter().find(named).ok_or("no such solver")?;
    let planned = |epsilon: f64| -> Result<Planned, Failure> {
        let of_a_run = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: budget.delta,
        };
        let mut plans = Vec::new();
        for of in &all {
            let norm = of.train.row_norm;
            let constants = loss.constants_within(norm, Some(1.0));
            let dim = of.train.design.columns();
            let facts = PublicFacts::glm(records - held, dim, ADJACENCY, norm, constants)?;
            let limits = Limits::steps(1_000_000);
            plans.push(solver.plan(&facts, &ExtraFacts::default(), &of_a_run, &limits)?);
        }
        let mu = gdp::mu_for(of_a_run.epsilon, budget.delta)?.get() * (1.0 - 1e-9);
        let label = EvaluatedLabel::Two(None);
        let of = (held, ADJACENCY);
        let evaluation = ModelEvaluation::new(of, Mu::new(mu)?, label, 0.05 / MEAN)?;
        Ok((plans, evaluation, epsilon))
    };
    let found = tuning_within(budget.epsilon.get(), |epsilon| -> Result<_, Failure> {
        let tried = planned(epsilon)?;
        let event = tuning(&tried, (records, held, 0))?.event();
        let (_, total) = Accountant::least(&event, budget.delta, ADJACENCY)?;
        Ok((tried, total))
    })?;
    let found = found.ok_or("no budget of a run")?;
    let dim = all.first().map_or(0, |of| of.train.design.columns()) as f64;
    let gradients = found.0.iter().map(|plan| plan.gradients()).sum::<f64>() / 4.0;
    let tunings = repeats(MEAN * gradients * dim, 100);
    let (mut sum, mut chosen) = (0.0, [0; 4]);
    for repeat in 0..tunings {
        let seed = seed(recipe.name)
            .wrapping_add(repeat)
            .wrapping_add(budget.epsilon.get().to_bits());
        let mut data = Vec::new();
        for of in &all {
            let (design, labels) = (of.train.design.clone(), of.train.labels.clone());
            let norm = ClipNorm::new(of.train.row_norm)?;
            let whole = PrivateData::made_up(design, labels, norm, ADJACENCY, None)?;
            let whole = whole.with_label_bound(ClipNorm::new(1.0)?);
            data.push(whole.set_aside(held, seed)?);
        }
        let pairs: Vec<TuningRecords<'_>> = data
            .iter()
            .map(|(train, held)| TuningRecords { train, held })
            .collect();
        let plan = tuning(&found, (records, held, seed))?;
        let mut curator = Curator::simulated(ADJACENCY, seed);
        curator.reserve(&plan.spend())?;
        let best = plan.run(&pairs, &mut curator, NonZeroUsize::MIN)?;
        sum += match best {
            Ok(best) => {
                let of = all.get(best.candidate).ok_or("no such candidate")?;
                if let Some(count) = chosen.get_mut(best.candidate) {
                    *count += 1;
                }
                auc(&of.test.scores(&best.outcome.point), of.test.labels())?
            }
            Err(_) => 0.5,
        };
    }
    Ok(Chosen {
        auc: sum / tunings as f64,
        epsilon: found.2,
        chosen,
        tunings,
    })
}
