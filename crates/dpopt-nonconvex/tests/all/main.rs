//! Plans and walks of all solvers, from outside.

mod common;

mod adaptive_batch;
mod adaptive_gd;
mod auto;
mod bad_input;
mod baselines;
mod batches;
mod bounds;
mod docs;
mod dp_mf;
mod dp_mf_sampled;
mod envelope;
mod errata;
mod goldstein;
mod jl;
mod kl_attacks;
mod kl_spider;
mod matrix;
mod order;
mod planner;
mod proximal;
mod refusals;
mod sampled;
mod score_units;
mod solver;
mod sosp;
mod tree_spider;
mod units;
mod values;
mod variants;
mod walks;
mod withheld;
