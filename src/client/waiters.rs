//! Who waits for which answer on the control stream of a connection.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::client::net::NetEvent;
use crate::ids::ClientSeq;
use crate::wire::codec::{self, RawFrame};
use crate::wire::{WireError, frame};

/// Who waits for an answer.
pub(super) enum Waiter {
    Question(oneshot::Sender<RawFrame>),
    Send(ClientSeq),
}

/// See the module. Request 0 answers nothing, and 1 was Hello.
pub(super) struct Waiters {
    waiting: Mutex<HashMap<u32, Waiter>>,
    next_request: AtomicU32,
}

impl Waiters {
    pub(super) fn new() -> Waiters {
        Waiters { waiting: Mutex::default(), next_request: AtomicU32::new(2) }
    }

    /// The request number for whom waits here.
    pub(super) fn register(&self, waiter: Waiter) -> u32 {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let request = self.next_request.fetch_add(1, Ordering::Relaxed);
            if request > 1 && !waiting.contains_key(&request) {
                waiting.insert(request, waiter);
                return request;
            }
        }
    }

    /// Whoever waits for this request does so no longer.
    pub(super) fn take(&self, request: u32) -> Option<Waiter> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&request)
    }

    /// The frame that asks to take this send; its answer is waited for.
    pub(super) fn ask_to_send(&self, seq: ClientSeq, send: &frame::Send) -> Result<Bytes, WireError> {
        let request = self.register(Waiter::Send(seq));
        codec::encode(request, send).inspect_err(|_| drop(self.take(request)))
    }

    /// Hands an answer to who waits for it; what the engine has to know of a frame comes back.
    pub(super) fn route(&self, frame: RawFrame) -> Option<NetEvent> {
        match (frame.request, self.take(frame.request)) {
            (_, Some(Waiter::Question(answer))) => {
                // Who asked may have stopped waiting.
                drop(answer.send(frame));
                None
            }
            (_, Some(Waiter::Send(seq))) => Some(NetEvent::SendAnswered(seq, frame)),
            (0, None) => Some(NetEvent::Frame(frame)),
            (_, None) => None,
        }
    }
}
