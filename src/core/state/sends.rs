//! Sends: one number, one msgid. The order of checks is session, what was decided before, then authorisation.
//!
//! The window of a device is [lowest stated, highest decided]. A number above it is decided when it comes; a permanent
//! refusal consumes it; *not done* does not, and holds back everything later of that device. While the disk is full what
//! was decided before is still answered, and nothing new is looked at; without any room not even the window moves.

use crate::core::authorise::Verb;
use crate::core::command::{Answer, Refusal, SendCommand, Sendable, Storage};
use crate::core::rows::{Act, SendRow, SendWindow, Write};
use crate::core::state::decision::{Decided, Decision};
use crate::core::state::rates::Limited;
use crate::ids::{ClientSeq, DeviceId, UserId};
use crate::limits::SENDS_UNANSWERED_MAX;
use crate::proof::{self, Wrong};

impl Decision<'_> {
    pub(super) fn send(&mut self, send: SendCommand) -> Decided {
        let user = self.session(send.device)?;
        if send.lowest == ClientSeq::ZERO || send.lowest > send.seq {
            return Err(Refusal::Malformed);
        }
        let before = self.window(send.device);
        let mut window = SendWindow { lowest: before.lowest.max(send.lowest), highest: before.highest };
        self.turns.arrived(send.device, send.seq, window.lowest);
        let (device, seq) = (send.device, send.seq);
        let is_new = seq > window.highest || proof::is(Wrong::NoDedup);
        let is_fresh = seq >= window.lowest && is_new;
        if seq <= window.highest {
            self.turns.is_decided(device, seq);
        }
        if !is_fresh && proof::is(Wrong::DedupAfterAuthorisation) {
            self.may_in(send.group, Verb::Send, Some(user))?;
        }
        if is_fresh && !self.may_grow() && !takes_away(&send) {
            self.turns.hold_from(device, seq, window.lowest);
            return Err(Refusal::StorageFull);
        }
        if self.storage == Storage::Closed {
            return if seq < window.lowest { Err(Refusal::Forgotten) } else { self.decided_before(&send) };
        }
        if window.lowest > before.lowest {
            self.forget_sends_below(device, window.lowest);
        }
        let decided = if is_fresh {
            self.decide_fresh(user, send, window)
        } else if seq < window.lowest {
            Err(Refusal::Forgotten)
        } else {
            self.decided_before(&send)
        };
        if decided.as_ref().is_err_and(|refusal| refusal.is_not_done()) {
            self.turns.hold_from(device, seq, window.lowest);
        } else if is_fresh {
            window.highest = window.highest.max(seq);
        }
        if window != before {
            self.put(Write::SendWindow(device, window));
        }
        decided
    }

    pub(super) fn forget_sends_below(&mut self, device: DeviceId, below: ClientSeq) {
        for seq in self.stored_sends_below(device, below) {
            self.put(Write::SendGone(device, seq));
        }
    }

    /// A number of the window: it has its answer for ever.
    fn decided_before(&self, send: &SendCommand) -> Decided {
        let row = self.stored_send(send.device, send.seq).ok_or(Refusal::NeverStored)?;
        if row.hash != send.hash {
            return Err(Refusal::Conflict);
        }
        Ok(Answer::Sent { msgid: row.msgid, time_ms: row.time_ms })
    }

    fn decide_fresh(&mut self, user: UserId, send: SendCommand, window: SendWindow) -> Decided {
        if send.seq.value() - window.lowest.value() >= SENDS_UNANSWERED_MAX {
            return Err(Refusal::WindowFull);
        }
        if self.turns.is_out_of_turn(send.device, send.seq) && !proof::is(Wrong::SendOvertakes) {
            return Err(Refusal::OutOfTurn);
        }
        self.use_up(user, Limited::Sends, 1, self.settings.sends)?;
        self.may_in(send.group, verb(&send), Some(user))?;
        let what = send.what?;
        self.use_up(user, Limited::Bytes, bytes(&what), self.settings.bytes)?;
        if what.act == Act::Says {
            self.begin_direct(send.group, user)?;
        }
        let msgid = self.say(send.group, user, what, send.attached.as_ref())?;
        let row = SendRow { group: send.group, msgid, time_ms: self.now_ms, hash: send.hash };
        self.put(Write::Send(send.device, send.seq, row));
        Ok(Answer::Sent { msgid, time_ms: self.now_ms })
    }
}

/// What is asked by it, as far as that is known without its target.
fn verb(send: &SendCommand) -> Verb {
    match send.what.as_ref().map(|what| what.act) {
        Ok(Act::Says) | Err(_) => Verb::Send,
        Ok(Act::Edits(_)) => Verb::Edit,
        Ok(Act::Recalls(_)) => Verb::RecallOwn,
        Ok(Act::Reacts(_)) => Verb::React,
    }
}

/// Whether it leaves less than there was, so that the reserve is for it.
fn takes_away(send: &SendCommand) -> bool {
    send.what.as_ref().is_ok_and(|what| matches!(what.act, Act::Recalls(_)))
}

fn bytes(what: &Sendable) -> u64 {
    let extensions = what.extensions.iter().map(|(_, bytes)| bytes.len());
    u64::try_from(extensions.sum::<usize>() + what.body.len()).unwrap_or(u64::MAX)
}
