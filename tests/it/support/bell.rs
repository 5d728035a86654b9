//! The bell, seen from outside: what rang, and who holds its locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt;
use futures::stream::poll_fn;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};

use super::{SOON, TestDb, eventually, expect};

/// A session that listens on the bell's topic and counts.
pub(crate) struct Ears {
    session: Client,
    heard: Arc<AtomicUsize>,
}

impl Ears {
    /// How many notifications have been committed since it began to listen.
    pub(crate) async fn heard(&self) -> usize {
        // The server hands out what was committed before this statement, at its end at the latest.
        self.session.batch_execute("SELECT").await.unwrap();
        self.heard.load(Ordering::SeqCst)
    }
}

impl TestDb {
    /// Listens from now on.
    pub(crate) async fn ears(&self) -> Ears {
        let config: Config = self.url().parse().unwrap();
        let (session, mut connection) = config.connect(NoTls).await.unwrap();
        let heard = Arc::new(AtomicUsize::new(0));
        let mut messages = poll_fn(move |cx| connection.poll_message(cx)).boxed();
        tokio::spawn({
            let heard = Arc::clone(&heard);
            async move {
                while let Some(Ok(message)) = messages.next().await {
                    if matches!(message, AsyncMessage::Notification(_)) {
                        heard.fetch_add(1, Ordering::SeqCst);
                    }
                }
            }
        });
        let topic = self.value("SELECT topic FROM doorbell_bell()").await;
        session.batch_execute(&format!("LISTEN \"{topic}\"")).await.unwrap();
        Ears { session, heard }
    }

    /// How many sessions hold one of the bell's locks, `asleep` or `in_flight`, in share mode.
    pub(crate) async fn holders(&self, lock: &str) -> usize {
        let held = format!(
            "SELECT count(*) FROM pg_locks, doorbell_bell() AS bell
             WHERE locktype = 'advisory' AND granted AND mode = 'ShareLock' AND classid = bell.{lock}_class::oid
                 AND objid = bell.lock_id::oid
                 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        );
        self.value(&held).await.parse().unwrap()
    }

    /// Waits until so many reactors are armed, so that the next insert rings.
    pub(crate) async fn armed(&self, reactors: usize) {
        eventually(SOON, || async {
            let armed = self.holders("asleep").await;
            expect(armed == reactors, format!("{armed} reactors are armed, not {reactors}"))
        })
        .await;
    }
}
