//! Ranks that are threads: what they agree on, and how a run ends.

use std::sync::Barrier;
use std::time::Duration;

use super::*;

/// What each rank makes of this.
fn on<T: Send>(ranks: usize, work: impl Fn(Together) -> T + Sync) -> Vec<T> {
    within(ranks, Duration::MAX, |rank| {
        work(Together::new(Box::new(rank)).unwrap())
    })
}

fn within<T: Send>(
    ranks: usize,
    limit: Duration,
    work: impl Fn(ThreadRanks) -> T + Sync,
) -> Vec<T> {
    let work = &work;
    std::thread::scope(|scope| {
        let ranks = ThreadRanks::new(ranks, limit).into_iter();
        let started = ranks.map(|rank| scope.spawn(move || work(rank)));
        let started: Vec<_> = started.collect();
        started.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

/// Whatever the parts are, also where a part of the sum is beyond 64 bits.
#[test]
fn sums_are_those_of_all_ranks() {
    for ranks in 1..=5 {
        let found = on(ranks, |together| {
            let own = together.rank() as i64 + 1;
            let mut sums = [own, -own, i64::MAX, i64::MIN];
            together.sum("a sum", &mut sums).unwrap();
            sums
        });
        let n = ranks as i64;
        let all = n * (n + 1) / 2;
        let expected = [
            all,
            -all,
            i64::MAX.wrapping_mul(n),
            i64::MIN.wrapping_mul(n),
        ];
        assert_eq!(found, vec![expected; ranks]);
    }
}

#[test]
fn what_one_rank_says_all_know() {
    let found = on(3, |together| {
        let mut words = [together.rank() as u64, 7];
        together.of_rank(1, "words", &mut words).unwrap();
        (
            words,
            together
                .of_each("sizes", 10 + together.rank() as u64)
                .unwrap(),
        )
    });
    assert_eq!(found, vec![([1, 7], vec![10, 11, 12]); 3]);
}

/// Each rank is told that they differ, on what, and who does; nothing is added afterwards.
#[test]
fn ranks_that_say_different_things_end_on_all_ranks() {
    let found = on(4, |together| {
        together.note(&"the same");
        together.agree("what is the same").unwrap();
        let said = together.rank() / 2;
        let parted = together.agree_on("the plan", &said).unwrap_err();
        (parted, together.agree("anything").unwrap_err())
    });
    let parted = ExchangeError::Disagree {
        what: "the plan",
        differ: 2,
        first: 2,
        ranks: 4,
    };
    assert_eq!(found, vec![(parted, parted); 4]);
}

/// What was noted on the way counts, in order, and so does how many words a sum has.
#[test]
fn a_sum_is_refused_where_ranks_differ() {
    type Turn = fn(&Together) -> Vec<i64>;
    let turns: [Turn; 3] = [
        |together| {
            together.note_numbers(&[if together.rank() == 1 { -0.0 } else { 0.0 }]);
            vec![1]
        },
        |together| {
            let said = ["a", "b"];
            let swap = together.rank();
            together.note(&said[swap]);
            together.note(&said[1 - swap]);
            vec![1]
        },
        |together| vec![1; 1 + together.rank()],
    ];
    for turn in turns {
        let found = on(2, |together| {
            let mut words = turn(&together);
            together.sum("a sum", &mut words)
        });
        for one in found {
            assert!(matches!(one, Err(ExchangeError::Disagree { first: 1, .. })));
        }
    }
}

/// The rank that failed has its own error, the others are told who; they go on together after it.
#[test]
fn a_failure_is_told_to_all_ranks() {
    let found = on(3, |together| {
        let own = match together.rank() {
            2 => Err(ExchangeError::TooLate),
            rank => Ok(rank),
        };
        let told = together.all_of("the charge", own).unwrap_err();
        together.agree("the next").unwrap();
        told
    });
    let elsewhere = ExchangeError::Elsewhere {
        failures: 1,
        rank: Some(2),
        what: "the charge",
    };
    assert_eq!(found, [elsewhere, elsewhere, ExchangeError::TooLate]);
}

/// A rank that returns early, or unwinds, ends the run of the others at once, and none of them waits for it again.
#[test]
fn a_rank_that_leaves_ends_the_run_on_all() {
    for panics in [false, true] {
        let found = on(3, |together| {
            if together.rank() == 1 {
                let quiet = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                    let _leaves = together;
                    assert!(!panics, "a rank that panics, as this test wants it to");
                }));
                assert_eq!(quiet.is_err(), panics);
                return None;
            }
            let told = together.sum("a sum", &mut [1]).unwrap_err();
            drop(together);
            Some(told)
        });
        let left = ExchangeError::Elsewhere {
            failures: 1,
            rank: Some(1),
            what: "a sum",
        };
        assert_eq!(found, [Some(left), None, Some(left)]);
    }
}

/// A rank that hangs until the others have given up is not waited for beyond the limit, on any rank.
#[test]
fn a_rank_that_hangs_ends_the_run_within_the_limit() {
    let given_up = Barrier::new(3);
    let found = within(3, Duration::from_millis(1), |rank| {
        let hangs = rank.rank() == 2;
        if hangs {
            given_up.wait();
        }
        let late = Together::new(Box::new(rank)).err();
        if !hangs {
            given_up.wait();
        }
        late
    });
    assert_eq!(found, [Some(ExchangeError::Late { seconds: 0 }); 3]);
}

#[test]
fn a_rank_that_there_is_not_is_refused() {
    struct Odd;
    impl Exchange for Odd {
        fn rank(&self) -> usize {
            2
        }
        fn ranks(&self) -> usize {
            2
        }
        fn add(&self, _: &mut [u64]) -> Result<(), ExchangeError> {
            Ok(())
        }
    }
    let refused = Together::new(Box::new(Odd)).err();
    assert_eq!(
        refused,
        Some(ExchangeError::NoSuchRank { rank: 2, ranks: 2 })
    );
}
