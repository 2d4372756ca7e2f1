//! After a batch is durable: answers first, then fan-out, then notices. One task, in the order of the batches.
//!
//! It never waits for a peer: everything it gives a session is bounded there, and where pushing does not continue what
//! was handed out, a note of the head takes its place.

use std::sync::Arc;

use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::core::command::Event;
use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits::READ_MARKS_TOLD_MAX;
use crate::server::receipts;
use crate::server::session::Session;
use crate::server::writer::{Batch, Told};
use crate::server::{ServeError, Shared, presence};
use crate::wire::code::Code;
use crate::wire::frame::{DeviceNotice, Extensions, MembershipNotice, ReadMarkNotice};

/// Takes batches until the writer stops; returns how it ended.
pub(crate) async fn run(shared: Arc<Shared>, mut told: mpsc::Receiver<Told>) -> Result<(), ServeError> {
    loop {
        let due = shared.moved.due();
        let receipts_are_due = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        let what = tokio::select! {
            what = told.recv() => what,
            () = receipts_are_due => {
                receipts::tell(&shared);
                continue;
            }
        };
        let Some(what) = what else { return Err(ServeError::WriterEnded) };
        if let Some(ended) = take(&shared, what) {
            return ended;
        }
    }
}

/// Does what the writer has told; says how the writer has ended, where it has.
pub(crate) fn take(shared: &Shared, what: Told) -> Option<Result<(), ServeError>> {
    match what {
        Told::Batch(batch) => dispatch(shared, batch),
        Told::Reopened => {
            // What was pushed and announced may lag behind what is kept: everybody comes back and asks anew.
            for session in shared.registry.all() {
                session.close(Code::OutcomeUnknown);
            }
        }
        Told::Stopped(Some(sealed)) => return Some(sealed.map_err(ServeError::Seal)),
        Told::Stopped(None) => return Some(Err(ServeError::NotOpen)),
    }
    None
}

fn dispatch(shared: &Shared, batch: Batch) {
    for (reply, outcome) in batch.answers {
        reply.give(outcome);
    }
    let view = shared.view.read();
    // Who joined in this batch follows before its items are offered; who left stops after: both borders are visible.
    // It goes by what the batch says, one after the other, and not by the view, which may have a later leave already:
    // who stopped for that would be offered its item by nobody.
    for event in &batch.events {
        if let Event::Membership { group, user, member: true, .. } = event {
            shared.registry.follow(*user, *group, true);
        }
    }
    for (group, items) in &batch.items {
        for session in shared.registry.followers(*group) {
            if let Some(mut listening) = session.listening() {
                listening.offer(&view.tables, *group, items, session.rtt());
            }
            session.push_wake.notify_one();
        }
    }
    for event in &batch.events {
        if let Event::Membership { group, user, member, .. } = event {
            shared.registry.follow(*user, *group, *member);
        }
    }
    drop(view);
    for event in batch.events {
        tell(shared, event);
    }
}

fn tell(shared: &Shared, event: Event) {
    match event {
        Event::Items { .. } => {}
        Event::Membership { group, user, member, msgid } => {
            membership(shared, group, user, member, msgid);
        }
        Event::DeviceAdded(device) => device_notice(shared, device, true),
        Event::DeviceRevoked(device) => {
            for session in sessions(shared, device) {
                session.close(Code::DeviceRevoked);
            }
            device_notice(shared, device, false);
        }
        Event::UserShutOut(user) => {
            for session in shared.registry.of_user(user) {
                session.close(Code::Deactivated);
            }
        }
        Event::Switched(user) => presence::settle(shared, user),
        Event::ReadMarks { user, by, entries } => {
            shared.moved.note(user, entries.iter().map(|(group, _)| *group));
            read_marks(shared, user, by, &entries);
        }
        Event::Cursors { device, entries } => {
            let user = shared.view.read().tables.device(device).map(|row| row.user);
            let Some(user) = user else { return };
            shared.moved.note(user, entries.iter().map(|(group, _)| *group));
            for session in shared.registry.of_device(user, device) {
                let told = session.listening().map(|mut listening| listening.cursors_rose(entries.clone()));
                session.cursors_moved(told.unwrap_or_default());
                session.push_wake.notify_one();
            }
        }
        Event::OperatorExists => {
            info!("the first operator has joined: the first invite is void");
            shared.first_invite_used();
        }
    }
}

/// Tells the other devices where the marks stand now, which may be further than where this moved them.
fn read_marks(shared: &Shared, user: UserId, by: DeviceId, entries: &[(GroupId, MessageId)]) {
    let sessions: Vec<_> = others(shared, user, by).collect();
    if sessions.is_empty() {
        return;
    }
    let marks: Vec<_> = {
        let tables = &shared.view.read().tables;
        let mark = |(group, _): &(GroupId, MessageId)| {
            tables.read_mark(*group, user).map(|mark| (*group, mark.msgid, mark.version))
        };
        entries.iter().filter_map(mark).collect()
    };
    for notice in marks.chunks(READ_MARKS_TOLD_MAX).map(ReadMarkNotice::of) {
        match notice {
            Ok(notice) => sessions.iter().for_each(|session| session.notice(&notice)),
            Err(error) => warn!(%error, "a notice of read marks does not fit a frame"),
        }
    }
}

fn membership(shared: &Shared, gid: GroupId, user: UserId, member: bool, msgid: MessageId) {
    let notice = MembershipNotice { gid, member, msgid, extensions: Extensions::default() };
    for session in shared.registry.of_user(user) {
        session.notice(&notice);
    }
}

fn device_notice(shared: &Shared, device: DeviceId, added: bool) {
    let view = shared.view.read();
    let Some(row) = view.tables.device(device) else { return };
    let (user, name) = (row.user, row.name.clone());
    drop(view);
    let notice = DeviceNotice { device, name, added, extensions: Extensions::default() };
    for session in others(shared, user, device) {
        session.notice(&notice);
    }
}

/// The sessions of a device.
fn sessions(shared: &Shared, device: DeviceId) -> Vec<Arc<Session>> {
    let user = shared.view.read().tables.device(device).map(|row| row.user);
    user.map(|user| shared.registry.of_device(user, device)).unwrap_or_default()
}

/// The sessions of a user's other devices.
fn others(shared: &Shared, user: UserId, but: DeviceId) -> impl Iterator<Item = Arc<Session>> {
    shared.registry.of_user(user).into_iter().filter(move |session| session.device != Some(but))
}
