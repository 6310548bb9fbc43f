//! The rows of rates and audits that the pages name are in the registries.

use dpopt_theory::{audit, verify};

#[path = "../../../dpopt-cli/tests/cli/pages.rs"]
mod shown;

/// The words in the first cells of the measured rates, each with its place.
fn measured() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/measured");
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let paths = files.map(|file| file.expect("an entry").path());
    let mut found = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "tsv")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("rates-") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a table");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let cell = line.split('\t').next().unwrap_or_default();
            let words = cell.split([' ', ',', ':']);
            found.extend(words.map(|word| (name.to_string(), word.to_owned())));
        }
    }
    found
}

/// The names that a pattern of a page stands for: one for each word in braces.
fn spelled_out(pattern: &str) -> Vec<String> {
    let braces = pattern.split_once('{').zip(pattern.split_once('}'));
    let Some(((before, rest), (_, after))) = braces else {
        return vec![pattern.to_owned()];
    };
    let words = rest.split('}').next().unwrap_or_default().split(',');
    words.map(|word| format!("{before}{word}{after}")).collect()
}

/// Whether a name fits a pattern, in which a star stands for anything; what follows a slash may be left out.
fn fits(name: &str, pattern: &str) -> bool {
    let mut pieces = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty() || rest.starts_with('/') || pattern.ends_with('*')
}

#[test]
fn every_row_that_a_page_names_is_in_a_registry() {
    let rates = [verify::Registry::builtin(), verify::Registry::unconfirmed()];
    let audits = audit::Registry::standard().unwrap();
    let rates = rates.iter().flat_map(verify::Registry::names);
    let known: Vec<&str> = rates.chain(audits.names()).collect();
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-/*{},".contains(c);
    let mut gone = Vec::new();
    let mut seen = 0;
    let pages = shown::pages();
    let spans = pages.iter().flat_map(|page| shown::spans(page));
    for (place, span) in spans.chain(measured()) {
        let Some((group, _)) = span.split_once('/').filter(|_| span.chars().all(letter)) else {
            continue;
        };
        if span.ends_with('/') {
            continue;
        }
        // Names of several words are of rows, and so is what begins as one does.
        let of_rows = group.trim_matches('-').contains('-')
            || known
                .iter()
                .any(|name| name.split('/').next() == Some(group));
        if of_rows {
            seen += 1;
            let names = spelled_out(&span).into_iter();
            gone.extend(
                names
                    .filter(|one| !known.iter().any(|name| fits(name, one)))
                    .map(|one| format!("{place}: {one}")),
            );
        }
    }
    assert_eq!(gone, Vec::<String>::new());
    assert!(seen > 60, "{seen}");
}

#[test]
fn patterns_are_read_as_the_pages_mean_them() {
    assert_eq!(spelled_out("a/{n,d}-x"), ["a/n-x", "a/d-x"]);
    for (name, pattern, fitting) in [
        ("a/n", "a/n", true),
        ("a/n/replace-one", "a/n", true),
        ("a/nu", "a/n", false),
        ("a/n", "a/*", true),
        ("ab/c-d/e", "a*/c-*", true),
        ("b/n", "a/*", false),
    ] {
        assert_eq!(fits(name, pattern), fitting, "{name} {pattern}");
    }
}
