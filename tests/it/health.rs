//! What a running reactor says of itself: whether it hears, sees, claims and settles.

use doorbell::senders::Recording;
use doorbell::{Database, Health, Mode};

use crate::support::{Gate, Role, Running, SOON, TestDb, eventually, expect, patient, reactor_on};

/// What the README has a reactor's role granted.
const RIGHTS: &str = "SELECT, UPDATE ON notification_jobs";

async fn becomes(running: &Running, what: &str, holds: impl Fn(&Health) -> bool) -> Health {
    eventually(SOON, || async {
        let health = running.reactor.health();
        expect(holds(&health), format!("not {what}: {health:?}")).map(|()| health)
    })
    .await
}

/// A role that may do what a reactor needs.
async fn reactor_role(db: &TestDb) -> Role {
    let role = Role::new(db, "reactor").await;
    let name = &role.name;
    db.psql(&format!(
        "GRANT {RIGHTS} TO {name}; GRANT ALL ON notification_reactors TO {name}"
    ))
    .await;
    role
}

fn database_of(role: &Role) -> Database {
    Database::builder(role.url()).build().unwrap()
}

#[tokio::test]
async fn a_reactor_that_listens_and_sends_is_healthy_and_one_that_does_not_run_is_not() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.insert("me").await;
    recording.wait_for(1, SOON).await;
    let health = becomes(&running, "looking", |health| health.looked_ago.is_some()).await;
    assert!(health.is_healthy() && health.mode == Mode::Listening, "{health:?}");
    assert!(health.probed_ago.unwrap() <= SOON && health.mode_lasted <= SOON);
    let json: serde_json::Value = serde_json::from_str(&health.to_json()).unwrap();
    assert_eq!((&json["healthy"], &json["mode"]), (&true.into(), &"listening".into()));
    assert_eq!(json["claiming"]["works"], true);

    let reactor = running.reactor.clone();
    running.stop().await;
    let health = reactor.health();
    assert!(!health.is_healthy() && health.mode == Mode::Starting, "{health:?}");

    let running = Running::start(db.reactor(recording)).await;
    let reactor = running.reactor.clone();
    running.crash().await;
    let health = reactor.health();
    assert!(!health.is_healthy() && health.mode == Mode::Starting, "{health:?}");
}

#[tokio::test]
async fn a_reactor_that_lost_its_ear_says_why_and_is_well_again_when_it_has_it_back() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let running = Running::start(db.reactor(recording.clone())).await;
    db.let_in(false).await;
    db.terminate_backends("doorbell listener").await;
    let polling = becomes(
        &running,
        "polling",
        |health| matches!(&health.mode, Mode::Polling { why } if why.contains("not currently accepting connections")),
    )
    .await;
    // Whether it can look depends on how many sessions it has: new ones are not let in either.
    assert!(!polling.is_healthy() && polling.mode_lasted <= SOON, "{polling:?}");
    assert!(
        polling.problems()[0].starts_with("it does not hear the bell"),
        "{:?}",
        polling.problems()
    );
    db.let_in(true).await;
    becomes(&running, "healthy", Health::is_healthy).await;
    running.stop().await;
}

#[tokio::test]
async fn a_reactor_from_which_row_level_security_keeps_the_rows_is_not_healthy() {
    let (db, recording) = (TestDb::new().await, Recording::new());
    let role = reactor_role(&db).await;
    db.psql("ALTER TABLE notification_jobs ENABLE ROW LEVEL SECURITY").await;
    db.insert("me").await;
    let builder = reactor_on(database_of(&role), recording.clone(), patient());
    let running = Running::start(builder).await;
    let health = becomes(&running, "looking", |health| health.looked_ago.is_some()).await;
    assert!(
        health.rows_hidden && !health.is_healthy() && health.claiming.is_ok(),
        "{health:?}"
    );
    running.stop().await;

    // To see them is not enough, they must be changed too.
    for (policy, hidden) in [("FOR SELECT", true), ("FOR UPDATE", false)] {
        let name = policy.split(' ').next_back().unwrap();
        db.psql(&format!(
            "CREATE POLICY p_{name} ON notification_jobs {policy} TO {} USING (true)",
            role.name
        ))
        .await;
        let builder = reactor_on(database_of(&role), recording.clone(), patient());
        let running = Running::start(builder).await;
        assert_eq!(running.reactor.health().rows_hidden, hidden, "{policy}");
        if !hidden {
            db.becomes("sent=1").await;
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn a_reactor_that_may_no_longer_claim_or_settle_says_so_for_as_long_as_it_lasts() {
    let (db, gate) = (TestDb::new().await, Gate::shut());
    let role = reactor_role(&db).await;
    let running = Running::start(reactor_on(database_of(&role), gate.clone(), patient())).await;
    db.insert("first").await;
    gate.wait_for(1, SOON).await;
    db.psql(&format!("REVOKE {RIGHTS} FROM {}", role.name)).await;
    db.insert("second").await;
    let health = becomes(&running, "failing to claim", |health| health.claiming.is_err()).await;
    let trouble = health.claiming.clone().unwrap_err();
    assert!(
        trouble.why.contains("permission denied") && !health.is_healthy(),
        "{health:?}"
    );
    gate.open();
    let health = becomes(&running, "failing to settle", |health| health.settling.is_err()).await;
    assert_eq!(health.problems().len(), 2, "{health:?}");

    db.psql(&format!("GRANT {RIGHTS} TO {}", role.name)).await;
    db.becomes("sent=2").await;
    becomes(&running, "healthy", Health::is_healthy).await;
    running.stop().await;
}
