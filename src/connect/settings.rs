//! What a connection string and the environment say, checked and completed with libpq's defaults. Pure.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::hosts::Host;
use super::identity::Identity;
use super::parameters::{Environment, Parameters};
use super::session;
use super::trust::{self, Trust};

/// Everything about one way to reach a server, except what has to be read from files.
#[derive(Debug)]
pub(super) struct Settings {
    /// In the order to try; at least one.
    pub(super) hosts: Vec<Host>,
    /// Try the hosts in random order.
    pub(super) shuffle: bool,
    pub(super) user: String,
    pub(super) dbname: String,
    /// Where to look for a password if none is given.
    pub(super) passfile: Option<PathBuf>,
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS asks for it"))]
    pub(super) trust: Trust,
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "only TLS asks for it"))]
    pub(super) identity: Option<Identity>,
    /// How long one host may take to give a session; `None`: not said.
    pub(super) connect_timeout: Option<Duration>,
    /// All that is the same for every host. Its `Debug` hides the password.
    pub(super) session: Config,
}

impl Settings {
    pub(super) fn read(conninfo: &str, environment: &Environment) -> Result<Self, String> {
        let parameters = Parameters::read(conninfo, environment)?;
        let user = user(&parameters, environment)?;
        let dbname = parameters.get("dbname").unwrap_or(&user).to_owned();
        let (ssl_mode, mut trust) = trust::demanded(&parameters, environment)?;
        let hosts = Host::list(&parameters, environment)?;
        let mut identity = Identity::given(&parameters, environment)?;
        if ssl_mode == SslMode::Disable || hosts.iter().all(Host::is_socket) {
            // No file has to be in order that nobody needs.
            (trust, identity) = (Trust::Anyone, None);
        }
        let mut session = session::common(&parameters, ssl_mode)?;
        session.user(&user).dbname(&dbname);
        Ok(Settings {
            hosts,
            shuffle: parameters
                .word("load_balance_hosts", &[("disable", false), ("random", true)])?
                .unwrap_or(false),
            passfile: parameters
                .get("passfile")
                .map(PathBuf::from)
                .or_else(|| environment.home().map(|home| home.join(".pgpass"))),
            connect_timeout: seconds(&parameters, "connect_timeout")?,
            user,
            dbname,
            trust,
            identity,
            session,
        })
    }

    /// Adds to the options that each session begins with.
    pub(super) fn add_options(&mut self, more: &str) {
        let given = self.session.get_options().unwrap_or_default();
        let options = format!("{given} {more}");
        self.session.options(options.trim_start());
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts.iter().map(Host::to_string).collect();
        let (dbname, user) = (&self.dbname, &self.user);
        write!(f, "database {dbname:?} at {} as user {user:?}", hosts.join(", "))
    }
}

/// As libpq has it, the name of our account where nobody names a user.
fn user(parameters: &Parameters, environment: &Environment) -> Result<String, String> {
    let login = || environment.account.as_deref().or_else(|| environment.login());
    let user = parameters.get("user").or_else(login);
    Ok(user
        .ok_or("no user given, and neither PGUSER nor USER is set")?
        .to_owned())
}

/// A time in whole seconds; zero is as good as not given.
fn seconds(parameters: &Parameters, key: &str) -> Result<Option<Duration>, String> {
    let seconds = parameters.number(key)?.filter(|seconds| *seconds > 0);
    Ok(seconds.map(Duration::from_secs))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(conninfo: &str, variables: &str) -> Settings {
        Settings::read(conninfo, &Environment::of(variables)).unwrap()
    }

    #[test]
    fn what_the_string_leaves_out_comes_from_the_environment_then_from_libpqs_defaults() {
        for (conninfo, variables, expected) in [
            (
                "",
                "USER=ann",
                r#"database "ann" at /run/pg/.s.PGSQL.5432 as user "ann""#,
            ),
            (
                "",
                "LOGNAME=ann PGUSER=bob",
                r#"database "bob" at /run/pg/.s.PGSQL.5432 as user "bob""#,
            ),
            (
                "postgres://app@db",
                "PGPORT=6000 PGDATABASE=shop",
                r#"database "shop" at db, port 6000 as user "app""#,
            ),
            (
                "postgres://app@db:1/x",
                "PGHOST=other PGPORT=6000 PGUSER=u PGDATABASE=d",
                r#"database "x" at db, port 1 as user "app""#,
            ),
            (
                "host=a,b port=1,2 user=u",
                "",
                r#"database "u" at a, port 1, b, port 2 as user "u""#,
            ),
            (
                "user=u",
                "PGHOST=a,/tmp PGPORT=7",
                r#"database "u" at a, port 7, /tmp/.s.PGSQL.7 as user "u""#,
            ),
            (
                "user=u hostaddr=::1",
                "",
                r#"database "u" at ::1, port 5432 as user "u""#,
            ),
            (
                "user=u host=db hostaddr=10.0.0.1",
                "",
                r#"database "u" at db (10.0.0.1), port 5432 as user "u""#,
            ),
        ] {
            assert_eq!(
                read(conninfo, variables).to_string(),
                expected,
                "{conninfo} / {variables}"
            );
        }
    }

    #[test]
    fn the_password_is_taken_and_never_shown() {
        let settings = read("postgres://app:hunter2@db", "PGPASSWORD=other");
        assert_eq!(settings.session.get_password(), Some(&b"hunter2"[..]));
        assert!(!format!("{settings:?} {settings}").contains("hunter2"));
        assert_eq!(read("user=u", "PGPASSWORD=x").session.get_password(), Some(&b"x"[..]));
        assert_eq!(read("user=u", "HOME=/h").passfile, Some("/h/.pgpass".into()));
        assert_eq!(read("user=u", "HOME=/h PGPASSFILE=/p").passfile, Some("/p".into()));
        assert_eq!(read("user=u passfile=/q", "PGPASSFILE=/p").passfile, Some("/q".into()));
    }

    #[test]
    fn hosts_may_be_shuffled_and_limited() {
        let settings = read("user=u load_balance_hosts=random", "PGCONNECT_TIMEOUT=7");
        assert!(settings.shuffle && settings.connect_timeout == Some(Duration::from_secs(7)));
        let settings = read("user=u connect_timeout=0", "");
        assert!(!settings.shuffle && settings.connect_timeout.is_none());
    }

    /// Pieces of connection strings, good and bad, put together at random.
    fn pieces() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec![
            "postgres://",
            "u",
            ":",
            "@",
            "/",
            "?",
            "&",
            "=",
            "%",
            "%2",
            "%ff",
            "%00",
            "[",
            "]",
            "::1",
            ",",
            "'",
            "\\",
            " ",
            "host",
            "port",
            "5432",
            "99999",
            "user",
            "password",
            "dbname",
            "sslmode",
            "sslcert",
            "prefer",
            "options",
            "-c",
            "é",
            "\0",
            "",
        ]);
        prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_string_is_read_or_refused_in_words(begin in pieces(), odd: String, end in pieces()) {
            for text in [&odd, &(begin.clone() + &odd + &end), &(begin + &end)] {
                if let Err(flaw) = Settings::read(text, &Environment::of("PGUSER=u")) {
                    prop_assert!(!flaw.is_empty());
                }
            }
        }

        #[test]
        fn no_error_shows_a_password(before in pieces(), after in pieces()) {
            let no_at = before.replace('@', "");
            for text in [
                format!("postgres://{no_at}:hunter2{after}@db/app"),
                format!("postgres://u:hunter2{after}"),
                format!("user=u password=hunter2{after} host=db"),
                format!("user=u password='{before} hunter2{after}' host=db"),
            ] {
                if let Err(flaw) = Settings::read(&text, &Environment::of("")) {
                    prop_assert!(!flaw.contains("hunter2"), "{}: {}", text, flaw);
                }
            }
        }
    }

    #[test]
    fn a_wrong_parameter_is_named_as_the_user_gave_it() {
        for (conninfo, variables, expected) in [
            ("host=db", "", "no user given"),
            ("user=u prot=1", "", "unknown parameter prot"),
            ("user=u port=x", "", "port must be"),
            ("user=u", "PGPORT=0", "PGPORT must be"),
            ("user=u port=1,2", "", "port must have"),
            ("user=u host=a,b hostaddr=::1", "", "hostaddr must have"),
            ("user=u hostaddr=db", "", "hostaddr must be"),
            ("user=u connect_timeout=-1", "", "connect_timeout must be"),
            ("user=u sslmode=on", "", "sslmode must be one of disable"),
            ("user=u sslmode=verify-ca", "", "sslmode verify-ca needs sslrootcert"),
            (
                "user=u sslmode=require sslrootcert=system",
                "",
                "sslrootcert system needs",
            ),
            ("user=u sslnegotiation=direct", "", "sslnegotiation direct needs"),
            (
                "user=u target_session_attrs=standby",
                "",
                "target_session_attrs must be one of any",
            ),
            (
                "user=u gssencmode=require",
                "",
                "gssencmode can only be disable or prefer",
            ),
            ("user=u sslpassword=x", "", "sslpassword is not supported"),
            ("user=u", "PGSERVICE=x", "PGSERVICE is not supported"),
            ("user=u", "PGREQUIREPEER=x", "PGREQUIREPEER is not supported"),
        ] {
            let flaw = Settings::read(conninfo, &Environment::of(variables)).unwrap_err();
            assert!(flaw.starts_with(expected), "{conninfo} / {variables}: {flaw}");
        }
        read(
            "user=u client_encoding=latin1 gssencmode=prefer keepalives=",
            "PGGSSENCMODE=disable",
        );
    }
}
