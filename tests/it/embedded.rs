//! The embedded server: who may use it, what it keeps, and how it ends.

mod owner;
mod start;

use std::path::Path;
use std::process::Command;

use doorbell::embedded::{Builder, Server};

/// Nothing here is about the disk, so nothing waits for it.
fn builder() -> Builder {
    Server::builder().fast_and_fragile()
}

/// The process of the server that uses this directory.
fn pid(data_dir: &Path) -> String {
    let text = std::fs::read_to_string(data_dir.join("data/postmaster.pid")).unwrap();
    text.lines().next().unwrap().to_owned()
}

/// Is there such a process? One that is dead and not yet reaped does not count.
fn runs(pid: &str) -> bool {
    let ps = Command::new("ps").args(["-o", "stat=", "-p", pid]).output().unwrap();
    let state = String::from_utf8(ps.stdout).unwrap();
    !state.trim().is_empty() && !state.starts_with('Z')
}

fn signal(signal: &str, pid: &str) {
    assert!(
        Command::new("kill")
            .args(["-s", signal, "--", pid])
            .status()
            .unwrap()
            .success()
    );
}
