//! What is printed: results on standard output, remarks on standard error.

use std::io::{self, Write};

use crate::failure::Failure;

/// Writes a line, or several. `println!` would panic where nobody reads.
pub(crate) fn print(text: impl AsRef<str>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref().as_bytes())?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Says something on standard error. `eprintln!` would panic where nobody listens.
pub(crate) fn remark(text: impl AsRef<str>) {
    let _ = writeln!(io::stderr(), "{}", text.as_ref());
}

/// A JSON array with an element a line: readable as it stands, and one value for `jq`.
pub(crate) fn json_array(elements: impl IntoIterator<Item = String>) -> String {
    let elements: Vec<String> = elements.into_iter().collect();
    match elements.is_empty() {
        true => "[]".to_owned(),
        false => format!("[\n{}\n]", elements.join(",\n")),
    }
}

/// Text that somebody else wrote, fit for a terminal: control characters would move its cursor or worse.
pub(crate) fn plain(text: &str) -> String {
    let escape = |c: char| match c.is_control() {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// The same, cut to so many characters.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let text = plain(text);
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// `1 row`, `2 rows`.
pub(crate) fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(plain("a\x1b[2Jé\n"), r"a\u{1b}[2Jé\n");
        assert_eq!(excerpt("ééé", 2), "éé…");
        assert_eq!(excerpt("éé", 2), "éé");
    }

    #[test]
    fn an_array_is_json_with_an_element_a_line() {
        assert_eq!(json_array([]), "[]");
        assert_eq!(json_array(["1".to_owned(), "2".to_owned()]), "[\n1,\n2\n]");
    }
}
