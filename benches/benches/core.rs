//! core
fn main() {}
