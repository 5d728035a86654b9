//! What the server answers, asked by any client.

use tokio_postgres::Client;

use super::{SOON, eventually, expect};

/// Who has been listed for so long has held its lock for long enough to judge others.
pub(crate) const ON_DUTY: &str = "SELECT count(*) FROM notification_reactors
                                  WHERE lock_key <> 0 AND started_at < clock_timestamp() - interval '6 s'";
/// Longer than it takes to find a reactor dead and to rescue its rows.
pub(crate) const TWO_LOOKS_AND_MORE: &str = "SELECT pg_sleep(3)";

/// One value, as text; NULL is empty.
pub(crate) async fn value(client: &Client, sql: &str) -> String {
    let row = client.query_one(&format!("SELECT ({sql})::text"), &[]).await.unwrap();
    row.try_get::<_, Option<String>>(0).unwrap().unwrap_or_default()
}

/// Waits until that value is this.
pub(crate) async fn becomes(client: &Client, sql: &str, wanted: &str) {
    eventually(SOON, || async {
        let now = value(client, sql).await;
        expect(now == wanted, format!("{now} instead of {wanted}: {sql}"))
    })
    .await;
}

/// Waits until so many reactors may judge others.
pub(crate) async fn on_duty(client: &Client, reactors: usize) {
    becomes(client, ON_DUTY, &reactors.to_string()).await;
}
