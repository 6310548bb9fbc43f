//! Filters and the odometer against accountants.

use super::*;
use crate::units::{NoiseMultiplier, SamplingRate};
use crate::{Accountant, calibrate};

const RELATION: Adjacency = Adjacency::AddRemove;

fn gaussian(z: f64) -> Event {
    Event::gaussian(NoiseMultiplier::new(z).unwrap())
}

fn target() -> (Epsilon, Delta) {
    (Epsilon::new(1.0).unwrap(), Delta::new(1e-5).unwrap())
}

/// How many equal releases a filter admits.
fn admitted(mut filter: Filter, event: &Event) -> u64 {
    let mut made = 0;
    while filter.try_spend(event, RELATION).is_ok() {
        made += 1;
    }
    made
}

#[test]
fn filters_admit_what_their_accountant_would_for_equal_releases() {
    let (epsilon, delta) = target();
    let one = gaussian(50.0);
    let fixed = |accountant| {
        calibrate::steps(accountant, epsilon, delta, RELATION, |n| {
            one.clone().repeated(n)
        })
        .unwrap()
    };
    let gdp = admitted(Filter::gdp(epsilon, delta, RELATION).unwrap(), &one);
    assert_eq!(gdp, fixed(Accountant::Gdp));
    let zcdp = admitted(Filter::zcdp(epsilon, delta, RELATION).unwrap(), &one);
    assert_eq!(zcdp, fixed(Accountant::Zcdp));
    // One order is at most as good as the best order.
    let renyi = admitted(Filter::renyi(epsilon, delta, RELATION).unwrap(), &one);
    assert!(renyi <= zcdp && renyi * 100 >= zcdp * 90, "{renyi} {zcdp}");
    let orders = [8.0, 12.0, 16.0, 24.0, 32.0, 48.0];
    let several = Filter::renyi_orders(epsilon, delta, RELATION, &orders).unwrap();
    let several = admitted(several, &one);
    assert!(
        several < zcdp && several * 100 >= zcdp * 75,
        "{several} {zcdp}"
    );
}

#[test]
fn a_refusal_charges_nothing() {
    let (epsilon, delta) = target();
    let mut filter = Filter::gdp(epsilon, delta, RELATION).unwrap();
    filter.try_spend(&gaussian(4.0), RELATION).unwrap();
    let before = filter.clone();
    let refusal = filter.try_spend(&gaussian(4.0), RELATION).unwrap_err();
    assert!(
        matches!(refusal, Exhausted::Spent { cost, left, .. } if cost > left),
        "{refusal}"
    );
    let sampled = gaussian(40.0).poisson_sampled(SamplingRate::new(0.1).unwrap());
    assert!(matches!(
        filter.try_spend(&sampled, RELATION),
        Err(Exhausted::Accounting(_))
    ));
    assert!(matches!(
        filter.try_spend(&gaussian(40.0), Adjacency::ReplaceOne),
        Err(Exhausted::AdjacencyMismatch { .. })
    ));
    assert!(matches!(
        filter.try_spend(&Event::NonPrivate, RELATION),
        Err(Exhausted::Accounting(AccountingError::Unprotected))
    ));
    assert_eq!(filter, before);
    filter.try_spend(&Event::NoOp, RELATION).unwrap();
    assert_eq!(filter, before);
    filter.try_spend(&gaussian(40.0), RELATION).unwrap();
    assert!(filter.spent() > before.spent() && filter.spent() <= 1.0);
}

#[test]
fn bad_orders_and_hopeless_budgets_are_refused() {
    let (epsilon, delta) = target();
    for bad in [1.0, 0.5, f64::NAN, f64::INFINITY] {
        assert!(Filter::renyi_orders(epsilon, delta, RELATION, &[4.0, bad]).is_err());
        assert!(Odometer::with_orders(RELATION, &[4.0, bad]).is_err());
    }
    assert_eq!(
        Filter::renyi_orders(epsilon, delta, RELATION, &[]),
        Err(Exhausted::NoOrders)
    );
    assert_eq!(
        Odometer::with_orders(RELATION, &[]),
        Err(Exhausted::NoOrders)
    );
    assert!(matches!(
        Filter::renyi_orders(epsilon, delta, RELATION, &[1.5]),
        Err(Exhausted::TooTight { .. })
    ));
}

#[test]
fn a_renyi_filter_holds_sampled_releases_to_the_target() {
    let (_, delta) = target();
    let one = gaussian(1.0).poisson_sampled(SamplingRate::new(0.01).unwrap());
    let made = admitted(
        Filter::renyi_orders(Epsilon::new(2.0).unwrap(), delta, RELATION, &[8.0]).unwrap(),
        &one,
    );
    assert!(made > 10, "{made}");
    let spent = Accountant::Rdp.epsilon(&one.repeated(made), delta, RELATION);
    assert!(spent.unwrap() <= 2.0);
}

#[test]
fn an_odometer_never_reads_less_than_the_fixed_schedule() {
    let (_, delta) = target();
    let sampled = gaussian(1.0).poisson_sampled(SamplingRate::new(0.01).unwrap());
    for (one, count) in [(gaussian(20.0), 1), (gaussian(20.0), 40), (sampled, 1000)] {
        let mut odometer = Odometer::new(RELATION);
        assert_eq!(odometer.epsilon(delta), 0.0);
        odometer
            .spend(&one.clone().repeated(count), RELATION)
            .unwrap();
        let reading = odometer.epsilon(delta);
        let fixed = Accountant::Rdp
            .epsilon(&one.clone().repeated(count), delta, RELATION)
            .unwrap();
        assert!(
            reading > fixed && reading < 2.0 * fixed,
            "{one} {count}: {reading} {fixed}"
        );
        let before = reading;
        odometer.spend(&one, RELATION).unwrap();
        assert!(odometer.epsilon(delta) > before);
        assert!(odometer.spend(&one, Adjacency::ReplaceOne).is_err());
    }
}

/// Which filters have a cost for which releases, and that their words say so.
#[test]
fn scopes_are_what_filters_account() {
    use FilterKind::{Gdp, Rdp, Zcdp};
    let rate = SamplingRate::new(0.01).unwrap();
    let z = NoiseMultiplier::new(2.0).unwrap();
    let boxed = || Box::new(gaussian(2.0));
    let of_slices = |event| Event::ParallelComposed {
        events: vec![event],
    };
    for (event, takers, word) in [
        (gaussian(2.0), &[Gdp, Zcdp, Rdp][..], "Gaussian noise"),
        (of_slices(gaussian(2.0)), &[Gdp, Zcdp, Rdp], "slices"),
        (
            Event::ExponentialMechanism {
                epsilon: Epsilon::new(0.1).unwrap(),
            },
            &[Zcdp, Rdp],
            "selections",
        ),
        (gaussian(2.0).poisson_sampled(rate), &[Rdp], "samples"),
        (
            of_slices(gaussian(2.0).poisson_sampled(rate)),
            &[Rdp],
            "samples",
        ),
        (
            Event::SampledWithoutReplacement {
                source_dataset_size: 100,
                sample_size: 10,
                event: boxed(),
            },
            &[Rdp],
            "samples",
        ),
        (
            Event::RandomAllocation {
                num_steps: 10,
                num_participations: 1,
                event: boxed(),
            },
            &[],
            "allocations",
        ),
        (
            Event::TruncatedSubsampledGaussian {
                dataset_size: 100,
                sampling_probability: rate,
                truncated_batch_size: 2,
                noise_multiplier: z,
            },
            &[],
            "truncated batches",
        ),
    ] {
        for kind in FilterKind::ALL {
            let takes = takers.contains(&kind);
            assert_eq!(
                kind.accounts(&event, Adjacency::ReplaceOne),
                takes,
                "{kind} {event}"
            );
            let (taken, refused) = kind.scope().split_once(" refuses ").unwrap();
            // What is named among what is refused is refused; nothing that is refused stands among what is taken.
            assert!(!(takes && refused.contains(word)), "{kind} {event}");
            assert!(takes || !taken.contains(word), "{kind} {event}");
        }
    }
}

/// The largest run of a budget in the Gaussian measure is the budget, and less in the others.
#[test]
fn the_largest_run_is_no_more_than_the_budget() {
    let (epsilon, delta) = target();
    let of = |kind: FilterKind| kind.largest_run(epsilon, delta).unwrap();
    let [gdp, zcdp, rdp] = FilterKind::ALL.map(of);
    assert!(
        (gdp - 1.0).abs() < 1e-6 && rdp < zcdp && zcdp < gdp,
        "{gdp} {zcdp} {rdp}"
    );
    assert!(rdp > 0.8, "{rdp}");
}
