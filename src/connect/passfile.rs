//! The password file of libpq, `~/.pgpass`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Socket directories that libpq is built with; a connection through one of them goes by the name `localhost`.
const DEFAULT_SOCKET_DIRECTORIES: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// Reads a password file. One that others may read is left alone with a warning, as libpq does, and so is one that
/// cannot be read; one that does not exist is nothing unusual.
pub(super) fn read(file: &Path) -> Option<String> {
    let refused = |reason: &str| tracing::warn!(file = %file.display(), "password file not used: {reason}");
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() {
        refused("it is not a plain file");
        return None;
    }
    if metadata.mode() & 0o077 != 0 {
        refused("group or others have access to it; its permissions should be 0600 or less");
        return None;
    }
    std::fs::read_to_string(file)
        .inspect_err(|error| refused(&error.to_string()))
        .ok()
}

/// The password of the first line that matches: `host:port:database:user:password`, where each of the first four may be
/// `*`, and `\` escapes a colon or itself.
pub(super) fn find(contents: &str, host: &str, port: u16, dbname: &str, user: &str) -> Option<String> {
    let host = match host {
        directory if DEFAULT_SOCKET_DIRECTORIES.contains(&directory) => "localhost",
        other => other,
    };
    let wanted = [host, &port.to_string(), dbname, user];
    contents.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let fields = fields(line);
        let (password, keys) = fields.get(..5)?.split_last()?;
        let matches = keys
            .iter()
            .zip(wanted)
            .all(|(key, wanted)| *key == "*" || unescape(key) == wanted);
        matches.then(|| unescape(password))
    })
}

/// Cuts a line at the colons that are not escaped.
fn fields(line: &str) -> Vec<&str> {
    let mut escaped = false;
    line.split(|character| {
        let separates = character == ':' && !escaped;
        escaped = character == '\\' && !escaped;
        separates
    })
    .collect()
}

fn unescape(field: &str) -> String {
    let mut characters = field.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        match character {
            '\\' => text.extend(characters.next()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_matches_gives_the_password() {
        let contents = "# db:5432:shop:app:comment\n\
                        short:line\n\
                        db:5432:shop:app:one\n\
                        db:*:*:app:two\r\n\
                        a\\:b:5432:*:*:p\\:a\\\\s\n\
                        localhost:5432:*:*:socket\n\
                        /srv/pg:5432:*:*:other socket\n\
                        \\*:5432:*:*:a host named star\n\
                        *:*:*:admin:three:rest\n";
        for (host, port, dbname, user, expected) in [
            ("db", 5432, "shop", "app", Some("one")),
            ("db", 5433, "shop", "app", Some("two")),
            ("a:b", 5432, "x", "y", Some(r"p:a\s")),
            ("/var/run/postgresql", 5432, "x", "y", Some("socket")),
            ("/tmp", 5432, "x", "y", Some("socket")),
            ("/srv/pg", 5432, "x", "y", Some("other socket")),
            ("*", 5432, "x", "y", Some("a host named star")),
            ("elsewhere", 1, "x", "admin", Some("three")),
            ("elsewhere", 5432, "x", "app", None),
        ] {
            assert_eq!(
                find(contents, host, port, dbname, user).as_deref(),
                expected,
                "{host}:{port}"
            );
        }
    }
}
