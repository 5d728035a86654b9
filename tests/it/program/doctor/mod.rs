//! `doorbell doctor`: each fault is made for real, found, and mended by what the doctor says.

mod pooler;
mod queue;
mod roles;
mod tables;

use std::time::Duration;

use serde_json::Value;

use super::Home;
use crate::support::program::{Process, doorbell, output, printed};
use crate::support::{SOON, TestDb, eventually, expect};

/// What the doctor said.
struct Checkup {
    code: Option<i32>,
    report: Value,
}

impl Checkup {
    async fn of(url: &str, options: &[&str]) -> Self {
        let output = output(doorbell(["doctor", "--json", "--database-url", url]).args(options)).await;
        let complaint = String::from_utf8(output.stderr).unwrap();
        let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("no report: {complaint}"));
        Checkup {
            code: output.status.code(),
            report,
        }
    }

    fn findings(&self) -> impl Iterator<Item = &Value> {
        self.report["findings"].as_array().unwrap().iter()
    }

    /// The one of this level whose words contain this.
    fn find(&self, level: &str, part: &str) -> Option<&Value> {
        self.findings()
            .find(|finding| finding["level"] == level && finding["finding"].as_str().unwrap().contains(part))
    }

    /// What it says mends it.
    fn mend(&self, level: &str, part: &str) -> &str {
        let found = self.find(level, part);
        let found = found.unwrap_or_else(|| panic!("{level} {part:?} is not in {}", self.report));
        found["mend"].as_str().unwrap()
    }

    /// Bad findings, and only they, make it fail.
    fn agrees_with_its_exit(&self) {
        let bad = self.findings().any(|finding| finding["level"] == "bad");
        assert_eq!(
            (self.code, &self.report["healthy"]),
            (Some(i32::from(bad)), &Value::from(!bad))
        );
    }
}

const CHANNELS: &str = "[channels.ops]\nsender = 'log'";

#[tokio::test]
async fn what_is_as_it_should_be_is_said_a_line_each() {
    let db = TestDb::new().await;
    let home = Home::new(&db, CHANNELS);
    let _reactor = Process::run(&home.config(), &[]).await;
    eventually(SOON, || async {
        let checkup = Checkup::of(&db.url(), &[]).await;
        let well = checkup.findings().all(|finding| finding["level"] == "ok");
        checkup.agrees_with_its_exit();
        expect(well && checkup.code == Some(0), checkup.report.to_string())
    })
    .await;
    let text = printed(["doctor", "--database-url", &db.url()]).await;
    assert!(
        text.lines().count() >= 8 && text.lines().all(|line| line.starts_with("ok ")),
        "{text}"
    );
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_bad() {
    let checkup = Checkup::of("postgres://me@127.0.0.1:1/nowhere?connect_timeout=2", &[]).await;
    checkup.agrees_with_its_exit();
    assert!(checkup.find("bad", "127.0.0.1").is_some(), "{}", checkup.report);
}

#[tokio::test]
async fn wrong_settings_are_wrong_usage_of_it_and_no_finding() {
    let mut process = Process::spawn(&mut doorbell([
        "doctor",
        "--database-url",
        "postgres://h/?sslmode=perhaps",
    ]));
    assert_eq!(
        tokio::time::timeout(Duration::from_secs(20), process.exit())
            .await
            .unwrap()
            .code(),
        Some(1)
    );
    process.says("sslmode").await;
}
