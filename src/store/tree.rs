//! The trees of the store, by the number that stands in frames of the log. Their keys are in [`super::keys`].

/// A tree. Its number stands in log frames and is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Tree {
    /// gid · msgid → store header and item.
    Messages = 1,
    /// gid · uid · device → cursor.
    Cursors = 2,
    /// gid · uid → member.
    Members = 3,
    /// gid · msgid → author and content flag of what was recalled.
    Recalled = 4,
    /// gid · uid · own ordinal → msgid.
    Own = 5,
    /// gid → group.
    Groups = 6,
    /// uid → user.
    Users = 7,
    /// device → device.
    Devices = 8,
    /// code hash → invite.
    Invites = 9,
    /// handle → uid.
    Handles = 10,
    /// public key → device.
    Keys = 11,
    /// uid · gid → nothing.
    Memberships = 12,
    /// device · client sequence → send; sequence 0: the window.
    Sends = 13,
    /// name → counter.
    Meta = 14,
    /// gid · uid · number of the mention → msgid.
    Mentions = 15,
}

impl Tree {
    /// Every tree, by number.
    pub const ALL: [Tree; 15] = [
        Tree::Messages,
        Tree::Cursors,
        Tree::Members,
        Tree::Recalled,
        Tree::Own,
        Tree::Groups,
        Tree::Users,
        Tree::Devices,
        Tree::Invites,
        Tree::Handles,
        Tree::Keys,
        Tree::Memberships,
        Tree::Sends,
        Tree::Meta,
        Tree::Mentions,
    ];

    /// The number that stands in frames.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Its name, in the index on disk and in what is said of its rows; never reused for another.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Tree::Messages => "messages",
            Tree::Cursors => "cursors",
            Tree::Members => "members",
            Tree::Recalled => "recalled",
            Tree::Own => "own",
            Tree::Groups => "groups",
            Tree::Users => "users",
            Tree::Devices => "devices",
            Tree::Invites => "invites",
            Tree::Handles => "handles",
            Tree::Keys => "keys",
            Tree::Memberships => "memberships",
            Tree::Sends => "sends",
            Tree::Meta => "meta",
            Tree::Mentions => "mentions",
        }
    }

    /// The tree of this number.
    #[must_use]
    pub fn of_number(number: u8) -> Option<Tree> {
        Tree::ALL.into_iter().find(|tree| tree.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tree_has_its_number_and_no_other() {
        let numbers: Vec<u8> = Tree::ALL.into_iter().map(Tree::number).collect();
        assert_eq!(numbers, (1..=15).collect::<Vec<u8>>());
        assert!(Tree::ALL.into_iter().all(|tree| Tree::of_number(tree.number()) == Some(tree)));
        assert_eq!((Tree::of_number(0), Tree::of_number(16)), (None, None));
    }
}
