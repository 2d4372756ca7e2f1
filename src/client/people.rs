//! What one says of oneself, and what operators do to users: shut out, let in again, delete.

use crate::client::error::RequestError;
use crate::client::handle::Client;
use crate::client::requests::{Effect, none};
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
