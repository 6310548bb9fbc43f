//! Many short vectors at once, the first numbers of all beside each other, then the second: number j of vector i of n is `columns[j * n + i]`.

use dpopt_lanes::{Kernel, LANES, Lanes, dispatch};

/// Shortens vectors to `longest`: those of which a part is `multiples[i]` times something of length `lengths[i]`, and the rest in `columns`.
///
/// # Formula
/// Multiple and columns of vector i are multiplied by min(1, `longest`/norm); by 1 where the norm is no number, and by 0 where it is infinite
/// and `longest` is not. What is made of a vector depends on it and on `longest` alone.
///
/// # Shapes
/// `multiples`, `lengths`: n; `columns`: a multiple of n.
pub fn shorten_multiples(
    multiples: &mut [f64],
    lengths: &[f64],
    columns: &mut [f64],
    longest: f64,
) {
    dispatch(Shorten {
        count: multiples.len().min(lengths.len()),
        lead: Some((multiples, lengths)),
        columns,
        limit: Limit::new(longest),
        scale: 1.0,
    });
}

/// Shortens `count` vectors to `longest`, as [`shorten_multiples`], and multiplies all of them by `scale`.
///
/// # Shapes
/// `columns`: a multiple of `count`.
pub fn shorten_columns(columns: &mut [f64], count: usize, longest: f64, scale: f64) {
    dispatch(Shorten {
        count,
        lead: None,
        columns,
        limit: Limit::new(longest),
        scale,
    });
}

/// Vectors in two parts, as in [`shorten_multiples`].
#[derive(Debug)]
pub struct Multiples<M, C> {
    /// n.
    pub multiples: M,
    /// The others.
    pub columns: C,
}

/// Replaces each vector by itself, shortened, less `kept` times another, shortened: as [`shorten_multiples`].
///
/// # Shapes
/// As there, and `others` as `vectors`.
pub fn subtract_shortened(
    vectors: Multiples<&mut [f64], &mut [f64]>,
    others: Multiples<&[f64], &[f64]>,
    lengths: &[f64],
    longest: f64,
    kept: f64,
) {
    dispatch(Subtract {
        vectors,
        others,
        lengths,
        limit: Limit::new(longest),
        kept,
    });
}

/// Number j of vector i becomes `starts(j) - share * numbers[i]`, and `extra[i]` more where `own[i]` is j.
///
/// # Shapes
/// `columns`: a multiple of `count`; `numbers`, `own` and `extra`: of the vectors from number `first` on, as many as there are.
pub fn spread(
    columns: &mut [f64],
    (count, first): (usize, usize),
    numbers: &[f64],
    (starts, share): (impl Fn(usize) -> f64, f64),
    own: &[f64],
    extra: &[f64],
) {
    dispatch(Spread {
        columns,
        count,
        first,
        numbers,
        starts,
        share,
        own,
        extra,
    });
}

/// How long a vector may be.
#[derive(Clone, Copy)]
struct Limit {
    longest: f64,
    /// Vectors of a square up to this are left as they are, as root and quotient are rounded.
    within: f64,
}

impl Limit {
    fn new(longest: f64) -> Self {
        let square = longest * longest * (1.0 - 8.0 * f64::EPSILON);
        let within = if longest == f64::INFINITY {
            longest
        } else if (1e-280..1e280).contains(&square) {
            square
        } else {
            // None: each is looked at.
            -1.0
        };
        Self { longest, within }
    }

    /// Whether all factors are 1; none is that of what is no number.
    #[inline(always)]
    fn keeps<const N: usize>(self, squares: &[f64; N]) -> bool {
        let mut all = true;
        for x in squares {
            all &= *x <= self.within;
        }
        all
    }

    /// min(1, `longest`/norm).
    #[inline(always)]
    fn factors<const N: usize>(self, mut squares: [f64; N]) -> [f64; N] {
        for x in &mut squares {
            let share = self.longest / x.sqrt();
            // Asked of the share, so that roots and quotients are of many at a time. One that is no number is 1.
            *x = if share < 1.0 { share } else { 1.0 };
        }
        squares
    }
}

/// The numbers of N vectors from `start` on.
#[inline(always)]
fn part<const N: usize>(all: &[f64], start: usize) -> &[f64; N] {
    &all[start..].as_chunks::<N>().0[0]
}

#[inline(always)]
fn part_mut<const N: usize>(all: &mut [f64], start: usize) -> &mut [f64; N] {
    &mut all[start..].as_chunks_mut::<N>().0[0]
}

/// The squared norms of N vectors from `start` on.
#[inline(always)]
fn squares<const N: usize>(
    lead: Option<(&[f64], &[f64])>,
    columns: &[f64],
    (count, start): (usize, usize),
) -> [f64; N] {
    let mut squares = [0.0; N];
    if let Some((multiples, lengths)) = lead {
        let (multiples, lengths) = (part::<N>(multiples, start), part::<N>(lengths, start));
        for i in 0..N {
            squares[i] = multiples[i] * multiples[i] * (lengths[i] * lengths[i]);
        }
    }
    for column in columns.chunks_exact(count) {
        let column = part::<N>(column, start);
        for i in 0..N {
            squares[i] += column[i] * column[i];
        }
    }
    squares
}

struct Shorten<'a> {
    lead: Option<(&'a mut [f64], &'a [f64])>,
    columns: &'a mut [f64],
    count: usize,
    limit: Limit,
    scale: f64,
}

impl Shorten<'_> {
    #[inline(always)]
    fn part<const N: usize>(&mut self, start: usize) {
        let (count, scale) = (self.count, self.scale);
        let lead = self.lead.as_ref().map(|(m, lengths)| (&**m, *lengths));
        let squares = squares::<N>(lead, self.columns, (count, start));
        let keeps = self.limit.keeps(&squares);
        if keeps && scale == 1.0 {
            return;
        }
        let factors = if keeps {
            [1.0; N]
        } else {
            self.limit.factors(squares)
        };
        if let Some((multiples, _)) = &mut self.lead {
            let multiples = part_mut::<N>(multiples, start);
            for i in 0..N {
                multiples[i] *= factors[i];
            }
        }
        for column in self.columns.chunks_exact_mut(count) {
            let column = part_mut::<N>(column, start);
            for i in 0..N {
                column[i] = column[i] * factors[i] * scale;
            }
        }
    }
}

impl Kernel for Shorten<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, _: L) {
        let whole = self.count / LANES * LANES;
        for start in (0..whole).step_by(LANES) {
            self.part::<LANES>(start);
        }
        for start in whole..self.count {
            self.part::<1>(start);
        }
    }
}

struct Subtract<'a> {
    vectors: Multiples<&'a mut [f64], &'a mut [f64]>,
    others: Multiples<&'a [f64], &'a [f64]>,
    lengths: &'a [f64],
    limit: Limit,
    kept: f64,
}

impl Subtract<'_> {
    #[inline(always)]
    fn part<const N: usize>(&mut self, (count, start): (usize, usize)) {
        let (vectors, others) = (&mut self.vectors, &self.others);
        let own = Some((&*vectors.multiples, self.lengths));
        let own = squares::<N>(own, vectors.columns, (count, start));
        let other = Some((others.multiples, self.lengths));
        let other = squares::<N>(other, others.columns, (count, start));
        let (mut own_factors, mut other_factors) = ([1.0; N], [1.0; N]);
        if !(self.limit.keeps(&own) & self.limit.keeps(&other)) {
            own_factors = self.limit.factors(own);
            other_factors = self.limit.factors(other);
        }
        for factor in &mut other_factors {
            *factor *= self.kept;
        }
        let subtract = |own: &mut [f64], other: &[f64]| {
            let (own, other) = (part_mut::<N>(own, start), part::<N>(other, start));
            for i in 0..N {
                own[i] = own_factors[i] * own[i] - other_factors[i] * other[i];
            }
        };
        subtract(vectors.multiples, others.multiples);
        let columns = vectors.columns.chunks_exact_mut(count);
        for (own, other) in columns.zip(others.columns.chunks_exact(count)) {
            subtract(own, other);
        }
    }
}

impl Kernel for Subtract<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(mut self, _: L) {
        let count = self.vectors.multiples.len();
        let whole = count / LANES * LANES;
        for start in (0..whole).step_by(LANES) {
            self.part::<LANES>((count, start));
        }
        for start in whole..count {
            self.part::<1>((count, start));
        }
    }
}

struct Spread<'a, F> {
    columns: &'a mut [f64],
    count: usize,
    first: usize,
    numbers: &'a [f64],
    starts: F,
    share: f64,
    own: &'a [f64],
    extra: &'a [f64],
}

impl<F: Fn(usize) -> f64> Kernel for Spread<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let size = self.numbers.len();
        let (own, extra) = (&self.own[..size], &self.extra[..size]);
        for (j, column) in self.columns.chunks_exact_mut(self.count.max(1)).enumerate() {
            let (start, place) = ((self.starts)(j), j as f64);
            let column = &mut column[self.first..][..size];
            for i in 0..size {
                let more = if own[i] == place { extra[i] } else { 0.0 };
                column[i] = start - self.numbers[i] * self.share + more;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (3, 4), (5, 12), (0, 0) and what has no length: by hand.
    #[test]
    fn vectors_by_hand() {
        let nan = f64::NAN;
        let all = [3.0, 5.0, 0.0, nan, 1e300, 4.0, 12.0, 0.0, 1.0, 1.0];
        let mut columns = all;
        shorten_columns(&mut columns, 5, 6.5, 2.0);
        assert_eq!(columns[..3], [6.0, 5.0, 0.0]);
        assert_eq!(columns[4..], [0.0, 8.0, 12.0, 0.0, 2.0, 0.0]);
        assert!(columns[3].is_nan());
        // The first numbers as multiples of what is one long.
        let (multiples, rest) = columns.split_at_mut(5);
        multiples.copy_from_slice(&all[..5]);
        rest.copy_from_slice(&all[5..]);
        shorten_multiples(multiples, &[1.0; 5], rest, 6.5);
        assert_eq!(multiples[..3], [3.0, 2.5, 0.0]);
        assert!(multiples[3].is_nan());
        assert_eq!(
            (multiples[4], &*rest),
            (0.0, &[4.0, 6.0, 0.0, 1.0, 0.0][..])
        );
        let mut none = [4.0, f64::INFINITY];
        shorten_columns(&mut none, 2, f64::INFINITY, 1.0);
        assert_eq!(none, [4.0, f64::INFINITY]);
    }

    #[test]
    fn differences_by_hand() {
        let (mut multiples, mut columns) = ([3.0, 1.0], [4.0, 0.5]);
        let vectors = Multiples {
            multiples: &mut multiples[..],
            columns: &mut columns[..],
        };
        let others = Multiples {
            multiples: &[1.0, 6.0][..],
            columns: &[1.0, 4.0][..],
        };
        // (6, 4), (2, 0.5) less half of (2, 1), (12, 4): by clips of 7.2111 and 12.649 to 5.
        subtract_shortened(vectors, others, &[2.0; 2], 5.0, 0.5);
        let (first, second) = (5.0 / 52f64.sqrt(), 5.0 / 160f64.sqrt());
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-15, "{a} {b}");
        near(multiples[0], 3.0 * first - 0.5);
        near(columns[0], 4.0 * first - 0.5);
        near(multiples[1], 1.0 - 3.0 * second);
        near(columns[1], 0.5 - 2.0 * second);
    }

    #[test]
    fn numbers_are_spread_by_hand() {
        let mut columns = [7.0; 8];
        let starts = |j: usize| j as f64;
        let (own, extra) = ([1.0, -1.0, 0.0], [10.0, 20.0, 30.0]);
        spread(
            &mut columns,
            (4, 1),
            &[1.0, 2.0, 3.0],
            (starts, 0.5),
            &own,
            &extra,
        );
        assert_eq!(columns, [7.0, -0.5, -1.0, 28.5, 7.0, 10.5, 0.0, -0.5]);
    }

    /// What is made of a vector is the same wherever it is, to the bit, and what root and quotient say: around the limit, where factors are not
    /// asked for, and at the ends of the range.
    #[test]
    fn places_and_neighbours_do_not_matter() {
        for longest in [0.9, 1e-150, 1e-170, 3e200, f64::INFINITY] {
            let size = if longest < 1e300 { longest } else { 1.0 };
            let vector = |i: usize| {
                let wide = [0.1, 1.0, 7.0][i % 3] * (i as f64).sin();
                let near = (0.8f64).sqrt() * (1.0 + (i as f64 - 60.0) * f64::EPSILON);
                let first = if i.is_multiple_of(2) { wide } else { near };
                let last = if i % 11 == 5 { f64::NAN } else { 0.2f64.sqrt() };
                [
                    first * size,
                    last * size,
                    if i.is_multiple_of(2) { size } else { 0.0 },
                ]
            };
            let of = |all: &[usize]| {
                let columns = all.iter().map(|&i| vector(i)[0]);
                let mut multiples: Vec<f64> = columns.collect();
                let lengths = vec![1.0; all.len()];
                let mut columns: Vec<f64> = (1..3)
                    .flat_map(|j| all.iter().map(move |&i| vector(i)[j]))
                    .collect();
                shorten_multiples(&mut multiples, &lengths, &mut columns, longest);
                multiples.extend(columns);
                multiples
            };
            for count in 1..120 {
                let all: Vec<usize> = (0..count).collect();
                let found = of(&all);
                let i = count - 1;
                let [a, b, c] = vector(i);
                let share = longest / (a * a + b * b + c * c).sqrt();
                let factor = if share < 1.0 { share } else { 1.0 };
                for (j, x) in of(&[i]).into_iter().enumerate() {
                    assert_eq!(found[j * count + i].to_bits(), x.to_bits());
                    assert_eq!(x.to_bits(), (vector(i)[j] * factor).to_bits());
                }
            }
        }
    }
}
