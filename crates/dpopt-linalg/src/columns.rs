//! Many short vectors at once, the first numbers of all beside each other, then the second: number j of vector i of n is `columns[j * n + i]`.

use dpopt_lanes::{Kernel, Lanes, dispatch};

/// Adds the squared norm of vector i to `squares[i]`, its numbers in order.
///
/// # Shapes
/// `columns`: a multiple of the length of `squares`; what is beyond is left out.
pub fn add_squared_norms(columns: &[f64], squares: &mut [f64]) {
    dispatch(Squares(columns, squares));
}

/// Replaces every squared norm by min(1, `longest`/norm), what a vector is multiplied by so that it is no longer than that.
///
/// It is 1 where the square is no number, and 0 where it is infinite and `longest` is not.
pub fn shortenings(squares: &mut [f64], longest: f64) {
    dispatch(Shortenings(squares, longest));
}

/// Multiplies vector i by `factors[i]`, then by `scale`.
///
/// # Shapes
/// As [`add_squared_norms`].
pub fn scale_columns(columns: &mut [f64], factors: &[f64], scale: f64) {
    dispatch(Scale(columns, factors, scale));
}

/// Replaces vector i by `factors[i]` times itself less `others[i]` times that of `from`.
///
/// # Shapes
/// As [`add_squared_norms`]; `from` as `columns`.
pub fn subtract_columns(columns: &mut [f64], factors: &[f64], from: &[f64], others: &[f64]) {
    dispatch(Subtract(columns, factors, from, others));
}

struct Squares<'a>(&'a [f64], &'a mut [f64]);

impl Kernel for Squares<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        for column in self.0.chunks_exact(self.1.len().max(1)) {
            for (sum, x) in self.1.iter_mut().zip(column) {
                *sum += x * x;
            }
        }
    }
}

struct Shortenings<'a>(&'a mut [f64], f64);

impl Kernel for Shortenings<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        for x in self.0 {
            let share = self.1 / x.sqrt();
            // Asked of the share, so that roots and quotients are of many at a time. One that is no number is 1.
            *x = if share < 1.0 { share } else { 1.0 };
        }
    }
}

struct Scale<'a>(&'a mut [f64], &'a [f64], f64);

impl Kernel for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        for column in self.0.chunks_exact_mut(self.1.len().max(1)) {
            for (x, factor) in column.iter_mut().zip(self.1) {
                *x = *x * factor * self.2;
            }
        }
    }
}

struct Subtract<'a>(&'a mut [f64], &'a [f64], &'a [f64], &'a [f64]);

impl Kernel for Subtract<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) {
        let Self(columns, factors, from, others) = self;
        let count = factors.len().max(1);
        let columns = columns.chunks_exact_mut(count);
        for (column, from) in columns.zip(from.chunks_exact(count)) {
            let own = column.iter_mut().zip(factors);
            for ((x, factor), (y, other)) in own.zip(from.iter().zip(others)) {
                *x = factor * *x - other * y;
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
        let mut columns = [3.0, 5.0, 0.0, nan, 1e300, 4.0, 12.0, 0.0, 1.0, 1.0];
        let mut factors = [0.0; 5];
        add_squared_norms(&columns, &mut factors);
        assert_eq!(factors[..3], [25.0, 169.0, 0.0]);
        assert!(factors[3].is_nan() && factors[4] == f64::INFINITY);
        shortenings(&mut factors, 6.5);
        assert_eq!(factors, [1.0, 0.5, 1.0, 1.0, 0.0]);
        scale_columns(&mut columns, &factors, 2.0);
        assert_eq!(columns[..3], [6.0, 5.0, 0.0]);
        assert_eq!(columns[5..8], [8.0, 12.0, 0.0]);
        let before = columns;
        subtract_columns(&mut columns, &[2.0; 5], &before, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(columns[..3], [6.0, 0.0, 0.0]);
        assert!(columns[3].is_nan());
        let mut none = [4.0, f64::INFINITY];
        shortenings(&mut none, f64::INFINITY);
        assert_eq!(none, [1.0; 2]);
    }

    /// What is made of a vector is the same wherever it is.
    #[test]
    fn places_do_not_matter() {
        let vector = |i: usize| {
            [
                0.37 * i as f64 - 3.0,
                (i as f64).sin(),
                1.0 / (1.0 + i as f64),
            ]
        };
        let of = |all: &[usize]| {
            let mut columns: Vec<f64> = (0..3)
                .flat_map(|j| all.iter().map(move |&i| vector(i)[j]))
                .collect();
            let mut factors = vec![0.0; all.len()];
            add_squared_norms(&columns, &mut factors);
            shortenings(&mut factors, 0.9);
            scale_columns(&mut columns, &factors, 0.3);
            columns
        };
        for count in 1..40 {
            let all: Vec<usize> = (0..count).collect();
            let found = of(&all);
            for i in 0..count {
                for (j, x) in of(&[i]).into_iter().enumerate() {
                    assert_eq!(found[j * count + i].to_bits(), x.to_bits());
                }
            }
        }
    }
}
