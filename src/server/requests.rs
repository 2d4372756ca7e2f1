//! Request streams: pages and lists. Each stream carries one request and its answer; a fault ends that stream alone.
//!
//! [`Answering`] says what is to be done; here it is done.

use std::sync::Arc;

use quinn::{Connection, RecvStream, SendStream, VarInt};
use tokio::task::JoinSet;
use tracing::debug;

use crate::server::Shared;
use crate::server::answering::{Answering, Next};
use crate::server::session::Session;
use crate::server::streams::{self, FrameStream};
use crate::wire::code::Code;

/// Accepts request streams until the connection ends. How many there are at once is bounded by the transport.
pub(crate) async fn accept(shared: Arc<Shared>, session: Arc<Session>, connection: Connection) -> Code {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept_bi() => match accepted {
                Ok((send, receive)) => {
                    running.spawn(serve(Arc::clone(&shared), Arc::clone(&session), send, receive));
                }
                Err(_) => return Code::Goodbye,
            },
            Some(_) = running.join_next() => {}
        }
    }
}

async fn serve(shared: Arc<Shared>, session: Arc<Session>, mut send: SendStream, receive: RecvStream) {
    streams::set_urgency(&send, streams::urgency::REQUEST);
    let mut frames = FrameStream::new(receive);
    let asked = match frames.next().await {
        Ok(Some(raw)) => raw,
        Ok(None) => return,
        Err(error) => {
            debug!(%error, "request stream ended");
            let code = error.code().unwrap_or(Code::Goodbye);
            drop(send.reset(VarInt::from_u32(u32::from(code.number()))));
            return;
        }
    };
    let mut answering = Answering::new(&shared, &session, &asked);
    loop {
        match answering.next() {
            Next::Read(asked) => answering.read(shared.readers.page(asked).await),
            Next::Gather(gather) => answering.gathered(shared.readers.gather(gather).await),
            Next::Write(frame) => match send.write_all_chunks(&mut [frame]).await {
                Ok(()) => answering.written(),
                Err(error) => {
                    debug!(%error, "request stream cannot be written");
                    return answering.cut();
                }
            },
            // A peer that reset the stream in the meantime does not wait for its end.
            Next::End => return drop(send.finish()),
        }
    }
}
