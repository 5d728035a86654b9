//! The parameters of a connection by name: from its string, and from the `PG*` variables for what the string leaves out.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::conninfo;

/// What is done with a parameter that libpq knows.
enum Support {
    /// It does here what it does there.
    Honoured,
    /// It makes no difference here.
    Ignored,
    /// Only these values describe what happens anyway; any other would be disregarded, so it is an error. None at all:
    /// the parameter is refused.
    Only(&'static [&'static str]),
}
use Support::{Honoured, Ignored, Only};

/// Every parameter of libpq: name, environment variable, what is done with it.
const KNOWN: [(&str, &str, Support); 50] = [
    ("host", "PGHOST", Honoured),
    ("hostaddr", "PGHOSTADDR", Honoured),
    ("port", "PGPORT", Honoured),
    ("dbname", "PGDATABASE", Honoured),
    ("user", "PGUSER", Honoured),
    ("password", "PGPASSWORD", Honoured),
    ("passfile", "PGPASSFILE", Honoured),
    ("connect_timeout", "PGCONNECT_TIMEOUT", Honoured),
    ("options", "PGOPTIONS", Honoured),
    ("application_name", "PGAPPNAME", Honoured),
    ("fallback_application_name", "", Honoured),
    ("keepalives", "", Honoured),
    ("keepalives_idle", "", Honoured),
    ("keepalives_interval", "", Honoured),
    ("keepalives_count", "", Honoured),
    ("tcp_user_timeout", "", Honoured),
    ("sslmode", "PGSSLMODE", Honoured),
    ("sslnegotiation", "PGSSLNEGOTIATION", Honoured),
    ("sslrootcert", "PGSSLROOTCERT", Honoured),
    ("channel_binding", "PGCHANNELBINDING", Honoured),
    ("target_session_attrs", "PGTARGETSESSIONATTRS", Honoured),
    ("load_balance_hosts", "PGLOADBALANCEHOSTS", Honoured),
    // The wire is always UTF-8.
    ("client_encoding", "PGCLIENTENCODING", Ignored),
    // There is no GSSAPI for these to act on, and no server compresses any more.
    ("krbsrvname", "PGKRBSRVNAME", Ignored),
    ("gsslib", "PGGSSLIB", Ignored),
    ("gssdelegation", "PGGSSDELEGATION", Ignored),
    ("sslcompression", "PGSSLCOMPRESSION", Ignored),
    ("gssencmode", "PGGSSENCMODE", Only(&["disable", "prefer"])),
    ("sslcert", "PGSSLCERT", Honoured),
    ("sslkey", "PGSSLKEY", Honoured),
    ("sslcertmode", "PGSSLCERTMODE", Honoured),
    ("sslsni", "PGSSLSNI", Only(&["1"])),
    (
        "ssl_min_protocol_version",
        "PGSSLMINPROTOCOLVERSION",
        Only(&["TLSv1", "TLSv1.1", "TLSv1.2"]),
    ),
    (
        "ssl_max_protocol_version",
        "PGSSLMAXPROTOCOLVERSION",
        Only(&["TLSv1.3"]),
    ),
    ("min_protocol_version", "PGMINPROTOCOLVERSION", Only(&["3.0"])),
    (
        "max_protocol_version",
        "PGMAXPROTOCOLVERSION",
        Only(&["3.0", "3.2", "latest"]),
    ),
    ("replication", "", Only(&["false", "off", "no", "0"])),
    ("requiressl", "PGREQUIRESSL", Only(&["0"])),
    ("service", "PGSERVICE", Only(&[])),
    ("servicefile", "", Only(&[])),
    ("sslpassword", "", Only(&[])),
    ("sslcrl", "PGSSLCRL", Only(&[])),
    ("sslcrldir", "PGSSLCRLDIR", Only(&[])),
    ("sslkeylogfile", "", Only(&[])),
    ("requirepeer", "PGREQUIREPEER", Only(&[])),
    ("require_auth", "PGREQUIREAUTH", Only(&[])),
    ("scram_client_key", "", Only(&[])),
    ("scram_server_key", "", Only(&[])),
    ("oauth_issuer", "", Only(&[])),
    ("oauth_client_id", "", Only(&[])),
];

/// What the process and the machine say, read once, so that all that follows from it is pure.
pub(super) struct Environment {
    variables: BTreeMap<String, String>,
    /// Where a server's socket is looked for when no host is given.
    pub(super) socket_directory: PathBuf,
    /// `~/.postgresql/root.crt`, if it exists.
    pub(super) root_certificate: Option<PathBuf>,
    /// `~/.postgresql/postgresql.crt`, if it exists.
    pub(super) own_certificate: Option<PathBuf>,
    /// The name of the account that this process runs under, where it can be looked up.
    pub(super) account: Option<String>,
}

/// The account's name; only with the features that bring the means to ask.
fn account() -> Option<String> {
    #[cfg(any(feature = "embedded", feature = "command"))]
    return nix::unistd::User::from_uid(nix::unistd::geteuid())
        .ok()
        .flatten()
        .map(|user| user.name);
    #[cfg(not(any(feature = "embedded", feature = "command")))]
    None
}

impl Environment {
    /// What the shell calls the user.
    pub(super) fn login(&self) -> Option<&str> {
        ["USER", "LOGNAME"].iter().find_map(|name| self.variable(name))
    }

    pub(super) fn of_process() -> Self {
        let variables: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        let in_home = |file: &str| {
            let file = PathBuf::from(variables.get("HOME")?).join(file);
            file.exists().then_some(file)
        };
        Environment {
            // Debian and its kin build libpq with the first, PostgreSQL itself with the second.
            socket_directory: ["/var/run/postgresql", "/tmp"]
                .into_iter()
                .map(PathBuf::from)
                .find(|directory| directory.is_dir())
                .unwrap_or_default(),
            root_certificate: in_home(".postgresql/root.crt"),
            own_certificate: in_home(".postgresql/postgresql.crt"),
            account: account(),
            variables,
        }
    }

    /// One with these variables, given as words.
    #[cfg(test)]
    pub(super) fn of(variables: &str) -> Self {
        Environment {
            variables: conninfo::parse(variables).unwrap().into_iter().collect(),
            socket_directory: "/run/pg".into(),
            root_certificate: None,
            own_certificate: None,
            account: None,
        }
    }

    /// A variable's value; an empty one counts as not set.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        let value = self.variables.get(name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }

    /// The database that Doorbell is to use; empty: the `PG*` variables say which.
    pub(super) fn database_url(&self) -> &str {
        let url = self.variable("DOORBELL_DATABASE_URL");
        url.or_else(|| self.variable("DATABASE_URL")).unwrap_or_default()
    }

    pub(super) fn home(&self) -> Option<&Path> {
        self.variable("HOME").map(Path::new)
    }
}

/// A parameter's value, and the name under which the user gave it: that of the key or of the variable.
struct Given {
    name: &'static str,
    value: String,
}

/// Parameters by libpq's names. None is empty: libpq takes an empty one for not given.
pub(super) struct Parameters(BTreeMap<&'static str, Given>);

impl Parameters {
    /// Reads a connection string and fills it up from the environment; an error names the parameter that is wrong.
    pub(super) fn read(conninfo: &str, environment: &Environment) -> Result<Self, String> {
        let mut parameters = Parameters(BTreeMap::new());
        for (key, value) in conninfo::parse(conninfo)? {
            let name = match key.as_str() {
                // The name that tokio-postgres has for it.
                "keepalives_retries" => "keepalives_count",
                other => other,
            };
            let known = KNOWN.iter().find(|(known, ..)| *known == name);
            let (name, _, support) = known.ok_or_else(|| match conninfo::may_spill(conninfo) {
                true => format!("unknown parameter; {}", conninfo::SPECIAL_CHARACTERS),
                false => format!("unknown parameter {key}"),
            })?;
            parameters.take(name, name, value, support)?;
        }
        for (name, variable, support) in &KNOWN {
            if let (false, Some(value)) = (parameters.0.contains_key(name), environment.variable(variable)) {
                parameters.take(name, variable, value.to_owned(), support)?;
            }
        }
        Ok(parameters)
    }

    fn take(&mut self, key: &'static str, name: &'static str, value: String, support: &Support) -> Result<(), String> {
        self.0.remove(key);
        match support {
            _ if value.is_empty() => {}
            Honoured => {
                self.0.insert(key, Given { name, value });
            }
            Ignored => {}
            Only(values) if values.contains(&value.as_str()) => {}
            Only([]) => return Err(format!("{name} is not supported")),
            Only(values) => return Err(format!("{name} can only be {} here", values.join(" or "))),
        }
        Ok(())
    }

    /// The value of a parameter.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|given| given.value.as_str())
    }

    /// An error about a parameter, under the name by which the user gave it.
    pub(super) fn wrong(&self, key: &str, what: impl Display) -> String {
        let name = self.0.get(key).map_or(key, |given| given.name);
        format!("{name} {what}")
    }

    /// The value of a parameter that is a whole number.
    pub(super) fn number<N: FromStr>(&self, key: &str) -> Result<Option<N>, String> {
        let number = self.get(key).map(|value| value.trim().parse());
        number
            .transpose()
            .map_err(|_| self.wrong(key, "must be a whole number, not negative"))
    }

    /// The value of a parameter that is one of a few words, translated.
    pub(super) fn word<W: Copy>(&self, key: &str, words: &[(&str, W)]) -> Result<Option<W>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let found = words.iter().find(|(word, _)| *word == value);
        let known: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let meaning = found.ok_or_else(|| self.wrong(key, format!("must be one of {}", known.join(", "))))?;
        Ok(Some(meaning.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_may_be_part_of_a_password_is_not_repeated() {
        for text in [
            "host=db password=se cret=1",
            "postgres://app:12/se?cret=x@db/shop",
            "postgres://db/shop?password=se&cret=1",
        ] {
            let Err(flaw) = Parameters::read(text, &Environment::of("")) else {
                panic!("{text} is taken");
            };
            assert!(
                flaw.starts_with("unknown parameter;") && !flaw.contains("cret"),
                "{text}: {flaw}"
            );
        }
        let named = Parameters::read("postgres://app:x@db/shop?sslmod=require", &Environment::of(""));
        assert!(named.is_err_and(|flaw| flaw == "unknown parameter sslmod"));
    }

    #[test]
    fn the_environment_names_the_database_in_one_of_two_variables_or_in_none() {
        for (variables, expected) in [
            (
                "DATABASE_URL=postgres://a DOORBELL_DATABASE_URL=postgres://b",
                "postgres://b",
            ),
            ("DATABASE_URL=postgres://a DOORBELL_DATABASE_URL=''", "postgres://a"),
            ("PGHOST=c", ""),
        ] {
            assert_eq!(Environment::of(variables).database_url(), expected);
        }
    }
}
