//! What can be wrong with a ledger, and why it refuses.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::hash::ChainHash;
use crate::accounting::AccountingError;
use crate::adjacency::Adjacency;
use crate::exchange::ExchangeError;
use crate::filter::FilterKind;
use crate::order::Numbering;

/// A ledger could not be opened, or can't pay. Nothing was released on its strength.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The ranks of the run can't go on together.
    #[error(transparent)]
    Exchange(#[from] ExchangeError),
    /// There is no such file; one that was in use is gone.
    #[error("ledger {}: there is no such file", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// A folder stands where the file should be.
    #[error("ledger {}: a folder, not a file", path.display())]
    IsAFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The system does not let this process read or write the file.
    #[error("ledger {}: permission denied", path.display())]
    PermissionDenied {
        /// The file.
        path: PathBuf,
    },
    /// The file lies on a disk that can only be read.
    #[error("ledger {}: the disk is read-only", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },
    /// There is no room for another line.
    #[error("ledger {}: no room left to write ({source})", path.display())]
    DiskFull {
        /// The file.
        path: PathBuf,
        /// What the system said: a full disk, a quota, a limit on the size of files.
        source: std::io::Error,
    },
    /// Reading, writing, locking or syncing failed in another way.
    #[error("ledger {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is empty. An emptied ledger looks the same, so it doesn't start afresh by itself.
    #[error("ledger {}: the file is empty; a ledger that lost its lines must not start afresh", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The first line is not that of a ledger.
    #[error("ledger {}, line 1: not a ledger", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
    },
    /// The file is in the format of before lines were chained.
    #[error(
        "ledger {}: the old format {format:?}, which can't be read any more; keep the file for the record and create a new ledger, for no more than the old one has left",
        path.display()
    )]
    OldFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: String,
    },
    /// A newer version of this program wrote the file.
    #[error(
        "ledger {}: written in version {found} of the format, and this program knows up to version {known}; use a newer one",
        path.display()
    )]
    NewerVersion {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: u64,
        /// The newest version that can be read.
        known: u64,
    },
    /// A line is damaged: the first that is.
    #[error("ledger {}, line {line}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Another ledger stands at the path, or the checkpoint is of another one.
    #[error("ledger {}: its first line is {found}, but that of the ledger in use is {known}: another ledger", path.display())]
    OtherLedger {
        /// The file.
        path: PathBuf,
        /// Hash of the first line that is there.
        found: ChainHash,
        /// Hash of the first line that is known.
        known: ChainHash,
    },
    /// The file holds less than was there before: cut, or restored from an older copy.
    #[error("ledger {}: it has {found} lines and had {known}: cut, or restored from an older copy", path.display())]
    RolledBack {
        /// The file.
        path: PathBuf,
        /// Lines that are there.
        found: u64,
        /// Lines that were there.
        known: u64,
    },
    /// The lines are whole, but not those that were there before.
    #[error("ledger {}: up to line {line} it is not what it was; its history was rewritten", path.display())]
    Rewritten {
        /// The file.
        path: PathBuf,
        /// The line whose hash is known.
        line: u64,
    },
    /// The file exists with other terms than those asked for.
    #[error(
        "ledger {} was created for epsilon {epsilon}, delta {delta}, {adjacency}, filter {filter}; these can't be changed: open it with them, or create another",
        path.display()
    )]
    OtherTerms {
        /// The file.
        path: PathBuf,
        /// Its epsilon.
        epsilon: f64,
        /// Its delta.
        delta: f64,
        /// Its adjacency.
        adjacency: Adjacency,
        /// Its filter.
        filter: FilterKind,
    },
    /// The run uses another adjacency than the ledger.
    #[error("a ledger for {ledger} adjacency can't pay for a run under {run} adjacency")]
    AdjacencyMismatch {
        /// Adjacency of the ledger.
        ledger: Adjacency,
        /// Adjacency of the run.
        run: Adjacency,
    },
    /// A simulation was to be charged.
    #[error("a ledger can't pay for a simulation: anybody can take its noise off again")]
    Simulated,
    /// The ledger came after a reservation, or was the second one.
    #[error("a ledger must be attached before the first reservation, and only one")]
    TooLate,
    /// The run costs more than is left.
    #[error(
        "the ledger can't pay: the run costs {cost:.6} and {left:.6} of {capacity:.6} are left ({unit}); a plan of epsilon at most {} would fit",
        (epsilon_left * 1e4).floor() / 1e4
    )]
    Exhausted {
        /// Cost of the run in the filter's unit.
        cost: f64,
        /// What is left in that unit.
        left: f64,
        /// The whole budget in that unit.
        capacity: f64,
        /// The unit: squared mu, rho, or Renyi divergence.
        unit: &'static str,
        /// As [`Ledger::epsilon_left`](super::Ledger::epsilon_left).
        epsilon_left: f64,
    },
    /// epsilon is too small for the Renyi filter at this delta.
    #[error(
        "epsilon {epsilon} at delta {delta} leaves nothing to spend in a Renyi filter; use the Gaussian-DP filter"
    )]
    TooTight {
        /// The epsilon.
        epsilon: f64,
        /// The delta.
        delta: f64,
    },
    /// The terms can't be accounted.
    #[error("a ledger can't have these terms: {0}")]
    Accounting(#[from] AccountingError),
    /// The filter has no cost for the event.
    #[error(
        "the {filter} filter of this ledger has no cost for the run: {}. A ledger keeps the filter that it was created with; {} ({source})",
        filter.scope(),
        created_with(others)
    )]
    OtherFilter {
        /// The filter of the ledger.
        filter: FilterKind,
        /// The filters that have a cost for it.
        others: Vec<FilterKind>,
        /// Why this one has not.
        source: Box<AccountingError>,
    },
    /// A settlement or release names a reservation that is not open.
    #[error("run {run} has no open reservation in this ledger")]
    NotOpen {
        /// Number of the run.
        run: u64,
    },
    /// Another process found this run dead and closed it. What it drew stays paid; it must not
    /// release more.
    #[error(
        "run {run} was taken for dead and closed; what it had drawn, {drawn:.6} of {reserved:.6} ({unit}), stays paid, and no more may be released on it"
    )]
    Lapsed {
        /// Number of the run.
        run: u64,
        /// What stays paid, in the filter's unit.
        drawn: f64,
        /// What it had reserved.
        reserved: f64,
        /// The unit: squared mu, rho, or Renyi divergence.
        unit: &'static str,
    },
    /// A pool of records has fewer unread ones than were asked for.
    #[error("pool {pool:?}: {asked} records were asked for and {left} of {records} are unread")]
    PoolUsedUp {
        /// The pool.
        pool: String,
        /// Records asked for.
        asked: u64,
        /// Records that no run has read.
        left: u64,
        /// Records of the pool.
        records: u64,
    },
    /// A pool was used before with another number of records.
    #[error("pool {pool:?} has {known} records in this ledger, not {asked}")]
    OtherPool {
        /// The pool.
        pool: String,
        /// Records in the call.
        asked: u64,
        /// Records in the ledger.
        known: u64,
    },
    /// A pool was used before with another numbering, whose positions mean other records.
    #[error("pool {pool:?} is of {known} in this ledger, not of {asked}")]
    OtherNumbering {
        /// The pool.
        pool: String,
        /// Numbering in the call.
        asked: Box<Numbering>,
        /// Numbering in the ledger.
        known: Box<Numbering>,
    },
    /// The system has no random bytes to name a new ledger, or a new run.
    #[error("no random bytes for the names of the ledger: {reason}")]
    NoEntropy {
        /// What the system said.
        reason: String,
    },
}

/// The remedy for a run that a filter refuses.
fn created_with(others: &[FilterKind]) -> String {
    if others.is_empty() {
        return "no other filter has one either".to_owned();
    }
    let names: Vec<_> = others.iter().map(ToString::to_string).collect();
    format!(
        "one created with filter {} takes it, and what the two spend on the same records adds up",
        names.join(" or ")
    )
}

impl LedgerError {
    /// An error of the system, by its kind.
    pub(super) fn io(path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::NotFound => Self::Missing { path },
            ErrorKind::IsADirectory => Self::IsAFolder { path },
            ErrorKind::PermissionDenied => Self::PermissionDenied { path },
            ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                Self::DiskFull { path, source }
            }
            _ => Self::Io { path, source },
        }
    }

    /// Whether the system would not write, while nothing speaks against what is there.
    pub(super) fn is_unwritable(&self) -> bool {
        matches!(
            self,
            Self::PermissionDenied { .. }
                | Self::ReadOnly { .. }
                | Self::DiskFull { .. }
                | Self::Io { .. }
        )
    }
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The bytes are not a line of a ledger.
    #[error("not a line of this format")]
    NotALine,
    /// Something stands between the end of the line and the line break.
    #[error("bytes after the end of the line")]
    Trailing,
    /// The line and those before it don't have the hash that it states.
    #[error(
        "its hash is {computed} and it states {stated}: this line, or its place, was changed; restore a copy"
    )]
    WrongHash {
        /// The hash at its end.
        stated: ChainHash,
        /// The hash of what is there.
        computed: ChainHash,
    },
    /// The line has another number.
    #[error("its number should be {expected}")]
    WrongNumber {
        /// The number that its place asks for.
        expected: u64,
    },
    /// The line holds something else than an entry.
    #[error("not an entry: {problem}")]
    NotAnEntry {
        /// What the JSON reader said.
        problem: String,
    },
    /// The terms stand elsewhere than in the first line, or not there.
    #[error("the terms stand in the first line and nowhere else")]
    TermsElsewhere,
    /// The capacity is more than the terms allow.
    #[error("capacity {capacity} is more than epsilon and delta allow ({allowed})")]
    Capacity {
        /// The capacity in the file.
        capacity: f64,
        /// What the terms allow.
        allowed: f64,
    },
    /// A cost is negative or not finite.
    #[error("{cost} is not a cost")]
    NotACost {
        /// The number.
        cost: f64,
    },
    /// Reservations are numbered from 0.
    #[error("reservation {run} stands where {expected} should")]
    OutOfOrder {
        /// Its number.
        run: u64,
        /// The number that its place asks for.
        expected: u64,
    },
    /// A release or settlement of a run that is not open.
    #[error("run {run} has no open reservation")]
    NotOpen {
        /// Number of the run.
        run: u64,
    },
    /// A reservation's random name is none, or missing where the run draws.
    #[error("run {run} has no name of 32 lower-case hexadecimal digits")]
    Nonce {
        /// Number of the run.
        run: u64,
    },
    /// A run draws, or lapses, below what it drew before, above its reservation, or although it
    /// paid for all of it at once.
    #[error(
        "run {run} draws {cost}, which is not between what it drew before ({}) and what it reserved ({reserved})",
        drawn.map_or_else(|| "all at once".to_owned(), |drawn| drawn.to_string())
    )]
    Drawn {
        /// Number of the run.
        run: u64,
        /// The cost in the line.
        cost: f64,
        /// What it drew before; none where it paid at once.
        drawn: Option<f64>,
        /// Cost of the reservation.
        reserved: f64,
    },
    /// A settlement above its reservation.
    #[error("run {run} settles for {cost} and reserved {reserved}")]
    SettledAbove {
        /// Number of the run.
        run: u64,
        /// Cost of the settlement.
        cost: f64,
        /// Cost of the reservation.
        reserved: f64,
    },
    /// Records of a pool that are handed out again, out of turn, numbered otherwise, or do not exist.
    #[error(
        "records {from}..{to} of pool {pool:?} are not the next of it ({spent} of {records} are read)"
    )]
    Slices {
        /// The pool.
        pool: String,
        /// First position.
        from: u64,
        /// Position after the last.
        to: u64,
        /// Positions read before.
        spent: u64,
        /// Records of the pool.
        records: u64,
    },
    /// A cost is below what its event costs; only [`Ledger::verify`](super::Ledger::verify) looks.
    #[error("run {run} is charged {cost} and its event costs {computed}")]
    UnderCharged {
        /// Number of the run.
        run: u64,
        /// The cost in the line.
        cost: f64,
        /// The cost of the event in the line.
        computed: f64,
    },
    /// The releases that are listed cost more than was paid; only
    /// [`Ledger::verify`](super::Ledger::verify) looks.
    #[error("the releases listed for run {run} cost {listed}, and {paid} was paid")]
    ReleasedAbove {
        /// Number of the run.
        run: u64,
        /// Cost of the listed releases.
        listed: f64,
        /// Cost of the reservation or settlement.
        paid: f64,
    },
    /// An event that the filter can't account; only [`Ledger::verify`](super::Ledger::verify)
    /// looks.
    #[error("{0}")]
    Accounting(AccountingError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_are_told_apart() {
        type Is = fn(&LedgerError) -> bool;
        let cases: [(ErrorKind, Is); 8] = [
            (ErrorKind::NotFound, |e| {
                matches!(e, LedgerError::Missing { .. })
            }),
            (ErrorKind::IsADirectory, |e| {
                matches!(e, LedgerError::IsAFolder { .. })
            }),
            (ErrorKind::PermissionDenied, |e| {
                matches!(e, LedgerError::PermissionDenied { .. })
            }),
            (ErrorKind::ReadOnlyFilesystem, |e| {
                matches!(e, LedgerError::ReadOnly { .. })
            }),
            (ErrorKind::StorageFull, |e| {
                matches!(e, LedgerError::DiskFull { .. })
            }),
            (ErrorKind::QuotaExceeded, |e| {
                matches!(e, LedgerError::DiskFull { .. })
            }),
            (ErrorKind::FileTooLarge, |e| {
                matches!(e, LedgerError::DiskFull { .. })
            }),
            (ErrorKind::TimedOut, |e| matches!(e, LedgerError::Io { .. })),
        ];
        for (kind, is_expected) in cases {
            let error = LedgerError::io(Path::new("place"), kind.into());
            assert!(is_expected(&error), "{kind}: {error:?}");
            assert!(error.to_string().contains("place"), "{error}");
            let gone = matches!(kind, ErrorKind::NotFound | ErrorKind::IsADirectory);
            assert_eq!(error.is_unwritable(), !gone, "{kind}");
        }
    }
}
