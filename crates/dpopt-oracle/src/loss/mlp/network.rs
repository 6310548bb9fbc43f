//! The network: its layers, and where their parameters are in a point.

use super::activation::Activation;
use super::head::Head;
use crate::records::Example;

/// A perceptron that can't be.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MlpError {
    /// Fewer than two sizes.
    #[error("{sizes} layer sizes: a perceptron needs at least those of its inputs and its outputs")]
    TooFewSizes {
        /// Sizes given.
        sizes: usize,
    },
    /// A layer of no units.
    #[error("layer {layer} has no units")]
    EmptyLayer {
        /// Which, the inputs being layer 0.
        layer: usize,
    },
    /// The head can't compare that many outputs with a label.
    #[error(
        "a {head:?} head does not work with {outputs} outputs: softmax needs two or more, all others one"
    )]
    Outputs {
        /// The head.
        head: Head,
        /// Size of the last layer.
        outputs: usize,
    },
    /// More parameters than memory can hold.
    #[error("the number of parameters is too large")]
    TooManyParameters,
}

/// A fully connected network with biases.
///
/// # Formula
/// a_0 is the row of features; a_l = act(W_l^T a_{l-1} + b_l) for the hidden layers; z = W_L^T a_{L-1} + b_L; the
/// loss is the head's, of z and the label. A point is W_1 (row-major, one row per input), b_1, W_2, b_2, ...
///
/// A row of zeros is no record, whatever its label (an erased record looks like that): its loss and gradient are 0. So is a label that the
/// head does not know.
///
/// # Accuracy
/// Where the positions of records are fixed (replace-one and zero-out) sums of gradients are computed in single
/// precision, weights, features and activations included, and clipped gradients are up to 0.3 % short of the
/// radius; products with Hessians, of factors rounded to single precision, up to 2.4 %, and further where their terms cancel by more than half.
/// A point with an entry beyond 3.4e38 gives gradients of zero there. Under add/remove the pass is in double precision.
///
/// # Privacy
/// There is no finite Lipschitz constant: clip ([`crate::PrivateGradient::clipped`]). Clipping is on the whole
/// gradient, weights and biases. See `docs/privacy/sums.md`.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    pub(super) sizes: Vec<usize>,
    pub(super) activation: Activation,
    pub(super) head: Head,
    pub(super) dim: usize,
}

impl Mlp {
    /// The perceptron with these layer sizes, inputs first, outputs last. Two sizes make a linear model.
    ///
    /// # Errors
    /// [`MlpError`].
    pub fn new(sizes: &[usize], activation: Activation, head: Head) -> Result<Self, MlpError> {
        let (Some(&outputs), true) = (sizes.last(), sizes.len() >= 2) else {
            return Err(MlpError::TooFewSizes { sizes: sizes.len() });
        };
        if let Some(layer) = sizes.iter().position(|&size| size == 0) {
            return Err(MlpError::EmptyLayer { layer });
        }
        let fits = match head {
            Head::Softmax => outputs >= 2,
            Head::Squared | Head::Scalar(_) => outputs == 1,
        };
        if !fits {
            return Err(MlpError::Outputs { head, outputs });
        }
        let dim = sizes.windows(2).try_fold(0usize, |dim, pair| {
            let inputs = pair[0].checked_add(1)?;
            dim.checked_add(inputs.checked_mul(pair[1])?)
        });
        let dim = dim.filter(|&dim| dim <= isize::MAX as usize / size_of::<f64>());
        Ok(Self {
            sizes: sizes.to_vec(),
            activation,
            head,
            dim: dim.ok_or(MlpError::TooManyParameters)?,
        })
    }

    /// Layer sizes, inputs first.
    #[must_use]
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// The activation of hidden units.
    #[must_use]
    pub fn activation(&self) -> Activation {
        self.activation
    }

    /// The head.
    #[must_use]
    pub fn head(&self) -> Head {
        self.head
    }

    /// Number of parameters.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.dim
    }

    /// A point to start from, a function of `seed` alone: biases 0, weights uniform in (-r, r), with r = sqrt(6 / m)
    /// for softplus, SiLU and ReLU (He et al. 2015, arXiv:1502.01852, section 2.2) and sqrt(6 / (m + n)) otherwise
    /// (Glorot and Bengio 2010, equation 16), for m inputs and n outputs of a layer.
    #[must_use]
    pub fn initial_point(&self, seed: u64) -> Vec<f64> {
        let mut point = Vec::with_capacity(self.dim);
        let mut state = seed;
        for pair in self.sizes.windows(2) {
            let (m, n) = (pair[0], pair[1]);
            let reach = self.reach(m as f64, n as f64);
            for _ in 0..m * n {
                point.push((2.0 * crate::seeded::uniform(&mut state) - 1.0) * reach);
            }
            point.resize(point.len() + n, 0.0);
        }
        point
    }

    /// r of [`Mlp::initial_point`].
    fn reach(&self, inputs: f64, outputs: f64) -> f64 {
        let fan = match self.activation {
            Activation::Relu | Activation::Softplus | Activation::Silu => inputs,
            Activation::Tanh | Activation::Sigmoid => inputs + outputs,
        };
        (6.0 / fan).sqrt()
    }

    /// A point to start from for rows of norm at most `row_norm`, a function of public numbers and `seed` alone: as
    /// [`Mlp::initial_point`], but for the first layer, whose weights are uniform in (-r, r), r = sqrt(3)/X, so that a row of norm X gives
    /// a unit an input of root mean square 1 however many features are 0, and for the last, which is 0, and with it the output for every
    /// row. A network of two sizes starts at 0.
    #[must_use]
    pub fn start(&self, row_norm: f64, seed: u64) -> Vec<f64> {
        let mut point = self.initial_point(seed);
        let mut layers = self.layers();
        let last = layers.next_back();
        if let Some(first) = layers.next() {
            let (m, n) = (self.sizes[0] as f64, first.outputs as f64);
            let had = self.reach(m, n);
            let weights = first.of_mut(&mut point).iter_mut();
            weights.for_each(|w| *w *= 3f64.sqrt() / (row_norm * had));
        }
        if let Some(last) = last {
            last.of_mut(&mut point).fill(0.0);
        }
        point
    }

    /// Length of the slope of an output in the parameters, for a row of norm X = `row_norm`, at weights that are as random as those of
    /// [`Mlp::initial_point`]: what a planner may take for the unit of a loss that has no constants. It bounds nothing.
    ///
    /// # Formula
    /// G^2 = (1 + m_L/2) + sum over the layers before of (1 + m_l/2)/2, with m_l inputs of layer l, and X^2 in the place of m_1/2: an
    /// active unit's output has a mean square of about 1/2, and so has what comes back to a layer.
    #[must_use]
    pub fn typical_slope(&self, row_norm: f64) -> f64 {
        let inputs = |(l, m): (usize, &usize)| match l {
            0 => 1.0 + row_norm * row_norm,
            _ => 1.0 + 0.5 * *m as f64,
        };
        let (_, inner) = self.sizes.split_last().unwrap_or((&0, &[]));
        let all: Vec<f64> = inner.iter().enumerate().map(inputs).collect();
        let before: f64 = all.iter().rev().skip(1).sum();
        (all.last().unwrap_or(&0.0) + 0.5 * before).sqrt()
    }

    pub(super) fn outputs_len(&self) -> usize {
        self.sizes.last().copied().unwrap_or(0)
    }

    /// Whether the record counts, and then its label.
    pub(super) fn label(&self, record: Example<'_>) -> Option<f64> {
        let accepted = self.head.accepts(record.label, self.outputs_len());
        (record.norm > 0.0 && accepted).then_some(record.label)
    }

    /// Inputs and outputs of each layer and where its parameters start.
    pub(super) fn layers(&self) -> std::vec::IntoIter<Layer> {
        let mut start = 0;
        let all: Vec<Layer> = self
            .sizes
            .windows(2)
            .map(|pair| {
                let layer = Layer {
                    inputs: pair[0],
                    outputs: pair[1],
                    start,
                };
                start += (pair[0] + 1) * pair[1];
                layer
            })
            .collect();
        all.into_iter()
    }
}

/// One layer's place in a point.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) start: usize,
}

impl Layer {
    /// Weights, one row per input, and the biases as one more row.
    pub(super) fn of(self, point: &[f64]) -> &[f64] {
        &point[self.start..][..(self.inputs + 1) * self.outputs]
    }

    pub(super) fn of_mut(self, point: &mut [f64]) -> &mut [f64] {
        &mut point[self.start..][..(self.inputs + 1) * self.outputs]
    }
}
