//! What the triggers take of one large INSERT.

use serde_json::Value;
use tokio_postgres::{Client as PgClient, SimpleQueryMessage};

use crate::Error;
use crate::schema::Schema;

const INSERT: &str = r#"
    EXPLAIN (ANALYZE, FORMAT JSON)
    INSERT INTO :"schema".notification_jobs (channel, recipient)
    SELECT 'bulk', n::text FROM pg_catalog.generate_series(1, 100000) AS n"#;

/// The time in milliseconds that all triggers together took, as the server accounts for it.
pub(super) async fn trigger_ms(client: &PgClient, schema: &Schema) -> Result<f64, Error> {
    // As text: the type json is nothing that we would decode.
    let answer = client.simple_query(&schema.render(INSERT)).await?;
    let lines = answer.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan = lines.collect::<Vec<_>>().join("\n");
    time_in(&plan).ok_or_else(|| Error::connection(format!("no times of triggers in {plan}")))
}

fn time_in(plan: &str) -> Option<f64> {
    let plan: Value = serde_json::from_str(plan).ok()?;
    let triggers = plan.get(0)?.get("Triggers")?.as_array()?;
    triggers.iter().map(|trigger| trigger.get("Time")?.as_f64()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_all_triggers_are_added_up() {
        assert_eq!(
            time_in(r#"[{"Triggers": [{"Time": 0.25}, {"Time": 0.5}], "Execution Time": 9.0}]"#),
            Some(0.75)
        );
        assert_eq!(time_in(r#"[{"Triggers": []}]"#), Some(0.0));
        assert_eq!(time_in(r#"[{"Triggers": [{"Calls": 1}]}]"#), None);
    }
}
