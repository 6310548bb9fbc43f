//! Episodes against spectra: what is left, what is stayed at, and along which directions.
//!
//! Shares are held against what is planned by lower Clopper-Pearson limits at 99.9 %: each check raises a false alarm with probability at most
//! 1e-3 over its seeds, which are fixed; about twenty are made. Twins are caught by the same limits.

use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSettings, Budget, CurvatureBy, Episode, EpisodeEnd, EpisodeRun,
    EpisodeTerms, HessianFacts, NoObserver, Plan, PublicFacts, Radii, SecondOrderTargets, SospPlan,
    SospSettings, Stop,
};
use dpopt_oracle::{Answer, Mean, Number, Oracle, Question};
use dpopt_privacy::{Adjacency, Delta, Epsilon, Event, NoiseMultiplier, Spend, Which};
use dpopt_theory::audit::binomial::upper_tail;
use dpopt_theory::{Around, SimulatedOracle, Spectrum};

const RUNS: u64 = 1000;
const P: f64 = 0.05;
/// n.
const RECORDS: u64 = 1 << 40;

/// M = 1; h = lambda/2.
fn planned(over: f64, dim: usize) -> Episode {
    let terms = EpisodeTerms {
        dim,
        smoothness: 1.0,
        curvature: 1.0 / over,
        missed: P,
        false_exit: P,
    };
    Episode::cheapest(&terms, 0.5 / over).unwrap()
}

fn run(episode: &Episode, of: &Spectrum, seed: u64) -> EpisodeRun {
    let mut oracle = SimulatedOracle::over(of.clone(), Adjacency::ReplaceOne, seed);
    let cap = Event::gaussian(NoiseMultiplier::new(1e-3).unwrap());
    oracle.books().reserve(&Spend::AtMost(cap)).unwrap();
    let point = vec![0.0; episode.terms.dim];
    episode
        .run(
            &mut oracle,
            &point,
            Which::All,
            (RECORDS as f64, Radii::Realised),
        )
        .unwrap()
}

/// Of [`RUNS`]: how many left, along how many directions with less curvature than was said, and how many cost more than so much of the planned
/// cost.
fn counted(episode: &Episode, of: &Spectrum, most: f64) -> (u64, u64, u64) {
    let (mut left, mut wrong, mut dear) = (0, 0, 0);
    for seed in 0..RUNS {
        let ran = run(episode, of, seed);
        let cost = episode.cost(Adjacency::ReplaceOne, RECORDS as f64);
        dear += u64::from(ran.cost > most * cost);
        if let EpisodeEnd::Left(u) = ran.end {
            left += 1;
            wrong += u64::from(of.along(&u) > -episode.bend);
        }
    }
    (left, wrong, dear)
}

/// Whether so many hits are too many for probability `p`.
fn beyond(hits: u64, p: f64) -> bool {
    upper_tail(hits, RUNS, p) < 1e-3
}

/// One eigenvalue, and the same for all others.
fn one_and(dim: usize, one: f64, others: f64) -> Spectrum {
    let mut eigenvalues = vec![others; dim];
    eigenvalues[0] = one;
    Spectrum::new(eigenvalues, RECORDS)
}

#[test]
fn strict_saddles_are_left_along_directions_that_are_curved() {
    for (over, dim) in [(1.5, 4), (5.0, 20)] {
        let episode = planned(over, dim);
        let lambda = episode.terms.curvature;
        // Beside what is flat, dies out slowly, neither grows nor dies out, and dies out at once.
        for others in [0.0, -episode.flat * episode.shift, -episode.shift, 1.0] {
            let of = one_and(dim, -lambda, others);
            let (left, wrong, dear) = counted(&episode, &of, 1.0 + 1e-9);
            assert!(!beyond(RUNS - left, P), "{over} {others}: {left} left");
            assert!(!beyond(wrong, P), "{over} {others}: {wrong} wrong");
            assert_eq!(dear, 0);
        }
        // An episode of half the length misses more of them, alone.
        let short = Episode {
            steps: episode.steps / 2,
            ..episode
        };
        let (left, ..) = counted(&short, &one_and(dim, -lambda, 1.0), 1.0);
        assert!(beyond(RUNS - left, P), "{left} left");
    }
}

#[test]
fn flat_spectra_are_never_left_and_cost_little() {
    for (over, dim) in [(1.5, 4), (5.0, 20)] {
        let episode = planned(over, dim);
        let flat = -episode.flat * episode.shift;
        for of in [
            one_and(dim, flat, flat),
            one_and(dim, flat, 0.0),
            one_and(dim, 1.0, 0.0),
            one_and(dim, flat, 1.0),
        ] {
            let (left, _, dear) = counted(&episode, &of, episode.flat_share());
            assert!(!beyond(left, P), "{over}: {left} left");
            assert!(!beyond(dear, P), "{over}: {dear} cost more");
        }
        // Centred episodes, not shifted, of the same noise: the same spectrum is left.
        let centred = Episode {
            shift: 0.0,
            ..episode
        };
        let (left, ..) = counted(&centred, &one_and(dim, flat, flat), 1.0);
        assert!(beyond(left, P), "{left} left");
    }
}

/// Spectra of which most is a little more or less curved than l, so that exits are of many directions.
#[test]
fn exits_have_the_curvature_that_is_said() {
    let episode = planned(4.0, 30);
    let spread = |from: f64, to: f64| {
        let at = |i: usize| from + (to - from) * i as f64 / 29.0;
        let eigenvalues = (0..30).map(|i| -at(i) * episode.shift).collect();
        Spectrum::new(eigenvalues, RECORDS)
    };
    for of in [spread(0.8, 1.2), spread(1.0, 1.0), spread(-3.0, 1.2)] {
        let (left, wrong, dear) = counted(&episode, &of, 1.0 + 1e-9);
        assert!(!beyond(wrong, P), "{wrong} of {left}");
        assert_eq!(dear, 0);
    }
    // Centred, with exits that are said to be curved as much: -l/4 everywhere is left, too.
    let centred = Episode {
        shift: 0.0,
        ..episode
    };
    let of = spread(0.25, 0.25);
    let (_, wrong, _) = counted(&centred, &of, 1.0);
    assert!(beyond(wrong, P), "{wrong}");
}

/// The law of an episode is the same whatever its products are clipped to, and so are its counts; what it is charged is not.
#[test]
fn full_radii_are_one_event() {
    let episode = planned(3.0, 6);
    let of = one_and(6, 0.0, 0.5);
    let records = RECORDS as f64;
    let event = episode.event(Adjacency::ReplaceOne, records).unwrap();
    for (radii, exact) in [(Radii::Full, true), (Radii::Realised, false)] {
        let mut oracle = SimulatedOracle::over(of.clone(), Adjacency::ReplaceOne, 3);
        oracle
            .books()
            .reserve(&Spend::AtMost(event.clone()))
            .unwrap();
        let ran = episode.run(&mut oracle, &[0.0; 6], Which::All, (records, radii));
        let ran = ran.unwrap();
        assert_eq!(
            (ran.end, ran.products),
            (EpisodeEnd::Stayed, episode.steps - 1)
        );
        let cost = episode.cost(Adjacency::ReplaceOne, records);
        assert_eq!((ran.cost / cost - 1.0).abs() < 1e-9, exact, "{}", ran.cost);
        // One product more is not paid for, after the full ones.
        let again = episode.run(&mut oracle, &[0.0; 6], Which::All, (records, radii));
        assert_eq!(again.is_err(), exact);
    }
}

/// lambda = 1/2, L1 = 1 in 20 dimensions: `sosp` and one pass on spectra whose certificates would be false, flat gradients everywhere.
#[test]
fn solvers_certify_no_strict_saddle() {
    let facts = PublicFacts {
        initial_gap: 0.05,
        ..PublicFacts::unit(1_000_000, 20)
    };
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 20.0,
    };
    let budget = Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    };
    let targets = SecondOrderTargets {
        gradient: 0.3,
        curvature: 0.5,
    };
    let sosp = SospSettings::new(1_000)
        .with_targets(targets)
        .with_curvature_by(CurvatureBy::Episodes);
    let sosp = SospPlan::new(&facts, &hessian, &budget, sosp).unwrap();
    let pass = AdaptiveBatchSettings::new(1_000)
        .with_targets(targets)
        .with_curvature_by(CurvatureBy::Episodes);
    let pass = AdaptiveBatchPlan::new(&facts, &hessian, &budget, pass).unwrap();
    assert!(sosp.level().episode.is_some() && pass.schedule().episode.is_some());
    for plan in [&sosp as &dyn Plan, &pass] {
        for (least, certifiable) in [(-0.5, false), (-0.01, true)] {
            let of = Spectrum::new([vec![least], vec![0.1; 19]].concat(), facts.records);
            let mut certified = 0;
            for seed in 0..RUNS {
                let inner = SimulatedOracle::over(of.clone(), Adjacency::ReplaceOne, seed);
                // No slope anywhere: what is certified hangs on curvature alone.
                let mut oracle = Around::new(inner, |inner: &mut SimulatedOracle<_>, question| {
                    let product = matches!(&question, Question::HessianVector { .. });
                    Ok(match Oracle::answer(inner, question)? {
                        Answer::Mean(x) if !product => {
                            Answer::Mean(Mean::new(vec![0.0; x.mean.len()], x.noise_std))
                        }
                        Answer::Number(x) => Answer::Number(Number::new(0.0, x.noise_std)),
                        other => other,
                    })
                });
                let outcome = plan.run(&mut oracle, &mut NoObserver).unwrap();
                certified += u64::from(outcome.stop == Stop::Certified);
            }
            // Half of p = 0.05 is the certificates'.
            match certifiable {
                false => assert!(!beyond(certified, 0.025), "{}: {certified}", plan.name()),
                true => assert!(certified > RUNS / 2, "{}: {certified}", plan.name()),
            }
        }
    }
}
