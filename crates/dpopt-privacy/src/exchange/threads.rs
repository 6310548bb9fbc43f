//! Ranks that are threads of one process: for tests and audits, without an engine.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use zeroize::Zeroizing;

use super::{Exchange, ExchangeError};

/// One of several ranks of one process, each of which belongs to a thread.
pub struct ThreadRanks {
    rank: usize,
    ranks: usize,
    limit: Duration,
    meeting: Arc<Meeting>,
}

#[derive(Default)]
struct Meeting {
    board: Mutex<Board>,
    changed: Condvar,
}

#[derive(Default)]
struct Board {
    /// Rounds that are over.
    over: u64,
    arrived: usize,
    sums: Zeroizing<Vec<u64>>,
    /// Of the round that is over.
    last: Zeroizing<Vec<u64>>,
    failed: Option<ExchangeError>,
}

impl ThreadRanks {
    /// So many, in order, which wait for each other no longer than `limit`.
    #[must_use]
    pub fn new(ranks: usize, limit: Duration) -> Vec<Self> {
        let meeting = Arc::new(Meeting::default());
        let one = |rank| Self {
            rank,
            ranks,
            limit,
            meeting: Arc::clone(&meeting),
        };
        (0..ranks).map(one).collect()
    }

    fn board(&self) -> MutexGuard<'_, Board> {
        let board = self.meeting.board.lock();
        board.unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, board: &mut Board, error: ExchangeError) -> Result<(), ExchangeError> {
        board.failed = Some(error);
        self.meeting.changed.notify_all();
        Err(error)
    }
}

impl Exchange for ThreadRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError> {
        let mut board = self.board();
        if let Some(error) = board.failed {
            return Err(error);
        }
        if board.arrived == 0 {
            board.sums = Zeroizing::new(vec![0; words.len()]);
        }
        if board.sums.len() != words.len() {
            let why = "ranks gave different numbers of words to one round";
            return self.fail(&mut board, ExchangeError::Engine { why });
        }
        for (sum, word) in board.sums.iter_mut().zip(words.iter()) {
            *sum = sum.wrapping_add(*word);
        }
        board.arrived += 1;
        let round = board.over;
        if board.arrived == self.ranks {
            board.arrived = 0;
            board.over += 1;
            board.last = std::mem::take(&mut board.sums);
            self.meeting.changed.notify_all();
        } else {
            let waited = self
                .meeting
                .changed
                .wait_timeout_while(board, self.limit, |board| {
                    board.over == round && board.failed.is_none()
                });
            board = waited.unwrap_or_else(PoisonError::into_inner).0;
            if board.over == round {
                let seconds = self.limit.as_secs();
                let error = board.failed;
                let error = error.unwrap_or(ExchangeError::Late { seconds });
                return self.fail(&mut board, error);
            }
        }
        // Nobody ends the next round before all have read this one's sums: each has to arrive for it.
        words.copy_from_slice(&board.last);
        Ok(())
    }
}
