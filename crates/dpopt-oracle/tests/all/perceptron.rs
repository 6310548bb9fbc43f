//! Perceptrons: gradients against difference quotients, sums of blocks against single records, and what one
//! record can do to a release.
//!
//! Simulated curators with the same seed draw the same noise, so the difference of two releases is that of the sums.

use std::num::NonZeroUsize;

use dpopt_linalg::{Design, Row, norm, norm_upper};
use dpopt_oracle::{
    Activation, Constants, Differentiable, Example, Examples, Glm, Head, Loss, Mlp, MlpError,
    PrivateData, PrivateGradient, check_gradient,
};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, SamplingRate, Spend, Which};

use crate::common::{OneByOne, uniforms, z};

const INPUTS: usize = 6;

type Record = ([f64; INPUTS], f32);

fn records(count: usize, seed: u64) -> Vec<Record> {
    let mut next = uniforms(seed);
    (0..count)
        .map(|i| {
            let row = std::array::from_fn(|_| f64::from(next() as f32));
            (row, (i % 3) as f32)
        })
        .collect()
}

fn private(records: &[Record], adjacency: Adjacency) -> PrivateData {
    let flat = records.iter().flat_map(|(row, _)| *row).collect();
    let labels = records.iter().map(|(_, label)| *label).collect();
    let declared = (adjacency == Adjacency::AddRemove).then_some(300);
    let bound = ClipNorm::new(2.0).unwrap();
    let design = Design::dense(INPUTS, flat).unwrap();
    PrivateData::made_up(design, labels, bound, adjacency, declared).unwrap()
}

fn example((row, label): &Record) -> Example<'_> {
    Example {
        row: Row::Dense(row),
        label: f64::from(*label),
        norm: norm_upper(row),
    }
}

fn networks() -> Vec<Mlp> {
    let mut all = Vec::new();
    for activation in Activation::ALL {
        for sizes in [&[INPUTS, 3][..], &[INPUTS, 9, 3], &[INPUTS, 5, 11, 4, 3]] {
            all.push(Mlp::new(sizes, activation, Head::Softmax).unwrap());
        }
        all.push(Mlp::new(&[INPUTS, 7, 1], activation, Head::Squared).unwrap());
        // With the labels of records, 0 to 2, no residual is near a kink of these.
        for phi in [Glm::Logistic, Glm::Welsch, Glm::Cauchy] {
            all.push(Mlp::new(&[INPUTS, 7, 1], activation, Head::Scalar(phi)).unwrap());
        }
    }
    all
}

fn release<L: Differentiable<Records = Examples>>(
    loss: L,
    data: &PrivateData,
    point: &[f64],
    clip: f64,
    threads: usize,
) -> Vec<f64> {
    let curator = Curator::simulated(data.adjacency(), 4);
    let clip = ClipNorm::new(clip).unwrap();
    let mut estimator = PrivateGradient::clipped(data, loss, curator, clip)
        .unwrap()
        .with_threads(NonZeroUsize::new(threads).unwrap());
    estimator
        .reserve(&Spend::Fixed(Event::gaussian(z(1e-3))))
        .unwrap();
    estimator.refresh(point, z(1e-3)).unwrap().gradient.to_vec()
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    norm(&a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<f64>>())
}

/// The loss over public records, for the checker.
struct OverVec(Mlp);

impl Loss for OverVec {
    type Records = Vec<Record>;
    fn dim(&self, _: &Vec<Record>) -> usize {
        self.0.parameters()
    }
    fn constants_on(&self, _: &Vec<Record>) -> Constants {
        Constants::new(1.0, 1.0, 1.0, dpopt_oracle::Convexity::Nonconvex)
    }
    fn value(&self, record: &Record, point: &[f64]) -> f64 {
        self.0.value(example(record), point)
    }
}

impl Differentiable for OverVec {
    fn gradient(&self, record: &Record, point: &[f64], out: &mut [f64]) {
        self.0.gradient(example(record), point, out);
    }
}

#[test]
fn gradients_are_those_of_the_values() {
    let all = records(6, 1);
    for mlp in networks() {
        let mut point = mlp.initial_point(3);
        // Biases away from zero, and with them the kinks of ReLU.
        let mut next = uniforms(8);
        point.iter_mut().for_each(|w| *w += 0.1 * next());
        let check = check_gradient(&OverVec(mlp.clone()), &all, &point).unwrap();
        assert!(check.worst < 1e-8, "{mlp:?} {check:?}");
        assert!(check.not_finite.is_empty());
    }
}

#[test]
fn blocks_add_up_to_the_single_records_within_the_stated_error() {
    // Two blocks and a part of one.
    let all = records(300, 2);
    let data = private(&all, Adjacency::AddRemove);
    let placed = private(&all, Adjacency::ReplaceOne);
    for mlp in networks() {
        let point = mlp.initial_point(5);
        // All gradients cut; some; none.
        for clip in [0.01, 1.0, 50.0] {
            let blocks = release(mlp.clone(), &data, &point, clip, 1);
            let single = release(OneByOne(mlp.clone()), &data, &point, clip, 1);
            // The error of rounding and the shortfall of the clip, each at most d^(1/4) 2^-14.5 of the radius, and
            // the rounding of whole vectors.
            let allowed = 2.001 * (mlp.parameters() as f64).powf(0.25) * 2f64.powf(-14.5) * clip;
            assert!(apart(&blocks, &single) <= allowed, "{mlp:?} {clip}");
            assert!(norm(&single) > 20.0 * allowed || clip == 50.0);
            // At fixed positions: the contributions are cut by 2^-9 of the radius where they are cut, and everything is
            // computed in single precision, through up to four layers of at most 12 terms and back.
            let blocks = release(mlp.clone(), &placed, &point, clip, 1);
            let single = release(OneByOne(mlp.clone()), &placed, &point, clip, 1);
            let cut = if clip == 50.0 {
                0.0
            } else {
                1.01 * 2f64.powi(-9) * clip
            };
            let found = apart(&blocks, &single);
            let allowed = cut + 100.0 * 2f64.powi(-24) * clip.min(4.0);
            assert!(found <= allowed, "{mlp:?} {clip}: {found} {allowed}");
        }
    }
}

/// The release on a Poisson sample of replace-one data.
fn sampled(mlp: &Mlp, all: &[Record], point: &[f64], threads: usize) -> Vec<f64> {
    let data = private(all, Adjacency::ReplaceOne);
    let rate = SamplingRate::new(0.5).unwrap();
    let curator = Curator::simulated(data.adjacency(), 4);
    let mut estimator =
        PrivateGradient::clipped(&data, mlp.clone(), curator, ClipNorm::new(0.2).unwrap())
            .unwrap()
            .with_threads(NonZeroUsize::new(threads).unwrap())
            .reading(Which::Poisson(rate), Which::Poisson(rate));
    let event = Event::gaussian(z(1e-3)).poisson_sampled(rate);
    estimator.reserve(&Spend::Fixed(event)).unwrap();
    estimator.refresh(point, z(1e-3)).unwrap().gradient.to_vec()
}

/// A thread is worth its start from four million coordinates on.
#[test]
fn threads_share_no_block() {
    let all = records(9_000, 4);
    let data = private(&all, Adjacency::ReplaceOne);
    let mlp = Mlp::new(&[INPUTS, 160, 3], Activation::Tanh, Head::Softmax).unwrap();
    let point = mlp.initial_point(5);
    let run = |threads| release(mlp.clone(), &data, &point, 0.3, threads);
    let one = run(1);
    assert!(one == run(2) && one == run(3));
    let one = sampled(&mlp, &all, &point, 1);
    assert!(one == sampled(&mlp, &all, &point, 2));
}

#[test]
fn one_record_moves_a_sampled_release_by_at_most_the_sensitivity() {
    const ROWS: usize = 700;
    let base = records(ROWS, 6);
    let mlp = Mlp::new(&[INPUTS, 9, 3], Activation::Relu, Head::Softmax).unwrap();
    let point = mlp.initial_point(5);
    let start = sampled(&mlp, &base, &point, 1);
    let allowed = 2.0 * 0.2 / (0.5 * ROWS as f64) * (1.0 + 1e-9);
    let mut inside = 0;
    for place in (0..ROWS).step_by(20).chain([223, 224, 447, 448]) {
        for record in hostile() {
            let mut all = base.clone();
            all[place] = record;
            let moved = apart(&sampled(&mlp, &all, &point, 1), &start);
            assert!(moved <= allowed, "{place}");
            inside += usize::from(moved > 0.1 * allowed);
        }
    }
    // Half of 39 places were drawn, and most records move the sum: Binomial(39, 1/2) is below 6 with probability 1e-6.
    assert!(inside > 6 * 5, "{inside}");
}

/// Records that a hostile owner might send.
fn hostile() -> Vec<Record> {
    let e = |x: f64| std::array::from_fn(|j| if j == 0 { x } else { 0.0 });
    vec![
        (e(2.0), 0.0),
        (e(-2.0), 1.0),
        ([0.8; INPUTS], 2.0),
        ([f64::NAN; INPUTS], 1.0),
        (e(f64::INFINITY), 0.0),
        ([f64::MAX; INPUTS], 2.0),
        (e(1e-320), 1.0),
        ([0.0; INPUTS], 1.0),
        (e(1.0), f32::NAN),
        (e(1.0), 3.0),
        (e(1.0), -1.0),
        (e(1.0), 0.5),
        (e(1.0), f32::MAX),
    ]
}

#[test]
fn one_record_moves_a_release_by_at_most_the_sensitivity() {
    // The first and last of blocks of 128, and of all.
    const ROWS: usize = 300;
    const PLACES: [usize; 7] = [0, 63, 127, 128, 255, 256, 299];
    let base = records(ROWS, 6);
    let mlp = Mlp::new(&[INPUTS, 9, 3], Activation::Relu, Head::Softmax).unwrap();
    let squared = Mlp::new(&[INPUTS, 9, 1], Activation::Silu, Head::Squared).unwrap();
    for mlp in [mlp, squared] {
        let usual = mlp.initial_point(5);
        let far: Vec<f64> = usual.iter().map(|w| 1e200 * w).collect();
        let clip = 0.2;
        for point in [&usual, &far] {
            for (adjacency, factor) in [
                (Adjacency::ReplaceOne, 2.0),
                (Adjacency::AddRemove, 1.0),
                (Adjacency::ZeroOut, 1.0),
            ] {
                let run =
                    |all: &[Record]| release(mlp.clone(), &private(all, adjacency), point, clip, 1);
                let start = run(&base);
                let allowed = factor * clip / ROWS as f64 * (1.0 + 1e-9) + 1e-15 * norm(&start);
                let mut largest = 0.0f64;
                for place in PLACES {
                    let changed: Vec<Vec<f64>> = match adjacency {
                        Adjacency::ReplaceOne => hostile()
                            .into_iter()
                            .map(|record| {
                                let mut all = base.clone();
                                all[place] = record;
                                run(&all)
                            })
                            .collect(),
                        Adjacency::AddRemove => hostile()
                            .into_iter()
                            .map(|record| {
                                let mut all = base.clone();
                                all.insert(place, record);
                                run(&all)
                            })
                            .collect(),
                        _ => {
                            let mut all = base.clone();
                            all[place] = ([f64::NAN; INPUTS], f32::NAN);
                            vec![run(&all)]
                        }
                    };
                    for (i, a) in changed.iter().enumerate() {
                        largest = largest.max(apart(a, &start));
                        assert!(apart(a, &start) <= allowed, "{adjacency} {place} {i}");
                        if adjacency == Adjacency::ReplaceOne {
                            for b in &changed {
                                assert!(apart(a, b) <= allowed, "{place} {i}");
                            }
                        }
                    }
                }
                // Not by an estimator that ignores its data.
                assert!(
                    largest > 0.3 * allowed || point[0].abs() > 1e100,
                    "{largest} {allowed}"
                );
            }
        }
    }
}

#[test]
fn rows_that_are_no_records_contribute_nothing() {
    for mlp in networks() {
        let point = mlp.initial_point(1);
        for record in [([0.0; INPUTS], 0.0), ([0.5; INPUTS], f32::NAN)] {
            let mut out = vec![0.0; point.len()];
            mlp.gradient(example(&record), &point, &mut out);
            assert!(out.iter().all(|g| *g == 0.0) && mlp.value(example(&record), &point) == 0.0);
        }
    }
}

#[test]
fn perceptrons_that_can_not_be_are_errors() {
    let new = |sizes: &[usize], head| Mlp::new(sizes, Activation::Tanh, head).unwrap_err();
    assert_eq!(new(&[3], Head::Squared), MlpError::TooFewSizes { sizes: 1 });
    assert_eq!(
        new(&[3, 0, 2], Head::Softmax),
        MlpError::EmptyLayer { layer: 1 }
    );
    assert!(matches!(
        new(&[3, 1], Head::Softmax),
        MlpError::Outputs { outputs: 1, .. }
    ));
    assert!(matches!(
        new(&[3, 2], Head::Squared),
        MlpError::Outputs { outputs: 2, .. }
    ));
    assert_eq!(
        new(&[usize::MAX, 2], Head::Softmax),
        MlpError::TooManyParameters
    );
    assert_eq!(
        new(&[usize::MAX / 4, 2], Head::Softmax),
        MlpError::TooManyParameters
    );
}

/// From the start every output is 0 whatever the row, so that the gap is that of the head at 0, and a unit of the first layer receives
/// something of root mean square 1 from a row as long as the bound: over 4,000 units the mean square of N(0, 1) numbers is within .1 of 1
/// but for a chance below 1e-9 (uniform weights have shorter tails).
#[test]
fn starts_have_outputs_of_zero_and_units_that_receive_one() {
    for activation in Activation::ALL {
        let mlp = Mlp::new(&[INPUTS, 4000, 3, 2], activation, Head::Softmax).unwrap();
        let point = mlp.start(2.5, 7);
        assert_eq!(point.len(), mlp.parameters());
        assert!(point != mlp.start(2.5, 8) && point == mlp.start(2.5, 7));
        let row = [2.5 / (INPUTS as f64).sqrt(); INPUTS];
        assert_eq!(mlp.outputs(&row, &point), [0.0, 0.0]);
        let received = |j: usize| {
            (0..INPUTS)
                .map(|i| row[i] * point[i * 4000 + j])
                .sum::<f64>()
        };
        let mean = (0..4000).map(|j| received(j).powi(2)).sum::<f64>() / 4000.0;
        assert!((mean - 1.0).abs() < 0.1, "{activation}: {mean}");
    }
    // Two sizes make a linear model, which starts at the origin.
    let linear = Mlp::new(&[INPUTS, 3], Activation::Relu, Head::Softmax).unwrap();
    assert!(linear.start(1.0, 3).iter().all(|w| *w == 0.0));
    // Its slope is the row and the 1 of the bias.
    assert!((linear.typical_slope(3.0) - 10f64.sqrt()).abs() < 1e-12);
}

/// The typical slope is that of an output in all weights at random weights, to a factor of 1.5: difference quotients at 40 rows.
#[test]
fn the_typical_slope_is_typical() {
    let mlp = Mlp::new(&[INPUTS, 60, 40, 1], Activation::Relu, Head::Squared).unwrap();
    let mut next = uniforms(4);
    let mut squares = 0.0;
    for seed in 0..40 {
        let mut point = mlp.initial_point(seed);
        let row: Vec<f64> = (0..INPUTS).map(|_| next()).collect();
        let size = norm(&row);
        // Inputs of root mean square 1, as a start has them.
        let row: [f64; INPUTS] =
            std::array::from_fn(|i| row[i] * (INPUTS as f64 / 2.0).sqrt() / size);
        let record = (row, 0.0f32);
        let output = mlp.outputs(&row, &point)[0];
        // The label moved so that the residual is 1: the gradient of the loss is that of the output.
        let mut gradient = vec![0.0; mlp.parameters()];
        let shifted = Example {
            label: output - 1.0,
            ..example(&record)
        };
        mlp.gradient(shifted, &point, &mut gradient);
        squares += gradient.iter().map(|g| g * g).sum::<f64>() / 40.0;
        point.clear();
    }
    let stated = mlp.typical_slope((INPUTS as f64 / 2.0).sqrt());
    let ratio = squares.sqrt() / stated;
    assert!((1.0 / 1.5..1.5).contains(&ratio), "{ratio}");
}
