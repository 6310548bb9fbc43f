//! Losses: what one record says about a point.
//!
//! A loss is defined record by record. [`Loss`] has the value and the public constants,
//! [`Differentiable`] the gradient and its change between two points, [`TwiceDifferentiable`] the
//! Hessian's product with a vector. Whole passes have default methods in terms of single records;
//! a loss with structure overrides them.
//!
//! | built in | records | loss |
//! | --- | --- | --- |
//! | [`Glm`] | [`crate::Examples`] | a scalar loss of <w, x>: logistic, sigmoid, hinge, Welsch, Geman-McClure, Cauchy, Tukey, Huber, squared with clamped residual, absolute, pinball, ReLU regression |
//! | [`Network`] | [`crate::Examples`] | a scalar loss of a sum of hidden units with fixed output weights |
//! | [`Softmax`] | [`crate::Examples`], labels 0 to K - 1 | multiclass cross-entropy |
//! | [`QuadraticLink`] | [`crate::Examples`] | a scalar loss of the squared length of U^T x: phase retrieval, metric learning |
//! | [`Weighted`] | [`crate::Examples`] | any of those of examples, times a public factor of the label |
//! | [`ClosureLoss`] | any | two closures, or one: values without a gradient |
//!
//! A [`Regularizer`] is no loss of a record: [`crate::Regularized`] adds it after the release.

mod along_rows;
mod blocks;
mod check;
mod closure;
mod convex_smooth;
mod glm;
mod guard;
#[cfg(test)]
mod laws;
mod mlp;
mod network;
mod outer;
mod quadratic;
mod rays;
mod regularizer;
mod rows;
mod saddle;
mod score;
mod segment;
mod softmax;
mod traits;
mod weighted;

pub use along_rows::AlongRows;
pub use blocks::Blocks;
pub use check::{
    CheckError, ConstantsCheck, GradientCheck, HessianCheck, check_constants, check_gradient,
    check_hessian_vector,
};
pub use closure::ClosureLoss;
pub use convex_smooth::{ConvexGlm, ConvexSmooth, NotConvexSmooth};
pub use glm::{Glm, LossNameError, ParameterError, Quantile, Scale};
pub use mlp::{Activation, Head, Mlp, MlpError};
pub use network::{Network, NetworkError};
pub use quadratic::QuadraticLink;
pub use rays::Rays;
pub use regularizer::Regularizer;
pub use saddle::{
    BlocksError, Joint, JointChange, JointPoint, SaddleConstants, SaddleLoss, SaddleRecord,
    TwiceSaddle,
};
pub use score::{
    At, AucSaddle, BlockClips, Cell, CellCounts, CellShares, EqualOpportunity, GroupDro, MeanAt,
    MeanConstants, RecordAt, ScoreBins, ScoreBinsError, ScoreBlock, ScoreSaddle, Scored,
    SharesError, Tally,
};
pub use segment::{Momentum, Segment};
pub use softmax::Softmax;
pub use traits::{
    Bordered, Constants, Convexity, Differentiable, Less, Loss, RecordOf, ScoreUnit,
    TwiceDifferentiable, ValuesOf,
};
pub(crate) use traits::{add_change, add_contribution, add_numbers, guarded};
pub use weighted::{ClassWeights, WeightError, Weighted};
