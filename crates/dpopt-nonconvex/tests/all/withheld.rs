//! Bounds that a run does not cover are withheld, by one rule for all solvers, and the outcome says why.

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    CurvatureBy, HessianFacts, Limits, NoObserver, Outcome, Plan, PublicFacts, SOLVERS, SospPlan,
    SospSettings, TreeSettings, TreeSpiderPlan, TreeTarget, Withheld,
};
use dpopt_oracle::{
    Answer, Convexity, FnOracle, Linear, Mean, NoSample, Number, Offers, Oracle, OracleFacts,
    PrivateData, PrivateMean, Question,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, Spend, Which};

use crate::common::{LOSS, budget, extra, facts, uniforms, z};

const RECORDS: usize = 20_000;
const DIM: usize = 2;

fn data(adjacency: Adjacency) -> PrivateData {
    let mut next = uniforms(3);
    let rows = (0..RECORDS * DIM).map(|_| 0.5 * next()).collect();
    let labels = (0..RECORDS).map(|_| next() as f32).collect();
    let rows = Design::dense(DIM, rows).unwrap();
    PrivateData::made_up(rows, labels, ClipNorm::new(1.0).unwrap(), adjacency, None).unwrap()
}

/// One pass over the records, with a bound on the population, however large.
fn pass(adjacency: Adjacency) -> TreeSpiderPlan {
    let facts = PublicFacts::glm(RECORDS as u64, DIM, adjacency, 1.0, LOSS.constants(1.0));
    let settings = TreeSettings::new(TreeTarget::Mean).even_if_vacuous();
    TreeSpiderPlan::new(&facts.unwrap(), &budget(1.0), settings, 1 << 40).unwrap()
}

fn run(plan: &TreeSpiderPlan, data: &PrivateData, curator: Curator) -> Outcome {
    let mut oracle = PrivateMean::new(data, LOSS, curator).unwrap();
    plan.run(&mut oracle, &mut NoObserver).unwrap()
}

#[test]
fn a_population_is_not_told_of_by_records_that_were_read() {
    let (data, plan) = (data(Adjacency::ReplaceOne), pass(Adjacency::ReplaceOne));
    assert!(
        plan.bound()
            .is_some_and(|bound| bound.sense.of_population())
    );
    let fresh = run(&plan, &data, Curator::simulated(Adjacency::ReplaceOne, 1));
    assert!(
        fresh.bound().is_some() && fresh.withheld().is_none(),
        "{fresh:?}"
    );
    // The same run, after a release on all records.
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(z(9.0))))
        .unwrap();
    let mut means = PrivateMean::new(&data, LOSS, curator).unwrap();
    let field = Linear::field(&[0.0; DIM], ClipNorm::new(1.0).unwrap());
    means.release(&field, Which::All, z(9.0)).unwrap();
    means.curator_mut().settle().unwrap();
    let read = run(&plan, &data, means.into_curator());
    assert_eq!((read.bound(), read.stop), (None, fresh.stop));
    let why = read.withheld().unwrap();
    assert!(
        matches!(why, Withheld::NoSample(NoSample::ReadBefore { .. })),
        "{why:?}"
    );
    // In words, in what is written of the outcome.
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written["withheld"], why.to_string());
    assert!(
        serde_json::to_value(&fresh)
            .unwrap()
            .get("withheld")
            .is_none()
    );
}

#[test]
fn a_population_is_not_told_of_where_records_may_be_erased() {
    let plan = pass(Adjacency::ZeroOut);
    assert_eq!(plan.bound(), None);
    let data = data(Adjacency::ZeroOut);
    let found = run(&plan, &data, Curator::simulated(Adjacency::ZeroOut, 1));
    assert_eq!(found.bound(), None);
    assert!(found.counts.releases > 1);
}

/// An oracle of a field that is zero everywhere, without noise, with these constants, if it was told any.
fn flat(plan: &dyn Plan, constants: Option<(f64, f64)>) -> impl Oracle + use<> {
    flat_with(plan, constants, None)
}

/// The same, told this bound on the Frobenius norm of Hessians.
fn flat_with(
    plan: &dyn Plan,
    constants: Option<(f64, f64)>,
    frobenius: Option<f64>,
) -> impl Oracle + use<> {
    let (of, dim) = (plan.facts(), plan.dim());
    let facts = OracleFacts::new(dim, of.records, of.adjacency, plan.needs());
    let facts = match constants {
        Some((lipschitz, smoothness)) => facts.with_constants(lipschitz, smoothness),
        None => facts,
    };
    let facts = match frobenius {
        Some(frobenius) => facts.with_hessian_frobenius(frobenius),
        None => facts,
    };
    let curator = Curator::simulated(of.adjacency, 1);
    FnOracle::new(facts, curator, move |_, question| {
        Ok(match question {
            Question::Norm { .. } | Question::Value { .. } => Answer::Number(Number::new(0.0, 0.0)),
            Question::Hessian { of, .. } => {
                Answer::Mean(Mean::new(vec![0.0; of.coordinates()], 0.0))
            }
            _ => Answer::Mean(Mean::new(vec![0.0; dim], 0.0)),
        })
    })
}

/// Of each solver that states a bound and asks for no more than this oracle answers. What rests on whole Hessians alone asks nothing of L1, and
/// what is for losses with kinks neither.
#[test]
fn a_larger_constant_than_was_planned_for_withholds_every_bound() {
    let facts = PublicFacts {
        convexity: Convexity::Convex,
        ..facts(3, 100_000_000)
    };
    let answered = Offers::MEANS | Offers::NORMS | Offers::VALUES | Offers::HESSIANS;
    let mut tried = 0;
    for solver in SOLVERS {
        let Ok(plan) = solver.plan(&facts, &extra(), &budget(1.0), &Limits::steps(20_000)) else {
            continue;
        };
        if !answered.covers(plan.needs()) || plan.bound().is_none() {
            continue;
        }
        let ends = |constants| {
            let mut oracle = flat(&*plan, constants);
            plan.run(&mut oracle, &mut NoObserver).unwrap()
        };
        let told = ends(Some((1.0, 1.0)));
        // Solvers that are stopped by a flat field before their proof covers them.
        let Some(bound) = told.bound() else {
            assert_eq!(told.withheld(), None, "{solver}");
            continue;
        };
        tried += 1;
        assert_eq!(ends(None).bound(), Some(bound), "{solver}");
        assert_eq!(
            ends(Some((1.0 + 1e-10, 0.5))).bound(),
            Some(bound),
            "{solver}"
        );
        let longer = ends(Some((1.001, 1.0)));
        assert_eq!(longer.bound(), None, "{solver}");
        let expected = Withheld::Constant {
            name: "L0",
            planned: 1.0,
            found: 1.001,
        };
        assert_eq!(longer.withheld(), Some(&expected), "{solver}");
        let bent = ends(Some((1.0, f64::INFINITY)));
        if solver.name == "sosp" || solver.needs.goldstein {
            assert_eq!(bent.bound(), Some(bound), "{solver}");
        } else {
            assert_eq!(bent.bound(), None, "{solver}");
            assert!(
                matches!(bent.withheld(), Some(Withheld::Constant { name: "L1", .. })),
                "{solver}"
            );
        }
    }
    assert!(tried >= 5, "{tried}");
}

/// Whole Hessians are clipped to C_F: records that have longer ones are those of another matrix.
#[test]
fn longer_hessians_than_their_clip_withhold_what_is_certified_by_them() {
    let facts = facts(3, 100_000_000);
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 1.2,
    };
    let settings = SospSettings::new(20_000).with_curvature_by(CurvatureBy::Hessians);
    let plan = SospPlan::new(&facts, &hessian, &budget(1.0), settings).unwrap();
    let ends = |frobenius| {
        let mut oracle = flat_with(&plan, Some((1.0, 1.0)), frobenius);
        plan.run(&mut oracle, &mut NoObserver).unwrap()
    };
    // sqrt(3) L1 is more than the clip; of an oracle that was told none the caller's word is taken.
    for fine in [None, Some(0.1), Some(1.2)] {
        assert!(ends(fine).bound().is_some(), "{fine:?}");
    }
    for longer in [1.21, 1e9] {
        let found = ends(Some(longer));
        assert_eq!(found.bound(), None);
        let why = found.withheld().cloned();
        let planned = 1.2;
        let found = longer.min(3f64.sqrt());
        let name = "C_F";
        let expected = Withheld::Constant {
            name,
            planned,
            found,
        };
        assert_eq!(why, Some(expected));
    }
}
