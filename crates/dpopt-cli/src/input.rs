//! Files with records: their format, by flag or by name, and the four things done with them.

use std::path::{Path, PathBuf};

use dpopt::linalg::Design;
use dpopt::oracle::formats::Format;
use dpopt::oracle::tabular::{
    ArrayFiles, EncodedTable, Schema, check, draft_schema, read_features, read_table,
};

use crate::error::CliError;
use crate::source::readable;

/// Records in one file, or in two: rows and labels.
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    labels: Option<PathBuf>,
    format: Format,
}

/// The format that a flag names.
pub(crate) fn format(name: &str) -> Result<Format, String> {
    let found = Format::ALL
        .into_iter()
        .find(|format| format.to_string() == name);
    found.ok_or_else(|| {
        let names = Format::ALL.map(|format| format.to_string());
        format!("known are {}", names.join(", "))
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
        let format = format.unwrap_or_else(|| Format::of_name(path));
        let [_, labels_flag] = flags;
        match (format, labels) {
            (Format::Npy | Format::Idx, None) if !labels_flag.is_empty() => {
                let problem = format!(
                    "required for {}, which holds the rows alone",
                    path.display()
                );
                return Err(CliError::flag(labels_flag, problem));
            }
            (Format::Csv | Format::Libsvm | Format::Parquet, Some(_)) => {
                let problem = format!(
                    "{} is read as {format}, with its own labels",
                    path.display()
                );
                return Err(CliError::flag(labels_flag, problem));
            }
            (Format::Parquet, None) if cfg!(not(feature = "parquet")) => {
                let problem = format!(
                    "{} is read as parquet, which this build leaves out (build it with `--features \
                     parquet`)",
                    path.display()
                );
                return Err(CliError::flag("--format", problem));
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

    /// Rows and labels.
    pub(crate) fn read(&self, schema: &Schema) -> Result<EncodedTable, CliError> {
        Ok(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => dpopt::oracle::tabular::read_parquet(&self.path, schema)?,
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().read(schema)?,
            _ => read_table(&self.path, schema)?,
        })
    }

    /// Rows alone.
    pub(crate) fn features(&self, schema: &Schema) -> Result<Design, CliError> {
        Ok(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => dpopt::oracle::tabular::read_parquet_features(&self.path, schema)?,
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().read_features(schema)?,
            _ => read_features(&self.path, schema)?,
        })
    }

    /// What the schema does not foresee. Not private.
    pub(crate) fn check(&self, schema: &Schema) -> Result<String, CliError> {
        Ok(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                dpopt::oracle::tabular::check_parquet(&self.path, schema)?.to_string()
            }
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().check(schema)?.to_string(),
            _ => check(&self.path, schema)?.to_string(),
        })
    }

    /// A first schema. Not private.
    pub(crate) fn draft(&self) -> Result<String, CliError> {
        Ok(match self.format {
            #[cfg(feature = "parquet")]
            Format::Parquet => dpopt::oracle::tabular::draft_parquet(&self.path)?,
            Format::Npy | Format::Idx | Format::Libsvm => self.arrays().draft()?,
            _ => draft_schema(&self.path)?,
        })
    }

    fn arrays(&self) -> ArrayFiles {
        ArrayFiles {
            format: self.format,
            rows: self.path.clone(),
            labels: self.labels.clone(),
        }
    }
}
