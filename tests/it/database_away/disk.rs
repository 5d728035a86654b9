//! A full disk: a small file system of its own under the table.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, chown};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use doorbell::{ChannelConfig, Database, embedded};
use tempfile::TempDir;

use super::{AWAY, SOON, all_sent, each_once, insert};
use crate::support::{Gate, Running, Site, eventually, expect, reactor_on, value};

/// A file system in memory, gone with the value.
struct SmallDisk(TempDir);

impl SmallDisk {
    /// None where we may not mount one.
    fn mount() -> Option<Self> {
        let dir = TempDir::with_prefix("doorbell-").unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(dir.path());
        let mounted = mount.stderr(Stdio::null()).status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk(dir))
    }

    /// Leaves no room for another page.
    fn fill(&self) {
        let mut file = fs::File::create(self.0.path().join("filling")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.0.path().join("filling")).unwrap();
    }
}

/// A server that has this disk as the tablespace `small`.
async fn site_with(disk: &SmallDisk) -> Site {
    let site = Site::new(embedded::Server::builder()).await;
    let owner = fs::metadata(site.server.data_dir().join("data")).unwrap();
    chown(disk.0.path(), Some(owner.uid()), Some(owner.gid())).unwrap();
    let tablespace = format!("CREATE TABLESPACE small LOCATION '{}'", disk.0.path().display());
    site.client().await.batch_execute(&tablespace).await.unwrap();
    site
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The server is gone by now; what is left of this is no more than a name in the list of mounts.
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_that_a_full_disk_refuses_are_written_when_it_has_room() {
    let Some(disk) = SmallDisk::mount() else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let site = site_with(&disk).await;
    let client = site.client().await;
    client
        .batch_execute("ALTER TABLE notification_jobs SET TABLESPACE small, SET (autovacuum_enabled = off)")
        .await
        .unwrap();
    let gate = Gate::shut();
    let patient = ChannelConfig::default()
        .timeout(Duration::from_secs(600))
        .max_in_flight(60);
    let database = Database::builder(site.url()).build().unwrap();
    let running = Running::start(reactor_on(database, gate.clone(), patient)).await;
    // So large that hardly any page has room for the next version of one of its rows, and what is dead stays.
    let reader = site.client().await;
    reader
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM notification_jobs")
        .await
        .unwrap();
    let insert = "INSERT INTO notification_jobs (channel, recipient, payload)
                  SELECT 'ops', 'me', to_jsonb((SELECT string_agg(md5(n || '.' || m), '') FROM generate_series(1, 50) m))
                  FROM generate_series(1, 60) n";
    client.batch_execute(insert).await.unwrap();
    assert_eq!(gate.wait_for(60, SOON).await.len(), 60);
    disk.fill();
    gate.open();
    client.batch_execute(AWAY).await.unwrap();
    let sent = value(&client, "SELECT count(*) FROM notification_jobs WHERE status = 'sent'").await;
    assert_eq!(sent, "0", "the disk was not full");
    disk.empty();
    all_sent(&client, 60, Instant::now()).await;
    running.stop().await;
    each_once(&client, &gate.sends()).await;
    drop((client, reader, site));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_that_starts_on_a_full_disk_waits_for_room() {
    let Some(disk) = SmallDisk::mount() else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let site = site_with(&disk).await;
    let client = site.client().await;
    // Its first row takes a first page.
    let move_list = "TRUNCATE notification_reactors; ALTER TABLE notification_reactors SET TABLESPACE small";
    client.batch_execute(move_list).await.unwrap();
    disk.fill();
    insert(&client, 3).await;
    let gate = Gate::shut();
    gate.open();
    let database = Database::builder(site.url()).build().unwrap();
    let running = Running::start_without_waiting(reactor_on(database, gate.clone(), ChannelConfig::default()));
    eventually(SOON, || async {
        let problems = running.reactor.health().problems();
        let is_full = problems
            .iter()
            .any(|problem| problem.contains("No space left on device"));
        expect(is_full, format!("{problems:?}"))
    })
    .await;
    disk.empty();
    all_sent(&client, 3, Instant::now()).await;
    running.stop().await;
    each_once(&client, &gate.sends()).await;
    drop(client);
}
