//! Rows in a file, from outside.

mod row_file;
mod rows_in_a_file;
