//! Pure privacy, by the exact output probabilities of all neighbours of small integer scores.
//!
//! With `t = exp(−rate)` a weight `exp(−rate n)` is the power `t^n`, so the laws are rational
//! functions of t. At `t = 1/2` and `t = 2/3` they are rational numbers, and a bound
//! `P <= e^epsilon Q` with `e^epsilon = t^(−spread)` is a comparison of integers, made here
//! without rounding. The formulas are written out from the papers, apart from the code.

/// A non-negative fraction.
#[derive(Clone, Copy)]
struct Fraction(u128, u128);

impl Fraction {
    fn new(p: u128, q: u128) -> Self {
        let (mut a, mut b) = (p, q);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        Self(p / a, q / a)
    }

    fn plus(self, other: Self) -> Self {
        Self::new(self.0 * other.1 + other.0 * self.1, self.1 * other.1)
    }

    fn times(self, other: Self) -> Self {
        let (a, b) = (Self::new(self.0, other.1), Self::new(other.0, self.1));
        Self(a.0 * b.0, a.1 * b.1)
    }

    /// t^n
    fn power(self, n: i64) -> Self {
        let n = u32::try_from(n).unwrap();
        Self(self.0.pow(n), self.1.pow(n))
    }

    fn over(self, other: Self) -> Self {
        self.times(Self(other.1, other.0))
    }

    fn is_at_most(self, other: Self) -> bool {
        self.0 * other.1 <= other.0 * self.1
    }
}

const ZERO: Fraction = Fraction(0, 1);
const ONE: Fraction = Fraction(1, 1);

/// McSherry and Talwar: weights t^(max − u), times a base measure.
fn exponential(scores: &[i64], base: &[u128], t: Fraction) -> Vec<Fraction> {
    let best = *scores.iter().max().unwrap();
    let weights: Vec<Fraction> = scores
        .iter()
        .zip(base)
        .map(|(&u, &w)| t.power(best - u).times(Fraction(w, 1)))
        .collect();
    let total = weights.iter().fold(ZERO, |sum, &w| sum.plus(w));
    weights.iter().map(|w| w.over(total)).collect()
}

/// All vectors of this length with entries below `values`.
fn all(values: i64, length: u32) -> impl Iterator<Item = Vec<i64>> {
    (0..values.pow(length))
        .map(move |code| (0..length).map(|i| code / values.pow(i) % values).collect())
}

/// Whether `P <= t^(−spread) Q` for all outcomes of all neighbours whose scores change by `low` to
/// `high` each, and whether equality occurs.
fn check(
    law: impl Fn(&[i64]) -> Vec<Fraction>,
    (low, high): (i64, i64),
    limit: Fraction,
) -> (bool, bool) {
    let (mut holds, mut attained) = (true, false);
    for u in all(4, 3) {
        let p = law(&u);
        for change in all(high - low + 1, 3) {
            let v: Vec<i64> = u.iter().zip(&change).map(|(a, b)| a + b + low).collect();
            for (&a, &b) in p.iter().zip(&law(&v)) {
                for (a, b) in [(a, b), (b, a)] {
                    let bound = b.times(limit);
                    holds &= a.is_at_most(bound);
                    attained |= bound.is_at_most(a);
                }
            }
        }
    }
    (holds, attained)
}

const BASES: [Fraction; 2] = [Fraction(1, 2), Fraction(2, 3)];

fn e_to_epsilon(t: Fraction, spread: i64) -> Fraction {
    ONE.over(t.power(spread))
}

/// Spread 2 for changes in [−1, 1], 1 for changes in [0, 1], 3 for the lopsided [−1, 2].
const CHANGES: [((i64, i64), i64); 3] = [((-1, 1), 2), ((0, 1), 1), ((-1, 2), 3)];

/// With finitely many candidates the exponential mechanism comes close to epsilon and does not
/// attain it; its range does, on the two outcomes that move apart.
#[test]
fn the_exponential_mechanism_has_bounded_range_and_attains_it() {
    for t in BASES {
        for base in [[1, 1, 1], [1, 5, 2]] {
            for (changes, spread) in CHANGES {
                let law = |scores: &[i64]| exponential(scores, &base, t);
                let limit = e_to_epsilon(t, spread);
                assert_eq!(check(law, changes, limit), (true, false));
                // Ratios of ratios: P(i) Q(j) / (Q(i) P(j)).
                let (mut holds, mut attained) = (true, false);
                for u in all(3, 3) {
                    let p = law(&u);
                    for change in all(changes.1 - changes.0 + 1, 3) {
                        let v: Vec<i64> = u
                            .iter()
                            .zip(&change)
                            .map(|(a, b)| a + b + changes.0)
                            .collect();
                        let q = law(&v);
                        for (i, j) in [(0, 1), (1, 2), (2, 0)] {
                            let one = p[i].over(q[i]);
                            let bound = p[j].over(q[j]).times(limit);
                            holds &= one.is_at_most(bound);
                            attained |= bound.is_at_most(one);
                        }
                    }
                }
                assert!(holds && attained);
            }
        }
    }
}

/// One candidate of large base measure moves down and the other up: as the measure of the first
/// grows, the ratio comes as close to e^epsilon as one likes, so a smaller spread is not enough.
#[test]
fn the_exponential_mechanism_comes_close_to_epsilon() {
    let t = Fraction(1, 2);
    let base = [1_000_000, 1];
    let (p, q) = (
        exponential(&[1, 0], &base, t),
        exponential(&[0, 1], &base, t),
    );
    let limit = e_to_epsilon(t, 2);
    let ratio = q[1].over(p[1]);
    assert!(ratio.is_at_most(limit) && limit.times(Fraction(99_999, 100_000)).is_at_most(ratio));
}
