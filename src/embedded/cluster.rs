//! The data directory: made by `initdb` the first time, checked every time.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::process::Stdio;

use super::account::Account;
use super::binaries::{Binaries, major};
use super::home::{Home, sync};
use super::watchdog::Watchdog;
use crate::Error;

/// The major version that wrote the data under this directory, if there is any.
pub(super) fn version(base: &Path) -> Option<u32> {
    major(&fs::read_to_string(base.join("data/PG_VERSION")).ok()?)
}

/// Makes a cluster where there is none, and refuses one that these programs cannot read.
pub(super) fn prepare(
    home: &Home,
    binaries: &Binaries,
    account: &Account,
    watchdog: &mut Watchdog,
    fragile: bool,
) -> Result<(), Error> {
    if home.data().exists() {
        return match version(home.base()) {
            Some(major) if major == binaries.major => Ok(()),
            Some(major) => Err(Error::server(format!(
                "{} was written by PostgreSQL {major}, and the programs in {} are of {}: install {major} or run pg_upgrade",
                home.data().display(),
                binaries.dir.display(),
                binaries.major
            ))),
            None => Err(Error::server(format!(
                "{} is no PostgreSQL data directory",
                home.data().display()
            ))),
        };
    }
    start_afresh(home, account)?;
    initdb(home, binaries, account, watchdog, fragile)?;
    // On disk before anything is committed in it: a power cut must not undo the renaming.
    let renamed = fs::rename(home.unfinished_data(), home.data()).and_then(|()| sync(home.base()));
    renamed.map_err(|error| Error::server("cannot rename the new cluster").because(error))
}

/// An empty directory for the cluster, without what an interrupted attempt left, and a new password.
fn start_afresh(home: &Home, account: &Account) -> Result<(), Error> {
    let failed =
        |error: io::Error| Error::server(format!("cannot make a cluster in {}", home.base().display())).because(error);
    let dir = home.unfinished_data();
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(failed)?;
    }
    fs::DirBuilder::new().mode(0o700).create(&dir).map_err(failed)?;
    account.own(&dir)?;

    let mut options = File::options();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(home.password());
    file.and_then(|mut file| writeln!(file, "{}", random_hex()?))
        .map_err(failed)?;
    account.own(&home.password())
}

fn initdb(
    home: &Home,
    binaries: &Binaries,
    account: &Account,
    watchdog: &mut Watchdog,
    fragile: bool,
) -> Result<(), Error> {
    let failed = |error: io::Error| Error::server("cannot run initdb").because(error);
    let mut command = account.command(binaries.program("initdb"));
    command
        .arg("--pgdata")
        .arg(home.unfinished_data())
        .arg("--pwfile")
        .arg(home.password());
    command.args([
        "--username=postgres",
        "--encoding=UTF8",
        "--locale=C",
        "--no-instructions",
    ]);
    // Over the socket everybody who can reach its directory, over TCP everybody who knows the password.
    command.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
    if fragile {
        command.arg("--no-sync");
    }
    let running = command
        // Never read. Whoever comes next waits until it has ended, even if we are killed before our watchdog knows of it.
        .stdin(home.lock().try_clone().map_err(failed)?)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    watchdog.guard_initdb(running.id())?;
    let output = running.wait_with_output().map_err(failed)?;
    watchdog.guard_nothing()?;
    if output.status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    Err(Error::server(format!(
        "initdb failed as {}: {complaint}",
        account.name()
    )))
}

/// 128 random bits.
fn random_hex() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
