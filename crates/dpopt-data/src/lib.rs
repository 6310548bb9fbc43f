//! Files of data, read without a word about what a record holds.
//!
//! [`formats`] reads arrays and sparse rows (NPY, IDX, LIBSVM); [`tabular`] encodes tables (CSV, and
//! Parquet by the feature `parquet`) and arrays by a public schema. What a record holds is never an
//! error, a message or a count. The rows come out as a [`dpopt_linalg::Design`]; nothing here protects
//! them yet.
//!
//! ```
//! use dpopt_data::tabular::{Schema, read_table_from};
//!
//! let schema = Schema::from_toml(r#"
//! format = 1
//! row_norm = 2.0
//! intercept = 1.0
//! [label]
//! column = "y"
//! values = ["no", "yes"]
//! positive = "yes"
//! default = "no"
//! [[column]]
//! name = "x"
//! kind = "number"
//! min = 0.0
//! max = 10.0
//! default = 0.0
//! "#, "the schema")?;
//! let table = read_table_from(&b"x,y\n5,yes\nnine,no\n"[..], "table", &schema)?;
//! assert_eq!(table.labels, [1.0, -1.0]); // "nine" became the default, silently
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

pub mod formats;
pub mod names;
pub mod tabular;
