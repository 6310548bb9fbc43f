//! Multiclass logistic regression: the cross-entropy of a softmax.

use dpopt_linalg::Row;
use dpopt_privacy::LatticeSum;

use super::glm::add_multiple;
use super::outer::{hessian_changes, hessian_pass};
use super::rows::{Stacked, linear_pass};
use super::{Constants, Convexity, Differentiable, Loss, Momentum, Segment, TwiceDifferentiable};
use crate::positions::Positions;
use crate::records::{Example, Examples};

/// The softmax loss of K classes (convex).
///
/// # Formula
/// f(W; (x, y)) = ln(sum_k e^(z_k)) - z_y with z = W x. With p = softmax(z) the gradient is the
/// matrix (p - e_y) x^T, whose norm is ||p - e_y|| ||x||.
///
/// The class is the label, 0 to K - 1; a label that is none of them counts as class 0.
///
/// Constants, for ||x|| <= X:
/// - L0 = sqrt 2 X, approached but not reached: ||p - e_y||^2 = (1 - p_y)^2 + sum of the other
///   p_k^2 <= 2 (1 - p_y)^2, because the other p_k are positive and add up to 1 - p_y.
/// - L1 = X^2/2: the Hessian in z is the covariance form v -> Var(v_k), k drawn from p, and a
///   variance is at most (max v - min v)^2/4 <= 2 ||v||^2/4. Reached at p = (1/2, 1/2, 0, ...).
/// - rho = sqrt 2/(3 sqrt 3) X^3: the third derivative along v is the third central moment of v_k.
///   Over distributions with a given mean on an interval of length D its extremes are at two points
///   (it is linear in the distribution), where it is q(1-q)(1-2q) D'^3 <= D^3/(6 sqrt 3) in size; and D
///   <= sqrt 2 ||v||. A symmetric form is largest at three equal arguments. Reached with two classes.
/// - C_F = X^2/2: with a = sum p_k^2, ||diag p - p p^T||_F^2 = a - 2 sum p_k^3 + a^2, and a^2 = (sum p_k^(1/2) p_k^(3/2))^2 <= sum p_k^3
///   (Cauchy and Schwarz), so it is at most a - a^2 <= 1/4. Reached at p = (1/2, 1/2, 0, ...).
/// - F(0) - min F <= ln K: f(0) = ln K, and f > 0.
///
/// # Shapes
/// A point is W: (K, d), row-major.
///
/// # Privacy
/// Evaluation never panics and has no state. Each record's matrix is clipped as a vector of K d
/// coordinates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Softmax {
    classes: usize,
}

impl Softmax {
    /// The loss of so many classes; none below two.
    #[must_use]
    pub fn new(classes: usize) -> Option<Self> {
        (classes >= 2).then_some(Self { classes })
    }

    /// K.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Constants for rows of norm at most `row_norm`.
    #[must_use]
    pub fn constants(&self, row_norm: f64) -> Constants {
        let root2 = std::f64::consts::SQRT_2;
        let gap = (self.classes as f64).ln();
        let smoothness = 0.5 * row_norm * row_norm;
        let third = root2 / (3.0 * 3f64.sqrt());
        Constants::new(root2 * row_norm, smoothness, gap, Convexity::Convex)
            .with_hessian_lipschitz(third * row_norm.powi(3))
            .with_hessian_frobenius(smoothness)
    }

    /// z = W x.
    #[must_use]
    pub fn outputs(&self, row: Row<'_>, point: &[f64]) -> Vec<f64> {
        let mut outputs = vec![0.0; self.classes];
        self.products(row, point, &mut outputs);
        outputs
    }

    /// softmax(z).
    #[must_use]
    pub fn probabilities(outputs: &[f64]) -> Vec<f64> {
        let mut out = outputs.to_vec();
        probabilities(&mut out);
        out
    }

    /// ln(sum_k e^(z_k)) - z_class; infinite for a class that is none.
    #[must_use]
    pub fn cross_entropy(outputs: &[f64], class: usize) -> f64 {
        let Some(&at_label) = outputs.get(class) else {
            return f64::INFINITY;
        };
        // From differences with the label's output: exact where that one stands out.
        let top = largest(outputs) - at_label;
        if top > 0.0 {
            let sum: f64 = outputs.iter().map(|z| (z - at_label - top).exp()).sum();
            return top + sum.ln();
        }
        let others = outputs.iter().enumerate().filter(|(k, _)| *k != class);
        others
            .map(|(_, z)| (z - at_label).exp())
            .sum::<f64>()
            .ln_1p()
    }

    fn class(&self, label: f64) -> usize {
        // A NaN and negative numbers become 0.
        let class = label as usize;
        if class < self.classes && class as f64 == label {
            class
        } else {
            0
        }
    }

    /// The product of each row of a (K, d) matrix with the features.
    fn products(&self, row: Row<'_>, matrix: &[f64], out: &mut [f64]) {
        let columns = (matrix.len() / self.classes).max(1);
        for (out, weights) in out.iter_mut().zip(matrix.chunks_exact(columns)) {
            *out = row.dot(weights);
        }
    }

    /// Adds the matrix `left` x^T to `out`.
    fn add_outer(&self, left: &[f64], record: &Example<'_>, out: &mut [f64]) {
        let columns = (out.len() / self.classes).max(1);
        for (multiple, out) in left.iter().zip(out.chunks_exact_mut(columns)) {
            add_multiple(*multiple, record.row, out);
        }
    }
}

impl Loss for Softmax {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Examples) -> usize {
        records.columns() * self.classes
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.constants(records.row_norm())
    }

    fn work(&self, records: &Examples) -> f64 {
        records.entries_per_row() * self.classes as f64
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        Self::cross_entropy(&self.outputs(record.row, point), self.class(record.label))
    }
}

impl Differentiable for Softmax {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        let mut left = vec![0.0; self.classes];
        self.products(record.row, point, &mut left);
        residual(&mut left, self.class(record.label));
        self.add_outer(&left, &record, out);
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let mut logits = vec![0.0; self.classes];
        let mut moves = vec![0.0; self.classes];
        self.products(record.row, segment.from, &mut logits);
        self.products(record.row, segment.displacement, &mut moves);
        let mut change = vec![0.0; self.classes];
        probability_change(&mut logits, &moves, &mut change);
        self.add_outer(&change, &record, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        let scores = [Stacked::new(self.classes, point)];
        linear_pass(records, &positions, scores, sum, |block| {
            let [logits] = block.products;
            let rows = logits.chunks_exact_mut(self.classes);
            for (logits, label) in rows.zip(block.labels) {
                residual(logits, self.class(*label));
            }
            block.multiples.copy_from_slice(logits);
        });
    }

    /// A clipped gradient is a shortened (p - e_y), times x^T; so is a difference of two.
    fn add_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        let scores =
            [segment.from, segment.displacement].map(|point| Stacked::new(self.classes, point));
        let mut before = vec![0.0; self.classes];
        let mut change = before.clone();
        linear_pass(records, &positions, scores, sum, |block| {
            let [logits, moves] = block.products;
            let rows = logits.chunks_exact_mut(self.classes);
            let rows = rows.zip(moves.chunks_exact(self.classes));
            let rows = rows.zip(block.multiples.chunks_exact_mut(self.classes));
            for (i, ((logits, moves), after)) in rows.enumerate() {
                let label = self.class(block.labels[i]);
                before.copy_from_slice(logits);
                for ((after, z), dz) in after.iter_mut().zip(&*logits).zip(moves) {
                    *after = z + dz;
                }
                residual(&mut before, label);
                residual(after, label);
                if !momentum.subtract(after, &before, clip / block.norms[i]) {
                    probability_change(logits, moves, &mut change);
                    momentum.combine(after, &change);
                }
            }
        });
    }
}

impl TwiceDifferentiable for Softmax {
    /// ((diag p - p p^T) V x) x^T.
    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let mut logits = vec![0.0; self.classes];
        let mut moves = vec![0.0; self.classes];
        let mut left = vec![0.0; self.classes];
        self.products(record.row, point, &mut logits);
        self.products(record.row, direction, &mut moves);
        bend(&mut logits, &moves, record.label, 1.0, &mut left);
        self.add_outer(&left, &record, out);
    }

    fn add_hessian_vectors(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let scores = [point, direction].map(|point| Stacked::new(self.classes, point));
        hessian_pass(records, &positions, scores, sum, bend);
    }

    fn add_hessian_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        (from, to): (&[f64], &[f64]),
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let scores = [from, to, direction].map(|point| Stacked::new(self.classes, point));
        hessian_changes(records, &positions, scores, sum, bend);
    }
}

/// Adds `times` (diag p - p p^T) moves; the logits become p.
fn bend(logits: &mut [f64], moves: &[f64], _: f64, times: f64, out: &mut [f64]) {
    probabilities(logits);
    let mean: f64 = logits.iter().zip(moves).map(|(p, v)| p * v).sum();
    for ((out, p), v) in out.iter_mut().zip(&*logits).zip(moves) {
        *out += times * p * (v - mean);
    }
}

fn largest(logits: &[f64]) -> f64 {
    logits.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Logits become probabilities.
fn probabilities(logits: &mut [f64]) {
    let top = largest(logits);
    let mut sum = 0.0;
    for z in logits.iter_mut() {
        *z = (*z - top).exp();
        sum += *z;
    }
    for p in logits {
        *p /= sum;
    }
}

/// Logits become p - e_y, the entry of the class from the others: 1 - p_y would cancel.
fn residual(logits: &mut [f64], class: usize) {
    probabilities(logits);
    let mut others = 0.0;
    for (k, p) in logits.iter().enumerate() {
        if k != class {
            others += p;
        }
    }
    if let Some(entry) = logits.get_mut(class) {
        *entry = -others;
    }
}

/// softmax(z + dz) - softmax(z), without cancellation; `logits` is overwritten.
///
/// p'_k = p_k e^(dz_k - l) with l = ln(sum p_k e^(dz_k)), so that the change is p_k (e^(dz_k - l)
/// - 1), with an error of a few units in the last place of max |dz|.
fn probability_change(logits: &mut [f64], moves: &[f64], change: &mut [f64]) {
    let size = moves.iter().fold(0.0f64, |size, dz| size.max(dz.abs()));
    if size > 1.0 {
        for ((change, z), dz) in change.iter_mut().zip(&*logits).zip(moves) {
            *change = z + dz;
        }
        probabilities(change);
        probabilities(logits);
        for (change, p) in change.iter_mut().zip(&*logits) {
            *change -= p;
        }
        return;
    }
    probabilities(logits);
    let growth: f64 = logits
        .iter()
        .zip(moves)
        .map(|(p, dz)| p * dz.exp_m1())
        .sum();
    let level = growth.ln_1p();
    for ((change, p), dz) in change.iter_mut().zip(&*logits).zip(moves) {
        *change = p * (dz - level).exp_m1();
    }
}

#[cfg(test)]
mod tests {
    use dpopt_linalg::{Design, norm};
    use dpopt_privacy::ClipNorm;

    use dpopt_testkit::uniforms;

    use crate::records::Records;

    use super::super::laws::{
        changes, gradients_and_constants, hessian, passes, second_derivatives,
    };
    use super::*;

    fn examples(backward: bool, sparse: bool) -> Examples {
        let mut next = uniforms(8);
        let mut all: Vec<([f32; 2], f32)> = (0..40)
            .map(|k| ([next() as f32, next() as f32], (k % 5) as f32 - 1.0))
            .collect();
        if backward {
            all.reverse();
        }
        let design = if sparse {
            let mut design = Design::sparse(2).unwrap();
            for (row, _) in &all {
                design.push_row(&[(0, row[0]), (1, row[1])]).unwrap();
            }
            design
        } else {
            Design::dense32(2, all.iter().flat_map(|(row, _)| *row).collect()).unwrap()
        };
        let labels = all.iter().map(|(_, label)| *label).collect();
        Examples::new(design, labels, ClipNorm::new(1.2).unwrap()).unwrap()
    }

    #[test]
    fn it_obeys_the_laws() {
        for classes in [2, 3, 7] {
            let loss = Softmax::new(classes).unwrap();
            for sparse in [false, true] {
                gradients_and_constants(&loss, &examples(false, sparse), 6.0);
                changes(&loss, &examples(false, sparse), 6.0);
                second_derivatives(&loss, &examples(false, sparse), 6.0);
                passes(loss, examples(false, sparse), examples(true, sparse), 0.0);
            }
        }
        assert!(Softmax::new(1).is_none());
    }

    fn one(x: f64, label: f32) -> Examples {
        let design = Design::dense(1, vec![x]).unwrap();
        Examples::new(design, vec![label], ClipNorm::new(2.0).unwrap()).unwrap()
    }

    /// Two classes with opposite logits are the logistic loss of twice the logit.
    #[test]
    fn two_classes_are_the_logistic_loss() {
        use crate::loss::Glm;
        let loss = Softmax::new(2).unwrap();
        for z in [-800.0, -30.0, -1.0, 0.0, 0.3, 40.0, 700.0] {
            for (label, sign) in [(0.0, 1.0), (1.0, -1.0)] {
                let data = one(1.0, label);
                let value = loss.value(data.record(0), &[z, -z]);
                let expected = Glm::Logistic.value(2.0 * z, sign);
                assert!(
                    (value - expected).abs() <= 4e-16 * expected.max(1e-300),
                    "{z} {value} {expected}"
                );
                let mut gradient = [0.0; 2];
                loss.gradient(data.record(0), &[z, -z], &mut gradient);
                let slope = Glm::Logistic.slope(2.0 * z, sign);
                for (found, expected) in gradient.iter().zip([slope, -slope]) {
                    assert!(
                        (found - expected).abs() <= 4e-16 * expected.abs(),
                        "{z} {gradient:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn labels_that_are_no_class_are_class_zero() {
        let loss = Softmax::new(3).unwrap();
        for label in [-1.0, 0.5, 3.0, 1e30, f64::NAN] {
            assert_eq!(loss.class(label), 0, "{label}");
        }
        assert_eq!(loss.class(2.0), 2);
    }

    /// L0 is approached, L1, C_F and rho are reached; so is the gap, by the value at the origin.
    #[test]
    fn the_constants_are_attained() {
        let loss = Softmax::new(3).unwrap();
        let claimed = loss.constants(2.0);
        let data = one(2.0, 0.0);
        let mut gradient = [0.0; 3];
        loss.gradient(data.record(0), &[-20.0, 20.0, 0.0], &mut gradient);
        assert!((norm(&gradient) / claimed.lipschitz - 1.0).abs() < 1e-12);
        assert!((loss.value(data.record(0), &[0.0; 3]) - claimed.initial_gap).abs() < 1e-15);
        // p = (1/2, 1/2, 0) along (1, -1, 0)/sqrt 2.
        let v = [0.5f64.sqrt(), -(0.5f64.sqrt()), 0.0];
        let mut product = [0.0; 3];
        loss.hessian_vector(data.record(0), &[0.0, 0.0, -400.0], &v, &mut product);
        let quadratic: f64 = v.iter().zip(&product).map(|(v, h)| v * h).sum();
        assert!(
            (quadratic / claimed.smoothness - 1.0).abs() < 1e-12,
            "{quadratic}"
        );
        let whole = hessian(&loss, data.record(0), &[0.0, 0.0, -400.0]).concat();
        assert!((norm(&whole) / claimed.hessian_frobenius - 1.0).abs() < 1e-12);
        // p_1 = (1 + 1/sqrt 3)/2: the logits of one class apart by ln((1 + a)/(1 - a)).
        let a = 1.0 / 3f64.sqrt();
        let apart = ((1.0 + a) / (1.0 - a)).ln() / 2.0;
        let along = |t: f64| {
            let mut product = [0.0; 3];
            let point = [apart + t * v[0], t * v[1], -400.0];
            loss.hessian_vector(data.record(0), &point, &v, &mut product);
            v.iter().zip(&product).map(|(v, h)| v * h).sum::<f64>()
        };
        let third = (along(1e-5) - along(-1e-5)).abs() / 2e-5;
        assert!(
            (third / claimed.hessian_lipschitz - 1.0).abs() < 1e-8,
            "{third}"
        );
    }
}
