//! Laplace noise in the privacy-loss accountant, against values from outside.

use dpopt_privacy::accounting::pld::{self, PldBounds, PldError, PldOptions};
use dpopt_privacy::{
    Accountant, AccountingError, Adjacency, Delta, Event, NoiseMultiplier, SamplingRate,
};
use proptest::prelude::*;

const ALL: [Adjacency; 3] = [
    Adjacency::AddRemove,
    Adjacency::ReplaceOne,
    Adjacency::ZeroOut,
];

fn laplace(b: f64) -> Event {
    Event::Laplace {
        noise_multiplier: NoiseMultiplier::new(b).unwrap(),
    }
}

fn gaussian(z: f64) -> Event {
    Event::gaussian(NoiseMultiplier::new(z).unwrap())
}

fn sampled(event: Event, q: f64) -> Event {
    event.poisson_sampled(SamplingRate::new(q).unwrap())
}

fn epsilon(event: &Event, delta: f64) -> PldBounds {
    pld::epsilon(event, Delta::new(delta).unwrap(), Adjacency::AddRemove).unwrap()
}

/// The truth, known to `error`, lies within bounds of relative width 0.001.
fn check(bounds: PldBounds, truth: f64, error: f64) {
    assert!(
        bounds.lower <= truth + error && truth - error <= bounds.upper,
        "{bounds:?} against {truth}"
    );
    assert!(bounds.width() <= 1e-3 * truth, "{bounds:?} for {truth}");
}

#[test]
fn compositions_bracket_the_tight_epsilon() {
    for (b, count, delta, truth, error) in [
        (50.0, 5000, 1e-6, 7.254276136844285, 3.9e-9),
        (0.5, 20, 1e-10, 39.99989518059986, 4.4e-7),
        (10.0, 100, 1e-5, 4.220347325090752, 1e-9),
        (2.0, 50, 1e-6, 18.75468138838783, 1.3e-8),
    ] {
        let event = laplace(b).repeated(count);
        for adjacency in ALL {
            let clock = std::time::Instant::now();
            let bounds = pld::epsilon(&event, Delta::new(delta).unwrap(), adjacency).unwrap();
            eprintln!("{b} {count} {bounds:?} rel {:e} {:?}", bounds.width()/truth, clock.elapsed());
            check(bounds, truth, error);
        }
    }
}

#[test]
fn one_release_has_the_closed_form() {
    for (b, eps, truth) in [
        (1.0, 0.0, 0.3934693402873666),
        (10.0, 0.05, 0.024690087971667333),
        (0.3, 0.3, 0.7805578570073733),
        (1000.0, 1e-4, 0.0004498987651857916),
        (2.0, 0.0, 0.22119921692859512),
        (0.05, 0.0, 0.9999546000702375),
        (0.3, 0.05, 0.8063429885124811),
        (0.05, 10.0, 0.9932620530009145),
        (1.0, 0.3, 0.29531191028128656),
        (0.05, 0.05, 0.9999534507655438),
        (1.0, 0.999, 0.000499875020830711),
    ] {
            let clock = std::time::Instant::now();
        let bounds = pld::delta(&laplace(b), eps, Adjacency::ReplaceOne).unwrap();
            eprintln!("{b} {eps} {bounds:?} rel {:e} {:?}", bounds.width()/truth, clock.elapsed());
        check(bounds, truth, 1e-12);
        let closed = -(0.5 * (eps - 1.0 / b)).exp_m1();
        assert!((closed - truth).abs() <= 1e-12 * truth);
    }
    // From the largest loss on nothing is left.
    for (b, eps) in [(0.3, 10.0), (1000.0, 0.05), (2.0, 0.9), (1.0, 2.0)] {
        let none = pld::delta(&laplace(b), eps, Adjacency::AddRemove).unwrap();
        assert_eq!((none.lower, none.upper), (0.0, 0.0));
    }
    for (b, delta) in [(1.0, 1e-6), (1.0, 1e-2), (5.0, 1e-10), (0.1, 1e-5)] {
            let clock = std::time::Instant::now();
        let bounds = epsilon(&laplace(b), delta);
            eprintln!("{b} {delta} {bounds:?} rel {:e} {:?}", bounds.width()/bounds.upper, clock.elapsed());
        check(bounds, 1.0 / b + 2.0 * (-delta).ln_1p(), 1e-14);
    }
}

#[test]
fn a_mixture_of_everything_overlaps_the_prv_interval() {
    let event = Event::composed(vec![
        sampled(gaussian(0.8), 0.005).repeated(100),
        gaussian(8.0).repeated(200),
        laplace(10.0).repeated(100),
    ]);
            let clock = std::time::Instant::now();
    let bounds = epsilon(&event, 1e-6);
            eprintln!("{bounds:?} rel {:e} {:?}", bounds.width()/bounds.upper, clock.elapsed());
    assert!(bounds.lower <= 11.2534 && bounds.upper >= 11.0533);
    assert!(bounds.width() <= 1e-3 * bounds.lower, "{bounds:?}");
}

#[test]
fn samples() {
    for event in [
        sampled(laplace(0.5), 0.2).repeated(3),
        sampled(laplace(1.0), 0.01).repeated(1000),
        sampled(laplace(0.5), 1e-3).repeated(100_000),
        Event::composed(vec![sampled(laplace(0.5), 0.02).repeated(300), sampled(gaussian(1.0), 0.01).repeated(1000), laplace(1.3).repeated(2)]),
    ] {
        for delta in [1e-5, 1e-3, 0.15594] {
            let clock = std::time::Instant::now();
            let bounds = epsilon(&event, delta);
            eprintln!("{event} {delta} {bounds:?} rel {:e} {:?}", bounds.width()/bounds.upper, clock.elapsed());
        }
    }
}
