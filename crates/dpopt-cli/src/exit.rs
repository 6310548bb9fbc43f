//! Exit codes: one table, from which the help is made and against which the documents are checked.

use std::process::ExitCode;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Refused,
    Ledger,
    Stopped,
    Warned,
    Unfinished,
    Left,
}

impl Exit {
    pub(crate) const ALL: [Exit; 7] = [
        Exit::Done,
        Exit::Refused,
        Exit::Ledger,
        Exit::Stopped,
        Exit::Warned,
        Exit::Unfinished,
        Exit::Left,
    ];

    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Refused => 1,
            Exit::Ledger => 2,
            Exit::Stopped => 3,
            Exit::Warned => 4,
            Exit::Unfinished => 5,
            // What shells say of a process that a signal ended.
            Exit::Left => 130,
        }
    }

    /// What it means, as in the table of the help.
    pub(crate) fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "done",
            Exit::Refused => {
                "refused, or bad input (a flag, a file, a schema, a plan that says nothing): nothing was released or charged"
            }
            Exit::Ledger => {
                "the ledger: it can't pay, is missing, damaged, of other terms, or can't be read or written"
            }
            Exit::Stopped => {
                "stopped early by a signal (SIGINT, SIGTERM, SIGHUP): the ledger is settled, the results are written and true"
            }
            Exit::Warned => {
                "done, with a warning about the data or the model that should be looked at"
            }
            Exit::Unfinished => {
                "the run was made and counts as spent, but broke off, diverged, or left something unwritten; the message says what"
            }
            Exit::Left => {
                "left at a signal without output: before anything was released, or at the second signal"
            }
        }
    }

    /// Done, with a warning or without one.
    pub(crate) fn warned(warned: bool) -> Self {
        if warned { Exit::Warned } else { Exit::Done }
    }

    /// The table of the help.
    pub(crate) fn help() -> String {
        let mut text = "Exit codes:\n".to_owned();
        for exit in Self::ALL {
            text += &format!("  {:<4} {}\n", exit.code(), exit.meaning());
        }
        text.truncate(text.trim_end().len());
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn the_documented_table_is_the_one_of_the_code() {
        let page = include_str!("../../../docs/exit-codes.md");
        let rows: Vec<&str> = page
            .lines()
            .filter(|line| {
                let first = line.strip_prefix("| ");
                first.is_some_and(|cell| cell.starts_with(char::is_numeric))
            })
            .collect();
        let ours = Exit::ALL.map(|exit| format!("| {} | {} |", exit.code(), exit.meaning()));
        assert_eq!(rows, ours);
    }

    #[test]
    fn codes_differ() {
        let mut codes = Exit::ALL.map(Exit::code);
        codes.sort_unstable();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
    }
}
