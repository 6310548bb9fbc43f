//! Queries: what one record contributes to a sum.
//!
//! A query is a vector for each record, a function of that record and of public points. A new one
//! is a file with an implementation of [`Query`]; the pass over the records, the sum, the noise and
//! the accounting are those of all queries ([`crate::PrivateMean`]).

mod ball;
mod chain;
mod directional;
mod hessian_matrix;
mod hessian_vector;
mod linear;
mod of_record;
mod row_average;
mod slopes;
mod smoothed;
mod value;
mod value_change;

pub use ball::{BallGradient, Offsets, Smoothed};
pub use chain::{ChainProduct, HessianLink};
pub use directional::Directional;
pub use hessian_matrix::{HessianMatrix, MAX_PRIVATE_HESSIAN_DIM, unpack_symmetric};
pub use hessian_vector::{HessianVector, HessianVectorDifference};
pub use linear::Linear;
pub use of_record::Query;
pub use row_average::RowAverage;
pub use slopes::{Directions, Slopes};
pub use smoothed::{
    Frames, SmoothedDifference, SmoothedGradient, smoothed_change_per_length,
    smoothed_change_radius, smoothed_gradient_bound,
};
pub use value::Value;
pub use value_change::ValueChange;
