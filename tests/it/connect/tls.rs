//! TLS, against a server whose certificate is for `localhost` and comes from an authority of our own.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use doorbell::{Database, Error};
use tokio::sync::OnceCell;

use super::plain_url;
use super::server::{PLAIN, Server};
use crate::support::{TestDb, eventually, expect};

async fn server() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER.get_or_init(|| started("")).await
}

/// A server with TLS, once it has taken it up.
async fn started(settings: &str) -> Server {
    let server = Server::with_tls(settings).await;
    let demanding = url(&server, "sslmode=require");
    eventually(Duration::from_secs(10), || async {
        let refused = attempt(&demanding).await.err();
        let plain = refused.is_some_and(|error| error.chain().contains("does not support TLS"));
        expect(!plain, "TLS is off")
    })
    .await;
    server
}

fn url(server: &Server, rest: &str) -> String {
    let rest = rest
        .replace("ROOT", server.file("root.crt").to_str().unwrap())
        .replace("OTHER", server.file("other.crt").to_str().unwrap());
    let (port, password) = (server.port(), server.password());
    format!("host=localhost port={port} user=postgres password={password} {rest}")
}

/// Whether the connection is encrypted.
async fn attempt(url: &str) -> Result<bool, Error> {
    let client = Database::builder(url).build()?.client().await?;
    let ssl = client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]);
    Ok(ssl.await?.try_get(0)?)
}

#[tokio::test]
async fn a_certificate_has_to_prove_what_sslmode_asks_for() {
    let server = server().await;
    for (rest, expected) in [
        ("sslmode=verify-full sslrootcert=ROOT", Ok(true)),
        ("sslmode=verify-full sslrootcert=OTHER", Err("BadSignature")),
        (
            "sslmode=verify-full sslrootcert=ROOT host=127.0.0.1",
            Err("not valid for name"),
        ),
        ("sslmode=verify-full sslrootcert=ROOT hostaddr=127.0.0.1", Ok(true)),
        (
            "sslmode=verify-full sslrootcert=ROOT host=db.example hostaddr=127.0.0.1",
            Err("not valid for name"),
        ),
        ("sslrootcert=system", Err("certificate")),
        ("sslmode=verify-ca sslrootcert=ROOT host=127.0.0.1", Ok(true)),
        ("sslmode=verify-ca sslrootcert=OTHER", Err("BadSignature")),
        ("sslmode=require sslrootcert=ROOT host=127.0.0.1", Ok(true)),
        ("sslmode=require sslrootcert=OTHER", Err("BadSignature")),
        ("sslmode=require", Ok(true)),
        ("sslmode=prefer sslrootcert=OTHER", Ok(true)),
        ("sslmode=disable", Ok(false)),
        // Nobody asks for it.
        ("sslmode=disable sslcert=/missing.crt sslkey=/missing.key", Ok(false)),
        ("channel_binding=require", Ok(true)),
        ("channel_binding=require sslmode=disable", Err("channel binding")),
    ] {
        let got = attempt(&url(server, rest)).await.map_err(|error| error.chain());
        match (&got, expected) {
            (Ok(encrypted), Ok(expected)) => assert_eq!(*encrypted, expected, "{rest}"),
            (Err(chain), Err(expected)) => assert!(chain.contains(expected), "{rest}: {chain}"),
            _ => panic!("{rest}: {got:?}"),
        }
    }
}

#[tokio::test]
async fn a_certificate_of_our_own_is_shown_to_a_server_that_asks_for_one() {
    let server = started("").await;
    server.wants_certificates().await;
    let file = |name: &str| server.file(name).display().to_string();
    let with = |name: &str| {
        format!(
            "sslcert={} sslkey={}",
            file(&format!("{name}.crt")),
            file(&format!("{name}.key"))
        )
    };
    let attempt =
        async |rest: &str| attempt(&url(&server, &format!("sslmode=verify-full sslrootcert=ROOT {rest}"))).await;
    let good = with("client");
    eventually(Duration::from_secs(10), || attempt(&good)).await;
    fs::copy(file("client.key"), file("open.key")).unwrap();
    fs::set_permissions(file("open.key"), Permissions::from_mode(0o644)).unwrap();
    for (rest, expected) in [
        (String::new(), "certificate"),
        (format!("{} sslcertmode=disable", with("client")), "certificate"),
        (with("stranger"), "fatal alert"),
        (
            format!("sslcert={} sslkey={}", file("client.crt"), file("stranger.key")),
            "sslcert and sslkey",
        ),
        (
            format!("sslcert={} sslkey={}", file("client.crt"), file("open.key")),
            "others may read it",
        ),
        (with("missing"), "sslcert"),
        (
            format!("sslcert={} sslkey={}", file("client.crt"), file("client.crt")),
            "sslkey",
        ),
    ] {
        let error = attempt(&rest).await.unwrap_err().chain();
        assert!(error.contains(expected), "{rest}: {error}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_where_tls_is_required_and_taken_where_it_is_preferred() {
    let url = format!("{} password={}", plain_url(), PLAIN.password());
    let error = attempt(&format!("{url} sslmode=require")).await.unwrap_err();
    assert!(error.chain().contains("does not support TLS"), "{error:?}");
    assert!(!attempt(&format!("{url} sslmode=prefer")).await.unwrap());
}

#[tokio::test]
async fn where_tls_is_preferred_and_fails_the_connection_goes_on_without() {
    let server = started("ssl_min_protocol_version = 'TLSv1';ssl_max_protocol_version = 'TLSv1.1'").await;
    assert!(!attempt(&url(&server, "sslmode=prefer")).await.unwrap());
    assert!(attempt(&url(&server, "sslmode=require")).await.is_err());
}

#[tokio::test]
async fn sslmode_means_nothing_on_a_unix_socket() {
    let socket = TestDb::empty().await;
    for rest in ["sslmode=require", "sslcert=/missing.crt&sslkey=/missing.key"] {
        assert!(!attempt(&format!("{}&{rest}", socket.url())).await.unwrap(), "{rest}");
    }
}
