//! Acks streams: what a listener has with its application, what it wants pushed, and read marks.

use std::sync::Arc;

use quinn::{Connection, RecvStream};
use tokio::task::JoinSet;
use tracing::debug;

use crate::core::authorise::Verb;
use crate::core::command::Command;
use crate::core::listener::Wanted;
use crate::server::request::{Recipient, Reply};
use crate::server::session::Session;
use crate::server::streams::FrameStream;
use crate::server::{Shared, keeping, translate};
use crate::wire::code::Code;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{Ack, Frame, ReadMarks, Subscribe};

/// Accepts streams until one of them is at fault, or the connection ends.
pub(crate) async fn accept(shared: Arc<Shared>, session: Arc<Session>, connection: Connection) -> Code {
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept_uni() => match accepted {
                Ok(stream) => {
                    readers.spawn(read(Arc::clone(&shared), Arc::clone(&session), stream));
                }
                Err(_) => return Code::Goodbye,
            },
            Some(ended) = readers.join_next() => {
                if let Ok(Err(code)) = ended {
                    return code;
                }
            }
        }
    }
}

async fn read(shared: Arc<Shared>, session: Arc<Session>, stream: RecvStream) -> Result<(), Code> {
    let mut frames = FrameStream::new(stream);
    loop {
        match frames.next().await {
            Ok(Some(raw)) => {
                if let Some((command, reply)) = take(&shared, &session, &raw)? {
                    shared.submit(command, reply).await;
                }
            }
            Ok(None) => return Ok(()),
            Err(error) => {
                debug!(%error, "acks stream ended");
                return Err(error.code().unwrap_or(Code::Goodbye));
            }
        }
    }
}

/// Takes one frame; what it gives is for the writer.
pub(crate) fn take(shared: &Shared, session: &Arc<Session>, raw: &RawFrame) -> Result<Option<(Command, Reply)>, Code> {
    match raw.kind {
        Ack::TYPE => return Ok(ack(shared, session, raw.decode().map_err(|_| Code::Malformed)?)),
        Subscribe::TYPE => {
            subscribe(shared, session, raw.decode().map_err(|_| Code::Malformed)?)?;
            return Ok(begins_to_listen(shared, session));
        }
        ReadMarks::TYPE => {
            let marks: ReadMarks = raw.decode().map_err(|_| Code::Malformed)?;
            let Some(device) = session.device else { return Err(Code::NotAllowed) };
            return Ok(Some((Command::ReadMarks { device, entries: marks.entries }, Reply::none())));
        }
        _ if raw.must_understand() => return Err(Code::Unsupported),
        _ => debug!(kind = raw.kind, "skipped an unknown frame"),
    }
    Ok(None)
}

/// A device that was not there today yet is noted: it holds back what it has not acknowledged.
fn begins_to_listen(shared: &Shared, session: &Session) -> Option<(Command, Reply)> {
    Some((keeping::seen(shared, session)?, Reply::none()))
}

fn ack(shared: &Shared, session: &Arc<Session>, ack: Ack) -> Option<(Command, Reply)> {
    let device = session.device?;
    let (known, unknown): (Vec<_>, Vec<_>) = {
        let tables = &shared.view.read().tables;
        ack.entries.into_iter().partition(|(group, _)| tables.may_in(*group, Verb::Ack, session.who()).is_ok())
    };
    session.refuse_acks(unknown.into_iter().map(|(group, _)| group), Code::NoSuchGroup);
    if known.is_empty() {
        // Nothing is acknowledged: no credit returns, and no group that is behind has to be looked at.
        return None;
    }
    let entries = {
        let view = shared.view.read();
        let Some(mut listening) = session.listening() else {
            drop(view);
            session.refuse_acks(known.into_iter().map(|(group, _)| group), Code::NotListening);
            return None;
        };
        listening.acked(&view.tables, &known, session.rtt())
    };
    session.push_wake.notify_one();
    let reply = Reply::to(Recipient::Acks(Arc::clone(session)));
    Some((Command::Ack { device, entries }, reply))
}

fn subscribe(shared: &Shared, session: &Session, subscribe: Subscribe) -> Result<(), Code> {
    let view = shared.view.read();
    let Some(mut listening) = session.listening() else { return Err(Code::NotListening) };
    view.tables.may(Verb::Subscribe, session.who()).map_err(translate::code)?;
    let wanted = if subscribe.all { Wanted::All } else { Wanted::Groups(subscribe.groups.into_iter().collect()) };
    listening.subscribe(&view.tables, wanted);
    drop(listening);
    drop(view);
    session.push_wake.notify_one();
    Ok(())
}
