//! Brings the index up to the log, frame by frame: the index's only mutator and only flusher.
//!
//! A step machine: the thread that loops over it, and what becomes of an index that fails, are `server`'s business. It
//! never leaves a frame out, and after a failure it takes none.

use std::sync::Arc;

use crate::ids::Lsn;
use crate::store::engine::{Engine, EngineError};
use crate::store::log::Frame;

/// Why a frame was not applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The index failed, now or before.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The frame is not the next one: a fault of whoever sent it.
    #[error("frame {found} was to be applied to an index that stands at {applied}")]
    OutOfOrder {
        /// Where the index stands.
        applied: Lsn,
        /// What came.
        found: Lsn,
    },
}

/// The applier of one index.
pub struct Applier {
    engine: Arc<dyn Engine>,
    applied: Lsn,
    failed: bool,
}

impl Applier {
    /// An applier for this index, which stands where it says.
    ///
    /// # Errors
    /// Where the index cannot say.
    pub fn new(engine: Arc<dyn Engine>) -> Result<Applier, EngineError> {
        let applied = engine.applied()?;
        Ok(Applier { engine, applied, failed: false })
    }

    /// Where the index stands.
    #[must_use]
    pub fn applied(&self) -> Lsn {
        self.applied
    }

    /// Applies the next durable frame; returns where the index stands then.
    ///
    /// # Errors
    /// Where the index fails or has failed, or the frame is not the next one.
    pub fn step(&mut self, frame: &Frame) -> Result<Lsn, ApplyError> {
        self.check()?;
        if frame.lsn != self.applied.next() {
            return Err(ApplyError::OutOfOrder { applied: self.applied, found: frame.lsn });
        }
        let outcome = self.engine.apply(frame.lsn, &frame.ops);
        self.failed = outcome.is_err();
        outcome?;
        self.applied = frame.lsn;
        Ok(self.applied)
    }

    /// Makes durable what was applied; returns up to where that holds.
    ///
    /// # Errors
    /// Where the index fails or has failed.
    pub fn flush(&mut self) -> Result<Lsn, ApplyError> {
        self.check()?;
        let outcome = self.engine.flush();
        self.failed = outcome.is_err();
        Ok(outcome?)
    }

    fn check(&self) -> Result<(), EngineError> {
        if self.failed {
            return Err(EngineError::Write("it has failed before".to_owned()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::engine::Op;
    use crate::store::faulty::{Fault, FaultyEngine};
    use crate::store::tree::Tree;

    fn frame(lsn: u64) -> Frame {
        let op = Op { tree: Tree::Meta, key: Bytes::from_static(b"k"), value: Some(Bytes::from_static(b"v")) };
        Frame { lsn: Lsn::new(lsn), ops: vec![op] }
    }

    #[test]
    fn frames_are_applied_in_order_without_a_gap() {
        let mut applier = Applier::new(Arc::new(FaultyEngine::new())).unwrap();
        assert_eq!(applier.step(&frame(1)).unwrap(), Lsn::new(1));
        assert!(matches!(applier.step(&frame(3)), Err(ApplyError::OutOfOrder { .. })));
        assert!(matches!(applier.step(&frame(1)), Err(ApplyError::OutOfOrder { .. })));
        assert_eq!(applier.step(&frame(2)).unwrap(), Lsn::new(2));
        assert_eq!(applier.flush().unwrap(), Lsn::new(2));
    }

    #[test]
    fn after_a_failure_nothing_is_applied() {
        for fault in [Fault::Apply, Fault::Flush] {
            let engine = Arc::new(FaultyEngine::new());
            let mut applier = Applier::new(Arc::clone(&engine) as Arc<dyn Engine>).unwrap();
            engine.set(fault);
            assert!(applier.step(&frame(1)).is_err() || applier.flush().is_err());
            engine.heal();
            assert!(applier.step(&frame(2)).is_err() && applier.flush().is_err());
        }
    }
}
