//! Made-up tables: what is in them, as a recipe and a seed.

use std::fmt::Write as _;

use dpopt_benches::census::seed;
use dpopt_benches::normals::Normals;

/// Latent classes of tables with categories.
const CLASSES: usize = 6;

/// A made-up table with a label of two values. One part in four is the test set.
pub(crate) struct Recipe {
    pub(crate) name: &'static str,
    pub(crate) records: usize,
    /// Columns of numbers: correlated, and normal or with heavy tails.
    numbers: usize,
    /// Heavy tails: sinh of the normal number, so that ranges are wide.
    heavy: bool,
    /// Columns of categories: drawn by the latent class.
    categories: usize,
    levels: usize,
    /// Share of positives.
    pub(crate) positives: f64,
    /// Standard deviation of the logit that the columns explain.
    strength: f64,
}

const fn dense(
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
pub(crate) const RECIPES: [Recipe; 14] = [
    dense("dense-500", 500, 10, 0.4, false),
    dense("dense-1k", 1_000, 20, 0.4, false),
    dense("dense-1k-rare", 1_000, 12, 0.1, false),
    dense("heavy-1k", 1_000, 10, 0.2, true),
    dense("dense-5k-rare", 5_000, 30, 0.1, false),
    dense("heavy-5k-rare", 5_000, 15, 0.05, true),
    dense("dense-50k", 50_000, 25, 0.3, false),
    dense("heavy-50k-rare", 50_000, 12, 0.02, true),
    coded("coded-1k", 1_000, (8, 6), 0, 0.3),
    coded("mixed-5k", 5_000, (6, 6), 5, 0.2),
    coded("coded-10k-rare", 10_000, (12, 8), 0, 0.1),
    coded("mixed-20k-rare", 20_000, (8, 6), 6, 0.05),
    coded("coded-50k", 50_000, (20, 10), 0, 0.5),
    coded("mixed-500k-rare", 500_000, (6, 6), 4, 0.03),
];

impl Recipe {
    pub(crate) fn columns(&self) -> usize {
        self.numbers + self.categories
    }

    /// The training part and the test part as CSV. The label is the last column.
    pub(crate) fn csv(&self) -> [String; 2] {
        let mut rng = Normals::new(seed(self.name));
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
        // The explained part has one strength in every table, and the threshold sets the share of positives.
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

        let names: String = (0..self.columns()).map(|j| format!("c{j},")).collect();
        let mut parts = [format!("{names}label\n"), format!("{names}label\n")];
        for (i, (line, score)) in lines.iter().zip(&noisy).enumerate() {
            let label = if *score >= threshold { "yes" } else { "no" };
            let part = &mut parts[usize::from(i % 4 == 3)];
            let _ = writeln!(part, "{line}{label}");
        }
        parts
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
