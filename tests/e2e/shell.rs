//! The tested program as processes: a server, and people with profiles who run commands. No library, only what a shell
//! has: arguments, stdin, stdout, stderr, signals, exit codes.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Nothing here takes so long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn gaggle() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gaggle"));
    command.env_remove("GAGGLE_PROFILE").env_remove("GAGGLE_LOG").stdin(Stdio::null());
    command
}

/// A server of its own in a folder of its own.
pub(crate) struct Served {
    pub(crate) place: TempDir,
    pub(crate) address: String,
    pub(crate) first_invite: Option<PathBuf>,
    running: Option<Running>,
}

impl Served {
    pub(crate) fn start() -> Served {
        let place = tempfile::tempdir().unwrap();
        let mut served = Served { place, address: "127.0.0.1:0".to_owned(), first_invite: None, running: None };
        served.again();
        served
    }

    /// Starts it where it was.
    pub(crate) fn again(&mut self) {
        let mut running = Running::spawn(self.command());
        let line: Value = serde_json::from_str(&running.line()).unwrap();
        self.address = line["listening"].as_str().unwrap().to_owned();
        self.first_invite = line["first_invite"].as_str().map(|path| self.place.path().join(path));
        self.running = Some(running);
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = gaggle();
        command.args(["serve", "--json", "--listen", &self.address]).current_dir(self.place.path());
        command
    }

    /// SIGTERM, and what it said.
    pub(crate) fn stop(&mut self) -> Ran {
        let running = self.running.take().unwrap();
        running.signal("-TERM");
        running.end()
    }

    /// What it says and how it ends, where it was signalled already.
    pub(crate) fn stop_without_signal(&mut self) -> Ran {
        self.running.take().unwrap().end()
    }

    pub(crate) fn running(&self) -> &Running {
        self.running.as_ref().unwrap()
    }

    pub(crate) fn person(&self, name: &str) -> Person {
        Person {
            profile: self.place.path().join(name),
            certs: self.place.path().join("certs"),
            address: self.address.clone(),
        }
    }

    /// The first user, an operator.
    pub(crate) fn alice(&self) -> Person {
        let link = std::fs::read_to_string(self.first_invite.as_ref().unwrap()).unwrap();
        let alice = self.person("alice");
        alice.ok(&["join", link.trim(), "--as", "alice"]);
        alice
    }

    /// Alice and bob, and a group of both: g1, created at 1, bob joined at 2.
    pub(crate) fn team(&self) -> (Person, Person) {
        let alice = self.alice();
        assert_eq!(alice.ok(&["group", "create", "team"]).out, "g1\n");
        let bob = self.join(&alice, "bob");
        (alice, bob)
    }

    /// Another user of g1.
    pub(crate) fn join(&self, by: &Person, name: &str) -> Person {
        let link = by.ok(&["invite", name, "--group", "g1"]).out;
        let person = self.person(name);
        person.ok(&["join", link.trim()]);
        person
    }
}

/// A profile.
#[derive(Clone)]
pub(crate) struct Person {
    pub(crate) profile: PathBuf,
    certs: PathBuf,
    address: String,
}

impl Person {
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = gaggle();
        command.arg("--profile").arg(&self.profile).arg("--certs").arg(&self.certs);
        command.args(["--server", &self.address]).args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        Running::spawn(self.command(args)).end()
    }

    pub(crate) fn input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut command = self.command(args);
        command.stdin(Stdio::piped());
        let mut running = Running::spawn(command);
        let mut stdin = running.child.stdin.take().unwrap();
        let input = input.to_vec();
        // A command that ends early reads no more; what matters is how it ended.
        std::thread::spawn(move || stdin.write_all(&input).unwrap_or(()));
        running.end()
    }

    pub(crate) fn ok(&self, args: &[&str]) -> Ran {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "gaggle {args:?}: {}", ran.err);
        ran
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Running {
        Running::spawn(self.command(args))
    }

    /// Its JSON lines.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let with_json: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        self.ok(&with_json).json()
    }
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn json(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[track_caller]
    pub(crate) fn ends_with(&self, code: i32, said: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.contains(said), "{said:?} is not in {}", self.err);
    }
}

/// A command under way.
pub(crate) struct Running {
    pub(crate) child: Child,
    lines: Receiver<String>,
    words: Receiver<String>,
    out: String,
    err: String,
}

impl Running {
    pub(crate) fn spawn(mut command: Command) -> Running {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = follow(child.stdout.take().unwrap());
        let words = follow(child.stderr.take().unwrap());
        Running { child, lines, words, out: String::new(), err: String::new() }
    }

    /// The next line of stdout.
    pub(crate) fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.out.push_str(&line);
                line.trim_end_matches('\n').to_owned()
            }
            Err(error) => panic!("no line within {PATIENCE:?} ({error}); stderr: {}", self.said()),
        }
    }

    /// Waits until stderr has said this.
    pub(crate) fn until_said(&mut self, words: &str) {
        while !self.err.contains(words) {
            match self.words.recv_timeout(PATIENCE) {
                Ok(line) => self.err.push_str(&line),
                Err(error) => panic!("{words:?} was not said ({error}): {}", self.err),
            }
        }
    }

    fn said(&mut self) -> &str {
        while let Ok(line) = self.words.try_recv() {
            self.err.push_str(&line);
        }
        &self.err
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits until it would hear of a SIGINT instead of ending by it, as proc_pid_status(5) tells.
    pub(crate) fn until_it_hears_signals(&self) {
        const SIGINT_BIT: u64 = 1 << 1;
        let begun = Instant::now();
        loop {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            if u64::from_str_radix(caught.trim(), 16).unwrap() & SIGINT_BIT != 0 {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not listen to signals");
            std::thread::yield_now();
        }
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ran {
        for (from, into) in [(&self.lines, &mut self.out), (&self.words, &mut self.err)] {
            loop {
                match from.recv_timeout(PATIENCE) {
                    Ok(line) => into.push_str(&line),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        self.child.kill().unwrap();
                        panic!("it did not end within {PATIENCE:?}: {into}");
                    }
                }
            }
        }
        let status: ExitStatus = self.child.wait().unwrap();
        Ran { code: status.code(), out: std::mem::take(&mut self.out), err: std::mem::take(&mut self.err) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Already ended where all went well.
        self.child.kill().unwrap_or(());
        drop(self.child.wait());
    }
}

fn follow(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let text = String::from_utf8(std::mem::take(&mut line)).expect("what is printed is UTF-8");
            if sender.send(text).is_err() {
                return;
            }
        }
    });
    receiver
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
