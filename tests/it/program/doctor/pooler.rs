//! A transaction pooler, through which nobody can listen.

use super::Checkup;
use crate::support::program::{doorbell, output};
use crate::support::{PgBouncer, TestDb};

#[tokio::test]
async fn a_transaction_pooler_is_bad_unless_there_is_a_way_around_it() {
    let db = TestDb::new().await;
    let Some(bouncer) = PgBouncer::before(&db).await else {
        return;
    };
    let through = "leads through a transaction pooler";
    let checkup = Checkup::of(&bouncer.url(), &[]).await;
    checkup.agrees_with_its_exit();
    let mend = checkup.mend("bad", through);
    assert!(mend.contains("DOORBELL_LISTEN_URL"), "{mend}");
    for (around, expected) in [(db.url(), false), (bouncer.url(), true)] {
        let mut command = doorbell(["doctor", "--json"]);
        command
            .env("DOORBELL_DATABASE_URL", bouncer.url())
            .env("DOORBELL_LISTEN_URL", &around);
        let report = String::from_utf8(output(&mut command).await.stdout).unwrap();
        assert_eq!(report.contains(through), expected, "{around}: {report}");
        assert!(report.contains("the rights of a reactor"), "{report}");
    }
}
