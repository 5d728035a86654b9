//! The program `doorbell`: the dispatcher and the tools around it, for people who write no Rust.

mod bench;
mod cancel;
mod config;
mod demo;
mod doctor;
mod enqueue;
mod failure;
mod list;
mod logging;
mod migrate;
mod output;
mod private;
mod purge;
mod retry;
mod run;
mod show;
mod signals;
mod status;
mod table;
mod target;

use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio::runtime::{self, Runtime};

use crate::failure::Failure;

/// How long what still runs may take to notice that the program ends.
const LAST_MOMENT: Duration = Duration::from_millis(500);

const ENVIRONMENT: &str = "\
Connections: --database-url, else DOORBELL_DATABASE_URL, else DATABASE_URL, else the configuration file's database.url \
(where --config is given), else the PG* variables and the password file, as psql has it. A URL or key=value words.

Logs go to standard error: DOORBELL_LOG (or RUST_LOG) says how much, for instance `debug` or `doorbell=trace`.

Exit status: 0 done, 1 failed (standard error says why), 2 wrong usage.";

/// A durable notification dispatcher on plain PostgreSQL: insert a row from anywhere, and it is sent.
#[derive(Parser)]
#[command(version, after_help = ENVIRONMENT, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    logging: logging::Args,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Demo(demo::Args),
    Migrate(migrate::Args),
    Enqueue(enqueue::Args),
    Status(status::Args),
    Doctor(doctor::Args),
    List(list::Args),
    Show(show::Args),
    Retry(retry::Args),
    Cancel(cancel::Args),
    Purge(purge::Args),
    Bench(bench::Args),
}

impl Command {
    async fn run(self) -> Result<(), Failure> {
        match self {
            Command::Run(args) => run::run(args).await,
            Command::Demo(args) => demo::run(args).await,
            Command::Migrate(args) => migrate::run(args).await,
            Command::Enqueue(args) => enqueue::run(args).await,
            Command::Status(args) => status::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::List(args) => list::run(args).await,
            Command::Show(args) => show::run(args).await,
            Command::Retry(args) => retry::run(args).await,
            Command::Cancel(args) => cancel::run(args).await,
            Command::Purge(args) => purge::run(args).await,
            Command::Bench(args) => bench::run(args).await,
        }
    }

    /// Does it run for long, so that its log is worth reading while all is well?
    fn is_service(&self) -> bool {
        matches!(self, Command::Run(_))
    }
}

fn main() -> ExitCode {
    match start(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn start(cli: Cli) -> Result<(), Failure> {
    logging::start(&cli.logging, cli.command.is_service())?;
    let runtime = runtime()?;
    let ended = runtime.block_on(cli.command.run());
    // Not for as long as it takes: a reader that does not read may hold up a thread for ever.
    runtime.shutdown_timeout(LAST_MOMENT);
    ended
}

/// A thread for each processor, but no more than eight: threads that look for work in vain cost others their time.
fn runtime() -> Result<Runtime, Failure> {
    let threads = available_parallelism().map_or(2, usize::from).min(8);
    runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start: {error}")))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        super::Cli::command().debug_assert();
    }
}
