//! A device on its way to the server: an invite is made and used, again and again until that is answered, whatever
//! happens to the server meanwhile.

use gaggle::client::stepped::public_key;
use gaggle::core::command::{Actor, Answer, Command};
use gaggle::core::rows::{CodeHash, DeviceKey, Handle};
use gaggle::ids::{DeviceId, UserId};
use gaggle::server::stepped::Ask;

use crate::server::Server;

/// How long an invite is good for, in ms.
const INVITE_MS: u64 = 3_600_000;

/// What is to be answered next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Invite,
    Enrol,
}

/// See the module.
pub struct Errand {
    /// Counts the devices of this world; the key follows from it.
    pub number: u64,
    handle: Handle,
    is_new_user: bool,
    tries: u64,
    stage: Stage,
    ask: Option<Ask>,
}

/// How an errand has ended.
pub enum Done {
    /// The device exists.
    Enrolled(DeviceId, UserId, Handle),
    /// An answer was lost for so long that the invite has expired: somebody has a device that nobody uses.
    Lost,
}

impl Errand {
    /// A new user's first device, or another one of a user.
    pub fn new(number: u64, handle: Handle, is_new_user: bool) -> Errand {
        Errand { number, handle, is_new_user, tries: 0, stage: Stage::Invite, ask: None }
    }

    /// The seed of the device's key.
    pub fn key_seed(&self) -> [u8; 32] {
        let mut seed = [7; 32];
        seed[..8].copy_from_slice(&self.number.to_be_bytes());
        seed
    }

    /// The invite's code, which is another one at each try.
    pub fn code(&self) -> [u8; 16] {
        let mut code = [0; 16];
        code[..8].copy_from_slice(&self.number.to_be_bytes());
        code[8..].copy_from_slice(&self.tries.to_be_bytes());
        code
    }

    /// The server is gone, and with it what it was asked.
    pub fn interrupted(&mut self) {
        self.ask = None;
    }

    /// Goes on, as far as the server has answered.
    pub fn step(&mut self, server: &mut Server, day_ms: u64) -> Option<Done> {
        let Some(ask) = self.ask else {
            self.ask = server.ask(self.command(day_ms));
            return None;
        };
        let answer = server.answer(ask)?;
        self.ask = None;
        match (self.stage, answer) {
            (Stage::Invite, Ok(Answer::Invited { .. })) => self.stage = Stage::Enrol,
            (Stage::Enrol, Ok(Answer::Enrolled { device, user, handle })) => {
                return Some(Done::Enrolled(device, user, handle));
            }
            // Whether the code is known nobody can tell.
            (Stage::Invite, Err(_)) => self.tries += 1,
            (Stage::Enrol, Err(_)) => {}
            (Stage::Invite, Ok(Answer::Refused(refusal))) if !refusal.is_not_done() => return Some(Done::Lost),
            (Stage::Invite, Ok(_)) => {}
            (Stage::Enrol, Ok(Answer::Refused(refusal))) if !refusal.is_not_done() => {
                self.stage = Stage::Invite;
                self.tries += 1;
            }
            (Stage::Enrol, Ok(_)) => {}
        }
        None
    }

    fn command(&self, day_ms: u64) -> Command {
        let mut code = [0; 32];
        code[..16].copy_from_slice(&self.code());
        let (code, expires_ms, by) = (CodeHash(code), day_ms + INVITE_MS, Actor::Operator);
        match (self.stage, self.is_new_user) {
            (Stage::Invite, true) => Command::Invite { by, handle: self.handle.clone(), group: None, code, expires_ms },
            (Stage::Invite, false) => Command::InviteDevice { by, user: Some(self.handle.clone()), code, expires_ms },
            (Stage::Enrol, _) => Command::Enrol {
                code,
                key: DeviceKey(public_key(&self.key_seed()).expect("a seed is a key")),
                handle: None,
                device_name: format!("device {}", self.number),
            },
        }
    }
}
