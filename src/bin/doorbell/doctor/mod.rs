//! `doorbell doctor`: what is not as it should be, and the command that mends it.
//!
//! - `finding`: one line of the answer.
//! - `server`, `pooler`: what the tables are on, and how it is reached.
//! - `role`: rights, row-level security, session defaults.
//! - `schema`, `table`: migrations, triggers, vacuum.
//! - `queue`: rows that wait, and who should send them.

mod finding;
mod pooler;
mod queue;
mod role;
mod schema;
mod server;
mod table;

use std::time::Duration;

use deadpool_postgres::{Client, Transaction};
use doorbell::{Database, Queue};
use serde_json::json;
use tokio_postgres::IsolationLevel;

use crate::failure::Failure;
use crate::output::{json_array, print};
use crate::target::{self, Target};

use finding::{Finding, Level};

/// How long one question may take: the table is counted, and it may be large.
const PATIENCE: Duration = Duration::from_secs(300);

const EXAMPLES: &str = "\
Examples:
  doorbell doctor --config doorbell.toml
  doorbell doctor --producer app
  doorbell doctor --json | jq -r '.findings[] | select(.level == \"bad\") | .mend'

Exit status: 1 if anything is bad, or nothing could be examined.";

/// Examine the database, the tables, the reactors and what waits; say what mends what is not as it should be
///
/// One line a finding: ok, info, warning or bad. Changes nothing. Give it the connection of a reactor: rights, row-level
/// security and poolers are judged as that one meets them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Examine whether this role may insert notifications, too
    #[arg(long, value_name = "ROLE")]
    producer: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let findings = Examination::new(&args)?.run().await;
    let healthy = findings.iter().all(|finding| finding.level < Level::Bad);
    print(match args.json {
        true => report_json(&findings, healthy),
        false => findings.iter().map(Finding::line).collect::<Vec<_>>().join("\n"),
    })?;
    match healthy {
        true => Ok(()),
        false => Err(Failure::Told),
    }
}

fn report_json(findings: &[Finding], healthy: bool) -> String {
    let findings = json_array(findings.iter().map(|finding| finding.json().to_string()));
    format!("{{\"healthy\": {}, \"findings\": {findings}}}", json!(healthy))
}

/// Everything that is looked at, in the order in which one thing needs another.
struct Examination<'a> {
    schema: String,
    queue: Queue,
    database: Database,
    /// What says where reactors listen.
    heard_through: &'static str,
    producer: Option<&'a str>,
    findings: Vec<Finding>,
}

impl<'a> Examination<'a> {
    fn new(args: &'a Args) -> Result<Self, Failure> {
        let settings = args.target.settings()?;
        let schema = target::schema(&settings).to_owned();
        let setting = settings.listen_url.as_ref().map_or("this connection", |_| "listen_url");
        Ok(Examination {
            queue: Queue::in_schema(&schema)?,
            schema,
            database: target::database(&settings).build()?,
            heard_through: setting,
            producer: args.producer.as_deref(),
            findings: Vec::new(),
        })
    }

    async fn run(mut self) -> Vec<Finding> {
        // What ends the examination is a finding, too.
        if let Err(finding) = self.examine().await {
            self.findings.push(finding);
        }
        self.findings
    }

    async fn examine(&mut self) -> Result<(), Finding> {
        drop(self.client().await?);
        let pooler = pooler::finding(&self.database, self.heard_through).await;
        self.findings.extend(pooler);
        let mut client = self.client().await?;
        self.examine_surroundings(&mut client).await?;
        let steps = {
            let question = ask(&mut client).await.map_err(unanswered)?;
            let steps = schema::steps(&self.schema, &question).await;
            steps.map_err(|error| Finding::bad("schema", error.chain()))?
        };
        let (complete, finding) = schema::finding(&self.schema, &steps);
        self.findings.push(finding);
        if !complete {
            return Ok(());
        }
        let status = {
            let question = ask(&mut client).await.map_err(unanswered)?;
            self.queue.status(&question).await
        };
        let status = status.map_err(|error| Finding::bad("queue", error.chain()))?;
        self.findings.extend(queue::findings(&status));
        Ok(())
    }

    async fn client(&self) -> Result<Client, Finding> {
        self.database.client().await.map_err(unanswered)
    }

    async fn examine_surroundings(&mut self, client: &mut Client) -> Result<(), Finding> {
        let question = ask(client).await.map_err(unanswered)?;
        let surroundings = self.queue.surroundings(&question).await.map_err(unanswered)?;
        self.findings
            .extend(server::findings(&surroundings.server, &surroundings.role.name));
        self.findings.extend(role::findings(&surroundings.role, &self.schema));
        if let Some(name) = self.producer {
            let producer = self.queue.producer(&question, name).await.map_err(unanswered)?;
            self.findings
                .push(role::producer(name, producer.as_ref(), &self.schema));
        }
        if let Some(table) = &surroundings.table {
            self.findings.extend(table::findings(table, &self.schema));
        }
        Ok(())
    }
}

/// A transaction that none of the role's defaults can break, and that leaves no setting behind on a session that may be a
/// pooler's.
async fn ask(client: &mut Client) -> Result<Transaction<'_>, doorbell::Error> {
    let question = client
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted);
    let question = question.read_only(true).start().await?;
    let limit = format!("SET LOCAL statement_timeout = {}", PATIENCE.as_millis());
    question.batch_execute(&limit).await?;
    Ok(question)
}

fn unanswered(error: doorbell::Error) -> Finding {
    Finding::bad("connection", error.chain())
}
