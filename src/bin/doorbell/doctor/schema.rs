//! The migrations: what has been applied, and what is missing.

use doorbell::{Error, GenericClient, MigrationStep, Migrator};

use super::finding::Finding;

const UPDATE: &str = "cargo install --locked doorbell";

pub(super) async fn steps(schema: &str, client: &impl GenericClient) -> Result<Vec<MigrationStep>, Error> {
    Migrator::new(schema)?.status(client).await
}

/// Whether everything is there that this version needs, and what to say about it.
pub(super) fn finding(schema: &str, steps: &[MigrationStep]) -> (bool, Finding) {
    let applied = |step: &&MigrationStep| step.applied_at.is_some();
    let newest = steps.iter().filter(applied).map(|step| step.version).max();
    let missing = steps.iter().find(|step| step.applied_at.is_none());
    let newer = steps.iter().filter(applied).find(|step| !step.known);
    if let Some(step) = steps.iter().find(|step| step.breaking && !step.known) {
        let (version, name) = (step.version, &step.name);
        let what = format!("migration {version} ({name}) of schema {schema:?} is for newer doorbells only");
        return (false, Finding::bad("schema", what).mended_by(UPDATE));
    }
    let finding = match (newest, missing, newer) {
        (None, ..) => incomplete(schema, format!("schema {schema:?} holds no doorbell tables")),
        (_, Some(step), _) => {
            let (version, name) = (step.version, &step.name);
            incomplete(schema, format!("schema {schema:?} lacks migration {version} ({name})"))
        }
        (Some(newest), _, Some(_)) => {
            let what = format!("schema {schema:?} was brought to version {newest} by a newer doorbell than this one");
            Finding::warning("schema", what).mended_by(UPDATE)
        }
        (Some(newest), ..) => Finding::ok("schema", format!("{schema:?}, version {newest}")),
    };
    (missing.is_none(), finding)
}

fn incomplete(schema: &str, what: String) -> Finding {
    let argument = match schema {
        "public" => String::new(),
        schema => format!(" --schema '{}'", schema.replace('\'', r"'\''")),
    };
    Finding::bad("schema", what).mended_by(format!("doorbell migrate up{argument}"))
}
