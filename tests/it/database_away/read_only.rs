//! Sessions that only read.

use std::time::Instant;

use doorbell::embedded;

use super::{all_sent, each_once, insert, three_in_flight};
use crate::support::Site;

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_sessions_only_read_by_default_is_written_to_all_the_same() {
    let site = Site::new(embedded::Server::builder()).await;
    let client = site.client().await;
    client
        .batch_execute("SET default_transaction_read_only = off")
        .await
        .unwrap();
    let (running, gate) = three_in_flight(&site.url(), &client).await;
    for (round, value) in ["on", "off", "on"].into_iter().enumerate() {
        client
            .batch_execute(&format!("ALTER SYSTEM SET default_transaction_read_only = {value}"))
            .await
            .unwrap();
        client.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        gate.open();
        insert(&client, 2).await;
        all_sent(&client, 5 + 2 * round, Instant::now()).await;
    }
    running.stop().await;
    each_once(&client, &gate.sends()).await;
}
