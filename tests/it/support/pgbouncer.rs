//! A real PgBouncer in front of a test's database, which gives a backend to whoever has a transaction.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::{SOON, TestDb, connect, eventually};

const SETTINGS: &str = "pgbouncer.ini";

pub(crate) struct PgBouncer {
    program: PathBuf,
    port: u16,
    database: String,
    // Killed with the value.
    process: Child,
    home: TempDir,
}

impl PgBouncer {
    /// In front of this database, as soon as it answers. `None`, and a line that says so: it is not installed here.
    pub(crate) async fn before(db: &TestDb) -> Option<Self> {
        PgBouncer::with_backends(db, 20).await
    }

    /// One that has so many backends at most.
    pub(crate) async fn with_backends(db: &TestDb, backends: usize) -> Option<Self> {
        PgBouncer::start(db, backends, false).await
    }

    /// One that lends its backends in turn.
    pub(crate) async fn in_turn(db: &TestDb, backends: usize) -> Option<Self> {
        PgBouncer::start(db, backends, true).await
    }

    async fn start(db: &TestDb, backends: usize, round_robin: bool) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("skipped: pgbouncer is not installed");
            return None;
        };
        let server: Config = db.url().parse().unwrap();
        let port = free_port().await;
        let home = tempfile::tempdir().unwrap();
        // It will not run as root.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(
            home.path().join(SETTINGS),
            settings(&server, port, backends, round_robin),
        )
        .unwrap();
        let bouncer = PgBouncer {
            process: start(&program, &home),
            program,
            port,
            database: server.get_dbname().unwrap().to_owned(),
            home,
        };
        bouncer.answers().await;
        Some(bouncer)
    }

    /// Kills it, and starts another in its place.
    pub(crate) async fn restart(&mut self) {
        self.process.kill().await.unwrap();
        self.process = start(&self.program, &self.home);
        self.answers().await;
    }

    async fn answers(&self) {
        eventually(SOON, || tokio::net::TcpStream::connect(("127.0.0.1", self.port))).await;
        drop(connect(&self.url()).await);
    }

    pub(crate) fn url(&self) -> String {
        let PgBouncer { port, database, .. } = self;
        format!("postgres://postgres@127.0.0.1:{port}/{database}?sslmode=disable")
    }
}

fn start(program: &Path, home: &TempDir) -> Child {
    let mut command = tokio::process::Command::new(program);
    command.args(["-u", "postgres"].iter().filter(|_| geteuid().is_root()));
    command
        .arg(home.path().join(SETTINGS))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.kill_on_drop(true).spawn().unwrap()
}

fn settings(server: &Config, port: u16, backends: usize, round_robin: bool) -> String {
    let host = match &server.get_hosts()[0] {
        Host::Tcp(host) => host.clone(),
        Host::Unix(dir) => dir.display().to_string(),
    };
    format!(
        "[databases]\n* = host={host} port={} user={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\npool_mode = transaction\nignore_startup_parameters = options\n\
         default_pool_size = {backends}\nserver_round_robin = {}\n",
        server.get_ports()[0],
        server.get_user().unwrap(),
        i32::from(round_robin),
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
