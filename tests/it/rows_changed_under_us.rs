//! Rows that others change while they are being sent.

use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Queue, RetryPolicy, SendError};
use tokio::sync::watch;

use crate::support::{Gate, Running, SOON, TestDb, eventually, expect};

/// A reactor in the middle of sending one row, with a lease that is renewed often.
async fn sending(db: &TestDb, gate: &Gate) -> Running {
    let config = ChannelConfig::default().timeout(Duration::from_secs(600));
    let running = Running::start(db.reactor_with(gate.clone(), config).lease(Duration::from_secs(1))).await;
    db.insert("me").await;
    gate.next().await;
    running
}

/// The reactor is as good as new: it sends one more row.
async fn still_works(db: &TestDb, gate: &Gate) {
    db.insert("another").await;
    let sent = tokio::time::timeout(SOON, gate.next()).await.unwrap();
    assert_eq!(sent.recipient(), "another");
}

#[tokio::test]
async fn a_row_that_is_deleted_while_it_is_sent_is_forgotten() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = sending(&db, &gate).await;
    db.psql("DELETE FROM notification_jobs").await;
    gate.open();
    still_works(&db, &gate).await;
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn a_table_that_is_truncated_while_rows_are_sent_is_no_trouble() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = sending(&db, &gate).await;
    db.psql("TRUNCATE notification_jobs").await;
    gate.open();
    still_works(&db, &gate).await;
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn a_row_that_is_cancelled_while_it_is_sent_stays_cancelled() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = sending(&db, &gate).await;
    let id = db.value("SELECT id FROM notification_jobs").await.parse().unwrap();
    Queue::default().cancel(&db.client().await, &[id]).await.unwrap();
    gate.open();
    still_works(&db, &gate).await;
    db.becomes("cancelled=1 sent=1").await;
    let row = "SELECT attempts || ' ' || (sent_at IS NULL) || (claimed_by IS NULL) FROM notification_jobs
               WHERE status = 'cancelled'";
    assert_eq!(db.value(row).await, "1 truetrue");
    running.stop().await;
}

#[tokio::test]
async fn a_send_whose_row_was_taken_away_is_cut_off_at_the_next_renewal() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let config = ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(600));
    let running = Running::start(db.reactor_with(gate.clone(), config).lease(Duration::from_secs(1))).await;
    db.insert("me").await;
    gate.next().await;
    db.psql("DELETE FROM notification_jobs").await;
    // The gate stays shut: the one slot can only be free because that send was cut off.
    still_works(&db, &gate).await;
    gate.open();
    db.becomes("sent=1").await;
    running.stop().await;
}

#[tokio::test]
async fn an_edited_row_keeps_the_edit_and_the_outcome() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = sending(&db, &gate).await;
    db.psql("UPDATE notification_jobs SET recipient = 'you', payload = '1', channel = 'elsewhere'")
        .await;
    gate.open();
    db.becomes("sent=1").await;
    let row = "SELECT recipient || payload || channel || attempts FROM notification_jobs";
    assert_eq!(db.value(row).await, "you1elsewhere1");
    assert_eq!(gate.begun(), 1);
    running.stop().await;
}

#[tokio::test]
async fn a_row_that_is_made_due_again_while_it_is_sent_is_not_sent_twice_at_once() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let running = sending(&db, &gate).await;
    db.psql("UPDATE notification_jobs SET next_attempt_at = now(), claimed_by = NULL, attempts = 0")
        .await;
    // The reactor takes it again, and gives the newer claim to the send that runs.
    let taken_again = "SELECT claim || ' ' || attempts || ' ' || (claimed_by IS NOT NULL) FROM notification_jobs";
    crate::support::eventually(SOON, || async {
        let row = db.value(taken_again).await;
        crate::support::expect(row == "2 1 true", row)
    })
    .await;
    gate.open();
    db.becomes("sent=1").await;
    still_works(&db, &gate).await;
    assert_eq!(gate.begun(), 2, "the row and the other one");
    running.stop().await;
}

#[tokio::test]
async fn max_attempts_counts_as_it_is_when_the_outcome_is_written() {
    for (changed_to, status, sends) in [(1, "failed=1", 1), (3, "failed=1", 3)] {
        let db = TestDb::new().await;
        let go = watch::Sender::new(false);
        let recording = Recording::new();
        let sender = FailingWhenTold {
            recording: recording.clone(),
            go: go.clone(),
        };
        let config = ChannelConfig::default().retry(RetryPolicy::linear(Duration::from_millis(10)));
        let running = Running::start(db.reactor_with(sender, config)).await;
        db.psql("INSERT INTO notification_jobs (channel, recipient, max_attempts) VALUES ('ops', 'me', 2)")
            .await;
        recording.next().await;
        db.psql(&format!("UPDATE notification_jobs SET max_attempts = {changed_to}"))
            .await;
        go.send_replace(true);
        db.becomes(status).await;
        assert_eq!(recording.recorded().len(), sends, "max_attempts = {changed_to}");
        running.stop().await;
    }
}

struct FailingWhenTold {
    recording: Recording,
    go: watch::Sender<bool>,
}

impl doorbell::Sender for FailingWhenTold {
    async fn send(&self, notification: &doorbell::Notification) -> Result<doorbell::Receipt, SendError> {
        self.recording.send(notification).await?;
        self.go.subscribe().wait_for(|go| *go).await?;
        Err(SendError::transient("told to"))
    }
}

#[tokio::test]
async fn columns_that_are_added_or_widened_while_the_reactor_runs_disturb_nothing() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    for change in [
        "ADD COLUMN tenant text DEFAULT 'x'",
        "ALTER COLUMN recipient TYPE varchar(500)",
        "ALTER COLUMN recipient TYPE text",
        "DROP COLUMN tenant",
    ] {
        db.insert("before").await;
        tokio::time::timeout(SOON, recording.next()).await.unwrap();
        db.psql(&format!("ALTER TABLE notification_jobs {change}")).await;
        db.insert("after").await;
        let sent = tokio::time::timeout(SOON, recording.next()).await;
        assert!(sent.is_ok(), "not sent after {change}");
    }
    db.becomes("sent=8").await;
    running.stop().await;
}

#[tokio::test]
async fn an_outcome_that_a_trigger_of_the_users_refuses_harms_no_other_row() {
    // The default, one of a class that is nobody's, and one of the standard's for what an application finds wrong.
    for code in ["P0001", "UE001", "45000"] {
        let (db, recording) = (
            TestDb::new().await,
            Recording::answering(|n| match n.recipient() {
                "bad text" => Err(SendError::permanent("forbidden word")),
                _ => Ok(doorbell::Receipt::none()),
            }),
        );
        db.psql(&format!(
            "CREATE FUNCTION censor() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE 'not that word' USING ERRCODE = '{code}'; END $$;
             CREATE TRIGGER censor BEFORE UPDATE ON notification_jobs FOR EACH ROW
                 WHEN (NEW.last_error LIKE '%forbidden%') EXECUTE FUNCTION censor();
             INSERT INTO notification_jobs (channel, recipient)
                 SELECT 'ops', r FROM unnest('{{a, b, bad text, c}}'::text[]) r"
        ))
        .await;
        let running = Running::start(db.reactor(recording.clone())).await;
        db.becomes("failed=1 sent=3").await;
        let error = db
            .value("SELECT last_error FROM notification_jobs WHERE status = 'failed'")
            .await;
        assert!(error.contains("refused"), "{error}");
        running.stop().await;
    }
}

#[tokio::test]
async fn outcomes_over_which_a_trigger_of_the_users_takes_its_time_are_written_a_few_at_a_time() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    // All of them together would take longer than a statement may.
    db.psql(
        "CREATE FUNCTION ponder() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END $$;
         CREATE TRIGGER ponder BEFORE UPDATE ON notification_jobs FOR EACH ROW
             WHEN (NEW.status = 'sent') EXECUTE FUNCTION ponder();
         INSERT INTO notification_jobs (channel, recipient) SELECT 'ops', n::text FROM generate_series(1, 80) n",
    )
    .await;
    let wide = ChannelConfig::default().max_in_flight(80);
    let running = Running::start(db.reactor_with(recording.clone(), wide)).await;
    assert_eq!(recording.wait_for(80, SOON).await.len(), 80);
    eventually(3 * SOON, || async {
        let now = db.statuses().await;
        expect(now == "sent=80", now)
    })
    .await;
    running.stop().await;
    assert_eq!(recording.recorded().len(), 80);
}
