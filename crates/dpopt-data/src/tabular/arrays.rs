//! Arrays (NPY, IDX) and sparse rows (LIBSVM) through a public schema: scale, intercept, labels.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use dpopt_linalg::Design;

use super::check::Shortened;
use super::column::{ArrayColumns, Label, LabelKind, LabelRange};
use super::draft::{DRAFT_LINE, WARNING};
use super::error::TabularError;
use super::reader::EncodedTable;
use super::schema::Schema;
use super::write::{list, quoted};
use crate::formats::saturated;
use crate::formats::{
    Array, FirstIndex, Format, FormatError, LibsvmProblem, LibsvmReport, check_libsvm, read_edited,
    read_idx, read_npy, stream,
};

/// Up to so many different labels a draft lists all of them; more look like numbers. A tuned constant.
const MOST_DRAFTED: usize = 100;

/// Where an array lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayFiles {
    /// NPY, IDX or LIBSVM.
    pub format: Format,
    /// The rows.
    pub rows: PathBuf,
    /// The labels, in the same format; `None` for LIBSVM, whose lines have their own.
    pub labels: Option<PathBuf>,
}

/// What [`ArrayFiles::check`] found. **Not private**: it counts records.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ArrayReport {
    /// The file of the rows.
    pub path: String,
    /// Number of records.
    pub records: u64,
    /// Records whose label becomes +1; none where the label has not two values.
    pub positives: Option<u64>,
    /// Records whose label is none of the values of the schema, or not finite where labels are numbers: the default is used.
    pub unknown_labels: u64,
    /// Records whose label is a number outside of the range of the schema: it is clipped.
    pub clipped_labels: u64,
    /// Records with an entry that is not finite: they contribute nothing.
    pub not_finite: u64,
    /// Records longer than the row norm, which are rescaled.
    pub rescaled: u64,
    /// Lines that can't be read, for LIBSVM.
    pub lines: Option<LibsvmReport>,
}

impl fmt::Display for ArrayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            records,
            positives,
            ..
        } = self;
        match positives {
            Some(positives) => writeln!(f, "{path}: {records} records, {positives} positive")?,
            None => writeln!(f, "{path}: {records} records")?,
        }
        writeln!(f, "(this report reads the records; it is not private)")?;
        write!(f, "{}", Shortened(self.rescaled, *records))?;
        for (count, what) in [
            (self.unknown_labels, "unknown label, default used"),
            (self.clipped_labels, "label out of range, clipped"),
            (self.not_finite, "not finite, contributes nothing"),
        ] {
            if count > 0 {
                writeln!(f, "{what}: {count}")?;
            }
        }
        match &self.lines {
            Some(lines) => write!(f, "{lines}"),
            None => Ok(()),
        }
    }
}

impl ArrayFiles {
    /// Reads rows and labels, for training or scoring.
    ///
    /// # Formula
    /// Row i is `scale` times the entries of record i, then the intercept unless it is 0, brought
    /// under the row norm. Its label is +1 where the number in the file of labels equals the
    /// schema's positive value, -1 where it equals the other, the default otherwise; of three values or more it is the place of the
    /// value that it equals.
    ///
    /// # Privacy
    /// One record, one row, by a function of that record and the schema. A record that is not
    /// finite, or a LIBSVM line that can't be read, becomes a row of zeros.
    ///
    /// # Errors
    /// [`TabularError`] for the files, their shapes and the schema; never for a record.
    pub fn read(&self, schema: &Schema) -> Result<EncodedTable, TabularError> {
        let (mut design, values) = self.rows_and_labels(schema, true)?;
        for i in 0..design.rows() {
            design.bound_row(i, schema.row_norm());
        }
        let codes = Codes::new(schema.label());
        Ok(EncodedTable {
            design,
            labels: values.into_iter().map(|value| codes.label(value)).collect(),
            row_norm: schema.row_norm(),
        })
    }

    /// Reads the rows for prediction; a file of labels is not opened.
    ///
    /// # Errors
    /// As for [`ArrayFiles::read`].
    pub fn read_features(&self, schema: &Schema) -> Result<Design, TabularError> {
        let (mut design, _) = self.rows_and_labels(schema, false)?;
        for i in 0..design.rows() {
            design.bound_row(i, schema.row_norm());
        }
        Ok(design)
    }

    /// Counts the records that the schema does not foresee. **Not private**.
    ///
    /// # Errors
    /// As for [`ArrayFiles::read`].
    pub fn check(&self, schema: &Schema) -> Result<ArrayReport, TabularError> {
        let (design, values) = self.rows_and_labels(schema, true)?;
        let codes = Codes::new(schema.label());
        let mut report = ArrayReport {
            path: self.rows.display().to_string(),
            records: design.rows() as u64,
            positives: schema.label().classes().map(|_| 0),
            unknown_labels: 0,
            clipped_labels: 0,
            not_finite: 0,
            rescaled: 0,
            lines: None,
        };
        for (i, &value) in values.iter().enumerate() {
            let row = design.row(i);
            if let Some(positives) = &mut report.positives {
                *positives += u64::from(codes.label(value) > 0.0);
            }
            let unforeseen = u64::from(!codes.knows(value));
            match codes.clips(value) {
                true => report.clipped_labels += unforeseen,
                false => report.unknown_labels += unforeseen,
            }
            report.not_finite += u64::from(!row.is_finite());
            report.rescaled += u64::from(row.is_finite() && row.norm_upper() > schema.row_norm());
        }
        if self.format == Format::Libsvm {
            let declared = self.declared(schema)?;
            let first = declared.first_index();
            report.lines = Some(check_libsvm(&self.rows, first, declared.columns)?);
        }
        Ok(report)
    }

    /// Whether the values that the schema tells apart from its default ([`Label::told_apart`]) are different numbers in single
    /// precision, as labels of these formats are. No record has one that is none. Reads no file.
    #[must_use]
    pub fn can_hold_the_label(&self, schema: &Schema) -> bool {
        let number = |value: &str| super::encode::parse(value.as_bytes()).map(saturated);
        let mut numbers: Vec<f32> = Vec::new();
        for value in schema.label().values() {
            match number(value) {
                Some(x) if numbers.contains(&x) => return false,
                known => numbers.extend(known),
            }
        }
        schema
            .label()
            .told_apart()
            .all(|value| number(value).is_some())
    }

    /// A first schema, with comments. **Not private**: it holds what the records hold, and says so.
    ///
    /// # Errors
    /// [`TabularError`] for the files.
    pub fn draft(&self) -> Result<String, TabularError> {
        let mut zeros = 0;
        let (columns, scale, design, values) = if self.format == Format::Libsvm {
            let report = check_libsvm(&self.rows, FirstIndex::One, 0)?;
            zeros = report
                .counts
                .get(&LibsvmProblem::ZeroIndex)
                .copied()
                .unwrap_or(0);
            let first = if zeros > 0 {
                FirstIndex::Zero
            } else {
                FirstIndex::One
            };
            let columns = (report.largest_index + 1).saturating_sub(first as u64);
            let columns = usize::try_from(columns).unwrap_or(usize::MAX).max(1);
            let (file, name) = stream::open(&self.rows)?;
            let rows = read_edited(file, &name, (first, columns), columns, |_| {})?;
            (columns, 1.0, rows.design, rows.labels)
        } else {
            let array = self.array(&self.rows)?;
            let labels = self.label_values()?;
            // Bytes are grey values.
            let scale = if array.is_bytes() { 1.0 / 255.0 } else { 1.0 };
            let columns = array.columns();
            (columns, scale, array.into_design(1.0)?, labels)
        };
        let longest = (0..design.rows())
            .map(|i| design.row(i).norm_upper() * scale)
            .filter(|norm| norm.is_finite())
            .fold(0.0, f64::max);
        let mut out = String::new();
        // Writing to a `String` can't fail.
        let array = ArrayColumns {
            columns,
            scale,
            zero_based: zeros > 0,
        };
        let _ = self.write_draft(&mut out, array, zeros, longest, &values);
        Ok(out)
    }

    fn write_draft(
        &self,
        out: &mut String,
        array: ArrayColumns,
        zeros: u64,
        longest: f64,
        values: &[f32],
    ) -> fmt::Result {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for value in values.iter().filter(|value| value.is_finite()) {
            if counts.len() < 1000 {
                *counts.entry(value.to_string()).or_insert(0) += 1;
            }
        }
        let mut labels: Vec<(u64, String)> = counts.into_iter().map(|(k, n)| (n, k)).collect();
        if (3..=MOST_DRAFTED).contains(&labels.len()) {
            // In the order of the numbers that they are.
            labels
                .sort_by_key(|(_, text)| text.parse().map_or(i64::MAX, |x: f64| (x * 1e6) as i64));
        } else {
            labels.sort();
        }
        let rare = labels.first().map_or("1", |(_, label)| label);
        let other = match labels.as_slice() {
            [_, (_, other)] => other,
            _ => "other",
        };
        let path = quoted(&self.rows.display().to_string());
        writeln!(
            out,
            "# DRAFT. The row norm, the label and (for LIBSVM) the number of columns were READ FROM THE\n\
             # DATA. A schema is public: before a private run, replace each with what is public.\n\
             # Read: {} records of {path}, {} different labels.",
            values.len(),
            labels.len()
        )?;
        if zeros > 0 {
            writeln!(
                out,
                "{WARNING}{zeros} records have an index 0, so the file counts from 0, and `zero_based = true` in [array] says so"
            )?;
        }
        out.push('\n');
        writeln!(out, "{DRAFT_LINE}")?;
        writeln!(out, "format = 1")?;
        let norm = if longest > 0.0 { longest } else { 1.0 };
        writeln!(
            out,
            "row_norm = {norm:?} # the longest record; longer ones are rescaled"
        )?;
        writeln!(out, "intercept = 0.0\n")?;
        writeln!(out, "[label]\ncolumn = \"label\"")?;
        if (3..=MOST_DRAFTED).contains(&labels.len()) {
            let values = labels.iter().map(|(_, value)| quoted(value));
            writeln!(out, "values = {}", list(values))?;
            let default = labels.iter().max().map_or("", |(_, value)| value);
            writeln!(
                out,
                "default = {} # the commonest one: what any other label becomes\n",
                quoted(default)
            )?;
            return write_array(out, array);
        }
        let both = [rare, other].map(quoted);
        writeln!(out, "values = {}", list(both.into_iter()))?;
        writeln!(out, "positive = {} # the rarest one: a guess", quoted(rare))?;
        writeln!(
            out,
            "default = {} # what any other label becomes\n",
            quoted(other)
        )?;
        write_array(out, array)
    }

    /// Rows before the bound, and labels as numbers (none where they are not needed).
    fn rows_and_labels(
        &self,
        schema: &Schema,
        need_labels: bool,
    ) -> Result<(Design, Vec<f32>), TabularError> {
        let declared = self.declared(schema)?;
        let columns = declared.columns;
        let (scale, intercept) = (declared.scale as f32, schema.intercept() as f32);
        if self.format == Format::Libsvm {
            let (file, name) = stream::open(&self.rows)?;
            let last = (intercept != 0.0).then_some((columns as u32, intercept));
            let first = declared.first_index();
            let rows = read_edited(file, &name, (first, columns), schema.dim(), |row| {
                for (_, value) in row.iter_mut() {
                    *value *= scale;
                }
                row.extend(last);
            })?;
            return Ok((rows.design, rows.labels));
        }
        let array = self.array(&self.rows)?;
        if array.columns() != columns {
            return Err(TabularError::ArrayWidth {
                path: array.path().to_owned(),
                columns: array.columns(),
                declared: columns,
            });
        }
        let labels = if need_labels {
            self.label_values()?
        } else {
            Vec::new()
        };
        if need_labels && labels.len() != array.rows() {
            let path = self.labels.as_ref().unwrap_or(&self.rows);
            return Err(TabularError::LabelCount {
                path: path.display().to_string(),
            });
        }
        Ok((array.into_features(scale, intercept)?, labels))
    }

    pub(super) fn declared(&self, schema: &Schema) -> Result<ArrayColumns, TabularError> {
        schema.array().ok_or_else(|| TabularError::SchemaKind {
            path: self.rows.display().to_string(),
            problem: "an array, but the schema is one of a table (it needs a section [array])",
        })
    }

    pub(super) fn label_values(&self) -> Result<Vec<f32>, TabularError> {
        let Some(labels) = &self.labels else {
            return Err(TabularError::LabelsMissing {
                path: self.rows.display().to_string(),
            });
        };
        Ok(self.array(labels)?.into_labels()?)
    }

    fn array(&self, path: &Path) -> Result<Array, FormatError> {
        match self.format {
            Format::Idx => read_idx(path),
            _ => read_npy(path),
        }
    }
}

fn write_array(out: &mut String, array: ArrayColumns) -> fmt::Result {
    let ArrayColumns {
        columns,
        scale,
        zero_based,
    } = array;
    writeln!(
        out,
        "[array]\ncolumns = {columns}\nscale = {scale:?} # of every entry"
    )?;
    if zero_based {
        writeln!(out, "zero_based = true # indices start at 0")?;
    }
    Ok(())
}

/// How a label that is a number in a file becomes an encoded one.
pub(super) enum Codes {
    /// The two values as labels of these files are: in single precision.
    Classes {
        positive: Option<f32>,
        negative: Option<f32>,
        default: f32,
    },
    /// Three values or more, in the order of their codes.
    Several {
        values: Vec<Option<f32>>,
        default: f32,
    },
    /// A range.
    Number(LabelRange),
}

impl Codes {
    pub(super) fn new(label: &Label) -> Self {
        let number = |text: &str| super::encode::parse(text.as_bytes()).map(saturated);
        match &label.kind {
            LabelKind::Classes(classes) => Self::Classes {
                positive: number(&classes.positive),
                negative: number(classes.negative()),
                default: classes.default_code(),
            },
            LabelKind::Several(several) => Self::Several {
                values: several.values.iter().map(|value| number(value)).collect(),
                default: several.default_code(),
            },
            LabelKind::Number(range) => Self::Number(*range),
        }
    }

    pub(super) fn label(&self, value: f32) -> f32 {
        let same = Some(value);
        match self {
            Self::Classes { positive, .. } if same == *positive => 1.0,
            Self::Classes { negative, .. } if same == *negative => -1.0,
            Self::Classes { default, .. } => *default,
            Self::Several { values, default } => values
                .iter()
                .position(|known| *known == same)
                .map_or(*default, |code| code as f32),
            Self::Number(range) => range.encode(Some(f64::from(value))),
        }
    }

    /// Whether the label is a number that the range is for.
    fn clips(&self, value: f32) -> bool {
        matches!(self, Self::Number(_)) && value.is_finite()
    }

    /// Whether the schema foresees the label.
    fn knows(&self, value: f32) -> bool {
        let number = f64::from(value);
        let value = Some(value);
        match self {
            Self::Classes {
                positive, negative, ..
            } => value == *positive || value == *negative,
            Self::Several { values, .. } => values.contains(&value),
            Self::Number(range) => (range.min..=range.max).contains(&number),
        }
    }
}
