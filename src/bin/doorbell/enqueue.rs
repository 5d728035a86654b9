//! `doorbell enqueue`: one notification in.

use std::io::Read;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use doorbell::{NewNotification, Uuid};
use serde::de::IgnoredAny;
use serde_json::json;

use crate::failure::Failure;
use crate::output::{print, remark};
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  doorbell enqueue ops '#alerts' '{\"text\": \"disk is full\"}'
  doorbell enqueue email ada@example.org --delay 5m --expires-in 1h
  doorbell enqueue ops me --dedupe-key disk-full     # nothing new while one is pending
  make-report | doorbell enqueue reports bob -";

/// Enqueue a notification and print its id
///
/// The same as an INSERT into notification_jobs, which any program can do without this one.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The channel that is to deliver it
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    channel: String,

    /// Whom it is for, in the words of the channel's sender
    #[arg(allow_negative_numbers = true)]
    recipient: String,

    /// JSON, or - to read it from standard input [default: {}]
    #[arg(value_name = "PAYLOAD-JSON", value_parser = payload, allow_negative_numbers = true)]
    payload: Option<String>,

    /// Wait this long before the first try, for instance 5s or 2h
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, allow_hyphen_values = true)]
    delay: Option<Duration>,

    /// How many tries there are in all [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    max_attempts: Option<u32>,

    /// Do not send it after this time, for instance 10m
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, allow_hyphen_values = true)]
    expires_in: Option<Duration>,

    /// While a notification with this key is pending on the channel, add none and print that one's id
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,

    /// Its id [default: a new UUIDv7]
    #[arg(long, value_name = "UUID", value_parser = crate::target::id)]
    id: Option<Uuid>,

    /// Print {"id": …, "added": …} instead of the bare id; not added: one with this key is pending
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(mut args: Args) -> Result<(), Failure> {
    if args.payload.as_deref() == Some("-") {
        args.payload = Some(read_payload()?);
    }
    if args.dedupe_key.is_some() {
        // One that tells the new notification from another.
        args.id.get_or_insert_with(Uuid::now_v7);
    }
    let new = notification(&args);
    let (client, queue) = args.target.open().await?;
    let id = queue.enqueue(&client, &new).await?;
    let added = args.id.is_none_or(|own| own == id);
    if args.json {
        return print(json!({ "id": id.to_string(), "added": added }).to_string());
    }
    if !added {
        remark("nothing was added: a notification with this key is pending");
    }
    print(id.to_string())
}

fn notification(args: &Args) -> NewNotification {
    let mut new = NewNotification::new(&args.channel, &args.recipient);
    if let Some(payload) = &args.payload {
        new = new.payload_text(payload);
    }
    if let Some(delay) = args.delay {
        new = new.delay(delay);
    }
    if let Some(tries) = args.max_attempts {
        new = new.max_attempts(tries);
    }
    if let Some(life) = args.expires_in {
        new = new.expires_in(life);
    }
    if let Some(key) = &args.dedupe_key {
        new = new.dedupe_key(key);
    }
    if let Some(id) = args.id {
        new = new.id(id);
    }
    new
}

/// JSON is looked at here although the server will: here the error can say where it is wrong.
fn payload(text: &str) -> Result<String, String> {
    match text {
        "-" => Ok(text.to_owned()),
        _ => match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(format!(
                "not JSON: {error}; plain text needs double quotes of its own: '\"…\"'"
            )),
        },
    }
}

fn read_payload() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::new(format!("cannot read the payload from standard input: {error}")))?;
    payload(&text).map_err(|flaw| Failure::new(format!("the payload on standard input is {flaw}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_json_passes_and_anything_else_is_explained() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for text in ["{}", "1e400", "null", r#""text""#, " [1] ", &deep] {
            assert!(payload(text).is_ok(), "{text}");
        }
        for text in ["", "hello", "{'a': 1}", "{} {}"] {
            assert!(payload(text).unwrap_err().starts_with("not JSON"), "{text}");
        }
    }
}
