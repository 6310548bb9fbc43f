//! One run: limits, lines, sweeps; then text, JSON, a page, and the part of `docs/measured/speed.md`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::limits;
use super::lines::{LINES, Line, Peers};
use super::measure::{self, How, Tools};
use super::show::tables;
use super::sweeps::{SWEEPS, Sweep};
use super::{page, scaling, system};
use crate::cargo::cargo;
use crate::peers;

/// What the command writes into.
const DOCS: &str = "docs/measured/speed.md";
/// Where results of several runs come together.
const RESULTS: &str = "results.json";

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Beginnings of names of lines, or `scaling`; all without any.
    pub(crate) only: Vec<String>,
    /// The folder with Census-Income.
    pub(crate) data: Option<String>,
    /// Most rounds.
    pub(crate) rounds: Option<usize>,
    /// A folder for results and the page; those of an earlier run stay where this run has none.
    pub(crate) out: Option<String>,
    /// Whether the part of the docs is written.
    pub(crate) docs: bool,
    /// Only the names.
    pub(crate) list: bool,
    /// Nothing is built: what there is is taken.
    pub(crate) built: bool,
}

impl Asked {
    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| id.starts_with(only.as_str()))
    }

    fn lines(&self, quick: bool) -> Vec<&'static Line> {
        let wanted = |line: &&Line| self.wants(line.id) && !(quick && line.quick.is_empty());
        LINES.iter().filter(wanted).collect()
    }

    fn sweeps(&self, quick: bool) -> Vec<&'static Sweep> {
        // Of a quick run that names none, one.
        let some = |sweep: &Sweep| !quick || !self.only.is_empty() || sweep.id == "columns";
        let wanted = |sweep: &&Sweep| some(sweep) && self.wants(&format!("scaling/{}", sweep.id));
        SWEEPS.iter().filter(wanted).collect()
    }
}

/// Measures, prints and writes. Gives the results, but for a list.
pub(crate) fn run(
    root: &Path,
    asked: &Asked,
    quick: bool,
    venv: Option<&str>,
) -> Result<Option<Value>, String> {
    let (lines, sweeps) = (asked.lines(quick), asked.sweeps(quick));
    if lines.is_empty() && sweeps.is_empty() {
        return Err(format!(
            "no line begins with {}: --list names them",
            asked.only.join(" or ")
        ));
    }
    if asked.list {
        lines.iter().for_each(|line| println!("{}", line.id));
        sweeps
            .iter()
            .for_each(|sweep| println!("scaling/{}", sweep.id));
        return Ok(None);
    }
    let python = venv.map(|venv| peers::interpreter(Path::new(venv)));
    let python = python.transpose().map_err(|error| error.to_string())?;
    let [side, products] = built(root, asked.built)?;
    let scratch = std::env::temp_dir().join(format!("dpopt-bench-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|error| format!("{}: {error}", scratch.display()))?;
    let mut how = How {
        quick,
        rounds: asked.rounds.unwrap_or(if quick { 5 } else { 25 }),
        room: if quick { 0.05 } else { 0.8 },
        threads: 1,
        root: root.to_owned(),
        side,
        python,
        scratch: scratch.clone(),
        census: asked.data.as_ref().map(PathBuf::from),
    };
    let done = measured(asked, &lines, &sweeps, &mut how, &products);
    let _ = std::fs::remove_dir_all(&scratch);
    let mut results = done?;
    if let Some(out) = &asked.out {
        results = kept(Path::new(out), results)?;
    }
    for table in tables(&results) {
        print!("{}", table.text());
    }
    if asked.docs {
        let file = root.join(DOCS);
        let told = |error: std::io::Error| format!("{}: {error}", file.display());
        let text = std::fs::read_to_string(&file).map_err(told)?;
        std::fs::write(&file, page::in_docs(&text, &results)?).map_err(told)?;
    }
    Ok(Some(results))
}

/// All results of this run. What can't be timed is told there.
fn measured(
    asked: &Asked,
    lines: &[&Line],
    sweeps: &[&Sweep],
    how: &mut How,
    products: &Path,
) -> Result<Value, String> {
    let mut out = system::facts(&how.root);
    (out["lines"], out["scaling"]) = (json!([]), json!([]));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for threads in [1, 2] {
        if threads > processors {
            eprintln!("two threads are skipped: there is one processor");
            break;
        }
        if threads > 1 && how.quick {
            break;
        }
        how.threads = threads;
        let rates = limits::measure(&how.side, products, threads)?;
        out["limits"][threads.to_string()] = json!(rates);
        let mut tools = Tools::new();
        for line in lines.iter().filter(|line| threads == 1 || line.threaded) {
            if line.words.contains("{census}") && asked.data.is_none() && asked.only.is_empty() {
                eprintln!("{} is skipped: it needs --data DIR", line.id);
                continue;
            }
            eprintln!("{} on {threads}", line.id);
            let mut found = measure::line(line, how, &rates, &mut tools);
            found["date"] = out["date"].clone();
            if let Peers::Nobody(why) = line.peers {
                found["nobody"] = json!(why);
            }
            push(&mut out["lines"], found);
        }
        for sweep in sweeps {
            eprintln!("scaling/{} on {threads}", sweep.id);
            let room = system::free_disk(&how.scratch);
            push(
                &mut out["scaling"],
                scaling::sweep(sweep, how, &rates, room),
            );
        }
    }
    Ok(out)
}

fn push(list: &mut Value, item: Value) {
    if let Some(list) = list.as_array_mut() {
        list.push(item);
    }
}

/// Puts results beside those that are in the folder, writes both there, and the page.
fn kept(out: &Path, new: Value) -> Result<Value, String> {
    let told = |error: std::io::Error| format!("{}: {error}", out.display());
    std::fs::create_dir_all(out).map_err(told)?;
    let file = out.join(RESULTS);
    let old = std::fs::read_to_string(&file).ok();
    let old = old.and_then(|text| serde_json::from_str(&text).ok());
    let all = old.map_or(new.clone(), |old| merged(&old, new));
    std::fs::write(&file, format!("{all:#}\n")).map_err(told)?;
    std::fs::write(out.join("index.html"), page::html(&all)).map_err(told)?;
    Ok(all)
}

/// New results, and the old ones of lines and sweeps that are not among them, in the order of the registry.
fn merged(old: &Value, mut new: Value) -> Value {
    let same = |a: &Value, b: &Value| a["id"] == b["id"] && a["threads"] == b["threads"];
    for list in ["lines", "scaling"] {
        let found = new[list].as_array().cloned().unwrap_or_default();
        let kept = old[list].as_array().cloned().unwrap_or_default();
        let kept = kept
            .into_iter()
            .filter(|a| !found.iter().any(|b| same(a, b)));
        let mut all: Vec<Value> = kept.chain(found.clone()).collect();
        let place = |item: &Value| {
            let id = item["id"].as_str();
            let line = LINES.iter().position(|line| Some(line.id) == id);
            line.or_else(|| SWEEPS.iter().position(|sweep| Some(sweep.id) == id))
        };
        // What is no longer in the registry is gone.
        all.retain(|item| place(item).is_some());
        all.sort_by_key(|item| (place(item), item["threads"].as_u64()));
        new[list] = json!(all);
    }
    new
}

/// Builds our side and the products of faer; their paths.
fn built(root: &Path, already: bool) -> Result<[PathBuf; 2], String> {
    let targets: [&[&str]; 2] = [
        &["-p", "dpopt-benches", "--features=census", "--bin", "line"],
        &["-p", "dpopt-linalg", "--example", "products"],
    ];
    for target in targets.into_iter().filter(|_| !already) {
        let mut build = Command::new(cargo());
        build
            .args(["build", "--quiet", "--release"])
            .args(target)
            .current_dir(root);
        match build.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Err(format!("the build of {} failed: {status}", target[1])),
            Err(error) => return Err(format!("cannot start cargo: {error}")),
        }
    }
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let release = target.join("release");
    let named = |name: &str| format!("{name}{}", std::env::consts::EXE_SUFFIX);
    Ok([
        release.join(named("line")),
        release.join("examples").join(named("products")),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::show::Table;
    use super::{Asked, merged, tables};
    use serde_json::json;

    #[test]
    fn lines_are_chosen_by_the_beginnings_of_their_names() {
        assert!(Asked::default().lines(false).len() > 30);
        let only = |words: &[&str]| Asked {
            only: words.iter().map(|word| (*word).to_owned()).collect(),
            ..Asked::default()
        };
        let some = only(&["noise/", "spider/100000x"]);
        assert!(
            some.lines(false)
                .iter()
                .all(|l| l.group == "Noise" || l.id.starts_with("spider"))
        );
        assert!(some.sweeps(false).is_empty() && some.lines(true).len() < some.lines(false).len());
        assert_eq!(only(&["scaling"]).sweeps(false).len(), super::SWEEPS.len());
        assert!(only(&["nothing"]).lines(false).is_empty());
    }

    #[test]
    fn a_later_run_takes_the_place_of_its_own_lines_only() {
        let line = |id: &str, threads: u32, by: &str| json!({"id": id, "threads": threads, "by": by, "group": "Noise", "rows": []});
        let old = json!({"lines": [line("noise/rounded", 1, "old"), line("epsilon/rdp", 1, "old"), line("gone", 1, "old")], "scaling": []});
        let new = json!({"lines": [line("noise/rounded", 1, "new"), line("noise/rounded", 2, "new")], "scaling": [], "limits": {}});
        let all = merged(&old, new);
        let found: Vec<_> = all["lines"]
            .as_array()
            .expect("lines")
            .iter()
            .map(|l| (l["id"].as_str(), l["threads"].as_u64(), l["by"].as_str()))
            .collect();
        let expected = [
            (Some("noise/rounded"), Some(1), Some("new")),
            (Some("noise/rounded"), Some(2), Some("new")),
            (Some("epsilon/rdp"), Some(1), Some("old")),
        ];
        assert_eq!(found, expected);
        assert!(
            !tables(&all)
                .iter()
                .map(Table::text)
                .collect::<String>()
                .is_empty()
        );
    }
}
