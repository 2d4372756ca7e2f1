//! What handles ask of the engine, and what the network brings.

use tokio::sync::oneshot;

use super::{ASKED_PAUSE, Command, Engine, Link, report};
use crate::client::error::ConnectError;
use crate::client::event::Event;
use crate::client::net::{Line, Net, NetEvent};
use crate::client::receiving::OwnItems;
use crate::client::stream::refusal;
use crate::client::talk::ReadMark;
use crate::clock;
use crate::ids::ClientSeq;
use crate::wire::WireError;
use crate::wire::code::{Class, Code};
use crate::wire::codec::RawFrame;
use crate::wire::frame::{self, Frame};

impl<N: Net> Engine<N> {
    /// Does what handles ask; the one who wants it closed comes back.
    pub(in crate::client) async fn obey(&mut self, commands: Vec<Command>) -> Option<oneshot::Sender<()>> {
        let mut queued = Vec::new();
        let mut rest = Vec::new();
        for command in commands {
            match command {
                Command::Queue(queue) => queued.push(queue),
                Command::Connect
                | Command::Outcome(..)
                | Command::Outbox(_)
                | Command::Drained(_)
                | Command::Withdraw(..)
                | Command::Close(_) => rest.push(command),
            }
        }
        if let Some(sending) = self.sending.as_mut().filter(|_| !queued.is_empty()) {
            let now_ms = clock::monotonic_ms();
            sending.queue(queued, now_ms).await;
            report(sending.poll(now_ms).await);
        }
        let mut closing = None;
        for command in rest {
            match command {
                Command::Connect => self.want(),
                Command::Close(reply) => closing = Some(reply),
                Command::Outcome(..)
                | Command::Outbox(_)
                | Command::Drained(_)
                | Command::Withdraw(..)
                | Command::Queue(_) => self.ask_outbox(command).await,
            }
        }
        closing
    }

    fn want(&mut self) {
        self.wanted = true;
        let soon = clock::monotonic() + ASKED_PAUSE;
        if let Link::Down(at) = &mut self.link {
            *at = soon.min(*at);
        }
    }

    /// Questions about the outbox. Where there is none, or it is over, the reply is dropped, which answers by itself.
    async fn ask_outbox(&mut self, command: Command) {
        let Some(sending) = &mut self.sending else { return };
        let ended = self.seen.borrow().ended.is_some();
        match command {
            Command::Outcome(seq, reply) => sending.wait(seq, reply).await,
            // Who asked may be gone.
            Command::Outbox(reply) => drop(reply.send(sending.listed().await)),
            Command::Withdraw(seq, reply) => drop(reply.send(sending.withdraw(seq).await)),
            Command::Drained(reply) if !ended => sending.wait_drained(reply).await,
            Command::Drained(_) | Command::Connect | Command::Queue(_) | Command::Close(_) => {}
        }
    }

    // ---- what the network brings ------------------------------------------------------------------------------------

    pub(in crate::client) async fn happened(&mut self, events: Vec<NetEvent>) -> Result<(), ConnectError> {
        let now_ms = clock::monotonic_ms();
        let mut answers = Vec::new();
        let mut own = OwnItems::new();
        let mut closed = None;
        for event in events {
            let taken = match event {
                NetEvent::SendAnswered(seq, frame) => {
                    answers.push((seq, frame));
                    Ok(())
                }
                NetEvent::Closed(error) => {
                    closed = Some(error);
                    Ok(())
                }
                NetEvent::Frame(frame) => self.frame(&frame, &mut own, now_ms),
                NetEvent::Datagram(frame) => {
                    self.datagram(&frame);
                    Ok(())
                }
                NetEvent::Rows(..)
                | NetEvent::PageEnded(..)
                | NetEvent::PageFailed(..)
                | NetEvent::Listed(_)
                | NetEvent::ListFailed => self.page(event, &mut own, now_ms),
            };
            if let (Err(error), Link::Up { line, .. }) = (taken, &self.link) {
                line.fail(&error);
            }
        }
        self.note_held(&answers);
        if let Some(sending) = &mut self.sending {
            if !answers.is_empty() {
                report(sending.answered(answers, now_ms).await);
            }
            if !own.is_empty() {
                report(sending.seen(own, now_ms).await);
            }
        }
        match closed {
            Some(error) if matches!(self.link, Link::Up { .. }) => self.failed(error),
            Some(_) | None => Ok(()),
        }
    }

    /// Keeps why sends wait, for who asks; forgets it with the first that is answered.
    fn note_held(&self, answers: &[(ClientSeq, RawFrame)]) {
        for (_, frame) in answers {
            // An answer that makes no sense is as good as none.
            let held = match refusal(frame) {
                Ok(Some(refusal)) if refusal.is(Code::OutOfTurn) => continue,
                Ok(refusal) => refusal.filter(|refusal| refusal.class != Class::Permanent),
                Err(_) => continue,
            };
            self.seen.send_if_modified(|seen| {
                let is_news = seen.held != held;
                seen.held = held;
                is_news
            });
        }
    }

    fn page(&mut self, event: NetEvent, own: &mut OwnItems, now_ms: u64) -> Result<(), WireError> {
        let Some(receiving) = &mut self.receiving else { return Ok(()) };
        match event {
            NetEvent::Rows(group, rows) => own.extend(receiving.rows(group, rows, now_ms)?),
            NetEvent::PageEnded(group, end) => receiving.page_ended(group, end, now_ms),
            NetEvent::PageFailed(group, refusal) => {
                let for_good = refusal.as_ref().is_some_and(|refusal| refusal.class == Class::Permanent);
                let after_ms = refusal.map_or(0, |refusal| u64::from(refusal.retry_after_ms));
                receiving.page_failed(group, for_good, after_ms, now_ms);
            }
            NetEvent::Listed(groups) => {
                receiving.listed(&groups, now_ms);
                let last = groups.rows.0.last().map(|group| group.gid);
                self.listing = false;
                if let (true, Some(last), Link::Up { line, .. }) = (groups.more, last, &self.link) {
                    self.listing = true;
                    line.open_list(last);
                }
            }
            NetEvent::ListFailed => self.listing = false,
            NetEvent::SendAnswered(..) | NetEvent::Frame(_) | NetEvent::Datagram(_) | NetEvent::Closed(_) => {}
        }
        Ok(())
    }

    /// What makes no sense is as good as lost.
    fn datagram(&mut self, raw: &RawFrame) {
        let Some(receiving) = &mut self.receiving else { return };
        match raw.kind {
            frame::TypingNote::TYPE => {
                if let Ok(frame::TypingNote { gid: group, user, extensions: _ }) = raw.decode() {
                    receiving.mention(Event::Typing { group, user });
                }
            }
            frame::PresenceNote::TYPE => {
                if let Ok(frame::PresenceNote { user, online, extensions: _ }) = raw.decode() {
                    receiving.mention(Event::Presence { user, online });
                }
            }
            _ => {}
        }
    }

    /// A frame that answers nothing.
    fn frame(&mut self, raw: &RawFrame, own: &mut OwnItems, now_ms: u64) -> Result<(), WireError> {
        if let Some(refusal) = refusal(raw)? {
            // The reason of the close that follows is the same.
            tracing::debug!(%refusal, "the server says");
            return Ok(());
        }
        let Some(receiving) = &mut self.receiving else { return Ok(()) };
        match raw.kind {
            frame::Push::TYPE => own.extend(receiving.push(raw.decode()?, now_ms)?),
            frame::Heads::TYPE => receiving.heads(&raw.decode::<frame::Heads>()?.entries),
            frame::Cursors::TYPE => receiving.cursors(&raw.decode::<frame::Cursors>()?.entries),
            frame::AcksRefused::TYPE => {
                let refused: frame::AcksRefused = raw.decode()?;
                refused.entries.iter().for_each(|(group, _)| receiving.ack_refused(*group));
            }
            frame::MembershipNotice::TYPE => {
                let frame::MembershipNotice { gid: group, member, msgid, extensions: _ } = raw.decode()?;
                receiving.notify(Event::Membership { group, member, msgid });
            }
            frame::ReadMarkNotice::TYPE => {
                for (group, msgid, version) in raw.decode::<frame::ReadMarkNotice>()?.marks()? {
                    receiving.notify(Event::ReadMark(ReadMark { group, msgid, version }));
                }
            }
            frame::ReceiptNotice::TYPE => {
                let frame::ReceiptNotice { gid: group, users, more, extensions: _ } = raw.decode()?;
                receiving.notify(Event::Receipts { group, users, more });
            }
            frame::DeviceNotice::TYPE => {
                let frame::DeviceNotice { device, name, added, extensions: _ } = raw.decode()?;
                receiving.notify(Event::Device { device, name, added });
            }
            _ if raw.must_understand() => return Err(WireError::WrongType { expected: 0, found: raw.kind }),
            _ => {}
        }
        Ok(())
    }
}
