//! A reactor in a process of its own, for faults that a process does not survive: the ignored test of that name in this
//! same binary, run with the database's address.

use std::env;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{self, ChildStdout, Command};

use super::TestDb;

const URL: &str = "DOORBELL_TEST_CHILD_URL";

pub(crate) struct Child {
    process: process::Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Runs an ignored test, `module::name`, in a process of its own.
    pub(crate) fn run(test: &str, db: &TestDb) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
            .env(URL, db.url())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut process = command.spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        Child { process, output }
    }

    /// The database's address, in the child.
    pub(crate) fn url() -> String {
        env::var(URL).unwrap()
    }

    /// Waits for a line of its output that begins so, and gives the rest of that line.
    pub(crate) async fn says(&mut self, beginning: &str) -> String {
        while let Some(line) = self.output.next_line().await.unwrap() {
            if let Some(rest) = line.strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
        panic!("the child ended without saying {beginning:?}")
    }

    /// Sends it a signal, by its name.
    pub(crate) async fn signal(&self, name: &str) {
        let id = self.process.id().unwrap().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().await.unwrap();
        assert!(sent.success());
    }

    pub(crate) async fn ended(mut self) -> ExitStatus {
        self.process.wait().await.unwrap()
    }
}
