//! What stops the server and removes its temporary directory when we are killed: a small shell script.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use super::home::Home;
use crate::Error;

/// The script, waiting at the other end of a pipe. Dropping this tells it that nothing is left to do.
pub(super) struct Watchdog {
    script: Child,
    pipe: ChildStdin,
    /// What stops the server.
    stop: &'static str,
}

impl Watchdog {
    pub(super) fn start(home: &Home) -> Result<Self, Error> {
        let failed = |error: io::Error| Error::server("cannot start the server's watchdog").because(error);
        let mut script = Command::new("/bin/sh")
            .args(["-c", include_str!("watchdog.sh"), "doorbell-watchdog"])
            .args([home.data().join("postmaster.pid").as_path(), home.sockets()])
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            // Never written to. It shares our lock on the directory until the server is down.
            .stdout(home.lock().try_clone().map_err(failed)?)
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let pipe = script
            .stdin
            .take()
            .ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        // A fast stop keeps what was committed and spares the next start a recovery; what is thrown away needs neither.
        let stop = if home.is_kept() { "INT" } else { "QUIT" };
        Ok(Watchdog { script, pipe, stop })
    }

    /// If we are killed from now on, this server is to stop.
    pub(super) fn guard_server(&mut self, pid: u32) -> Result<(), Error> {
        let stop = self.stop;
        self.tell(format_args!("{stop} {pid}"))
    }

    /// If we are killed from now on, this `initdb` is to end together with its children, at once: told to stop, it would
    /// take its time, and empty a directory that the next owner may be filling by then.
    pub(super) fn guard_initdb(&mut self, pid: u32) -> Result<(), Error> {
        self.tell(format_args!("KILL -{pid}"))
    }

    /// Nothing runs any more.
    pub(super) fn guard_nothing(&mut self) -> Result<(), Error> {
        self.tell(format_args!(""))
    }

    fn tell(&mut self, charge: Arguments<'_>) -> Result<(), Error> {
        let told = self.pipe.write_all(format!("{charge}\n").as_bytes());
        told.map_err(|error| Error::server("the server's watchdog is gone").because(error))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // If this does not reach it, it has died, or it does once more what we did.
        let _ = self.pipe.write_all(b"done\n");
        let _ = self.script.wait();
    }
}
