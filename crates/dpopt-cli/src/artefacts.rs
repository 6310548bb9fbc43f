//! The output folder: checked before a run, filled at once after it.
//!
//! Files are written beside their places and renamed, so that no reader sees half of one, and a
//! run that fails leaves nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::CliError;

/// A folder that exists and can be written. Folders made for it go away with it unless files
/// were put in.
pub(crate) struct OutDir {
    path: PathBuf,
    made: Vec<PathBuf>,
}

impl OutDir {
    /// Creates the folder if need be and tries to write in it. Folders in the places of `files`
    /// are refused now, since they could not be replaced later.
    pub(crate) fn prepare(path: &Path, files: &[&str]) -> Result<Self, CliError> {
        let missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let out = Self {
            path: path.to_owned(),
            made: path
                .ancestors()
                .take_while(missing)
                .map(Path::to_owned)
                .collect(),
        };
        for place in files.iter().map(|name| path.join(name)) {
            if place.is_dir() {
                return Err(failed("--out", &place, io::ErrorKind::IsADirectory.into()));
            }
        }
        match fs::create_dir_all(path).and_then(|()| probe(path)) {
            Ok(()) => Ok(out),
            Err(source) => Err(failed("--out", path, source)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes all files, or none.
    pub(crate) fn write(
        mut self,
        files: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<(), CliError> {
        let mut pending = Vec::new();
        for (name, text) in files {
            pending.push(Pending::write(&self.path.join(name), &text, "--out")?);
        }
        for file in pending {
            file.commit("--out")?;
        }
        self.made.clear();
        Ok(())
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

/// Writes one file at once.
pub(crate) fn write_file(path: &Path, text: &str, flag: &'static str) -> Result<(), CliError> {
    Pending::write(path, text, flag)?.commit(flag)
}

/// A whole file under a temporary name, removed unless it is committed.
struct Pending {
    temporary: PathBuf,
    place: PathBuf,
    done: bool,
}

impl Pending {
    fn write(place: &Path, text: &str, flag: &'static str) -> Result<Self, CliError> {
        let pending = Self {
            temporary: temporary(place),
            place: place.to_owned(),
            done: false,
        };
        let written = File::create(&pending.temporary).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        match written {
            Ok(()) => Ok(pending),
            Err(source) => Err(failed(flag, place, source)),
        }
    }

    fn commit(mut self, flag: &'static str) -> Result<(), CliError> {
        fs::rename(&self.temporary, &self.place)
            .map_err(|source| failed(flag, &self.place, source))?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.done {
            // It may never have come to be.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Whether a file can be made in `folder`.
pub(crate) fn probe(folder: &Path) -> io::Result<()> {
    let path = temporary(&folder.join("probe"));
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)
}

fn temporary(place: &Path) -> PathBuf {
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    place.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}

fn failed(flag: &'static str, path: &Path, source: io::Error) -> CliError {
    CliError::Write {
        flag,
        path: path.to_owned(),
        source,
    }
}
