//! Tables, schemas and formats through the public door.

mod formats_arrays;
mod formats_libsvm;
mod support;
mod tabular_arrays;
mod tabular_convert;
mod tabular_drafts;
mod tabular_editors;
mod tabular_frame;
mod tabular_kinds;
mod tabular_lines;
mod tabular_numbers;
mod tabular_parquet;
mod tabular_schema;
mod tabular_several;
mod tabular_table;
