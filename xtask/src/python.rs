//! Virtual environments, and the Python package: built, put beside its extension and tested.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{cargo, succeed, target};

const PACKAGE: &str = "crates/dpopt-python";
/// The tools that ours are timed beside.
const PEERS: &str = "benches/peers/requirements.txt";
/// Where an environment keeps what it was made from.
const MADE_FROM: &str = "requirements.txt";
/// As cargo names the extension, and as an interpreter looks for it.
const BUILT: &str = if cfg!(windows) {
    "_dpopt.dll"
} else if cfg!(target_os = "macos") {
    "lib_dpopt.dylib"
} else {
    "lib_dpopt.so"
};
const FOUND: &str = if cfg!(windows) {
    "_dpopt.pyd"
} else {
    "_dpopt.abi3.so"
};

/// Pinned packages, the folder of their environment below the target folder, and its tests.
struct Form {
    requirements: &'static [&'static str],
    folder: &'static str,
    tests: &'static [&'static str],
}

const SHORT: Form = Form {
    requirements: &["requirements.txt"],
    folder: "python",
    tests: &["tests"],
};
const LONG: Form = Form {
    requirements: &["requirements.txt", "requirements-torch.txt"],
    folder: "python-torch",
    tests: &["tests", "tests_long"],
};

/// How the extension is built, and the folder below the target folder where it is then.
struct Build {
    words: &'static [&'static str],
    folder: &'static str,
}

const ALONE: Build = Build {
    words: &["--profile", "plain", "-p", "dpopt-python"],
    folder: "plain",
};
/// After the tests of the workspace only the extension is missing. Built alone it has other
/// features, and everything would be built again.
const AFTER_THE_TESTS: Build = Build {
    words: &[
        "--profile",
        "test",
        "--workspace",
        "--all-features",
        "--lib",
        "--tests",
    ],
    folder: "debug",
};

/// Tests the package. Without an interpreter it says so and passes: nothing else here needs one.
pub(crate) fn test(root: &Path) -> Result<(), String> {
    short(root, &ALONE)
}

/// The same where the tests of the workspace are built.
pub(crate) fn test_after_the_tests(root: &Path) -> Result<(), String> {
    short(root, &AFTER_THE_TESTS)
}

fn short(root: &Path, build: &Build) -> Result<(), String> {
    let target = target(root);
    let Some(python) = environment(root, &target, &SHORT)? else {
        println!("python: NOT TESTED, there is no python3 here");
        return Ok(());
    };
    tested(root, &target, &python, &SHORT, build)?;
    println!(
        "python: dpopt.torch is NOT TESTED here, nor are the stubs: `cargo xtask python --torch` does, and installs gigabytes"
    );
    Ok(())
}

/// The same with the tests of `dpopt.torch` and of the stubs, in a new or a given environment.
pub(crate) fn test_with_torch(root: &Path, venv: Option<&Path>) -> Result<(), String> {
    let target = target(root);
    let python = match venv {
        Some(venv) => interpreter(venv)?,
        None => environment(root, &target, &LONG)?.ok_or("this needs python3")?,
    };
    tested(root, &target, &python, &LONG, &ALONE)
}

fn tested(
    root: &Path,
    target: &Path,
    python: &Path,
    form: &Form,
    build: &Build,
) -> Result<(), String> {
    succeed(
        Command::new(cargo())
            .args(["build", "--quiet"])
            .args(build.words)
            .current_dir(root),
        "the extension could not be built",
    )?;
    let stage = target.join("python-package");
    let _ = std::fs::remove_dir_all(&stage);
    let package = stage.join("dpopt");
    let failed = |error: std::io::Error| format!("{}: {error}", package.display());
    std::fs::create_dir_all(&package).map_err(failed)?;
    let sources = root.join(PACKAGE).join("python/dpopt");
    for entry in std::fs::read_dir(&sources).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.path().is_file() {
            std::fs::copy(entry.path(), package.join(entry.file_name())).map_err(failed)?;
        }
    }
    std::fs::copy(target.join(build.folder).join(BUILT), package.join(FOUND)).map_err(failed)?;
    succeed(
        Command::new(python)
            .args(["-m", "pytest", "-q", "-p", "no:cacheprovider"])
            .args(
                form.tests
                    .iter()
                    .map(|tests| root.join(PACKAGE).join(tests)),
            )
            .env("PYTHONPATH", &stage)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .current_dir(&stage),
        "a test of the Python package failed",
    )
}

/// Builds a wheel for the stable interface.
pub(crate) fn wheel(root: &Path) -> Result<(), String> {
    let target = target(root);
    let python = environment(root, &target, &SHORT)?.ok_or("a wheel needs python3")?;
    let wheels = target.join("wheels");
    succeed(
        Command::new(python)
            .args(["-m", "maturin", "build", "--release", "--out"])
            .arg(&wheels)
            .current_dir(root.join(PACKAGE))
            .env_remove("PYO3_NO_PYTHON"),
        "the wheel could not be built",
    )
}

/// The interpreter of a virtual environment, from any folder.
pub(crate) fn interpreter(venv: &Path) -> Result<PathBuf, String> {
    let inside = match cfg!(windows) {
        true => "Scripts/python.exe",
        false => "bin/python",
    };
    let path = std::path::absolute(venv.join(inside)).map_err(|error| error.to_string())?;
    match path.is_file() {
        true => Ok(path),
        false => Err(format!("no Python interpreter at {}", path.display())),
    }
}

/// The interpreter of an environment with the pinned packages, which is made if it is missing;
/// `None` without python3.
fn environment(root: &Path, target: &Path, form: &Form) -> Result<Option<PathBuf>, String> {
    let venv = target.join(form.folder);
    let pinned: Vec<PathBuf> = form
        .requirements
        .iter()
        .map(|file| root.join(PACKAGE).join(file))
        .collect();
    let text = read(&pinned)?;
    if is_made(&venv, &text) {
        return interpreter(&venv).map(Some);
    }
    let _ = std::fs::remove_dir_all(&venv);
    make(&venv, &pinned, &text)
}

/// Makes an environment with the tools of `bench --peers`. A folder that this did not make is left
/// as it is.
pub(crate) fn peers_setup(root: &Path, venv: &Path) -> Result<(), String> {
    let pinned = vec![root.join(PEERS)];
    let text = read(&pinned)?;
    if is_made(venv, &text) {
        println!("{} is there already", venv.display());
        return Ok(());
    }
    if venv.join(MADE_FROM).is_file() && venv.join("pyvenv.cfg").is_file() {
        println!(
            "{} is of other versions or was not finished, and is made anew",
            venv.display()
        );
        std::fs::remove_dir_all(venv).map_err(|error| format!("{}: {error}", venv.display()))?;
    } else if venv.exists() {
        return Err(format!(
            "{} exists, and is not what this would make: name a folder that does not",
            venv.display()
        ));
    }
    make(venv, &pinned, &text)?.ok_or("this needs python3")?;
    println!("made {}: cargo xtask bench --peers {0}", venv.display());
    Ok(())
}

fn read(pinned: &[PathBuf]) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    for file in pinned {
        text.extend(std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?);
    }
    Ok(text)
}

/// Whether the environment has these packages: it keeps what it was made from.
fn is_made(venv: &Path, text: &[u8]) -> bool {
    std::fs::read(venv.join(MADE_FROM)).is_ok_and(|made| made == text)
}

fn make(venv: &Path, pinned: &[PathBuf], text: &[u8]) -> Result<Option<PathBuf>, String> {
    let made = Command::new("python3")
        .args(["-m", "venv"])
        .arg(venv)
        .status();
    match made {
        Ok(status) if status.success() => {}
        Ok(status) => {
            return Err(format!(
                "python3 -m venv {} failed: {status}",
                venv.display()
            ));
        }
        Err(_) => return Ok(None),
    }
    // Begun by this, and to be made anew where it is not finished.
    let begun = venv.join(MADE_FROM);
    std::fs::write(&begun, "").map_err(|error| format!("{}: {error}", begun.display()))?;
    let python = interpreter(venv)?;
    let files = pinned
        .iter()
        .flat_map(|file| [std::ffi::OsStr::new("-r"), file.as_os_str()]);
    succeed(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(files),
        "the pinned packages could not be installed",
    )?;
    let done = venv.join(MADE_FROM);
    std::fs::write(&done, text).map_err(|error| format!("{}: {error}", done.display()))?;
    Ok(Some(python))
}

#[cfg(test)]
mod tests {
    use super::peers_setup;
    use std::path::Path;

    #[test]
    fn a_folder_of_someone_elses_is_left_alone() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let taken = root.join("xtask");
        let error = peers_setup(&root, &taken).expect_err("it is taken");
        assert!(
            error.contains("xtask") && error.contains("exists"),
            "{error}"
        );
        assert!(taken.join("src").is_dir());
    }
}
