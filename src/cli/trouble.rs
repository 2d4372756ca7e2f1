//! What the library reports, told to a person: each failure as a sentence with what to do next, and its exit code.
//!
//! Decides nothing: the exit code follows from [`Failure`], the words from the case. What comes from the network is
//! made visible before it is part of a sentence.

use crate::cli::exit::{CliError, Exit};
use crate::cli::visible;
use crate::client::{
    Client, ConnectError, EnrolError, Failure, ListenError, OutboxError, ProfileError, Refusal, RequestError, TooLong,
};
use crate::wire::code::Code;

impl From<Failure> for Exit {
    fn from(failure: Failure) -> Exit {
        match failure {
            Failure::Refused => Exit::Refused,
            Failure::Broken => Exit::Failed,
            Failure::Temporary => Exit::TryAgain,
        }
    }
}

/// The server's no, and what can be done about it.
#[must_use]
pub fn refusal(refusal: &Refusal) -> CliError {
    let exit = Exit::from(refusal.failure());
    match refusal.code() {
        Some(code) => CliError::new(exit, words(code)).advise(advice(code)),
        None => {
            let detail = visible::name(&refusal.detail);
            let words = format!(
                "the server refused with a reason that this version does not know ({}): {detail}",
                refusal.number
            );
            CliError::new(exit, words).advise("a newer gaggle may know it; `gaggle status` says what the server runs")
        }
    }
}

/// What a server that refuses with this code would be told of; for what is known without asking it.
#[must_use]
pub fn refused_with(code: Code) -> CliError {
    CliError::refused(words(code)).advise(advice(code))
}

/// Who may do what takes the rights of an operator.
pub const OPERATORS_ALONE: &str = "operators alone may: gaggle users shows who they are";

/// A failure whose advice depends on what was asked: for refusals with one of these codes there is another.
#[must_use]
pub fn advised(error: RequestError, advice: &[(Code, &str)]) -> CliError {
    let RequestError::Refused(refusal) = &error else { return error.into() };
    match advice.iter().find(|(code, _)| refusal.is(*code)) {
        Some((_, advice)) => CliError::from(error).advise(*advice),
        None => error.into(),
    }
}

/// A failure of what operators alone may do.
#[must_use]
pub fn of_operators(error: RequestError) -> CliError {
    advised(error, &[(Code::NotAllowed, OPERATORS_ALONE)])
}

/// Why there is no answer to what was sent: the server said why it waits, or there is no connection, or nobody knows.
#[must_use]
pub fn cause(client: &Client) -> String {
    match (client.trouble(), client.held()) {
        (Some(trouble), _) => visible::name(&trouble.to_string()),
        (None, Some(held)) => match held.code() {
            Some(code) => words(code).to_owned(),
            None => visible::name(&held.to_string()),
        },
        (None, None) => "no answer yet".to_owned(),
    }
}

/// A sentence for each code that a server answers with.
const fn words(code: Code) -> &'static str {
    match code {
        Code::Malformed | Code::Unsupported => "the server did not understand what was asked",
        Code::TooLarge => "it is larger than the server takes",
        Code::ClientTooOld => "the server no longer speaks with a gaggle as old as this one",
        Code::UnknownDevice => "the server does not know this device",
        Code::DeviceRevoked => "this device was revoked",
        Code::Replaced => "another process listens with this device now",
        Code::HelloTimeout | Code::Goodbye | Code::StaleAttempt => "the server ended the connection",
        Code::TooManyConnections => "there are too many connections already",
        Code::ServerStopping => "the server is stopping",
        Code::OtherHistory => {
            "the server's history is another than the one this profile knows: it was restored from a backup"
        }
        Code::NotListening => "only a listening connection may do this",
        Code::Conflict => "the server has another message under this number",
        Code::Forgotten => "the server no longer knows whether this was stored",
        Code::NeverStored | Code::WindowFull | Code::OutOfTurn => "the message waits for others before it",
        Code::SlowDown => "that is more than the server allows in so short a time",
        Code::Busy => "the server is busy",
        Code::StorageFull => "the server's disk is full: it can be read, nothing new is taken",
        Code::OutcomeUnknown => "the server could not make sure that it is on disk; it may have been done",
        Code::NoSuchGroup => "there is no such group, or you are not in it",
        Code::NotAllowed => "your role does not allow this",
        Code::NoSuchUser => "there is no such user",
        Code::NoSuchDevice => "there is no such device",
        Code::HandleTaken => "this handle is taken",
        Code::BadName => "this is not a name that can be given",
        Code::AlreadyMember => "they are in the group already",
        Code::NotMember => "you are not in this group any more",
        Code::TooManyRejoins => "they have come and gone too often to be let in again",
        Code::LimitReached => "a limit of the server is reached",
        Code::BadInvite => {
            "this link opens nothing: it was used by somebody, was replaced by a newer one, or is not whole"
        }
        Code::InviteExpired => "this link has expired",
        Code::HandleNeeded => "this link names nobody: say who you want to be",
        Code::BeyondHead => "the group has no message with that msgid yet",
        Code::Muted => "you are muted in that group: you can read and leave it",
        Code::Banned => "banned from that group",
        Code::NotAddable => "they let nobody add them to groups",
        Code::LastOwner => "you are the last owner of that group",
        Code::DirectChat => "this cannot be done to a direct chat",
        Code::MarkMoved => "another device of yours has set the read mark anew",
        Code::Deactivated => "this user is deactivated",
        Code::UserDeleted => "this user is deleted",
        Code::NoSuchItem => "there is no message with that msgid, or you may not see it",
        Code::ItemRecalled => "that message was recalled",
        Code::NotYours => "only who wrote a message may edit it",
        Code::TooLate => "the message is too old to be changed",
        Code::TooManyEdits => "it was edited as often as a message can be",
    }
}

/// What can be done about it; empty where there is nothing.
const fn advice(code: Code) -> &'static str {
    match code {
        Code::Malformed | Code::Unsupported => "compare `gaggle --version` with what the server runs",
        Code::TooLarge => "a message has 64 KiB at most: send it in parts",
        Code::ClientTooOld => "install the newer version",
        Code::UnknownDevice => {
            "the profile may be of another server or a copy; to join anew use another --profile and a new link"
        }
        Code::DeviceRevoked => {
            "another device of yours can make a link for a new one: gaggle devices add; or an operator: gaggle --operator devices add --for HANDLE"
        }
        Code::Replaced => {
            "a profile belongs on one machine: give the other one a device of its own with gaggle devices add"
        }
        Code::HelloTimeout
        | Code::Goodbye
        | Code::StaleAttempt
        | Code::NeverStored
        | Code::WindowFull
        | Code::OutOfTurn => "try again",
        Code::TooManyConnections => "end some, or try again later",
        Code::ServerStopping => "try again when it is back",
        Code::OtherHistory => "ask whoever runs the server",
        Code::NotListening => "this is a fault of gaggle, please report it",
        Code::Conflict => "was the profile copied? look with gaggle outbox list",
        Code::Forgotten => "look with gaggle pull whether it is there; then gaggle outbox drop",
        Code::SlowDown => "wait a little, then try again",
        Code::Busy => "try again in a moment",
        Code::StorageFull => "tell whoever runs it; what is queued is sent once there is room",
        Code::OutcomeUnknown => "tell whoever runs it; look before doing it again",
        Code::NoSuchGroup => "gaggle group list shows yours",
        Code::NotAllowed => "gaggle group members GROUP shows who may",
        Code::NoSuchUser => "gaggle users lists them",
        Code::NoSuchDevice => "gaggle devices list shows yours",
        Code::HandleTaken => "choose another; for another device of the same person there is gaggle devices add",
        Code::BadName => {
            "handles are 1 to 32 of a-z, 0-9, '.', '_', '-'; names of groups (at most 128 bytes) and devices (64) are one line with something to see, nothing that turns the direction, and no look of an id (g7); display names (128) also have nothing invisible in them"
        }
        Code::AlreadyMember => "",
        Code::NotMember => "gaggle group list shows yours",
        Code::TooManyRejoins => "make a new group",
        Code::LimitReached => "tell whoever runs it",
        Code::BadInvite => {
            "ask for a new one; the first link of a server changes at each of its starts until somebody has used it"
        }
        Code::InviteExpired => "ask for a new one",
        Code::HandleNeeded => "add --as HANDLE",
        Code::BeyondHead => "gaggle group list shows the newest of each",
        Code::MarkMoved => "look where it stands, then try again",
        Code::Muted | Code::Banned => "an owner or admin of the group can lift that",
        Code::NotAddable => "ask them to allow it: gaggle group added-by everyone",
        Code::DirectChat => "it has its two users for ever; for more of them make a group: gaggle group create NAME",
        Code::LastOwner => "make somebody else an owner first: gaggle group promote GROUP HANDLE --to owner",
        Code::Deactivated => "an operator can let them in again (gaggle user reactivate); nothing is lost",
        Code::UserDeleted => "an operator can free the handle (gaggle user free-handle) and invite anew",
        Code::NoSuchItem => {
            "gaggle pull GROUP shows what there is; only messages can be edited, recalled or reacted to"
        }
        Code::ItemRecalled => "",
        Code::NotYours => "reply to it, or ask its author",
        Code::TooLate => "an admin or owner of the group can still recall it",
        Code::TooManyEdits => "recall it and send another",
    }
}

impl From<ProfileError> for CliError {
    fn from(error: ProfileError) -> CliError {
        let exit = Exit::from(error.failure());
        let advice = match &error {
            ProfileError::NotEnrolled { .. } => {
                "ask for a link and run: gaggle join LINK (--profile says which folder)"
            }
            ProfileError::Used { .. } => "to be somebody else here too: gaggle --profile OTHER-DIR join LINK",
            ProfileError::Missing { .. } | ProfileError::Damaged { .. } => {
                "bring it back from a backup; without one, join anew: another --profile, and a link from gaggle devices add"
            }
            ProfileError::Disk(_) => "is the folder yours, and is there room? --profile says which one",
            ProfileError::Locked { .. } => "another gaggle is at it: try again",
        };
        CliError::new(exit, visible::name(&error.to_string())).advise(advice)
    }
}

impl From<ConnectError> for CliError {
    fn from(error: ConnectError) -> CliError {
        let advice = match &error {
            ConnectError::NoSuchHost { .. } => "is the name right, and is this machine on a network?",
            ConnectError::NoAnswer { .. } => {
                "is the server running (gaggle serve), and does a firewall on the way let UDP through?"
            }
            ConnectError::WrongPin { .. } => {
                "either somebody stands between, or the server has lost its keys: ask whoever runs it before anything else"
            }
            ConnectError::NoProof { .. } => {
                "somebody stands between: use another network, and tell whoever runs the server"
            }
            ConnectError::NotGaggle { .. } => "is the address right, and the server of this version?",
            ConnectError::Lost { .. } => "try again",
            ConnectError::OtherHistory { .. } => "it was restored from a backup: ask whoever runs it",
            ConnectError::NoSocket { .. } => "the system has none left, or forbids it",
            ConnectError::Closed => "try again",
            ConnectError::Refused(reason) => return refusal(reason),
            ConnectError::Profile(error) => return error.clone().into(),
        };
        CliError::new(Exit::from(error.failure()), visible::name(&error.to_string())).advise(advice)
    }
}

impl From<EnrolError> for CliError {
    fn from(error: EnrolError) -> CliError {
        match error {
            EnrolError::BadLink(why) => CliError::failed(visible::name(&why))
                .advise("a link looks like \"gaggle://host:4433/#PIN.CODE\"; put it in quotes"),
            EnrolError::Profile(error) => error.into(),
            EnrolError::Connect(error) => error.into(),
            EnrolError::Refused(reason) => refusal(&reason),
            EnrolError::TooLong(error) => error.into(),
        }
    }
}

impl From<TooLong> for CliError {
    fn from(error: TooLong) -> CliError {
        CliError::refused(error.to_string()).advise("shorten it; letters outside of English take several bytes")
    }
}

impl From<RequestError> for CliError {
    fn from(error: RequestError) -> CliError {
        let exit = Exit::from(error.failure());
        match error {
            RequestError::Refused(reason) => refusal(&reason),
            RequestError::ShutOut(reason) => {
                refusal(&reason).advise_also("what was asked may have been done before that")
            }
            RequestError::Connect(error) => error.into(),
            RequestError::TooLong(error) => error.into(),
            RequestError::NoAnswer { .. } | RequestError::Protocol(_) => {
                CliError::new(exit, visible::name(&error.to_string())).advise("look before you do it again")
            }
        }
    }
}

impl From<OutboxError> for CliError {
    fn from(error: OutboxError) -> CliError {
        let advice = match &error {
            OutboxError::TooLarge { .. } => "send it in parts",
            OutboxError::Unsayable => "a msgid is a number above 0, and a reaction an emoji or a word",
            OutboxError::Full { .. } => "gaggle outbox flush sends what waits, gaggle outbox drop --all withdraws it",
            OutboxError::Attempted(_) => "it may be on the server already: gaggle outbox flush asks",
            OutboxError::Absent(_) => "gaggle outbox list shows what is there",
            OutboxError::Closed => "try again",
            OutboxError::Ended(error) => return error.clone().into(),
            OutboxError::Profile(error) => return error.clone().into(),
        };
        CliError::new(Exit::from(error.failure()), visible::name(&error.to_string())).advise(advice)
    }
}

impl From<ListenError> for CliError {
    fn from(error: ListenError) -> CliError {
        let advice = match &error {
            ListenError::AnotherListener { .. } => {
                "one tail a profile; gaggle send and gaggle pull work beside it, another device has a profile of its own"
            }
            ListenError::LostPosition => "begin without a position",
            ListenError::NoSuchGroup(_) => "gaggle group list shows yours",
            ListenError::Profile(error) => return error.clone().into(),
        };
        CliError::new(Exit::from(error.failure()), visible::name(&error.to_string())).advise(advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::code::Class;

    #[test]
    fn every_code_has_words_and_the_exit_code_of_its_class() {
        for code in Code::ALL {
            let told = Refusal { number: code.number(), class: code.class(), retry_after_ms: 0, detail: String::new() };
            let error = refusal(&told);
            assert!(error.to_string().len() > 10, "{code}");
            let expected = if code.class() == Class::Permanent { Exit::Refused } else { Exit::TryAgain };
            assert_eq!(error.exit(), expected, "{code}");
        }
    }

    fn told(code: Code) -> RequestError {
        RequestError::Refused(Refusal {
            number: code.number(),
            class: code.class(),
            retry_after_ms: 0,
            detail: String::new(),
        })
    }

    #[test]
    fn what_can_be_done_depends_on_what_was_asked() {
        let about = [(Code::NotAllowed, OPERATORS_ALONE), (Code::HandleTaken, "free it")];
        for (code, advice) in [
            (Code::NotAllowed, OPERATORS_ALONE),
            (Code::HandleTaken, "free it"),
            (Code::NotMember, "gaggle group list shows yours"),
        ] {
            let CliError::Said { words, advice: said, exit } = advised(told(code), &about) else { panic!("{code}") };
            assert_eq!((said.as_str(), exit), (advice, Exit::Refused), "{words}");
            assert_eq!(words, refused_with(code).to_string());
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_refused_with_its_limit() {
        let error = CliError::from(RequestError::from(TooLong { what: "the topic", bytes: 600, max: 512 }));
        assert_eq!(
            (error.to_string().as_str(), error.exit()),
            ("the topic has 600 bytes, 512 are allowed", Exit::Refused)
        );
    }

    #[test]
    fn words_from_the_network_do_not_steer_the_terminal() {
        let told =
            Refusal { number: 9_999, class: Class::Permanent, retry_after_ms: 0, detail: "\x1b[2J\nok".to_owned() };
        let error = refusal(&told);
        assert!(error.to_string().ends_with("(9999): \\x1b[2J\\nok"), "{error}");
    }
}
