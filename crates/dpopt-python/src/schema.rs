//! Public schemas, and the tables that they encode: frames in memory and files.

use std::path::{Path, PathBuf};

use dpopt::data::tabular::{
    CheckReport, ColumnKind, EncodedTable, LabelKind, ProblemKind, Schema, TabularError, ValueType,
    Values, check, check_parquet, encode_frame, read_features, read_parquet, read_parquet_features,
    read_rows, read_table, schema_of_rows,
};
use dpopt::linalg::{Design, RowFile};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::errors::{self, user};
use crate::table::Table;

/// What a table may hold and how it becomes numbers: public, and never read off the records.
#[pyclass(frozen, eq, name = "Schema", module = "dpopt")]
#[derive(PartialEq)]
pub(crate) struct PySchema(Schema);

fn problem(error: TabularError) -> PyErr {
    errors::data(error)
}

#[pymethods]
impl PySchema {
    /// From TOML text.
    #[new]
    fn new(text: &str) -> PyResult<Self> {
        Schema::from_toml(text, "the schema")
            .map(Self)
            .map_err(user)
    }

    /// From a TOML file.
    #[staticmethod]
    fn load(path: PathBuf) -> PyResult<Self> {
        Schema::load(path).map(Self).map_err(user)
    }

    /// The text that makes it again.
    fn to_toml(&self) -> String {
        self.0.to_toml()
    }

    /// Names of the features, that of the constant included.
    #[getter]
    fn features(&self) -> Vec<String> {
        self.0.feature_names()
    }

    /// Names of the columns that become features.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let used = self.0.columns().iter();
        used.filter(|column| column.kind != ColumnKind::Ignore)
            .map(|column| column.name.clone())
            .collect()
    }

    /// Name of the column to predict.
    #[getter]
    fn label(&self) -> String {
        self.0.label().column.clone()
    }

    /// Values of the label, of two the positive one last; none of a number.
    #[getter]
    fn classes(&self) -> Option<Vec<String>> {
        match &self.0.label().kind {
            LabelKind::Classes(two) => {
                let negative = two.values.iter().find(|value| **value != two.positive);
                let negative = negative.cloned().unwrap_or_default();
                Some(vec![negative, two.positive.clone()])
            }
            LabelKind::Several(several) => Some(several.values.clone()),
            _ => None,
        }
    }

    /// Ends of a label that is a number.
    #[getter]
    fn label_bounds(&self) -> Option<(f64, f64)> {
        self.0.label().range().map(|range| (range.min, range.max))
    }

    /// Public bound on the length of an encoded row.
    #[getter]
    fn row_norm(&self) -> f64 {
        self.0.row_norm()
    }

    /// Value of the constant feature, the last; 0 for none.
    #[getter]
    fn intercept(&self) -> f64 {
        self.0.intercept()
    }

    /// Whether it was drafted from the records, and nobody has said since that all of it is public.
    #[getter]
    fn is_draft(&self) -> bool {
        self.0.is_draft()
    }

    fn __repr__(&self) -> String {
        let (features, label) = (self.0.dim(), &self.0.label().column);
        format!("<dpopt.Schema of {features} features, label {label:?}>")
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.0.to_toml().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, (String,)) {
        (slf.get_type().into_any().unbind(), (slf.get().0.to_toml(),))
    }
}

/// A column of a frame, as Python hands it over.
#[derive(FromPyObject)]
pub(crate) enum Cells<'py> {
    Doubles(PyReadonlyArray1<'py, f64>),
    Singles(PyReadonlyArray1<'py, f32>),
    Integers(PyReadonlyArray1<'py, i64>),
    Unsigned(PyReadonlyArray1<'py, u64>),
    Truths(PyReadonlyArray1<'py, bool>),
    /// Texts of values of one type, by its letter.
    Typed((char, Vec<Option<PyBackedBytes>>)),
    /// Texts, and before them the letters of their types.
    Objects((PyBackedBytes, Vec<Option<PyBackedBytes>>)),
}

/// By the letter that `_values.py` gives it.
fn type_of(letter: u8) -> ValueType {
    match letter {
        b'b' => ValueType::Truth,
        b'i' => ValueType::Whole,
        b'f' => ValueType::Real,
        b'M' => ValueType::Date,
        _ => ValueType::Text,
    }
}

impl Cells<'_> {
    fn values(&self) -> PyResult<Values<'_>> {
        let strided = || user("a column of a frame is contiguous");
        Ok(match self {
            Self::Doubles(of) => Values::Doubles(of.as_slice().map_err(|_| strided())?),
            Self::Singles(of) => Values::Singles(of.as_slice().map_err(|_| strided())?),
            Self::Integers(of) => Values::Integers(of.as_slice().map_err(|_| strided())?),
            Self::Unsigned(of) => Values::Unsigned(of.as_slice().map_err(|_| strided())?),
            Self::Truths(of) => Values::Truths(of.as_slice().map_err(|_| strided())?),
            Self::Typed((letter, of)) => {
                let texts = of.iter().map(|text| text.as_ref().map(|text| &text[..]));
                let letter = u8::try_from(*letter).unwrap_or_default();
                Values::Typed(type_of(letter), texts.collect())
            }
            Self::Objects((letters, of)) => {
                let each = letters.iter().zip(of);
                let each = each.map(|(letter, text)| Some((type_of(*letter), &text.as_ref()?[..])));
                Values::Objects(each.collect())
            }
        })
    }
}

/// A frame as a table. Without `labels` the label's column may be absent.
#[pyfunction]
pub(crate) fn table_of_frame(
    columns: Vec<(String, Cells<'_>)>,
    schema: &PySchema,
    labels: bool,
) -> PyResult<Table> {
    let columns = columns
        .iter()
        .map(|(name, cells)| Ok((name.clone(), cells.values()?)));
    let columns: Vec<(String, Values<'_>)> = columns.collect::<PyResult<_>>()?;
    let (design, labels) =
        parts(encode_frame(&columns, &schema.0, labels, "the frame").map_err(problem)?);
    Table::new(design, labels)
}

/// A file as a table: CSV (gzip too), Parquet by `.parquet`, rows of `dpopt convert` by `.dpr`.
#[pyfunction]
pub(crate) fn table_of_file(
    py: Python<'_>,
    path: PathBuf,
    schema: &PySchema,
    labels: bool,
) -> PyResult<Table> {
    let of = &schema.0;
    let kind = path.extension().and_then(|kind| kind.to_str());
    let kind = kind.map(str::to_ascii_lowercase).unwrap_or_default();
    let blank = |design: Design| {
        let labels = vec![0.0; design.rows()];
        (design, labels)
    };
    let (design, labels) = py.detach(|| match (kind.as_str(), labels) {
        ("parquet" | "pq", true) => read_parquet(&path, of).map(parts).map_err(problem),
        ("parquet" | "pq", false) => read_parquet_features(&path, of).map(blank).map_err(problem),
        ("dpr", _) => rows(&path, of),
        ("npy" | "npz" | "idx" | "svm" | "libsvm", _) => Err(user(format!(
            ".{kind} is no table with named columns; read it, and give the array"
        ))),
        (_, true) => read_table(&path, of).map(parts).map_err(problem),
        (_, false) => read_features(&path, of).map(blank).map_err(problem),
    })?;
    Table::new(design, labels)
}

/// What is odd: in words, in which column, how often, and examples.
type Odd = (String, String, u64, Vec<String>);

/// Records, those of them whose rows are rescaled, and what is odd.
type Found = (u64, u64, Vec<Odd>);

fn odd(report: CheckReport) -> Found {
    let mut all: Vec<Odd> = Vec::new();
    let kinds = report.counts.iter();
    for (kind, total) in kinds.filter(|(kind, _)| **kind != ProblemKind::Rescaled) {
        let of_kind = report.by_column.iter().filter(|((of, _), _)| of == kind);
        let mut places: Vec<(Option<&String>, u64)> = of_kind
            .map(|((_, column), count)| (Some(column), *count))
            .collect();
        let of_records = total - places.iter().map(|(_, count)| count).sum::<u64>();
        places.push((None, of_records));
        for (column, count) in places.into_iter().filter(|(_, count)| *count > 0) {
            let listed = report.listed.iter();
            let listed = listed.filter(|of| of.kind == *kind && of.column.as_ref() == column);
            let shown = listed
                .map(|of| of.text.clone())
                .filter(|text| !text.is_empty());
            let column = column.cloned().unwrap_or_default();
            all.push((kind.to_string(), column, count, shown.collect()));
        }
    }
    (report.records, report.count(ProblemKind::Rescaled), all)
}

/// What a frame holds that the schema does not foresee. Not private.
#[pyfunction]
pub(crate) fn check_frame(columns: Vec<(String, Cells<'_>)>, schema: &PySchema) -> PyResult<Found> {
    let columns = columns
        .iter()
        .map(|(name, cells)| Ok((name.clone(), cells.values()?)));
    let columns: Vec<(String, Values<'_>)> = columns.collect::<PyResult<_>>()?;
    let found = dpopt::data::tabular::check_frame(&columns, &schema.0, "the frame");
    found.map(odd).map_err(problem)
}

/// The same of a file: CSV (gzip too), or Parquet by `.parquet`.
#[pyfunction]
pub(crate) fn check_file(path: PathBuf, schema: &PySchema) -> PyResult<Found> {
    let kind = path.extension().and_then(|kind| kind.to_str());
    let kind = kind.map(str::to_ascii_lowercase).unwrap_or_default();
    let found = match kind.as_str() {
        "parquet" | "pq" => check_parquet(&path, &schema.0),
        "dpr" => {
            return Err(user(
                "a file of rows holds what became of the records; check the table that it was made from",
            ));
        }
        _ => check(&path, &schema.0),
    };
    found.map(odd).map_err(problem)
}

fn parts(table: EncodedTable) -> (Design, Vec<f32>) {
    (table.design, table.labels)
}

/// Rows of a file that was made with this schema.
fn rows(path: &Path, schema: &Schema) -> PyResult<(Design, Vec<f32>)> {
    let made = RowFile::open(path)
        .map_err(TabularError::from)
        .and_then(|file| schema_of_rows(&file))
        .map_err(problem)?;
    if !made.encodes_as(schema) {
        return Err(user(format!(
            "{} was made with another schema",
            path.display()
        )));
    }
    read_rows(path).map(parts).map_err(problem)
}
