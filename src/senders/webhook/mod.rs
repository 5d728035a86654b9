//! The sender that posts to a URL.

mod answer;
mod builder;
mod tls;

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::header::HeaderName;
use reqwest::{Client, Response, Url};
use tokio::time::{Instant, timeout, timeout_at};

pub use builder::WebhookBuilder;

use crate::error::causes;
use crate::{Notification, Receipt, SendError, Sender};

/// How much of an answer's body is read, in bytes.
const MOST_READ: usize = 64 * 1024;

/// How long an answer's body is read, and never more than half of the time that is left: the status is what counts, and
/// it must not get lost because the body dawdles.
const LONGEST_READ: Duration = Duration::from_secs(1);

const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");

/// Posts each notification as JSON to a URL.
///
/// Headers: `webhook-id`, the notification's id and so the same on every attempt; `webhook-timestamp`, when this attempt
/// began, in seconds since 1970; `content-type: application/json`; `user-agent: doorbell/…`.
///
/// | answer | meaning |
/// | --- | --- |
/// | 2xx | sent, however the body goes on; the start of the body is the receipt |
/// | 408, 425, 429, 5xx | to be tried again, after `Retry-After` if given (seconds or a date) |
/// | 3xx | the same: redirects are not followed, since they may lead anywhere |
/// | other 4xx | never to be sent: failed at once |
/// | no connection | to be tried again |
/// | none, once connected | unknown: the channel's `on_unknown` decides |
///
/// An answer is read up to 64 kB and for at most a second. No error text holds the URL's path, query or credentials, or
/// a header's value. Proxy settings of the environment are not used. Certificates are checked against the system's
/// roots, or those in the file that `SSL_CERT_FILE` names.
///
/// ```
/// use std::time::Duration;
/// use doorbell::senders::Webhook;
///
/// # fn main() -> Result<(), doorbell::Error> {
/// let pager = Webhook::builder("http://127.0.0.1:8080/hook")
///     .header("x-team", "ops")
///     .connect_timeout(Duration::from_secs(2))
///     .build()?;
/// # let _ = pager;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Webhook {
    client: Client,
    url: Url,
}

impl Webhook {
    /// A sender to this URL, `http` or `https`. A user name and password in it are sent as basic authentication.
    pub fn builder(url: impl Into<String>) -> WebhookBuilder {
        WebhookBuilder::new(url.into())
    }

    async fn post(&self, notification: &Notification) -> Result<Response, reqwest::Error> {
        self.client
            .post(self.url.clone())
            .header(WEBHOOK_ID, notification.id().to_string())
            .header(WEBHOOK_TIMESTAMP, unix_seconds(SystemTime::now()))
            .body(notification.to_json())
            .send()
            .await
    }

    /// Host and port: the part of the URL that holds no secret.
    fn host(&self) -> &str {
        let authority = self.url.authority();
        authority.rsplit_once('@').map_or(authority, |(_, host)| host)
    }
}

/// Names the host only: the rest of the URL and the headers may hold secrets.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("host", &self.host())
            .finish_non_exhaustive()
    }
}

impl Sender for Webhook {
    async fn send(&self, notification: &Notification) -> Result<Receipt, SendError> {
        let host = self.host();
        let deadline = Instant::from_std(notification.deadline());
        let mut response = match timeout_at(deadline, self.post(notification)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unanswered(host, &error)),
            Err(_) => return Err(SendError::unknown(format!("{host} did not answer before the deadline"))),
        };
        let body = read_start(&mut response, deadline).await;
        answer::judge(host, response.status(), response.headers(), &body)
    }
}

/// Reads the start of the body. A body that breaks, dawdles or does not end is as good as its start.
async fn read_start(response: &mut Response, deadline: Instant) -> Vec<u8> {
    let mut body = Vec::new();
    let patience = LONGEST_READ.min(deadline.duration_since(Instant::now()) / 2);
    let _ = timeout(patience, async {
        while body.len() < MOST_READ
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    })
    .await;
    body
}

/// What a request that got no answer means. Once a connection stood, the request may have been taken all the same.
fn unanswered(host: &str, error: &reqwest::Error) -> SendError {
    // The outermost text holds the whole URL.
    let causes = causes(error).map(|cause| format!(": {cause}"));
    let message = format!("no answer from {host}{}", causes.collect::<String>());
    match error.is_connect() {
        true => SendError::transient(message),
        false => SendError::unknown(message),
    }
}

fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
