//! Refusals of planners: each row of `tests/data/refusals.tsv` is a list of solvers, changes of the facts at which all of them have a
//! plan, and words of the error.

use dpopt_nonconvex::{
    ExtraFacts, KlCondition, Limits, PlanError, PublicFacts, SOLVERS, SecondOrderTargets,
    WalkConstants, solver,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::Adjacency;

use crate::common::{budget, extra, facts};

const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/refusals.tsv");

/// The arguments of a planner.
struct Request {
    facts: PublicFacts,
    extra: ExtraFacts,
    epsilon: f64,
    steps: u64,
}

impl Request {
    /// The request that every solver grants.
    fn granted() -> Self {
        Self {
            facts: PublicFacts {
                convexity: Convexity::Convex,
                ..facts(10, 100_000)
            },
            extra: extra(),
            epsilon: 1.0,
            steps: 100_000,
        }
    }

    fn change(&mut self, name: &str, text: &str) {
        let value: f64 = text.parse().unwrap_or(f64::NAN);
        let (facts, extra) = (&mut self.facts, &mut self.extra);
        let targets = || SecondOrderTargets {
            gradient: 0.5,
            curvature: 0.5,
        };
        match name {
            "records" => facts.records = value as u64,
            "dim" => facts.dim = value as usize,
            "lipschitz" => facts.lipschitz = value,
            "smoothness" => facts.smoothness = value,
            "initial_gap" => facts.initial_gap = value,
            "add-remove" => facts.adjacency = Adjacency::AddRemove,
            "nonconvex" => facts.convexity = Convexity::Nonconvex,
            "radius" => extra.radius = (text != "none").then_some(value),
            "kl" => {
                let (gamma, kappa) = text.split_once(',').unwrap();
                let numbers = (gamma.parse().unwrap(), kappa.parse().unwrap());
                extra.kl = KlCondition::new(numbers.0, numbers.1).ok();
            }
            "weak_convexity" => extra.weak_convexity = Some(value),
            "failure" => extra.failure = Some(value),
            "goldstein_radius" => extra.goldstein_radius = Some(value),
            "directions" => extra.directions = Some(text.parse().unwrap()),
            "hessian_lipschitz" => extra.hessian.as_mut().unwrap().lipschitz = value,
            "gradient" => extra.second_order.get_or_insert_with(targets).gradient = value,
            "curvature" => extra.second_order.get_or_insert_with(targets).curvature = value,
            "rigorous" => extra.walk_constants = Some(WalkConstants::Rigorous),
            "epsilon" => self.epsilon = value,
            "steps" => self.steps = text.parse().unwrap(),
            other => panic!("no fact is called {other}"),
        }
    }

    fn refused(&self, name: &str) -> Option<PlanError> {
        let (budget, limits) = (budget(self.epsilon), Limits::steps(self.steps));
        let solver = solver(name).unwrap();
        solver
            .plan(&self.facts, &self.extra, &budget, &limits)
            .err()
    }
}

#[test]
fn planners_refuse_by_type_and_with_their_numbers() {
    for solver in SOLVERS {
        assert_eq!(Request::granted().refused(solver.name), None, "{solver}");
    }
    let mut wrong = Vec::new();
    let rows = std::fs::read_to_string(ROWS).unwrap();
    for row in rows.lines().filter(|row| !row.starts_with('#')) {
        let [names, changes, words] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}");
        };
        let mut request = Request::granted();
        for change in changes.split(' ') {
            let (name, value) = change.split_once('=').unwrap_or((change, ""));
            request.change(name, value);
        }
        for name in names.split(' ') {
            let error = format!("{:?}", request.refused(name));
            if !words.split("; ").all(|word| error.contains(word)) {
                wrong.push(format!("{name}: {changes}: {error}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
