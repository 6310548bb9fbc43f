//! NPY, the array format of NumPy.

use std::io::Read;
use std::path::Path;

use dpopt_linalg::{DesignFile, FileEntry, FileLayout};

use super::array::ArrayRows;
use super::array::{Array, Element, Kind, MAX_DIMENSIONS, Order, Shape};
use super::error::{FormatError, HeaderProblem};
use super::stream::{Stream, open};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest text of a header. NumPy writes 118 bytes for plain arrays; only structured types,
/// which are not read, need more.
const MAX_HEADER: u64 = 1 << 16;

/// Reads an NPY file (versions 1, 2 and 3), plain or gzip, into memory.
///
/// # Formula
/// The magic string, a version, the length of the header (2 bytes little-endian in version 1, 4
/// in later ones), and a Python dictionary with `descr` (byte order, kind, width), `fortran_order`
/// and `shape`; then the entries. An array in Fortran order is transposed as it is read.
///
/// # Errors
/// [`FormatError`] for the file and its header; never for a record.
///
/// # References
/// NumPy, *NEP 1: a simple file format for NumPy arrays*, and `numpy.lib.format`.
pub fn read_npy(path: impl AsRef<Path>) -> Result<Array, FormatError> {
    let (file, name) = open(path.as_ref())?;
    read_npy_from(file, &name)
}

/// As [`read_npy`], from a stream that errors call `origin`.
///
/// # Errors
/// As for [`read_npy`].
pub fn read_npy_from(source: impl Read, origin: &str) -> Result<Array, FormatError> {
    let mut stream = Stream::new(source, origin)?;
    let header = Header::read(&mut stream)?;
    let array = Array::read(stream, header.shape, header.element)?;
    // A list, or a single row, is the same in both orders. In Fortran order the first of several
    // trailing dimensions is the fastest, so that only matrices can be turned.
    Ok(if header.fortran && header.shape.columns > 1 {
        array.transposed()
    } else {
        array
    })
}

/// The rows of an NPY file, to be read some at a time.
pub(crate) fn npy_stream<'r>(
    source: impl Read + 'r,
    origin: &str,
) -> Result<ArrayRows<'r>, FormatError> {
    let mut stream = Stream::new(source, origin)?;
    let header = Header::read(&mut stream)?;
    if header.fortran && header.shape.columns > 1 {
        return Err(FormatError::ColumnOrder {
            path: origin.to_owned(),
        });
    }
    Ok(ArrayRows::new(stream, header.shape, header.element))
}

/// The rows of an uncompressed NPY file, left where they are: little-endian floats of 4 or 8
/// bytes, or bytes that stand for `scale` times themselves, in C order.
///
/// # Errors
/// As for [`read_npy`]; [`FormatError::NotInPlace`] for other files.
pub fn npy_rows(path: impl AsRef<Path>, scale: f32) -> Result<DesignFile, FormatError> {
    let path = path.as_ref();
    let (file, name) = open(path)?;
    let mut stream = Stream::new(&file, &name)?;
    let in_place = stream.check_in_place();
    let header = Header::read(&mut stream)?;
    let Element { kind, width, order } = header.element;
    let entry = match (in_place, kind, width, order) {
        (Err(problem), ..) => Err(problem),
        _ if header.fortran && header.shape.columns > 1 => {
            Err("it is in Fortran order, column after column (numpy.ascontiguousarray turns it)")
        }
        (_, Kind::Unsigned, 1, _) => Ok(FileEntry::U8 { scale }),
        (_, Kind::Float, 4, Order::Little) => Ok(FileEntry::F32),
        (_, Kind::Float, 8, Order::Little) => Ok(FileEntry::F64),
        _ => Err("its entries are neither little-endian floats nor bytes"),
    };
    let entry = entry.map_err(|problem| FormatError::NotInPlace {
        path: name,
        problem,
    })?;
    let layout = FileLayout {
        offset: header.length,
        rows: header.shape.rows,
        columns: header.shape.columns,
        entry,
    };
    Ok(DesignFile::open(path, layout)?)
}

#[derive(Debug)]
struct Header {
    shape: Shape,
    element: Element,
    fortran: bool,
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
        let mut start = [0; 8];
        let found = stream.fill(&mut start)?;
        if found < 6 || start[..6] != *MAGIC {
            return Err(FormatError::WrongMagic {
                path,
                format: "an NPY",
                found: super::binary(&start[..found]),
            });
        }
        if found < 8 {
            return Err(bad(HeaderProblem::CutShort));
        }
        let length_bytes = match (start[6], start[7]) {
            (1, 0) => 2,
            (2 | 3, 0) => 4,
            (major, minor) => return Err(bad(HeaderProblem::Version(major, minor))),
        };
        let mut length = [0; 4];
        if stream.fill(&mut length[..length_bytes])? < length_bytes {
            return Err(bad(HeaderProblem::CutShort));
        }
        let bytes = u64::from(u32::from_le_bytes(length));
        if bytes > MAX_HEADER {
            return Err(bad(HeaderProblem::TooLong {
                bytes,
                limit: MAX_HEADER,
            }));
        }
        let mut text = vec![0; bytes as usize];
        if stream.fill(&mut text)? < text.len() {
            return Err(bad(HeaderProblem::CutShort));
        }
        let dictionary = Dictionary::parse(&text).map_err(bad)?;
        if dictionary.fortran && dictionary.sizes.len() > 2 {
            return Err(bad(HeaderProblem::FortranOrder(dictionary.sizes.len())));
        }
        Ok(Self {
            shape: Shape::new(&dictionary.sizes, &path)?,
            element: dictionary.element,
            fortran: dictionary.fortran,
            length: 8 + length_bytes as u64 + bytes,
        })
    }
}

/// What the header's text says.
struct Dictionary {
    element: Element,
    fortran: bool,
    sizes: Vec<u64>,
}

impl Dictionary {
    fn parse(text: &[u8]) -> Result<Self, HeaderProblem> {
        let mut text = Text { text, at: 0 };
        let (mut element, mut fortran, mut sizes) = (None, None, None);
        text.expect(b'{', "'{'")?;
        while !text.take(b'}') {
            let key = text.string()?;
            text.expect(b':', "':'")?;
            let again = match key {
                b"descr" => element.replace(element_of(text.string()?)?).is_some(),
                b"fortran_order" => fortran.replace(text.boolean()?).is_some(),
                b"shape" => sizes.replace(text.sizes()?).is_some(),
                _ => return Err(text.problem("'descr', 'fortran_order' or 'shape'")),
            };
            if again {
                return Err(text.problem("each key once"));
            }
            if !text.take(b',') {
                text.expect(b'}', "',' or '}'")?;
                break;
            }
        }
        text.space();
        if text.at < text.text.len() {
            return Err(text.problem("the end"));
        }
        Ok(Self {
            element: element.ok_or(HeaderProblem::Lacks("descr"))?,
            fortran: fortran.ok_or(HeaderProblem::Lacks("fortran_order"))?,
            sizes: sizes.ok_or(HeaderProblem::Lacks("shape"))?,
        })
    }
}

/// A type such as `<f4`: byte order, kind, width.
fn element_of(descr: &[u8]) -> Result<Element, HeaderProblem> {
    let unknown = || {
        let shown = descr.get(..16).unwrap_or(descr);
        HeaderProblem::EntryType(String::from_utf8_lossy(shown).into_owned())
    };
    let &[order, kind, width] = descr else {
        return Err(unknown());
    };
    let width = usize::from(width.wrapping_sub(b'0'));
    let order = match order {
        b'<' => Order::Little,
        b'>' => Order::Big,
        b'|' if width == 1 => Order::Little,
        _ => return Err(unknown()),
    };
    let kind = match (kind, width) {
        (b'f', 4 | 8) => Kind::Float,
        (b'i', 1 | 2 | 4 | 8) => Kind::Signed,
        (b'u', 1 | 2 | 4 | 8) | (b'b', 1) => Kind::Unsigned,
        _ => return Err(unknown()),
    };
    Ok(Element { kind, width, order })
}

/// The part of Python's literals that headers are written in.
struct Text<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Text<'t> {
    fn problem(&self, expected: &'static str) -> HeaderProblem {
        HeaderProblem::Syntax {
            at: self.at,
            expected,
        }
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    /// Skips white space and this byte, if it is next.
    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let next = self.rest().first() == Some(&byte);
        self.at += usize::from(next);
        next
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), HeaderProblem> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.problem(expected))
        }
    }

    /// A quoted text without escapes.
    fn string(&mut self) -> Result<&'t [u8], HeaderProblem> {
        let expected = "a quoted text (structured types are not read)";
        let quote = if self.take(b'\'') {
            b'\''
        } else if self.take(b'"') {
            b'"'
        } else {
            return Err(self.problem(expected));
        };
        let rest = self.rest();
        let Some(end) = rest.iter().position(|&byte| byte == quote) else {
            return Err(self.problem(expected));
        };
        self.at += end + 1;
        Ok(&rest[..end])
    }

    fn boolean(&mut self) -> Result<bool, HeaderProblem> {
        self.space();
        for (word, value) in [("True", true), ("False", false)] {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.problem("True or False"))
    }

    fn sizes(&mut self) -> Result<Vec<u64>, HeaderProblem> {
        let mut sizes = Vec::new();
        self.expect(b'(', "'('")?;
        while !self.take(b')') {
            let rest = self.rest();
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(&rest[..digits])
                .ok()
                .and_then(|digits| digits.parse().ok())
                .ok_or_else(|| self.problem("a whole number below 2^64"))?;
            if sizes.len() == MAX_DIMENSIONS {
                return Err(HeaderProblem::Dimensions(MAX_DIMENSIONS + 1));
            }
            sizes.push(number);
            self.at += digits;
            if !self.take(b',') {
                self.expect(b')', "',' or ')'")?;
                break;
            }
        }
        Ok(sizes)
    }
}
