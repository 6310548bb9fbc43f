//! Releases, selections, periods and ledgers through the public door.

mod common;
mod factors;

mod accountants_agree;
mod curator;
mod drawn;
mod float_attack;
mod least_norm;
mod ledger;
mod ledger_crash;
mod ledger_draws;
mod ledger_mechanisms;
mod odometer;
mod prefix;
mod prefix_design;
mod prefix_noise;
mod replay;
mod sampled_slices;
mod selection;
mod ticket;
mod ticket_streams;
mod tuning;
