//! Repeat-and-select against published values and its own laws.

use dpopt_accounting::accounting::costs;
use dpopt_accounting::{Accountant, AccountingError, Adjacency, Event};

use crate::common::{delta, laplace, pure_dp, z};

fn select(event: Event, mean: f64, shape: f64) -> Event {
    Event::RepeatAndSelect {
        event: Box::new(event),
        mean,
        shape,
    }
}

#[test]
fn repeat_and_select() {
    let one = Event::gaussian(z(4.0));
    let of = |event: &Event| {
        Accountant::Rdp
            .epsilon(event, delta(1e-6), Adjacency::AddRemove)
            .unwrap()
    };
    // Published through a grid of orders.
    let got = of(&select(one.clone(), 10.0, 1.0));
    assert!(got <= 2.271_623_4 + 1e-7 && got > 2.26, "{got}");
    // dp_accounting 0.6.0, with its default orders; ours take the exact delta inside the Poisson law.
    for (shape, of_gaussian, of_laplace) in [
        (0.0, 1.902_106_128_7, 1.006_843_539_8),
        (0.5, 2.097_322_867_2, 1.256_432_698_4),
        (1.0, 2.271_623_401_9, 1.497_423_626_5),
        (3.0, 2.842_935_185_9, 2.041_610_128_2),
        (f64::INFINITY, 2.501_113_141_9, 1.268_853_543_9),
    ] {
        let gaussian = of(&select(one.clone(), 10.0, shape));
        assert!(
            gaussian <= of_gaussian && gaussian > 0.8 * of_gaussian,
            "{shape} {gaussian}"
        );
        let laplace = of(&select(laplace(2.0), 3.0, shape));
        assert!(
            laplace <= of_laplace && laplace > 0.9 * of_laplace,
            "{shape} {laplace}"
        );
    }
    // More runs cost more; every law costs more than one run.
    for shape in [0.0, 0.5, 1.0, 3.0, f64::INFINITY] {
        let mut last = of(&one);
        for mean in [1.5, 3.0, 10.0, 1000.0] {
            let now = of(&select(one.clone(), mean, shape));
            assert!(now > last, "{shape} {mean}: {now} {last}");
            last = now;
        }
    }
    // A pure run of epsilon, geometric: at most 3 epsilon with delta (Papernot and Steinke, Corollary 3:
    // (2 + eta) epsilon), and the bound is attained in the limit of high orders.
    let e = 0.5;
    let got = costs::renyi(&select(pure_dp(e), 100.0, 1.0), 1e8, Adjacency::AddRemove).unwrap();
    assert!((got - 3.0 * e).abs() < 1e-3, "{got}");
    // Poisson repetitions are not nested, the others are.
    assert!(
        costs::renyi(
            &select(select(one.clone(), 2.0, 1.0), 2.0, f64::INFINITY),
            2.0,
            Adjacency::AddRemove
        )
        .is_ok()
    );
    let nested = select(select(one.clone(), 2.0, f64::INFINITY), 2.0, 1.0);
    assert!(matches!(
        costs::renyi(&nested, 2.0, Adjacency::AddRemove),
        Err(AccountingError::UnsupportedEvent { .. })
    ));
    assert!(
        Accountant::Zcdp
            .epsilon(&select(one, 2.0, 1.0), delta(1e-6), Adjacency::AddRemove)
            .is_err()
    );
}
