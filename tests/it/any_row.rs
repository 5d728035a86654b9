//! Whatever is in a row, and whatever a sender says: nothing panics, and no row stands in another's way.
//!
//! A run prints its seed; `DOORBELL_TEST_SEED` repeats it.

use std::env;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Reactor, ReactorBuilder, Receipt, RetryPolicy, SendError, Uuid};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use tokio_postgres::Client;

use crate::support::{Running, SOON, TestDb, eventually, expect};

const ROWS: usize = 400;
const CHANNELS: [&str; 3] = ["ops", "x'\"\\\n{}", "📣"];

/// A source of values, each drawn from a strategy.
struct Dice(TestRunner);

impl Dice {
    fn seeded() -> Self {
        let seed = env::var("DOORBELL_TEST_SEED").map_or_else(|_| Uuid::now_v7(), |seed| seed.parse().unwrap());
        println!("DOORBELL_TEST_SEED={seed}");
        let seed = [*seed.as_bytes(), [0; 16]].concat();
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        Dice(TestRunner::new_with_rng(Config::default(), rng))
    }

    fn draw<S: Strategy>(&mut self, strategy: S) -> S::Value {
        strategy.new_tree(&mut self.0).unwrap().current()
    }
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => any::<String>(),
        2 => "[ -~]{0,40}",
        1 => Just(String::new()),
        1 => (1..200_000_usize).prop_map(|length| "ä".repeat(length)),
    ]
}

/// What the server takes as text.
fn any_storable_text() -> impl Strategy<Value = String> {
    any_text().prop_map(|text| text.replace('\0', ""))
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any_storable_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((any_storable_text(), inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

/// An instant as PostgreSQL writes it; not one in the near future, for which the test would have to wait.
fn any_instant() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("now".to_owned()),
        1 => Just("infinity".to_owned()),
        1 => Just("-infinity".to_owned()),
        1 => Just("4714-11-24 00:00:00+00 BC".to_owned()),
        1 => Just("294276-12-31 23:59:59.999999+00".to_owned()),
        1 => Just("epoch".to_owned()),
        1 => (1970..2026_u32, 1..13_u32, 1..29_u32).prop_map(|(year, month, day)| format!("{year}-{month}-{day}")),
        1 => (2100..9999_u32).prop_map(|year| format!("{year}-01-01")),
    ]
}

/// Inserts a row of any kind; answers with its id, and false if a constraint refused it.
async fn insert_any(client: &Client, dice: &mut Dice) -> (Uuid, bool) {
    let id = Uuid::now_v7();
    let channel = CHANNELS[dice.draw(0..CHANNELS.len())];
    let recipient = dice.draw(any_storable_text());
    let payload = dice.draw(any_json()).to_string();
    let [due, created] = [(); 2].map(|()| dice.draw(any_instant()));
    let expires = dice.draw(prop::option::weighted(0.3, any_instant()));
    let attempts = dice.draw(prop_oneof![5 => Just(0), 1 => any::<i32>()]);
    let max_attempts = dice.draw(prop_oneof![5 => 1..4_i32, 1 => any::<i32>()]);
    let claim = dice.draw(prop_oneof![5 => Just(0), 1 => any::<i64>()]);
    let claimed_by = dice
        .draw(prop::option::weighted(0.1, any::<u128>()))
        .map(Uuid::from_u128);
    let last_error = dice.draw(prop::option::of(any_storable_text()));
    let insert =
        "INSERT INTO notification_jobs (id, channel, recipient, payload, next_attempt_at, created_at, expires_at,
            attempts, max_attempts, claim, claimed_by, last_error)
        VALUES ($1, $2, $3, ($4::text)::jsonb, ($5::text)::timestamptz, ($6::text)::timestamptz,
            ($7::text)::timestamptz, $8, $9, $10, $11, $12)";
    let inserted = client
        .execute(
            insert,
            &[
                &id,
                &channel,
                &recipient,
                &payload,
                &due,
                &created,
                &expires,
                &attempts,
                &max_attempts,
                &claim,
                &claimed_by,
                &last_error,
            ],
        )
        .await;
    if let Err(error) = &inserted {
        let code = error.code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("23514"), "{error:?}: not a constraint of ours");
    }
    (id, inserted.is_ok())
}

fn any_answer() -> impl Strategy<Value = Result<Receipt, SendError>> {
    (0..6_u8, any_text(), any::<u64>()).prop_map(|(kind, text, millis)| match kind {
        0 => Ok(Receipt::none()),
        1 => Ok(Receipt::new(text)),
        2 => Err(SendError::permanent(text)),
        3 => Err(SendError::unknown(text)),
        4 => Err(SendError::retry_after(Duration::from_millis(millis), text)),
        _ => Err(SendError::transient(text)),
    })
}

/// A reactor whose sender answers anything, and notes what it was given.
fn reactor(db: &TestDb, dice: Arc<Mutex<Dice>>) -> (ReactorBuilder, Recording) {
    let recording = Recording::answering(move |_| dice.lock().unwrap().draw(any_answer()));
    let quickly = ChannelConfig::default()
        .max_in_flight(1000)
        .retry(RetryPolicy::linear(Duration::from_millis(1)));
    let builder = Reactor::builder(db.database()).scan_interval(Duration::from_secs(600));
    let builder = CHANNELS.iter().fold(builder, |builder, name| {
        builder.channel(*name, recording.clone(), quickly.clone())
    });
    (builder, recording)
}

#[tokio::test]
async fn no_row_and_no_answer_stands_in_the_way_of_another_row() {
    let (db, mut dice) = (TestDb::new().await, Dice::seeded());
    let client = db.client().await;
    let mut there = 0;
    for _ in 0..ROWS {
        there += usize::from(insert_any(&client, &mut dice).await.1);
    }
    assert!(there > ROWS / 2, "only {there} rows were taken");
    let (reactor, recording) = reactor(&db, Arc::new(Mutex::new(dice)));
    let running = Running::start(reactor).await;
    // What is put off for longer than that waits for good: it was inserted so, or its sender asked for it.
    let unfinished = "SELECT count(*) FROM notification_jobs
        WHERE status = 'pending' AND next_attempt_at < now() + interval '1 hour'";
    eventually(SOON, || async {
        let left = db.value(unfinished).await;
        expect(left == "0", format!("{left} rows are not through"))
    })
    .await;
    let odd = "SELECT count(*) FROM notification_jobs WHERE status IN ('sent', 'failed', 'expired') AND claimed_by IS NOT NULL
        OR status = 'sent' AND sent_at IS NULL OR status = 'failed' AND last_error IS NULL";
    assert_eq!(db.value(odd).await, "0");
    for sent in recording.recorded() {
        let stored = "SELECT recipient, payload::text FROM notification_jobs WHERE id = $1";
        let stored = client.query_one(stored, &[&sent.id()]).await.unwrap();
        assert_eq!(
            (sent.recipient(), sent.payload()),
            (stored.try_get(0).unwrap(), stored.try_get(1).unwrap())
        );
    }
    running.stop().await;
    assert_eq!(
        db.value("SELECT count(*) FROM notification_jobs").await,
        there.to_string()
    );
}
