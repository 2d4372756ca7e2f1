//! What only proofs need: wrong builds that are switched on at run time, and a clock and chance that a simulator sets.
//!
//! Without the feature `proof`, which tests alone switch on, `is` is constantly false and the clock is the machine's:
//! nothing of this can be switched on in a release build.

#[cfg(feature = "proof")]
pub mod chance;
#[cfg(feature = "proof")]
pub mod input;
#[cfg(feature = "proof")]
mod switched;
#[cfg(feature = "proof")]
pub mod time;

#[cfg(feature = "proof")]
pub(crate) use switched::is_small;
#[cfg(feature = "proof")]
pub use switched::{from_environment, is, set};

/// A deliberate fault. Each breaks one rule that a promise rests on, so that a test can show that the proofs see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wrong {
    /// Answers leave before their frame is synced.
    AnswerBeforeSync,
    /// A resend is answered before what it repeats is durable.
    ResendBeforeDurable,
    /// The view is published when its frame is appended, before that is durable.
    HeadBeforeDurable,
    /// A send that comes again is stored again.
    NoDedup,
    /// Whether the sender may send is asked before whether it has sent.
    DedupAfterAuthorisation,
    /// An ack above what was handed is taken as it is.
    AckBeyondHanded,
    /// With the opening of a page everything above it counts as handed, not what of it was written.
    HandedByPagePlanned,
    /// A member sees the item before the join too.
    IntervalOffByOne,
    /// An open leaves out what the last frame of the log holds, where it has to put that into the index.
    FrameSkippedAtOpen,
    /// What lies behind the cut of the log stays where it is, and is in the way of what is written later.
    StaleFrameKept,
    /// An index that holds less than was recorded is taken for one that holds that, and frames are applied over it.
    RolledBackIndexKept,
    /// The overlay forgets an entry when its frame is handed to the applier, before that is applied.
    OverlayDroppedEarly,
    /// A cursor in the log means one step from what the index holds, so that each replay ends elsewhere.
    RelativeOp,
    /// What does not continue what was handed is pushed all the same.
    PushWithGap,
    /// A start forgets the last item of a group, where no cursor and no send names it: its msgid is given again.
    MsgidReused,
    /// What was attempted on a connection that was lost leaves the outbox, though no answer came.
    OutboxDroppedEarly,
    /// A cursor is answered when its ack comes, before it is durable.
    CursorBeforeDurable,
    /// A send is decided although an earlier one of its device was refused for now.
    SendOvertakes,
    /// What a member wrote counts as unread for them.
    UnreadCountsOwn,
    /// A read mark goes where it is wanted, back too, under the version that it has.
    ReadMarkGoesBack,
    /// What was recalled while it waited to be written, in a page or a push, is written as it was.
    RecallKept,
    /// What an edit says is shown to those too who may not see what it edits.
    EditShownUnseen,
    /// Receipts tell of those too who were not there when the item came.
    ReceiptOfAbsent,
    /// With what a group does not keep goes the first item that it does.
    TrimOneTooMany,
}

impl Wrong {
    /// All of them.
    pub const ALL: [Wrong; 24] = [
        Wrong::AnswerBeforeSync,
        Wrong::ResendBeforeDurable,
        Wrong::HeadBeforeDurable,
        Wrong::NoDedup,
        Wrong::DedupAfterAuthorisation,
        Wrong::AckBeyondHanded,
        Wrong::HandedByPagePlanned,
        Wrong::IntervalOffByOne,
        Wrong::FrameSkippedAtOpen,
        Wrong::StaleFrameKept,
        Wrong::RolledBackIndexKept,
        Wrong::OverlayDroppedEarly,
        Wrong::RelativeOp,
        Wrong::PushWithGap,
        Wrong::MsgidReused,
        Wrong::OutboxDroppedEarly,
        Wrong::CursorBeforeDurable,
        Wrong::SendOvertakes,
        Wrong::UnreadCountsOwn,
        Wrong::ReadMarkGoesBack,
        Wrong::RecallKept,
        Wrong::EditShownUnseen,
        Wrong::ReceiptOfAbsent,
        Wrong::TrimOneTooMany,
    ];

    /// Its name in the environment variable `GAGGLE_WRONG`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Wrong::AnswerBeforeSync => "answer-before-sync",
            Wrong::ResendBeforeDurable => "resend-before-durable",
            Wrong::HeadBeforeDurable => "head-before-durable",
            Wrong::NoDedup => "no-dedup",
            Wrong::DedupAfterAuthorisation => "dedup-after-authorisation",
            Wrong::AckBeyondHanded => "ack-beyond-handed",
            Wrong::HandedByPagePlanned => "handed-by-page-planned",
            Wrong::IntervalOffByOne => "interval-off-by-one",
            Wrong::FrameSkippedAtOpen => "frame-skipped-at-open",
            Wrong::StaleFrameKept => "stale-frame-kept",
            Wrong::RolledBackIndexKept => "rolled-back-index-kept",
            Wrong::OverlayDroppedEarly => "overlay-dropped-early",
            Wrong::RelativeOp => "relative-op",
            Wrong::PushWithGap => "push-with-gap",
            Wrong::MsgidReused => "msgid-reused",
            Wrong::OutboxDroppedEarly => "outbox-dropped-early",
            Wrong::CursorBeforeDurable => "cursor-before-durable",
            Wrong::SendOvertakes => "send-overtakes",
            Wrong::UnreadCountsOwn => "unread-counts-own",
            Wrong::ReadMarkGoesBack => "read-mark-goes-back",
            Wrong::RecallKept => "recall-kept",
            Wrong::EditShownUnseen => "edit-shown-unseen",
            Wrong::ReceiptOfAbsent => "receipt-of-absent",
            Wrong::TrimOneTooMany => "trim-one-too-many",
        }
    }
}

/// Whether this fault is switched on: never, in a build without the feature `proof`.
#[cfg(not(feature = "proof"))]
pub(crate) const fn is(_wrong: Wrong) -> bool {
    false
}

/// Whether segments and checkpoints are to be small: never, in a build without the feature `proof`.
#[cfg(not(feature = "proof"))]
pub(crate) const fn is_small() -> bool {
    false
}
