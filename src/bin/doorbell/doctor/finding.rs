//! What an examination finds: one line each, with what mends it.

use serde_json::{Value, json};

use crate::output::plain;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Info,
    /// It costs time, or will before long.
    Warning,
    /// Notifications do not go out, or not as they should.
    Bad,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Bad => "bad",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What was looked at, in a word.
    check: &'static str,
    what: String,
    /// A command: SQL where it ends in a semicolon.
    mend: Option<String>,
}

impl Finding {
    pub(super) fn new(level: Level, check: &'static str, what: impl Into<String>) -> Self {
        Finding {
            level,
            check,
            what: what.into(),
            mend: None,
        }
    }

    pub(super) fn ok(check: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Ok, check, what)
    }

    pub(super) fn info(check: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Info, check, what)
    }

    pub(super) fn warning(check: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Warning, check, what)
    }

    pub(super) fn bad(check: &'static str, what: impl Into<String>) -> Self {
        Finding::new(Level::Bad, check, what)
    }

    /// The same with the command that mends it.
    pub(super) fn mended_by(mut self, command: impl Into<String>) -> Self {
        self.mend = Some(command.into());
        self
    }

    /// On one line, whatever is in it.
    pub(super) fn line(&self) -> String {
        let mend = self.mend.as_ref();
        let mend = mend.map_or_else(String::new, |mend| format!("; to mend it: {mend}"));
        let (level, check) = (self.level.as_str(), self.check);
        plain(&format!("{level:<8} {check:<12} {}{mend}", self.what))
    }

    pub(super) fn json(&self) -> Value {
        json!({ "level": self.level.as_str(), "check": self.check, "finding": self.what, "mend": self.mend })
    }
}

/// How bad a number is that should be small.
pub(super) fn judge(value: f64, warning: f64, bad: f64) -> Level {
    match value {
        value if value >= bad => Level::Bad,
        value if value >= warning => Level::Warning,
        _ => Level::Ok,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_whatever_foreign_text_is_in_it() {
        let finding = Finding::bad("role", "its name\nhas a line end").mended_by("ALTER ROLE \"a\nb\" LOGIN;");
        let line = finding.line();
        assert!(line.starts_with("bad ") && line.contains("to mend it: ALTER ROLE") && !line.contains('\n'));
    }

    #[test]
    fn a_limit_belongs_to_what_lies_beyond_it() {
        assert_eq!(
            [1.9, 2.0, 3.0].map(|value| judge(value, 2.0, 3.0)),
            [Level::Ok, Level::Warning, Level::Bad]
        );
    }
}
