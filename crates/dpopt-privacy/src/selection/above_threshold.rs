//! The sparse vector technique: which queries lie above a threshold, until c of them did.
//!
//! Lyu, Su and Li 2017 (PVLDB 10(6), arXiv 1603.01699), Algorithm 1: one noisy threshold for the
//! whole run, fresh noise for each query, and it stops after c answers above. Of the six variants
//! that they compare, four are not as private as was claimed: one releases the noisy value
//! (Algorithm 3), one has too little noise on the queries (4), one has none (5), one never stops (6).

use zeroize::Zeroizing;

use super::SelectionError;
use super::laplace::Laplace;
use super::rate::Rate;
use super::scores::{ScoreBound, SensitiveScores};
use crate::adjacency::Adjacency;
use crate::exchange::{ExchangeError, Together};
use crate::lattice::{Bound, LatticeSum};
use crate::noise::KeyedStream;
use crate::noise::digits::BitSource;
use crate::replay::{Seat, Shares};
use crate::units::Epsilon;

/// Largest number of answers above the threshold in one run, 2^16.
pub const MAX_ANSWERS: u32 = 1 << 16;

/// Largest size of a threshold in steps, 2^62.
const MAX_THRESHOLD: f64 = 4_611_686_018_427_387_904.0;

/// The quantity that is compared with the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Queries {
    /// Scores of one candidate within this bound.
    Scores(ScoreBound),
    /// Norms of sums within this bound.
    Norms(Bound),
}

/// How epsilon is divided between the noise of the threshold and that of the queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Split {
    /// Half each.
    Half,
    /// `1 : (c · spread / sensitivity)^(2/3)`, which minimises the variance of the difference of a
    /// noisy query and the noisy threshold: `1 : (2c)^(2/3)` in general and `1 : c^(2/3)` for
    /// monotone queries (Lyu, Su and Li 2017, Section 4.2).
    Optimal,
}

/// Whether a query, with noise, is above the threshold, with noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// At least as large.
    Above,
    /// Below.
    Below,
}

/// A run of the sparse vector technique, paid for as a whole when it was opened by
/// [`crate::Curator::above_threshold`].
///
/// # Privacy
/// Queries may depend on earlier answers. Epsilon covers all answers until the last of the
/// allotted ones above the threshold, however many there were below. It neither clones nor prints.
///
/// ```compile_fail
/// fn print(run: dpopt_privacy::selection::AboveThreshold) { println!("{run:?}"); }
/// ```
/// ```compile_fail
/// fn copy(run: dpopt_privacy::selection::AboveThreshold) { let _ = run.clone(); }
/// ```
pub struct AboveThreshold {
    terms: Terms,
    /// Threshold and its noise, in steps.
    noisy_threshold: i128,
    given: u32,
    stream: KeyedStream,
    /// The process that opened it: after a fork two would draw the same noise.
    process: u32,
    /// In an audit: its number on the tape.
    replay: Option<(Seat, u64)>,
    /// The ranks that queries are added over.
    together: Option<Together>,
}

impl AboveThreshold {
    /// Begins a run: draws the threshold's noise, once and for all.
    pub(crate) fn begin(terms: Terms, mut stream: KeyedStream, together: Option<Together>) -> Self {
        Self {
            together,
            terms,
            noisy_threshold: terms.noisy_threshold(&mut stream),
            given: 0,
            stream,
            process: std::process::id(),
            replay: None,
        }
    }

    /// The run of an audited curator.
    pub(crate) fn replayed(mut self, seat: Seat, number: u64) -> Self {
        self.replay = Some((seat, number));
        self
    }

    /// Whether the score of one candidate is above the threshold, with noise.
    ///
    /// # Errors
    /// [`SelectionError`] when all answers were given, or the query has several candidates, another
    /// adjacency or lattice, or may move further between neighbours, or the other way, than those
    /// the run was opened for.
    /// Nothing is released then.
    pub fn ask_score(&mut self, query: &SensitiveScores) -> Result<Answer, SelectionError> {
        let [value] = query.sums.as_slice() else {
            return Err(SelectionError::NotOneCandidate {
                candidates: query.sums.len(),
            });
        };
        let moves = Moves::of_scores(&query.bound, query.adjacency);
        let mut value = Zeroizing::new([*value]);
        self.over_all_ranks(&mut *value)?;
        self.ask(i128::from(value[0]), moves)
    }

    /// Whether the norm of a sum over all records, in whole lattice steps, rounded down, is above
    /// the threshold, with noise.
    ///
    /// # Errors
    /// As [`AboveThreshold::ask_score`].
    pub fn ask_norm(&mut self, sum: LatticeSum) -> Result<Answer, SelectionError> {
        let opened = self.terms.moves.adjacency;
        let adjacency = sum.blocks().map_or(opened, |blocks| blocks.adjacency());
        let (bound, mut integers) = sum.into_integers();
        self.over_all_ranks(&mut integers)?;
        let moves = Moves::of_norms(&bound, adjacency);
        self.ask(bound.norm_in_steps(&integers, &[]), moves)
    }

    /// Whether minus the norm of a sum, in steps, of which the run was opened, is above the threshold, with noise.
    pub(crate) fn ask_short(&mut self, norm: i64) -> Result<Answer, SelectionError> {
        let moves = self.terms.moves;
        self.ask(-i128::from(norm), moves)
    }

    fn over_all_ranks(&self, integers: &mut [i64]) -> Result<(), ExchangeError> {
        match &self.together {
            Some(together) => together.sum("a query", integers),
            None => Ok(()),
        }
    }

    /// How many more answers above the threshold the run can give.
    #[must_use]
    pub fn answers_left(&self) -> u32 {
        self.terms.answers - self.given
    }

    fn ask(&mut self, value: i128, moves: Moves) -> Result<Answer, SelectionError> {
        if self.given >= self.terms.answers {
            return Err(SelectionError::AnswersUsedUp {
                answers: self.terms.answers,
            });
        }
        let process = std::process::id();
        if process != self.process {
            return Err(SelectionError::Forked {
                opened: self.process,
                process,
            });
        }
        moves.within(&self.terms.moves)?;
        let mut answer = self
            .terms
            .answer(value, self.noisy_threshold, &mut self.stream);
        if let Some((seat, number)) = &self.replay {
            answer = match seat.answer(*number, value, answer == Answer::Above) {
                true => Answer::Above,
                false => Answer::Below,
            };
        }
        if let Some(together) = &self.together {
            together.note(&format_args!("{answer:?}"));
        }
        self.given += u32::from(answer == Answer::Above);
        Ok(answer)
    }
}

impl Drop for AboveThreshold {
    fn drop(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.noisy_threshold);
    }
}

/// How a query can move between neighbours, in steps of its lattice: when a record is added, or comes
/// in the place of another, by something from `low` to `high`.
///
/// All queries of a run must lie within one such interval. Sensitivity and spread would not do: a query
/// that falls by 1 and one that rises by 1 have the same, and are together not monotone.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Moves {
    low: i64,
    high: i64,
    step: f64,
    adjacency: Adjacency,
}

impl Moves {
    fn of_scores(bound: &ScoreBound, adjacency: Adjacency) -> Self {
        let (low, high) = bound.changes(adjacency);
        Self {
            low,
            high,
            step: bound.step(),
            adjacency,
        }
    }

    /// The norm of a sum, rounded down to whole steps, moves by at most the sensitivity of the sum
    /// and one step, so by at most this integer, up or down.
    fn of_norms(bound: &Bound, adjacency: Adjacency) -> Self {
        // At most 2^31.
        let most = bound.sensitivity_in_steps(adjacency).ceil() as i64 + 1;
        Self {
            low: -most,
            high: most,
            step: bound.step(),
            adjacency,
        }
    }

    fn sensitivity(&self) -> u64 {
        self.high.max(-self.low).unsigned_abs()
    }

    fn spread(&self) -> u64 {
        self.high.abs_diff(self.low)
    }

    fn within(&self, opened: &Self) -> Result<(), SelectionError> {
        if self.adjacency != opened.adjacency {
            return Err(SelectionError::OtherAdjacency {
                query: self.adjacency,
                opened: opened.adjacency,
            });
        }
        if self.step != opened.step {
            return Err(SelectionError::OtherLattice {
                query: self.step,
                opened: opened.step,
            });
        }
        if self.low < opened.low || self.high > opened.high {
            return Err(SelectionError::QueryTooSensitive {
                query: (self.low, self.high),
                opened: (opened.low, opened.high),
            });
        }
        Ok(())
    }
}

/// The checked terms of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    moves: Moves,
    /// In steps.
    threshold: i128,
    answers: u32,
    threshold_noise: Laplace,
    query_noise: Laplace,
}

impl Terms {
    pub(crate) fn new(
        queries: Queries,
        adjacency: Adjacency,
        threshold: f64,
        answers: u32,
        epsilon: Epsilon,
        split: Split,
    ) -> Result<Self, SelectionError> {
        let moves = match queries {
            Queries::Scores(bound) if bound.candidates() != 1 => {
                return Err(SelectionError::NotOneCandidate {
                    candidates: bound.candidates(),
                });
            }
            Queries::Scores(bound) => Moves::of_scores(&bound, adjacency),
            Queries::Norms(bound) => Moves::of_norms(&bound, adjacency),
        };
        if !(1..=MAX_ANSWERS).contains(&answers) {
            return Err(SelectionError::Answers {
                answers,
                limit: MAX_ANSWERS,
            });
        }
        // A tie is decided by public values; an overflowing quotient is refused with the rest.
        let steps = (threshold / moves.step).round_ties_even();
        if !(steps.abs() <= MAX_THRESHOLD) {
            return Err(SelectionError::Threshold {
                threshold,
                limit: MAX_THRESHOLD * moves.step,
            });
        }
        // Checks the range.
        Rate::new(epsilon, 1)?;
        let (for_threshold, for_queries) = parts(epsilon.get(), split, &moves, answers);
        Ok(Self {
            moves,
            threshold: steps as i128,
            answers,
            threshold_noise: Laplace::new(Rate::of(for_threshold, moves.sensitivity()))?,
            // Below 2^16 · 2^33.
            query_noise: Laplace::new(Rate::of(for_queries, u64::from(answers) * moves.spread()))?,
        })
    }

    /// How epsilon is divided, for an audit.
    pub(crate) fn shares(&self, epsilon: Epsilon, split: Split) -> Shares {
        let (threshold, queries) = parts(epsilon.get(), split, &self.moves, self.answers);
        Shares {
            threshold,
            queries,
            sensitivity: self.moves.sensitivity() as f64,
            spread: self.moves.spread() as f64,
        }
    }

    fn noisy_threshold<S: BitSource>(&self, source: &mut S) -> i128 {
        self.threshold + self.threshold_noise.draw(source)
    }

    fn answer<S: BitSource>(&self, value: i128, noisy_threshold: i128, source: &mut S) -> Answer {
        if value + self.query_noise.draw(source) >= noisy_threshold {
            Answer::Above
        } else {
            Answer::Below
        }
    }
}

/// Shares of epsilon for the threshold and for the queries; their sum is at most epsilon.
fn parts(epsilon: f64, split: Split, moves: &Moves, answers: u32) -> (f64, f64) {
    match split {
        // Exact: a half of a number in range.
        Split::Half => (0.5 * epsilon, 0.5 * epsilon),
        Split::Optimal => {
            let ratio = f64::from(answers) * moves.spread() as f64 / moves.sensitivity() as f64;
            let first = epsilon / (1.0 + ratio.cbrt().powi(2));
            // The difference errs by half a unit in the last place.
            (first, (epsilon - first).next_down())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::testkit::{chi_square, chi_square_catches, stream};

    fn terms(answers: u32, epsilon: f64, low: i32, split: Split) -> Terms {
        let bound = ScoreBound::whole(1, low, 1).unwrap();
        let epsilon = Epsilon::new(epsilon).unwrap();
        let queries = Queries::Scores(bound);
        Terms::new(queries, Adjacency::AddRemove, 2.0, answers, epsilon, split).unwrap()
    }

    /// Probability of each pattern of answers to `values` (bit i for query i), patterns ending
    /// with the run; by summing over the threshold's noise.
    fn law(values: &[i64], threshold: i64, answers: u32, rates: [f64; 2]) -> Vec<f64> {
        let mut out = vec![0.0; 1 << values.len()];
        let mass = |rate: f64, z: i64| (0.5 * rate).tanh() * (-rate * z.abs() as f64).exp();
        let at_least = |rate: f64, z: i64| {
            let tail = |z: i64| (-rate * z as f64).exp() / (1.0 + (-rate).exp());
            if z > 0 { tail(z) } else { 1.0 - tail(1 - z) }
        };
        for z in -600..=600 {
            let mut states = vec![(0_usize, 0_u32, mass(rates[0], z))];
            for (i, &value) in values.iter().enumerate() {
                let p = at_least(rates[1], threshold + z - value);
                states = states
                    .into_iter()
                    .flat_map(|(pattern, given, q)| {
                        if given == answers {
                            vec![(pattern, given, q)]
                        } else {
                            vec![
                                (pattern | 1 << i, given + 1, q * p),
                                (pattern, given, q * (1.0 - p)),
                            ]
                        }
                    })
                    .collect();
            }
            for (pattern, _, q) in states {
                out[pattern] += q;
            }
        }
        out
    }

    fn counts(terms: Terms, values: &[i64], number: u32, refresh: bool) -> Vec<u64> {
        let mut bits = stream(number);
        let mut counts = vec![0; 1 << values.len()];
        for _ in 0..100_000 {
            let mut threshold = terms.noisy_threshold(&mut bits);
            let (mut pattern, mut given) = (0, 0);
            for (i, &value) in values.iter().enumerate() {
                if given == terms.answers {
                    break;
                }
                if refresh {
                    threshold = terms.noisy_threshold(&mut bits);
                }
                if terms.answer(i128::from(value), threshold, &mut bits) == Answer::Above {
                    pattern |= 1 << i;
                    given += 1;
                }
            }
            counts[pattern] += 1;
        }
        counts
    }

    /// Rates of threshold and query noise: eps1 / sensitivity and eps2 / (c spread), the scales of
    /// the reference values being their inverses (Lyu, Su and Li, Algorithm 1).
    #[test]
    fn the_law_is_that_of_algorithm_one() {
        let values = [0, 3, 1, 2];
        for (number, (answers, epsilon, low)) in
            [(1, 1.0, -1), (2, 2.0, -1), (2, 1.3, 0), (3, 4.0, -1)]
                .into_iter()
                .enumerate()
        {
            let spread = f64::from(1 - low);
            let rates = [0.5 * epsilon, 0.5 * epsilon / (f64::from(answers) * spread)];
            let got = counts(
                terms(answers, epsilon, low, Split::Half),
                &values,
                70 + number as u32,
                false,
            );
            chi_square(&got, &law(&values, 2, answers, rates));
        }
        // A twin that draws the threshold anew for each query has another law.
        let got = counts(terms(2, 2.0, -1, Split::Half), &values, 75, true);
        chi_square_catches(&got, &law(&values, 2, 2, [1.0, 0.25]));
    }

    /// mechanism_pure_costs of the reference: general queries of sensitivity 1, c = 5.
    #[test]
    fn noise_scales_are_the_published_ones() {
        for (epsilon, threshold_scale, query_scale) in
            [(0.5, 4.0, 40.0), (1.0, 2.0, 20.0), (4.0, 0.5, 5.0)]
        {
            let terms = terms(5, epsilon, -1, Split::Half);
            for (noise, scale) in [
                (terms.threshold_noise, threshold_scale),
                (terms.query_noise, query_scale),
            ] {
                assert_eq!(noise.scale(), scale);
            }
        }
    }

    #[test]
    fn a_fork_gets_no_answers() {
        let mut run = AboveThreshold::begin(terms(1, 1.0, 0, Split::Half), stream(79), None);
        run.process ^= 1;
        let query = crate::selection::ScoreSum::new(ScoreBound::whole(1, 0, 1).unwrap());
        assert!(matches!(
            run.ask_score(&query.finish(Adjacency::AddRemove)),
            Err(SelectionError::Forked { .. })
        ));
    }

    #[test]
    fn the_optimal_split_has_the_least_variance_and_spends_no_more() {
        for (answers, low) in [(1, -1), (5, -1), (5, 0), (1000, -1)] {
            for epsilon in [0.1, 1.0, 7.3] {
                let bound = ScoreBound::whole(1, low, 1).unwrap();
                let moves = Moves::of_scores(&bound, Adjacency::AddRemove);
                let (first, second) = parts(epsilon, Split::Optimal, &moves, answers);
                // The exact sum of two doubles, against epsilon.
                assert!(second <= epsilon - first && first + second > epsilon * (1.0 - 1e-15));
                let variance = |first: f64| {
                    let second = epsilon - first;
                    let scale = f64::from(answers) * f64::from(1 - low) / second;
                    first.powi(-2) + scale * scale
                };
                for other in [0.9, 1.1] {
                    assert!(variance(first) < variance(first * other));
                }
                // The published ratio.
                let published = (f64::from(answers) * f64::from(1 - low)).powf(2.0 / 3.0);
                assert!((second / first / published - 1.0).abs() < 1e-12);
            }
        }
    }

    /// Pure epsilon of the whole transcript, by the closed form over all neighbours of short
    /// streams of small queries; and the same with broken noise.
    #[test]
    fn ratios_of_neighbours_stay_below_epsilon() {
        let epsilon = 1.0;
        let worst = |rates: [f64; 2], changes: &[i64], answers: u32| {
            let mut worst = 0.0_f64;
            for u in grid(&[0, 2, 3], 3) {
                let p = law(&u, 2, answers, rates);
                for change in grid(changes, 3) {
                    let v: Vec<i64> = u.iter().zip(&change).map(|(a, b)| a + b).collect();
                    for (a, b) in p.iter().zip(law(&v, 2, answers, rates)) {
                        // Patterns that the run can't give have none of either.
                        if *a > 0.0 {
                            worst = worst.max((a / b).ln().abs());
                        }
                    }
                }
            }
            worst
        };
        let general = worst([0.5, 0.25], &[-1, 0, 1], 1);
        assert!(general <= epsilon + 1e-9 && general > 0.6, "{general}");
        let monotone = worst([0.5, 0.5], &[0, 1], 1);
        assert!(monotone <= epsilon + 1e-9 && monotone > 0.6, "{monotone}");
        let two = worst([0.5, 0.125], &[-1, 0, 1], 2);
        assert!(two <= epsilon + 1e-9, "{two}");
        // Queries that move in different directions at the noise of monotone ones.
        let mixed = worst([0.5, 0.5], &[-1, 0, 1], 1);
        assert!(mixed > epsilon, "{mixed}");
        // Query noise that forgets the number of answers, or the factor two.
        let broken = worst([0.5, 0.5], &[-1, 0, 1], 2);
        assert!(broken > epsilon, "{broken}");
    }

    /// Algorithm 3 of the same paper releases the noisy value of what is above. A low one says that the
    /// threshold's noise is lower still, and then each query below it pays again: with `m` of them
    /// the ratio grows like `e^(m e2)`. The mechanism here releases the pattern only.
    #[test]
    fn releasing_the_noisy_value_would_not_be_private() {
        let [threshold_rate, query_rate] = [0.5, 0.25];
        let mass = |rate: f64, z: i64| (0.5 * rate).tanh() * (-rate * z.abs() as f64).exp();
        let below = |z: i64| {
            let tail = |z: i64| (-query_rate * z as f64).exp() / (1.0 + (-query_rate).exp());
            if z > 0 { 1.0 - tail(z) } else { tail(1 - z) }
        };
        // m queries of the given value below the threshold 0 + z, then the value −20 at or above.
        let probability = |value: i64, m: i32| -> f64 {
            (-600..=-20)
                .map(|z| mass(threshold_rate, z) * below(z - value).powi(m))
                .sum()
        };
        let loss = |m| (probability(0, m) / probability(1, m)).ln();
        assert!(loss(1) < 1.0 && loss(8) > 1.9, "{} {}", loss(1), loss(8));
    }

    fn grid(values: &[i64], length: u32) -> Vec<Vec<i64>> {
        let count = values.len();
        (0..count.pow(length))
            .map(|code| {
                (0..length)
                    .map(|i| values[code / count.pow(i) % count])
                    .collect()
            })
            .collect()
    }
}
