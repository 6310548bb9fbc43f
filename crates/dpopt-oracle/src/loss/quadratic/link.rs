//! A scalar loss of the squared length of a row seen through a factor: phase retrieval, metric learning, rank-one sensing.

use std::num::NonZeroUsize;

use dpopt_linalg::{Row, UnitWeights, norm, norm_upper};
use dpopt_privacy::{ClipNorm, LatticeSum};

use super::constants;
use crate::loss::outer::{add_outer, hessian_changes, hessian_pass, products};
use crate::loss::rows::{Block, Factors, Number, linear_pass};
use crate::loss::{
    Constants, Differentiable, Glm, Less, Loss, Momentum, RecordOf, Scale, Segment,
    TwiceDifferentiable, ValuesOf, add_numbers,
};
use crate::positions::Positions;
use crate::records::{Example, Examples};

/// A scalar loss phi of the squared length of U^T x, less a public threshold.
///
/// # Formula
/// f(U; (x, y)) = phi(q - b, y), q = ||U^T x||^2 = <x x^T, U U^T>, with b = 0 unless said otherwise. With t = U^T x:
///
/// - grad f = 2 phi' x t^T: an outer product;
/// - hess f = (x x^T) (x) (2 phi' I_r + 4 phi'' t t^T), (x) the Kronecker product, so that its product with V is the outer product of
///   x and 2 phi' s + 4 phi'' <t, s> t, s = V^T x.
///
/// With ||x|| <= X and ||U||_F <= R: G = 2 X^2 R, B = 2 X^2, and 2 x x^T (x) I_r has Frobenius norm at most 2 sqrt(r) X^2; see the
/// constants of the module's page. The gap is F(0) <= the largest phi(-b, y).
///
/// - **Phase retrieval** is r = 1, y the measured square ([`QuadraticLink::phase_retrieval`]).
/// - **Rank-one sensing** of a matrix U U^T, y = <x x^T, U U^T> measured.
/// - **Metric learning**: x is the difference of two things, phi logistic, b = 1, y = +1 for things that differ and -1 for
///   things that are the same: f = ln(1 + exp(-y (q - 1))).
///
/// U and U O give the same loss for every orthogonal O, and U = 0 has gradient 0 whatever the records: start at
/// [`QuadraticLink::start`], or where the Hessian at 0 points.
///
/// # Shapes
/// A point is U: (p, r), row-major, the r numbers of a feature beside each other: d = p r.
///
/// # Privacy
/// As [`Glm`]: never panics, no state, clipped wherever U is. A record's outer product is clipped as one vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuadraticLink {
    phi: Glm,
    rank: usize,
    ball: f64,
    threshold: f64,
}

impl QuadraticLink {
    /// With factors of `rank` columns and constants for the ball ||U||_F <= `ball`.
    #[must_use]
    pub fn new(phi: Glm, rank: NonZeroUsize, ball: ClipNorm) -> Self {
        Self {
            phi,
            rank: rank.get(),
            ball: ball.get(),
            threshold: 0.0,
        }
    }

    /// phi(<w, x>^2, y), on rows with the measured squares as labels: rank 1.
    #[must_use]
    pub fn phase_retrieval(phi: Glm, ball: ClipNorm) -> Self {
        Self::new(phi, NonZeroUsize::MIN, ball)
    }

    /// With a threshold b: phi(q - b, y).
    #[must_use]
    pub fn with_threshold(self, threshold: Scale) -> Self {
        let threshold = threshold.get();
        Self { threshold, ..self }
    }

    /// r.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// R: the radius of the ball that the constants hold on.
    #[must_use]
    pub fn ball(&self) -> f64 {
        self.ball
    }

    /// b.
    #[must_use]
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// phi.
    #[must_use]
    pub fn phi(&self) -> Glm {
        self.phi
    }

    /// The same loss with a factor of one column, whose Hessian at 0 is the block on the diagonal of this one's there:
    /// hess F(0) = H_1 (x) I_r, H_1 = mean 2 phi'(-b, y) x x^T.
    #[must_use]
    pub fn of_one_column(&self) -> Self {
        Self { rank: 1, ..*self }
    }

    /// Constants on the ball, for rows of norm at most `row_norm` and labels within `[-Y, Y]`, Y = `label_bound`.
    #[must_use]
    pub fn constants_within(&self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        let phi = self.phi.constants_within(1.0, label_bound);
        self.constants_where(self.ball, row_norm, (phi, label_bound))
    }

    /// Constants that hold at a public point, for such rows and labels.
    ///
    /// # Formula
    /// Those of the operator norm of U, which is at most the root of the largest row sum of |U^T U|; with the slopes and values of phi for q
    /// in [0, X^2 ||U||^2]. The gap is F(U) - min F, at most the largest phi at an end of that interval: phi is monotone in q, or falls and
    /// then rises.
    ///
    /// # Shapes
    /// `point`: (p, r).
    #[must_use]
    pub fn constants_of(
        &self,
        point: &[f64],
        row_norm: f64,
        label_bound: Option<f64>,
    ) -> Constants {
        let size = operator_norm(self.rank, point);
        let most = (row_norm * size).powi(2);
        let mut phi = self.phi.constants_within(1.0, label_bound);
        let slope = self
            .phi
            .largest_slope(-self.threshold, most - self.threshold);
        phi.lipschitz = slope.min(phi.lipschitz);
        Constants {
            initial_gap: self.gap_within(size, row_norm, label_bound),
            ..self.constants_where(size, row_norm, (phi, label_bound))
        }
    }

    /// F(U) - min F at most, where ||U||_F <= `size`, at most the largest phi at an end of [-b, X^2 size^2 - b].
    #[must_use]
    pub fn gap_within(&self, size: f64, row_norm: f64, label_bound: Option<f64>) -> f64 {
        let ends = [0.0, (row_norm * size).powi(2)];
        let ends = ends.map(|q| self.phi.largest_at(q - self.threshold, label_bound));
        ends[0].max(ends[1])
    }

    /// A public start of Frobenius norm `length`, of independent uniform entries drawn from a seed: U = 0 is stationary. It depends on
    /// nothing else.
    ///
    /// # Shapes
    /// Returns (`features`, r).
    #[must_use]
    pub fn start(&self, features: usize, length: f64, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut entry = || 2.0 * crate::seeded::uniform(&mut state) - 1.0;
        let mut point: Vec<f64> = (0..features * self.rank).map(|_| entry()).collect();
        let size = norm(&point);
        if size > 0.0 {
            point.iter_mut().for_each(|u| *u *= length / size);
        }
        point
    }

    /// q = ||U^T x||^2, without the threshold.
    ///
    /// # Shapes
    /// `point`: (p, r). Columns beyond p are left out.
    #[must_use]
    pub fn square(&self, row: Row<'_>, point: &[f64]) -> f64 {
        self.products(row, point).iter().map(|t| t * t).sum()
    }

    /// t = U^T x.
    fn products(&self, row: Row<'_>, point: &[f64]) -> Vec<f64> {
        products(row, point, self.rank)
    }

    /// q - b.
    fn argument(&self, products: &[f64]) -> f64 {
        products.iter().map(|t| t * t).sum::<f64>() - self.threshold
    }

    /// 2 phi' t.
    fn multiples(&self, products: &[f64], label: f64, out: &mut [f64]) {
        let slope = 2.0 * self.phi.slope(self.argument(products), label);
        for (out, t) in out.iter_mut().zip(products) {
            *out = slope * t;
        }
    }

    /// Their change from t to t + dt: 2 (phi'(z') dt + (phi'(z') - phi'(z)) t), z' - z = <dt, 2t + dt>.
    fn changes(&self, products: &[f64], changes: &[f64], label: f64, out: &mut [f64]) {
        let z = self.argument(products);
        let pairs = products.iter().zip(changes);
        let dz = pairs.map(|(t, dt)| dt * (t + (t + dt))).sum();
        let after = 2.0 * self.phi.slope(z + dz, label);
        let change = 2.0 * self.phi.slope_change(z, dz, label);
        for ((out, t), dt) in out.iter_mut().zip(products).zip(changes) {
            *out = after * dt + change * t;
        }
    }

    /// 2 phi' and 4 phi''.
    fn second(&self, products: &[f64], label: f64) -> (f64, f64) {
        let z = self.argument(products);
        let (slope, curvature) = (self.phi.slope(z, label), self.phi.curvature(z, label));
        (2.0 * slope, 4.0 * curvature)
    }

    /// Adds `times` (2 phi' s + 4 phi'' <t, s> t).
    fn add_second(&self, products: &[f64], along: &[f64], label: f64, times: f64, out: &mut [f64]) {
        let (slope, curvature) = self.second(products, label);
        let common: f64 = products.iter().zip(along).map(|(t, s)| t * s).sum();
        let (slope, common) = (times * slope, times * curvature * common);
        for ((out, t), s) in out.iter_mut().zip(products).zip(along) {
            *out += slope * s + common * t;
        }
    }

    /// [`QuadraticLink::add_second`].
    fn bend(&self) -> impl FnMut(&mut [f64], &[f64], f64, f64, &mut [f64]) {
        |products, along, label, times, out| self.add_second(products, along, label, times, out)
    }

    fn pass<M>(
        &self,
        records: &Examples,
        positions: &Positions<'_>,
        factors: [M; 1],
        sum: &mut LatticeSum,
    ) where
        [M; 1]: Factors<1>,
    {
        linear_pass(records, positions, factors, sum, |block| {
            let [products] = block.products;
            let rows = products.chunks_exact(self.rank);
            let rows = rows.zip(block.multiples.chunks_exact_mut(self.rank));
            for ((products, multiples), label) in rows.zip(block.labels) {
                self.multiples(products, *label, multiples);
            }
        });
    }

    /// A clipped gradient is the vector of multiples, clipped to clip / ||x||, times x; so is a difference of two, or of one and a part
    /// of another.
    fn change_pass<M>(
        &self,
        records: &Examples,
        positions: &Positions<'_>,
        factors: [M; 2],
        (clip, momentum): (f64, Momentum),
        sum: &mut LatticeSum,
    ) where
        [M; 2]: Factors<2>,
    {
        let (mut before, mut after) = (vec![0.0; self.rank], vec![0.0; self.rank]);
        let mut change = vec![0.0; self.rank];
        linear_pass(records, positions, factors, sum, |block| {
            let Block {
                products: [products, moves],
                labels,
                norms,
                multiples,
                ..
            } = block;
            let rows = products.chunks_exact(self.rank);
            let rows = rows.zip(moves.chunks_exact(self.rank));
            let rows = rows.zip(multiples.chunks_exact_mut(self.rank));
            for (i, ((t, dt), multiples)) in rows.enumerate() {
                self.multiples(t, labels[i], &mut before);
                for ((out, t), dt) in change.iter_mut().zip(t).zip(dt) {
                    *out = t + dt;
                }
                self.multiples(&change, labels[i], &mut after);
                if !momentum.subtract(&mut after, &before, clip / norms[i]) {
                    self.changes(t, dt, labels[i], &mut change);
                    momentum.combine(&mut after, &change);
                }
                multiples.copy_from_slice(&after);
            }
        });
    }
}

impl Loss for QuadraticLink {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Examples) -> usize {
        records.columns() * self.rank
    }

    fn work(&self, records: &Examples) -> f64 {
        records.entries_per_row() * self.rank as f64
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.constants_within(records.row_norm(), records.label_bound())
    }

    fn constants_at(&self, records: &Examples, point: &[f64]) -> Constants {
        if point.len() != self.dim(records) {
            return self.constants_on(records);
        }
        self.constants_of(point, records.row_norm(), records.label_bound())
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        let products = self.products(record.row, point);
        self.phi.value(self.argument(&products), record.label)
    }

    fn add_values(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        of: &ValuesOf<'_>,
        sum: &mut LatticeSum,
    ) {
        let value = |t: f64, label| self.phi.value(self.argument(&[t]), label);
        match of.less {
            Less::Number(centre) if self.rank == 1 => {
                linear_pass(records, &positions, [Number(of.point)], sum, |block| {
                    let [products] = block.products;
                    for (i, number) in block.multiples.iter_mut().enumerate() {
                        *number = value(products[i], block.labels[i]) - centre;
                    }
                });
            }
            Less::At(from) if self.rank == 1 => {
                let points = [Number(of.point), Number(from)];
                linear_pass(records, &positions, points, sum, |block| {
                    let [after, before] = block.products;
                    for (i, number) in block.multiples.iter_mut().enumerate() {
                        let label = block.labels[i];
                        *number = value(after[i], label) - value(before[i], label);
                    }
                });
            }
            Less::Number(centre) => add_numbers::<Self>(records, &positions, sum, |record| {
                self.value(record, of.point) - centre
            }),
            Less::At(from) => add_numbers::<Self>(records, &positions, sum, |record| {
                self.value(record, of.point) - self.value(record, from)
            }),
        }
    }
}

impl QuadraticLink {
    /// Where ||U||, in operator norm, is at most `size`: ||grad q|| = 2 ||x|| ||U^T x|| <= 2 X^2 ||U||.
    fn constants_where(
        &self,
        size: f64,
        row_norm: f64,
        (phi, label_bound): (Constants, Option<f64>),
    ) -> Constants {
        let square = row_norm * row_norm;
        let (gradient, hessian) = (2.0 * square * size, 2.0 * square);
        let norms = (hessian, hessian * (self.rank as f64).sqrt());
        Constants {
            initial_gap: self.phi.largest_at(-self.threshold, label_bound),
            ..constants(phi, gradient, norms)
        }
    }
}

/// An upper bound on the operator norm of a factor, no more than its Frobenius norm: exact for orthogonal columns, the longest of which
/// is the norm then.
fn operator_norm(rank: usize, factor: &[f64]) -> f64 {
    let frobenius = norm_upper(factor);
    let rows = || factor.chunks_exact(rank);
    let product = |i: usize, j: usize| rows().map(|row| row[i] * row[j]).sum::<f64>();
    let sums = (0..rank).map(|i| (0..rank).map(|j| product(i, j).abs()).sum::<f64>());
    let most = sums.fold(0.0f64, f64::max).sqrt();
    let upper = most * (1.0 + (factor.len() as f64 + 4.0) * 4.0 * f64::EPSILON);
    // Sums of squares that leave the numbers say nothing.
    if upper > 0.0 && upper < frobenius {
        upper
    } else {
        frobenius
    }
}

impl Differentiable for QuadraticLink {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        let products = self.products(record.row, point);
        let mut multiples = vec![0.0; self.rank];
        self.multiples(&products, record.label, &mut multiples);
        add_outer(record.row, &multiples, out);
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let products = self.products(record.row, segment.from);
        let moves = self.products(record.row, segment.displacement);
        let mut multiples = vec![0.0; self.rank];
        self.changes(&products, &moves, record.label, &mut multiples);
        add_outer(record.row, &multiples, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        if self.rank == 1 {
            self.pass(records, &positions, [point], sum);
        } else {
            let layer = [UnitWeights::new(self.rank, point)];
            self.pass(records, &positions, layer, sum);
        }
    }

    fn add_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        let points = [segment.from, segment.displacement];
        let how = (clip, momentum);
        if self.rank == 1 {
            self.change_pass(records, &positions, points, how, sum);
        } else {
            let layers = points.map(|point| UnitWeights::new(self.rank, point));
            self.change_pass(records, &positions, layers, how, sum);
        }
    }
}

impl TwiceDifferentiable for QuadraticLink {
    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let products = self.products(record.row, point);
        let along = self.products(record.row, direction);
        let mut multiples = vec![0.0; self.rank];
        self.add_second(&products, &along, record.label, 1.0, &mut multiples);
        add_outer(record.row, &multiples, out);
    }

    fn add_hessian_vectors(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let points = [point, direction];
        if self.rank == 1 {
            hessian_pass(records, &positions, points, sum, self.bend());
        } else {
            let layers = points.map(|point| UnitWeights::new(self.rank, point));
            hessian_pass(records, &positions, layers, sum, self.bend());
        }
    }

    fn add_hessian_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        (from, to): (&[f64], &[f64]),
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let points = [from, to, direction];
        if self.rank == 1 {
            hessian_changes(records, &positions, points, sum, self.bend());
        } else {
            let layers = points.map(|point| UnitWeights::new(self.rank, point));
            hessian_changes(records, &positions, layers, sum, self.bend());
        }
    }

    /// 2 phi' + 4 t^2 phi'' and x, where r = 1.
    fn rank_one<'r>(&self, record: RecordOf<'r, Self>, point: &[f64]) -> Option<(f64, Row<'r>)> {
        if self.rank != 1 {
            return None;
        }
        let products = self.products(record.row, point);
        let (slope, curvature) = self.second(&products, record.label);
        let square: f64 = products.iter().map(|t| t * t).sum();
        Some((slope + curvature * square, record.row))
    }
}
