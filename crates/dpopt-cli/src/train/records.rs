//! The records of a run, read from the table.

use dpopt::data::tabular::{EncodedTable, Groups};
use dpopt::oracle::{Cell, PrivateData};
use dpopt::privacy::{Adjacency, ClipNorm};

use crate::error::CliError;
use crate::ranks;
use crate::source::Source;

/// What the flags say of the records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) in_place: bool,
    pub(super) adjacency: Adjacency,
    pub(super) public_records: Option<u64>,
}

/// Reads the table with the cells of its records as labels. No message depends on what a record holds.
pub(super) fn grouped_data(
    how: Reading,
    source: &Source,
    groups: &Groups,
) -> Result<PrivateData, CliError> {
    let (mut table, of) = source.train_grouped(groups)?;
    for (label, group) in table.labels.iter_mut().zip(of) {
        let (positive, group) = (*label > 0.0, group as usize);
        *label = Cell { positive, group }.label();
    }
    in_memory(how, source, table, groups.count() as f64)
}

/// Reads the table. No message depends on what a record holds.
pub(super) fn private_data(how: Reading, source: &Source) -> Result<PrivateData, CliError> {
    let labels = source.schema.label().largest_code();
    if let Some(examples) = source.on_disk(how.in_place)? {
        let label_bound = ClipNorm::new(labels).map_err(dpopt::oracle::EstimatorError::from)?;
        let declared = ranks::declared_here(how.adjacency, how.public_records);
        let data = PrivateData::on_disk(examples, how.adjacency, declared);
        let data = data.map_err(|source_error| CliError::Data {
            path: source.name(),
            source: source_error,
        })?;
        return Ok(data.with_label_bound(label_bound));
    }
    in_memory(how, source, source.train()?, labels)
}

fn in_memory(
    how: Reading,
    source: &Source,
    table: EncodedTable,
    labels: f64,
) -> Result<PrivateData, CliError> {
    let label_bound = ClipNorm::new(labels).map_err(dpopt::oracle::EstimatorError::from)?;
    let problem = |problem| CliError::Data {
        path: source.name(),
        source: problem,
    };
    let row_norm = ClipNorm::new(table.row_norm).map_err(dpopt::oracle::EstimatorError::from)?;
    let data = PrivateData::new(
        table.design,
        table.labels,
        row_norm,
        how.adjacency,
        ranks::declared_here(how.adjacency, how.public_records),
    )
    .map_err(problem)?;
    Ok(data.with_label_bound(label_bound))
}
