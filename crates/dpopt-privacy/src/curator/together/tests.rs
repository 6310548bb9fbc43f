//! Curators of several ranks: the same releases as of one, and what must not go on.

use std::path::Path;
use std::time::Duration;

use super::*;
use crate::adjacency::Adjacency;
use crate::curator::Spend;
use crate::event::Event;
use crate::exchange::{Exchange, ThreadRanks};
use crate::filter::FilterKind;
use crate::lattice::{LatticeSum, SensitivityClaim};
use crate::ledger::Ledger;
use crate::noise::ReplayKeyForTests;
use crate::prefix::{Participation, PrefixKind};
use crate::sample::{Body, Positions, Sample};
use crate::selection::{
    BaseMeasure, QuantileBins, QuantileSum, ScoreBound, ScoreSum, Target, Tuning,
};
use crate::ticket::TicketError;
use crate::units::{ClipNorm, Delta, Epsilon, NoiseMultiplier, SamplingRate};
use crate::which::{Allocation, Which};

const RECORDS: u64 = 60;
const ADJACENCY: Adjacency = Adjacency::ReplaceOne;

fn z() -> NoiseMultiplier {
    NoiseMultiplier::new(2.0).unwrap()
}

fn bound() -> Bound {
    Bound::new(ClipNorm::new(1.0).unwrap(), 3).unwrap()
}

fn record(i: u64) -> [f64; 3] {
    let x = i as f64;
    [(0.3 * x).sin(), (1.7 * x).cos(), 0.1 * (x % 7.0)]
}

/// The records of a rank: neighbours, more on later ranks.
fn own(together: Option<&Together>) -> Range<u64> {
    let Some(rank) = together else {
        return 0..RECORDS;
    };
    let all = (rank.ranks() * rank.ranks()) as u64;
    let at = |k: usize| RECORDS * (k * k) as u64 / all;
    at(rank.rank())..at(rank.rank() + 1)
}

fn positions(sample: &Sample) -> Vec<u64> {
    match sample.positions() {
        Positions::Range(range) => range.collect(),
        Positions::Drawn(drawn) => drawn.reveal().iter().map(|&i| u64::from(i)).collect(),
    }
}

/// The sum of the records of a sample that this rank has.
fn sum(sample: &Sample, own: &Range<u64>) -> LatticeSum {
    let mut sum = LatticeSum::new(bound());
    for i in positions(sample).into_iter().filter(|i| own.contains(i)) {
        sum.add_scaled(1.0, &record(i));
    }
    sum
}

fn share(events: Vec<Event>) -> Event {
    Event::ParallelComposed {
        events: vec![Event::composed(events)],
    }
}

/// One release of every kind, as text with all digits.
fn every_kind(curator: &mut Curator, own: &Range<u64>) -> Result<Vec<String>, Refused> {
    let rate = SamplingRate::new(0.4).unwrap();
    let allocation = Allocation {
        steps: 3,
        participations: 1,
    };
    let epsilon = Epsilon::new(1.0).unwrap();
    let gaussian = Event::gaussian(z());
    let tuning = Tuning::new(gaussian.clone(), 3.0, 1.0).unwrap();
    let claim = ClipNorm::new(1.0).unwrap();
    let claim = SensitivityClaim::new(claim, 10.0, 3, ADJACENCY, "a test").unwrap();
    let spend = Event::composed(vec![
        gaussian.clone().repeated(6),
        gaussian.clone().poisson_sampled(rate),
        Event::SampledWithoutReplacement {
            source_dataset_size: RECORDS,
            sample_size: 20,
            event: Box::new(gaussian.clone()),
        },
        allocation.event(gaussian.clone()),
        Event::ExponentialMechanism { epsilon }.repeated(3),
        tuning.event(),
        share(vec![gaussian.clone().repeated(4)]),
    ]);
    curator.reserve_claimed(&Spend::Fixed(spend), "a test")?;
    curator.open_pool(RECORDS, 0)?;
    let body = Body::of(RECORDS);
    let mut told = Vec::new();
    let mut tell = |what: &dyn std::fmt::Debug| told.push(format!("{what:?}"));

    let whiches = [
        Which::All,
        Which::Poisson(rate),
        Which::FixedSize(20),
        Which::Next(25),
    ];
    for which in whiches {
        let ticket = curator.grant(which, body, bound(), z())?;
        let sum = sum(ticket.sample(), own);
        tell(&curator.redeem(ticket, sum)?);
    }
    for _ in 0..3 {
        let ticket = curator.grant(Which::Allocated(allocation), body, bound(), z())?;
        let sum = sum(ticket.sample(), own);
        tell(&curator.redeem(ticket, sum)?);
    }
    let ticket = curator.grant(Which::All, body, bound(), z())?;
    let whole = sum(ticket.sample(), own);
    tell(&curator.redeem_norm_of(ticket, whole, 1..3, &[0.0, 4.0])?);
    let ticket = curator.grant_claimed(Which::All, body, &claim, z())?;
    tell(&curator.redeem_claimed(ticket, &[1.0, -2.0, 3.0])?);

    let chain = [curator.take_slice(10)?, curator.take_slice(5)?];
    let links = [&chain[0], &chain[1]];
    let ticket = curator.grant_chain(&links, body, bound(), z())?;
    let parts = ticket.samples().iter().map(|sample| sum(sample, own));
    let parts = parts.collect();
    tell(&curator.redeem_chain(ticket, parts)?);

    for (len, participation) in [(2, Participation::Every), (2, Participation::Single)] {
        let kind = PrefixKind::Toeplitz;
        let mut period = curator.prefix(kind, bound(), len, z(), participation)?;
        for _ in 0..len {
            let which = match participation {
                Participation::Every => Which::All,
                _ => Which::Next(4),
            };
            let ticket = period.grant(which, body, curator)?;
            let sum = sum(ticket.sample(), own);
            tell(&period.redeem(ticket, sum, curator)?);
        }
    }

    let mut choice = curator.grant_choice(body, bound(), epsilon)?;
    for k in 0..4 {
        let sum = sum(choice.sample(), own);
        choice.add(sum, &[f64::from(k) - 2.0, 0.0, 1.0])?;
    }
    tell(&curator.redeem_choice(choice)?);
    let votes = ScoreBound::whole(4, 0, 1)?;
    let mut scores = ScoreSum::new(votes);
    own.clone()
        .for_each(|i| scores.add_vote((i % 5) as usize, 1.0));
    tell(&curator.exponential(&scores.finish(ADJACENCY), epsilon)?);
    let mut values = QuantileSum::new(QuantileBins::new(&[0.0, 1.0, 2.0, 4.0])?);
    own.clone().for_each(|i| values.add(i as f64 % 4.0));
    let values = values.finish(ADJACENCY);
    tell(&curator.quantile(&values, Target::median(), BaseMeasure::Width, epsilon)?);

    let best = curator.repeat_and_select(&tuning, |inner| {
        let ticket = inner.grant(Which::All, body, bound(), z()).unwrap();
        let sum = sum(ticket.sample(), own);
        let released = inner.redeem(ticket, sum).unwrap();
        (released.clone(), released[0])
    })?;
    let best = best.map(|best| best.value);
    tell(&best);
    tell(&curator.settle()?);
    Ok(told)
}

fn on<T: Send>(ranks: usize, work: impl Fn(Together) -> T + Sync) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let all = ThreadRanks::new(ranks, Duration::MAX);
        let started = all
            .into_iter()
            .map(|rank| scope.spawn(move || work(Together::new(Box::new(rank)).unwrap())));
        let started: Vec<_> = started.collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn simulated(together: &Together) -> Curator {
    Curator::simulated(ADJACENCY, 5).joined(together).unwrap()
}

/// The bits of one process, for every kind of release that a curator makes.
#[test]
fn every_kind_of_release_is_that_of_one_process() {
    let mut alone = Curator::simulated(ADJACENCY, 5);
    let expected = every_kind(&mut alone, &own(None)).unwrap();
    for ranks in [1, 2, 4] {
        let found = on(ranks, |together| {
            let own = own(Some(&together));
            every_kind(&mut simulated(&together), &own).unwrap()
        });
        assert_eq!(found, vec![expected.clone(); ranks]);
    }
}

/// Three rounds of seven words and the sum.
#[test]
fn a_release_is_four_rounds() {
    let found = on(2, |together| {
        let mut curator = simulated(&together);
        curator
            .reserve(&Spend::Fixed(Event::gaussian(z())))
            .unwrap();
        let before = together.traffic();
        let ticket = curator
            .grant(Which::All, Body::of(RECORDS), bound(), z())
            .unwrap();
        let sum = sum(ticket.sample(), &own(Some(&together)));
        curator.redeem(ticket, sum).unwrap();
        let after = together.traffic();
        (after.rounds - before.rounds, after.words - before.words)
    });
    assert_eq!(found, vec![(4, 3 * 7 + 3); 2]);
}

/// The key of a protected run is one for all ranks, and another for each run.
#[test]
fn protected_ranks_have_one_key_and_release_the_same() {
    let run = || {
        on(3, |together| {
            let own = own(Some(&together));
            let curator = Curator::protected(ADJACENCY).unwrap();
            every_kind(&mut curator.joined(&together).unwrap(), &own).unwrap()
        })
    };
    let (one, other) = (run(), run());
    assert!(one.iter().all(|told| *told == one[0]));
    assert_ne!(one[0], other[0]);
}

/// Twin: a rank that counts a record twice releases something else than one process does.
#[test]
fn a_record_that_counts_twice_is_seen() {
    let mut alone = Curator::simulated(ADJACENCY, 5);
    let expected = every_kind(&mut alone, &own(None)).unwrap();
    let found = on(2, |together| {
        let mut own = own(Some(&together));
        own.start -= together.rank() as u64;
        every_kind(&mut simulated(&together), &own).unwrap()
    });
    assert!(found.iter().all(|told| told[0] != expected[0]));
}

/// Twin: a rank that draws other noise. What it releases is not what the others do, and nothing comes after it.
#[test]
fn a_rank_with_other_noise_ends_the_run() {
    let found = on(3, |together| {
        let own = own(Some(&together));
        let mut curator = simulated(&together);
        if together.rank() == 2 {
            curator.key = ReplayKeyForTests::from_seed(6).into_key();
        }
        let spend = Spend::Fixed(Event::gaussian(z()).repeated(2));
        curator.reserve(&spend).unwrap();
        let mut release = || {
            let ticket = curator.grant(Which::All, Body::of(RECORDS), bound(), z())?;
            let sum = sum(ticket.sample(), &own);
            curator.redeem(ticket, sum)
        };
        (
            release().unwrap(),
            release().map_err(|error| error.to_string()),
        )
    });
    assert_eq!(found[0].0, found[1].0);
    assert_ne!(found[0].0, found[2].0);
    for (_, second) in found {
        assert!(second.unwrap_err().contains("do not agree on a sum"));
    }
}

/// Twins: what shapes a release after the sum is another on one rank. Noise is the same on all, so that two such releases would tell a
/// sum without noise: none is made.
#[test]
fn a_rank_with_another_shape_releases_nothing_on_any_rank() {
    let body = Body::of(RECORDS);
    let epsilon = Epsilon::new(1.0).unwrap();
    type Case<'a> = &'a (dyn Fn(&mut Curator, &Range<u64>, usize) -> Result<(), Refused> + Sync);
    let cases: [Case<'_>; 5] = [
        &|curator, own, rank| {
            let ticket = curator.grant(Which::All, body, bound(), z())?;
            let sum = sum(ticket.sample(), own);
            let within = rank..3;
            curator.redeem_norm_of(ticket, sum, within, &[]).map(drop)
        },
        &|curator, own, rank| {
            let ticket = curator.grant(Which::All, body, bound(), z())?;
            let sum = sum(ticket.sample(), own);
            curator.redeem_norm(ticket, sum, &[rank as f64]).map(drop)
        },
        &|curator, own, rank| {
            let kind = [PrefixKind::Toeplitz, PrefixKind::Independent][rank];
            let every = Participation::Every;
            let mut period = curator.prefix(kind, bound(), 2, z(), every)?;
            let ticket = period.grant(Which::All, body, curator)?;
            let sum = sum(ticket.sample(), own);
            period.redeem(ticket, sum, curator).map(drop)
        },
        &|curator, own, rank| {
            let mut choice = curator.grant_choice(body, bound(), epsilon)?;
            let sum = sum(choice.sample(), own);
            choice.add(sum, &[rank as f64])?;
            curator.redeem_choice(choice).map(drop)
        },
        &|curator, _, rank| {
            let values = QuantileSum::new(QuantileBins::new(&[0.0, 1.0, 2.0])?);
            let values = values.finish(ADJACENCY);
            let base = [BaseMeasure::Width, BaseMeasure::Bins][rank];
            let target = Target::median();
            curator.quantile(&values, target, base, epsilon).map(drop)
        },
    ];
    let spend = Spend::Fixed(Event::composed(vec![
        Event::gaussian(z()),
        Event::ExponentialMechanism { epsilon },
    ]));
    for (i, case) in cases.iter().enumerate() {
        let found = on(2, |together| {
            let own = own(Some(&together));
            let mut curator = simulated(&together);
            curator.reserve(&spend).unwrap();
            let released = case(&mut curator, &own, together.rank());
            (released.err(), curator.spent())
        });
        for (error, spent) in found {
            let disagree = matches!(
                error,
                Some(
                    Refused::Exchange(ExchangeError::Disagree { .. })
                        | Refused::Ticket(TicketError::Exchange(ExchangeError::Disagree { .. }))
                )
            );
            assert!(disagree, "{i}: {error:?}");
            assert_eq!(spent, Event::NoOp, "{i}");
        }
    }
}

/// Twin: an exchange that says that all agree without asking.
struct Agreeable(ThreadRanks);

impl Exchange for Agreeable {
    fn rank(&self) -> usize {
        self.0.rank()
    }
    fn ranks(&self) -> usize {
        self.0.ranks()
    }
    fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError> {
        if words.len() != 7 {
            return self.0.add(words);
        }
        let ranks = self.ranks() as u64;
        words
            .iter_mut()
            .for_each(|word| *word = word.wrapping_mul(ranks));
        Ok(())
    }
}

#[test]
fn a_rank_that_skips_the_agreement_releases_nothing_on_any_rank() {
    let all = ThreadRanks::new(2, Duration::MAX);
    let found: Vec<Result<Vec<f64>, Refused>> = std::thread::scope(|scope| {
        let started = all.into_iter().map(|rank| {
            scope.spawn(move || {
                let exchange: Box<dyn Exchange> = match rank.rank() {
                    1 => Box::new(Agreeable(rank)),
                    _ => Box::new(rank),
                };
                let together = Together::new(exchange)?;
                let curator = Curator::simulated(ADJACENCY, 5);
                let mut curator = curator.joined(&together)?;
                curator.reserve(&Spend::Fixed(Event::gaussian(z())))?;
                let ticket = curator.grant(Which::All, Body::of(RECORDS), bound(), z())?;
                let sum = sum(ticket.sample(), &own(Some(&together)));
                curator.redeem(ticket, sum)
            })
        });
        let started: Vec<_> = started.collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for one in found {
        assert!(matches!(one, Err(Refused::Exchange(_))), "{one:?}");
    }
}

/// Ranks with other seeds, adjacencies, kinds of run or reservations are told on what they differ, before anything is charged.
#[test]
fn ranks_that_differ_charge_nothing() {
    let what = |refused: Refused| match refused {
        Refused::Exchange(ExchangeError::Disagree { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let of = |make: fn(usize) -> Curator| {
        on(2, |together| {
            make(together.rank()).joined(&together).err().map(what)
        })
    };
    let seeds = of(|rank| Curator::simulated(ADJACENCY, rank as u64));
    assert_eq!(seeds, [Some("the seed"); 2]);
    let adjacencies = of(|rank| {
        let all = [Adjacency::ZeroOut, Adjacency::AddRemove];
        Curator::simulated(all[rank], 1)
    });
    assert_eq!(adjacencies, [Some("the adjacency"); 2]);
    let modes = of(|rank| match rank {
        0 => Curator::simulated(ADJACENCY, 1),
        _ => Curator::protected(ADJACENCY).unwrap(),
    });
    assert_eq!(modes, [Some("the kind of run"); 2]);
    let plans = on(2, |together| {
        let mut curator = simulated(&together);
        let times = 1 + together.rank() as u64;
        let spend = Spend::Fixed(Event::gaussian(z()).repeated(times));
        let refused = curator.reserve(&spend).unwrap_err();
        (what(refused), curator.spent())
    });
    assert_eq!(plans, vec![("what is reserved", Event::NoOp); 2]);
}

#[test]
fn a_curator_that_was_used_does_not_join() {
    let found = on(2, |together| {
        let mut curator = Curator::simulated(ADJACENCY, 5);
        if together.rank() == 1 {
            curator
                .reserve(&Spend::Fixed(Event::gaussian(z())))
                .unwrap();
        }
        curator
            .joined(&together)
            .err()
            .map(|error| error.to_string())
    });
    assert!(found[0].as_ref().unwrap().contains("rank 1"));
    assert!(found[1].as_ref().unwrap().contains("can't join"));
}

fn ledger(path: &Path, epsilon: f64) -> Ledger {
    let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(1e-6).unwrap());
    Ledger::open_or_create(path, epsilon, delta, ADJACENCY, FilterKind::Gdp).unwrap()
}

/// The first rank's budget pays for all; where it can't, no rank reserves.
#[test]
fn the_first_rank_keeps_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    for (epsilon, pays) in [(8.0, true), (0.01, false)] {
        let path = folder.path().join(epsilon.to_string());
        let found = on(2, |together| {
            let curator = Curator::protected(ADJACENCY).unwrap();
            let mut curator = curator.joined(&together).unwrap();
            match together.rank() {
                0 => curator = curator.with_ledger(ledger(&path, epsilon)).unwrap(),
                _ => {
                    let other = folder.path().join("of another rank");
                    let alone = Curator::protected(ADJACENCY).unwrap();
                    assert!(alone.with_ledger(ledger(&other, 1.0)).is_ok());
                }
            }
            let spend = Spend::Fixed(Event::gaussian(z()));
            curator.reserve(&spend)?;
            let ticket = curator.grant(Which::All, Body::of(RECORDS), bound(), z())?;
            let sum = sum(ticket.sample(), &own(Some(&together)));
            curator.redeem(ticket, sum)?;
            curator.settle()
        });
        let state = ledger(&path, epsilon).state().unwrap();
        if pays {
            let spent: Vec<_> = found.into_iter().map(Result::unwrap).collect();
            assert_eq!(spent[0], spent[1]);
            assert_eq!((state.runs, state.open), (1, 0));
        } else {
            assert!(matches!(found[0], Err(Refused::Ledger(_))));
            assert!(matches!(
                found[1],
                Err(Refused::Exchange(ExchangeError::Elsewhere {
                    rank: Some(0),
                    what: "the reservation was written",
                    ..
                }))
            ));
            assert_eq!(state.runs, 0);
        }
    }
    let refused = on(2, |together| {
        let curator = Curator::protected(ADJACENCY).unwrap();
        let curator = curator.joined(&together).unwrap();
        let path = folder.path().join(format!("of rank {}", together.rank()));
        curator
            .with_ledger(ledger(&path, 1.0))
            .err()
            .map(|error| error.to_string())
    });
    assert!(refused[0].is_none());
    assert!(
        refused[1]
            .as_ref()
            .unwrap()
            .contains("rank 1 can't open a ledger")
    );
}

/// A charge that can't be written ends the release on all ranks before noise is drawn: the ledger's file is gone under the first rank.
#[test]
fn a_charge_that_fails_releases_nothing_on_any_rank() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    let found = on(2, |together| {
        let curator = Curator::protected(ADJACENCY).unwrap();
        let mut curator = curator.joined(&together).unwrap();
        if together.is_first() {
            curator = curator.with_ledger(ledger(&path, 8.0)).unwrap();
        }
        let spend = Spend::Fixed(Event::gaussian(z()).repeated(2));
        curator.reserve(&spend).unwrap();
        if together.is_first() {
            std::fs::remove_file(&path).unwrap();
        }
        let ticket = curator.grant(Which::All, Body::of(RECORDS), bound(), z())?;
        let sum = sum(ticket.sample(), &own(Some(&together)));
        curator.redeem(ticket, sum)
    });
    assert!(
        matches!(found[0], Err(Refused::Ledger(_))),
        "{:?}",
        found[0]
    );
    assert!(matches!(
        found[1],
        Err(Refused::Exchange(ExchangeError::Elsewhere {
            rank: Some(0),
            ..
        }))
    ));
}

/// The claimed records are those that the ledger of the first rank names, on all ranks.
#[test]
fn claimed_records_are_the_same_on_all_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    for start in [0, 20] {
        let found = on(3, |together| {
            let curator = Curator::protected(ADJACENCY).unwrap();
            let mut curator = curator.joined(&together).unwrap();
            if together.is_first() {
                curator = curator.with_ledger(ledger(&path, 8.0)).unwrap();
            }
            let numbering = Numbering::default();
            curator
                .open_pool_of_ledger("a table", RECORDS, 20, numbering)
                .unwrap();
            let known = curator.knows_unread();
            (curator.take_slice(20).unwrap().positions(), known)
        });
        assert!(found.iter().all(|one| *one == found[0]));
        assert_eq!(found[0].0, start..start + 20);
    }
    let none = on(2, |together| {
        let curator = Curator::protected(ADJACENCY).unwrap();
        let mut curator = curator.joined(&together).unwrap();
        let numbering = Numbering::default();
        curator
            .open_pool_of_ledger("a table", RECORDS, 20, numbering)
            .unwrap_err()
    });
    assert!(matches!(none[0], Refused::Pool(PoolError::NoLedger)));
    assert!(matches!(none[1], Refused::Exchange(_)));
}
