//! The step machine of one request stream: a page or a list is asked for, and written frame by frame.
//!
//! What a listener has been handed moves with what was written of a page, never with what was planned.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::core::authorise::Verb;
use crate::core::listener as machine;
use crate::core::tables::Tables;
use crate::ids::MessageId;
use crate::limits;
use crate::server::gather::{Gather, Gathered, encode};
use crate::server::listening::Listening;
use crate::server::reader::{Page, PageAsked};
use crate::server::session::Session;
use crate::server::{Shared, conversations, lists, receipts, rows, translate};
use crate::wire::code::Code;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{
    Conversations, Extensions, Frame, ListDevices, ListGroups, ListMembers, ListOnline, ListUsers, Names, PageEnd,
    PageRows, Pull, Receipts,
};

/// Bytes of rows in one frame of a page.
const PART_BYTES: usize = 64 * 1024;

/// What is to be done next.
#[derive(Debug)]
pub(crate) enum Next {
    /// This page is to be read, for [`Answering::read`].
    Read(PageAsked),
    /// This answer is to be put together, for [`Answering::gathered`].
    Gather(Gather),
    /// This frame is to be written, and then [`Answering::written`] told.
    Write(Bytes),
    /// The stream is finished.
    End,
}

/// The machine.
pub(crate) struct Answering {
    shared: Arc<Shared>,
    session: Arc<Session>,
    request: u32,
    state: State,
    /// The page as its listener knows it, until that was told how it ended.
    handing: Option<machine::Page>,
}

enum State {
    Reading(PageAsked),
    Gathering(Gather),
    /// Rows with the last msgid of each piece, in order; then the end.
    Rows {
        page: Page,
        pieces: VecDeque<(Bytes, MessageId)>,
    },
    /// One frame that is all, or the last.
    Last(Bytes),
    Done,
}

impl Answering {
    /// A machine for this request.
    pub(crate) fn new(shared: &Arc<Shared>, session: &Arc<Session>, raw: &RawFrame) -> Answering {
        let (shared, session) = (Arc::clone(shared), Arc::clone(session));
        let mut answering = Answering { shared, session, request: raw.request, state: State::Done, handing: None };
        answering.state = match answering.begin(raw) {
            Ok(state) => state,
            Err(code) => answering.refused(code),
        };
        answering
    }

    /// What is to be done next; the same until it was told that it is done.
    pub(crate) fn next(&mut self) -> Next {
        match &self.state {
            State::Reading(asked) => Next::Read(*asked),
            State::Gathering(gather) => Next::Gather(*gather),
            State::Last(frame) => Next::Write(frame.clone()),
            State::Done => Next::End,
            State::Rows { page, pieces } => {
                let frame = match pieces.front() {
                    Some((rows, _)) => {
                        let rows = self.still_said(page, rows);
                        encode(self.request, &PageRows { rows, extensions: Extensions::default() })
                    }
                    None => self.end_of(page),
                };
                match frame {
                    Ok(frame) => Next::Write(frame),
                    Err(code) => {
                        self.cut();
                        let refused = self.refused(code);
                        self.state = refused;
                        self.next()
                    }
                }
            }
        }
    }

    /// The page was read, or not.
    pub(crate) fn read(&mut self, page: Result<Page, Code>) {
        self.state = match page {
            Ok(page) => State::Rows { pieces: page.rows.pieces(PART_BYTES).into(), page },
            Err(code) => {
                self.cut();
                self.refused(code)
            }
        };
    }

    /// The answer was put together, or not.
    pub(crate) fn gathered(&mut self, answer: Result<Gathered, Code>) {
        let frame = answer.and_then(|answer| answer.frame(self.request, &self.shared.view.read().tables));
        self.state = frame.map_or_else(|code| self.refused(code), State::Last);
    }

    /// The frame of [`Next::Write`] was written.
    pub(crate) fn written(&mut self) {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Rows { page, mut pieces } => match pieces.pop_front() {
                Some((_, last)) => {
                    if let (Some(handing), Some(mut listening)) = (self.handing.as_mut(), self.session.listening()) {
                        listening.page_written(handing, last);
                    }
                    self.state = State::Rows { page, pieces };
                }
                None => self.close(|listening, tables, handing| {
                    listening.page_ended(tables, handing, page.covered_to, page.head);
                }),
            },
            State::Reading(_) | State::Gathering(_) | State::Last(_) | State::Done => {}
        }
    }

    /// The stream can't be written any more.
    pub(crate) fn cut(&mut self) {
        self.state = State::Done;
        self.close(|listening, tables, handing| listening.page_cut(tables, handing));
    }

    fn begin(&mut self, raw: &RawFrame) -> Result<State, Code> {
        let (request, shared, session) = (self.request, &self.shared, &self.session);
        let frame = match raw.kind {
            Pull::TYPE => return self.pull(&decode(raw)?).map(State::Reading),
            Conversations::TYPE => return self.conversations(&decode(raw)?).map(State::Gathering),
            Receipts::TYPE => return self.receipts(&decode(raw)?).map(State::Gathering),
            ListGroups::TYPE => encode(request, &lists::groups(shared, session, &decode::<ListGroups>(raw)?)?)?,
            ListMembers::TYPE => encode(request, &lists::members(shared, session, &decode::<ListMembers>(raw)?)?)?,
            ListUsers::TYPE => encode(request, &lists::users(shared, session, &decode::<ListUsers>(raw)?)?)?,
            Names::TYPE => encode(request, &lists::names(shared, session, &decode::<Names>(raw)?)?)?,
            ListDevices::TYPE => encode(request, &lists::devices(shared, session, &decode::<ListDevices>(raw)?)?)?,
            ListOnline::TYPE => encode(request, &lists::online(shared, session, &decode::<ListOnline>(raw)?)?)?,
            _ => return Err(Code::Unsupported),
        };
        Ok(State::Last(frame))
    }

    fn pull(&mut self, pull: &Pull) -> Result<PageAsked, Code> {
        let may = self.shared.view.read().tables.may_in(pull.gid, Verb::Pull, self.session.who());
        may.map_err(translate::code)?;
        self.handing = open(&self.shared, &self.session, pull)?;
        Ok(PageAsked {
            user: self.session.user,
            group: pull.gid,
            after: self.handing.as_ref().map_or(pull.after, machine::Page::after),
            items: if pull.items == 0 { limits::PAGE_ITEMS_DEFAULT } else { pull.items.min(limits::PAGE_ITEMS_MAX) },
            bytes: limits::PAGE_BYTES_MAX,
            // Who delivers it does so as it comes, also where it moves nothing here.
            gone_alone: pull.deliver,
        })
    }

    /// Rows of a page as they may be written now: since they were read, items may have been recalled.
    fn still_said(&self, page: &Page, rows: &Bytes) -> Bytes {
        let tables = &self.shared.view.read().tables;
        if tables.last_change(page.group) == page.last_change {
            return rows.clone();
        }
        rows::without_recalled(rows, tables, page.group)
    }

    fn conversations(&self, asked: &Conversations) -> Result<Gather, Code> {
        self.shared.view.read().tables.may(Verb::ListConversations, self.session.who()).map_err(translate::code)?;
        let device = self.session.device.unwrap_or_default();
        Ok(Gather::Conversations(conversations::Asked::new(self.session.user, device, asked)))
    }

    fn receipts(&self, asked: &Receipts) -> Result<Gather, Code> {
        let may = self.shared.view.read().tables.may_in(asked.gid, Verb::Receipts, self.session.who());
        may.map_err(translate::code)?;
        Ok(Gather::Receipts(receipts::Asked::new(self.session.user, asked)))
    }

    fn end_of(&self, page: &Page) -> Result<Bytes, Code> {
        let end = PageEnd {
            covered_to: page.covered_to,
            more: page.more,
            gone: page.gone.clone(),
            head: page.head,
            extensions: Extensions::default(),
        };
        encode(self.request, &end)
    }

    fn refused(&self, code: Code) -> State {
        State::Last(translate::error(self.request, code, translate::retry_after_ms(code), code.name()))
    }

    /// Tells the listener how its page ended.
    fn close(&mut self, tell: impl FnOnce(&mut Listening, &Tables, machine::Page)) {
        let Some(handing) = self.handing.take() else { return };
        let view = self.shared.view.read();
        if let Some(mut listening) = self.session.listening() {
            tell(&mut listening, &view.tables, handing);
        }
        drop(view);
        self.session.push_wake.notify_one();
    }
}

/// Tells the listener of a page; a caller has none, and only browses.
fn open(shared: &Shared, session: &Session, pull: &Pull) -> Result<Option<machine::Page>, Code> {
    let view = shared.view.read();
    let how = if pull.deliver { machine::Pull::Deliver } else { machine::Pull::Browse };
    match session.listening() {
        Some(mut listening) => {
            listening.open_page(&view.tables, pull.gid, pull.after, how).map(Some).ok_or(Code::NoSuchGroup)
        }
        None if pull.deliver => Err(Code::NotListening),
        None => Ok(None),
    }
}

fn decode<F: Frame>(raw: &RawFrame) -> Result<F, Code> {
    raw.decode().map_err(|_| Code::Malformed)
}
