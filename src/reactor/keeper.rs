//! What must go on whatever the dispatcher does: leases are renewed, and what no error would tell is looked for: channels that
//! nobody serves, rows that nobody sees. Two tasks, since a question that takes long must not cost a running send its lease.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Error;
use crate::reactor::lease::renewal_pace;
use crate::reactor::state::{Shared, count};

/// How often to look for what no error tells.
const WATCH_INTERVAL: Duration = Duration::from_secs(30);

/// Renews leases for as long as it is polled.
pub(crate) async fn renew_leases(shared: Arc<Shared>) {
    let (pace, age) = renewal_pace(shared.lease);
    loop {
        tokio::time::sleep(pace).await;
        renew(&shared, age).await;
    }
}

async fn renew(shared: &Shared, age: Duration) {
    let now = Instant::now();
    let Some(before) = now.checked_sub(age) else { return };
    let asked = shared.leases.older_than(before);
    if asked.is_empty() {
        return;
    }
    match shared.store.renew(&asked, shared.lease).await {
        Ok(kept) => {
            let lost = shared.leases.renewed(&asked, &kept, now);
            count(&shared.counts.lost, lost.len());
        }
        Err(error) => tracing::warn!(error = %error.chain(), leases = asked.len(), "leases could not be renewed"),
    }
}

/// Looks for what no error tells, for as long as it is polled.
pub(crate) async fn watch(shared: Arc<Shared>) {
    let mut named = HashSet::new();
    loop {
        if let Err(error) = name_unserved(&shared, &mut named).await {
            tracing::debug!(error = %error.chain(), "could not look for unserved channels");
        }
        tokio::time::sleep(WATCH_INTERVAL).await;
        if let Err(error) = shared.check_visibility().await {
            tracing::debug!(error = %error.chain(), "could not find out whether rows are hidden");
        }
    }
}

/// Logs each channel that nobody serves, once.
async fn name_unserved(shared: &Shared, named: &mut HashSet<String>) -> Result<(), Error> {
    for channel in shared.store.unserved().await? {
        if !named.contains(&channel) {
            tracing::warn!(channel, "due notifications wait on a channel that no reactor serves");
            named.insert(channel);
        }
    }
    Ok(())
}
