//! `--peers`: the same tables by Opacus and diffprivlib, which `benches/peers/tables.py` runs.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use dpopt_benches::census::Failure;
use serde_json::{Value, json};

use super::DELTA;
use super::tuned::Rows;

/// The training part and the test part of one encoding, by its name.
pub(super) type Parts = (&'static str, [Rows; 2]);

/// What the script found: a row for each tool and budget.
pub(super) fn rows(
    [python, script]: &[String; 2],
    encodings: &[Parts],
    epsilons: &[f64],
) -> Result<Vec<Value>, Failure> {
    let folder = std::env::temp_dir().join(format!("dpopt-tables-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let found =
        write(&folder, encodings).and_then(|()| run(&folder, python, script, encodings, epsilons));
    // Nothing depends on it: what stays is a folder of temporary files.
    let _ = std::fs::remove_dir_all(&folder);
    found
}

fn write(folder: &Path, encodings: &[Parts]) -> Result<(), Failure> {
    for (encoding, parts) in encodings {
        for (name, part) in ["train", "test"].into_iter().zip(parts) {
            let mut cells = vec![0.0_f32; part.rows.len() * part.dim];
            for (row, out) in part.rows.iter().zip(cells.chunks_mut(part.dim)) {
                for &(column, value) in row {
                    out[column as usize] = value;
                }
            }
            let bytes = |all: &[f32]| {
                all.iter()
                    .flat_map(|x| x.to_le_bytes())
                    .collect::<Vec<u8>>()
            };
            std::fs::write(folder.join(format!("{name}.{encoding}.val")), bytes(&cells))?;
            std::fs::write(folder.join(format!("{name}.lab")), bytes(&part.labels))?;
        }
    }
    Ok(())
}

fn run(
    folder: &Path,
    python: &str,
    script: &str,
    encodings: &[Parts],
    epsilons: &[f64],
) -> Result<Vec<Value>, Failure> {
    let dim = encodings.first().map_or(0, |(_, parts)| parts[0].dim);
    let names: Vec<&str> = encodings.iter().map(|(name, _)| *name).collect();
    let task = json!({"columns": dim, "encodings": names, "epsilons": epsilons, "delta": DELTA});
    let mut child = Command::new(python)
        .arg(script)
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("the script has no input")?;
    input.write_all(task.to_string().as_bytes())?;
    drop(input);
    let done = child.wait_with_output()?;
    if !done.status.success() {
        return Err(format!("{script} failed: {}", done.status).into());
    }
    Ok(serde_json::from_slice(&done.stdout)?)
}
