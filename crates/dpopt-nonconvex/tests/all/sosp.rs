//! Second-order stationary points: from a saddle of private records to a certificate, and what is refused.

use std::cell::RefCell;
use std::ops::ControlFlow;

use dpopt_linalg::{Design, add_scaled, dot, norm, symmetric_spectrum};
use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSettings, Budget, CurvatureBy, HessianFacts, NoObserver,
    Outcome, Plan, PlanError, PublicFacts, Release, RunError, SecondOrderTargets, SospPlan,
    SospSettings, StatedBound, Stop,
};
use dpopt_oracle::{
    Answer, AskError, Convexity, FnOracle, Glm, Mean, Number, Oracle, OracleFacts, PrivateData,
    PrivateMean, QuadraticLink, Question,
};
use dpopt_privacy::{Accountant, Adjacency, ClipNorm, Curator, Event};

use crate::common::{self, Through, budget};

const RECORDS: usize = 30_000;
const DIM: usize = 3;

/// ln(1 + exp(-y <w, x>^2)), y = 1: at the origin a saddle, or a maximum, whose Hessian is -mean(x x^T).
fn loss() -> QuadraticLink {
    QuadraticLink::phase_retrieval(Glm::Logistic, ClipNorm::new(1.0).unwrap())
}

/// Rows along the first axis, but for one in ten.
fn row(i: usize) -> [f64; DIM] {
    match i % 10 {
        0 => [0.1, 0.6, 0.2],
        _ => [0.9, 0.0, 0.1],
    }
}

fn data() -> PrivateData {
    let rows: Vec<f64> = (0..RECORDS).flat_map(row).collect();
    let design = Design::dense(DIM, rows).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    let labels = vec![1.0; RECORDS];
    PrivateData::made_up(design, labels, one, Adjacency::ReplaceOne, None).unwrap()
}

/// On rows and a ball of length 1: |grad q| <= 2 and ||hess q|| = 2 for q = <w, x>^2.
fn facts() -> (PublicFacts, HessianFacts) {
    let facts = PublicFacts {
        records: RECORDS as u64,
        dim: DIM,
        adjacency: Adjacency::ReplaceOne,
        lipschitz: 2.0,
        smoothness: 3.0,
        initial_gap: 2f64.ln(),
        row_norm: 1.0,
        score: Default::default(),
        convexity: Convexity::Nonconvex,
    };
    let hessian = HessianFacts {
        lipschitz: 8.0 / (6.0 * 3f64.sqrt()) + 3.0,
        frobenius: 3.0,
    };
    (facts, hessian)
}

fn plan(settings: SospSettings, budget: &Budget) -> Result<SospPlan, PlanError> {
    let (facts, hessian) = facts();
    SospPlan::new(&facts, &hessian, budget, settings)
}

/// A run with this seed whose answers go through a function.
fn run_through(
    plan: &SospPlan,
    seed: u64,
    observer: &mut dyn dpopt_nonconvex::Observer,
    mut answer: impl FnMut(&mut dyn Oracle, Question<'_>) -> Result<Answer, AskError>,
) -> Outcome {
    let data = data();
    let curator = Curator::simulated(Adjacency::ReplaceOne, seed);
    let means = PrivateMean::new(&data, loss(), curator)
        .unwrap()
        .with_hessians();
    let mut through = Through::new(means, |inner: &mut PrivateMean<'_, _>, question| {
        answer(inner, question)
    });
    plan.run(&mut through, observer).unwrap()
}

fn run(plan: &SospPlan, seed: u64) -> Outcome {
    run_through(plan, seed, &mut NoObserver, |inner, question| {
        inner.answer(question)
    })
}

/// The exact gradient of the mean over the records: of -2 t x/(1 + exp(t^2)), t = <w, x>.
fn gradient(point: &[f64]) -> Vec<f64> {
    let mut mean = vec![0.0; DIM];
    for x in (0..10).map(row) {
        let t = dot(&x, point);
        add_scaled(&mut mean, -0.2 * t / (1.0 + (t * t).exp()), &x);
    }
    mean
}

/// The least eigenvalue of the Hessian of the mean: of (4 t^2 s (1 - s) - 2 s) x x^T, s = 1/(1 + exp(t^2)).
fn least_eigenvalue(point: &[f64]) -> f64 {
    let mut mean = vec![0.0; DIM * DIM];
    for x in (0..10).map(row) {
        let t = dot(&x, point);
        let s = 1.0 / (1.0 + (t * t).exp());
        let second = 4.0 * t * t * s * (1.0 - s) - 2.0 * s;
        for (i, mean) in mean.iter_mut().enumerate() {
            *mean += 0.1 * second * x[i / DIM] * x[i % DIM];
        }
    }
    symmetric_spectrum(DIM, &mean).unwrap().eigenvalues[0]
}

/// The bound that a run states, if it is true.
fn true_bound(outcome: &Outcome) -> StatedBound {
    let bound = outcome.bound().expect("no bound");
    let (gradient, least) = (
        norm(&gradient(&outcome.point)),
        least_eigenvalue(&outcome.point),
    );
    let curvature = bound.curvature.unwrap();
    assert!(gradient <= bound.value, "{gradient} {outcome:?}");
    assert!(least >= -curvature, "{least} {outcome:?}");
    bound
}

#[test]
fn the_closed_forms_are_derivatives_of_the_loss() {
    let value = |point: &[f64]| -> f64 {
        let of = |x: [f64; DIM]| (-dot(&x, point).powi(2)).exp().ln_1p();
        (0..10).map(|i| 0.1 * of(row(i))).sum()
    };
    let at = [0.7, -0.4, 0.2];
    let moved = |i: usize, by: f64| {
        let mut point = at;
        point[i] += by;
        point
    };
    let exact = gradient(&at);
    for (i, exact) in exact.iter().enumerate() {
        let slope = (value(&moved(i, 1e-5)) - value(&moved(i, -1e-5))) / 2e-5;
        assert!((slope - exact).abs() < 1e-9, "{slope} {exact}");
    }
    let differences = (0..DIM).flat_map(|i| {
        let (up, down) = (gradient(&moved(i, 1e-5)), gradient(&moved(i, -1e-5)));
        up.into_iter()
            .zip(down)
            .map(|(up, down)| (up - down) / 2e-5)
    });
    let differences: Vec<f64> = differences.collect();
    let least = symmetric_spectrum(DIM, &differences).unwrap().eigenvalues[0];
    assert!((least - least_eigenvalue(&at)).abs() < 1e-8, "{least}");
    // At the origin the Hessian is -mean(x x^T).
    assert!(least_eigenvalue(&[0.0; DIM]) < -0.7);
}

#[test]
fn a_run_from_a_saddle_leaves_it_and_ends_in_a_certificate_that_is_true() {
    let budget = budget(8.0);
    let plan = plan(SospSettings::new(100_000), &budget).unwrap();
    let outcome = run(&plan, 1);
    assert_eq!(outcome.stop, Stop::Certified);
    assert!(norm(&outcome.point) > 0.3, "{outcome:?}");
    true_bound(&outcome);
    let (_, epsilon) =
        Accountant::least(&outcome.spent, budget.delta, Adjacency::ReplaceOne).unwrap();
    assert!(epsilon <= 8.0 + 1e-6, "{epsilon}");
}

/// Targets that any budget which pays for a certificate at all pays for.
fn wide_targets(budget: &Budget) -> SecondOrderTargets {
    let widest = plan(SospSettings::new(100_000), budget).unwrap();
    let targets = widest.level().targets;
    SecondOrderTargets {
        gradient: 1.3 * targets.gradient,
        curvature: 1.1 * targets.curvature,
    }
}

#[test]
fn a_run_with_targets_ends_there_and_keeps_the_rest_of_its_budget() {
    let budget = budget(8.0);
    let targets = wide_targets(&budget);
    let plan = plan(SospSettings::new(100_000).with_targets(targets), &budget).unwrap();
    let outcome = run(&plan, 1);
    assert_eq!(outcome.stop, Stop::Certified);
    true_bound(&outcome);
    assert!(norm(&gradient(&outcome.point)) <= targets.gradient);
    assert!(least_eigenvalue(&outcome.point) >= -targets.curvature);
    let (_, epsilon) =
        Accountant::least(&outcome.spent, budget.delta, Adjacency::ReplaceOne).unwrap();
    assert!(epsilon < 7.0, "{epsilon}");
}

/// What a listener has heard: the last norm with its noise, the point of a Hessian that nothing was asked after, and the point that was
/// certified: that of the first gradient that is asked for where a Hessian was. (A saddle is left.)
#[derive(Default)]
struct Heard {
    norm: Option<Number>,
    hessian: Option<Vec<f64>>,
    certified: Option<Vec<f64>>,
}

/// What was certified before a signal stays certified, point and limits; before a certificate nothing is stated.
#[test]
fn a_run_that_is_stopped_states_what_it_certified_before() {
    let plan = plan(SospSettings::new(100_000), &budget(8.0)).unwrap();
    let heard = RefCell::new(Heard::default());
    let mut stop = |_: &Release<'_>| match heard.borrow().certified {
        Some(_) => ControlFlow::Break(()),
        None => ControlFlow::Continue(()),
    };
    let outcome = run_through(&plan, 1, &mut stop, |inner, question| {
        let mut heard = heard.borrow_mut();
        match &question {
            Question::Hessian { of, .. } => heard.hessian = Some(of.point.to_vec()),
            Question::Mean { of, .. } => {
                let last = heard.hessian.take();
                heard.certified = last.filter(|point| point == of.point());
            }
            _ => {}
        }
        let answer = inner.answer(question)?;
        if let Answer::Number(number) = &answer {
            heard.norm = Some(*number);
        }
        Ok(answer)
    });
    assert_eq!(outcome.stop, Stop::ByObserver);
    let bound = true_bound(&outcome);
    let heard = heard.into_inner();
    assert_eq!(Some(&outcome.point), heard.certified.as_ref());
    let released = heard.norm.unwrap();
    let upper = released.number + plan.level().norm_quantile * released.noise_std;
    assert!((bound.value - upper).abs() < 1e-6, "{upper} {outcome:?}");

    let mut first = |_: &Release<'_>| ControlFlow::Break(());
    let outcome = run_through(&plan, 1, &mut first, |inner, question| {
        inner.answer(question)
    });
    assert_eq!(outcome.stop, Stop::ByObserver);
    assert_eq!(outcome.bound(), None);
}

/// No length is below zero: such a norm is one of the few that are wrong, and nothing is finer than what it says.
#[test]
fn norms_far_below_zero_end_a_run_and_certify_no_gradient_of_zero() {
    let budget = budget(8.0);
    let targets = wide_targets(&budget);
    let settings = SospSettings::new(100_000);
    for settings in [settings, settings.with_targets(targets)] {
        let plan = plan(settings, &budget).unwrap();
        let outcome = run_through(&plan, 1, &mut NoObserver, |inner, question| {
            Ok(match inner.answer(question)? {
                Answer::Number(x) => Answer::Number(Number::new(-100.0, x.noise_std)),
                other => other,
            })
        });
        assert_eq!(outcome.stop, Stop::Certified);
        let bound = outcome.bound().unwrap();
        assert!(bound.value > 0.0, "{outcome:?}");
        if settings.targets.is_some() {
            assert_eq!(bound.value, targets.gradient);
        }
        let (_, epsilon) =
            Accountant::least(&outcome.spent, budget.delta, Adjacency::ReplaceOne).unwrap();
        assert!(epsilon <= 8.0 + 1e-6, "{epsilon}");
    }
}

/// A run that finds a saddle everywhere: no gradient, and a Hessian of minus the identity.
#[test]
fn a_run_that_ends_uncertified_returns_the_point_after_its_last_escape() {
    let budget = budget(8.0);
    let targets = wide_targets(&budget);
    let plan = plan(SospSettings::new(100_000).with_targets(targets), &budget).unwrap();
    let mut saddles: Vec<Vec<f64>> = Vec::new();
    let mut deviation = 0.0;
    let outcome = run_through(&plan, 1, &mut NoObserver, |inner, question| {
        let hessian = match &question {
            Question::Hessian { of, .. } => Some(of.point.to_vec()),
            _ => None,
        };
        Ok(match (inner.answer(question)?, hessian) {
            (Answer::Mean(x), Some(point)) => {
                saddles.push(point);
                deviation = x.noise_std;
                // Packed by rows of the lower triangle.
                let minus_one = vec![-1.0, 0.0, -1.0, 0.0, 0.0, -1.0];
                Answer::Mean(Mean::new(minus_one, x.noise_std))
            }
            (Answer::Mean(x), None) => Answer::Mean(Mean::new(vec![0.0; DIM], x.noise_std)),
            (Answer::Number(x), _) => Answer::Number(Number::new(0.0, x.noise_std)),
            (other, _) => other,
        })
    });
    assert!(
        matches!(outcome.stop, Stop::StepCap | Stop::BudgetUsed),
        "{outcome:?}"
    );
    assert_eq!(outcome.bound(), None);
    let level = plan.level();
    assert!(saddles.len() as u64 <= level.most_hessians);
    // h <= rho r <= 2 h, and no two are the same.
    let bend = 1.0 - level.operator * deviation;
    let rho = plan.hessian().lipschitz;
    saddles.push(outcome.point);
    assert!(saddles.len() > 1 && bend > 0.5, "{bend}");
    for pair in saddles.windows(2) {
        let mut way = pair[1].clone();
        add_scaled(&mut way, -1.0, &pair[0]);
        let length = rho * norm(&way);
        assert!(length > 0.999 * bend && length < 2.001 * bend, "{length}");
    }
}

#[test]
fn an_oracle_without_hessians_is_refused_before_anything_is_reserved() {
    let plan = plan(SospSettings::new(1_000), &budget(8.0)).unwrap();
    let data = data();
    let curator = Curator::protected(Adjacency::ReplaceOne).unwrap();
    let mut means = PrivateMean::new(&data, loss(), curator).unwrap();
    let error = plan.run(&mut means, &mut NoObserver).unwrap_err();
    assert!(
        matches!(&error, RunError::NotOffered { what, .. } if what == "Hessians"),
        "{error}"
    );
    assert_eq!(means.curator().reserved(), dpopt_privacy::Event::NoOp);
}

/// No L1 and no rho, on private records.
#[test]
fn measured_steps_end_in_a_certificate_that_is_true() {
    let (facts, hessian) = facts();
    let facts = PublicFacts {
        smoothness: f64::INFINITY,
        ..facts
    };
    let hessian = HessianFacts {
        lipschitz: f64::INFINITY,
        ..hessian
    };
    let budget = budget(8.0);
    let settings = SospSettings::new(10_000).with_measured_steps();
    let plan = SospPlan::new(&facts, &hessian, &budget, settings).unwrap();
    assert_eq!(plan.bound(), None);
    let outcome = run(&plan, 1);
    assert_eq!(outcome.stop, Stop::Certified, "{outcome:?}");
    assert!(norm(&outcome.point) > 0.3, "{outcome:?}");
    true_bound(&outcome);
    assert!(outcome.counts.values > 0.0);
    let (_, epsilon) =
        Accountant::least(&outcome.spent, budget.delta, Adjacency::ReplaceOne).unwrap();
    assert!(epsilon <= 8.0 + 1e-6, "{epsilon}");
    let unknown = HessianFacts {
        frobenius: f64::INFINITY,
        ..hessian
    };
    let error = SospPlan::new(&facts, &unknown, &budget, settings).unwrap_err();
    assert!(
        matches!(
            error,
            PlanError::BadFact {
                name: "hessian_frobenius",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn what_can_not_be_certified_is_refused_with_the_numbers() {
    let settings = SospSettings::new(100_000);
    let budget_of = |epsilon| budget(epsilon);
    let (facts, hessian) = facts();
    // With as many records as the refusal names there is a plan, and with a twentieth less none.
    let budget = budget_of(0.01);
    let tight = SecondOrderTargets {
        gradient: 0.3 * facts.trivial_bound(),
        curvature: 0.3 * facts.smoothness,
    };
    for settings in [settings, settings.with_targets(tight)] {
        let with = |records| {
            let facts = PublicFacts { records, ..facts };
            SospPlan::new(&facts, &hessian, &budget, settings)
        };
        let error = with(facts.records).unwrap_err();
        let PlanError::Uncertifiable {
            reachable: None,
            enough: Some(enough),
            ..
        } = error
        else {
            panic!("{error}");
        };
        assert!(
            error
                .to_string()
                .contains(&format!("{enough} records would do"))
        );
        assert!(with(enough).is_ok(), "{enough}");
        let fewer = with(enough - enough / 20);
        assert!(
            matches!(fewer, Err(PlanError::Uncertifiable { .. })),
            "{enough}"
        );
    }
    let wide = PublicFacts {
        dim: 1_025,
        ..facts
    };
    let whole = settings.with_curvature_by(CurvatureBy::Hessians);
    let error = SospPlan::new(&wide, &hessian, &budget_of(8.0), whole).unwrap_err();
    assert!(
        matches!(error, PlanError::TooManyDimensions { dim: 1_025, .. }),
        "{error}"
    );
}

/// Where products overflow every record counts as zero, and zero gradients and Hessians would be certified.
#[test]
fn a_point_at_which_products_overflow_is_not_certified() {
    let plan = plan(SospSettings::new(1_000), &budget(8.0)).unwrap();
    let data = data();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut means = PrivateMean::new(&data, loss(), curator)
        .unwrap()
        .with_hessians();
    let outcome = plan
        .run_from(&[1e200; DIM], &mut means, &mut NoObserver)
        .unwrap();
    assert_eq!(outcome.stop, Stop::Diverged);
    assert_eq!(outcome.bound(), None);
}

/// Measured steps know no L1, which episodes need, so whole Hessians are what there is, whatever else is asked for and in which order.
#[test]
fn measured_steps_are_refused_above_the_limit_of_hessians() {
    let facts = common::facts(2_000, 1_000_000);
    let hessian = HessianFacts {
        lipschitz: f64::INFINITY,
        frobenius: 1.0,
    };
    for by in [CurvatureBy::default(), CurvatureBy::Episodes] {
        let settings = SospSettings::new(1_000)
            .with_measured_steps()
            .with_curvature_by(by);
        let refused = SospPlan::new(&facts, &hessian, &budget(1.0), settings);
        assert!(
            matches!(
                refused,
                Err(PlanError::TooManyDimensions { dim: 2_000, .. })
            ),
            "{refused:?}"
        );
    }
}

/// A search that gains nothing, and a way out of the range of numbers: neither is a matter of the budget.
#[test]
fn searches_say_why_they_found_nothing() {
    let (facts, hessian) = facts();
    let settings = SospSettings::new(10_000).with_measured_steps();
    let plan = SospPlan::new(&facts, &hessian, &budget(8.0), settings).unwrap();
    let ends = |steepness: f64| {
        run_through(&plan, 1, &mut NoObserver, |inner, question| {
            Ok(match question {
                Question::Mean { .. } => Answer::Mean(Mean::new(vec![steepness; DIM], 0.1)),
                Question::ValueChange { .. } => Answer::Number(Number::new(1.0, 0.0)),
                other => return inner.answer(other),
            })
        })
    };
    let uphill = ends(1.0);
    assert_eq!((uphill.stop, uphill.steps), (Stop::NoGain, 1), "{uphill:?}");
    let steep = ends(1e200);
    assert_eq!((steep.stop, steep.steps), (Stop::Diverged, 1), "{steep:?}");
    assert_eq!((uphill.bound(), steep.bound()), (None, None));
}

/// 1e6 records, 20 dimensions.
fn by_episodes() -> (PublicFacts, HessianFacts, SecondOrderTargets) {
    let facts = PublicFacts {
        initial_gap: 0.05,
        ..common::facts(20, 1_000_000)
    };
    let hessian = HessianFacts {
        lipschitz: 1.0,
        frobenius: 20f64.sqrt(),
    };
    let targets = SecondOrderTargets {
        gradient: 0.3,
        curvature: 0.5,
    };
    (facts, hessian, targets)
}

/// Products that are longer than their clip are those of no matrix: refused before anything is reserved. An oracle that was told no
/// constants is taken at its caller's word.
#[test]
fn clipped_products_with_hessians_are_refused() {
    let (facts, hessian, targets) = by_episodes();
    let sosp = SospSettings::new(1_000)
        .with_targets(targets)
        .with_curvature_by(CurvatureBy::Episodes);
    let sosp = SospPlan::new(&facts, &hessian, &budget(2.0), sosp).unwrap();
    let pass = AdaptiveBatchSettings::new(1_000)
        .with_targets(targets)
        .with_curvature_by(CurvatureBy::Episodes);
    let pass = AdaptiveBatchPlan::new(&facts, &hessian, &budget(2.0), pass).unwrap();
    for plan in [&sosp as &dyn Plan, &pass] {
        let ends = |constants: Option<f64>| {
            let known = OracleFacts::new(20, 1_000_000, Adjacency::ReplaceOne, plan.needs());
            let known = match constants {
                Some(smoothness) => known.with_constants(1.0, smoothness),
                None => known,
            };
            let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
            let mut oracle = FnOracle::new(known, curator, |_, question| {
                Err(AskError::NotOffered {
                    what: question.kind(),
                })
            });
            let error = plan.run(&mut oracle, &mut NoObserver).unwrap_err();
            (error, oracle.books().curator().reserved() == Event::NoOp)
        };
        let (error, nothing) = ends(Some(1.5));
        let RunError::ClippedProducts { planned, found, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((planned, found, nothing), (1.0, 1.5, true));
        for fine in [Some(1.0), Some(0.5), None] {
            let (error, nothing) = ends(fine);
            assert!(
                matches!(error, RunError::Ask(AskError::NotOffered { .. })),
                "{error}"
            );
            assert!(!nothing);
        }
    }
}

/// The table of the page on episodes: at lambda = L1/2 they tell curvature in 1e7 dimensions, and in 1e8 lattices may hide it, however many
/// records there are.
#[test]
fn curvature_that_lattices_hide_is_said_to_be_hidden() {
    let (_, hessian, targets) = by_episodes();
    let with = |dim: usize| {
        let facts = common::facts(dim, 1 << 52);
        let sosp = SospSettings::new(1 << 40).with_targets(targets);
        let pass = AdaptiveBatchSettings::new(1 << 40).with_targets(targets);
        [
            SospPlan::new(&facts, &hessian, &budget(1.0), sosp).err(),
            AdaptiveBatchPlan::new(&facts, &hessian, &budget(1.0), pass).err(),
        ]
    };
    let hides = |error: &Option<PlanError>| matches!(error, Some(PlanError::NoEpisode { .. }));
    let (told, hidden) = (with(10_000_000), with(100_000_000));
    assert!(!told.iter().any(hides), "{told:?}");
    for (error, name) in hidden.iter().zip(["sosp", "adaptive-batch"]) {
        let Some(PlanError::NoEpisode {
            solver,
            curvature,
            smoothness,
            dim,
            missed,
        }) = error
        else {
            panic!("{name}: {error:?}");
        };
        assert_eq!((*solver, *dim), (name, 100_000_000));
        assert_eq!((*curvature <= 0.5, *smoothness), (true, 1.0));
        assert!(*missed > 0.0 && *missed < 1.0);
    }
}
