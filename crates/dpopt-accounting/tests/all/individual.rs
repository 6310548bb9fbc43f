//! Individual budgets: two adaptive steps, integrated over what the first one shows.

use dpopt_accounting::filter::individual::{IndividualError, IndividualFilter};
use dpopt_accounting::{Adjacency, Mu};

use crate::common::z;

fn tail(x: f64) -> f64 {
    0.5 * libm::erfc(x * std::f64::consts::FRAC_1_SQRT_2)
}

/// `H_a(N(m) || N(0))` for any real m and a >= 0.
fn shifted(m: f64, a: f64) -> f64 {
    let m = m.abs();
    if m == 0.0 || a == 0.0 {
        return (1.0 - a).max(0.0);
    }
    let x = a.ln() / m + 0.5 * m;
    tail(x - m) - a * tail(x)
}

/// Which second contribution a record has after the first release.
type Strategy = fn(f64) -> f64;

/// Worst of both orders at a, where `second(y)` is what is really added after a release of y.
fn two_steps(first: f64, second: impl Fn(f64) -> f64, a: f64) -> f64 {
    let phi = |x: f64| (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    let (n, width) = (2000, 20.0 / 2000.0);
    let mut sums = [0.0; 2];
    for i in 0..n {
        let y = -10.0 + width * (f64::from(i) + 0.5);
        let (with, without) = (phi(y - first), phi(y));
        let m = second(y);
        sums[0] += width * with * shifted(m, a * without / with);
        sums[1] += width * without * shifted(m, a * with / without);
    }
    sums[0].max(sums[1])
}

/// What the filter lets through at each of both steps.
fn admitted(budget: f64, first: f64, second: f64) -> (f64, f64) {
    let mut filter = IndividualFilter::new(1, Mu::new(budget).unwrap(), Adjacency::ZeroOut);
    let mut out = [0.0; 2];
    for (slot, own) in out.iter_mut().zip([first, second]) {
        let mut vector = [0.6 * own, 0.8 * own];
        filter.step(z(1.0)).pay(0, &mut vector).unwrap();
        *slot = (vector[0] * 0.6 + vector[1] * 0.8) * if own == 0.0 { 0.0 } else { 1.0 };
    }
    (out[0], out[1])
}

#[test]
fn no_adaptive_record_passes_the_curve_of_its_budget() {
    let strategies: [Strategy; 5] = [
        |y| if y > 0.5 { 2.0 } else { 0.1 },
        |y| if y < 0.0 { 0.8 } else { -0.7 },
        |y| 0.5 * y,
        |y| (1.5 - y.abs()).max(0.0),
        |_| 0.9,
    ];
    let (mut settings, mut caught) = (0, 0);
    for budget in [0.5, 1.0, 1.5] {
        for first in [0.2, 0.6, 1.0, 1.4] {
            for second in strategies {
                for eps in [0.05_f64, 0.5, 1.0, 2.0] {
                    let a = eps.exp();
                    let bound = shifted(budget, a);
                    let (one, _) = admitted(budget, first, 0.0);
                    let truth = two_steps(one, |y| admitted(budget, first, second(y)).1, a);
                    let at = format!("{budget} {first} {eps}: {truth} {bound}");
                    assert!(truth <= bound * (1.0 + 1e-7) + 1e-10, "{at}");
                    settings += 1;
                    // A filter that looks at what is left before a contribution, and not at its cost.
                    let lax = |y: f64| {
                        if one * one < budget * budget {
                            second(y)
                        } else {
                            0.0
                        }
                    };
                    caught += u32::from(two_steps(one, lax, a) > bound * 1.01);
                }
            }
        }
    }
    assert!(settings >= 200, "{settings}");
    assert!(caught >= 30, "{caught}");
}

#[test]
fn a_budget_is_used_up_to_its_last_part_and_no_further() {
    let mut filter = IndividualFilter::new(2, Mu::new(1.0).unwrap(), Adjacency::ReplaceOne);
    assert_eq!(filter.guarantee().unwrap().get(), 2.0);
    let mut made = [0_u32; 2];
    for _ in 0..200 {
        let mut step = filter.step(z(10.0));
        for (record, norm) in [(0, 1.0), (1, 2.0)] {
            let mut vector = [norm];
            step.pay(record, &mut vector).unwrap();
            made[record] += u32::from(vector[0] != 0.0);
        }
    }
    // 1/100 and 4/100 of the budget a step, less what is rounded.
    assert_eq!(made, [99, 24]);
    assert_eq!(filter.steps(), 200);
    // Nothing is charged for nothing, and no number is no contribution.
    let mut filter = IndividualFilter::new(1, Mu::new(1.0).unwrap(), Adjacency::AddRemove);
    for vector in [[f64::NAN], [f64::INFINITY], [1e300], [0.0]] {
        let mut vector = vector;
        filter.step(z(1.0)).pay(0, &mut vector).unwrap();
        assert_eq!(vector, [0.0]);
    }
    let mut all = [0.999];
    filter.step(z(1.0)).pay(0, &mut all).unwrap();
    assert_eq!(all, [0.999]);
}

#[test]
fn positions_are_checked() {
    let mut filter = IndividualFilter::new(3, Mu::new(1.0).unwrap(), Adjacency::ZeroOut);
    let mut step = filter.step(z(1.0));
    assert_eq!(
        step.pay(3, &mut [0.1]),
        Err(IndividualError::NoSuchRecord { record: 3 })
    );
    // Under add-remove their number is private: what is said of a position is the same for neighbours.
    let said = |records| {
        let mut filter =
            IndividualFilter::new(records, Mu::new(1.0).unwrap(), Adjacency::AddRemove);
        let refused = filter.step(z(1.0)).pay(9, &mut [0.1]);
        refused.unwrap_err().to_string()
    };
    assert_eq!(said(7), said(8));
    assert_eq!(step.pay(1, &mut [0.1]), Ok(()));
    assert_eq!(
        step.pay(1, &mut [0.1]),
        Err(IndividualError::Twice { record: 1, step: 1 })
    );
    assert_eq!(filter.step(z(1.0)).pay(1, &mut [0.1]), Ok(()));
}
