//! A clipped pass over rows in a file, beside a plain read of the same file.
//!
//! `cargo run --release -p dpopt-oracle --example train_from_a_file -- FILE [MIB]` writes FILE with so many MiB of
//! single-precision rows of 1000 with labels (unless it is there), and then in turns reads it plainly with a buffer of
//! 1 MiB, and takes the clipped gradient of logistic regression over it with 1 and 2 threads. Medians of 3 rounds, and the
//! most memory that the process had.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement prints times"
)]

use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroUsize;
use std::time::Instant;

use dpopt_linalg::{Design, RowFile, RowFileWriter};
use dpopt_oracle::{ExamplesOnDisk, Glm, PrivateData, PrivateGradient};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};

const COLUMNS: usize = 1000;
const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("a file is needed")?;
    let mib: usize = words.next().map_or(Ok(1024), |word| word.parse())?;
    if !std::fs::exists(&path)? {
        let entries = (0..256 * COLUMNS).map(|i| ((i * 7919 % 2003) as f32 - 1001.0) / 4e4);
        let piece = Design::dense32(COLUMNS, entries.collect())?;
        let labels: Vec<f32> = (0..256)
            .map(|i| if i % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let mut writer = RowFileWriter::create(&path, &piece, 1.0, "")?;
        for _ in 0..mib {
            // 1000 KiB.
            writer.push(&piece, &labels)?;
        }
        writer.finish()?;
    }
    let bytes = std::fs::metadata(&path)?.len() as f64;
    let mut buffer = vec![0u8; 1 << 20];
    let mut plain = || -> Result<f64, Box<dyn Error>> {
        let start = Instant::now();
        let mut file = File::open(&path)?;
        while file.read(&mut buffer)? > 0 {}
        Ok(start.elapsed().as_secs_f64())
    };
    let norm = ClipNorm::new(1.0)?;
    let z = NoiseMultiplier::new(1.0)?;
    let point = vec![1e-2; COLUMNS];
    let pass = |threads: NonZeroUsize| -> Result<f64, Box<dyn Error>> {
        let rows = ExamplesOnDisk::new(RowFile::open(&path)?, norm);
        let data = PrivateData::made_up_on_disk(rows, Adjacency::ReplaceOne, None)?;
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let estimator = PrivateGradient::new(&data, Glm::Logistic, curator)?;
        let mut estimator = estimator.with_threads(threads);
        estimator.reserve(&Spend::Fixed(Event::gaussian(z)))?;
        let start = Instant::now();
        estimator.refresh(&point, z)?;
        Ok(start.elapsed().as_secs_f64())
    };
    let two = NonZeroUsize::MIN.saturating_add(1);
    let mut times = [const { Vec::new() }; 3];
    println!(
        "first plain read of {:.2} GB: {:.2} s",
        bytes / 1e9,
        plain()?
    );
    for _ in 0..ROUNDS {
        times[0].push(plain()?);
        times[1].push(pass(NonZeroUsize::MIN)?);
        times[2].push(pass(two)?);
    }
    let names = [
        "plain read",
        "clipped gradient, 1 thread",
        "clipped gradient, 2 threads",
    ];
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let reference = median(&mut times[0]);
    for (name, times) in names.iter().zip(&mut times) {
        let time = median(times);
        println!(
            "{name:28} {time:7.2} s {:6.2} GB/s, {:5.2} x plain",
            bytes / time / 1e9,
            reference / time
        );
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status")
        && let Some(line) = status.lines().find(|line| line.starts_with("VmHWM"))
    {
        println!("{line}");
    }
    Ok(())
}
