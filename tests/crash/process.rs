//! The real program, serving a real folder, as a child that can be killed and started again.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use gaggle::ids::GroupId;
use gaggle::wire::link::Link;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::raw::{DEADLINE, Key, Raw, link};

/// How long a start may take on a busy machine: it reads the end of the log, and perhaps makes the index again.
const START_DEADLINE: Duration = Duration::from_secs(300);

/// With this in its environment a process does not find the program `sync`, which sled calls when it opens: that would
/// wait for the whole machine's disks, and make durable what nobody synced.
pub const WITHOUT_SYNC: (&str, &str) = ("PATH", "/nonexistent");

/// A folder with a server's data and keys, and the server that runs on it, if one does.
pub struct Home {
    folder: TempDir,
    address: Option<SocketAddr>,
    running: Option<Child>,
    /// What the server's environment has besides.
    variables: Vec<(&'static str, OsString)>,
}

impl Home {
    pub fn new() -> Home {
        Home { folder: tempfile::tempdir().unwrap(), address: None, running: None, variables: Vec::new() }
    }

    /// The same whose server has this in its environment.
    pub fn with(mut self, variable: &'static str, value: impl Into<OsString>) -> Home {
        self.variables.push((variable, value.into()));
        self
    }

    /// The same whose server runs [`WITHOUT_SYNC`].
    pub fn without_sync(self) -> Home {
        let (variable, value) = WITHOUT_SYNC;
        self.with(variable, value)
    }

    /// Where its keys are.
    pub fn keys(&self) -> PathBuf {
        self.folder().join("certs")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data(&self) -> PathBuf {
        self.folder().join("data")
    }

    /// Where the server listens; the same after a restart.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("a server that was started once")
    }

    /// Starts the server, and waits until it can be reached. Returns how long that took.
    pub async fn start(&mut self) -> Duration {
        self.start_under(&[]).await
    }

    /// The same, as the argument of another program.
    pub async fn start_under(&mut self, wrapper: &[&str]) -> Duration {
        let since = Instant::now();
        let line = self.first_line(wrapper).await;
        let Ok(told) = serde_json::from_str::<serde_json::Value>(&line) else {
            panic!("the server did not start: {}", self.errors());
        };
        let address: SocketAddr = told["listening"].as_str().unwrap().parse().unwrap();
        assert!(self.address.is_none_or(|before| before == address));
        self.address = Some(address);
        since.elapsed()
    }

    /// Starts the server, which should end by itself; returns how, and what it said.
    pub async fn starts_in_vain(&mut self) -> (ExitStatus, String) {
        let before = self.errors().len();
        assert_eq!(self.first_line(&[]).await, "", "it serves");
        let status = self.ended().await;
        (status, self.errors().split_off(before))
    }

    /// Runs it; what it says first on stdout.
    async fn first_line(&mut self, wrapper: &[&str]) -> String {
        let output = self.begin(wrapper);
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).map(|_| line)
        });
        let line = tokio::time::timeout(START_DEADLINE, line).await;
        line.expect("the word that it serves").unwrap().unwrap()
    }

    /// Starts the server, and kills it after so long, which may be while it opens its folder.
    pub async fn start_and_kill(&mut self, after: Duration) {
        let output = self.begin(&[]);
        // The moment is part of what is tested.
        tokio::time::sleep(after).await;
        self.kill();
        drop(output);
    }

    /// Runs it; where it will speak.
    pub fn begin(&mut self, wrapper: &[&str]) -> ChildStdout {
        let listen = self.address.map_or("127.0.0.1:0".to_owned(), |address| address.to_string());
        let program = env!("CARGO_BIN_EXE_gaggle");
        let mut words = wrapper.iter().copied().chain([program, "serve", "--json", "--listen", &listen]);
        let errors = fs::OpenOptions::new().create(true).append(true).open(self.folder().join("stderr")).unwrap();
        let mut child = Command::new(words.next().unwrap())
            .args(words)
            .current_dir(self.folder())
            .env_remove("GAGGLE_CONFIG")
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .unwrap();
        let output = child.stdout.take().unwrap();
        self.running = Some(child);
        output
    }

    /// SIGSTOP: it does nothing until [`Home::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid().try_into().unwrap()).expect("a process");
        kill_process(pid, signal).unwrap();
    }

    /// The process of the server.
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("a running server").id()
    }

    /// What the server said on stderr, over all its starts.
    pub fn errors(&self) -> String {
        fs::read_to_string(self.folder().join("stderr")).unwrap()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.running.take().expect("a running server");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, then waits for the end.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.ended().await
    }

    /// Waits for the end of the server.
    pub async fn ended(&mut self) -> ExitStatus {
        let mut child = self.running.take().expect("a running server");
        let until = Instant::now() + DEADLINE;
        tokio::task::spawn_blocking(move || {
            loop {
                if let Some(status) = child.try_wait().unwrap() {
                    return status;
                }
                if Instant::now() > until {
                    drop(child.kill());
                    panic!("the server does not end");
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        })
        .await
        .unwrap()
    }

    /// Checks the folder while no server runs on it: nothing is wrong with it.
    pub fn verify(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gaggle"));
        command.arg("verify").current_dir(self.folder()).env_remove("GAGGLE_CONFIG");
        let ran = command.envs(self.variables.iter().cloned()).output().unwrap();
        let (found, words) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert_eq!((ran.status.code(), &*found), (Some(0), ""), "{words}");
    }

    /// The first invite, at the address where the server is.
    pub fn first_link(&self) -> String {
        let text = fs::read_to_string(self.folder().join("certs/first-invite.txt")).unwrap();
        self.here(text.trim())
    }

    /// A link, whatever address it says, at the address where the server is.
    pub fn here(&self, link: &str) -> String {
        let link: Link = link.parse().unwrap();
        Link { address: self.address().to_string(), ..link }.to_string()
    }

    /// A link for a new user, asked for by an operator's connection.
    pub async fn invite(&self, by: &mut Raw, handle: &str, group: GroupId) -> String {
        link(&by.invite(handle, Some(group)).await, self.address()).to_string()
    }

    /// A new user, invited by an operator's connection.
    pub async fn user(&self, by: &mut Raw, handle: &str, group: GroupId) -> Key {
        let link = self.invite(by, handle, group).await;
        Key::enrol(&link, None).await.unwrap()
    }

    /// Whoever uses the first invite.
    pub async fn operator(&self) -> Key {
        Key::enrol(&self.first_link(), Some("ada")).await.unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("the server said:\n{}", fs::read_to_string(self.folder().join("stderr")).unwrap_or_default());
        }
        if let Some(mut child) = self.running.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
