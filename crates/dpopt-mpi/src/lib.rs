//! The ranks of a run over MPI: an [`Exchange`] whose sums are all-reduced as integers.
//!
//! A release makes few rounds: those in which the ranks agree have seven words, the sum has as many as it has coordinates. A rank that is
//! dead or hangs ends the run on all ranks within a limit. `docs/mpi.md` says how to use it, `docs/privacy/interfaces.md` who sees what.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dpopt_privacy::{Exchange, ExchangeError};
use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::environment::Universe;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _};
use zeroize::Zeroizing;

/// Words that are reduced at once: 128 MiB. MPI counts in 32 bits.
const AT_ONCE: usize = 1 << 24;
/// How often to ask before the processor is given to others, and how long to sleep after that: oversubscribed ranks wait for each other.
const ASKS: u32 = 200;
const SLEEP: Duration = Duration::from_micros(20);
/// How long what a rank says takes at most to come through `mpirun`.
const WORDS: Duration = Duration::from_millis(300);
/// How a run ends whose ranks don't answer.
const ABORTED: i32 = 5;

/// MPI could not be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// It was started before in this process.
    #[error("MPI was started before in this process, or was ended")]
    Started,
    /// It can't be called from any thread.
    #[error(
        "this MPI can only be called from the thread that started it; it has to serialise the calls of several"
    )]
    Threads,
}

/// MPI as long as this lives: to be dropped last.
pub struct Engine {
    _universe: Universe,
}

/// `mpirun` ends all ranks at the first that fails, with what it has not passed on yet. MPI ends on all ranks together, so a moment before it
/// is enough for the words of each.
impl Drop for Engine {
    fn drop(&mut self) {
        sleep(WORDS);
    }
}

/// One rank of all that `mpirun` started.
pub struct MpiRanks {
    rank: usize,
    ranks: usize,
    limit: Duration,
    turn: Mutex<()>,
}

/// Starts MPI. Ranks wait for each other no longer than `limit`: for longer than any of them takes for a pass.
///
/// # Errors
/// [`MpiError`].
pub fn start(limit: Duration) -> Result<(Engine, MpiRanks), MpiError> {
    let started = mpi::initialize_with_threading(Threading::Serialized);
    let (universe, threading) = started.ok_or(MpiError::Started)?;
    if threading < Threading::Serialized {
        return Err(MpiError::Threads);
    }
    let world = universe.world();
    let ranks = MpiRanks {
        // Neither is negative.
        rank: world.rank().unsigned_abs() as usize,
        ranks: world.size().unsigned_abs() as usize,
        limit,
        turn: Mutex::new(()),
    };
    let engine = Engine {
        _universe: universe,
    };
    Ok((engine, ranks))
}

impl Exchange for MpiRanks {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    /// # Errors
    /// None is returned: where a rank is late, all of them are ended (`MPI_Abort`).
    fn add(&self, words: &mut [u64]) -> Result<(), ExchangeError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let world = SimpleCommunicator::world();
        // Sums of records.
        let mut sums = Zeroizing::new(vec![0u64; words.len().min(AT_ONCE)]);
        for piece in words.chunks_mut(AT_ONCE) {
            let sums = &mut sums[..piece.len()];
            self.reduce(&world, piece, sums);
            piece.copy_from_slice(sums);
        }
        Ok(())
    }
}

impl MpiRanks {
    fn reduce(&self, world: &SimpleCommunicator, own: &[u64], sums: &mut [u64]) {
        let start = now();
        let mut asks = 0u32;
        mpi::request::scope(|scope| {
            let sum = SystemOperation::sum();
            let mut request = world.immediate_all_reduce_into(scope, own, sums, sum);
            loop {
                match request.test() {
                    Ok(_) => return,
                    Err(waiting) => request = waiting,
                }
                asks += 1;
                if asks < ASKS {
                    std::thread::yield_now();
                    continue;
                }
                sleep(SLEEP);
                if start.elapsed() > self.limit {
                    let seconds = self.limit.as_secs();
                    let late = ExchangeError::Late { seconds };
                    say(&format!("rank {}: error: {late}; all ranks end", self.rank));
                    world.abort(ABORTED);
                }
            }
        });
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "ends a run whose ranks don't answer, and steers nothing else"
)]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "MPI has no event to wait for: not for an answer, nor for words on their way"
)]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
