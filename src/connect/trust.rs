//! Whether to encrypt, and whom to trust. Pure.

use std::path::PathBuf;

use tokio_postgres::config::SslMode;

use super::parameters::{Environment, Parameters};

/// What a server's certificate has to prove.
#[derive(Debug, PartialEq)]
pub(super) enum Trust {
    /// Nothing: the connection is encrypted, but nobody knows with whom.
    Anyone,
    /// That one of these roots stands behind it.
    Chain(Roots),
    /// That one of these roots stands behind it, and that it was issued for the host's name.
    ChainAndName(Roots),
}

/// The certificates that end a chain of trust.
#[derive(Debug, PartialEq)]
pub(super) enum Roots {
    /// Those of the operating system.
    System,
    /// Those of a PEM file.
    File(PathBuf),
}

/// Whether to encrypt, and what the server's certificate has to prove.
///
/// As in libpq, except that `allow` is taken for `prefer` (it tries to encrypt first), that `prefer` never looks at the
/// certificate (it would go on in plain text anyway), that a root file that is named must exist, and that `verify-full`
/// without any root file trusts the operating system's roots.
pub(super) fn demanded(parameters: &Parameters, environment: &Environment) -> Result<(SslMode, Trust), String> {
    let named = match parameters.get("sslrootcert") {
        Some("system") => Some(Roots::System),
        other => other.map(|file| Roots::File(file.into())),
    };
    let mode = match (parameters.get("sslmode"), &named) {
        (None, Some(Roots::System)) => "verify-full",
        (mode, _) => mode.unwrap_or("prefer"),
    };
    if named == Some(Roots::System) && mode != "verify-full" {
        return Err(parameters.wrong("sslrootcert", "system needs sslmode verify-full"));
    }
    let roots = named.or_else(|| environment.root_certificate.clone().map(Roots::File));
    Ok(match (mode, roots) {
        ("disable", _) => (SslMode::Disable, Trust::Anyone),
        ("allow" | "prefer", _) => (SslMode::Prefer, Trust::Anyone),
        ("require", None) => (SslMode::Require, Trust::Anyone),
        ("require" | "verify-ca", Some(roots)) => (SslMode::Require, Trust::Chain(roots)),
        // Any certificate of any public authority would do.
        ("verify-ca", None) => return Err(parameters.wrong("sslmode", "verify-ca needs sslrootcert")),
        ("verify-full", roots) => (SslMode::Require, Trust::ChainAndName(roots.unwrap_or(Roots::System))),
        _ => {
            let modes = "must be one of disable, allow, prefer, require, verify-ca, verify-full";
            return Err(parameters.wrong("sslmode", modes));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sslmode_says_whether_to_encrypt_and_what_a_certificate_must_prove() {
        let file = |name: &str| Roots::File(name.into());
        for (given, default_root, mode, trust) in [
            ("", true, SslMode::Prefer, Trust::Anyone),
            ("sslmode=disable", true, SslMode::Disable, Trust::Anyone),
            ("sslmode=allow", true, SslMode::Prefer, Trust::Anyone),
            ("sslmode=require", false, SslMode::Require, Trust::Anyone),
            (
                "sslmode=require",
                true,
                SslMode::Require,
                Trust::Chain(file("/h/root.crt")),
            ),
            (
                "sslmode=require sslrootcert=/r",
                true,
                SslMode::Require,
                Trust::Chain(file("/r")),
            ),
            (
                "sslmode=verify-ca sslrootcert=/r",
                false,
                SslMode::Require,
                Trust::Chain(file("/r")),
            ),
            (
                "sslmode=verify-full",
                true,
                SslMode::Require,
                Trust::ChainAndName(file("/h/root.crt")),
            ),
            (
                "sslmode=verify-full",
                false,
                SslMode::Require,
                Trust::ChainAndName(Roots::System),
            ),
            (
                "sslrootcert=system",
                true,
                SslMode::Require,
                Trust::ChainAndName(Roots::System),
            ),
        ] {
            let mut environment = Environment::of("");
            environment.root_certificate = default_root.then(|| "/h/root.crt".into());
            let parameters = Parameters::read(given, &environment).unwrap();
            assert_eq!(demanded(&parameters, &environment), Ok((mode, trust)), "{given}");
        }
    }
}
