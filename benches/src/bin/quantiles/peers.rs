//! The same models by other tools: the rows of `benches/peers/quantiles.py`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dpopt::data::tabular::EncodedTable;
use dpopt_benches::census::{Failure, entries};
use serde_json::{Value, json};

use crate::rows::{DELTA, Row, Run, Task};

/// The script, and the folder that it reads.
pub(crate) struct Peers {
    python: PathBuf,
    script: PathBuf,
    folder: PathBuf,
    facts: Value,
}

impl Peers {
    /// Writes both parts to a folder of its own: for each row the same number of columns (`.idx`, as 32-bit integers) and entries (`.val`,
    /// single precision; 0 where a row has fewer), and the labels (`.lab`).
    pub(crate) fn new(
        python: &Path,
        script: &Path,
        parts: [&EncodedTable; 2],
    ) -> Result<Self, Failure> {
        let folder = std::env::temp_dir().join(format!("dpopt-quantiles-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let rows = |part: &EncodedTable| -> Vec<Vec<(u32, f32)>> {
            let row = |i| entries(&part.design, i);
            (0..part.labels.len()).map(row).collect()
        };
        let both = parts.map(rows);
        let width = both.iter().flatten().map(Vec::len).max().unwrap_or(0);
        for ((name, rows), part) in ["train", "test"].into_iter().zip(&both).zip(parts) {
            let padded = |row: &Vec<(u32, f32)>, i: usize| row.get(i).copied().unwrap_or((0, 0.0));
            let cells = || {
                rows.iter()
                    .flat_map(|row| (0..width).map(|i| padded(row, i)))
            };
            let columns = cells().flat_map(|(column, _)| column.to_le_bytes());
            let values = cells().flat_map(|(_, value)| value.to_le_bytes());
            let labels = part.labels.iter().flat_map(|label| label.to_le_bytes());
            std::fs::write(
                folder.join(name.to_owned() + ".idx"),
                columns.collect::<Vec<u8>>(),
            )?;
            std::fs::write(
                folder.join(name.to_owned() + ".val"),
                values.collect::<Vec<u8>>(),
            )?;
            std::fs::write(
                folder.join(name.to_owned() + ".lab"),
                labels.collect::<Vec<u8>>(),
            )?;
        }
        Ok(Self {
            python: python.to_owned(),
            script: script.to_owned(),
            folder,
            facts: json!({"width": width, "columns": parts[0].design.columns(), "delta": DELTA}),
        })
    }

    /// The rows of one model.
    pub(crate) fn rows(&self, task: &Task) -> Result<Vec<Row>, Failure> {
        let mut all = self.facts.clone();
        all["model"] = json!(task.model);
        all["tau"] = json!(task.tau);
        all["epsilon"] = json!(task.epsilon);
        all["lipschitz"] = json!(task.lipschitz);
        all["half"] = json!(task.half);
        all["values"] = json!(task.values);
        all["output"] = json!(task.output);
        all["start"] = json!(task.start);
        let mut script = Command::new(&self.python)
            .arg(&self.script)
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = script.stdin.take().ok_or("the script has no input")?;
        input.write_all(all.to_string().as_bytes())?;
        drop(input);
        let done = script.wait_with_output()?;
        if !done.status.success() {
            return Err(format!("{} failed: {}", self.script.display(), done.status).into());
        }
        let rows: Vec<Value> = serde_json::from_slice(&done.stdout)?;
        rows.iter().map(|row| read(&task.model, row)).collect()
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // Nothing depends on it: what stays is a folder of temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn read(model: &str, row: &Value) -> Result<Row, Failure> {
    let number = |name: &str| {
        let found = row[name].as_f64();
        found.ok_or(format!("a row of the script without `{name}`"))
    };
    let solver = row["solver"].as_str().ok_or("a row without `solver`")?;
    Ok(Row {
        model: model.to_owned(),
        solver: solver.to_owned(),
        result: Ok(Run {
            loss: number("loss")?,
            coverage: number("coverage")?,
            certificate: None,
            bound: None,
            steps: number("steps")? as u64,
            passes: number("passes")?,
            values: number("values")?,
            seconds: number("seconds")?,
        }),
    })
}
