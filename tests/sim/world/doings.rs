//! What applications do beside sending messages and keeping what they are handed, and the owner of the groups beside adding
//! and removing members.

use super::*;

/// What can be said of an earlier message.
const SAID: [Kind; 4] = [Kind::Replies, Kind::Edits, Kind::Recalls, Kind::Reactions];

impl World {
    /// An application may do more in its turn. Once the faults have stopped it only finds out what has changed.
    pub(super) fn doings(&mut self, index: usize) -> Result<(), Broken> {
        for kind in SAID {
            if self.hits(kind) {
                self.say_about(kind, index)?;
            }
        }
        if self.hits(Kind::Direct) {
            self.say_alone(index)?;
        }
        self.mark(index);
        self.ask(index);
        Ok(())
    }

    /// Groups and direct chats, whether anything was said in them or not.
    pub(super) fn places(&self) -> Vec<GroupId> {
        self.groups.iter().chain(&self.chats).copied().collect()
    }

    // ---- what is said -----------------------------------------------------------------------------------------------

    /// It answers a message, edits or recalls one, mostly its own, or reacts to one.
    fn say_about(&mut self, kind: Kind, index: usize) -> Result<(), Broken> {
        let group = *self.chance.one(kind, &self.places());
        let user = self.clients[index].user;
        let is_about_own = matches!(kind, Kind::Edits | Kind::Recalls) && !self.chance.hits(kind, 0.2);
        let messages = self.model.messages(user, group, is_about_own.then_some(user));
        if messages.is_empty() || (!self.model.is_member(group, user) && !self.chance.hits(kind, 0.1)) {
            return Ok(());
        }
        // Often the newest, which may be on its way to others still.
        let target = if self.chance.hits(kind, 0.5) { messages[0] } else { *self.chance.one(kind, &messages) };
        let text = format!("{}:{}", self.sent, "y".repeat(self.chance.scaled(kind, 1, 300) as usize));
        let what = match kind {
            Kind::Edits => Say::Edit { target, text },
            Kind::Recalls => Say::Recall(target),
            Kind::Reactions if self.chance.hits(kind, 0.3) => Say::Unreact { target, reaction: "+1".to_owned() },
            Kind::Reactions => Say::React { target, reaction: "+1".to_owned() },
            _ => {
                let mentioned = self.people.iter().map(|person| person.user);
                let mentions = mentioned.filter(|_| self.chance.hits(kind, 0.5)).collect();
                Say::Text { text, reply_to: Some(target), mentions }
            }
        };
        self.say(index, group, &what)
    }

    /// It says something to one other person, or to itself.
    fn say_alone(&mut self, index: usize) -> Result<(), Broken> {
        let user = self.clients[index].user;
        let own: Vec<GroupId> = self.chats.iter().filter(|chat| chat.partner_of(user).is_some()).copied().collect();
        if own.is_empty() {
            return Ok(());
        }
        let chat = *self.chance.one(Kind::Direct, &own);
        let text = format!("{}:{}", self.sent, "z".repeat(self.chance.scaled(Kind::Direct, 1, 300) as usize));
        self.say(index, chat, &Say::text(&text))
    }

    /// Puts something into an outbox.
    pub(super) fn say(&mut self, index: usize, group: GroupId, what: &Say) -> Result<(), Broken> {
        let client = &mut self.clients[index];
        let device = client.device;
        if client.process.is_none() {
            return Ok(());
        }
        self.sent += 1;
        let tag = Tag::new(self.sent.to_be_bytes());
        let safe = client.say(group, tag, what, self.sent, &mut self.model)?;
        let (sent, perhaps) = (self.sent, if safe { "" } else { ", perhaps" });
        self.tell(format_args!("{device} queues {sent} for {group}: {what:?}{perhaps}"));
        Ok(())
    }

    // ---- what is read and asked -------------------------------------------------------------------------------------

    /// It marks what it was handed as read, or sets a mark back.
    fn mark(&mut self, index: usize) {
        if !self.hits(Kind::Marks) {
            return;
        }
        let group = *self.chance.one(Kind::Marks, &self.places());
        let back = self.chance.hits(Kind::Marks, 0.15);
        let delivered = self.model.delivered(self.clients[index].device, group);
        let Client { process, talk, device, .. } = &mut self.clients[index];
        let Some(process) = process.as_mut().filter(|process| process.is_connected()) else { return };
        let behind = if back { self.chance.between(Kind::Marks, 0, delivered.value()) } else { 0 };
        let behind = if back { behind } else { self.chance.below(Kind::Marks, 4) };
        let to = MessageId::new(delivered.value().saturating_sub(behind));
        if back {
            talk.unread(process, group, to)
        } else {
            talk.read(process, group, to)
        }
        let device = *device;
        self.tell(format_args!("{device} marks {group} as read up to {to}, back: {back}"));
    }

    /// It asks for what has changed, and who has received and read an item.
    fn ask(&mut self, index: usize) {
        let (changes, is_calm) = (self.model.changes(), self.is_calm());
        let (lists, receipts) = (self.hits(Kind::Lists), self.hits(Kind::Receipts));
        let rows = self.chance.between(Kind::Lists, 1, 4) as u32;
        let group = *self.chance.one(Kind::Receipts, &self.places());
        let msgid = MessageId::new(self.chance.between(Kind::Receipts, 0, self.model.head(group).value()));
        let Client { process, talk, .. } = &mut self.clients[index];
        let Some(process) = process.as_mut().filter(|process| process.is_connected()) else { return };
        if lists || talk.wants_list || (is_calm && !talk.has_listed(changes)) {
            talk.wants_list = false;
            talk.list(process, changes, rows);
        }
        if receipts {
            talk.receipts(process, group, msgid);
        }
    }

    // ---- roles ------------------------------------------------------------------------------------------------------

    /// The owner of the groups gives somebody another role, lets them only read, or keeps them out.
    pub(super) fn roles(&mut self) {
        let kind = Kind::Roles;
        if !self.hits(kind) {
            return;
        }
        let group = *self.chance.one(kind, &self.groups);
        let index = self.chance.between(kind, 1, self.people.len() as u64 - 1) as usize;
        let by = self.clients[0].device;
        let Person { user, handle } = &self.people[index];
        let (user, handle) = (*user, handle.clone());
        let yes = self.chance.hits(kind, 0.5);
        let command = match self.chance.below(kind, 5) {
            0 | 1 => {
                let role = if yes { Role::Admin } else { Role::Member };
                Command::SetRole { by, group, handle, role }
            }
            2 | 3 => Command::SetMuted { by, group, handle, muted: yes },
            _ => Command::SetBanned { by, group, handle, banned: yes },
        };
        self.tell(format_args!("{user} in {group}: {}", words(&command)));
        let bans = matches!(command, Command::SetBanned { banned: true, .. });
        let lifts = matches!(command, Command::SetBanned { banned: false, .. });
        let ask = self.server.ask(command);
        if lifts {
            // Which of the two is decided last nobody could tell.
            self.bans.retain(|(_, of, whom)| (*of, *whom) != (group, user));
        }
        self.bans.extend(ask.filter(|_| bans).map(|ask| (ask, group, user)));
    }

    /// The owner of a group says what it keeps: so many items, or bytes, for so long, until everybody has them, or all.
    pub(super) fn keeps(&mut self) {
        let kind = Kind::Keeps;
        if !self.hits(kind) {
            return;
        }
        let group = *self.chance.one(kind, &self.groups);
        let most = self.chance.scaled(kind, 1, 60);
        let parts = self.chance.below(kind, 16);
        let part = |bit: u32, amount: u64| (parts >> bit & 1 == 1).then_some(amount);
        let policy = Retention {
            count: part(0, most),
            bytes: part(1, most * 300),
            age_ms: part(2, most * 300),
            acked_ms: part(3, most * 100),
        };
        let policy = Some(policy).filter(|policy| !policy.keeps_all());
        self.tell(format_args!("{group} is to keep {policy:?}"));
        let by = self.clients[0].device;
        self.server.ask(Command::SetRetention { by, group, policy });
    }

    /// Bans that were answered hold.
    pub(super) fn note_bans(&mut self) {
        let World { bans, server, model, .. } = self;
        bans.retain(|(ask, group, user)| match server.answer(*ask) {
            None => true,
            Some(answer) => {
                if let Ok(Answer::Done(_)) = answer {
                    model.banned(*group, *user);
                }
                false
            }
        });
    }

    // ---- how it comes out -------------------------------------------------------------------------------------------

    /// What has been published of marks.
    pub(super) fn note_marks(&mut self) -> Result<(), Broken> {
        if !std::mem::take(&mut self.server.published) || !self.server.is_up() {
            return Ok(());
        }
        for group in self.model.groups().collect::<Vec<_>>() {
            self.model.keeps(group, self.server.first_kept(group))?;
            for person in &self.people {
                self.model.committed_mark(person.user, group, self.server.mark(group, person.user))?;
            }
            for client in &self.clients {
                let acked = self.server.cursor(group, client.user, client.device);
                self.model.reached(client.user, group, acked);
            }
        }
        Ok(())
    }

    /// Who does not know of their conversations what is so, now that they have listed all.
    pub(super) fn unaware(&self) -> Result<(), Broken> {
        for client in &self.clients {
            let right = self.model.conversations(client.user);
            let (rows, marks) = client.talk.known();
            for (group, row) in &right {
                let (known, mark) = (rows.get(group), marks.get(group).copied().unwrap_or_default());
                if known != Some(row) || mark != row.mark() {
                    let device = client.device;
                    return Err(format!("{device} knows {group} as {known:?} with {mark:?}, and it is {row:?}"));
                }
            }
        }
        Ok(())
    }
}

fn words(command: &Command) -> String {
    match command {
        Command::SetRole { role, .. } => format!("is to be {role:?}"),
        Command::SetMuted { muted, .. } => format!("is to be muted: {muted}"),
        Command::SetBanned { banned, .. } => format!("is to be banned: {banned}"),
        _ => String::new(),
    }
}
