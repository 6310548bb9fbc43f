//! The paths of a command: which it reads, which it writes, and that no two of them are one file
//! where that would lose something.
//!
//! Every command that writes a file names all its paths here, with their flags, before it reads
//! or charges anything.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::CliError;

/// Standard input, where a file of records is asked for.
pub(crate) const STDIN: &str = "-";

/// All paths of a command.
#[derive(Debug, Default)]
pub(crate) struct Paths(Vec<Named>);

#[derive(Debug)]
struct Named {
    flag: &'static str,
    path: PathBuf,
    writes: bool,
    identity: Identity,
}

/// Reads and writes that may meet: what is written is what was read, one run later.
const MAY_MEET: [(&str, &str); 1] = [("--resume", "--checkpoint")];

impl Paths {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A file that the command reads, if it is given.
    pub(crate) fn reads(self, flag: &'static str, path: Option<&Path>) -> Self {
        self.with(flag, path.filter(|path| *path != Path::new(STDIN)), false)
    }

    /// A file or folder that the command writes, if it is given.
    pub(crate) fn writes(self, flag: &'static str, path: Option<&Path>) -> Self {
        self.with(flag, path, true)
    }

    fn with(mut self, flag: &'static str, path: Option<&Path>, writes: bool) -> Self {
        self.0.extend(path.map(|path| Named {
            flag,
            path: path.to_owned(),
            writes,
            identity: Identity::of(path),
        }));
        self
    }

    /// Refuses a path that is written and is also another path of the command, by whatever name.
    pub(crate) fn check(&self) -> Result<(), CliError> {
        for (i, one) in self.0.iter().enumerate() {
            for other in self.0.iter().skip(i + 1) {
                // A device has one identity and any number of uses.
                let same = one.identity == other.identity && one.identity != Identity::Device;
                let may_meet = MAY_MEET.contains(&(one.flag, other.flag));
                if same && !may_meet && (one.writes || other.writes) {
                    let (written, also) = if other.writes {
                        (other, one)
                    } else {
                        (one, other)
                    };
                    return Err(CliError::flag(written.flag, collision(written, also)));
                }
            }
        }
        Ok(())
    }
}

fn collision(written: &Named, also: &Named) -> String {
    let (path, flag) = (written.path.display(), also.flag);
    if written.path == also.path {
        format!("{path} is the file of {flag} too, which would be overwritten")
    } else {
        let other = also.path.display();
        format!("{path} is {other}, the file of {flag}, which would be overwritten")
    }
}

/// Whether two paths lead to one file.
pub(crate) fn same_file(a: &Path, b: &Path) -> bool {
    let identity = Identity::of(a);
    identity != Identity::Device && identity == Identity::of(b)
}

/// What a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Identity {
    /// A file or folder that is there.
    There(Place),
    /// The deepest folder that is there, and the names from it on.
    Missing(Place, Vec<OsString>),
    /// A device, a pipe, a socket: nothing that is replaced.
    Device,
}

/// Device and inode; where a system has none of these, the name that links are resolved in.
#[cfg(unix)]
type Place = (u64, u64);
#[cfg(not(unix))]
type Place = PathBuf;

#[cfg(unix)]
fn place(_: &Path, found: &fs::Metadata) -> Place {
    use std::os::unix::fs::MetadataExt;
    (found.dev(), found.ino())
}

#[cfg(not(unix))]
fn place(path: &Path, _: &fs::Metadata) -> Place {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Links that are followed one after the other before a path counts as missing.
const LINKS: usize = 40;

/// Where a path leads, all links at its end followed: one to nothing leads to the file that would be
/// made there.
pub(crate) fn end_of_links(path: &Path) -> PathBuf {
    // An empty path is an error wherever it is opened.
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for _ in 0..LINKS {
        let Ok(target) = fs::read_link(&path) else {
            break;
        };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    path
}

impl Identity {
    fn of(path: &Path) -> Self {
        let path = end_of_links(path);
        if let Ok(found) = fs::metadata(&path) {
            return if found.is_file() || found.is_dir() {
                Self::There(place(&path, &found))
            } else {
                Self::Device
            };
        }
        let mut names = Vec::new();
        let mut rest = path.components();
        while let Some(last) = rest.next_back() {
            match last {
                Component::Normal(name) => names.push(folded(name.to_owned())),
                Component::ParentDir => {
                    rest.next_back();
                }
                _ => {}
            }
            let folder = rest.as_path();
            if let Ok(found) = fs::metadata(folder) {
                names.reverse();
                return Self::Missing(place(folder, &found), names);
            }
        }
        Self::Device
    }
}

/// Some file systems don't tell large letters from small ones.
fn folded(name: OsString) -> OsString {
    if cfg!(any(windows, target_os = "macos")) {
        name.to_ascii_lowercase()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_by_other_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "1").unwrap();
        fs::write(at("b"), "1").unwrap();
        fs::create_dir(at("d")).unwrap();
        fs::hard_link(at("a"), at("hard")).unwrap();
        assert!(same_file(&at("a"), &at("d/../a")));
        assert!(same_file(&at("a"), &at("hard")));
        assert!(!same_file(&at("a"), &at("b")), "equal content");
        // Files that are not there yet.
        assert!(same_file(&at("d/new"), &at("./d/new")));
        assert!(same_file(&at("no/new"), &at("no/../no/new")));
        assert!(!same_file(&at("no/new"), &at("no/newer")));
        assert!(!same_file(&at("d/new"), &at("new")));
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_where_they_lead() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("a"), "1").unwrap();
        fs::create_dir(at("d")).unwrap();
        symlink("a", at("link")).unwrap();
        symlink("link", at("link2")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        symlink("d", at("folder")).unwrap();
        symlink("loop", at("loop")).unwrap();
        assert!(same_file(&at("a"), &at("link2")));
        assert!(same_file(&at("nothing"), &at("dangling")));
        assert!(same_file(&at("d/new"), &at("folder/new")));
        assert!(!same_file(&at("loop"), &at("a")));
        let null = Path::new("/dev/null");
        assert!(!same_file(null, null), "devices never collide");
    }

    #[test]
    fn what_is_read_may_be_read_twice_and_written_never() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&a, "1").unwrap();
        let both = |paths: Paths| paths.check();
        let (a, b) = (Some(a.as_path()), Some(b.as_path()));
        assert!(both(Paths::new().reads("--data", a).reads("--test", a)).is_ok());
        assert!(both(Paths::new().reads("--data", a).writes("--out", b)).is_ok());
        assert!(both(Paths::new().reads("--resume", a).writes("--checkpoint", a)).is_ok());
        for wrong in [
            Paths::new().reads("--data", a).writes("--out", a),
            Paths::new().writes("--ledger", b).writes("--out", b),
            Paths::new().writes("--ledger", a).reads("--data", a),
        ] {
            let message = both(wrong).unwrap_err().to_string();
            assert!(message.contains("overwritten"), "{message}");
        }
        assert!(both(Paths::new().reads("--data", None).writes("--out", None)).is_ok());
    }
}
