//! Census-Income, read by its public schema.

use dpopt::data::tabular::{EncodedTable, Schema, read_table};
use dpopt::linalg::Design;
use dpopt::oracle::{PrivateData, PublicData};
use dpopt::privacy::{Adjacency, ClipNorm};

use crate::Failure;
use crate::options::Options;

/// Records of a quick run.
const FEW: usize = 20_000;

/// The training part, as records to be protected and as public ones, and the test part.
pub(crate) struct Census {
    pub(crate) private: PrivateData,
    /// The training part again, for the exact gradient.
    pub(crate) public: PublicData,
    pub(crate) test: PublicData,
}

impl Census {
    pub(crate) fn read(options: &Options) -> Result<Self, Failure> {
        let schema = Schema::load(&options.schema)?;
        let read = |name: &str| -> Result<EncodedTable, Failure> {
            let table = read_table(options.folder.join(name), &schema)?;
            Ok(if options.quick {
                head(table, FEW)?
            } else {
                table
            })
        };
        let (train, test) = (read("train.csv.gz")?, read("test.csv.gz")?);
        let private = PrivateData::made_up(
            train.design.clone(),
            train.labels.clone(),
            ClipNorm::new(train.row_norm)?,
            Adjacency::ReplaceOne,
            None,
        )?
        .with_label_bound(ClipNorm::new(1.0)?);
        Ok(Self {
            private,
            public: PublicData::new(train.design, train.labels)?,
            test: PublicData::new(test.design, test.labels)?,
        })
    }
}

/// The first rows of a table.
fn head(mut table: EncodedTable, rows: usize) -> Result<EncodedTable, Failure> {
    let mut design = Design::sparse(table.design.columns())?;
    table.labels.truncate(rows);
    for i in 0..table.labels.len() {
        let mut row = Vec::new();
        table.design.row(i).for_each(|j, x| {
            if x != 0.0 {
                row.push((j as u32, x as f32));
            }
        });
        design.push_row(&row)?;
    }
    table.design = design;
    Ok(table)
}
