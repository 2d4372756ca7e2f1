//! The names that groups had last time, kept in the profile: so that a message to a group by its name can be queued
//! while the server is out of reach.
//!
//! Only a convenience: where the file is missing, old or damaged, the name must be looked up at the server. It is
//! replaced as a whole, and nothing else depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use crate::cli::visible;
use crate::client::{Group, Profile, Role};
use crate::core::names;
use crate::ids::GroupId;

const FILE: &str = "group-names.json";

/// Group names by id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    names: BTreeMap<GroupId, String>,
    /// The same by what is seen of them: it is asked for each line that is printed.
    seen: BTreeMap<String, BTreeSet<GroupId>>,
}

impl Known {
    /// The names of these groups; those that were left are not among them.
    #[must_use]
    pub fn of(groups: &[Group]) -> Known {
        let current = groups.iter().filter(|group| group.role != Role::Former);
        Known::called_so(current.map(|group| (group.group, group.name.as_str())))
    }

    /// What was kept; nothing where it cannot be read.
    #[must_use]
    pub fn load(profile: &Profile) -> Known {
        let text = fs::read_to_string(profile.folder().join(FILE)).unwrap_or_default();
        let names: BTreeMap<String, String> = serde_json::from_str(&text).unwrap_or_default();
        Known::called_so(names.iter().filter_map(|(id, name)| Some((id.parse().ok()?, name.as_str()))))
    }

    fn called_so<'a>(names: impl Iterator<Item = (GroupId, &'a str)>) -> Known {
        let mut known = Known::default();
        names.for_each(|(group, name)| known.note(group, name));
        known
    }

    /// Keeps it; where that fails, a name has to be asked for next time.
    pub fn save(&self, profile: &Profile) {
        if Known::load(profile).names != self.names {
            self.write(profile).unwrap_or(());
        }
    }

    /// The groups of that name, and the direct chats with a user of that handle: all whose names look the same, so that
    /// nobody takes one for another.
    #[must_use]
    pub fn named(&self, name: &str) -> Vec<GroupId> {
        self.seen.get(&names::seen(name)).into_iter().flatten().copied().collect()
    }

    /// What a group is called to a person: with its id where others are called the same, by that alone where nothing is
    /// known.
    #[must_use]
    pub fn called(&self, group: GroupId) -> String {
        match self.name(group) {
            Some(name) if self.named(name).len() > 1 => format!("{} {group}", visible::name(name)),
            Some(name) => visible::name(name),
            None => group.to_string(),
        }
    }

    /// The direct chat with the user of that handle, where only one is known: who had the handle before somebody new got
    /// it may be the one in another.
    #[must_use]
    pub fn direct(&self, handle: &str) -> Option<GroupId> {
        let mut chats = self.names.iter().filter(|(id, known)| *known == handle && id.pair().is_some());
        match (chats.next(), chats.next()) {
            (Some((only, _)), None) => Some(*only),
            (Some(_), Some(_)) | (None, _) => None,
        }
    }

    /// The name of a group.
    #[must_use]
    pub fn name(&self, group: GroupId) -> Option<&str> {
        self.names.get(&group).map(String::as_str)
    }

    /// Notes another name.
    pub fn note(&mut self, group: GroupId, name: &str) {
        if let Some(before) = self.names.insert(group, name.to_owned())
            && let Some(alike) = self.seen.get_mut(&names::seen(&before))
        {
            alike.remove(&group);
        }
        self.seen.entry(names::seen(name)).or_default().insert(group);
    }

    fn write(&self, profile: &Profile) -> io::Result<()> {
        let names: BTreeMap<String, &String> = self.names.iter().map(|(id, name)| (id.to_string(), name)).collect();
        let new = profile.folder().join(format!("{FILE}.{}.new", std::process::id()));
        fs::write(&new, serde_json::to_vec(&names)?)?;
        fs::rename(&new, profile.folder().join(FILE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::context::Context;
    use crate::cli::context::tests::made;
    use crate::ids::UserId;

    #[test]
    fn names_are_found_again_and_damage_is_nothing_known() {
        let folder = tempfile::tempdir().unwrap();
        let profile = Profile::at(Context::disk(), folder.path());
        assert_eq!(Known::load(&profile), Known::default());
        let groups = [made(1, "a\u{0}\"é", Role::Owner), made(2, "b", Role::Former), made(3, "b", Role::Member)];
        Known::of(&groups).save(&profile);
        let known = Known::load(&profile);
        assert_eq!(known.name(GroupId::new(1)), Some("a\u{0}\"é"));
        assert_eq!(known.named("b"), [GroupId::new(3)]);
        assert_eq!(known.named("a\u{0}\"e\u{301}"), [GroupId::new(1)], "however it was typed");
        std::fs::write(folder.path().join(FILE), b"{\"g1\":").unwrap();
        assert_eq!(Known::load(&profile), Known::default());
    }

    #[test]
    fn a_group_called_like_a_user_is_never_taken_for_their_chat() {
        let direct = GroupId::direct(UserId::new(1), UserId::new(2));
        let mut known = Known::of(&[made(1, "bob", Role::Member)]);
        assert_eq!(known.called(GroupId::new(1)), "bob");
        known.note(direct, "bob");
        assert_eq!(known.named("bob"), [GroupId::new(1), direct]);
        assert_eq!(
            (known.called(GroupId::new(1)), known.called(direct)),
            ("bob g1".to_owned(), format!("bob {direct}"))
        );
        assert_eq!(known.called(GroupId::new(9)), "g9");
    }

    #[test]
    fn a_group_is_found_by_the_name_it_has_now() {
        let mut known = Known::of(&[made(1, "team", Role::Owner), made(2, "team", Role::Owner)]);
        known.note(GroupId::new(2), "crew");
        assert_eq!((known.named("team"), known.named("crew")), (vec![GroupId::new(1)], vec![GroupId::new(2)]));
        assert_eq!(known.called(GroupId::new(1)), "team");
    }

    #[test]
    fn a_message_is_not_queued_for_who_had_the_handle_before() {
        let with = |user| GroupId::direct(UserId::new(1), UserId::new(user));
        let mut known = Known::of(&[made(1, "bob", Role::Member)]);
        assert_eq!(known.direct("bob"), None);
        known.note(with(2), "bob");
        assert_eq!(known.direct("bob"), Some(with(2)));
        known.note(with(3), "bob");
        assert_eq!(known.direct("bob"), None);
    }

    #[test]
    fn groups_whose_names_look_the_same_are_told_apart_by_their_ids() {
        let known = Known::of(&[made(1, "team", Role::Owner), made(9, "team\u{fe0f}", Role::Member)]);
        assert_eq!(known.named("team"), [GroupId::new(1), GroupId::new(9)]);
        assert!(known.called(GroupId::new(1)).ends_with(" g1") && known.called(GroupId::new(9)).ends_with(" g9"));
    }
}
