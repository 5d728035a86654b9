//! Roles: what they may do, what row-level security leaves them, and what their sessions begin with.

use doorbell::{ProducerStatus, RoleStatus};

use super::finding::Finding;
use crate::target::quoted;

pub(super) fn findings(role: &RoleStatus, schema: &str) -> Vec<Finding> {
    let mut findings: Vec<Finding> = role
        .missing_rights
        .iter()
        .map(|right| missing(&role.name, right))
        .collect();
    if findings.is_empty() {
        findings.push(Finding::ok(
            "role",
            format!("{} has the rights of a reactor", role.name),
        ));
    }
    findings.extend(row_security(role, schema));
    findings.extend(role.hostile_defaults.iter().map(|default| hostile(role, default)));
    findings
}

/// `None`: there is no such role.
pub(super) fn producer(name: &str, producer: Option<&ProducerStatus>, schema: &str) -> Finding {
    let Some(producer) = producer else {
        return Finding::bad(
            "producer",
            format!("there is no role {name}, or no table to insert into"),
        )
        .mended_by(format!("CREATE ROLE {} LOGIN;", quoted(name)));
    };
    if !producer.missing_rights.is_empty() {
        let grants = producer.missing_rights.iter().map(|right| grant(right, name));
        return Finding::bad("producer", format!("{name} may not insert"))
            .mended_by(grants.collect::<Vec<_>>().join(" "));
    }
    match producer.barred {
        true => Finding::bad("producer", format!("row-level security lets {name} insert nothing")).mended_by(format!(
            "CREATE POLICY doorbell_producer ON {}.notification_jobs FOR INSERT TO {} WITH CHECK (true);",
            quoted(schema),
            quoted(name)
        )),
        false => Finding::ok("producer", format!("{name} may insert")),
    }
}

fn missing(role: &str, right: &str) -> Finding {
    Finding::bad("role", format!("{role} lacks {right}")).mended_by(grant(right, role))
}

fn grant(right: &str, role: &str) -> String {
    format!("GRANT {right} TO {};", quoted(role))
}

fn row_security(role: &RoleStatus, schema: &str) -> Option<Finding> {
    let name = &role.name;
    if role.rows_hidden {
        let what = format!("row-level security keeps every row from {name}: to a reactor there is nothing to send");
        return Some(Finding::bad("row security", what).mended_by(format!(
            "CREATE POLICY doorbell_reactor ON {}.notification_jobs TO {} USING (true) WITH CHECK (true);",
            quoted(schema),
            quoted(name)
        )));
    }
    let what = format!("{name} sends only the rows that policies show it");
    role.row_security.then(|| Finding::info("row security", what))
}

fn hostile(role: &RoleStatus, (setting, harmless): &(String, String)) -> Finding {
    let what = format!(
        "{setting} would break statements of {}, which go out in transaction blocks therefore",
        role.name
    );
    Finding::warning("defaults", what).mended_by(format!(
        "ALTER ROLE {} IN DATABASE {} SET {setting} = '{harmless}';",
        quoted(&role.name),
        quoted(&role.database)
    ))
}
