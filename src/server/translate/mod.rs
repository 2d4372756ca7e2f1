//! Between the three that never import one another: what is decided, what is kept, what travels.

#[cfg(feature = "proof")]
pub mod fuzzed;
mod kept;
mod load;
mod meaning;
mod retention;
mod sent;
#[cfg(test)]
mod tests;
mod wire;

pub use kept::KeptError;
pub(crate) use kept::{kept, weight};
pub use load::LoadError;
pub(crate) use load::{item_row, load, policy, recalled_row, role_of};
pub(crate) use meaning::understand;
pub(crate) use sent::sendable;
pub(crate) use wire::{answer, code, error, name_extension, policy as policy_number, retry_after_ms, role, user};
