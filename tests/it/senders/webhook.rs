use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use doorbell::senders::Webhook;
use doorbell::{Notification, Receipt, SendError, Sender};
use futures::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{awkward_payloads, is_transient, is_unknown, notification};

/// A real HTTP server on loopback that keeps every request and gives one kind of answer.
struct Endpoint {
    address: String,
    requests: mpsc::UnboundedReceiver<(Uri, HeaderMap, Bytes)>,
}

impl Endpoint {
    async fn answering<A: IntoResponse>(answer: impl Fn() -> A + Clone + Send + Sync + 'static) -> Self {
        let (keep, requests) = mpsc::unbounded_channel();
        let handle = move |request: Request| {
            let (keep, answer) = (keep.clone(), answer.clone());
            async move {
                let (parts, body) = request.into_parts();
                let body = to_bytes(body, usize::MAX).await.unwrap();
                keep.send((parts.uri, parts.headers, body)).unwrap();
                answer().into_response()
            }
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        tokio::spawn(axum::serve(listener, Router::new().fallback(handle)).into_future());
        Endpoint { address, requests }
    }

    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        webhook(&self.address).send(notification).await
    }
}

fn webhook(address: &str) -> Webhook {
    Webhook::builder(format!("http://{address}/hook?token=secret"))
        .header("x-team", "ops")
        .build()
        .unwrap()
}

/// A server that reads one request, writes this answer and hangs up, or says no more.
async fn raw_server(answer: &'static str, hangs_up: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            socket.read_buf(&mut request).await.unwrap();
        }
        socket.write_all(answer.as_bytes()).await.unwrap();
        if !hangs_up {
            std::future::pending::<()>().await;
        }
    });
    address
}

#[tokio::test]
async fn the_request_carries_the_json_byte_for_byte_and_our_headers() {
    let mut endpoint = Endpoint::answering(|| (StatusCode::ACCEPTED, "queued as\n 17")).await;
    for payload in awkward_payloads() {
        let notification = notification(&payload);
        let receipt = endpoint.send(&notification).await.unwrap();
        assert_eq!(receipt.text(), Some("queued as 17"));

        let (uri, headers, body) = endpoint.requests.recv().await.unwrap();
        assert_eq!(uri, "/hook?token=secret");
        assert!(body == notification.to_json());
        let header = |name: &str| headers[name].to_str().unwrap();
        assert_eq!(header("webhook-id"), notification.id().to_string());
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("user-agent"), concat!("doorbell/", env!("CARGO_PKG_VERSION")));
        assert_eq!(header("x-team"), "ops");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let timestamp: u64 = header("webhook-timestamp").parse().unwrap();
        assert!((now - 10..=now).contains(&timestamp));
    }
}

#[tokio::test]
async fn a_name_and_password_in_the_url_become_basic_authentication() {
    let mut endpoint = Endpoint::answering(|| ()).await;
    let url = format!("http://ada:p%40ss@{}/", endpoint.address);
    Webhook::builder(url)
        .build()
        .unwrap()
        .send(&notification("{}"))
        .await
        .unwrap();
    let (_, headers, _) = endpoint.requests.recv().await.unwrap();
    assert_eq!(headers["authorization"], "Basic YWRhOnBAc3M=");
}

#[tokio::test]
async fn the_status_decides() {
    let send = async |code: u16| {
        let endpoint = Endpoint::answering(move || (StatusCode::from_u16(code).unwrap(), "why")).await;
        endpoint.send(&notification("{}")).await
    };
    assert_eq!(send(200).await.unwrap().text(), Some("why"));
    assert_eq!(send(204).await.unwrap(), Receipt::none());
    for code in [400, 401, 404, 410, 422] {
        let error = send(code).await.unwrap_err();
        assert!(error.is_permanent() && error.message().ends_with("why"), "{error:?}");
    }
    for code in [408, 425, 429, 500, 503] {
        let error = send(code).await.unwrap_err();
        assert!(
            is_transient(&error) && error.message().contains(&code.to_string()),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn retry_after_is_honoured_in_seconds_and_as_a_date() {
    let send = async |after: String| {
        let endpoint =
            Endpoint::answering(move || (StatusCode::TOO_MANY_REQUESTS, [("retry-after", after.clone())])).await;
        endpoint.send(&notification("{}")).await.unwrap_err().delay()
    };
    assert_eq!(send("7".to_owned()).await, Some(Duration::from_secs(7)));
    assert_eq!(
        send("999999999999".to_owned()).await,
        Some(Duration::from_secs(24 * 3600))
    );
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
    let delay = send(date).await.unwrap().as_secs();
    assert!((55..=60).contains(&delay), "{delay}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut target = Endpoint::answering(|| ()).await;
    let location = format!("http://{}/", target.address);
    let endpoint =
        Endpoint::answering(move || (StatusCode::TEMPORARY_REDIRECT, [("location", location.clone())])).await;
    let error = endpoint.send(&notification("{}")).await.unwrap_err();
    assert!(
        is_transient(&error) && error.message().contains("redirects are not followed"),
        "{error:?}"
    );
    assert!(target.requests.try_recv().is_err());
}

#[tokio::test]
async fn a_body_without_end_is_cut_and_the_status_still_counts() {
    let taken = Arc::new(AtomicUsize::new(0));
    let gigabyte = {
        let taken = Arc::clone(&taken);
        move |status: StatusCode| {
            let taken = Arc::clone(&taken);
            let chunks = (0..1024).map(move |_| {
                taken.fetch_add(1, Ordering::Relaxed);
                Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 1024 * 1024]))
            });
            (status, Body::from_stream(stream::iter(chunks)))
        }
    };
    let success = Endpoint::answering({
        let gigabyte = gigabyte.clone();
        move || gigabyte(StatusCode::OK)
    });
    let receipt = success.await.send(&notification("{}")).await.unwrap();
    assert_eq!(receipt.text(), Some(&*"x".repeat(200)));
    let failure = Endpoint::answering(move || gigabyte(StatusCode::BAD_GATEWAY)).await;
    let error = failure.send(&notification("{}")).await.unwrap_err();
    assert!(is_transient(&error) && error.message().len() < 300);
    assert!(taken.load(Ordering::Relaxed) < 64, "{taken:?} MB of 2048 were taken");
}

#[tokio::test]
async fn a_body_that_dawdles_or_breaks_does_not_undo_the_status() {
    let endpoint = Endpoint::answering(|| {
        Body::from_stream(stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, std::io::Error>("x"), ()))
        }))
    })
    .await;
    let start = Instant::now();
    assert!(endpoint.send(&notification("{}")).await.is_ok());
    assert!(start.elapsed() < Duration::from_secs(10));

    for hangs_up in [true, false] {
        let address = raw_server("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nid 17", hangs_up).await;
        let receipt = webhook(&address).send(&notification("{}")).await.unwrap();
        assert_eq!(receipt.text(), Some("id 17"));
    }
}

#[tokio::test]
async fn no_answer_once_connected_is_an_unknown_outcome() {
    for answer in ["", "HTTP/1.1 200", "nonsense\r\n\r\n"] {
        let address = raw_server(answer, true).await;
        let error = webhook(&address).send(&notification("{}")).await.unwrap_err();
        assert!(is_unknown(&error) && !error.message().contains("secret"), "{error:?}");
    }
    let address = raw_server("", false).await;
    let late = notification("{}").due_within(Duration::from_millis(200));
    let error = webhook(&address).send(&late).await.unwrap_err();
    assert!(is_unknown(&error) && error.message().contains("deadline"), "{error:?}");
}

#[tokio::test]
async fn no_connection_is_transient_and_the_error_holds_no_secret() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let webhook = Webhook::builder(format!("http://me:secret@{address}/secret?secret#secret"))
        .header("x-key", "secret")
        .build()
        .unwrap();
    let error = webhook.send(&notification("{}")).await.unwrap_err();
    let message = error.message();
    assert!(
        is_transient(&error) && message.contains("refused") && message.contains(&address),
        "{error:?}"
    );
    assert!(!message.contains("secret"), "{message}");
}

/// A TLS server with a certificate of its own making, which says `204` to one request. Gives its port and certificate.
fn https_server() -> (u16, String) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = own.cert.pem();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.cert.der().clone()], own.signing_key.into())
        .unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let connection = rustls::ServerConnection::new(Arc::new(config)).unwrap();
        let mut tls = rustls::StreamOwned::new(connection, listener.accept().unwrap().0);
        let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
        while !request.ends_with(b"}") {
            match tls.read(&mut chunk) {
                Ok(read @ 1..) => request.extend_from_slice(&chunk[..read]),
                _ => return, // the client refused us
            }
        }
        tls.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    });
    (port, certificate)
}

#[tokio::test]
async fn an_unknown_certificate_is_refused() {
    let (port, _) = https_server();
    let webhook = Webhook::builder(format!("https://localhost:{port}/")).build().unwrap();
    let error = webhook.send(&notification("{}")).await.unwrap_err();
    assert!(
        is_transient(&error) && error.message().contains("certificate"),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_certificate_named_in_ssl_cert_file_is_accepted() {
    let (port, certificate) = https_server();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, certificate).unwrap();
    // In a process of its own: the environment of this one belongs to all tests.
    let child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "senders::webhook::post_to_url_in_environment"])
        .env("SSL_CERT_FILE", file.path())
        .env("TEST_URL", format!("https://localhost:{port}/"))
        .output();
    let output = child.await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[tokio::test]
#[ignore = "the other half of a_certificate_named_in_ssl_cert_file_is_accepted"]
async fn post_to_url_in_environment() {
    let webhook = Webhook::builder(std::env::var("TEST_URL").unwrap()).build().unwrap();
    assert_eq!(webhook.send(&notification("{}")).await.unwrap(), Receipt::none());
}
