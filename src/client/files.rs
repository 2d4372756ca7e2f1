//! Where work that waits for the disk is done: in a thread beside the runtime, or in a proof by whoever asks.

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Files {
    /// A thread of the runtime's.
    InThread,
    /// The caller, before anything else happens.
    #[cfg(feature = "proof")]
    Here,
}

impl Files {
    /// Does this work. None: the thread that did it has failed, and what it worked on is gone.
    pub(super) async fn work<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        match self {
            Files::InThread => tokio::task::spawn_blocking(work).await.ok(),
            #[cfg(feature = "proof")]
            Files::Here => Some(work()),
        }
    }
}
