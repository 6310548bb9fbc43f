//! The slice certificate: coverage over records and noise, what breaks it, and what it refuses. The rough loss of
//! [`rough`] is also the counterexample to uniform convergence without smoothing.

use dpopt_oracle::{ClosureLoss, Constants, Convexity, Differentiable, PrivateData, PrivateMean};
use dpopt_privacy::{Adjacency, Curator, Event, Mu, Spend, Which};
use dpopt_solver::PublicFacts;

use super::*;
use crate::random::Normals;
use crate::window::WindowSubject;

/// p of the population's gradient; each record's is +1 or -1 in each cell.
const SLOPE: f64 = 0.3;

/// A fair hash of a record and a cell: the mixer of SplitMix64.
fn hash(record: u64, cell: u64) -> f64 {
    let mut z = record ^ cell.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

/// Slope of a record's loss in the cell [k, k + 1) of a line: +1 with probability (1 + p)/2 over records, independently over
/// cells. Each loss is 1-Lipschitz, and the population's has slope p everywhere.
fn slope(record: u64, at: f64) -> f64 {
    if hash(record, at.floor() as u64) < 0.5 * (1.0 + SLOPE) {
        1.0
    } else {
        -1.0
    }
}

fn rough() -> impl Differentiable<Records = Vec<u64>> {
    ClosureLoss::new(
        1,
        Constants::new(1.0, f64::INFINITY, 1.0, Convexity::Nonconvex),
        |_: &u64, _: &[f64]| 0.0,
        |record: &u64, w: &[f64], out: &mut [f64]| out[0] += slope(*record, w[0]),
    )
}

fn facts(records: u64, adjacency: Adjacency) -> PublicFacts {
    let constants = Constants::new(1.0, f64::INFINITY, 1.0, Convexity::Nonconvex);
    PublicFacts::glm(records, 1, adjacency, 1.0, constants).unwrap()
}

fn mu(x: f64) -> Mu {
    Mu::new(x).unwrap()
}

fn records(random: &mut Normals, count: usize) -> Vec<u64> {
    (0..count).map(|_| random.below(u64::MAX)).collect()
}

fn held_out(records: Vec<u64>) -> PrivateData<Vec<u64>> {
    PrivateData::made_up_of(records, Adjacency::ReplaceOne, None).unwrap()
}

/// Points that do not depend on the slice are covered: the failure rate is 0.5 and the proof is loose, so that more than a
/// quarter of 400 runs missing would be a defect of the code and not of luck (none is expected). With points that were picked by
/// reading the slice, among 4,096, the claim is false in most runs: the condition matters, and the test can fail.
#[test]
fn unread_records_are_covered_and_read_ones_are_not() {
    let count = 400;
    let plan = GoldsteinSlicePlan::new(&facts(count, Adjacency::ReplaceOne), mu(20.0), 0.5, 0.5)
        .unwrap()
        .with_points_moved();
    let mut random = Normals::new(7);
    let (mut missed, mut twin) = (0, 0);
    for seed in 0..400 {
        let records = records(&mut random, count as usize);
        let mean_slope = |at: f64| {
            let sum: f64 = records.iter().map(|record| slope(*record, at)).sum();
            (sum / count as f64).abs()
        };
        let least = (0..4096).map(|k| f64::from(k) + 0.5);
        let picked = least.min_by(|a, b| mean_slope(*a).total_cmp(&mean_slope(*b)));
        let data = held_out(records.clone());
        for (at, misses) in [(17.5, &mut missed), (picked.unwrap(), &mut twin)] {
            let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
            curator.reserve(&plan.spend()).unwrap();
            let mut mean = PrivateMean::new(&data, rough(), curator).unwrap();
            let found = plan.release(&mut mean, &[at]).unwrap();
            assert_eq!(found.of, WindowSubject::GoldsteinDistance);
            *misses += u32::from(found.value < SLOPE);
        }
    }
    assert!(missed <= 100, "{missed}");
    assert!(twin > 200, "{twin}");
}

/// Without smoothing the records say nothing of the population: in every interval that holds enough cells some cell has
/// a mean slope below 0 and some above, so that the Goldstein distance of the records' mean is 0 at every point, while
/// the population's is p. More records do not help, only finer cells are needed.
#[test]
fn without_smoothing_there_is_no_uniform_convergence() {
    let mut random = Normals::new(3);
    // An interval without a cell of mean slope < 0 has probability (1 - P(Bin(n, (1 + p)/2) < n/2))^cells, and there are
    // 30 disjoint ones: below 1e-6 each.
    for (count, cells) in [(4, 400), (16, 400), (64, 5_000)] {
        let records = records(&mut random, count);
        let mean = |cell: usize| -> f64 {
            let at = cell as f64 + 0.5;
            records.iter().map(|r| slope(*r, at)).sum::<f64>() / count as f64
        };
        let slopes: Vec<f64> = (0..30 * cells).map(mean).collect();
        for interval in slopes.chunks(cells) {
            let least = interval.iter().copied().fold(f64::INFINITY, f64::min);
            let largest = interval.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            // 0 is in the hull of the slopes.
            assert!(least <= 0.0 && largest >= 0.0, "{count}");
        }
        // The population's slope is p in every cell.
        let all = slopes.iter().sum::<f64>() / slopes.len() as f64;
        let error = 5.0 / (slopes.len() as f64 * count as f64).sqrt();
        assert!((all - SLOPE).abs() < error, "{all}");
    }
}

/// The formula in 30 digits, by mpmath: L, n, d, a, R, p.
#[test]
fn the_uniform_gap_is_the_formula() {
    for (lipschitz, records, dim, a, reach, p, expected) in [
        (1.0, 10_000, 2, 0.1, 10.0, 0.05, 0.098_294_508_659_093_2),
        (1.0, 1_000_000, 10, 0.1, 10.0, 0.05, 0.019_408_539_126_394_4),
        (2.0, 100_000, 50, 0.01, 3.0, 0.001, 0.255_854_180_834_131_2),
    ] {
        let facts = PublicFacts {
            records,
            dim,
            lipschitz,
            ..facts(1, Adjacency::ReplaceOne)
        };
        let found = uniform_gradient_gap(&facts, a, reach, p).unwrap();
        assert!((found / expected - 1.0).abs() < 1e-13, "{found}");
        assert!(uniform_gradient_gap(&facts, 0.0, reach, p).is_err());
        assert!(uniform_gradient_gap(&facts, a, reach, 1.0).is_err());
    }
}

/// What is added, from its three parts by hand: n' = 2,500, L = 2, p = .05, mu = 1/2, replace-one.
#[test]
fn what_is_added_is_the_formula() {
    for (dim, noise) in [
        // sigma = 2 * 2/(2500/2) = .0032; (sqrt d + 2.716 203 031 481 73) sigma.
        (1, 0.011_891_849_700_741_5),
        (10_000, 0.328_691_849_700_741_5),
    ] {
        let facts = PublicFacts {
            dim,
            lipschitz: 2.0,
            ..facts(2_500, Adjacency::ReplaceOne)
        };
        let plan = GoldsteinSlicePlan::new(&facts, mu(0.5), 0.05, 2.0).unwrap();
        let slack = plan.slack();
        // 2 (1 + sqrt(2 ln 40))/50.
        assert!((slack.sampling - 0.148_648_121_259_269).abs() < 1e-12);
        assert!((slack.noise / noise - 1.0).abs() < 1e-8, "{}", slack.noise);
        assert!(slack.rounding < 1e-6);
    }
}

/// Where noise is nearly all that is added, it is what the quantile says: the length of a Gaussian vector in 400 dimensions
/// exceeds its mean by little, and a tenth less than what is added is exceeded nearly always.
#[test]
fn the_noise_is_covered() {
    let dim = 400;
    let constants = Constants::new(1.0, f64::INFINITY, 1.0, Convexity::Nonconvex);
    let flat = || {
        ClosureLoss::new(
            dim,
            constants,
            |_: &u64, _: &[f64]| 0.0,
            |_: &u64, _: &[f64], _: &mut [f64]| {},
        )
    };
    let facts = PublicFacts {
        dim,
        ..facts(10_000, Adjacency::ReplaceOne)
    };
    let plan = GoldsteinSlicePlan::new(&facts, mu(0.01), 0.1, 1.0).unwrap();
    let data = held_out(vec![0; 10_000]);
    let (mut above, mut near) = (0, 0);
    for seed in 0..100 {
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, seed);
        curator.reserve(&plan.spend()).unwrap();
        let mut mean = PrivateMean::new(&data, flat(), curator).unwrap();
        let found = plan.release(&mut mean, &vec![0.0; dim]).unwrap();
        above += u32::from(found.released > found.slack.noise);
        near += u32::from(found.released > 0.8 * found.slack.noise);
    }
    // The first has probability below 0.05 each: more than 20 of 100 below 1e-7.
    assert!(above <= 20 && near >= 90, "{above} {near}");
}

#[test]
fn what_is_not_covered_is_refused_and_costs_nothing() {
    use PrivateCertificateError as E;
    let replace = facts(400, Adjacency::ReplaceOne);
    for adjacency in [Adjacency::AddRemove, Adjacency::ZeroOut] {
        let other = facts(400, adjacency);
        let refused = GoldsteinSlicePlan::new(&other, mu(1.0), 0.1, 1.0);
        assert!(matches!(
            refused,
            Err(E::NoSample(NoSample::Adjacency { .. }))
        ));
        let refused = uniform_gradient_gap(&other, 0.1, 1.0, 0.1);
        assert!(matches!(
            refused,
            Err(E::NoSample(NoSample::Adjacency { .. }))
        ));
    }
    assert!(matches!(
        GoldsteinSlicePlan::new(&facts(10, Adjacency::ReplaceOne), mu(1.0), 0.1, 1.0),
        Err(E::Hopeless { .. })
    ));
    assert!(matches!(
        GoldsteinSlicePlan::new(&replace, mu(1.0), 1.0, 1.0),
        Err(E::OutOfRange { .. })
    ));
    let plan = GoldsteinSlicePlan::new(&replace, mu(20.0), 0.1, 1.0).unwrap();
    let data = held_out(records(&mut Normals::new(1), 400));
    let whole = Event::gaussian(plan.noise_multiplier());
    let both = Spend::Fixed(Event::composed(vec![whole, plan.spend().event().clone()]));
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
    curator.reserve(&both).unwrap();
    let mut mean = PrivateMean::new(&data, rough(), curator).unwrap();
    for points in [&[][..], &[f64::NAN], &[0.0, f64::INFINITY], &[1e200]] {
        let refused = plan.release(&mut mean, points);
        assert!(matches!(
            refused,
            Err(E::NoPoints { .. } | E::FarPoint { .. })
        ));
    }
    assert_eq!(mean.curator().spent(), Event::NoOp);
    // Points that were found with the same records.
    let query = dpopt_oracle::Linear::field(&[0.5], ClipNorm::new(1.0).unwrap());
    mean.release(&query, Which::All, plan.noise_multiplier())
        .unwrap();
    assert!(matches!(
        plan.release(&mut mean, &[0.5]),
        Err(E::NoSample(NoSample::ReadBefore { .. }))
    ));
    // A loss with kinks, at points that nothing moved.
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 2);
    curator.reserve(&plan.spend()).unwrap();
    let mut mean = PrivateMean::new(&data, rough(), curator).unwrap();
    let found = plan.release(&mut mean, &[1.5, 2.5]).unwrap();
    assert_eq!(found.of, WindowSubject::ComponentWise);
    assert_eq!((found.points, found.point), (2, vec![2.0]));
    assert!((0.5..0.501).contains(&found.radius));
    // The slice was handed out.
    let again = plan.release(&mut mean, &[1.5]);
    assert!(matches!(again, Err(E::OtherData { .. })), "{again:?}");
    // A loss with longer gradients than were planned for.
    let short = GoldsteinSlicePlan::new(
        &PublicFacts {
            lipschitz: 0.5,
            ..replace
        },
        mu(20.0),
        0.1,
        1.0,
    );
    let short = short.unwrap().with_points_moved();
    let mut curator = Curator::simulated(Adjacency::ReplaceOne, 3);
    curator.reserve(&short.spend()).unwrap();
    let mut mean = PrivateMean::new(&data, rough(), curator).unwrap();
    let found = short.release(&mut mean, &[1.5]).unwrap();
    assert_eq!(found.of, WindowSubject::ClippedGradients);
}

/// A pool that was opened for more records than there are: the noise alone would look like a stationary point.
#[test]
fn a_slice_beyond_the_records_is_refused() {
    let plan = GoldsteinSlicePlan::new(&facts(400, Adjacency::ReplaceOne), mu(20.0), 0.1, 1.0);
    let plan = plan.unwrap();
    let data = held_out(records(&mut Normals::new(1), 400));
    for skipped in [1, 400, 1_000] {
        let mut curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        curator.reserve(&plan.spend()).unwrap();
        curator.open_pool(2_000, skipped).unwrap();
        let mut mean = PrivateMean::new(&data, rough(), curator).unwrap();
        let refused = plan.release(&mut mean, &[0.5]);
        assert!(
            matches!(refused, Err(PrivateCertificateError::OtherData { .. })),
            "{refused:?}"
        );
        assert_eq!(mean.curator().spent(), Event::NoOp);
    }
}
