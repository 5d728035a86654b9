//! The settings of a webhook, checked in one place.

use std::time::Duration;

use reqwest::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
    USER_AGENT,
};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use rustls::RootCertStore;

use super::{WEBHOOK_ID, WEBHOOK_TIMESTAMP, Webhook, tls};
use crate::Error;

/// Shorter than common servers keep an idle connection (Node closes it after 5 s): a request on a connection that is
/// just being closed has an unknown outcome.
const IDLE_CONNECTION: Duration = Duration::from_secs(4);

/// The headers that the sender or HTTP itself sets.
const OURS: [HeaderName; 7] = [
    CONNECTION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    TRANSFER_ENCODING,
    USER_AGENT,
    WEBHOOK_ID,
    WEBHOOK_TIMESTAMP,
];

/// Makes a [`Webhook`]: see [`Webhook::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct WebhookBuilder {
    url: String,
    headers: Vec<(String, String)>,
    connect_timeout: Duration,
}

impl WebhookBuilder {
    pub(super) fn new(url: String) -> Self {
        WebhookBuilder {
            url,
            headers: Vec::new(),
            connect_timeout: Duration::from_secs(5),
        }
    }

    /// Adds a header to every request. Default: none.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// How long a connection may take, name look-up and TLS included. Default: 5 s. The whole send ends at the
    /// notification's deadline in any case; keep this shorter than the channel's `timeout`, since a send that is cut off
    /// while it connects counts as unknown.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Checks every setting.
    ///
    /// # Errors
    ///
    /// A [configuration error](Error::is_config) names the setting: a URL that is none, or neither `http` nor `https`;
    /// a header that is malformed, given twice, or one that the sender sets itself; no root certificates for `https`.
    pub fn build(self) -> Result<Webhook, Error> {
        let url = parse_url(&self.url)?;
        let headers = self.headers()?;
        let credentials = !url.username().is_empty() || url.password().is_some();
        if credentials && headers.contains_key(AUTHORIZATION) {
            return Err(Error::config(
                "url and headers.authorization both say who we are: leave one out",
            ));
        }
        let roots = match url.scheme() {
            "https" => tls::system_roots()?,
            _ => RootCertStore::empty(),
        };
        let client = Client::builder()
            .tls_backend_preconfigured(tls::client_config(roots)?)
            .user_agent(concat!("doorbell/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(IDLE_CONNECTION)
            .build()
            .map_err(|error| Error::config("the HTTP client cannot be set up").because(error))?;
        Ok(Webhook { client, url })
    }

    fn headers(&self) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = |what: &str| Error::config(format!("headers.{name}: {what}"));
            let key: HeaderName = name.parse().map_err(|_| wrong("not a header's name"))?;
            let mut value: HeaderValue = value.parse().map_err(|_| wrong("not a header's value"))?;
            if OURS.contains(&key) {
                return Err(wrong("this header is set by the sender"));
            }
            value.set_sensitive(true);
            if headers.insert(key, value).is_some() {
                return Err(wrong("given twice"));
            }
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(headers)
    }
}

/// The text of a URL may hold secrets, so no error repeats it.
fn parse_url(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|error| Error::config(format!("url: not a URL: {error}")))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(Error::config(format!(
            "url: begins with {other}:, but only http: and https: can be posted to"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_setting_is_named_and_its_value_kept_out_of_the_error() {
        let url = "http://h/hook";
        let cases = [
            (Webhook::builder("hook?secret"), "url: not a URL"),
            (Webhook::builder("ftp://secret@h/"), "only http: and https:"),
            (
                Webhook::builder(url).header("x y", "secret"),
                "headers.x y: not a header's name",
            ),
            (
                Webhook::builder(url).header("x", "secret\n"),
                "headers.x: not a header's value",
            ),
            (
                Webhook::builder(url).header("Webhook-ID", "secret"),
                "headers.Webhook-ID: this header is set",
            ),
            (
                Webhook::builder(url).header("x", "secret").header("X", "b"),
                "headers.X: given twice",
            ),
            (
                Webhook::builder("http://u:secret@h/").header("authorization", "secret"),
                "headers.authorization both",
            ),
        ];
        for (builder, expected) in cases {
            let error = builder.build().unwrap_err();
            let text = error.chain();
            assert!(
                error.is_config() && text.contains(expected) && !text.contains("secret"),
                "{text}"
            );
        }
    }

    #[test]
    fn debug_output_names_the_host_only() {
        let webhook = Webhook::builder("http://u:secret@h:1/secret?secret").build().unwrap();
        let text = format!("{webhook:?}");
        assert!(text.contains(r#""h:1""#) && !text.contains("secret"), "{text}");
    }
}
