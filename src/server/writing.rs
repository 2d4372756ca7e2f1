//! The writer's thread: it loops over [`Writer`], batch by batch, and tells the dispatcher.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use tokio::sync::mpsc;
use tracing::warn;

use crate::clock;
use crate::server::request::Request;
use crate::server::writer::{Told, Writer};

/// How long the writer waits between two tries to open a store that failed.
const REOPEN_INTERVAL: Duration = Duration::from_secs(1);

/// Loops over the machine until every sender of commands is gone or the index is in doubt, then seals the log. Whoever
/// waits is told before the index is made durable, which takes longest.
pub(crate) fn run(mut writer: Writer, commands: &Receiver<Request>, told: &mpsc::Sender<Told>) {
    loop {
        match next(&writer, commands) {
            Next::Request(request) => writer.take(*request, clock::now_ms()),
            Next::Due => {}
            Next::Stop => break,
        }
        while !writer.is_full()
            && let Ok(request) = commands.try_recv()
        {
            writer.take(request, clock::now_ms());
        }
        commit_and_tell(&mut writer, told);
        if writer.has_failed() && !reopen(&mut writer, commands, told) || writer.is_in_doubt() {
            break;
        }
    }
    commit_and_tell(&mut writer, told);
    let sealed = writer.seal();
    tell(told, Told::Stopped(sealed));
    writer.finish();
}

/// Tries to open the store until it opens, the server stops, or the index is in doubt; meanwhile every command is
/// answered. Says whether it is open.
fn reopen(writer: &mut Writer, commands: &Receiver<Request>, told: &mpsc::Sender<Told>) -> bool {
    // With an index in doubt opening would be rebuilding it: that is for the next start.
    while !writer.is_in_doubt() {
        if writer.try_reopen() {
            tell(told, Told::Reopened);
            return true;
        }
        let until = clock::monotonic() + REOPEN_INTERVAL;
        loop {
            match commands.recv_deadline(until) {
                Ok(request) => writer.take(request, clock::now_ms()),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }
    false
}

enum Next {
    Request(Box<Request>),
    Due,
    Stop,
}

fn next(writer: &Writer, commands: &Receiver<Request>) -> Next {
    let received = match writer.due() {
        Some(due) => commands.recv_deadline(due),
        None => commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    match received {
        Ok(request) => Next::Request(Box::new(request)),
        Err(RecvTimeoutError::Timeout) => Next::Due,
        Err(RecvTimeoutError::Disconnected) => Next::Stop,
    }
}

fn commit_and_tell(writer: &mut Writer, told: &mpsc::Sender<Told>) {
    if let Some(batch) = writer.commit(clock::now_ms()) {
        tell(told, Told::Batch(batch));
    }
}

fn tell(told: &mpsc::Sender<Told>, what: Told) {
    // The dispatcher outlives the writer; where it is gone all the same, dropped replies answer by themselves.
    if told.blocking_send(what).is_err() {
        warn!("nobody listens to the writer any more");
    }
}
