//! Pages of a listener: what is delivered moves `handed` as it is written, what is browsed moves nothing.
//!
//! The rows of a page travel on a stream of their own, so that pushes may overtake them. A page that no longer fits to
//! what was handed, because a newer one started lower, moves nothing.

use crate::core::listener::{Effect, Listener, Sight};
use crate::ids::{GroupId, MessageId};
use crate::proof::{self, Wrong};

/// How a page was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// It hands items out.
    Deliver,
    /// It only shows them.
    Browse,
}

/// A page under way. It ends with [`Listener::page_ended`] or [`Listener::page_cut`], whatever happens.
#[derive(Debug)]
pub struct Page {
    group: GroupId,
    pull: Pull,
    written_to: MessageId,
}

impl Page {
    /// Items above this msgid belong to it, until rows of it are written.
    #[must_use]
    pub fn after(&self) -> MessageId {
        self.written_to
    }

    /// How it is served.
    #[must_use]
    pub fn pull(&self) -> Pull {
        self.pull
    }
}

impl Listener {
    /// A page was asked for; none where the user may not know of the group. What would start below the durable cursor
    /// is browsed.
    pub fn open_page(&mut self, group: GroupId, after: MessageId, pull: Pull, sight: &impl Sight) -> Option<Page> {
        let cursor = sight.cursor(group)?;
        let state = self.state(group, sight)?;
        state.handed = state.handed.max(cursor);
        if pull == Pull::Browse || after < cursor {
            return Some(Page { group, pull: Pull::Browse, written_to: after });
        }
        state.handed = state.handed.min(after);
        state.pages += 1;
        let page = Page { group, pull, written_to: state.handed };
        if proof::is(Wrong::HandedByPagePlanned) {
            state.handed = sight.head(group).max(state.handed);
        }
        Some(page)
    }

    /// Rows of a page were written, this one the last: everything visible up to there.
    pub fn page_written(&mut self, page: &mut Page, last: MessageId) {
        let from = std::mem::replace(&mut page.written_to, last);
        if page.pull == Pull::Browse {
            return;
        }
        if let Some(state) = self.groups.get_mut(&page.group).filter(|state| from <= state.handed) {
            state.handed = state.handed.max(last);
        }
    }

    /// The closing frame of a page was written, with what it says. Near the head the rest is pushed without being
    /// asked for.
    pub fn page_ended(
        &mut self,
        mut page: Page,
        covered_to: MessageId,
        head: MessageId,
        sight: &impl Sight,
        effects: &mut Vec<Effect>,
    ) {
        let covered_to = covered_to.min(sight.head(page.group)).max(page.written_to);
        self.page_written(&mut page, covered_to);
        self.page_closed(&page);
        // Who only browses has somebody else look after what is to be delivered, who was not told of this head.
        if page.pull == Pull::Browse {
            return;
        }
        if let Some(state) = self.groups.get_mut(&page.group) {
            state.told = state.told.max(head);
        }
        if self.is_wanted(page.group) {
            self.catch_up(page.group, sight, effects);
        }
    }

    /// A page ended without its closing frame; the client knows, and will ask again.
    pub fn page_cut(&mut self, page: Page, sight: &impl Sight) {
        self.page_closed(&page);
        self.fall_behind(page.group, sight);
    }

    fn page_closed(&mut self, page: &Page) {
        let delivers = page.pull == Pull::Deliver;
        if let Some(state) = self.groups.get_mut(&page.group).filter(|_| delivers) {
            state.pages = state.pages.saturating_sub(1);
        }
    }
}
