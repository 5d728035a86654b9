//! A server that was started.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::Builder;
use super::account::Account;
use super::binaries::Binaries;
use super::home::Home;
use super::postmaster::{Postmaster, Stop};
use super::watchdog::Watchdog;
use crate::Error;

/// Names the socket's file when there is no loopback port.
const SOCKET_PORT: u16 = 5432;

/// A running private server. Dropping it stops it, removes what is temporary, and blocks until that is done.
pub struct Server {
    // What is dropped first stands first: the watchdog is dismissed when nothing is left to do for it.
    pub(super) postmaster: Option<Postmaster>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) loopback: Option<Loopback>,
    pub(super) binaries: Binaries,
    pub(super) account: Account,
    pub(super) home: Home,
    pub(super) watchdog: Watchdog,
}

impl Server {
    /// A durable server with temporary data and a Unix socket, unless told otherwise.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// The URL of a database, over the Unix socket, as the superuser `postgres`. A new server has one called `postgres`.
    pub fn url(&self, database: &str) -> String {
        let (database, dir) = (encode(database), encode(&self.socket_dir().to_string_lossy()));
        let port = self.port().unwrap_or(SOCKET_PORT);
        format!("postgresql:///{database}?host={dir}&port={port}&user=postgres")
    }

    /// The URL of a database over the loopback port, with its password; none if there is no port.
    pub fn loopback_url(&self, database: &str) -> Option<String> {
        let Loopback { port, password } = self.loopback.as_ref()?;
        Some(format!(
            "postgresql://postgres:{password}@127.0.0.1:{port}/{}",
            encode(database)
        ))
    }

    /// The port on 127.0.0.1, if there is one.
    pub fn port(&self) -> Option<u16> {
        self.loopback.as_ref().map(|loopback| loopback.port)
    }

    /// The directory of the Unix socket.
    pub fn socket_dir(&self) -> &Path {
        self.home.sockets()
    }

    /// The directory that was given for the data, or the temporary one. It holds `data/`, which is PostgreSQL's own data
    /// directory, and `server.log`.
    pub fn data_dir(&self) -> &Path {
        self.home.base()
    }

    /// The directory of `postgres` and its companions.
    pub fn bin_dir(&self) -> &Path {
        &self.binaries.dir
    }

    /// The major version, such as 17.
    pub fn version(&self) -> u32 {
        self.binaries.major
    }

    /// Stops the server as dropping it does, and says if that failed. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::is_server`]: the process could not be stopped.
    pub fn stop(mut self) -> Result<(), Error> {
        self.halt(Stop::Fast)
    }

    /// Stops the server as in a crash, keeping its data; [`Server::start_again`] recovers what was committed. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::is_server`]: the process could not be stopped.
    pub fn stop_immediate(&mut self) -> Result<(), Error> {
        self.halt(Stop::Immediate)
    }

    /// Cuts every session off, stops, and starts again with the same addresses. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::is_server`]: the process could not be stopped or started.
    pub fn restart_fast(&mut self) -> Result<(), Error> {
        self.halt(Stop::Fast)?;
        self.start_again()
    }

    /// Whether the server runs: it was not stopped, and has not ended by itself.
    ///
    /// # Errors
    ///
    /// [`Error::is_server`]: the system does not say.
    pub fn is_running(&mut self) -> Result<bool, Error> {
        match &mut self.postmaster {
            Some(postmaster) => postmaster.is_running(),
            None => Ok(false),
        }
    }

    /// Starts a server that was stopped, or ended by itself, with the same data and addresses; leaves one that runs
    /// alone. Blocks.
    ///
    /// # Errors
    ///
    /// [`Error::is_server`]: the server did not start; the message ends with its log's last lines.
    pub fn start_again(&mut self) -> Result<(), Error> {
        if self.is_running()? {
            return Ok(());
        }
        let command = self.command();
        let postmaster = self.postmaster.insert(Postmaster::spawn(command, &self.home)?);
        self.watchdog.guard_server(postmaster.id())?;
        postmaster.wait_until_ready(&self.home)
    }

    fn command(&self) -> Command {
        let mut command = self.account.command(self.binaries.program("postgres"));
        command.arg("-D").arg(self.home.data());
        let quoted_dir = format!("\"{}\"", self.socket_dir().to_string_lossy().replace('"', "\"\""));
        let port = self.port().unwrap_or(SOCKET_PORT).to_string();
        let ours = [
            (
                "listen_addresses",
                if self.loopback.is_some() { "127.0.0.1" } else { "" },
            ),
            ("port", port.as_str()),
            ("unix_socket_directories", quoted_dir.as_str()),
            ("unix_socket_permissions", "0700"),
            ("shared_buffers", "64MB"),
            ("cluster_name", "doorbell"),
            ("log_line_prefix", "%m [%p] %a "),
        ];
        let theirs = self
            .settings
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in ours.into_iter().chain(theirs) {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command
    }

    fn halt(&mut self, how: Stop) -> Result<(), Error> {
        if let Some(postmaster) = &mut self.postmaster {
            postmaster.stop(how)?;
            self.postmaster = None;
            self.watchdog.guard_nothing()?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.halt(Stop::Fast) {
            tracing::warn!(error = %error.chain(), "the embedded server did not stop");
        }
    }
}

/// The TCP address, and what opens it.
pub(super) struct Loopback {
    port: u16,
    password: String,
}

impl Loopback {
    pub(super) fn new(port: u16, home: &Home) -> Result<Self, Error> {
        let password = fs::read_to_string(home.password()).map_err(|error| {
            Error::server(format!("cannot read the password in {}", home.password().display())).because(error)
        })?;
        let free = || TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = match port {
            0 => free()
                .map_err(|error| Error::server("no free port on 127.0.0.1").because(error))?
                .port(),
            port => port,
        };
        Ok(Loopback {
            port,
            password: password.trim().to_owned(),
        })
    }
}

/// Percent-encodes what has a meaning in a URL.
fn encode(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let encode = |byte: u8| {
        if plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::encode;

    #[test]
    fn odd_names_survive_a_url() {
        assert_eq!(encode("/tmp/a b"), "/tmp/a%20b");
        assert_eq!(encode("50%&é@"), "50%25%26%C3%A9%40");
    }
}
