//! How time and memory of a step grow with records, columns, steps and threads, and a model of it that predicts other machines.

use serde_json::{Value, json};

use super::limits::{self, Rates};
use super::lines::numbers;
use super::measure::How;
use super::rounds::median;
use super::sweeps::{SWEEPS, Sweep};

/// Seconds spent on a point, after three rounds.
const ROOM: f64 = 1.0;
/// Free disk that a file leaves.
const SPARE: f64 = 2e9;

/// Measures the points of a sweep. What can't be measured is told.
pub(crate) fn sweep(sweep: &Sweep, how: &How, rates: &Rates, room_on_disk: Option<f64>) -> Value {
    let points = if how.quick {
        &sweep.points[..sweep.quick]
    } else {
        sweep.points
    };
    let points: Vec<Value> = points
        .iter()
        .map(|(words, of)| {
            let words: Vec<&str> = words.split(' ').collect();
            let found = point(&words, how, rates, room_on_disk);
            let _ = std::fs::remove_file(how.file());
            let mut found = found.unwrap_or_else(|why| json!({"skipped": why}));
            found["words"] = json!(words.join(" "));
            found["of"] = json!(of);
            found
        })
        .collect();
    json!({"id": sweep.id, "threads": how.threads, "quick": how.quick, "points": points})
}

fn point(words: &[&str], how: &How, rates: &Rates, room: Option<f64>) -> Result<Value, String> {
    let n = numbers(words);
    let in_file = words[0] == "file";
    let bytes = 4.0 * n[0] * n[1];
    let needed = match words[0] {
        "file" => 12.0 * n[0],
        "one-hot" => 20.0 * n[0] * n[2] + 100.0 * n[1],
        _ => 2.5 * bytes + 100.0 * n[1],
    };
    if let Some(why) = limits::too_large(needed, limits::available()) {
        return Err(why);
    }
    if let Some(room) = room.filter(|room| in_file && bytes + SPARE > *room) {
        let (bytes, room) = (1e-9 * bytes, 1e-9 * room);
        return Err(format!(
            "the file has {bytes:.1} GB, and {room:.1} GB of disk are free"
        ));
    }
    let mut ours = how.ours(words)?;
    ours.ask("time step")?;
    let mut seconds = Vec::new();
    while seconds.len() < 3 || (seconds.iter().sum::<f64>() < ROOM && seconds.len() < 101) {
        let found = ours.ask("time step")?["seconds"].as_f64();
        seconds.push(found.ok_or("no seconds")?);
    }
    let memory = ours.ask("memory")?["peak"].clone();
    Ok(
        json!({"seconds": median(&seconds), "memory": memory, "features": features(words, how.threads, rates)}),
    )
}

/// What the model knows of a point, in seconds but for the last: the rows read or multiplied, whichever takes longer at the machine's rates; the words of
/// noise; a share of each record; a constant for each step, and one for each further thread.
fn features(words: &[&str], threads: usize, rates: &Rates) -> Option<[f64; 5]> {
    let n = numbers(words);
    let (records, columns) = (n[0], n[1]);
    let entries = if words[0] == "one-hot" {
        records * n[2]
    } else {
        records * columns
    };
    let steps = if words[0] == "steps" { n[2] } else { 1.0 };
    let t = threads as f64;
    let read = 4.0 * entries / rates.get("read")?;
    let multiplied = 2.0 * entries / rates.get("doubles")?;
    let noise = 8.0 * columns / rates.get("chacha")?;
    Some(
        [
            read.max(multiplied),
            noise,
            1e-9 * records / t,
            1e-6,
            1e-6 * (t - 1.0),
        ]
        .map(|x| steps * x),
    )
}

/// Weights of the features.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Model {
    pub(crate) weights: [f64; 5],
    /// Median and largest relative error on the points.
    pub(crate) errors: [f64; 2],
}

impl Model {
    fn seconds(&self, features: &[f64; 5]) -> f64 {
        self.weights.iter().zip(features).map(|(w, f)| w * f).sum()
    }

    /// Fits non-negative weights to (features, seconds), relative errors least in squares.
    pub(crate) fn fit(points: &[([f64; 5], f64)]) -> Option<Self> {
        let mut used = [true; 5];
        loop {
            let weights = solve(points, used)?;
            let worst = (0..5).min_by(|a, b| weights[*a].total_cmp(&weights[*b]))?;
            if weights[worst] >= 0.0 {
                let mut model = Self {
                    weights,
                    errors: [0.0; 2],
                };
                let error = |(f, s): &([f64; 5], f64)| (model.seconds(f) / s - 1.0).abs();
                let errors: Vec<f64> = points.iter().map(error).collect();
                model.errors = [median(&errors), errors.iter().copied().fold(0.0, f64::max)];
                return Some(model);
            }
            used[worst] = false;
        }
    }
}

/// Least squares by the normal equations; weights that are not used are 0.
fn solve(points: &[([f64; 5], f64)], used: [bool; 5]) -> Option<[f64; 5]> {
    let mut a = [[0.0; 6]; 5];
    for (features, seconds) in points {
        let row = features.map(|f| f / seconds);
        for i in 0..5 {
            for j in 0..5 {
                a[i][j] += row[i] * row[j];
            }
            a[i][5] += row[i];
        }
    }
    for i in 0..5 {
        if !used[i] || a[i][i] == 0.0 {
            for j in 0..5 {
                a[i][j] = 0.0;
                a[j][i] = 0.0;
            }
            a[i][i] = 1.0;
            a[i][5] = 0.0;
        }
    }
    for i in 0..5 {
        let pivot = (i..5).max_by(|p, q| a[*p][i].abs().total_cmp(&a[*q][i].abs()))?;
        a.swap(i, pivot);
        if a[i][i] == 0.0 {
            return None;
        }
        for k in 0..5 {
            if k != i {
                let factor = a[k][i] / a[i][i];
                let from = a[i];
                a[k].iter_mut()
                    .zip(from)
                    .for_each(|(x, y)| *x -= factor * y);
            }
        }
    }
    Some(std::array::from_fn(|i| a[i][5] / a[i][i]))
}

/// The points of all sweeps that were measured, for the model.
pub(crate) fn points(scaling: &[Value]) -> Vec<([f64; 5], f64)> {
    let all = scaling
        .iter()
        .filter_map(|sweep| sweep["points"].as_array())
        .flatten();
    all.filter_map(|point| {
        let features: Vec<f64> = serde_json::from_value(point["features"].clone()).ok()?;
        let in_file = point["words"].as_str()?.starts_with("file");
        let seconds = point["seconds"].as_f64().filter(|_| !in_file)?;
        Some((features.try_into().ok()?, seconds))
    })
    .collect()
}

/// A machine that is not here: cores, the bandwidth that all of them share, and what one of them does.
const CORES: f64 = 64.0;
const BANDWIDTH: f64 = 160e9;
/// What it is asked for: records and columns.
const SHAPES: [(f64, f64); 4] = [(1e6, 50.0), (1e5, 1000.0), (1e8, 8.0), (1e7, 1000.0)];

/// Rows of the prediction: the shape, seconds there, and seconds on one thread here by the same model.
pub(crate) fn prediction(model: &Model, one: &Rates) -> Option<Vec<[f64; 4]>> {
    let mut there = one.clone();
    there.insert("read".to_owned(), BANDWIDTH.min(CORES * one.get("read")?));
    for name in ["doubles", "chacha"] {
        there.insert(name.to_owned(), CORES * one.get(name)?);
    }
    let rows = SHAPES.map(|(n, d)| {
        let (records, columns) = (n.to_string(), d.to_string());
        let words = ["logistic", &records, &columns];
        let far = features(&words, CORES as usize, &there)?;
        let near = features(&words, 1, one)?;
        Some([n, d, model.seconds(&far), model.seconds(&near)])
    });
    rows.into_iter().collect()
}

/// What the prediction assumes.
pub(crate) fn assumption() -> String {
    format!(
        "{CORES} cores like one of these and {:.0} GB/s of memory shared by all",
        1e-9 * BANDWIDTH
    )
}

/// The sweep with this name.
pub(crate) fn known(id: &str) -> Option<&'static Sweep> {
    SWEEPS.iter().find(|sweep| sweep.id == id)
}

#[cfg(test)]
mod tests {
    use super::{Model, Rates, features, prediction};

    fn rates() -> Rates {
        let all = [("read", 1e10), ("doubles", 2e10), ("chacha", 1e9)];
        all.map(|(name, rate)| (name.to_owned(), rate)).into()
    }

    #[test]
    fn a_model_finds_the_weights_that_made_its_points() {
        let mut points = Vec::new();
        for words in [
            "logistic 1000 10",
            "logistic 100000 8",
            "logistic 200 100000",
            "one-hot 5000 1000 10",
            "steps 10 10 50",
            "logistic 30000 400",
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            for threads in [1, 2] {
                let f = features(&words, threads, &rates()).expect("rates");
                let seconds = 1.5 * f[0] + 3.0 * f[1] + 20.0 * f[2] + 4.0 * f[3] + 10.0 * f[4];
                points.push((f, seconds));
            }
        }
        let model = Model::fit(&points).expect("a model");
        for (found, made) in model.weights.iter().zip([1.5, 3.0, 20.0, 4.0, 10.0]) {
            assert!((found / made - 1.0).abs() < 1e-6, "{:?}", model.weights);
        }
        assert!(model.errors[1] < 1e-9);
        // A feature that would take a negative weight has none.
        let odd: Vec<_> = points
            .iter()
            .map(|(f, s)| (*f, (s - 15.0 * f[2]).max(0.2 * s)))
            .collect();
        assert!(
            Model::fit(&odd)
                .expect("a model")
                .weights
                .iter()
                .all(|w| *w >= 0.0)
        );
        let rows = prediction(&model, &rates()).expect("rates");
        assert!(
            rows.iter()
                .all(|[_, _, there, here]| there < here && *there > here / 64.0)
        );
        assert!(Model::fit(&[]).is_none_or(|model| model.weights == [0.0; 5]));
    }
}
