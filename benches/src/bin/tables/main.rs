//! Private models of made-up tables from drafted schemas, beside tuned private descent: what `cargo xtask bench --tables` runs.
//!
//! For each recipe and budget the mean AUC on a public test set of
//!
//! - **auto**: what `dpopt schema` drafts and `dpopt train` does with it: `noisy-gd` on the drafted rows, nothing tuned;
//! - **plain**: the same solver on the same rows with numbers from 0 to 1 and the row norm that no row exceeds;
//! - **tuned**: private gradient descent as other tools have it (per-record clip, Gaussian noise, momentum or none) with steps, clip,
//!   rate, momentum and encoding picked by the AUC on the test set, which costs it nothing here; then run again.
//!
//! With `--chosen` instead: **auto**, and a private choice among four row norms within the same budget, as `dpopt tune` makes it. With
//! `--peers` instead: **auto** and **tuned** under add-remove, which Opacus accounts for, beside Opacus, diffprivlib
//! and the fit without privacy.
//!
//! All on all records, delta 1e-5, Gaussian DP, replace-one where nothing else is said. Options:
//! `[--quick] [--chosen | --peers PYTHON SCRIPT] [--only RECIPE]... [--epsilon E]... [--json FILE]`.
#![allow(clippy::print_stdout, reason = "the table is the product")]
#![allow(clippy::print_stderr, reason = "progress is for the terminal")]

mod chosen;
mod peers;
mod recipes;
mod tuned;

use std::path::PathBuf;

use dpopt::certify::auc;
use dpopt::data::tabular::{EncodedTable, Schema, draft_schema_from, read_table_from};
use dpopt::nonconvex::{
    Budget, ExtraFacts, GlmRun, Limits, NoObserver, PublicFacts, SOLVERS, Solver,
};
use dpopt::oracle::{Glm, PrivateData, PublicData};
use dpopt::privacy::{Adjacency, ClipNorm, Curator, Delta, Epsilon};
use dpopt_benches::census::{Failure, entries, seed};
use serde_json::{Value, json};

use recipes::{RECIPES, Recipe};
use tuned::Rows;

const DELTA: f64 = 1e-5;
/// Entries that the runs of a cell read, about: large tables are run fewer times.
const ENTRIES: f64 = 4e8;
/// What `auto` picks for a convex loss.
const AUTO: &str = "noisy-gd";
/// A row norm that shortens no row.
const LONGEST: f64 = 1e100;

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = Options::read(&words)?;
    if options.chosen {
        return compare_chosen(&options);
    }
    if let Some(peers) = &options.peers {
        return compare_peers(&options, peers);
    }
    println!("| table | records | columns | positives | epsilon | auto | plain | tuned | of |");
    println!("| - | - | - | - | - | - | - | - | - |");
    let mut all = Vec::new();
    for recipe in RECIPES.iter().filter(|recipe| options.wants(recipe)) {
        let table = Table::make(recipe)?;
        for &epsilon in &options.epsilons {
            let row = table.row(epsilon)?;
            println!("{}", in_words(&row));
            all.push(row);
        }
    }
    println!("{}", means(&all));
    if let Some(file) = &options.json {
        std::fs::write(file, format!("{:#}\n", Value::Array(all)))?;
    }
    Ok(())
}

/// What was asked for.
struct Options {
    quick: bool,
    chosen: bool,
    /// An interpreter and the script that it runs.
    peers: Option<[String; 2]>,
    only: Vec<String>,
    epsilons: Vec<f64>,
    json: Option<PathBuf>,
}

impl Options {
    fn read(words: &[String]) -> Result<Self, Failure> {
        let mut options = Self {
            quick: false,
            chosen: false,
            peers: None,
            only: Vec::new(),
            epsilons: Vec::new(),
            json: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--chosen" => options.chosen = true,
                "--peers" => options.peers = Some([value()?.to_owned(), value()?.to_owned()]),
                "--only" => options.only.push(value()?.to_owned()),
                "--epsilon" => options.epsilons.push(value()?.parse()?),
                "--json" => options.json = Some(value()?.into()),
                other => return Err(format!("no option `{other}`").into()),
            }
        }
        if options.epsilons.is_empty() {
            options.epsilons = vec![0.5, 1.0, 3.0, 8.0];
        }
        Ok(options)
    }

    fn wants(&self, recipe: &Recipe) -> bool {
        let named = self.only.is_empty() || self.only.iter().any(|name| name == recipe.name);
        named && (!self.quick || recipe.records <= 5_000)
    }
}

/// A private choice of the row norm beside `auto`.
fn compare_chosen(options: &Options) -> Result<(), Failure> {
    println!(
        "| table | records | epsilon | auto | chosen | epsilon of a run | chosen: 1, 2, 1/2, 1/4 |"
    );
    println!("| - | - | - | - | - | - | - |");
    let (mut sums, mut rows) = ([0.0; 2], 0.0_f64);
    for recipe in RECIPES.iter().filter(|recipe| options.wants(recipe)) {
        let table = Table::make(recipe)?;
        for &epsilon in &options.epsilons {
            let budget = Budget {
                epsilon: Epsilon::new(epsilon)?,
                delta: Delta::new(DELTA)?,
            };
            let (auto, _) = table.ours(&table.drafted, &budget, Adjacency::ReplaceOne)?;
            let found = chosen::chosen(recipe, &budget)?;
            println!(
                "| {} | {} | {epsilon:?} | {auto:.3} | {:.3} | {:.2} | {:?} of {} |",
                recipe.name,
                table.drafted.train.labels.len(),
                found.auc,
                found.epsilon,
                found.chosen,
                found.tunings
            );
            rows += 1.0;
            sums = [sums[0] + auto, sums[1] + found.auc];
        }
    }
    let [auto, chosen] = sums.map(|sum| sum / rows.max(1.0));
    println!("| mean of {rows} | | | {auto:.4} | {chosen:.4} | | |");
    Ok(())
}

/// Other tools beside `auto` and tuned descent.
fn compare_peers(options: &Options, peers: &[String; 2]) -> Result<(), Failure> {
    println!(
        "| table | records | columns | positives | epsilon | auto | tuned | Opacus | auto, replace-one | diffprivlib | no privacy |"
    );
    println!("| - | - | - | - | - | - | - | - | - | - | - |");
    let mut all: Vec<Value> = Vec::new();
    for recipe in RECIPES.iter().filter(|recipe| options.wants(recipe)) {
        let table = Table::make(recipe)?;
        let theirs = peers::rows(peers, &table.encodings()?, &options.epsilons)?;
        for &epsilon in &options.epsilons {
            let row = table.beside(epsilon, &theirs)?;
            println!("{}", with_peers(&row));
            all.push(row);
            // What is there stays, where a long run is cut off.
            if let Some(file) = &options.json {
                std::fs::write(file, format!("{:#}\n", Value::Array(all.clone())))?;
            }
        }
    }
    println!("{}", means_with_peers(&all));
    Ok(())
}

/// A recipe's records, encoded in two ways.
struct Table {
    recipe: &'static Recipe,
    drafted: Encoded,
    plain: Encoded,
}

/// Training part and test part under one schema.
struct Encoded {
    train: EncodedTable,
    test: EncodedTable,
}

impl Encoded {
    fn new(schema: &str, parts: &[String; 2]) -> Result<Self, Failure> {
        let schema = Schema::from_toml(schema, "the draft")?;
        let [train, test] = parts
            .each_ref()
            .map(|text| read_table_from(text.as_bytes(), "the recipe", &schema));
        Ok(Self {
            train: train?,
            test: test?,
        })
    }

    /// The rows as others would feed them: not shortened to the row norm.
    fn rows(&self) -> (Rows, Rows) {
        let of = |table: &EncodedTable| Rows {
            rows: (0..table.labels.len())
                .map(|i| entries(&table.design, i))
                .collect(),
            labels: table.labels.clone(),
            dim: table.design.columns(),
        };
        (of(&self.train), of(&self.test))
    }
}

impl Table {
    fn make(recipe: &'static Recipe) -> Result<Self, Failure> {
        let parts = recipe.csv();
        let draft = draft_schema_from(parts[0].as_bytes(), recipe.name, None)?;
        // No row is longer than the root of the number of columns and the intercept.
        let longest = ((recipe.columns() + 1) as f64).sqrt();
        Ok(Self {
            recipe,
            drafted: Encoded::new(&draft, &parts)?,
            plain: Encoded::new(&edited(&draft, false, longest), &parts)?,
        })
    }

    fn row(&self, epsilon: f64) -> Result<Value, Failure> {
        let budget = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: Delta::new(DELTA)?,
        };
        let mu = budget.mu()?.get();
        let adjacency = Adjacency::ReplaceOne;
        let auto = self.ours(&self.drafted, &budget, adjacency)?;
        let plain = self.ours(&self.plain, &budget, adjacency)?;
        let (tuned, settings) = self.tuned(mu)?;
        eprintln!("{} {epsilon}: {settings}", self.recipe.name);
        Ok(json!({
            "table": self.recipe.name,
            "records": self.drafted.train.labels.len(),
            "columns": self.recipe.columns(),
            "positives": self.recipe.positives,
            "epsilon": epsilon,
            "auto": auto.0,
            "plain": plain.0,
            "tuned": tuned,
            "tuned_to": settings,
            "runs": auto.1,
        }))
    }

    /// Under add-remove, as Opacus accounts, and for diffprivlib, which has replace-one, under that too.
    fn beside(&self, epsilon: f64, theirs: &[Value]) -> Result<Value, Failure> {
        let budget = Budget {
            epsilon: Epsilon::new(epsilon)?,
            delta: Delta::new(DELTA)?,
        };
        let (auto, runs) = self.ours(&self.drafted, &budget, Adjacency::AddRemove)?;
        let (replaced, _) = self.ours(&self.drafted, &budget, Adjacency::ReplaceOne)?;
        // A sum moves half as far as where a record is replaced.
        let (tuned, settings) = self.tuned(2.0 * budget.mu()?.get())?;
        let mut row = json!({
            "table": self.recipe.name,
            "records": self.drafted.train.labels.len(),
            "columns": self.recipe.columns(),
            "positives": self.recipe.positives,
            "epsilon": epsilon,
            "auto": auto,
            "runs": runs,
            "auto_replace_one": replaced,
            "tuned": tuned,
            "tuned_to": settings,
        });
        let of = |found: &&Value| found["epsilon"].as_f64() == Some(epsilon);
        for found in theirs.iter().filter(of) {
            let tool = found["tool"].as_str().ok_or("a row without `tool`")?;
            row[tool] = found["auc"].clone();
            row[format!("{tool}_settings")] = found["settings"].clone();
        }
        Ok(row)
    }

    /// What other tools are given: numbers from 0 to 1, and from -1 to 1.
    fn encodings(&self) -> Result<Vec<peers::Parts>, Failure> {
        let parts = self.recipe.csv();
        let draft = draft_schema_from(parts[0].as_bytes(), self.recipe.name, None)?;
        let named = [("from 0 to 1", false), ("centred", true)];
        let encode = |(name, centred)| -> Result<peers::Parts, Failure> {
            let (train, test) = Encoded::new(&edited(&draft, centred, LONGEST), &parts)?.rows();
            Ok((name, [train, test]))
        };
        named.into_iter().map(encode).collect()
    }

    /// Mean AUC of runs of ours, and how many there were.
    fn ours(
        &self,
        of: &Encoded,
        budget: &Budget,
        adjacency: Adjacency,
    ) -> Result<(f64, u64), Failure> {
        let declared = of.train.labels.len() as u64;
        let private = PrivateData::made_up(
            of.train.design.clone(),
            of.train.labels.clone(),
            ClipNorm::new(of.train.row_norm)?,
            adjacency,
            (!adjacency.record_count_is_public()).then_some(declared),
        )?
        .with_label_bound(ClipNorm::new(1.0)?);
        let loss = Glm::Logistic;
        let constants = loss.constants_within(private.row_norm(), private.label_bound());
        let facts = PublicFacts::glm(
            private.public_records(),
            private.dim(),
            adjacency,
            private.row_norm(),
            constants,
        )?;
        let named = |solver: &&&Solver| solver.name == AUTO;
        let solver = SOLVERS.iter().find(named).ok_or("no such solver")?;
        let limits = Limits::steps(1_000_000);
        let plan = solver.plan(&facts, &ExtraFacts::default(), budget, &limits)?;
        let test = PublicData::new(of.test.design.clone(), of.test.labels.clone())?;
        let runs = repeats(plan.gradients() * facts.dim as f64, 100);
        let mut sum = 0.0;
        for repeat in 0..runs {
            let seed = seed(self.recipe.name)
                .wrapping_add(repeat)
                .wrapping_add(budget.epsilon.get().to_bits());
            let on = GlmRun::new(&private, loss, Curator::simulated(adjacency, seed));
            let (outcome, _) = on.run(&*plan, &mut NoObserver)?;
            sum += auc(&test.scores(&outcome.point), test.labels())?;
        }
        Ok((sum / runs as f64, runs))
    }

    /// Mean AUC of descent of so much GDP under replace-one, tuned, and what it was tuned to.
    fn tuned(&self, mu: f64) -> Result<(f64, String), Failure> {
        let mut best: Option<(f64, String, tuned::Found)> = None;
        let parts = self.recipe.csv();
        let draft = draft_schema_from(parts[0].as_bytes(), self.recipe.name, None)?;
        for centred in [false, true] {
            let encoded = Encoded::new(&edited(&draft, centred, LONGEST), &parts)?;
            let (train, test) = encoded.rows();
            let found = tuned::search(&train, &test, mu, seed(self.recipe.name))?;
            let words = format!("{found}{}", if centred { ", centred" } else { "" });
            if best.as_ref().is_none_or(|best| found.auc > best.0) {
                best = Some((found.auc, words, found));
            }
        }
        let (_, words, found) = best.ok_or("no setting")?;
        let encoded = Encoded::new(&edited(&draft, words.ends_with("centred"), LONGEST), &parts)?;
        let (train, test) = encoded.rows();
        let cost = train.entries() * found.steps as f64;
        let again = seed(self.recipe.name).wrapping_add(1 << 40);
        let auc = found.again(&train, &test, mu, again, repeats(cost, 30))?;
        Ok((auc, words))
    }
}

/// How often a run that reads so many entries is repeated.
fn repeats(entries: f64, most: u64) -> u64 {
    ((ENTRIES / entries.max(1.0)) as u64).clamp(3, most)
}

/// A draft with numbers from 0 to 1 or from -1 to 1, and another row norm.
fn edited(draft: &str, centred: bool, row_norm: f64) -> String {
    let line = |line: &str| {
        if line.starts_with("row_norm") {
            format!("row_norm = {row_norm:?}\n")
        } else if line.starts_with("centred") && !centred {
            String::new()
        } else {
            format!("{line}\n")
        }
    };
    draft.lines().map(line).collect()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or(f64::NAN)
}

fn in_words(row: &Value) -> String {
    let name = row["table"].as_str().unwrap_or_default();
    let settings = row["tuned_to"].as_str().unwrap_or_default();
    format!(
        "| {name} | {} | {} | {} | {} | {:.3} | {:.3} | {:.3} | {settings} |",
        row["records"],
        row["columns"],
        row["positives"],
        row["epsilon"],
        number(row, "auto"),
        number(row, "plain"),
        number(row, "tuned"),
    )
}

/// The last line: means, and how far auto is behind at most.
fn means(rows: &[Value]) -> String {
    let mean =
        |key: &str| rows.iter().map(|row| number(row, key)).sum::<f64>() / rows.len().max(1) as f64;
    let behind = rows
        .iter()
        .map(|row| number(row, "tuned") - number(row, "auto"))
        .fold(f64::NEG_INFINITY, f64::max);
    format!(
        "| mean of {} | | | | | {:.4} | {:.4} | {:.4} | auto is behind by {behind:.3} at most |",
        rows.len(),
        mean("auto"),
        mean("plain"),
        mean("tuned"),
    )
}

fn with_peers(row: &Value) -> String {
    let name = row["table"].as_str().unwrap_or_default();
    format!(
        "| {name} | {} | {} | {} | {} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
        row["records"],
        row["columns"],
        row["positives"],
        row["epsilon"],
        number(row, "auto"),
        number(row, "tuned"),
        number(row, "opacus"),
        number(row, "auto_replace_one"),
        number(row, "diffprivlib"),
        number(row, "none"),
    )
}

/// The last lines: means, and how far auto is behind the best of the others at the same adjacency.
fn means_with_peers(rows: &[Value]) -> String {
    let count = rows.len().max(1) as f64;
    let mean = |key: &str| rows.iter().map(|row| number(row, key)).sum::<f64>() / count;
    let behind = |row: &Value| {
        let others = number(row, "tuned").max(number(row, "opacus")) - number(row, "auto");
        others.max(number(row, "diffprivlib") - number(row, "auto_replace_one"))
    };
    let most = rows.iter().map(behind).fold(f64::NEG_INFINITY, f64::max);
    format!(
        "| mean of {} | | | | | {:.4} | {:.4} | {:.4} | {:.4} | {:.4} | {:.4} |\n\nauto is behind the best of the others by {:.4} in the mean and \
         by {most:.3} at most",
        rows.len(),
        mean("auto"),
        mean("tuned"),
        mean("opacus"),
        mean("auto_replace_one"),
        mean("diffprivlib"),
        mean("none"),
        rows.iter().map(behind).sum::<f64>() / count,
    )
}
