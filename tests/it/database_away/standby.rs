//! A standby: it is promoted, or it is all that there is.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use doorbell::senders::Recording;
use doorbell::{ChannelConfig, Database, embedded};
use tempfile::TempDir;
use tokio_postgres::Client;

use super::{SOON, all_sent, each_once, insert, three_in_flight};
use crate::support::program::{doorbell, output};
use crate::support::{Running, Site, eventually, expect, reactor_on, value};

/// A hot standby of this server. Its directory goes last.
struct Standby {
    site: Site,
    _dir: TempDir,
}

impl Standby {
    fn of(primary: &Site) -> Self {
        tokio::task::block_in_place(|| {
            let dir = TempDir::with_prefix("doorbell-").unwrap();
            let owner = std::fs::metadata(primary.server.data_dir().join("data")).unwrap();
            chown(dir.path(), Some(owner.uid()), Some(owner.gid())).unwrap();
            std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
            let mut copy = Command::new(primary.server.bin_dir().join("pg_basebackup"));
            copy.args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync", "--dbname"])
                .arg(primary.url())
                .arg("--pgdata")
                .arg(dir.path().join("data"))
                .current_dir("/");
            if owner.uid() != 0 && nix::unistd::Uid::effective().is_root() {
                copy.uid(owner.uid()).gid(owner.gid());
            }
            assert!(copy.status().unwrap().success());
            let builder = embedded::Server::builder().data_dir(dir.path()).fast_and_fragile();
            let site = Site {
                server: builder.start().unwrap(),
            };
            Standby { site, _dir: dir }
        })
    }

    /// Waits until it has all that the primary has.
    async fn catches_up(&self, primary: &Client) {
        let client = self.site.client().await;
        let end = value(primary, "SELECT pg_current_wal_flush_lsn()").await;
        eventually(SOON, || async {
            let has = value(&client, &format!("SELECT pg_last_wal_replay_lsn() >= '{end}'")).await;
            expect(has == "true", "it lags behind")
        })
        .await;
    }

    async fn promote(&self) -> (Client, Instant) {
        let client = self.site.client().await;
        assert_eq!(value(&client, "SELECT pg_promote()").await, "true");
        (client, Instant::now())
    }
}

/// One address for both, the primary first.
fn both(primary: &Site, standby: &Standby) -> String {
    let dirs = [&primary.server, &standby.site.server].map(|server| server.socket_dir().display().to_string());
    format!("host={} port=5432,5432 user=postgres dbname=postgres", dirs.join(","))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_promoted_is_found_and_what_was_sent_meanwhile_is_written_there() {
    let mut primary = Site::new(embedded::Server::builder()).await;
    let standby = Standby::of(&primary);
    let client = primary.client().await;
    let url = format!("{} target_session_attrs=read-write", both(&primary, &standby));
    let (running, gate) = three_in_flight(&url, &client).await;
    standby.catches_up(&client).await;
    primary.stop();
    gate.open();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (client, back) = standby.promote().await;
    insert(&client, 2).await;
    all_sent(&client, 5, back).await;
    running.stop().await;
    each_once(&client, &gate.sends()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_to_a_standby_is_given_up_when_the_primary_is_back() {
    let mut primary = Site::new(embedded::Server::builder()).await;
    let standby = Standby::of(&primary);
    let (running, gate) = three_in_flight(&both(&primary, &standby), &primary.client().await).await;
    primary.stop();
    gate.open();
    tokio::time::sleep(Duration::from_secs(3)).await;
    let back = primary.start();
    let client = primary.client().await;
    insert(&client, 2).await;
    all_sent(&client, 5, back).await;
    running.stop().await;
    each_once(&client, &gate.sends()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_that_finds_only_a_standby_waits_until_it_is_promoted() {
    let primary = Site::new(embedded::Server::builder()).await;
    let standby = Standby::of(&primary);
    let recording = Recording::new();
    let database = Database::builder(standby.site.url()).build().unwrap();
    let reactor = reactor_on(database, recording.clone(), ChannelConfig::default());
    let running = Running::start_without_waiting(reactor);
    insert(&primary.client().await, 3).await;
    standby.catches_up(&primary.client().await).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let doctor = output(&mut doorbell(["doctor", "--database-url", &standby.site.url()])).await;
    let findings = String::from_utf8(doctor.stdout).unwrap();
    assert!(
        doctor.status.code() == Some(1) && findings.contains("a standby, which only reads"),
        "{findings}"
    );
    let (client, back) = standby.promote().await;
    all_sent(&client, 3, back).await;
    running.stop().await;
    each_once(&client, &recording.recorded()).await;
}
