//! What a kept row means to whoever checks a folder: the same understanding with which a server starts on it.

use bytes::Bytes;

use crate::core::rows::{ItemContent, Write};
use crate::server::translate::load::write;
use crate::store::tree::Tree;
use crate::store::verify::{Border, Meaning};

/// Understands a row; none where it is no item.
///
/// # Errors
/// In words, where a server would refuse to start on it.
pub(crate) fn understand(tree: Tree, key: &[u8], value: &Bytes) -> Result<Option<Meaning>, String> {
    let Some(Write::Item(item)) = write(tree, key, value).map_err(|error| error.to_string())? else { return Ok(None) };
    let border = match item.content {
        ItemContent::Created { .. } => Border::Join(item.author),
        ItemContent::Joined(user) => Border::Join(user),
        ItemContent::Left(user) | ItemContent::Removed(user) => Border::Leave(user),
        ItemContent::Sent { .. }
        | ItemContent::Renamed(_)
        | ItemContent::RoleChanged(..)
        | ItemContent::Topic(_)
        | ItemContent::PolicyChanged(_)
        | ItemContent::Muted(_)
        | ItemContent::Unmuted(_)
        | ItemContent::BanLifted(_) => Border::None,
    };
    let sent = item.content.act().is_some();
    Ok(Some(Meaning { author: item.author, border, sent }))
}
