//! Where the tables come from: files, or the sample in the binary.

use std::path::Path;

use dpopt::data::tabular::{
    ColumnKind, EncodedTable, Groups, Schema, TabularError, read_grouped_from, read_table_from,
    ten_of,
};
use dpopt::oracle::{ExamplesOnDisk, PublicData};

use crate::error::CliError;
use crate::input::Input;
use crate::paths::same_file;
use crate::ranks;

const TRAIN: &[u8] = include_bytes!("../data/census-income-sample.csv.gz");
const TEST: &[u8] = include_bytes!("../data/census-income-sample-test.csv.gz");
const SCHEMA: &str = include_str!("../data/census-income.toml");

/// What `train` reads.
pub(crate) struct Source {
    /// None: the built-in sample.
    data: Option<Input>,
    test: Option<Input>,
    pub(crate) schema: Schema,
    /// Whether --label was given.
    relabelled: bool,
    /// What stands for the files of all ranks.
    named: Option<String>,
}

impl Source {
    /// Checks the public side: flags, the schema, and that the files can be opened.
    pub(crate) fn check(
        data: Option<Input>,
        schema: Option<&Path>,
        test: Option<Input>,
        label: Option<&str>,
        positive: Option<&str>,
    ) -> Result<Self, CliError> {
        let schema = match (&data, schema) {
            (Some(_), Some(path)) => Schema::load(path)?,
            (None, None) => Schema::from_toml(SCHEMA, "built-in schema")?,
            (Some(data), None) => match data.own_schema()? {
                Some(schema) => schema,
                None => {
                    let problem =
                        "a table needs a public schema (`dpopt schema FILE.csv` drafts one)";
                    return Err(CliError::flag("--schema", problem));
                }
            },
            (None, Some(_)) => {
                let problem = "missing; a schema of one's own needs a table of one's own";
                return Err(CliError::flag("--data", problem));
            }
        };
        if let Some(name) = label {
            check_label(&schema, name)?;
        }
        let schema = schema
            .with_label(label, positive)
            .map_err(CliError::Label)?;
        if let (Some(data), Some(test)) = (&data, &test)
            && same_file(&data.path, &test.path)
        {
            let problem = "this is the table to be protected; a test set is evaluated without \
                           protection";
            return Err(CliError::flag("--test", problem));
        }
        Ok(Self {
            data,
            test,
            schema,
            relabelled: label.is_some(),
            named: None,
        })
    }

    /// Whether the records stay in their file; `in_place`: whether that was asked for.
    pub(crate) fn stays_in_a_file(&self, in_place: bool) -> bool {
        in_place || self.data.as_ref().is_some_and(Input::is_a_file_of_rows)
    }

    /// The files of all ranks have this name together.
    pub(crate) fn named(self, path: Option<&Path>) -> Self {
        let path = path.filter(|_| ranks::own().is_some());
        Self {
            named: path.map(|path| path.display().to_string()),
            ..self
        }
    }

    /// Name of the training table.
    pub(crate) fn name(&self) -> String {
        match &self.data {
            Some(_) if self.named.is_some() => self.named.clone().unwrap_or_default(),
            Some(data) => data.name(),
            None => "built-in sample of Census-Income".to_owned(),
        }
    }

    /// The records to be protected.
    pub(crate) fn train(&self) -> Result<EncodedTable, CliError> {
        self.train_as(&self.schema)
    }

    /// As [`Source::train`], by another schema of the same table.
    pub(crate) fn train_as(&self, schema: &Schema) -> Result<EncodedTable, CliError> {
        Ok(match &self.data {
            Some(data) => data.read(schema).map_err(|error| self.blame_label(error))?,
            None => read_table_from(TRAIN, "built-in sample", schema)?,
        })
    }

    /// As [`Source::train`], with the group of each record.
    pub(crate) fn train_grouped(
        &self,
        groups: &Groups,
    ) -> Result<(EncodedTable, Vec<u32>), CliError> {
        Ok(match &self.data {
            Some(data) => data
                .read_grouped(&self.schema, groups)
                .map_err(|error| self.blame_label(error))?,
            None => read_grouped_from(TRAIN, "built-in sample", &self.schema, groups)?,
        })
    }

    /// A column that the header lacks because --label asks for it.
    fn blame_label(&self, error: CliError) -> CliError {
        match error {
            CliError::Tabular(error @ TabularError::MissingColumns { .. })
                if self.relabelled && lacks(&error, &self.schema.label().column) =>
            {
                CliError::Label(error)
            }
            other => other,
        }
    }

    /// The records to be protected, where they stay in their file.
    pub(crate) fn on_disk(&self, in_place: bool) -> Result<Option<ExamplesOnDisk>, CliError> {
        match &self.data {
            Some(data) => data.on_disk(&self.schema, in_place),
            None => Ok(None),
        }
    }

    /// Warnings about labels that would count as another, and a note about labels that are clipped as the schema says: from the types of
    /// the columns, and from the test set, whose owner declared it public. No record of the training table is looked at.
    pub(crate) fn label_warnings(&self) -> Result<(Vec<String>, Option<String>), CliError> {
        let mut out = Vec::new();
        let label = self.schema.label();
        if let Some(data) = &self.data
            && !data.can_hold_the_label(&self.schema)
        {
            let name = data.name();
            let apart: Vec<String> = label.told_apart().map(|v| format!("{v:?}")).collect();
            let default = label.default_value().unwrap_or_default();
            out.push(match label.several() {
                None => format!(
                    "the type of the label of {name} can't hold the schema's value {}, so every record counts as {default:?}",
                    apart.concat()
                ),
                Some(_) => format!(
                    "the type of the label of {name} can't hold each of the schema's values {}: no record is of those that it can't, and \
                     what is none of the others counts as {default:?}",
                    ten_of(&apart)
                ),
            });
        }
        let Some(test) = &self.test else {
            return Ok((out, None));
        };
        let Some(mut found) = test.unknown_labels(&self.schema)? else {
            return Ok((out, None));
        };
        let (records, unknown, name) = (found.records, found.unknown, test.name());
        let of_test =
            |count: u64| format!("{count} of the {records} labels of the test set {name}");
        let clipped = label.range().filter(|_| found.clipped > 0).map(|range| {
            format!(
                "{} are outside of the range from {} to {} and are clipped to it, as those of the training table are",
                of_test(found.clipped),
                range.min,
                range.max
            )
        });
        if unknown > 0 {
            found.texts.sort();
            found.texts.dedup();
            let texts = found.texts.iter().take(3).map(|text| format!("{text:?}"));
            let texts = texts.collect::<Vec<_>>().join(", ");
            let examples = if texts.is_empty() {
                String::new()
            } else {
                format!(" (such as {texts})")
            };
            let labels = of_test(unknown);
            out.push(match label.range() {
                Some(range) => format!(
                    "{labels} are not numbers{examples} and count as {}; if the training table has labels so as well, they are trained so",
                    range.default
                ),
                None => {
                    let values = match label.values() {
                        [first, second] => format!("neither {first:?} nor {second:?}"),
                        all => format!("none of the {} values of the schema", all.len()),
                    };
                    let default = label.default_value().unwrap_or_default();
                    format!(
                        "{labels} are {values}{examples} and count as {default:?}; if the training table writes labels so as well, they are \
                         trained as {default:?}"
                    )
                }
            });
        }
        Ok((out, clipped))
    }

    /// The test set, which whoever gives it declares public, and the groups of its records where there are any.
    pub(crate) fn test(
        &self,
        groups: Option<&Groups>,
    ) -> Result<Option<(PublicData, Vec<u32>)>, CliError> {
        let (table, of, name) = match (&self.test, &self.data) {
            (Some(test), _) => {
                let (table, of) = match groups {
                    Some(groups) => test.read_grouped(&self.schema, groups)?,
                    None => (test.read(&self.schema)?, Vec::new()),
                };
                (table, of, test.name())
            }
            (None, None) => {
                let name = "built-in test sample";
                let (table, of) = match groups {
                    Some(groups) => read_grouped_from(TEST, name, &self.schema, groups)?,
                    None => (read_table_from(TEST, name, &self.schema)?, Vec::new()),
                };
                (table, of, name.to_owned())
            }
            (None, Some(_)) => return Ok(None),
        };
        if table.design.rows() == 0 {
            let problem = format!("{name} has no records");
            return Err(CliError::flag("--test", problem));
        }
        let test = PublicData::new(table.design, table.labels);
        let test = test.map_err(|source| CliError::Data { path: name, source })?;
        Ok(Some((test, of)))
    }
}

/// Whether this column is what a header lacks.
fn lacks(error: &TabularError, column: &str) -> bool {
    matches!(error, TabularError::MissingColumns { columns, .. } if columns.iter().any(|name| name == column))
}

/// A label that a flag names is a category, or a column without features.
fn check_label(schema: &Schema, name: &str) -> Result<(), CliError> {
    let name = name.trim_ascii();
    if name.is_empty() {
        return Err(CliError::flag("--label", "the name of a column is needed"));
    }
    let mut columns = schema.columns().iter();
    let column = columns.find(|column| column.name == name);
    let number = |kind: &ColumnKind| matches!(kind, ColumnKind::Number(_) | ColumnKind::Date(_));
    if column.is_some_and(|column| number(&column.kind)) {
        let problem = format!(
            "{name} is a column of numbers that the schema makes features of, with a range for them and none for a label; describe it as \
             `kind = \"number\"` in the schema's [label], make it a category of two values or more, or name another column"
        );
        return Err(CliError::flag("--label", problem));
    }
    Ok(())
}
