//! The row of a public certificate in the table of `cargo xtask bench`: the Goldstein distance of a network of ReLUs with 5,000 weights on
//! 10,000 public records, by a search that ends when it gains less than a thousandth.
//!
//! The point is where a hundred steps of plain descent lead. `--quick` takes 1,000 records.
#![allow(clippy::print_stdout, reason = "the table is the product")]

use dpopt_benches::release::timed;
use dpopt_certify::{GoldsteinSettings, MeanLoss, Objective, goldstein};
use dpopt_linalg::{Design, add_scaled, norm};
use dpopt_oracle::{Activation, Glm, Network, PublicRecords};
use dpopt_privacy::ClipNorm;
use serde_json::json;

const RECORDS: usize = 10_000;
const COLUMNS: usize = 50;
const UNITS: usize = 100;
const STEPS: usize = 100;
const STEP: f64 = 1.0;
const RADIUS: f64 = 0.5;
/// The search ends when it gains less.
const PROGRESS: f64 = 1e-3;
/// Seconds.
const TARGET: f64 = 60.0;

/// Rows of length 1, and labels that a linear score does not explain.
fn data(records: usize) -> Result<PublicRecords, Box<dyn std::error::Error>> {
    let mut design = Design::sparse(COLUMNS)?;
    let mut labels = Vec::new();
    for i in 0..records {
        let entry = |j: usize| ((i * COLUMNS + j) as f64 * 0.618_033_988_749_895).fract() - 0.5;
        let row: Vec<f64> = (0..COLUMNS).map(entry).collect();
        let length = norm(&row);
        let wave = (6.0 * (row[0] - row[1] * row[2])).sin();
        labels.push(wave as f32);
        let row = row.iter().zip(0u32..);
        let row: Vec<(u32, f32)> = row.map(|(x, j)| (j, (x / length) as f32)).collect();
        design.push_row(&row)?;
    }
    let data = PublicRecords::new(design, labels, ClipNorm::new(1.0)?)?;
    Ok(data.with_label_bound(ClipNorm::new(1.0)?))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let data = data(if quick { RECORDS / 10 } else { RECORDS })?;
    let network = Network::new(UNITS, Activation::Relu, Glm::Absolute)?;
    let objective = MeanLoss::new(&data, &network)?;
    let mut point = network.start(COLUMNS, 1.0, 0);
    let mut gradient = point.clone();
    for step in 0..STEPS {
        objective.gradient(&point, &mut gradient);
        add_scaled(&mut point, -STEP / ((step + 1) as f64).sqrt(), &gradient);
    }
    objective.gradient(&point, &mut gradient);
    let settings = GoldsteinSettings {
        progress: PROGRESS,
        ..GoldsteinSettings::default()
    };
    let (seconds, found) = timed(|| goldstein(&objective, &point, RADIUS, &settings));
    let found = found?;
    let row = json!({
        "id": format!("goldstein/{}", point.len()),
        "seconds": seconds,
        "target": TARGET,
        "met": seconds <= TARGET,
        "gradient_norm": norm(&gradient),
        "upper": found.upper,
        "gradients": found.gradients,
        "points": found.certificate.len(),
        "stop": found.stop,
    });
    println!("{}", serde_json::to_string_pretty(&[row])?);
    Ok(())
}
