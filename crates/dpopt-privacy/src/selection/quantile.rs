//! A private quantile over public bins: the exponential mechanism on ranks.
//!
//! Smith 2011 ("Privacy-preserving statistical estimation with optimal convergence rates",
//! Algorithm 2), with public bins in place of the gaps between data points.

use zeroize::Zeroize;

use super::SelectionError;
use crate::adjacency::Adjacency;
use crate::lattice::MAX_RECORDS;

use super::scores::MAX_CANDIDATES;

/// Largest denominator of a target, 2^20.
pub const MAX_TARGET: u32 = 1 << 20;

/// Largest size of an edge in units of the common last place, 2^61.
const MAX_EDGE_BITS: u32 = 61;

/// The quantile: a fraction strictly between 0 and 1, such as 1/2 for the median.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    numerator: u32,
    denominator: u32,
}

impl Target {
    /// The quantile of `numerator / denominator`.
    ///
    /// # Errors
    /// [`SelectionError::Target`] unless `0 < numerator < denominator <= 2^20`.
    pub fn new(numerator: u32, denominator: u32) -> Result<Self, SelectionError> {
        if 0 < numerator && numerator < denominator && denominator <= MAX_TARGET {
            Ok(Self {
                numerator,
                denominator,
            })
        } else {
            Err(SelectionError::Target {
                numerator,
                denominator,
                limit: MAX_TARGET,
            })
        }
    }

    /// The median.
    #[must_use]
    pub fn median() -> Self {
        Self {
            numerator: 1,
            denominator: 2,
        }
    }

    /// By how much the changes of two bins' utilities can differ between neighbours.
    pub(crate) fn spread(self, adjacency: Adjacency) -> u64 {
        let (below, all) = (u64::from(self.numerator), u64::from(self.denominator));
        match adjacency {
            Adjacency::ReplaceOne => 2 * all,
            Adjacency::AddRemove | Adjacency::ZeroOut => 2 * below.max(all - below),
        }
    }

    /// Utilities of the bins: minus the distance of the target rank to the ranks in the bin, times
    /// the denominator. With a records below, c inside and b above the bin and the target alpha
    /// that is `−max(0, (1 − alpha) a − alpha (b + c), alpha b − (1 − alpha)(a + c))`.
    pub(crate) fn utilities(self, counts: &[u64]) -> Vec<i64> {
        // Counts are at most 2^32 in total, so every product is below 2^52.
        let all: i64 = counts.iter().map(|&c| c as i64).sum();
        let target = i64::from(self.numerator) * all;
        let scale = i64::from(self.denominator);
        let mut below = 0;
        counts
            .iter()
            .map(|&c| {
                let first = scale * below;
                below += c as i64;
                -(first - target).max(target - scale * below).max(0)
            })
            .collect()
    }
}

/// The base measure: what is equally likely without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BaseMeasure {
    /// Intervals of equal length: each bin counts by its width.
    Width,
    /// Bins.
    Bins,
}

/// Public bins: intervals between neighbouring edges.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantileBins {
    edges: Vec<f64>,
    /// In units of a power of two in which all edges are integers.
    widths: Vec<u64>,
}

impl QuantileBins {
    /// Bins between these edges. They must be public: not computed from the records.
    ///
    /// # Errors
    /// [`SelectionError`] with fewer than two edges or more than 2^24 bins, for an edge that is not
    /// finite, for edges that do not increase, and where the widths, which must be known exactly,
    /// are not integers below 2^62 in a common unit.
    pub fn new(edges: &[f64]) -> Result<Self, SelectionError> {
        if edges.len() < 2 {
            return Err(SelectionError::TooFewEdges { edges: edges.len() });
        }
        if edges.len() - 1 > MAX_CANDIDATES {
            return Err(SelectionError::TooManyCandidates {
                candidates: edges.len() - 1,
                limit: MAX_CANDIDATES,
            });
        }
        if let Some(index) = edges.iter().position(|edge| !edge.is_finite()) {
            return Err(SelectionError::EdgeNotFinite {
                index,
                value: edges[index],
            });
        }
        if let Some(index) = edges.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(SelectionError::EdgesNotIncreasing {
                index,
                left: edges[index],
                right: edges[index + 1],
            });
        }
        let parts: Vec<(u64, i32)> = edges.iter().map(|&edge| mantissa(edge)).collect();
        let unit = parts
            .iter()
            .filter(|(mantissa, _)| *mantissa > 0)
            .map(|part| part.1)
            .min()
            .unwrap_or(0);
        let in_units = |(&edge, &(mantissa, exponent)): (&f64, &(u64, i32))| {
            if mantissa == 0 {
                return Some(0);
            }
            let length = u64::BITS - mantissa.leading_zeros();
            let shift = exponent.abs_diff(unit);
            (length + shift <= MAX_EDGE_BITS).then(|| {
                let size = (mantissa << shift) as i64;
                if edge < 0.0 { -size } else { size }
            })
        };
        let largest = edges
            .iter()
            .fold(0.0_f64, |most, edge| most.max(edge.abs()));
        let whole: Option<Vec<i64>> = edges.iter().zip(&parts).map(in_units).collect();
        let whole = whole.ok_or(SelectionError::EdgesTooFine { largest, unit })?;
        Ok(Self {
            edges: edges.to_vec(),
            widths: whole
                .windows(2)
                .map(|pair| pair[1].abs_diff(pair[0]))
                .collect(),
        })
    }

    /// Number of bins.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.widths.len()
    }

    /// The edges.
    #[must_use]
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    pub(crate) fn widths(&self) -> &[u64] {
        &self.widths
    }

    /// The bin of a value: from its lower edge up to below its upper one. Values beyond the
    /// edges count in the bin at that end, a NaN in none.
    fn bin_of(&self, value: f64) -> Option<usize> {
        // The first edge is below every bin, the last above.
        let inner = &self.edges[1..self.edges.len() - 1];
        (!value.is_nan()).then(|| inner.partition_point(|&edge| value >= edge))
    }

    pub(crate) fn bin(&self, index: usize) -> QuantileBin {
        QuantileBin {
            index,
            low: self.edges[index],
            high: self.edges[index + 1],
        }
    }
}

/// The bin that was chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuantileBin {
    /// Its index, from 0.
    pub index: usize,
    /// Its lower edge.
    pub low: f64,
    /// Its upper edge.
    pub high: f64,
}

impl QuantileBin {
    /// The middle of the bin.
    #[must_use]
    pub fn midpoint(&self) -> f64 {
        self.low.midpoint(self.high)
    }
}

/// How many records have their value in which bin.
///
/// # Privacy
/// One record makes one call of [`QuantileSum::add`], and counts in one bin at most, whatever its
/// value. A record that contributes nothing, the other one of the zero-out relation, is in none: it
/// makes no call, or one with NaN. It neither clones, prints nor serialises:
///
/// ```compile_fail
/// fn print(sum: dpopt_privacy::selection::QuantileSum) { println!("{sum:?}"); }
/// ```
pub struct QuantileSum {
    bins: QuantileBins,
    counts: Vec<u64>,
    added: u64,
}

impl QuantileSum {
    /// The empty sum; it takes [`MAX_RECORDS`] records.
    #[must_use]
    pub fn new(bins: QuantileBins) -> Self {
        Self {
            counts: vec![0; bins.bins()],
            bins,
            added: 0,
        }
    }

    /// Adds one record's value. Values beyond the edges count in the bin at that end. One that is
    /// not a number, such as a missing one, counts nowhere, and not in the rank either.
    pub fn add(&mut self, value: f64) {
        if self.added < MAX_RECORDS {
            // Counted whatever it holds: whether a record is taken depends on no other record.
            self.added += 1;
            if let Some(bin) = self.bins.bin_of(value) {
                self.counts[bin] += 1;
            }
        }
    }

    /// Adds another partial sum over other records.
    ///
    /// # Errors
    /// [`SelectionError::BoundsDiffer`] for other bins; [`SelectionError::TooManyRecords`] when
    /// the two together exceed [`MAX_RECORDS`].
    pub fn merge(mut self, other: Self) -> Result<Self, SelectionError> {
        if self.bins != other.bins {
            return Err(SelectionError::BoundsDiffer);
        }
        let records = self.added.saturating_add(other.added);
        if records > MAX_RECORDS {
            return Err(SelectionError::TooManyRecords {
                records,
                limit: MAX_RECORDS,
            });
        }
        for (count, other) in self.counts.iter_mut().zip(&other.counts) {
            *count += other;
        }
        self.added = records;
        Ok(self)
    }

    /// Seals the counts. `adjacency` says how they may differ between neighbours.
    #[must_use]
    pub fn finish(mut self, adjacency: Adjacency) -> SensitiveQuantile {
        SensitiveQuantile {
            bins: self.bins.clone(),
            counts: std::mem::take(&mut self.counts),
            adjacency,
        }
    }
}

impl Drop for QuantileSum {
    fn drop(&mut self) {
        self.counts.zeroize();
        self.added.zeroize();
    }
}

/// Private counts of values in public bins. Opaque, like every sensitive value:
///
/// ```compile_fail
/// fn copy(secret: dpopt_privacy::selection::SensitiveQuantile) { let _ = secret.clone(); }
/// ```
/// ```compile_fail
/// fn print(secret: dpopt_privacy::selection::SensitiveQuantile) { println!("{secret:?}"); }
/// ```
pub struct SensitiveQuantile {
    pub(crate) bins: QuantileBins,
    pub(crate) counts: Vec<u64>,
    pub(crate) adjacency: Adjacency,
}

impl SensitiveQuantile {
    /// The public bins.
    #[must_use]
    pub fn bins(&self) -> &QuantileBins {
        &self.bins
    }

    /// The adjacency under which the counts are private.
    #[must_use]
    pub fn adjacency(&self) -> Adjacency {
        self.adjacency
    }
}

impl Drop for SensitiveQuantile {
    fn drop(&mut self) {
        self.counts.zeroize();
    }
}

/// A finite number's size as `mantissa · 2^exponent` with an odd mantissa, or `(0, 0)`.
fn mantissa(value: f64) -> (u64, i32) {
    let bits = value.abs().to_bits();
    if bits == 0 {
        return (0, 0);
    }
    let fraction = bits & ((1 << 52) - 1);
    let (mantissa, exponent) = match bits >> 52 {
        0 => (fraction, -1074),
        biased => (fraction | 1 << 52, biased as i32 - 1075),
    };
    let zeros = mantissa.trailing_zeros();
    (mantissa >> zeros, exponent + zeros as i32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(edges: &[f64], values: &[f64]) -> QuantileSum {
        let mut sum = QuantileSum::new(QuantileBins::new(edges).unwrap());
        values.iter().for_each(|&value| sum.add(value));
        sum
    }

    #[test]
    fn values_count_in_their_bins_and_those_beyond_at_the_ends() {
        let values = [
            f64::NAN,
            f64::NEG_INFINITY,
            -5.0,
            0.0,
            1.0,
            1.5,
            2.0,
            3.0,
            f64::INFINITY,
        ];
        assert_eq!(filled(&[0.0, 1.0, 2.0, 3.0], &values).counts, [3, 2, 3]);
        assert_eq!(filled(&[0.0, 1.0], &values).counts, [8]);
        assert_eq!(filled(&[0.0, 1.0], &values).added, 9);
    }

    #[test]
    fn widths_are_exact_integers() {
        let widths = |edges: &[f64]| QuantileBins::new(edges).unwrap().widths;
        assert_eq!(widths(&[-1.5, 0.0, 0.25, 8.0]), [6, 1, 31]);
        // Subnormal edges, in units of the smaller one.
        assert_eq!(
            widths(&[0.0, f64::from_bits(8), f64::from_bits(253 * 8)]),
            [1, 252]
        );
        // 0.1 and 0.2 share a mantissa; 0.3 as a double is not their sum.
        // In units of 2^-55, by exact rational arithmetic: as doubles 0.3 is not 0.1 + 0.2.
        assert_eq!(
            widths(&[0.1, 0.2, 0.3]),
            [3_602_879_701_896_397, 3_602_879_701_896_396]
        );
        assert_eq!(
            widths(&[0.0, 1e15, 1e15 + 0.125]),
            [8_000_000_000_000_000, 1]
        );
    }

    #[test]
    fn bad_edges_are_errors() {
        use SelectionError::{EdgeNotFinite, EdgesNotIncreasing, EdgesTooFine, TooFewEdges};
        let error = |edges: &[f64]| QuantileBins::new(edges).unwrap_err();
        assert!(matches!(error(&[]), TooFewEdges { edges: 0 }));
        assert!(matches!(error(&[1.0]), TooFewEdges { edges: 1 }));
        assert!(matches!(
            error(&[0.0, f64::NAN]),
            EdgeNotFinite { index: 1, .. }
        ));
        assert!(matches!(
            error(&[f64::NEG_INFINITY, 0.0]),
            EdgeNotFinite { index: 0, .. }
        ));
        assert!(matches!(
            error(&[0.0, 2.0, 1.0]),
            EdgesNotIncreasing { index: 1, .. }
        ));
        assert!(matches!(
            error(&[0.0, 0.0]),
            EdgesNotIncreasing { index: 0, .. }
        ));
        assert!(matches!(
            error(&[-0.0, 0.0]),
            EdgesNotIncreasing { index: 0, .. }
        ));
        assert!(matches!(error(&[1e-300, 1.0]), EdgesTooFine { .. }));
        assert!(matches!(error(&[0.1, 1e9]), EdgesTooFine { .. }));
        let target = |n, d| Target::new(n, d).unwrap_err();
        for (n, d) in [(0, 1), (1, 1), (2, 1), (0, 0), (1, MAX_TARGET + 1)] {
            assert!(matches!(target(n, d), SelectionError::Target { .. }));
        }
        let [a, b] = [1.0, 2.0].map(|end| filled(&[0.0, end], &[0.5]));
        assert!(matches!(a.merge(b), Err(SelectionError::BoundsDiffer)));
    }

    #[test]
    fn partial_sums_merge() {
        let edges = [0.0, 1.0, 2.0];
        let merged = filled(&edges, &[0.1, 1.5])
            .merge(filled(&edges, &[1.7]))
            .unwrap();
        assert_eq!(
            (merged.counts.as_slice(), merged.added),
            ([1, 2].as_slice(), 3)
        );
    }

    /// The utility by its definition: the least distance of the target rank to any number of
    /// records that a point of the bin may have below it.
    fn distance(counts: &[u64], bin: usize, target: Target) -> i64 {
        let all: u64 = counts.iter().sum();
        let below: u64 = counts[..bin].iter().sum();
        (below..=below + counts[bin])
            .map(|rank| {
                let ranks = i64::from(target.denominator) * rank as i64;
                (ranks - i64::from(target.numerator) * all as i64).abs()
            })
            .min()
            .unwrap()
    }

    /// The largest difference of two bins' changes over all neighbours of all small counts. A record
    /// is in one bin or in none.
    fn largest_spread(adjacency: Adjacency, utilities: impl Fn(&[u64]) -> Vec<i64>) -> u64 {
        let mut worst = 0;
        for code in 0..4_u64.pow(4) {
            let counts: Vec<u64> = (0..4).map(|i| code / 4_u64.pow(i) % 4).collect();
            let base = utilities(&counts);
            let mut neighbours = Vec::new();
            for to in 0..4 {
                let mut more = counts.clone();
                more[to] += 1;
                for from in 0..4 {
                    if adjacency == Adjacency::ReplaceOne && more[from] > 0 {
                        let mut moved = more.clone();
                        moved[from] -= 1;
                        neighbours.push(moved);
                    }
                }
                neighbours.push(more);
            }
            for other in neighbours {
                let changes: Vec<i64> = utilities(&other)
                    .iter()
                    .zip(&base)
                    .map(|(a, b)| a - b)
                    .collect();
                let (most, least) = (changes.iter().max().unwrap(), changes.iter().min().unwrap());
                worst = worst.max(most.abs_diff(*least));
            }
        }
        worst
    }

    #[test]
    fn the_spread_bounds_every_neighbour_and_is_attained() {
        for (n, d) in [(1, 2), (1, 3), (3, 4), (9, 10)] {
            let target = Target::new(n, d).unwrap();
            for adjacency in [
                Adjacency::ReplaceOne,
                Adjacency::AddRemove,
                Adjacency::ZeroOut,
            ] {
                let found = largest_spread(adjacency, |counts| target.utilities(counts));
                assert!(
                    found <= target.spread(adjacency),
                    "{n}/{d} {adjacency}: {found}"
                );
                // With few records and bins the worst pair is there for most targets.
                if (n, d) != (9, 10) {
                    assert_eq!(found, target.spread(adjacency), "{n}/{d} {adjacency}");
                }
            }
        }
    }

    /// A twin that takes alpha n for public under add-remove: the distance |rank − t| to a fixed
    /// target rank moves by 1 on both sides, 2 in all, where the spread says 2 max(alpha, 1 − alpha).
    #[test]
    fn a_twin_with_a_public_rank_under_add_remove_is_caught() {
        let target = Target::median();
        let twin = |counts: &[u64]| -> Vec<i64> {
            let mut below = 0;
            counts
                .iter()
                .map(|&c| {
                    let first = 2 * below;
                    below += c as i64;
                    -(first - 6).max(6 - 2 * below).max(0)
                })
                .collect()
        };
        let found = largest_spread(Adjacency::AddRemove, twin);
        assert!(found > target.spread(Adjacency::AddRemove), "{found}");
    }

    proptest! {
        #[test]
        fn the_utility_is_minus_the_distance_of_ranks(
            counts in prop::collection::vec(0..6_u64, 1..7), n in 1..10_u32,
        ) {
            let target = Target::new(n, 10).unwrap();
            for (bin, &utility) in target.utilities(&counts).iter().enumerate() {
                let exact = distance(&counts, bin, target);
                // Ranks are whole numbers, the target rank may lie between two of them.
                prop_assert!(-utility <= exact && exact + utility < 10);
                prop_assert!(utility == 0 || -utility == exact);
            }
        }

        #[test]
        fn a_value_lies_in_its_bin(mut edges in prop::collection::vec(-100..100_i32, 2..9), value in -120.0..120.0_f64) {
            edges.sort_unstable();
            edges.dedup();
            prop_assume!(edges.len() > 1);
            let edges: Vec<f64> = edges.into_iter().map(f64::from).collect();
            let bins = QuantileBins::new(&edges).unwrap();
            let bin = bins.bin(bins.bin_of(value).unwrap());
            let clamped = value.clamp(edges[0], edges[edges.len() - 1].next_down());
            prop_assert!(bin.low <= clamped && clamped < bin.high);
            prop_assert!(bin.low < bin.midpoint() && bin.midpoint() < bin.high);
        }
    }
}
