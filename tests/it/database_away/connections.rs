//! Others have taken every connection.

use std::time::{Duration, Instant};

use doorbell::embedded;
use tokio_postgres::{Client, NoTls};

use super::{AWAY, all_sent, each_once, insert, three_in_flight};
use crate::support::{Site, connect, value};

/// Takes every place that is free, from another database than the reactor's; and those that who is refused there had for
/// a moment.
async fn take_all_places(site: &Site) -> Vec<Client> {
    let (mut places, mut refusals) = (Vec::new(), 0);
    while refusals < 20 {
        match tokio_postgres::connect(&site.server.url("template1"), NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                places.push(client);
            }
            Err(error) => {
                assert_eq!(error.code().unwrap().code(), "53300", "{error:?}");
                refusals += 1;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
    places
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_that_finds_no_place_gets_on_as_soon_as_there_is_one() {
    let builder = embedded::Server::builder()
        .setting("max_connections", "20")
        .setting("superuser_reserved_connections", "0");
    let site = Site::new(builder).await;
    let client = site.client().await;
    let (running, gate) = three_in_flight(&site.url(), &client).await;
    // While it may not come back, so that it cannot take a place that it has just lost.
    let doorman = connect(&site.server.url("template1")).await;
    let let_in = async |allow: bool| {
        let statement = format!("ALTER DATABASE postgres ALLOW_CONNECTIONS {allow}");
        doorman.batch_execute(&statement).await.unwrap();
    };
    let_in(false).await;
    let kick_out = "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 1000)) FROM pg_stat_activity
                    WHERE application_name LIKE 'doorbell%'";
    assert_ne!(value(&client, kick_out).await, "0");
    let places = take_all_places(&site).await;
    let_in(true).await;
    gate.open();
    insert(&client, 2).await;
    client.batch_execute(AWAY).await.unwrap();
    assert_eq!(
        value(&client, "SELECT count(*) FROM notification_jobs WHERE status = 'sent'").await,
        "0"
    );
    drop(places);
    let back = Instant::now();
    all_sent(&client, 5, back).await;
    running.stop().await;
    each_once(&client, &gate.sends()).await;
}
