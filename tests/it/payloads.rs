//! Payloads that a parser would change, or choke on.

use doorbell::senders::Recording;

use crate::support::{Running, SOON, TestDb};

/// JSON text as PostgreSQL prints it.
fn payloads() -> Vec<String> {
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let mut payloads: Vec<String> = [
        "{}",
        "null",
        "true",
        r#""just text""#,
        "[1, 2.50, -1.0]",
        "9007199254740993",
        "123456789012345678901234567890.000000000000000000001",
        r#"{"emoji": "😀", "escaped": "a\"b\\c\n\t", "ключ": "значение"}"#,
        r#"{"": {"": [{}, [], ""]}}"#,
    ]
    .map(str::to_owned)
    .into();
    payloads.push(format!("1{}", "0".repeat(400)));
    payloads.push(nested);
    payloads.push(format!(r#"{{"text": "{}"}}"#, "x".repeat(10_000_000)));
    payloads
}

#[tokio::test]
async fn any_payload_arrives_as_postgres_prints_it_and_none_spoils_a_batch() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let mut client = db.client().await;
    // In one transaction, so that one claim takes them all.
    let batch = client.transaction().await.unwrap();
    for (number, payload) in payloads().iter().enumerate() {
        let insert =
            "INSERT INTO notification_jobs (channel, recipient, payload) VALUES ('ops', $1, ($2::text)::jsonb)";
        batch.execute(insert, &[&number.to_string(), payload]).await.unwrap();
    }
    let e400 = "INSERT INTO notification_jobs (channel, recipient, payload) VALUES ('ops', '1e400', '1e400')";
    batch.batch_execute(e400).await.unwrap();
    batch.commit().await.unwrap();

    let running = Running::start(db.reactor(recording.clone())).await;
    let expected = payloads();
    let sent = recording.wait_for(expected.len() + 1, SOON).await;
    assert_eq!(sent.len(), expected.len() + 1);
    for notification in &sent {
        let is_right = match notification.recipient() {
            "1e400" => notification.payload() == format!("1{}", "0".repeat(400)),
            number => notification.payload() == expected[number.parse::<usize>().unwrap()],
        };
        let beginning: String = notification.payload().chars().take(50).collect();
        assert!(is_right, "{} came as {beginning}", notification.recipient());
    }
    db.becomes(&format!("sent={}", expected.len() + 1)).await;
    running.stop().await;
}
