//! The wish to end: Ctrl-C or SIGTERM.
//!
//! It only waits; what ending means is the business of each command.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, from now on: none is missed between two waits. Where they cannot be caught they end the process by
/// themselves.
#[derive(Debug)]
pub struct Interrupts {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl Interrupts {
    /// Begins to watch.
    #[must_use]
    pub fn watch() -> Interrupts {
        Interrupts { interrupt: signal(SignalKind::interrupt()).ok(), terminate: signal(SignalKind::terminate()).ok() }
    }

    /// Waits for the next of either.
    pub async fn next(&mut self) {
        tokio::select! {
            () = one(self.interrupt.as_mut()) => {}
            () = one(self.terminate.as_mut()) => {}
        }
    }
}

/// Waits until the person, or the system, wants this process to end.
pub async fn asked() {
    Interrupts::watch().next().await;
}

async fn one(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => signal.recv().await.unwrap_or(()),
        None => std::future::pending().await,
    }
}
