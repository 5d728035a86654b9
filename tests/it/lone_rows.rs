//! What a row costs that comes alone.

use std::time::Duration;

use doorbell::senders::Recording;

use crate::support::{Running, SOON, TestDb, eventually, expect};

/// Longer than any nap of a reactor that has been kept from sleep for less than [`SOON`].
const LONG_ASLEEP: Duration = Duration::from_millis(500);

/// Waits until the listening session has been asked nothing for as long as no nap lasts.
async fn asks_nothing(db: &TestDb) {
    let idle = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE '%listener%' AND state = 'idle'
             AND clock_timestamp() - state_change > interval '{} ms'",
        LONG_ASLEEP.as_millis()
    );
    eventually(SOON, || async {
        let idle = db.value(&idle).await;
        expect(idle == "1", "the reactor naps instead of sleeping")
    })
    .await;
}

/// Silent producers that have come since cannot be: they would have rung. So nothing is tested again; and had the look
/// taken its own row for one that somebody else holds, the reactor would nap and test from then on, and the lock that is
/// held here would keep it from sleep.
#[tokio::test]
async fn a_reactor_that_sends_a_lone_row_sleeps_on_at_once() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    asks_nothing(&db).await;
    let holder = db.client().await;
    let hold = "SELECT pg_advisory_lock_shared(in_flight_class, lock_id) FROM doorbell_bell()";
    holder.batch_execute(hold).await.unwrap();
    // More than one, so that the claim and the question after it are prepared and go out together.
    for n in 0..3 {
        db.insert(&n.to_string()).await;
        let sent = tokio::time::timeout(SOON, recording.next()).await.unwrap();
        assert_eq!(sent.recipient(), n.to_string());
        asks_nothing(&db).await;
    }
    running.stop().await;
}
