//! What a group keeps: said and asked by its members.

use crate::client::error::RequestError;
use crate::client::handle::Client;
use crate::client::requests::Effect;
pub use crate::core::retention::Holder;
use crate::ids::{GroupId, MessageId};
use crate::wire::frame::{self, Extensions};

/// What a group keeps of its items. A part that is none removes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retention {
    /// Items older than this go, in seconds.
    pub age_s: Option<u64>,
    /// Of more items than this the oldest go.
    pub count: Option<u64>,
    /// Of more bytes of items than this the oldest go.
    pub bytes: Option<u64>,
    /// What every live device of every member has acknowledged goes once it is older than this, in seconds.
    pub acked_s: Option<u64>,
}

/// What a group keeps, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// What it keeps.
    pub policy: Retention,
    /// Whether that is its own policy; else it is the server's.
    pub own: bool,
    /// The first item that is kept.
    pub first_kept: MessageId,
    /// The last item.
    pub head: MessageId,
    /// What the clock shows that ages are reckoned by, ms since 1970.
    pub clock_ms: u64,
    /// A device that was not seen for so long holds nothing back, in seconds.
    pub unseen_s: u64,
    /// The device that has acknowledged least, where something is kept for devices; none where all have everything. It is not told
    /// of who lets nobody know what they have received, but to owners and operators, see [`Holder::is_told`].
    pub holder: Option<Holder>,
}

impl Client {
    /// Says what a group keeps; none: what the server says.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_retention(&self, group: GroupId, policy: Option<Retention>) -> Result<(), RequestError> {
        let Retention { age_s, count, bytes, acked_s } = policy.unwrap_or_default();
        let own = policy.is_some();
        let question =
            frame::SetRetention { gid: group, own, age_s, count, bytes, acked_s, extensions: Extensions::default() };
        self.change(&question).await.map(drop)
    }

    /// What a group keeps, and why.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn retention(&self, group: GroupId) -> Result<Kept, RequestError> {
        let question = frame::AskRetention { gid: group, extensions: Extensions::default() };
        let info: frame::RetentionInfo = self.call(Effect::Reads, &question).await?;
        let (acked, seen_day) = (info.holder_acked, info.holder_seen_day);
        let holder = info.holder_user.zip(info.holder_device);
        Ok(Kept {
            policy: Retention { age_s: info.age_s, count: info.count, bytes: info.bytes, acked_s: info.acked_s },
            own: info.own,
            first_kept: info.first_kept,
            head: info.head,
            clock_ms: info.clock_ms,
            unseen_s: info.unseen_s,
            holder: holder.map(|(user, device)| Holder { user, device, acked, seen_day }),
        })
    }
}
