//! The table of notifications: its triggers, and whether vacuum keeps up with it.

use doorbell::{TableStatus, TriggerState};

use super::finding::{Finding, Level};
use crate::target::quoted;

/// So many dead rows are nothing, whatever the size of the table is.
const FEW_DEAD_ROWS: u64 = 50_000;

pub(super) fn findings(table: &TableStatus, schema: &str) -> Vec<Finding> {
    let name = format!("{}.notification_jobs", quoted(schema));
    let mut findings = triggers(table, &name, schema);
    findings.push(dead_rows(table.dead_rows, table.live_rows, &name));
    findings.extend(autovacuum(table, &name));
    findings
}

fn triggers(table: &TableStatus, name: &str, schema: &str) -> Vec<Finding> {
    let function = |trigger: &str| format!("EXECUTE FUNCTION {}.{trigger}()", quoted(schema));
    let on_insert = format!(
        "AFTER INSERT ON {name} FOR EACH STATEMENT {}",
        function("doorbell_on_insert")
    );
    let on_update = format!(
        "AFTER UPDATE ON {name} FOR EACH ROW WHEN (NEW.claim = OLD.claim AND NEW.status = 'pending') {}",
        function("doorbell_on_update")
    );
    [
        ("doorbell_on_insert", table.on_insert, Level::Bad, on_insert),
        ("doorbell_on_update", table.on_update, Level::Warning, on_update),
    ]
    .into_iter()
    .map(|(trigger, state, level, definition)| {
        let what = format!("{trigger} is {}", state.as_str());
        let mend = match state {
            TriggerState::Disabled => format!("ALTER TABLE {name} ENABLE TRIGGER {trigger};"),
            TriggerState::Missing => format!("CREATE TRIGGER {trigger} {definition};"),
            _ => return Finding::ok("trigger", what),
        };
        Finding::new(level, "trigger", format!("{what}: rows wait for the next scan")).mended_by(mend)
    })
    .collect()
}

fn dead_rows(dead: u64, live: u64, name: &str) -> Finding {
    let what = format!("about {dead} dead rows beside {live} live ones");
    match dead > FEW_DEAD_ROWS + live / 5 {
        true => Finding::warning("vacuum", what).mended_by(format!("VACUUM (ANALYZE) {name};")),
        false => Finding::ok("vacuum", what),
    }
}

fn autovacuum(table: &TableStatus, name: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !table.server_vacuums {
        findings.push(
            Finding::bad(
                "vacuum",
                "autovacuum is off on this server: claims get slower and slower",
            )
            .mended_by(
                "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf();",
            ),
        );
    }
    if !table.table_vacuums {
        let what = "autovacuum is off for this table: claims get slower and slower";
        findings
            .push(Finding::bad("vacuum", what).mended_by(format!("ALTER TABLE {name} RESET (autovacuum_enabled);")));
    }
    if !table.missing_settings.is_empty() {
        let settings = table.missing_settings.join(", ");
        let what = format!("the table lacks {settings}");
        findings.push(Finding::warning("vacuum", what).mended_by(format!("ALTER TABLE {name} SET ({settings});")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_rows_count_where_they_are_many_and_many_beside_the_live() {
        let levels =
            [(40_000, 0), (60_000, 0), (60_000, 1_000_000)].map(|(dead, live)| dead_rows(dead, live, "t").level);
        assert_eq!(levels, [Level::Ok, Level::Warning, Level::Ok]);
    }
}
