//! Made-up tables: `tables DIR` writes a folder for each recipe, with both parts as CSV and the
//! drafted schema for `cargo xtask measure tables`, and dense rows in two encodings for
//! `benches/peers/tables.py`.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use dpopt::data::tabular::{EncodedTable, Schema, draft_schema_from, read_table_from};
use dpopt_benches::Fallible;

/// Latent classes of tables with categories.
const CLASSES: usize = 6;

/// A made-up table with a label of two values. One part in four is the test set.
struct Recipe {
    name: &'static str,
    records: usize,
    /// Columns of numbers: correlated, and normal or with heavy tails.
    numbers: usize,
    /// Heavy tails: sinh of the normal number, so that ranges are wide.
    heavy: bool,
    /// Columns of categories: drawn by the latent class.
    categories: usize,
    levels: usize,
    /// Share of positives.
    positives: f64,
    /// Standard deviation of the logit that the columns explain.
    strength: f64,
}

const fn numbers(
    name: &'static str,
    records: usize,
    numbers: usize,
    positives: f64,
    heavy: bool,
) -> Recipe {
    Recipe {
        name,
        records,
        numbers,
        heavy,
        categories: 0,
        levels: 0,
        positives,
        strength: 2.0,
    }
}

const fn coded(
    name: &'static str,
    records: usize,
    (categories, levels): (usize, usize),
    numbers: usize,
    positives: f64,
) -> Recipe {
    Recipe {
        name,
        records,
        numbers,
        heavy: false,
        categories,
        levels,
        positives,
        strength: 1.5,
    }
}

/// All of them.
const RECIPES: [Recipe; 14] = [
    numbers("dense-500", 500, 10, 0.4, false),
    numbers("dense-1k", 1_000, 20, 0.4, false),
    numbers("dense-1k-rare", 1_000, 12, 0.1, false),
    numbers("heavy-1k", 1_000, 10, 0.2, true),
    numbers("dense-5k-rare", 5_000, 30, 0.1, false),
    numbers("heavy-5k-rare", 5_000, 15, 0.05, true),
    numbers("dense-50k", 50_000, 25, 0.3, false),
    numbers("heavy-50k-rare", 50_000, 12, 0.02, true),
    coded("coded-1k", 1_000, (8, 6), 0, 0.3),
    coded("mixed-5k", 5_000, (6, 6), 5, 0.2),
    coded("coded-10k-rare", 10_000, (12, 8), 0, 0.1),
    coded("mixed-20k-rare", 20_000, (8, 6), 6, 0.05),
    coded("coded-50k", 50_000, (20, 10), 0, 0.5),
    coded("mixed-500k-rare", 500_000, (6, 6), 4, 0.03),
];

impl Recipe {
    /// The training part and the test part as CSV. The label is the last column.
    fn csv(&self) -> [String; 2] {
        let mut rng = Normals::new(self.name);
        // Numbers are mixtures of half as many factors, and something of their own.
        let factors = self.numbers.div_ceil(2).max(1);
        let mixing: Vec<Vec<f64>> = (0..self.numbers)
            .map(|_| (0..factors).map(|_| rng.normal()).collect())
            .collect();
        // Tables have numbers of every unit.
        let units: Vec<f64> = (0..self.numbers)
            .map(|_| (2.0 * rng.normal()).exp())
            .collect();
        let weights: Vec<f64> = (0..factors).map(|_| rng.normal()).collect();
        // Each column's levels have shares of their own in each latent class.
        let shares: Vec<Vec<Vec<f64>>> = (0..self.categories)
            .map(|_| {
                (0..CLASSES)
                    .map(|_| simplex(self.levels, &mut rng))
                    .collect()
            })
            .collect();
        let effects: Vec<Vec<f64>> = (0..self.categories)
            .map(|_| (0..self.levels).map(|_| 0.5 * rng.normal()).collect())
            .collect();
        let of_class: Vec<f64> = (0..CLASSES).map(|_| rng.normal()).collect();

        let mut lines = Vec::with_capacity(self.records);
        let mut logits = Vec::with_capacity(self.records);
        for _ in 0..self.records {
            let class = (rng.uniform() * CLASSES as f64) as usize;
            let hidden: Vec<f64> = (0..factors).map(|_| rng.normal()).collect();
            let mut line = String::new();
            let mut logit = 0.0;
            for (weight, factor) in weights.iter().zip(&hidden) {
                logit += weight * factor;
            }
            for (mixed, unit) in mixing.iter().zip(&units) {
                let of_factors: f64 = mixed.iter().zip(&hidden).map(|(a, b)| a * b).sum();
                let x = of_factors / (factors as f64).sqrt() + 0.5 * rng.normal();
                let x = if self.heavy { x.sinh() } else { x };
                // Writing to a `String` can't fail.
                let _ = write!(line, "{:.4},", unit * x);
            }
            if self.categories > 0 {
                logit += of_class[class];
            }
            for (shares, effects) in shares.iter().zip(&effects) {
                let level = pick(&shares[class], rng.uniform());
                logit += effects[level];
                let _ = write!(line, "v{level},");
            }
            lines.push(line);
            logits.push(logit);
        }
        let labels = self.labels(&logits, &mut rng);
        let columns = self.numbers + self.categories;
        let names: String = (0..columns).map(|j| format!("c{j},")).collect();
        let mut parts = [format!("{names}label\n"), format!("{names}label\n")];
        for (i, (line, label)) in lines.iter().zip(&labels).enumerate() {
            let part = &mut parts[usize::from(i % 4 == 3)];
            let _ = writeln!(part, "{line}{label}");
        }
        parts
    }

    /// The explained part has one strength in every table, and the threshold sets the share of
    /// positives.
    fn labels(&self, logits: &[f64], rng: &mut Normals) -> Vec<&'static str> {
        let n = self.records as f64;
        let mean = logits.iter().sum::<f64>() / n;
        let spread = (logits.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let noisy: Vec<f64> = logits
            .iter()
            .map(|x| {
                let u = rng.uniform();
                self.strength * (x - mean) / spread + (u / (1.0 - u)).ln()
            })
            .collect();
        let mut sorted = noisy.clone();
        sorted.sort_by(f64::total_cmp);
        let threshold = sorted[((1.0 - self.positives) * n) as usize];

        let label = |score: &f64| if *score >= threshold { "yes" } else { "no" };
        noisy.iter().map(label).collect()
    }
}

/// Shares that add up to 1, uneven.
fn simplex(levels: usize, rng: &mut Normals) -> Vec<f64> {
    let parts: Vec<f64> = (0..levels)
        .map(|_| {
            let x = -rng.uniform().ln();
            x * x
        })
        .collect();
    let sum: f64 = parts.iter().sum();
    parts.iter().map(|x| x / sum).collect()
}

/// The level at which the shares reach u.
fn pick(shares: &[f64], u: f64) -> usize {
    let mut sum = 0.0;
    shares
        .iter()
        .position(|share| {
            sum += share;
            u < sum
        })
        .unwrap_or(shares.len() - 1)
}

/// Standard normal and uniform numbers from splitmix64; not for noise that protects anything.
struct Normals(u64);

impl Normals {
    /// From the FNV-1a hash of a name.
    fn new(name: &str) -> Self {
        Self(name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }

    /// Between 0 and 1, neither of them.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// The draft without a bound on rows, with numbers from -1 to 1 or from 0 to 1.
fn edited(draft: &str, centred: bool) -> String {
    let line = |line: &str| {
        if line.starts_with("row_norm") {
            "row_norm = 1e100\n".to_owned()
        } else if line.starts_with("centred") && !centred {
            String::new()
        } else {
            format!("{line}\n")
        }
    };
    draft.lines().map(line).collect()
}

/// All rows in single precision, zeros too.
fn dense(table: &EncodedTable) -> Vec<f32> {
    let columns = table.design.columns();
    let mut cells = vec![0.0; table.labels.len() * columns];
    for (i, out) in cells.chunks_mut(columns).enumerate() {
        table
            .design
            .row(i)
            .for_each(|column, x| out[column] = x as f32);
    }
    cells
}

fn main() -> Fallible<()> {
    let folder = std::env::args_os().nth(1).ok_or("usage: tables DIR")?;
    let bytes = |all: &[f32]| {
        all.iter()
            .flat_map(|x| x.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    for recipe in RECIPES {
        let folder = PathBuf::from(&folder).join(recipe.name);
        fs::create_dir_all(&folder)?;
        let parts = recipe.csv();
        let draft = draft_schema_from(parts[0].as_bytes(), recipe.name, None)?;
        fs::write(folder.join("schema.toml"), &draft)?;
        for (part, text) in ["train", "test"].into_iter().zip(&parts) {
            fs::write(folder.join(format!("{part}.csv")), text)?;
            for (encoding, centred) in [("from 0 to 1", false), ("centred", true)] {
                let schema = Schema::from_toml(&edited(&draft, centred), "the draft")?;
                let table = read_table_from(text.as_bytes(), "the recipe", &schema)?;
                let rows = folder.join(format!("{part}.{encoding}.val"));
                fs::write(rows, bytes(&dense(&table)))?;
                fs::write(folder.join(format!("{part}.lab")), bytes(&table.labels))?;
            }
        }
    }
    Ok(())
}
