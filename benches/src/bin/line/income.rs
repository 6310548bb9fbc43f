//! From the files of Census-Income to a model: `income FOLDER SCHEMA`.
//!
//! Work `step`: reads train.csv.gz and test.csv.gz by the schema, plans `noisy-gd` for epsilon 1 and delta 1e-6 under add-remove, with a public
//! number of records, runs it, and gives its AUC on the test part. Nothing is tuned.

use std::num::NonZeroUsize;
use std::path::Path;

use dpopt::certify::auc;
use dpopt::data::tabular::{Schema, read_table};
use dpopt::nonconvex::{Budget, ExtraFacts, GlmRun, NOISY_GD, NoObserver, PublicFacts};
use dpopt::oracle::{Glm, PrivateData, PublicData};
use dpopt::privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};
use dpopt_benches::release::Failure;

use crate::side::Side;

/// What is public of the training part.
const RECORDS: u64 = 199_523;

/// Answers for a task of this file.
pub(crate) fn run(words: &[&str]) -> Option<Result<(), Failure>> {
    match *words {
        ["income", folder, schema, t] => Some(income(Path::new(folder), Path::new(schema), t)),
        _ => None,
    }
}

fn income(folder: &Path, schema: &Path, threads: &str) -> Result<(), Failure> {
    let threads: NonZeroUsize = threads.parse()?;
    let mut seed = 0;
    let work = move || {
        seed += 1;
        trained(folder, schema, threads, seed)
    };
    Side::new(vec![("step", Box::new(work))]).serve()
}

fn trained(folder: &Path, schema: &Path, threads: NonZeroUsize, seed: u64) -> Result<f64, Failure> {
    let schema = Schema::load(schema)?;
    let train = read_table(folder.join("train.csv.gz"), &schema)?;
    let norm = ClipNorm::new(train.row_norm)?;
    let relation = Adjacency::AddRemove;
    let data = PrivateData::made_up(train.design, train.labels, norm, relation, Some(RECORDS))?
        .with_label_bound(ClipNorm::new(1.0)?);
    let constants = Glm::Logistic.constants_within(data.row_norm(), data.label_bound());
    let facts = PublicFacts::glm(RECORDS, data.dim(), relation, data.row_norm(), constants)?;
    let budget = Budget {
        epsilon: Epsilon::new(1.0)?,
        delta: Delta::new(1e-6)?,
    };
    let extra = ExtraFacts::default();
    let plan = NOISY_GD.plan(&facts, &extra, &budget, &NOISY_GD.usual_limits())?;
    let curator = Curator::simulated(relation, seed);
    let run = GlmRun::new(&data, Glm::Logistic, curator).with_threads(threads);
    let (outcome, _) = run.run(&*plan, &mut NoObserver)?;
    let test = read_table(folder.join("test.csv.gz"), &schema)?;
    let test = PublicData::new(test.design, test.labels)?;
    Ok(auc(&test.scores(&outcome.point), test.labels())?)
}
