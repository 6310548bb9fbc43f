//! An oracle that keeps what it releases, for scores.

use dpopt_oracle::query::{Directions, Slopes};
use dpopt_oracle::{Answer, AskError, Books, Linear, Oracle, OracleFacts, Question};
use dpopt_privacy::ClipNorm;

/// One release as anybody can see it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WatchedRelease {
    /// Where a change starts; none for a field.
    pub from: Option<Vec<f64>>,
    /// The point that was asked for.
    pub point: Vec<f64>,
    /// The part of the field at the start that was taken away: 1 for a change, 1 - a for a step of recursive momentum, 0
    /// for a field.
    pub kept: f64,
    /// Along what slopes were asked for; none for gradients.
    pub along: Option<Along>,
    /// What was released.
    pub kind: WatchedKind,
    /// The released mean (of slopes, one number for each direction), or the one number of a released norm.
    pub released: Vec<f64>,
    /// Standard deviation of its noise in each coordinate.
    pub deviation: f64,
}

/// What a [`WatchedRelease`] is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchedKind {
    /// A mean of gradients or slopes.
    #[default]
    Mean,
    /// The sum of the means of all steps of a period so far.
    Prefix,
    /// The norm of one.
    Norm,
    /// The product of a chained Hessian; `point` is where the chain ends.
    Product,
    /// A mean Hessian, as [`HessianMatrix`](dpopt_oracle::query::HessianMatrix) lays it out.
    Hessian,
    /// A mean product of Hessians with a vector, which stands for the start of a change.
    HessianProduct,
    /// A mean change of values.
    ValueChange,
    /// A slope along a direction.
    Directional,
}

/// What slopes were asked for, beside the point: all of it public.
#[derive(Debug, Clone, PartialEq)]
pub struct Along {
    /// The directions.
    pub directions: Directions,
    /// Half of the way.
    pub smoothing: f64,
    /// The clip radius.
    pub clip: ClipNorm,
}

impl Along {
    /// The question at `point`.
    #[must_use]
    pub fn at<'a>(&'a self, point: &'a [f64]) -> Slopes<'a> {
        Slopes {
            point,
            directions: &self.directions,
            smoothing: self.smoothing,
            clip: self.clip,
        }
    }
}

/// An oracle with a list of the means, Hessians and norms that it released.
pub struct Watched<O> {
    inner: O,
    releases: Vec<WatchedRelease>,
}

impl<O: Oracle> Watched<O> {
    /// Watches `inner`.
    pub fn new(inner: O) -> Self {
        Self {
            inner,
            releases: Vec::new(),
        }
    }

    /// The oracle below.
    pub fn inner(&self) -> &O {
        &self.inner
    }

    /// What was released, in order.
    pub fn releases(&self) -> &[WatchedRelease] {
        &self.releases
    }
}

/// What is public of a question before it is answered.
fn asked(of: &Linear<'_>) -> WatchedRelease {
    WatchedRelease {
        from: of.before().map(|(segment, _)| segment.from.to_vec()),
        point: of.point().to_vec(),
        kept: of.before().map_or(0.0, |(_, momentum)| momentum.kept()),
        ..WatchedRelease::default()
    }
}

impl<O: Oracle> Oracle for Watched<O> {
    fn facts(&self) -> OracleFacts {
        self.inner.facts()
    }

    fn books(&mut self) -> &mut Books {
        self.inner.books()
    }

    fn answer(&mut self, question: Question<'_>) -> Result<Answer, AskError> {
        let asked = match &question {
            Question::Mean { of, .. }
            | Question::Averaged { of, .. }
            | Question::Smoothed { of, .. } => Some(asked(of)),
            Question::Norm { of, .. } => Some(WatchedRelease {
                kind: WatchedKind::Norm,
                ..asked(of)
            }),
            Question::Hessian { of, .. } => Some(WatchedRelease {
                point: of.point.to_vec(),
                kind: WatchedKind::Hessian,
                ..WatchedRelease::default()
            }),
            Question::Chain { of, .. } => Some(WatchedRelease {
                point: of.end().unwrap_or_default().to_vec(),
                kind: WatchedKind::Product,
                ..WatchedRelease::default()
            }),
            Question::HessianVector { of, .. } => Some(WatchedRelease {
                from: Some(of.direction.to_vec()),
                point: of.point.to_vec(),
                kind: WatchedKind::HessianProduct,
                ..WatchedRelease::default()
            }),
            Question::ValueChange { of, .. } => Some(WatchedRelease {
                from: Some(of.from.to_vec()),
                point: of.to.to_vec(),
                kind: WatchedKind::ValueChange,
                ..WatchedRelease::default()
            }),
            Question::Directional { of, .. } => Some(WatchedRelease {
                from: Some(of.direction.to_vec()),
                point: of.point.to_vec(),
                kind: WatchedKind::Directional,
                ..WatchedRelease::default()
            }),
            Question::Slopes { of, .. } => Some(WatchedRelease {
                point: of.point.to_vec(),
                along: Some(Along {
                    directions: of.directions.clone(),
                    smoothing: of.smoothing,
                    clip: of.clip,
                }),
                ..WatchedRelease::default()
            }),
            Question::Step { of, .. } => Some(WatchedRelease {
                kind: WatchedKind::Prefix,
                ..asked(of)
            }),
            _ => None,
        };
        let answer = self.inner.answer(question)?;
        let (released, deviation) = match &answer {
            Answer::Mean(mean) => (mean.mean.clone(), mean.noise_std),
            Answer::Number(number) => (vec![number.number], number.noise_std),
            _ => return Ok(answer),
        };
        self.releases.extend(asked.map(|asked| WatchedRelease {
            released,
            deviation,
            ..asked
        }));
        Ok(answer)
    }
}
