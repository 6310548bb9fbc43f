//! Losses, private data, estimators and what they release, from outside.

#[expect(unreachable_pub, reason = "benchmarks include it too")]
mod by_values;
mod common;
mod follow;

mod boundary;
mod chains;
mod contribution;
mod estimators;
mod hessian;
mod momentum;
mod numbers;
mod on_disk;
mod order;
mod perceptron;
mod prefix_estimator;
mod projection;
mod regularized;
mod row_averages;
mod score_saddle;
mod slopes;
mod smoothed;
mod smoothed_means;
mod storages;
mod user_loss;
mod values_alone;
