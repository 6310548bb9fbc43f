//! Design matrices, row kernels and dense spectra for private optimisation.
//!
//! This crate adapts storage and dense linear algebra for the layers above; it knows nothing
//! about privacy. Rows are records. faer does the dense decompositions and does not appear in
//! any public signature.
//!
//! Every row kernel computes its result **from that row alone, in a fixed order**: the bits of a
//! record's inner product do not depend on which rows stand beside it. The privacy argument of
//! `dpopt-oracle` rests on that, so there is no blocked product here that mixes rows.

mod design;
mod file;
mod row;
mod spectrum;
mod vector;

pub use design::{Design, DesignError};
pub use file::{BlockReader, DesignFile, DesignFileError, FileEntry, FileLayout};
pub use row::Row;
pub use spectrum::{SpectrumError, SymmetricSpectrum, symmetric_spectrum};
pub use vector::{add_scaled, distance, dot, norm, norm_upper};
