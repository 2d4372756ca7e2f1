//! Answers to sends: from the wire to the outbox, and from the outbox to the application.

use crate::client::error::Refusal;
use crate::client::stream::refusal;
use crate::client::types::Outcome;
use crate::core::outbox::{Answer, Settled};
use crate::wire::code::{Class, Code};
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Frame};

/// What the outbox makes of an answer; none where it makes no sense, which is then as good as no answer.
pub(super) fn read_answer(frame: &RawFrame) -> Option<Answer> {
    if frame.kind == frame::Sent::TYPE {
        let frame::Sent { msgid, time_ms, extensions: _ } = frame.decode().ok()?;
        return Some(Answer::Sent { msgid, time_ms });
    }
    let Refusal { number, class, retry_after_ms, detail } = refusal(frame).ok()??;
    Some(match (Code::from_number(number), class) {
        (Some(Code::Conflict), _) => Answer::Conflict,
        (Some(Code::NeverStored), _) => Answer::NeverStored,
        (Some(Code::Forgotten), _) => Answer::Forgotten,
        (Some(Code::OutOfTurn), _) => Answer::OutOfTurn,
        (_, Class::Permanent) => Answer::Refused { number, detail },
        (_, Class::NotDone | Class::Unknown) => Answer::Again { after_ms: retry_after_ms },
    })
}

/// How a send ended, as the application is told.
pub(super) fn outcome(settled: &Settled) -> Outcome {
    match settled.clone() {
        Settled::Sent { group, msgid, time_ms } => Outcome::Sent { group, msgid, time_ms },
        Settled::Refused { number, detail } => {
            Outcome::Refused(Refusal { number, class: Class::Permanent, retry_after_ms: 0, detail })
        }
        Settled::Unknown { .. } => Outcome::Unknown,
        Settled::Withdrawn => Outcome::Withdrawn,
    }
}
