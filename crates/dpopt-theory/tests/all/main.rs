//! Problems, probes, rates and runs on problems whose constants are known, from outside.

mod attack;

mod adaptive;
mod adaptive_batch;
mod episodes;
mod errata;
mod errata_sosp;
mod floors;
mod hessians;
mod kl_spider;
mod minimax;
mod pages;
mod perturbed;
mod premises;
mod projection;
mod proximal;
mod saddle_certificates;
mod saddle_pass;
mod saddle_problems;
mod saddle_runs;
mod second_order;
mod verify;
mod weighted;
mod windows;
mod zoo;
mod zoo_kl;
