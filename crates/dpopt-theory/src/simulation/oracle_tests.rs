//! The simulated oracle under a running estimate.

use dpopt_oracle::{Oracle as _, Running};
use dpopt_privacy::Spend;

use super::*;
use crate::zoo::{Ramp, RampBowl};

fn problem() -> RampBowl {
    RampBowl::new(4, 1.0, 1.0, 0.5, Ramp::Straight, 0.1).unwrap()
}

fn z(value: f64) -> NoiseMultiplier {
    NoiseMultiplier::new(value).unwrap()
}

fn estimate() -> Running {
    Running::new(4, ClipNorm::new(1.0).unwrap())
}

fn fixed(value: f64, count: u64) -> Spend {
    Spend::Fixed(Event::gaussian(z(value)).repeated(count))
}

#[test]
fn the_noise_scales_are_those_of_the_real_estimator() {
    let problem = problem();
    let mut sim = SimulatedOracle::new(&problem, 100, Adjacency::ReplaceOne, 1);
    let mut running = estimate();
    sim.books().reserve(&fixed(3.0, 10)).unwrap();
    let anchor = running
        .anchor(&mut sim, &[0.0; 4], Which::All, z(3.0))
        .unwrap();
    assert!((anchor.release_std - 2.0 * 3.0 / 100.0).abs() < 1e-15);
    let step = running
        .vary(&mut sim, &[0.3, 0.4, 0.0, 0.0], Which::All, z(3.0))
        .unwrap();
    // The radius of a variation is rounded up by 1e-12.
    assert!((step.release_std - 0.5 * 2.0 * 3.0 / 100.0).abs() < 1e-13);
    assert!((step.noise_variance.sqrt() - 1.25f64.sqrt() * 2.0 * 3.0 / 100.0).abs() < 1e-13);
    let far = running
        .vary(&mut sim, &[1e9, 0.0, 0.0, 0.0], Which::All, z(3.0))
        .unwrap();
    assert!((far.release_std - 2.0 * 2.0 * 3.0 / 100.0).abs() < 1e-15);

    let mut broken = SimulatedOracle::new(&problem, 100, Adjacency::AddRemove, 1)
        .with_rule(NoiseRule::Lipschitz);
    broken.books().reserve(&fixed(3.0, 10)).unwrap();
    let mut running = estimate();
    let tiny = running
        .vary(&mut broken, &[1e-9, 0.0, 0.0, 0.0], Which::All, z(3.0))
        .unwrap();
    assert!((tiny.release_std - 2.0 * 3.0 / 100.0).abs() < 1e-15);
}

#[test]
fn a_step_of_zero_releases_and_charges_nothing() {
    let problem = problem();
    let mut sim = SimulatedOracle::new(&problem, 100, Adjacency::ReplaceOne, 1);
    let mut running = estimate();
    sim.books().reserve(&fixed(3.0, 1)).unwrap();
    let point = [0.1, 0.2, 0.3, 0.4];
    let before = running
        .anchor(&mut sim, &point, Which::All, z(3.0))
        .unwrap()
        .gradient
        .clone();
    // The reservation is used up, and still this is no refusal.
    let held = running.vary(&mut sim, &point, Which::All, z(3.0)).unwrap();
    assert_eq!((&held.gradient, held.release_std), (&before, 0.0));
    assert_eq!(sim.spent().release_count(), 1);
    assert_eq!(sim.counts().gradients, 100.0);
}

#[test]
fn only_what_was_reserved_is_released() {
    let problem = problem();
    let mut sim = SimulatedOracle::new(&problem, 100, Adjacency::ReplaceOne, 1);
    let mut running = estimate();
    assert!(matches!(
        running.anchor(&mut sim, &[0.0; 4], Which::All, z(1.0)),
        Err(AskError::Refused(Refused::NotReserved { .. }))
    ));
    sim.books().reserve(&fixed(1.0, 2)).unwrap();
    assert!(matches!(
        sim.books().reserve(&fixed(1.0, 2)),
        Err(Refused::AlreadyReserved)
    ));
    running
        .anchor(&mut sim, &[0.0; 4], Which::All, z(1.0))
        .unwrap();
    assert!(
        running
            .anchor(&mut sim, &[0.0; 4], Which::All, z(0.5))
            .is_err()
    );
    running
        .vary(&mut sim, &[1.0; 4], Which::All, z(1.0))
        .unwrap();
    assert!(
        running
            .anchor(&mut sim, &[0.0; 4], Which::All, z(1.0))
            .is_err()
    );
    assert_eq!(sim.books().settle().unwrap().release_count(), 2);
    assert_eq!(sim.counts().gradients, 300.0);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let problem = problem();
    let run = |seed| {
        let mut sim = SimulatedOracle::new(&problem, 100, Adjacency::ReplaceOne, seed);
        let mut running = estimate();
        sim.books().reserve(&fixed(1.0, 2)).unwrap();
        let index = sim.books().draw_index(1 << 40);
        let mut all = running
            .anchor(&mut sim, &[0.1; 4], Which::All, z(1.0))
            .unwrap()
            .gradient
            .clone();
        all.extend(
            running
                .vary(&mut sim, &[0.2; 4], Which::All, z(1.0))
                .unwrap()
                .gradient
                .iter(),
        );
        (index, all)
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}
