//! What was asked for on the command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::Failure;

/// Most steps: plans of as many as the bounds ask for (70,000 at epsilon 1) take hours on all records.
const STEPS: u64 = 2_000;

/// Options of the command.
pub(crate) struct Options {
    /// Folder with the two files.
    pub(crate) folder: PathBuf,
    /// The public schema.
    pub(crate) schema: PathBuf,
    /// The first 20,000 records, the median, epsilon 1 and 16 units only.
    pub(crate) quick: bool,
    pub(crate) threads: NonZeroUsize,
    pub(crate) taus: Vec<f64>,
    pub(crate) epsilons: Vec<f64>,
    /// Hidden units.
    pub(crate) units: Vec<usize>,
    /// The Goldstein radius.
    pub(crate) radius: f64,
    /// Most steps.
    pub(crate) max_steps: u64,
    /// Names of solvers; all without any.
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// Reads `DIR SCHEMA [--quick] [--threads N] [--tau T]... [--epsilon E]... [--hidden K]... [--radius R] [--max-steps T] [--only SOLVER]...
    /// [--json FILE]`.
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let mut places = Vec::new();
        let mut options = Self {
            folder: PathBuf::new(),
            schema: PathBuf::new(),
            quick: false,
            threads: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            taus: Vec::new(),
            epsilons: Vec::new(),
            units: Vec::new(),
            radius: 3.0,
            max_steps: STEPS,
            only: Vec::new(),
            json: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--threads" => options.threads = value()?.parse()?,
                "--tau" => options.taus.push(value()?.parse()?),
                "--epsilon" => options.epsilons.push(value()?.parse()?),
                "--hidden" => options.units.push(value()?.parse()?),
                "--radius" => options.radius = value()?.parse()?,
                "--max-steps" => options.max_steps = value()?.parse()?,
                "--only" => options.only.push(value()?.clone()),
                "--json" => options.json = Some(value()?.into()),
                other if other.starts_with("--") => {
                    return Err(format!("no option `{other}`").into());
                }
                place => places.push(place.to_owned()),
            }
        }
        let [folder, schema] = places.as_slice() else {
            return Err(
                "a folder with train.csv.gz and test.csv.gz, and a schema are needed".into(),
            );
        };
        (options.folder, options.schema) = (folder.into(), schema.into());
        let quick = options.quick;
        let or = |given: &mut Vec<f64>, few: &[f64], all: &[f64]| {
            if given.is_empty() {
                *given = if quick { few } else { all }.to_vec();
            }
        };
        or(&mut options.taus, &[0.5], &[0.1, 0.5, 0.9]);
        or(&mut options.epsilons, &[1.0], &[0.5, 1.0, 3.0]);
        if options.units.is_empty() {
            options.units = if quick { vec![16] } else { vec![16, 64] };
        }
        Ok(options)
    }
}
