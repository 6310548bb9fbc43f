//! `model.json`: a released model with its schema and its privacy statement.

use std::path::Path;

use dpopt::data::tabular::Schema;
use dpopt::linalg::Design;
use dpopt::nonconvex::{Solver, solver};
use dpopt::oracle::Glm;
use serde::{Deserialize, Serialize};

use crate::error::CliError;
use crate::statement::Statement;

const FORMAT: &str = "dpopt-model-1";

/// A linear model of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Model {
    format: String,
    #[serde(deserialize_with = "by_name")]
    pub(crate) solver: &'static Solver,
    pub(crate) loss: Glm,
    pub(crate) privacy: Statement,
    pub(crate) schema: Schema,
    weights: Vec<Weight>,
}

/// A solver by its name.
fn by_name<'de, D: serde::Deserializer<'de>>(name: D) -> Result<&'static Solver, D::Error> {
    let name = String::deserialize(name)?;
    solver(&name).map_err(serde::de::Error::custom)
}

/// The weight of one feature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Weight {
    feature: String,
    weight: f64,
}

impl Model {
    /// Names the coordinates of `point` after the schema's features.
    pub(crate) fn new(
        solver: &'static Solver,
        loss: Glm,
        privacy: Statement,
        schema: Schema,
        point: &[f64],
    ) -> Self {
        let weights = schema
            .feature_names()
            .into_iter()
            .zip(point)
            .map(|(feature, &weight)| Weight { feature, weight })
            .collect();
        Self {
            format: FORMAT.to_owned(),
            solver,
            loss,
            privacy,
            schema,
            weights,
        }
    }

    /// Reads and checks a model.
    pub(crate) fn load(path: &Path) -> Result<Self, CliError> {
        let text = std::fs::read_to_string(path).map_err(|source| CliError::Read {
            path: path.to_owned(),
            source,
        })?;
        let bad = |problem: String| CliError::Content {
            path: path.to_owned(),
            problem,
        };
        let model: Self = serde_json::from_str(&text)
            .map_err(|error| bad(format!("not a model of dpopt: {error}")))?;
        if model.format != FORMAT {
            return Err(bad(format!(
                "the format {:?} is unknown; this version reads {FORMAT:?}",
                model.format
            )));
        }
        let names = model.schema.feature_names();
        let fits = names.len() == model.weights.len()
            && names
                .iter()
                .zip(&model.weights)
                .all(|(name, weight)| *name == weight.feature && weight.weight.is_finite());
        if !fits {
            return Err(bad(
                "the weights do not match the features of the schema in the same file".to_owned(),
            ));
        }
        Ok(model)
    }

    /// <w, x> for each row.
    pub(crate) fn scores(&self, design: &Design) -> Vec<f64> {
        let point: Vec<f64> = self.weights.iter().map(|weight| weight.weight).collect();
        (0..design.rows())
            .map(|i| design.row(i).dot(&point))
            .collect()
    }
}
