//! What one says of oneself, who is there, and what operators do to users: shut out, let in again, delete.

use crate::client::error::RequestError;
use crate::client::handle::Client;
use crate::client::requests::{Effect, none};
use crate::client::types::User;
use crate::ids::{GroupId, UserId};
use crate::limits::LIST_ROWS_MAX;
use crate::wire::frame;

impl Client {
    /// Says what one wants to be called, in lists beside the handle; an empty name: by the handle alone.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_name(&self, name: &str) -> Result<(), RequestError> {
        let question = frame::SetName { name: name.to_owned(), extensions: none() };
        self.call::<_, frame::Done>(Effect::Reads, &question).await.map(|_| ())
    }

    /// Lets those know who are in a group with one and listen that one is writing. It is not repeated, may be lost, is
    /// told once a second at most, and does nothing where there is no connection: call it while somebody types.
    pub fn typing(&self, group: GroupId) {
        if let Some(live) = self.live_now() {
            live.tell(&frame::Typing { gid: group, extensions: none() });
        }
    }

    /// Who of a group is there now: has a device that listens.
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
