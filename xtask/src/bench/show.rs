//! Results for people: one set of tables, as text for a terminal, as Markdown and as HTML.

use serde_json::Value;

use super::limits::RATES;
use super::scaling::{self, Model};

/// A table.
pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn markdown(&self) -> String {
        let cells = |row: &[String]| format!("| {} |\n", row.join(" | "));
        let head: Vec<String> = self.columns.iter().map(|c| (*c).to_owned()).collect();
        let rule = vec!["-".to_owned(); head.len()];
        let rows: String = self.rows.iter().map(|row| cells(row)).collect();
        format!(
            "### {}\n\n{}\n\n{}{}{rows}\n",
            self.title,
            self.note,
            cells(&head),
            cells(&rule)
        )
    }

    pub(crate) fn text(&self) -> String {
        let width = |k: usize| {
            let cells = self.rows.iter().map(|row| row[k].chars().count());
            cells.chain([self.columns[k].len()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |row: Vec<&str>| -> String {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, w)| format!("{cell:<w$}  "));
            cells.collect::<String>().trim_end().to_owned() + "\n"
        };
        let mut out = format!("\n{}\n", self.title);
        out += &line(self.columns.clone());
        for row in &self.rows {
            out += &line(row.iter().map(String::as_str).collect());
        }
        out
    }
}

/// All tables of some results.
pub(crate) fn tables(results: &Value) -> Vec<Table> {
    let mut out = vec![limits(results)];
    let lines = list(&results["lines"]);
    let mut groups: Vec<&str> = Vec::new();
    for line in lines {
        let group = line["group"].as_str().unwrap_or("");
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for group in groups {
        let of: Vec<&Value> = lines.iter().filter(|line| line["group"] == group).collect();
        out.push(best(group, &of));
        out.push(all(group, &of));
    }
    let absent = absent(lines);
    out.extend(Some(absent).filter(|table| !table.rows.is_empty()));
    let sweeps = list(&results["scaling"]);
    if !sweeps.is_empty() {
        out.push(scaled(sweeps));
        out.extend(predicted(results));
    }
    out
}

fn limits(results: &Value) -> Table {
    let counts: Vec<&String> = results["limits"]
        .as_object()
        .map_or(Vec::new(), |o| o.keys().collect());
    let rows = RATES.iter().map(|(name, unit, what)| {
        let rates: Vec<String> = counts
            .iter()
            .filter_map(|t| results["limits"][t.as_str()][name].as_f64())
            .map(|rate| format!("{:.1}", 1e-9 * rate))
            .collect();
        vec![
            (*name).to_owned(),
            (*what).to_owned(),
            rates.join(" / "),
            (*unit).to_owned(),
        ]
    });
    let threads: Vec<&str> = counts.iter().map(|t| t.as_str()).collect();
    Table {
        title: "Limits of the machine".to_owned(),
        note: format!(
            "Measured before the lines; threads: {}.",
            threads.join(" / ")
        ),
        columns: vec!["limit", "what", "rate", "unit"],
        rows: rows.collect(),
    }
}

fn rows_of<'a>(line: &'a Value, kind: &str) -> Vec<&'a Value> {
    list(&line["rows"])
        .iter()
        .filter(|row| row["kind"] == kind)
        .collect()
}

/// Each line beside the fastest tool, and its share of the limit.
fn best(group: &str, lines: &[&Value]) -> Table {
    let mut rows = Vec::new();
    for line in lines {
        for kind in ["sum", "step"] {
            let of = rows_of(line, kind);
            let Some(ours) = of.iter().find(|row| row["name"] == "dpopt") else {
                continue;
            };
            let fastest = of
                .iter()
                .filter(|row| row["ratio"].is_number())
                .min_by(|a, b| number(&a["ratio"]).total_cmp(&number(&b["ratio"])));
            let share = ours["share"].as_f64();
            let aim = line["aim"].as_f64().filter(|_| kind == "step");
            rows.push(vec![
                name(line),
                kind.to_owned(),
                seconds(&ours["seconds"]),
                fastest.map_or("nobody".to_owned(), |row| text(&row["name"])),
                fastest.map_or(String::new(), |row| ratio(row)),
                aim.map_or(String::new(), |aim| {
                    let reached = fastest.is_none_or(|row| number(&row["ratio"]) >= aim);
                    format!("{aim} {}", if reached { "(reached)" } else { "(missed)" })
                }),
                share.map_or(String::new(), |share| {
                    format!("{:.0} % of {}", 1e2 * share, text(&line["limit"]["what"]))
                }),
                text(&line["between"]),
            ]);
        }
    }
    Table {
        title: format!("{group}: beside the fastest tool"),
        note: "Ours in seconds, the fastest other tool, its time over ours with the range of rounds, what is aimed at, our share of the limit, and what stands between. `t1` and `t2` are threads.".to_owned(),
        columns: vec!["line", "kind", "ours", "fastest other", "theirs over ours", "aim", "of the limit", "between"],
        rows,
    }
}

/// Every tool.
fn all(group: &str, lines: &[&Value]) -> Table {
    let mut rows = Vec::new();
    for line in lines {
        for row in list(&line["rows"]) {
            let version = line["versions"][row["name"].as_str().unwrap_or("")].as_str();
            let note = line["notes"][row["name"].as_str().unwrap_or("")].as_str();
            let below = if row["below"] == true {
                ", below the truth"
            } else {
                ""
            };
            let value = row["value"].as_f64().filter(|_| shows_values(line));
            rows.push(vec![
                name(line),
                text(&row["kind"]),
                text(&row["name"]),
                version.unwrap_or("this").to_owned(),
                seconds(&row["seconds"]),
                if row["ratio"].is_number() {
                    ratio(row)
                } else {
                    String::new()
                },
                value.map_or(String::new(), |value| format!("{value:.5}{below}")),
                note.unwrap_or("").to_owned(),
            ]);
        }
    }
    Table {
        title: format!("{group}: all tools"),
        note: "Medians of rounds in turns.".to_owned(),
        columns: vec![
            "line",
            "kind",
            "tool",
            "version",
            "seconds",
            "theirs over ours",
            "answer",
            "note",
        ],
        rows,
    }
}

/// Whether the answers of a line are numbers that a reader compares.
fn shows_values(line: &Value) -> bool {
    let group = line["group"].as_str();
    matches!(
        group,
        Some("Accounting" | "Time to an AUC" | "Planners and audits")
    )
}

/// What was not timed, and why.
fn absent(lines: &[Value]) -> Table {
    let mut rows = Vec::new();
    for line in lines {
        for word in ["skipped", "failed"] {
            for row in list(&line[word]) {
                rows.push(vec![
                    name(line),
                    text(&row["name"]),
                    word.to_owned(),
                    text(&row["reason"]),
                ]);
            }
        }
        if let Some(why) = line["nobody"].as_str() {
            rows.push(vec![
                name(line),
                "others".to_owned(),
                "none".to_owned(),
                why.to_owned(),
            ]);
        }
    }
    Table {
        title: "Not timed".to_owned(),
        note:
            "Tools that are missing or answer something else, and lines that nobody stands beside."
                .to_owned(),
        columns: vec!["line", "tool", "", "why"],
        rows,
    }
}

fn scaled(sweeps: &[Value]) -> Table {
    let mut rows = Vec::new();
    for sweep in sweeps {
        for point in list(&sweep["points"]) {
            let memory = point["memory"].as_f64();
            rows.push(vec![
                format!("{} t{}", text(&sweep["id"]), sweep["threads"]),
                text(&point["words"]).replace(" {file}", ""),
                match point["skipped"].as_str() {
                    Some(why) => why.to_owned(),
                    None => seconds(&point["seconds"]),
                },
                memory.map_or(String::new(), |bytes| format!("{:.0} MB", 1e-6 * bytes)),
            ]);
        }
    }
    Table {
        title: "Scaling".to_owned(),
        note: "One release of the clipped gradient with noise; memory is the most that the process had, made-up data included.".to_owned(),
        columns: vec!["sweep", "task", "seconds", "memory"],
        rows,
    }
}

fn predicted(results: &Value) -> Option<Table> {
    let model = Model::fit(&scaling::points(list(&results["scaling"])))?;
    let one = serde_json::from_value(results["limits"]["1"].clone()).ok()?;
    let rows = scaling::prediction(&model, &one)?;
    let [a, b, c, d, e] = model.weights;
    let [middle, most] = model.errors;
    Some(Table {
        title: "A prediction".to_owned(),
        note: format!(
            "Not measured. Seconds = {a:.2} times the slower of reading rows and two multiply-adds (double precision) for each entry, at the rates above, + {b:.2} times 8 bytes of ChaCha20 for each column + {c:.1} ns for each record of a thread + {d:.0} us + {e:.0} us for each further thread: fitted to the points in memory above (relative errors: median {:.0} %, at most {:.0} %). Predicted for {}.",
            1e2 * middle,
            1e2 * most,
            scaling::assumption()
        ),
        columns: vec![
            "records",
            "columns",
            "seconds there",
            "one thread here, by the model",
        ],
        rows: rows
            .iter()
            .map(|[n, d, there, here]| {
                vec![
                    format!("{n:.0}"),
                    format!("{d:.0}"),
                    format!("{there:.2e}"),
                    format!("{here:.2e}"),
                ]
            })
            .collect(),
    })
}

fn name(line: &Value) -> String {
    let quick = if line["quick"] == true {
        " (quick)"
    } else {
        ""
    };
    format!("{} t{}{quick}", text(&line["id"]), line["threads"])
}

fn ratio(row: &Value) -> String {
    let (ratio, low, high) = (
        number(&row["ratio"]),
        number(&row["low"]),
        number(&row["high"]),
    );
    let claim = if row["claim"] == true {
        ""
    } else {
        ", no claim"
    };
    format!(
        "{} ({} to {}){claim}",
        short(ratio),
        short(low),
        short(high)
    )
}

fn short(x: f64) -> String {
    if x >= 100.0 {
        format!("{x:.0}")
    } else {
        format!("{x:.2}")
    }
}

fn seconds(value: &Value) -> String {
    value.as_f64().map_or(String::new(), |s| {
        if s < 1e-3 {
            format!("{:.1} us", 1e6 * s)
        } else if s < 1.0 {
            format!("{:.3} ms", 1e3 * s)
        } else {
            format!("{s:.2} s")
        }
    })
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or("").to_owned()
}

pub(crate) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::{Table, tables};
    use serde_json::json;

    fn results() -> serde_json::Value {
        let theirs = |name: &str, ratio: f64, claim: bool| {
            json!({"kind": "step", "name": name, "seconds": 0.02, "ratio": ratio, "low": 0.5, "high": 2.5, "claim": claim,
                "value": 1.25, "below": !claim})
        };
        let ours =
            json!({"kind": "step", "name": "dpopt", "seconds": 0.01, "share": 0.5, "value": 1.5});
        json!({
            "limits": {"1": {"read": 1e10}},
            "lines": [
                {"id": "epsilon/pld", "group": "Accounting", "threads": 1, "aim": 1.5, "between": "words",
                 "limit": {"what": "read"}, "versions": {"a": "a 1"}, "notes": {},
                 "rows": [ours, theirs("a", 3.0, true), theirs("b", 1.2, false)],
                 "skipped": [{"name": "jax", "reason": "jax is not installed"}], "failed": []},
            ],
            "scaling": [],
        })
    }

    #[test]
    fn the_fastest_other_tool_the_verdict_and_what_is_missing_are_said() {
        let tables = tables(&results());
        let text: String = tables.iter().map(Table::text).collect();
        let best = text
            .lines()
            .find(|line| line.contains("epsilon/pld t1") && line.contains("missed"));
        let best = best.expect("the line of the fastest");
        assert!(best.contains("b ") && best.contains("1.20 (0.50 to 2.50), no claim"));
        assert!(best.contains("1.5 (missed)") && best.contains("50 % of read"));
        assert!(text.contains("1.25000, below the truth"));
        assert!(text.contains("jax is not installed"));
        assert!(text.contains("10.0"));
        let markdown = tables[0].markdown();
        assert!(markdown.starts_with("### Limits") && markdown.contains("| - | - | - | - |"));
    }
}
