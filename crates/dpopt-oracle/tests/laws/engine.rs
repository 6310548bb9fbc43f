//! Contributions as integers, and the laws they keep.

use std::num::NonZeroUsize;

use dpopt_oracle::{Loss, PrivateData, PrivateMean, Query};
use dpopt_privacy::{
    Adjacency, Bound, Curator, Event, NoiseMultiplier, SamplingRate, Spend, Which,
};

/// The declared number of records: a power of two, so that dividing by it is exact, and enough for three threads.
pub(crate) const PUBLIC: u64 = 4096;

const SEED: u64 = 7;
/// Of the noise, over the sensitivity: about a million steps.
const MULTIPLIER: f64 = 1e-3;

/// An integer vector, in lattice steps.
pub(crate) type Steps = Vec<i64>;

fn z() -> NoiseMultiplier {
    NoiseMultiplier::new(MULTIPLIER).unwrap()
}

/// splitmix64, as numbers in [-1, 1).
pub(crate) fn uniforms(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 10) as f64 / (1u64 << 53) as f64 - 1.0
    }
}

/// The sum of a query's contributions and of a noise that depends on the shape of the program only.
pub(crate) fn noisy_sum<L: Loss, Q: Query<L>>(
    loss: L,
    query: &Q,
    data: &PrivateData<L::Records>,
    over: Which<'_>,
    threads: usize,
) -> Steps {
    let step = query.bound(&loss).unwrap().unwrap().step();
    let mut curator = Curator::simulated(data.adjacency(), SEED);
    let event = Event::gaussian(z());
    let (event, share) = match over {
        Which::Poisson(rate) => (event.poisson_sampled(rate), rate.get()),
        _ => (event, 1.0),
    };
    curator.reserve(&Spend::Fixed(event)).unwrap();
    let mut mean = PrivateMean::new(data, loss, curator)
        .unwrap()
        .with_threads(NonZeroUsize::new(threads).unwrap());
    let released = mean.release(query, over, z()).unwrap().unwrap();
    let denominator = data.public_records() as f64 * share;
    assert!(denominator.log2().fract() == 0.0, "the mean must be exact");
    released
        .mean
        .iter()
        .map(|x| {
            let k = x * denominator / step;
            assert!(k.fract() == 0.0 && k.abs() < 2f64.powi(53), "{k}");
            k as i64
        })
        .collect()
}

pub(crate) fn minus(a: &[i64], b: &[i64]) -> Steps {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

/// The sum of these contributions and of the noise.
fn total<'c>(noise: &[i64], contributions: impl Iterator<Item = &'c Steps>) -> Steps {
    let mut sum = noise.to_vec();
    for contribution in contributions {
        for (sum, k) in sum.iter_mut().zip(contribution) {
            *sum += k;
        }
    }
    sum
}

/// The norm of a contribution is at most `radii` times the radius, in exact integers.
pub(crate) fn assert_within(name: &str, contribution: &[i64], bound: &Bound, radii: u128) {
    let square: u128 = contribution
        .iter()
        .map(|&k| u128::from(k.unsigned_abs()).pow(2))
        .sum();
    let radius = (bound.radius() / bound.step()).floor() as u128;
    assert!(
        square <= (radii * radius).pow(2),
        "{name}: {square} above the square of {radii} times {radius}"
    );
}

/// Which records stand where: all, backwards, turned with repetitions, and more and more of them, up to one beyond
/// every size of a block.
fn arrangements(records: usize) -> Vec<Vec<usize>> {
    let mut all = vec![
        (0..records).collect(),
        (0..records).rev().collect(),
        (0..3 * records)
            .map(|i| (i * 7 + i / 5) % records)
            .collect(),
    ];
    let sizes = (2..=9).chain([31, 33, 63, 65, 127, 129, 257, 300]);
    for size in sizes {
        all.push((0..size).map(|i| (i * 11 + size) % records).collect());
    }
    all
}

/// What each record contributes alone; checks that it does so in any company, and its norm.
///
/// `data` makes records private, under add-remove adjacency with [`PUBLIC`] as their declared number.
pub(crate) fn contributions<T: Clone, L: Loss, Q: Query<L>>(
    name: &str,
    loss: impl Fn() -> L,
    query: &Q,
    data: impl Fn(&[T]) -> PrivateData<L::Records>,
    records: &[T],
) -> Vec<Steps> {
    let bound = query.bound(&loss()).unwrap().unwrap();
    let sum =
        |records: &[T], threads| noisy_sum(loss(), query, &data(records), Which::All, threads);
    let noise = sum(&[], 1);
    let alone: Vec<Steps> = records
        .iter()
        .map(|record| minus(&sum(std::slice::from_ref(record), 1), &noise))
        .collect();
    for (i, contribution) in alone.iter().enumerate() {
        assert_within(&format!("{name}, record {i}"), contribution, &bound, 1);
    }
    for places in arrangements(records.len()) {
        let company: Vec<T> = places.iter().map(|&i| records[i].clone()).collect();
        let expected = total(&noise, places.iter().map(|&i| &alone[i]));
        let threads = 1 + places.len() % 3;
        assert!(
            sum(&company, threads) == expected,
            "{name}: {} records on {threads} threads",
            places.len()
        );
    }
    let company: Vec<T> = (0..200)
        .map(|i| records[i % records.len()].clone())
        .collect();
    let rate = SamplingRate::new(0.5).unwrap();
    let drawn = Curator::simulated(Adjacency::AddRemove, SEED)
        .poisson_sample(rate, company.len())
        .unwrap();
    let places = drawn
        .secret_positions()
        .reveal()
        .iter()
        .map(|&i| i as usize);
    let sampled = |records: &[T]| noisy_sum(loss(), query, &data(records), Which::Poisson(rate), 1);
    // Without records the sample is empty and the noise the same.
    let expected = total(&sampled(&[]), places.map(|i| &alone[i % records.len()]));
    assert!(sampled(&company) == expected, "{name}: a Poisson sample");
    alone
}
