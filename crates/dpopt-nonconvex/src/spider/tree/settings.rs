//! How a tree is planned.

use dpopt_solver::{Item, PlanError, Unit, Value};
use serde::Serialize;

/// Deepest tree that is planned.
pub(super) const MAX_DEPTH: u32 = 30;

/// What a plan makes small, and in which sense.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "target", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TreeTarget {
    /// The mean of the gradient norm at a leaf drawn uniformly; all leaves are walked. Proven.
    Mean,
    /// The gradient norm at the leaf where the walk stops, with probability 1 - p, jointly over
    /// records and noise. Proven.
    HighProbability {
        /// p.
        failure: f64,
    },
    /// The same with errors of estimates taken to be at most `safety` times their root mean square: a rule of
    /// thumb, for which no bound is stated; 1.5 is usual.
    Heuristic {
        /// s.
        safety: f64,
    },
}

/// To what the noise of a right child is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TreeNoise {
    /// The actual distance from its parent, at most that of the path.
    #[default]
    Actual,
    /// The length P 2^-j/L1 of the path from its parent, known before the run: then the noise of a leaf is
    /// exactly normal with a variance that the plan knows.
    Path,
}

/// How a tree is planned.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TreeSettings {
    /// What is made small.
    #[serde(flatten)]
    pub target: TreeTarget,
    /// To what noise is scaled.
    pub noise: TreeNoise,
    /// Depth D; none: planned. 0 is the baseline without a tree.
    pub depth: Option<u32>,
    /// Plans also where the bound says no more than the starting point already does.
    pub even_if_vacuous: bool,
}

impl TreeSettings {
    /// For this target: noise by the actual distance, depth planned.
    #[must_use]
    pub fn new(target: TreeTarget) -> Self {
        Self {
            target,
            noise: TreeNoise::Actual,
            depth: None,
            even_if_vacuous: false,
        }
    }

    /// With this noise.
    #[must_use]
    pub fn with_noise(mut self, noise: TreeNoise) -> Self {
        self.noise = noise;
        self
    }

    /// With this depth.
    #[must_use]
    pub fn with_depth(mut self, depth: u32) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Also where the bound is vacuous.
    #[must_use]
    pub fn even_if_vacuous(mut self) -> Self {
        self.even_if_vacuous = true;
        self
    }

    pub(super) fn items(&self) -> Vec<Item<'static>> {
        let mut items = match self.target {
            TreeTarget::Mean => vec![Item::word("target", "mean")],
            TreeTarget::HighProbability { failure } => vec![
                Item::word("target", "high-probability"),
                Item::ratio("failure", failure),
            ],
            TreeTarget::Heuristic { safety } => vec![
                Item::word("target", "heuristic"),
                Item::ratio("safety", safety),
            ],
        };
        items.extend([
            Item::word(
                "noise",
                match self.noise {
                    TreeNoise::Actual => "actual",
                    TreeNoise::Path => "path",
                },
            ),
            match self.depth {
                Some(depth) => Item::count("depth", u64::from(depth)),
                None => Item::maybe("depth", None, Unit::NONE),
            },
            Item::plain("even_if_vacuous", Value::Flag(self.even_if_vacuous)),
        ]);
        items
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let (name, value, good) = match self.target {
            TreeTarget::Mean => return self.check_depth(),
            TreeTarget::HighProbability { failure } => {
                ("failure", failure, failure > 0.0 && failure < 1.0)
            }
            TreeTarget::Heuristic { safety } => {
                ("safety", safety, safety > 0.0 && safety.is_finite())
            }
        };
        if good {
            self.check_depth()
        } else {
            Err(PlanError::BadFact { name, value })
        }
    }

    fn check_depth(&self) -> Result<(), PlanError> {
        match self.depth {
            Some(depth) if depth > MAX_DEPTH => Err(PlanError::TooDeep {
                depth,
                most: MAX_DEPTH,
            }),
            _ => Ok(()),
        }
    }
}
