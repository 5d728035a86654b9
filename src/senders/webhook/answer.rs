//! What an HTTP answer means: pure, so that every code is tested without a server.

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

use crate::senders::{excerpt, receipt};
use crate::{Receipt, SendError};

/// How much of a body is kept, in characters.
const KEPT: usize = 200;

/// A `Retry-After` is cut to this.
const LONGEST_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Decides by the status. 3xx is tried again, not failed: it is more often a login page or a maintenance page in the way
/// than an address that moved for good, and a few tries cost less than a lost notification.
pub(super) fn judge(host: &str, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Result<Receipt, SendError> {
    if status.is_success() {
        return Ok(receipt(body, KEPT));
    }
    let note = if status.is_redirection() {
        " (redirects are not followed)"
    } else {
        ""
    };
    let message = format!("{host} answered {status}{note} {}", excerpt(body, KEPT));
    let message = message.trim_end();
    match status.as_u16() {
        408 | 425 | 429 => Err(again(headers, message)),
        400..500 => Err(SendError::permanent(message)),
        _ => Err(again(headers, message)),
    }
}

fn again(headers: &HeaderMap, message: &str) -> SendError {
    match delay(headers, SystemTime::now()) {
        Some(delay) => SendError::retry_after(delay, message),
        None => SendError::transient(message),
    }
}

/// The delay that `Retry-After` asks for. A date is taken relative to the answer's own `Date`, so that a clock of ours
/// that goes wrong does not matter; one that has passed means "now". What is neither seconds nor a date is ignored.
fn delay(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let delay = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits that do not fit are very many seconds.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let now = date(headers, DATE).unwrap_or(now);
        date(headers, RETRY_AFTER)?.duration_since(now).unwrap_or_default()
    };
    Some(delay.min(LONGEST_DELAY))
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let text = headers.get(name)?.to_str().ok()?;
    httpdate::parse_http_date(text.trim()).ok()
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn answer(code: u16) -> Result<Receipt, SendError> {
        judge(
            "h",
            StatusCode::from_u16(code).unwrap(),
            &HeaderMap::new(),
            b"so\nit is",
        )
    }

    #[test]
    fn every_code_is_sent_tried_again_or_failed() {
        for code in 100..1000 {
            let expected = match code {
                200..300 => "sent",
                408 | 425 | 429 => "again",
                400..500 => "failed",
                _ => "again",
            };
            let actual = match answer(code) {
                Ok(_) => "sent",
                Err(error) if error.is_permanent() => "failed",
                Err(_) => "again",
            };
            assert_eq!(actual, expected, "{code}");
        }
    }

    #[test]
    fn the_body_becomes_the_receipt_or_part_of_the_error() {
        assert_eq!(answer(202).unwrap().text(), Some("so it is"));
        assert_eq!(answer(404).unwrap_err().message(), "h answered 404 Not Found so it is");
        assert!(
            answer(302)
                .unwrap_err()
                .message()
                .contains("redirects are not followed")
        );
    }

    #[test]
    fn retry_after_is_read_as_seconds_or_as_a_date_and_clamped() {
        let now = httpdate::parse_http_date("Wed, 21 Oct 2015 07:28:00 GMT").unwrap();
        let cases = [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("86401", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("Wed, 21 Oct 2015 07:28:30 GMT", Some(30)),
            ("Wednesday, 21-Oct-15 07:28:30 GMT", Some(30)),
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(0)),
            ("Wed, 21 Oct 2099 07:27:00 GMT", Some(86_400)),
            ("-1", None),
            ("1.5", None),
            ("", None),
            ("soon", None),
        ];
        for (text, expected) in cases {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(delay(&headers, now), expected.map(Duration::from_secs), "{text:?}");
        }
        assert_eq!(delay(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_date_is_relative_to_the_clock_of_the_server() {
        let header = HeaderValue::from_static;
        let headers = HeaderMap::from_iter([
            (RETRY_AFTER, header("Wed, 21 Oct 2015 07:28:30 GMT")),
            (DATE, header("Wed, 21 Oct 2015 07:28:00 GMT")),
        ]);
        assert_eq!(delay(&headers, SystemTime::now()), Some(Duration::from_secs(30)));
    }
}
