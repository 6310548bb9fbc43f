//! The pages that take a reader by the hand, run as they are printed.

#[cfg(unix)]
use std::process::Command;

use crate::pages::{blocks, blocks_of, calls, pages};
#[cfg(unix)]
use crate::support::{Place, stderr};

/// Runs the blocks of `sh` on these pages, one after the other, in one folder; a block of `text` is what the block before it
/// printed.
#[cfg(unix)]
fn run(pages: &[&str]) -> Place {
    let place = Place::new();
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_dpopt")).parent();
    let path = format!("PATH='{}':$PATH\n", folder.unwrap().display());
    let mut printed = String::new();
    for block in pages.iter().flat_map(|page| blocks_of(page)) {
        match block.language.as_str() {
            "sh" => {
                let mut shell = Command::new("sh");
                shell.args(["-e", "-c", &(path.clone() + &block.text)]);
                let output = shell.current_dir(place.root()).output().unwrap();
                assert!(
                    output.status.success(),
                    "{}: {}",
                    block.place,
                    stderr(&output)
                );
                printed = String::from_utf8(output.stdout).unwrap();
            }
            "text" => assert!(printed.contains(&block.text), "{}: {printed}", block.place),
            _ => {}
        }
    }
    place
}

#[cfg(unix)]
#[test]
fn the_first_chapters_run_as_printed_and_print_what_they_say() {
    let place = run(&["docs/first-model.md", "docs/budgets.md"]);
    assert_eq!(place.read("predictions.csv").lines().count(), 2001);
    for model in ["run", "first", "second", "held", "fourth", "fifth"] {
        assert!(place.path(model).join("report.html").exists(), "{model}");
    }
    assert!(!place.path("third").exists());
}

#[cfg(unix)]
#[test]
fn commands_that_need_no_table_run_as_printed() {
    for page in [
        "docs/guarantees.md",
        "docs/choosing.md",
        "docs/accounting.md",
    ] {
        run(&[page]);
    }
}

#[test]
fn no_command_hides_in_a_block_of_another_kind() {
    // What notebooks print is Python's.
    let pages = pages().into_iter();
    let pages = pages.filter(|page| !page.starts_with("docs/notebooks/"));
    for block in pages.flat_map(|page| blocks_of(&page)) {
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
