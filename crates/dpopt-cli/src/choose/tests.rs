//! Projections that are read, and why a run has no bound.

use dpopt::linalg::Design;
use dpopt::nonconvex::{Estimates, GlmRun, NoObserver, SospPlan, SospSettings, Stop, solver};
use dpopt::oracle::{Convexity, Glm, PrivateData};
use dpopt::privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};

use super::*;
use crate::no_bound::NoBound;

#[test]
fn projections_are_read() {
    assert_eq!("auto".parse(), Ok(Project::Auto));
    assert_eq!("rank".parse(), Ok(Project::Rank));
    assert_eq!("rank-free".parse(), Ok(Project::RankFree));
    assert_eq!(" 12 ".parse(), Ok(Project::To(12)));
    for bad in ["", "0", "-3", "1.5", "none"] {
        assert!(
            bad.parse::<Project>()
                .is_err_and(|m| m.contains("rank-free")),
            "{bad}"
        );
    }
}

/// Steps that are far too short for the loss, and an initial gap that allows few of them: no point that they reach is stationary.
#[test]
fn steps_that_are_used_up_before_a_certificate_are_said_to_be() {
    let (records, adjacency) = (2_000, Adjacency::ReplaceOne);
    let norm = ClipNorm::new(1.0).unwrap();
    let rows = Design::dense(1, vec![1.0; records]).unwrap();
    let data = PrivateData::made_up(rows, vec![1.0; records], norm, adjacency, None).unwrap();
    let facts = PublicFacts {
        records: records as u64,
        dim: 1,
        adjacency,
        lipschitz: 1.0,
        smoothness: 1_000.0,
        initial_gap: 1e-4,
        row_norm: 1.0,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    };
    let budget = Budget {
        epsilon: Epsilon::new(50.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    };
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 1_000.0,
    };
    let settings = SospSettings::new(1_000)
        .with_targets(SecondOrderTargets {
            gradient: 0.05,
            curvature: 300.0,
        })
        .with_estimates(Estimates::Fresh);
    let plan = SospPlan::new(&facts, &hessian, &budget, settings).unwrap();
    let run = GlmRun::new(&data, Glm::Logistic, Curator::simulated(adjacency, 3));
    let (outcome, _) = run.run(&plan, &mut NoObserver).unwrap();
    assert_eq!(outcome.stop, Stop::StepCap);
    let chosen = Chosen {
        solver: AnySolver::Minimiser(solver("sosp").unwrap()),
        plan: Box::new(plan),
        picked: None,
        by_rule: false,
        claims: Vec::new(),
        how: None,
        resumed: false,
        odd: None,
        reach: None,
        no_sample: None,
    };
    let why = chosen.bound_of(&outcome).unwrap_err();
    assert_eq!(why, NoBound::NoCertificate);
    assert!(
        why.to_string()
            .contains("steps were used up before a certificate")
    );
}
