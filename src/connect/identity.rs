//! The certificate that we show a server, and its key. Pure.

use std::path::PathBuf;

use super::parameters::{Environment, Parameters};

/// The PEM files that they are in.
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
        let named = |key| parameters.get(key).map(PathBuf::from);
        let key_in_home = || Some(environment.home()?.join(".postgresql/postgresql.key"));
        Some(Identity {
            certificate: named("sslcert").or_else(|| environment.own_certificate.clone())?,
            key: named("sslkey").or_else(key_in_home)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(words: &str, own_certificate: Option<&str>) -> Option<(PathBuf, PathBuf)> {
        let mut environment = Environment::of("HOME=/h");
        environment.own_certificate = own_certificate.map(PathBuf::from);
        let identity = Identity::given(&Parameters::read(words, &environment).unwrap(), &environment);
        identity.unwrap().map(|identity| (identity.certificate, identity.key))
    }

    #[test]
    fn it_is_what_is_named_or_what_lies_where_libpq_looks() {
        let files = |certificate: &str, key: &str| Some((certificate.into(), key.into()));
        let key_in_home = "/h/.postgresql/postgresql.key";
        assert_eq!(given("", None), None);
        assert_eq!(given("sslcert=/c sslkey=/k", None), files("/c", "/k"));
        assert_eq!(given("sslcert=/c", None), files("/c", key_in_home));
        assert_eq!(given("", Some("/own")), files("/own", key_in_home));
        assert_eq!(given("sslkey=/k", Some("/own")), files("/own", "/k"));
        assert_eq!(given("sslcertmode=disable sslcert=/c", Some("/own")), None);
    }
}
