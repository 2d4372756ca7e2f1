//! A listener with the rows that its machine decided to push and that are not written yet.
//!
//! The machine in `core` decides; here is only what it needs to be carried out: rows, notices, reads under way. All of
//! it is bounded by the credit of the connection and a fixed number of notices.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tracing::debug;

use crate::clock;
use crate::core::listener::{Amount, Effect, Fetched, Listener, Moment, Page, Pull, Push, Wanted};
use crate::core::sight::TablesSight;
use crate::core::tables::Tables;
use crate::ids::{DeviceId, GroupId, MessageId, UserId};
use crate::limits;
use crate::proof::{self, Wrong};
use crate::server::receipts::Told;
use crate::server::rows::Rows;
use crate::wire::frame::ReceiptNotice;

/// Rows of one group on their way to the push stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// What the machine decided.
    pub(crate) push: Push,
    /// The rows.
    pub(crate) rows: Bytes,
}

/// A read that the machine wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fetch {
    /// Of which group.
    pub(crate) group: GroupId,
    /// Above this msgid.
    pub(crate) after: MessageId,
    /// At most so much.
    pub(crate) most: Amount,
}

/// What waits for the push stream.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// Rows, in order.
    pub(crate) pushes: Vec<Pushed>,
    /// Notices, in order.
    pub(crate) notices: Vec<Bytes>,
    /// Receipts to tell.
    pub(crate) receipts: Vec<ReceiptNotice>,
    /// Heads to tell.
    pub(crate) heads: Vec<(GroupId, MessageId)>,
    /// Reads to do.
    pub(crate) fetches: Vec<Fetch>,
    /// The credit in force.
    pub(crate) credit: Amount,
}

/// The listener of one session.
pub(crate) struct Listening {
    user: UserId,
    device: DeviceId,
    machine: Listener,
    /// What the client wants, once it has said so.
    wanted: Option<Wanted>,
    /// Counts its subscriptions.
    subscriptions: u64,
    pushes: VecDeque<Pushed>,
    notices: VecDeque<Bytes>,
    fetches: Vec<Fetch>,
    receipts: Told,
}

impl Listening {
    /// A listener that has not subscribed.
    pub(crate) fn new(user: UserId, device: DeviceId) -> Listening {
        Listening {
            user,
            device,
            machine: Listener::new(),
            wanted: None,
            subscriptions: 0,
            pushes: VecDeque::new(),
            notices: VecDeque::new(),
            fetches: Vec::new(),
            receipts: Told::default(),
        }
    }

    fn sight<'a>(&self, tables: &'a Tables) -> TablesSight<'a> {
        tables.sight(self.user, self.device)
    }

    /// What the client wants pushed.
    pub(crate) fn subscribe(&mut self, tables: &Tables, wanted: Wanted) {
        self.subscriptions += 1;
        self.wanted = Some(wanted.clone());
        self.machine.subscribe(wanted, &self.sight(tables));
    }

    /// How often the client has subscribed: a push stream belongs to the subscription it was opened under.
    pub(crate) fn subscriptions(&self) -> u64 {
        self.subscriptions
    }

    /// The client stopped a push stream. Unless it has subscribed since the stream was opened, nothing is pushed until it
    /// does.
    pub(crate) fn stopped(&mut self, tables: &Tables, opened_under: u64) {
        self.machine.stop();
        self.pushes.clear();
        if self.subscriptions == opened_under {
            self.wanted = None;
            self.notices.clear();
            self.receipts.clear();
        } else if let Some(wanted) = self.wanted.clone() {
            self.machine.subscribe(wanted, &self.sight(tables));
        }
    }

    /// New items of a group are durable.
    pub(crate) fn offer(&mut self, tables: &Tables, group: GroupId, rows: &Rows, rtt: Duration) {
        let mut effects = Vec::new();
        self.machine.offer(group, rows.offered(), moment(rtt), &self.sight(tables), &mut effects);
        self.carry_out(tables, effects, rows);
    }

    /// Rows were read as [`Fetch`] asked; none: they could not be.
    pub(crate) fn fetched(&mut self, tables: &Tables, fetch: Fetch, read: Option<(&Rows, MessageId)>, rtt: Duration) {
        let sight = self.sight(tables);
        let Some((rows, covered_to)) = read else { return self.machine.fetch_failed(fetch.group, &sight) };
        let mut effects = Vec::new();
        let Fetch { group, after, .. } = fetch;
        let fetched = Fetched { group, after, rows: rows.offered(), covered_to };
        self.machine.fetched(&fetched, moment(rtt), &sight, &mut effects);
        self.carry_out(tables, effects, rows);
    }

    /// Acks came; returns them as they go to the writer.
    pub(crate) fn acked(
        &mut self,
        tables: &Tables,
        entries: &[(GroupId, MessageId)],
        rtt: Duration,
    ) -> Vec<(GroupId, MessageId)> {
        let mut effects = Vec::new();
        let acked = self.machine.ack(entries, moment(rtt), &self.sight(tables), &mut effects);
        self.carry_out(tables, effects, &Rows::default());
        acked
    }

    /// Cursors of the device rose, by whatever way; returns those of which the client does not know.
    pub(crate) fn cursors_rose(&mut self, mut entries: Vec<(GroupId, MessageId)>) -> Vec<(GroupId, MessageId)> {
        entries.retain(|(group, msgid)| self.machine.cursor_rose(*group, *msgid));
        entries
    }

    /// A page was asked for; none where the user may not know of the group.
    pub(crate) fn open_page(&mut self, tables: &Tables, group: GroupId, after: MessageId, pull: Pull) -> Option<Page> {
        self.machine.open_page(group, after, pull, &self.sight(tables))
    }

    /// Rows of a page were written.
    pub(crate) fn page_written(&mut self, page: &mut Page, last: MessageId) {
        self.machine.page_written(page, last);
    }

    /// The closing frame of a page was written.
    pub(crate) fn page_ended(&mut self, tables: &Tables, page: Page, covered_to: MessageId, head: MessageId) {
        let mut effects = Vec::new();
        self.machine.page_ended(page, covered_to, head, &self.sight(tables), &mut effects);
        self.carry_out(tables, effects, &Rows::default());
    }

    /// A page ended without its closing frame.
    pub(crate) fn page_cut(&mut self, tables: &Tables, page: Page) {
        self.machine.page_cut(page, &self.sight(tables));
    }

    /// Time passes.
    pub(crate) fn tick(&mut self, rtt: Duration) {
        self.machine.tick(moment(rtt));
    }

    /// How long until [`Listening::tick`] has something to do.
    pub(crate) fn next_tick(&self, rtt: Duration) -> Option<Duration> {
        let due = self.machine.stalls_at_ms(clock::whole_ms(rtt))?;
        Some(Duration::from_millis(due.saturating_sub(clock::monotonic_ms())))
    }

    /// The last msgid of a group that was handed out on this connection.
    #[cfg(feature = "proof")]
    pub(crate) fn handed(&self, group: GroupId) -> Option<MessageId> {
        self.machine.handed(group)
    }

    /// Queues a notice for a client that has subscribed; says whether there was room.
    pub(crate) fn notice(&mut self, frame: Bytes) -> bool {
        if self.wanted.is_none() {
            return true;
        }
        let room = self.notices.len() < limits::NOTICES_QUEUED_MAX;
        if room {
            self.notices.push_back(frame);
        }
        room
    }

    /// Others have come further in a group where the user has said something, and perhaps more than these. Says whether
    /// there is something to tell.
    pub(crate) fn receipts_moved(
        &mut self,
        group: GroupId,
        users: impl Iterator<Item = (UserId, (MessageId, MessageId))>,
        more: bool,
    ) -> bool {
        self.wanted.is_some() && self.receipts.note(group, users, more)
    }

    /// What it counts as handed and has not written yet.
    #[cfg(feature = "proof")]
    pub(crate) fn queued(&self) -> impl Iterator<Item = &Push> {
        self.pushes.iter().map(|pushed| &pushed.push)
    }

    /// Takes what waits for the push stream.
    pub(crate) fn take(&mut self) -> Outgoing {
        Outgoing {
            pushes: self.pushes.drain(..).collect(),
            notices: self.notices.drain(..).collect(),
            heads: self.machine.take_heads(),
            receipts: self.receipts.take(),
            fetches: std::mem::take(&mut self.fetches),
            credit: self.machine.credit(),
        }
    }

    fn carry_out(&mut self, tables: &Tables, effects: Vec<Effect>, rows: &Rows) {
        for effect in effects {
            match effect {
                Effect::Push(push) => {
                    let may_see =
                        |target| tables.may_see(self.user, push.group, target) || proof::is(Wrong::EditShownUnseen);
                    let rows = rows.seen_between(push.group, push.first, push.last, may_see);
                    debug!(group = %push.group, first = %push.first, last = %push.last, "push");
                    self.pushes.push_back(Pushed { push, rows });
                }
                Effect::Fetch { group, after, most } => self.fetches.push(Fetch { group, after, most }),
            }
        }
    }
}

fn moment(rtt: Duration) -> Moment {
    Moment { now_ms: clock::monotonic_ms(), rtt_ms: clock::whole_ms(rtt) }
}
