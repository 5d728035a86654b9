//! Which of the installed PostgreSQL servers to run.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::Error;

/// The oldest major version that will do.
const OLDEST: u32 = 14;

/// Names the directory to use, before any search.
const VARIABLE: &str = "DOORBELL_PG_BIN";

/// Where packages put the server's programs, besides `PATH`. `.ci/setup` looks in the same places.
const PLACES: [&str; 9] = [
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

/// A directory with `postgres` and `initdb`, and their major version.
#[derive(Debug)]
pub(super) struct Binaries {
    pub(super) dir: PathBuf,
    pub(super) major: u32,
}

impl Binaries {
    /// The directory that the caller or the environment names; otherwise, of all that are installed, the one of the
    /// `wanted` major version or else the newest.
    pub(super) fn find(named: Option<&Path>, wanted: Option<u32>) -> Result<Self, Error> {
        let named = named
            .map(Path::to_owned)
            .or_else(|| env::var_os(VARIABLE).map(PathBuf::from));
        let found = match &named {
            Some(dir) => Self::probe(dir).ok_or_else(|| {
                Error::server(format!("no PostgreSQL server (postgres, initdb) in {}", dir.display()))
            })?,
            None => Self::choose(installed().iter().filter_map(|dir| Self::probe(dir)), wanted)
                .ok_or_else(|| Error::server(nothing_found()))?,
        };
        found.new_enough()
    }

    fn new_enough(self) -> Result<Self, Error> {
        let Binaries { dir, major } = &self;
        if *major >= OLDEST {
            return Ok(self);
        }
        Err(Error::server(format!(
            "PostgreSQL {major} in {} is too old: {OLDEST} or later is needed ({VARIABLE} names another directory)",
            dir.display()
        )))
    }

    fn choose(found: impl Iterator<Item = Self>, wanted: Option<u32>) -> Option<Self> {
        // The least, not the greatest, so that of equals the first wins: the one on PATH.
        found.min_by_key(|binaries| (Some(binaries.major) != wanted, Reverse(binaries.major)))
    }

    /// What is in this directory, if it is a server at all.
    fn probe(dir: &Path) -> Option<Self> {
        // Behind links, so that the programs beside it (pg_ctl, pgbench) are there too.
        let postgres = fs::canonicalize(dir.join("postgres")).ok()?;
        let dir = postgres.parent()?.to_owned();
        let version = output(Command::new(&postgres).arg("--version"))?;
        let major = major(version.split_whitespace().nth(2)?)?;
        dir.join("initdb").exists().then_some(Binaries { dir, major })
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }
}

/// `15` of `15.14`, `18` of `18beta1`.
pub(super) fn major(version: &str) -> Option<u32> {
    let end = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..end].parse().ok()
}

/// Every directory worth a look, in order.
fn installed() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = env::split_paths(&path).filter(|dir| dir.is_absolute()).collect();
    dirs.extend(output(Command::new("pg_config").arg("--bindir")).map(|line| PathBuf::from(line.trim())));
    dirs.extend(PLACES.iter().flat_map(|place| expand(place)));
    dirs
}

/// The directories that a pattern with at most one `*` stands for.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else {
        return vec![PathBuf::from(pattern)];
    };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("", before));
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let matching = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    matching
        .map(|entry| entry.path().join(after.trim_start_matches('/')))
        .collect()
}

/// Standard output of a program that succeeded.
fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

fn nothing_found() -> String {
    format!(
        "no PostgreSQL server (postgres, initdb; {OLDEST} or later) found. Looked in {VARIABLE}, PATH, pg_config and {}. \
         Install it with `apt-get install postgresql` (Debian, Ubuntu), `dnf install postgresql-server` (Fedora) or \
         `brew install postgresql@17` (macOS)",
        PLACES.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(majors: &[u32]) -> impl Iterator<Item = Binaries> {
        majors.iter().enumerate().map(|(place, &major)| Binaries {
            dir: PathBuf::from(place.to_string()),
            major,
        })
    }

    #[test]
    fn the_version_of_the_data_wins_then_the_newest_then_the_first_place() {
        let choose = |majors: &[u32], wanted| {
            let chosen = Binaries::choose(installed(majors), wanted).unwrap();
            (chosen.major, chosen.dir.to_string_lossy().into_owned())
        };
        assert_eq!(choose(&[15, 18, 16], None), (18, "1".to_owned()));
        assert_eq!(choose(&[15, 18, 16], Some(16)), (16, "2".to_owned()));
        assert_eq!(choose(&[15, 18, 16], Some(14)), (18, "1".to_owned()));
        assert_eq!(choose(&[15, 15], None), (15, "0".to_owned()));
        assert!(Binaries::choose(installed(&[]), None).is_none());
    }

    #[test]
    fn versions_of_releases_and_betas_are_read() {
        assert_eq!(
            [major("15.14"), major("18beta1"), major("14")],
            [Some(15), Some(18), Some(14)]
        );
        assert_eq!(major("devel"), None);
    }

    #[test]
    fn a_search_that_finds_nothing_says_where_it_looked_and_what_to_install() {
        let message = nothing_found();
        for part in [
            "DOORBELL_PG_BIN",
            "PATH",
            "/usr/lib/postgresql/*/bin",
            "apt-get",
            "dnf",
            "brew",
        ] {
            assert!(message.contains(part), "{part} in {message}");
        }
    }

    #[test]
    fn old_programs_are_refused_by_version() {
        let refusal = installed(&[13]).map(Binaries::new_enough).next().unwrap().unwrap_err();
        assert!(
            refusal.is_server() && refusal.to_string().contains("PostgreSQL 13"),
            "{refusal}"
        );
        assert!(
            installed(&[14])
                .map(Binaries::new_enough)
                .all(|checked| checked.is_ok())
        );
    }
}
