//! The pages that take a reader by the hand, run as they are printed.

use std::process::Command;

use crate::pages::{blocks, blocks_of, calls, pages};
use crate::support::{Place, stderr};

/// They are run one after the other in one folder.
#[cfg(unix)]
const RUN: [&str; 2] = ["docs/first-model.md", "docs/budgets.md"];

#[cfg(unix)]
#[test]
fn the_first_chapters_run_as_printed_and_print_what_they_say() {
    let place = Place::new();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_dpopt")).parent();
    let path = format!(
        "{}:{}",
        folder.unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut printed = String::new();
    for block in RUN.iter().flat_map(|page| blocks_of(page)) {
        match block.language.as_str() {
            "sh" => {
                let mut shell = Command::new("sh");
                shell.args(["-e", "-c", &block.text]).env("PATH", &path);
                let output = shell.current_dir(place.root()).output().unwrap();
                assert!(
                    output.status.success(),
                    "{}: {}",
                    block.place,
                    stderr(&output)
                );
                printed = String::from_utf8(output.stdout).unwrap();
            }
            // What the block before it printed.
            "text" => assert!(printed.contains(&block.text), "{}: {printed}", block.place),
            other => panic!("{}: a block of {other:?}", block.place),
        }
    }
    assert_eq!(place.read("predictions.csv").lines().count(), 2001);
    for model in ["run", "first", "second", "held", "fourth", "fifth"] {
        assert!(place.path(model).join("report.html").exists(), "{model}");
    }
    assert!(!place.path("third").exists());
}

#[test]
fn no_command_hides_in_a_block_of_another_kind() {
    for block in pages().iter().flat_map(|page| blocks_of(page)) {
        let hidden = block.language != "sh" && !calls(&block.text).is_empty();
        assert!(
            !hidden,
            "{}: commands of dpopt are in blocks of sh",
            block.place
        );
    }
}

#[test]
fn commands_are_found_where_a_shell_would_find_them() {
    let page = "x\n```sh\ndpopt plan a > b # dpopt no\n  dpopt check 'c d' \\\n  --schema e && dpopt f; x dpopt\n\
                cat > s <<'END'\ndpopt no\nEND\ncargo run --release -p dpopt-cli -- train\nawk '\ndpopt no' | dpopt g\n\
                dpopt h || test $? = 2\n```\ndpopt no\n```toml\ndpopt = 1\n```\n";
    let found = blocks("p", page);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].place.as_str(), found[0].language.as_str()),
        ("p:2", "sh")
    );
    let words: Vec<String> = calls(&found[0].text)
        .iter()
        .map(|call| call.join("+"))
        .collect();
    let expected = [
        "dpopt+plan+a",
        "dpopt+check+c d+--schema+e",
        "dpopt+f",
        "dpopt+train",
        "dpopt+g",
        "dpopt+h",
    ];
    assert_eq!(words, expected);
}
