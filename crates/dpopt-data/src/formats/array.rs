//! An array read from a file: one row per record, whatever the format.

use dpopt_linalg::{Design, DesignError};

use super::error::{FormatError, HeaderProblem};
use super::stream::{Stream, StreamError};

/// Most columns of an array; tuned: a row of them in double precision takes 128 MiB.
pub const MAX_COLUMNS: usize = 1 << 24;
/// Most dimensions of an array; those after the first are one row.
pub(crate) const MAX_DIMENSIONS: usize = 8;

/// Bytes read at a time: a multiple of every entry's width.
const PIECE: usize = 1 << 16;

/// Rows of numbers. It holds private records: nothing here prints them.
///
/// # Shapes
/// (n, d). Dimensions after the first are one row, in C order: images of (n, 28, 28) have d = 784.
/// A list of n numbers has d = 1.
pub struct Array {
    path: String,
    rows: usize,
    columns: usize,
    entries: Entries,
}

/// Entries in the narrowest storage that holds them: bytes as they are; single precision for
/// floats of 4 bytes and integers of up to 2; double precision for all others (integers above
/// 2^53 are rounded).
enum Entries {
    U8(Vec<u8>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// How a number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) kind: Kind,
    /// Bytes.
    pub(super) width: usize,
    pub(super) order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    Signed,
    Unsigned,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// Rows and columns of a shape, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) rows: usize,
    pub(super) columns: usize,
}

impl Shape {
    pub(super) fn new(sizes: &[u64], path: &str) -> Result<Self, FormatError> {
        let path = || path.to_owned();
        let dimensions = HeaderProblem::Dimensions(sizes.len());
        let (&rows, trailing) = match sizes.split_first() {
            Some(split) if sizes.len() <= MAX_DIMENSIONS => split,
            _ => {
                return Err(FormatError::BadHeader {
                    path: path(),
                    problem: dimensions,
                });
            }
        };
        let columns = trailing
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size))
            .unwrap_or(u64::MAX);
        if columns > MAX_COLUMNS as u64 {
            return Err(FormatError::TooManyColumns {
                path: path(),
                columns,
                limit: MAX_COLUMNS as u64,
            });
        }
        if columns == 0 {
            return Err(FormatError::Design {
                path: path(),
                source: DesignError::BadWidth(0),
            });
        }
        // Eight bytes an entry must still be a length.
        let bytes = rows.checked_mul(columns).and_then(|n| n.checked_mul(8));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as u64) {
            return Err(FormatError::TooLarge { path: path() });
        }
        Ok(Self {
            rows: rows as usize,
            columns: columns as usize,
        })
    }
}

/// Rows of a stream that are read some at a time.
pub(crate) struct ArrayRows<'r> {
    stream: Stream<'r>,
    shape: Shape,
    element: Element,
    left: usize,
}

impl<'r> ArrayRows<'r> {
    pub(super) fn new(stream: Stream<'r>, shape: Shape, element: Element) -> Self {
        Self {
            stream,
            shape,
            element,
            left: shape.rows,
        }
    }

    /// Number of rows in the header.
    pub(crate) fn rows(&self) -> usize {
        self.shape.rows
    }

    /// The next rows, at most `count`; none of them at the end, which must be that of the stream.
    pub(crate) fn take(&mut self, count: usize) -> Result<Array, FormatError> {
        let Self {
            stream,
            shape,
            element,
            left,
        } = self;
        let path = stream.path().to_owned();
        let rows = count.min(*left);
        let count = rows * shape.columns;
        let entries = match (element.kind, element.width) {
            (Kind::Unsigned, 1) => Entries::U8(read(stream, count, 1, |x| x[0])?),
            (Kind::Float, 4) | (_, 1 | 2) => {
                Entries::F32(read(stream, count, element.width, |x| {
                    element.decode(x) as f32
                })?)
            }
            _ => Entries::F64(read(stream, count, element.width, |x| element.decode(x))?),
        };
        if entries.len() < count {
            return Err(FormatError::Truncated { path });
        }
        *left -= rows;
        if *left == 0 && stream.fill(&mut [0])? > 0 {
            return Err(FormatError::Trailing { path });
        }
        Ok(Array {
            path,
            rows,
            columns: shape.columns,
            entries,
        })
    }
}

impl Array {
    /// Reads the entries, which must be the rest of the stream.
    pub(super) fn read(
        stream: Stream<'_>,
        shape: Shape,
        element: Element,
    ) -> Result<Self, FormatError> {
        ArrayRows::new(stream, shape, element).take(usize::MAX)
    }

    /// Entries that were stored column after column become row after row.
    pub(super) fn transposed(mut self) -> Self {
        let (rows, columns) = (self.rows, self.columns);
        self.entries = match self.entries {
            Entries::U8(x) => Entries::U8(transpose(&x, rows, columns)),
            Entries::F32(x) => Entries::F32(transpose(&x, rows, columns)),
            Entries::F64(x) => Entries::F64(transpose(&x, rows, columns)),
        };
        self
    }

    /// Number of rows, n. Under add/remove it is private.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns, d.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The rows as a design, in place: bytes stay bytes, each standing for `scale` times itself.
    /// Other entries are taken as they are.
    ///
    /// # Errors
    /// [`FormatError::Design`] where `scale` is not positive and finite.
    pub fn into_design(self, scale: f32) -> Result<Design, FormatError> {
        match self.entries {
            Entries::U8(x) => Design::bytes(self.columns, x, scale),
            Entries::F32(x) => Design::dense32(self.columns, x),
            Entries::F64(x) => Design::dense(self.columns, x),
        }
        .map_err(|source| FormatError::Design {
            path: self.path,
            source,
        })
    }

    /// The rows as a design of `scale` times each entry, and one more column of `intercept` unless
    /// that is 0. Bytes stay bytes where the intercept is `scale` times a byte too.
    pub(crate) fn into_features(self, scale: f32, intercept: f32) -> Result<Design, DesignError> {
        let columns = self.columns;
        if intercept == 0.0 && (scale == 1.0 || matches!(self.entries, Entries::U8(_))) {
            return match self.entries {
                Entries::U8(x) => Design::bytes(columns, x, scale),
                Entries::F32(x) => Design::dense32(columns, x),
                Entries::F64(x) => Design::dense(columns, x),
            };
        }
        let width = columns + usize::from(intercept != 0.0);
        let byte = (intercept / scale).round() as u8;
        let last = (intercept != 0.0).then_some(intercept);
        match self.entries {
            Entries::U8(x) if f32::from(byte) * scale == intercept => {
                Design::bytes(width, widened(&x, columns, Some(byte), |x| x), scale)
            }
            Entries::U8(x) => {
                Design::dense32(width, widened(&x, columns, last, |x| f32::from(x) * scale))
            }
            Entries::F32(x) => Design::dense32(width, widened(&x, columns, last, |x| x * scale)),
            Entries::F64(x) => {
                let scale = f64::from(scale);
                Design::dense(
                    width,
                    widened(&x, columns, last.map(f64::from), |x| x * scale),
                )
            }
        }
    }

    /// Whether the entries are bytes.
    pub(crate) fn is_bytes(&self) -> bool {
        matches!(self.entries, Entries::U8(_))
    }

    /// Name of the file, for errors.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The rows as labels.
    ///
    /// # Errors
    /// [`FormatError::NotLabels`] unless there is one column.
    pub fn into_labels(self) -> Result<Vec<f32>, FormatError> {
        if self.columns != 1 {
            return Err(FormatError::NotLabels {
                path: self.path,
                columns: self.columns,
            });
        }
        Ok(match self.entries {
            Entries::U8(x) => x.into_iter().map(f32::from).collect(),
            Entries::F32(x) => x,
            Entries::F64(x) => x.into_iter().map(saturated).collect(),
        })
    }
}

/// In single precision; a number beyond its range is the largest of its sign, as clipping to a range wants it, and no infinity.
pub(crate) fn saturated(x: f64) -> f32 {
    if x.is_finite() {
        x.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    } else {
        x as f32
    }
}

impl Entries {
    fn len(&self) -> usize {
        match self {
            Self::U8(x) => x.len(),
            Self::F32(x) => x.len(),
            Self::F64(x) => x.len(),
        }
    }
}

impl Element {
    /// The number that these bytes (as many as the width) stand for.
    fn decode(self, bytes: &[u8]) -> f64 {
        let mut bits = 0u64;
        for k in 0..self.width {
            let at = match self.order {
                Order::Big => k,
                Order::Little => self.width - 1 - k,
            };
            bits = bits << 8 | u64::from(bytes[at]);
        }
        let unused = 64 - 8 * self.width as u32;
        match (self.kind, self.width) {
            (Kind::Float, 4) => f64::from(f32::from_bits(bits as u32)),
            (Kind::Float, _) => f64::from_bits(bits),
            (Kind::Signed, _) => (((bits << unused) as i64) >> unused) as f64,
            (Kind::Unsigned, _) => bits as f64,
        }
    }
}

/// Up to `count` entries: fewer where the stream ends. Memory follows what was read, so a header
/// that promises too much costs nothing.
fn read<T>(
    stream: &mut Stream<'_>,
    count: usize,
    width: usize,
    decode: impl Fn(&[u8]) -> T,
) -> Result<Vec<T>, StreamError> {
    let mut all = Vec::new();
    let mut piece = vec![0u8; PIECE];
    while all.len() < count {
        let wanted = (count - all.len()).min(PIECE / width) * width;
        let found = stream.fill(&mut piece[..wanted])?;
        all.extend(piece[..found].chunks_exact(width).map(&decode));
        if found < wanted {
            break;
        }
    }
    Ok(all)
}

/// Rows with their entries mapped, and one more entry each.
fn widened<T: Copy, U: Copy>(
    x: &[T],
    columns: usize,
    last: Option<U>,
    map: impl Fn(T) -> U,
) -> Vec<U> {
    let rows = x.len() / columns;
    let mut out = Vec::with_capacity(x.len() + rows * usize::from(last.is_some()));
    for row in x.chunks_exact(columns) {
        out.extend(row.iter().map(|&x| map(x)));
        out.extend(last);
    }
    out
}

fn transpose<T: Copy>(x: &[T], rows: usize, columns: usize) -> Vec<T> {
    let mut out = Vec::with_capacity(x.len());
    for i in 0..rows {
        out.extend((0..columns).map(|j| x[j * rows + i]));
    }
    out
}
