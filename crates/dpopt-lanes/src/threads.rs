//! The threads of an estimator: the calling one and a pool of its own.

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// More threads than this are not started, whatever is asked for.
const MOST: usize = 256;
/// How often a thread without work looks for some before it sleeps, and a thread that is done for the others' end. Tuned: some tens of
/// microseconds, as long as it takes to wake a thread that sleeps, or two.
const LOOKS: usize = 4_000;

/// The calling thread and some others, which all copies share. The others start with it and sleep when they have had no work for some tens of
/// microseconds.
#[derive(Clone)]
pub struct Threads {
    /// None for one thread, or where the system has no more.
    others: Option<Arc<Others>>,
}

struct Others {
    pool: ThreadPool,
    /// The number of works that were begun: who waits for work sees it change.
    begun: Arc<AtomicUsize>,
    /// The process that started them. A fork has none of them.
    process: u32,
}

impl Threads {
    /// The calling thread alone.
    #[must_use]
    pub const fn one() -> Self {
        Self { others: None }
    }

    /// `count` threads, the calling one among them, 256 at most. Where the system has no more to give, there is the calling one.
    #[must_use]
    pub fn new(count: NonZeroUsize) -> Self {
        let others = count.get().min(MOST) - 1;
        if others == 0 {
            return Self::one();
        }
        let builder = ThreadPoolBuilder::new()
            .num_threads(others)
            .thread_name(|i| format!("dpopt-{i}"));
        let others = builder.build().ok().map(|pool| Others {
            pool,
            begun: Arc::new(AtomicUsize::new(0)),
            process: std::process::id(),
        });
        Self {
            others: others.map(Arc::new),
        }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.others
            .as_ref()
            .map_or(1, |others| others.pool.current_num_threads() + 1)
    }

    /// Runs `work` on each of `chunks` chunks, by whichever of `workers` threads is free. Each thread has a state,
    /// made by `start`; those that were made come back in no particular order. In a fork of the process the calling thread does it all.
    pub fn run<S: Send>(
        &self,
        chunks: usize,
        workers: usize,
        start: impl Fn() -> S + Sync,
        work: impl Fn(&mut S, usize) + Sync,
    ) -> Vec<S> {
        let next = AtomicUsize::new(0);
        let states = Mutex::new(Vec::with_capacity(workers));
        let take_chunks = || {
            let mut state = None;
            loop {
                let chunk = next.fetch_add(1, Ordering::Relaxed);
                if chunk >= chunks {
                    break;
                }
                work(state.get_or_insert_with(&start), chunk);
            }
            if let Some(state) = state {
                states
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(state);
            }
        };
        match &self.others {
            Some(others) if workers > 1 && chunks > 1 && others.process == std::process::id() => {
                others.take_part(workers.min(chunks) - 1, take_chunks);
            }
            _ => take_chunks(),
        }
        states.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Others {
    /// Runs `work` on `count` of them and on the calling thread.
    fn take_part(&self, count: usize, work: impl Fn() + Sync) {
        // Those that look for work find this one.
        self.begun.fetch_add(1, Ordering::Release);
        let ended = AtomicUsize::new(0);
        self.pool.in_place_scope(|scope| {
            for _ in 0..count {
                scope.spawn(|_| {
                    work();
                    ended.fetch_add(1, Ordering::Release);
                });
            }
            work();
            // Most often they end at about the same time: to sleep until they have would take longer.
            look_for(|| ended.load(Ordering::Acquire) == count);
        });
        let seen = self.begun.load(Ordering::Acquire);
        for _ in 0..count.min(self.pool.current_num_threads()) {
            let begun = Arc::clone(&self.begun);
            self.pool
                .spawn(move || look_for(|| begun.load(Ordering::Acquire) != seen));
        }
    }
}

/// Waits for a short time until something is so.
fn look_for(so: impl Fn() -> bool) {
    // Without giving the processor away: a program that looks for work too would keep it for milliseconds.
    for _ in 0..LOOKS {
        if so() {
            return;
        }
        std::hint::spin_loop();
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Threads({})", self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize) -> Threads {
        Threads::new(NonZeroUsize::new(count).expect("a positive number"))
    }

    #[test]
    fn every_chunk_is_worked_on_once() {
        for (count, chunks, workers) in [(1, 5, 1), (2, 0, 2), (3, 1, 3), (8, 100, 8), (4, 3, 9)] {
            let threads = threads(count);
            assert_eq!(threads.count(), count);
            // Once with threads that sleep, then with some that look for work.
            for _ in 0..3 {
                let states = threads.clone().run(chunks, workers, Vec::new, Vec::push);
                assert!(states.len() <= count.min(chunks));
                let mut all: Vec<usize> = states.into_iter().flatten().collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..chunks));
            }
        }
    }

    /// In a thread of a pool of someone else's, and in one of this very pool.
    #[test]
    fn a_pool_in_a_pool_does_not_deadlock() {
        let outer = threads(3);
        let sums = outer.run(
            6,
            3,
            || 0,
            |sum, chunk| {
                let one = threads(2).run(4, 2, || 0, |sum, chunk| *sum += chunk);
                let same = outer.run(4, 3, || 0, |sum, chunk| *sum += chunk);
                *sum += chunk * one.iter().chain(&same).sum::<usize>();
            },
        );
        assert_eq!(sums.iter().sum::<usize>(), 15 * 12);
    }

    /// A child of a fork has the pool's memory and none of its threads: here a pool that says that another process made it.
    #[test]
    fn in_a_fork_the_calling_thread_does_it_all() {
        let mut forked = threads(3);
        let others = forked.others.as_mut().and_then(Arc::get_mut);
        others.expect("two others").process ^= 1;
        let here = std::thread::current().id();
        let work = |count: &mut usize, _| {
            assert_eq!(std::thread::current().id(), here);
            *count += 1;
        };
        assert_eq!(forked.run(50, 3, || 0, work), [50]);
    }

    #[test]
    fn a_panic_in_a_chunk_reaches_the_caller_and_leaves_the_threads() {
        let threads = threads(2);
        for bad in [0, 7] {
            let run = || threads.run(8, 2, || (), |(), chunk| assert_ne!(chunk, bad));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err());
            assert!(
                !threads
                    .run(8, 2, || 0, |sum, chunk| *sum += chunk)
                    .is_empty()
            );
        }
    }
}
