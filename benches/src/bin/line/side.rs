//! What a task can be asked for, and the answers.

use std::io::{BufRead, Write};
use std::path::Path;

use dpopt_benches::release::{Failure, timed};
use serde_json::{Value, json};

/// A named work that can be timed, and gives a number that depends on it.
pub(crate) type Work<'a> = (&'static str, Box<dyn FnMut() -> Result<f64, Failure> + 'a>);
/// Named numbers.
pub(crate) type Numbers = Vec<(&'static str, Vec<f64>)>;

/// A task.
pub(crate) struct Side<'a> {
    works: Vec<Work<'a>>,
    answer: Box<dyn FnMut() -> Result<Numbers, Failure> + 'a>,
    below: Box<dyn Fn(f64) -> Result<bool, Failure> + 'a>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(works: Vec<Work<'a>>) -> Self {
        Self {
            works,
            answer: Box::new(|| Ok(Vec::new())),
            below: Box::new(|_| Ok(false)),
        }
    }

    pub(crate) fn with_answer(
        mut self,
        answer: impl FnMut() -> Result<Numbers, Failure> + 'a,
    ) -> Self {
        self.answer = Box::new(answer);
        self
    }

    pub(crate) fn with_truth(mut self, below: impl Fn(f64) -> Result<bool, Failure> + 'a) -> Self {
        self.below = Box::new(below);
        self
    }

    /// Answers until the input ends.
    pub(crate) fn serve(mut self) -> Result<(), Failure> {
        say(&json!({"ready": true}))?;
        for line in std::io::stdin().lock().lines() {
            let line = line?;
            let (word, rest) = line.split_once(' ').unwrap_or((&line, ""));
            let found = match word {
                "time" => self.time(rest, false),
                "again" => self.time(rest, true),
                "answer" => self.write(Path::new(rest)),
                "below" => rest
                    .parse()
                    .map_err(Failure::from)
                    .and_then(|value| (self.below)(value))
                    .map(|below| json!({"below": below})),
                "memory" => Ok(json!({"peak": peak()})),
                _ => Err(format!("no request `{line}`").into()),
            };
            say(&found.unwrap_or_else(|error| json!({"error": error.to_string()})))?;
        }
        Ok(())
    }

    /// `again`: right after some that are not timed, 20 ms of them. A system needs some to give threads that slept processors of their own.
    fn time(&mut self, kind: &str, again: bool) -> Result<Value, Failure> {
        let work = self.works.iter_mut().find(|(name, _)| *name == kind);
        let (_, work) = work.ok_or_else(|| format!("no work `{kind}`"))?;
        let mut before = 0.0;
        while again && before < 0.02 {
            let (seconds, value) = timed(&mut *work);
            value?;
            before += seconds;
        }
        let (seconds, value) = timed(work);
        Ok(json!({"seconds": seconds, "value": value?}))
    }

    fn write(&mut self, folder: &Path) -> Result<Value, Failure> {
        let found = (self.answer)()?;
        for (name, numbers) in &found {
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            std::fs::write(folder.join(format!("{name}.f64")), bytes)?;
        }
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        Ok(json!({"names": names}))
    }
}

fn say(answer: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{answer}")?;
    out.flush()
}

/// The most memory that this process had, in bytes; none where the system does not say.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// A count among the words.
pub(crate) fn count(word: &str) -> Result<usize, Failure> {
    word.parse()
        .map_err(|_| format!("`{word}` is no count").into())
}
