//! The user that the server runs as. PostgreSQL refuses to be root.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};

use crate::Error;

/// Ourselves, or, when we are root, somebody without rights.
pub(super) struct Account(Option<User>);

impl Account {
    /// As root: the owner of the data that is there, or else `postgres`, or else `nobody`.
    pub(super) fn choose(data_dir: Option<&Path>) -> Result<Self, Error> {
        if !Uid::effective().is_root() {
            return Ok(Account(None));
        }
        let owner = data_dir.and_then(|dir| owner(&dir.join("data")).or_else(|| owner(dir)));
        let named = |name| User::from_name(name).ok().flatten();
        match owner.or_else(|| named("postgres")).or_else(|| named("nobody")) {
            Some(user) => Ok(Account(Some(user))),
            None => Err(Error::server(
                "PostgreSQL does not run as root, and there is neither a user postgres nor a user nobody",
            )),
        }
    }

    /// For messages.
    pub(super) fn name(&self) -> &str {
        self.0.as_ref().map_or("the current user", |user| &user.name)
    }

    /// A program that will run as this user, away from our terminal's signals, our directory and our language.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir("/")
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .process_group(0);
        if let Some(user) = &self.0 {
            // The standard library drops the supplementary groups along with root.
            command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
        }
        command
    }

    /// Makes a file or directory that we made belong to this user.
    pub(super) fn own(&self, path: &Path) -> Result<(), Error> {
        let Some(user) = &self.0 else { return Ok(()) };
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).map_err(|error| {
            Error::server(format!("cannot give {} to user {}", path.display(), user.name)).because(error)
        })
    }

    pub(super) fn can_enter(&self, dir: &Path) -> bool {
        let mut command = self.command("/bin/sh");
        command
            .args(["-c", r#"cd -- "$1""#, "sh"])
            .arg(dir)
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }
}

/// Who owns a path, unless it is root or has no name.
fn owner(path: &Path) -> Option<User> {
    let uid = Uid::from_raw(fs::metadata(path).ok()?.uid());
    User::from_uid(uid).ok().flatten().filter(|user| !user.uid.is_root())
}
