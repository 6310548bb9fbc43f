//! One line: our side and the tools beside it, in turns, round by round.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::child::Answering;
use super::limits::{self, Rates};
use super::lines::{Limit, Line};
use super::rounds::{beside, median};

/// The script that answers for the tools.
const SCRIPT: &str = "benches/peers/peers.py";
/// A call that takes longer is timed a few times only, in seconds.
const LONG: f64 = 4.0;
/// One that is shorter is timed right after another, as a step among steps: with its numbers in the cache and its threads awake.
const SHORT: f64 = 0.05;
/// What most contestants' threads take to go to sleep: they would have the processors that this one's need.
const SETTLED: Duration = Duration::from_millis(5);
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(280);

/// How a run measures.
pub(crate) struct How {
    pub(crate) quick: bool,
    /// Most rounds.
    pub(crate) rounds: usize,
    /// Seconds for each kind of each contestant, after the first rounds.
    pub(crate) room: f64,
    pub(crate) threads: usize,
    pub(crate) root: PathBuf,
    /// Our side, built.
    pub(crate) side: PathBuf,
    /// The interpreter of the tools.
    pub(crate) python: Option<PathBuf>,
    /// A folder for what is passed on and written.
    pub(crate) scratch: PathBuf,
    /// The folder with train.csv.gz and test.csv.gz of Census-Income.
    pub(crate) census: Option<PathBuf>,
}

impl How {
    /// The words of a task with its paths in them; an error where one is not known.
    fn words(&self, words: &[&str]) -> Result<Vec<String>, String> {
        let schema = self.root.join("crates/dpopt-cli/data/census-income.toml");
        let word = |word: &&str| -> Result<String, String> {
            Ok(match *word {
                "{file}" => self.file().display().to_string(),
                "{schema}" => schema.display().to_string(),
                "{census}" => {
                    let folder = self.census.as_ref();
                    let folder =
                        folder.ok_or("it needs --data DIR, with train.csv.gz and test.csv.gz")?;
                    folder.display().to_string()
                }
                other => other.to_owned(),
            })
        };
        words.iter().map(word).collect()
    }

    /// The file of lines whose rows stay in one.
    pub(crate) fn file(&self) -> PathBuf {
        self.scratch.join("rows.f32")
    }

    /// Our side on a task, ready.
    pub(crate) fn ours(&self, words: &[&str]) -> Result<Answering, String> {
        let mut command = Command::new(&self.side);
        command
            .args(self.words(words)?)
            .arg(self.threads.to_string());
        let mut side = Answering::start("our side", &mut command, PATIENCE)?;
        side.answer()?;
        Ok(side)
    }
}

/// The tools, started when they are first needed, and again after they ended.
pub(crate) struct Tools(Option<Answering>);

impl Tools {
    pub(crate) fn new() -> Self {
        Self(None)
    }

    fn ask(&mut self, how: &How, request: &Value) -> Result<Value, String> {
        let python = how.python.as_ref().ok_or("there are no tools")?;
        if !self.0.as_mut().is_some_and(Answering::alive) {
            let threads = how.threads.to_string();
            let mut command = Command::new(python);
            command.arg(how.root.join(SCRIPT)).arg(&threads);
            command.env("PYTHONDONTWRITEBYTECODE", "1");
            for name in [
                "OMP_NUM_THREADS",
                "OPENBLAS_NUM_THREADS",
                "MKL_NUM_THREADS",
                "NPROC",
            ] {
                command.env(name, &threads);
            }
            self.0 = Some(Answering::start("the tools", &mut command, PATIENCE)?);
        }
        let tools = self.0.as_mut().ok_or("there are no tools")?;
        let answer = tools.ask(&request.to_string());
        if !tools.alive() {
            self.0 = None;
        }
        answer
    }
}

/// A contestant's kind: its times, its last value, and why it has no more.
#[derive(Default)]
struct Times {
    seconds: Vec<f64>,
    value: Option<f64>,
    failed: Option<String>,
}

impl Times {
    /// Whether another round is timed: at least five of what is short, two of what is long.
    fn wanted(&self, how: &How) -> bool {
        let (spent, count) = (self.seconds.iter().sum::<f64>(), self.seconds.len());
        let least = if self.seconds.first().is_some_and(|s| *s > LONG) {
            2
        } else {
            5
        };
        self.failed.is_none() && (count < least.min(how.rounds) || spent < how.room)
    }

    /// Whether the next is timed right after another; after a while, if so.
    fn again(&self, line: &Line) -> bool {
        let again = !line.cold && self.seconds.last().is_some_and(|last| *last < SHORT);
        if again {
            std::thread::sleep(SETTLED);
        }
        again
    }

    fn note(&mut self, answer: Result<Value, String>) {
        let found = answer.and_then(|answer| {
            let seconds = answer["seconds"].as_f64();
            Ok((
                seconds.ok_or("an answer without seconds")?,
                answer["value"].as_f64(),
            ))
        });
        match found {
            Ok((seconds, value)) => {
                self.seconds.push(seconds);
                self.value = value;
            }
            Err(why) => self.failed = Some(why),
        }
    }
}

/// Times a line. What can't be timed is told in the result, and never an error.
pub(crate) fn line(line: &Line, how: &How, rates: &Rates, tools: &mut Tools) -> Value {
    let mut out = json!({
        "id": line.id, "group": line.group, "threads": how.threads, "quick": how.quick,
        "rows": [], "skipped": [], "failed": [], "between": line.between, "aim": line.aim,
    });
    if let Err(why) = timed(line, how, rates, tools, &mut out) {
        out["skipped"] = json!([{"name": "all", "reason": why}]);
    }
    let _ = std::fs::remove_file(how.file());
    out
}

fn timed(
    line: &Line,
    how: &How,
    rates: &Rates,
    tools: &mut Tools,
    out: &mut Value,
) -> Result<(), String> {
    let words = line.words(how.quick);
    let needed = (line.memory)(&super::lines::numbers(&words[1..]));
    if let Some(why) = limits::too_large(needed, limits::available()) {
        return Err(why);
    }
    let mut ours = how.ours(&words)?;
    let opened = open(line, how, &words, &mut ours, tools, out)?;
    let mut own: BTreeMap<&str, Times> = BTreeMap::new();
    own.insert("step", Times::default());
    if line.sums {
        own.insert("noise", Times::default());
    }
    if let Limit::Work(name) = line.limit {
        own.insert(name, Times::default());
    }
    let mut theirs: BTreeMap<(String, &str), Times> = BTreeMap::new();
    for (name, has) in &opened {
        for kind in kinds(line)
            .iter()
            .filter(|kind| has.iter().any(|h| h == *kind))
        {
            theirs.insert((name.clone(), *kind), Times::default());
        }
    }
    for round in 0..how.rounds {
        // The first time of ours warms it up; a run of seconds needs no warming.
        if round == 0 && !line.cold {
            for kind in own.keys() {
                if ours.ask(&format!("time {kind}"))?["seconds"].as_f64() > Some(LONG) {
                    break;
                }
            }
        }
        let mut any = false;
        for (kind, times) in &mut own {
            // Ours goes on as long as anyone does: each round has both.
            if times.failed.is_none() && (round < 5 || wanted(&theirs, how) || times.wanted(how)) {
                drop_cache(line, how);
                let word = if times.again(line) { "again" } else { "time" };
                times.note(ours.ask(&format!("{word} {kind}")));
                any = true;
            }
        }
        if own.values().any(|times| times.failed.is_some()) {
            break;
        }
        for ((name, kind), times) in &mut theirs {
            if times.wanted(how) {
                drop_cache(line, how);
                let again = times.again(line);
                let request = json!({"time": name, "kind": kind, "again": again});
                times.note(tools.ask(how, &request));
                any = true;
            }
        }
        if !any
            || (round >= 1
                && own.values().any(|t| t.seconds.first() > Some(&LONG))
                && !wanted(&theirs, how))
        {
            break;
        }
    }
    if let Some(why) = own.values().find_map(|times| times.failed.clone()) {
        return Err(format!("our side: {why}"));
    }
    report(line, how, rates, &own, theirs, &mut ours, out);
    let memory = ours
        .ask("memory")
        .map_or(Value::Null, |answer| answer["peak"].clone());
    out["memory"] = memory;
    if how.python.is_some() {
        let _ = tools.ask(how, &json!({"close": true}));
    }
    Ok(())
}

fn wanted(theirs: &BTreeMap<(String, &str), Times>, how: &How) -> bool {
    theirs.values().any(|times| times.wanted(how))
}

fn kinds(line: &Line) -> &'static [&'static str] {
    if line.sums {
        &["sum", "step"]
    } else {
        &["step"]
    }
}

/// Tools that can be timed, with their kinds.
type Ready = Vec<(String, Vec<String>)>;

/// Opens a line with the tools; those that can be timed.
fn open(
    line: &Line,
    how: &How,
    words: &[&str],
    ours: &mut Answering,
    tools: &mut Tools,
    out: &mut Value,
) -> Result<Ready, String> {
    if line.names().is_empty() || how.python.is_none() {
        return Ok(Vec::new());
    }
    ours.ask(&format!("answer {}", how.scratch.display()))?;
    let words = how.words(words)?;
    let request = json!({
        "open": words[0], "words": &words[1..], "names": line.names(), "folder": how.scratch,
    });
    let answer = match tools.ask(how, &request) {
        Ok(answer) => answer,
        // The one that ended them is not known: each by itself.
        Err(why) => {
            return each_alone(line, how, &request, &why, tools, out);
        }
    };
    Ok(sorted(line, &answer, out))
}

/// After the tools ended while all were opened: who ends them alone has failed, and the others are opened again.
fn each_alone(
    line: &Line,
    how: &How,
    request: &Value,
    why: &str,
    tools: &mut Tools,
    out: &mut Value,
) -> Result<Ready, String> {
    let mut good = Vec::new();
    for pair in line.names() {
        let mut alone = request.clone();
        alone["names"] = json!([pair]);
        match tools.ask(how, &alone) {
            Ok(_) => good.push(*pair),
            Err(why) => push(out, "failed", pair.0, &why),
        }
    }
    let mut again = request.clone();
    again["names"] = json!(good);
    match tools.ask(how, &again) {
        Ok(answer) => Ok(sorted(line, &answer, out)),
        Err(_) => {
            push(out, "failed", "all tools", why);
            Ok(Vec::new())
        }
    }
}

/// Who is ready; the others are told.
fn sorted(line: &Line, answer: &Value, out: &mut Value) -> Ready {
    let mut ready = Vec::new();
    for (name, _) in line.names() {
        let found = &answer["peers"][name];
        if let Some(version) = found["version"].as_str() {
            out["versions"][name] = json!(version);
            out["notes"][name] = found["note"].clone();
            let kinds = serde_json::from_value(found["kinds"].clone()).unwrap_or_default();
            ready.push(((*name).to_owned(), kinds));
        } else if let Some(why) = found["skipped"].as_str() {
            push(out, "skipped", name, why);
        } else if let Some(why) = found["failed"].as_str() {
            push(out, "failed", name, why);
        }
    }
    ready
}

fn push(out: &mut Value, list: &str, name: &str, reason: &str) {
    if let Some(list) = out[list].as_array_mut() {
        list.push(json!({"name": name, "reason": reason}));
    }
}

/// Rows of all kinds.
fn report(
    line: &Line,
    how: &How,
    rates: &Rates,
    own: &BTreeMap<&str, Times>,
    theirs: BTreeMap<(String, &str), Times>,
    ours: &mut Answering,
    out: &mut Value,
) {
    let step = &own["step"].seconds;
    let mut sums: Vec<f64> = step.clone();
    if let Some(noise) = own.get("noise") {
        sums.iter_mut()
            .zip(&noise.seconds)
            .for_each(|(sum, noise)| *sum -= noise);
    }
    let of = |kind: &str| if kind == "sum" { &sums } else { step };
    let least = match line.limit {
        Limit::Work(name) => own.get(name).map(|times| median(&times.seconds)),
        _ => limits::least(line, &line.words(how.quick), rates),
    };
    let mut rows = Vec::new();
    for kind in kinds(line) {
        let seconds = median(of(kind));
        rows.push(json!({
            "kind": kind, "name": "dpopt", "seconds": seconds, "repeats": step.len(),
            "fastest": of(kind).iter().copied().fold(f64::INFINITY, f64::min),
            "value": own["step"].value,
            "share": least.map(|least| least / seconds),
        }));
    }
    for ((name, kind), times) in theirs {
        if let Some(why) = &times.failed {
            push(out, "failed", &name, why);
            continue;
        }
        let below = times.value.filter(|_| line.words.starts_with("account"));
        let below = below.and_then(|value| ours.ask(&format!("below {value:e}")).ok());
        let found = beside(&times.seconds, of(kind));
        rows.push(json!({
            "kind": kind, "name": name, "seconds": median(&times.seconds),
            "fastest": times.seconds.iter().copied().fold(f64::INFINITY, f64::min),
            "repeats": times.seconds.len(), "value": times.value,
            "below": below.map(|answer| answer["below"].clone()),
            "ratio": found.as_ref().map(|f| f.ratio), "low": found.as_ref().map(|f| f.low),
            "high": found.as_ref().map(|f| f.high), "claim": found.is_some_and(|f| f.claim),
        }));
    }
    out["limit"] = json!({
        "seconds": least,
        "what": match line.limit {
            Limit::Rate(name, _) | Limit::Work(name) => name,
            Limit::None(why) => why,
        },
    });
    out["rows"] = json!(rows);
}

/// Drops the file from the system's cache before a cold timing.
fn drop_cache(line: &Line, how: &How) {
    if line.cold {
        let _ = dropped(&how.file());
    }
}

fn dropped(file: &Path) -> std::io::Result<()> {
    let mut dd = Command::new("dd");
    dd.arg(format!("if={}", file.display()));
    dd.args(["iflag=nocache", "count=0", "status=none"]);
    dd.stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    dd.status().map(|_| ())
}
