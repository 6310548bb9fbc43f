//! Design matrices, row kernels and dense spectra for private optimisation.
//!
//! This crate adapts storage and dense linear algebra for the layers above; it knows nothing
//! about privacy. Rows are records. faer does the dense decompositions and does not appear in
//! any public signature. [`extreme_eigenvalue`] (Lanczos) and [`Hull`] (the point of a convex hull
//! nearest to 0) measure how stationary a point is, each with a bound on its own error. [`JlMap`] is a
//! random projection that keeps lengths.
//!
//! Every row kernel computes its result **from that row alone, in a fixed order**: the bits of a
//! record's inner product do not depend on which rows stand beside it, nor on how many. The privacy
//! argument of `dpopt-oracle` rests on that. The blocked kernels take several rows through one walk over the point,
//! each with partial sums of its own.

mod ahead;
mod blocks;
mod columns;
mod design;
mod domain;
mod file;
mod frame;
mod hull;
mod johnson;
mod lanczos;
mod lifted;
mod logistic;
mod panels;
mod row;
mod rowfile;
mod rows;
mod spectrum;
mod stamp;
mod units;
mod vector;

pub use ahead::Ahead;
pub use blocks::Packed;
pub use columns::{Multiples, shorten_columns, shorten_multiples, spread, subtract_shortened};
pub use design::{Design, DesignError, Entries, Wanted};
pub use domain::{Domain, DomainError, into_ball};
pub use dpopt_lanes::Entry;
pub use file::{BlockReader, DesignFile, DesignFileError, FileEntry, FileLayout};
pub use frame::orthonormalise;
pub use hull::{Hull, HullError, HullPoint};
pub use johnson::{JlMap, MapError};
pub use lanczos::{
    End, ExtremeEigenvalue, LanczosError, LanczosSettings, LanczosStatus, extreme_eigenvalue,
};
pub use lifted::{Lifted, lifted};
pub use logistic::{logistic, logistic_changes, logistic_losses, logistic_pairs};
pub use panels::{PackedSingles, Panels};
pub use row::Row;
pub use rowfile::{RowFile, RowFileError, RowFileProblem, RowFileWriter, RowReader};
pub use rows::{one_hot_products, row_products, sparse_products};
pub use spectrum::{
    Eigen, SpectrumError, SymmetricSpectrum, least_eigenvectors, symmetric_spectrum,
};
pub use units::UnitWeights;
pub use vector::{add_scaled, distance, dot, norm, norm_upper};
