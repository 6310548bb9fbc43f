//! Whether a second build of what the tests built compiles nothing.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cargo::cargo;
use crate::tidy::TEST_COMMAND;

/// Builds the tests again, right after they were built, and names the packages that cargo compiled.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let words = TEST_COMMAND.split_whitespace().skip(1);
    let output = Command::new(cargo())
        .args(words)
        .args(["--no-run", "--quiet", "--message-format", "json"])
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start it: {error}"))?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    match compiled(&String::from_utf8_lossy(&output.stdout))?.as_slice() {
        [] => Ok(()),
        again => Err(format!("compiled again: {}", again.join(", "))),
    }
}

/// The targets that cargo compiled, from its messages.
fn compiled(messages: &str) -> Result<Vec<String>, String> {
    let mut again = Vec::new();
    let mut seen = 0;
    for line in messages.lines() {
        let message: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let fresh = message["fresh"].as_bool();
        seen += usize::from(fresh.is_some());
        if fresh == Some(false) {
            again.push(message["target"]["name"].to_string());
        }
    }
    match seen {
        0 => Err("cargo names no artefact".to_owned()),
        _ => Ok(again),
    }
}

#[cfg(test)]
mod tests {
    use super::compiled;

    #[test]
    fn what_is_compiled_again_is_named() {
        let message = |name: &str, fresh: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"target\":{{\"name\":\"{name}\"}},\"fresh\":{fresh}}}\n"
            )
        };
        let end = "{\"reason\":\"build-finished\",\"success\":true}\n";
        let all = message("a", true) + &message("b", true) + end;
        assert_eq!(compiled(&all), Ok(vec![]));
        let one = message("a", true) + &message("b", false) + end;
        assert_eq!(compiled(&one), Ok(vec!["\"b\"".to_owned()]));
        assert!(compiled(end).is_err() && compiled("no JSON").is_err());
    }
}
