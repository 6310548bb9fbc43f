//! What is refused, one line for each: by a typed error with its numbers, before a record is read or anything is charged.
//!
//! Two lines have no place here. A projection that is none: a `Domain` is one of a few sets, with exact projections (`dpopt-linalg`). A Hessian
//! that is not symmetric: what is released is a packed triangle.

use dpopt_linalg::Domain;
use dpopt_minimax::{
    Allowance, Budget, CertifyError, GdaPlan, NoObserver, PassEstimate, Plan, PlanError,
    RgdaAnytimePlan, RgdaAnytimeSettings, RgdaPassPlan, RgdaPassSchedule, RgdaPassSettings,
    RgdaPlan, Run, RunError, SaddleFacts, SaddleLimits, ScoredCertificatePlan, SpiderGdaPlan,
};
use dpopt_oracle::{
    AucSaddle, BlockClips, BlocksError, CellShares, Counts, EqualOpportunity, GroupDro, Joint,
    PrivateData, PrivateMean, SaddleConstants, SaddleLoss, Scored, SharesError,
};
use dpopt_privacy::{Adjacency, Curator, Delta, Epsilon};

use crate::common::unit;

const RECORDS: u64 = 50_000;

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

fn limits() -> SaddleLimits {
    SaddleLimits::steps(1_000_000)
}

/// f = a <x, y>/5 + (bend/2) norm(y)^2.
struct Bent {
    bend: f64,
    domain: Domain,
}

impl Bent {
    fn new(bend: f64) -> Self {
        let domain = Domain::ball(5, 1.0);
        Self { bend, domain }
    }
}

impl SaddleLoss for Bent {
    type Records = Vec<f64>;

    fn x_dim(&self, _: &Vec<f64>) -> usize {
        5
    }

    fn domain(&self) -> Domain {
        self.domain.clone()
    }

    fn saddle_constants(&self, _: &Vec<f64>) -> SaddleConstants {
        facts().record
    }

    fn value(&self, a: &f64, x: &[f64], y: &[f64]) -> f64 {
        let product: f64 = x.iter().zip(y).map(|(x, y)| x * y).sum();
        0.2 * a * product + 0.5 * self.bend * y.iter().map(|y| y * y).sum::<f64>()
    }

    fn gradient(&self, a: &f64, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        for (k, (of_x, of_y)) in out.0.iter_mut().zip(out.1).enumerate() {
            *of_x += 0.2 * a * y[k];
            *of_y += 0.2 * a * x[k] + self.bend * y[k];
        }
    }
}

fn facts() -> SaddleFacts {
    unit(RECORDS, Adjacency::ReplaceOne)
}

fn with(change: impl FnOnce(&mut SaddleFacts)) -> SaddleFacts {
    let mut facts = facts();
    change(&mut facts);
    facts
}

/// What all planners say of these facts.
fn all_plans(facts: &SaddleFacts) -> Vec<PlanError> {
    let (budget, limits) = (budget(), limits());
    let pass = RgdaPassSettings::new(PassEstimate::Chain);
    vec![
        RgdaPlan::new(facts, &budget, &limits).unwrap_err(),
        SpiderGdaPlan::new(facts, &budget, &limits).unwrap_err(),
        RgdaAnytimePlan::new(facts, &budget, RgdaAnytimeSettings::new(1000)).unwrap_err(),
        RgdaPassPlan::new(facts, &budget, pass, &limits).unwrap_err(),
        GdaPlan::new(facts, &budget, &limits).unwrap_err(),
    ]
}

/// Strong concavity, domains and constants of the mean: every planner refuses them, by name and number.
#[test]
fn facts_that_are_none() {
    type Change = fn(&mut SaddleFacts);
    let lines: [(Change, &[&str]); 9] = [
        (
            |f| f.mean.strong_concavity = 0.0,
            &["strong_concavity", "positive", "got 0"],
        ),
        (
            |f| f.mean.strong_concavity = -0.5,
            &["strong_concavity", "got -0.5"],
        ),
        (
            |f| f.mean.strong_concavity = f64::NAN,
            &["strong_concavity", "got NaN"],
        ),
        (
            |f| f.mean.strong_concavity = 1.5,
            &["strong_concavity can't be 1.5: smooth_yy is 1"],
        ),
        (
            |f| f.domain = Domain::Everywhere { dim: 5 },
            &["diameter of the domain of y", "got inf"],
        ),
        (
            |f| f.domain = Domain::ball(5, -1.0),
            &["y has no domain", "-1"],
        ),
        (
            |f| f.mean.smooth_xy = 2.0,
            &["smooth_xy can't be 2: record's smooth_xy is 1"],
        ),
        (
            |f| f.mean.smooth_yy = 3.0,
            &["smooth_yy can't be 3: record's smooth_yy is 1"],
        ),
        (|f| f.records = 0, &["records", "got 0"]),
    ];
    for (change, words) in lines {
        for error in all_plans(&with(change)) {
            let typed = matches!(
                error,
                PlanError::BadFact { .. } | PlanError::Contradiction { .. } | PlanError::Domain(_)
            );
            assert!(typed, "{error}");
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{text}");
        }
    }
}

/// A loss that is not as concave as it is said to be is seen to be so, on public records; what is declared of others stands.
#[test]
fn concavity_is_probed() {
    let public = vec![1.0, -0.5, 0.25];
    let (x, y, other) = ([0.3; 5], [0.1, 0.0, -0.2, 0.4, 0.0], [0.0; 5]);
    let points: [[&[f64]; 3]; 2] = [[&x, &y, &other], [&other, &x, &y]];
    assert_eq!(facts().probe(&Bent::new(-1.0), &public, &points), Ok(()));
    for bend in [-0.7, 0.0, 0.5] {
        let error = facts()
            .probe(&Bent::new(bend), &public, &points)
            .unwrap_err();
        let PlanError::Contradiction { value, limit, .. } = error else {
            panic!("{error}");
        };
        assert!(value == 1.0 && (limit + bend).abs() < 1e-12, "{limit}");
    }
}

/// What is no saddle loss, and shares that are none.
#[test]
fn losses_that_are_none() {
    for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = Joint::new(Bent::new(-1.0), scale).err();
        assert!(
            matches!(error, Some(BlocksError::Scale { .. })),
            "{error:?}"
        );
        assert!(error.unwrap().to_string().contains(&scale.to_string()));
    }
    let mut loss = Bent::new(-1.0);
    loss.domain = Domain::Everywhere { dim: 5 };
    assert_eq!(Joint::new(loss, 1.0).err(), Some(BlocksError::Unbounded));
    let shares = |pairs: &[[Option<f64>; 2]]| CellShares::new(pairs.to_vec());
    let even = shares(&[[Some(0.25); 2]; 2]).unwrap();
    let one = shares(&[[Some(0.5); 2]]).unwrap();
    let unknown = CellShares::released(&[90.0, 5.0, 4.0, 0.5], 1.0).unwrap();
    let lines: Vec<(SharesError, &[&str])> = vec![
        (
            shares(&[[Some(0.5); 2]; 2]).unwrap_err(),
            &["add up to 2, not to 1"],
        ),
        (
            shares(&[[Some(0.0), Some(1.0)]]).unwrap_err(),
            &["group 0 (negative) is 0"],
        ),
        (
            GroupDro::new(&one, false, 1.0).unwrap_err(),
            &["1 groups", "at least 2"],
        ),
        (
            EqualOpportunity::new(&one, 1.0).unwrap_err(),
            &["1 groups with positives"],
        ),
        (
            AucSaddle::new(&unknown).unwrap_err(),
            &["group 1 (positive) is unknown", "take shares"],
        ),
        (
            GroupDro::new(&even, true, 0.0).unwrap_err(),
            &["dual regulariser", "got 0"],
        ),
        (CellShares::even(0).unwrap_err(), &["0 groups"]),
    ];
    for (error, words) in lines {
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    // A group without a share has no weight, and an objective that needs one for it says so: above.
}

type Refused = fn(&SaddleFacts) -> PlanError;

/// Of an objective with groups a refusal names the share that hurts most: the bound rises where that share falls, and more than where another
/// does.
#[test]
fn refusals_name_the_rarest_group() {
    let refused = |positives: [f64; 3], (records, plan): (u64, Refused)| {
        let rest = 1.0 - positives.iter().sum::<f64>();
        let cells = positives.map(|positive| [Some(rest / 3.0), Some(positive)]);
        let shares = CellShares::new(cells.to_vec()).unwrap();
        let none = BlockClips {
            x: f64::INFINITY,
            y: f64::INFINITY,
        };
        let loss = Scored::new(EqualOpportunity::new(&shares, 1.0).unwrap(), none);
        plan(&SaddleFacts::scored(
            records,
            Adjacency::ReplaceOne,
            5,
            1.0,
            &loss,
        ))
    };
    let plans: [(u64, Refused); 4] = [
        (10_000, |facts| {
            RgdaPlan::new(facts, &budget(), &limits()).unwrap_err()
        }),
        (3_000, |facts| {
            SpiderGdaPlan::new(facts, &budget(), &limits()).unwrap_err()
        }),
        (10_000, |facts| {
            let settings = RgdaPassSettings::new(PassEstimate::Chain);
            RgdaPassPlan::new(facts, &budget(), settings, &limits()).unwrap_err()
        }),
        (10_000, |facts| {
            let all = Allowance::all(&budget());
            RgdaPlan::sampled(facts, &all, &limits()).unwrap_err()
        }),
    ];
    for plan in plans {
        let bound = |positives| match refused(positives, plan) {
            PlanError::VacuousSaddle { bound, .. } => bound,
            other => panic!("{other}"),
        };
        let error = refused([0.1, 0.05, 0.02], plan);
        let text = error.to_string();
        let PlanError::VacuousSaddle {
            bound: at,
            trivial,
            records,
            dim: 8,
            mu,
            rarest: Some(0.02),
            runs: "gda",
            solver,
        } = error
        else {
            panic!("{text}");
        };
        assert!(at >= trivial && mu > 0.0 && records == plan.0, "{text}");
        for words in [
            solver,
            &format!("n = {records}, d = 8, mu = {mu:.4}, rarest share 0.0200"),
            "gda would run",
            &format!("is {at:.4}"),
            &format!("satisfies {trivial:.4}"),
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // None at all, for one pass.
        if at == f64::INFINITY {
            continue;
        }
        let (rarest, another) = (bound([0.1, 0.05, 0.01]), bound([0.1, 0.04, 0.02]));
        assert!(rarest > at && rarest > another, "{rarest} {at} {another}");
    }
}

/// A certificate that could say nothing at the start, with the numbers; of more records, or of a larger share of the rarest group, it could.
#[test]
fn certificates_that_could_say_nothing() {
    let of = |share| (0.5 - share, share);
    let check = |records, share: f64| {
        let (more, few) = of(share);
        let shares =
            CellShares::new(vec![[Some(0.3), Some(0.2)], [Some(more), Some(few)]]).unwrap();
        let loss = GroupDro::new(&shares, true, 1.0).unwrap();
        let plan = ScoredCertificatePlan::new(&budget(), Adjacency::ReplaceOne, (0.1, 0.05), None)
            .unwrap();
        plan.check(&loss, (records, 5, 1.0))
    };
    assert_eq!(check(100_000, 0.05), Ok(()));
    assert_eq!(check(20_000, 0.2), Ok(()));
    for (records, share) in [(300, 0.2), (20_000, 0.002)] {
        let error = check(records, share).unwrap_err();
        let text = error.to_string();
        let PlanError::VacuousSaddle {
            solver: "saddle-certificate",
            bound,
            trivial,
            records: n,
            dim: 9,
            mu,
            rarest,
            ..
        } = error
        else {
            panic!("{text}");
        };
        // mu of its share, and the longest gradient of rows of norm 1.
        let whole = budget().mu().unwrap().get();
        assert!((mu / (0.1f64.sqrt() * whole) - 1.0).abs() < 1e-9, "{text}");
        assert!(bound >= trivial && trivial == 1.0 && n == records);
        assert_eq!(rarest, Some(share));
        assert!(text.contains("the solver alone would run"), "{text}");
    }
}

/// Plans that say nothing, single passes where positions are not kept, fields that are shortened, and certificates that can't be.
#[test]
fn plans_that_are_none() {
    let (budget, limits) = (budget(), limits());
    let few = with(|f| f.records = 400);
    let shared = CellShares::new(vec![[Some(0.5), Some(0.1)], [Some(0.3), Some(0.1)]]).unwrap();
    let dro = Scored::with_own_clips(GroupDro::new(&shared, true, 1.0).unwrap(), 1.0);
    let scored = SaddleFacts::scored(RECORDS, Adjacency::ReplaceOne, 5, 1.0, &dro);
    let moving = with(|f| f.adjacency = Adjacency::AddRemove);
    let pass = |facts: &SaddleFacts, estimate| {
        let settings = RgdaPassSettings::new(estimate);
        RgdaPassPlan::new(facts, &budget, settings, &limits).unwrap_err()
    };
    let vacuous = |error: PlanError| match error {
        PlanError::VacuousSaddle {
            bound,
            trivial,
            records,
            dim,
            mu,
            rarest,
            runs,
            ..
        } => {
            assert!(bound > trivial && records == 400 && dim == 10 && mu > 0.0);
            assert_eq!((rarest, runs), (None, "gda"));
        }
        other => panic!("{other}"),
    };
    vacuous(RgdaPlan::new(&few, &budget, &limits).unwrap_err());
    vacuous(SpiderGdaPlan::new(&few, &budget, &limits).unwrap_err());
    vacuous(pass(&few, PassEstimate::Rounds));
    for estimate in [PassEstimate::Chain, PassEstimate::Rounds] {
        let error = pass(&moving, estimate);
        assert!(
            matches!(
                error,
                PlanError::NeedsPositions {
                    records: RECORDS,
                    ..
                }
            ),
            "{error}"
        );
        assert!(error.to_string().contains("replace-one"), "{error}");
    }
    for error in [
        RgdaAnytimePlan::new(&few, &budget, RgdaAnytimeSettings::new(1000)).unwrap_err(),
        RgdaAnytimePlan::new(
            &with(|f| f.records = 100),
            &budget,
            RgdaAnytimeSettings::new(10),
        )
        .unwrap_err(),
    ] {
        let typed = matches!(
            error,
            PlanError::Unaffordable { .. } | PlanError::VacuousSaddle { .. }
        );
        assert!(typed, "{error}");
    }
    let error = pass(&scored, PassEstimate::Chain);
    assert!(matches!(error, PlanError::Shortened { .. }), "{error}");
    for share in [0.0, 1.0, -0.5, f64::NAN] {
        let plan = ScoredCertificatePlan::new(&budget, Adjacency::ReplaceOne, (share, 0.05), None);
        assert!(matches!(plan, Err(CertifyError::Share { .. })), "{share}");
    }
    let plan = ScoredCertificatePlan::new(&budget, Adjacency::AddRemove, (0.1, 0.05), None);
    assert!(matches!(plan, Err(CertifyError::DeclaredSize { .. })));
    // Above the limit no Hessian is released, and the whole share is the norms'.
    let plan = |coordinates| {
        ScoredCertificatePlan::new(&budget, Adjacency::ReplaceOne, (0.1, 0.05), coordinates)
            .unwrap()
            .spend()
            .event()
            .leaves()
            .len()
    };
    assert!(plan(Some(1024)) > plan(Some(1025)) && plan(Some(1025)) == plan(None));
}

/// What was read and charged by a run that is refused: nothing.
fn refused(plan: &dyn Plan, loss: Bent, scale: f64, start: &[f64]) -> RunError {
    let data =
        PrivateData::made_up_of(vec![1.0; RECORDS as usize], Adjacency::ReplaceOne, None).unwrap();
    let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    let joint = Joint::new(loss, scale).unwrap();
    let mut means = PrivateMean::new(&data, joint, curator).unwrap();
    let mut observer = NoObserver;
    let run = Run::new(&mut observer).starting_at(Some(start));
    let error = plan.run_with(&mut means, run).unwrap_err();
    assert_eq!(means.counts(), Counts::default(), "{error}");
    assert!(means.curator().spent().leaves().is_empty(), "{error}");
    error
}

/// Blocks, scales, domains and starts that don't belong together; and plans by hand under which y never moves.
#[test]
fn runs_that_are_none() {
    let (budget, limits) = (budget(), limits());
    let plan = GdaPlan::new(&facts(), &budget, &limits).unwrap();
    let scale = plan.schedule().scale;
    let honest = || Bent::new(-1.0);
    let origin = [0.0; 10];
    let mut outside = origin;
    outside[7] = 1.01 / scale;
    let error = refused(&plan, honest(), scale, &outside);
    assert!(
        matches!(error, RunError::StartOutside { coordinate: 7, value } if value == outside[7]),
        "{error}"
    );
    let error = refused(&plan, honest(), 2.0 * scale, &origin);
    assert!(
        matches!(error, RunError::Blocks { solver: "gda", .. }),
        "{error}"
    );
    let error = refused(&plan, honest(), scale, &origin[..9]);
    assert!(
        matches!(error, RunError::StartDimension { plan: 10, start: 9 }),
        "{error}"
    );
    let other = Bent {
        bend: -1.0,
        domain: Domain::ball(5, 2.0),
    };
    let error = refused(&plan, other, scale, &origin);
    assert!(
        matches!(error, RunError::Domain { solver: "gda" }),
        "{error}"
    );
    let smaller = Bent {
        bend: -1.0,
        domain: Domain::ball(4, 1.0),
    };
    let error = refused(&plan, smaller, scale, &origin);
    let typed = matches!(
        error,
        RunError::Dimension {
            plan: 10,
            oracle: 9
        }
    ) || matches!(error, RunError::Blocks { .. });
    assert!(typed, "{error}");
    // K = 0 where there is a y.
    let frozen = RgdaPassSchedule {
        estimate: PassEstimate::Chain,
        scale: 1.0,
        inner: 0,
        before: 1,
        period: 2,
        periods: 3,
        length: 0.1,
        anchor_batch: 10,
        rate: 10.0,
        noise_multiplier: dpopt_privacy::NoiseMultiplier::new(5.0).unwrap(),
    };
    let frozen = RgdaPassPlan::by_hand(&facts(), &budget, frozen).unwrap();
    let error = refused(&frozen, honest(), 1.0, &origin);
    assert!(
        matches!(
            error,
            RunError::Schedule {
                solver: "rgda-chain",
                value: 0.0,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("steps of y"), "{error}");
}
