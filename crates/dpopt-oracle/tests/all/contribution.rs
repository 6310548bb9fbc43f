//! One record moves a release by the sensitivity. `tests/laws` has the laws of contributions.
//!
//! Un-noised sums can't be read. Two simulated curators with the same seed draw the same noise,
//! so equal releases mean equal sums, and the difference of two releases is that of the sums.

use dpopt_linalg::{Design, norm};
use dpopt_oracle::{Glm, PrivateData, PrivateGradient};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, SamplingRate, Spend, Which,
};

use crate::common::{uniforms, z};

const DIM: usize = 5;

/// A record with a dense row.
type Record = ([f64; DIM], f32);

/// Rows of all lengths (some above the bound 1), some with zeros, labels of both kinds.
fn records(count: usize, seed: u64) -> Vec<Record> {
    let mut next = uniforms(seed);
    (0..count)
        .map(|i| {
            let scale = 10f64.powf(1.5 * next() - 1.0);
            let mut row = [0.0; DIM];
            for x in &mut row {
                let value = next();
                *x = f64::from((if value > 0.6 { 0.0 } else { scale * value }) as f32);
            }
            let label = if i % 3 == 0 { next() } else { next().signum() };
            (row, label as f32)
        })
        .collect()
}

fn private(records: &[Record], adjacency: Adjacency, public: u64) -> PrivateData {
    let rows = records.iter().flat_map(|(row, _)| *row).collect();
    let labels = records.iter().map(|(_, label)| *label).collect();
    let declared = (adjacency == Adjacency::AddRemove).then_some(public);
    let bound = ClipNorm::new(1.0).unwrap();
    let design = Design::dense(DIM, rows).unwrap();
    PrivateData::made_up(design, labels, bound, adjacency, declared).unwrap()
}

const MULTIPLIER: f64 = 1e-3;

#[test]
fn the_sensitivity_is_attained() {
    // Opposite records beyond the clip radius: the release moves by nearly 2C/n.
    let data = |label: f32| {
        let mut all = records(40, 8);
        all[17] = ([1.0, 0.0, 0.0, 0.0, 0.0], label);
        private(&all, Adjacency::ReplaceOne, 0)
    };
    let release = |data: &PrivateData| {
        let mut curator = Curator::simulated(data.adjacency(), 99);
        let event = Event::gaussian(z(MULTIPLIER));
        curator.reserve(&Spend::Fixed(event)).unwrap();
        let estimator = PrivateGradient::new(data, Glm::Logistic, curator).unwrap();
        let mut estimator = estimator.with_clip(ClipNorm::new(0.3).unwrap());
        let estimate = estimator.refresh(&[0.0; DIM], z(MULTIPLIER)).unwrap();
        estimate.gradient.to_vec()
    };
    let (a, b) = (release(&data(1.0)), release(&data(-1.0)));
    let moved: Vec<f64> = a.iter().zip(&b).map(|(x, y)| x - y).collect();
    let sensitivity = 2.0 * 0.3 / 40.0;
    assert!(norm(&moved) > 0.999_999 * sensitivity && norm(&moved) <= sensitivity * (1.0 + 1e-12));
}

/// Dividing by the realised size of a sample would rescale the whole release, noise included, when
/// one record joins: with the public size it moves by that record's contribution alone.
#[test]
fn a_poisson_mean_divides_by_the_public_size() {
    let rate = SamplingRate::new(0.5).unwrap();
    let noise = NoiseMultiplier::new(100.0).unwrap();
    let (public, clip) = (40, 0.7);
    let all = records(31, 11);
    let release = |records: &[Record], seed: u64| {
        let data = private(records, Adjacency::AddRemove, public);
        let mut curator = Curator::simulated(Adjacency::AddRemove, seed);
        let event = Event::gaussian(noise).poisson_sampled(rate);
        curator.reserve(&Spend::Fixed(event)).unwrap();
        let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator)
            .unwrap()
            .with_clip(ClipNorm::new(clip).unwrap())
            .reading(Which::Poisson(rate), Which::Poisson(rate));
        let estimate = estimator.refresh(&[0.1; DIM], noise).unwrap();
        estimate.gradient.to_vec()
    };
    let largest = clip / (0.5 * public as f64);
    let mut moved = 0;
    for seed in 0..40 {
        // The last record joins; the others keep their positions, hence their coins.
        let (with, without) = (release(&all, seed), release(&all[..30], seed));
        let difference: Vec<f64> = with.iter().zip(&without).map(|(a, b)| a - b).collect();
        assert!(norm(&difference) <= largest * (1.0 + 1e-9), "seed {seed}");
        moved += usize::from(norm(&difference) > 0.0);
        // An empty data set still gets its noise.
        assert!(norm(&release(&[], seed)) > 0.0);
    }
    // Binomial(40, 1/2) leaves 6..=34 with probability below 1e-5; the seeds are fixed.
    assert!((6..=34).contains(&moved), "{moved}");
}
