//! Where a ledger is kept: the few things that it asks of a file system.
//!
//! The seam through which tests lose power between a write and its sync, or run out of room.

use std::ffi::OsString;
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A place for one ledger.
pub(super) trait Disk: Debug + Send + Sync {
    /// Makes the file with these bytes, whole and synced, or not at all; `AlreadyExists` where
    /// there is something.
    fn create(&self, bytes: &[u8]) -> io::Result<()>;

    /// Opens the file; no other process has it open for appending until this is dropped.
    fn open(&self, access: Access) -> io::Result<Box<dyn OpenFile>>;

    /// Syncs the folder, so that the file is found again under its name.
    fn sync_place(&self) -> io::Result<()>;

    /// Starts the pulse of a run: an empty file beside the ledger, named after the run's `nonce`
    /// and locked until what this returns is dropped, at the latest when the process ends.
    fn start_pulse(&self, nonce: &str) -> io::Result<Box<dyn Pulse>>;

    /// Whether the pulse is there and no process holds it. Where that can't be told it is not.
    fn pulse_stopped(&self, nonce: &str) -> bool;

    /// Removes a pulse. On `Ok` it is gone for good, also after a failure of power.
    fn remove_pulse(&self, nonce: &str) -> io::Result<()>;

    /// The nonces of all pulses beside the ledger.
    fn pulses(&self) -> io::Result<Vec<String>>;
}

/// A pulse that beats until this is dropped.
pub(super) trait Pulse: Debug + Send + Sync {}

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

impl FileDisk {
    /// Folder and name of the file itself, through links.
    fn place(&self) -> io::Result<(PathBuf, OsString)> {
        let path = std::fs::canonicalize(&self.path)?;
        let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
        Ok((path.with_file_name(""), name.to_owned()))
    }

    fn pulse(&self, nonce: &str) -> io::Result<PathBuf> {
        let (folder, name) = self.place()?;
        let (before, after) = around_nonce(&name);
        let mut own = before;
        own.push(nonce);
        own.push(after);
        Ok(folder.join(own))
    }
}

/// What stands before and after the nonce in the name of a pulse.
fn around_nonce(ledger: &OsString) -> (OsString, &'static str) {
    let mut before = OsString::from(".");
    before.push(ledger);
    before.push(".");
    (before, ".run")
}

impl Pulse for File {}

impl Disk for FileDisk {
    fn create(&self, bytes: &[u8]) -> io::Result<()> {
        match draft(&self.path, bytes)?.persist_noclobber(&self.path) {
            Ok(_) => {}
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(error.error);
            }
            // Not all file systems have links. Without one a crash may leave half a first line,
            // which is refused when it is read.
            Err(_) => {
                let mut file = new_file(&self.path)?;
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

    fn sync_place(&self) -> io::Result<()> {
        let (folder, name) = self.place()?;
        sync_folder_of(&folder.join(name))
    }

    fn start_pulse(&self, nonce: &str) -> io::Result<Box<dyn Pulse>> {
        let path = self.pulse(nonce)?;
        let file = new_file(&path)?;
        if let Err(error) = file.try_lock() {
            // A file system without locks; there is nobody to tell if it can't be removed.
            let _ = std::fs::remove_file(&path);
            return Err(error.into());
        }
        Ok(Box::new(file))
    }

    fn pulse_stopped(&self, nonce: &str) -> bool {
        let file = self.pulse(nonce).and_then(File::open);
        // Shared, so that several may look at a time.
        file.is_ok_and(|file| file.try_lock_shared().is_ok())
    }

    fn remove_pulse(&self, nonce: &str) -> io::Result<()> {
        let path = self.pulse(nonce)?;
        std::fs::remove_file(&path)?;
        File::open(path.with_file_name(""))?.sync_all()
    }

    fn pulses(&self) -> io::Result<Vec<String>> {
        let (folder, name) = self.place()?;
        let (before, after) = around_nonce(&name);
        let (before, mut found) = (before.to_string_lossy().into_owned(), Vec::new());
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            let nonce = name.strip_prefix(&before);
            let nonce = nonce.and_then(|rest| rest.strip_suffix(after));
            found.extend(nonce.filter(|nonce| is_nonce(nonce)).map(str::to_owned));
        }
        Ok(found)
    }
}

/// Whether a text is one of the names that runs have.
pub(super) fn is_nonce(text: &str) -> bool {
    let hexadecimal = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 32 && text.bytes().all(hexadecimal)
}

/// A file that was not there before, for its owner only.
fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
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
    let draft = draft(path, bytes)?;
    draft.persist(path).map_err(|error| error.error)?;
    sync_folder_of(path)
}

/// A synced file beside its place, for its owner only, under a name that was not there before;
/// removed when it is dropped without being moved to its place.
fn draft(place: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let name = place.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".");
    let mut draft = tempfile::Builder::new()
        .prefix(&hidden)
        .suffix(".tmp")
        .rand_bytes(12)
        .tempfile_in(folder_of(place))?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
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
    // Only some systems can sync a folder; where it can't be opened there is nothing to do.
    match File::open(folder_of(path)) {
        Ok(folder) => folder.sync_all(),
        Err(_) => Ok(()),
    }
}
