//! The threads of an estimator: a pool of its own, and how a pass is cut up for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rayon::{ThreadPool, ThreadPoolBuilder};

/// More threads than this are not started, whatever is asked for.
const MOST: usize = 256;
/// Multiply-adds that are worth another thread. Tuned: waking a thread of the pool and waiting for it costs about
/// as much time as a few thousand, so a split pass gains from this many on.
const LEAST_WORK: f64 = 65_536.0;
/// What a record costs beside its arithmetic, in multiply-adds. Tuned.
const RECORD_WORK: f64 = 32.0;
/// More records than a lattice sum takes.
const MOST_RECORDS: f64 = 1e12;
/// From this many records for each thread on, there are several chunks for each.
const MANY_RECORDS: f64 = 1_024.0;
/// That many, so that a thread that is held up leaves work to the others.
const CHUNKS_PER_THREAD: f64 = 4.0;

/// The calling thread and a pool of others.
pub(crate) struct Threads {
    /// None for one thread, or where the system has no more.
    pool: Option<ThreadPool>,
}

/// How a pass is cut up. From public numbers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Records in a chunk.
    pub(crate) chunk: usize,
    /// Threads that take chunks.
    pub(crate) workers: usize,
}

impl Threads {
    /// One.
    pub(crate) fn one() -> Self {
        Self { pool: None }
    }

    /// `count` threads, the calling one among them. They sleep between passes.
    pub(crate) fn new(count: usize) -> Self {
        let others = count.min(MOST).saturating_sub(1);
        if others == 0 {
            return Self::one();
        }
        let builder = ThreadPoolBuilder::new()
            .num_threads(others)
            .thread_name(|i| format!("dpopt-{i}"));
        Self {
            pool: builder.build().ok(),
        }
    }

    fn count(&self) -> usize {
        self.pool
            .as_ref()
            .map_or(1, |pool| pool.current_num_threads() + 1)
    }

    /// The cut of a pass over a public number of `records`, each worth `work` multiply-adds, into sums of `dim`
    /// numbers.
    pub(crate) fn cut(&self, records: f64, work: f64, dim: usize) -> Cut {
        let total = records * (work + RECORD_WORK);
        // A sum of its own has to be made and merged.
        let share = LEAST_WORK + 4.0 * dim as f64;
        // Conversions saturate, and a NaN gives one worker.
        let workers = self.count().min((total / share) as usize).max(1);
        if workers == 1 {
            return Cut {
                chunk: usize::MAX,
                workers,
            };
        }
        let each = records / workers as f64;
        let (each, multiple) = if each >= MANY_RECORDS {
            (each / CHUNKS_PER_THREAD, 128)
        } else {
            (each, 8)
        };
        Cut {
            chunk: (each.min(MOST_RECORDS).ceil() as usize).next_multiple_of(multiple),
            workers,
        }
    }

    /// Runs `work` on each of `chunks` chunks, by whichever of `workers` threads is free. Each thread has a state,
    /// made by `start`; those that were made come back in no particular order.
    pub(crate) fn run<S: Send>(
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
        match &self.pool {
            Some(pool) if workers > 1 && chunks > 1 => pool.in_place_scope(|scope| {
                for _ in 1..workers.min(chunks) {
                    scope.spawn(|_| take_chunks());
                }
                take_chunks();
            }),
            _ => take_chunks(),
        }
        states.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chunk_is_worked_on_once() {
        for (count, chunks, workers) in [(1, 5, 1), (2, 0, 2), (3, 1, 3), (8, 100, 8), (4, 3, 9)] {
            let threads = Threads::new(count);
            let states = threads.run(chunks, workers, Vec::new, Vec::push);
            assert!(states.len() <= count.min(chunks));
            let mut all: Vec<usize> = states.into_iter().flatten().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..chunks));
        }
    }

    #[test]
    fn a_pass_is_split_by_its_work_and_not_by_its_records_alone() {
        let threads = Threads::new(4);
        let workers = |records, work, dim| threads.cut(records, work, dim).workers;
        // A perceptron of 100,000 parameters on a small batch; five numbers on the same one.
        assert_eq!(workers(256.0, 1e5, 100_000), 4);
        assert_eq!(workers(256.0, 5.0, 5), 1);
        assert_eq!(workers(1e6, 50.0, 50), 4);
        // Few entries in very many columns: the sums would cost more than the pass.
        assert_eq!(workers(1e3, 32.0, 1_000_000), 1);
        for odd in [0.0, -1.0, f64::NAN] {
            assert_eq!(workers(odd, 50.0, 50), 1);
        }
        assert_eq!(Threads::one().cut(1e6, 1e6, 10).workers, 1);
        assert!(threads.cut(f64::INFINITY, 1.0, 1).chunk > 0);
    }

    #[test]
    fn chunks_are_even_and_whole_blocks_where_records_are_many() {
        let threads = Threads::new(2);
        let chunk = |records| threads.cut(records, 1e5, 1000).chunk;
        assert_eq!(chunk(256.0), 128);
        assert_eq!(chunk(300.0), 152);
        assert_eq!(chunk(2048.0), 256);
        assert_eq!(chunk(1e5), 12_544);
    }

    /// In a thread of a pool of someone else's, and in one of this very pool.
    #[test]
    fn a_pool_in_a_pool_does_not_deadlock() {
        let outer = Threads::new(3);
        let sums = outer.run(
            6,
            3,
            || 0,
            |sum, chunk| {
                let inner = Threads::new(2).run(4, 2, || 0, |sum, chunk| *sum += chunk);
                *sum += chunk * inner.iter().sum::<usize>();
            },
        );
        assert_eq!(sums.iter().sum::<usize>(), 15 * 6);
    }
}
