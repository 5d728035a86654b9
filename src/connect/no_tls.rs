//! What stands in for TLS without the crate's feature `tls`.

use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;

use super::settings::Settings;
use crate::Error;

pub(super) type Tls = NoTls;

/// `sslmode` disable and prefer go on in plain text; one that demands TLS is an error.
pub(super) fn connector(settings: &Settings) -> Result<Tls, Error> {
    match settings.session.get_ssl_mode() {
        SslMode::Disable | SslMode::Prefer => Ok(NoTls),
        _ => Err(Error::config(
            "this sslmode needs TLS, and the crate was built without its feature `tls`",
        )),
    }
}

pub(super) fn is_handshake_failure(_: &tokio_postgres::Error) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use crate::Database;

    #[test]
    fn without_tls_an_sslmode_that_demands_it_is_refused() {
        let build = |mode: &str| Database::builder(format!("postgres://app@db?sslmode={mode}")).build();
        assert!(build("require").is_err_and(|error| error.is_config() && error.to_string().contains("`tls`")));
        assert!(build("prefer").is_ok() && build("disable").is_ok());
    }
}
