//! Census-Income for the tables of `cargo xtask bench`: its two files read by a public schema, and the options that the tables share.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use dpopt::data::tabular::{EncodedTable, Schema, read_table};
use dpopt::linalg::Design;
use serde_json::Value;

/// An error of any kind.
pub type Failure = Box<dyn std::error::Error>;

/// Records of a quick run.
const FEW: usize = 20_000;

/// Options of every table.
pub struct Options {
    /// Folder with `train.csv.gz` and `test.csv.gz`.
    pub folder: PathBuf,
    /// The public schema.
    pub schema: PathBuf,
    /// The first 20,000 records, and little else.
    pub quick: bool,
    /// Processors to use.
    pub threads: NonZeroUsize,
    /// The budgets.
    pub epsilons: Vec<f64>,
    /// Names of solvers; all without any.
    pub only: Vec<String>,
    /// Where the rows go as JSON.
    pub json: Option<PathBuf>,
}

impl Options {
    /// Reads `DIR SCHEMA [--quick] [--threads N] [--epsilon E]... [--only SOLVER]... [--json FILE]`. Other options are given to `own` with
    /// what takes their values; it says whether it knows them.
    ///
    /// # Errors
    /// Words that nobody knows, and values that can't be read.
    pub fn read(
        words: &[String],
        mut own: impl FnMut(&str, &mut dyn FnMut() -> Result<String, Failure>) -> Result<bool, Failure>,
    ) -> Result<Self, Failure> {
        let mut places = Vec::new();
        let mut options = Self {
            folder: PathBuf::new(),
            schema: PathBuf::new(),
            quick: false,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            epsilons: Vec::new(),
            only: Vec::new(),
            json: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || -> Result<String, Failure> {
                Ok(words
                    .next()
                    .ok_or(format!("{word} needs a value"))?
                    .to_owned())
            };
            match word.as_str() {
                "--quick" => options.quick = true,
                "--threads" => options.threads = value()?.parse()?,
                "--epsilon" => options.epsilons.push(value()?.parse()?),
                "--only" => options.only.push(value()?),
                "--json" => options.json = Some(value()?.into()),
                other if other.starts_with("--") => {
                    if !own(other, &mut value)? {
                        return Err(format!("no option `{other}`").into());
                    }
                }
                place => places.push(place.to_owned()),
            }
        }
        let [folder, schema] = places.as_slice() else {
            return Err(
                "a folder with train.csv.gz and test.csv.gz, and a schema are needed".into(),
            );
        };
        (options.folder, options.schema) = (folder.into(), schema.into());
        if options.epsilons.is_empty() {
            let all: &[f64] = if options.quick {
                &[1.0]
            } else {
                &[0.5, 1.0, 3.0]
            };
            options.epsilons = all.to_vec();
        }
        Ok(options)
    }

    /// The schema.
    ///
    /// # Errors
    /// A schema that can't be read.
    pub fn schema(&self) -> Result<Schema, Failure> {
        Ok(Schema::load(&self.schema)?)
    }

    /// The training part and the test part by a schema, in a quick run the first 20,000 rows of each.
    ///
    /// # Errors
    /// Files that can't be read.
    pub fn tables(&self, schema: &Schema) -> Result<[EncodedTable; 2], Failure> {
        let read = |name: &str| -> Result<EncodedTable, Failure> {
            let table = read_table(self.folder.join(name), schema)?;
            if self.quick { head(table) } else { Ok(table) }
        };
        Ok([read("train.csv.gz")?, read("test.csv.gz")?])
    }

    /// Writes the rows where they were asked for.
    ///
    /// # Errors
    /// A file that can't be written.
    pub fn write(&self, rows: Vec<Value>) -> Result<(), Failure> {
        if let Some(file) = &self.json {
            std::fs::write(file, format!("{:#}\n", Value::Array(rows)))?;
        }
        Ok(())
    }
}

/// The entries of a row that are not 0.
#[must_use]
pub fn entries(design: &Design, row: usize) -> Vec<(u32, f32)> {
    let mut entries = Vec::new();
    design.row(row).for_each(|j, x| {
        if x != 0.0 {
            entries.push((j as u32, x as f32));
        }
    });
    entries
}

/// The first rows of a table.
fn head(mut table: EncodedTable) -> Result<EncodedTable, Failure> {
    let mut design = Design::sparse(table.design.columns())?;
    table.labels.truncate(FEW);
    for i in 0..table.labels.len() {
        design.push_row(&entries(&table.design, i))?;
    }
    table.design = design;
    Ok(table)
}

/// A number from words (FNV-1a).
#[must_use]
pub fn seed(words: &str) -> u64 {
    words
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}
