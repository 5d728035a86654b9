//! Waiting for what must become true.

use std::fmt::Display;
use std::time::{Duration, Instant};

/// Asks again and again until the answer is `Ok`, and fails with the last complaint when it is not within `limit`.
pub(crate) async fn eventually<T, E, F>(limit: Duration, mut question: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let deadline = Instant::now() + limit;
    loop {
        match question().await {
            Ok(answer) => return answer,
            Err(complaint) if Instant::now() > deadline => panic!("after {limit:?}: {complaint}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// For [`eventually`]: a condition, and the complaint while it does not hold.
pub(crate) fn expect<C: Display>(holds: bool, complaint: C) -> Result<(), C> {
    if holds { Ok(()) } else { Err(complaint) }
}
