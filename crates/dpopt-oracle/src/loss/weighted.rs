//! Losses of labelled rows, each times a public factor of its label: class weights.

use std::sync::Arc;

use dpopt_linalg::{Domain, Row};
use dpopt_privacy::{ClipNorm, LatticeSum};

use super::blocks::Blocks;
use super::convex_smooth::ConvexSmooth;
use super::{
    AlongRows, Bordered, Constants, Differentiable, Less, Loss, Momentum, Rays, RecordOf, Segment,
    TwiceDifferentiable, ValuesOf,
};
use crate::positions::Positions;
use crate::records::Examples;

/// Class weights are out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WeightError {
    /// Zero, negative, not finite, or far from 1.
    #[error("a class weight must be between {least} and {most}, got {0}", least = ClassWeights::LEAST, most = ClassWeights::MOST)]
    OutOfRange(f64),
    /// Fewer than two.
    #[error("class weights are of two classes or more, got {0}")]
    Count(usize),
}

/// Public factors of the losses of records, by their labels.
///
/// # Privacy
/// **They must be public**: taken from a codebook or a census, and never counted from the records. Like a claim of the size of a data
/// set, a factor that was counted tells something that no budget is charged for.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassWeights {
    /// Those of a negative and of a positive label, or one for each of the labels 0, 1, 2, ...
    factors: Arc<[f64]>,
    by_sign: bool,
    /// Each factor once.
    distinct: Arc<[f64]>,
}

impl ClassWeights {
    /// The least factor.
    pub const LEAST: f64 = 1e-6;
    /// The largest factor.
    pub const MOST: f64 = 1e6;

    /// Weights of labels by sign, with zero as negative.
    ///
    /// # Errors
    /// [`WeightError::OutOfRange`].
    pub fn of_signs(negative: f64, positive: f64) -> Result<Self, WeightError> {
        Self::new(vec![negative, positive], true)
    }

    /// Of labels 0, 1, 2, ..., one for each; all other labels count as 0, as they do for [`Softmax`](crate::Softmax).
    ///
    /// # Errors
    /// [`WeightError`].
    pub fn of_classes(factors: Vec<f64>) -> Result<Self, WeightError> {
        Self::new(factors, false)
    }

    fn new(factors: Vec<f64>, by_sign: bool) -> Result<Self, WeightError> {
        if factors.len() < 2 {
            return Err(WeightError::Count(factors.len()));
        }
        let possible = |factor: &f64| (Self::LEAST..=Self::MOST).contains(factor);
        if let Some(bad) = factors.iter().find(|factor| !possible(factor)) {
            return Err(WeightError::OutOfRange(*bad));
        }
        let mut distinct = factors.clone();
        distinct.sort_by(f64::total_cmp);
        distinct.dedup();
        Ok(Self {
            factors: factors.into(),
            by_sign,
            distinct: distinct.into(),
        })
    }

    /// Those of a negative and of a positive label, or one for each class.
    #[must_use]
    pub fn factors(&self) -> &[f64] {
        &self.factors
    }

    /// The largest: what bounds on a record's loss and gradient grow by.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.distinct.last().copied().unwrap_or(1.0)
    }

    /// The weight of a record with this label.
    #[must_use]
    pub fn of(&self, label: f64) -> f64 {
        let class = if self.by_sign {
            usize::from(label > 0.0)
        } else {
            // A NaN and negative numbers become 0.
            let class = label as usize;
            if class as f64 == label { class } else { 0 }
        };
        let factor = self.factors.get(class).or(self.factors.first());
        factor.copied().unwrap_or(1.0)
    }

    /// Constants of the weighted loss, from those of the loss: all times the largest factor.
    ///
    /// The gap too: F is a sum of losses with factors, which is a multiple, at most the largest, of the mean loss over records of
    /// which some count more often than others; and the gap of that holds for any records.
    #[must_use]
    pub fn constants(&self, of: Constants) -> Constants {
        let most = self.largest();
        Constants {
            lipschitz: of.lipschitz * most,
            smoothness: of.smoothness * most,
            initial_gap: of.initial_gap * most,
            hessian_lipschitz: of.hessian_lipschitz * most,
            hessian_frobenius: of.hessian_frobenius * most,
            block_lipschitz: of.block_lipschitz.map(|blocks| blocks.map(|of| of * most)),
            ..of
        }
    }
}

/// A loss of labelled rows times a public factor of the label.
///
/// # Formula
/// a(y) f(w; (x, y)), with a from [`ClassWeights`]. Values, gradients and second derivatives are those of f times a(y), and constants
/// those of f times the largest a.
///
/// # Privacy
/// The factor acts before the clip, so what a record contributes is as long as the clip allows and no longer, whatever the factors are.
/// Passes are those of f, over the records of one factor after the other: sums are exact, so their order changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted<L> {
    loss: L,
    weights: ClassWeights,
}

impl<L: Loss<Records = Examples>> Weighted<L> {
    /// This loss with these factors.
    #[must_use]
    pub fn new(loss: L, weights: ClassWeights) -> Self {
        Self { loss, weights }
    }

    /// The factors.
    #[must_use]
    pub fn weights(&self) -> &ClassWeights {
        &self.weights
    }

    /// Adds what `add` adds for the records of each factor, times the factor. It is called with the factor and those records.
    fn of_each_factor(
        &self,
        records: &Examples,
        positions: &Positions<'_>,
        sum: &mut LatticeSum,
        add: impl Fn(f64, Positions<'_>, &mut LatticeSum),
    ) {
        let labels = records.labels();
        let distinct = &*self.weights.distinct;
        let mut listed: Vec<Vec<u32>> = vec![Vec::new(); distinct.len()];
        for i in positions.iter() {
            let factor = self
                .weights
                .of(labels.get(i).map_or(0.0, |y| f64::from(*y)));
            let at = distinct.binary_search_by(|of| of.total_cmp(&factor));
            // Each factor is one of them. A body has fewer than 2^32 records.
            if let Some(listed) = at.ok().and_then(|at| listed.get_mut(at)) {
                listed.push(i as u32);
            }
        }
        for (of, listed) in distinct.iter().zip(&listed) {
            sum.times(*of, |sum| add(*of, Positions::Listed(listed), sum));
        }
    }

    fn scale(&self, record: &RecordOf<'_, Self>, out: &mut [f64]) {
        let factor = self.weights.of(record.label);
        out.iter_mut().for_each(|x| *x *= factor);
    }
}

impl<L: Loss<Records = Examples>> Loss for Weighted<L> {
    type Records = Examples;

    const MAY_PANIC: bool = L::MAY_PANIC;
    const VANISHES_ON_ERASED: bool = L::VANISHES_ON_ERASED;

    fn dim(&self, records: &Examples) -> usize {
        self.loss.dim(records)
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.weights.constants(self.loss.constants_on(records))
    }

    fn constants_at(&self, records: &Examples, point: &[f64]) -> Constants {
        self.weights
            .constants(self.loss.constants_at(records, point))
    }

    fn blocks(&self, records: &Examples) -> Option<Blocks> {
        self.loss.blocks(records)
    }

    fn domain(&self) -> Option<Domain> {
        self.loss.domain()
    }

    fn work(&self, records: &Examples) -> f64 {
        self.loss.work(records)
    }

    fn value(&self, record: RecordOf<'_, Self>, point: &[f64]) -> f64 {
        self.weights.of(record.label) * self.loss.value(record, point)
    }

    fn add_values(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        of: &ValuesOf<'_>,
        sum: &mut LatticeSum,
    ) {
        self.of_each_factor(records, &positions, sum, |factor, positions, sum| {
            let less = match of.less {
                Less::Number(centre) => Less::Number(centre / factor),
                at @ Less::At(_) => at,
            };
            let of = ValuesOf { less, ..*of };
            self.loss.add_values(records, positions, &of, sum);
        });
    }

    fn add_slopes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        rays: &Rays<'_>,
        sum: &mut LatticeSum,
    ) {
        self.of_each_factor(records, &positions, sum, |_, positions, sum| {
            self.loss.add_slopes(records, positions, rays, sum);
        });
    }
}

impl<L: Differentiable<Records = Examples>> Differentiable for Weighted<L> {
    const EXACT_SUMS: bool = L::EXACT_SUMS;
    const HAS_ROW_AVERAGES: bool = L::HAS_ROW_AVERAGES;

    fn gradient(&self, record: RecordOf<'_, Self>, point: &[f64], out: &mut [f64]) {
        self.loss.gradient(record, point, out);
        self.scale(&record, out);
    }

    fn gradient_change(&self, record: RecordOf<'_, Self>, segment: &Segment<'_>, out: &mut [f64]) {
        self.loss.gradient_change(record, segment, out);
        self.scale(&record, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        self.of_each_factor(records, &positions, sum, |_, positions, sum| {
            self.loss.add_gradients(records, positions, point, sum);
        });
    }

    fn row_average(&self, record: RecordOf<'_, Self>, of: &AlongRows<'_>, out: &mut [f64]) {
        let of = along(of, self.weights.of(record.label));
        self.loss.row_average(record, &of, out);
        self.scale(&record, out);
    }

    fn add_row_averages(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        of: &AlongRows<'_>,
        sum: &mut LatticeSum,
    ) {
        self.of_each_factor(records, &positions, sum, |factor, positions, sum| {
            let of = along(of, factor);
            self.loss.add_row_averages(records, positions, &of, sum);
        });
    }

    /// What is clipped to C and then multiplied by a is multiplied by a and clipped to a C.
    fn add_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        self.of_each_factor(records, &positions, sum, |factor, positions, sum| {
            let clip = clip / factor;
            self.loss
                .add_changes(records, positions, segment, clip, momentum, sum);
        });
    }
}

/// With the clip that it has before the factor.
fn along<'a>(of: &AlongRows<'a>, factor: f64) -> AlongRows<'a> {
    AlongRows {
        // A quotient of a clip that is too large or too small for one stays as it is: the sum clips in any case.
        clip: ClipNorm::new(of.clip.get() / factor).unwrap_or(of.clip),
        ..*of
    }
}

impl<L: TwiceDifferentiable<Records = Examples>> TwiceDifferentiable for Weighted<L> {
    fn hessian_vector(
        &self,
        record: RecordOf<'_, Self>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        self.loss.hessian_vector(record, point, direction, out);
        self.scale(&record, out);
    }

    fn add_hessian_vectors(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        self.of_each_factor(records, &positions, sum, |_, positions, sum| {
            self.loss
                .add_hessian_vectors(records, positions, point, direction, sum);
        });
    }

    fn add_hessian_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        ends: (&[f64], &[f64]),
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        self.of_each_factor(records, &positions, sum, |_, positions, sum| {
            self.loss
                .add_hessian_changes(records, positions, ends, direction, sum);
        });
    }

    fn rank_one<'r>(&self, record: RecordOf<'r, Self>, point: &[f64]) -> Option<(f64, Row<'r>)> {
        let factor = self.weights.of(record.label);
        let (curvature, row) = self.loss.rank_one(record, point)?;
        Some((factor * curvature, row))
    }

    fn bordered<'r>(&self, record: RecordOf<'r, Self>, point: &[f64]) -> Option<Bordered<'r>> {
        let times = self.weights.of(record.label);
        let mut of = self.loss.bordered(record, point)?;
        of.factor *= times;
        let numbers = of.border.iter_mut().chain(&mut of.corner);
        numbers.for_each(|x| *x *= times);
        Some(of)
    }
}

/// A positive multiple of a convex function is convex, and all constants are those of f times the factor. The product with the factor
/// rounds once more.
impl<L: ConvexSmooth<Records = Examples>> ConvexSmooth for Weighted<L> {
    const ARGUMENT: &'static str = L::ARGUMENT;

    fn gradient_error(&self, records: &Examples, reach: f64) -> f64 {
        let longest = self.loss.constants_on(records).lipschitz;
        let before = self.loss.gradient_error(records, reach);
        self.weights.largest() * (before + f64::EPSILON * (longest + before))
    }
}

#[cfg(test)]
mod tests {
    use dpopt_linalg::Design;
    use dpopt_testkit::uniforms;

    use super::super::laws::{changes, gradients_and_constants, passes, second_derivatives};
    use super::*;
    use crate::loss::{Activation, ConvexGlm, Glm, Head, Mlp, Network, Softmax};
    use crate::records::Records;

    /// The products of a perceptron are rounded with a weight as without one: a certificate that took its sums for exact would be false.
    const _: () = assert!(!<Weighted<Mlp> as Differentiable>::EXACT_SUMS);
    const _: () = assert!(<Weighted<Glm> as Differentiable>::EXACT_SUMS);

    fn examples(backward: bool, sparse: bool, signs: bool) -> Examples {
        let mut next = uniforms(8);
        let mut all: Vec<([f32; 2], f32)> = (0..40u8)
            .map(|k| {
                let label = if signs {
                    f32::from(k % 2) * 2.0 - 1.0
                } else {
                    f32::from(k % 3)
                };
                ([next() as f32, next() as f32], label)
            })
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

    fn of_signs() -> ClassWeights {
        ClassWeights::of_signs(0.25, 5.0).unwrap()
    }

    /// The passes of a loss with factors are those over its records one by one, whatever is clipped.
    #[test]
    fn it_obeys_the_laws() {
        for sparse in [false, true] {
            let both = || (examples(false, sparse, true), examples(true, sparse, true));
            for glm in Glm::SMOOTH {
                let loss = Weighted::new(glm, of_signs());
                gradients_and_constants(&loss, &both().0, 6.0);
                changes(&loss, &both().0, 6.0);
                second_derivatives(&loss, &both().0, 6.0);
                passes(loss, both().0, both().1, 0.0);
            }
            let factors = ClassWeights::of_classes(vec![1.0, 0.5, 3.0]).unwrap();
            let loss = Weighted::new(Softmax::new(3).unwrap(), factors);
            let both = || {
                (
                    examples(false, sparse, false),
                    examples(true, sparse, false),
                )
            };
            gradients_and_constants(&loss, &both().0, 6.0);
            second_derivatives(&loss, &both().0, 6.0);
            passes(loss, both().0, both().1, 0.0);
        }
    }

    /// What a record says, times its factor, by hand.
    #[test]
    fn a_record_is_multiplied_by_the_factor_of_its_label() {
        let records = examples(false, false, true);
        let network = Network::new(4, Activation::Tanh, Glm::Logistic).unwrap();
        let mlp = Mlp::new(&[2, 3, 1], Activation::Tanh, Head::Scalar(Glm::Logistic)).unwrap();
        each_record(&Weighted::new(Glm::Logistic, of_signs()), &records);
        each_record(&Weighted::new(network, of_signs()), &records);
        each_record(&Weighted::new(mlp, of_signs()), &records);
    }

    fn each_record<L: Differentiable<Records = Examples>>(loss: &Weighted<L>, records: &Examples) {
        let dim = loss.dim(records);
        let mut next = uniforms(3);
        let point: Vec<f64> = (0..dim).map(|_| next()).collect();
        for i in 0..records.len() {
            let record = records.record(i);
            let factor = if i % 2 == 1 { 5.0 } else { 0.25 };
            let (mut found, mut plain) = (vec![0.0; dim], vec![0.0; dim]);
            loss.gradient(record, &point, &mut found);
            loss.loss.gradient(record, &point, &mut plain);
            for (found, plain) in found.iter().zip(&plain) {
                assert_eq!(*found, factor * plain);
            }
            let plain = loss.loss.value(record, &point);
            assert_eq!(loss.value(record, &point), factor * plain);
        }
        let (of, plain) = (loss.constants_on(records), loss.loss.constants_on(records));
        assert_eq!(of.lipschitz, 5.0 * plain.lipschitz);
        assert_eq!(of.initial_gap, 5.0 * plain.initial_gap);
    }

    /// The gap of all records of one class is reached: that of the heavier one is the largest factor times that of the loss.
    #[test]
    fn the_gap_is_attained() {
        let design = Design::dense(1, vec![1.0]).unwrap();
        let one = Examples::new(design, vec![1.0], ClipNorm::new(1.0).unwrap()).unwrap();
        let loss = Weighted::new(Glm::Logistic, of_signs());
        let gap = loss.constants_on(&one).initial_gap;
        assert_eq!(loss.value(one.record(0), &[0.0]), gap);
        assert!(loss.value(one.record(0), &[800.0]) < 1e-12);
    }

    #[test]
    fn labels_have_the_factors_of_their_classes() {
        let of = of_signs();
        for (label, factor) in [
            (1.0, 5.0),
            (0.3, 5.0),
            (0.0, 0.25),
            (-1.0, 0.25),
            (f64::NAN, 0.25),
        ] {
            assert_eq!(of.of(label), factor);
        }
        let of = ClassWeights::of_classes(vec![1.0, 2.0, 3.0]).unwrap();
        let others = [
            (3.0, 1.0),
            (0.5, 1.0),
            (-1.0, 1.0),
            (1e30, 1.0),
            (f64::NAN, 1.0),
        ];
        for (label, factor) in [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]
            .into_iter()
            .chain(others)
        {
            assert_eq!(of.of(label), factor, "{label}");
        }
    }

    #[test]
    fn odd_factors_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-7, 1e7] {
            for of in [
                ClassWeights::of_signs(1.0, bad),
                ClassWeights::of_classes(vec![bad, 1.0]),
            ] {
                assert!(
                    matches!(of, Err(WeightError::OutOfRange(of)) if of.to_bits() == bad.to_bits())
                );
            }
        }
        assert_eq!(
            ClassWeights::of_classes(vec![1.0]),
            Err(WeightError::Count(1))
        );
    }

    /// The gradient as computed stays within what is promised of it: against a computation in another order.
    #[test]
    fn the_error_of_a_gradient_is_promised() {
        let records = examples(false, false, true);
        let convex = ConvexGlm::new(Glm::Logistic).unwrap();
        let loss = Weighted::new(convex, of_signs());
        let error = loss.gradient_error(&records, 3.0);
        assert!(error >= 5.0 * convex.gradient_error(&records, 3.0));
        assert!(error < 1e-9);
    }
}
