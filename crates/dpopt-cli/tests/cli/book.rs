//! The pages that take a reader by the hand, run as they are printed.

#[cfg(unix)]
use std::collections::BTreeMap;
#[cfg(unix)]
use std::process::Command;

#[cfg(unix)]
use dpopt::privacy::accounting::gdp;
#[cfg(unix)]
use dpopt::privacy::{Delta, Epsilon};

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
    let pages = ["docs/first-model.md", "docs/budgets.md"];
    let place = run(&pages);
    assert_eq!(place.read("predictions.csv").lines().count(), 2001);
    for model in ["run", "second", "fourth", "fifth"] {
        assert!(place.path(model).join("report.html").exists(), "{model}");
    }
    assert!(!place.path("third").exists());

    // All that was spent on a table is on its ledger, and within what the page allows.
    let spent = spent(&pages);
    let tables: Vec<&str> = spent.keys().map(String::as_str).collect();
    assert_eq!(tables, ["others.csv", "people.csv"]);
    let said = std::fs::read_to_string("../../docs/budgets.md").unwrap();
    for (table, ledger, epsilon, words) in [
        (
            "people.csv",
            "people.jsonl",
            2.0,
            "| epsilon 2 at delta 1e-6 |",
        ),
        (
            "others.csv",
            "others.jsonl",
            1.0,
            "| epsilon 1 on `others.csv` |",
        ),
    ] {
        assert!(said.contains(words), "{words}");
        let shown = place.ok(&format!("ledger show {ledger} --json"));
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["epsilon"], epsilon);
        let (used, spent) = (shown["used"].as_f64().unwrap(), spent[table]);
        // A run plans for a little less than its epsilon.
        assert!(
            used <= spent && used > 0.99 * spent,
            "{table}: {used} {spent}"
        );
        assert!(spent <= squared_mu(epsilon), "{table}: {spent}");
    }
}

/// The squared mu of epsilon at delta 1e-6.
#[cfg(unix)]
fn squared_mu(epsilon: f64) -> f64 {
    let (epsilon, delta) = (Epsilon::new(epsilon).unwrap(), Delta::new(1e-6).unwrap());
    gdp::mu_for(epsilon, delta).unwrap().get().powi(2)
}

/// The squared mu that the commands of these pages spend on each table, by what they are called with. The one that is refused is
/// called `third`.
#[cfg(unix)]
fn spent(pages: &[&str]) -> BTreeMap<String, f64> {
    let blocks = pages.iter().flat_map(|page| blocks_of(page));
    let all = blocks.filter(|block| block.language == "sh");
    let mut spent = BTreeMap::new();
    for call in all.flat_map(|block| calls(&block.text)) {
        let has = |word: &str| call.iter().any(|found| found == word);
        let after = |flag: &str| {
            let at = call.iter().position(|found| found == flag);
            at.map(|at| call[at + 1].clone())
        };
        let spends = ["train", "tune", "evaluate", "certify"];
        if !spends.contains(&call[1].as_str()) || has("--dry-run") || has("third") {
            continue;
        }
        let epsilon = after("--epsilon").unwrap().parse().unwrap();
        let table = after("--data").unwrap();
        *spent.entry(table).or_default() += squared_mu(epsilon);
    }
    spent
}

#[cfg(unix)]
#[test]
fn commands_that_need_no_table_run_as_printed() {
    for page in [
        "docs/guarantees.md",
        "docs/solvers.md",
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
