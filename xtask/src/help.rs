//! `cargo xtask help`: what the commands are.

const TEXT: &str = "\
usage: cargo xtask <command>

  validate   everything CI runs, in CI's order; stops at the first failure
  tidy       the house rules: crate edges, module docs, links, forbidden words
  bench [--quick] [--json FILE]
             times of the accountants against their targets, medians on one thread
  verify-rates [--quick | --full] [--only ID]... [--json FILE] [--out DIR] [--seed N] [--threads N]
               [--memory-gib G] [--list]
             every rate that theory promises, measured, with broken twins that must be caught; with --out a
             page of plots, and an interrupted run goes on
  fuzz PARSER [--seconds N]
             mutants of valid files against a parser: npy, idx, libsvm, csv, schema, draft, parquet
  help       this text";

/// Prints the commands.
pub(crate) fn run() -> Result<(), String> {
    println!("{TEXT}");
    Ok(())
}

/// The message for a command that does not exist.
pub(crate) fn unknown(words: &[&str]) -> String {
    format!("no such command: `{}`\n\n{TEXT}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{TEXT, unknown};

    #[test]
    fn an_unknown_command_is_named_and_answered_with_the_list() {
        let message = unknown(&["validat", "now"]);
        assert!(message.contains("`validat now`"));
        assert!(message.contains(TEXT));
    }
}
