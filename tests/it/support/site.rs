//! A server of one test, which may be stopped, cut off and started again.

use std::time::Instant;

use doorbell::{Migrator, embedded};
use tokio_postgres::Client;

use super::connect;

/// With the tables in schema `public` of the database `postgres`.
pub(crate) struct Site {
    pub(crate) server: embedded::Server,
}

impl Site {
    pub(crate) async fn new(builder: embedded::Builder) -> Self {
        let server = tokio::task::block_in_place(|| builder.fast_and_fragile().start()).unwrap();
        let site = Site { server };
        Migrator::new("public")
            .unwrap()
            .up(&mut site.client().await)
            .await
            .unwrap();
        site
    }

    pub(crate) fn url(&self) -> String {
        self.server.url("postgres")
    }

    pub(crate) async fn client(&self) -> Client {
        connect(&self.url()).await
    }

    /// At once, as in a crash.
    pub(crate) fn stop(&mut self) {
        tokio::task::block_in_place(|| self.server.stop_immediate()).unwrap();
    }

    /// Answers with when it was back.
    pub(crate) fn start(&mut self) -> Instant {
        tokio::task::block_in_place(|| self.server.start_again()).unwrap();
        Instant::now()
    }
}
