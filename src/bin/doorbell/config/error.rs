//! What is wrong with the configuration, and where.

use std::error::Error;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

/// Something wrong, and where in the text, if anywhere.
#[derive(Debug)]
pub(super) struct Flaw {
    message: String,
    offset: Option<usize>,
}

impl Flaw {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Flaw {
            message: message.into(),
            offset: None,
        }
    }

    /// The same, found here.
    pub(super) fn at(mut self, place: Range<usize>) -> Self {
        self.offset = Some(place.start);
        self
    }

    pub(super) fn located(self, path: &Path, text: &str) -> ConfigError {
        let path = path.display();
        let before = self.offset.and_then(|offset| text.get(..offset));
        ConfigError(match before {
            Some(before) => format!("{path}:{}: {}", before.matches('\n').count() + 1, self.message),
            None => format!("{path}: {}", self.message),
        })
    }
}

impl From<toml::de::Error> for Flaw {
    fn from(mut error: toml::de::Error) -> Self {
        let offset = error.span().map(|span| span.start);
        // With its input, the error would quote the line, which may hold a password; without, it names the key.
        error.set_input(None);
        let text = error.to_string().replace("unknown field", "unknown key");
        Flaw {
            message: text.trim().replace('\n', ", "),
            offset,
        }
    }
}

/// One line that names the file, the line where that is known, the key, and what to do.
#[derive(Debug)]
pub(crate) struct ConfigError(String);

impl ConfigError {
    pub(super) fn unreadable(path: &Path, error: &io::Error) -> Self {
        ConfigError(format!("cannot read {}: {error}", path.display()))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ConfigError {}
