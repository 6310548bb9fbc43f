//! Times the rows by criterion; `DPOPT_ROWS` picks those whose words contain it.
//!
//! With `DPOPT_ANSWERS`, a folder, nothing is timed: each row writes there its words and arrays
//! that `benches/peers/peers.py` compares the answers of other tools with.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput};
use dpopt_benches::{Amount, Arrays, Fallible, ROWS, Row, Sink};

/// Times a row.
struct Timed<'a> {
    group: BenchmarkGroup<'a, WallTime>,
    id: Option<BenchmarkId>,
}

impl Sink for Timed<'_> {
    fn take(
        &mut self,
        work: &mut dyn FnMut() -> Fallible<f64>,
        _: &mut dyn FnMut() -> Fallible<Arrays>,
    ) -> Fallible<()> {
        let id = self.id.take().ok_or("a row has one work")?;
        let mut failed = None;
        self.group.bench_function(id, |b| {
            b.iter(|| {
                let done = work();
                failed = done.as_ref().err().map(ToString::to_string);
                done.ok()
            });
        });
        failed.map_or(Ok(()), |why| Err(why.into()))
    }
}

/// Writes the answer of a row.
struct Written<'a>(&'a Path, &'a Row);

impl Sink for Written<'_> {
    fn take(
        &mut self,
        _: &mut dyn FnMut() -> Fallible<f64>,
        answer: &mut dyn FnMut() -> Fallible<Arrays>,
    ) -> Fallible<()> {
        let arrays = answer()?;
        if arrays.is_empty() {
            return Ok(());
        }
        let folder = self.0.join(self.1.0.replace(' ', "_"));
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("words"), self.1.0)?;
        for (name, numbers) in arrays {
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            std::fs::write(folder.join(format!("{name}.f64")), bytes)?;
        }
        Ok(())
    }
}

/// Times a row on one thread, and on two where it can use them.
fn time(row: &Row, criterion: &mut Criterion) -> Fallible<()> {
    let (task, rest) = row.0.split_once(' ').unwrap_or((row.0, ""));
    for threads in 1..=if row.1 { 2 } else { 1 } {
        let mut group = criterion.benchmark_group(task);
        group.sample_size(10).sampling_mode(SamplingMode::Flat);
        group.warm_up_time(Duration::from_millis(300));
        group.measurement_time(Duration::from_secs(2));
        // Each thread does the whole work of such a limit.
        let copies = match rest {
            "singles" | "doubles" | "chacha" => threads as u64,
            _ => 1,
        };
        match row.2 {
            Amount::Bytes(count) => _ = group.throughput(Throughput::Bytes(copies * count)),
            Amount::Products(count) => _ = group.throughput(Throughput::Elements(copies * count)),
            Amount::Unbounded => {}
        }
        let id = Some(BenchmarkId::new(rest, threads));
        let count = NonZeroUsize::new(threads).ok_or("no threads")?;
        row.run(count, &mut Timed { group, id })?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the task that starts this picks the rows"
)]
fn main() -> Fallible<()> {
    let filter = std::env::var("DPOPT_ROWS").unwrap_or_default();
    let answers = std::env::var_os("DPOPT_ANSWERS").map(PathBuf::from);
    let mut criterion = Criterion::default().configure_from_args();
    for row in ROWS.iter().filter(|row| row.0.contains(&filter)) {
        match &answers {
            Some(folder) => row.run(NonZeroUsize::MIN, &mut Written(folder, row))?,
            None => time(row, &mut criterion)?,
        }
    }
    criterion.final_summary();
    Ok(())
}
