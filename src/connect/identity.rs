//! The certificate that we show a server, and its key.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::parameters::{Environment, Parameters};

/// The files with it, both PEM. The key's may be read by its owner alone, or by root's group if it is root's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Identity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Identity {
    /// As in libpq: the files that are named, else `postgresql.crt` and `postgresql.key` in `~/.postgresql`, the former if
    /// it exists.
    pub(super) fn given(parameters: &Parameters, environment: &Environment) -> Result<Option<Self>, String> {
        let may_show = parameters.word("sslcertmode", &[("disable", false), ("allow", true)])?;
        Ok(Identity::found(parameters, environment).filter(|_| may_show.unwrap_or(true)))
    }

    fn found(parameters: &Parameters, environment: &Environment) -> Option<Self> {
        let directory = environment.home().map(|home| home.join(".postgresql"));
        let in_home = |name: &str| directory.as_ref().map(|directory| directory.join(name));
        let named = |key| parameters.get(key).map(PathBuf::from);
        let default = || in_home("postgresql.crt").filter(|file| file.exists());
        Some(Identity {
            certificate: named("sslcert").or_else(default)?,
            key: named("sslkey").or_else(|| in_home("postgresql.key"))?,
        })
    }
}

/// Whether others may read a key, whom libpq would not let read it either.
#[cfg(feature = "tls")]
pub(super) fn is_open_to_others(key: &Path) -> std::io::Result<bool> {
    let metadata = key.metadata()?;
    let forbidden = if metadata.uid() == 0 { 0o037 } else { 0o077 };
    Ok(metadata.mode() & forbidden != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &str, home: &Path) -> Option<Identity> {
        let environment = Environment::of(&format!("HOME={}", home.display()));
        Identity::given(&Parameters::read(words, &environment).unwrap(), &environment).unwrap()
    }

    #[test]
    fn it_is_what_is_named_or_what_lies_where_libpq_looks() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(".postgresql");
        let identity = |certificate: &str, key: &str| {
            Some(Identity {
                certificate: directory.join(certificate),
                key: directory.join(key),
            })
        };
        assert_eq!(given("", home.path()), None);
        assert_eq!(given("sslcert=/c sslkey=/k", home.path()), identity("/c", "/k"));
        assert_eq!(given("sslcert=/c", home.path()), identity("/c", "postgresql.key"));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("postgresql.crt"), "").unwrap();
        assert_eq!(given("", home.path()), identity("postgresql.crt", "postgresql.key"));
        assert_eq!(given("sslkey=/k", home.path()), identity("postgresql.crt", "/k"));
        assert_eq!(given("sslcertmode=disable sslcert=/c", home.path()), None);
    }
}
