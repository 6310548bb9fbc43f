//! What was asked for on the command line.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use dpopt::oracle::Glm;

use crate::Failure;

/// Radii that the recursive solvers are told. Nobody knows the right one: it is a claim about the population.
const RADII: [f64; 2] = [4.0, 16.0];

/// Options of the command.
pub(crate) struct Options {
    /// Folder with the two files.
    pub(crate) folder: PathBuf,
    /// The public schema.
    pub(crate) schema: PathBuf,
    /// The first 20,000 records and epsilon 1 only.
    pub(crate) quick: bool,
    /// Plans only: nothing is run.
    pub(crate) plans: bool,
    /// Runs also what would take hours.
    pub(crate) all: bool,
    pub(crate) threads: NonZeroUsize,
    pub(crate) radii: Vec<f64>,
    pub(crate) losses: Vec<Glm>,
    pub(crate) epsilons: Vec<f64>,
    /// Names of solvers; all without any.
    pub(crate) only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
}

impl Options {
    /// Reads `DIR SCHEMA [--quick] [--plans] [--all] [--threads N] [--radius R]... [--loss NAME]... [--epsilon E]... [--only SOLVER]...
    /// [--json FILE]`.
    pub(crate) fn read(words: &[String]) -> Result<Self, Failure> {
        let mut places = Vec::new();
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let mut options = Self {
            folder: PathBuf::new(),
            schema: PathBuf::new(),
            quick: false,
            plans: false,
            all: false,
            threads,
            radii: Vec::new(),
            losses: Vec::new(),
            epsilons: Vec::new(),
            only: Vec::new(),
            json: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--plans" => options.plans = true,
                "--all" => options.all = true,
                "--threads" => options.threads = value()?.parse()?,
                "--radius" => options.radii.push(value()?.parse()?),
                "--loss" => options.losses.push(value()?.parse()?),
                "--epsilon" => options.epsilons.push(value()?.parse()?),
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
        if options.radii.is_empty() {
            options.radii = RADII.to_vec();
        }
        if options.losses.is_empty() {
            options.losses = vec![Glm::Logistic, Glm::Sigmoid];
        }
        if options.epsilons.is_empty() {
            options.epsilons = if options.quick {
                vec![1.0]
            } else {
                vec![0.5, 1.0, 3.0]
            };
        }
        Ok(options)
    }
}
