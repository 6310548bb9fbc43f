//! How fast rows come out of a file, beside a plain read of it as `cat` does.
//!
//! `cargo run --release -p dpopt-linalg --example rows_in_a_file -- FILE [MIB]` writes FILE with so
//! many MiB of single-precision entries in rows of 1000 (unless it is there), and reads it in
//! turns: plainly with a buffer of 128 KiB, in blocks whose rows are all multiplied with a point,
//! in blocks by two threads, and a hundredth of the rows by position. Medians of 7 rounds.
#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement prints times"
)]

use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::time::Instant;

use dpopt_linalg::{DesignFile, FileEntry, FileLayout};

const COLUMNS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = words.next().ok_or("a file is needed")?;
    let mib: usize = words.next().map_or(Ok(1024), |word| word.parse())?;
    let rows = (mib << 20) / (4 * COLUMNS);
    if !std::fs::exists(&path)? {
        let mut file = std::io::BufWriter::new(File::create(&path)?);
        for i in 0..rows * COLUMNS {
            file.write_all(&((i % 1013) as f32 * 1e-3).to_le_bytes())?;
        }
        file.flush()?;
    }
    let layout = FileLayout {
        offset: 0,
        rows,
        columns: COLUMNS,
        entry: FileEntry::F32,
    };
    let file = DesignFile::open(&path, layout)?;
    let point: Vec<f64> = (0..COLUMNS).map(|j| j as f64 * 1e-3).collect();
    let blocks =
        |part: usize, parts: usize, work: bool| -> Result<f64, Box<dyn Error + Send + Sync>> {
            let mut reader = file.reader();
            let size = file.rows_per_block();
            let mut total = 0.0;
            for block in (part..rows.div_ceil(size)).step_by(parts) {
                let block = reader.block(block * size..((block + 1) * size).min(rows))?;
                if work {
                    for i in 0..block.rows() {
                        total += block.row(i).dot(&point);
                    }
                }
            }
            Ok(total)
        };
    let hundredth: Vec<u32> = (0..rows as u32 / 100)
        .map(|k| k * 100 + (k * 37) % 100)
        .collect();
    let mut times = vec![Vec::new(); 6];
    let mut buffer = vec![0u8; 1 << 17];
    for _ in 0..7 {
        let start = Instant::now();
        let mut plain = File::open(&path)?;
        while plain.read(&mut buffer)? > 0 {}
        times[0].push(start.elapsed().as_secs_f64());

        let start = Instant::now();
        blocks(0, 1, false).map_err(|error| error.to_string())?;
        times[1].push(start.elapsed().as_secs_f64());

        let start = Instant::now();
        std::hint::black_box(blocks(0, 1, true).map_err(|error| error.to_string())?);
        times[2].push(start.elapsed().as_secs_f64());

        for (at, work) in [(3, false), (4, true)] {
            let start = Instant::now();
            std::thread::scope(|scope| {
                let blocks = &blocks;
                let both = [0, 1].map(|part| scope.spawn(move || blocks(part, 2, work)));
                for one in both {
                    std::hint::black_box(one.join().is_ok());
                }
            });
            times[at].push(start.elapsed().as_secs_f64());
        }

        let start = Instant::now();
        let mut reader = file.reader();
        for part in hundredth.chunks(64) {
            reader.gather(part)?;
        }
        times[5].push(start.elapsed().as_secs_f64());
    }
    let bytes = (rows * COLUMNS * 4) as f64;
    let plain = median(&mut times[0]);
    let names = [
        "plain read, 128 KiB buffer",
        "blocks, 1 thread",
        "blocks and products, 1 thread",
        "blocks, 2 threads",
        "blocks and products, 2 threads",
        "a hundredth of the rows by position",
    ];
    for (name, times) in names.iter().zip(&mut times) {
        let time = median(times);
        let speed = bytes / time / 1e9;
        println!(
            "{name:36} {:8.1} ms {speed:7.2} GB/s of the file, {:5.2} x plain",
            time * 1e3,
            plain / time
        );
    }
    Ok(())
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
