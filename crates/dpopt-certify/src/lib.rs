//! Certificates of stationarity: how good a point is, with a bound on the error of the answer.
//!
//! | question | public data and closed forms | private data, charged |
//! | --- | --- | --- |
//! | first order | [`first_order`] | [`GradientNormPlan`] |
//! | second order | [`second_order`] | [`SecondOrderPlan`]; its parts [`LeastEigenvaluePlan`], [`CurvaturePlan`]; of the population what [`PopulationGap`] adds |
//! | Goldstein | [`goldstein`], [`radial_goldstein`] | [`ReleasedWindow`], for nothing; of the population [`GoldsteinSlicePlan`] |
//! | excess under a KL condition | [`KlCondition`] | by the private gradient norm |
//!
//! The public numbers are functions of the records without any noise. **Never compute them on
//! private data**: a gradient norm or an eigenvalue of a private mean reveals records, and nothing
//! would charge for it. The types help: they take public data or closed forms only.
//!
//! A closed form is a [`Problem`], a [`SecondOrderProblem`] or a [`GoldsteinProblem`], with its
//! constants. [`auc`], [`accuracy`], [`majority_accuracy`] and [`log_loss`] say how good a linear
//! classifier is on public data, [`Confusion`] how well several classes are told apart; [`PrivateEvaluation`],
//! [`ClassesPlan`] and [`NumberPlan`] say how good models of two classes, of several and of a number are on private records, and
//! [`TuningPlan`] chooses the best of several trainings by that.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

mod confusion;
mod error;
mod evaluation;
mod first;
mod goldstein;
#[cfg(test)]
mod goldstein_tests;
mod metrics;
mod objective;
mod private;
mod problem;
mod radial;
#[doc(hidden)]
pub mod random;
mod second;
#[cfg(test)]
mod tests;
mod tuning;
mod value_function;
mod window;

pub use confusion::{Confusion, class_of, largest};
pub use dpopt_solver::KlCondition;
pub use error::CertificateError;
pub use evaluation::{
    BinaryConfusion, Calibrated, ClassCounts, ClassesEvaluation, ClassesPlan, EvaluatedLabel,
    EvaluatedModel, Evaluation, EvaluationCounts, EvaluationError, EvaluationOfModel,
    EvaluationSettings, FittedModel, MeanOf, Measured, ModelEvaluation, NumberEvaluation,
    NumberPlan, NumberSums, OfPopulation, PrivateEvaluation, ReleasedTable, RocPoint, TallyPlan,
};
pub use first::{FirstOrder, first_order};
pub use goldstein::{Goldstein, GoldsteinSettings, GoldsteinStop, goldstein};
pub use metrics::{MetricError, accuracy, auc, log_loss, majority_accuracy};
pub use objective::{Curved, GlmMean, MeanLoss, Objective, WithRegularizer};
pub use private::{
    CurvaturePlan, GoldsteinSlicePlan, GradientNormPlan, Interval, LeastEigenvaluePlan,
    MAX_PRIVATE_HESSIAN_DIM, PopulationGap, PrivateCertificateError, PrivateCurvature,
    PrivateGradientNorm, PrivateLeastEigenvalue, SecondOrderCertificate, SecondOrderPlan,
    SecondOrderTargets, SliceCertificate, uniform_gradient_gap,
};
pub use problem::{GoldsteinProblem, Kl, Problem, ProblemConstants, SecondOrderProblem};
pub use radial::radial_goldstein;
pub use second::{
    EigenMethod, MAX_HESSIAN_DIM, SecondOrder, SecondOrderSettings, Verdict, second_order,
};
pub use tuning::{
    Tuned, TuningCandidate, TuningError, TuningFailure, TuningPlan, TuningRecords, TuningScore,
    tuning_within,
};
pub use value_function::{InnerConstants, Saddle, SaddleMean, ValueError, ValueFunction};
pub use window::{
    ReleasedWindow, WindowCertificate, WindowError, WindowPlan, WindowSlack, WindowSubject,
    WindowTerms,
};
