//! A TCP proxy in front of the server, for faults of the network.

use std::io;
use std::net::SocketAddr;

use doorbell::{Database, DatabaseBuilder};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use super::TestDb;

/// What it does with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Pass,
    /// Holds everything back, and keeps the connections.
    Freeze,
    /// Ends connections, and takes no new ones.
    Cut,
    /// Lets everybody in, and says nothing more.
    HalfLetIn,
    /// Turns each LISTEN into an UNLISTEN *, whose answer looks like that of the other.
    Unlisten,
    /// Makes each LISTEN one that the server refuses.
    Refuse,
}

impl Mode {
    /// What becomes of a LISTEN. As long as what it was, so that the message's length is still right.
    fn rewrite(self, request: &mut [u8]) {
        const LISTEN: &[u8] = b"LISTEN \"";
        let Some(at) = request.windows(LISTEN.len()).position(|bytes| bytes == LISTEN) else {
            return;
        };
        let listen = &mut request[at..];
        match self {
            Mode::Unlisten => {
                let end = listen.iter().position(|byte| *byte == 0).unwrap();
                listen[..end].fill(b' ');
                listen[..10].copy_from_slice(b"UNLISTEN *");
            }
            Mode::Refuse => listen[7] = b'7',
            _ => {}
        }
    }
}

pub(crate) struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    // Aborts what it has in it when dropped.
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl TestDb {
    pub(crate) async fn proxy(&self) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (mode, modes) = watch::channel(Mode::Pass);
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, self.url().parse().unwrap(), modes));
        Proxy {
            address,
            mode,
            _tasks: tasks,
        }
    }

    /// This database, reached through the proxy.
    pub(crate) fn database_through(&self, proxy: &Proxy) -> DatabaseBuilder {
        Database::builder(self.url_through(proxy))
    }

    pub(crate) fn url_through(&self, proxy: &Proxy) -> String {
        let server: Config = self.url().parse().unwrap();
        let (user, name) = (server.get_user().unwrap(), server.get_dbname().unwrap());
        format!("postgres://{user}@{}/{name}?sslmode=disable", proxy.address)
    }
}

async fn accept(listener: TcpListener, server: Config, modes: watch::Receiver<Mode>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *modes.borrow() != Mode::Cut {
            connections.spawn(connect(client, server.clone(), modes.clone()));
        }
    }
}

async fn connect(mut client: TcpStream, server: Config, mut modes: watch::Receiver<Mode>) {
    if *modes.borrow() == Mode::HalfLetIn {
        let (mut startup, authentication_ok) = ([0; 8], [b'R', 0, 0, 0, 8, 0, 0, 0, 0]);
        let _ = client.read_exact(&mut startup).await;
        let _ = client.write_all(&authentication_ok).await;
        let _ = modes.wait_for(|mode| *mode != Mode::HalfLetIn).await;
        return;
    }
    let port = server.get_ports().first().copied().unwrap_or(5432);
    let ended = match &server.get_hosts()[0] {
        Host::Tcp(host) => match TcpStream::connect((host.as_str(), port)).await {
            Ok(server) => relay(client, server, modes).await,
            Err(error) => Err(error),
        },
        Host::Unix(dir) => match UnixStream::connect(dir.join(format!(".s.PGSQL.{port}"))).await {
            Ok(server) => relay(client, server, modes).await,
            Err(error) => Err(error),
        },
    };
    // However it ended: both halves are closed by now, and that is all the two sides are to see.
    drop(ended);
}

async fn relay<S: AsyncRead + AsyncWrite>(
    client: TcpStream,
    server: S,
    mut modes: watch::Receiver<Mode>,
) -> io::Result<()> {
    let (client_reads, client_writes) = tokio::io::split(client);
    let (server_reads, server_writes) = tokio::io::split(server);
    let requests = pump(client_reads, server_writes, modes.clone(), Mode::rewrite);
    let answers = pump(server_reads, client_writes, modes.clone(), |_, _| {});
    tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
        _ = modes.wait_for(|mode| *mode == Mode::Cut) => Ok(()),
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut modes: watch::Receiver<Mode>,
    rewrite: impl Fn(Mode, &mut [u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        // Neither is told of the other's end before.
        let thawed = modes.wait_for(|mode| *mode != Mode::Freeze).await.is_ok();
        if count == 0 || !thawed {
            return Ok(());
        }
        let mode = *modes.borrow();
        rewrite(mode, &mut buffer[..count]);
        to.write_all(&buffer[..count]).await?;
    }
}
