//! A process that answers requests line by line: our side of a line, or the tools beside it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

/// A process, and the lines that it has written.
pub(crate) struct Answering {
    name: String,
    child: Child,
    requests: Option<ChildStdin>,
    lines: Receiver<String>,
    limit: Duration,
}

impl Answering {
    /// Starts it. An answer that takes longer than `limit` ends it.
    pub(crate) fn start(
        name: &str,
        command: &mut Command,
        limit: Duration,
    ) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{name} can't be started: {error}"))?;
        let (requests, answers) = (child.stdin.take(), child.stdout.take());
        let answers = answers.ok_or_else(|| format!("{name} has no output"))?;
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(answers).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self {
            name: name.to_owned(),
            child,
            requests,
            lines,
            limit,
        })
    }

    /// The next line, read as JSON. An answer with `error` is an error.
    pub(crate) fn answer(&mut self) -> Result<Value, String> {
        let line = self.lines.recv_timeout(self.limit).map_err(|error| {
            let _ = self.child.kill();
            match error {
                RecvTimeoutError::Timeout => {
                    format!("{} gave no answer in {} s", self.name, self.limit.as_secs())
                }
                RecvTimeoutError::Disconnected => match self.child.wait() {
                    Ok(status) => format!("{} ended: {status}", self.name),
                    Err(error) => format!("{} ended: {error}", self.name),
                },
            }
        })?;
        let answer: Value = serde_json::from_str(&line)
            .map_err(|error| format!("{} answered no JSON: {error}", self.name))?;
        match answer["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(answer),
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, request: &str) -> Result<Value, String> {
        let to = self.requests.as_mut().ok_or("its input is closed")?;
        // Where it has ended, the answer says so.
        let _ = writeln!(to, "{request}").and_then(|()| to.flush());
        self.answer()
    }

    /// Whether it still runs.
    pub(crate) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.requests = None;
        // It ends with its input; if not, now.
        for _ in 0..50 {
            if !self.alive() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::Answering;
    use std::process::Command;
    use std::time::Duration;

    fn shell(script: &str) -> Answering {
        within(Duration::MAX, script)
    }

    fn within(limit: Duration, script: &str) -> Answering {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Answering::start("a shell", &mut command, limit).expect("a shell")
    }

    #[test]
    fn answers_errors_crashes_and_silence_are_told_apart() {
        let mut good = shell("while read x; do echo \"{\\\"seconds\\\": $x}\"; done");
        assert_eq!(good.ask("2").expect("an answer")["seconds"], 2);
        assert_eq!(good.ask("3").expect("an answer")["seconds"], 3);
        assert!(good.alive());
        let mut wrong = shell("read x; echo '{\"error\": \"no\"}'; read x");
        assert_eq!(wrong.ask("1"), Err("no".to_owned()));
        let mut crashed = shell("read x; exit 3");
        assert!(crashed.ask("1").expect_err("it ended").contains("3"));
        let mut silent = within(Duration::from_millis(1), "read x; read y");
        assert!(silent.ask("1").expect_err("too long").contains("no answer"));
        let mut noisy = shell("read x; echo hello");
        assert!(noisy.ask("1").expect_err("no JSON").contains("no JSON"));
    }
}
