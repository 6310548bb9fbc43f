//! Accounting against values from outside this crate; the table says where they come from.

use dpopt_accounting::accounting::{gdp, rdp, zcdp};
use dpopt_accounting::{Accountant, Adjacency, Event, Mu, NoiseMultiplier, Rho, calibrate};

use crate::common::{delta, epsilon, rate, rows, sampled, steps, z};

fn rdp_epsilon(event: &Event, at: f64, adjacency: Adjacency) -> f64 {
    Accountant::Rdp
        .epsilon(event, delta(at), adjacency)
        .unwrap()
}

#[test]
fn gaussian_delta() {
    for row in rows("gaussian_delta") {
        let (sigma, eps) = row.numbers();
        row.check(gdp::log_delta(1.0 / sigma, eps).exp());
        if eps > 0.0 {
            let reported = gdp::delta(Mu::new(1.0 / sigma).unwrap(), epsilon(eps));
            row.check(reported);
            row.check_not_below(reported);
        }
    }
    for row in rows("gaussian_log_delta") {
        let (sigma, eps) = row.numbers();
        row.check(gdp::log_delta(1.0 / sigma, eps));
    }
}

#[test]
fn gaussian_epsilon() {
    for row in rows("gaussian_epsilon") {
        let (sigma, at) = row.numbers();
        let event = Event::gaussian(z(sigma));
        let got = Accountant::Gdp
            .epsilon(&event, delta(at), Adjacency::ReplaceOne)
            .unwrap();
        row.check(got);
        row.check_not_below(got);
    }
}

#[test]
fn gaussian_sigma() {
    for row in rows("gaussian_sigma") {
        let (eps, at) = row.numbers();
        let got = 1.0 / gdp::mu_for(epsilon(eps), delta(at)).unwrap().get();
        row.check(got);
        row.check_not_below(got);
    }
}

#[test]
fn gaussian_composition() {
    for row in rows("gaussian_composition") {
        let (event, at) = (row.gaussians(), delta(row.second()));
        let exact = Accountant::Gdp
            .epsilon(&event, at, Adjacency::AddRemove)
            .unwrap();
        row.check(exact);
        row.check_not_below(exact);
        // zCDP and RDP are the same bound here, and never better than the exact one.
        let concentrated = Accountant::Zcdp
            .epsilon(&event, at, Adjacency::AddRemove)
            .unwrap();
        let renyi = Accountant::Rdp
            .epsilon(&event, at, Adjacency::AddRemove)
            .unwrap();
        assert!(concentrated > exact && (renyi / concentrated - 1.0).abs() < 1e-10);
    }
}

#[test]
fn concentrated_conversions() {
    for row in rows("zcdp_epsilon") {
        let (rho, at) = row.numbers();
        let got = zcdp::epsilon(Rho::new(rho).unwrap(), delta(at));
        row.check(got);
        row.check_not_below(got);
    }
    for row in rows("zcdp_delta") {
        let (rho, eps) = row.numbers();
        let got = zcdp::delta(Rho::new(rho).unwrap(), epsilon(eps));
        row.check(got);
        row.check_not_below(got);
    }
    for row in rows("zcdp_log_delta") {
        let (rho, eps) = row.numbers();
        row.check(zcdp::log_delta(rho, eps));
    }
    // Published with OpenDP's curve conversion (its unit tests).
    let published = zcdp::epsilon(Rho::new(1.0 / 32.0).unwrap(), delta(1e-3));
    assert!((published - 0.688_002_455_487_808_6).abs() < 1e-9);
    let published = zcdp::delta(Rho::new(0.05).unwrap(), epsilon(0.25));
    assert!((published - 0.081_772_753_103_695_6).abs() < 1e-9);
}

#[test]
fn renyi_divergence_of_sampled_gaussians() {
    for (kind, adjacency, times) in [
        ("rdp_poisson", Adjacency::AddRemove, 1.0),
        ("rdp_poisson", Adjacency::ZeroOut, 1.0),
        ("rdp_poisson_50", Adjacency::AddRemove, 50.0),
        ("rdp_replace", Adjacency::ReplaceOne, 1.0),
    ] {
        for row in rows(kind) {
            let rate: f64 = row.first.parse().unwrap();
            let (sigma, order) = row.second.split_once(' ').unwrap();
            let got = times
                * rdp::poisson_gaussian(
                    crate::common::rate(rate),
                    z(sigma.parse().unwrap()),
                    order.parse().unwrap(),
                    adjacency,
                )
                .unwrap();
            row.check(got);
            row.check_not_below(got);
        }
    }
}

/// autodp's published test table, one step at q = 0.01, printed with 9 to 12 decimals.
#[test]
fn published_renyi_values() {
    for (sigma, order, steps, want) in [
        (0.1, 1.25, 1.0, 39.474_353_593),
        (0.1, 2.0, 1.0, 90.789_659_628),
        (0.1, 2.25, 1.0, 104.210_693_665),
        (0.1, 4.0, 1.0, 193.859_773_085),
        (0.1, 128.0, 1.0, 6_395.358_568_631),
        (0.5, 2.0, 1.0, 0.005_345_502_314),
        (0.5, 2.25, 1.0, 0.008_354_117_751_9),
        (0.5, 4.0, 1.0, 1.861_875_513),
        (0.5, 128.0, 1.0, 251.358_568_631),
        (2.0, 25.0, 1.0, 3.829_780_936e-4),
        (10.0, 1.25, 1e4, 0.006_280_881_026),
        (10.0, 4.5, 1e4, 0.022_618_509_478),
        (10.0, 128.0, 1e4, 0.651_438_617_773),
    ] {
        let got = steps
            * rdp::poisson_gaussian(rate(0.01), z(sigma), order, Adjacency::AddRemove).unwrap();
        assert!((got / want - 1.0).abs() < 1e-8, "{sigma} {order}: {got}");
    }
}

#[test]
fn renyi_epsilon_lies_between_the_truth_and_a_grid_of_orders() {
    for row in rows("dpsgd_epsilon") {
        let got = rdp_epsilon(&steps(&row.steps()), row.second(), Adjacency::AddRemove);
        assert!(got > row.value, "{}: {got} < {}", row.first, row.value);
        // How loose Renyi accounting is on these rows: 2% to 36%.
        assert!(got < 1.37 * row.value, "{}: {got}", row.first);
    }
    for row in rows("dpsgd_ceiling") {
        let got = rdp_epsilon(&steps(&row.steps()), row.second(), Adjacency::AddRemove);
        assert!(got <= row.value, "{}: {got} > {}", row.first, row.value);
    }
}

/// Configurations at which other ledgers state less than the truth. Lower ends of the truth
/// from prv_accountant or the optimistic PLD of dp_accounting; all at add-remove.
#[test]
fn hard_configurations_stay_above_the_truth() {
    for (sigma, rate, steps, at, truth) in [
        (1.1, 256.0 / 60_000.0, 14_040, 1e-5, 2.3694),
        (1.0, 0.01, 1000, 1e-5, 1.8181),
        (0.5, 0.01, 1000, 1e-5, 13.351),
        (0.3, 0.01, 1000, 1e-5, 69.8),
        (0.1, 0.05, 1000, 1e-5, 3835.0),
        (0.5, 0.5, 200, 1e-5, 230.95),
        (0.5, 0.9, 200, 1e-5, 455.0),
        (1.0, 0.5, 1000, 1e-5, 218.1),
        (2.0, 0.05, 1000, 1e-6, 4.1524),
    ] {
        let got = rdp_epsilon(&sampled(rate, sigma, steps), at, Adjacency::AddRemove);
        assert!(
            got > truth && got < 1.4 * truth,
            "{sigma} {rate} {steps}: {got}"
        );
    }
    // The least over a fine grid of exact fractional orders: the least over all orders is at
    // most that, and a little below it. Tools without exact fractional orders are far above.
    for (sigma, rate, steps, want) in [
        (1.0, 0.5, 1000, 227.5),
        (0.5, 0.5, 200, 242.9),
        (0.5, 0.9, 200, 468.8),
    ] {
        let got = rdp_epsilon(&sampled(rate, sigma, steps), 1e-5, Adjacency::AddRemove);
        assert!(
            got <= want + 0.05 && got > 0.999 * want,
            "{sigma} {rate}: {got}"
        );
    }
}

/// Under replace-one the pair is two-sided. The exact epsilons are by contour integration of
/// the moment function along a vertical line through its saddle point, good to 1e-5.
#[test]
fn replace_one_is_not_add_remove() {
    for (sigma_over_clip, rate, steps, at, truth) in [
        (1.0, 0.01, 1000, 1e-5, 2.84344),
        (2.0, 0.01, 1000, 1e-5, 1.20520),
        (1.0, 0.01, 1000, 1e-6, 3.21423),
        (2.0, 0.05, 500, 1e-5, 4.98076),
    ] {
        let event = sampled(rate, 0.5 * sigma_over_clip, steps);
        let got = rdp_epsilon(&event, at, Adjacency::ReplaceOne);
        assert!(got > truth && got < 1.15 * truth, "{got} against {truth}");
        // The same noise under add-remove: only half the sensitivity, and one-sided.
        let one_sided = sampled(rate, sigma_over_clip, steps);
        assert!(rdp_epsilon(&one_sided, at, Adjacency::AddRemove) < truth);
    }
}

#[test]
fn published_calibrations() {
    // sigma for (epsilon, delta), one Gaussian (dp_accounting 0.6.0, printed with 10 decimals).
    for (eps, at, sigma) in [
        (1.0, 1e-5, 3.730_631_634_8),
        (0.1, 1e-6, 36.304_690_426_2),
        (3.0, 1e-5, 1.390_593_456_7),
        (8.0, 1e-5, 0.600_229_072_2),
    ] {
        let got = calibrate::noise_multiplier(
            Accountant::Gdp,
            epsilon(eps),
            delta(at),
            Adjacency::AddRemove,
            Event::gaussian,
        )
        .unwrap()
        .get();
        assert!(got >= sigma * (1.0 - 1e-10) && got <= sigma * (1.0 + 1e-6));
    }
    // A SPIDER schedule; dp_accounting 0.6.0 with its Renyi orders is above, with PLD below.
    for (eps, above, below) in [
        (0.5, 2.750_093, 2.562_007),
        (1.0, 1.611_770, 1.507_924),
        (3.0, 0.931_127, 0.868_438),
    ] {
        let schedule = |multiplier: NoiseMultiplier| {
            Event::composed(vec![
                sampled(0.02, multiplier.get(), 100),
                sampled(0.005, multiplier.get(), 1900),
            ])
        };
        let got = calibrate::noise_multiplier(
            Accountant::Rdp,
            epsilon(eps),
            delta(1e-6),
            Adjacency::AddRemove,
            schedule,
        )
        .unwrap();
        assert!(got.get() < above && got.get() > below, "{eps}: {got}");
        assert!(rdp_epsilon(&schedule(got), 1e-6, Adjacency::AddRemove) <= eps);
        let less = z(got.get() * (1.0 - 1e-6));
        assert!(rdp_epsilon(&schedule(less), 1e-6, Adjacency::AddRemove) > eps);
    }
}
