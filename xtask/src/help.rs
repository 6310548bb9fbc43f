//! `cargo xtask help`: what the commands are.

const TEXT: &str = "\
usage: cargo xtask <command>

  validate   everything CI runs, in CI's order; stops at the first failure
  tidy [circles]
             the house rules: crate edges, circles of files, module docs, links, forbidden words; with circles what
             the files of each circle take from each other
  alone      clippy on the libraries without optional features, and by itself on each that has another build alone
  bench [--quick] [--json FILE] [--peers VENV] [--only LINE]... [--data DIR] [--rounds N] [--out DIR] [--docs] [--list]
        [--built] | --older
        | --census DIR [--plans] [--all] [--threads N] [--radius R]... [--loss NAME]... [--epsilon E]...
          [--only SOLVER]... [--passes P]... [--runs N]
        | --quantiles DIR [--threads N] [--tau T]... [--epsilon E]... [--hidden K]... [--radius R] [--max-steps T]
        [--directions M] [--add-remove] [--only SOLVER]... [--tuned] [--peers VENV] [--program cost|knots]
        | --pairs DIR [--only METHOD]... | --phase [--only METHOD]... [--dim P]...
        | --tables [--chosen | --peers VENV] [--only RECIPE]... [--epsilon E]...]
             training steps, other queries, noise, accounting, planners, audits and time to an AUC (with the files of
             Census-Income in DIR), as shares of what the machine can do at most; with --peers beside the tools in that
             virtual environment; --only LINE and --only scaling take those whose names begin so, --list names them; --out
             keeps the results in DIR, beside those of earlier runs, and makes a page of them; --docs writes
             docs/measured/speed.md; --built builds nothing and takes what there is; with --older public certificates and second derivatives; with --census
             every solver on the files train.csv.gz and test.csv.gz in DIR, as Markdown (docs/measured/census.md);
             with --quantiles conditional quantiles of age there (docs/measured/quantiles.md), with --peers also by
             Opacus and DPZero, and with --program losses that are programs; with --pairs metric learning on the files
             of MNIST in DIR (docs/measured/metric-learning.md); with --phase phase retrieval and rank-one sensing on
             made-up records (docs/measured/phase-retrieval.md); with --tables models of made-up tables from drafted
             schemas beside tuned private descent, with --chosen beside a private choice, with --peers beside Opacus and
             diffprivlib (docs/measured/tables.md)
  bench-peers-setup VENV
             an environment in VENV with those tools, of pinned versions (gigabytes)
  verify-rates [--brief | --quick | --full] [--only ID]... [--json FILE] [--out DIR] [--seed N] [--threads N]
               [--memory-gib G] [--unconfirmed] [--list]
             every rate that theory promises, measured, with broken twins that must be caught; with --brief, as CI runs
             it, the first of each group and its first twin; with --out a page of plots, and an interrupted run goes on; with
             --unconfirmed the rows that are set aside
  audit [--brief|--quick|--full] [--only NAME] [--json FILE]
             attacks on every mechanism and solver, and on broken twins that must be caught; with --brief, as CI runs it,
             fewer runs of those that are expected to hold
  groups DIR objectives on the files train.csv.gz and test.csv.gz in DIR, by the command itself, as Markdown
             (docs/measured/groups.md)
  exports VENV
             exported models read by the checker of ONNX, onnxruntime and NumPy in that virtual environment
  report [CHROMIUM]
             report.html of a run and of a tuning opened by headless Chromium in light and dark, on a phone, a desk and
             paper: no request, nothing too wide; with pictures, and broken pages that must be caught
  python [--torch [VENV]]
             the Python package, built and tested in an environment of its own with pinned packages; with --torch its
             wrapper of PyTorch and its stubs too, in a second environment (gigabytes) or in VENV
  mpi [--long]
             the crate of ranks over MPI, built by itself and tested on two to four ranks, with a few kills; with --long
             200 of them. Says so where there is no MPI
  wheel      the Python package as a wheel for every interpreter from 3.10 on
  long [FILTER]
             the tests whose names have FILTER in them, or all, in their long forms: all settings of references, all bytes
             at which a disk may fill up, 1,900 killed runs
  fuzz PARSER [--seconds N]
             mutants of valid files against a parser: npy, idx, libsvm, csv, schema, draft, parquet
  help       this text; after a command, --help is what that one takes";

/// Prints the commands.
pub(crate) fn run() -> Result<(), String> {
    println!("{TEXT}");
    Ok(())
}

/// Prints what one command takes.
pub(crate) fn of(command: &str) -> Result<(), String> {
    println!("{}", entry(command).ok_or_else(|| unknown(&[command]))?);
    Ok(())
}

/// The lines of one command.
fn entry(command: &str) -> Option<String> {
    let name = |line: &'static str| {
        let first = line.strip_prefix("  ")?.split(' ').next();
        first.filter(|name| !name.is_empty())
    };
    let mut lines = TEXT.lines().skip_while(|line| name(line) != Some(command));
    let first = lines.next()?;
    let rest = lines.take_while(|line| name(line).is_none());
    Some(
        std::iter::once(first)
            .chain(rest)
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

/// The message for a command that does not exist.
pub(crate) fn unknown(words: &[&str]) -> String {
    format!("no such command: `{}`\n\n{TEXT}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::{TEXT, entry, unknown};

    #[test]
    fn an_unknown_command_is_named_and_answered_with_the_list() {
        let message = unknown(&["validat", "now"]);
        assert!(message.contains("`validat now`"));
        assert!(message.contains(TEXT));
    }

    #[test]
    fn a_command_is_explained_alone() {
        let audit = entry("audit").unwrap();
        assert!(audit.starts_with("  audit [--brief|--quick|--full]"));
        assert!(audit.lines().skip(1).all(|line| line.starts_with("     ")));
        let after = TEXT.split_once(&audit).unwrap().1;
        assert!(after.starts_with("\n  groups DIR"));
        assert!(entry("bench").unwrap().contains("--rounds N"));
        assert_eq!(entry("usage:"), None);
        assert_eq!(entry(""), None);
    }
}
