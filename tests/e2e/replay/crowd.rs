//! The people of a replay: each a device at work behind a way of its own, some with a second one, and what each of them was
//! told, held item by item to what the script says.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use gaggle::client::{
    Client, ClientOptions, Content, Conversation, Event, Item, ListenError, Listener, OutboxError, Outcome, Position,
    Profile, ReadMark, RequestError, Say, Subscription,
};
use gaggle::ids::{GroupId, MessageId, UserId};
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::sync::{Notify, OnceCell, mpsc, oneshot, watch};

use super::script::{Mark, Nick, Nicks, Script, Step};
use crate::harness::{Person, Site};
use crate::raw::soon;
use crate::relay::{Relay, Way};

/// A long while, in which nothing at all happens only if something is broken.
pub const STALL: Duration = Duration::from_secs(60);

/// An application of this test keeps so many items together before it acknowledges them,
const ACK_ITEMS: usize = 8;
/// and no item longer than this.
const ACK_DELAY: Duration = Duration::from_millis(100);

/// Invites last so long.
const HOUR: Duration = Duration::from_secs(3_600);

/// Who is gone is noticed soon, but not because this machine is busy.
pub fn options() -> ClientOptions {
    ClientOptions {
        connect_timeout: Duration::from_secs(10),
        request_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(6),
        keep_alive: Duration::from_secs(2),
        reconnect_pause: Duration::from_millis(20),
        reconnect_pause_max: Duration::from_millis(500),
        // No profile here has a second process.
        outbox_poll: Duration::from_secs(5),
        ..ClientOptions::default()
    }
}

/// One group, and what happens in it.
pub struct Act {
    pub script: Script,
    pub group: GroupId,
}

/// What is done to a person from outside.
pub enum Order {
    /// The process ends and another one begins.
    Restart,
    /// The process ends, and does not come back before it is needed.
    GoAway,
    /// Come back, if away.
    ComeBack,
    /// The end: close, and answer with what all that was told came to.
    Finish(oneshot::Sender<Conversations>),
}

/// The messages of each group in which something is said of messages.
pub type Conversations = HashMap<GroupId, Conversation>;

/// One device.
pub struct Seat {
    pub way: Way,
    client: watch::Sender<Option<Client>>,
    pub orders: mpsc::Sender<Order>,
}

/// What happened, for the record.
#[derive(Default)]
pub struct Counts {
    pub connections: AtomicU64,
    pub restarts: AtomicU64,
}

/// Everybody and everything.
pub struct Crowd {
    pub site: Site,
    /// Who owns the groups; also a nick, the last one.
    pub keeper: Person,
    pub nicks: Nicks,
    pub acts: Vec<Act>,
    pub relay: tokio::sync::Mutex<Relay>,
    users: Vec<OnceLock<UserId>>,
    /// For each person their first device, and behind all of these the second ones.
    seats: Vec<OnceCell<Seat>>,
    /// Who has a second device.
    twins: Vec<Nick>,
    /// Items that are still to come, over all people.
    pub missing: AtomicU64,
    pub complete: Notify,
    pub counts: Counts,
    faults: Mutex<Option<String>>,
    pub faulty: Notify,
}

impl Crowd {
    pub fn new(site: Site, keeper: Person, nicks: Nicks, acts: Vec<Act>, relay: Relay, twins: Vec<Nick>) -> Crowd {
        let people = nicks.len() + 1;
        let of_twins = |act: &Act| twins.iter().map(|nick| act.script.visible(*nick)).sum::<u64>();
        let missing = acts.iter().map(|act| act.script.deliveries() + of_twins(act)).sum();
        let crowd = Crowd {
            relay: tokio::sync::Mutex::new(relay),
            users: (0..people).map(|_| OnceLock::new()).collect(),
            seats: (0..people + twins.len()).map(|_| OnceCell::new()).collect(),
            twins,
            missing: AtomicU64::new(missing),
            complete: Notify::new(),
            counts: Counts::default(),
            faults: Mutex::new(None),
            faulty: Notify::new(),
            site,
            keeper,
            nicks,
            acts,
        };
        crowd.users[people - 1].set(crowd.keeper.account.user).unwrap();
        crowd
    }

    pub fn keeper_nick(&self) -> Nick {
        self.nicks.len()
    }

    fn handle(&self, nick: Nick) -> String {
        format!("u{nick}")
    }

    /// The first thing that went wrong.
    pub fn fault(&self) -> Option<String> {
        self.faults.lock().unwrap().clone()
    }

    fn fail(&self, fault: String) {
        self.faults.lock().unwrap().get_or_insert(fault);
        self.faulty.notify_one();
    }

    pub fn seated(&self) -> impl Iterator<Item = (Nick, &Seat)> {
        let seats = self.seats.iter().enumerate();
        seats.filter_map(|(index, seat)| seat.get().map(|seat| (self.nick_of(index), seat)))
    }

    pub fn user(&self, nick: Nick) -> UserId {
        *self.users[nick].get().expect("somebody who was enrolled")
    }

    /// The first device of a person, who is enrolled and begins to listen when first needed.
    pub async fn seat(self: &Arc<Crowd>, nick: Nick) -> &Seat {
        self.seats[nick].get_or_init(|| self.make_seat(nick)).await
    }

    /// Any device of a person, all of which are enrolled when the first one is needed.
    pub async fn any_seat(self: &Arc<Crowd>, nick: Nick, random: &mut StdRng) -> &Seat {
        let first = self.seat(nick).await;
        let Some(index) = self.twins.iter().position(|twin| *twin == nick) else { return first };
        let make = || async move { self.take_seat(nick, self.new_device(first).await).await };
        let second = self.seats[self.nicks.len() + 1 + index].get_or_init(make).await;
        if random.random() { first } else { second }
    }

    /// Whose device this seat is.
    fn nick_of(&self, seat: usize) -> Nick {
        let second = seat.checked_sub(self.nicks.len() + 1);
        second.map_or(seat, |index| self.twins[index])
    }

    async fn make_seat(self: &Arc<Crowd>, nick: Nick) -> Seat {
        let way = self.way().await;
        if nick == self.keeper_nick() {
            return self.take_seat(nick, (self.keeper.profile.clone(), way)).await;
        }
        let invite = self.keeper.client.invite(&self.handle(nick), None, HOUR).await.unwrap();
        let device = self.enrol(&self.handle(nick), &invite.link, way).await;
        self.take_seat(nick, device).await
    }

    async fn way(&self) -> Way {
        self.relay.lock().await.way().await
    }

    /// A device that nobody has used yet, of who has this one.
    pub async fn new_device(&self, of: &Seat) -> (Profile, Way) {
        let invite = loop {
            match self.client(of).await.add_device(None, HOUR).await {
                Ok(invite) => break invite,
                Err(RequestError::NoAnswer { .. } | RequestError::Connect(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        self.enrol("again", &invite.link, self.way().await).await
    }

    async fn enrol(&self, name: &str, link: &str, way: Way) -> (Profile, Way) {
        let profile = self.site.new_profile(name);
        let link = self.site.at(link, way.address());
        Client::enrol(&profile, &link, None, "replay", &options()).await.unwrap();
        (profile, way)
    }

    async fn take_seat(self: &Arc<Crowd>, nick: Nick, (profile, way): (Profile, Way)) -> Seat {
        let user = profile.account().unwrap().user;
        self.users[nick].get_or_init(|| user);
        let (orders, received) = mpsc::channel(64);
        let (client, _) = watch::channel(None);
        let attendant = Attendant {
            crowd: Arc::clone(self),
            nick,
            profile,
            client: client.clone(),
            position: None,
            unacked: 0,
            last: HashMap::new(),
            conversations: HashMap::new(),
        };
        tokio::spawn(attendant.attend(received));
        Seat { way, client, orders }
    }

    /// The client of a person, who is called back where they are away.
    pub async fn client(&self, seat: &Seat) -> Client {
        let mut client = seat.client.subscribe();
        if client.borrow_and_update().is_none() {
            seat.orders.send(Order::ComeBack).await.unwrap();
        }
        let there = client.wait_for(Option::is_some);
        let there = soon("a client", there).await.expect("a person that goes on");
        there.clone().expect("a client")
    }

    /// Says this, in order; returns the msgids.
    pub async fn say(&self, seat: &Seat, group: GroupId, said: &[Say]) -> Vec<u64> {
        let mut queued = Vec::new();
        for say in said {
            queued.push(loop {
                match self.client(seat).await.say(group, say).await {
                    Ok(seq) => break seq,
                    Err(OutboxError::Closed) => {}
                    Err(error) => panic!("{error}"),
                }
            });
        }
        let mut msgids = Vec::new();
        for seq in queued {
            msgids.push(loop {
                let client = self.client(seat).await;
                match soon("the outcome of a send", client.outcome(seq)).await {
                    Ok(Outcome::Sent { msgid, .. }) => break msgid.value(),
                    Err(OutboxError::Closed) => {}
                    other => panic!("a send ended as {other:?}"),
                }
            });
        }
        msgids
    }

    /// Leaves a group; none where the answer was lost and a later try found it done.
    pub async fn leave(&self, seat: &Seat, group: GroupId) -> Option<u64> {
        let mut doubt = Doubt::default();
        loop {
            let answer = self.client(seat).await.leave_group(group).await;
            if let ControlFlow::Break(left) = doubt.settled(answer) {
                return left;
            }
        }
    }

    /// Sets a read mark.
    pub async fn mark(&self, seat: &Seat, group: GroupId, mark: Mark) -> ReadMark {
        loop {
            let (client, to) = (self.client(seat).await, MessageId::new(mark.to));
            let marked = if mark.is_anywhere {
                client.mark_unread(group, to, mark.version).await
            } else {
                client.mark_read(group, to, mark.version).await
            };
            match marked {
                Ok(mark) => return mark,
                Err(RequestError::NoAnswer { .. } | RequestError::Connect(_)) => {}
                Err(error) => panic!("{mark:?}: {error}"),
            }
        }
    }

    /// Adds a person to a group; none as where somebody leaves.
    pub async fn add(&self, nick: Nick, group: GroupId) -> Option<u64> {
        let mut doubt = Doubt::default();
        loop {
            let answer = self.keeper.client.add_member(group, &self.handle(nick)).await;
            if let ControlFlow::Break(joined) = doubt.settled(answer) {
                return joined;
            }
        }
    }

    /// What an item must be for somebody, by the script; an error is what is wrong with it.
    fn check(&self, nick: Nick, act: &Act, item: &Item) -> Result<(), String> {
        let user = |nick: Nick| self.users[nick].get().copied();
        let (keeper, script) = (self.keeper.account.user, &act.script);
        let msgid = item.msgid.value();
        let step = script.step(msgid);
        let author = step.and_then(|step| user(step.who()));
        let gone = |target: u64, edit: bool| {
            item.content == Content::Recalled { edit }
                && script.recalled.contains(&target)
                && author == Some(item.author)
        };
        let is = |author: Option<UserId>, content: Content| author == Some(item.author) && content == item.content;
        let fits = match step {
            None => item.author == keeper && matches!(item.content, Content::Created(_)),
            Some(Step::Join(nick)) => is(Some(keeper), Content::Joined(user(*nick).unwrap_or_default())),
            Some(Step::Leave(nick)) => is(author, Content::Left(user(*nick).unwrap_or_default())),
            Some(Step::Say(_, text)) => is(author, Content::Text(text.clone())) || gone(msgid, false),
            Some(Step::Edit(_, target, _)) if !script.sees(nick, *target) => is(Some(UserId::ZERO), Content::Hidden),
            Some(Step::Edit(_, target, text)) => {
                let edit = Content::Edit { target: MessageId::new(*target), text: text.clone() };
                is(author, edit) || gone(*target, true)
            }
            Some(Step::Recall(_, target)) => is(author, Content::Recall(MessageId::new(*target))),
            Some(Step::React(_, target, reaction)) => {
                let (target, word) = (MessageId::new(*target), reaction.word.to_owned());
                is(author, Content::Reaction { target, reaction: word, removed: reaction.removed })
            }
        };
        if fits { Ok(()) } else { Err(format!("{item:?} is not {step:?}")) }
    }

    /// Everything that somebody may see of a group, by pages, is what the script says.
    pub async fn browse(&self, nick: Nick, act: &Act) -> u64 {
        let client = self.client(self.seats[nick].get().expect("a seat")).await;
        let mut after = 0;
        let mut covered = MessageId::ZERO;
        loop {
            let page = client.pull(act.group, covered, 500).await.unwrap();
            for item in &page.items {
                assert_eq!(
                    act.script.next_visible(nick, after),
                    Some(item.msgid.value()),
                    "u{nick} browses {}",
                    act.group
                );
                self.check(nick, act, item).unwrap();
                after = item.msgid.value();
            }
            assert!(page.covered_to > covered || !page.more);
            covered = page.covered_to;
            if !page.more {
                assert_eq!(act.script.next_visible(nick, after), None, "u{nick} browses {}", act.group);
                return act.script.visible(nick);
            }
        }
    }
}

/// A change that is asked for until it is made: whether an answer to it was lost.
#[derive(Default)]
struct Doubt(bool);

impl Doubt {
    /// The item of the change; none where a later try found it done. Goes on where it is to be asked for again.
    fn settled(&mut self, answer: Result<MessageId, RequestError>) -> ControlFlow<Option<u64>> {
        match answer {
            Ok(msgid) => return ControlFlow::Break(Some(msgid.value())),
            Err(RequestError::NoAnswer { .. }) => self.0 = true,
            Err(RequestError::Connect(_)) => {}
            Err(RequestError::Refused(_)) if self.0 => return ControlFlow::Break(None),
            Err(error) => panic!("{error}"),
        }
        ControlFlow::Continue(())
    }
}

/// Who runs a person's client, and holds what it is told to the script.
struct Attendant {
    crowd: Arc<Crowd>,
    nick: Nick,
    profile: Profile,
    client: watch::Sender<Option<Client>>,
    /// Kept as an application would keep it with its own data.
    position: Option<Position>,
    /// Items since the last ack.
    unacked: usize,
    last: HashMap<GroupId, u64>,
    conversations: Conversations,
}

impl Attendant {
    async fn attend(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut listener = Some(self.listen().await);
        loop {
            let event = tokio::select! {
                event = next(&mut listener) => event,
                () = tokio::time::sleep(ACK_DELAY), if self.unacked > 0 => {
                    self.ack(listener.as_ref());
                    continue;
                }
                order = orders.recv() => match order {
                    None => return,
                    Some(Order::ComeBack) => {
                        if listener.is_none() {
                            listener = Some(self.listen().await);
                        }
                        continue;
                    }
                    Some(Order::GoAway) => {
                        self.end(listener.take()).await;
                        continue;
                    }
                    Some(Order::Restart) => {
                        self.crowd.counts.restarts.fetch_add(1, Ordering::Relaxed);
                        self.end(listener.take()).await;
                        listener = Some(self.listen().await);
                        continue;
                    }
                    Some(Order::Finish(finished)) => {
                        self.end(listener.take()).await;
                        return finished.send(self.conversations).unwrap();
                    }
                },
            };
            self.take(listener.as_ref(), event);
        }
    }

    /// Begins to listen; an earlier process of this profile may take a moment to be gone.
    async fn listen(&mut self) -> Listener {
        let listening = async {
            loop {
                match Client::listen(&self.profile, options(), Subscription::All, self.position).await {
                    Ok(both) => return both,
                    Err(ListenError::AnotherListener { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                    Err(error) => panic!("u{} cannot listen: {error}", self.nick),
                }
            }
        };
        let (client, listener) = soon("the listener's lock", listening).await;
        self.client.send_replace(Some(client));
        listener
    }

    /// Ends the process; what it was told until then counts.
    async fn end(&mut self, listener: Option<Listener>) {
        let (Some(mut listener), Some(client)) = (listener, self.client.send_replace(None)) else { return };
        let closing = tokio::spawn(client.close());
        while let Some(event) = listener.next().await {
            self.take(Some(&listener), Some(event));
        }
        closing.await.unwrap();
        self.unacked = 0;
    }

    fn take(&mut self, listener: Option<&Listener>, event: Option<Event>) {
        match event {
            Some(Event::Item(received)) => {
                if received.seen_before {
                    self.crowd.fail(format!("u{}: {:?} is marked as seen before", self.nick, received.item));
                }
                if let Err(fault) = self.item(&received.item) {
                    self.crowd.fail(format!("u{}: {fault}", self.nick));
                }
                self.position = Some(received.position);
                self.unacked += 1;
                if self.unacked >= ACK_ITEMS {
                    self.ack(listener);
                }
            }
            Some(Event::Connected(_)) => {
                self.crowd.counts.connections.fetch_add(1, Ordering::Relaxed);
            }
            Some(event @ (Event::Gone { .. } | Event::InboxLost | Event::Ended(_))) => {
                self.crowd.fail(format!("u{}: {event:?}", self.nick));
            }
            None => self.crowd.fail(format!("u{}: the client ended by itself", self.nick)),
            Some(_) => {}
        }
    }

    fn ack(&mut self, listener: Option<&Listener>) {
        self.unacked = 0;
        if let (Some(listener), Some(position)) = (listener, self.position) {
            listener.ack(position);
        }
    }

    fn item(&mut self, item: &Item) -> Result<(), String> {
        let act = self.crowd.acts.iter().find(|act| act.group == item.group);
        let act = act.ok_or_else(|| format!("{item:?} of a group that nobody made"))?;
        let last = self.last.entry(item.group).or_insert(0);
        let expected = act.script.next_visible(self.nick, *last);
        if expected != Some(item.msgid.value()) {
            return Err(format!("{item:?} came after m{last}, where m{expected:?} is next"));
        }
        *last = item.msgid.value();
        self.crowd.check(self.nick, act, item)?;
        if act.script.is_changed() {
            self.conversations.entry(item.group).or_default().take(item);
        }
        if self.crowd.missing.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.crowd.complete.notify_one();
        }
        Ok(())
    }
}

/// The next event of who is there; who is away is told nothing.
async fn next(listener: &mut Option<Listener>) -> Option<Event> {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}
