//! A real PgBouncer in front of a test's database, which gives a backend to whoever has a transaction.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::{SOON, TestDb, connect, eventually};

pub(crate) struct PgBouncer {
    port: u16,
    database: String,
    // Killed with the value.
    _process: Child,
    _home: TempDir,
}

impl PgBouncer {
    /// In front of this database, as soon as it answers. `None`, and a line that says so: it is not installed here.
    pub(crate) async fn before(db: &TestDb) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("skipped: pgbouncer is not installed");
            return None;
        };
        let server: Config = db.url().parse().unwrap();
        let port = free_port().await;
        let home = tempfile::tempdir().unwrap();
        // It will not run as root.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let file = home.path().join("pgbouncer.ini");
        fs::write(&file, settings(&server, port)).unwrap();
        let mut command = tokio::process::Command::new(program);
        command.args(["-u", "postgres"].iter().filter(|_| geteuid().is_root()));
        let process = command.arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        let bouncer = PgBouncer {
            port,
            database: server.get_dbname().unwrap().to_owned(),
            _process: process.kill_on_drop(true).spawn().unwrap(),
            _home: home,
        };
        eventually(SOON, || tokio::net::TcpStream::connect(("127.0.0.1", port))).await;
        drop(connect(&bouncer.url()).await);
        Some(bouncer)
    }

    pub(crate) fn url(&self) -> String {
        let PgBouncer { port, database, .. } = self;
        format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable")
    }
}

fn settings(server: &Config, port: u16) -> String {
    let host = match &server.get_hosts()[0] {
        Host::Tcp(host) => host.clone(),
        Host::Unix(dir) => dir.display().to_string(),
    };
    format!(
        "[databases]\n* = host={host} port={} user={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = transaction\nignore_startup_parameters = options\n",
        server.get_ports()[0],
        server.get_user().unwrap(),
    )
}

fn program() -> Option<PathBuf> {
    let installed = |program: &PathBuf| {
        let asked = Command::new(program).arg("--version").stdout(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    ["pgbouncer", "/usr/sbin/pgbouncer"]
        .map(PathBuf::from)
        .into_iter()
        .find(installed)
}

async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}
