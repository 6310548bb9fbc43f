//! One layer of hidden units whose output weights are fixed: a network that is Lipschitz on all of R^d.

use dpopt_linalg::UnitWeights;
use dpopt_privacy::LatticeSum;
use serde::{Deserialize, Serialize};

use super::outer::{add_outer, hessian_changes, hessian_pass, products};
use super::rows::{Block, linear_pass};
use super::{
    Activation, Constants, Convexity, Differentiable, Glm, Loss, Momentum, Segment,
    TwiceDifferentiable,
};
use crate::positions::Positions;
use crate::records::{Example, Examples};

/// A network that can't be.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// Units come in pairs of opposite output weights.
    #[error(
        "{units} hidden units: an even number from 2 to {most} is needed, since units come in pairs of opposite output weights"
    )]
    Units {
        /// Units asked for.
        units: usize,
        /// The most.
        most: usize,
    },
    /// The norm of the output weights must be a positive finite number.
    #[error("an output scale must be a positive finite number, got {0}")]
    Scale(f64),
}

/// A loss of the output of one layer of k hidden units, of which only the hidden weights are learnt.
///
/// # Formula
/// f(W; (x, y)) = phi(z, y), z = sum_j v_j act(<w_j, x>), v_j = V/sqrt k for even j and -V/sqrt k for odd j, with phi the `head`, a
/// loss of one number, and V the output scale, 1 unless said otherwise. The output weights v are fixed and public, and ||v|| = V. A bias
/// is the weight of a constant feature.
///
/// # Constants
/// For ||x|| <= X, everywhere in R^d, with G = max|phi'| and A = max|act'| (1 for ReLU and tanh, under 1 for softplus, 1/4 for sigmoid,
/// 1.0999 for SiLU):
///
/// - **L0 = G V A X.** Where f has a gradient, that of w_j is phi'(z, y) v_j act'(<w_j, x>) x. So the whole is the outer product of x
///   with the vector of phi' v_j act'_j, whose norm is |phi'| (sum v_j^2 act'_j^2)^(1/2) ||x|| <= G A V X. f is locally Lipschitz (a
///   composition of Lipschitz functions of the linear <w_j, x>) and has its gradient almost everywhere, and a function whose gradient is
///   at most L0 long almost everywhere is L0-Lipschitz on R^d, which is convex. Reached where all units are active and phi' is largest.
///   At kinks the gradient that is used is the same formula with one element of each subdifferential, so it is no longer either.
/// - L1 = (max|phi''| (A V)^2 + G max|v_j| max|act''|) X^2, where both functions have such bounds: the Hessian is phi'' times the square of
///   the gradient of z, plus phi' times a matrix of the blocks v_j act''_j x x^T on its diagonal. Infinite with ReLU or a head with
///   kinks.
/// - C_F = (max|phi''| (A V)^2 + G V max|act''|) X^2: the blocks are at right angles, and sum v_j^2 = V^2. rho = (max|phi'''| (A V)^3 +
///   3 max|phi''| A V max|v_j| max|act''| + G max|v_j| max|act'''|) X^3, from the third derivative along a unit vector.
/// - F(0) - min F <= the head's largest value at an output of 0: heads are not negative, and at W = 0 the output is 0, since the v_j come
///   in opposite pairs. The same holds at [`Network::start`], where both units of a pair have the same weights.
///
/// A network without a bias for its output is as expressive as one with: a constant feature and units that are always active make one.
///
/// # Shapes
/// A point is W: (p, k), row-major, the k weights of a feature beside each other: d = p k.
///
/// # Accuracy
/// Everything is computed in double precision and summed on the lattice entry by entry, so that sums are exact
/// ([`crate::OracleFacts::exact_sums`]). Only the entries of a row that are stored are visited.
///
/// # Privacy
/// A record's outer product is clipped as one vector ([`LatticeSum::add_row_products`]). The guarantee does not rest on L0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Network {
    units: usize,
    activation: Activation,
    head: Glm,
    #[serde(rename = "output_scale")]
    scale: f64,
}

/// As it is written, before it is checked.
#[derive(Deserialize)]
struct Raw {
    units: usize,
    activation: Activation,
    head: Glm,
    output_scale: f64,
}

impl TryFrom<Raw> for Network {
    type Error = NetworkError;

    fn try_from(raw: Raw) -> Result<Self, NetworkError> {
        Self::new(raw.units, raw.activation, raw.head)?.with_output_scale(raw.output_scale)
    }
}

impl Network {
    /// The most hidden units.
    pub const MOST_UNITS: usize = 4096;

    /// A network of so many hidden units, with V = 1.
    ///
    /// # Errors
    /// [`NetworkError::Units`] unless their number is even and from 2 to [`Network::MOST_UNITS`].
    pub fn new(units: usize, activation: Activation, head: Glm) -> Result<Self, NetworkError> {
        if units == 0 || units > Self::MOST_UNITS || !units.is_multiple_of(2) {
            let most = Self::MOST_UNITS;
            return Err(NetworkError::Units { units, most });
        }
        Ok(Self {
            units,
            activation,
            head,
            scale: 1.0,
        })
    }

    /// With another norm V of the output weights. With ReLU it is the same as another unit for the weights.
    ///
    /// # Errors
    /// [`NetworkError::Scale`].
    pub fn with_output_scale(self, scale: f64) -> Result<Self, NetworkError> {
        if scale.is_finite() && scale > 0.0 {
            Ok(Self { scale, ..self })
        } else {
            Err(NetworkError::Scale(scale))
        }
    }

    /// k.
    #[must_use]
    pub fn units(&self) -> usize {
        self.units
    }

    /// The activation of a hidden unit.
    #[must_use]
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// The loss of the output.
    #[must_use]
    pub fn head(&self) -> Glm {
        self.head
    }

    /// v.
    #[must_use]
    pub fn output_weights(&self) -> Vec<f64> {
        let size = self.scale / (self.units as f64).sqrt();
        let sign = |j: usize| if j.is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..self.units).map(|j| sign(j) * size).collect()
    }

    /// Constants for rows of norm at most `row_norm` and labels within `[-Y, Y]`, Y = `label_bound`.
    #[must_use]
    pub fn constants_within(&self, row_norm: f64, label_bound: Option<f64>) -> Constants {
        let head = self.head.constants_within(1.0, label_bound);
        let steep = self.activation.lipschitz() * self.scale;
        let single = self.scale / (self.units as f64).sqrt();
        let curved = head.lipschitz * single * self.activation.smoothness();
        let square = row_norm * row_norm;
        let outer = head.smoothness * steep * steep;
        // The blocks are at right angles: ||v|| in the place of max|v_j|.
        let blocks = head.lipschitz * self.scale * self.activation.smoothness();
        let bent = 3.0 * head.smoothness * steep * single * self.activation.smoothness();
        let third = head.lipschitz * single * self.activation.third();
        let rho = (head.hessian_lipschitz * steep.powi(3) + bent + third) * row_norm.powi(3);
        Constants::new(
            head.lipschitz * steep * row_norm,
            (outer + curved) * square,
            self.head.largest_at(0.0, label_bound),
            Convexity::Nonconvex,
        )
        .with_hessian_frobenius((outer + blocks) * square)
        .with_hessian_lipschitz(rho)
        .with_score(head.score)
    }

    /// A point to start from, a function of `seed` and public numbers alone; from the origin a network of ReLUs never moves.
    ///
    /// # Formula
    /// Weights uniform in (-r, r), r = sqrt(3)/X, so that a row of norm X = `row_norm` gives a unit an input of root mean square 1. Both
    /// units of a pair have the same weights, so that the output is 0 for every row, as it is at the origin.
    #[must_use]
    pub fn start(&self, inputs: usize, row_norm: f64, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let reach = 3f64.sqrt() / row_norm;
        let mut point = Vec::with_capacity(inputs * self.units);
        for _ in 0..inputs * self.units / 2 {
            let weight = (2.0 * crate::seeded::uniform(&mut state) - 1.0) * reach;
            point.extend([weight, weight]);
        }
        point
    }

    /// z for one row.
    ///
    /// # Shapes
    /// `point`: (p, k). Columns beyond p are left out.
    #[must_use]
    pub fn output(&self, row: dpopt_linalg::Row<'_>, point: &[f64]) -> f64 {
        let (values, _) = self.activations(row, point);
        self.combine(&values)
    }

    fn combine(&self, values: &[f64]) -> f64 {
        let pairs = values.as_chunks::<2>().0.iter();
        // The difference first: equal units cancel exactly.
        let total: f64 = pairs.map(|[plus, minus]| plus - minus).sum();
        total * (self.scale / (self.units as f64).sqrt())
    }

    fn inputs(&self, row: dpopt_linalg::Row<'_>, point: &[f64]) -> Vec<f64> {
        products(row, point, self.units)
    }

    /// Values and slopes of the hidden units.
    fn activations(&self, row: dpopt_linalg::Row<'_>, point: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let mut values = self.inputs(row, point);
        let mut slopes = vec![0.0; self.units];
        self.activation.apply(&mut values, &mut slopes);
        (values, slopes)
    }

    /// From the slopes of the units to phi' v_j act'_j.
    fn weigh(&self, slope: f64, slopes: &mut [f64]) {
        let size = slope * (self.scale / (self.units as f64).sqrt());
        for [plus, minus] in slopes.as_chunks_mut::<2>().0 {
            (*plus, *minus) = (*plus * size, *minus * -size);
        }
    }

    /// The multiples of the row that make the gradient, in the place of the inputs of the units.
    fn multiples(&self, inputs: &mut [f64], label: f64, out: &mut [f64]) {
        self.activation.apply(inputs, out);
        let slope = self.head.slope(self.combine(inputs), label);
        self.weigh(slope, out);
    }

    /// Of a segment, from the inputs of the units at its start and their changes: the multiples at the end less 1 - a times those at the
    /// start, each clipped to `cap`, so that short changes keep their digits.
    fn changed(&self, work: &mut Changing, label: f64, cap: f64, momentum: Momentum) {
        let Changing {
            inputs,
            changes,
            slopes,
            out,
        } = work;
        // act and act' at the start, and their changes.
        let mut moved = inputs.clone();
        self.activation.change(&moved, changes, slopes);
        let mut before = std::mem::take(out);
        self.activation.apply(&mut moved, &mut before);
        let (z, dz) = (self.combine(&moved), self.combine(changes));
        let slope = self.head.slope(z, label);
        let change = self.head.slope_change(z, dz, label);
        // (phi' + dphi')(a' + da') - phi' a' = dphi' (a' + da') + phi' da'.
        let mut difference: Vec<f64> = before
            .iter()
            .zip(&*slopes)
            .map(|(old, moved)| change * (old + moved) + slope * moved)
            .collect();
        self.weigh(1.0, &mut difference);
        let mut after: Vec<f64> = before.iter().zip(&*slopes).map(|(a, b)| a + b).collect();
        self.weigh(self.head.slope(z + dz, label), &mut after);
        self.weigh(slope, &mut before);
        if !momentum.subtract(&mut after, &before, cap) {
            momentum.combine(&mut after, &difference);
        }
        *out = after;
    }
}

/// Buffers of [`Network::add_second`].
struct SecondWork {
    slopes: Vec<f64>,
    bends: Vec<f64>,
}

impl SecondWork {
    fn new(units: usize) -> Self {
        Self {
            slopes: vec![0.0; units],
            bends: vec![0.0; units],
        }
    }
}

impl Network {
    /// Adds `times` the multiples of the row that make the product of the Hessian with a direction along which the inputs of the units move by
    /// `along`: phi'' D v_j act'_j + phi' v_j act''_j s_j, D = sum_j v_j act'_j s_j. The inputs become the outputs of the units.
    fn add_second(
        &self,
        inputs: &mut [f64],
        along: &[f64],
        label: f64,
        (work, times): (&mut SecondWork, f64),
        out: &mut [f64],
    ) {
        let SecondWork { slopes, bends } = work;
        self.activation.apply_twice(inputs, slopes, bends);
        let z = self.combine(inputs);
        let (slope, curvature) = (self.head.slope(z, label), self.head.curvature(z, label));
        let size = self.scale / (self.units as f64).sqrt();
        let sign = |j: usize| if j.is_multiple_of(2) { size } else { -size };
        let pairs = slopes.iter().zip(along).enumerate();
        let moved: f64 = pairs.map(|(j, (slope, s))| sign(j) * slope * s).sum();
        let common = curvature * moved;
        for (j, out) in out.iter_mut().enumerate() {
            *out += times * sign(j) * (common * slopes[j] + slope * bends[j] * along[j]);
        }
    }

    /// [`Network::add_second`] with buffers of its own.
    fn bend(&self) -> impl FnMut(&mut [f64], &[f64], f64, f64, &mut [f64]) {
        let mut work = SecondWork::new(self.units);
        move |inputs, along, label, times, out| {
            self.add_second(inputs, along, label, (&mut work, times), out);
        }
    }
}

/// Buffers of [`Network::changed`].
struct Changing {
    inputs: Vec<f64>,
    changes: Vec<f64>,
    slopes: Vec<f64>,
    out: Vec<f64>,
}

impl Loss for Network {
    type Records = Examples;

    const MAY_PANIC: bool = false;
    const VANISHES_ON_ERASED: bool = true;

    fn dim(&self, records: &Examples) -> usize {
        records.columns() * self.units
    }

    fn constants_on(&self, records: &Examples) -> Constants {
        self.constants_within(records.row_norm(), records.label_bound())
    }

    fn work(&self, records: &Examples) -> f64 {
        records.entries_per_row() * self.units as f64
    }

    fn value(&self, record: Example<'_>, point: &[f64]) -> f64 {
        self.head
            .value(self.output(record.row, point), record.label)
    }
}

impl Differentiable for Network {
    fn gradient(&self, record: Example<'_>, point: &[f64], out: &mut [f64]) {
        let mut inputs = self.inputs(record.row, point);
        let mut multiples = vec![0.0; self.units];
        self.multiples(&mut inputs, record.label, &mut multiples);
        add_outer(record.row, &multiples, out);
    }

    fn gradient_change(&self, record: Example<'_>, segment: &Segment<'_>, out: &mut [f64]) {
        let mut work = Changing {
            inputs: self.inputs(record.row, segment.from),
            changes: self.inputs(record.row, segment.displacement),
            slopes: vec![0.0; self.units],
            out: vec![0.0; self.units],
        };
        self.changed(&mut work, record.label, f64::INFINITY, Momentum::NONE);
        add_outer(record.row, &work.out, out);
    }

    fn add_gradients(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        point: &[f64],
        sum: &mut LatticeSum,
    ) {
        let layer = [UnitWeights::new(self.units, point)];
        linear_pass(records, &positions, layer, sum, |block| {
            let Block {
                products: [inputs],
                labels,
                multiples,
                ..
            } = block;
            let rows = inputs.chunks_exact_mut(self.units);
            let rows = rows.zip(multiples.chunks_exact_mut(self.units));
            for ((inputs, multiples), label) in rows.zip(labels) {
                self.multiples(inputs, *label, multiples);
            }
        });
    }

    /// A clipped gradient is the vector of multiples, clipped to clip / ||x||, times x; so is a difference of two, or of one and a part
    /// of another.
    fn add_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        segment: &Segment<'_>,
        clip: f64,
        momentum: Momentum,
        sum: &mut LatticeSum,
    ) {
        let layers =
            [segment.from, segment.displacement].map(|point| UnitWeights::new(self.units, point));
        let nothing = vec![0.0; self.units];
        let mut work = Changing {
            inputs: nothing.clone(),
            changes: nothing.clone(),
            slopes: nothing.clone(),
            out: nothing,
        };
        linear_pass(records, &positions, layers, sum, |block| {
            let [inputs, changes] = block.products;
            let rows = inputs.chunks_exact(self.units);
            let rows = rows.zip(changes.chunks_exact(self.units));
            let rows = rows.zip(block.multiples.chunks_exact_mut(self.units));
            for (i, ((inputs, changes), multiples)) in rows.enumerate() {
                work.inputs.copy_from_slice(inputs);
                work.changes.copy_from_slice(changes);
                let cap = clip / block.norms[i];
                self.changed(&mut work, block.labels[i], cap, momentum);
                multiples.copy_from_slice(&work.out);
            }
        });
    }
}

/// Everywhere where the activation and the head are smooth; at kinks one element of each.
impl TwiceDifferentiable for Network {
    fn hessian_vector(
        &self,
        record: Example<'_>,
        point: &[f64],
        direction: &[f64],
        out: &mut [f64],
    ) {
        let mut inputs = self.inputs(record.row, point);
        let along = self.inputs(record.row, direction);
        let mut multiples = vec![0.0; self.units];
        self.bend()(&mut inputs, &along, record.label, 1.0, &mut multiples);
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
        let layers = [point, direction].map(|point| UnitWeights::new(self.units, point));
        hessian_pass(records, &positions, layers, sum, self.bend());
    }

    fn add_hessian_changes(
        &self,
        records: &Examples,
        positions: Positions<'_>,
        (from, to): (&[f64], &[f64]),
        direction: &[f64],
        sum: &mut LatticeSum,
    ) {
        let layers = [from, to, direction].map(|point| UnitWeights::new(self.units, point));
        hessian_changes(records, &positions, layers, sum, self.bend());
    }
}

#[cfg(test)]
mod tests;
