//! Private proximal point on weighted records, with samples.

use dpopt_nonconvex::{
    Budget, NoObserver, Plan as _, ProximalFacts, ProximalPlan, ProximalReads, ProximalSettings,
    PublicFacts, Stop,
};
use dpopt_oracle::Convexity;
use dpopt_privacy::{Adjacency, Delta, Epsilon};
use dpopt_theory::{Power, Problem as _, Radial, SimulatedOracle, Tilt, TiltedProblem};

const DIM: usize = 10;
const TILT: f64 = 0.3;

/// Records tilted by +-0.3 along each of the axes, so that samples err: the excess stays below the bound under both relations, and a
/// plan with samples does as well as one without them, for far fewer gradients.
#[test]
fn samples_keep_the_bound_and_save_gradients() {
    let problem = Radial::new(Power::new(1.5).unwrap(), DIM, 1.0, 1.75).unwrap();
    let known = problem.constants();
    let loss = TiltedProblem::new(problem.clone(), 0.0, TILT, 0.0).unwrap();
    let tilts: Vec<Tilt> = (0..DIM)
        .map(|axis| {
            let mut direction = vec![0.0; DIM];
            direction[axis] = TILT;
            Tilt::linear(direction)
        })
        .collect();
    let data = TiltedProblem::<Radial<Power>>::opposites(&tilts, 50).unwrap();
    for adjacency in [Adjacency::ReplaceOne, Adjacency::AddRemove] {
        let facts = ProximalFacts {
            public: PublicFacts {
                records: data.total(),
                dim: DIM,
                adjacency,
                lipschitz: known.lipschitz + TILT,
                smoothness: f64::INFINITY,
                initial_gap: known.initial_gap,
                row_norm: f64::INFINITY,
                score: Default::default(),
                convexity: Convexity::Convex,
            },
            condition: known.kl.unwrap().condition().unwrap(),
            weak_convexity: None,
            failure: 1e-3,
            region: None,
        };
        let budget = Budget {
            epsilon: Epsilon::new(4.0).unwrap(),
            delta: Delta::new(1e-6).unwrap(),
        };
        let plans = [ProximalReads::Poisson, ProximalReads::Everything].map(|reads| {
            let settings = ProximalSettings::new(200_000).reading(reads);
            ProximalPlan::with_settings(&facts, &budget, settings).unwrap()
        });
        let excess = plans.each_ref().map(|plan| {
            let mut worst: f64 = 0.0;
            for seed in 0..3 {
                let mut oracle = SimulatedOracle::weighted(&loss, &data, adjacency, seed);
                let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
                assert_eq!(outcome.stop, Stop::Completed);
                worst = worst.max(problem.value(&outcome.point));
            }
            assert!(worst <= plan.predicted_risk(), "{worst}");
            worst
        });
        assert!(plans[0].gradients() < 0.1 * plans[1].gradients());
        // The same size, up to the luck of three runs.
        assert!(excess[0] < 10.0 * excess[1], "{excess:?}");
    }
}
