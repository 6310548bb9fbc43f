//! Objectives of scores and cells: derivatives, constants, closed forms, clips, and the fused pass against single records.

use dpopt_linalg::{Design, Domain};
use dpopt_oracle::{
    At, AucSaddle, BlockClips, Cell, CellCounts, CellShares, Differentiable, EqualOpportunity,
    Example, Examples, GroupDro, Joint, Linear, Loss, Momentum, PrivateData, PrivateGradient,
    PrivateMean, Records, SaddleConstants, SaddleLoss, ScoreBlock, ScoreSaddle, Scored, Segment,
    SharesError, check_constants, check_gradient,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend, Which};

/// What adds to the blocks of x and of y.
type Blockwise<'a> = &'a dyn Fn((&mut [f64], &mut [f64]));

const ROW_NORM: f64 = 2.0;
const COLUMNS: usize = 5;

fn uniforms(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Three groups, the last of which has no negatives with a share.
fn shares() -> CellShares {
    CellShares::new(vec![
        [Some(0.4), Some(0.05)],
        [Some(0.3), Some(0.15)],
        [None, Some(0.1)],
    ])
    .unwrap()
}

/// Of every cell, of a group that nobody knows, and labels that are no cells.
fn labels(count: usize) -> Vec<f32> {
    let cell = |i: usize| Cell {
        positive: i.is_multiple_of(2),
        group: i / 2 % 4,
    };
    (0..count)
        .map(|i| match i % 11 {
            9 => 0.0,
            10 => 7.5e30,
            _ => cell(i).label(),
        })
        .collect()
}

#[derive(Clone, Copy)]
enum Storage {
    Dense,
    Sparse,
    OneHot,
}

fn design(storage: Storage, count: usize) -> Design {
    let mut next = uniforms(5);
    match storage {
        Storage::Dense => {
            let entries = (0..count * COLUMNS).map(|_| next() as f32).collect();
            Design::dense32(COLUMNS, entries).unwrap()
        }
        Storage::Sparse => {
            let mut design = Design::sparse(COLUMNS).unwrap();
            for i in 0..count {
                let row: Vec<(u32, f32)> = (0..COLUMNS as u32)
                    .filter(|j| !(i as u32 + j).is_multiple_of(3))
                    .map(|j| (j, next() as f32))
                    .collect();
                design.push_row(&row).unwrap();
            }
            design
        }
        Storage::OneHot => {
            let mut design = Design::one_hot(COLUMNS, 0.75).unwrap();
            for i in 0..count as u32 {
                design.push_ones(&[i % 2, 2 + i % 3]).unwrap();
            }
            design
        }
    }
}

fn examples(storage: Storage, count: usize) -> Examples {
    let norm = ClipNorm::new(ROW_NORM).unwrap();
    Examples::new(design(storage, count), labels(count), norm).unwrap()
}

fn joint<S: ScoreSaddle>(objective: S, scale: f64) -> Joint<Scored<S>> {
    let clips = BlockClips {
        x: f64::INFINITY,
        y: f64::INFINITY,
    };
    Joint::new(Scored::new(objective, clips), scale).unwrap()
}

/// Points whose y is in the domain.
fn points<L: SaddleLoss<Records = Examples>>(
    loss: &Joint<L>,
    records: &Examples,
    scale: f64,
) -> Vec<Vec<f64>> {
    let mut next = uniforms(11);
    let blocks = loss.blocks(records).unwrap();
    let domain: Domain = loss.saddle().domain();
    let mut points: Vec<Vec<f64>> = (0..6)
        .map(|_| (0..blocks.dim()).map(|_| 0.9 * next()).collect())
        .collect();
    points
        .iter_mut()
        .for_each(|point| blocks.project(&domain, point));
    let mut close = points[0].clone();
    close.iter_mut().for_each(|x| *x *= 1.0 + 1e-7);
    blocks.project(&domain, &mut close);
    points.push(close);
    assert!(scale > 0.0);
    points
}

/// Gradients are those of the values, and constants hold, at every scale.
fn laws<S: ScoreSaddle + Clone>(objective: &S) {
    for storage in [Storage::Dense, Storage::Sparse, Storage::OneHot] {
        let records = examples(storage, 23);
        for scale in [0.1, 1.0] {
            let loss = joint(objective.clone(), scale);
            let points = points(&loss, &records, scale);
            for point in &points {
                let found = check_gradient(&loss, &records, point).unwrap();
                assert!(
                    found.worst < 1e-7 && found.not_finite.is_empty(),
                    "{found:?}"
                );
            }
            let views: Vec<&[f64]> = points.iter().map(|point| &point[..]).collect();
            let found = check_constants(&loss, &records, &views).unwrap();
            assert!(found.passed(), "{found:?}");
        }
    }
}

#[test]
fn group_dro_keeps_the_laws() {
    laws(&GroupDro::new(&shares(), true, 0.7).unwrap());
    laws(&GroupDro::new(&shares(), false, 2.0).unwrap());
}

#[test]
fn equal_opportunity_keeps_the_laws() {
    laws(&EqualOpportunity::new(&shares(), 0.7).unwrap());
}

#[test]
fn the_auc_keeps_the_laws() {
    laws(&AucSaddle::new(&shares()).unwrap());
}

/// Records whose cells have the shares exactly: 20 of them, two groups.
fn exact() -> (Examples, CellShares) {
    let cells = [(false, 0, 8), (true, 0, 2), (false, 1, 6), (true, 1, 4)];
    let labels: Vec<f32> = cells
        .iter()
        .flat_map(|&(positive, group, count)| vec![Cell { positive, group }.label(); count])
        .collect();
    let of = |count: f64| Some(count / 20.0);
    let shares = CellShares::new(vec![[of(8.0), of(2.0)], [of(6.0), of(4.0)]]).unwrap();
    let norm = ClipNorm::new(ROW_NORM).unwrap();
    (
        Examples::new(design(Storage::Dense, 20), labels, norm).unwrap(),
        shares,
    )
}

/// The mean of the field at (x, y), by single records; and that of the values.
fn mean<L: SaddleLoss<Records = Examples>>(
    loss: &L,
    records: &Examples,
    x: &[f64],
    y: &[f64],
) -> (f64, Vec<f64>) {
    let (mut value, mut of_y) = (0.0, vec![0.0; y.len()]);
    let mut of_x = vec![0.0; x.len()];
    for i in 0..records.len() {
        value += loss.value(records.record(i), x, y);
        loss.gradient(records.record(i), x, y, (&mut of_x, &mut of_y));
    }
    let n = records.len() as f64;
    (value / n, of_y.iter().map(|g| g / n).collect())
}

fn scores(records: &Examples, x: &[f64]) -> Vec<(f64, Cell)> {
    let record = |i| -> Example<'_> { records.record(i) };
    (0..records.len())
        .map(|i| (record(i).row.dot(x), Cell::of(record(i).label)))
        .collect()
}

fn average(of: impl Iterator<Item = f64>) -> f64 {
    let all: Vec<f64> = of.collect();
    all.iter().sum::<f64>() / all.len() as f64
}

const X: [f64; COLUMNS] = [0.4, -1.2, 0.3, 0.8, -0.5];

fn free<S: ScoreSaddle>(objective: S) -> Scored<S> {
    Scored::new(
        objective,
        BlockClips {
            x: f64::INFINITY,
            y: f64::INFINITY,
        },
    )
}

/// The gradient in y is the mean loss of each group, less that of all groups and the regulariser's.
#[test]
fn group_dro_hears_the_mean_loss_of_each_group() {
    let (records, shares) = exact();
    let loss = free(GroupDro::new(&shares, true, 0.5).unwrap());
    let y = [0.1, 0.2, 0.3, 0.4];
    let (value, found) = mean(&loss, &records, &X, &y);
    let scores = scores(&records, &X);
    let mut expected = 0.0;
    let groups = loss.objective().groups().iter();
    let of_groups: Vec<f64> = groups
        .map(|cells| {
            let own = scores.iter().filter(|(_, cell)| cells.contains(cell));
            average(own.map(|(z, cell)| (1.0 + (-cell.sign() * z).exp()).ln()))
        })
        .collect();
    let all = average(of_groups.iter().copied());
    for (k, &of_group) in of_groups.iter().enumerate() {
        assert!((found[k] - (of_group - all - 0.5 * (y[k] - 0.25))).abs() < 1e-12);
        expected += y[k] * of_group - 0.25 * (y[k] - 0.25f64).powi(2);
    }
    assert!((value - expected).abs() < 1e-12);
}

/// The gradient in y is how far the mean of a group's positives is from that of all.
#[test]
fn equal_opportunity_hears_differences() {
    let (records, shares) = exact();
    let loss = free(EqualOpportunity::new(&shares, 0.5).unwrap());
    let y = [0.3, -0.9];
    let (_, found) = mean(&loss, &records, &X, &y);
    let scores = scores(&records, &X);
    let rate = |wanted: &dyn Fn(&Cell) -> bool| {
        let positive = scores
            .iter()
            .filter(|(_, cell)| cell.positive && wanted(cell));
        average(positive.map(|(z, _)| 1.0 / (1.0 + (-z).exp())))
    };
    let all = rate(&|_| true);
    for k in 0..2 {
        let own = rate(&|cell| cell.group == k);
        assert!((found[k] - (own - all - 0.5 * y[k])).abs() < 1e-12);
    }
}

/// At the best a, b and theta the mean is p (1 - p) (E (1 - h+ + h-)^2 - 1) over all pairs.
#[test]
fn the_auc_is_that_of_pairs() {
    let (records, shares) = exact();
    let loss = free(AucSaddle::new(&shares).unwrap());
    let h: Vec<(f64, bool)> = scores(&records, &X)
        .iter()
        .map(|(z, cell)| (1.0 / (1.0 + (-z).exp()), cell.positive))
        .collect();
    let of = |class| {
        h.iter()
            .filter(move |(_, positive)| *positive == class)
            .map(|(h, _)| *h)
    };
    let (a, b) = (average(of(true)), average(of(false)));
    let mut x = X.to_vec();
    x.extend([a - 0.5, b - 0.5]);
    let (value, slope) = mean(&loss, &records, &x, &[b - a]);
    let pairs = average(
        of(true).flat_map(|above| of(false).map(move |below| (1.0 - above + below).powi(2))),
    );
    assert!((value - 0.3 * 0.7 * (pairs - 1.0)).abs() < 1e-12);
    assert!(slope[0].abs() < 1e-12, "theta is the best one");
}

/// No block is longer than its clip, and what is shorter is left alone.
#[test]
fn blocks_are_shortened_one_by_one() {
    let records = examples(Storage::Dense, 40);
    let objective = GroupDro::new(&shares(), true, 0.7).unwrap();
    let clips = BlockClips { x: 1.0, y: 3.0 };
    let (own, whole) = (Scored::new(objective.clone(), clips), free(objective));
    let y = [0.1, 0.3, 0.2, 0.1, 0.3];
    let (mut cut, mut left) = (0, 0);
    for i in 0..40 {
        let field = |loss: Blockwise<'_>| {
            let (mut of_x, mut of_y) = (vec![0.0; COLUMNS], vec![0.0; 5]);
            loss((&mut of_x, &mut of_y));
            [of_x, of_y]
        };
        let found = field(&|out| own.gradient(records.record(i), &X, &y, out));
        let plain = field(&|out| whole.gradient(records.record(i), &X, &y, out));
        for ((found, plain), clip) in found.iter().zip(&plain).zip([1.0, 3.0]) {
            let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
            let factor = (clip / norm(plain)).min(1.0);
            for (found, plain) in found.iter().zip(plain) {
                // The norm of a row is an upper bound.
                assert!((found - factor * plain).abs() < 1e-6);
            }
            assert!(norm(found) <= clip * (1.0 + 1e-12));
            if factor < 1.0 { cut += 1 } else { left += 1 }
        }
    }
    assert!(cut > 5 && left > 5, "{cut} {left}");
}

/// The same loss without a pass of its own.
#[derive(Clone)]
struct Single<S>(Scored<S>);

impl<S: ScoreSaddle> SaddleLoss for Single<S> {
    type Records = Examples;
    fn x_dim(&self, records: &Examples) -> usize {
        self.0.x_dim(records)
    }
    fn domain(&self) -> Domain {
        self.0.domain()
    }
    fn saddle_constants(&self, records: &Examples) -> SaddleConstants {
        self.0.saddle_constants(records)
    }
    fn value(&self, record: Example<'_>, x: &[f64], y: &[f64]) -> f64 {
        self.0.value(record, x, y)
    }
    fn gradient(&self, record: Example<'_>, x: &[f64], y: &[f64], out: (&mut [f64], &mut [f64])) {
        self.0.gradient(record, x, y, out);
    }
}

fn released<L: Differentiable<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    clip: f64,
    point: &[f64],
) -> Vec<f64> {
    let z = NoiseMultiplier::new(1e-3).unwrap();
    let mut curator = Curator::simulated(data.adjacency(), 6);
    curator.reserve(&Spend::Fixed(Event::gaussian(z))).unwrap();
    let clip = ClipNorm::new(clip).unwrap();
    let mut estimator = PrivateGradient::clipped(data, loss, curator, clip).unwrap();
    estimator.refresh(point, z).unwrap().gradient.to_vec()
}

/// A change from one point to another, or a step of momentum.
fn released_change<L: Differentiable<Records = Examples>>(
    data: &PrivateData,
    loss: L,
    (clip, momentum): (f64, Option<Momentum>),
    (from, to): (&[f64], &[f64]),
    threads: usize,
) -> Vec<f64> {
    let z = NoiseMultiplier::new(1e-3).unwrap();
    let mut curator = Curator::simulated(data.adjacency(), 6);
    curator.reserve(&Spend::Fixed(Event::gaussian(z))).unwrap();
    let clip = ClipNorm::new(clip).unwrap();
    let along: Vec<f64> = to.iter().zip(from).map(|(to, from)| to - from).collect();
    let segment = Segment::new(from, to, &along).unwrap();
    let query = match momentum {
        None => Linear::change(segment, clip, clip),
        Some(momentum) => Linear::momentum(segment, momentum, clip, clip),
    };
    let threads = std::num::NonZeroUsize::new(threads).unwrap();
    let means = PrivateMean::new(data, loss, curator).unwrap();
    let mut means = means.with_threads(threads);
    let found = means.release(&query, Which::All, z).unwrap();
    found.unwrap().mean
}

/// As [`fused`], of changes.
fn fused_changes<S: ScoreSaddle + Clone>(objective: &S) {
    let half = Momentum::new(0.5).unwrap();
    for storage in [Storage::Dense, Storage::Sparse, Storage::OneHot] {
        let (count, scale) = (700, 0.25);
        let records = examples(storage, count);
        let data = data(storage, count);
        let loss = Scored::with_own_clips(objective.clone(), ROW_NORM);
        let own = Joint::new(loss.clone(), scale).unwrap();
        let single = Joint::new(Single(loss), scale).unwrap();
        let points = points(&own, &records, scale);
        for ends in points.windows(2) {
            let ends = (&ends[0][..], &ends[1][..]);
            for how in [
                (50.0, None),
                (0.05, None),
                (50.0, Some(half)),
                (0.05, Some(half)),
            ] {
                let here = released_change(&data, own.clone(), how, ends, 1);
                let plain = released_change(&data, single.clone(), how, ends, 1);
                for (a, b) in here.iter().zip(&plain) {
                    // Of two ends, each cut by the bound of a row, and of the whole.
                    assert!((a - b).abs() <= how.0 * 8.0 * 2f64.powi(-20), "{a} {b}");
                }
                assert!(here.iter().any(|x| x.abs() > 1e-4 * how.0));
                assert_eq!(here, released_change(&data, own.clone(), how, ends, 2));
            }
        }
    }
}

#[test]
fn fused_changes_release_what_single_records_do() {
    fused_changes(&GroupDro::new(&shares(), true, 0.7).unwrap());
    fused_changes(&EqualOpportunity::new(&shares(), 0.7).unwrap());
    fused_changes(&AucSaddle::new(&shares()).unwrap());
}

fn data(storage: Storage, count: usize) -> PrivateData {
    let norm = ClipNorm::new(ROW_NORM).unwrap();
    PrivateData::made_up(
        design(storage, count),
        labels(count),
        norm,
        Adjacency::ReplaceOne,
        None,
    )
    .unwrap()
}

/// The fused pass releases what single records release, under a clip that never bites and one that always does.
fn fused<S: ScoreSaddle + Clone>(objective: &S) {
    for storage in [Storage::Dense, Storage::Sparse, Storage::OneHot] {
        let (count, scale) = (700, 0.25);
        let records = examples(storage, count);
        let loss = Scored::with_own_clips(objective.clone(), ROW_NORM);
        let own = Joint::new(loss.clone(), scale).unwrap();
        let single = Joint::new(Single(loss), scale).unwrap();
        for point in points(&own, &records, scale) {
            for clip in [50.0, 0.05] {
                let here = released(&data(storage, count), own.clone(), clip, &point);
                let plain = released(&data(storage, count), single.clone(), clip, &point);
                for (a, b) in here.iter().zip(&plain) {
                    assert!((a - b).abs() <= clip * 4.0 * 2f64.powi(-20), "{a} {b}");
                }
                assert!(here.iter().any(|x| x.abs() > 1e-4 * clip));
            }
        }
    }
}

#[test]
fn fused_passes_release_what_single_records_do() {
    fused(&GroupDro::new(&shares(), true, 0.7).unwrap());
    fused(&EqualOpportunity::new(&shares(), 0.7).unwrap());
    fused(&AucSaddle::new(&shares()).unwrap());
}

/// What a block of rows gives each of them is what it gets alone, to the bit, and the formulas of one row, to the last digits.
fn blocks_are_single_rows<S: ScoreSaddle>(objective: &S, y: &[f64], extra: &[f64]) {
    let at = At { extra, y };
    let width = extra.len() + y.len();
    let scores: Vec<f64> = [0.0, -0.0, 1e-17, 0.3, -0.9, 2.5, -30.0, 45.0, -700.0, 700.0]
        .into_iter()
        .chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300])
        .cycle()
        .take(139)
        .collect();
    let labels: Vec<f64> = labels(139).into_iter().map(f64::from).collect();
    let of = |rows: std::ops::Range<usize>| {
        let count = rows.len();
        let mut scores = scores[rows.clone()].to_vec();
        // Buffers hold anything.
        let (mut slopes, mut behind) = (vec![f64::NAN; count], vec![f64::NAN; count * width]);
        objective.slopes(
            ScoreBlock {
                scores: &mut scores,
                labels: &labels[rows],
                slopes: &mut slopes,
                behind: &mut behind,
            },
            at,
        );
        (slopes, behind)
    };
    let whole = of(0..139);
    for i in 0..139 {
        let alone = of(i..i + 1);
        let (mut of_extra, mut of_y) = (vec![0.0; extra.len()], vec![0.0; y.len()]);
        let cell = Cell::of(labels[i]);
        let slope = objective.slope(scores[i], cell, at, &mut of_extra, &mut of_y);
        let found = std::iter::once(whole.0[i]).chain((0..width).map(|j| whole.1[j * 139 + i]));
        let single = std::iter::once(alone.0[0]).chain(alone.1);
        let formulas = std::iter::once(slope).chain(of_extra).chain(of_y);
        for ((found, single), formula) in found.zip(single).zip(formulas) {
            assert_eq!(found.to_bits(), single.to_bits());
            let close = (found - formula).abs() <= 1e-13 * (1.0 + formula.abs());
            let equal = found == formula || found.is_nan() && !formula.is_finite();
            let formula_is_none = formula.is_nan() && !found.is_finite();
            assert!(close || equal || formula_is_none, "{i}: {found} {formula}");
        }
    }
}

#[test]
fn slopes_of_a_block_are_those_of_its_rows() {
    let y = [0.1, 0.2, 0.3, 0.2, 0.2];
    blocks_are_single_rows(&GroupDro::new(&shares(), true, 0.7).unwrap(), &y, &[]);
    blocks_are_single_rows(&GroupDro::new(&shares(), false, 0.7).unwrap(), &y[..3], &[]);
    let prices = [0.5, -0.25, 0.0];
    blocks_are_single_rows(
        &EqualOpportunity::new(&shares(), 0.7).unwrap(),
        &prices,
        &[],
    );
    blocks_are_single_rows(&AucSaddle::new(&shares()).unwrap(), &[0.4], &[-0.1, 0.3]);
}

#[test]
fn counts_of_cells_are_shares() {
    let data = data(Storage::Dense, 700);
    let found = released(&data, CellCounts { groups: 3 }, 1.0, &[0.0; 6]);
    for (at, found) in found.iter().enumerate() {
        let cell = Cell {
            positive: at % 2 == 1,
            group: at / 2,
        };
        let count = labels(700)
            .iter()
            .filter(|label| Cell::of(f64::from(**label)) == cell)
            .count();
        // The noise is a thousandth of a record's.
        assert!((found - count as f64 / 700.0).abs() < 1e-4, "{cell:?}");
    }
}

#[test]
fn objectives_without_two_groups_are_refused() {
    let one = CellShares::new(vec![[Some(0.9), Some(0.1)]]).unwrap();
    assert!(GroupDro::new(&one, true, 1.0).is_ok());
    assert!(matches!(
        GroupDro::new(&one, false, 1.0),
        Err(SharesError::TooFew { cells: 1, .. })
    ));
    assert!(matches!(
        EqualOpportunity::new(&one, 1.0),
        Err(SharesError::TooFew { cells: 1, .. })
    ));
    let negatives = CellShares::new(vec![[Some(0.9), None], [Some(0.1), None]]).unwrap();
    assert!(matches!(
        AucSaddle::new(&negatives),
        Err(SharesError::TooFew { .. })
    ));
    // Records of a cell that was not seen are of a class all the same: here 0.08 positives, of which 0.04 are seen.
    let seen = |counts: &[f64]| CellShares::released(counts, 0.041).unwrap();
    let unseen = seen(&[0.46, 0.042, 0.458, 0.04]);
    assert_eq!(
        unseen.unknown(),
        Some(Cell {
            positive: true,
            group: 1
        })
    );
    assert_eq!(
        AucSaddle::new(&unseen),
        Err(SharesError::Unknown {
            group: 1,
            class: "positive"
        })
    );
    assert!(AucSaddle::new(&seen(&[0.46, 0.042, 0.458, 0.05])).is_ok());
    assert!(AucSaddle::new(&seen(&[0.92, 0.08])).is_ok());
    for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            GroupDro::new(&one, true, weight),
            Err(SharesError::Number { .. })
        ));
    }
}
