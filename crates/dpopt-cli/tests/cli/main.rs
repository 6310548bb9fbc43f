//! The built command, run as a user runs it.

mod account;
mod bad_input;
mod calibrate;
mod certificates;
mod certify;
mod classes;
mod evaluation;
mod export;
mod formats;
mod hostile;
mod interrupt;
mod ledger;
mod lost;
mod objectives;
mod paperwork;
mod planning;
mod quadratic;
mod quantiles;
mod records;
mod rows;
mod second_order;
mod solvers;
mod statements;
mod support;
mod tables;
mod train;
