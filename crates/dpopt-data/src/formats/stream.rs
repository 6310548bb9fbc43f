//! A stream that may be compressed, with a limit on what comes out of it.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;
use std::rc::Rc;

use flate2::read::MultiGzDecoder;

const BUFFER: usize = 1 << 18;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How far a compressed stream may expand.
///
/// Deflate packs at most 1032 bytes into one. Tables of numbers and text pack 3 to 50 to 1; a
/// stream that goes on far above that is one that was made to fill the memory of its reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes that come out in all.
    pub unpacked: u64,
    /// Most bytes that come out per byte that went in.
    pub ratio: u64,
    /// Bytes that may come out before the ratio is looked at.
    pub ratio_from: u64,
}

impl Default for Limits {
    /// 2^42 bytes (4 TiB) in all; 250 to 1 after 2^28 bytes (256 MiB). Tuned.
    fn default() -> Self {
        Self {
            unpacked: 1 << 42,
            ratio: 250,
            ratio_from: 1 << 28,
        }
    }
}

impl Limits {
    pub(crate) fn passed(&self, packed: u64, unpacked: u64) -> bool {
        unpacked > self.unpacked
            || (unpacked > self.ratio_from && unpacked / self.ratio.max(1) > packed)
    }
}

/// A stream could not be read. None of these depends on what a record holds, but for the length
/// of the stream.
#[derive(Debug)]
pub(crate) enum StreamError {
    Read { path: String, source: io::Error },
    Gzip { path: String, source: io::Error },
    Expands { path: String, limits: Limits },
    Twice { path: String },
}

/// Bytes of a file, unpacked where it is a gzip stream (of any number of members).
pub(crate) struct Stream<'r> {
    path: String,
    compressed: bool,
    limits: Limits,
    bytes: Box<dyn BufRead + 'r>,
}

impl<'r> Stream<'r> {
    /// Looks at the first two bytes of `source` to see whether it is compressed.
    pub(crate) fn new(source: impl Read + 'r, path: &str) -> Result<Self, StreamError> {
        Self::with_limits(source, path, Limits::default())
    }

    pub(crate) fn with_limits(
        mut source: impl Read + 'r,
        path: &str,
        limits: Limits,
    ) -> Result<Self, StreamError> {
        let mut magic = Vec::with_capacity(2);
        source
            .by_ref()
            .take(2)
            .read_to_end(&mut magic)
            .map_err(|source| StreamError::Read {
                path: path.to_owned(),
                source,
            })?;
        let compressed = magic == GZIP_MAGIC;
        let whole = Cursor::new(magic).chain(source);
        let bytes: Box<dyn BufRead + 'r> = if compressed {
            let packed = Rc::new(Cell::new(0));
            let counted = Counted {
                source: whole,
                count: Rc::clone(&packed),
            };
            // The decoder wants a buffer below it and its readers want one above it.
            let below = BufReader::with_capacity(BUFFER, counted);
            let guarded = Guarded {
                source: MultiGzDecoder::new(below),
                packed,
                unpacked: 0,
                limits,
            };
            Box::new(BufReader::with_capacity(BUFFER, guarded))
        } else {
            Box::new(BufReader::with_capacity(BUFFER, whole))
        };
        let mut stream = Self {
            path: path.to_owned(),
            compressed,
            limits,
            bytes,
        };
        if compressed {
            let start = stream.bytes.fill_buf();
            match start.map(|start| start.starts_with(&GZIP_MAGIC)) {
                Ok(false) => {}
                Ok(true) => {
                    let path = stream.path;
                    return Err(StreamError::Twice { path });
                }
                Err(error) => return Err(stream.explain(error)),
            }
        }
        Ok(stream)
    }

    /// Name of the stream, for errors.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Whether offsets in the stream are offsets in the file.
    pub(crate) fn check_in_place(&self) -> Result<(), &'static str> {
        if self.compressed {
            Err("it is compressed")
        } else {
            Ok(())
        }
    }

    /// Fills `buffer` as far as the stream goes; says how far that was.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, StreamError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.bytes.read(&mut buffer[done..]) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.explain(error)),
            }
        }
        Ok(done)
    }

    /// The reader below, whose errors go through [`Stream::explain`].
    pub(crate) fn raw(&mut self) -> &mut dyn BufRead {
        &mut *self.bytes
    }

    /// What an error of the reader below means.
    pub(crate) fn explain(&self, source: io::Error) -> StreamError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let path = self.path.clone();
        let marker = source
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Expands>());
        let expands = marker.is_some();
        match source.kind() {
            _ if expands => StreamError::Expands {
                path,
                limits: self.limits,
            },
            InvalidData | InvalidInput | UnexpectedEof if self.compressed => {
                StreamError::Gzip { path, source }
            }
            _ => StreamError::Read { path, source },
        }
    }
}

/// Opens a file for [`Stream::new`].
pub(crate) fn open(path: &Path) -> Result<(File, String), StreamError> {
    let name = path.display().to_string();
    match File::open(path) {
        Ok(file) => Ok((file, name)),
        Err(source) => Err(StreamError::Read { path: name, source }),
    }
}

/// Counts the compressed bytes.
struct Counted<R> {
    source: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.count
            .set(self.count.get().saturating_add(count as u64));
        Ok(count)
    }
}

/// Stops a stream that expands too far.
struct Guarded<R> {
    source: R,
    packed: Rc<Cell<u64>>,
    unpacked: u64,
    limits: Limits,
}

impl<R: Read> Read for Guarded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.unpacked = self.unpacked.saturating_add(count as u64);
        if self.limits.passed(self.packed.get(), self.unpacked) {
            return Err(io::Error::other(Expands));
        }
        Ok(count)
    }
}

/// Marks the error of [`Guarded`].
#[derive(Debug, thiserror::Error)]
#[error("the stream expands too far")]
struct Expands;

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn unpack(bytes: &[u8], limits: Limits) -> Result<u64, StreamError> {
        let mut stream = Stream::with_limits(bytes, "test", limits)?;
        let mut buffer = vec![0; 10_000];
        let mut total = 0;
        loop {
            match stream.fill(&mut buffer)? {
                0 => return Ok(total),
                count => total += count as u64,
            }
        }
    }

    #[test]
    fn a_bomb_is_stopped_near_the_limit_and_a_table_is_not() {
        let limits = Limits {
            unpacked: 1 << 40,
            ratio: 100,
            ratio_from: 1 << 20,
        };
        // 64 MiB of one byte, 1000 to 1; then a member within a member's worth of members.
        let bomb = gzip(&vec![0; 1 << 26]);
        assert!(bomb.len() < 70_000);
        assert!(matches!(
            unpack(&bomb, limits),
            Err(StreamError::Expands { .. })
        ));
        assert_eq!(unpack(&bomb, Limits::default()).unwrap(), 1 << 26);
        let small = gzip(&vec![0; 1 << 20]);
        assert_eq!(unpack(&small, limits).unwrap(), 1 << 20);
        let many: Vec<u8> = (0..8).flat_map(|_| gzip(&vec![0; 1 << 20])).collect();
        assert!(matches!(
            unpack(&many, limits),
            Err(StreamError::Expands { .. })
        ));
        let absolute = Limits {
            unpacked: 1000,
            ..Limits::default()
        };
        let text: Vec<u8> = (0..2000u32).map(|i| (i * 7919 % 251) as u8).collect();
        assert!(matches!(
            unpack(&gzip(&text), absolute),
            Err(StreamError::Expands { .. })
        ));
        // A stream that is not compressed is as long as it is.
        assert_eq!(unpack(&text, absolute).unwrap(), 2000);
    }

    #[test]
    fn a_stream_that_was_packed_twice_is_named() {
        let twice = gzip(&gzip(b"x,y\n1,no\n"));
        let result = unpack(&twice, Limits::default());
        assert!(matches!(result, Err(StreamError::Twice { .. })));
    }

    #[test]
    fn damage_is_told_from_the_end() {
        let whole = gzip(&[7; 5000]);
        for cut in 2..whole.len() {
            let result = unpack(&whole[..cut], Limits::default());
            assert!(matches!(result, Err(StreamError::Gzip { .. })), "{cut}");
        }
        assert_eq!(unpack(&[0x1f], Limits::default()).unwrap(), 1);
        assert_eq!(unpack(b"", Limits::default()).unwrap(), 0);
    }
}
