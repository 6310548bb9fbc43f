//! The native half of the Python package `dpopt`: events and accountants, tables and their training.
//!
//! It has no logic of its own: what is public is checked and planned by the crates behind `dpopt`, and records go from an array straight
//! into a [`dpopt::oracle::PrivateData`]. Python has no way back to them.

mod accounting;
mod certify;
mod epochs;
mod errors;
mod granted;
mod groups;
mod schema;
mod steps;
mod table;
mod train;

use pyo3::prelude::*;

#[pymodule]
mod _dpopt {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::accounting::{
        PyEvent, calibrate_noise, calibrate_steps, delta, epsilon, trade_off, weak,
    };
    #[pymodule_export]
    use super::certify::certify;
    #[pymodule_export]
    use super::groups::{plan_groups, train_groups};
    #[pymodule_export]
    use super::schema::{PySchema, check_file, check_frame, table_of_file, table_of_frame};
    #[pymodule_export]
    use super::steps::Steps;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::train::{Ledger, losses, outputs, plan, solvers, train};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
