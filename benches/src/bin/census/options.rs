//! What was asked for on the command line.

use dpopt::oracle::Glm;
use dpopt_benches::census::{self, Failure};

/// Radii that the recursive solvers are told. Nobody knows the right one: it is a claim about the population.
const RADII: [f64; 2] = [4.0, 16.0];

/// Options of the command.
pub(crate) struct Options {
    pub(crate) common: census::Options,
    /// Plans only: nothing is run.
    pub(crate) plans: bool,
    /// Runs also what would take hours.
    pub(crate) all: bool,
    pub(crate) radii: Vec<f64>,
    pub(crate) losses: Vec<Glm>,
    /// In how many passes dp-sgd, its correlated kin and noisy-gd are run beside their own plans.
    pub(crate) passes: Vec<u64>,
    /// How often a row is run whose first run is short.
    pub(crate) runs: usize,
}

impl Options {
    /// Reads those of every table and `[--plans] [--all] [--radius R]... [--loss NAME]... [--passes P]... [--runs N]`.
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let (mut plans, mut all) = (false, false);
        let (mut radii, mut losses, mut passes) = (Vec::new(), Vec::new(), Vec::new());
        let mut runs = 3;
        let common = census::Options::read(words, |word, value| {
            match word {
                "--plans" => plans = true,
                "--all" => all = true,
                "--radius" => radii.push(value()?.parse()?),
                "--loss" => losses.push(value()?.parse()?),
                "--runs" => runs = value()?.parse()?,
                "--passes" => passes.push(value()?.parse()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if radii.is_empty() {
            radii = RADII.to_vec();
        }
        if losses.is_empty() {
            losses = vec![Glm::Logistic, Glm::Sigmoid];
        }
        Ok(Self {
            common,
            plans,
            all,
            radii,
            losses,
            passes,
            runs,
        })
    }
}
