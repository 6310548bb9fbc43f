//! Records on their way from Python: copied once, into the form that passes read.

use std::ops::Range;

use dpopt::linalg::{Design, DesignError};
use dpopt::oracle::PrivateData;
use dpopt::privacy::{Adjacency, ClipNorm};
use numpy::ndarray::{Axis, Slice};
use numpy::{Element, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

use crate::errors::{self, user};

/// Rows and labels, in the form that passes read. It has no accessor to them, and a training takes them.
#[pyclass(name = "Table", module = "dpopt._dpopt")]
pub(crate) struct Table {
    /// None once a training took them.
    records: Option<(Design, Vec<f32>)>,
    columns: usize,
    rows: usize,
}

/// Public ranges of the columns: each is shifted and scaled to [-1, 1], and cut there.
struct Ranges {
    middle: Vec<f64>,
    half: Vec<f64>,
}

impl Ranges {
    fn new(low: &[f64], high: &[f64], columns: usize) -> PyResult<Self> {
        if low.len() != columns || high.len() != columns {
            return Err(user(format!(
                "{} lower and {} upper bounds, and the records have {columns} columns",
                low.len(),
                high.len()
            )));
        }
        let pairs = || low.iter().zip(high);
        for (column, (low, high)) in pairs().enumerate() {
            if !(low < high && (high - low).is_finite()) {
                return Err(user(format!(
                    "the bounds of column {column} are {low} and {high}; both have to be finite, and the first below the second"
                )));
            }
        }
        Ok(Self {
            middle: pairs()
                .map(|(low, high)| low + (high - low) / 2.0)
                .collect(),
            half: pairs().map(|(low, high)| (high - low) / 2.0).collect(),
        })
    }

    /// A value that is not a number is in the middle.
    fn place(&self, column: usize, x: f64) -> f32 {
        let placed = ((x - self.middle[column]) / self.half[column]).clamp(-1.0, 1.0);
        if placed.is_nan() { 0.0 } else { placed as f32 }
    }
}

/// Lower and upper ends.
type Ends<'py> = (PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, f64>);

/// Where each row starts, column numbers, values.
type Compressed<'py> = (
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, f32>,
);

/// A dense array in single or double precision, of any strides.
#[derive(FromPyObject)]
pub(crate) enum Dense<'py> {
    /// Double precision.
    Double(PyReadonlyArray2<'py, f64>),
    /// Single precision.
    Single(PyReadonlyArray2<'py, f32>),
}

impl Dense<'_> {
    /// Rows and columns.
    pub(crate) fn dim(&self) -> (usize, usize) {
        match self {
            Self::Double(rows) => rows.as_array().dim(),
            Self::Single(rows) => rows.as_array().dim(),
        }
    }

    /// Some of the rows, in double precision, in the place of what was there.
    pub(crate) fn copy(&self, rows: Range<usize>, to: &mut Vec<f64>) {
        let part = Slice::from(rows);
        to.clear();
        match self {
            Self::Double(rows) => to.extend(rows.as_array().slice_axis(Axis(0), part)),
            Self::Single(rows) => {
                let rows = rows.as_array();
                to.extend(rows.slice_axis(Axis(0), part).iter().map(|&x| f64::from(x)));
            }
        }
    }
}

impl Table {
    pub(crate) fn new(design: Design, labels: Vec<f32>) -> PyResult<Self> {
        let (rows, columns) = (design.rows(), design.columns());
        if rows != labels.len() {
            return Err(user(format!("{rows} rows and {} labels", labels.len())));
        }
        Ok(Self {
            records: Some((design, labels)),
            columns,
            rows,
        })
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns
    }

    /// Their number, where it may be used.
    pub(crate) fn rows_if_public(&self, adjacency: Adjacency) -> Option<u64> {
        adjacency
            .record_count_is_public()
            .then_some(self.rows as u64)
    }

    /// The rows as a training would see them: longer ones rescaled.
    pub(crate) fn bounded(&mut self, row_norm: ClipNorm) -> PyResult<Design> {
        let taken = self.records.take();
        let (mut design, _) = taken.ok_or_else(gone)?;
        for i in 0..design.rows() {
            design.bound_row(i, row_norm.get());
        }
        Ok(design)
    }

    /// Moves them into the boundary.
    pub(crate) fn protect(
        &mut self,
        row_norm: ClipNorm,
        adjacency: Adjacency,
        records: Option<u64>,
    ) -> PyResult<PrivateData> {
        let taken = self.records.take();
        let (design, labels) = taken.ok_or_else(gone)?;
        PrivateData::new(design, labels, row_norm, adjacency, records).map_err(errors::data)
    }
}

fn gone() -> PyErr {
    user("these records were taken already; make the table again")
}

fn no_design(error: DesignError) -> PyErr {
    errors::data(error)
}

/// Rows in single precision, with a constant column at the end.
fn filled<T: Element + Copy + Into<f64>>(
    rows: &PyReadonlyArray2<'_, T>,
    ranges: Option<&Ranges>,
    intercept: Option<f32>,
) -> PyResult<Design> {
    let rows = rows.as_array();
    let (records, columns) = rows.dim();
    let width = columns + usize::from(intercept.is_some());
    let mut entries = Vec::with_capacity(records * width);
    for row in rows.rows() {
        match ranges {
            Some(ranges) => {
                let placed = row.iter().enumerate();
                entries.extend(placed.map(|(j, x)| ranges.place(j, (*x).into())));
            }
            None => entries.extend(row.iter().map(|x| -> f32 {
                let x: f64 = (*x).into();
                x as f32
            })),
        }
        entries.extend(intercept);
    }
    Design::dense32(width, entries).map_err(no_design)
}

#[pymethods]
impl Table {
    /// From a dense array. With ranges each column is brought to [-1, 1] by them.
    #[staticmethod]
    fn dense<'py>(
        rows: Dense<'py>,
        labels: PyReadonlyArray1<'py, f32>,
        ranges: Option<Ends<'py>>,
        intercept: Option<f32>,
    ) -> PyResult<Self> {
        let columns = match &rows {
            Dense::Double(rows) => rows.as_array().ncols(),
            Dense::Single(rows) => rows.as_array().ncols(),
        };
        let ranges = ranges
            .map(|(low, high)| {
                let [low, high] = [low, high].map(|ends| ends.as_array().to_vec());
                Ranges::new(&low, &high, columns)
            })
            .transpose()?;
        let design = match &rows {
            Dense::Double(rows) => filled(rows, ranges.as_ref(), intercept),
            Dense::Single(rows) => filled(rows, ranges.as_ref(), intercept),
        };
        Self::new(design?, labels.as_array().to_vec())
    }

    /// From compressed sparse rows. Columns may come in any order, and what stands twice is added up.
    #[staticmethod]
    fn sparse<'py>(
        rows: Compressed<'py>,
        width: usize,
        labels: PyReadonlyArray1<'py, f32>,
        intercept: Option<f32>,
    ) -> PyResult<Self> {
        let bad = || user("these are no compressed sparse rows");
        let (starts, columns, values) = (rows.0.as_array(), rows.1.as_array(), rows.2.as_array());
        let last = u32::try_from(width).map_err(|_| {
            user(format!(
                "{width} columns; at most {} are numbered",
                u32::MAX
            ))
        })?;
        let mut design =
            Design::sparse(width + usize::from(intercept.is_some())).map_err(no_design)?;
        let mut row: Vec<(u32, f32)> = Vec::new();
        for (from, to) in starts.iter().zip(starts.iter().skip(1)) {
            let range = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
            let (from, to) = range
                .filter(|(from, to)| from <= to && *to <= columns.len() && *to <= values.len())
                .ok_or_else(bad)?;
            row.clear();
            let mut whole = true;
            for (column, value) in (from..to).map(|at| (columns[at], values[at])) {
                match u32::try_from(column) {
                    Ok(column) if column < last => row.push((column, value)),
                    _ => whole = false,
                }
            }
            // A row with a column that is not there counts as zeros: an error would tell of its record.
            if !whole {
                row.clear();
            }
            row.sort_by_key(|(column, _)| *column);
            row.dedup_by(|next, first| {
                let same = next.0 == first.0;
                if same {
                    first.1 += next.1;
                }
                same
            });
            row.extend(intercept.filter(|_| whole).map(|value| (last, value)));
            design.push_row(&row).map_err(no_design)?;
        }
        Self::new(design, labels.as_array().to_vec())
    }

    /// Multiplies the label of each row by a number: what a class is within a group.
    fn times(&mut self, factors: PyReadonlyArray1<'_, f32>) -> PyResult<()> {
        let factors = factors.as_array();
        let (_, labels) = self.records.as_mut().ok_or_else(gone)?;
        if factors.len() != labels.len() {
            return Err(user(format!(
                "{} rows and {} groups",
                labels.len(),
                factors.len()
            )));
        }
        labels.iter_mut().zip(factors).for_each(|(x, f)| *x *= f);
        Ok(())
    }

    /// How many rows there are. Under add-remove adjacency it is secret.
    fn __len__(&self) -> usize {
        self.rows
    }

    /// Numbers of a row, that of the intercept included.
    #[getter]
    fn width(&self) -> usize {
        self.columns
    }
}
