//! Estimators against closed forms and hand counts: what they estimate, read, release, charge and refuse.

use std::sync::atomic::{AtomicU64, Ordering};

use dpopt_oracle::{
    AskError, Batch, ClosureLoss, Constants, Convexity, Counts, Differentiable, Drift,
    EstimatorError, Fresh, Level, Linear, Oracle, PrivateData, PrivateMean, Recursive,
    RecursiveSettings, Refresh, Running, Schedule, StepKind, TreeRounds,
};
use dpopt_privacy::accounting::costs::squared_mu;
use dpopt_privacy::{Adjacency, Curator, Event, PoolError, Refused, SamplingRate, Spend, Which};

use crate::follow::{Follow, On};

use crate::common::{clip, z};

const DIM: usize = 2;
const N: usize = 64;
/// So little noise that closed forms can be read off.
const QUIET: f64 = 1e-5;

type Record = [f64; DIM];

fn level(batch: Batch, multiplier: f64) -> Level {
    Level {
        batch,
        noise_multiplier: z(multiplier),
    }
}

/// |w - x|^2 / 2 on a region where gradients are at most 8 long; L1 = 1.
fn loss() -> impl Differentiable<Records = Vec<Record>> {
    let constants = Constants::new(8.0, 1.0, 32.0, Convexity::Convex);
    let value = |x: &Record, w: &[f64]| 0.5 * ((w[0] - x[0]).powi(2) + (w[1] - x[1]).powi(2));
    ClosureLoss::new(
        DIM,
        constants,
        value,
        |x: &Record, w: &[f64], out: &mut [f64]| {
            out[0] += w[0] - x[0];
            out[1] += w[1] - x[1];
        },
    )
}

/// All alike, so that every batch has the same mean.
fn alike() -> PrivateData<Vec<Record>> {
    data(Adjacency::ReplaceOne)
}

fn data(adjacency: Adjacency) -> PrivateData<Vec<Record>> {
    PrivateData::made_up_of(vec![[1.0, -2.0]; N], adjacency, Some(N as u64)).unwrap()
}

fn means<'a>(
    data: &'a PrivateData<Vec<Record>>,
    seed: u64,
) -> PrivateMean<'a, impl Differentiable<Records = Vec<Record>>> {
    let curator = Curator::simulated(data.adjacency(), seed);
    PrivateMean::new(data, loss(), curator).unwrap()
}

fn recursive<O: Oracle>(oracle: O, settings: RecursiveSettings) -> On<O, Recursive> {
    let tracker = Recursive::new(oracle.facts().dim, settings).unwrap();
    On { oracle, tracker }
}

/// Steps of length 0.5 each.
fn points(count: usize) -> Vec<Record> {
    (0..count).map(|t| [0.5 * t as f64, 0.25]).collect()
}

fn is_near(found: &[f64], point: &[f64], tolerance: f64) -> bool {
    let exact = [point[0] - 1.0, point[1] + 2.0];
    found
        .iter()
        .zip(exact)
        .all(|(f, e)| (f - e).abs() < tolerance)
}

fn settings(anchor: Batch, variation: Batch, refresh: Refresh) -> RecursiveSettings {
    RecursiveSettings {
        clip: clip(8.0),
        anchor: level(anchor, QUIET),
        variation: level(variation, 2.0 * QUIET),
        refresh,
    }
}

fn recursive_spend(settings: &RecursiveSettings, anchors: u64, variations: u64) -> Spend {
    Schedule::new(N as u64)
        .recursive(settings, anchors, variations)
        .spend()
}

/// Walks over the points and says what was released; each estimate is the closed form.
fn walk<O: Oracle, T: Follow>(tracker: &mut On<O, T>, points: &[Record]) -> Vec<StepKind> {
    points
        .iter()
        .map(|point| {
            let tracked = tracker.estimate(point).unwrap();
            let estimate = tracked.estimate;
            // Seven standard deviations, and the rounding to the lattice of up to 10 releases.
            let tolerance = 7.0 * estimate.noise_std + 1e-6;
            assert!(tolerance < 0.01);
            assert!(is_near(estimate.gradient, point, tolerance), "{estimate:?}");
            tracked.kind
        })
        .collect()
}

fn counts(found: Counts) -> (u64, f64, f64, f64, f64) {
    let Counts {
        releases,
        records,
        gradients,
        values,
        passes,
        ..
    } = found;
    (releases, records, gradients, values, passes)
}

/// Seven points, an anchor at every third: 3 anchors, 4 variations. Records, gradients, and what is charged, by
/// hand for each access.
#[test]
fn every_access_reads_charges_and_counts_what_it_should() {
    let data = alike();
    let rate = SamplingRate::new(0.25).unwrap();
    let (near, far) = (Event::gaussian(z(QUIET)), Event::gaussian(z(2.0 * QUIET)));
    let fixed = |event: &Event| Event::SampledWithoutReplacement {
        source_dataset_size: 64,
        sample_size: 8,
        event: Box::new(event.clone()),
    };
    let whole = |near: Event, far: Event| Event::composed(vec![near.repeated(3), far.repeated(4)]);
    let slices = |events| Event::ParallelComposed { events };
    let cases = [
        (
            (Batch::All, Batch::All),
            whole(near.clone(), far.clone()),
            (7.0 * 64.0, (3.0 + 8.0) * 64.0),
        ),
        (
            (Batch::FixedSize(8), Batch::FixedSize(8)),
            whole(fixed(&near), fixed(&far)),
            (7.0 * 8.0, 11.0 * 8.0),
        ),
        (
            (Batch::Next(10), Batch::Next(4)),
            slices(vec![near.clone(), far.clone()]),
            (30.0 + 16.0, 30.0 + 32.0),
        ),
        (
            (Batch::Held(10), Batch::Held(10)),
            slices(vec![whole(near.clone(), far.clone())]),
            (70.0, 110.0),
        ),
        (
            (Batch::All, Batch::Next(5)),
            Event::composed(vec![near.clone().repeated(3), slices(vec![far.clone()])]),
            (3.0 * 64.0 + 20.0, 3.0 * 64.0 + 40.0),
        ),
    ];
    for ((anchor, variation), event, (records, gradients)) in cases {
        let settings = settings(anchor, variation, Refresh::every(3));
        let spend = recursive_spend(&settings, 3, 4);
        assert_eq!(spend, Spend::Fixed(event.clone()), "{anchor:?}");
        let mut tracker = recursive(means(&data, 3), settings);
        tracker.books().reserve(&spend).unwrap();
        let kinds = walk(&mut tracker, &points(7));
        for (t, kind) in kinds.iter().enumerate() {
            assert_eq!(*kind == StepKind::Anchor, t % 3 == 0, "{anchor:?} {t}");
        }
        let expected = (7, records, gradients, 0.0, gradients / 64.0);
        assert_eq!(counts(tracker.books().counts()), expected, "{anchor:?}");
        let spent = tracker.books().settle().unwrap();
        let cost = |event| squared_mu(event, Adjacency::ReplaceOne);
        if let (Ok(spent), Ok(planned)) = (cost(&spent), cost(&event)) {
            assert!((spent / planned - 1.0).abs() < 1e-9, "{anchor:?}");
        }
    }
    // Poisson samples differ in size; their counts are nominal.
    let settings = settings(
        Batch::Poisson(rate),
        Batch::Poisson(rate),
        Refresh::every(3),
    );
    let spend = recursive_spend(&settings, 3, 4);
    let sampled = whole(near.poisson_sampled(rate), far.poisson_sampled(rate));
    assert_eq!(spend, Spend::Fixed(sampled));
    let mut tracker = recursive(means(&data, 3), settings);
    tracker.books().reserve(&spend).unwrap();
    for point in points(7) {
        tracker.estimate(&point).unwrap();
    }
    assert_eq!(
        counts(tracker.books().counts()),
        (7, 7.0 * 16.0, 11.0 * 16.0, 0.0, 11.0 * 16.0 / 64.0)
    );
    assert_eq!(tracker.books().settle().unwrap(), *spend.event());
}

#[test]
fn a_fresh_estimate_is_an_anchor_each_time() {
    let data = alike();
    for (batch, records) in [(Batch::Next(9), 27.0), (Batch::Held(5), 15.0)] {
        let spend = Schedule::new(64).releases(level(batch, QUIET), 3).spend();
        let mut tracker = On {
            oracle: means(&data, 1),
            tracker: Fresh::new(DIM, clip(8.0), level(batch, QUIET)).unwrap(),
        };
        tracker.books().reserve(&spend).unwrap();
        assert_eq!(walk(&mut tracker, &points(3)), [StepKind::Anchor; 3]);
        assert_eq!(
            counts(tracker.books().counts()),
            (3, records, records, 0.0, records / 64.0)
        );
        // Three times on one slice, or once on each of three.
        let times = if batch == Batch::Held(5) { 3.0 } else { 1.0 };
        let cost = squared_mu(&tracker.books().settle().unwrap(), Adjacency::ReplaceOne).unwrap();
        assert!((cost * QUIET * QUIET / times - 1.0).abs() < 1e-9);
    }
}

/// The noise of an estimate is that of its anchor and of all variations since, each in proportion to its own
/// displacement.
#[test]
fn noise_adds_up_since_the_anchor() {
    let data = alike();
    let settings = settings(Batch::All, Batch::All, Refresh::every(4));
    let mut tracker = recursive(means(&data, 3), settings);
    tracker
        .books()
        .reserve(&recursive_spend(&settings, 2, 4))
        .unwrap();
    let anchor = 2.0 * 8.0 * QUIET / 64.0;
    let variation = 2.0 * 0.5 * (2.0 * QUIET) / 64.0;
    for (t, point) in points(6).iter().enumerate() {
        let estimate = tracker.estimate(point).unwrap().estimate;
        let since = (t % 4) as f64;
        let expected = (anchor.powi(2) + since * variation.powi(2)).sqrt();
        assert!((estimate.noise_std / expected - 1.0).abs() < 1e-9, "{t}");
    }
}

/// In 4096 coordinates the empirical variance is within 6 standard deviations, sqrt(2/4096) each, of the stated one:
/// a false alarm in 2e-9 for each of 6 checks. Records that contribute nothing leave the noise alone.
#[test]
fn the_noise_is_as_large_as_stated() {
    const WIDE: usize = 4096;
    let constants = Constants::new(1.0, 1.0, 1.0, Convexity::Convex);
    let loss = ClosureLoss::new(
        WIDE,
        constants,
        |_: &Record, _: &[f64]| 0.0,
        |_: &Record, _: &[f64], _: &mut [f64]| {},
    );
    let data = alike();
    let mean = PrivateMean::new(&data, loss, Curator::simulated(Adjacency::ReplaceOne, 7)).unwrap();
    let level = |multiplier| level(Batch::All, multiplier);
    let settings = RecursiveSettings {
        clip: clip(1.0),
        anchor: level(2.0),
        variation: level(3.0),
        refresh: Refresh::every(4),
    };
    let mut tracker = recursive(mean, settings);
    tracker
        .books()
        .reserve(&recursive_spend(&settings, 2, 4))
        .unwrap();
    for t in 0..6 {
        // Steps of length 64: changes are clipped to 2C.
        let estimate = tracker
            .estimate(&vec![f64::from(t); WIDE])
            .unwrap()
            .estimate;
        let since = f64::from(t % 4);
        let expected = (2.0f64 * 2.0 / 64.0).powi(2) + since * (2.0f64 * 2.0 * 3.0 / 64.0).powi(2);
        assert!((estimate.noise_std.powi(2) / expected - 1.0).abs() < 1e-9);
        let squares: f64 = estimate.gradient.iter().map(|g| g * g).sum();
        let found = squares / WIDE as f64 / expected;
        assert!(
            (found - 1.0).abs() < 6.0 * (2.0 / WIDE as f64).sqrt(),
            "{t}: {found}"
        );
    }
}

/// A point that does not move costs nothing, whatever is left of the reservation and of the pool.
#[test]
fn a_held_estimate_is_free() {
    let data = alike();
    let settings = settings(Batch::Next(10), Batch::Next(5), Refresh::by_phase());
    let mut tracker = recursive(means(&data, 3), settings);
    tracker
        .books()
        .reserve(&recursive_spend(&settings, 1, 0))
        .unwrap();
    let point = [0.3, 0.4];
    let first = tracker.estimate(&point).unwrap().estimate.gradient.to_vec();
    let before = tracker.books().counts();
    let held = tracker.estimate(&point).unwrap();
    assert_eq!(
        (held.kind, held.estimate.release_std),
        (StepKind::Held, 0.0)
    );
    assert_eq!(held.estimate.gradient, first);
    assert_eq!(tracker.books().counts(), before);
    assert_eq!(tracker.books().records_left(), 54);
    // A move is not in the reservation, and changes nothing.
    assert!(matches!(
        tracker.estimate(&[0.3, 0.5]),
        Err(AskError::Refused(Refused::NotReserved { .. }))
    ));
    assert_eq!(tracker.books().records_left(), 54);
    assert_eq!(tracker.estimate(&point).unwrap().estimate.gradient, first);
}

/// Batches in proportion to the displacement; an anchor where it needs no more records.
#[test]
fn batches_follow_the_displacement() {
    let data = alike();
    let refresh = Refresh::on(Drift::Path(1.0));
    let settings = settings(Batch::Next(12), Batch::PerLength(20.0), refresh);
    let mut tracker = recursive(means(&data, 3), settings);
    tracker
        .books()
        .reserve(&recursive_spend(&settings, 1, 1))
        .unwrap();
    // Lengths: anchor; 0.3 -> 6 records; 1e-9 -> 1; 0.22 -> 5 (4.4 rounded up); 0.6 would be 12, so an
    // anchor, as its drift of 1.12 would be; then 0.
    let path = [0.0, 0.3, 0.3 + 1e-9, 0.52, 1.12, 1.12];
    let read = [12.0, 6.0, 1.0, 5.0, 12.0, 0.0];
    let mut total = 0.0;
    for (w, read) in path.into_iter().zip(read) {
        tracker.estimate(&[w, 0.0]).unwrap();
        total += read;
        assert_eq!(tracker.books().counts().records, total, "{w}");
    }
    // Drift alone: 0.1 at a time, the anchor comes when the path is 1 long.
    let mut drift = recursive(means(&data, 3), settings);
    drift
        .books()
        .reserve(&recursive_spend(&settings, 1, 1))
        .unwrap();
    let path: Vec<Record> = (0..=9).map(|t| [0.125 * f64::from(t), 0.0]).collect();
    let kinds = walk(&mut drift, &path);
    let anchors: Vec<usize> = (0..kinds.len())
        .filter(|&t| kinds[t] == StepKind::Anchor)
        .collect();
    assert_eq!(anchors, [0, 8]);
}

#[test]
fn a_phase_begins_with_an_anchor_on_its_own_slice() {
    let data = alike();
    let batch = Batch::Held(20);
    let first = settings(batch, batch, Refresh::by_phase());
    let mut tracker = recursive(means(&data, 3), first);
    tracker
        .books()
        .reserve(&recursive_spend(&first, 1, 2))
        .unwrap();
    for phase in 1..=3_u64 {
        let kinds = walk(&mut tracker, &points(3));
        assert_eq!(kinds[0], StepKind::Anchor);
        assert_eq!(kinds[1..], [StepKind::Variation; 2]);
        assert_eq!(tracker.books().records_left(), 64 - 20 * phase);
        tracker.begin_phase();
    }
    // No slice of 20 is left, and what is left stays.
    assert!(matches!(
        tracker.estimate(&[0.0, 0.0]),
        Err(AskError::Refused(Refused::Pool(PoolError::UsedUp {
            asked: 20,
            left: 4
        })))
    ));
    tracker
        .tracker
        .begin_phase_with(settings(Batch::Next(4), Batch::Next(4), first.refresh))
        .unwrap();
    assert!(tracker.estimate(&[0.0, 0.0]).is_ok());
    // The anchor and the variations of each of three slices, at z and 2z.
    let cost = squared_mu(&tracker.books().settle().unwrap(), Adjacency::ReplaceOne).unwrap();
    assert!((cost * QUIET * QUIET - 1.5).abs() < 1e-9, "{cost}");
}

/// Depth 2: a round of four leaves reads b, m2, m1, m2 records; leaf 3 is the root, the right child at depth 1 and
/// that at depth 2.
#[test]
fn tree_rounds_go_from_parent_to_child() {
    let data = alike();
    let levels = vec![
        level(Batch::Next(8), QUIET),
        level(Batch::Next(4), QUIET),
        level(Batch::Next(2), QUIET),
    ];
    let spend = levels
        .iter()
        .fold(Schedule::new(64), |all, level| all.releases(*level, 9))
        .spend();
    // All multipliers are alike, so each record pays for one Gaussian.
    let one = Event::ParallelComposed {
        events: vec![Event::gaussian(z(QUIET))],
    };
    assert_eq!(spend, Spend::Fixed(one));
    let mut tracker = On {
        oracle: means(&data, 3),
        tracker: TreeRounds::new(DIM, clip(8.0), levels).unwrap(),
    };
    tracker.books().reserve(&spend).unwrap();
    let points = points(8);
    let read = [8.0, 2.0, 4.0, 2.0];
    let std = |radius: f64, batch: f64| 2.0 * radius * QUIET / batch;
    let root = std(8.0, 8.0);
    // Squares, from the points: leaves are 0.5 apart, leaf 2 is 1 from the root.
    let variances = [
        0.0,
        std(0.5, 2.0).powi(2),
        std(1.0, 4.0).powi(2),
        std(1.0, 4.0).powi(2) + std(0.5, 2.0).powi(2),
    ];
    let mut total = 0.0;
    for (leaf, point) in points.iter().enumerate() {
        let tracked = tracker.estimate(point).unwrap();
        let anchor = tracked.kind == StepKind::Anchor;
        assert_eq!(anchor, leaf % 4 == 0);
        let expected = (root.powi(2) + variances[leaf % 4]).sqrt();
        let found = tracked.estimate.noise_std;
        assert!((found / expected - 1.0).abs() < 1e-9, "{leaf}");
        assert!(is_near(
            tracked.estimate.gradient,
            point,
            7.0 * found + 1e-6
        ));
        total += read[leaf % 4];
        assert_eq!(tracker.books().counts().records, total, "{leaf}");
    }
    assert_eq!(
        tracker.books().counts().gradients,
        2.0 * (8.0 + 4.0 + 8.0 + 4.0)
    );
    // A leaf where its parent was: nothing is released.
    tracker.begin_phase();
    let kinds = walk(&mut tracker, &[points[0], points[0], points[1]]);
    assert_eq!(
        kinds,
        [StepKind::Anchor, StepKind::Held, StepKind::Variation]
    );
    let refused = TreeRounds::new(DIM, clip(8.0), Vec::new());
    assert!(matches!(refused, Err(EstimatorError::Depth { levels: 0 })));
}

/// Gradients at a point that is not a number count as zero; the estimate starts anew there and after it.
#[test]
fn a_point_that_is_not_finite_begins_anew() {
    let data = alike();
    for bad in [f64::NAN, f64::INFINITY] {
        let settings = settings(Batch::All, Batch::All, Refresh::by_phase());
        let mut tracker = recursive(means(&data, 3), settings);
        tracker
            .books()
            .reserve(&recursive_spend(&settings, 3, 1))
            .unwrap();
        tracker.estimate(&[0.0, 0.0]).unwrap();
        let there = tracker.estimate(&[bad, 0.0]).unwrap();
        assert_eq!(there.kind, StepKind::Anchor);
        assert!(there.estimate.gradient.iter().all(|g| g.abs() < 1e-4));
        assert_eq!(walk(&mut tracker, &[[0.5, 0.5]]), [StepKind::Anchor]);
    }
}

#[test]
fn an_estimate_goes_on_from_where_it_was_kept() {
    let data = alike();
    let mut mean = means(&data, 3);
    let spend = Schedule::new(64)
        .releases(level(Batch::All, QUIET), 3)
        .spend();
    mean.books().reserve(&spend).unwrap();
    let mut running = Running::new(DIM, clip(8.0));
    let kept = running
        .anchor(&mut mean, &[0.0, 0.0], Which::All, z(QUIET))
        .unwrap()
        .clone();
    running
        .vary(&mut mean, &[3.0, 0.0], Which::All, z(QUIET))
        .unwrap();
    running.resume(&kept).unwrap();
    assert_eq!(*running.released(), kept);
    let there = running
        .vary(&mut mean, &[1.0, 1.0], Which::All, z(QUIET))
        .unwrap();
    assert!(is_near(&there.gradient, &[1.0, 1.0], 1e-4));
    // Nothing is left, and resuming and holding need nothing.
    assert!(
        running
            .vary(&mut mean, &[0.0, 0.0], Which::All, z(QUIET))
            .is_err()
    );
    assert!(
        running
            .vary(&mut mean, &[1.0, 1.0], Which::All, z(QUIET))
            .is_ok()
    );
}

/// Norm and value of the mean, against the closed form, with their counts and charges.
#[test]
fn norms_and_values_are_releases_of_their_own() {
    let data = alike();
    let mut mean = means(&data, 3);
    let spend = Schedule::new(64)
        .releases(level(Batch::All, QUIET), 3)
        .spend();
    mean.books().reserve(&spend).unwrap();
    let point = [4.0, 2.0];
    let query = Linear::field(&point, clip(8.0));
    // (3, 4).
    let norm = mean.norm(query, &[], Which::All, z(QUIET)).unwrap();
    assert!((norm.number - 5.0).abs() < 7.0 * norm.noise_std + 1e-6);
    assert!((norm.noise_std / (2.0 * 8.0 * QUIET / 64.0) - 1.0).abs() < 1e-6);
    assert_eq!(counts(mean.counts()), (1, 64.0, 64.0, 0.0, 1.0));
    // 12.5 lies in [8, 16]; in [0, 8] it counts as 8.
    for (centre, expected) in [(12.0, 12.5), (4.0, 8.0)] {
        let value = Oracle::value(&mut mean, &point, centre, clip(4.0), Which::All, z(QUIET));
        let value = value.unwrap();
        assert!((value.number - expected).abs() < 7.0 * value.noise_std + 1e-6);
    }
    assert_eq!(counts(mean.counts()), (3, 192.0, 64.0, 128.0, 1.0));
    assert!(matches!(
        mean.norm(query, &[], Which::All, z(QUIET)),
        Err(AskError::Refused(Refused::NotReserved { .. }))
    ));
    assert_eq!(counts(mean.counts()), (3, 192.0, 64.0, 128.0, 1.0));
}

#[test]
fn batches_that_say_nothing_are_refused() {
    let refused = |anchor, variation| {
        let settings = settings(anchor, variation, Refresh::by_phase());
        Recursive::new(DIM, settings).err()
    };
    let per = |rate| refused(Batch::Next(1), Batch::PerLength(rate));
    assert!(per(1.0).is_none());
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(per(rate), Some(EstimatorError::BatchRate { .. })));
    }
    assert!(matches!(
        refused(Batch::PerLength(1.0), Batch::Next(1)),
        Some(EstimatorError::AnchorPerLength { rate: 1.0 })
    ));
    assert!(matches!(
        refused(Batch::Held(3), Batch::Held(4)),
        Some(EstimatorError::HeldLengths {
            anchor: 3,
            variation: 4
        })
    ));
}

/// A loss that counts its calls, which no loss may do outside a test, shows that what is refused reads nothing
/// and takes nothing out of the pool.
#[test]
fn what_is_refused_reads_no_record() {
    static READ: AtomicU64 = AtomicU64::new(0);
    let constants = Constants::new(8.0, 1.0, 1.0, Convexity::Convex);
    let value = |_: &Record, _: &[f64]| {
        READ.fetch_add(1, Ordering::Relaxed);
        0.0
    };
    let gradient = |_: &Record, _: &[f64], _: &mut [f64]| {
        READ.fetch_add(1, Ordering::Relaxed);
    };
    for adjacency in [Adjacency::ReplaceOne, Adjacency::AddRemove] {
        let data = data(adjacency);
        let loss = ClosureLoss::new(DIM, constants, value, gradient);
        let mut curator = Curator::simulated(adjacency, 1);
        curator
            .reserve(&Spend::Fixed(Event::gaussian(z(1.0))))
            .unwrap();
        let mut mean = PrivateMean::new(&data, loss, curator).unwrap();
        let before = READ.load(Ordering::Relaxed);
        let (point, short) = ([0.0; DIM], [0.0; 1]);
        let left = mean.books().records_left();
        let field = |point| Linear::field(point, clip(1.0));
        let accesses = [
            Which::All,
            Which::Poisson(SamplingRate::new(0.5).unwrap()),
            Which::FixedSize(3),
            Which::FixedSize(0),
            Which::FixedSize(100),
            Which::Next(5),
            Which::Next(0),
            Which::Next(65),
        ];
        for over in accesses {
            assert!(mean.mean(field(&point), over, z(2.0)).is_err(), "{over:?}");
            assert!(mean.norm(field(&point), &[], over, z(2.0)).is_err());
            assert!(Oracle::value(&mut mean, &point, 0.0, clip(1.0), over, z(2.0)).is_err());
        }
        assert!(matches!(
            mean.mean(field(&short), Which::All, z(1.0)),
            Err(AskError::Shape { dim: DIM })
        ));
        assert_eq!(READ.load(Ordering::Relaxed), before, "{adjacency}");
        assert_eq!(mean.books().records_left(), left);
        assert_eq!(mean.counts(), Counts::default());
        // What was reserved is still there.
        assert!(mean.mean(field(&point), Which::All, z(1.0)).is_ok());
        assert_eq!(READ.load(Ordering::Relaxed), before + 64);
    }
}
