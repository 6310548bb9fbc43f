//! The network: its layers, and where their parameters are in a point.

use super::activation::Activation;
use super::head::Head;
use crate::records::Example;

/// A perceptron that can't be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
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
        "a {head:?} head does not work with {outputs} outputs: softmax needs two or more, squared one"
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
/// gradient, weights and biases. See `docs/privacy/outer-products.md`.
#[derive(Debug, Clone, PartialEq, Eq)]
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
            Head::Squared => outputs == 1,
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
            let fan = match self.activation {
                Activation::Relu | Activation::Softplus | Activation::Silu => m as f64,
                Activation::Tanh | Activation::Sigmoid => m as f64 + n as f64,
            };
            let reach = (6.0 / fan).sqrt();
            for _ in 0..m * n {
                point.push((2.0 * crate::seeded::uniform(&mut state) - 1.0) * reach);
            }
            point.resize(point.len() + n, 0.0);
        }
        point
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
