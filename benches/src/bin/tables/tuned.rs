//! Private gradient descent on the logistic loss as other tools have it, and the best of a grid of its settings.
//!
//! A loop of its own, in double precision and with Gaussian noise from a seed: it shares no code with the solvers beside it.

use std::fmt;

use dpopt::certify::auc;
use dpopt_benches::census::Failure;
use dpopt_benches::normals::Normals;

const STEPS: [u64; 3] = [10, 30, 100];
const CLIPS: [f64; 3] = [0.1, 0.3, 1.0];
const RATES: [f64; 6] = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0];
const MOMENTA: [f64; 2] = [0.0, 0.9];
/// Runs of each setting.
const TRIES: u64 = 3;
/// Entries that a search reads, about: large tables are searched on fewer settings, the ones with many steps first to go.
const ENTRIES: f64 = 6e10;

/// Sparse rows with labels -1 and 1.
pub(crate) struct Rows {
    pub(crate) rows: Vec<Vec<(u32, f32)>>,
    pub(crate) labels: Vec<f32>,
    pub(crate) dim: usize,
}

impl Rows {
    pub(crate) fn entries(&self) -> f64 {
        self.rows.iter().map(Vec::len).sum::<usize>() as f64
    }

    fn scores(&self, point: &[f64]) -> Vec<f64> {
        let score = |row: &Vec<(u32, f32)>| -> f64 {
            row.iter()
                .map(|&(j, x)| f64::from(x) * point[j as usize])
                .sum()
        };
        self.rows.iter().map(score).collect()
    }
}

/// A setting and its mean AUC.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) steps: u64,
    clip: f64,
    rate: f64,
    momentum: f64,
    pub(crate) auc: f64,
}

impl fmt::Display for Found {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} steps, clip {}, rate {}, momentum {}",
            self.steps, self.clip, self.rate, self.momentum
        )
    }
}

impl Found {
    /// The mean AUC of other runs of this setting.
    pub(crate) fn again(
        &self,
        train: &Rows,
        test: &Rows,
        mu: f64,
        seed: u64,
        runs: u64,
    ) -> Result<f64, Failure> {
        let norms: Vec<f64> = train
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|&(_, x)| f64::from(x).powi(2))
                    .sum::<f64>()
                    .sqrt()
            })
            .collect();
        let mut sum = 0.0;
        for run in 0..runs {
            let point = self.run(train, &norms, mu, seed.wrapping_add(run));
            sum += auc(&test.scores(&point), &test.labels)?;
        }
        Ok(sum / runs as f64)
    }

    /// One run: mu-GDP under replace-one, as the sum moves by at most twice the clip.
    fn run(&self, train: &Rows, norms: &[f64], mu: f64, seed: u64) -> Vec<f64> {
        let mut rng = Normals::new(seed);
        let n = train.labels.len() as f64;
        let noise = 2.0 * self.clip * (self.steps as f64).sqrt() / (n * mu);
        // In the units of clipped gradients, and of the same total length with momentum.
        let rate = self.rate / self.clip * (1.0 - self.momentum);
        let mut point = vec![0.0; train.dim];
        let mut velocity = vec![0.0; train.dim];
        for _ in 0..self.steps {
            let mut gradient = vec![0.0; train.dim];
            let scores = train.scores(&point);
            for (((row, norm), label), score) in
                train.rows.iter().zip(norms).zip(&train.labels).zip(scores)
            {
                let y = f64::from(*label);
                let slope = -y / (1.0 + (y * score).exp());
                let clipped = slope * (self.clip / (slope.abs() * norm)).min(1.0);
                for &(j, x) in row {
                    gradient[j as usize] += clipped * f64::from(x);
                }
            }
            for ((w, v), g) in point.iter_mut().zip(&mut velocity).zip(gradient) {
                let z = rng.normal();
                *v = self.momentum * *v + g / n + noise * z;
                *w -= rate * *v;
            }
        }
        point
    }
}

/// The setting with the largest mean AUC on the test set.
pub(crate) fn search(train: &Rows, test: &Rows, mu: f64, seed: u64) -> Result<Found, Failure> {
    let each = (CLIPS.len() * RATES.len() * MOMENTA.len()) as f64 * TRIES as f64;
    let mut best: Option<Found> = None;
    let mut read = 0.0;
    for steps in STEPS {
        read += each * steps as f64 * train.entries();
        if read > ENTRIES && best.is_some() {
            break;
        }
        for clip in CLIPS {
            for rate in RATES {
                for momentum in MOMENTA {
                    let setting = Found {
                        steps,
                        clip,
                        rate,
                        momentum,
                        auc: 0.0,
                    };
                    let auc = setting.again(train, test, mu, seed, TRIES)?;
                    if best.is_none_or(|best| auc > best.auc) {
                        best = Some(Found { auc, ..setting });
                    }
                }
            }
        }
    }
    best.ok_or_else(|| "no setting".into())
}
