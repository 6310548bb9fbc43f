//! How a pass is cut up for the threads of an estimator.

use dpopt_privacy::Threads;

/// Multiply-adds that are worth another thread. Tuned: waking a thread of the pool and waiting for it costs about
/// as much time as a few thousand, so a split pass gains from this many on.
const LEAST_WORK: f64 = 65_536.0;
/// Cost of a record beside its arithmetic, in multiply-adds. Tuned.
const RECORD_WORK: f64 = 32.0;
/// More records than a lattice sum takes.
const MOST_RECORDS: f64 = 1e12;
/// From this many records for each thread on, there are several chunks for each.
const MANY_RECORDS: f64 = 1_024.0;
/// That many, so that a thread that is held up leaves work to the others.
const CHUNKS_PER_THREAD: f64 = 4.0;

/// How a pass is cut up. From public numbers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Records in a chunk.
    pub(crate) chunk: usize,
    /// Threads that take chunks.
    pub(crate) workers: usize,
}

impl Cut {
    /// The cut of a pass over a public number of `records`, each worth `work` multiply-adds, into sums of `dim`
    /// numbers.
    pub(crate) fn new(threads: &Threads, records: f64, work: f64, dim: usize) -> Self {
        let total = records * (work + RECORD_WORK);
        // A sum of its own has to be made and merged.
        let share = LEAST_WORK + 4.0 * dim as f64;
        // Conversions saturate, and a NaN gives one worker.
        let workers = threads.count().min((total / share) as usize).max(1);
        if workers == 1 {
            return Self {
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
        Self {
            chunk: (each.min(MOST_RECORDS).ceil() as usize).next_multiple_of(multiple),
            workers,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    fn threads(count: usize) -> Threads {
        Threads::new(NonZeroUsize::new(count).unwrap())
    }

    #[test]
    fn a_pass_is_split_by_its_work_and_not_by_its_records_alone() {
        let threads = threads(4);
        let workers = |records, work, dim| Cut::new(&threads, records, work, dim).workers;
        // A perceptron of 100,000 parameters on a small batch; five numbers on the same one.
        assert_eq!(workers(256.0, 1e5, 100_000), 4);
        assert_eq!(workers(256.0, 5.0, 5), 1);
        assert_eq!(workers(1e6, 50.0, 50), 4);
        // Few entries in very many columns: the sums would cost more than the pass.
        assert_eq!(workers(1e3, 32.0, 1_000_000), 1);
        for odd in [0.0, -1.0, f64::NAN] {
            assert_eq!(workers(odd, 50.0, 50), 1);
        }
        assert_eq!(Cut::new(&Threads::one(), 1e6, 1e6, 10).workers, 1);
        assert!(Cut::new(&threads, f64::INFINITY, 1.0, 1).chunk > 0);
    }

    #[test]
    fn chunks_are_even_and_whole_blocks_where_records_are_many() {
        let threads = threads(2);
        let chunk = |records| Cut::new(&threads, records, 1e5, 1000).chunk;
        assert_eq!(chunk(256.0), 128);
        assert_eq!(chunk(300.0), 152);
        assert_eq!(chunk(2048.0), 256);
        assert_eq!(chunk(1e5), 12_544);
    }
}
