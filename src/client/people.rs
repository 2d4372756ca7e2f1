//! What one says of oneself, who is there, and what operators do to users: shut out, let in again, delete.

use crate::client::error::RequestError;
use crate::client::handle::Client;
use crate::client::requests::{Effect, none};
use crate::client::types::User;
use crate::ids::{GroupId, UserId};
use crate::limits::LIST_ROWS_MAX;
use crate::wire::frame;

/// Switches of a user, as the wire has them.
const PRESENCE_OFF: u8 = 2;
const RECEIPTS_OFF: u8 = 4;

/// Who is told something of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToldTo {
    /// Those who are in a group with one.
    Everyone,
    /// No one.
    Nobody,
}

impl Client {
    /// Says what one wants to be called, in lists beside the handle; an empty name: by the handle alone.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_name(&self, name: &str) -> Result<(), RequestError> {
        let question = frame::SetName { name: name.to_owned(), extensions: none() };
        self.call::<_, frame::Done>(Effect::Reads, &question).await.map(|_| ())
    }

    /// Says who is told that one is there, and that one types.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_presence(&self, told_to: ToldTo) -> Result<(), RequestError> {
        self.set_switch(PRESENCE_OFF, told_to == ToldTo::Nobody).await
    }

    /// Who is told that one is there.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn presence(&self) -> Result<ToldTo, RequestError> {
        self.told_to(PRESENCE_OFF).await
    }

    /// Says who is told what one has received and read.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_receipts(&self, told_to: ToldTo) -> Result<(), RequestError> {
        self.set_switch(RECEIPTS_OFF, told_to == ToldTo::Nobody).await
    }

    /// Who is told what one has received and read.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn receipts_told_to(&self) -> Result<ToldTo, RequestError> {
        self.told_to(RECEIPTS_OFF).await
    }

    async fn told_to(&self, switch: u8) -> Result<ToldTo, RequestError> {
        Ok(if self.switches().await? & switch != 0 { ToldTo::Nobody } else { ToldTo::Everyone })
    }

    /// Lets those know who are in a group with one and listen that one is writing. It is not repeated, may be lost, is
    /// told once a second at most, and does nothing where there is no connection: call it while somebody types.
    pub fn typing(&self, group: GroupId) {
        if let Some(live) = self.live_now() {
            live.tell(&frame::Typing { gid: group, extensions: none() });
        }
    }

    /// Who of a group is there now: has a device that listens, and does not keep it to themselves.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn online(&self, group: GroupId) -> Result<Vec<UserId>, RequestError> {
        let mut all = Vec::new();
        let mut after = UserId::ZERO;
        loop {
            let question = frame::ListOnline { gid: group, after, extensions: none() };
            let frame::OnlineList { users, more, extensions: _ } = self.look(&question).await?;
            all.extend(users);
            match all.last() {
                Some(last) if more && *last > after => after = *last,
                Some(_) | None => return Ok(all),
            }
        }
    }

    /// What there is to know of these users, by user id; who does not exist is missing.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn people(&self, users: &[UserId]) -> Result<Vec<User>, RequestError> {
        let mut all = Vec::new();
        for users in users.chunks(LIST_ROWS_MAX) {
            let list: frame::UserList = self.look(&frame::Names { users: users.to_vec(), extensions: none() }).await?;
            all.extend(list.rows.0.into_iter().map(User::of));
        }
        Ok(all)
    }

    /// Shuts a user out: their connections close within 2 s, and none is let in until [`Client::reactivate_user`].
    /// Everything of theirs stays as it is. Operators only.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn deactivate_user(&self, handle: &str) -> Result<(), RequestError> {
        let question = frame::DeactivateUser { handle: handle.to_owned(), extensions: none() };
        self.call::<_, frame::Done>(Effect::Changes, &question).await.map(|_| ())
    }

    /// Lets a user in again, who finds everything as it was. Operators only.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn reactivate_user(&self, handle: &str) -> Result<(), RequestError> {
        let question = frame::ReactivateUser { handle: handle.to_owned(), extensions: none() };
        self.call::<_, frame::Done>(Effect::Changes, &question).await.map(|_| ())
    }

    /// Deletes a user for ever: shut out at once, then gone from all groups. The handle stays reserved, see
    /// [`Client::free_handle`]. Where this fails half way the user stays shut out, and asking again goes on. Operators
    /// only.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn delete_user(&self, handle: &str) -> Result<(), RequestError> {
        let question = frame::DeleteUser { handle: handle.to_owned(), extensions: none() };
        while self.call::<_, frame::Deleting>(Effect::Changes, &question).await?.left > 0 {}
        Ok(())
    }

    /// Lets somebody new have the handle of a deleted user. Operators only.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn free_handle(&self, handle: &str) -> Result<(), RequestError> {
        let question = frame::FreeHandle { handle: handle.to_owned(), extensions: none() };
        self.call::<_, frame::Done>(Effect::Changes, &question).await.map(|_| ())
    }
}
