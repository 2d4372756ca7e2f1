//! What changes groups: who is in them and as what, what they are called and about.
//!
//! A change that the server has not answered may have been made: it is not repeated by itself.

use crate::client::error::RequestError;
use crate::client::handle::Client;
use crate::client::names;
use crate::client::requests::{Effect, none};
use crate::client::types::{History, Role};
use crate::ids::{GroupId, MessageId};
use crate::wire::frame::{self, Frame};

impl Client {
    /// Makes a group of which one is the owner.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn create_group(&self, name: &str, history: History) -> Result<GroupId, RequestError> {
        let question =
            frame::CreateGroup { name: names::group_name(name)?, policy: history.number(), extensions: none() };
        self.call::<_, frame::GroupCreated>(Effect::Changes, &question).await.map(|created| created.gid)
    }

    /// The direct chat with a user, which is there from then on; with oneself it is a notebook. The same every time.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn direct(&self, handle: &str) -> Result<GroupId, RequestError> {
        let question = frame::OpenDirect { handle: names::handle(handle)?, extensions: none() };
        self.call::<_, frame::GroupCreated>(Effect::Reads, &question).await.map(|opened| opened.gid)
    }

    /// Adds a user to a group. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn add_member(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::AddMember { gid: group, handle: names::handle(handle)?, extensions: none() }).await
    }

    /// Removes a member. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn remove_member(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::RemoveMember { gid: group, handle: names::handle(handle)?, extensions: none() }).await
    }

    /// Leaves a group. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn leave_group(&self, group: GroupId) -> Result<MessageId, RequestError> {
        self.change(&frame::LeaveGroup { gid: group, extensions: none() }).await
    }

    /// Renames a group. Returns the item that says so.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn rename_group(&self, group: GroupId, name: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::RenameGroup { gid: group, name: names::group_name(name)?, extensions: none() }).await
    }

    /// Gives a member a role, or oneself a lower one. Returns the item that says so; zero where nothing changed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_role(&self, group: GroupId, handle: &str, role: Role) -> Result<MessageId, RequestError> {
        let (handle, role) = (names::handle(handle)?, role.number());
        self.change(&frame::SetRole { gid: group, handle, role, extensions: none() }).await
    }

    /// Lets a member only read. Returns the item that says so; zero where nothing changed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn mute(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::SetMuted { gid: group, handle: names::handle(handle)?, muted: true, extensions: none() })
            .await
    }

    /// Lets a muted member speak again. Returns the item that says so; zero where nothing changed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn unmute(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::SetMuted { gid: group, handle: names::handle(handle)?, muted: false, extensions: none() })
            .await
    }

    /// Removes a member whom nobody can add again, or keeps a former one out. Returns the item that says so; zero where
    /// nobody was removed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn ban(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::SetBanned { gid: group, handle: names::handle(handle)?, banned: true, extensions: none() })
            .await
    }

    /// Lets a banned user be added again. Returns the item that says so; zero where nothing changed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn unban(&self, group: GroupId, handle: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::SetBanned { gid: group, handle: names::handle(handle)?, banned: false, extensions: none() })
            .await
    }

    /// Says what a group is about; empty: nothing. Returns the item that says so; zero where nothing changed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_topic(&self, group: GroupId, topic: &str) -> Result<MessageId, RequestError> {
        self.change(&frame::SetTopic { gid: group, topic: names::group_topic(topic)?, extensions: none() }).await
    }

    /// Says what those see who join next. Returns the item that says so; zero where nothing changed.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_history(&self, group: GroupId, history: History) -> Result<MessageId, RequestError> {
        self.change(&frame::SetPolicy { gid: group, policy: history.number(), extensions: none() }).await
    }

    pub(super) async fn change<Q: Frame>(&self, question: &Q) -> Result<MessageId, RequestError> {
        self.call::<_, frame::Done>(Effect::Changes, question).await.map(|done| done.msgid)
    }
}
