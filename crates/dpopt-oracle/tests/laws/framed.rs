//! The laws for queries whose contributions depend on the position too: in the frame of a position they depend on
//! the record alone. Records are exchanged and not added, so that positions stay.

use std::num::NonZeroUsize;

use dpopt_oracle::query::{
    BallGradient, Frames, Offsets, Smoothed, SmoothedDifference, SmoothedGradient,
};
use dpopt_oracle::{
    Activation, Differentiable, Glm, Head, Loss, Mlp, PrivateData, QuadraticLink, Query, Segment,
    Softmax,
};
use dpopt_privacy::{Adjacency, Curator, SamplingRate, Which};

use crate::engine::{Steps, assert_within, minus, noisy_sum, poisson_sample};
use crate::records::{DIM, Store, examples, norm, points, private};

const REPLACE: Adjacency = Adjacency::ReplaceOne;
/// Frames in turn.
const FRAMES: usize = 3;
/// Records that are summed, of which all but a few contribute zero: a power of two.
const ROWS: usize = 64;

const RANK: NonZeroUsize = NonZeroUsize::new(2).unwrap();

fn frames(dim: usize) -> Frames {
    let mut curator = Curator::simulated(REPLACE, 4);
    Frames::draw(&mut curator, dim, NonZeroUsize::new(FRAMES).unwrap()).unwrap()
}

/// `nobody` is a record that contributes zero.
fn framed<T: Clone, L: Loss, Q: Query<L>>(
    name: &str,
    loss: &impl Fn() -> L,
    query: &Q,
    data: &impl Fn(&[T]) -> PrivateData<L::Records>,
    (records, nobody): (&[T], &T),
) -> Vec<Steps> {
    let bound = query.bound(&loss()).unwrap().unwrap();
    let sum = |records: &[T], over: Which<'_>, threads| {
        noisy_sum(loss(), query, &data(records), over, threads)
    };
    let empty = vec![nobody.clone(); ROWS];
    let noise = sum(&empty, Which::All, 1);
    let alone = |record: &T, position: usize| {
        let mut all = empty.clone();
        all[position] = record.clone();
        minus(&sum(&all, Which::All, 1), &noise)
    };
    let mut own: Vec<Vec<Steps>> = Vec::new();
    for (i, record) in records.iter().enumerate() {
        let name = format!("{name}, record {i}");
        let by_frame: Vec<Steps> = (0..FRAMES).map(|frame| alone(record, frame)).collect();
        for contribution in &by_frame {
            assert_within(&name, contribution, &bound, 1);
        }
        // The same in the same frame at other places.
        assert!(alone(record, 17 * FRAMES) == by_frame[0], "{name}");
        assert!(
            alone(record, ROWS - 1) == by_frame[(ROWS - 1) % FRAMES],
            "{name}"
        );
        own.push(by_frame);
    }
    let add = |mut sum: Steps, positions: &mut dyn Iterator<Item = usize>, stride: usize| {
        for p in positions {
            let record = &own[p * stride % records.len()][p % FRAMES];
            sum.iter_mut().zip(record).for_each(|(sum, k)| *sum += k);
        }
        sum
    };
    let company = |rows: usize, stride: usize| -> Vec<T> {
        (0..rows)
            .map(|p| records[p * stride % records.len()].clone())
            .collect()
    };
    for stride in [1, 7] {
        let expected = add(noise.clone(), &mut (0..ROWS), stride);
        let found = sum(&company(ROWS, stride), Which::All, 1);
        assert!(found == expected, "{name}: all together");
    }
    let rate = SamplingRate::new(0.5).unwrap();
    let over = Which::Poisson(rate);
    let mut places = poisson_sample(REPLACE, 7, rate, ROWS).into_iter();
    let expected = add(sum(&empty, over, 1), &mut places, 5);
    assert!(
        sum(&company(ROWS, 5), over, 1) == expected,
        "{name}: a sample"
    );
    own.into_iter().flatten().collect()
}

/// Smoothed gradients and their differences.
fn smoothed<T: Clone, L: Differentiable>(
    name: &str,
    loss: &impl Fn() -> L,
    dim: usize,
    data: &impl Fn(&[T]) -> PrivateData<L::Records>,
    records: (&[T], &T),
) {
    let (points, frames) = (points(dim), frames(dim));
    for (k, point) in points.iter().enumerate().skip(1) {
        let query = SmoothedGradient {
            point,
            smoothing: 0.3,
            frames: &frames,
            clip: norm(if k % 2 == 0 { 0.03 } else { 3.0 }),
        };
        let found = framed(
            &format!("{name}, smoothed {k}"),
            loss,
            &query,
            data,
            records,
        );
        assert!(k > 3 || found.iter().flatten().any(|&k| k != 0), "{name}");
    }
    let mut curator = Curator::simulated(REPLACE, 5);
    let count = NonZeroUsize::new(FRAMES).unwrap();
    let offsets = Offsets::draw(&mut curator, dim, 0.3, count).unwrap();
    let ball = BallGradient {
        point: &points[2],
        offsets: &offsets,
        clip: norm(0.3),
    };
    let own = framed(&format!("{name}, ball"), loss, &ball, data, records);
    let same = Smoothed::Ball(ball);
    assert!(own == framed(&format!("{name}, smoothed"), loss, &same, data, records));
    for t in [1.0, 1e-6, 1e-12, 1e-100, 1e-300] {
        let (from, way) = (&points[2], &points[3]);
        let by: Vec<f64> = way.iter().map(|x| t * x).collect();
        let to: Vec<f64> = from.iter().zip(&by).map(|(a, b)| a + b).collect();
        let query = SmoothedDifference {
            segment: Segment::new(from, &to, &by).unwrap(),
            smoothing: 0.3,
            frames: &frames,
            radius: Some(norm(2.0 * t)),
        };
        let found = framed(
            &format!("{name}, difference {t:e}"),
            loss,
            &query,
            data,
            records,
        );
        if to == *from {
            // The values are the same, so nothing is left of the difference.
            assert!(found.iter().flatten().all(|&k| k == 0), "{name} at {t:e}");
        }
    }
}

#[test]
fn of_rows() {
    let data = |r: &[_]| private(Store::Dense, r, REPLACE);
    let nobody = ([0.0; DIM], 0.0);
    let (all, point) = (examples(), &points(DIM)[2]);
    let all = (&all[..], &nobody);
    for phi in Glm::ALL {
        smoothed(&format!("{phi}"), &|| phi, DIM, &data, all);
    }
    let phase = || {
        QuadraticLink::phase_retrieval(
            Glm::Huber(dpopt_oracle::Scale::new(1.0).unwrap()),
            norm(2.0),
        )
    };
    smoothed("phase", &phase, DIM, &data, all);
    let link = || QuadraticLink::new(Glm::Logistic, RANK, norm(2.0));
    smoothed("link", &link, DIM * RANK.get(), &data, all);
    let softmax = || Softmax::new(3).unwrap();
    smoothed("softmax", &softmax, 3 * DIM, &data, all);
    let mlp = || Mlp::new(&[DIM, 2, 2], Activation::Silu, Head::Softmax).unwrap();
    smoothed("perceptron", &mlp, 2 * DIM + 8, &data, all);
    // Three threads start at 4096 records.
    let query = SmoothedGradient {
        point,
        smoothing: 0.3,
        frames: &frames(DIM),
        clip: norm(1.0),
    };
    let many: Vec<_> = (0..4096).map(|i| all.0[i % all.0.len()]).collect();
    let sum = |threads| noisy_sum(Glm::Welsch, &query, &data(&many), Which::All, threads);
    let one = sum(1);
    assert!(one == sum(2) && one == sum(3));
}
