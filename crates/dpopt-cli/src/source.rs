//! Where the tables come from: files, or the sample in the binary.

use std::path::Path;

use dpopt::data::tabular::{ColumnKind, EncodedTable, Schema, TabularError, read_table_from};
use dpopt::oracle::{ExamplesOnDisk, PublicData};

use crate::error::CliError;
use crate::input::Input;
use crate::paths::same_file;

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
        })
    }

    /// Name of the training table.
    pub(crate) fn name(&self) -> String {
        match &self.data {
            Some(data) => data.name(),
            None => "built-in sample of Census-Income".to_owned(),
        }
    }

    /// The records to be protected.
    pub(crate) fn train(&self) -> Result<EncodedTable, CliError> {
        Ok(match &self.data {
            Some(data) => data
                .read(&self.schema)
                .map_err(|error| self.blame_label(error))?,
            None => read_table_from(TRAIN, "built-in sample", &self.schema)?,
        })
    }

    /// A column that the header lacks because --label asks for it.
    fn blame_label(&self, error: CliError) -> CliError {
        match error {
            CliError::Tabular(TabularError::MissingColumns { path, columns })
                if self.relabelled && columns.contains(&self.schema.label().column) =>
            {
                CliError::Label(TabularError::MissingColumns { path, columns })
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

    /// What public facts tell of labels that would all count as the default: the types of the columns, and the test set,
    /// whose owner declared it public. No record of the training table is looked at.
    pub(crate) fn label_warnings(&self) -> Result<Vec<String>, CliError> {
        let mut out = Vec::new();
        let Some(label) = self.schema.label().classes() else {
            return Ok(out);
        };
        if let Some(data) = &self.data
            && !data.can_hold_the_label(&self.schema)?
        {
            out.push(format!(
                "the type of the label of {} can't hold the schema's value {:?}, so every record counts as {:?}",
                data.name(),
                label.told_apart(),
                label.default
            ));
        }
        let Some(test) = &self.test else {
            return Ok(out);
        };
        let found = test.unknown_labels(&self.schema)?;
        if let Some(found) = found.filter(|found| found.unknown > 0) {
            let [first, second] = &label.values;
            let mut texts = found.texts;
            texts.sort();
            texts.dedup();
            let examples = if texts.is_empty() {
                String::new()
            } else {
                format!(
                    " (such as {})",
                    texts
                        .iter()
                        .take(3)
                        .map(|text| format!("{text:?}"))
                        .collect::<Vec<_>>()
                        .join(", ")
                )
            };
            out.push(format!(
                "{} of the {} labels of the test set {} are neither {first:?} nor {second:?}{examples} and count as {:?}; if the training \
                 table writes labels so as well, they are trained as {:?}",
                found.unknown,
                found.records,
                test.name(),
                label.default,
                label.default
            ));
        }
        Ok(out)
    }

    /// The test set, which whoever gives it declares public.
    pub(crate) fn test(&self) -> Result<Option<PublicData>, CliError> {
        let (table, name) = match (&self.test, &self.data) {
            (Some(test), _) => (test.read(&self.schema)?, test.name()),
            (None, None) => {
                let name = "built-in test sample";
                (read_table_from(TEST, name, &self.schema)?, name.to_owned())
            }
            (None, Some(_)) => return Ok(None),
        };
        if table.design.rows() == 0 {
            let problem = format!("{name} has no records");
            return Err(CliError::flag("--test", problem));
        }
        let test = PublicData::new(table.design, table.labels);
        Ok(Some(
            test.map_err(|source| CliError::Data { path: name, source })?,
        ))
    }
}

/// A label that a flag names has two values.
fn check_label(schema: &Schema, name: &str) -> Result<(), CliError> {
    let name = name.trim_ascii();
    if name.is_empty() {
        return Err(CliError::flag("--label", "the name of a column is needed"));
    }
    let mut columns = schema.columns().iter();
    let column = columns.find(|column| column.name == name);
    if column.is_some_and(|column| matches!(column.kind, ColumnKind::Number(_))) {
        let problem = format!(
            "{name} is a column of numbers, and a label that --label names has two values; say `kind = \"number\"` with a range in the \
             schema's [label], make it a category of two values, or name another column"
        );
        return Err(CliError::flag("--label", problem));
    }
    Ok(())
}
