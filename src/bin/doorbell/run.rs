//! `doorbell run`: the dispatcher as a service.

use std::convert::Infallible;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use doorbell::embedded::{Builder, Server};
use doorbell::senders::Log;
use doorbell::{Database, Migrator, Mode, Reactor};

use crate::config::{Config, DatabaseSettings, Delivery};
use crate::failure::Failure;
use crate::private::Private;
use crate::signals::{Stop, until_stopped};
use crate::target::{self, Target};

/// The database on a private server.
const PRIVATE_DATABASE: &str = "doorbell";

/// Between two tries to apply the migrations.
const MIGRATE_PAUSE: Duration = Duration::from_secs(1);

const NO_CONFIG: &str = "\
run needs --config FILE, which says what each channel does. The smallest one:

  [channels.ops]
  sender = \"log\"";

const HELP: &str = "\
Examples:
  doorbell run --config doorbell.toml
  doorbell run --config doorbell.toml --migrate
  doorbell run --config doorbell.toml --embedded ./doorbell-data

One line on standard error has the word `ready` as soon as rows go out.

SIGINT or SIGTERM stops in order: what is being sent may finish within reactor.shutdown_grace. A second one stops at \
once; what was being sent is sent again when its lease is over.

The file's [reactor] can be overridden by the environment: DOORBELL_REACTOR_LEASE, DOORBELL_REACTOR_SCAN_INTERVAL, \
DOORBELL_REACTOR_SHUTDOWN_GRACE.";

/// Send notifications as they are inserted, until told to stop
///
/// Serves the channels of the configuration file. Many may run on one database. Logs go to standard error, what the log
/// sender prints to standard output.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "doorbell run --config <FILE> [OPTIONS]")]
pub(crate) struct Args {
    /// Keep the database in this directory, on a private server that starts and stops with this process
    ///
    /// Its tables are made and kept up to date. The log says at which URL it is; only this user and root can connect,
    /// unless --embedded-port is given.
    #[arg(long, value_name = "DIR", conflicts_with = "database_url")]
    embedded: Option<PathBuf>,

    /// Let the private server listen on this port of 127.0.0.1 too, as user postgres with the password in DIR/password
    #[arg(long, value_name = "PORT", requires = "embedded")]
    embedded_port: Option<u16>,

    /// Apply missing migrations first
    #[arg(long)]
    migrate: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let Some(file) = &args.target.config else {
        return Err(Failure::usage(NO_CONFIG));
    };
    let config = Config::load(file)?;
    until_stopped(|stop| serve(args, config, stop)).await
}

async fn serve(args: Args, mut config: Config, mut stop: Stop) -> Result<(), Failure> {
    config.database = args.target.over(config.database);
    let Some(server) = args.server() else {
        return dispatch(config, args.migrate, stop).await;
    };
    let server = tokio::select! {
        started = Private::start(server) => started?,
        _ = stop.asked() => return Ok(()),
    };
    let ended = tokio::select! {
        ended = dispatch_on(&server, config, stop) => ended,
        never = server.keep_running() => match never {},
    };
    server.stop().await?;
    ended
}

impl Args {
    fn server(&self) -> Option<Builder> {
        let server = Server::builder().data_dir(self.embedded.as_ref()?);
        Some(match self.embedded_port {
            Some(port) => server.port(port),
            None => server,
        })
    }
}

async fn dispatch_on(server: &Private, mut config: Config, stop: Stop) -> Result<(), Failure> {
    create_database(&server.url("postgres")).await?;
    let url = server.url(PRIVATE_DATABASE);
    tracing::info!(target: "doorbell::ready", "the private server is at {url}");
    config.database = DatabaseSettings {
        url: Some(url),
        listen_url: None,
        schema: config.database.schema,
    };
    dispatch(config, true, stop).await
}

async fn create_database(url: &str) -> Result<(), Failure> {
    let client = Database::builder(url).build()?.client().await?;
    let found = format!("SELECT FROM pg_catalog.pg_database WHERE datname = '{PRIVATE_DATABASE}'");
    if client.query_typed(&found, &[]).await?.is_empty() {
        client
            .batch_execute(&format!("CREATE DATABASE {PRIVATE_DATABASE}"))
            .await?;
    }
    Ok(())
}

async fn dispatch(config: Config, migrate: bool, mut stop: Stop) -> Result<(), Failure> {
    let database = target::database(&config.database).build()?;
    if migrate {
        tokio::select! {
            migrated = migrate_when_possible(&database, target::schema(&config.database)) => migrated?,
            _ = stop.asked() => return Ok(()),
        }
    }
    let channels: Vec<_> = config.channels.iter().map(|channel| channel.name.clone()).collect();
    let channels = channels.join(", ");
    let reactor = reactor(database, config)?;
    let stopped = async { _ = stop.asked().await };
    tokio::select! {
        ended = reactor.run(stopped) => Ok(ended?),
        never = announce(&reactor, &channels) => match never {},
    }
}

/// As the reactor itself, this waits for a server that is away.
async fn migrate_when_possible(database: &Database, schema: &str) -> Result<(), doorbell::Error> {
    let mut waits = false;
    loop {
        match apply_migrations(database, schema).await {
            Err(error) if error.is_transient() => {
                if !std::mem::replace(&mut waits, true) {
                    tracing::warn!(error = %error.chain(), "the migrations cannot be applied yet; trying until they can");
                }
            }
            ended => return ended,
        }
        tokio::time::sleep(MIGRATE_PAUSE).await;
    }
}

async fn apply_migrations(database: &Database, schema: &str) -> Result<(), doorbell::Error> {
    let mut client = database.client().await?;
    for step in Migrator::new(schema)?.up(&mut client).await? {
        tracing::info!("applied migration {} ({})", step.version, step.name);
    }
    Ok(())
}

/// Says once that rows go out.
async fn announce(reactor: &Reactor, channels: &str) -> Infallible {
    let how = match reactor.started().await {
        Mode::Polling { why } => format!("polling, since it cannot listen ({why})"),
        _ => "listening".to_owned(),
    };
    let pid = std::process::id();
    tracing::info!(target: "doorbell::ready", pid, "ready: {how}, channels {channels}");
    pending().await
}

fn reactor(database: Database, config: Config) -> Result<Reactor, Failure> {
    let settings = config.reactor;
    let mut builder = Reactor::builder(database);
    if let Some(lease) = settings.lease {
        builder = builder.lease(lease);
    }
    if let Some(interval) = settings.scan_interval {
        builder = builder.scan_interval(interval);
    }
    if let Some(grace) = settings.shutdown_grace {
        builder = builder.shutdown_grace(grace);
    }
    // One for all channels, or their lines would mix.
    let log = Log::new();
    for channel in config.channels {
        builder = match channel.delivery {
            Delivery::Log => builder.channel(channel.name, log.clone(), channel.config),
            Delivery::Webhook(webhook) => builder.channel(channel.name, webhook, channel.config),
            Delivery::Command(command) => builder.channel(channel.name, command, channel.config),
        };
    }
    Ok(builder.build()?)
}
