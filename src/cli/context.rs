//! What every command begins with: which profile, which client, which group is meant.
//!
//! Holds no state beyond the options. A group's name is looked up at the server; where that is out of reach, in the
//! list that the last command of this profile has left ([`crate::cli::known`]).

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::env;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::args::Common;
use crate::cli::exit::CliError;
use crate::cli::known::Known;
use crate::cli::output::Output;
use crate::cli::queued::Queued;
use crate::cli::visible;
use crate::client::{Client, ClientOptions, Group, Profile, RequestError, Role};
use crate::core::names;
use crate::disk::SharedDisk;
use crate::disk::real::RealDisk;
use crate::ids::{GroupId, UserId};

const FOLDER: &str = "gaggle";

/// The options of every command, how to print, and the clients that were opened.
#[derive(Debug)]
pub struct Context {
    /// What was typed.
    pub common: Common,
    /// How to print.
    pub output: Output,
    clients: RefCell<Vec<Client>>,
    queued: RefCell<Vec<Queued>>,
}

impl Context {
    /// What every command gets.
    #[must_use]
    pub fn new(common: Common) -> Context {
        let output = Output::new(common.json, common.quiet);
        Context { output, common, clients: RefCell::default(), queued: RefCell::default() }
    }

    /// Says goodbye for every client that was opened, however its command ended: a server counts the connections of a
    /// device, and would take one that just falls silent for alive for a minute.
    ///
    /// What waits in the outbox gets a moment before that: a command whose own answer comes first would else break off
    /// the send that it began.
    pub async fn close(&self) {
        let (clients, mut queued) = (self.clients.take(), self.queued.take());
        if clients.iter().all(|client| client.trouble().is_none()) {
            for queued in &mut queued {
                queued.settle().await;
            }
        }
        for client in clients {
            client.close().await;
        }
        for queued in queued {
            queued.end().await;
        }
    }

    /// Remembers a client, for [`Context::close`].
    #[must_use]
    pub fn keep(&self, client: Client) -> Client {
        self.clients.borrow_mut().push(client.clone());
        client
    }

    /// The disk of this machine.
    #[must_use]
    pub fn disk() -> SharedDisk {
        Arc::new(RealDisk)
    }

    /// The profile that is meant.
    ///
    /// # Errors
    /// Where there is neither an option nor a folder of this user, or the operator key was asked for.
    pub fn profile(&self) -> Result<Profile, CliError> {
        if self.common.operator {
            return Err(CliError::failed(
                "this cannot be done with the operator key: it sees no group and sends nothing",
            )
            .advise("leave out --operator; `gaggle --help` says what it is for"));
        }
        let named = self.common.profile.clone().filter(|folder| !folder.as_os_str().is_empty());
        let folder = named.or_else(default_folder).ok_or_else(|| {
            CliError::failed("this system names no folder of yours").advise("say which one: --profile DIR")
        })?;
        Ok(Profile::at(Context::disk(), folder))
    }

    /// A client of the profile. It sends what waits in the outbox, whatever it is opened for, and it is said how that ends.
    ///
    /// # Errors
    /// Where the profile cannot be used.
    pub async fn member(&self) -> Result<(Profile, Client), CliError> {
        let (profile, client) = self.alone().await?;
        let queued = Queued::watch(self.output, &profile, &client).await;
        self.queued.borrow_mut().extend(queued);
        Ok((profile, client))
    }

    /// As [`Context::member`], for who says how everything in the outbox ends.
    ///
    /// # Errors
    /// Where the profile cannot be used.
    pub async fn alone(&self) -> Result<(Profile, Client), CliError> {
        let profile = self.profile()?;
        let client = Client::open(&profile, ClientOptions::default()).await?;
        Ok((profile, self.keep(client)))
    }

    /// A client of the profile, or with the operator key where that was asked for.
    ///
    /// # Errors
    /// Where the profile or the key cannot be used.
    pub async fn anyone(&self) -> Result<Client, CliError> {
        if !self.common.operator {
            return Ok(self.member().await?.1);
        }
        let certs = self.common.certs.clone().unwrap_or_else(|| PathBuf::from(crate::cli::args::CERTS_DEFAULT));
        let server = &self.common.server;
        if !crate::wire::link::is_address(server) {
            return Err(CliError::failed(format!("\"{}\" is not host:port", visible::name(server)))
                .advise("--server chat.example.org:4433"));
        }
        let client = Client::operator(Context::disk(), &certs, server, ClientOptions::default()).await;
        match client {
            Ok(client) => Ok(self.keep(client)),
            Err(error) => {
                let advice = "--operator works where the server's certs folder is: --certs names it";
                Err(CliError::from(error).advise(advice))
            }
        }
    }
}

/// Which group is meant: an id as it is, a name by asking the server.
///
/// # Errors
/// Where none or several have the name, or the server cannot be asked.
pub async fn group(client: &Client, profile: &Profile, text: &str) -> Result<GroupId, CliError> {
    match text.parse() {
        Ok(group) => Ok(group),
        Err(_) => among(client, &fetch(client, profile).await?, text).await,
    }
}

/// As [`group`], but where the server is out of reach, the list of last time answers.
///
/// # Errors
/// As [`group`].
pub async fn group_or_known(
    client: &Client,
    profile: &Profile,
    text: &str,
    output: Output,
) -> Result<GroupId, CliError> {
    if let Ok(group) = text.parse() {
        return Ok(group);
    }
    let error = match fetch(client, profile).await {
        Ok(groups) => return among(client, &groups, text).await,
        Err(error) => error,
    };
    if !matches!(&error, RequestError::Connect(_) | RequestError::NoAnswer { .. }) {
        return Err(error.into());
    }
    match Known::load(profile).named(text).as_slice() {
        [] => Err(error.into()),
        [only] => {
            output.words(&format!("cannot ask the server; \"{}\" was {only} last time", visible::name(text)));
            Ok(*only)
        }
        several => Err(ambiguous(text, several.iter().map(|id| row(*id, "group", "")))),
    }
}

/// The direct chat with a user; where the server is out of reach, the list of last time answers.
///
/// # Errors
/// Where there is no such user, or the server cannot be asked and the list does not say.
pub async fn direct_or_known(
    client: &Client,
    profile: &Profile,
    handle: &str,
    output: Output,
) -> Result<GroupId, CliError> {
    let mut known = Known::load(profile);
    let error = match client.direct(handle).await {
        Ok(group) => {
            known.note(group, &handle.to_ascii_lowercase());
            known.save(profile);
            return Ok(group);
        }
        Err(error) => error,
    };
    match (&error, known.direct(&handle.to_ascii_lowercase())) {
        (RequestError::Connect(_) | RequestError::NoAnswer { .. }, Some(group)) => {
            output.words(&format!("cannot ask the server; the chat with {} is known", visible::name(handle)));
            Ok(group)
        }
        _ => Err(error.into()),
    }
}

/// The groups of this user; their names are kept for when the server is out of reach.
///
/// # Errors
/// Where the server cannot be asked.
pub async fn fetch(client: &Client, profile: &Profile) -> Result<Vec<Group>, RequestError> {
    let groups = client.groups().await?;
    Known::of(&groups).save(profile);
    Ok(groups)
}

/// The group that a text names: by its id, or as one of these.
///
/// # Errors
/// Where none of them is called so, or several are.
pub async fn among(client: &Client, groups: &[Group], text: &str) -> Result<GroupId, CliError> {
    if let Ok(group) = text.parse() {
        return Ok(group);
    }
    let named = named(groups, text);
    let gone = if named.len() > 1 { of_deleted(client, &named).await } else { BTreeSet::new() };
    only(text, &named, &gone)
}

/// Which of these are direct chats with a deleted user; none where that cannot be asked: it is only said beside a name.
pub async fn of_deleted(client: &Client, groups: &[&Group]) -> BTreeSet<GroupId> {
    let pairs = groups.iter().filter_map(|group| group.group.pair());
    let users: BTreeSet<UserId> = pairs.flat_map(|(low, high)| [low, high]).collect();
    let users: Vec<UserId> = users.into_iter().collect();
    let people = if users.is_empty() { Vec::new() } else { client.people(&users).await.unwrap_or_default() };
    let deleted: BTreeSet<UserId> =
        people.iter().filter(|person| person.state.is_deleted()).map(|person| person.user).collect();
    let is_gone = |id: &GroupId| id.pair().is_some_and(|(low, high)| deleted.contains(&low) || deleted.contains(&high));
    groups.iter().map(|group| group.group).filter(is_gone).collect()
}

/// The groups of that name, and the direct chats with a user of that handle; those that were left count only where no
/// other has it.
fn named<'a>(groups: &'a [Group], name: &str) -> Vec<&'a Group> {
    let wanted = names::seen(name);
    let named: Vec<&Group> = groups.iter().filter(|group| names::seen(&group.name) == wanted).collect();
    let current: Vec<&Group> = named.iter().copied().filter(|group| group.role != Role::Former).collect();
    if current.is_empty() { named } else { current }
}

/// The one that has the name. Anybody can call a group of theirs like a user, so that of a group and a chat neither is
/// meant first.
///
/// # Errors
/// Where none or several have it.
fn only(name: &str, named: &[&Group], gone: &BTreeSet<GroupId>) -> Result<GroupId, CliError> {
    match named {
        [only] => Ok(only.group),
        [] => Err(CliError::refused(format!("none of your groups is called \"{}\"", visible::name(name)))
            .advise(
                "gaggle group list shows them; names must be exact, and in quotes where they have spaces; to a user: gaggle dm",
            )),
        several => Err(ambiguous(
            name,
            several.iter().map(|group| {
                let deleted = if gone.contains(&group.group) { " (deleted)" } else { "" };
                let what = if group.role == Role::Former {
                    "a group that you have left".to_owned()
                } else {
                    format!("group of {} member{}", group.members, if group.members == 1 { "" } else { "s" })
                };
                row(group.group, &what, deleted)
            }),
        )),
    }
}

/// One of several of a name.
fn row(id: GroupId, group: &str, deleted: &str) -> String {
    if id.pair().is_some() { format!("{id}  direct chat{deleted}") } else { format!("{id}  {group}") }
}

fn ambiguous(name: &str, rows: impl Iterator<Item = String>) -> CliError {
    let rows: Vec<String> = rows.collect();
    CliError::failed(format!("{} groups of yours are called \"{}\"", rows.len(), visible::name(name)))
        .advise(format!("say which one by its id:\n  {}", rows.join("\n  ")))
}

/// The profile where none was named.
fn default_folder() -> Option<PathBuf> {
    let set = |name| env::var_os(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
    match set("XDG_DATA_HOME") {
        Some(data) => Some(data.join(FOLDER)),
        None => set("HOME").or_else(env::home_dir).map(|home| home.join(".local/share").join(FOLDER)),
    }
}

#[cfg(test)]
pub(in crate::cli) mod tests {
    use super::*;
    use crate::cli::exit::Exit;
    use crate::client::History;
    use crate::ids::MessageId;

    /// A group with two members and nothing in it.
    pub(in crate::cli) fn made(id: u64, name: &str, role: Role) -> Group {
        let (head, cursor) = (MessageId::ZERO, MessageId::ZERO);
        Group {
            group: GroupId::new(id),
            name: name.to_owned(),
            role,
            members: 2,
            head,
            cursor,
            topic: String::new(),
            history: History::FromJoin,
        }
    }

    fn by_name(groups: &[Group], name: &str) -> Result<GroupId, CliError> {
        only(name, &named(groups, name), &BTreeSet::new())
    }

    #[test]
    fn an_exact_name_is_one_group() {
        let groups = [made(1, "team", Role::Owner), made(2, "Team", Role::Member)];
        assert_eq!(by_name(&groups, "team"), Ok(GroupId::new(1)));
        assert_eq!(by_name(&groups, "tea").map_err(|error| error.exit()), Err(Exit::Refused));
    }

    #[test]
    fn of_a_group_and_a_direct_chat_of_one_name_neither_is_meant_first() {
        let direct = GroupId::direct(UserId::new(1), UserId::new(2));
        let mut groups = [made(direct.value(), "bob", Role::Member), made(9, "bob", Role::Member)];
        let gone = BTreeSet::from([direct]);
        let error = only("bob", &named(&groups, "bob"), &gone).unwrap_err();
        assert_eq!(error.exit(), Exit::Failed);
        let CliError::Said { advice, .. } = error else { panic!("{error}") };
        assert!(advice.contains(&format!("{direct}  direct chat (deleted)\n  g9  group of 2 members")), "{advice}");
        assert_eq!(by_name(&groups[..1], "bob"), Ok(direct));
        groups[1].role = Role::Former;
        assert_eq!(by_name(&groups, "bob"), Ok(direct), "a group that was left is not meant");
    }

    #[test]
    fn several_of_a_name_are_listed_with_code_2() {
        let groups = [made(1, "team", Role::Owner), made(9, "team", Role::Member)];
        let error = by_name(&groups, "team").unwrap_err();
        assert_eq!(error.exit(), Exit::Failed);
        let CliError::Said { advice, .. } = error else { panic!("{error}") };
        assert!(advice.contains("g1") && advice.contains("g9"), "{advice}");
    }

    #[test]
    fn a_group_that_was_left_counts_where_no_other_has_the_name() {
        let groups = [made(1, "team", Role::Former), made(9, "team", Role::Member)];
        assert_eq!(by_name(&groups, "team"), Ok(GroupId::new(9)));
        assert_eq!(by_name(&groups[..1], "team"), Ok(GroupId::new(1)));
    }
}
