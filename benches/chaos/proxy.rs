//! A TCP proxy in front of the server's socket, which can be frozen and cut.

use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::Outcome;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Holds everything back, and keeps the connections.
    Freeze,
    /// Ends connections, and takes no new ones.
    Cut,
}

pub(crate) struct Proxy {
    /// The server's database, through it.
    pub(crate) url: String,
    mode: watch::Sender<Mode>,
    // Ended with the value.
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// In front of a server that listens on a Unix socket.
    pub(crate) async fn start(url: &str) -> Outcome<Self> {
        let server: Config = url.parse()?;
        let (Some(Host::Unix(directory)), Some(port)) = (server.get_hosts().first(), server.get_ports().first()) else {
            return Err("the server has no Unix socket".into());
        };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!(
            "postgres://postgres@{}/postgres?sslmode=disable",
            listener.local_addr()?
        );
        let (mode, modes) = watch::channel(Mode::Pass);
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, directory.join(format!(".s.PGSQL.{port}")), modes));
        Ok(Proxy {
            url,
            mode,
            _tasks: tasks,
        })
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn accept(listener: TcpListener, socket: PathBuf, modes: watch::Receiver<Mode>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *modes.borrow() != Mode::Cut {
            connections.spawn(relay(client, socket.clone(), modes.clone()));
        }
    }
}

/// Until either side ends it, or the mode does. How it ended is seen by both.
async fn relay(client: TcpStream, socket: PathBuf, mut modes: watch::Receiver<Mode>) {
    let Ok(server) = UnixStream::connect(socket).await else {
        return;
    };
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = server.into_split();
    tokio::select! {
        _ = pump(client_reads, server_writes, modes.clone()) => {}
        _ = pump(server_reads, client_writes, modes.clone()) => {}
        _ = modes.wait_for(|mode| *mode == Mode::Cut) => {}
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut modes: watch::Receiver<Mode>,
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        // Neither is told of the other's end before.
        let thawed = modes.wait_for(|mode| *mode != Mode::Freeze).await.is_ok();
        if count == 0 || !thawed {
            return Ok(());
        }
        to.write_all(&buffer[..count]).await?;
    }
}
