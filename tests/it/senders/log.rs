use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use doorbell::senders::Log;
use doorbell::{Notification, Sender};
use futures::future::join_all;
use tokio::time::timeout;

use super::{awkward_payloads, is_transient, notification};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_sends_at_once_print_whole_lines() {
    let (reader, writer) = io::pipe().unwrap();
    let lines = std::thread::spawn(|| BufReader::new(reader).lines().collect::<io::Result<Vec<_>>>());
    let log = Log::to(writer);
    // Longer than a pipe holds, so that each line takes several writes.
    let payload = format!("{:?}", "x".repeat(100_000));
    let sends = (0..100).map(|_| {
        let (log, notification) = (log.clone(), notification(&payload));
        tokio::spawn(async move {
            log.send(&notification).await.unwrap();
            notification.to_json()
        })
    });
    let mut sent: Vec<String> = join_all(sends).await.into_iter().map(Result::unwrap).collect();
    drop(log);
    let mut lines = lines.join().unwrap().unwrap();
    sent.sort();
    lines.sort();
    assert!(lines == sent, "lines were mixed");
}

#[tokio::test]
async fn the_payload_is_printed_byte_for_byte() {
    for payload in awkward_payloads() {
        let (mut reader, writer) = io::pipe().unwrap();
        let notification = notification(&payload);
        Log::to(writer).send(&notification).await.unwrap();
        let mut printed = String::new();
        reader.read_to_string(&mut printed).unwrap();
        assert_eq!(printed, notification.to_json() + "\n");
    }
}

#[tokio::test]
async fn a_closed_pipe_is_a_transient_failure() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let error = Log::to(writer).send(&notification("{}")).await.unwrap_err();
    assert!(
        is_transient(&error) && error.message().contains("Broken pipe"),
        "{error}"
    );
}

/// A disk that is full after so many bytes, until somebody makes room.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(usize, Vec<u8>)>>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (room, written) = &mut *self.0.lock().unwrap();
        let fits = bytes.len().min(*room);
        if fits == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        *room -= fits;
        written.extend_from_slice(&bytes[..fits]);
        Ok(fits)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_torn_line_does_not_spoil_the_next() {
    let disk = Disk::default();
    disk.0.lock().unwrap().0 = 10;
    let (log, notification) = (Log::to(disk.clone()), notification("{}"));
    assert!(is_transient(&log.send(&notification).await.unwrap_err()));
    disk.0.lock().unwrap().0 = usize::MAX;
    log.send(&notification).await.unwrap();
    let written = String::from_utf8(disk.0.lock().unwrap().1.clone()).unwrap();
    let lines: Vec<&str> = written.lines().collect();
    let line = notification.to_json();
    assert_eq!(lines, [&line[..10], &line]);
}

/// A reader that reads only when told: `write` waits for a word.
struct Stuck(mpsc::Receiver<()>, Arc<Mutex<Vec<u8>>>);

impl Write for Stuck {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.recv().map_err(io::Error::other)?;
        self.1.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_stuck_reader_does_not_hold_up_the_runtime_and_given_up_sends_print_nothing() {
    let (go, wait) = mpsc::channel();
    let written = Arc::new(Mutex::new(Vec::new()));
    let log = Log::to(Stuck(wait, Arc::clone(&written)));
    let sent: [Notification; 4] = ["1", "2", "3", "4"].map(notification);
    // On this test's single thread, none of these time-outs could fire if a write blocked it.
    for notification in &sent[..3] {
        assert!(
            timeout(Duration::from_millis(20), log.send(notification))
                .await
                .is_err()
        );
    }
    go.send(()).unwrap();
    go.send(()).unwrap();
    log.send(&sent[3]).await.unwrap();
    // The first was being written when it was given up; the two that waited are gone.
    let expected = format!("{}\n{}\n", sent[0].to_json(), sent[3].to_json());
    assert_eq!(String::from_utf8(written.lock().unwrap().clone()).unwrap(), expected);
}
