//! A reactor's half of the bell, by hand.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// A session that is asleep as the bell has it: it holds `ASLEEP` and listens. So every insert must ring.
pub(crate) struct Sleeper {
    _client: Client,
    rings: mpsc::UnboundedReceiver<()>,
}

impl Sleeper {
    /// Sleeps on the bell of this schema, given as a quoted identifier.
    pub(crate) async fn new(url: &str, schema: &str) -> Self {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let (ring, rings) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
                if matches!(message, AsyncMessage::Notification(_)) && ring.send(()).is_err() {
                    return;
                }
            }
        });
        let bell = client
            .query_one(
                &format!(
                    "SELECT pg_advisory_lock_shared(asleep_class, lock_id)::text, topic FROM {schema}.doorbell_bell()"
                ),
                &[],
            )
            .await
            .unwrap();
        let topic: &str = bell.try_get("topic").unwrap();
        client.batch_execute(&format!("LISTEN {topic}")).await.unwrap();
        Sleeper { _client: client, rings }
    }

    /// Waits for the next ring.
    pub(crate) async fn rung(&mut self) {
        let ring = tokio::time::timeout(Duration::from_secs(5), self.rings.recv()).await;
        assert!(matches!(ring, Ok(Some(_))), "no ring within 5 s");
    }

    /// Has it been rung since the last time?
    pub(crate) fn was_rung(&mut self) -> bool {
        self.rings.try_recv().is_ok()
    }
}
