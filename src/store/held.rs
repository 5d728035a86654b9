//! The statements about rows that a reactor holds: settle, renew, release. Each is guarded by the fence.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Error;
use crate::outcome::Outcome;
use crate::status::Status;
use crate::store::runner::Parameter;
use crate::store::{Store, statements};

statements! {
    /// The statements about rows that a reactor holds.
    HeldStatements { locked, release_unknown, renew, settle }
}

/// A claim as we remember it: what guards a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) id: Uuid,
    pub(crate) claim: i64,
    pub(crate) claimed_by: Uuid,
    pub(crate) attempt: u32,
}

/// One row to be settled.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    pub(crate) held: Held,
    pub(crate) outcome: Outcome,
}

impl Store {
    /// Writes outcomes; answers with the rows that were still ours and what they are now.
    pub(crate) async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<(Uuid, Status)>, Error> {
        let arrays = Fences::new(settlements.iter().map(|settlement| settlement.held));
        let mut kinds = Vec::with_capacity(settlements.len());
        let mut delays = Vec::with_capacity(settlements.len());
        let mut errors = Vec::with_capacity(settlements.len());
        let mut receipts = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            let (kind, delay, error, receipt) = match &settlement.outcome {
                Outcome::Sent { receipt } => ("sent", 0.0, None, receipt.as_deref()),
                Outcome::Retry { delay, error } => ("retry", delay.as_secs_f64(), Some(error.as_str()), None),
                Outcome::Failed { error } => ("failed", 0.0, Some(error.as_str()), None),
                Outcome::Released => ("released", 0.0, None, None),
            };
            kinds.push(kind);
            delays.push(delay);
            errors.push(error);
            receipts.push(receipt);
        }
        let [ids, claims, claimed_by, attempts] = arrays.parameters();
        let rows = self
            .query(
                &self.held().settle,
                &[
                    ids,
                    claims,
                    claimed_by,
                    attempts,
                    (&kinds, Type::TEXT_ARRAY),
                    (&delays, Type::FLOAT8_ARRAY),
                    (&errors, Type::TEXT_ARRAY),
                    (&receipts, Type::TEXT_ARRAY),
                ],
            )
            .await?;
        rows.iter()
            .map(|row| Ok((row.try_get("id")?, row.try_get::<_, &str>("status")?.parse()?)))
            .collect()
    }

    /// Those of these rows that somebody else holds a lock on.
    pub(crate) async fn locked(&self, ids: &[Uuid]) -> Result<HashSet<Uuid>, Error> {
        let rows = self.query(&self.held().locked, &[(&ids, Type::UUID_ARRAY)]).await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }

    /// Lengthens leases; answers with the ids that are still ours, and whether that lease was lengthened: somebody may
    /// hold the row's lock.
    pub(crate) async fn renew(&self, held: &[Held], lease: Duration) -> Result<HashMap<Uuid, bool>, Error> {
        let arrays = Fences::new(held.iter().copied());
        let [ids, claims, claimed_by, attempts] = arrays.parameters();
        let lease = lease.as_secs_f64();
        let rows = self
            .query(
                &self.held().renew,
                &[ids, claims, claimed_by, attempts, (&lease, Type::FLOAT8)],
            )
            .await?;
        rows.iter()
            .map(|row| Ok((row.try_get("id")?, row.try_get("renewed")?)))
            .collect()
    }

    /// Gives back rows that bear one of these ids, all ours, but that we do not know; answers how many.
    pub(crate) async fn release_unknown(
        &self,
        channels: &[&str],
        reactors: &[Uuid],
        known: &[Held],
    ) -> Result<usize, Error> {
        let arrays = Fences::new(known.iter().copied());
        let [ids, claims, ..] = arrays.parameters();
        let parameters = [
            (&channels as _, Type::TEXT_ARRAY),
            (&reactors as _, Type::UUID_ARRAY),
            ids,
            claims,
        ];
        Ok(self.query(&self.held().release_unknown, &parameters).await?.len())
    }
}

/// Claims as four arrays, a parameter each.
struct Fences {
    ids: Vec<Uuid>,
    claims: Vec<i64>,
    claimed_by: Vec<Uuid>,
    attempts: Vec<i32>,
}

impl Fences {
    fn new(held: impl Iterator<Item = Held>) -> Self {
        let mut fences = Fences {
            ids: vec![],
            claims: vec![],
            claimed_by: vec![],
            attempts: vec![],
        };
        for held in held {
            fences.ids.push(held.id);
            fences.claims.push(held.claim);
            fences.claimed_by.push(held.claimed_by);
            fences.attempts.push(i32::try_from(held.attempt).unwrap_or(i32::MAX));
        }
        fences
    }

    fn parameters(&self) -> [Parameter<'_>; 4] {
        [
            (&self.ids, Type::UUID_ARRAY),
            (&self.claims, Type::INT8_ARRAY),
            (&self.claimed_by, Type::UUID_ARRAY),
            (&self.attempts, Type::INT4_ARRAY),
        ]
    }
}
