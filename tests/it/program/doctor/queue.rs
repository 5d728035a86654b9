//! Reactors that are gone or deaf, and rows that wait for them.

use nix::sys::signal::Signal;

use super::{CHANNELS, Checkup};
use crate::program::Home;
use crate::support::program::{Process, printed};
use crate::support::{Role, SOON, TestDb, eventually, expect};

const SENT: &str = "SELECT count(*) FROM notification_jobs WHERE status = 'sent'";

#[tokio::test]
async fn a_reactor_that_was_killed_and_what_it_held_are_found() {
    let db = TestDb::new().await;
    let home = Home::with_script(&db, "echo begun >> begun; sleep 60", "timeout = '90s'");
    let mut reactor = Process::run(&home.config(), &[]).await;
    db.insert("me").await;
    eventually(SOON, || async {
        expect(home.path("begun").exists(), "no send has begun")
    })
    .await;
    // It shows its lock a moment after it is ready.
    let listed = "SELECT count(*) FROM notification_reactors WHERE lock_key <> 0";
    eventually(SOON, || async {
        expect(db.value(listed).await == "1", "its lock is not shown")
    })
    .await;
    reactor.signal(Signal::SIGKILL);
    reactor.exit().await;
    let checkup = eventually(SOON, || async {
        let checkup = Checkup::of(&db.url(), &[]).await;
        let found = checkup.find("bad", "no reactor runs").is_some();
        expect(found, checkup.report.to_string()).map(|()| checkup)
    })
    .await;
    checkup.agrees_with_its_exit();
    let mend = checkup.mend("warning", "1 notification held by a reactor that is gone");
    assert!(mend.starts_with("doorbell run"), "{mend}");
}

#[tokio::test]
async fn a_reactor_that_does_not_hear_the_bell_is_told_from_one_that_does() {
    let db = TestDb::new().await;
    let role = Role::new(&db, "reactor").await;
    db.psql(&format!(
        "GRANT ALL ON notification_jobs, notification_reactors TO {}",
        role.name
    ))
    .await;
    let home = Home::new(&db, "");
    home.configure(&format!("[database]\nurl = {:?}\n{CHANNELS}", role.url()));
    let reactor = Process::run(&home.config(), &[]).await;
    let deaf = "does not hear the bell";
    eventually(SOON, || async {
        let checkup = Checkup::of(&db.url(), &[]).await;
        let modes = db
            .value("SELECT count(*) FROM notification_reactors WHERE lock_key <> 0")
            .await;
        expect(checkup.code == Some(0) && modes == "1", checkup.report.to_string())
    })
    .await;
    assert!(Checkup::of(&db.url(), &[]).await.find("warning", deaf).is_none());
    db.psql(&format!("ALTER ROLE {} CONNECTION LIMIT 0", role.name)).await;
    db.terminate_backends("doorbell listener").await;
    eventually(SOON, || async {
        let checkup = Checkup::of(&db.url(), &[]).await;
        expect(checkup.find("warning", deaf).is_some(), checkup.report.to_string())
    })
    .await;
    drop(reactor);
}

#[tokio::test]
async fn rows_that_wait_are_the_worse_the_longer_they_do() {
    let db = TestDb::new().await;
    for (minutes, level) in [(0, "warning"), (2, "warning"), (20, "bad")] {
        db.psql(&format!(
            "DELETE FROM notification_jobs; INSERT INTO notification_jobs (channel, recipient, next_attempt_at, created_at)
             VALUES ('late', 'me', now() - interval '{minutes} min', now() - interval '{minutes} min')"
        ))
        .await;
        let checkup = Checkup::of(&db.url(), &[]).await;
        let mend = checkup.mend(level, "no reactor serves it");
        assert!(mend.contains("[channels.\"late\"]"), "{mend}");
    }
    // Served, and late all the same.
    db.psql(
        "INSERT INTO notification_reactors (id, lock_key, host, version, channels, lease)
         VALUES (gen_random_uuid(), 0, 'here', '1', '{late}', '1 min')",
    )
    .await;
    let checkup = Checkup::of(&db.url(), &[]).await;
    let mend = checkup.mend("bad", "\"late\": 1 notification due, the oldest for 20m");
    assert!(mend.starts_with("max_in_flight"), "{mend}");
    // This one shows no lock.
    assert!(checkup.find("warning", "shows no lock").is_some(), "{}", checkup.report);
}

#[tokio::test]
async fn what_failed_is_told_and_what_is_said_sends_it_again() {
    let db = TestDb::new().await;
    db.psql("INSERT INTO notification_jobs (channel, recipient, status) VALUES ('ops', 'me', 'failed')")
        .await;
    let checkup = Checkup::of(&db.url(), &[]).await;
    let mend: Vec<&str> = checkup
        .mend("info", "1 notification failed")
        .split(' ')
        .skip(1)
        .collect();
    printed(mend.iter().copied().chain(["--database-url", &db.url()])).await;
    assert_eq!(db.statuses().await, "pending=1");
    let home = Home::new(&db, CHANNELS);
    let _reactor = Process::run(&home.config(), &[]).await;
    eventually(SOON, || async { expect(db.value(SENT).await == "1", "it is not sent") }).await;
}

#[tokio::test]
async fn a_transaction_that_keeps_reactors_awake_is_found_and_ended_by_what_is_said() {
    let db = TestDb::new().await;
    let mut producer = db.client_named("the-producer").await;
    let open = producer.transaction().await.unwrap();
    open.batch_execute("INSERT INTO notification_jobs (channel, recipient) VALUES ('ops', 'me')")
        .await
        .unwrap();
    let checkup = eventually(SOON, || async {
        let checkup = Checkup::of(&db.url(), &[]).await;
        let found = checkup.find("warning", "reactors stay awake for it").is_some();
        expect(found, checkup.report.to_string()).map(|()| checkup)
    })
    .await;
    assert!(
        checkup.find("ok", "the longest has been open for").is_some(),
        "{}",
        checkup.report
    );
    db.psql(checkup.mend("warning", "(the-producer)")).await;
    let checkup = Checkup::of(&db.url(), &[]).await;
    assert!(
        checkup.find("warning", "reactors stay awake for it").is_none(),
        "{}",
        checkup.report
    );
}
