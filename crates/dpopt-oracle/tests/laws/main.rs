//! The laws of contributions, for every loss and every query.
//!
//! What a record adds to a sum is an integer vector. It has to be a function of that record and of public
//! values, and its norm at most the radius. Here it is taken alone, as integers, and the sum over any company
//! (permuted, repeated, with rows before and between, of lengths around every block, on several threads, in a
//! Poisson sample) has to be the sum of those integers, exactly. Norms are compared in 128-bit integers.

mod displacements;
mod engine;
mod framed;
mod losses;
mod records;
mod twins;
