//! A TCP proxy in front of a server, for faults of the network. The tests have it, and `benches/chaos`.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// What it does with what it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
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

impl Traffic {
    /// What becomes of a LISTEN. As long as what it was, so that the message's length is still right.
    fn rewrite(self, request: &mut [u8]) {
        const LISTEN: &[u8] = b"LISTEN \"";
        let Some(at) = request.windows(LISTEN.len()).position(|bytes| bytes == LISTEN) else {
            return;
        };
        let listen = &mut request[at..];
        match self {
            Traffic::Unlisten => {
                let end = listen.iter().position(|byte| *byte == 0).unwrap_or(listen.len());
                listen[..end].fill(b' ');
                listen[..10].copy_from_slice(b"UNLISTEN *");
            }
            Traffic::Refuse => listen[7] = b'7',
            _ => {}
        }
    }
}

pub(crate) struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Traffic>,
    server: watch::Sender<Config>,
    // Aborts what it has in it when dropped.
    _tasks: JoinSet<()>,
}

impl Proxy {
    /// In front of the first host of this address.
    pub(crate) async fn start(server: Config) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (mode, modes) = watch::channel(Traffic::Pass);
        let (server, servers) = watch::channel(server);
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, servers, modes));
        Ok(Proxy {
            address,
            mode,
            server,
            _tasks: tasks,
        })
    }

    pub(crate) fn set(&self, mode: Traffic) {
        self.mode.send_replace(mode);
    }

    /// From the next connection on.
    pub(crate) fn lead_to(&self, server: Config) {
        self.server.send_replace(server);
    }

    /// The database that it was made for, through it.
    pub(crate) fn url(&self) -> String {
        let server = self.server.borrow();
        let (user, name) = (server.get_user(), server.get_dbname());
        format!(
            "postgres://{}@{}/{}?sslmode=disable",
            user.unwrap_or("postgres"),
            self.address,
            name.unwrap_or("postgres")
        )
    }
}

async fn accept(listener: TcpListener, servers: watch::Receiver<Config>, modes: watch::Receiver<Traffic>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *modes.borrow() != Traffic::Cut {
            let server = servers.borrow().clone();
            connections.spawn(connect(client, server, modes.clone()));
        }
    }
}

async fn connect(mut client: TcpStream, server: Config, mut modes: watch::Receiver<Traffic>) {
    if *modes.borrow() == Traffic::HalfLetIn {
        let (mut startup, authentication_ok) = ([0; 8], [b'R', 0, 0, 0, 8, 0, 0, 0, 0]);
        let _ = client.read_exact(&mut startup).await;
        let _ = client.write_all(&authentication_ok).await;
        let _ = modes.wait_for(|mode| *mode != Traffic::HalfLetIn).await;
        return;
    }
    let port = server.get_ports().first().copied().unwrap_or(5432);
    let ended = match server.get_hosts().first() {
        Some(Host::Tcp(host)) => match TcpStream::connect((host.as_str(), port)).await {
            Ok(server) => relay(client, server, modes).await,
            Err(error) => Err(error),
        },
        Some(Host::Unix(dir)) => match UnixStream::connect(dir.join(format!(".s.PGSQL.{port}"))).await {
            Ok(server) => relay(client, server, modes).await,
            Err(error) => Err(error),
        },
        None => Ok(()),
    };
    // However it ended: both halves are closed by now, and that is all the two sides are to see.
    drop(ended);
}

async fn relay<S: AsyncRead + AsyncWrite>(
    client: TcpStream,
    server: S,
    mut modes: watch::Receiver<Traffic>,
) -> io::Result<()> {
    let (client_reads, client_writes) = tokio::io::split(client);
    let (server_reads, server_writes) = tokio::io::split(server);
    let requests = pump(client_reads, server_writes, modes.clone(), Traffic::rewrite);
    let answers = pump(server_reads, client_writes, modes.clone(), |_, _| {});
    tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
        _ = modes.wait_for(|mode| *mode == Traffic::Cut) => Ok(()),
    }
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut modes: watch::Receiver<Traffic>,
    rewrite: impl Fn(Traffic, &mut [u8]),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        // Neither is told of the other's end before.
        let thawed = modes.wait_for(|mode| *mode != Traffic::Freeze).await.is_ok();
        if count == 0 || !thawed {
            return Ok(());
        }
        let mode = *modes.borrow();
        rewrite(mode, &mut buffer[..count]);
        to.write_all(&buffer[..count]).await?;
    }
}
