//! Norms of shifted sums, a selection among norms, and reservations that end with a selection.

use dpopt_privacy::selection::SelectionError;
use dpopt_privacy::{
    Accountant, Adjacency, Body, Bound, ChangedRecord, ClipNorm, Curator, Delta, Epsilon, Event,
    FilterKind, LatticeSum, Ledger, Refused, ReplayForAudits, ReplayedMechanism, Spend,
    TicketError, Which,
};
use proptest::prelude::*;

use crate::common::{bound, epsilon, release, release_norm, simulated, sum, z};

const ADJACENCY: Adjacency = Adjacency::ReplaceOne;

/// Selects among shifted norms of these sums.
fn select(
    curator: &mut Curator,
    among: Vec<(LatticeSum, &[f64])>,
    epsilon: Epsilon,
) -> Result<usize, Refused> {
    let mut ticket = curator.grant_choice(Body::of(10), bound(1.0, 2), epsilon)?;
    for (sum, shift) in among {
        ticket.add(sum, shift)?;
    }
    curator.redeem_choice(ticket)
}

/// A sum of one record, whose length is `length`.
fn of_length(length: f64) -> (LatticeSum, &'static [f64]) {
    (sum(&[[length, 0.0]], 1.0), &[])
}

fn selecting(epsilon: Epsilon, times: u64) -> Curator {
    let event = Event::ExponentialMechanism { epsilon };
    simulated(ADJACENCY, 5, event.repeated(times))
}

#[test]
fn a_shifted_norm_is_the_norm_of_the_shifted_sum() {
    let sealed = || sum(&[[0.3, 0.4], [0.3, 0.0], [0.0, -0.2]], 1.0);
    // Noise of a thousand lattice steps: 2^-20 of the radius.
    let tiny = z(2f64.powi(-21));
    let mut curator = Curator::simulated(ADJACENCY, 1);
    curator
        .reserve(&Spend::Fixed(Event::gaussian(tiny).repeated(5)))
        .unwrap();
    let exact = [0.6, 0.2];
    for shift in [
        &[][..],
        &[1.0, -2.0],
        &[-0.6, -0.2],
        &[1e6],
        // What is no number is no shift.
        &[f64::NAN, 3.0],
    ] {
        let at = |i: usize| shift.get(i).copied().filter(|x| !x.is_nan()).unwrap_or(0.0);
        let expected = (exact[0] + at(0)).hypot(exact[1] + at(1));
        let found = release_norm(&mut curator, Which::All, sealed(), shift, tiny).unwrap();
        assert!((found - expected).abs() < 1e-5, "{found} for {expected}");
    }
}

proptest! {
    /// A replay measures how far the shifted norm moves between neighbours: never more than is charged.
    #[test]
    fn no_shift_makes_a_norm_more_sensitive(
        one in prop::array::uniform2(-9.0..9.0_f64),
        other in prop::array::uniform2(-9.0..9.0_f64),
        shift in prop::collection::vec(prop_oneof![any::<f64>(), -3.0..3.0_f64, Just(-1e300)], 0..3),
    ) {
        let tape = ReplayForAudits::new(ADJACENCY, 1, ChangedRecord::InPlace(1)).unwrap();
        for (mut curator, record) in [(tape.recorder(), one), (tape.replayer(), other)] {
            curator.reserve(&Spend::Fixed(Event::gaussian(z(4.0)))).unwrap();
            let sealed = sum(&[[0.1, 0.2], record], 1.0);
            release_norm(&mut curator, Which::All, sealed, &shift, z(4.0)).unwrap();
        }
        let report = tape.report();
        prop_assert!(report.divergence.is_none());
        prop_assert!(report.releases[0].displacement <= report.releases[0].limit);
        prop_assert!(report.releases[0].limit <= 0.25 * (1.0 + 1e-9));
    }

    /// The same for a selection: log-probabilities of all candidates move by epsilon at most.
    #[test]
    fn a_selection_among_norms_moves_by_epsilon_at_most(
        one in prop::array::uniform2(-9.0..9.0_f64),
        other in prop::array::uniform2(-9.0..9.0_f64),
        shifts in prop::collection::vec(prop::collection::vec(-3.0..3.0_f64, 2), 1..5),
        epsilon in 0.01..20.0_f64,
    ) {
        let epsilon = Epsilon::new(epsilon).unwrap();
        let tape = ReplayForAudits::new(ADJACENCY, 1, ChangedRecord::InPlace(1)).unwrap();
        for (mut curator, record) in [(tape.recorder(), one), (tape.replayer(), other)] {
            curator.reserve(&Spend::Fixed(Event::ExponentialMechanism { epsilon })).unwrap();
            let among = shifts.iter().map(|shift| (sum(&[[0.1, 0.2], record], 1.0), &shift[..]));
            select(&mut curator, among.collect(), epsilon).unwrap();
        }
        let report = tape.report();
        prop_assert!(report.divergence.is_none());
        prop_assert_eq!(report.releases[0].mechanism, ReplayedMechanism::Exponential);
        prop_assert!(report.releases[0].displacement <= epsilon.get());
    }
}

/// P(i) ~ exp(-epsilon norm_i/4) for clip radius 1 under replace-one: chi-squared with 2 degrees of freedom, 30 fails once in 3 million.
#[test]
fn small_norms_are_selected_with_the_law_of_the_mechanism() {
    let lengths = [0.0, 0.5, 1.0];
    let epsilon = epsilon(3.0);
    let runs = 30_000u64;
    let mut curator = selecting(epsilon, runs);
    let mut counts = [0.0; 3];
    for _ in 0..runs {
        let among = lengths.map(of_length).into();
        counts[select(&mut curator, among, epsilon).unwrap()] += 1.0;
    }
    let masses = lengths.map(|length: f64| (-0.75 * length).exp());
    let total: f64 = masses.iter().sum();
    let mut chi = 0.0;
    for (count, mass) in counts.iter().zip(masses) {
        let expected = runs as f64 * mass / total;
        chi += (count - expected).powi(2) / expected;
    }
    assert!(chi < 30.0, "{chi}: {counts:?}");
}

#[test]
fn what_can_not_be_selected_among_is_refused_and_costs_nothing() {
    let epsilon = epsilon(1.0);
    let mut curator = selecting(epsilon, 1);
    assert!(matches!(
        select(&mut curator, Vec::new(), epsilon),
        Err(Refused::Selection(SelectionError::NoCandidates))
    ));
    let other = Bound::new(ClipNorm::new(2.0).unwrap(), 2).unwrap();
    let longer = (LatticeSum::new(other), &[][..]);
    assert!(matches!(
        select(&mut curator, vec![of_length(0.1), longer], epsilon),
        Err(Refused::Ticket(TicketError::OtherBound { .. }))
    ));
    assert_eq!(curator.spent(), Event::NoOp);
    select(&mut curator, vec![of_length(0.1)], epsilon).unwrap();
    assert!(matches!(
        select(&mut curator, vec![of_length(0.1)], epsilon),
        Err(Refused::NotReserved { .. })
    ));
}

#[test]
fn a_cap_and_what_comes_after_it_are_kept_apart() {
    let epsilon = epsilon(0.5);
    let then = Event::ExponentialMechanism { epsilon };
    let spend = Spend::at_most_then(Event::gaussian(z(1.0)), then.clone());
    let mut curator = Curator::protected(ADJACENCY).unwrap();
    curator.reserve(&spend).unwrap();
    let sealed = || sum(&[[0.3, 0.4]], 1.0);
    // 1/4 + 1/4 of the cap of 1, and 1 more is refused.
    for _ in 0..2 {
        release(&mut curator, Which::All, sealed(), z(2.0)).unwrap();
    }
    assert!(matches!(
        release(&mut curator, Which::All, sealed(), z(1.0)),
        Err(Refused::OverCap { .. })
    ));
    select(&mut curator, vec![of_length(0.1)], epsilon).unwrap();
    // The first of what comes after closes the cap; and it comes once.
    assert!(matches!(
        release(&mut curator, Which::All, sealed(), z(9.0)),
        Err(Refused::NotReserved { .. })
    ));
    assert!(matches!(
        select(&mut curator, vec![of_length(0.1)], epsilon),
        Err(Refused::NotReserved { .. })
    ));
    let spent = curator.settle().unwrap();
    let twice = Event::gaussian(z(2.0)).repeated(2);
    assert_eq!(spent, Event::composed(vec![twice, then.repeated(1)]));
    // The guarantee is that of the whole reservation: rho = 1/2 + 1/32.
    let delta = Delta::new(1e-6).unwrap();
    let stated = curator.guarantee(delta).unwrap().epsilon();
    let (_, whole) = Accountant::least(spend.event(), delta, ADJACENCY).unwrap();
    let (_, part) = Accountant::least(&Event::gaussian(z(1.0)), delta, ADJACENCY).unwrap();
    assert!(
        (stated / whole - 1.0).abs() < 1e-6 && stated > part,
        "{stated} {whole} {part}"
    );
}

#[test]
fn only_what_can_come_after_a_cap_is_reserved() {
    let gaussian = Event::gaussian(z(1.0));
    let selection = Event::ExponentialMechanism {
        epsilon: epsilon(1.0),
    };
    let slices = Event::ParallelComposed {
        events: vec![gaussian.clone()],
    };
    for (cap, then) in [
        (gaussian.clone(), gaussian.clone()),
        (gaussian.clone(), slices),
        (selection.clone(), selection.clone()),
        (Event::NoOp, selection.clone()),
    ] {
        let mut curator = Curator::protected(ADJACENCY).unwrap();
        assert!(matches!(
            curator.reserve(&Spend::at_most_then(cap, then)),
            Err(Refused::UnsupportedSpend { .. })
        ));
    }
}

#[test]
fn a_shared_budget_pays_for_both_in_its_own_measure() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str, filter| {
        let path = folder.path().join(name);
        let delta = Delta::new(1e-6).unwrap();
        Ledger::open_or_create(&path, epsilon(8.0), delta, ADJACENCY, filter).unwrap()
    };
    let selection = epsilon(0.8);
    let then = Event::ExponentialMechanism { epsilon: selection };
    let spend = Spend::at_most_then(Event::gaussian(z(1.0)), then);
    let curator = |name: &str, filter| {
        let curator = Curator::protected(ADJACENCY).unwrap();
        curator.with_ledger(open(name, filter)).unwrap()
    };
    // A selection is no Gaussian.
    assert!(curator("gdp", FilterKind::Gdp).reserve(&spend).is_err());
    let mut run = curator("zcdp", FilterKind::Zcdp);
    run.reserve(&spend).unwrap();
    let used = || open("zcdp", FilterKind::Zcdp).state().unwrap().used;
    assert!((used() - 0.5 - 0.08).abs() < 1e-8, "{}", used());
    release(&mut run, Which::All, sum(&[[0.3, 0.4]], 1.0), z(2.0)).unwrap();
    select(&mut run, vec![of_length(0.1)], selection).unwrap();
    run.settle().unwrap();
    // Refunded to what was released.
    assert!((used() - 0.125 - 0.08).abs() < 1e-8, "{}", used());
}
