//! What a model computes from an encoded row, without the types of the library.

use dpopt::oracle::Activation;

use crate::model::{Layer, Model};

/// A model that can't be taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScoreError {
    #[error("its loss has no score that could be exported")]
    Loss,
    #[error("{weights} weights are not {features} features times {outputs}")]
    Shape {
        weights: usize,
        features: usize,
        outputs: usize,
    },
}

/// The outputs z = M x of an encoded row x, and what is made of them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Score {
    /// M, row by row: one row for each score, class, hidden unit or column of a factor.
    pub(super) rows: Vec<Vec<f64>>,
    pub(super) head: Head,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Head {
    /// z itself.
    Linear,
    /// One score for each class.
    Classes,
    /// sum_j v_j act(z_j).
    Network {
        activation: Activation,
        output_weights: Vec<f64>,
    },
    /// Layer after layer: z and the biases through the activation into the next, the last without one.
    Perceptron {
        activation: Activation,
        biases: Vec<f64>,
        layers: Vec<Layer>,
    },
    /// sum_j z_j^2 - threshold.
    Factor { threshold: f64 },
}

impl Score {
    pub(super) fn of(model: &Model) -> Result<Self, ScoreError> {
        let fit = model.fit().ok_or(ScoreError::Loss)?;
        let (mut point, features, outputs) = (model.point(), model.schema.dim(), fit.width());
        if fit.perceptron.is_some() {
            // The first layer; the others are heads.
            point.truncate(features.saturating_mul(outputs));
        }
        if features == 0 || outputs == 0 || point.len() != features * outputs {
            return Err(ScoreError::Shape {
                weights: point.len(),
                features,
                outputs,
            });
        }
        // The weights of a class stand together; otherwise those of a feature do.
        let rows = if fit.perceptron.is_none() && fit.classes().is_some() {
            point.chunks(features).map(<[f64]>::to_vec).collect()
        } else {
            let row = |j: usize| point.iter().skip(j).step_by(outputs).copied().collect();
            (0..outputs).map(row).collect()
        };
        if let (Some((biases, layers)), Some(of)) = (model.layers(), fit.perceptron) {
            let head = Head::Perceptron {
                activation: of.activation,
                biases: biases.to_vec(),
                layers: layers.to_vec(),
            };
            return Ok(Self { rows, head });
        }
        let head = match (fit.network, fit.link, fit.classes()) {
            (Some(network), ..) => Head::Network {
                activation: network.activation(),
                output_weights: network.output_weights(),
            },
            (None, Some(link), _) => Head::Factor {
                threshold: link.threshold(),
            },
            (None, None, Some(_)) => Head::Classes,
            (None, None, None) => Head::Linear,
        };
        Ok(Self { rows, head })
    }
}
