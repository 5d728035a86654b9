use std::time::Duration;

use doorbell::senders::Recording;
use doorbell::{Receipt, SendError, Sender};
use tokio::time::timeout;

use super::notification;

#[tokio::test]
async fn it_gives_what_it_was_sent_in_order_and_each_once() {
    let recording = Recording::new();
    let sender = recording.clone();
    let first_two = tokio::spawn({
        let recording = recording.clone();
        async move { [recording.next().await, recording.next().await] }
    });
    let sent = ["1", "2", "3"].map(notification);
    for notification in &sent {
        assert_eq!(sender.send(notification).await.unwrap(), Receipt::none());
    }
    let ids = first_two.await.unwrap().map(|notification| notification.id());
    assert_eq!(ids, [sent[0].id(), sent[1].id()]);
    assert_eq!(recording.next().await.payload(), "3");
    assert_eq!(recording.recorded().len(), 3);
}

#[tokio::test]
async fn a_wait_that_is_given_up_takes_nothing() {
    let recording = Recording::new();
    assert!(timeout(Duration::ZERO, recording.next()).await.is_err());
    assert!(recording.wait_for(1, Duration::ZERO).await.is_empty());
    recording.send(&notification("1")).await.unwrap();
    assert_eq!(recording.next().await.payload(), "1");
    assert_eq!(recording.wait_for(2, Duration::ZERO).await.len(), 1);
}

#[tokio::test]
async fn it_answers_by_its_script_and_survives_one_that_panics() {
    let mut answers = [
        Err(SendError::transient("busy")),
        Err(SendError::permanent("gone")),
        Ok(Receipt::new("250 ok")),
    ]
    .into_iter();
    let recording = Recording::answering(move |_| answers.next().expect("script is over"));
    let sends = async || recording.send(&notification("{}")).await;
    assert_eq!(sends().await.unwrap_err().message(), "busy");
    assert!(sends().await.unwrap_err().is_permanent());
    assert_eq!(sends().await.unwrap().text(), Some("250 ok"));
    for _ in 0..2 {
        let sender = recording.clone();
        let panicking = tokio::spawn(async move { sender.send(&notification("{}")).await });
        assert!(panicking.await.unwrap_err().is_panic());
    }
    assert_eq!(recording.recorded().len(), 5);
}
