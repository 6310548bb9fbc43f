//! Files that a command leaves: places checked before anything is read, files written whole.
//!
//! A file is written beside its place under a name that nobody can guess, created new, and moved
//! there when it is whole. What is begun and not finished is removed, but for a signal that ends the process.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::CliError;
use crate::paths::end_of_links;

/// The files of a run, in the order in which they are written.
pub(crate) const MODEL: &str = "model.json";
pub(crate) const EVENTS: &str = "events.json";
pub(crate) const REPORT: &str = "report.html";
pub(crate) const FILES: [&str; 3] = [MODEL, EVENTS, REPORT];
/// What [`EVENTS`] was called in 0.1, and the format that tells it from a shared ledger.
const OLD_EVENTS: &str = "ledger.json";
const OLD_FORMAT: &str = "dpopt-ledger-1";

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Its owner: it holds records.
    Owner,
    /// Whoever the user's mask lets.
    Mask,
}

/// A folder that exists and can be written. Folders made for it go away with it unless files
/// were put in.
pub(crate) struct OutDir {
    path: PathBuf,
    force: bool,
    made: Vec<PathBuf>,
    written: Vec<&'static str>,
}

impl OutDir {
    /// Creates the folder if need be and tries to write in it. One that holds something is
    /// refused without `force`, and with it what stands in the places of [`FILES`] and could not
    /// be replaced.
    pub(crate) fn prepare(path: &Path, force: bool) -> Result<Self, CliError> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = path.ancestors().take_while(missing);
        let out = Self {
            made: made.map(Path::to_owned).collect(),
            path: path.to_owned(),
            force,
            written: Vec::new(),
        };
        for place in FILES.map(|name| path.join(name)) {
            let taken = fs::symlink_metadata(&place);
            if taken.is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
                return Err(failed("--out", &place, not_a_file(&place)));
            }
        }
        let failed = |source| failed("--out", path, source);
        fs::create_dir_all(path).map_err(failed)?;
        if !force && fs::read_dir(path).map_err(failed)?.next().is_some() {
            let problem = format!(
                "{} is not empty; with --force {} in it are replaced and nothing else",
                path.display(),
                FILES.join(", ")
            );
            return Err(CliError::flag("--out", problem));
        }
        probe(path).map_err(failed)?;
        Ok(out)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The files that were written.
    pub(crate) fn written(&self) -> &[&'static str] {
        &self.written
    }

    /// Where a file of the run goes.
    pub(crate) fn place(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes one file, in the place of what this run wrote there. The folder stays from then on.
    pub(crate) fn put(&mut self, name: &'static str, text: &str) -> Result<(), CliError> {
        let place = self.place(name);
        // Another run may have filled the folder since it was empty.
        let ours = self.written.contains(&name);
        let put = if self.force || ours { replace } else { create };
        put(&place, text.as_bytes(), Readers::Mask)
            .map_err(|source| failed("--out", &place, source))?;
        self.made.clear();
        if !ours {
            self.written.push(name);
        }
        Ok(())
    }

    /// Removes the file of events that a run of 0.1 left, which is of another run now. A shared
    /// ledger of that name stays.
    pub(crate) fn remove_old_events(&self) {
        let old = self.place(OLD_EVENTS);
        let Ok(text) = fs::read_to_string(&old) else {
            return;
        };
        let format = serde_json::from_str::<Value>(&text);
        if format.is_ok_and(|file| file["format"] == OLD_FORMAT && file["event"].is_object()) {
            // It is misleading and no more.
            let _ = fs::remove_file(old);
        }
    }
}

impl Drop for OutDir {
    fn drop(&mut self) {
        for folder in &self.made {
            // Only empty folders go; there is nobody to tell otherwise.
            let _ = fs::remove_dir(folder);
        }
    }
}

/// What stands where a file is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing, or a file that holds nothing.
    Free,
    /// A file that holds something.
    File,
    /// A device or a pipe, which is written to and never replaced.
    Device,
}

/// Checks that a file can be written at `path`; says what is there.
pub(crate) fn taken(path: &Path, flag: &'static str) -> Result<Taken, CliError> {
    let failed = |source| failed(flag, path, source);
    let holds = match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(found) if !found.is_file() => return Ok(Taken::Device),
        Ok(found) => found.len() > 0,
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) => return Err(failed(error)),
    };
    if path.as_os_str().is_empty() {
        return Err(failed(io::ErrorKind::NotFound.into()));
    }
    probe(folder_of(&end_of_links(path))).map_err(failed)?;
    Ok(if holds { Taken::File } else { Taken::Free })
}

/// As [`taken`], and refuses a file that holds something unless `force` is given.
pub(crate) fn may_write(path: &Path, flag: &'static str, force: bool) -> Result<Taken, CliError> {
    match taken(path, flag)? {
        Taken::File if !force => {
            let problem = format!("{} exists; --force replaces it", path.display());
            Err(CliError::flag(flag, problem))
        }
        taken => Ok(taken),
    }
}

/// Writes a file whole, or into a device.
pub(crate) fn write_file(
    path: &Path,
    bytes: &[u8],
    flag: &'static str,
    readers: Readers,
) -> Result<(), CliError> {
    write_by(replace, path, bytes, flag, readers)
}

/// As [`write_file`], and refuses where a file is by now.
pub(crate) fn write_new(
    path: &Path,
    bytes: &[u8],
    flag: &'static str,
    readers: Readers,
) -> Result<(), CliError> {
    write_by(create, path, bytes, flag, readers)
}

fn write_by(
    put: fn(&Path, &[u8], Readers) -> io::Result<()>,
    path: &Path,
    bytes: &[u8],
    flag: &'static str,
    readers: Readers,
) -> Result<(), CliError> {
    let written = match taken(path, flag)? {
        Taken::Device => File::options()
            .write(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes)),
        _ => put(&end_of_links(path), bytes, readers),
    };
    written.map_err(|source| failed(flag, path, source))
}

/// A file that is written piece by piece and is at its place when it is whole, or a device.
pub(crate) enum Growing {
    Device(File),
    /// Its place, and whether what is there is to be replaced.
    Draft(tempfile::NamedTempFile, PathBuf, bool),
}

impl Growing {
    pub(crate) fn at(
        path: &Path,
        flag: &'static str,
        readers: Readers,
        replaces: bool,
    ) -> Result<Self, CliError> {
        let begun = match taken(path, flag)? {
            Taken::Device => File::options().write(true).open(path).map(Self::Device),
            _ => {
                let place = end_of_links(path);
                let name = place.file_name().unwrap_or_default().to_string_lossy();
                let draft = draft(folder_of(&place), &name, readers);
                draft.map(|draft| Self::Draft(draft, place.clone(), replaces))
            }
        };
        begun.map_err(|source| failed(flag, path, source))
    }

    /// Moves it to its place, unless a file has come there meanwhile; dropped before that, it goes.
    pub(crate) fn finish(self) -> io::Result<()> {
        if let Self::Draft(draft, place, replaces) = self {
            draft.as_file().sync_all()?;
            if !replaces && is_filled(&place) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            draft.persist(place).map_err(|failure| failure.error)?;
        }
        Ok(())
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Device(file) => file.write(bytes),
            Self::Draft(draft, ..) => draft.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Device(file) => file.flush(),
            Self::Draft(draft, ..) => draft.flush(),
        }
    }
}

/// Whether there is a file with something in it.
fn is_filled(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.len() > 0)
}

/// A new file for a result that found no other place; its name.
pub(crate) fn rescue(text: &str) -> io::Result<PathBuf> {
    let mut file = tempfile::Builder::new()
        .prefix("dpopt-result-")
        .suffix(".json")
        .tempfile()?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    let (_, path) = file.keep().map_err(|failure| failure.error)?;
    Ok(path)
}

/// Puts a whole file at `place`; what was there is untouched if that fails.
fn replace(place: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let draft = written(place, bytes, readers)?;
    draft.persist(place).map_err(|failure| failure.error)?;
    Ok(())
}

/// Puts a whole file at `place`, where nothing is.
fn create(place: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let draft = written(place, bytes, readers)?;
    let Err(failure) = draft.persist_noclobber(place) else {
        return Ok(());
    };
    let there = fs::symlink_metadata(place).is_ok();
    if there || failure.error.kind() == io::ErrorKind::AlreadyExists {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    // Not all file systems can move a file without replacing another.
    failure
        .file
        .persist(place)
        .map_err(|failure| failure.error)?;
    Ok(())
}

/// A whole file that is on its way to `place`.
fn written(place: &Path, bytes: &[u8], readers: Readers) -> io::Result<tempfile::NamedTempFile> {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let mut draft = draft(folder_of(place), &name, readers)?;
    draft.write_all(bytes)?;
    draft.as_file().sync_all()?;
    Ok(draft)
}

/// A new file in `folder` that is removed unless it is moved.
fn draft(folder: &Path, name: &str, readers: Readers) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let prefix = format!(".{name}.");
    builder.prefix(&prefix).suffix(".tmp").rand_bytes(12);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = match readers {
            Readers::Owner => 0o600,
            Readers::Mask => 0o666,
        };
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = readers;
    builder.tempfile_in(folder).map_err(plain)
}

/// The error of the system, without the name of a draft, which tells nobody anything.
fn plain(error: io::Error) -> io::Error {
    let inner = error.get_ref().and_then(std::error::Error::source);
    let inner = inner.and_then(|inner| inner.downcast_ref::<io::Error>());
    let code = inner.and_then(io::Error::raw_os_error);
    code.map_or(error, io::Error::from_raw_os_error)
}

/// Whether a file can be made in `folder`.
pub(crate) fn probe(folder: &Path) -> io::Result<()> {
    draft(folder, "probe", Readers::Owner)?.close()
}

/// The folder that a file lies in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Why a file can't be put at a place that is taken.
pub(crate) fn not_a_file(place: &Path) -> io::Error {
    if place.is_dir() {
        io::ErrorKind::IsADirectory.into()
    } else {
        io::Error::other("not an ordinary file")
    }
}

/// An output that can't be written.
pub(crate) fn failed(flag: &'static str, path: &Path, source: io::Error) -> CliError {
    CliError::Write {
        flag,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_folder_that_holds_something_needs_force_and_loses_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("o");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("notes.txt"), "mine").unwrap();
        fs::write(out.join("ledger.json"), "{\"ledger\":1}\n").unwrap();
        let refused = OutDir::prepare(&out, false).err().unwrap().to_string();
        assert!(refused.contains("--force"), "{refused}");
        let mut dir = OutDir::prepare(&out, true).unwrap();
        dir.put(MODEL, "{}").unwrap();
        dir.remove_old_events();
        assert_eq!(names(&out), ["ledger.json", "model.json", "notes.txt"]);
        let old = "{\"format\": \"dpopt-ledger-1\", \"event\": {}}";
        fs::write(out.join("ledger.json"), old).unwrap();
        dir.remove_old_events();
        assert_eq!(names(&out), ["model.json", "notes.txt"]);
    }

    #[test]
    fn a_folder_that_was_made_goes_unless_it_got_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("a/b");
        drop(OutDir::prepare(&out, false).unwrap());
        assert!(names(folder.path()).is_empty());
        let mut dir = OutDir::prepare(&out, false).unwrap();
        dir.put(MODEL, "{}").unwrap();
        drop(dir);
        assert_eq!(names(&out), ["model.json"]);
    }

    #[test]
    fn a_file_that_came_meanwhile_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("o");
        let mut dir = OutDir::prepare(&out, false).unwrap();
        fs::write(out.join(MODEL), "another run's").unwrap();
        let refused = dir.put(MODEL, "{}").unwrap_err().to_string();
        assert!(refused.contains("model.json"), "{refused}");
        dir.put(EVENTS, "{}").unwrap();
        assert_eq!(
            fs::read_to_string(out.join(MODEL)).unwrap(),
            "another run's"
        );
        assert_eq!(names(&out), ["events.json", "model.json"]);
    }

    #[cfg(unix)]
    #[test]
    fn drafts_are_private_and_links_stay_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real"), "").unwrap();
        symlink("real", at("link")).unwrap();
        write_file(&at("link"), b"text", "--out", Readers::Owner).unwrap();
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(at("real")).unwrap(), "text");
        let mode = fs::metadata(at("real")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["link", "real"]);
    }

    #[test]
    fn a_rescued_model_is_whole() {
        let path = rescue("{\"a\": 1}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\": 1}\n");
        fs::remove_file(path).unwrap();
    }
}
