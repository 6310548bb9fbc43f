//! A stamp that tells whether an open file was changed.

use std::fs::File;
use std::io;
use std::time::SystemTime;

/// Length and times of a file. Two stamps of one open file that differ say that it was changed; equal ones don't say that it
/// was not: the clock of a file system is coarse, and who may write to a file may set its time of modification back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) length: u64,
    modified: Option<SystemTime>,
    /// The time of the last change of the file or of its metadata, which can't be set by hand.
    changed: Option<(i64, i64)>,
}

impl Stamp {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self {
            length: metadata.len(),
            modified: metadata.modified().ok(),
            changed: changed(&metadata),
        })
    }
}

#[cfg(unix)]
fn changed(metadata: &std::fs::Metadata) -> Option<(i64, i64)> {
    use std::os::unix::fs::MetadataExt;
    Some((metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(not(unix))]
fn changed(_: &std::fs::Metadata) -> Option<(i64, i64)> {
    None
}
