//! The server's clock beside ours.

use std::time::{Duration, Instant};

use tokio_postgres::Client as PgClient;

use crate::failure::Failure;

/// How often to look; the quickest look counts.
const LOOKS: usize = 5;

/// What both clocks showed at one moment, give or take half a round trip.
pub(super) struct Clocks {
    ours: Instant,
    /// Seconds since 1970.
    theirs: f64,
}

impl Clocks {
    pub(super) async fn compare(client: &PgClient) -> Result<Self, Failure> {
        let mut best: Option<(Duration, Clocks)> = None;
        for _ in 0..LOOKS {
            let asked = Instant::now();
            let sql = "SELECT date_part('epoch', pg_catalog.clock_timestamp())::float8";
            let theirs = client.query_typed_one(sql, &[]).await?.try_get(0)?;
            let took = asked.elapsed();
            let ours = asked + took / 2;
            if best.as_ref().is_none_or(|(quickest, _)| took < *quickest) {
                best = Some((took, Clocks { ours, theirs }));
            }
        }
        best.map(|(_, clocks)| clocks)
            .ok_or_else(|| Failure::new("the server's clock was not looked at"))
    }

    /// What ours showed when theirs showed this.
    pub(super) fn ours(&self, theirs: f64) -> Instant {
        let difference = theirs - self.theirs;
        let span = Duration::try_from_secs_f64(difference.abs()).unwrap_or_default();
        match difference >= 0.0 {
            true => self.ours + span,
            false => self.ours.checked_sub(span).unwrap_or(self.ours),
        }
    }
}
