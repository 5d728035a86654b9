//! Where notifications arrive: an HTTP server that keeps a ledger and knows nothing of the queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use doorbell::Uuid;
use serde::Deserialize;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::Outcome;
use crate::dice::Dice;

/// No answer takes longer than this, and few take as long.
const LONGEST_ANSWER: Duration = Duration::from_secs(1);

/// How each row arrived, the first time and again.
pub(crate) type Arrivals = HashMap<Uuid, Vec<Arrival>>;

#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    /// The number of the reactor that sent it.
    pub(crate) from: usize,
}

pub(crate) struct Provider {
    pub(crate) url: String,
    ledger: Arc<Ledger>,
    // Ended with the value.
    _server: JoinSet<()>,
}

struct Ledger {
    arrivals: Mutex<Arrivals>,
    dice: Mutex<Dice>,
}

#[derive(Deserialize)]
struct Notification {
    id: String,
}

impl Provider {
    pub(crate) async fn start(seed: u64) -> Outcome<Self> {
        let ledger = Arc::new(Ledger {
            arrivals: Mutex::default(),
            dice: Mutex::new(Dice::new(seed, 1)),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let app = Router::new()
            .route("/{from}", post(arrived))
            .with_state(Arc::clone(&ledger));
        let mut server = JoinSet::new();
        server.spawn(async {
            // It ends with the process.
            let _ = axum::serve(listener, app).await;
        });
        Ok(Provider {
            url,
            ledger,
            _server: server,
        })
    }

    pub(crate) fn arrivals(&self) -> Arrivals {
        lock(&self.ledger.arrivals).clone()
    }
}

async fn arrived(State(ledger): State<Arc<Ledger>>, Path(from): Path<usize>, body: String) -> StatusCode {
    let at = Instant::now();
    let notification = serde_json::from_str::<Notification>(&body).ok();
    let Some(id) = notification.and_then(|notification| notification.id.parse::<Uuid>().ok()) else {
        return StatusCode::BAD_REQUEST;
    };
    lock(&ledger.arrivals).entry(id).or_default().push(Arrival { at, from });
    let takes = {
        let mut dice = lock(&ledger.dice);
        let longest = if dice.one_in(50) {
            LONGEST_ANSWER.as_millis() as u64
        } else {
            20
        };
        dice.below(longest)
    };
    tokio::time::sleep(Duration::from_millis(takes)).await;
    StatusCode::OK
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
