//! Reads along on the wire: every frame that the server writes is held against the model at the moment it is written.

use std::collections::BTreeMap;

use bytes::Bytes;
use gaggle::ids::{ClientSeq, DeviceId, GroupId, MessageId, Tag, UserId};
use gaggle::wire::code::{Class, Code};
use gaggle::wire::codec::{FrameReader, RawFrame, encode};
use gaggle::wire::frame::{self, Extensions, Frame, Payload};
use gaggle::wire::row;

use crate::model::{Broken, Mark, Model, Receipt, Row, Shown};
use crate::network::{LinkId, Stream};
use crate::server::Server;

/// What is asked on a request stream.
enum Asked {
    /// A page.
    Page(Page),
    /// Conversations: all of the user's as they stood when they were looked up.
    List(BTreeMap<GroupId, Row>),
    /// Who has come how far with an item, as it was when that was looked up; none where the asker may not see it.
    Receipts(GroupId, MessageId, Option<Vec<Receipt>>),
}

/// A page under way.
struct Page {
    group: GroupId,
    /// The last item that the user might see when it was asked for. Who comes back afterwards may see more by the time it
    /// is written.
    head: MessageId,
    /// Everything visible up to here was written, or lay below what was asked for.
    covered: MessageId,
    is_first: bool,
    /// What was left out because it is gone, and has to be named.
    gone: Vec<MessageId>,
    /// It was asked for by a listener, to be delivered.
    delivers: bool,
    /// What it hands out counts as handed: below its cursor a listener is served as one who browses.
    counts: bool,
}

/// A connection.
struct Known {
    device: DeviceId,
    user: UserId,
    sends: BTreeMap<u32, (GroupId, Tag, ClientSeq)>,
    asked: BTreeMap<u64, Asked>,
}

/// See the module.
#[derive(Default)]
pub struct Wire {
    links: BTreeMap<LinkId, Known>,
}

/// The frames in these bytes, which are whole.
pub fn frames(bytes: &Bytes) -> Result<Vec<RawFrame>, Broken> {
    let mut reader = FrameReader::new();
    reader.push(bytes);
    let frames = std::iter::from_fn(|| reader.next_frame().transpose());
    let frames = frames.collect::<Result<_, _>>().map_err(|error| format!("a frame that is none: {error}"))?;
    reader.finish().map_err(|error| format!("half a frame: {error}"))?;
    Ok(frames)
}

fn read<F: Frame>(raw: &RawFrame) -> Result<F, Broken> {
    raw.decode().map_err(|error| format!("a frame of type {} cannot be read: {error}", raw.kind))
}

fn rows(bytes: Bytes) -> Result<Vec<Shown>, Broken> {
    let row = |row: Result<row::Row, _>| -> Result<_, gaggle::wire::WireError> {
        let row = row?;
        Ok(Shown { msgid: row.decode_item()?.msgid, edited_by: row.edited_by, item: row.item })
    };
    row::rows(bytes).map(row).collect::<Result<_, _>>().map_err(|error| format!("rows that are none: {error}"))
}

impl Wire {
    /// A frame that acknowledges a group up to here.
    pub fn ack(group: GroupId, msgid: MessageId) -> Bytes {
        let frame = frame::Ack { entries: vec![(group, msgid)], extensions: Extensions::default() };
        encode(0, &frame).expect("one entry fits")
    }

    /// A connection of a device begins.
    pub fn opened(&mut self, id: LinkId, device: DeviceId, user: UserId) {
        self.links.insert(id, Known { device, user, sends: BTreeMap::new(), asked: BTreeMap::new() });
    }

    /// A client's control frames reach the server.
    pub fn asked(&mut self, id: LinkId, bytes: &Bytes, model: &mut Model) -> Result<(), Broken> {
        let Some(known) = self.links.get_mut(&id) else { return Ok(()) };
        for raw in frames(bytes)? {
            match raw.kind {
                frame::Send::TYPE => {
                    let send: frame::Send = read(&raw)?;
                    let payload = Payload::decode(&send.payload);
                    let payload = payload.map_err(|error| format!("a payload that is none: {error}"))?;
                    known.sends.insert(raw.request, (send.gid, payload.tag, send.seq));
                }
                frame::MarkRead::TYPE => {
                    let frame::MarkRead { gid, msgid, .. } = read(&raw)?;
                    model.wants_mark(known.user, gid, msgid, None);
                }
                frame::MarkUnread::TYPE => {
                    let frame::MarkUnread { gid, msgid, version, .. } = read(&raw)?;
                    model.wants_mark(known.user, gid, msgid, Some(version));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A client's question reaches the server.
    pub fn pulls(
        &mut self,
        id: LinkId,
        number: u64,
        bytes: &Bytes,
        server: &Server,
        model: &Model,
    ) -> Result<(), Broken> {
        let Some(known) = self.links.get_mut(&id) else { return Ok(()) };
        for raw in frames(bytes)? {
            match raw.kind {
                frame::Pull::TYPE => {
                    let frame::Pull { gid, after, deliver, .. } = read(&raw)?;
                    let counts = deliver && after >= server.cursor(gid, known.user, known.device);
                    let (head, covered) = (model.visible_head(known.user, gid), after);
                    let page =
                        Page { group: gid, head, covered, is_first: true, gone: Vec::new(), delivers: deliver, counts };
                    known.asked.insert(number, Asked::Page(page));
                }
                frame::Conversations::TYPE => drop(known.asked.insert(number, Asked::List(BTreeMap::new()))),
                frame::Receipts::TYPE => {
                    let frame::Receipts { gid, msgid, .. } = read(&raw)?;
                    known.asked.insert(number, Asked::Receipts(gid, msgid, None));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The server takes the question on a request stream, and looks up what is to be told all at once.
    pub fn looked(&mut self, id: LinkId, number: u64, server: &Server, model: &Model) {
        let Some(known) = self.links.get_mut(&id) else { return };
        match known.asked.get_mut(&number) {
            Some(Asked::List(rows)) => *rows = model.conversations(known.user),
            Some(Asked::Receipts(group, msgid, right)) => {
                let cursor = |user, device| server.cursor(*group, user, device);
                *right = model.receipts(known.user, *group, *msgid, cursor);
            }
            Some(Asked::Page(_)) | None => {}
        }
    }

    /// The server writes to a client. Says which sends it refuses.
    pub fn written(
        &mut self,
        id: LinkId,
        stream: Stream,
        bytes: &Bytes,
        server: &Server,
        model: &mut Model,
    ) -> Result<Vec<String>, Broken> {
        let mut told = Vec::new();
        let Some(known) = self.links.get_mut(&id) else { return Ok(told) };
        for raw in frames(bytes)? {
            match stream {
                Stream::Control => told.extend(known.control(&raw, server, model)?),
                Stream::Push => known.push(&raw, model)?,
                Stream::Page(number) => known.answer(number, &raw, model)?,
                Stream::Acks => return Err("the server wrote to an acks stream".to_owned()),
            }
        }
        Ok(told)
    }
}

impl Known {
    fn control(&mut self, raw: &RawFrame, server: &Server, model: &mut Model) -> Result<Option<String>, Broken> {
        match raw.kind {
            frame::Sent::TYPE => {
                let frame::Sent { msgid, .. } = read(raw)?;
                let (group, tag, _) = self.sends.remove(&raw.request).ok_or("a send was answered that nobody made")?;
                model.answered_sent(tag, group, msgid)?;
            }
            frame::Error::TYPE => {
                let error: frame::Error = read(raw)?;
                let Some((group, tag, seq)) = self.sends.remove(&raw.request) else { return Ok(None) };
                let comes_again = [Code::Conflict, Code::NeverStored, Code::Forgotten];
                let code = Code::from_number(error.code);
                let is_final = code.is_none_or(|code| !comes_again.contains(&code));
                if code.is_some_and(|code| code.class() == Class::Permanent) && is_final {
                    model.answered_refused(tag)?;
                }
                let name = code.map_or("a code of its own", Code::name);
                return Ok(Some(format!("{} hears of its send {seq} to {group}: {name}", self.device)));
            }
            frame::ReadMark::TYPE => {
                let frame::ReadMark { gid, msgid, version, .. } = read(raw)?;
                model.told_mark(self.user, gid, Mark { version, msgid })?;
            }
            frame::Cursors::TYPE => {
                let frame::Cursors { entries, .. } = read(raw)?;
                for (group, cursor) in entries {
                    let committed = server.cursor(group, self.user, self.device);
                    model.answered_cursor(self.device, group, cursor, committed)?;
                }
            }
            _ => {}
        }
        Ok(None)
    }

    fn push(&mut self, raw: &RawFrame, model: &mut Model) -> Result<(), Broken> {
        match raw.kind {
            frame::Push::TYPE => {
                let frame::Push { batches, .. } = read(raw)?;
                batches.into_iter().try_for_each(|batch| {
                    let frame::PushBatch { gid, continues, covered_to, rows: bytes, .. } = batch;
                    let covered = (continues, covered_to);
                    let gone = model.shown(self.device, gid, covered, &rows(bytes)?, MessageId::ZERO, true)?;
                    if gone.is_empty() {
                        Ok(())
                    } else {
                        Err(format!("{} was pushed {gid} over {gone:?}", self.device))
                    }
                })
            }
            frame::Heads::TYPE => {
                let frame::Heads { entries, .. } = read(raw)?;
                entries.into_iter().try_for_each(|(group, head)| model.told_head(self.device, group, head))
            }
            frame::ReadMarkNotice::TYPE => {
                let marks = read::<frame::ReadMarkNotice>(raw)?.marks().map_err(|error| error.to_string())?;
                let told = |(group, msgid, version)| model.told_mark(self.user, group, Mark { version, msgid });
                marks.into_iter().try_for_each(told)
            }
            frame::ReceiptNotice::TYPE => {
                let frame::ReceiptNotice { gid, users, .. } = read(raw)?;
                let told = |(user, received, read)| model.told_receipt(self.user, gid, user, (received, read));
                users.into_iter().try_for_each(told)
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, number: u64, raw: &RawFrame, model: &mut Model) -> Result<(), Broken> {
        match self.asked.get(&number) {
            Some(Asked::Page(_)) => self.page(number, raw, model),
            Some(Asked::List(rows)) if raw.kind == frame::ConversationList::TYPE => {
                for told in &read::<frame::ConversationList>(raw)?.rows.0 {
                    let (right, told, group) = (rows.get(&told.gid), Row::of(told), told.gid);
                    if right != Some(&told) {
                        return Err(format!("{} was told of {group} {told:?} in place of {right:?}", self.user));
                    }
                }
                Ok(())
            }
            Some(Asked::Receipts(group, msgid, right)) if raw.kind == frame::ReceiptList::TYPE => {
                let list: frame::ReceiptList = read(raw)?;
                let told: Vec<Receipt> = list.rows.0.iter().map(|row| (row.user, row.received, row.read)).collect();
                let counted = |is: fn(&Receipt) -> bool| told.iter().filter(|it| is(it)).count() as u32;
                let counts = [counted(|_| true), counted(|it| it.1), counted(|it| it.2)];
                if right.as_ref() == Some(&told) && counts == [list.members, list.received, list.read] {
                    return Ok(());
                }
                let words = format!("{} was told of {group} {msgid} that it has come to {told:?}", self.user);
                Err(format!("{words}, {list:?}, in place of {right:?}"))
            }
            Some(Asked::List(_) | Asked::Receipts(..)) | None => Ok(()),
        }
    }

    fn page(&mut self, number: u64, raw: &RawFrame, model: &mut Model) -> Result<(), Broken> {
        let Some(Asked::Page(page)) = self.asked.get_mut(&number) else { return Ok(()) };
        match raw.kind {
            frame::PageRows::TYPE => {
                let frame::PageRows { rows: bytes, .. } = read(raw)?;
                let rows = rows(bytes)?;
                let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
                    return Err("a frame of a page without rows".to_owned());
                };
                let (first, last) = (first.msgid, last.msgid);
                // A page to deliver begins where the listener stands, if that is lower than what was asked for.
                if page.is_first && page.delivers && first <= page.covered {
                    page.covered = first.previous();
                }
                page.is_first = false;
                page.gone.extend(model.shown(
                    self.device,
                    page.group,
                    (page.covered, last),
                    &rows,
                    page.head,
                    page.counts,
                )?);
                page.covered = last;
                Ok(())
            }
            frame::PageEnd::TYPE => {
                let frame::PageEnd { covered_to, more, head, gone, .. } = read(raw)?;
                model.told_head(self.device, page.group, head)?;
                if more == (covered_to >= head) {
                    return Err(format!("a page of {} up to {covered_to} of {head} says more: {more}", page.group));
                }
                if covered_to > page.covered {
                    let covered = (page.covered, covered_to);
                    page.gone.extend(model.shown(self.device, page.group, covered, &[], page.head, page.counts)?);
                }
                let is_named = |msgid: &MessageId| gone.iter().any(|(first, last)| first <= msgid && msgid <= last);
                if let Some(msgid) = page.gone.iter().find(|msgid| !is_named(msgid)) {
                    return Err(format!("a page of {} does not say that {msgid} is gone", page.group));
                }
                self.asked.remove(&number);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
