//! What is the same in every session, whichever host gives it. Pure.

use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{ChannelBinding, SslMode, SslNegotiation, TargetSessionAttrs};

use super::parameters::Parameters;

/// A session's settings without its host, user, database and whatever depends on the host.
pub(super) fn common(parameters: &Parameters, ssl_mode: SslMode) -> Result<Config, String> {
    let mut session = Config::new();
    session.ssl_mode(ssl_mode);
    identify(parameters, &mut session);
    keep_alive(parameters, &mut session)?;
    demand(parameters, &mut session)?;
    Ok(session)
}
fn identify(parameters: &Parameters, session: &mut Config) {
    if let Some(password) = parameters.get("password") {
        session.password(password);
    }
    if let Some(options) = parameters.get("options") {
        session.options(options);
    }
    let application_name = parameters.get("application_name");
    if let Some(name) = application_name.or(parameters.get("fallback_application_name")) {
        session.application_name(name);
    }
}

/// A connection that went silent is given up after about a minute of silence, or 30 s of unanswered writing, instead of
/// the hours that the operating system would take; a zero leaves it to the operating system.
fn keep_alive(parameters: &Parameters, session: &mut Config) -> Result<(), String> {
    let or = |key, default| Ok::<u64, String>(parameters.number(key)?.unwrap_or(default));
    session.keepalives(or("keepalives", 1)? != 0);
    let idle = or("keepalives_idle", 30)?;
    let interval = or("keepalives_interval", 10)?;
    let retries = parameters.number("keepalives_count")?.unwrap_or(3_u32);
    // Milliseconds, as in libpq; tokio-postgres's own strings have seconds.
    let unanswered = or("tcp_user_timeout", 30_000)?;
    if idle > 0 {
        session.keepalives_idle(Duration::from_secs(idle));
    }
    if interval > 0 {
        session.keepalives_interval(Duration::from_secs(interval));
    }
    if retries > 0 {
        session.keepalives_retries(retries);
    }
    if unanswered > 0 {
        session.tcp_user_timeout(Duration::from_millis(unanswered));
    }
    Ok(())
}

/// What the session has to be.
fn demand(parameters: &Parameters, session: &mut Config) -> Result<(), String> {
    let bindings = [
        ("disable", ChannelBinding::Disable),
        ("prefer", ChannelBinding::Prefer),
        ("require", ChannelBinding::Require),
    ];
    if let Some(binding) = parameters.word("channel_binding", &bindings)? {
        session.channel_binding(binding);
    }
    // Doorbell writes, so a session that only reads would be of no use; a primary is where one can write.
    let attributes = [
        ("any", TargetSessionAttrs::Any),
        ("read-write", TargetSessionAttrs::ReadWrite),
        ("primary", TargetSessionAttrs::ReadWrite),
    ];
    if let Some(attributes) = parameters.word("target_session_attrs", &attributes)? {
        session.target_session_attrs(attributes);
    }
    let negotiations = [
        ("postgres", SslNegotiation::Postgres),
        ("direct", SslNegotiation::Direct),
    ];
    if let Some(negotiation) = parameters.word("sslnegotiation", &negotiations)? {
        if negotiation == SslNegotiation::Direct && session.get_ssl_mode() != SslMode::Require {
            return Err(parameters.wrong(
                "sslnegotiation",
                "direct needs sslmode require, verify-ca or verify-full",
            ));
        }
        session.ssl_negotiation(negotiation);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::parameters::Environment;

    fn session(given: &str) -> Result<Config, String> {
        common(
            &Parameters::read(given, &Environment::of("PGAPPNAME=shop"))?,
            SslMode::Require,
        )
    }

    #[test]
    fn dead_peers_are_noticed_within_a_minute_unless_the_user_says_otherwise() {
        let defaults = session("").unwrap();
        assert!(defaults.get_keepalives());
        assert_eq!(defaults.get_keepalives_idle(), Duration::from_secs(30));
        assert_eq!(defaults.get_keepalives_interval(), Some(Duration::from_secs(10)));
        assert_eq!(defaults.get_keepalives_retries(), Some(3));
        assert_eq!(defaults.get_tcp_user_timeout(), Some(&Duration::from_secs(30)));

        let given = "keepalives_idle=5 keepalives_interval=0 keepalives_count=9 tcp_user_timeout=1500";
        let given = session(given).unwrap();
        assert_eq!(given.get_keepalives_idle(), Duration::from_secs(5));
        assert_eq!(given.get_keepalives_interval(), None);
        assert_eq!(given.get_keepalives_retries(), Some(9));
        assert_eq!(given.get_tcp_user_timeout(), Some(&Duration::from_millis(1500)));
        assert_eq!(
            session("keepalives_retries=2").unwrap().get_keepalives_retries(),
            Some(2)
        );
        assert!(!session("keepalives=0").unwrap().get_keepalives());
    }

    #[test]
    fn the_other_parameters_reach_the_session() {
        let session = session(
            "password=x options='-c geqo=off' target_session_attrs=primary channel_binding=require \
             sslnegotiation=direct fallback_application_name=y",
        );
        let session = session.unwrap();
        assert_eq!(session.get_password(), Some(&b"x"[..]));
        assert_eq!(session.get_options(), Some("-c geqo=off"));
        assert_eq!(session.get_application_name(), Some("shop"));
        assert_eq!(session.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        assert_eq!(session.get_channel_binding(), ChannelBinding::Require);
        assert_eq!(session.get_ssl_negotiation(), SslNegotiation::Direct);
    }
}
