//! Every solver on every loss, storage, adjacency, selection and start that it accepts, through the public door: a run goes to its end,
//! or is refused before anything is charged.

use dpopt_linalg::{Design, RowFile, RowFileWriter};
use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSettings, AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings,
    ConvexFacts, ExtraFacts, HessianFacts, JlFacts, JlPlan, KlCondition, Limits, NoObserver,
    NormQueries, Plan, PlanError, PublicFacts, RecursiveGdPlan, RecursiveSgdPlan, RunError,
    SOLVERS, SPIDERBOOST, Stop,
};
use dpopt_oracle::{
    ConvexGlm, Convexity, ExamplesOnDisk, Glm, Offers, OutputPerturbed, PrivateData, PrivateMean,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event};

use crate::common::budget;

const DIM: usize = 4;
const ROWS: usize = 600;
const START: [f64; DIM] = [0.1, -0.2, 0.3, 0.0];
const ADJACENCIES: [Adjacency; 3] = [
    Adjacency::ReplaceOne,
    Adjacency::AddRemove,
    Adjacency::ZeroOut,
];

/// The same pattern of rows in every storage.
fn designs() -> Vec<(&'static str, Design)> {
    let entry = |i: usize, j: usize| ((i * 7 + j * 3 + i * j) % 5) as f64 / 10.0;
    let all = || (0..ROWS).flat_map(move |i| (0..DIM).map(move |j| entry(i, j)));
    let mut sparse = Design::sparse(DIM).unwrap();
    let mut one_hot = Design::one_hot(DIM, 0.5).unwrap();
    for i in 0..ROWS {
        let columns: Vec<u32> = (0..DIM as u32)
            .filter(|j| (i as u32 + j).is_multiple_of(3))
            .collect();
        let row: Vec<(u32, f32)> = columns.iter().map(|j| (*j, 0.3)).collect();
        sparse.push_row(&row).unwrap();
        one_hot.push_ones(&columns).unwrap();
    }
    let bytes = all().map(|x| (x * 100.0) as u8).collect();
    vec![
        ("dense", Design::dense(DIM, all().collect()).unwrap()),
        (
            "single precision",
            Design::dense32(DIM, all().map(|x| x as f32).collect()).unwrap(),
        ),
        ("bytes", Design::bytes(DIM, bytes, 0.01).unwrap()),
        ("sparse", sparse),
        ("one-hot", one_hot),
    ]
}

fn labels() -> Vec<f32> {
    let label = |i| if i % 3 == 0 { 1.0 } else { -1.0 };
    (0..ROWS).map(label).collect()
}

fn one() -> ClipNorm {
    ClipNorm::new(1.0).unwrap()
}

fn declared(adjacency: Adjacency) -> Option<u64> {
    (adjacency == Adjacency::AddRemove).then_some(ROWS as u64)
}

fn in_memory(design: &Design, adjacency: Adjacency) -> PrivateData {
    let design = design.clone();
    let data = PrivateData::new(design, labels(), one(), adjacency, declared(adjacency));
    data.unwrap().with_label_bound(one())
}

fn facts(loss: Glm, adjacency: Adjacency) -> Option<PublicFacts> {
    let constants = loss.constants_within(1.0, Some(1.0));
    PublicFacts::glm(ROWS as u64, DIM, adjacency, 1.0, constants).ok()
}

/// One pass that is planned for many records and ends when these are read.
fn on_few_records(
    facts: &PublicFacts,
    many: &PublicFacts,
    extra: &ExtraFacts,
    most: u64,
) -> Result<AdaptiveBatchPlan, PlanError> {
    let settings = AdaptiveBatchSettings::new(most);
    let hessian = extra.hessian_for("adaptive-batch")?;
    let plan = AdaptiveBatchPlan::new(many, &hessian, &budget(500.0), settings)?;
    AdaptiveBatchPlan::by_hand(facts, &hessian, &budget(500.0), settings, *plan.schedule())
}

/// A plan of every solver that has one for these facts, and plans with each selection and under a projection.
fn plans(facts: &PublicFacts) -> Vec<(String, Box<dyn Plan>)> {
    let kl = KlCondition::new(1.0, 2.0).unwrap();
    let mut extra = ExtraFacts::default()
        .with_radius(1.0)
        .with_kl(kl)
        .with_goldstein_radius(30.0)
        .with_hessian(HessianFacts {
            lipschitz: 0.1,
            frobenius: 0.25,
        });
    if facts.convexity == Convexity::Nonconvex {
        extra = extra.with_weak_convexity(facts.smoothness);
    }
    let convex = ConvexFacts {
        public: *facts,
        radius: extra.radius,
    };
    let mut plans: Vec<(String, Box<dyn Plan>)> = SOLVERS
        .iter()
        .filter_map(|solver| {
            // Few steps make no useful plan of these.
            let most = match solver.name {
                // Sixteen values of each record at a step.
                "goldstein-recursive" => 24,
                _ if solver.needs.kl || solver.needs.goldstein || solver.needs.hessian => 200,
                _ => 12,
            };
            let boxed = |plan: Box<dyn Plan>| plan;
            let plan = match solver.name {
                "recursive-gd" => RecursiveGdPlan::even_if_vacuous(&convex, &budget(500.0), 200)
                    .map(|plan| boxed(Box::new(plan))),
                "recursive-sgd" => RecursiveSgdPlan::even_if_vacuous(&convex, &budget(500.0))
                    .map(|plan| boxed(Box::new(plan))),
                "adaptive-batch" => {
                    let many = PublicFacts {
                        records: 10_000,
                        ..*facts
                    };
                    on_few_records(facts, &many, &extra, most).map(|plan| boxed(Box::new(plan)))
                }
                _ => solver.plan(facts, &extra, &budget(500.0), &Limits::steps(most)),
            };
            Some((solver.to_string(), plan.ok()?))
        })
        .collect();
    for norms in [NormQueries::Fixed, NormQueries::Relative] {
        for selection in [
            AdaptiveSelection::Last,
            AdaptiveSelection::SmallestNorm,
            AdaptiveSelection::Exponential { share: 0.1 },
        ] {
            let settings = AdaptiveSettings::new()
                .with_norms(norms)
                .with_selection(selection)
                .with_max_steps(12);
            let plan = AdaptiveGdPlan::new(facts, &budget(500.0), settings);
            let name = format!("adaptive-gd, {norms:?}, {selection:?}");
            plans.extend(plan.map(|plan| (name, Box::new(plan) as Box<dyn Plan>)));
        }
    }
    let jl = JlFacts {
        facts: *facts,
        rank: None,
        seed: 1,
    };
    let plan = JlPlan::given(2, &jl, &budget(500.0), &SPIDERBOOST, 12);
    plans.extend(plan.map(|plan| ("projected".to_owned(), Box::new(plan) as Box<dyn Plan>)));
    plans
}

/// Runs a plan: the curator when it is over, and how it went.
fn run(
    plan: &dyn Plan,
    data: &PrivateData,
    loss: Glm,
    start: Option<&[f64]>,
) -> (Event, Result<Stop, RunError>) {
    let curator = || Curator::protected(data.adjacency()).unwrap();
    let embedded = match plan.embed(data) {
        Ok(embedded) => embedded,
        Err(error) => return (Event::NoOp, Err(error)),
    };
    let data = embedded.as_ref().unwrap_or(data);
    let observer = &mut NoObserver;
    let run = dpopt_nonconvex::Run::new(observer).starting_at(start);
    if plan.needs().covers(Offers::PASSES) {
        let made = ConvexGlm::new(loss).map_err(RunError::from);
        let made = made.and_then(|loss| Ok(OutputPerturbed::new(data, loss, curator())?));
        return match made {
            Err(error) => (Event::NoOp, Err(error)),
            Ok(mut passes) => {
                let result = plan.run_with(&mut passes, run);
                (passes.curator().spent(), result.map(|outcome| outcome.stop))
            }
        };
    }
    match PrivateMean::new(data, loss, curator()) {
        Err(error) => (Event::NoOp, Err(error.into())),
        Ok(means) => {
            let mut means = means.with_hessians();
            let result = plan.run_with(&mut means, run);
            (means.curator().spent(), result.map(|outcome| outcome.stop))
        }
    }
}

/// Whether it went to its end; panics where it was broken off after a charge.
fn ends(name: &str, (spent, result): (Event, Result<Stop, RunError>)) -> bool {
    match result {
        Ok(stop) => {
            let broken = matches!(stop, Stop::Diverged | Stop::ByObserver);
            assert!(!broken && spent != Event::NoOp, "{name}: {stop:?}");
            true
        }
        Err(error) => {
            assert_eq!(spent, Event::NoOp, "{name}: {error}");
            false
        }
    }
}

#[test]
fn every_solver_runs_on_every_storage_or_charges_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for adjacency in ADJACENCIES {
        let facts = facts(Glm::Logistic, adjacency).unwrap();
        let plans = plans(&facts);
        let mut stores: Vec<(String, PrivateData)> = Vec::new();
        for (k, (storage, design)) in designs().into_iter().enumerate() {
            let path = folder.path().join(format!("{adjacency}-{k}.rows"));
            let mut writer = RowFileWriter::create(&path, &design, 1.0, "").unwrap();
            writer.push(&design, &labels()).unwrap();
            writer.finish().unwrap();
            let rows = ExamplesOnDisk::new(RowFile::open(&path).unwrap(), one());
            let filed = PrivateData::on_disk(rows, adjacency, declared(adjacency)).unwrap();
            let filed = filed.with_label_bound(one());
            stores.push((storage.to_owned(), in_memory(&design, adjacency)));
            stores.push((format!("{storage} in a file"), filed));
        }
        for (name, plan) in &plans {
            for (storage, data) in &stores {
                for start in [None, Some(&START[..])] {
                    let at = format!("{name}, {storage}, {adjacency}, {start:?}");
                    let ended = ends(&at, run(&**plan, data, Glm::Logistic, start));
                    let projected = name == "projected";
                    let passes = plan.needs().covers(Offers::PASSES);
                    let refused = data.is_in_a_file() && (projected || passes)
                        || projected && start.is_some();
                    assert_eq!(ended, !refused, "{at}");
                }
            }
        }
        for solver in SOLVERS.iter().filter(|solver| solver.accepts(adjacency)) {
            let planned = plans.iter().any(|(name, _)| name == solver.name);
            assert!(planned, "{solver}, {adjacency}");
        }
    }
}

#[test]
fn every_solver_runs_on_every_loss_or_charges_nothing() {
    let (_, design) = designs().swap_remove(0);
    let mut runs = 0;
    for adjacency in ADJACENCIES {
        let data = in_memory(&design, adjacency);
        for loss in Glm::ALL {
            // Of a loss with kinks some plan knows nothing, and so of one without a bound on its values.
            let Some(facts) = facts(loss, adjacency) else {
                continue;
            };
            for (name, plan) in plans(&facts) {
                let at = format!("{name}, {loss}, {adjacency}");
                runs += u32::from(ends(&at, run(&*plan, &data, loss, None)));
            }
        }
    }
    assert!(runs > 200, "{runs}");
}
