//! Private data: records go in and do not come out.

mod joined;
mod set_aside;

use std::sync::atomic::{AtomicBool, Ordering};

use dpopt_linalg::{Design, JlMap};
use dpopt_privacy::{
    Adjacency, ClipNorm, Curator, MAX_RECORDS, Mode, Numbering, Part, PublicOrder, Refused,
};

use crate::data_error::DataError;
use crate::disk::{ExamplesOnDisk, Stored};
use crate::records::{Examples, Records, Reorder};
use crate::seeded;
use crate::shard::Shard;

/// Records under protection.
///
/// # Privacy
/// There is no accessor for a record, a row count under add/remove, or a statistic; only the
/// estimators of this crate use them, through lattice sums that a **protected** curator releases. The adjacency is fixed here.
///
/// A simulated curator, or one that replays for an audit, has noise that anybody can subtract. It is refused on these
/// records ([`Refused::NotMadeUp`]) unless their owner said, when the data were made, that they are nobody's:
/// [`PrivateData::made_up`], [`PrivateData::made_up_of`], [`PrivateData::made_up_on_disk`]. Who has no more than a reference can't
/// say so: it is a matter of the constructor, a projection inherits it, and nothing clones. A release asks the curator at hand, so that it does not help to
/// exchange the curator of an estimator.
///
/// What no type enforces: a loss, a query or a kind of records of one's own is code that is called with the records. That it computes functions
/// of one record each and keeps nothing is its author's promise. And a reference is the right to spend: who has one can make a protected curator, reserve
/// any epsilon without a ledger, and state it. See `docs/privacy/curator.md`.
///
/// ```compile_fail
/// fn peek(data: &dpopt_oracle::PrivateData) { println!("{data:?}"); }
/// ```
///
/// ```compile_fail
/// fn copy(data: &dpopt_oracle::PrivateData) -> dpopt_oracle::PrivateData { data.clone() }
/// ```
pub struct PrivateData<R = Examples> {
    /// All records; for those that are stored elsewhere none of them, and what is public of all.
    records: R,
    stored: Option<Box<dyn Stored<R>>>,
    adjacency: Adjacency,
    public_records: u64,
    /// Whether their owner declared that they need no protection. Never set after construction.
    made_up: bool,
    /// Where positions are not those that the records came with.
    order: Option<PublicOrder>,
    /// Where they are one of two parts of a table.
    part: Option<Part>,
    /// Whether an estimator was made, whose curator may have handed out slices: then no order is drawn any more.
    asked: AtomicBool,
    /// Where they are a part of those of several ranks.
    shard: Option<Shard>,
}

impl PrivateData {
    /// Takes ownership of rows of features with their labels. Each row is rescaled to the public
    /// bound; a row or label that is not finite becomes a row of zeros, which contributes nothing
    /// to any query.
    ///
    /// # Shapes
    /// `design`: (n, d); `labels`: n.
    ///
    /// # Privacy
    /// `public_records` is the size that planners, normalisers and reports use. Under add/remove
    /// it must be declared and need not be the number of rows (which is private); otherwise it is
    /// the number of rows and may be left out.
    ///
    /// # Errors
    /// [`DataError`].
    pub fn new(
        design: Design,
        labels: Vec<f32>,
        row_norm: ClipNorm,
        adjacency: Adjacency,
        public_records: Option<u64>,
    ) -> Result<Self, DataError> {
        let public = public_size(design.rows(), labels.len(), adjacency, public_records)?;
        let examples = Examples::new(design, labels, row_norm)?;
        Ok(Self {
            records: examples,
            stored: None,
            adjacency,
            public_records: public,
            made_up: false,
            order: None,
            part: None,
            asked: AtomicBool::new(false),
            shard: None,
        })
    }

    /// As [`PrivateData::new`], and declares that these records need no protection: they are made up, or public. Curators whose noise
    /// can be repeated are let at them.
    ///
    /// ```
    /// use dpopt_linalg::Design;
    /// use dpopt_oracle::{EstimatorError, Glm, PrivateData, PrivateMean};
    /// use dpopt_privacy::{Adjacency, ClipNorm, Curator, Refused};
    ///
    /// let design = || Design::dense(2, vec![0.6, 0.8, 0.0, 1.0]);
    /// let (labels, norm) = (vec![1.0, -1.0], ClipNorm::new(1.0)?);
    /// let adjacency = Adjacency::ReplaceOne;
    /// let simulated = || Curator::simulated(adjacency, 1);
    ///
    /// let secret = PrivateData::new(design()?, labels.clone(), norm, adjacency, None)?;
    /// let refused = PrivateMean::new(&secret, Glm::Logistic, simulated()).err();
    /// assert!(matches!(refused, Some(EstimatorError::Refused(Refused::NotMadeUp { .. }))));
    ///
    /// let nobodys = PrivateData::made_up(design()?, labels, norm, adjacency, None)?;
    /// assert!(PrivateMean::new(&nobodys, Glm::Logistic, simulated()).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Privacy
    /// None is promised for these records, except by a protected curator.
    ///
    /// # Errors
    /// [`DataError`].
    pub fn made_up(
        design: Design,
        labels: Vec<f32>,
        row_norm: ClipNorm,
        adjacency: Adjacency,
        public_records: Option<u64>,
    ) -> Result<Self, DataError> {
        let data = Self::new(design, labels, row_norm, adjacency, public_records)?;
        Ok(data.declared_made_up())
    }

    /// Protects examples that stay in their file. Estimators release the same as for the same examples in memory: the
    /// sums of records are equal to the bit. (Not so gradients of an [`crate::Mlp`] where positions are fixed: those are added
    /// in single precision in memory, and in double precision here.)
    ///
    /// # Privacy
    /// As for [`PrivateData::new`]. A pass that can't read the file is refused, and nothing is released or charged. See the
    /// section on records in a file in `docs/privacy/estimator.md` for what is outside of the guarantee: who watches or
    /// writes to the storage.
    ///
    /// # Errors
    /// [`DataError`].
    pub fn on_disk(
        examples: ExamplesOnDisk,
        adjacency: Adjacency,
        public_records: Option<u64>,
    ) -> Result<Self, DataError> {
        let rows = examples.len();
        let public_records = public_size(rows, rows, adjacency, public_records)?;
        Ok(Self {
            records: examples.face(),
            stored: Some(examples.stored()),
            adjacency,
            public_records,
            made_up: false,
            order: None,
            part: None,
            asked: AtomicBool::new(false),
            shard: None,
        })
    }

    /// As [`PrivateData::on_disk`], for records that need no protection: see [`PrivateData::made_up`].
    ///
    /// # Errors
    /// [`DataError`].
    pub fn made_up_on_disk(
        examples: ExamplesOnDisk,
        adjacency: Adjacency,
        public_records: Option<u64>,
    ) -> Result<Self, DataError> {
        Ok(Self::on_disk(examples, adjacency, public_records)?.declared_made_up())
    }

    /// Clamps every label to `[-bound, bound]`, so that losses of residuals have a public bound on
    /// their gap (see [`crate::Glm::constants_within`]).
    ///
    /// # Privacy
    /// What is done to one label does not depend on another record. The bound must be public.
    #[must_use]
    pub fn with_label_bound(mut self, bound: ClipNorm) -> Self {
        self.records.bound_labels(bound);
        self
    }

    /// The public bound on labels, if one was set.
    #[must_use]
    pub fn label_bound(&self) -> Option<f64> {
        self.records.label_bound()
    }

    /// The same records with `map` x for each row x, rescaled to at most `row_norm` whatever the map did to
    /// them; labels and adjacency stay, and so does whether they were declared made-up.
    ///
    /// # Privacy
    /// The map is public. What becomes of a record depends on that record and the map alone (its bits included),
    /// so neighbours stay neighbours; the new bound is enforced on every row and does not rest on a random
    /// event. See `docs/privacy/estimator.md`.
    ///
    /// # Errors
    /// [`DataError::Map`] when the map takes rows of another length, [`DataError::InAFile`] for records that are not in
    /// memory.
    pub fn embedded(&self, map: &JlMap, row_norm: ClipNorm) -> Result<Self, DataError> {
        if self.stored.is_some() {
            return Err(DataError::InAFile);
        }
        Ok(Self {
            records: self.records.embedded(map, row_norm)?,
            stored: None,
            adjacency: self.adjacency,
            public_records: self.public_records,
            made_up: self.made_up,
            order: self.order,
            part: self.part,
            asked: AtomicBool::new(false),
            shard: self.shard.clone(),
        })
    }

    /// Number of features, d.
    #[must_use]
    pub fn dim(&self) -> usize {
        self.records.columns()
    }

    /// The public bound on row norms.
    #[must_use]
    pub fn row_norm(&self) -> f64 {
        self.records.row_norm()
    }
}

impl<R: Records> PrivateData<R> {
    /// Takes ownership of records of any shape, for a loss of one's own. Nothing is done to them:
    /// contributions are clipped when they are summed.
    ///
    /// # Privacy
    /// As for [`PrivateData::new`].
    ///
    /// # Errors
    /// [`DataError`], [`DataError::LabelCount`] excepted.
    pub fn of(
        records: R,
        adjacency: Adjacency,
        public_records: Option<u64>,
    ) -> Result<Self, DataError> {
        let rows = records.len();
        let public_records = public_size(rows, rows, adjacency, public_records)?;
        Ok(Self {
            records,
            stored: None,
            adjacency,
            public_records,
            made_up: false,
            order: None,
            part: None,
            asked: AtomicBool::new(false),
            shard: None,
        })
    }

    /// As [`PrivateData::of`], for records that need no protection: see [`PrivateData::made_up`].
    ///
    /// # Errors
    /// [`DataError`], [`DataError::LabelCount`] excepted.
    pub fn made_up_of(
        records: R,
        adjacency: Adjacency,
        public_records: Option<u64>,
    ) -> Result<Self, DataError> {
        Ok(Self::of(records, adjacency, public_records)?.declared_made_up())
    }

    /// Private: whoever has a projection of these records owns it, and may not declare anything of them.
    fn declared_made_up(mut self) -> Self {
        self.made_up = true;
        self
    }

    /// The order that their positions are in, where it is not the one that they came in.
    #[must_use]
    pub fn order(&self) -> Option<PublicOrder> {
        self.order
    }

    /// Which of two parts of a table they are, where they are one ([`PrivateData::set_aside`]).
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        self.part
    }

    /// What their positions number.
    pub(crate) fn numbering(&self) -> Numbering {
        let (order, part) = (self.order, self.part);
        Numbering { order, part }
    }

    /// Whether their owner declared that these records need no protection.
    #[must_use]
    pub fn is_made_up(&self) -> bool {
        self.made_up
    }

    /// Refuses a curator that does not protect, unless the records need no protection. To be asked before every read: an estimator's
    /// curator can be exchanged.
    pub(crate) fn check_curator(&self, curator: &Curator) -> Result<(), Refused> {
        self.asked.store(true, Ordering::Relaxed);
        self.check_ranks(curator)?;
        match curator.mode() {
            Mode::Protected => Ok(()),
            _ if self.made_up => Ok(()),
            mode => Err(Refused::NotMadeUp { mode }),
        }
    }

    /// Made-up records behind a face, for tests of what reads them.
    #[cfg(test)]
    pub(crate) fn stored_elsewhere(
        face: R,
        stored: Box<dyn Stored<R>>,
        adjacency: Adjacency,
        public_records: u64,
    ) -> Self {
        Self {
            records: face,
            stored: Some(stored),
            adjacency,
            public_records,
            made_up: true,
            order: None,
            part: None,
            asked: AtomicBool::new(false),
            shard: None,
        }
    }

    /// The neighbouring relation of everything computed from these records.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }

    /// The public size: planners and normalisers use this, never the number of rows.
    #[must_use]
    pub fn public_records(&self) -> u64 {
        self.public_records
    }

    /// Whether the records stay in a file, where passes over one record after the other and projections are refused.
    #[must_use]
    pub fn is_in_a_file(&self) -> bool {
        self.stored.is_some()
    }

    /// Records in memory, with what is public of all. Where [`PrivateData::stored`] has the records, these are none.
    pub(crate) fn records(&self) -> &R {
        &self.records
    }

    /// The records, where they are not in memory.
    pub(crate) fn stored(&self) -> Option<&dyn Stored<R>> {
        self.stored.as_deref()
    }

    /// How many records there are on all ranks; private under add/remove.
    pub(crate) fn everything(&self) -> u64 {
        match &self.shard {
            Some(shard) => shard.total,
            None => self.here() as u64,
        }
    }
}

impl<R: Reorder> PrivateData<R> {
    /// These records in a pseudo-random order, a function of a public seed that is chosen before anything is read
    /// ([`PublicOrder::draw_seed`]): for solvers that read slices by position, to whose slices a table in a telling order (sorted by its
    /// label, say) is no sample. Of a file the order is of runs of neighbours, and within each: a slice costs about as much reading as in
    /// the file's own order, and is a sample of clusters.
    ///
    /// # Privacy
    /// The order is a function of the seed and of public sizes. Neighbours differ at one position of it as they did before, and nothing
    /// else changes: `docs/privacy/curator.md`, "A public order". An order is put before the first estimator is made, and a curator refuses
    /// slices of records in another order than it handed out ([`dpopt_privacy::PoolError::OtherNumbering`]).
    ///
    /// # Errors
    /// [`DataError::NoOrder`] under add/remove; [`DataError::InOrder`] for a second time; [`DataError::OrderTooLate`] after an estimator was made;
    /// [`DataError::NoOrderOfParts`] for files on several ranks, and [`DataError::Exchange`] for another seed on one of them.
    pub fn in_random_order(mut self, seed: u64) -> Result<Self, DataError> {
        if let Some(PublicOrder { seed, .. }) = self.order {
            return Err(DataError::InOrder { seed });
        }
        if !self.adjacency.record_count_is_public() {
            return Err(DataError::NoOrder(self.adjacency));
        }
        if *self.asked.get_mut() {
            return Err(DataError::OrderTooLate);
        }
        let run = match (&mut self.stored, &mut self.shard) {
            (Some(_), Some(_)) => return Err(DataError::NoOrderOfParts),
            (Some(stored), None) => stored.put_in_order(seed),
            (None, Some(shard)) => {
                shard.reorder(&mut self.records, seed)?;
                1
            }
            (None, None) => {
                let len = self.records.len();
                self.records.reorder(&seeded::order(len, 1, seed));
                1
            }
        };
        let run = run as u64;
        self.order = Some(PublicOrder { seed, run });
        Ok(self)
    }
}

fn public_size(
    rows: usize,
    labels: usize,
    adjacency: Adjacency,
    declared: Option<u64>,
) -> Result<u64, DataError> {
    if rows != labels {
        return Err(DataError::LabelCount);
    }
    if rows as u64 > MAX_RECORDS {
        return Err(DataError::TooManyRecords);
    }
    let size = if adjacency.record_count_is_public() {
        if rows == 0 {
            return Err(DataError::Empty(adjacency));
        }
        match declared {
            Some(declared) if declared != rows as u64 => {
                return Err(DataError::PublicSizeDiffers {
                    declared,
                    actual: rows as u64,
                    adjacency,
                });
            }
            _ => rows as u64,
        }
    } else {
        declared.ok_or(DataError::PublicSizeMissing)?
    };
    if size == 0 {
        return Err(DataError::PublicSizeZero);
    }
    Ok(size)
}

/// Records declared to be outside the protection: test sets and synthetic data.
///
/// Evaluation on it is exact and free. Never build it from records that are to be protected.
#[derive(Clone)]
pub struct PublicData {
    design: Design,
    labels: Vec<f32>,
}

impl PublicData {
    /// Declares these records public.
    ///
    /// # Shapes
    /// `design`: (n, d); `labels`: n.
    ///
    /// # Errors
    /// [`DataError::LabelCount`].
    pub fn new(design: Design, labels: Vec<f32>) -> Result<Self, DataError> {
        if design.rows() == labels.len() {
            Ok(Self { design, labels })
        } else {
            Err(DataError::LabelCount)
        }
    }

    /// The rows.
    #[must_use]
    pub fn design(&self) -> &Design {
        &self.design
    }

    /// The labels.
    #[must_use]
    pub fn labels(&self) -> &[f32] {
        &self.labels
    }

    /// <w, x> for every row x.
    #[must_use]
    pub fn scores(&self, point: &[f64]) -> Vec<f64> {
        (0..self.design.rows())
            .map(|i| self.design.row(i).dot(point))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn design(rows: &[[f64; 2]]) -> Design {
        Design::dense(2, rows.iter().flatten().copied().collect()).unwrap()
    }

    fn norm(x: f64) -> ClipNorm {
        ClipNorm::new(x).unwrap()
    }

    #[test]
    fn rows_are_brought_under_the_bound_and_bad_ones_erased() {
        let data = PrivateData::new(
            design(&[
                [3.0, 4.0],
                [f64::NAN, 1.0],
                [0.1, 0.0],
                [1.0, 1.0],
                [1e300, 1e300],
            ]),
            vec![1.0, 1.0, -1.0, f32::NAN, 1.0],
            norm(1.0),
            Adjacency::ReplaceOne,
            None,
        )
        .unwrap();
        for i in 0..5 {
            assert!(data.records().record(i).row.norm_upper() <= 1.0 + 1e-12);
        }
        for erased in [1, 3] {
            assert_eq!(data.records().record(erased).row.dot(&[1.0, 1.0]), 0.0);
        }
        assert!((data.records().record(0).row.dot(&[1.0, 0.0]) - 0.6).abs() < 1e-12);
        assert_eq!(data.records().record(2).row.dot(&[1.0, 0.0]), 0.1);
    }

    #[test]
    fn labels_are_clamped_to_the_bound() {
        let labels = vec![1e30, -3.0, 0.25, -0.1, f32::INFINITY];
        let data = PrivateData::new(
            design(&[[0.5, 0.0]; 5]),
            labels,
            norm(1.0),
            Adjacency::ReplaceOne,
            None,
        )
        .unwrap();
        assert_eq!(data.label_bound(), None);
        // 0.3 lies between two numbers of single precision: the lower one is taken.
        let data = data.with_label_bound(norm(0.3));
        let at = |i| data.records().record(i).label;
        assert!(at(0) <= 0.3 && at(0) > 0.3 - 1e-7 && at(1) == -at(0));
        assert_eq!([at(2), at(3), at(4)], [0.25, f64::from(-0.1f32), 0.0]);
        // A wider bound afterwards changes nothing.
        let data = data.with_label_bound(norm(7.0));
        assert_eq!(data.label_bound(), Some(0.3));
    }

    #[test]
    fn the_size_is_declared_exactly_where_it_is_private() {
        let make = |adjacency, rows: usize, declared| {
            PrivateData::new(
                design(&vec![[0.0, 0.0]; rows]),
                vec![1.0; rows],
                norm(1.0),
                adjacency,
                declared,
            )
        };
        assert_eq!(
            make(Adjacency::AddRemove, 3, None).err(),
            Some(DataError::PublicSizeMissing)
        );
        assert_eq!(
            make(Adjacency::AddRemove, 0, Some(10))
                .unwrap()
                .public_records(),
            10
        );
        assert_eq!(
            make(Adjacency::ReplaceOne, 0, None).err(),
            Some(DataError::Empty(Adjacency::ReplaceOne))
        );
        assert!(matches!(
            make(Adjacency::ReplaceOne, 3, Some(4)).err(),
            Some(DataError::PublicSizeDiffers {
                declared: 4,
                actual: 3,
                ..
            })
        ));
        assert_eq!(
            make(Adjacency::AddRemove, 3, Some(0)).err(),
            Some(DataError::PublicSizeZero)
        );
    }
}
