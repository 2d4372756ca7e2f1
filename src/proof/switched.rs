//! Which fault is switched on: for a whole process from its environment, or for one thread, so that simulations with
//! different faults run beside one another.

use std::cell::Cell;
use std::sync::OnceLock;

use super::Wrong;

/// The environment variable that names the fault of a whole process.
const VARIABLE: &str = "GAGGLE_WRONG";

/// The environment variable that makes segments and checkpoints small, so that a short run has many of them.
const SMALL_VARIABLE: &str = "GAGGLE_SMALL";

static IS_SMALL: OnceLock<bool> = OnceLock::new();
static OF_PROCESS: OnceLock<Wrong> = OnceLock::new();

thread_local! {
    static OF_THREAD: Cell<Option<Wrong>> = const { Cell::new(None) };
}

/// Whether this fault is switched on for this thread or for the process.
#[must_use]
pub fn is(wrong: Wrong) -> bool {
    OF_THREAD.get() == Some(wrong) || OF_PROCESS.get() == Some(&wrong)
}

/// Switches a fault on, or all off, for this thread.
pub fn set(wrong: Option<Wrong>) {
    OF_THREAD.set(wrong);
}

/// Whether segments and checkpoints are to be small in this process.
pub(crate) fn is_small() -> bool {
    IS_SMALL.get() == Some(&true)
}

/// Switches on, for the whole process, the fault that `GAGGLE_WRONG` names, none where none is named, and what
/// `GAGGLE_SMALL` asks for.
pub fn from_environment() {
    IS_SMALL.get_or_init(|| std::env::var_os(SMALL_VARIABLE).is_some());
    let Ok(name) = std::env::var(VARIABLE) else { return };
    if let Some(wrong) = Wrong::ALL.into_iter().find(|wrong| wrong.name() == name) {
        OF_PROCESS.get_or_init(|| wrong);
    }
}
