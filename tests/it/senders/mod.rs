//! The senders that ship, against real processes, pipes and HTTP servers.

mod command;
mod log;
mod recording;
mod webhook;

use doorbell::{Notification, SendError};

/// Payloads that a JSON library would change or refuse.
fn awkward_payloads() -> Vec<String> {
    vec![
        r#"{"n": 9007199254740993, "big": 1e400, "pi": 3.14159265358979323846264338327950288, "n": 1}"#.to_owned(),
        format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000)),
        "null".to_owned(),
        r#""just \u0001 text é 😀""#.to_owned(),
    ]
}

fn notification(payload: &str) -> Notification {
    Notification::example("ops", "#alerts", payload)
}

fn is_unknown(error: &SendError) -> bool {
    format!("{error:?}").starts_with("Unknown")
}

fn is_transient(error: &SendError) -> bool {
    format!("{error:?}").starts_with("Retry")
}
