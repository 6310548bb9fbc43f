//! `dpopt check`: lines of a table that a schema does not foresee. Not private.

use std::path::PathBuf;

use clap::Args;
use dpopt::data::formats::Format;
use dpopt::data::tabular::{Groups, Schema};

use crate::error::CliError;
use crate::input::{self, Input};
use crate::summary::print;
use crate::tell::warn;

/// Flags of `dpopt check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[cfg_attr(
        feature = "parquet",
        doc = "Records to read: CSV, Parquet, NPY, IDX or LIBSVM"
    )]
    #[cfg_attr(
        not(feature = "parquet"),
        doc = "Records to read: CSV, NPY, IDX or LIBSVM"
    )]
    file: PathBuf,
    /// Format of the records; default: by the file's name
    #[arg(long, value_name = "FORMAT", value_parser = input::format)]
    format: Option<Format>,
    /// Labels of the records, where they are in a file of their own (NPY, IDX)
    #[arg(long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Schema to compare it with
    #[arg(long, value_name = "FILE")]
    schema: PathBuf,
    /// Columns that make groups, as in `dpopt train`: counts the records of each class of each group, and names those that are empty or
    /// tiny
    #[arg(long, value_name = "COL", value_delimiter = ',')]
    group: Vec<String>,
}

/// Fewer records than that are tiny: of so few no rate is known to a tenth, and at n = 200,000 and epsilon 1 a release does not tell a
/// count from none.
const TINY: usize = 100;

pub(crate) fn run(args: &CheckArgs) -> Result<(), CliError> {
    let schema = Schema::load(&args.schema)?;
    let labels = args.labels.as_deref();
    let input = Input::new(&args.file, labels, args.format, ["FILE", "--labels"])?;
    let report = input.check(&schema)?;
    let groups = match &args.group[..] {
        [] => String::new(),
        names => in_groups(&input, &schema, names)?,
    };
    warn("this report shows what the records hold; it is not private");
    print(&format!("{report}{groups}"))
}

/// How many records each class of each group has.
fn in_groups(input: &Input, schema: &Schema, names: &[String]) -> Result<String, CliError> {
    let problem =
        |error: dpopt::data::tabular::TabularError| CliError::flag("--group", error.to_string());
    let groups = Groups::new(schema, names).map_err(problem)?;
    let (table, of) = input.read_grouped(schema, &groups)?;
    let classes = schema.label().classes().is_some();
    let mut counts = vec![[0usize; 2]; groups.count()];
    for (group, label) in of.iter().zip(&table.labels) {
        let positive = classes && *label > 0.0;
        counts[*group as usize][usize::from(positive)] += 1;
    }
    let mut lines = String::from("records by group\n");
    for (group, pair) in counts.iter().enumerate() {
        for positive in [false, true] {
            if positive && !classes {
                continue;
            }
            let count = pair[usize::from(positive)];
            let name = groups.name(group, classes.then_some(positive));
            // Nobody is expected to be in it.
            if count == 0 && name.contains("(other)") {
                continue;
            }
            let size = match count {
                0 => ": empty",
                1..TINY => ": tiny",
                _ => "",
            };
            lines += &format!("  {name}: {count}{size}\n");
        }
    }
    Ok(lines)
}
