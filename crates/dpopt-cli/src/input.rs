//! Files with records: their format, by flag or by name, and the four things done with them.

use std::fs::File;
use std::io::stdin;
use std::path::{Path, PathBuf};

use dpopt::data::formats::Format;
use dpopt::data::names::hint;
use dpopt::data::tabular::{
    ArrayFiles, CheckReport, EncodedTable, Groups, ProblemKind, Schema, TabularError, check,
    check_from, convert_table, convert_table_from, draft_schema, draft_schema_from, read_features,
    read_features_from, read_grouped, read_grouped_from, read_rows, read_table, read_table_from,
    schema_of_rows, visit_features, visit_features_from,
};
use dpopt::linalg::Design;
use dpopt::linalg::RowFile;
use dpopt::oracle::{EstimatorError, ExamplesOnDisk};
use dpopt::privacy::ClipNorm;

use crate::error::CliError;
use crate::paths::STDIN;

/// Standard input in messages.
const STDIN_NAME: &str = "standard input";

/// Rows of a table that are held together.
const BLOCK: usize = 4096;

/// Records in one file, or in two: rows and labels.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    labels: Option<PathBuf>,
    format: Format,
}

/// Labels that a schema does not foresee.
pub(crate) struct UnknownLabels {
    pub(crate) records: u64,
    /// Those that count as the default.
    pub(crate) unknown: u64,
    /// Numbers outside of the range, which are clipped.
    pub(crate) clipped: u64,
    /// A few of them, where they are texts.
    pub(crate) texts: Vec<String>,
}

/// The formats that are read.
pub(crate) fn format_names() -> Vec<String> {
    let read = |format: &&Format| cfg!(feature = "parquet") || **format != Format::Parquet;
    let names = Format::ALL.iter().filter(read);
    names.map(ToString::to_string).collect()
}

/// The format that a flag names.
pub(crate) fn format(name: &str) -> Result<Format, String> {
    let found = Format::ALL
        .into_iter()
        .find(|format| format.to_string() == name);
    found.ok_or_else(|| {
        let names = format_names();
        let meant = hint(name, names.iter().map(String::as_str));
        format!("known are {}{meant}", names.join(", "))
    })
}

impl Input {
    /// Checks what can be checked before a record is read. `flags` name the file of rows and that
    /// of labels in errors.
    pub(crate) fn new(
        path: &Path,
        labels: Option<&Path>,
        format: Option<Format>,
        flags: [&'static str; 2],
    ) -> Result<Self, CliError> {
        let [flag, labels_flag] = flags;
        if path == Path::new(STDIN) {
            return Self::stdin(flag, labels, format);
        }
        let format = format.unwrap_or_else(|| Format::of_name(path));
        match (format, labels) {
            (Format::Npy | Format::Idx, None) if !labels_flag.is_empty() => {
                let problem = format!(
                    "required for {}, which holds the rows alone",
                    path.display()
                );
                return Err(CliError::flag(labels_flag, problem));
            }
            (Format::Csv | Format::Libsvm | Format::Parquet | Format::Rows, Some(_)) => {
                let problem = format!(
                    "{} is read as {format}, with its own labels",
                    path.display()
                );
                return Err(CliError::flag(labels_flag, problem));
            }
            (Format::Parquet, None) if cfg!(not(feature = "parquet")) => {
                let problem = format!(
                    "{} is read as parquet, which this build leaves out (`cargo install --path \
                     crates/dpopt-cli --features parquet` makes one that reads it)",
                    path.display()
                );
                return Err(CliError::flag(flag, problem));
            }
            _ => {}
        }
        for path in [Some(path), labels].into_iter().flatten() {
            readable(path)?;
        }
        Ok(Self {
            path: path.to_owned(),
            labels: labels.map(Path::to_owned),
            format,
        })
    }

    /// A table on standard input: the only format that is read from the front to the end.
    fn stdin(
        flag: &'static str,
        labels: Option<&Path>,
        format: Option<Format>,
    ) -> Result<Self, CliError> {
        if let Some(format) = format.filter(|format| *format != Format::Csv) {
            let problem = format!("{format} needs a file; standard input is read as csv");
            return Err(CliError::flag(flag, problem));
        }
        if labels.is_some() {
            let problem = "a table on standard input has its own labels";
            return Err(CliError::flag("--labels", problem));
        }
        Ok(Self {
            path: Path::new(STDIN).to_owned(),
            labels: None,
            format: Format::Csv,
        })
    }

    /// The name in messages.
    pub(crate) fn name(&self) -> String {
        if self.is_stdin() {
            STDIN_NAME.to_owned()
        } else {
            self.path.display().to_string()
        }
    }

    fn is_stdin(&self) -> bool {
        self.path == Path::new(STDIN)
    }

    /// Rows and labels.
    pub(crate) fn read(&self, schema: &Schema) -> Result<EncodedTable, CliError> {
        Ok(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => dpopt::data::tabular::read_parquet(&self.path, schema)?,
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().read(schema)?,
            Format::Rows => {
                self.check_schema(schema)?;
                read_rows(&self.path)?
            }
            _ if self.is_stdin() => read_table_from(stdin(), STDIN_NAME, schema)?,
            _ => read_table(&self.path, schema)?,
        })
    }

    /// Rows, labels and groups, of a table of texts.
    pub(crate) fn read_grouped(
        &self,
        schema: &Schema,
        groups: &Groups,
    ) -> Result<(EncodedTable, Vec<u32>), CliError> {
        Ok(match self.format {
            Format::Csv if self.is_stdin() => {
                read_grouped_from(stdin(), STDIN_NAME, schema, groups)?
            }
            Format::Csv => read_grouped(&self.path, schema, groups)?,
            other => {
                let problem = format!(
                    "groups are read from CSV, and {} is read as {other}",
                    self.name()
                );
                return Err(CliError::flag("--group", problem));
            }
        })
    }

    /// Rows alone.
    pub(crate) fn features(&self, schema: &Schema) -> Result<Design, CliError> {
        Ok(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => dpopt::data::tabular::read_parquet_features(&self.path, schema)?,
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().read_features(schema)?,
            Format::Rows => {
                self.check_schema(schema)?;
                read_rows(&self.path)?.design
            }
            _ if self.is_stdin() => read_features_from(stdin(), STDIN_NAME, schema)?,
            _ => read_features(&self.path, schema)?,
        })
    }

    /// Rows in blocks, with the fields of each in the columns `kept`. Of a table of texts no more than a block is held.
    pub(crate) fn visit_features(
        &self,
        schema: &Schema,
        kept: &[String],
        mut visit: impl FnMut(&Design, &[Vec<Vec<u8>>]) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        if self.format != Format::Csv {
            if !kept.is_empty() {
                let problem = format!(
                    "columns are kept from CSV, and {} is read as {}",
                    self.name(),
                    self.format
                );
                return Err(CliError::flag("--keep", problem));
            }
            let design = self.features(schema)?;
            return visit(&design, &vec![Vec::new(); design.rows()]);
        }
        let empty = || Design::sparse(schema.dim()).map_err(TabularError::from);
        let mut block = empty()?;
        let mut fields = Vec::with_capacity(BLOCK);
        let one = |row: &[(u32, f32)], found: &[&[u8]]| {
            block.push_row(row).map_err(TabularError::from)?;
            fields.push(found.iter().map(|field| field.to_vec()).collect());
            if fields.len() == BLOCK {
                visit(&block, &fields)?;
                fields.clear();
                block = empty()?;
            }
            Ok::<(), CliError>(())
        };
        if self.is_stdin() {
            visit_features_from(stdin(), STDIN_NAME, schema, kept, one)?;
        } else {
            visit_features(&self.path, schema, kept, one)?;
        }
        visit(&block, &fields)
    }

    /// What the schema does not foresee. Not private.
    pub(crate) fn check(&self, schema: &Schema) -> Result<String, CliError> {
        Ok(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => dpopt::data::tabular::check_parquet(&self.path, schema)?.to_string(),
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().check(schema)?.to_string(),
            Format::Rows => return Err(self.converted()),
            _ if self.is_stdin() => check_from(stdin(), STDIN_NAME, schema)?.to_string(),
            _ => check(&self.path, schema)?.to_string(),
        })
    }

    /// Labels of these records that are neither value of the schema, or not in its range, and a few of them. Not private. None for a file of rows, whose
    /// labels are read already.
    pub(crate) fn unknown_labels(
        &self,
        schema: &Schema,
    ) -> Result<Option<UnknownLabels>, CliError> {
        let column = &schema.label().column;
        let kinds = [ProblemKind::UnknownLabel, ProblemKind::NotANumber];
        let count = |report: &CheckReport, kind| {
            let found = report.by_column.get(&(kind, column.clone()));
            found.copied().unwrap_or(0)
        };
        let of_table = |report: CheckReport| UnknownLabels {
            records: report.records,
            unknown: kinds.iter().map(|kind| count(&report, *kind)).sum(),
            clipped: count(&report, ProblemKind::OutOfRange),
            texts: report
                .listed
                .into_iter()
                .filter(|problem| kinds.contains(&problem.kind))
                .filter(|problem| problem.column.as_ref() == Some(column))
                .map(|problem| problem.text)
                .collect(),
        };
        Ok(Some(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => of_table(dpopt::data::tabular::check_parquet(&self.path, schema)?),
            Format::Npy | Format::Idx | Format::Libsvm => {
                let report = self.arrays().check(schema)?;
                UnknownLabels {
                    records: report.records,
                    unknown: report.unknown_labels,
                    clipped: report.clipped_labels,
                    texts: Vec::new(),
                }
            }
            Format::Rows => return Ok(None),
            _ => of_table(check(&self.path, schema)?),
        }))
    }

    /// Whether the labels of an array can be the values that the schema tells apart from its
    /// default. Reads no record. Types of tables that can't are refused by their readers.
    pub(crate) fn can_hold_the_label(&self, schema: &Schema) -> bool {
        match self.format {
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().can_hold_the_label(schema),
            _ => true,
        }
    }

    /// A first schema. Not private.
    pub(crate) fn draft(&self, label: Option<&str>) -> Result<String, CliError> {
        let draft = match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => dpopt::data::tabular::draft_parquet(&self.path, label),
            Format::Npy | Format::Idx | Format::Libsvm if label.is_some() => {
                let problem = format!(
                    "{} files have no columns with names, and labels of their own",
                    self.format
                );
                return Err(CliError::flag("--label", problem));
            }
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().draft(),
            Format::Rows => return Err(self.converted()),
            _ if self.is_stdin() => draft_schema_from(stdin(), STDIN_NAME, label),
            _ => draft_schema(&self.path, label),
        };
        draft.map_err(|error| match &error {
            TabularError::NoColumn {
                column, columns, ..
            } => {
                let meant = hint(column, columns.iter().map(String::as_str));
                CliError::flag("--label", format!("{error}{meant}"))
            }
            TabularError::LabelUnfit { .. } => CliError::flag("--label", error.to_string()),
            _ => error.into(),
        })
    }

    /// Writes a file of rows.
    pub(crate) fn convert(&self, schema: &Schema, out: &Path) -> Result<(), CliError> {
        match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                dpopt::data::tabular::convert_parquet(&self.path, schema, out)?;
            }
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().convert(schema, out)?,
            Format::Rows => return Err(self.converted()),
            _ if self.is_stdin() => convert_table_from(stdin(), STDIN_NAME, schema, out)?,
            _ => convert_table(&self.path, schema, out)?,
        }
        Ok(())
    }

    /// Rows and labels that stay in their file, where the format is one for it or `in_place` asks for it.
    pub(crate) fn on_disk(
        &self,
        schema: &Schema,
        in_place: bool,
    ) -> Result<Option<ExamplesOnDisk>, CliError> {
        let row_norm = || ClipNorm::new(schema.row_norm()).map_err(EstimatorError::from);
        match self.format {
            Format::Rows => {
                self.check_schema(schema)?;
                let rows = RowFile::open(&self.path).map_err(TabularError::from)?;
                Ok(Some(ExamplesOnDisk::new(rows, row_norm()?)))
            }
            _ if !in_place => Ok(None),
            Format::Npy | Format::Idx => {
                let (rows, labels) = self.arrays().in_place(schema)?;
                let examples = ExamplesOnDisk::in_place(rows, labels, row_norm()?);
                Ok(Some(examples.map_err(|source| CliError::Data {
                    path: self.path.display().to_string(),
                    source,
                })?))
            }
            _ => {
                let problem = format!(
                    "{} is read as {}, whose rows can't stay where they are (`dpopt convert` makes a file of rows of it)",
                    self.name(),
                    self.format
                );
                Err(CliError::flag("--in-place", problem))
            }
        }
    }

    /// Whether it is a file of rows, which are never all in memory.
    pub(crate) fn is_a_file_of_rows(&self) -> bool {
        self.format == Format::Rows
    }

    /// The schema that goes with the rows, for a file of rows.
    pub(crate) fn own_schema(&self) -> Result<Option<Schema>, CliError> {
        if self.format != Format::Rows {
            return Ok(None);
        }
        let file = RowFile::open(&self.path).map_err(TabularError::from)?;
        Ok(Some(schema_of_rows(&file)?))
    }

    /// Rows that were made with one schema can't be read with another.
    fn check_schema(&self, schema: &Schema) -> Result<(), CliError> {
        match self.own_schema()? {
            Some(own) if !own.encodes_as(schema) => Err(CliError::Content {
                path: self.path.clone(),
                problem: "its rows were made with another schema or label than is asked for; convert the records again"
                    .to_owned(),
            }),
            _ => Ok(()),
        }
    }

    fn converted(&self) -> CliError {
        CliError::Content {
            path: self.path.clone(),
            problem: "a file of rows holds features and no records as they were; use the file that it was made from"
                .to_owned(),
        }
    }

    fn arrays(&self) -> ArrayFiles {
        ArrayFiles {
            format: self.format,
            rows: self.path.clone(),
            labels: self.labels.clone(),
        }
    }
}

/// Fails now rather than after the budget is open.
fn readable(path: &Path) -> Result<(), CliError> {
    let read = |source| CliError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(read)?;
    if file.metadata().map_err(read)?.is_dir() {
        return Err(read(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(())
}
