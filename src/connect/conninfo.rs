//! A connection string taken apart the way libpq does: a URL, or words `key=value`.
//!
//! No message here repeats a piece of the string. A password with a character that should have been escaped spills
//! into what follows it, so that any piece may be part of one.

/// Keys and values in the order written; a later one of the same key wins.
pub(super) type Pairs = Vec<(String, String)>;

pub(super) const SPECIAL_CHARACTERS: &str =
    "special characters in a user name or password must be percent-encoded (@ is %40, / is %2F)";

/// Takes either form apart; the error says what is wrong without repeating any of it.
pub(super) fn parse(text: &str) -> Result<Pairs, String> {
    let schemes = ["postgres://", "postgresql://"];
    match schemes.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(rest) => parse_url(rest),
        None => Words(text).parse(),
    }
}

/// Whether a password that was not quoted or encoded may have spilled into a key: of words, if there is a password among
/// them; of a URL, if there is one behind the `?`, or the `@` that a password ends with.
pub(super) fn may_spill(text: &str) -> bool {
    text.contains("password") || text.split_once('?').is_some_and(|(_, query)| query.contains('@'))
}

/// `[user[:password]@][host[:port][,…]][/dbname][?key=value[&…]]`
fn parse_url(rest: &str) -> Result<Pairs, String> {
    let mut pairs = Pairs::new();
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
    let rest = match authority.find('@') {
        Some(at) => {
            credentials(&authority[..at], &mut pairs)?;
            &rest[at + 1..]
        }
        None => rest,
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    if place.contains('@') {
        return Err(SPECIAL_CHARACTERS.to_owned());
    }
    let (hosts, dbname) = place.split_once('/').unwrap_or((place, ""));
    host_list(hosts, &mut pairs)?;
    pairs.push(("dbname".to_owned(), decode(dbname)?));
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (key, value) = parameter
            .split_once('=')
            .ok_or("a parameter behind the ? has no value")?;
        pairs.push(match (key, value) {
            // As libpq reads the URLs of JDBC.
            ("ssl", "true") => ("sslmode".to_owned(), "require".to_owned()),
            _ => (decode(key)?, decode(value)?),
        });
    }
    Ok(pairs)
}

fn credentials(text: &str, pairs: &mut Pairs) -> Result<(), String> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    pairs.push(("user".to_owned(), decode(user)?));
    pairs.push(("password".to_owned(), decode(password)?));
    Ok(())
}

/// Hosts and ports become two lists of equal length, as they stand in the other form.
fn host_list(text: &str, pairs: &mut Pairs) -> Result<(), String> {
    let (mut hosts, mut ports) = (Vec::new(), Vec::new());
    for item in text.split(',') {
        let (host, port) = match item.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or("an address in brackets has no ]")?,
            None => item.split_at(item.find(':').unwrap_or(item.len())),
        };
        if !port.is_empty() && !port.starts_with(':') {
            return Err("after an address in brackets comes a colon and the port".to_owned());
        }
        hosts.push(decode(host)?);
        ports.push(decode(port.strip_prefix(':').unwrap_or(port))?);
    }
    if ports.iter().flat_map(|port| port.chars()).any(|c| !c.is_ascii_digit()) {
        return Err(format!("a port must be a number; {SPECIAL_CHARACTERS}"));
    }
    // All left out: the environment may name one for all.
    if ports.iter().any(|port| !port.is_empty()) {
        pairs.push(("port".to_owned(), ports.join(",")));
    }
    pairs.push(("host".to_owned(), hosts.join(",")));
    Ok(())
}

/// Undoes percent-encoding.
fn decode(text: &str) -> Result<String, String> {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        let byte = piece
            .get(..2)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(|byte| *byte != 0)
            .ok_or("a % must be followed by two hexadecimal digits, not 00")?;
        bytes.push(byte);
        bytes.extend_from_slice(&piece.as_bytes()[2..]);
    }
    String::from_utf8(bytes).map_err(|_| "what is percent-encoded must be UTF-8".to_owned())
}

/// What is left of a string of words: `key=value`, blanks around `=` allowed, values quoted with `'`, `\` escapes.
struct Words<'a>(&'a str);

impl Words<'_> {
    fn parse(mut self) -> Result<Pairs, String> {
        let mut pairs = Pairs::new();
        loop {
            self.skip_blanks();
            if self.0.is_empty() {
                return Ok(pairs);
            }
            let key = self.key()?;
            self.skip_blanks();
            pairs.push((key, self.value()?));
        }
    }

    fn skip_blanks(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn key(&mut self) -> Result<String, String> {
        let end = self.0.find(|c: char| c == '=' || c.is_whitespace());
        let (key, rest) = self.0.split_at(end.unwrap_or(self.0.len()));
        let is_name = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match rest.trim_start().strip_prefix('=') {
            Some(rest) if is_name => self.0 = rest,
            _ => return Err("neither a URL (postgres://…) nor words key=value (quote a value with blanks)".to_owned()),
        }
        Ok(key.to_owned())
    }

    fn value(&mut self) -> Result<String, String> {
        let quoted = self.0.starts_with('\'');
        let mut value = String::new();
        let mut characters = self.0.char_indices().skip(usize::from(quoted));
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                '\'' if quoted => {
                    self.0 = &self.0[at + 1..];
                    return Ok(value);
                }
                blank if !quoted && blank.is_whitespace() => {
                    self.0 = &self.0[at..];
                    return Ok(value);
                }
                other => value.push(other),
            }
        }
        if quoted {
            return Err("a quoted value does not end".to_owned());
        }
        self.0 = "";
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pairs that say something, as words.
    fn words(text: &str) -> String {
        let mut words: Vec<String> = parse(text)
            .unwrap()
            .into_iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        words.sort();
        words.join(" ")
    }

    #[test]
    fn both_forms_are_read_as_libpq_reads_them() {
        for (text, expected) in [
            ("", ""),
            ("postgres://", ""),
            ("postgresql://db", "host=db"),
            (
                "postgres://app:s%40cret@db:5433/shop",
                "dbname=shop host=db password=s@cret port=5433 user=app",
            ),
            (
                "postgres://app:p?w#x@db/shop?sslmode=require&connect_timeout=3",
                "connect_timeout=3 dbname=shop host=db password=p?w#x sslmode=require user=app",
            ),
            ("postgres://a:1,b,[::1]:3/x", "dbname=x host=a,b,::1 port=1,,3"),
            ("postgres://%2Fvar%2Frun:5433/x", "dbname=x host=/var/run port=5433"),
            ("postgres:///x?host=/tmp&user=u+v", "dbname=x host=/tmp user=u+v"),
            ("postgres://db?ssl=true", "host=db sslmode=require"),
            ("host=db port = 5433\tdbname=shop", "dbname=shop host=db port=5433"),
            (r"password='a b\'c\\d' user=x\ y", r"password=a b'c\d user=x y"),
            ("host='' user=x", "user=x"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn a_broken_string_is_refused_without_repeating_any_of_it() {
        for (text, expected) in [
            ("postgres://app:se@cret@db/x", "%40"),
            ("postgres://app:se/cret@db/x", "%40"),
            ("postgres://app:12/secret@db/x", "%40"),
            ("postgres://app:se%zzcret@db", "hexadecimal"),
            ("postgres://app:se%00cret@db", "hexadecimal"),
            ("postgres://app:%ffsecret@db", "UTF-8"),
            ("postgres://db:secret/x", "a port must be a number"),
            // An address of six needs brackets, or it would be taken for no host and port 1.
            ("postgres://::1/x", "a port must be a number"),
            ("postgres://[::1/x", "no ]"),
            ("postgres://[::1]secret/x", "colon"),
            ("postgres://db?secret", "no value"),
            ("password=se cret", "quote"),
            ("password='it''secret", "quote"),
            ("mysql://app:secret@db?x=1", "neither a URL"),
            ("password='secret", "does not end"),
            ("mysql://app:secret@db", "neither a URL"),
            ("secret", "neither a URL"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
            assert!(!message.contains("cret"), "{text}: {message}");
        }
    }
}
