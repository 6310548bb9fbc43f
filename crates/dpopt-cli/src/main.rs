//! cli

#[cfg_attr(not(test), allow(dead_code, reason = "called by train"))]
mod report;
#[cfg_attr(not(test), allow(dead_code, reason = "called by train"))]
mod trace;

fn main() {}
