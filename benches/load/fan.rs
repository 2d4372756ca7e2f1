//! Fan-out: one group, everybody listens, and the time until the last member has a message.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use gaggle::ids::GroupId;
use gaggle::wire::frame::{Frame as _, Heads, Push, Sent};
use gaggle::wire::row;
use tokio::task::LocalSet;

use crate::raw::{Pulling, Raw, soon, text_frame};
use crate::result::Run;
use crate::{Team, body};

/// Devices that send, each with a full window when flat out.
const SENDERS: usize = 2;
const WINDOW: usize = 16;

/// Who got what when.
struct Fan {
    members: u64,
    /// When each message was sent and how many members have it; messages are known by their number.
    sent: Vec<(Instant, u64)>,
    latencies: Vec<Duration>,
    deliveries: u64,
}

impl Fan {
    fn send(&mut self) -> u64 {
        self.sent.push((Instant::now(), 0));
        self.sent.len() as u64 - 1
    }

    fn got(&mut self, text: &[u8]) {
        let number = std::str::from_utf8(text).ok().and_then(|text| usize::from_str_radix(text.get(..16)?, 16).ok());
        let Some((since, count)) = number.and_then(|number| self.sent.get_mut(number)) else { return };
        *count += 1;
        self.deliveries += 1;
        if *count == self.members {
            self.latencies.push(since.elapsed());
        }
    }
}

/// Takes what comes, in order, and acknowledges it as it must to get more.
async fn listen(mut raw: Raw, group: GroupId, fan: Rc<RefCell<Fan>>) {
    raw.subscribe().await;
    let mut last = raw.pull(group, 0, 0, Pulling::Deliver).await.unwrap().covered_to;
    let mut acked = last;
    loop {
        let frame = raw.pushed_frame().await;
        let mut half = u64::MAX;
        let mut head = last;
        if frame.kind == Push::TYPE {
            let push: Push = frame.decode().unwrap();
            half = u64::from(push.credit_items / 2);
            for batch in push.batches {
                if batch.continues > last {
                    head = head.max(batch.covered_to);
                    continue;
                }
                for row in row::rows(batch.rows) {
                    let item = row.unwrap().decode_item().unwrap();
                    if item.msgid > last {
                        fan.borrow_mut().got(&item.body);
                        last = item.msgid;
                    }
                }
                last = last.max(batch.covered_to);
            }
        } else if frame.kind == Heads::TYPE {
            head = frame.decode::<Heads>().unwrap().entries.iter().map(|(_, head)| *head).max().unwrap_or(last);
        }
        while head > last {
            let page = raw.pull(group, last.value(), 500, Pulling::Deliver).await.unwrap();
            for item in page.items.iter().filter(|item| item.msgid > last) {
                fan.borrow_mut().got(&item.body);
            }
            last = last.max(page.covered_to);
            half = 0;
        }
        if last.value() - acked.value() >= half.min(64) {
            acked = last;
            raw.ack(group, last.value()).await;
        }
    }
}

/// Sends at this rate, or as many as the windows allow.
async fn send(mut raw: Raw, group: GroupId, fan: Rc<RefCell<Fan>>, until: Instant, rate: u64) -> u64 {
    let mut open = VecDeque::new();
    let mut seq = 0;
    let began = Instant::now();
    while Instant::now() < until {
        if let Some(due) = (seq * 1_000_000_000_u64).checked_div(rate) {
            tokio::time::sleep_until((began + Duration::from_nanos(due)).into()).await;
        }
        seq += 1;
        let lowest = open.front().map_or(seq, |(seq, _)| *seq);
        let number = fan.borrow_mut().send();
        open.push_back((seq, raw.post(&text_frame(seq, lowest, group, &body(number))).await));
        while open.len() >= if rate > 0 { 1 } else { WINDOW } {
            let (_, request) = open.pop_front().unwrap();
            raw.answer::<Sent>(request).await.unwrap();
        }
        // Flat out means: as fast as the members get it, with one window of each sender under way.
        while rate == 0 && fan.borrow().sent.len() - fan.borrow().latencies.len() >= SENDERS * WINDOW {
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    }
    for (_, request) in open {
        raw.answer::<Sent>(request).await.unwrap();
    }
    seq
}

/// See the module.
pub async fn w2(mut team: Team, members: u64, secs: u64, rate: u64) {
    let group = team.group().await;
    let fan = Fan { members, sent: Vec::new(), latencies: Vec::new(), deliveries: 0 };
    let fan = Rc::new(RefCell::new(fan));
    let address = team.home.address();
    let local = LocalSet::new();
    let mut senders = Vec::new();
    let sending = team.members(if rate > 0 { 1 } else { SENDERS as u64 }, &[group]).await;
    for key in team.members(members, &[group]).await {
        local.spawn_local(listen(key.listen(address).await, group, Rc::clone(&fan)));
    }
    for key in sending {
        senders.push(key.call(address).await);
    }
    local
        .run_until(async {
            // Everybody has what tells of the last of them, and waits for more.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let run = Run::start(team.home.pid());
            let until = Instant::now() + Duration::from_secs(secs);
            let sending: Vec<_> = senders
                .into_iter()
                .map(|raw| tokio::task::spawn_local(send(raw, group, Rc::clone(&fan), until, rate)))
                .collect();
            for sent in sending {
                sent.await.unwrap();
            }
            let arrived = async {
                while fan.borrow().latencies.len() < fan.borrow().sent.len() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            soon("the last deliveries", arrived).await;
            let fan = fan.borrow();
            let extra = [("sent", fan.sent.len() as f64)];
            run.finish(&format!("gaggle.w2.m{members}.rate{rate}"), fan.deliveries, fan.latencies.clone(), &extra);
        })
        .await;
}
