//! The steps of connections: who is there, their requests, their pages, their pushes.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::connection::{ACKS, CONTROL, Connection, Handle, Stage};
use super::work::{Conn, Out, Read, Work};
use super::{Node, Reading, Whose};
use crate::clock;
use crate::core::attached::Attached;
use crate::core::command::Command;
use crate::limits;
use crate::server::acks;
use crate::server::answering::{Answering, Next};
use crate::server::attaching;
use crate::server::connection::{self, Refused};
use crate::server::control::{self, Taken};
use crate::server::handshake::{self, Parts};
use crate::server::peer::Peer;
use crate::server::pushing;
use crate::server::reader;
use crate::server::request::{Recipient, Reply, places_of};
use crate::wire::code::Code;
use crate::wire::codec::RawFrame;
use crate::wire::frame::{Enrol, Frame as _, Hello, OperatorHello, Prove};

impl Node {
    /// What can be done for connections now.
    pub(super) fn works_of_connections(&self, works: &mut Vec<Work>) {
        let now = clock::monotonic();
        for (conn, it) in &self.connections {
            let conn = *conn;
            if it.is_closed() {
                works.push(Work::Leave(conn));
                continue;
            }
            if it.takes_control() {
                works.push(Work::Control(conn));
            }
            if it.submits(&self.shared) {
                works.push(Work::Submit(conn));
            }
            let Some(session) = it.session() else { continue };
            if it.held[ACKS].is_none() && it.acks.next().is_some() {
                works.push(Work::Acks(conn));
            }
            for (number, stream) in &it.streams {
                if stream.answering.is_none() && stream.incoming.next().is_some() {
                    works.push(Work::Request(conn, *number));
                }
                if stream.writes {
                    works.push(Work::WritePage(conn, *number));
                }
            }
            if it.control_woken {
                works.push(Work::WriteControl(conn));
            }
            if session.listens && it.push_woken {
                works.push(Work::WritePush(conn));
            }
            if !it.push_woken && it.tick_at.is_some_and(|at| at <= now) {
                works.push(Work::Tick(conn));
            }
        }
        for (place, reading) in self.readings.iter().enumerate() {
            match reading.is_looked_at() {
                true => works.push(Work::Scan(reading.read())),
                false if place < limits::READER_THREADS => works.push(Work::Look(reading.read())),
                false => {}
            }
        }
    }

    /// Takes a frame of the control stream.
    pub(super) fn take_control(&mut self, conn: Conn) {
        let shared = Arc::clone(&self.shared);
        let Some(it) = self.connections.get_mut(&conn).filter(|it| it.takes_control()) else { return };
        let raw = match it.control.take() {
            Some(Ok(raw)) => raw,
            Some(Err(code)) => return it.close(code),
            None => return,
        };
        let Stage::Served(session) = &it.stage else { return self.arrive(conn, &raw) };
        if std::mem::take(&mut it.proof_may_come) && raw.kind == Prove::TYPE {
            return;
        }
        let Ok(place) = Arc::clone(&session.places).try_acquire_many_owned(places_of(raw.body.len())) else { return };
        match control::take(&shared, session, &raw, place) {
            Ok(Taken::Command(command, reply)) => it.held[CONTROL] = Some((*command, reply)),
            Ok(Taken::Gather(gather, answers)) => {
                answers.give(&shared, session, gather.read(&shared.view, &self.watchdog.doubt));
            }
            Ok(Taken::Done) => {}
            Err(code) => it.close(code),
        }
        self.begin_attaching(conn, CONTROL);
    }

    /// Takes the first frame of a connection.
    fn arrive(&mut self, conn: Conn, raw: &RawFrame) {
        let shared = Arc::clone(&self.shared);
        let Some(it) = self.connections.get_mut(&conn) else { return };
        let peer = Box::new(Handle(Arc::clone(&it.line))) as Box<dyn Peer>;
        let parts = match raw.kind {
            Hello::TYPE => handshake::hello(&shared, raw, |_, _| Ok(()), &mut it.permit, peer),
            OperatorHello::TYPE => handshake::operator(&shared, raw, |_, _| Ok(()), &mut it.permit, peer),
            Enrol::TYPE => match handshake::enrol(raw, |_, _| Ok(())) {
                Ok(command) => {
                    let (sender, answer) = oneshot::channel();
                    it.stage = Stage::Enrolling { request: raw.request, answer };
                    it.held[CONTROL] = Some((command, Reply::to(Recipient::Local(sender))));
                    it.submit(&shared);
                    return;
                }
                Err(code) => Err(code),
            },
            _ => Err(Code::Malformed),
        };
        let parts = parts.map_err(|code| handshake::answering(raw, code));
        match parts.and_then(|parts| self.enter(conn, parts)) {
            Ok(()) => {}
            Err(refused) => self.refuse(conn, &refused),
        }
    }

    fn enter(&mut self, conn: Conn, parts: Parts) -> Result<(), Refused> {
        let session = Arc::clone(&parts.session);
        connection::enter(&self.shared, parts)?;
        if let Some(it) = self.connections.get_mut(&conn) {
            it.stage = Stage::Served(session);
            it.proof_may_come = true;
        }
        Ok(())
    }

    fn refuse(&mut self, conn: Conn, refused: &Refused) {
        self.written.push((conn, Out::Control(handshake::refusal(refused))));
        if let Some(it) = self.connections.get(&conn) {
            it.close(refused.code);
        }
    }

    /// Answers those who were enrolled, or not.
    pub(super) fn answer_enrolled(&mut self) {
        let mut answered = Vec::new();
        for (conn, it) in &mut self.connections {
            if let Stage::Enrolling { request, answer } = &mut it.stage
                && let Ok(outcome) = answer.try_recv()
            {
                answered.push((*conn, *request, outcome));
            }
        }
        for (conn, request, outcome) in answered {
            match handshake::enrolled(&self.shared, request, outcome) {
                Ok(answer) => {
                    self.written.push((conn, Out::Control(answer)));
                    if let Some(it) = self.connections.get_mut(&conn) {
                        it.close(Code::Goodbye);
                    }
                }
                Err(code) => self.refuse(conn, &Refused { request, ..Refused::from(code) }),
            }
        }
    }

    /// Takes a frame of the acks stream.
    pub(super) fn take_acks(&mut self, conn: Conn) {
        let shared = Arc::clone(&self.shared);
        let Some(it) = self.connections.get_mut(&conn).filter(|it| it.held[ACKS].is_none()) else { return };
        let Some(session) = it.session().map(Arc::clone) else { return };
        let taken = match it.acks.take() {
            Some(Ok(raw)) => acks::take(&shared, &session, &raw),
            Some(Err(code)) => Err(code),
            None => return,
        };
        match taken {
            Ok(command) => it.held[ACKS] = command,
            Err(code) => it.close(code),
        }
        self.begin_attaching(conn, ACKS);
    }

    /// Takes a request, and begins to answer it.
    pub(super) fn take_request(&mut self, conn: Conn, number: u64) {
        let shared = Arc::clone(&self.shared);
        let Some(it) = self.connections.get_mut(&conn) else { return };
        let Some(session) = it.session().map(Arc::clone) else { return };
        let Some(stream) = it.streams.get_mut(&number).filter(|stream| stream.answering.is_none()) else { return };
        match stream.incoming.take() {
            Some(Ok(raw)) => {
                stream.answering = Some(Answering::new(&shared, &session, &raw));
                self.go_on_answering(conn, number);
            }
            Some(Err(code)) => {
                it.streams.remove(&number);
                self.written.push((conn, Out::PageReset(number, code)));
            }
            None => {}
        }
    }

    /// Finds out what a request stream wants next.
    fn go_on_answering(&mut self, conn: Conn, number: u64) {
        let Some(it) = self.connections.get_mut(&conn) else { return };
        let Some(stream) = it.streams.get_mut(&number) else { return };
        if let Some(answering) = stream.answering.as_mut()
            && let Next::Gather(gather) = answering.next()
        {
            answering.gathered(gather.read(&self.shared.view, &self.watchdog.doubt));
        }
        match stream.answering.as_mut().map_or(Next::End, Answering::next) {
            // It was put together just now.
            Next::Gather(_) => {}
            Next::Read(asked) => self.begin_reading(Whose::Page(conn, number), asked),
            Next::Write(_) => stream.writes = true,
            Next::End => {
                it.streams.remove(&number);
                self.written.push((conn, Out::PageDone(number)));
            }
        }
    }

    fn begin_reading(&mut self, whose: Whose, asked: reader::PageAsked) {
        self.reads += 1;
        self.readings.push_back(Reading::Page { read: Read(self.reads), whose, asked, look: None });
    }

    /// Has read what a command that was just taken wants to know of a stored item; without that it goes on at once.
    fn begin_attaching(&mut self, conn: Conn, stream: usize) {
        let Some(it) = self.connections.get_mut(&conn) else { return };
        let wanted = it.held.get(stream).and_then(Option::as_ref).and_then(|(command, _)| command.wanted());
        match wanted {
            Some(wanted) => {
                it.set_attaching(stream, true);
                self.reads += 1;
                self.readings.push_back(Reading::Item { read: Read(self.reads), conn, stream, wanted, look: None });
            }
            None => it.submit(&self.shared),
        }
    }

    /// Looks at the committed view for what is to be read.
    pub(super) fn look(&mut self, read: Read) {
        let Some(place) = self.readings.iter().position(|reading| reading.read() == read) else { return };
        match self.readings.get_mut(place) {
            Some(Reading::Page { asked, look: look @ None, .. }) => match reader::look(&self.shared.view, *asked) {
                Ok(looked) => *look = Some(looked),
                Err(code) => self.deliver(place, Err(code)),
            },
            Some(Reading::Item { wanted, look: look @ None, .. }) => {
                *look = Some(attaching::look(&self.shared.view, *wanted));
            }
            Some(Reading::Page { .. } | Reading::Item { .. }) | None => {}
        }
    }

    /// Reads what was looked at.
    pub(super) fn scan(&mut self, read: Read) {
        let Some(place) = self.readings.iter().position(|reading| reading.read() == read) else { return };
        match self.readings.get_mut(place) {
            Some(Reading::Page { look, .. }) => {
                let Some(look) = look.take() else { return };
                let page = reader::scan(look, &self.shared.view, &self.watchdog.doubt);
                self.deliver(place, page);
            }
            Some(Reading::Item { conn, stream, look, .. }) => {
                let (conn, stream, look) = (*conn, *stream, look.take());
                self.readings.remove(place);
                let attached = look.and_then(|look| attaching::scan(&look, &self.watchdog.doubt).ok());
                self.attach(conn, stream, attached);
            }
            None => {}
        }
    }

    /// Where nothing could be read the command goes on without.
    fn attach(&mut self, conn: Conn, stream: usize, attached: Option<Attached>) {
        let shared = Arc::clone(&self.shared);
        let Some(it) = self.connections.get_mut(&conn) else { return };
        it.set_attaching(stream, false);
        let held = it.held.get_mut(stream).and_then(Option::as_mut);
        if let (Some((command, _)), Some(attached)) = (held, attached) {
            command.attach(attached);
        }
        it.submit(&shared);
    }

    fn deliver(&mut self, place: usize, page: Result<reader::Page, Code>) {
        let Some(Reading::Page { whose, .. }) = self.readings.remove(place) else { return };
        match whose {
            Whose::Page(conn, number) => {
                let it = self.connections.get_mut(&conn).filter(|it| !it.is_closed());
                let stream = it.and_then(|it| it.streams.get_mut(&number));
                if let Some(answering) = stream.and_then(|stream| stream.answering.as_mut()) {
                    answering.read(page);
                    self.go_on_answering(conn, number);
                }
            }
            Whose::Fetch(conn, fetch) => {
                let it = self.connections.get(&conn).filter(|it| !it.is_closed());
                if let Some(session) = it.and_then(Connection::session) {
                    pushing::fetched(&self.shared, session, fetch, &page);
                }
            }
        }
    }

    /// Writes what waits for the control stream.
    pub(super) fn write_control(&mut self, conn: Conn) {
        let Some(it) = self.connections.get_mut(&conn) else { return };
        it.control_woken = false;
        let Some(session) = it.session() else { return };
        let waiting = session.take_control();
        self.written.extend(waiting.iter().map(|waiting| (conn, Out::Control(waiting.frame.clone()))));
    }

    /// Takes and writes what waits for the push stream.
    pub(super) fn write_push(&mut self, conn: Conn) {
        let shared = Arc::clone(&self.shared);
        let Some(it) = self.connections.get_mut(&conn) else { return };
        let Some(session) = it.session().map(Arc::clone) else { return };
        let due = match it.pushing.take(&shared, &session) {
            Ok(due) => due,
            Err(code) => return it.close(code),
        };
        it.push_woken = !due.frames.is_empty();
        it.tick_at = due.tick.map(|tick| clock::monotonic() + tick);
        if it.push_woken {
            self.written.push((conn, Out::Push(due.frames.concat().into())));
        }
        for fetch in due.fetches {
            self.begin_reading(Whose::Fetch(conn, fetch), pushing::asked(&session, fetch));
        }
    }

    /// Writes the next frame of a request stream, as it is at that moment.
    pub(super) fn write_page(&mut self, conn: Conn, number: u64) {
        let Some(it) = self.connections.get_mut(&conn) else { return };
        let Some(stream) = it.streams.get_mut(&number) else { return };
        let Some(answering) = stream.answering.as_mut().filter(|_| std::mem::take(&mut stream.writes)) else { return };
        let Next::Write(frame) = answering.next() else { return };
        answering.written();
        self.written.push((conn, Out::Page(number, frame)));
        self.go_on_answering(conn, number);
    }

    /// Tells a listener that time has passed.
    pub(super) fn tick(&mut self, conn: Conn) {
        let Some(it) = self.connections.get_mut(&conn) else { return };
        it.tick_at = None;
        it.push_woken = true;
        if let Some(session) = it.session() {
            pushing::tick(session);
        }
    }

    /// Takes out a connection that has ended.
    pub(super) fn leave(&mut self, conn: Conn) {
        let Some(it) = self.connections.get(&conn).filter(|it| it.is_closed()) else { return };
        if let Some(session) = it.session() {
            connection::leave(&self.shared, session);
        }
        self.connections.remove(&conn);
    }

    /// Commands of the operator go into the writer's queue as far as it has places.
    pub(super) fn submit_asked(&mut self) {
        while let Some((command, reply)) = self.asked.pop_front() {
            if !self.shared.commands.has_place(&command) {
                return self.asked.push_front((command, reply));
            }
            self.shared.commands.submit_now(command, reply);
        }
    }

    /// Whether the first command of the operator that waits finds a place.
    pub(super) fn submits_asked(&self) -> bool {
        self.asked.front().is_some_and(|(command, _): &(Command, Reply)| self.shared.commands.has_place(command))
    }
}
