//! The values of --project.

use std::str::FromStr;

/// How rows are projected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Project {
    Auto,
    Rank,
    RankFree,
    To(usize),
}

impl FromStr for Project {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "auto" => Ok(Self::Auto),
            "rank" => Ok(Self::Rank),
            "rank-free" => Ok(Self::RankFree),
            number => match number.parse() {
                Ok(rows) if rows > 0 => Ok(Self::To(rows)),
                _ => Err("known are auto, rank, rank-free and a number of dimensions".to_owned()),
            },
        }
    }
}
