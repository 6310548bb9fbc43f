//! Nothing is stated that rests on a premise which does not hold: of all solvers that certify, by the registries, and of certificates apart
//! from runs. Each false statement here was one of a point at which the truth is known; all are deterministic.

use dpopt_certify::{
    Problem, ProblemConstants, ReleasedWindow, SecondOrderPlan, SecondOrderProblem,
    SecondOrderTargets, WindowPlan, WindowSubject, WindowTerms,
};
use dpopt_linalg::{Design, Domain};
use dpopt_minimax::{
    CertificateNoise, GdaPlan, GdaSchedule, MeanFacts, PassEstimate, RgdaPassPlan,
    RgdaPassSettings, RgdaPlan, SaddleCertificateError, SaddleFacts, SaddleLimits,
    saddle_certificate,
};
use dpopt_nonconvex::{
    Budget, ExtraFacts, HessianFacts, KlCondition, Limits, NoObserver, Plan, PublicFacts, RunError,
    Withheld,
};
use dpopt_oracle::{
    Answer, AskError, BlockClips, Blocks, Books, Cell, CellShares, Constants, Convexity,
    EqualOpportunity, Glm, GroupDro, Joint, Offers, Oracle, OracleFacts, PrivateData, PrivateMean,
    Question, SaddleConstants, Scored,
};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Delta, Epsilon, Event, Mu, NoiseMultiplier, PrefixKind, Spend,
};
use dpopt_theory::{ClosedForm, SimulatedOracle};

const DIM: usize = 3;
const RECORDS: u64 = 1 << 40;

fn budget() -> Budget {
    Budget {
        epsilon: Epsilon::new(1.0).unwrap(),
        delta: Delta::new(1e-6).unwrap(),
    }
}

/// Constants of one, d1 = d2 = 3.
fn saddle() -> SaddleFacts {
    SaddleFacts {
        records: RECORDS,
        adjacency: Adjacency::ReplaceOne,
        x_dim: DIM,
        domain: Domain::ball(DIM, 1.0),
        record: SaddleConstants {
            lipschitz_x: 1.0,
            lipschitz_y: 1.0,
            smooth_xx: 1.0,
            smooth_xy: 1.0,
            smooth_yy: 1.0,
            hessian_frobenius: 2.0,
        },
        mean: MeanFacts {
            strong_concavity: 1.0,
            smooth_yy: 1.0,
            smooth_xy: 1.0,
            value_smoothness: 2.0,
            value_gap: 1.0,
            value_hessian_lipschitz: 1.0,
            joint_hessian_lipschitz: 1.0,
        },
        whole: true,
        rarest: None,
    }
}

/// All plans of both registries that certify a point by releases there, and passes that keep records for it.
fn certifying() -> Vec<Box<dyn Plan>> {
    let facts = PublicFacts::unit(RECORDS, DIM);
    let hessian = HessianFacts {
        lipschitz: 0.1,
        frobenius: 1.0,
    };
    let extra = ExtraFacts::default()
        .with_radius(1.0)
        .with_kl(KlCondition::new(1.0, 2.0).unwrap())
        .with_goldstein_radius(3.0)
        .with_hessian(hessian);
    let (limits, saddles) = (Limits::steps(20_000), SaddleLimits::steps(20_000));
    let minimisers = dpopt_nonconvex::SOLVERS.iter();
    let minimisers = minimisers.filter_map(|of| of.plan(&facts, &extra, &budget(), &limits).ok());
    let of_saddles = dpopt_minimax::SOLVERS.iter();
    let of_saddles = of_saddles.filter_map(|of| of.plan(&saddle(), &budget(), &saddles).ok());
    let prefix = PassEstimate::Prefix(PrefixKind::Tree);
    let passes = [PassEstimate::Chain, prefix, PassEstimate::Rounds].map(|estimate| {
        let settings = RgdaPassSettings::new(estimate).certified_on(0.3);
        let plan = RgdaPassPlan::new(&saddle(), &budget(), settings, &saddles).unwrap();
        Box::new(plan) as Box<dyn Plan>
    });
    let all = minimisers.chain(of_saddles).chain(passes);
    all.filter(|plan| {
        let second_order = plan.bound().is_some_and(|bound| bound.curvature.is_some());
        plan.terms().certifies() || second_order
    })
    .collect()
}

/// What an oracle says of records for which all that a plan rests on is true.
fn true_facts(plan: &dyn Plan) -> OracleFacts {
    let of = plan.field_facts();
    let frobenius = match plan.blocks() {
        Some(blocks) => 2.0 * blocks.scale.max(1.0).powi(2),
        None => 1.0,
    };
    let constants = Constants::new(of.lipschitz, of.smoothness, 1.0, Convexity::Nonconvex)
        .with_hessian_frobenius(frobenius);
    let mut facts = OracleFacts::new(plan.dim(), of.records, of.adjacency, plan.needs())
        .with_all_constants(&constants)
        .with_blocks(plan.blocks());
    if plan.blocks().is_some() {
        facts.block_lipschitz = Some([1.0, 1.0]);
        facts = facts.with_domain(Some(&saddle().domain));
    }
    facts
}

/// A loss that is zero everywhere, in so many dimensions.
struct Flat(usize);

impl Problem for Flat {
    fn dim(&self) -> usize {
        self.0
    }

    fn constants(&self) -> ProblemConstants {
        ProblemConstants::first_order(1.0, 1.0, 1.0)
    }

    fn value(&self, _: &[f64]) -> f64 {
        0.0
    }

    fn gradient(&self, _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
    }
}

impl SecondOrderProblem for Flat {
    fn hessian_vector(&self, _: &[f64], _: &[f64], out: &mut [f64]) {
        out.fill(0.0);
    }

    fn least_eigenvalue(&self, _: &[f64]) -> f64 {
        0.0
    }
}

/// An oracle that says this of itself.
struct Told<O> {
    inner: O,
    facts: OracleFacts,
}

impl<O: Oracle> Oracle for Told<O> {
    fn facts(&self) -> OracleFacts {
        self.facts
    }

    fn books(&mut self) -> &mut Books {
        self.inner.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        self.inner.answer(question)
    }
}

fn flat(problem: &Flat, facts: OracleFacts) -> impl Oracle {
    let population = ClosedForm::new(problem, RECORDS).with_hessians();
    Told {
        inner: SimulatedOracle::over(population, Adjacency::ReplaceOne, 1),
        facts,
    }
}

type Break = fn(&mut OracleFacts);

/// One premise each, and a word of the reason that is given where it does not hold.
const BROKEN: [(&str, Break); 7] = [
    ("Shortened", |of| of.whole = false),
    ("L0", |of| of.lipschitz *= 1.01),
    // Whole Hessians that are longer than their clip.
    ("C_F", |of| of.hessian_frobenius = Some(1e9)),
    ("SinglePrecision", |of| of.exact_sums = false),
    ("OtherRecords", |of| of.records += 1),
    ("OtherRecords", |of| of.adjacency = Adjacency::ZeroOut),
    ("DeclaredSize", |of| of.adjacency = Adjacency::AddRemove),
];

/// Of saddle problems: one block of a record is longer, and the other shorter, so that the joint field is as long as before.
const OF_BLOCKS: [(&str, Break); 2] = [
    ("C_x", |of| of.block_lipschitz = Some([1.3, 0.5])),
    ("C_y", |of| of.block_lipschitz = Some([0.5, 1.3])),
];

#[test]
fn no_solver_certifies_what_a_premise_is_missing_for() {
    let mut names = vec![];
    for plan in certifying() {
        let (plan, name) = (&*plan, plan.name());
        let start = vec![0.0; plan.dim()];
        let flat_loss = Flat(plan.dim());
        let run = |facts: OracleFacts| {
            let mut oracle = flat(&flat_loss, facts);
            plan.run_from(&start, &mut oracle, &mut NoObserver).unwrap()
        };
        let told = true_facts(plan);
        let fine = run(told);
        assert!(fine.bound().is_some(), "{name}: {:?}", fine.withheld());
        let saddles = plan.saddle_shape().is_some();
        let of_blocks = OF_BLOCKS.iter().filter(|_| saddles);
        for (word, change) in BROKEN.iter().chain(of_blocks) {
            let mut facts = told;
            change(&mut facts);
            let found = run(facts);
            assert_eq!(found.bound(), None, "{name} {word}");
            let why = format!("{:?}", found.withheld());
            assert!(why.contains(word), "{name} {word}: {why}");
        }
        names.push(name);
    }
    for needed in [
        "sosp",
        "adaptive-batch",
        "rgda-anytime",
        "rgda-chain",
        "rgda-prefix",
        "rgda-rounds",
    ] {
        assert!(names.contains(&needed), "{names:?}");
    }
}

/// No plan of a saddle problem runs where y is in another set than was planned for: its y* is another.
#[test]
fn no_saddle_solver_runs_on_another_domain() {
    let limits = SaddleLimits::steps(20_000);
    let mut refused = vec![];
    for solver in dpopt_minimax::SOLVERS {
        // For so many records no accountant calibrates some of those on samples.
        let planned = [RECORDS, 1 << 30].map(|records| {
            let facts = SaddleFacts {
                records,
                ..saddle()
            };
            solver.plan(&facts, &budget(), &limits)
        });
        let Some(plan) = planned.into_iter().find_map(Result::ok) else {
            continue;
        };
        let other = true_facts(&*plan).with_domain(Some(&Domain::ball(DIM, 0.5)));
        let start = vec![0.0; plan.dim()];
        let found = plan.run_from(&start, &mut flat(&Flat(plan.dim()), other), &mut NoObserver);
        assert!(matches!(found, Err(RunError::Domain { .. })), "{solver}");
        refused.push(solver.name);
    }
    assert!(
        refused.len() + 1 >= dpopt_minimax::SOLVERS.len(),
        "{refused:?}"
    );
    for pass in ["rgda-chain", "rgda-prefix", "rgda-rounds"] {
        assert!(refused.contains(&pass), "{refused:?}");
    }
}

/// Certificates apart from runs are refused by the same list before anything is charged.
#[test]
fn a_certificate_is_refused_where_a_premise_is_missing() {
    let facts = saddle();
    let noise = CertificateNoise::for_cost(&facts, 1.0, 0.01, true).unwrap();
    let told = OracleFacts::new(2 * DIM, RECORDS, Adjacency::ReplaceOne, Offers::MEANS)
        .with_constants(2f64.sqrt(), 2.0)
        .with_hessian_frobenius(2.0)
        .with_blocks(Some(facts.blocks(1.0)))
        .with_domain(Some(&facts.domain));
    let certify = |facts: &SaddleFacts, told: OracleFacts| {
        let mut oracle = flat(&Flat(2 * DIM), told);
        let cap = Event::gaussian(NoiseMultiplier::new(9.0).unwrap());
        oracle.books().reserve(&Spend::AtMost(cap)).unwrap();
        let found = saddle_certificate(facts, 1.0, &[0.0; 6], (&noise, 0.05), &mut oracle);
        let spent = oracle.books().used();
        assert_eq!(found.is_err(), spent == Event::NoOp, "{spent:?}");
        found.map(Option::unwrap)
    };
    assert!(certify(&facts, told).unwrap().hessian.is_ok());
    let more: [(&str, Break); 2] = [
        ("Domain", |of| {
            *of = of.with_domain(Some(&Domain::ball(DIM, 0.5)));
        }),
        ("Blocks", |of| {
            of.blocks = of.blocks.map(|of| Blocks { scale: 2.0, ..of });
        }),
    ];
    for (word, change) in BROKEN.iter().chain(&OF_BLOCKS).chain(&more) {
        let mut of = told;
        change(&mut of);
        let Err(SaddleCertificateError::NotCovered(why)) = certify(&facts, of) else {
            panic!("{word}");
        };
        assert!(format!("{why:?}").contains(word), "{word}: {why:?}");
    }
    // Sums over a declared number say nothing of the mean: of half as many records, half of every norm and of every distance.
    let hidden = SaddleFacts {
        adjacency: Adjacency::AddRemove,
        ..facts.clone()
    };
    let mut declared = told;
    declared.adjacency = Adjacency::AddRemove;
    let refused = certify(&hidden, declared).unwrap_err();
    let SaddleCertificateError::NotCovered(Withheld::DeclaredSize { .. }) = refused else {
        panic!("{refused}");
    };
}

/// A thousand positives, of which 2 % are of a rare group, all with the row (1).
fn rare() -> (PrivateData, Scored<GroupDro>) {
    let label = |group| {
        Cell {
            positive: true,
            group,
        }
        .label()
    };
    let labels = (0..1000).map(|i| label(usize::from(i % 50 == 0))).collect();
    let rows = Design::dense(1, vec![1.0; 1000]).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    let data = PrivateData::made_up(rows, labels, one, Adjacency::ReplaceOne, None).unwrap();
    let shares = CellShares::new(vec![[None, Some(0.98)], [None, Some(0.02)]]).unwrap();
    let objective = GroupDro::new(&shares, false, 1.0).unwrap();
    (data, Scored::with_own_clips(objective, 1.0))
}

/// At w = 0 and y in the middle every group pulls with the slope 1/2 of the logistic loss times its y: 1/2 together. The rare group's records
/// weigh 1/(2 2 %), and are shortened to four rows.
const TRUE_SLOPE: f64 = 0.5;

#[test]
fn a_window_of_a_loss_that_shortens_its_field_is_not_of_its_gradients() {
    let (data, loss) = rare();
    let scale = 0.01;
    let facts = SaddleFacts::scored(1000, Adjacency::ReplaceOne, 1, 1.0, &loss);
    let schedule = GdaSchedule {
        steps: 1,
        step_size: 1e-9,
        momentum: 0.0,
        dual_step_size: 1e-9,
        scale,
        clip: facts.record.clip(scale),
        noise_multiplier: NoiseMultiplier::new(1e-4).unwrap(),
    };
    let plan = GdaPlan::by_hand(&facts, &budget(), schedule);
    let by_plan = WindowPlan::of(&plan, 0.05).unwrap();
    assert_eq!(by_plan.subject(), WindowSubject::ClippedGradients);
    // A plan that does not know it, on an oracle that does.
    let unknown = WindowTerms {
        whole: true,
        ..*by_plan.terms()
    };
    for windows in [by_plan, WindowPlan::new(unknown).unwrap()] {
        let joint = Joint::new(loss.clone(), scale).unwrap();
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut means = PrivateMean::new(&data, joint, curator).unwrap();
        let mut none = NoObserver;
        let mut watched = ReleasedWindow::new(windows, &mut none);
        plan.run_from(&plan.start(), &mut means, &mut watched)
            .unwrap();
        let found = watched.certificate().unwrap();
        assert_eq!(found.radius, 0.0);
        // As a statement of gradients it would be false.
        assert!(found.value < 0.8 * TRUE_SLOPE, "{found:?}");
        assert_eq!(found.of, WindowSubject::ClippedGradients);
    }
}

#[test]
fn no_point_is_certified_for_a_loss_that_shortens_its_field() {
    let (data, loss) = rare();
    let scale = 0.01;
    let of = SaddleFacts::scored(1000, Adjacency::ReplaceOne, 1, 1.0, &loss);
    let facts = PublicFacts {
        row_norm: 1.0,
        ..of.joint(scale)
    };
    let frobenius = of.record.frobenius(scale).max(facts.smoothness);
    // A hair below the truth.
    let targets = SecondOrderTargets {
        gradient: 0.99 * TRUE_SLOPE,
        curvature: 0.9 * facts.smoothness,
    };
    let (frobenius, mu) = (ClipNorm::new(frobenius).unwrap(), Mu::new(1e4).unwrap());
    let plan = SecondOrderPlan::with_hessian(&facts, frobenius, mu, 0.05, targets).unwrap();
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator.reserve(&plan.spend()).unwrap();
    let joint = Joint::new(loss, scale).unwrap();
    let mut means = PrivateMean::new(&data, joint, curator).unwrap();
    let blocks = of.blocks(scale);
    let point = blocks.join(&[0.0], &[0.5, 0.5]);
    let found = plan.release(&mut means, &point).unwrap();
    assert!(found.gradient.high <= targets.gradient);
    assert!(found.curvature.unwrap().low >= -targets.curvature);
    assert_eq!(found.covered, Err(Withheld::Shortened));
    assert!(!found.certified);
}

/// Of equal opportunity with public shares the constants are those of records that have exactly these: said beside the bound.
#[test]
fn a_bound_that_rests_on_shares_says_so() {
    let pairs = vec![[Some(0.6), Some(0.1)], [Some(0.25), Some(0.05)]];
    let shares = CellShares::new(pairs).unwrap();
    let objective = EqualOpportunity::new(&shares, 1.0).unwrap();
    let whole = BlockClips {
        x: f64::INFINITY,
        y: f64::INFINITY,
    };
    let loss = Scored::new(objective, whole);
    let limits = SaddleLimits::steps(1 << 40);
    let of = |facts: &SaddleFacts| {
        let plan = RgdaPlan::new(facts, &budget(), &limits).unwrap();
        plan.bound().unwrap()
    };
    let facts = SaddleFacts::scored(1 << 60, Adjacency::ReplaceOne, 3, 1.0, &loss);
    let bound = of(&facts);
    assert!(bound.given_shares);
    let words = "each group and class has exactly its public share of the records";
    assert!(bound.subject().contains(words), "{}", bound.subject());
    let other = of(&saddle());
    assert!(!other.given_shares && !other.subject().contains("share"));
}

/// The Hessian of a convex loss has no eigenvalue below 0, whatever noise is in what was released.
#[test]
fn a_convex_loss_has_no_negative_eigenvalue() {
    let rows = Design::dense(2, [0.6, 0.8, 0.8, -0.6].repeat(100)).unwrap();
    let one = ClipNorm::new(1.0).unwrap();
    let data =
        PrivateData::made_up(rows, vec![1.0; 200], one, Adjacency::ReplaceOne, None).unwrap();
    for (loss, convex) in [(Glm::Logistic, true), (Glm::Welsch, false)] {
        let facts =
            PublicFacts::glm(200, 2, Adjacency::ReplaceOne, 1.0, loss.constants(1.0)).unwrap();
        let widest = SecondOrderTargets::widest(facts.lipschitz, facts.smoothness);
        let (frobenius, mu) = (
            ClipNorm::new(facts.smoothness).unwrap(),
            Mu::new(1.0).unwrap(),
        );
        let plan = SecondOrderPlan::with_hessian(&facts, frobenius, mu, 0.05, widest).unwrap();
        let lows = (0..20).map(|seed| {
            let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
            curator.reserve(&plan.spend()).unwrap();
            let mut means = PrivateMean::new(&data, loss, curator).unwrap();
            // Far out, where the logistic loss is flat.
            let found = plan.release(&mut means, &[30.0, 0.0]).unwrap();
            found.curvature.map(|at| (at.low, at.high))
        });
        for (low, high) in lows.flatten() {
            assert!(low <= high);
            assert_eq!(low >= 0.0, convex, "{loss}: {low}");
        }
    }
}
