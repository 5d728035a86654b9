//! How much memory a process takes that has more to send than it could hold.

use super::Home;
use crate::large_payloads::insert;
use crate::support::program::Process;
use crate::support::{TestDb, eventually, expect};

/// Two of a fifty megabytes: the row, and what the sender makes of it; each grows by doubling.
const BOUND: usize = 400_000_000;

#[tokio::test]
async fn twenty_payloads_of_fifty_megabytes_go_out_and_the_process_stays_small() {
    let db = TestDb::new().await;
    insert(&db, 20, 50_000_000).await;
    let home = Home::with_script(&db, "wc -c >> sizes", "max_in_flight = 20");
    let process = Process::run(&home.config(), &[]).await;
    eventually(std::time::Duration::from_secs(120), || async {
        let statuses = db.statuses().await;
        expect(statuses == "sent=20", statuses)
    })
    .await;
    let sizes = super::read(home.path("sizes"));
    let arrived = sizes
        .lines()
        .filter(|size| size.trim().parse::<usize>().unwrap() > 50_000_000);
    assert_eq!(arrived.count(), 20, "{sizes}");
    assert_eq!(db.value("SELECT max(attempts) FROM notification_jobs").await, "1");
    let peak = process.peak_memory();
    println!("at most {} MB for 20 payloads of 50 MB", peak / 1_000_000);
    assert!(peak < BOUND, "{peak} bytes");
}
