//! Census-Income, read by its public schema.

use dpopt::oracle::{PrivateData, PublicData};
use dpopt::privacy::{Adjacency, ClipNorm};
use dpopt_benches::census::Failure;

use crate::options::Options;

/// The training part, as records to be protected and as public ones, and the test part.
pub(crate) struct Census {
    pub(crate) private: PrivateData,
    /// The training part again, for the exact gradient.
    pub(crate) public: PublicData,
    pub(crate) test: PublicData,
}

impl Census {
    pub(crate) fn read(options: &Options) -> Result<Self, Failure> {
        let [train, test] = options.common.tables(&options.common.schema()?)?;
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
