//! `doorbell migrate`: the tables.

use std::io::{self, BufRead, IsTerminal};

use clap::{ArgGroup, Subcommand};
use doorbell::{MigrationStep, Migrator};
use serde_json::json;

use crate::failure::Failure;
use crate::output::{json_array, print};
use crate::table::Table;
use crate::target::Target;

const EXAMPLES: &str = "\
Examples:
  doorbell migrate up
  doorbell migrate status --check || echo 'migrate first'
  doorbell migrate print | psql -1 -v ON_ERROR_STOP=1
  doorbell migrate down --to 1";

/// Create, update or remove the tables, or print the SQL that does
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    target: Target,
}

#[derive(Subcommand)]
enum Action {
    /// Apply every migration that is missing; nothing missing is fine
    Up {
        /// Print what was applied as a JSON array
        #[arg(long)]
        json: bool,
    },
    /// Undo migrations, the newest first; --all deletes every notification
    Down(Down),
    /// Show which migrations have been applied
    Status {
        /// Exit with status 1 if one is missing
        #[arg(long)]
        check: bool,
        /// Print a JSON array, an object a migration
        #[arg(long)]
        json: bool,
    },
    /// Print the SQL, for a person to read and to run; needs no connection
    Print {
        /// Only the migrations above this version (with --down: undo those)
        #[arg(long, value_name = "VERSION", default_value_t = 0)]
        from: i32,
        /// The SQL that undoes them
        #[arg(long)]
        down: bool,
    },
}

#[derive(clap::Args)]
#[command(group = ArgGroup::new("how_far").args(["to", "all"]).required(true))]
struct Down {
    /// Undo the migrations above this version
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(i32).range(1..))]
    to: Option<i32>,

    /// Undo them all, and so delete every notification
    #[arg(long)]
    all: bool,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Print what was undone as a JSON array
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let Args { action, target } = args;
    let schema = target.schema()?;
    let migrator = Migrator::new(&schema)?;
    match action {
        Action::Up { json } => {
            let applied = migrator.up(&mut *target.connect().await?).await?;
            told(&applied, "applied", "nothing to apply", json)
        }
        Action::Down(args) => down(args, &target, &schema, &migrator).await,
        Action::Status { check, json } => {
            let steps = migrator.status(&target.connect().await?).await?;
            print(if json {
                steps_json(&steps)
            } else {
                table(&steps).to_string()
            })?;
            match check && steps.iter().any(|step| step.applied_at.is_none()) {
                true => Err(Failure::Told),
                false => Ok(()),
            }
        }
        Action::Print { from, down } => {
            let sql = if down {
                migrator.print_down(from)
            } else {
                migrator.print_up(from)
            };
            print(sql.trim_end())
        }
    }
}

async fn down(args: Down, target: &Target, schema: &str, migrator: &Migrator) -> Result<(), Failure> {
    let mut client = target.connect().await?;
    let what = match args.to {
        Some(version) => format!("Undo the migrations of schema {schema:?} above {version}?"),
        None => format!("Delete every notification in schema {schema:?}, with the tables?"),
    };
    if !args.yes {
        confirm(&what)?;
    }
    let undone = migrator.down(&mut client, args.to.unwrap_or(0)).await?;
    told(&undone, "undone", "nothing to undo", args.json)
}

/// Asks at the terminal. Without one, nobody can say yes.
fn confirm(question: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(
            "migrate down needs --yes where there is no terminal to ask at",
        ));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::new(format!("cannot read the answer: {error}")))?;
    match answer.trim() {
        "y" | "Y" | "yes" => Ok(()),
        _ => Err(Failure::new("nothing was changed")),
    }
}

fn told(steps: &[MigrationStep], what: &str, nothing: &str, json: bool) -> Result<(), Failure> {
    if json {
        return print(steps_json(steps));
    }
    if steps.is_empty() {
        return print(nothing);
    }
    steps
        .iter()
        .try_for_each(|step| print(format!("{what} {} {}", step.version, step.name)))
}

fn steps_json(steps: &[MigrationStep]) -> String {
    json_array(steps.iter().map(|step| {
        json!({
            "version": step.version,
            "name": step.name,
            "applied_at": step.applied_at,
            "known": step.known,
            "breaking": step.breaking,
        })
        .to_string()
    }))
}

fn table(steps: &[MigrationStep]) -> Table {
    let mut table = Table::new(["VERSION", "NAME", "APPLIED"]);
    for step in steps {
        let applied = match (&step.applied_at, step.known) {
            (None, _) => "pending".to_owned(),
            (Some(at), true) => at.clone(),
            (Some(at), false) if step.breaking => format!("{at}, by a newer doorbell; this one cannot work with it"),
            (Some(at), false) => format!("{at}, by a newer doorbell"),
        };
        table.row([step.version.to_string(), step.name.clone(), applied]);
    }
    table
}
