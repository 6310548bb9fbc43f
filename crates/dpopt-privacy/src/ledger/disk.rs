//! Where a ledger is kept: the few things that it asks of a file system.
//!
//! The seam through which tests lose power between a write and its sync, or run out of room.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A place for one ledger.
pub(super) trait Disk: Debug + Send + Sync {
    /// Makes the file with these bytes, whole and synced, or not at all; `AlreadyExists` where
    /// there is something.
    fn create(&self, bytes: &[u8]) -> io::Result<()>;

    /// Opens the file; no other process has it open for appending until this is dropped.
    fn open(&self, access: Access) -> io::Result<Box<dyn OpenFile>>;
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Other readers may be there.
    Read,
    /// Nobody else is there.
    Append,
}

/// A file that is open and locked.
pub(super) trait OpenFile {
    /// All bytes from `from` on.
    fn read(&mut self, from: u64) -> io::Result<Vec<u8>>;
    fn truncate(&mut self, len: u64) -> io::Result<()>;
    /// Writes at the end.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Returns when everything is on the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// A file of the operating system.
#[derive(Debug)]
pub(super) struct FileDisk {
    path: PathBuf,
}

impl FileDisk {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }
}

impl Disk for FileDisk {
    fn create(&self, bytes: &[u8]) -> io::Result<()> {
        let draft = Draft::write(&self.path, bytes)?;
        match std::fs::hard_link(&draft.0, &self.path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(error),
            // Not all file systems have links. Without one a crash may leave half a first line,
            // which is refused when it is read.
            Err(_) => {
                let mut file = OpenOptions::new()
                    .write(true)
                    .create_new(true)
                    .open(&self.path)?;
                file.lock()?;
                file.write_all(bytes)?;
                file.sync_all()?;
            }
        }
        sync_folder_of(&self.path)
    }

    fn open(&self, access: Access) -> io::Result<Box<dyn OpenFile>> {
        // Opening a folder succeeds on some systems and fails in odd ways on others.
        if std::fs::metadata(&self.path)?.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        // A file that is replaced while this waits for its lock would be written to in vain.
        for _ in 0..8 {
            let append = access == Access::Append;
            let file = OpenOptions::new()
                .read(true)
                .write(append)
                .open(&self.path)?;
            if append {
                file.lock()?;
            } else {
                file.lock_shared()?;
            }
            if is_at(&file, &self.path)? {
                return Ok(Box::new(file));
            }
        }
        Err(io::Error::other("the file is replaced all the time"))
    }
}

impl OpenFile for File {
    fn read(&mut self, from: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.seek(SeekFrom::Start(from))?;
        self.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.seek(SeekFrom::End(0))?;
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}

/// Puts `bytes` in the place of the file at `path`: all of them or none, on the disk when this
/// returns.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = Draft::write(path, bytes)?;
    std::fs::rename(&draft.0, path)?;
    sync_folder_of(path)
}

/// A synced file beside its place, removed when this is dropped (unless it was renamed).
struct Draft(PathBuf);

impl Draft {
    fn write(place: &Path, bytes: &[u8]) -> io::Result<Self> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = place.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.{number}.tmp", std::process::id()));
        let draft = Self(place.with_file_name(hidden));
        let mut file = File::create(&draft.0)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It may have been renamed, or never have come to be.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Whether the open file is still the one at the path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (open, there) = (file.metadata()?, std::fs::metadata(path)?);
    Ok(open.dev() == there.dev() && open.ino() == there.ino())
}

/// Other systems don't let an open file be replaced.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // Only some systems can sync a folder; where it can't be opened there is nothing to do.
    match File::open(folder) {
        Ok(folder) => folder.sync_all(),
        Err(_) => Ok(()),
    }
}
