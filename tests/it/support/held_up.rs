//! Statements that take until the test says so: a trigger of the test's own waits in the middle of them.

use tokio_postgres::Client;

use super::{SOON, TestDb, eventually, expect};

const LOCK: &str = "hashtext('held up')";

/// While this lives, the statements that it is for stop half-way, their snapshots taken.
pub(crate) struct HeldUp<'a> {
    db: &'a TestDb,
    keeper: Client,
}

impl HeldUp<'_> {
    /// Waits until so many statements are being held up.
    pub(crate) async fn has(&self, count: usize) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = 'advisory'";
        eventually(SOON, || async {
            let held = self.db.value(waiting).await;
            expect(
                held == count.to_string(),
                format!("{held} statements are held up, not {count}"),
            )
        })
        .await;
    }

    /// Lets them go on.
    pub(crate) async fn let_go(self) {
        let unlock = format!("SELECT pg_advisory_unlock({LOCK})");
        self.keeper.batch_execute(&unlock).await.unwrap();
    }
}

impl TestDb {
    /// Holds up claims of rows whose recipient is `slow`.
    pub(crate) async fn hold_up_claims(&self) -> HeldUp<'_> {
        self.hold_up_updates("OLD.recipient = 'slow' AND NEW.claim > OLD.claim")
            .await
    }

    /// Holds up updates of rows for which this is true.
    pub(crate) async fn hold_up_updates(&self, when: &str) -> HeldUp<'_> {
        self.hold_up(&format!(
            "CREATE TRIGGER held_up BEFORE UPDATE ON notification_jobs FOR EACH ROW WHEN ({when})
             EXECUTE FUNCTION held_up()"
        ))
        .await
    }

    /// Holds producers up between their two looks at who is asleep.
    pub(crate) async fn hold_up_inserts(&self) -> HeldUp<'_> {
        let real = self
            .value("SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'doorbell_on_insert'")
            .await;
        let between = "pg_catalog.pg_try_advisory_xact_lock_shared(";
        assert_eq!(
            real.matches(between).count(),
            1,
            "the function is not what this test knows: {real}"
        );
        self.hold_up(&real.replace(between, "public.held_up_try(")).await
    }

    async fn hold_up(&self, trigger: &str) -> HeldUp<'_> {
        let keeper = self.client().await;
        let functions = format!(
            "CREATE FUNCTION held_up_wait() RETURNS void LANGUAGE plpgsql AS $$
             BEGIN
                 PERFORM pg_advisory_lock_shared({LOCK});
                 PERFORM pg_advisory_unlock_shared({LOCK});
             END $$;
             CREATE FUNCTION held_up() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM held_up_wait(); RETURN NEW; END $$;
             CREATE FUNCTION held_up_try(class int, id int) RETURNS bool LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM held_up_wait(); RETURN pg_try_advisory_xact_lock_shared(class, id); END $$;
             SELECT pg_advisory_lock({LOCK});
             {trigger}"
        );
        keeper.batch_execute(&functions).await.unwrap();
        HeldUp { db: self, keeper }
    }
}
