//! The directories of a server.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, io, process, thread};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tempfile::TempDir;

use super::account::Account;
use crate::Error;

/// A socket's path may have 107 bytes, on macOS 103. This leaves room for `/doorbell-XXXXXX/.s.PGSQL.65535`.
const LONGEST_TEMPORARY: usize = 70;

/// How long the server of an owner that was killed may take to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a server keeps its things, and the lock that makes it the only one there.
///
/// In the base directory: `data/` (the cluster), `server.log`, `password`, `lock`. The socket has a directory of its
/// own, because its path must be short; a temporary server has everything there.
pub(super) struct Home {
    base: PathBuf,
    sockets: TempDir,
    lock: File,
}

impl Home {
    pub(super) fn open(given: Option<&Path>, account: &Account) -> Result<Self, Error> {
        let sockets = temporary(account)?;
        let base = match given {
            Some(dir) => prepare(dir, account)
                .map_err(|error| Error::server(format!("cannot use {} for data", dir.display())).because(error))?,
            None => sockets.path().to_owned(),
        };
        if base.join("PG_VERSION").exists() {
            return Err(Error::server(format!(
                "{} is itself a PostgreSQL data directory; name one that holds nothing, or what we put there",
                base.display()
            )));
        }
        if !account.can_enter(&base) {
            let (name, base) = (account.name(), base.display());
            return Err(Error::server(format!(
                "the server will run as {name}, who cannot enter {base}"
            )));
        }
        let lock = lock(&base)?;
        Ok(Home { base, sockets, lock })
    }

    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    pub(super) fn sockets(&self) -> &Path {
        self.sockets.path()
    }

    pub(super) fn lock(&self) -> &File {
        &self.lock
    }

    pub(super) fn data(&self) -> PathBuf {
        self.base.join("data")
    }

    /// Where a new cluster grows up. It is renamed when it is complete, so that a half-made one is never taken for data.
    pub(super) fn unfinished_data(&self) -> PathBuf {
        self.base.join("data.new")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.base.join("server.log")
    }

    pub(super) fn password(&self) -> PathBuf {
        self.base.join("password")
    }

    /// Does the data outlive the server?
    pub(super) fn is_kept(&self) -> bool {
        self.base != self.sockets.path()
    }
}

/// A directory for the socket: short, private to the server's user, who must be able to reach it.
fn temporary(account: &Account) -> Result<TempDir, Error> {
    let usable = |dir: &PathBuf| {
        let short = dir.to_str().is_some_and(|name| name.len() <= LONGEST_TEMPORARY);
        short && account.can_enter(dir)
    };
    let parent = Some(env::temp_dir())
        .filter(usable)
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let made = tempfile::Builder::new()
        .prefix("doorbell-")
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir_in(&parent);
    let dir =
        made.map_err(|error| Error::server(format!("no temporary directory in {}", parent.display())).because(error))?;
    account.own(dir.path())?;
    Ok(dir)
}

/// Makes the given directory. One that is empty becomes the server user's; one that is not keeps its owner, since
/// somebody may have named a directory that is more than ours.
fn prepare(given: &Path, account: &Account) -> Result<PathBuf, Error> {
    let error = |error: io::Error| Error::server("it cannot be made or read").because(error);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(given)
        .map_err(error)?;
    let base = fs::canonicalize(given).map_err(error)?;
    if fs::read_dir(&base).map_err(error)?.next().is_none() {
        account.own(&base)?;
        // Or a power cut could forget the directory, and with it what will have been committed in it.
        base.parent().map_or(Ok(()), sync).map_err(error)?;
    }
    Ok(base)
}

/// Makes the entries of a directory survive a power cut.
pub(super) fn sync(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Locks the directory for this process. When the owner that the lock file names is gone, its watchdog still holds the
/// lock, to stop the server: that is worth waiting for.
fn lock(base: &Path) -> Result<File, Error> {
    let failed = |error: io::Error| Error::server(format!("cannot lock {}", base.display())).because(error);
    let mut options = File::options();
    let mut file = options
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(base.join("lock"))
        .map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Err(TryLockError::WouldBlock) => {}
        }
        let owner = owner(&mut file).map_err(failed)?;
        if owner.is_some_and(is_alive) || Instant::now() > deadline {
            let owner = owner.map_or_else(String::new, |pid| format!(" (process {pid})"));
            return Err(Error::server(format!(
                "{} is in use by another server{owner}",
                base.display()
            )));
        }
        thread::sleep(Duration::from_millis(20));
    }
    file.set_len(0)
        .and_then(|()| writeln!(file, "{}", process::id()))
        .map_err(failed)?;
    Ok(file)
}

/// The process that locked the file, once it has written that down.
fn owner(file: &mut File) -> io::Result<Option<i32>> {
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    file.rewind()?;
    Ok(text.trim().parse().ok())
}

fn is_alive(pid: i32) -> bool {
    !matches!(kill(Pid::from_raw(pid), None), Err(Errno::ESRCH))
}
