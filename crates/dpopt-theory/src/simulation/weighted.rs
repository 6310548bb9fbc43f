//! Records with multiplicities: data sets of any size at the cost of their distinct records.

use dpopt_oracle::{Loss, Query, Records};
use dpopt_privacy::{Allocation, LatticeError, SamplingRate};
use rand::Rng;

use super::counts;

/// A simulation can't be set up or can't answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightedError {
    /// One multiplicity is needed for each record.
    #[error("{records} records but {multiplicities} multiplicities")]
    Multiplicities {
        /// Distinct records.
        records: usize,
        /// Multiplicities.
        multiplicities: usize,
    },
    /// No records, or too many to count in floating point.
    #[error("the multiplicities add up to {total}; from 1 to 2^53 records can be simulated")]
    Total {
        /// Their sum.
        total: u128,
    },
    /// More records were asked for than there are, or none.
    #[error("{asked} records were asked for where {left} are left")]
    Size {
        /// Asked for.
        asked: u64,
        /// There are.
        left: u64,
    },
    /// The query's points don't have the loss's dimension.
    #[error("the points of the query don't have {dim} coordinates, one for each parameter")]
    QueryShape {
        /// Parameters of the loss.
        dim: usize,
    },
    /// Copies of one record contribute alike only if their positions don't matter.
    #[error("a query that depends on the positions of records has no mean over weighted records")]
    Positions,
    /// The query has no lattice bound.
    #[error(transparent)]
    Lattice(#[from] LatticeError),
}

/// A data set in which record i occurs `multiplicities[i]` times, **for simulation only**.
///
/// Whatever is drawn from it has the law of the same thing drawn from the expanded data set, in
/// which every copy is a record of its own (and, for slices, in an order that is uniformly
/// random). It costs time and memory for the distinct records only.
///
/// # Privacy
/// None. Nothing protects these records; they are public or synthetic.
///
/// ```
/// use dpopt_theory::WeightedRecords;
/// // A thousand million records, of two kinds.
/// let data = WeightedRecords::new(vec![-1.0, 1.0], vec![600_000_000, 400_000_000])?;
/// assert_eq!((data.total(), data.distinct()), (1_000_000_000, 2));
/// # Ok::<(), dpopt_theory::WeightedError>(())
/// ```
#[derive(Debug, Clone)]
pub struct WeightedRecords<R> {
    records: R,
    multiplicities: Vec<u64>,
    total: u64,
}

impl<R: Records> WeightedRecords<R> {
    /// Record i of `records` with `multiplicities[i]` copies; 0 is allowed.
    ///
    /// # Errors
    /// [`WeightedError::Multiplicities`], [`WeightedError::Total`].
    pub fn new(records: R, multiplicities: Vec<u64>) -> Result<Self, WeightedError> {
        if records.len() != multiplicities.len() {
            return Err(WeightedError::Multiplicities {
                records: records.len(),
                multiplicities: multiplicities.len(),
            });
        }
        let total: u128 = multiplicities.iter().map(|&m| u128::from(m)).sum();
        if total == 0 || total > u128::from(counts::MAX_COUNT) {
            return Err(WeightedError::Total { total });
        }
        Ok(Self {
            records,
            multiplicities,
            total: total as u64,
        })
    }

    /// The distinct records.
    #[must_use]
    pub fn records(&self) -> &R {
        &self.records
    }

    /// How often each of them occurs.
    #[must_use]
    pub fn multiplicities(&self) -> &[u64] {
        &self.multiplicities
    }

    /// Number of records, copies counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of distinct records.
    #[must_use]
    pub fn distinct(&self) -> usize {
        self.multiplicities.len()
    }

    /// The exact mean over all records of the clipped query, without noise; none where the query
    /// has no bound, because all contributions are zero.
    ///
    /// # Errors
    /// As [`WeightedRecords::mean_over`].
    pub fn mean<L: Loss<Records = R>>(
        &self,
        loss: &L,
        query: &impl Query<L>,
    ) -> Result<Option<Vec<f64>>, WeightedError> {
        self.mean_over(loss, query, &self.multiplicities, self.total as f64)
    }

    /// (1/size) sum_i copies_i clip(q(x_i)), with the query's own clip radius, in floating point.
    /// A contribution that is not finite counts as zero, as it does in a release.
    ///
    /// # Shapes
    /// `copies`: one number for each distinct record, as the samplers return.
    ///
    /// # Errors
    /// [`WeightedError::QueryShape`], [`WeightedError::Positions`], [`WeightedError::Lattice`],
    /// [`WeightedError::Multiplicities`] for a wrong number of copies.
    pub fn mean_over<L: Loss<Records = R>>(
        &self,
        loss: &L,
        query: &impl Query<L>,
        copies: &[u64],
        size: f64,
    ) -> Result<Option<Vec<f64>>, WeightedError> {
        let dim = loss.dim(&self.records);
        if !query.fits(dim) {
            return Err(WeightedError::QueryShape { dim });
        }
        if query.needs_fixed_positions() {
            return Err(WeightedError::Positions);
        }
        if copies.len() != self.distinct() {
            return Err(WeightedError::Multiplicities {
                records: self.distinct(),
                multiplicities: copies.len(),
            });
        }
        let Some(bound) = query.bound(loss)? else {
            return Ok(None);
        };
        let mut sum = vec![0.0; bound.dim()];
        let mut one = sum.clone();
        for (i, &copies) in copies.iter().enumerate() {
            if copies > 0 {
                one.fill(0.0);
                query.contribution(loss, self.records.record(i), &mut one);
                add_clipped(&one, bound.radius(), copies as f64 / size, &mut sum);
            }
        }
        Ok(Some(sum))
    }

    /// A Poisson sample of the copies at `rate`: binomial numbers, independent of each other.
    pub fn poisson(&self, rate: SamplingRate, stream: &mut impl Rng) -> Vec<u64> {
        poisson(&self.multiplicities, rate, stream)
    }

    /// A sample of `size` copies without replacement: multivariate hypergeometric numbers.
    ///
    /// # Errors
    /// [`WeightedError::Size`].
    pub fn fixed_size(&self, size: u64, stream: &mut impl Rng) -> Result<Vec<u64>, WeightedError> {
        self.unread().take(size, stream)
    }

    /// All copies, to be handed out in disjoint slices.
    #[must_use]
    pub fn unread(&self) -> Unread {
        Unread::new(&self.multiplicities)
    }
}

/// The copies that no slice holds yet.
///
/// A slice is a sample without replacement from what is left: that is the law of the next
/// positions of the expanded data set in an order that is uniformly random.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    left: Vec<u64>,
    total: u64,
}

impl Unread {
    pub(super) fn new(multiplicities: &[u64]) -> Self {
        Self {
            left: multiplicities.to_vec(),
            total: multiplicities.iter().sum(),
        }
    }

    /// Copies that are left.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The next slice: how many copies of each distinct record it holds.
    ///
    /// # Errors
    /// [`WeightedError::Size`] for an empty slice, or when fewer are left; they stay then.
    pub fn take(&mut self, size: u64, stream: &mut impl Rng) -> Result<Vec<u64>, WeightedError> {
        if size == 0 || size > self.total {
            return Err(WeightedError::Size {
                asked: size,
                left: self.total,
            });
        }
        let mut taken = vec![0; self.left.len()];
        counts::without_replacement(&self.left, self.total, size, stream, &mut taken);
        for (left, taken) in self.left.iter_mut().zip(&taken) {
            *left -= taken;
        }
        self.total -= size;
        Ok(taken)
    }
}

/// The copies of an allocation of which steps are left.
///
/// A copy that has r of m steps left takes part in the next one with probability r/m, whatever came before: that is the law of a uniform
/// set of steps.
pub(super) struct Unallocated {
    /// Steps left.
    steps: u64,
    /// The copies that have so many participations left.
    left: Vec<Vec<u64>>,
}

impl Unallocated {
    pub(super) fn new(multiplicities: &[u64], allocation: Allocation) -> Self {
        let mut left = vec![vec![0; multiplicities.len()]; allocation.participations as usize];
        left.push(multiplicities.to_vec());
        Self {
            steps: allocation.steps,
            left,
        }
    }

    /// The copies of the next step.
    pub(super) fn step(&mut self, stream: &mut impl Rng) -> Vec<u64> {
        let mut drawn = vec![0; self.left.first().map_or(0, Vec::len)];
        for r in 1..self.left.len() {
            let rate = (r as f64 / self.steps.max(1) as f64).min(1.0);
            for (i, drawn) in drawn.iter_mut().enumerate() {
                let taken = counts::binomial(self.left[r][i], rate, stream);
                self.left[r][i] -= taken;
                self.left[r - 1][i] += taken;
                *drawn += taken;
            }
        }
        self.steps = self.steps.saturating_sub(1);
        drawn
    }

    pub(super) fn is_over(&self) -> bool {
        self.steps == 0
    }
}

/// Binomial numbers of copies.
pub(super) fn poisson(
    multiplicities: &[u64],
    rate: SamplingRate,
    stream: &mut impl Rng,
) -> Vec<u64> {
    let draw = |&m: &u64| counts::binomial(m, rate.get(), stream);
    multiplicities.iter().map(draw).collect()
}

/// Adds `weight` times `contribution`, clipped to `radius`; nothing when it is not finite.
pub(super) fn add_clipped(contribution: &[f64], radius: f64, weight: f64, sum: &mut [f64]) {
    let norm = length(contribution);
    if !norm.is_finite() {
        return;
    }
    let kept = if norm <= radius { 1.0 } else { radius / norm };
    dpopt_linalg::add_scaled(sum, weight * kept, contribution);
}

/// ||v||, by the slower sum that can't overflow only where the squares are out of range.
pub(super) fn length(v: &[f64]) -> f64 {
    let square = dpopt_linalg::dot(v, v);
    if (1e-280..1e280).contains(&square) {
        square.sqrt()
    } else {
        dpopt_linalg::norm(v)
    }
}
