//! The attack on floating-point noise (Mironov 2012): low bits of one output tell which of two
//! neighbouring sums was released. It works on naive noise and fails on what a curator releases.

use dpopt_privacy::noise::{KeyedStream, Purpose, ReplayKeyForTests, StreamId};
use dpopt_privacy::{Adjacency, Curator, Event, LatticeSum, Spend, Which};

use crate::common::{bound, release, z};

const RELEASES: usize = 20_000;

/// The event: an output between −1/2 and 1/2 that is no multiple of 2^−53.
///
/// From the sum 1 it can't be reached by any float `x`: `1 + x` rounds into that range only if
/// `x` is in [−3/2, −1/2], where floats are multiples of 2^−53; then `1 + x` is a float and is
/// not rounded (Sterbenz), so it is such a multiple too. From the sum 0, `0 + x` is `x`, and most floats
/// that small are none.
fn tells(output: f64) -> bool {
    let scaled = output * 53_f64.exp2();
    output.abs() < 0.5 && scaled != scaled.round()
}

fn stream(number: u32) -> KeyedStream {
    ReplayKeyForTests::from_seed(2012).stream(StreamId::new(Purpose::Noise, number))
}

/// Standard normals in `f64` arithmetic (Box and Muller 1958, both of each pair).
fn add_naive(stream: &mut KeyedStream, values: &mut [f64]) {
    // A multiple of 2^-53 in [0, 1).
    let mut uniform = || (rand::Rng::next_u64(stream) >> 11) as f64 * (f64::EPSILON / 2.0);
    for pair in values.chunks_mut(2) {
        // In (0, 1], so that the logarithm is finite.
        let radius = (-2.0 * libm::log(1.0 - uniform())).sqrt();
        let (sin, cos) = libm::sincos(std::f64::consts::TAU * uniform());
        for (value, part) in pair.iter_mut().zip([cos, sin]) {
            *value += radius * part;
        }
    }
}

fn hits(outputs: &[f64]) -> usize {
    outputs.iter().filter(|&&output| tells(output)).count()
}

#[test]
fn one_output_of_naive_noise_excludes_an_input() {
    let outputs = |sum: f64, number: u32| {
        let mut values = vec![sum; RELEASES];
        add_naive(&mut stream(number), &mut values);
        values
    };
    // Probability zero on one side, at least 1 in 10 on the other: no epsilon is finite.
    assert_eq!(hits(&outputs(1.0, 1)), 0);
    let share = hits(&outputs(0.0, 0)) as f64 / RELEASES as f64;
    assert!(share > 0.1, "{share}");
    // The noise itself is Gaussian enough: this is not a failure that a histogram shows. (Six
    // deviations: a false alarm for 2 seeds in 10^9.)
    let mean = outputs(1.0, 2).iter().sum::<f64>() / RELEASES as f64;
    assert!(
        (mean - 1.0).abs() < 6.0 / (RELEASES as f64).sqrt(),
        "{mean}"
    );
}

/// Releases of a sum of one record, 0 or 1, with noise of standard deviation 1 in the same units
/// as above, and the step of the lattice.
fn released(record: f64, seed: u64) -> (Vec<f64>, f64) {
    let adjacency = Adjacency::ZeroOut;
    let bound = bound(2.0, 1);
    let multiplier = z(0.5);
    let mut curator = Curator::simulated(adjacency, seed);
    let spend = Event::gaussian(multiplier).repeated(RELEASES as u64);
    curator.reserve(&Spend::Fixed(spend)).unwrap();
    let outputs = (0..RELEASES)
        .map(|_| {
            let mut sum = LatticeSum::new(bound);
            sum.add_scaled(1.0, &[record]);
            release(&mut curator, Which::All, sum, multiplier).unwrap()[0]
        })
        .collect();
    (outputs, bound.step())
}

#[test]
fn the_same_attack_fails_on_a_curator() {
    let (from_zero, step) = released(0.0, 3);
    let (from_one, _) = released(1.0, 4);
    // The noise is there, and as large as above.
    for (outputs, mean) in [(&from_zero, 0.0), (&from_one, 1.0)] {
        let variance: f64 =
            outputs.iter().map(|y| (y - mean).powi(2)).sum::<f64>() / RELEASES as f64;
        assert!(
            (variance - 1.0).abs() < 6.0 * (2.0 / RELEASES as f64).sqrt(),
            "{variance}"
        );
    }
    // The event has probability zero on both sides.
    assert_eq!((hits(&from_zero), hits(&from_one)), (0, 0));
    // More: all outputs of both are points of one lattice, and no low bit of theirs leans to a
    // side. Six deviations each: 40 checks, a false alarm for 1 seed in 10^7.
    let point = |y: f64| {
        let k = y / step;
        assert_eq!(k, k.round());
        k as i64
    };
    for bit in 0..20 {
        for outputs in [&from_zero, &from_one] {
            let ones = outputs
                .iter()
                .filter(|&&y| point(y) >> bit & 1 == 1)
                .count();
            let z = (2.0 * ones as f64 - RELEASES as f64) / (RELEASES as f64).sqrt();
            assert!(z.abs() < 6.0, "bit {bit}: {z}");
        }
    }
}
