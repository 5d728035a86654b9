//! The migrations as files, and their lines in the history.

use std::fmt;

/// One migration with its undo.
pub(crate) struct Migration {
    pub(crate) version: i32,
    pub(crate) name: &'static str,
    /// Programs that do not know it cannot work with the tables any more. It must make the statements of those that run
    /// fail, too: they look into the history every half a minute only. (The idea of the mark is graphile-worker's.)
    pub(crate) breaking: bool,
    up: &'static str,
    down: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

macro_rules! migration {
    ($version:literal, $file:literal, $name:literal, breaking: $breaking:literal) => {
        Migration {
            version: $version,
            name: $name,
            breaking: $breaking,
            up: include_str!(concat!("../../migrations/", $file, "_", $name, ".up.sql")),
            down: include_str!(concat!("../../migrations/", $file, "_", $name, ".down.sql")),
        }
    };
}

/// What every migration and every undo begins with.
pub(crate) const BEGIN: &str = include_str!("../../migrations/begin.sql");

/// All of them, in order. Only ever added to.
pub(crate) const MIGRATIONS: &[Migration] = &[
    migration!(1, "0001", "tables", breaking: false),
    migration!(2, "0002", "bell", breaking: false),
];

/// The version of a database that has them all.
pub(crate) const NEWEST: i32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

impl Migration {
    /// The migration or its undo, with what that does to the history.
    pub(crate) fn sql(&self, direction: Direction) -> String {
        let Migration {
            version,
            name,
            breaking,
            up,
            down,
        } = self;
        match (direction, version) {
            (Direction::Up, _) => format!(
                "{up}\nINSERT INTO :\"schema\".doorbell_migrations (version, name, breaking) VALUES ({version}, '{name}', {breaking});\n"
            ),
            // Nothing is left of us then, and so no history either.
            (Direction::Down, 1) => format!("{down}\nDROP TABLE :\"schema\".doorbell_migrations;\n"),
            (Direction::Down, _) => {
                format!("{down}\nDELETE FROM :\"schema\".doorbell_migrations WHERE version = {version};\n")
            }
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Up => "up",
            Direction::Down => "down",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_from_one() {
        let versions: Vec<i32> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=NEWEST).collect::<Vec<_>>());
    }
}
