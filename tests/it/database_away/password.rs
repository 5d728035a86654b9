//! The password is changed.

use std::time::Instant;

use doorbell::embedded;

use super::{AWAY, all_sent, each_once, insert, three_in_flight};
use crate::support::{Site, value};

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_whose_password_is_wrong_for_a_while_goes_on_when_it_is_right_again() {
    let site = Site::new(embedded::Server::builder().port(0)).await;
    let client = site.client().await;
    let url = site.server.loopback_url("postgres").unwrap();
    let (credentials, _) = url.split_once('@').unwrap();
    let (_, password) = credentials.rsplit_once(':').unwrap();
    let (running, gate) = three_in_flight(&url, &client).await;
    client
        .batch_execute("ALTER ROLE postgres PASSWORD 'another'")
        .await
        .unwrap();
    // Again and again: who has begun to prove the old password is let in a moment later.
    for _ in 0..5 {
        let kick_out = "SELECT count(pg_terminate_backend(pid, 1000)), pg_sleep(0.2) FROM pg_stat_activity
                        WHERE client_addr IS NOT NULL";
        client.batch_execute(kick_out).await.unwrap();
    }
    gate.open();
    insert(&client, 2).await;
    client.batch_execute(AWAY).await.unwrap();
    assert_eq!(
        value(&client, "SELECT count(*) FROM notification_jobs WHERE status = 'sent'").await,
        "0"
    );
    client
        .batch_execute(&format!("ALTER ROLE postgres PASSWORD '{password}'"))
        .await
        .unwrap();
    all_sent(&client, 5, Instant::now()).await;
    running.stop().await;
    each_once(&client, &gate.sends()).await;
}
