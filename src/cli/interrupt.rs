//! The wish to end: Ctrl-C or SIGTERM.
//!
//! It only waits; what ending means is the business of each command.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits until the person, or the system, wants this process to end. Where signals cannot be caught it waits for ever,
/// and a signal ends the process by itself.
pub async fn asked() {
    tokio::select! {
        () = one(signal(SignalKind::interrupt())) => {}
        () = one(signal(SignalKind::terminate())) => {}
    }
}

async fn one(signal: std::io::Result<Signal>) {
    match signal {
        Ok(mut signal) => signal.recv().await.unwrap_or(()),
        Err(_) => std::future::pending().await,
    }
}
