//! Helpers for the tests of the rules: folders that vanish, and problems as text.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::tree::Problem;

/// A fresh folder in the system's temporary directory, removed on drop.
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes one that no other test uses.
    pub(super) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dpopt-xtask-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and the folders above it.
    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("writable");
        fs::write(path, text).expect("writable");
    }

    /// Removes a file.
    pub(super) fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).expect("the file exists");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder left behind is not worth a panic in a test that already failed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The problems as they are printed.
pub(super) fn reasons(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}
