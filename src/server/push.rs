//! The push stream of a listener: what its machine decided to push, heads, and notices.
//!
//! Everything that waits is written in one go. A peer that does not read is bounded by its credit; it holds up nobody
//! else. [`Pushing`] says what is to be done; here it is done.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quinn::{Connection, SendStream};
use tokio::task::JoinSet;

use crate::server::Shared;
use crate::server::listening::Fetch;
use crate::server::pushing::{self, Pushing};
use crate::server::session::Session;
use crate::server::streams::{self, urgency};
use crate::wire::code::Code;

/// A sleep that something else ends first.
const LONG: Duration = Duration::from_secs(3600);

/// Writes what waits for the push stream, as long as the connection lives.
pub(crate) async fn run(shared: Arc<Shared>, session: Arc<Session>, connection: Connection) -> Code {
    let mut pushing = Pushing::default();
    let mut stream: Option<SendStream> = None;
    let mut fetches = JoinSet::new();
    loop {
        let woken = session.push_wake.notified();
        let due = match pushing.take(&shared, &session) {
            Ok(due) => due,
            Err(code) => return code,
        };
        for fetch in due.fetches {
            fetches.spawn(run_fetch(Arc::clone(&shared), Arc::clone(&session), fetch));
        }
        if !due.frames.is_empty() {
            pushing.opens(&session);
            match write(&connection, &mut stream, due.frames).await {
                Written::Yes => {}
                Written::Stopped => {
                    stream = None;
                    pushing.stopped(&shared, &session);
                }
                Written::Gone => return Code::Goodbye,
            }
            continue;
        }
        tokio::select! {
            () = woken => {}
            Some(_) = fetches.join_next() => {}
            () = tokio::time::sleep(due.tick.unwrap_or(LONG)) => pushing::tick(&session),
        }
    }
}

enum Written {
    Yes,
    /// The peer stopped the stream.
    Stopped,
    Gone,
}

async fn write(connection: &Connection, stream: &mut Option<SendStream>, mut frames: Vec<Bytes>) -> Written {
    let open = match stream {
        Some(open) => open,
        None => match connection.open_uni().await {
            Ok(opened) => {
                streams::set_urgency(&opened, urgency::PUSH);
                stream.insert(opened)
            }
            Err(_) => return Written::Gone,
        },
    };
    match open.write_all_chunks(&mut frames).await {
        Ok(()) => Written::Yes,
        Err(quinn::WriteError::Stopped(_)) => Written::Stopped,
        Err(_) => Written::Gone,
    }
}

/// Reads rows that the machine wants to push by itself, and gives them to it.
async fn run_fetch(shared: Arc<Shared>, session: Arc<Session>, fetch: Fetch) {
    let page = shared.readers.page(pushing::asked(&session, fetch)).await;
    pushing::fetched(&shared, &session, fetch, &page);
}
