//! CSV tables encoded by a public schema.
//!
//! Preprocessing is where private pipelines usually leak: a range, a category list, a scale or a
//! row norm that is read off the records is an unpaid release. Here all of them come from a
//! [`Schema`], which is public, and a line of the file becomes one row by a function of that line
//! and the schema alone. Hence one changed line changes one row, and no row is longer than
//! [`Schema::row_norm`].
//!
//! Nothing in a record is an error: whatever the schema does not foresee becomes the schema's
//! default, silently, because an abort is an output too. What doesn't depend on records (a missing
//! file, a header, the schema itself) is a [`TabularError`]. The rules and the argument are in
//! `docs/tables.md`.
//!
//! [`check()`] and [`draft_schema`] are the exceptions: they are **not private**, they report what
//! the records hold, and are meant for public or synthetic data.

mod arrays;
mod check;
mod checks;
mod column;
mod convert;
mod date;
mod draft;
mod encode;
mod error;
mod frame;
mod groups;
mod hash;
mod header;
mod line;
#[cfg(feature = "parquet")]
mod parquet;
mod raw;
mod reader;
mod schema;
mod seen;
mod typed;
mod value;
mod witness;
mod write;
#[cfg(feature = "parquet")]
mod zone;

pub use crate::formats::MAX_LINE_BYTES;
pub use arrays::{ArrayFiles, ArrayReport};
pub use check::{CheckReport, Problem, check, check_from};
pub use column::{
    ArrayColumns, Category, Classes, Column, ColumnKind, Hashed, Label, LabelKind, LabelRange,
    Number, Several, Share, Transform,
};
#[cfg(feature = "parquet")]
pub use convert::convert_parquet;
pub use convert::{convert_table, convert_table_from, read_rows, schema_of_rows};
pub use date::text as date_of_day;
pub use draft::{draft_schema, draft_schema_from, draft_warnings};
pub use encode::Encoder;
pub use error::{GroupProblem, SchemaProblem, TabularError, TypeProblem, ten_of};
pub use frame::{Values, check_frame, encode_frame};
pub use groups::{Groups, read_grouped, read_grouped_from};
pub use header::Layout;
pub use line::Fields;
#[cfg(feature = "parquet")]
pub use parquet::{check_parquet, draft_parquet, read_parquet, read_parquet_features};
pub use reader::{
    EncodedTable, read_features, read_features_from, read_table, read_table_from, visit_features,
    visit_features_from,
};
pub use schema::Schema;
pub use value::ValueType;
pub use witness::ProblemKind;
