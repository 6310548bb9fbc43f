//! Says what is missing where MPI is.

use std::process::{Command, Stdio};

#[expect(
    clippy::disallowed_methods,
    reason = "cargo tells a build by the environment"
)]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MPICC");
    let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let mut command = Command::new(&compiler);
    command
        .arg("-show")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    if !command.status().is_ok_and(|status| status.success()) {
        println!(
            "cargo::error=dpopt-mpi needs MPI, and `{compiler}` does not run: on Debian, `apt-get install libopenmpi-dev openmpi-bin libclang-dev`"
        );
    }
}
