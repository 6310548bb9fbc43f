//! The ranks of this command, where it is started on several: what each of them reads, and who tells the results.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock};

use dpopt::oracle::{DataError, PrivateData, PublicOrder};
use dpopt::privacy::{Adjacency, Curator, ExchangeError, Refused, Together};

use crate::error::CliError;

/// Stands for the number of the rank in the name of a file.
const NUMBER: &str = "{rank}";

/// The ranks of this process.
static OWN: RwLock<Option<Together>> = RwLock::new(None);

/// As long as it lives, this process is one of these ranks. Its end is told to the others.
pub(crate) struct Joined;

impl Joined {
    pub(crate) fn new(together: Together) -> Self {
        *OWN.write().unwrap_or_else(PoisonError::into_inner) = Some(together);
        Self
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        OWN.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// The ranks, where there are several.
pub(crate) fn own() -> Option<Together> {
    OWN.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Whether this is the rank that keeps the ledger, writes and tells.
pub(crate) fn is_first() -> bool {
    own().is_none_or(|ranks| ranks.is_first())
}

/// Refuses to go on unless all ranks say the same here.
pub(crate) fn agree_on(what: &'static str, said: &dyn Display) -> Result<(), CliError> {
    match own() {
        Some(ranks) => Ok(ranks.agree_on(what, said)?),
        None => Ok(()),
    }
}

/// Goes on where this succeeded on all ranks.
pub(crate) fn all_of<T>(what: &'static str, outcome: Result<T, CliError>) -> Result<T, CliError> {
    match own() {
        Some(ranks) => ranks.all_of(what, outcome),
        None => outcome,
    }
}

/// Whether one of the ranks says so. None says it where they can't be asked: the next release meets the same error.
pub(crate) fn any(says: bool) -> bool {
    let Some(ranks) = own() else {
        return says;
    };
    let all = ranks.of_each("who was told to stop", u64::from(says));
    all.is_ok_and(|all| all.iter().any(|one| *one > 0))
}

/// What the first rank has, on all ranks. Public.
pub(crate) fn of_first(
    what: &'static str,
    own_bytes: Result<Vec<u8>, CliError>,
) -> Result<Vec<u8>, CliError> {
    let Some(ranks) = own() else {
        return own_bytes;
    };
    let mut bytes = ranks.all_of(what, own_bytes)?;
    let mut length = [bytes.len() as u64];
    ranks.of_rank(0, what, &mut length)?;
    bytes.resize(length[0] as usize, 0);
    let mut words: Vec<u64> = bytes
        .chunks(8)
        .map(|piece| {
            piece
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte))
        })
        .collect();
    ranks.of_rank(0, what, &mut words)?;
    let all = words.iter().flat_map(|word| word.to_le_bytes());
    Ok(all.take(bytes.len()).collect())
}

/// As [`of_first`], of numbers.
pub(crate) fn numbers_of_first<const N: usize>(
    what: &'static str,
    own: Result<[f64; N], CliError>,
) -> Result<[f64; N], CliError> {
    let own = own.map(|numbers| numbers.iter().flat_map(|x| x.to_le_bytes()).collect());
    let bytes = of_first(what, own)?;
    let mut numbers = [0.0; N];
    for (number, bytes) in numbers.iter_mut().zip(bytes.as_chunks().0) {
        *number = f64::from_le_bytes(*bytes);
    }
    Ok(numbers)
}

/// A seed from the operating system, the same on all ranks.
pub(crate) fn draw_seed() -> Result<u64, CliError> {
    let mut seed = [PublicOrder::draw_seed().map_err(Refused::from)?];
    if let Some(ranks) = own() {
        ranks.of_rank(0, "a public seed", &mut seed)?;
    }
    Ok(seed[0])
}

/// A protected curator, with those of the other ranks.
pub(crate) fn curator(adjacency: Adjacency) -> Result<Curator, CliError> {
    let curator = Curator::protected(adjacency)?;
    Ok(match own() {
        Some(ranks) => curator.joined(&ranks)?,
        None => curator,
    })
}

/// These records as the part of this rank. `declared`: how many all ranks were said to have.
pub(crate) fn joined(
    data: PrivateData,
    name: &str,
    declared: Option<u64>,
) -> Result<PrivateData, CliError> {
    let Some(ranks) = own() else {
        return Ok(data);
    };
    let wrong = |source| CliError::Data {
        path: name.to_owned(),
        source,
    };
    let data = data.joined(&ranks).map_err(wrong)?;
    let (adjacency, actual) = (data.adjacency(), data.public_records());
    match declared.filter(|declared| *declared != actual) {
        Some(declared) => Err(wrong(DataError::PublicSizeDiffers {
            declared,
            actual,
            adjacency,
        })),
        None => Ok(data),
    }
}

/// What one rank is told of its own records: all records' number is that of all ranks.
pub(crate) fn declared_here(adjacency: Adjacency, declared: Option<u64>) -> Option<u64> {
    let alone = own().is_none() || !adjacency.record_count_is_public();
    declared.filter(|_| alone)
}

/// The file of this rank: one that is named with its number, or the one in its place among those that a pattern matches, by name.
pub(crate) fn own_file(flag: &'static str, path: &Path) -> Result<PathBuf, CliError> {
    let Some(ranks) = own() else {
        return Ok(path.to_owned());
    };
    let (rank, all) = (ranks.rank(), ranks.ranks());
    let refused = |problem: String| Err(CliError::flag(flag, problem));
    let Some(text) = path.to_str() else {
        return refused("the name of a file on several ranks is a text".to_owned());
    };
    if text.contains(NUMBER) {
        return Ok(text.replace(NUMBER, &rank.to_string()).into());
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let Some((before, after)) = name.and_then(|name| name.split_once('*')) else {
        return match all {
            1 => Ok(path.to_owned()),
            _ => refused(format!(
                "{text} is one file, and there are {all} ranks: name one for each, by {NUMBER} for the number of the rank (from 0 on) or * for any text"
            )),
        };
    };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).map_err(|source| CliError::Read {
        path: folder.to_owned(),
        source,
    })?;
    let mut found: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| {
            let room = name.len() >= before.len() + after.len();
            room && name.starts_with(before) && name.ends_with(after)
        })
        .collect();
    found.sort_unstable();
    // Who sees other files might read one that another rank reads.
    ranks.agree_on("the files that match", &found.join("\0"))?;
    match found.get(rank) {
        Some(name) if found.len() == all => Ok(folder.join(name)),
        _ => refused(format!(
            "{} files match {text}, and there are {all} ranks: each reads one",
            found.len()
        )),
    }
}

/// Refuses what is done by one process.
pub(crate) fn refuse(flag: &'static str, given: bool, problem: &str) -> Result<(), CliError> {
    match own().filter(|_| given) {
        Some(ranks) => Err(CliError::flag(
            flag,
            format!("{problem} (there are {} ranks)", ranks.ranks()),
        )),
        None => Ok(()),
    }
}

/// Whether an error is told by this rank: what all ranks have, by the first, and what another has had, by that.
pub(crate) fn tells(error: &CliError) -> bool {
    match error.of_ranks() {
        Some(ExchangeError::Elsewhere { .. }) => false,
        Some(ExchangeError::Disagree { .. }) => is_first(),
        _ => true,
    }
}
