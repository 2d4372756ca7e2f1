//! Who is there, and what they do: the first people and groups, applications that send and keep what they are handed,
//! members who come and go, devices that are added.

use super::*;

impl World {
    /// The server starts, the first people join, and there are groups.
    pub(super) fn begin(&mut self) -> Result<(), Broken> {
        self.server.open(None).map_err(|error| format!("an empty folder does not open: {error}"))?;
        while self.clients.len() < self.plan.devices {
            let number = self.clients.len();
            if number < self.plan.users {
                self.another_user(number);
            } else {
                self.another_device();
            }
            while self.errand.is_some() {
                let works = self.server.works(self.elapsed_ms, |_, _| true);
                works.first().into_iter().for_each(|work| self.server.step(*work));
                self.after()?;
            }
        }
        self.server.set_founder(self.clients[0].user);
        for number in 0..self.plan.groups {
            let by = self.clients[0].device;
            let full = self.chance.hits(Kind::Setup, 0.3);
            let policy = if full { Policy::FullHistory } else { Policy::FromJoin };
            let created = Command::CreateGroup { by, name: format!("group {number}"), policy };
            let Answer::GroupCreated(group) = self.server.decide(created)? else {
                return Err("a group was not created".to_owned());
            };
            self.groups.push(group);
            self.after()?;
        }
        for _ in 0..self.chance.below(Kind::Direct, 3) {
            let (one, other) =
                (self.chance.one(Kind::Direct, &self.people).user, self.chance.one(Kind::Direct, &self.people).user);
            self.chats.push(GroupId::direct(one, other));
        }
        Ok(())
    }

    pub(super) fn another_user(&mut self, number: usize) {
        let handle = Handle::parse(&format!("user{number}")).expect("a handle");
        self.errand = Some(Errand::new(self.enrolments(), handle, true));
    }

    /// Somebody wants another device.
    pub(super) fn another_device(&mut self) {
        let index = self.chance.below(Kind::Churn, self.people.len() as u64) as usize;
        let handle = self.people[index].handle.clone();
        self.errand = Some(Errand::new(self.enrolments(), handle, false));
    }

    pub(super) fn enrolments(&mut self) -> u64 {
        self.enrolled += 1;
        self.enrolled
    }

    pub(super) fn go_on_with_errand(&mut self) -> Result<(), Broken> {
        let day_ms = self.day_ms + self.elapsed_ms;
        let Some(done) = self.errand.as_mut().and_then(|errand| errand.step(&mut self.server, day_ms)) else {
            return Ok(());
        };
        let (Some(errand), Done::Enrolled(device, user, handle)) = (self.errand.take(), done) else { return Ok(()) };
        let epoch = self.server.epoch().ok_or("the server answered and is down")?;
        let name = handle.as_str().to_owned();
        let enrolled = Enrolled { device, user, handle: name, epoch, extensions: Extensions::default() };
        let keeps_position = self.chance.hits(Kind::Churn, 0.5);
        let mut client = Client::new(errand.key_seed(), InviteCode(errand.code()), &enrolled, keeps_position);
        if self.people.iter().all(|person| person.user != user) {
            self.people.push(Person { user, handle });
        }
        let cursors = self.server.cursors(user, device);
        cursors.iter().for_each(|(group, cursor)| client.begins(*group, *cursor));
        self.model.enrolled(device, user, cursors.into_iter());
        self.tell(format_args!("{device} of {user} exists"));
        self.clients.push(client);
        Ok(())
    }

    pub(super) fn application(&mut self, index: usize) -> Result<(), Broken> {
        let told = self.clients[index].take(self.chance.between(Kind::Traffic, 1, 4) as usize, &mut self.model)?;
        for words in &told {
            self.tell(format_args!("{words}"));
        }
        if self.chance.hits(Kind::Traffic, 0.7) {
            self.clients[index].keep(self.chance.between(Kind::Traffic, 1, 8) as usize);
        }
        self.doings(index)?;
        if !self.is_calm() && self.chance.hits(Kind::Traffic, self.plan.talkative) {
            let burst =
                if self.chance.hits(Kind::Traffic, 0.1) { 20 } else { self.chance.between(Kind::Traffic, 1, 3) };
            for _ in 0..burst {
                self.send(index)?;
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, index: usize) -> Result<(), Broken> {
        let group = *self.chance.one(Kind::Traffic, &self.groups);
        // Who is no member may try as well, though not often.
        if !self.model.is_member(group, self.clients[index].user) && !self.chance.hits(Kind::Traffic, 0.05) {
            return Ok(());
        }
        let bytes = self.chance.scaled(Kind::Traffic, 1, 3_000) as usize;
        self.say(index, group, &Say::text(&format!("{}:{}", self.sent, "x".repeat(bytes))))
    }

    /// Somebody joins or leaves a group, or gets another device.
    pub(super) fn churn(&mut self) -> Result<(), Broken> {
        if self.is_calm() {
            return Ok(());
        }
        self.roles();
        self.keeps();
        if self.chance.hits(Kind::Churn, 0.05) && self.clients.len() < self.plan.devices + 2 && self.errand.is_none() {
            self.another_device();
            return Ok(());
        }
        let group = *self.chance.one(Kind::Churn, &self.groups);
        let index = self.chance.between(Kind::Churn, 1, self.people.len() as u64 - 1) as usize;
        let by = self.clients[0].device;
        let Person { user, handle } = &self.people[index];
        let (user, handle) = (*user, handle.clone());
        let own = self.clients.iter().find(|client| client.user == user).map(|client| client.device);
        let command = if !self.model.is_member(group, user) {
            self.tell(format_args!("{user} is to join {group}"));
            Command::AddMember { by, group, handle }
        } else {
            self.tell(format_args!("{user} is to leave {group}"));
            match own.filter(|_| self.chance.hits(Kind::Churn, 0.5)) {
                Some(device) => Command::LeaveGroup { by: device, group },
                None => Command::RemoveMember { by, group, handle },
            }
        };
        self.server.ask(command);
        Ok(())
    }
}
