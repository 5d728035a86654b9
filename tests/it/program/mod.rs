//! The program, end to end.

mod bench;
mod bench_enqueue;
mod commands;
mod demo;
mod doctor;
mod embedded;
#[cfg(target_os = "linux")]
mod large;
mod log;
mod migrate;
mod refusals;
mod rescue;
mod run;
mod stop;
mod versions;

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::TestDb;

/// A directory with a configuration file.
struct Home {
    dir: TempDir,
}

impl Home {
    /// The file names this database, and has these tables besides.
    fn new(db: &TestDb, tables: &str) -> Self {
        let home = Home {
            dir: tempfile::tempdir().unwrap(),
        };
        home.configure(&format!("[database]\nurl = {:?}\n{tables}", db.url()));
        home
    }

    fn configure(&self, text: &str) {
        fs::write(self.config(), text).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.path("doorbell.toml")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A channel `ops` whose sender is this shell script, in this directory.
    fn with_script(db: &TestDb, script: &str, settings: &str) -> Self {
        let home = Home::new(db, "");
        let script = format!("cd {} && {script}", home.dir.path().display());
        home.configure(&format!(
            "[database]\nurl = {:?}\n[channels.ops]\nsender = 'command'\ncommand = ['sh', '-c', {script:?}]\n{settings}",
            db.url()
        ));
        home
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
