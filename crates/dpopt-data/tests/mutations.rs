//! Files that were valid once: no parser panics, loops, or takes more memory than their length
//! allows, whatever is cut, flipped, repeated or put in.
//!
//! The mutations follow a fixed seed. `cargo xtask fuzz PARSER --seconds N` runs the same for a
//! given time, from another seed each round.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dpopt_data::formats::{
    FirstIndex, check_libsvm_from, read_idx_from, read_libsvm_from, read_npy_from,
};
use dpopt_testkit::Draws;
use flate2::{Compression, write::GzEncoder};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The peak is one for the process, so one parser runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// Memory is counted for the whole process, so a test holds this from its first allocation to its last.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Files for a parser that takes microseconds, without a time given; for one that takes more.
const MANY: u64 = 4000;
const SOME: u64 = 800;

/// Pieces of files, with bars between them.
fn words(all: &'static [u8]) -> Vec<&'static [u8]> {
    all.split(|byte| *byte == b'|').collect()
}

/// Between one and six mutations.
fn mutate(file: &[u8], words: &[&[u8]], random: &mut Draws) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..1 + random.index(6) {
        let at = random.index(bytes.len() + 1);
        let span = at..(at + random.index(24)).min(bytes.len());
        match random.index(9) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.index(8),
            2 if at < bytes.len() => {
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b'"', b','][random.index(8)];
            }
            3 => drop(bytes.drain(span)),
            4 => {
                let copy = bytes[span].repeat(1 + random.index(8));
                drop(bytes.splice(at..at, copy));
            }
            5 => {
                let noise: Vec<u8> = (0..random.index(12)).map(|_| random.word() as u8).collect();
                drop(bytes.splice(at..at, noise));
            }
            6 => {
                // A length or a size that is extreme.
                let extreme = [0, 1, u64::MAX, 1 << 31, 1 << 63, u64::MAX >> 1][random.index(6)];
                let width = [2, 4, 8][random.index(3)];
                for (byte, new) in bytes[at..].iter_mut().zip(&extreme.to_be_bytes()[..width]) {
                    *byte = *new;
                }
            }
            _ if !words.is_empty() => {
                let word = words[random.index(words.len())];
                let until = if random.index(2) == 0 { at } else { span.end };
                drop(bytes.splice(at..until, word.iter().copied()));
            }
            _ => {}
        }
    }
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// Whether another round is to be run: a fixed number, or until the time given is over.
#[expect(
    clippy::disallowed_methods,
    reason = "a person asks for a time to spend; nothing is computed from it"
)]
fn rounds(fixed: u64) -> impl FnMut(u64) -> bool {
    let seconds = std::env::var("DPOPT_FUZZ_SECONDS").ok();
    let seconds: Option<u64> = seconds.and_then(|text| text.parse().ok());
    let start = std::time::Instant::now();
    move |round| match seconds {
        None => round < fixed,
        Some(seconds) => start.elapsed().as_secs() < seconds,
    }
}

/// Parses mutants of `files`. A parser may take `base` bytes, and `factor` for each byte of the file
/// (unpacked).
fn hunt(
    (name, fixed): (&str, u64),
    files: &[Vec<u8>],
    words: &[&[u8]],
    base: usize,
    factor: usize,
    parse: impl Fn(&[u8]),
) {
    for file in files {
        parse(file);
    }
    let mut more = rounds(fixed);
    let mut round = 0;
    while more(round) {
        let mut random = Draws::new(round);
        let file = &files[random.index(files.len())];
        let mutant = mutate(file, words, &mut random);
        let (bytes, length) = match random.index(10) {
            0 => (gzip(&mutant), mutant.len()),
            // A damaged stream unpacks to 1032 times its length at most.
            1 => {
                let packed = mutate(&gzip(file), &[], &mut random);
                let length = 1032 * packed.len();
                (packed, length)
            }
            _ => {
                let length = mutant.len();
                (mutant, length)
            }
        };
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        parse(&bytes);
        let taken = MEMORY.peak_usage().saturating_sub(before);
        let allowed = base + factor * length;
        assert!(
            taken <= allowed,
            "{name}, round {round}: {taken} bytes of memory for a file of {length}, {allowed} allowed"
        );
        round += 1;
    }
}

/// Two buffers of 2^18 bytes, two of the decompressor, and a piece.
const BUFFERS: usize = 1 << 20;

fn npy_file(descr: &str, shape: &str, entries: usize) -> Vec<u8> {
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend((0..entries).map(|i| (i * 89) as u8));
    bytes
}

#[test]
fn npy() {
    let _alone = alone();
    let files = [
        npy_file("<f4", "(4, 3)", 48),
        npy_file(">f8", "(5,)", 40),
        npy_file("|u1", "(3, 2, 4)", 24),
        npy_file("<i8", "(2, 2)", 32),
    ];
    let words: [&[u8]; 12] = [
        b"'descr'",
        b"'shape': (",
        b"True",
        b"(9999999999,",
        b"18446744073709551615",
        b"'<f8'",
        b"'|i1'",
        b"{",
        b"}",
        b"'",
        b", ",
        b"1, 1, 1, 1, 1, 1, 1, 1",
    ];
    // Bytes become single precision in a vector that doubles: 4 * 3. Transposing takes it again.
    hunt(("npy", MANY), &files, &words, BUFFERS, 24, |bytes| {
        for as_labels in [false, true] {
            let Ok(array) = read_npy_from(bytes, "mutant") else {
                continue;
            };
            let (rows, columns) = (array.rows(), array.columns());
            if as_labels {
                if let Ok(labels) = array.into_labels() {
                    assert_eq!(labels.len(), rows);
                }
            } else {
                let design = array.into_design(0.5).unwrap();
                assert_eq!((design.rows(), design.columns()), (rows, columns));
            }
        }
    });
}

#[test]
fn idx() {
    let _alone = alone();
    let file = |kind: u8, sizes: &[u32], entries: usize| {
        let mut bytes = vec![0, 0, kind, sizes.len() as u8];
        bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
        bytes.extend((0..entries).map(|i| (i * 37) as u8));
        bytes
    };
    let files = [
        file(8, &[5, 2, 3], 30),
        file(0x0e, &[4], 32),
        file(0x0b, &[3, 2], 12),
    ];
    hunt(("idx", MANY), &files, &[], BUFFERS, 24, |bytes| {
        if let Ok(array) = read_idx_from(bytes, "mutant") {
            let rows = array.rows();
            assert_eq!(array.into_design(0.5).unwrap().rows(), rows);
        }
    });
}

#[test]
fn libsvm() {
    let _alone = alone();
    let text = b"+1 1:0.5 3:-2e1 10:7\n-1 qid:4 2:1 # note\n\n2.5\t4:1e-3 5:1\n0 1:1 2:1 3:1\n";
    let words = words(b"1:|:|qid:|#|\n| |18446744073709551615:1|1e400|nan|-0");
    // A line of one byte is a label, an offset and a place among the rows, in vectors that double.
    hunt(
        ("libsvm", MANY),
        &[text.to_vec()],
        &words,
        2 * BUFFERS,
        64,
        |bytes| {
            let rows = read_libsvm_from(bytes, "mutant", FirstIndex::One, 8);
            let report = check_libsvm_from(bytes, "mutant", FirstIndex::One, 8);
            assert_eq!(rows.is_ok(), report.is_ok());
            if let (Ok(rows), Ok(report)) = (rows, report) {
                assert_eq!(rows.labels.len() as u64, report.records);
                assert_eq!(rows.design.rows(), rows.labels.len());
            }
        },
    );
}

#[test]
fn rows() {
    let _alone = alone();
    use dpopt_linalg::{Design, RowFile, RowFileWriter};

    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("rows.dpr");
    let entries = || (0..60).map(|k| k as u8);
    let mut sparse = Design::sparse(6).unwrap();
    let mut one_hot = Design::one_hot(6, 0.5).unwrap();
    for i in 0..10u32 {
        sparse.push_row(&[(i % 3, 1.0), (3 + i % 3, 2.0)]).unwrap();
        one_hot.push_ones(&[i % 6]).unwrap();
    }
    let designs = [
        Design::dense(6, entries().map(f64::from).collect()).unwrap(),
        Design::dense32(6, entries().map(f32::from).collect()).unwrap(),
        Design::bytes(6, entries().collect(), 0.5).unwrap(),
        sparse,
        one_hot,
    ];
    let files = designs.map(|design| {
        let writer = RowFileWriter::create(&path, &design, 1.0, "note").unwrap();
        let mut writer = writer.with_block_bytes(100);
        writer.push(&design, &[1.0; 10]).unwrap();
        writer.finish().unwrap();
        std::fs::read(&path).unwrap()
    });
    let words: [&[u8]; 3] = [b"\x89DPR\r\n\x1a\n", &[1, 0, 0, 0], &[0; 8]];
    // The file, a block of it, its rows, and all of them once more in vectors that double.
    hunt(("rows", SOME), &files, &words, BUFFERS, 64, |bytes| {
        std::fs::write(&path, bytes).unwrap();
        if let Ok(file) = RowFile::open(&path)
            && let Ok((design, labels)) = file.load()
        {
            assert_eq!((design.rows(), labels.len()), (file.rows(), file.rows()));
            let point = vec![1.0; design.columns()];
            for i in 0..design.rows() {
                let _ = design.row(i).dot(&point);
            }
        }
    });
}

/// A parser that makes room for whatever a header promises is caught.
#[test]
#[should_panic(expected = "bytes of memory")]
fn a_trusting_parser_is_caught() {
    let _alone = alone();
    let file = npy_file("|u1", "(100, 1)", 100);
    hunt(("trusting", MANY), &[file], &[], BUFFERS, 24, |bytes| {
        let promise = bytes
            .get(8..10)
            .map_or(0, |two| u16::from_le_bytes([two[0], two[1]]));
        let room: Vec<u8> = Vec::with_capacity(usize::from(promise) << 10);
        assert!(room.is_empty());
    });
}

/// A parser that believes a length is caught.
#[test]
#[should_panic(expected = "out of range")]
fn a_careless_parser_is_caught() {
    let _alone = alone();
    let file = npy_file("|u1", "(100, 1)", 100);
    hunt(("careless", MANY), &[file], &[], BUFFERS, 24, |bytes| {
        if let [_, _, _, _, _, _, _, _, low, high, rest @ ..] = bytes {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            assert!(rest[..length].len() == length);
        }
    });
}

mod tables {
    use dpopt_data::tabular::{Schema, check_from, draft_schema, read_table_from};

    use super::{BUFFERS, MANY, SOME, alone, hunt, words};

    const SCHEMA: &str = "format = 1\nrow_norm = 2.0\nintercept = 1.0\n\
        [label]\ncolumn = \"y\"\nvalues = [\"no\", \"yes\"]\npositive = \"yes\"\ndefault = \"no\"\n\
        [[column]]\nname = \"x\"\nkind = \"number\"\nmin = 0.0\nmax = 10.0\ndefault = 0.0\n\
        bins = [5.0]\nlinear = true\n\
        [[column]]\nname = \"c\"\nkind = \"category\"\nvalues = [\"a\", \"b,c\"]\n";

    /// A column of each other kind.
    const KINDS: &str = "[[column]]\nname = \"h\"\nkind = \"hash\"\nbuckets = 16\n\
        [[column]]\nname = \"d\"\nkind = \"date\"\nmin = \"2000-01-01\"\nmax = \"2030-01-01\"\n\
        default = \"2000-01-01\"\nmissing = true\nbins = [\"2010-01-01\"]\n\
        [[column]]\nname = \"s\"\nkind = \"number\"\nmin = -5\nmax = 5\ndefault = 0\n\
        transform = \"standard\"\nmean = 1\nsd = 0.1\nmissing = true\n\
        [[column]]\nname = \"r\"\nkind = \"category\"\nvalues = [\"?\"]\nrange = [-2, 2]\n";

    #[test]
    fn csv() {
        let _alone = alone();
        let text = b"x,c,y\n1,a,yes\n2.5,\"b,c\",no\n,,\n\"7\"\"\",z,yes\r\n9,a,no\n";
        let words = words(b"\"|,|\n|\r\n|x,|\xef\xbb\xbf|\xff|1e999|\"\"");
        let schema = Schema::from_toml(SCHEMA, "schema").unwrap();
        // A line of one byte is a record of defaults: four entries of 8 bytes, an offset, a label,
        // in vectors that double.
        hunt(
            ("csv", MANY),
            &[text.to_vec()],
            &words,
            2 * BUFFERS,
            192,
            |bytes| {
                let table = read_table_from(bytes, "mutant", &schema);
                let report = check_from(bytes, "mutant", &schema);
                assert_eq!(table.is_ok(), report.is_ok());
                if let (Ok(table), Ok(report)) = (table, report) {
                    assert_eq!(table.labels.len() as u64, report.records);
                }
            },
        );
    }

    #[test]
    fn kinds() {
        let _alone = alone();
        let text = SCHEMA.replace("[label]", "delimiter = \";\"\n[label]");
        let schema = Schema::from_toml(&format!("{text}{KINDS}"), "schema").unwrap();
        let file = b"x;c;h;d;s;r;y\n1;a;u;2011-02-28;-4;?;yes\n2,5;\"b,c\";;2012/02/29T10:00;NA;1;no\n;;;;;;\n";
        let words = words(b"\"|;|\n|2000-02-30|9999-12-31|\xff|-1e999|?|\"\"");
        // As above, with up to ten entries to a record.
        hunt(
            ("kinds", MANY),
            &[file.to_vec()],
            &words,
            2 * BUFFERS,
            512,
            |bytes| {
                let Ok(table) = read_table_from(bytes, "mutant", &schema) else {
                    return;
                };
                for i in 0..table.design.rows() {
                    let row = table.design.row(i);
                    let mut squares = 0.0;
                    row.for_each(|_, x| squares += x * x);
                    assert!(squares.sqrt() <= 2.0 * (1.0 + 1e-15));
                }
                let report = check_from(bytes, "mutant", &schema).unwrap();
                assert_eq!(table.labels.len() as u64, report.records);
            },
        );
    }

    #[test]
    fn schema() {
        let _alone = alone();
        let array = "[array]\ncolumns = 3\nscale = 0.5\n";
        let text = SCHEMA.split("[[column]]").next().unwrap();
        let files = [
            SCHEMA.as_bytes().to_vec(),
            format!("{SCHEMA}{KINDS}").into_bytes(),
            format!("{text}{array}").into_bytes(),
        ];
        let words = words(
            b"[[column]]\n|[label]|\"|values = [|nan|-inf|1e308|columns = 16777216\n|[array]\n",
        );
        // The parser of TOML takes what it takes: far below this.
        hunt(
            ("schema", SOME),
            &files,
            &words,
            2 * BUFFERS,
            4096,
            |bytes| {
                let Ok(text) = std::str::from_utf8(bytes) else {
                    return;
                };
                if let Ok(schema) = Schema::from_toml(text, "mutant") {
                    assert!(schema.dim() > 0);
                    let again = Schema::from_toml(&schema.to_toml(), "again").unwrap();
                    assert_eq!(again, schema);
                }
            },
        );
    }

    #[test]
    fn draft() {
        let _alone = alone();
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("t.csv");
        let text = b"x,c,y\n1,a,yes\n2.5,\"b,c\",no\n,,\n9,a,no\n8,a,yes\n7,b,no\n";
        let words: [&[u8]; 5] = [b"\"", b",", b"\n", b"\\", b"\x00"];
        hunt(
            ("draft", SOME),
            &[text.to_vec()],
            &words,
            2 * BUFFERS,
            4096,
            |bytes| {
                std::fs::write(&path, bytes).unwrap();
                if let Ok(draft) = draft_schema(&path, None)
                    && !draft.contains("# [label]")
                {
                    Schema::from_toml(&draft, "draft").unwrap();
                }
            },
        );
    }

    #[cfg(feature = "parquet")]
    #[test]
    fn parquet() {
        let _alone = alone();
        use dpopt_data::tabular::read_parquet;

        let file =
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/table.parquet");
        let file = std::fs::read(file).unwrap();
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("t.parquet");
        let schema = SCHEMA.replace("intercept = 1.0", "intercept = 1.0\nignore_unlisted = true");
        let schema = Schema::from_toml(&schema, "schema").unwrap();
        // The library believes the sizes of pages, 31 bits each, before it has read them: its
        // memory is bounded by that and not by the length of the file.
        hunt(("parquet", SOME), &[file], &[], 1 << 32, 0, |bytes| {
            std::fs::write(&path, bytes).unwrap();
            if let Ok(table) = read_parquet(&path, &schema) {
                assert_eq!(table.design.rows(), table.labels.len());
            }
        });
    }

    /// A text of 2 MiB is in the file once, as an entry of a dictionary, and stands in 1100 records.
    #[cfg(feature = "parquet")]
    #[test]
    fn a_long_text_in_many_records_does_not_fill_the_memory() {
        let _alone = alone();
        use std::sync::Arc;

        use dpopt_data::tabular::read_parquet;
        use parquet::data_type::{ByteArray, ByteArrayType};
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::parser::parse_message_type;

        use super::MEMORY;

        const RECORDS: usize = 1100;
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("t.parquet");
        let message = "message t { required binary x; required binary c; required binary y; }";
        let properties = WriterProperties::builder()
            .set_dictionary_page_size_limit(1 << 23)
            .build();
        let mut writer = SerializedFileWriter::new(
            std::fs::File::create(&path).unwrap(),
            Arc::new(parse_message_type(message).unwrap()),
            Arc::new(properties),
        )
        .unwrap();
        let mut group = writer.next_row_group().unwrap();
        for text in [b"1".to_vec(), vec![b'a'; 1 << 21], b"yes".to_vec()] {
            let mut column = group.next_column().unwrap().unwrap();
            let values = vec![ByteArray::from(text); RECORDS];
            let typed = column.typed::<ByteArrayType>();
            typed.write_batch(&values, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();

        let schema = Schema::from_toml(SCHEMA, "schema").unwrap();
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let table = read_parquet(&path, &schema).unwrap();
        let taken = MEMORY.peak_usage().saturating_sub(before);
        assert_eq!(table.design.rows(), RECORDS);
        assert!(taken < 1 << 26, "{taken} bytes");
    }
}
