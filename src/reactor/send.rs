//! One send: from a claimed row to an outcome in the settler's hands.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use crate::Error;
use crate::notification::Notification;
use crate::outcome::{Ending, decide};
use crate::reactor::large;
use crate::reactor::lease::Cut;
use crate::reactor::settler::Settle;
use crate::reactor::state::{Channel, Shared, Slot};
use crate::retry::random;
use crate::sender::SendError;
use crate::store::{Claimed, Contents, Held};

/// A row that is to be sent now.
pub(crate) struct Send {
    pub(crate) claimed: Claimed,
    /// When the claim's answer came.
    pub(crate) claimed_at: Instant,
    pub(crate) slot: Slot,
    /// Speaks up when the send is to end early.
    pub(crate) cut: oneshot::Receiver<Cut>,
}

impl Send {
    /// Runs the sender and hands the outcome on. The slot is free again when the settler has taken the outcome, so a
    /// database that writes slowly slows down claiming by itself.
    pub(crate) async fn run(self, shared: Arc<Shared>, settler: mpsc::Sender<Settle>) {
        let Send {
            claimed,
            claimed_at,
            slot,
            cut,
        } = self;
        let channel = &shared.channels[slot.channel];
        let Held { id, attempt, .. } = claimed.held;
        // Around all of it, so that a sender that panics before its first await, or when it is dropped, is caught as well.
        let ending = AssertUnwindSafe(ending(&shared, slot.channel, claimed, claimed_at, cut)).catch_unwind();
        let ending = ending
            .await
            .unwrap_or_else(|panic| Some(Ending::Panicked(panic_message(&*panic))));
        let Some(ending) = ending else {
            tracing::warn!(%id, channel = %channel.name, "the row is no longer ours; its send was cut off");
            return;
        };
        report(id, attempt, channel, &ending);
        let outcome = decide(
            ending,
            attempt,
            &channel.config.retry,
            channel.config.on_unknown,
            random(),
        );
        shared.leases.sent(id);
        let settle = Settle {
            id,
            channel: slot.channel,
            outcome,
        };
        if settler.send(settle).await.is_err() {
            tracing::error!(%id, "the reactor has stopped; this outcome is not written and the row will be sent again");
        }
    }
}

/// What is sent, and how long that may take.
fn notification(
    claimed: Claimed,
    contents: Contents,
    claimed_at: Instant,
    channel: &Channel,
) -> (Notification, Duration) {
    let now = Instant::now();
    let left = claimed.expires_in.map(|left| left.saturating_sub(now - claimed_at));
    let timeout = left.map_or(channel.config.timeout, |left| left.min(channel.config.timeout));
    let notification = Notification {
        id: claimed.held.id,
        channel: Arc::clone(&channel.name),
        recipient: contents.recipient,
        payload: contents.payload,
        attempt: claimed.held.attempt,
        max_attempts: claimed.max_attempts,
        enqueued_to_send: claimed.age.saturating_add(now - claimed_at),
        deadline: now + timeout,
    };
    (notification, timeout)
}

/// How the send ended; `None` when the row turned out to be somebody else's by now.
async fn ending(
    shared: &Shared,
    channel: usize,
    mut claimed: Claimed,
    claimed_at: Instant,
    mut cut: oneshot::Receiver<Cut>,
) -> Option<Ending> {
    let (contents, _room) = match claimed.contents.take() {
        Some(contents) => (contents, None),
        None => tokio::select! {
            read = large::read(shared, channel, claimed.held) => match read {
                // A stop that came before it could be begun: others may do it.
                Ok(_) if shared.is_stopping() => return Some(Ending::NotBegun),
                Ok((contents, room)) => (contents, Some(room)),
                Err(error) => return Some(unread(&error)),
            },
            cut = &mut cut => return cut_off(cut, Ending::NotBegun),
        },
    };
    let channel = &shared.channels[channel];
    let (notification, limit) = notification(claimed, contents, claimed_at, channel);
    if limit.is_zero() {
        return Some(Ending::NotBegun);
    }
    tokio::select! {
        biased;
        answer = channel.sender.send(&notification) => Some(Ending::Answered(answer)),
        () = tokio::time::sleep_until(notification.deadline().into()) => Some(Ending::TimedOut(limit)),
        cut = cut => cut_off(cut, Ending::Aborted),
    }
}

fn cut_off(cut: Result<Cut, oneshot::error::RecvError>, by_shutdown: Ending) -> Option<Ending> {
    match cut {
        Ok(Cut::Shutdown) => Some(by_shutdown),
        Ok(Cut::FenceLost) | Err(_) => None,
    }
}

/// It counts as an attempt, or a row that cannot be read would be tried for ever.
fn unread(error: &Error) -> Ending {
    let message = format!("the row could not be read: {}", error.chain());
    Ending::Answered(Err(SendError::transient(message)))
}

fn panic_message(panic: &(dyn Any + std::marker::Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

/// Logs how it went, without recipient, payload or the sender's words, which may hold either.
fn report(id: Uuid, attempt: u32, channel: &Channel, ending: &Ending) {
    let channel = &*channel.name;
    match ending {
        Ending::Answered(Ok(_)) => tracing::debug!(%id, channel, attempt, "sent"),
        Ending::Answered(Err(error)) => {
            let permanent = error.is_permanent();
            tracing::warn!(%id, channel, attempt, permanent, "the sender failed; see last_error");
        }
        Ending::TimedOut(after) => tracing::warn!(%id, channel, attempt, ?after, "the sender did not answer in time"),
        Ending::Panicked(_) => tracing::error!(%id, channel, attempt, "the sender panicked; see last_error"),
        Ending::Aborted => tracing::warn!(%id, channel, attempt, "cut off by the shutdown"),
        Ending::NotBegun => tracing::debug!(%id, channel, "given back before it was begun"),
    }
}
