//! The Hessian of a record, for certificates.

use dpopt_linalg::Row;
use dpopt_privacy::{Bound, ClipNorm, LatticeError, LatticeSum, SquareWork};

use super::of_record::Query;
use crate::loss::{Bordered, RecordOf, TwiceDifferentiable, add_contribution, guarded};
use crate::positions::Positions;
use crate::records::Records;

/// Largest dimension for which a private Hessian is formed (one release of 524,800 numbers).
pub const MAX_PRIVATE_HESSIAN_DIM: usize = 1024;

/// hess f(w; x) as a vector of d (d + 1)/2 coordinates, clipped to `radius` in Frobenius norm.
///
/// # Formula
/// Row by row of the lower triangle of the symmetric part, entries off the diagonal times sqrt 2:
/// the length of the vector is the Frobenius norm of the matrix, and independent noise of standard
/// deviation s on it is a symmetric matrix with standard deviation s on the diagonal and s/sqrt 2
/// beside it. [`unpack_symmetric`] goes back.
///
/// A Hessian of rank one, as a generalised linear loss has, is at most L1 long; any other at most
/// sqrt(d) L1.
#[derive(Debug, Clone, Copy)]
pub struct HessianMatrix<'a> {
    /// w.
    pub point: &'a [f64],
    /// The clip radius, in Frobenius norm.
    pub radius: ClipNorm,
}

impl HessianMatrix<'_> {
    /// d (d + 1)/2: how many numbers it has.
    #[must_use]
    pub fn coordinates(&self) -> usize {
        let dim = self.point.len();
        dim.saturating_mul(dim + 1) / 2
    }

    /// Adds a matrix to `packed`, where `product` adds its product with a unit vector to a vector of zeros.
    ///
    /// # Shapes
    /// `packed`: d (d + 1)/2.
    pub fn add_products(&self, mut product: impl FnMut(&[f64], &mut [f64]), packed: &mut [f64]) {
        let dim = self.point.len();
        let mut unit = vec![0.0; dim];
        let mut column = vec![0.0; dim];
        for j in 0..dim {
            unit[j] = 1.0;
            column.fill(0.0);
            product(&unit, &mut column);
            unit[j] = 0.0;
            // Entry (i, j) is half of what stands in the symmetric part, from either side.
            let half = std::f64::consts::FRAC_1_SQRT_2;
            for (i, x) in column.iter().enumerate() {
                packed[place(i.max(j), i.min(j))] += if i == j { *x } else { half * x };
            }
        }
    }
}

impl<L: TwiceDifferentiable> Query<L> for HessianMatrix<'_> {
    fn bound(&self, _: &L) -> Result<Option<Bound>, LatticeError> {
        Bound::new(self.radius, self.coordinates()).map(Some)
    }

    fn fits(&self, dim: usize) -> bool {
        self.point.len() == dim
    }

    /// d Hessian-vector products.
    fn gradients_per_record(&self) -> f64 {
        2.0 * self.point.len() as f64
    }

    fn contribution(&self, loss: &L, record: RecordOf<'_, L>, out: &mut [f64]) {
        let product = |unit: &[f64], column: &mut [f64]| {
            loss.hessian_vector(record, self.point, unit, column);
        };
        self.add_products(product, out);
    }

    fn add(&self, loss: &L, records: &L::Records, positions: Positions<'_>, sum: &mut LatticeSum) {
        let mut contribution = Vec::new();
        let mut products = Products::default();
        let mut squares = Squares::new(self.point.len());
        let dim = sum.bound().dim();
        for i in positions.iter() {
            let mut square = None;
            let mut bordered = false;
            let finished = guarded::<L, _>(|| {
                let record = records.record(i);
                square = loss.rank_one(record, self.point);
                if square.is_some() {
                    return;
                }
                // Places are 32 bits wide.
                let narrow = u32::try_from(dim).is_ok();
                if narrow && let Some(of) = loss.bordered(record, self.point) {
                    products.fill_bordered(self.point.len(), &of);
                    bordered = true;
                } else {
                    contribution.clear();
                    contribution.resize(dim, 0.0);
                    self.contribution(loss, record, &mut contribution);
                }
            });
            match square {
                Some((scale, row)) if finished => squares.add(scale, row, sum),
                _ if finished && bordered => {
                    sum.add_scaled_sparse(1.0, &products.places, &products.values);
                }
                _ => add_contribution(sum, finished, &contribution),
            }
        }
        squares.flush(sum);
    }
}

/// Records whose squares are added together. Tuned: what [`LatticeSum::add_squares`] takes at once.
const TOGETHER: usize = 64;

/// Multiples of x x^T on their way to a sum. What a record adds is the same whichever way it takes.
struct Squares {
    dim: usize,
    rows: Vec<f64>,
    scales: Vec<f64>,
    work: SquareWork,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Squares {
    fn new(dim: usize) -> Self {
        Self {
            dim,
            rows: Vec::new(),
            scales: Vec::new(),
            work: SquareWork::new(),
            columns: Vec::new(),
            values: Vec::new(),
        }
    }

    fn add(&mut self, scale: f64, row: Row<'_>, sum: &mut LatticeSum) {
        if let Row::Sparse(columns, _) | Row::OneHot(columns, _) = row
            && SPARSE * columns.len() < self.dim
        {
            self.columns.clear();
            self.values.clear();
            row.for_each(|column, x| {
                self.columns.push(column as u32);
                self.values.push(x);
            });
            sum.add_sparse_square(self.dim, scale, (&self.columns, &self.values));
            return;
        }
        let start = self.rows.len();
        self.rows.resize(start + self.dim, 0.0);
        let mut fits = true;
        row.for_each(|column, x| match self.rows.get_mut(start + column) {
            Some(to) => *to = x,
            None => fits = false,
        });
        self.scales.push(if fits { scale } else { 0.0 });
        if self.scales.len() == TOGETHER {
            self.flush(sum);
        }
    }

    fn flush(&mut self, sum: &mut LatticeSum) {
        sum.add_squares(&self.rows, &self.scales, &mut self.work);
        self.rows.clear();
        self.scales.clear();
    }
}

/// A row is sparse with fewer entries than one in so many. Tuned: dense ones are added eight at a time, with two operations.
const SPARSE: usize = 4;

/// Where entry (i, j), j <= i, of a symmetric matrix stands in its vector.
fn place(i: usize, j: usize) -> usize {
    i * (i + 1) / 2 + j
}

/// A bordered Hessian in the layout of [`HessianMatrix`], without the products that are zero because an entry of x is not stored.
#[derive(Default)]
struct Products {
    entries: Vec<(usize, f64)>,
    places: Vec<u32>,
    values: Vec<f64>,
}

impl Products {
    fn fill(&mut self, row: Row<'_>) {
        self.entries.clear();
        self.places.clear();
        self.values.clear();
        row.for_each(|i, x| {
            self.entries.push((i, x));
            let double = std::f64::consts::SQRT_2 * x;
            for &(j, y) in &self.entries {
                self.places.push(place(i, j) as u32);
                self.values.push(if i == j { x * x } else { double * y });
            }
        });
    }

    /// The whole of a bordered Hessian of `dim` coordinates, whose numbers behind the row are the last ones.
    fn fill_bordered(&mut self, dim: usize, of: &Bordered<'_>) {
        self.fill(of.row);
        for value in &mut self.values {
            *value *= of.factor;
        }
        let mut corner = of.corner.iter();
        let first = dim.saturating_sub(of.border.len());
        for (k, border) in of.border.iter().enumerate() {
            let behind = first + k;
            let double = std::f64::consts::SQRT_2 * border;
            for &(j, x) in &self.entries {
                self.places.push(place(behind, j) as u32);
                self.values.push(double * x);
            }
            for (j, entry) in corner.by_ref().take(k + 1).enumerate() {
                self.places.push(place(behind, first + j) as u32);
                self.values.push(if j == k {
                    *entry
                } else {
                    std::f64::consts::SQRT_2 * entry
                });
            }
        }
    }
}

/// The symmetric matrix, row-major (d, d), of a vector laid out as [`HessianMatrix`] does; none
/// unless its length is d (d + 1)/2.
#[must_use]
pub fn unpack_symmetric(dim: usize, packed: &[f64]) -> Option<Vec<f64>> {
    if packed.len() != dim.checked_mul(dim + 1)? / 2 {
        return None;
    }
    let mut matrix = vec![0.0; dim * dim];
    for i in 0..dim {
        for j in 0..=i {
            let x = packed[i * (i + 1) / 2 + j];
            let x = if i == j {
                x
            } else {
                std::f64::consts::FRAC_1_SQRT_2 * x
            };
            matrix[i * dim + j] = x;
            matrix[j * dim + i] = x;
        }
    }
    Some(matrix)
}
