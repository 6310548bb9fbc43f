//! What was asked for on the command line.

use std::path::PathBuf;

use dpopt::privacy::Adjacency;
use dpopt_benches::census::{self, Failure};

/// Options of the command.
pub(crate) struct Options {
    pub(crate) common: census::Options,
    pub(crate) taus: Vec<f64>,
    /// Hidden units; 0 for a linear score.
    pub(crate) units: Vec<usize>,
    /// The Goldstein radius.
    pub(crate) radius: f64,
    /// Most steps, where they were given.
    pub(crate) max_steps: Option<u64>,
    /// Directions of the solvers from values alone.
    pub(crate) directions: Option<u64>,
    pub(crate) relation: Adjacency,
    /// DP-SGD also over the grid of the peers.
    pub(crate) tuned: bool,
    /// A Python interpreter and the script that runs the peers.
    pub(crate) peers: Option<(PathBuf, PathBuf)>,
    /// In place of the quantiles a loss that is a program.
    pub(crate) program: Option<String>,
}

/// What no program reads.
const UNREAD: [&str; 7] = [
    "--json",
    "--radius",
    "--tuned",
    "--tau",
    "--hidden",
    "--directions",
    "--peers",
];
/// Nor the costs.
const COST_UNREAD: [&str; 2] = ["--only", "--threads"];

impl Options {
    /// Reads those of every table and `[--tau T]... [--hidden K]... [--radius R] [--max-steps T] [--directions M] [--add-remove] [--tuned]
    /// [--peers PYTHON SCRIPT] [--program cost|knots]`. Options that a program would not read are refused.
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let (mut taus, mut units, mut radius, mut max_steps) = (Vec::new(), Vec::new(), 3.0, None);
        let (mut directions, mut relation) = (None, Adjacency::ReplaceOne);
        let mut tuned = false;
        let (mut peers, mut program) = (None, None);
        let common = census::Options::read(words, |word, value| {
            match word {
                "--tau" => taus.push(value()?.parse()?),
                "--hidden" => units.push(value()?.parse()?),
                "--radius" => radius = value()?.parse()?,
                "--max-steps" => max_steps = Some(value()?.parse()?),
                "--directions" => directions = Some(value()?.parse()?),
                "--add-remove" => relation = Adjacency::AddRemove,
                "--tuned" => tuned = true,
                "--peers" => peers = Some((value()?.into(), value()?.into())),
                "--program" => program = Some(value()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        if let Some(program) = program.as_deref() {
            let unread = |word: &str| {
                UNREAD.contains(&word) || program == "cost" && COST_UNREAD.contains(&word)
            };
            if let Some(word) = words.iter().find(|word| unread(word)) {
                return Err(format!("`--program {program}` does not read `{word}`").into());
            }
        }
        let quick = common.quick;
        if taus.is_empty() {
            taus = if quick {
                vec![0.5]
            } else {
                vec![0.1, 0.5, 0.9]
            };
        }
        if units.is_empty() {
            units = if quick { vec![0, 16] } else { vec![0, 16, 64] };
        }
        Ok(Self {
            common,
            taus,
            units,
            radius,
            max_steps,
            directions,
            relation,
            tuned,
            peers,
            program,
        })
    }
}
