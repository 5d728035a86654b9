//! The name of the PostgreSQL schema that holds the tables, and how it gets into a statement.

use std::fmt;

use crate::Error;

/// A schema's name, checked once. Any name that PostgreSQL takes will do; it is quoted wherever it is used.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Schema(String);

impl Schema {
    /// The longest identifier that PostgreSQL keeps; it would cut a longer one silently.
    const LONGEST: usize = 63;

    pub(crate) fn new(name: impl Into<String>) -> Result<Self, Error> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::LONGEST || name.contains('\0') {
            let longest = Self::LONGEST;
            return Err(Error::config(format!(
                "schema {name:?}: a schema's name has 1 to {longest} bytes and no NUL"
            )));
        }
        if name.starts_with("pg_") {
            return Err(Error::config(format!(
                "schema {name:?}: PostgreSQL reserves names that begin with pg_"
            )));
        }
        Ok(Schema(name))
    }

    /// The bare name, for a parameter.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// What to run where the tables are missing or too old.
    pub(crate) fn migrate_command(&self) -> String {
        let plain = self.0.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match (self.0.as_str(), plain) {
            ("public", _) => "doorbell migrate up".to_owned(),
            (name, true) => format!("doorbell migrate up --schema {name}"),
            (name, false) => format!("doorbell migrate up --schema {name:?}"),
        }
    }

    /// Puts the name into a statement: `:"schema"` becomes the quoted identifier, `:'schema'` the literal.
    pub(crate) fn render(&self, sql: &str) -> String {
        let identifier = format!("\"{}\"", self.0.replace('"', "\"\""));
        let quotes_doubled = self.0.replace('\'', "''");
        let literal = match quotes_doubled.contains('\\') {
            // What a backslash means in a plain literal depends on the session's standard_conforming_strings.
            true => format!("E'{}'", quotes_doubled.replace('\\', r"\\")),
            false => format!("'{quotes_doubled}'"),
        };
        // By pieces, so that a name which looks like the other placeholder is left alone.
        let pieces = sql
            .split(":\"schema\"")
            .map(|piece| piece.split(":'schema'").collect::<Vec<_>>().join(&literal));
        pieces.collect::<Vec<_>>().join(&identifier)
    }
}

impl Default for Schema {
    fn default() -> Self {
        Schema("public".to_owned())
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_quoted_and_impossible_ones_refused() {
        let schema = Schema::new(r#"o"d'd :'schema'"#).unwrap();
        assert_eq!(
            schema.render(r#"SELECT :'schema' FROM :"schema".t"#),
            r#"SELECT 'o"d''d :''schema''' FROM "o""d'd :'schema'".t"#
        );
        assert_eq!(Schema::new(r"b\'s").unwrap().render(":'schema'"), r"E'b\\''s'");
        for name in ["", "pg_temp", "nul\0", &"x".repeat(64)] {
            assert!(Schema::new(name).unwrap_err().is_config(), "{name:?}");
        }
    }
}
