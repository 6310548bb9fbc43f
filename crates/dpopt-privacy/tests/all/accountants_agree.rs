//! The accountants against each other, on random and on extreme events.

use dpopt_privacy::accounting::{calibrate, exact, gdp, pld};
use dpopt_privacy::{
    Accountant, AccountingError, Adjacency, Delta, Epsilon, Event, Mu, SamplingRate,
};
use dpopt_testkit::Draws;

use crate::common::{self};

/// Random events; more of them take minutes and showed nothing else.
const CASES: u32 = 36;

fn gaussian(z: f64) -> Event {
    Event::gaussian(common::z(z))
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

/// Values at 60 digits: 1 - delta is known far better than a double near 1 can say.
#[test]
fn delta_near_one_is_rounded_up() {
    for (z, epsilon, below) in [
        (
            0.060_487_563_913_235_384,
            0.533_610_851_010_251,
            0.999_999_999_999_999_8,
        ),
        (
            0.128_911_941_331_083_94,
            0.799_313_693_293_477_3,
            0.999_844_079_055_206,
        ),
    ] {
        // `below` is the largest double below the truth.
        let (event, epsilon) = (gaussian(z), Epsilon::new(epsilon).unwrap());
        let got = Accountant::Gdp
            .delta(&event, epsilon, Adjacency::AddRemove)
            .unwrap();
        assert!(got > below && got - below <= 1e-15, "{z}: {got}");
    }
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

/// Releases: rate (1: not sampled), noise multiplier, count.
type List = Vec<(f64, f64, u64)>;

fn event(list: &List) -> Event {
    Event::composed(
        list.iter()
            .map(|&(q, z, count)| {
                let one = gaussian(z);
                if q == 1.0 {
                    one.repeated(count)
                } else {
                    one.poisson_sampled(SamplingRate::new(q).unwrap())
                        .repeated(count)
                }
            })
            .collect(),
    )
}

struct Draw(Draws);

impl Draw {
    fn within(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.uniform()
    }

    fn power(&mut self, low: f64, high: f64) -> f64 {
        10_f64.powf(self.within(low, high))
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.0.below(u64::from(n)) == 0
    }

    fn release(&mut self) -> (f64, f64, u64) {
        let rate = if self.one_in(8) {
            1.0
        } else if self.one_in(4) {
            1.0 - self.power(-15.0, -0.5)
        } else {
            self.power(-4.0, -0.01)
        };
        let count = self.power(0.0, 5.0) as u64;
        (rate, self.power(-0.5, 1.5), count)
    }

    fn delta(&mut self) -> f64 {
        match self.0.below(4) {
            0 => self.power(-300.0, -15.0),
            1 => 1.0 - self.power(-9.0, -0.3),
            _ => self.power(-15.0, -1.0),
        }
    }
}

/// What holds between the answers of all accountants, whatever the event.
fn check(list: &List, delta: Delta, adjacency: Adjacency, lattice: bool) -> bool {
    let name = format!("{list:?} {delta:?} {adjacency:?}");
    let whole = event(list);
    let renyi = Accountant::Rdp.epsilon(&whole, delta, adjacency).unwrap();
    let Ok(got) = exact::epsilon(&whole, delta, adjacency) else {
        return false;
    };
    assert!(
        0.0 <= got.lower && got.lower <= got.upper && got.upper.is_finite(),
        "{name}: {got:?}"
    );
    assert!(
        got.lower <= renyi * (1.0 + 1e-12),
        "{name}: {got:?} {renyi}"
    );
    if got.width() <= 1e-6 * got.upper {
        assert!(got.upper <= renyi * (1.0 + 1e-6), "{name}: {got:?} {renyi}");
    }
    if lattice && let Ok(other) = pld::epsilon(&whole, delta, adjacency) {
        assert!(
            got.lower <= other.upper && other.lower <= got.upper,
            "{name}: {got:?} {other:?}"
        );
    }
    // delta is the inverse function.
    for (epsilon, above) in [(got.upper, true), (got.lower, false)] {
        if epsilon > 0.0
            && let Ok(back) = exact::delta(&whole, epsilon, adjacency)
        {
            let holds = if above {
                back.lower <= delta.get() * (1.0 + 1e-13)
            } else {
                back.upper >= delta.get() * (1.0 - 1e-13)
            };
            assert!(holds, "{name}: {got:?}, at {epsilon} {back:?}");
        }
    }
    // More noise, a smaller rate and fewer releases never cost more.
    let (rate, noise, count) = list[0];
    for gentler in [
        (rate, noise * 1.001, count),
        (rate * 0.999, noise, count),
        (rate, noise, count - 1),
    ] {
        let mut changed = list.clone();
        changed[0] = gentler;
        if let Ok(less) = exact::epsilon(&event(&changed), delta, adjacency) {
            assert!(
                less.lower <= got.upper,
                "{name}: {got:?}, {gentler:?} {less:?}"
            );
        }
    }
    true
}

#[test]
fn random_events_agree() {
    let mut draw = Draw(Draws::new(1));
    let mut answered = 0;
    for case in 0..CASES {
        let kinds = if draw.one_in(4) { 2 } else { 1 };
        let list: List = (0..kinds).map(|_| draw.release()).collect();
        let delta = Delta::new(draw.delta()).unwrap();
        let adjacency = if draw.one_in(2) {
            Adjacency::AddRemove
        } else {
            Adjacency::ReplaceOne
        };
        answered += u32::from(check(&list, delta, adjacency, case % 18 == 0));
    }
    assert!(answered > CASES / 2, "{answered}");
}
