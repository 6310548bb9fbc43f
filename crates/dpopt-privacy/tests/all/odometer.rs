//! The odometer against an attacker who picks the stop.

use dpopt_privacy::noise::{Purpose, ReplayKeyForTests, RoundedGaussian, StreamId};
use dpopt_privacy::{Adjacency, Delta, Event, NoiseMultiplier, Odometer};

/// A simulated stopping rule that hunts for large losses: the time-uniform bound holds.
#[test]
fn the_reading_bounds_the_loss_at_a_greedy_stopping_time() {
    let delta = Delta::new(0.05).unwrap();
    let (z, steps, runs) = (4.0, 60, 2_000);
    let release = Event::gaussian(NoiseMultiplier::new(z).unwrap());
    let mut readings = Vec::with_capacity(steps);
    let mut odometer = Odometer::new(Adjacency::AddRemove);
    for _ in 0..steps {
        odometer.spend(&release, Adjacency::AddRemove).unwrap();
        readings.push(odometer.epsilon(delta));
    }
    let mut stream = ReplayKeyForTests::from_seed(7).stream(StreamId::new(Purpose::Noise, 0));
    let sampler = RoundedGaussian::new(1e6).unwrap();
    let mut passed = 0;
    for _ in 0..runs {
        let mut noise = vec![0_i128; steps];
        sampler.fill(&mut stream, &mut noise);
        let mut loss = 0.0;
        let over = readings.iter().zip(&noise).any(|(reading, draw)| {
            // Under the first input the loss of one release is N(1/(2 z^2), 1/z^2).
            loss += 0.5 / (z * z) + *draw as f64 / 1e6 / z;
            loss > *reading
        });
        passed += i32::from(over);
    }
    assert!(f64::from(passed) <= 0.05 * f64::from(runs), "{passed}");
}
