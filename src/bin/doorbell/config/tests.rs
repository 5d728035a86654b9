use std::fs;
use std::path::Path;
use std::time::Duration;

use doorbell::{ChannelConfig, OnUnknown, RetryPolicy};
use proptest::prelude::*;

use super::*;

/// The file of the documentation.
const EXAMPLE: &str = r#"
[database]
url = "postgres://app@db/app"
listen_url = "postgres://app@db/app"
schema = "public"

[reactor]
lease = "30s"
scan_interval = "5s"
shutdown_grace = "20s"

[channels.ops]
sender = "log"
max_in_flight = 16
timeout = "10s"
retry = { linear = "200ms" }
on_unknown = "retry"

[channels.pager]
sender = "webhook"
url = "http://127.0.0.1:8080/hook"
headers = { "x-team" = "ops" }
retry = { exponential = { initial = "1s", max = "15m" }, jitter = 0.1 }

[channels.script]
sender = "command"
command = ["./notify.sh", "--quiet"]
max_in_flight = 1
timeout = "1m 30s"
on_unknown = "hold"
"#;

fn read(text: &str, environment: &[(&str, &str)]) -> Result<Config, String> {
    let variable = |name: &str| {
        let found = environment.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    Config::read(text, variable).map_err(|flaw| flaw.located(Path::new("f"), text).to_string())
}

#[test]
fn the_documented_file_says_what_it_says() {
    let config = read(EXAMPLE, &[]).unwrap();
    assert_eq!(config.database.url.as_deref(), Some("postgres://app@db/app"));
    assert_eq!(config.database.listen_url.as_deref(), Some("postgres://app@db/app"));
    assert_eq!(config.database.schema.as_deref(), Some("public"));
    assert_eq!(config.reactor.lease, Some(Duration::from_secs(30)));
    assert_eq!(config.reactor.scan_interval, Some(Duration::from_secs(5)));
    assert_eq!(config.reactor.shutdown_grace, Some(Duration::from_secs(20)));

    let [ops, pager, script] = &config.channels[..] else {
        panic!("{config:?}")
    };
    assert_eq!([&*ops.name, &pager.name, &script.name], ["ops", "pager", "script"]);
    assert_eq!(ops.config, ChannelConfig::default());
    let curve = RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(900)).jitter(0.1);
    assert_eq!(pager.config, ChannelConfig::default().retry(curve));
    let expected = ChannelConfig::default()
        .max_in_flight(1)
        .timeout(Duration::from_secs(90))
        .on_unknown(OnUnknown::Hold);
    assert_eq!(script.config, expected);
    assert!(matches!(ops.delivery, Delivery::Log));
    assert!(matches!(pager.delivery, Delivery::Webhook(_)), "{pager:?}");
    assert!(matches!(script.delivery, Delivery::Command(_)), "{script:?}");
}

#[test]
fn a_channel_and_its_sender_are_enough() {
    let config = read("[channels.\"ops alerts\"]\nsender = 'log'", &[]).unwrap();
    assert_eq!(config.channels[0].name, "ops alerts");
    assert!(config.database.url.is_none() && config.reactor.lease.is_none());
}

#[test]
fn the_environment_wins_over_the_file_unless_it_is_empty() {
    let all = [
        ("DOORBELL_DATABASE_URL", "postgres://one"),
        ("DATABASE_URL", "postgres://two"),
        ("DOORBELL_LISTEN_URL", "postgres://three"),
        ("DOORBELL_SCHEMA", "four"),
        ("DOORBELL_REACTOR_LEASE", "5s"),
        ("DOORBELL_REACTOR_SCAN_INTERVAL", "6s"),
        ("DOORBELL_REACTOR_SHUTDOWN_GRACE", "7s"),
    ];
    let config = read(EXAMPLE, &all).unwrap();
    assert_eq!(config.database.url.as_deref(), Some("postgres://one"));
    assert_eq!(config.database.listen_url.as_deref(), Some("postgres://three"));
    assert_eq!(config.database.schema.as_deref(), Some("four"));
    assert_eq!(config.reactor.lease, Some(Duration::from_secs(5)));
    assert_eq!(config.reactor.scan_interval, Some(Duration::from_secs(6)));
    assert_eq!(config.reactor.shutdown_grace, Some(Duration::from_secs(7)));

    let config = read(EXAMPLE, &all[1..]).unwrap();
    assert_eq!(config.database.url.as_deref(), Some("postgres://two"));
    let config = read(EXAMPLE, &all[..1]).unwrap();
    assert_eq!(config.database.listen_url, None, "it belongs to the file's url");
    let direct = "[database]\nlisten_url = 'postgres://direct'\n[channels.ops]\nsender = 'log'";
    let config = read(direct, &all[..1]).unwrap();
    assert_eq!(config.database.listen_url.as_deref(), Some("postgres://direct"));
    let config = read(EXAMPLE, &all.map(|(name, _)| (name, ""))).unwrap();
    assert_eq!(config.database.schema.as_deref(), Some("public"));
    assert_eq!(config.reactor.lease, Some(Duration::from_secs(30)));

    let error = read(EXAMPLE, &[("DOORBELL_REACTOR_LEASE", "soon")]).unwrap_err();
    assert!(
        error.contains("DOORBELL_REACTOR_LEASE: \"soon\" is not a duration"),
        "{error}"
    );
}

#[test]
fn an_error_names_the_file_the_line_the_key_and_the_way_out() {
    let log = "[channels.ops]\nsender = 'log'\n";
    let hook = "[channels.pager]\nsender = 'webhook'\n";
    let script = "[channels.run]\nsender = 'command'\n";
    let cases = [
        ("", "", "f: there is no channel: add one"),
        ("[channels]", "", "f: there is no channel"),
        (
            "[channel.ops]",
            "",
            "f:1: unknown key `channel`, expected one of `database`, `reactor`, `channels`",
        ),
        (
            "[database]\nuri = 'x'",
            "",
            "f:2: unknown key `uri`, expected one of `url`, `listen_url`, `schema`",
        ),
        (
            "[reactor]\nlease = 30",
            "",
            "f:2: invalid type: integer `30`, expected a duration in quotes such as \"200ms\"",
        ),
        (
            "[reactor]\nlease = '30'",
            "",
            "f:2: \"30\" is not a duration such as \"200ms\", \"10s\" or \"15m\": time unit needed",
        ),
        (
            log,
            "max_inflight = 1",
            "f:3: unknown key `max_inflight`, expected one of `sender`, `max_in_flight`, `timeout`",
        ),
        (
            log,
            "max_in_flight = -1",
            "f:3: invalid value: integer `-1`, expected u32",
        ),
        (
            log,
            "on_unknown = 'drop'",
            "f:3: unknown variant `drop`, expected `retry` or `hold`",
        ),
        (log, "retry = '1s'", "f:3: invalid type: string \"1s\""),
        (
            log,
            "retry = {}",
            "f:3: channels.ops: retry needs either linear or exponential",
        ),
        (
            log,
            "retry = { linear = '1s', exponential = { initial = '1s', max = '2s' } }",
            "f:3: channels.ops: retry needs either",
        ),
        (
            log,
            "retry = { linear = '1s', jitter = 1.5 }",
            "f:3: channels.ops: retry.jitter is 1.5; it must be from 0 to 1",
        ),
        (
            log,
            "retry = { linear = '1s', jitter = nan }",
            "f:3: channels.ops: retry.jitter is NaN",
        ),
        (
            log,
            "retry = { exponential = { initial = '1s' } }",
            "f:3: missing field `max`",
        ),
        (
            log,
            "command = ['x']",
            "f:3: channels.ops: command is only for sender = \"command\"",
        ),
        (
            log,
            "url = 'http://h/'",
            "f:3: channels.ops: url is only for sender = \"webhook\"",
        ),
        (
            script,
            "headers = {}",
            "f:3: channels.run: headers is only for sender = \"webhook\"",
        ),
        (
            script,
            "",
            "f:1: channels.run: sender = \"command\" needs command = [\"program\"",
        ),
        (
            script,
            "command = []",
            "f:3: channels.run: sender = \"command\" needs command",
        ),
        (
            script,
            "command = ['']",
            "f:3: channels.run: sender = \"command\" needs command",
        ),
        (
            script,
            "command = './x'",
            "f:3: invalid type: string \"./x\", expected a sequence",
        ),
        (hook, "", "f:1: channels.pager: sender = \"webhook\" needs url"),
        (hook, "url = 'ftp://h/'", "f:1: channels.pager: url: begins with ftp:"),
        (
            hook,
            "url = 'http://h/'\nheaders = { 'webhook-id' = '1' }",
            "f:1: channels.pager: headers.webhook-id: this header is set",
        ),
        (
            "[channels.ops]",
            "",
            "f:1: channels.ops: needs sender = \"log\", \"webhook\" or \"command\"",
        ),
        (
            "[channels.ops]",
            "sender = 'mail'",
            "f:2: unknown variant `mail`, expected one of `log`, `webhook`, `command`",
        ),
        ("[channels.a]\n[channels.a]", "", "f:2: duplicate key"),
    ];
    for (start, end, expected) in cases {
        let text = format!("{}\n{end}", start.trim_end());
        let error = read(&text, &[]).unwrap_err();
        assert!(
            error.starts_with(expected),
            "{text}\n  gave     {error}\n  expected {expected}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn an_error_names_the_channel_of_a_wrong_key() {
    let error = read("[channels.ops]\nsender = 'log'\ntimeout = 1", &[]).unwrap_err();
    assert!(error.ends_with("in `channels.ops.timeout`"), "{error}");
}

#[test]
fn no_error_quotes_a_line_that_may_hold_a_password() {
    let error = read("[database]\nurl = \"postgres://app:secret@db/app\nschema = 'x'", &[]).unwrap_err();
    assert!(error.starts_with("f:2: ") && !error.contains("secret"), "{error}");
    let config = read(&EXAMPLE.replace("app@db", "app:secret@db"), &[]).unwrap();
    assert!(!format!("{config:?}").contains("secret"));
}

/// The example with pieces taken out of it, put in, or put in the place of others.
fn mangled() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            "\"",
            "'",
            "[",
            "]",
            "{",
            "}",
            "=",
            "\n",
            "#",
            ".",
            ",",
            "-1",
            "1e9",
            "0",
            "\0",
            "true",
            "inf",
            "99999999999999999999",
            "[channels.ops]",
            "sender = 'log'",
            "retry = {}",
            "jitter = nan",
            "\"9999999999999999h\"",
            "\"-1s\"",
            "\"\"",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    let places: Vec<usize> = EXAMPLE.char_indices().map(|(place, _)| place).collect();
    let change = (prop::sample::select(places), 0_usize..12, piece);
    prop::collection::vec(change, 1..5).prop_map(|mut changes| {
        // From the end, so that the places before stay what they are.
        changes.sort_by_key(|(place, ..)| std::cmp::Reverse(*place));
        let mut text = EXAMPLE.to_owned();
        for (place, taken, piece) in changes {
            let end = (place + taken).min(text.len());
            if text.is_char_boundary(end) {
                text.replace_range(place..end, &piece);
            }
        }
        text
    })
}

proptest! {
    #[test]
    fn any_file_is_read_or_refused_in_words_that_name_it(text in mangled(), odd: String) {
        for text in [&text, &odd] {
            if let Err(error) = read(text, &[]) {
                prop_assert!(error.starts_with("f:") && error.len() > "f: ".len(), "{}: {}", text, error);
            }
        }
    }

    #[test]
    fn any_duration_is_read_or_refused_by_its_name(value in "[0-9a-zµ .:-]{0,12}|\\PC*") {
        let text = format!("[channels.ops]\nsender = 'log'\ntimeout = {}", toml::Value::String(value.clone()));
        match read(&text, &[]) {
            Ok(config) => prop_assert!(config.channels.len() == 1),
            Err(error) => prop_assert!(error.contains("timeout"), "{}: {}", value, error),
        }
        if let Err(error) = read("[channels.ops]\nsender = 'log'", &[("DOORBELL_REACTOR_LEASE", &value)]) {
            prop_assert!(error.contains("DOORBELL_REACTOR_LEASE"), "{}: {}", value, error);
        }
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("doorbell.toml");
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot read {}: No such file", path.display())),
        "{error}"
    );
    fs::write(&path, "[channels.ops]\nsender = 'log'").unwrap();
    assert_eq!(Config::load(&path).unwrap().channels.len(), 1);
}
