//! One pass to a second-order certificate on private records: what the walk makes of answers, and how it ends.

use std::cell::RefCell;
use std::ops::ControlFlow;

use dpopt_linalg::Design;
use dpopt_nonconvex::{
    AdaptiveBatchPlan, AdaptiveBatchSchedule, AdaptiveBatchSettings, HessianFacts, NoObserver,
    Outcome, Plan as _, PublicFacts, Release, Run, SecondOrderTargets, Stop,
};
use dpopt_oracle::{
    Answer, AskError, Glm, Mean, Number, Oracle, PrivateData, PrivateMean, Question, Regularizer,
    Scale,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Which};

use crate::common::{Through, budget, facts};

const DIM: usize = 2;
const RECORDS: u64 = 400;
const HESSIAN: HessianFacts = HessianFacts {
    lipschitz: 1.0,
    frobenius: 1.0,
};

fn data() -> PrivateData {
    let rows = (0..RECORDS).flat_map(|i| [0.5, (i % 5) as f64 / 10.0]);
    let design = Design::dense(DIM, rows.collect()).unwrap();
    let labels = (0..RECORDS).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 });
    let one = ClipNorm::new(1.0).unwrap();
    PrivateData::made_up(design, labels.collect(), one, Adjacency::ReplaceOne, None).unwrap()
}

/// Every point is a candidate, and every batch small.
fn plan(change: impl FnOnce(&mut AdaptiveBatchSchedule)) -> AdaptiveBatchPlan {
    let (many, few) = (facts(DIM, 1_000_000), facts(DIM, RECORDS));
    let (budget, settings) = (budget(20.0), AdaptiveBatchSettings::new(1_000));
    let planned = AdaptiveBatchPlan::new(&many, &HESSIAN, &budget, settings).unwrap();
    let mut schedule = AdaptiveBatchSchedule {
        targets: SecondOrderTargets {
            gradient: 0.5,
            curvature: 0.5,
        },
        anchor_batch: 10,
        candidate: 1e9,
        hessian_batch: 7,
        norm_batch: 5,
        sign_batch: 3,
        operator: 0.0,
        sign_error: 0.01,
        certificate_log: 2.0,
        most_candidates: 6,
        ..*planned.schedule()
    };
    change(&mut schedule);
    AdaptiveBatchPlan::by_hand(&few, &HESSIAN, &budget, settings, schedule).unwrap()
}

/// What a run is told in place of what its oracle released.
struct Told {
    /// The diagonal of the Hessian.
    bends: [f64; DIM],
    sign: [f64; DIM],
    norm: f64,
}

type Read = Vec<(&'static str, u64)>;

/// A run, the points at which estimates were released, and how many records each kind of release read, in order.
fn run(
    plan: &AdaptiveBatchPlan,
    told: &Told,
    start: &[f64],
    ridge: Option<f64>,
) -> (Outcome, Vec<Vec<f64>>, Read) {
    let data = data();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 4);
    let means = PrivateMean::new(&data, Glm::Logistic, curator)
        .unwrap()
        .with_hessians();
    let read = RefCell::new(Vec::new());
    let answer = |inner: &mut PrivateMean<'_, Glm>, question: Question<'_>| {
        let len = |over: &Which<'_>| match over {
            Which::Next(len) => *len,
            _ => 0,
        };
        let kind = match &question {
            Question::Hessian { over, .. } => ("Hessian", len(over)),
            Question::Mean { over, .. } => ("sign", len(over)),
            Question::Norm { over, .. } => ("norm", len(over)),
            Question::Step { over, .. } => ("step", len(over)),
            _ => ("other", 0),
        };
        let answer = inner.answer(question)?;
        read.borrow_mut().push(kind);
        Ok::<Answer, AskError>(match (kind.0, answer) {
            ("Hessian", _) => {
                let [first, second] = told.bends;
                Answer::Mean(Mean::new(vec![first, 0.0, second], 0.0))
            }
            ("sign", _) => Answer::Mean(Mean::new(told.sign.to_vec(), 0.0)),
            ("norm", _) => Answer::Number(Number::new(told.norm, 0.0)),
            (_, answer) => answer,
        })
    };
    let mut points = Vec::new();
    let mut observer = |release: &Release<'_>| {
        points.push(release.point.to_vec());
        ControlFlow::Continue(())
    };
    let mut run = Run::new(&mut observer).starting_at(Some(start));
    if let Some(weight) = ridge {
        run = run.with_regularizer(Regularizer::Ridge(Scale::new(weight).unwrap()));
    }
    let outcome = plan
        .run_with(&mut Through::new(means, answer), run)
        .unwrap();
    (
        outcome,
        points,
        read.into_inner()
            .into_iter()
            .filter(|x| x.0 != "other")
            .collect(),
    )
}

/// Along the direction of the most negative curvature, against the released gradient of the sign and not against the estimate, as far as
/// (h + sqrt(h^2 - 2 rho e_s))/rho.
#[test]
fn a_step_of_curvature_goes_against_the_gradient_of_its_sign() {
    for sign in [-0.3, 0.3] {
        let told = Told {
            bends: [0.2, -0.9],
            sign: [0.0, sign],
            norm: 0.0,
        };
        let (outcome, points, read) = run(&plan(|_| {}), &told, &[0.0; DIM], None);
        let length = 0.9 + (0.81f64 - 0.02).sqrt();
        let moved = points[1][1] - points[0][1];
        assert!(
            (moved + sign.signum() * length).abs() < 1e-6,
            "{moved} {length}"
        );
        assert!((points[1][0] - points[0][0]).abs() < 1e-9);
        // An anchor, a Hessian, a sign; after so long a step another anchor.
        let first = [("step", 10), ("Hessian", 7), ("sign", 3), ("step", 10)];
        assert_eq!(read[..4], first);
        // Six candidates are all that the margins are for; no certificate.
        assert_eq!(
            (outcome.stop, outcome.bound()),
            (Stop::CandidatesUsed, None)
        );
        assert_eq!(read.iter().filter(|x| x.0 == "Hessian").count(), 6);
    }
}

/// What a regulariser adds to the gradient counts for the sign, too: it alone decides where the field is zero.
#[test]
fn the_sign_is_that_of_the_sum_with_a_regulariser() {
    for start in [-0.5, 0.5] {
        let told = Told {
            bends: [0.2, -0.9],
            sign: [0.0; DIM],
            norm: 0.0,
        };
        let (_, points, _) = run(&plan(|_| {}), &told, &[0.0, start], Some(0.1));
        let moved = points[1][1] - points[0][1];
        assert!(moved * start < -0.5, "{start} {moved}");
        // The Hessian is the sum's: h = 0.9 - 0.1.
        let length = 0.8 + (0.64f64 - 0.02).sqrt();
        assert!((moved.abs() - length).abs() < 1e-6, "{moved}");
    }
}

/// A certificate is the limits of a Hessian and of a norm: sqrt(2 l (a^2/b)) above what was released.
#[test]
fn a_certificate_states_its_limits() {
    // Margins of sqrt(4/7) a and sqrt(4/5) with a = L1 = L0 = 1.
    let (of_bend, of_norm) = ((4.0f64 / 7.0).sqrt(), (4.0f64 / 5.0).sqrt());
    let wide = |schedule: &mut AdaptiveBatchSchedule| {
        schedule.targets = SecondOrderTargets {
            gradient: 1.2,
            curvature: 0.8,
        };
    };
    let told = |norm| Told {
        bends: [0.2, 0.01],
        sign: [0.0; DIM],
        norm,
    };
    let (outcome, points, read) = run(&plan(wide), &told(0.3), &[0.0; DIM], None);
    assert_eq!(outcome.stop, Stop::Certified);
    assert_eq!(read, [("step", 10), ("Hessian", 7), ("norm", 5)]);
    assert_eq!(outcome.point, points[0]);
    let norm = outcome.norm.unwrap();
    assert!((norm.upper - (0.3 + of_norm)).abs() < 1e-6, "{norm:?}");
    assert_eq!((norm.step, outcome.norms), (0, 1));
    // A plan by hand states nothing all the same.
    assert_eq!(outcome.bound(), None);
    // One that is longer is none: a step, and an anchor after it.
    let (outcome, points, read) = run(&plan(wide), &told(0.31), &[0.0; DIM], None);
    assert_eq!(outcome.stop, Stop::CandidatesUsed);
    assert_eq!(read[3], ("step", 10));
    assert!(points[1] != points[0]);
    // A curvature of the margin less lambda is the last that is certified.
    for (bend, certified) in [(of_bend - 0.8 + 1e-6, true), (of_bend - 0.8 - 1e-6, false)] {
        let told = Told {
            bends: [0.2, bend],
            ..told(0.0)
        };
        let (outcome, ..) = run(&plan(wide), &told, &[0.0; DIM], None);
        assert_eq!(outcome.stop == Stop::Certified, certified, "{bend}");
    }
}

/// The run ends where the next batch is not there in full, whatever the batch is for, and none is cut.
#[test]
fn no_batch_is_short() {
    let saddle = Told {
        bends: [0.2, -0.9],
        sign: [0.0, 0.1],
        norm: 0.0,
    };
    let long = Told {
        bends: [0.2, 0.1],
        sign: [0.0; DIM],
        norm: 9.0,
    };
    for (told, lengths) in [(saddle, [10, 7, 3]), (long, [10, 7, 5])] {
        for first in [100, 170, 189, 190, 191, 193, 196] {
            // The first batch is so long that the last is any of the three.
            let plan = plan(|schedule| {
                schedule.anchor_batch = first;
                schedule.targets.curvature = 0.8;
                schedule.most_candidates = 1_000;
            });
            let (outcome, _, read) = run(&plan, &told, &[0.0; DIM], None);
            assert_eq!(outcome.stop, Stop::RecordsExhausted, "{first}");
            let all: u64 = read.iter().map(|x| x.1).sum();
            assert!(all <= RECORDS);
            for (kind, len) in read {
                let planned = match kind {
                    "step" => first,
                    "Hessian" => lengths[1],
                    _ => lengths[2],
                };
                assert_eq!(len, planned, "{kind}");
            }
        }
    }
}

/// Where products overflow every record counts as zero, and zero gradients and Hessians would be certified.
#[test]
fn a_point_at_which_products_overflow_is_not_certified() {
    let data = data();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut means = PrivateMean::new(&data, Glm::Logistic, curator)
        .unwrap()
        .with_hessians();
    let outcome = plan(|_| {})
        .run_from(&[1e200; DIM], &mut means, &mut NoObserver)
        .unwrap();
    assert_eq!((outcome.stop, outcome.steps), (Stop::Diverged, 0));
}

/// The pool is what is left of it: a run that was planned for all records is refused where some were read.
#[test]
fn records_that_were_read_before_are_missed_before_the_run() {
    let data = data();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let mut means = PrivateMean::new(&data, Glm::Logistic, curator)
        .unwrap()
        .with_hessians();
    means.books().take_slice(1).unwrap();
    let refused = plan(|_| {}).run(&mut means, &mut NoObserver);
    assert!(refused.is_err(), "{refused:?}");
    let facts = PublicFacts {
        adjacency: Adjacency::AddRemove,
        ..facts(DIM, RECORDS)
    };
    let settings = AdaptiveBatchSettings::new(10);
    assert!(AdaptiveBatchPlan::new(&facts, &HESSIAN, &budget(20.0), settings).is_err());
}
