//! Private certificates: coverage over the noise, what they cost, and what they refuse.

use dpopt_linalg::{Design, dot, norm};
use dpopt_oracle::{AskError, Glm, PrivateData, PrivateMean, PublicRecords};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, Mu, Refused, Spend};
use dpopt_solver::PublicFacts;

use super::*;
use crate::random::Normals;
use crate::{MeanLoss, SecondOrderSettings, Verdict, first_order, second_order};

const LOSS: Glm = Glm::Welsch;
const RECORDS: usize = 400;
const DIM: usize = 12;

fn clip(x: f64) -> ClipNorm {
    ClipNorm::new(x).unwrap()
}

fn rows() -> (Design, Vec<f32>) {
    let mut random = Normals::new(1);
    let mut entries = Vec::new();
    let mut labels = Vec::new();
    for i in 0..RECORDS {
        let mut row = random.direction(DIM);
        // Most rows lean to the first axis, so that a saddle stands out there.
        row[0] += 1.5;
        let length = norm(&row);
        entries.extend(row.iter().map(|x| x / length * 0.999));
        labels.push(if i % 2 == 0 { 2.0 } else { -2.0 });
    }
    (Design::dense(DIM, entries).unwrap(), labels)
}

fn private(adjacency: Adjacency) -> PrivateData {
    let (design, labels) = rows();
    PrivateData::made_up(design, labels, clip(1.0), adjacency, Some(RECORDS as u64)).unwrap()
}

fn facts(adjacency: Adjacency) -> PublicFacts {
    PublicFacts::glm(RECORDS as u64, DIM, adjacency, 1.0, LOSS.constants(1.0)).unwrap()
}

fn mu(x: f64) -> Mu {
    Mu::new(x).unwrap()
}

/// Releases with curators of many seeds; how often `miss` says that the interval missed.
fn misses(
    data: &PrivateData,
    spend: &Spend,
    runs: u64,
    mut miss: impl FnMut(&mut PrivateMean<'_, Glm>) -> bool,
) -> u32 {
    let mut count = 0;
    for seed in 0..runs {
        let mut curator = Curator::simulated(data.adjacency(), seed);
        curator.reserve(spend).unwrap();
        let mut mean = PrivateMean::new(data, LOSS, curator).unwrap();
        count += u32::from(miss(&mut mean));
        assert!(mean.curator_mut().settle().is_ok());
    }
    count
}

/// At a failure rate of 0.1, more than 150 misses in 1000 runs have probability below 1e-6, and fewer
/// than 55 too: the interval of one number is neither too short nor too long.
#[test]
fn the_gradient_norm_is_covered() {
    let (design, labels) = rows();
    let public = PublicRecords::new(design, labels, clip(1.0)).unwrap();
    let point: Vec<f64> = Normals::new(4)
        .vector(DIM)
        .iter()
        .map(|x| 0.5 * x)
        .collect();
    let exact = first_order(&MeanLoss::new(&public, &LOSS).unwrap(), &point)
        .unwrap()
        .gradient_norm;
    for adjacency in [
        Adjacency::ReplaceOne,
        Adjacency::AddRemove,
        Adjacency::ZeroOut,
    ] {
        let data = private(adjacency);
        let facts = facts(adjacency);
        let plan = GradientNormPlan::new(&facts, mu(0.5), clip(facts.lipschitz), 0.1, 0.2).unwrap();
        let mut twin = 0;
        let missed = misses(&data, &plan.spend(), 1000, |mean| {
            let found = plan.release(mean, &point).unwrap();
            assert!(found.interval.high - found.interval.low <= plan.width * (1.0 + 1e-12));
            assert!((found.noise_std / plan.noise_std - 1.0).abs() < 1e-8);
            // A twin that takes the sensitivity of a sum for half of what it is.
            twin += u32::from((found.released - exact).abs() > 0.25 * plan.width);
            !(found.interval.low <= exact && exact <= found.interval.high)
        });
        assert!((55..=150).contains(&missed), "{adjacency} {missed}");
        assert!(twin > 300, "{twin}");
    }
}

/// Each end of the eigenvalue's interval misses with probability at most 0.05: more than 90 of 1000 have probability
/// below 1e-6. A twin without sqrt(2d) at the upper end misses nearly always where the spectrum is flat.
#[test]
fn the_least_eigenvalue_is_covered_at_both_ends() {
    let (design, labels) = rows();
    let public = PublicRecords::new(design, labels, clip(1.0)).unwrap();
    let objective = MeanLoss::new(&public, &LOSS).unwrap();
    let facts = facts(Adjacency::ReplaceOne);
    let data = private(Adjacency::ReplaceOne);
    let plan = LeastEigenvaluePlan::new(&facts, mu(0.5), clip(facts.smoothness), 0.1, 0.5).unwrap();
    // A saddle that stands out, and a point far away whose Hessian is nearly 0 in all directions.
    let (mut far, mut twin) = (vec![0.0; DIM], 0);
    far[0] = 30.0;
    for (point, flat) in [(vec![0.0; DIM], false), (far, true)] {
        let exact = second_order(&objective, &point, &SecondOrderSettings::default())
            .unwrap()
            .least_eigenvalue;
        let (mut low, mut high) = (0, 0);
        misses(&data, &plan.spend(), 1000, |mean| {
            let found = plan.release(mean, &point).unwrap();
            low += u32::from(exact < found.interval.low);
            high += u32::from(exact > found.interval.high);
            twin += u32::from(flat && exact > found.released + 2.0 * found.noise_std);
            false
        });
        assert!(low <= 90 && high <= 90, "{low} {high}");
    }
    assert!(twin > 800, "{twin}");
}

/// What is released is the Hessian: with little noise its spectrum is the exact one.
#[test]
fn with_a_large_budget_the_numbers_are_exact() {
    let (design, labels) = rows();
    let public = PublicRecords::new(design, labels, clip(1.0)).unwrap();
    let objective = MeanLoss::new(&public, &LOSS).unwrap();
    let point: Vec<f64> = (0..DIM).map(|j| 0.1 * j as f64).collect();
    let exact = second_order(&objective, &point, &SecondOrderSettings::default()).unwrap();
    let facts = facts(Adjacency::ReplaceOne);
    let data = private(Adjacency::ReplaceOne);
    let plan =
        LeastEigenvaluePlan::new(&facts, mu(1e5), clip(facts.smoothness), 0.05, 1e-3).unwrap();
    let norm_plan =
        GradientNormPlan::new(&facts, mu(1e5), clip(facts.lipschitz), 0.05, 1e-3).unwrap();
    let both = Spend::Fixed(Event::composed(vec![
        Event::gaussian(plan.noise_multiplier),
        Event::gaussian(norm_plan.noise_multiplier),
    ]));
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator.reserve(&both).unwrap();
    let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
    let found = plan.release(&mut mean, &point).unwrap();
    assert!((found.released - exact.least_eigenvalue).abs() < 1e-6);
    assert!(dot(&found.direction, &exact.direction).abs() > 1.0 - 1e-4);
    let norm = norm_plan.release(&mut mean, &point).unwrap();
    assert!((norm.released - exact.gradient_norm).abs() < 1e-6);
    assert_eq!(
        norm.interval.at_most(exact.gradient_norm + 1e-4),
        Verdict::Yes
    );
    assert_eq!(
        norm.interval.at_most(exact.gradient_norm - 1e-4),
        Verdict::No
    );
    assert_eq!(
        found.interval.at_least(exact.least_eigenvalue),
        Verdict::Undecided
    );
    // Threads change nothing, and a third release is not paid for.
    let third = norm_plan.release(&mut mean, &point);
    assert!(matches!(
        third,
        Err(PrivateCertificateError::Ask(AskError::Refused(
            Refused::NotReserved { .. }
        )))
    ));
}

#[test]
fn the_event_is_the_plans() {
    let facts = facts(Adjacency::AddRemove);
    let data = private(Adjacency::AddRemove);
    let plan = GradientNormPlan::new(&facts, mu(0.5), clip(facts.lipschitz), 0.1, 0.5).unwrap();
    assert!(plan.noise_multiplier.get() >= 2.0 && plan.noise_multiplier.get() < 2.0 + 1e-12);
    let mut curator = Curator::simulated(Adjacency::AddRemove, 1);
    curator.reserve(&plan.spend()).unwrap();
    let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
    plan.release(&mut mean, &[0.1; DIM]).unwrap();
    assert_eq!(
        mean.curator_mut().settle().unwrap(),
        Event::gaussian(plan.noise_multiplier).repeated(1)
    );
}

#[test]
fn what_would_say_nothing_is_refused_with_numbers() {
    let facts = facts(Adjacency::ReplaceOne);
    let l0 = clip(facts.lipschitz);
    let vacuous = |r: Result<f64, PrivateCertificateError>| match r {
        Err(PrivateCertificateError::Vacuous { width, limit, .. }) => width >= limit,
        _ => false,
    };
    assert!(vacuous(
        GradientNormPlan::new(&facts, mu(1e-3), l0, 0.05, 10.0).map(|p| p.width)
    ));
    assert!(vacuous(
        GradientNormPlan::new(&facts, mu(0.5), l0, 0.05, 1e-3).map(|p| p.width)
    ));
    let l1 = clip(facts.smoothness);
    assert!(vacuous(
        LeastEigenvaluePlan::new(&facts, mu(0.01), l1, 0.05, 10.0).map(|p| p.above)
    ));
    for failure in [0.0, 1.0, f64::NAN] {
        assert!(matches!(
            GradientNormPlan::new(&facts, mu(1.0), l0, failure, 1.0),
            Err(PrivateCertificateError::OutOfRange {
                name: "failure",
                ..
            })
        ));
    }
    let wide = PublicFacts {
        dim: MAX_PRIVATE_HESSIAN_DIM + 1,
        ..facts
    };
    assert!(matches!(
        LeastEigenvaluePlan::new(&wide, mu(1.0), l1, 0.05, 1.0),
        Err(PrivateCertificateError::TooManyDimensions { .. })
    ));
    // Another size, another point.
    let data = private(Adjacency::ReplaceOne);
    let more = PublicFacts {
        records: 500,
        ..facts
    };
    let plan = GradientNormPlan::new(&more, mu(0.5), l0, 0.1, 0.5).unwrap();
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator.reserve(&plan.spend()).unwrap();
    let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
    assert!(matches!(
        plan.release(&mut mean, &[0.0; DIM]),
        Err(PrivateCertificateError::OtherData { planned: 500, .. })
    ));
    let plan = GradientNormPlan::new(&facts, mu(0.5), l0, 0.1, 0.5).unwrap();
    assert!(matches!(
        plan.release(&mut mean, &[0.0; 3]),
        Err(PrivateCertificateError::Ask(AskError::Shape { .. }))
    ));
}

/// Noise under replace-one is twice as wide as under the other adjacencies, so an interval planned for them would be too
/// short by half.
#[test]
fn data_of_another_adjacency_are_refused() {
    let all = [
        Adjacency::ReplaceOne,
        Adjacency::ZeroOut,
        Adjacency::AddRemove,
    ];
    for (planned, found) in all.iter().flat_map(|a| all.map(|b| (*a, b))) {
        let facts = facts(planned);
        let (l0, l1) = (clip(facts.lipschitz), clip(facts.smoothness));
        let norm = GradientNormPlan::new(&facts, mu(4.0), l0, 0.1, 10.0).unwrap();
        let least = LeastEigenvaluePlan::new(&facts, mu(4.0), l1, 0.1, 10.0).unwrap();
        let data = private(found);
        let refused = |release: &dyn Fn(&mut PrivateMean<'_, Glm>) -> PrivateCertificateError| {
            let mut curator = Curator::simulated(found, 1);
            curator.reserve(&norm.spend()).unwrap();
            let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
            let error = release(&mut mean);
            let spent = mean.curator_mut().settle().unwrap();
            assert_eq!(spent, Event::NoOp);
            matches!(error, PrivateCertificateError::OtherAdjacency { .. })
        };
        if planned != found {
            let at = [0.0; DIM];
            assert!(refused(&|mean| norm.release(mean, &at).unwrap_err()));
            assert!(refused(&|mean| least.release(mean, &at).unwrap_err()));
        }
    }
}

/// Quantiles of the normal law from tables; the bound is above them by at most 1 % up to a rate of 0.1.
#[test]
fn the_two_sided_quantile() {
    for (failure, quantile) in [
        (0.1, 1.644_853_627),
        (0.05, 1.959_963_985),
        (0.01, 2.575_829_304),
        (1e-6, 4.891_638_475),
    ] {
        let found = two_sided(failure);
        assert!(
            found >= quantile && found <= 1.01 * quantile,
            "{failure} {found}"
        );
    }
}

/// Each line of a second-order certificate is false with probability at most p/2 = 0.05. The targets are a hair below the
/// truth, so that every certificate is false: above 80 in 1000 runs has probability below 1e-4 if the rate is 0.05. A twin
/// without margins certifies far more often. With targets that leave room for noise most runs certify.
#[test]
fn a_false_second_order_certificate_is_rare() {
    let (design, labels) = rows();
    let public = PublicRecords::new(design, labels, clip(1.0)).unwrap();
    let objective = MeanLoss::new(&public, &LOSS).unwrap();
    // At 0 the curvature along the first axis is negative.
    let point = vec![0.0; DIM];
    let exact = second_order(&objective, &point, &SecondOrderSettings::default()).unwrap();
    assert!(exact.least_eigenvalue < 0.0);
    let data = private(Adjacency::ReplaceOne);
    let facts = facts(Adjacency::ReplaceOne);
    let below = 1.0 - 1e-6;
    let truth = SecondOrderTargets {
        gradient: exact.gradient_norm,
        curvature: -exact.least_eigenvalue,
    };
    let plan = |gradient, curvature| {
        let targets = SecondOrderTargets {
            gradient,
            curvature,
        };
        let frobenius = clip(facts.smoothness);
        SecondOrderPlan::new(&facts, frobenius, mu(4.0), 0.1, targets).unwrap()
    };
    for plan in [
        plan(below * truth.gradient, 0.9 * facts.smoothness),
        plan(0.9 * facts.lipschitz, below * truth.curvature),
    ] {
        let mut twin = 0;
        let missed = misses(&data, &plan.spend(), 1000, |mean| {
            let found = plan.release(mean, &point).unwrap();
            let margins = plan.margins();
            let gradient = found.gradient.high - margins.gradient;
            let curvature = found.curvature.map_or(0.0, |at| at.low + margins.curvature);
            twin += u32::from(
                gradient <= found.targets.gradient && curvature >= -found.targets.curvature,
            );
            found.certified
        });
        assert!(missed <= 80, "{missed}");
        assert!(twin > 150, "{twin}");
    }
    let margins = plan(0.3, 0.3).margins();
    let room = plan(
        truth.gradient + 3.0 * margins.gradient,
        truth.curvature + 6.0 * margins.curvature,
    );
    let certified = misses(&data, &room.spend(), 200, |mean| {
        room.release(mean, &point).unwrap().certified
    });
    assert!(certified > 150, "{certified}");
}

#[test]
fn a_second_order_plan_spends_no_more_than_it_is_given_and_says_what_would_be_vacuous() {
    use PrivateCertificateError as E;
    let facts = facts(Adjacency::ReplaceOne);
    let frobenius = clip(facts.smoothness);
    let plan = |alpha, lambda, failure| {
        let targets = SecondOrderTargets {
            gradient: alpha,
            curvature: lambda,
        };
        SecondOrderPlan::new(&facts, frobenius, mu(1.0), failure, targets)
    };
    for (alpha, lambda) in [(0.3, 0.3), (0.5, 0.1), (0.1, 0.5)] {
        let spend = plan(alpha, lambda, 0.05).unwrap().spend();
        let Event::Composed { events } = spend.event() else {
            panic!("{spend:?}")
        };
        let squares = events.iter().map(|event| match event {
            Event::Gaussian { noise_multiplier } => noise_multiplier.get().powi(-2),
            other => panic!("{other:?}"),
        });
        let spent: f64 = squares.sum();
        assert!((0.999_999..=1.0).contains(&spent), "{spent}");
    }
    assert!(matches!(
        plan(1e-3, 0.3, 0.05),
        Err(E::Hopeless { what: "the gradient norm", limit, .. }) if limit == 1e-3
    ));
    assert!(matches!(plan(0.3, 1e-4, 0.05), Err(E::Hopeless { .. })));
    let (gradient, curvature) = (facts.lipschitz, facts.smoothness);
    assert!(matches!(plan(gradient, 0.3, 0.05), Err(E::Trivial { .. })));
    assert!(matches!(plan(0.3, curvature, 0.05), Err(E::Trivial { .. })));
    let targets = SecondOrderTargets {
        gradient: 0.3,
        curvature: 0.3,
    };
    let short = SecondOrderPlan::new(&facts, clip(0.9 * curvature), mu(1.0), 0.05, targets);
    assert!(matches!(short, Err(E::OutOfRange { .. })));
    for (alpha, lambda, failure) in [
        (0.0, 0.5, 0.05),
        (0.3, f64::NAN, 0.05),
        (0.3, 0.3, 1.0),
        (f64::INFINITY, 0.3, 0.05),
    ] {
        let refused = plan(alpha, lambda, failure);
        assert!(matches!(refused, Err(E::OutOfRange { .. })), "{refused:?}");
    }
    let coupled = SecondOrderTargets::coupled(0.04, 4.0);
    assert_eq!((coupled.gradient, coupled.curvature), (0.04, 0.4));
}

/// A point at which all contributions would be zero is refused, and where the gradient is too long the Hessian is not paid for.
#[test]
fn no_private_certificate_is_made_at_a_point_out_of_reach() {
    use PrivateCertificateError as E;
    let data = private(Adjacency::ReplaceOne);
    let facts = facts(Adjacency::ReplaceOne);
    let one = clip(1.0);
    let targets = SecondOrderTargets {
        gradient: 0.05,
        curvature: 0.3,
    };
    let second = SecondOrderPlan::new(&facts, one, mu(4.0), 0.05, targets).unwrap();
    let norm = GradientNormPlan::new(&facts, mu(1.0), one, 0.05, 1.0).unwrap();
    let eigenvalue = LeastEigenvaluePlan::new(&facts, mu(1.0), one, 0.05, 2.0).unwrap();
    let spend = Spend::Fixed(Event::composed(vec![
        norm.spend().event().clone(),
        eigenvalue.spend().event().clone(),
        second.spend().event().clone(),
    ]));
    let mut curator = Curator::simulated(data.adjacency(), 5);
    curator.reserve(&spend).unwrap();
    let mut mean = PrivateMean::new(&data, LOSS, curator).unwrap();
    for bad in [f64::NAN, f64::INFINITY, -1e101] {
        let mut point = vec![0.0; DIM];
        point[3] = bad;
        let far = |refused: Result<(), E>| assert!(matches!(refused, Err(E::FarPoint { .. })));
        far(norm.release(&mut mean, &point).map(drop));
        far(eigenvalue.release(&mut mean, &point).map(drop));
        far(second.release(&mut mean, &point).map(drop));
    }
    assert_eq!(mean.curator().spent(), Event::NoOp);
    // Far from the minimum the gradient is longer than 0.05: one release.
    let found = second.release(&mut mean, &[0.5; DIM]).unwrap();
    assert!(!found.certified && found.curvature.is_none() && found.covered.is_ok());
    let spend = second.spend();
    let Event::Composed { events } = spend.event() else {
        panic!("two events")
    };
    let one = events[0].clone().repeated(1);
    assert_eq!(mean.curator_mut().settle().unwrap(), one);
}
