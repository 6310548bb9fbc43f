//! Laws of every loss with passes of its own.

use dpopt_linalg::norm;
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};
use dpopt_testkit::uniforms;

use super::{
    Constants, Differentiable, Loss, RecordOf, Segment, TwiceDifferentiable, check_constants,
    check_gradient,
};
use crate::data::PrivateData;
use crate::gradient::PrivateGradient;
use crate::records::Records;

/// `count` points of norm up to `radius`.
pub(crate) fn points(dim: usize, count: usize, radius: f64) -> Vec<Vec<f64>> {
    let mut next = uniforms(77);
    (0..count)
        .map(|k| {
            let mut point: Vec<f64> = (0..dim).map(|_| next()).collect();
            let length = norm(&point);
            let share = radius * (k + 1) as f64 / count as f64 / length;
            point.iter_mut().for_each(|x| *x *= share * (1.0 - 1e-12));
            point
        })
        .collect()
}

/// Gradients are derivatives, and the constants hold at points of norm up to `radius`.
pub(crate) fn gradients_and_constants<L: Differentiable>(
    loss: &L,
    records: &L::Records,
    radius: f64,
) {
    let points = points(loss.dim(records), 6, radius);
    for point in &points {
        let found = check_gradient(loss, records, point).unwrap();
        assert!(
            found.worst < 1e-7 && found.not_finite.is_empty(),
            "{found:?}"
        );
    }
    let points: Vec<&[f64]> = points.iter().map(|point| &point[..]).collect();
    let found = check_constants(loss, records, &points).unwrap();
    assert!(found.passed(), "{found:?}");
    assert!(found.initial_gap <= loss.constants_on(records).initial_gap);
}

/// Changes are differences of gradients, and to first order linear in the displacement, at 1e-300
/// as at 1e-7.
pub(crate) fn changes<L: Differentiable>(loss: &L, records: &L::Records, radius: f64) {
    let dim = loss.dim(records);
    let points = points(dim, 3, radius);
    let smoothness = loss.constants_on(records).smoothness;
    for i in 0..records.len() {
        let record = records.record(i);
        let change = |from: &[f64], by: &[f64]| {
            let to: Vec<f64> = from.iter().zip(by).map(|(a, b)| a + b).collect();
            let mut out = vec![0.0; dim];
            loss.gradient_change(record, &Segment::new(from, &to, by).unwrap(), &mut out);
            let (mut before, mut after) = (vec![0.0; dim], vec![0.0; dim]);
            loss.gradient(record, from, &mut before);
            loss.gradient(record, &to, &mut after);
            let plain: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
            (out, plain)
        };
        for (from, way) in [(0, 1), (1, 2), (2, 0)] {
            let (found, plain) = change(&points[from], &points[way]);
            let apart: Vec<f64> = found.iter().zip(&plain).map(|(a, b)| a - b).collect();
            assert!(
                norm(&apart) < 1e-13 * (1.0 + smoothness * radius),
                "{found:?} {plain:?}"
            );
            let per = |t: f64| {
                let by: Vec<f64> = points[way].iter().map(|x| t * x).collect();
                let (found, _) = change(&points[from], &by);
                found.iter().map(|x| x / t).collect::<Vec<f64>>()
            };
            let expected = per(1e-7);
            for t in [1e-9, 1e-20, 1e-100, 1e-300] {
                let apart: Vec<f64> = per(t).iter().zip(&expected).map(|(a, b)| a - b).collect();
                // The second-order term at 1e-7.
                assert!(norm(&apart) < 1e-5 * (1.0 + smoothness * radius), "{t:e}");
            }
        }
    }
}

/// Second derivatives are symmetric, the derivatives of gradients, and no larger than the constants say, nor than those at the point
/// itself; a form of rank one is the same matrix.
pub(crate) fn second_derivatives<L: TwiceDifferentiable>(
    loss: &L,
    records: &L::Records,
    radius: f64,
) {
    let dim = loss.dim(records);
    let whole = loss.constants_on(records);
    let points = points(dim, 4, radius);
    for (k, point) in points.iter().enumerate() {
        let here = loss.constants_at(records, point);
        let sharper = [
            (here.lipschitz, whole.lipschitz),
            (here.smoothness, whole.smoothness),
            (here.hessian_frobenius, whole.hessian_frobenius),
        ];
        assert!(sharper.iter().all(|(a, b)| *a <= b * (1.0 + 1e-12)));
        for i in 0..records.len() {
            let matrix = hessian(loss, records.record(i), point);
            for a in 0..dim {
                for b in 0..a {
                    let apart = (matrix[a][b] - matrix[b][a]).abs();
                    assert!(apart <= 1e-12 * (1.0 + whole.smoothness), "{a} {b}");
                }
            }
            for (j, column) in matrix.iter().enumerate() {
                let gradient = |by: f64| {
                    let mut at = point.clone();
                    at[j] += by;
                    let mut out = vec![0.0; dim];
                    loss.gradient(records.record(i), &at, &mut out);
                    out
                };
                let h = 1e-5;
                let pairs = gradient(h).into_iter().zip(gradient(-h));
                for (entry, (after, before)) in column.iter().zip(pairs) {
                    let quotient = (after - before) / (2.0 * h);
                    // h^2/6 of a fourth derivative, and rounding over h.
                    let slack = 1e-8 * (1.0 + whole.smoothness);
                    assert!((entry - quotient).abs() < slack, "{entry} {quotient}");
                }
            }
            if let Some((scale, row)) = loss.rank_one(records.record(i), point) {
                for (j, column) in matrix.iter().enumerate() {
                    let mut unit = vec![0.0; dim];
                    unit[j] = 1.0;
                    let mut expected = vec![0.0; dim];
                    let x = row.dot(&unit);
                    row.for_each(|c, y| expected[c] += scale * x * y);
                    let apart = dpopt_linalg::distance(column, &expected);
                    assert!(apart <= 1e-12 * (1.0 + whole.smoothness));
                }
            }
            if let Some(of) = loss.bordered(records.record(i), point) {
                let first = dim - of.border.len();
                for (j, column) in matrix.iter().enumerate() {
                    let mut unit = vec![0.0; dim];
                    unit[j] = 1.0;
                    let (head, behind) = unit.split_at(first);
                    let mut expected = vec![0.0; dim];
                    let along = dpopt_linalg::dot(&of.border, behind);
                    let slope = of.factor * of.row.dot(head) + along;
                    of.row.for_each(|c, y| expected[c] += slope * y);
                    for k in 0..of.border.len() {
                        expected[first + k] += of.border[k] * of.row.dot(head);
                        for (l, v) in behind.iter().enumerate() {
                            let (high, low) = (k.max(l), k.min(l));
                            expected[first + k] += of.corner[high * (high + 1) / 2 + low] * v;
                        }
                    }
                    let apart = dpopt_linalg::distance(column, &expected);
                    assert!(apart <= 1e-12 * (1.0 + whole.smoothness));
                }
            }
            let mut gradient = vec![0.0; dim];
            loss.gradient(records.record(i), point, &mut gradient);
            assert!(norm(&gradient) <= here.lipschitz * (1.0 + 1e-12));
            let frobenius = norm(&matrix.concat());
            assert!(frobenius <= here.hessian_frobenius * (1.0 + 1e-12));
            // Along a vector, in this place and from here to the next.
            let next = &points[(k + 1) % points.len()];
            let change: Vec<Vec<f64>> = hessian(loss, records.record(i), next)
                .iter()
                .zip(&matrix)
                .map(|(a, b)| a.iter().zip(b).map(|(a, b)| a - b).collect())
                .collect();
            let reach = whole.hessian_lipschitz * dpopt_linalg::distance(point, next);
            for direction in [point, next, &gradient] {
                let square = norm(direction).powi(2);
                let along = |matrix: &[Vec<f64>]| {
                    let rows = matrix.iter().zip(direction);
                    rows.map(|(row, v)| v * dpopt_linalg::dot(row, direction))
                        .sum::<f64>()
                        .abs()
                };
                assert!(along(&matrix) <= here.smoothness * square * (1.0 + 1e-12));
                assert!(along(&change) <= reach * square * (1.0 + 1e-12));
            }
        }
    }
}

/// All columns of one record's Hessian.
pub(crate) fn hessian<L: TwiceDifferentiable>(
    loss: &L,
    record: RecordOf<'_, L>,
    point: &[f64],
) -> Vec<Vec<f64>> {
    let dim = point.len();
    let column = |j: usize| {
        let (mut unit, mut out) = (vec![0.0; dim], vec![0.0; dim]);
        unit[j] = 1.0;
        loss.hessian_vector(record, point, &unit, &mut out);
        out
    };
    (0..dim).map(column).collect()
}

/// The same loss with the default passes.
struct Plain<L>(L);

impl<L: Loss> Loss for Plain<L> {
    type Records = L::Records;
    fn dim(&self, records: &L::Records) -> usize {
        self.0.dim(records)
    }
    fn constants_on(&self, records: &L::Records) -> Constants {
        self.0.constants_on(records)
    }
    fn value(&self, record: RecordOf<'_, Self>, point: &[f64]) -> f64 {
        self.0.value(record, point)
    }
}

impl<L: Differentiable> Differentiable for Plain<L> {
    fn gradient(&self, record: RecordOf<'_, Self>, point: &[f64], out: &mut [f64]) {
        self.0.gradient(record, point, out);
    }
    fn gradient_change(&self, record: RecordOf<'_, Self>, segment: &Segment<'_>, out: &mut [f64]) {
        self.0.gradient_change(record, segment, out);
    }
}

/// Releases of an anchor and of variations, long and short; the noise is the same for equal
/// shapes of the program.
fn releases<L: Differentiable>(
    data: &PrivateData<L::Records>,
    loss: L,
    clip: f64,
) -> Vec<Vec<f64>> {
    let multiplier = NoiseMultiplier::new(1e-3).unwrap();
    let mut curator = Curator::simulated(data.adjacency(), 6);
    let spend = Spend::Fixed(Event::gaussian(multiplier).repeated(4));
    curator.reserve(&spend).unwrap();
    let clip = ClipNorm::new(clip).unwrap();
    let mut estimator = PrivateGradient::clipped(data, loss, curator, clip).unwrap();
    let points = points(estimator.mean().dim(), 3, 1.0);
    let near: Vec<f64> = points[1].iter().map(|x| x * (1.0 + 1e-9)).collect();
    let mut out = vec![
        estimator
            .refresh(&points[0], multiplier)
            .unwrap()
            .gradient
            .to_vec(),
    ];
    for point in [&points[1], &near, &points[2]] {
        let estimate = estimator.advance(point, multiplier).unwrap();
        out.push(estimate.gradient.to_vec());
    }
    out
}

/// Passes of its own give what the default ones give, to `slack` of the clip radius and to 2^-20 of
/// it in each of four releases, by which a bound on a row may exceed its norm; and the same bits
/// whatever the order of the records.
pub(crate) fn passes<L: Differentiable + Clone>(
    loss: L,
    forward: L::Records,
    backward: L::Records,
    slack: f64,
) where
    L::Records: 'static,
{
    let count = forward.len();
    let reach = loss.constants_on(&forward).lipschitz;
    let own = |records| PrivateData::made_up_of(records, Adjacency::ReplaceOne, None).unwrap();
    let (forward, backward) = (own(forward), own(backward));
    for clip in [2.0 * reach, 0.02 * reach] {
        let here = releases(&forward, loss.clone(), clip);
        let bits =
            |all: &[Vec<f64>]| -> Vec<u64> { all.iter().flatten().map(|x| x.to_bits()).collect() };
        assert_eq!(bits(&here), bits(&releases(&backward, loss.clone(), clip)));
        let plain = releases(&forward, Plain(loss.clone()), clip);
        for (a, b) in here.iter().flatten().zip(plain.iter().flatten()) {
            assert!(
                (a - b).abs() <= clip * (4.0 * 2f64.powi(-20) + slack),
                "{count} {clip}: {a} {b}"
            );
        }
    }
}
