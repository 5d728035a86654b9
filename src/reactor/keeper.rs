//! What must go on whatever the dispatcher does: leases are renewed, and what no error would tell is looked for: channels that
//! nobody serves, rows that nobody sees.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Error;
use crate::reactor::lease::renewal_pace;
use crate::reactor::state::{Shared, count};

/// How often to look for what no error tells.
const WATCH_INTERVAL: Duration = Duration::from_secs(30);

pub(crate) struct Keeper {
    shared: Arc<Shared>,
}

impl Keeper {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Keeper { shared }
    }

    /// Goes on for as long as it is polled. Side by side: a question that takes long must not cost a running send its
    /// lease.
    pub(crate) async fn run(self) {
        futures::join!(self.renew_leases(), self.watch());
    }

    /// Only renews leases, for a reactor that is not listed.
    pub(crate) async fn renew_only(self) {
        self.renew_leases().await;
    }

    async fn renew_leases(&self) {
        let (pace, age) = renewal_pace(self.shared.lease);
        loop {
            tokio::time::sleep(pace).await;
            self.renew(age).await;
        }
    }

    async fn renew(&self, age: Duration) {
        let now = Instant::now();
        let Some(before) = now.checked_sub(age) else { return };
        let asked = self.shared.leases.older_than(before);
        if asked.is_empty() {
            return;
        }
        match self.shared.store.renew(&asked, self.shared.lease).await {
            Ok(kept) => {
                let lost = self.shared.leases.renewed(&asked, &kept, now);
                count(&self.shared.counts.lost, lost.len());
            }
            Err(error) => tracing::warn!(error = %error.chain(), leases = asked.len(), "leases could not be renewed"),
        }
    }

    async fn watch(&self) {
        let mut named = HashSet::new();
        loop {
            if let Err(error) = self.name_unserved(&mut named).await {
                tracing::debug!(error = %error.chain(), "could not look for unserved channels");
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
            if let Err(error) = self.shared.find_rows().await {
                tracing::debug!(error = %error.chain(), "could not find out whether rows are hidden");
            }
        }
    }

    /// Logs each channel that nobody serves, once.
    async fn name_unserved(&self, named: &mut HashSet<String>) -> Result<(), Error> {
        for channel in self.shared.store.unserved().await? {
            if !named.contains(&channel) {
                tracing::warn!(channel, "due notifications wait on a channel that no reactor serves");
                named.insert(channel);
            }
        }
        Ok(())
    }
}
