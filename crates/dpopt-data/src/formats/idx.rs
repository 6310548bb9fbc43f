//! IDX, the array format of MNIST: big-endian, a type, sizes, entries.

use std::io::Read;
use std::path::Path;

use dpopt_linalg::{DesignFile, FileEntry, FileLayout};

use super::array::ArrayRows;
use super::array::{Array, Element, Kind, MAX_DIMENSIONS, Order, Shape};
use super::error::{FormatError, HeaderProblem};
use super::stream::{Stream, open};

/// Reads an IDX file, plain or gzip, into memory.
///
/// # Formula
/// Two zero bytes, a type (0x08 u8, 0x09 i8, 0x0b i16, 0x0c i32, 0x0d f32, 0x0e f64), the number
/// of dimensions, a big-endian 32-bit size for each, and the entries, the last dimension fastest.
///
/// # Errors
/// [`FormatError`] for the file and its header; never for a record.
///
/// # References
/// Y. LeCun, C. Cortes, C. Burges, *The MNIST database*, "The IDX file format".
pub fn read_idx(path: impl AsRef<Path>) -> Result<Array, FormatError> {
    let (file, name) = open(path.as_ref())?;
    read_idx_from(file, &name)
}

/// As [`read_idx`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`read_idx`].
pub fn read_idx_from(source: impl Read, origin: &str) -> Result<Array, FormatError> {
    let mut stream = Stream::new(source, origin)?;
    let header = Header::read(&mut stream)?;
    Array::read(stream, header.shape, header.element)
}

/// The rows of an IDX file, to be read some at a time.
pub(crate) fn idx_stream<'r>(
    source: impl Read + 'r,
    origin: &str,
) -> Result<ArrayRows<'r>, FormatError> {
    let mut stream = Stream::new(source, origin)?;
    let header = Header::read(&mut stream)?;
    Ok(ArrayRows::new(stream, header.shape, header.element))
}

/// The rows of an uncompressed IDX file of bytes, left where they are; each byte stands for
/// `scale` times itself.
///
/// # Errors
/// As for [`read_idx`]; [`FormatError::NotInPlace`] for a compressed file and for other types,
/// whose bytes are in the wrong order.
pub fn idx_rows(path: impl AsRef<Path>, scale: f32) -> Result<DesignFile, FormatError> {
    let path = path.as_ref();
    let (file, name) = open(path)?;
    let mut stream = Stream::new(&file, &name)?;
    let in_place = stream.check_in_place();
    let header = Header::read(&mut stream)?;
    let problem = match in_place {
        Err(problem) => Some(problem),
        Ok(()) if (header.element.kind, header.element.width) != (Kind::Unsigned, 1) => {
            Some("its entries are no bytes, and big-endian")
        }
        Ok(()) => None,
    };
    if let Some(problem) = problem {
        return Err(FormatError::NotInPlace {
            path: name,
            problem,
        });
    }
    let layout = FileLayout {
        offset: header.length,
        rows: header.shape.rows,
        columns: header.shape.columns,
        entry: FileEntry::U8 { scale },
    };
    Ok(DesignFile::open(path, layout)?)
}

struct Header {
    shape: Shape,
    element: Element,
    /// Bytes before the first entry.
    length: u64,
}

impl Header {
    fn read(stream: &mut Stream<'_>) -> Result<Self, FormatError> {
        let path = stream.path().to_owned();
        let bad = |problem| FormatError::BadHeader {
            path: path.clone(),
            problem,
        };
        let mut magic = [0; 4];
        let found = stream.fill(&mut magic)?;
        if found < 2 || magic[..2] != [0, 0] {
            return Err(FormatError::WrongMagic {
                path,
                format: "an IDX",
                found: super::binary(&magic[..found]),
            });
        }
        if found < 4 {
            return Err(bad(HeaderProblem::CutShort));
        }
        let (kind, width) = match magic[2] {
            0x08 => (Kind::Unsigned, 1),
            0x09 => (Kind::Signed, 1),
            0x0b => (Kind::Signed, 2),
            0x0c => (Kind::Signed, 4),
            0x0d => (Kind::Float, 4),
            0x0e => (Kind::Float, 8),
            other => return Err(bad(HeaderProblem::EntryType(format!("{other:#04x}")))),
        };
        let dimensions = usize::from(magic[3]);
        if dimensions == 0 || dimensions > MAX_DIMENSIONS {
            return Err(bad(HeaderProblem::Dimensions(dimensions)));
        }
        let mut sizes = Vec::with_capacity(dimensions);
        for _ in 0..dimensions {
            let mut size = [0; 4];
            if stream.fill(&mut size)? < 4 {
                return Err(bad(HeaderProblem::CutShort));
            }
            sizes.push(u64::from(u32::from_be_bytes(size)));
        }
        Ok(Self {
            shape: Shape::new(&sizes, &path)?,
            element: Element {
                kind,
                width,
                order: Order::Big,
            },
            length: 4 + 4 * dimensions as u64,
        })
    }
}
