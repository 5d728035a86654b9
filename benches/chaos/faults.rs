//! How each fault is made, for real.

use std::collections::HashSet;
use std::time::Instant;

use doorbell::Uuid;
use doorbell::embedded::Server;
use nix::sys::signal::Signal;

use crate::fleet::{BEHIND_PROXY, Fleet, REACTORS};
use crate::proxy::Traffic;
use crate::schedule::{Kind, Plan};
use crate::{Outcome, session};

/// A fault as it was.
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// The reactor that it hit, if it hit one and we know which.
    pub(crate) victim: Option<usize>,
    pub(crate) began: Instant,
    /// What was broken is whole; nobody need have noticed yet.
    pub(crate) ended: Instant,
    /// The rows that were claimed when it began.
    pub(crate) claimed: HashSet<Uuid>,
}

/// All that can be hit.
pub(crate) struct Field {
    pub(crate) server: Server,
    pub(crate) url: String,
    pub(crate) fleet: Fleet,
}

impl Field {
    pub(crate) async fn make(&mut self, plan: Plan) -> Outcome<Fault> {
        let began = Instant::now();
        let claimed = self.claimed().await?;
        match plan.kind {
            Kind::Kill => {
                self.fleet.kill(plan.whom)?;
                tokio::time::sleep(plan.lasts).await;
                self.fleet.start_again(plan.whom).await?;
            }
            Kind::Stop => {
                self.fleet.signal(plan.whom, Signal::SIGSTOP)?;
                tokio::time::sleep(plan.lasts).await;
                self.fleet.signal(plan.whom, Signal::SIGCONT)?;
            }
            Kind::Backend => self.terminate_backend(plan.whom).await?,
            Kind::Freeze => self.through_proxy(Traffic::Freeze, plan).await,
            Kind::Cut => self.through_proxy(Traffic::Cut, plan).await,
            Kind::Restart => tokio::task::block_in_place(|| self.server.restart_fast())?,
            Kind::Crash => {
                tokio::task::block_in_place(|| self.server.stop_immediate())?;
                tokio::time::sleep(plan.lasts).await;
                tokio::task::block_in_place(|| self.server.start_again())?;
            }
        }
        Ok(Fault {
            kind: plan.kind,
            victim: match plan.kind {
                Kind::Kill | Kind::Stop => Some(plan.whom % REACTORS),
                Kind::Freeze | Kind::Cut => Some(BEHIND_PROXY),
                Kind::Backend | Kind::Restart | Kind::Crash => None,
            },
            began,
            ended: Instant::now(),
            claimed,
        })
    }

    async fn claimed(&self) -> Outcome<HashSet<Uuid>> {
        let claimed = "SELECT id FROM notification_jobs WHERE status = 'pending' AND claimed_by IS NOT NULL";
        let rows = session(&self.url).await?.query(claimed, &[]).await?;
        Ok(rows.iter().map(|row| row.try_get("id")).collect::<Result<_, _>>()?)
    }

    async fn through_proxy(&self, mode: Traffic, plan: Plan) {
        self.fleet.proxy.set(mode);
        tokio::time::sleep(plan.lasts).await;
        self.fleet.proxy.set(Traffic::Pass);
    }

    async fn terminate_backend(&self, whom: usize) -> Outcome<()> {
        let backends = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'doorbell%' ORDER BY pid";
        let client = session(&self.url).await?;
        let backends = client.query(backends, &[]).await?;
        if let Some(row) = backends.get(whom % backends.len().max(1)) {
            let pid: i32 = row.try_get(0)?;
            client.execute("SELECT pg_terminate_backend($1)", &[&pid]).await?;
        }
        Ok(())
    }
}
