//! Plans of passes against the theorem.

use dpopt_privacy::{Adjacency, Delta, Epsilon, PrefixKind};
use dpopt_solver::{BoundSense, Budget, Plan, PlanError};

use super::search::Search;
use super::*;
use crate::facts::SaddleFacts;
use crate::facts::tests::unit;
use crate::solver::SaddleLimits;

const ALL: [PassEstimate; 6] = [
    PassEstimate::Chain,
    PassEstimate::Prefix(PrefixKind::Independent),
    PassEstimate::Prefix(PrefixKind::Tree),
    PassEstimate::Prefix(PrefixKind::Honaker),
    PassEstimate::Prefix(PrefixKind::Toeplitz),
    PassEstimate::Rounds,
];

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn plan(facts: &SaddleFacts, estimate: PassEstimate) -> Result<RgdaPassPlan, PlanError> {
    let limits = SaddleLimits::steps(1 << 40);
    RgdaPassPlan::new(facts, &budget(), RgdaPassSettings::new(estimate), &limits)
}

/// The numbers of a plan, put into the formulas of `docs/theory/minimax.md` for one curvature in y and K = 1, written anew here.
#[test]
fn plans_satisfy_the_theorem() {
    for estimate in ALL {
        let facts = unit(10_000_000);
        let plan = plan(&facts, estimate).unwrap();
        let of = plan.schedule();
        let (beta, h, s) = (of.rate, of.length, of.scale);
        let (b, q, p) = (of.anchor_batch as f64, of.period as f64, of.periods as f64);
        let (planned, path) = plan.aims().unwrap();
        assert_eq!((of.inner, of.before), (1, 1));
        let count = 2.0 * q - 1.0;
        let depth = (2.0 * q).log2().ceil();
        let reads = match estimate {
            PassEstimate::Rounds => depth,
            _ => 1.0,
        };
        // Records: anchors, and with probability 1 - p what changes read, each rounded up.
        let read = (p + 1.0) * b + p * count + 0.05f64.powf(-0.25) * reads * p * beta * path;
        assert!(read <= 1e7 * (1.0 + 1e-9), "{estimate:?} {read}");
        let mu = budget().mu().unwrap().get();
        let clip = 1f64.hypot(s);
        // The larger eigenvalue of [[1, s], [s, s^2]].
        let joint = 1.0 + s * s;
        let (anchor, change) = (2.0 * clip / (b * mu), 2.0 * joint / (beta * mu));
        let gamma = match estimate {
            PassEstimate::Chain | PassEstimate::Prefix(PrefixKind::Independent) => count.sqrt(),
            PassEstimate::Rounds => depth.sqrt(),
            // No kind is worse here than the plain tree with all of its levels.
            _ => (1.0 + count.log2().floor()).min(count.sqrt()),
        };
        let (variance_most, root5, root35) = (
            anchor * anchor + (gamma * change).powi(2),
            5f64.sqrt(),
            35f64.powf(0.25),
        );
        let sampling = joint * joint * path / beta;
        let reach = root5 * (1.0 + 1.0 / s);
        let error =
            (4.0 / b + reach * reach * variance_most + (1.0 + 1.0 / (s * s)) * sampling).sqrt();
        assert!(planned <= error * (1.0 + 1e-9), "{estimate:?}");
        let exact = matches!(
            estimate,
            PassEstimate::Chain
                | PassEstimate::Rounds
                | PassEstimate::Prefix(PrefixKind::Independent)
        );
        if exact {
            assert!((planned / error - 1.0).abs() < 1e-9);
            let of_y = 2.0 * ((3.0 + 4.0 / b).sqrt() / b + 7f64.sqrt() * sampling / (s * s)).sqrt()
                + root35 * variance_most.sqrt() / s;
            let (jitter, wobble) = match estimate {
                PassEstimate::Rounds => (
                    2.0,
                    2.0 * (0..depth as i32).map(|j| 2f64.powi(j).sqrt()).sum::<f64>(),
                ),
                _ => (1.0, count.sqrt()),
            };
            let moved = jitter * count * root35 * change / s
                + wobble * 7f64.powf(0.25) * joint * (path / beta).sqrt() / s;
            let needed = (q - 1.0) * h + (q * h + moved + 2.0 * of_y) / s;
            assert!(
                needed <= path * (1.0 + 1e-9),
                "{estimate:?} {needed} {path}"
            );
        }
        // L_Phi = 2, F0 = 1.
        let stated = (1.0 / (h * p * q) + h + 2.0 * planned) / 0.95;
        let bound = plan.bound().unwrap();
        assert!((bound.value / stated - 1.0).abs() < 1e-9);
        assert_eq!(bound.sense, BoundSense::PopulationMean);
    }
}

/// The bound falls with n; prefix noise and rounds do no worse than the chain in the long run.
#[test]
fn bounds_fall_with_the_records() {
    for estimate in ALL {
        let bounds: Vec<f64> = [3e6, 1e7, 1e8, 1e9]
            .into_iter()
            .map(|n| {
                plan(&unit(n as u64), estimate)
                    .unwrap()
                    .bound()
                    .unwrap()
                    .value
            })
            .collect();
        assert!(bounds.is_sorted_by(|a, b| a > b), "{estimate:?} {bounds:?}");
        // No faster than n^(-1/2), and no slower than n^(-1/4).
        let slope = (bounds[3] / bounds[1]).log10() / 2.0;
        assert!((-0.5..-0.25).contains(&slope), "{estimate:?} {bounds:?}");
    }
    let few = plan(&unit(1000), PassEstimate::Chain).unwrap_err();
    let PlanError::VacuousSaddle { bound, trivial, .. } = few else {
        panic!("{few}");
    };
    assert!(bound > trivial);
}

#[test]
fn positions_have_to_be_fixed() {
    let mut facts = unit(100_000_000);
    facts.adjacency = Adjacency::AddRemove;
    for estimate in ALL {
        let error = plan(&facts, estimate).unwrap_err();
        let PlanError::NeedsPositions { solver, slices, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(solver, estimate.solver());
        assert!(slices > 1);
    }
}

/// A certificate has records of its own, and no bound before the run.
#[test]
fn a_certificate_is_reserved() {
    let facts = unit(100_000_000);
    let limits = SaddleLimits::steps(1 << 40);
    for estimate in ALL {
        let settings = RgdaPassSettings::new(estimate).certified_on(0.3);
        let plan = RgdaPassPlan::new(&facts, &budget(), settings, &limits).unwrap();
        assert_eq!(plan.bound(), None);
        assert_eq!(plan.reserved().unwrap().records, 30_000_000);
        let mu = budget().mu().unwrap().get();
        let cost = plan.reserved().unwrap().noise.cost();
        assert!(cost <= mu * mu && cost > 0.999 * mu * mu);
        for bad in [0.0, 1.0, f64::NAN] {
            let settings = RgdaPassSettings::new(estimate).certified_on(bad);
            let error = RgdaPassPlan::new(&facts, &budget(), settings, &limits).unwrap_err();
            assert!(matches!(error, PlanError::BadFact { .. }));
        }
    }
}

/// Numbers near those of the plan do no better than by a few per cent.
#[test]
fn nothing_near_is_much_better() {
    for (n, estimate) in [(1e7, PassEstimate::Chain), (1e9, PassEstimate::Rounds)] {
        let facts = unit(n as u64);
        let best = plan(&facts, estimate).unwrap().bound().unwrap().value;
        let search = Search {
            facts: &facts,
            estimate,
            mu: budget().mu().unwrap().get(),
            records: n as u64,
            failure: 0.05,
            max_steps: 1 << 40,
        };
        let least = search.least_of_a_grid();
        assert!(best <= 1.03 * least / 0.95, "{estimate:?} {best} {least}");
    }
}
