//! The settings of a server, and the order of its start.

use std::fs;
use std::path::PathBuf;

use super::Server;
use super::account::Account;
use super::binaries::Binaries;
use super::cluster;
use super::home::Home;
use super::server::Loopback;
use super::watchdog::Watchdog;
use crate::Error;

/// Settings of a [`Server`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Builder {
    data_dir: Option<PathBuf>,
    bin_dir: Option<PathBuf>,
    port: Option<u16>,
    settings: Vec<(String, String)>,
    fragile: bool,
}

impl Builder {
    /// Where the data lives, and stays when the server ends. It is made if it does not exist; one server at a time can
    /// use it. Default: a temporary directory that goes with the server.
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// The directory of `postgres` and `initdb`, version 14 or later. Default: the variable `DOORBELL_PG_BIN`, or else,
    /// of all that is on `PATH`, known to `pg_config` or where packages put it, the version that wrote the data, or else
    /// the newest.
    pub fn bin_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.bin_dir = Some(dir.into());
        self
    }

    /// Listen on this port of 127.0.0.1 too; 0 takes a free one. Default: the Unix socket alone.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// A setting of the server, as in `postgresql.conf`; it outranks that file and `ALTER SYSTEM`. The last one of a name
    /// counts. Default: PostgreSQL's own, with little shared memory (64 MB).
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Never wait for the disk: faster, and a crash of the machine destroys the data. For tests. Default: durable.
    pub fn fast_and_fragile(mut self) -> Self {
        self.fragile = true;
        self.setting("fsync", "off").setting("full_page_writes", "off")
    }

    /// Starts the server and waits until it takes connections. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::is_server`], saying why: no programs are installed (where it looked and what to install), they are too
    /// old, another server uses the data directory, another major version wrote it, the server's user cannot enter it,
    /// or what `initdb` or `postgres` had to say.
    pub fn start(self) -> Result<Server, Error> {
        let data_dir = self.data_dir.as_deref();
        let binaries = Binaries::find(self.bin_dir.as_deref(), data_dir.and_then(cluster::version))?;
        let account = Account::choose(data_dir)?;
        let home = Home::open(data_dir, &account)?;
        let mut watchdog = Watchdog::start(&home)?;
        cluster::prepare(&home, &binaries, &account, &mut watchdog, self.fragile)?;
        // The log is that of this server, from its start.
        let _ = fs::remove_file(home.log());
        let loopback = self.port.map(|port| Loopback::new(port, &home)).transpose()?;
        let mut server = Server {
            postmaster: None,
            settings: self.settings,
            loopback,
            binaries,
            account,
            home,
            watchdog,
        };
        server.start_again()?;
        Ok(server)
    }
}
