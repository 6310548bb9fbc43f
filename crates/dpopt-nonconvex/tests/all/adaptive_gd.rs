//! Adaptive noisy gradient descent: what it asks for, what it does when it is refused or lied to, and what it may spend.

use std::ops::ControlFlow;

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    AdaptiveGdPlan, AdaptiveSelection, AdaptiveSettings, Budget, KlCondition, NoObserver,
    NormQueries, Plan as _, PlanError, PublicFacts, Release, ReleaseKind, Run, RunError, Stop,
};
use dpopt_oracle::{
    Answer, AskError, Books, FnOracle, Glm, Mean, Number, Offers, Oracle, OracleFacts, PrivateData,
    PrivateMean, Question, Regularizer, Scale,
};
use dpopt_privacy::accounting::costs;
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, FilterKind, Ledger, LedgerError,
    NoiseMultiplier, Refused, Which,
};

use crate::common::{self, budget_at};

const DELTA: f64 = 1e-6;
const RULES: [NormQueries; 2] = [NormQueries::Fixed, NormQueries::Relative];

fn facts(records: u64, dim: usize) -> PublicFacts {
    PublicFacts {
        lipschitz: 2.0,
        ..common::facts(dim, records)
    }
}

fn budget(epsilon: f64) -> Budget {
    budget_at(epsilon, DELTA)
}

fn plan(norms: NormQueries, selection: AdaptiveSelection) -> AdaptiveGdPlan {
    let settings = AdaptiveSettings::new()
        .with_norms(norms)
        .with_selection(selection)
        .with_max_steps(100_000);
    AdaptiveGdPlan::new(&facts(100_000, 3), &budget(4.0), settings).unwrap()
}

/// Asked for norms and gradients, it answers from F(w) = ||w - (1, 0, 0)||^2/2 without noise, but for the norms that are
/// scripted; it has a real curator's books.
struct Scripted {
    norms: Vec<f64>,
    asked: Vec<(&'static str, f64)>,
    books: Books,
    selects: usize,
}

impl Scripted {
    fn new(norms: &[f64]) -> Self {
        Self {
            norms: norms.to_vec(),
            asked: Vec::new(),
            books: Books::new(Curator::simulated(Adjacency::ReplaceOne, 1), 100_000),
            selects: 0,
        }
    }

    fn pay(&mut self, what: &'static str, z: NoiseMultiplier) -> Result<(), Refused> {
        self.books
            .curator_mut()
            .charge_simulated(Which::All, 100_000, z)?;
        self.asked.push((what, z.get()));
        Ok(())
    }
}

impl Oracle for Scripted {
    fn facts(&self) -> OracleFacts {
        let offers = Offers::MEANS | Offers::NORMS | Offers::SELECTIONS;
        OracleFacts::new(3, 100_000, Adjacency::ReplaceOne, offers)
    }
    fn books(&mut self) -> &mut Books {
        &mut self.books
    }
    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        Ok(match question {
            Question::Mean { of, noise, .. } => {
                self.pay("gradient", noise)?;
                let w = of.point();
                Answer::Mean(Mean::new(vec![w[0] - 1.0, w[1], w[2]], 0.0))
            }
            Question::Norm { of, noise, .. } => {
                let norms = self.asked.iter().filter(|(what, _)| *what == "norm");
                let number = norms.count();
                self.pay("norm", noise)?;
                let w = of.point();
                let exact = (w[0] - 1.0).hypot(w[1].hypot(w[2]));
                let std = noise.get() * 2.0 * 2.0 / 1e5;
                let norm = *self.norms.get(number).unwrap_or(&exact);
                Answer::Number(Number::new(norm, std))
            }
            Question::LeastNorm { among, epsilon } => {
                self.books
                    .curator_mut()
                    .charge_simulated_selection(epsilon)?;
                self.selects += 1;
                Answer::Chosen(among.len() - 1)
            }
            other => panic!("{other:?}"),
        })
    }
}

fn squared_mu(event: &Event) -> f64 {
    costs::squared_mu(event, Adjacency::ReplaceOne).unwrap()
}

/// E-9 (docs/theory/kl-condition.md): as printed, a norm of -100 made the dearest gradient, charged next to nothing.
#[test]
fn a_negative_norm_never_makes_a_step() {
    let fixed = plan(NormQueries::Fixed, AdaptiveSelection::Last);
    for norm in [-100.0, -1e-300, 0.0, f64::NEG_INFINITY, f64::NAN] {
        let mut estimator = Scripted::new(&[norm]);
        let run = fixed.run(&mut estimator, &mut NoObserver).unwrap();
        let expected = if norm.is_finite() {
            Stop::Converged
        } else {
            Stop::Diverged
        };
        assert_eq!((run.stop, run.steps), (expected, 0));
        assert_eq!(estimator.asked.len(), 1);
        let paid = estimator.asked[0].1.powi(-2);
        assert!((squared_mu(&run.spent) / paid - 1.0).abs() < 1e-9);
    }
    // The scale is halved and the norm asked for again, at four times the price and a little more for the tail.
    let relative = plan(NormQueries::Relative, AdaptiveSelection::Last);
    let mut estimator = Scripted::new(&[-100.0, -1.0, -3.0]);
    let run = relative.run(&mut estimator, &mut NoObserver).unwrap();
    let asked = &estimator.asked;
    assert!(asked[..3].iter().all(|(what, _)| *what == "norm"));
    for pair in asked[..3].windows(2) {
        let ratio = pair[0].1 / pair[1].1;
        assert!((2.0..2.5).contains(&ratio), "{ratio}");
    }
    assert!(run.steps > 0 && run.norms > run.steps);
    let total: f64 = asked.iter().map(|(_, z)| z.powi(-2)).sum();
    assert!((squared_mu(&run.spent) / total - 1.0).abs() < 1e-9);
}

/// With norms that are always negative the run asks until the budget does not pay any more, and makes no step.
#[test]
fn norms_that_stay_negative_use_up_the_budget_and_no_more() {
    let plan = plan(NormQueries::Relative, AdaptiveSelection::SmallestNorm);
    let mut estimator = Scripted::new(&[-1.0; 400]);
    let run = plan.run(&mut estimator, &mut NoObserver).unwrap();
    assert_eq!((run.stop, run.steps), (Stop::NormUnpaid, 0));
    assert!(run.norms > 5 && run.norms < 60, "{}", run.norms);
    let spent = squared_mu(&run.spent);
    // A quarter of the next price, at least, was spent; and no more than there was.
    assert!(spent <= plan.mu() * plan.mu() && spent > 0.05 * plan.mu() * plan.mu());
    assert_eq!(run.point, [0.0; 3]);
}

#[test]
fn it_asks_as_its_formula_says() {
    for norms in RULES {
        let plan = plan(norms, AdaptiveSelection::Last);
        let mut estimator = Scripted::new(&[]);
        let mut seen = Vec::new();
        let mut watch = |release: &Release<'_>| {
            seen.push((release.kind, release.norm));
            ControlFlow::Continue(())
        };
        let run = plan.run(&mut estimator, &mut watch).unwrap();
        // Without noise a step of 1/L1 leads to the minimiser, where every norm is 0.
        assert_eq!(run.point, [1.0, 0.0, 0.0]);
        // And the closing step of relative norms, from there to there, with all that was left.
        let steps = if norms == NormQueries::Fixed { 1 } else { 2 };
        assert_eq!(run.steps, steps);
        let left = squared_mu(&run.spent) / plan.mu().powi(2);
        assert!(
            norms == NormQueries::Fixed || (left - 1.0).abs() < 1e-6,
            "{left}"
        );
        assert_eq!(seen.len(), estimator.asked.len());
        let gradients = seen.iter().filter(|(kind, _)| *kind == ReleaseKind::Anchor);
        assert_eq!(gradients.count() as u64, steps);
        let at = estimator
            .asked
            .iter()
            .position(|(what, _)| *what == "gradient")
            .unwrap();
        let (delta, root) = (4.0 / 1e5, 3f64.sqrt());
        // Delta sqrt(n/(sqrt 2 mu)), and S/(4 z) for S = 2, both in units of Delta.
        let z = |union: f64| (2.0 * (2.0 * union / 0.05).ln()).sqrt();
        let (first, theta, reach) = match norms {
            NormQueries::Fixed => {
                let all = (1e5 * plan.mu() / 2f64.sqrt()).floor();
                ((1e5 / (2f64.sqrt() * plan.mu())).sqrt(), 0.5, root + z(all))
            }
            _ => (
                2.0 / (4.0 * z(2.0)) / delta,
                2f64.sqrt() / 3.0,
                root + z(2.0),
            ),
        };
        let gradient = theta / (reach * delta);
        for (asked, formula) in [
            (estimator.asked[0].1, first),
            (estimator.asked[at].1, gradient),
        ] {
            // Rounded down, by 2^(1/64) at most; the fixed rounding changes the count of norms in z a little.
            assert!(
                (0.988..1.001).contains(&(asked / formula)),
                "{asked} for {formula}"
            );
        }
        match norms {
            NormQueries::Fixed => assert_eq!(run.stop, Stop::Converged),
            _ => assert_eq!(run.stop, Stop::NormUnpaid),
        }
    }
}

#[test]
fn every_stop_has_its_name() {
    let capped = AdaptiveSettings::new().with_max_steps(1);
    let one = AdaptiveGdPlan::new(&facts(100_000, 3), &budget(4.0), capped).unwrap();
    let run = one.run(&mut Scripted::new(&[]), &mut NoObserver).unwrap();
    assert_eq!((run.stop, run.steps), (Stop::StepCap, 1));

    let plan = plan(NormQueries::Relative, AdaptiveSelection::Last);
    let mut watch = |_: &Release<'_>| ControlFlow::Break(());
    let run = plan.run(&mut Scripted::new(&[]), &mut watch).unwrap();
    assert_eq!((run.stop, run.steps, run.norms), (Stop::ByObserver, 0, 1));

    let smallest = self::plan(NormQueries::Relative, AdaptiveSelection::SmallestNorm);
    // A norm that is accepted on a scale so small that the gradient to match is not paid for.
    let mut tiny = vec![-1.0; 11];
    tiny.push(7.5e-4);
    let run = smallest
        .run(&mut Scripted::new(&tiny), &mut NoObserver)
        .unwrap();
    assert_eq!((run.stop, run.steps), (Stop::GradientUnpaid, 0));

    let run = plan
        .run(&mut Scripted::new(&[f64::INFINITY]), &mut NoObserver)
        .unwrap();
    assert_eq!((run.stop, run.steps), (Stop::Diverged, 0));
}

#[test]
fn what_can_not_run_reserves_nothing() {
    let plan = plan(NormQueries::Relative, AdaptiveSelection::Last);
    // It releases gradients and nothing else.
    let facts = OracleFacts::new(3, 100_000, Adjacency::ReplaceOne, Offers::MEANS);
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut oracle = FnOracle::new(facts, curator, |_, question| {
        Err(AskError::NotOffered {
            what: question.kind(),
        })
    });
    let refused = plan.run(&mut oracle, &mut NoObserver);
    assert!(matches!(refused, Err(RunError::NotOffered { what, .. }) if what == "norms"));
    let refused = plan.run_from(&[0.0, f64::NAN, 0.0], &mut oracle, &mut NoObserver);
    assert!(matches!(
        refused,
        Err(RunError::Start { coordinate: 1, .. })
    ));
    let refused = plan.run_from(&[0.0], &mut oracle, &mut NoObserver);
    assert!(matches!(refused, Err(RunError::StartDimension { .. })));
    assert_eq!(oracle.books().curator().reserved(), Event::NoOp);
}

#[test]
fn plans_that_can_not_step_are_refused_with_numbers() {
    let make = |records, dim, epsilon, norms, beta| {
        let settings = AdaptiveSettings::new().with_norms(norms).with_beta(beta);
        AdaptiveGdPlan::new(&facts(records, dim), &budget(epsilon), settings)
    };
    for norms in RULES {
        // n mu/sqrt 2 < 2, and a first step of too many dimensions.
        for (records, dim, epsilon) in [(3, 1, 0.1), (10_000, 100_000_000, 1.0)] {
            let refused = make(records, dim, epsilon, norms, 0.05);
            let Err(PlanError::Unaffordable {
                cost, squared_mu, ..
            }) = refused
            else {
                panic!("{refused:?}");
            };
            assert!(cost > 0.5 * squared_mu && squared_mu > 0.0);
        }
        for beta in [0.0, 1.0, f64::NAN] {
            assert!(matches!(
                make(100_000, 3, 1.0, norms, beta),
                Err(PlanError::BadFact { name: "beta", .. })
            ));
        }
    }
    for share in [0.0, 1.0, -0.5, f64::NAN] {
        let settings =
            AdaptiveSettings::new().with_selection(AdaptiveSelection::Exponential { share });
        assert!(AdaptiveGdPlan::new(&facts(100_000, 3), &budget(1.0), settings).is_err());
    }
    // A budget of zero is no epsilon.
    assert!(Epsilon::new(0.0).is_err());
}

/// The closed forms, with every integral up to infinity and sums split in parts, are above the roots that the plan
/// solves for, and not by much.
#[test]
fn bounds_are_those_of_the_closed_forms() {
    for kappa in [1.0, 1.1, 4.0 / 3.0, 1.5, 1.9, 2.0f64] {
        let gamma = 0.7;
        let kl = KlCondition::new(gamma, kappa).unwrap();
        let mut facts = facts(100_000_000, 20);
        facts.initial_gap = 0.3;
        let relative = AdaptiveGdPlan::new(&facts, &budget(1.0), AdaptiveSettings::new()).unwrap();
        let bound = relative.risk_bound(&kl).unwrap();
        let (delta, m, eta) = (4.0 / 1e8, relative.mu().powi(2), 1.0);
        // The tails of as many norms and steps as a run can make.
        let most = 1e5f64;
        let z2 = 2.0 * (2.0 * most * most / 0.05).ln();
        let q2 = (20f64.sqrt() + z2.sqrt()).powi(2);
        let a = 1.022 * (8.0 * q2 + 130.0 * z2);
        let first = (gamma * delta * (2.0 * a / m).sqrt()).powf(kappa);
        let p = kappa / (4.0 - kappa);
        let second = (2.0 * p * a * gamma.powi(4) * delta * delta / (0.25 * eta * m)).powf(p);
        let closed = first.max(second);
        assert!(
            bound <= closed && bound > closed / 8.0,
            "{kappa}: {bound} of {closed}"
        );

        let settings = AdaptiveSettings::new().with_norms(NormQueries::Fixed);
        let fixed = AdaptiveGdPlan::new(&facts, &budget(1.0), settings).unwrap();
        let bound = fixed.risk_bound(&kl).unwrap();
        let norms = 1e8 * fixed.mu() / 2f64.sqrt();
        let z = (2.0 * (2.0 * norms / 0.05).ln()).sqrt();
        let q = 20f64.sqrt() + z;
        let psi = z * delta * (1e8 / (2f64.sqrt() * fixed.mu())).sqrt();
        let g = 1.022;
        let mut closed = (2.0 * gamma * psi).powf(kappa) + eta * psi * psi / 4.0;
        closed = closed.max((gamma * (8f64.sqrt() * q * delta / fixed.mu() + psi)).powf(kappa));
        closed = closed.max((8.0 * g * gamma * q * delta / fixed.mu()).powf(kappa));
        closed = closed
            .max((1024.0 * g / (3.0 * eta) * p * gamma.powi(4) * (q * delta).powi(2) / m).powf(p));
        if kappa < 2.0 {
            let r = kappa / (2.0 - kappa);
            let norms_left = 0.5 * norms - 1.0;
            closed = closed.max((16.0 * gamma * gamma / (3.0 * eta) * r / norms_left).powf(r));
        }
        assert!(
            bound <= 1.001 * closed && bound > closed / 8.0,
            "{kappa}: {bound} of {closed}"
        );
        assert!(
            relative
                .risk_bound(&KlCondition::new(gamma, 2.5).unwrap())
                .is_err()
        );
    }
    let small = AdaptiveGdPlan::new(&facts(100, 3), &budget(4.0), AdaptiveSettings::new()).unwrap();
    let kl = KlCondition::new(0.7, 2.0).unwrap();
    assert!(matches!(
        small.risk_bound(&kl),
        Err(PlanError::VacuousRisk { .. })
    ));
}

/// More of anything that helps makes no bound larger; a cap on steps never makes one smaller.
#[test]
fn bounds_go_the_right_way() {
    let kl = KlCondition::new(0.7, 1.5).unwrap();
    for norms in RULES {
        let bounds = |records, dim, epsilon, steps| {
            let settings = AdaptiveSettings::new()
                .with_norms(norms)
                .with_max_steps(steps);
            let plan =
                AdaptiveGdPlan::new(&facts(records, dim), &budget(epsilon), settings).unwrap();
            (
                plan.risk_bound(&kl).unwrap(),
                plan.predicted_bound().unwrap(),
            )
        };
        let base = bounds(10_000_000, 20, 1.0, u64::MAX);
        for other in [
            bounds(20_000_000, 20, 1.0, u64::MAX),
            bounds(10_000_000, 10, 1.0, u64::MAX),
            bounds(10_000_000, 20, 2.0, u64::MAX),
        ] {
            assert!(other.0 <= base.0 && other.1 <= base.1, "{norms:?}");
        }
        let capped = bounds(10_000_000, 20, 1.0, 40);
        assert!(capped.0 > base.0 && capped.1 >= base.1);
    }
}

fn rows(n: usize) -> PrivateData {
    let entries = (0..n)
        .flat_map(|i| {
            let side: f64 = if i % 2 == 0 { 0.6 } else { -0.6 };
            [side, 0.3 * ((i % 7) as f64 - 3.0) / 3.0, 0.2]
        })
        .collect();
    let labels = (0..n)
        .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
        .collect();
    let design = Design::dense(3, entries).unwrap();
    PrivateData::made_up(
        design,
        labels,
        ClipNorm::new(1.0).unwrap(),
        Adjacency::ReplaceOne,
        None,
    )
    .unwrap()
}

fn table_facts(records: u64) -> PublicFacts {
    let constants = Glm::Sigmoid.constants_within(1.0, Some(1.0));
    PublicFacts::glm(records, 3, Adjacency::ReplaceOne, 1.0, constants).unwrap()
}

#[test]
fn it_learns_from_records_within_its_budget() {
    let data = rows(20_000);
    let mut points = Vec::new();
    for selection in [
        AdaptiveSelection::Last,
        AdaptiveSelection::SmallestNorm,
        AdaptiveSelection::Exponential { share: 0.1 },
    ] {
        for norms in RULES {
            let settings = AdaptiveSettings::new()
                .with_norms(norms)
                .with_selection(selection)
                .with_max_steps(40);
            let plan = AdaptiveGdPlan::new(&table_facts(20_000), &budget(2.0), settings).unwrap();
            let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
            let mut estimator = PrivateMean::new(&data, Glm::Sigmoid, curator).unwrap();
            let run = plan.run(&mut estimator, &mut NoObserver).unwrap();
            assert!(run.steps > 5, "{norms:?} {selection:?}: {:?}", run.stop);
            let guarantee = estimator
                .curator()
                .guarantee(Delta::new(DELTA).unwrap())
                .unwrap();
            assert!(guarantee.epsilon() <= 2.0, "{}", guarantee.epsilon());
            // The split of a selection is by zCDP, of which the accountants know better.
            let least = if plan.selection_epsilon().is_some() {
                1.2
            } else {
                1.9
            };
            assert!(guarantee.epsilon() > least, "{}", guarantee.epsilon());
            let mut gaussians = 0.0;
            let mut selections = 0;
            for (leaf, count) in run.spent.leaves() {
                match leaf {
                    Event::Gaussian { .. } => gaussians += count as f64 * squared_mu(&leaf),
                    Event::ExponentialMechanism { epsilon } => {
                        assert_eq!(Some(epsilon), plan.selection_epsilon());
                        selections += count;
                    }
                    other => panic!("{other}"),
                }
            }
            assert!(gaussians <= plan.mu() * plan.mu() * (1.0 + 1e-8));
            assert_eq!(selections, u64::from(plan.selection_epsilon().is_some()));
            // The bound from what was released is true at this size, and says something.
            if selection != AdaptiveSelection::Last {
                let bound = plan.bound_after(&run).unwrap();
                assert!(bound < plan.facts().trivial_bound(), "{bound}");
            }
            points.push(run.point);
        }
    }
    // The rows' first feature tells the label.
    assert!(points.iter().all(|w| w[0] > 0.5), "{points:?}");
}

/// What a killed run drew stays spent, and a new plan gets what is left.
#[test]
fn a_killed_run_is_paid_and_the_next_plan_gets_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let total = budget(2.0);
    let open = || {
        Ledger::open_or_create(
            &path,
            total.epsilon,
            total.delta,
            Adjacency::ReplaceOne,
            FilterKind::Gdp,
        )
        .unwrap()
    };
    let data = rows(20_000);
    let run = |budget: &Budget, start: &[f64], kill: bool| {
        let settings = AdaptiveSettings::new().with_selection(AdaptiveSelection::Last);
        let settings = settings.with_max_steps(30);
        let plan = AdaptiveGdPlan::new(&table_facts(20_000), budget, settings).unwrap();
        let curator = Curator::protected(Adjacency::ReplaceOne)
            .unwrap()
            .with_ledger(open())
            .unwrap();
        let mut estimator = PrivateMean::new(&data, Glm::Sigmoid, curator).unwrap();
        let mut last = start.to_vec();
        let watched = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            plan.run_from(start, &mut estimator, &mut |release: &Release<'_>| {
                last = release.point.to_vec();
                if kill && release.step == 3 {
                    // The process ends here: nothing is settled.
                    std::panic::resume_unwind(Box::new("killed"));
                }
                ControlFlow::Continue(())
            })
        }));
        (plan.mu(), last, watched.ok().map(Result::unwrap))
    };
    let (mu, checkpoint, killed) = run(&budget(1.0), &[0.0; 3], true);
    assert!(killed.is_none() && checkpoint != [0.0; 3]);
    let mut ledger = open();
    let state = ledger.state().unwrap();
    // The reservation, until the run is closed at what it drew of it.
    assert!((state.used / (mu * mu) - 1.0).abs() < 1e-6 && state.open == 1);
    let drawn = state.used - state.reclaimable;
    assert!(drawn > 0.0 && drawn < mu * mu, "{drawn}");
    let left = ledger.epsilon_left(&state);
    assert!(left > 0.5 && left < 2.0, "{left}");
    // As much as before can't be had again beside it; what is left can.
    let whole = AdaptiveGdPlan::new(&table_facts(20_000), &total, AdaptiveSettings::new()).unwrap();
    let mut greedy = Curator::protected(Adjacency::ReplaceOne)
        .unwrap()
        .with_ledger(open())
        .unwrap();
    assert!(matches!(
        greedy.reserve(&whole.spend()),
        Err(Refused::Ledger(LedgerError::Exhausted { .. }))
    ));
    let rest = budget(left * (1.0 - 1e-6));
    let (second, _, done) = run(&rest, &checkpoint, false);
    let done = done.unwrap();
    let state = open().state().unwrap();
    let spent = squared_mu(&done.spent);
    assert!(spent <= second * second);
    // Settled: the second run is charged for what it released.
    assert!((state.used - drawn - spent).abs() < 1e-6 * state.used);
    assert!(state.used <= state.capacity);
}

/// A ledger that goes away after the last release takes neither the point with it nor what is known of the run.
#[test]
fn what_was_paid_is_not_lost_with_a_ledger_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let total = budget(3.0);
    let ledger = Ledger::open_or_create(
        &path,
        total.epsilon,
        total.delta,
        Adjacency::ReplaceOne,
        FilterKind::Gdp,
    );
    let data = rows(20_000);
    let settings = AdaptiveSettings::new().with_selection(AdaptiveSelection::Last);
    let settings = settings.with_max_steps(5);
    let plan = AdaptiveGdPlan::new(&table_facts(20_000), &budget(1.0), settings).unwrap();
    let curator = Curator::protected(Adjacency::ReplaceOne)
        .unwrap()
        .with_ledger(ledger.unwrap())
        .unwrap();
    let mut means = PrivateMean::new(&data, Glm::Sigmoid, curator).unwrap();
    let mut seen = 0;
    let outcome = plan.run(&mut means, &mut |_: &Release<'_>| {
        seen += 1;
        if seen < 3 {
            return ControlFlow::Continue(());
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        ControlFlow::Break(())
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.stop, Stop::ByObserver);
    assert!(outcome.unsettled.is_some_and(|why| !why.is_empty()));
    assert!(squared_mu(&outcome.spent) > 0.0);
}

#[test]
fn a_regularised_run_asks_for_norms_of_the_whole() {
    let data = rows(5_000);
    let settings = AdaptiveSettings::new().with_max_steps(30);
    let mut facts = table_facts(5_000);
    facts.smoothness += 1.0;
    let plan = AdaptiveGdPlan::new(&facts, &budget(4.0), settings).unwrap();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    let mut means = PrivateMean::new(&data, Glm::Sigmoid, curator).unwrap();
    let far = [3.0, 0.0, 0.0];
    let ridge = Regularizer::Ridge(Scale::new(1.0).unwrap());
    let mut first = None;
    let mut watch = |release: &Release<'_>| {
        first.get_or_insert((release.kind, release.norm, release.noise_norm));
        ControlFlow::Continue(())
    };
    let with_ridge = Run::new(&mut watch)
        .starting_at(Some(&far))
        .with_regularizer(ridge);
    let run = plan.run_with(&mut means, with_ridge).unwrap();
    assert!(run.steps > 0 && run.point[0] < 1.5, "{run:?}");
    // The loss's own gradient is at most L0 long, that of the regulariser 3.
    let (kind, norm, std) = first.unwrap();
    assert_eq!(kind, ReleaseKind::Norm);
    assert!((norm - 3.0).abs() < plan.clip() + 6.0 * std, "{norm} {std}");
}

/// A start whose norm is seen to be well above what a step needs is left; one below is returned, with the budget spent.
#[test]
fn a_first_step_needs_the_norm_that_the_plan_says() {
    for norms in [NormQueries::Relative, NormQueries::Fixed] {
        for selection in [AdaptiveSelection::SmallestNorm, AdaptiveSelection::Last] {
            let plan = plan(norms, selection);
            let least = plan.least_norm_of_a_step();
            assert!(least > 0.0 && least < plan.clip(), "{norms:?} {least}");
            for (norm, moves) in [(0.7 * least, false), (1.6 * least, true)] {
                let mut estimator = Scripted::new(&[norm; 400]);
                let run = plan.run(&mut estimator, &mut NoObserver).unwrap();
                let gradient = estimator.asked.iter().any(|(what, _)| *what == "gradient");
                // A closing step is made with what is left, whatever was seen.
                if plan.closing_share() == 0.0 {
                    assert_eq!(run.steps > 0, moves, "{norms:?} {norm} {least}");
                    assert_eq!(gradient, moves);
                } else {
                    assert_eq!(run.steps > 1, moves, "{norms:?} {norm} {least}");
                }
            }
        }
    }
}
