//! What one says of oneself, who may do and be told what, who is there, and what operators do to users: shut out, let in again, delete.

use crate::client::error::RequestError;
use crate::client::handle::Client;
use crate::client::names;
use crate::client::requests::{Effect, none};
use crate::client::types::{User, byte};
use crate::core::people::Switches;
use crate::ids::{GroupId, UserId};
use crate::limits::LIST_ROWS_MAX;
use crate::wire::code::Code;
use crate::wire::frame::{self, Frame, user_info};

/// Who does something with a user, or is told something of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Who {
    /// Everybody whom it concerns: owners and admins add them to their groups, those in a group with them are told.
    #[default]
    Everyone,
    /// Nobody.
    Nobody,
}

impl Who {
    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Who::Everyone => "everyone",
            Who::Nobody => "nobody",
        }
    }
}

impl Client {
    /// Says what one wants to be called, in lists beside the handle; an empty name: by the handle alone.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_name(&self, name: &str) -> Result<(), RequestError> {
        let question = frame::SetName { name: names::display_name(name)?, extensions: none() };
        self.call::<_, frame::Done>(Effect::Reads, &question).await.map(|_| ())
    }

    /// Says who is told that one is there, and that one types.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_presence(&self, who: Who) -> Result<(), RequestError> {
        self.switch(Switches::PRESENCE_OFF, who).await
    }

    /// Who is told that one is there.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn presence(&self) -> Result<Who, RequestError> {
        self.switched(Switches::PRESENCE_OFF).await
    }

    /// Says who is told what one has received and read.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_receipts(&self, who: Who) -> Result<(), RequestError> {
        self.switch(Switches::RECEIPTS_OFF, who).await
    }

    /// Who is told what one has received and read.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn receipts_told_to(&self) -> Result<Who, RequestError> {
        self.switched(Switches::RECEIPTS_OFF).await
    }

    /// Says who adds one to groups.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn set_added_by(&self, who: Who) -> Result<(), RequestError> {
        self.switch(Switches::NOT_ADDED, who).await
    }

    /// Who adds one to groups.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn added_by(&self) -> Result<Who, RequestError> {
        self.switched(Switches::NOT_ADDED).await
    }

    async fn switch(&self, switch: u8, who: Who) -> Result<(), RequestError> {
        let question = frame::SetSwitch { switch, on: who == Who::Nobody, extensions: none() };
        self.call::<_, frame::Done>(Effect::Reads, &question).await.map(|_| ())
    }

    async fn switched(&self, switch: u8) -> Result<Who, RequestError> {
        let user = self.connected().await?.user;
        let list: frame::UserList = self.look(&frame::Names { users: vec![user], extensions: none() }).await?;
        let own = list.rows.0.into_iter().find(|row| row.user == user);
        let own = own.ok_or_else(|| RequestError::Protocol("the list has no row of one's own".to_owned()))?;
        let switches = Switches(byte(&own.extensions, user_info::SWITCHES).unwrap_or(0));
        Ok(if switches.is_on(switch) { Who::Nobody } else { Who::Everyone })
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
        let question = frame::DeactivateUser { handle: names::handle(handle)?, extensions: none() };
        self.shut_out::<_, frame::Done>(handle, &question).await.map(|_| ())
    }

    /// Asks for what shuts a user out. Who does that to themselves hears no answer: the connection ends by it.
    async fn shut_out<Q: Frame, A: Frame>(&self, handle: &str, question: &Q) -> Result<Option<A>, RequestError> {
        let own = self.connected().await?.handle;
        match self.call(Effect::Changes, question).await {
            Err(RequestError::ShutOut(why)) if why.is(Code::Deactivated) && own.eq_ignore_ascii_case(handle) => {
                Ok(None)
            }
            answer => answer.map(Some),
        }
    }

    /// Lets a user in again, who finds everything as it was. Operators only.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn reactivate_user(&self, handle: &str) -> Result<(), RequestError> {
        let question = frame::ReactivateUser { handle: names::handle(handle)?, extensions: none() };
        self.call::<_, frame::Done>(Effect::Changes, &question).await.map(|_| ())
    }

    /// Deletes a user for ever: shut out at once, then gone from all groups. The handle stays reserved, see
    /// [`Client::free_handle`]. Where this fails half way the user stays shut out, and asking again goes on. Who deletes
    /// themselves and is in more groups than [`STAYS_ENDED_AT_ONCE`](crate::limits::STAYS_ENDED_AT_ONCE) is shut out by
    /// the first step, which passes for all of it here, and another operator has to go on. Operators only.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn delete_user(&self, handle: &str) -> Result<(), RequestError> {
        let question = frame::DeleteUser { handle: names::handle(handle)?, extensions: none() };
        let goes_on = |step: Option<frame::Deleting>| step.is_some_and(|step| step.left > 0);
        while goes_on(self.shut_out(handle, &question).await?) {}
        Ok(())
    }

    /// Lets somebody new have the handle of a deleted user. Operators only.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub async fn free_handle(&self, handle: &str) -> Result<(), RequestError> {
        let question = frame::FreeHandle { handle: names::handle(handle)?, extensions: none() };
        self.call::<_, frame::Done>(Effect::Changes, &question).await.map(|_| ())
    }
}
