//! People: users shut out, let in again and deleted.

use crate::wire::bounded;

frames! {
    /// Says what the caller's user wants to be called. Answered by [`super::Done`].
    60 SetName {
        /// What; empty: by the handle alone.
        #[serde(deserialize_with = "bounded::text")]
        name: String,
    }
    /// Shuts a user out until they are reactivated: their connections close within 2 s, everything of theirs stays.
    /// Operators only. Answered by [`super::Done`].
    62 DeactivateUser {
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// Lets a user in again. Operators only. Answered by [`super::Done`].
    63 ReactivateUser {
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// Deletes a user, a step at a time. Operators only. Answered by [`Deleting`].
    128 DeleteUser {
        /// Whom.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
    /// The user is shut out, and gone from some of their groups.
    129 Deleting {
        /// Groups that they are still in: ask again. Zero: the user is deleted.
        left: u32,
    }
    /// Lets somebody new have the handle of a deleted user. Operators only. Answered by [`super::Done`].
    130 FreeHandle {
        /// Which.
        #[serde(deserialize_with = "bounded::text")]
        handle: String,
    }
}
