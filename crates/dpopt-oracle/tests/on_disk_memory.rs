//! A pass over a file takes the memory of a few blocks, whatever the length of the file.

use std::num::NonZeroUsize;

use dpopt_linalg::{Design, RowFile, RowFileWriter};
use dpopt_oracle::{ExamplesOnDisk, Glm, PrivateData, PrivateGradient};
use dpopt_privacy::{Adjacency, ClipNorm, Curator, Event, NoiseMultiplier, Spend};
use peak_alloc::PeakAlloc;
use tempfile::TempDir;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

const COLUMNS: usize = 128;

#[test]
fn the_peak_of_writing_and_of_a_pass_does_not_grow_with_the_file() {
    let folder = TempDir::new().unwrap();
    let mut peaks = Vec::new();
    // 16 and 64 MiB.
    for rows in [1 << 15, 1 << 17] {
        let path = folder.path().join("rows.dpr");
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let piece: Vec<f32> = (0..COLUMNS * 256).map(|k| (k % 100) as f32 / 1e3).collect();
        let piece = Design::dense32(COLUMNS, piece).unwrap();
        let mut writer = RowFileWriter::create(&path, &piece, 1.0, "").unwrap();
        for _ in 0..rows / 256 {
            writer.push(&piece, &[1.0; 256]).unwrap();
        }
        writer.finish().unwrap();
        let writing = MEMORY.peak_usage() - before;

        let norm = ClipNorm::new(1.0).unwrap();
        let rows = ExamplesOnDisk::new(RowFile::open(&path).unwrap(), norm);
        let data = PrivateData::made_up_on_disk(rows, Adjacency::ReplaceOne, None).unwrap();
        let z = NoiseMultiplier::new(1.0).unwrap();
        let curator = Curator::simulated(Adjacency::ReplaceOne, 1);
        let mut estimator = PrivateGradient::new(&data, Glm::Logistic, curator)
            .unwrap()
            .with_threads(NonZeroUsize::new(4).unwrap());
        estimator
            .reserve(&Spend::Fixed(Event::gaussian(z)))
            .unwrap();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        estimator.refresh(&[0.1; COLUMNS], z).unwrap();
        peaks.push((writing, MEMORY.peak_usage() - before));
    }
    for (writing, pass) in &peaks {
        // A block and the buffer below it, in vectors that double.
        assert!(*writing < 4 << 20, "{writing}");
        // Two blocks of 256 KiB for each of four threads, their labels and bounds, and sums.
        assert!(*pass < 3 << 20, "{pass}");
    }
}
