//! The accountants against each other, on random and on extreme events.

use dpopt_privacy::accounting::{calibrate, exact, gdp};
use dpopt_privacy::{
    Accountant, AccountingError, Adjacency, Delta, Epsilon, Event, Mu, NoiseMultiplier,
};

fn gaussian(z: f64) -> Event {
    Event::gaussian(NoiseMultiplier::new(z).unwrap())
}

/// The sum of many `1/z^2` may not be rounded up further than the interval allows for.
#[test]
fn many_kinds_of_gaussians_keep_the_lower_end_low() {
    let noises: Vec<f64> = (0..2000).map(|i| 100.0 + 0.01 * f64::from(i)).collect();
    // Two words, to about 30 digits.
    let (mut high, mut low) = (0.0_f64, 0.0_f64);
    for z in &noises {
        let square = z * z;
        let square_low = z.mul_add(*z, -square);
        let term = 1.0 / square;
        let term_low = (term.mul_add(-square, 1.0) - term * square_low) / square;
        let sum = high + term;
        low += (high - sum) + term + term_low;
        high = sum;
    }
    let mu = (high + low).sqrt();
    let delta = Delta::new(1e-6).unwrap();
    let truth = gdp::epsilon(Mu::new(mu).unwrap(), delta);
    let event = Event::composed(noises.into_iter().map(gaussian).collect());
    let got = exact::epsilon(&event, delta, Adjacency::AddRemove).unwrap();
    assert!(
        got.lower <= truth && truth <= got.upper * (1.0 + 1e-13),
        "{got:?} against {truth}"
    );
    let upper = Accountant::Gdp
        .epsilon(&event, delta, Adjacency::AddRemove)
        .unwrap();
    assert!(
        upper >= truth && upper <= truth * (1.0 + 4e-15),
        "{upper} {truth}"
    );
}

/// The comparison is of the numbers, not of their rounded logarithms.
#[test]
fn calibration_does_not_overshoot_by_a_rounding() {
    let fixed = gaussian(0.01);
    let delta = Delta::new(1e-6).unwrap();
    let cost = Accountant::Gdp
        .epsilon(&fixed, delta, Adjacency::AddRemove)
        .unwrap();
    let target = Epsilon::new(cost.next_down()).unwrap();
    let found =
        calibrate::noise_multiplier(Accountant::Gdp, target, delta, Adjacency::AddRemove, |_| {
            fixed.clone()
        });
    assert!(
        matches!(found, Err(AccountingError::Unreachable { .. })),
        "{found:?}"
    );
}
