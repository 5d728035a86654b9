//! What must go on whatever the dispatcher does: leases are renewed, and channels that nobody serves are named.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::reactor::lease::renewal_pace;
use crate::reactor::state::{Shared, count};

/// How often unserved channels are looked for.
const UNSERVED_INTERVAL: Duration = Duration::from_secs(30);

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
        futures::join!(self.renew_leases(), self.name_unserved());
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

    /// Logs each channel that nobody serves, once.
    async fn name_unserved(&self) {
        let mut named = HashSet::new();
        loop {
            match self.shared.store.unserved().await {
                Ok(channels) => {
                    for channel in channels.into_iter().filter(|channel| named.insert(channel.clone())) {
                        tracing::warn!(channel, "due notifications wait on a channel that no reactor serves");
                    }
                }
                Err(error) => tracing::debug!(error = %error.chain(), "could not look for unserved channels"),
            }
            tokio::time::sleep(UNSERVED_INTERVAL).await;
        }
    }
}
