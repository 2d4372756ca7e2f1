//! A terminal as a person has one: a shell whose output is a pseudo-terminal, and what stood on it.
//!
//! Only for commands that read nothing from the terminal. The shell tells the end of a command by a marker that no
//! output of ours contains.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};

const MARKER: char = '\u{1e}';
/// Nothing here takes so long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Terminal {
    shell: Child,
    screen: Arc<(Mutex<String>, Condvar)>,
    /// How much of the screen was looked at.
    seen: usize,
    /// Whether a command is still running.
    pub(crate) busy: bool,
}

impl Terminal {
    pub(crate) fn open(folder: &Path, variables: &[(&str, String)]) -> Terminal {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap();
        let other = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let mut modes = tcgetattr(&other).unwrap();
        modes.output_modes.remove(OutputModes::ONLCR);
        tcsetattr(&other, OptionalActions::Now, &modes).unwrap();

        let shell = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(folder)
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(other.try_clone().unwrap())
            .stderr(other)
            .process_group(0)
            .spawn()
            .unwrap();
        let screen = Arc::new((Mutex::new(String::new()), Condvar::new()));
        let shown = Arc::clone(&screen);
        std::thread::spawn(move || read(File::from(main), &shown));
        Terminal { shell, screen, seen: 0, busy: false }
    }

    /// Types a command.
    pub(crate) fn enter(&mut self, command: &str) {
        assert!(!self.busy, "another command is still running");
        let line = format!("{command}\nprintf '\\036%d\\036\\n' $?\n");
        self.shell.stdin.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
        self.busy = true;
    }

    /// Waits for the end of the command. Its lines, and its exit code.
    pub(crate) fn end(&mut self) -> (Vec<String>, i32) {
        let text = self.wait(|new| new.matches(MARKER).count() >= 2);
        let mut parts = text.splitn(3, MARKER);
        let lines = parts.next().unwrap().lines().map(str::to_owned).collect();
        let code = parts.next().unwrap().parse().unwrap();
        self.seen += text.find(MARKER).unwrap();
        self.seen += text[text.find(MARKER).unwrap()..].find('\n').unwrap() + 1;
        self.busy = false;
        (lines, code)
    }

    /// Waits for this many lines of a command that goes on.
    pub(crate) fn lines(&mut self, count: usize) -> Vec<String> {
        let text = self.wait(|new| new.matches('\n').count() >= count || new.contains(MARKER));
        let lines: Vec<String> = text.split_inclusive('\n').take(count).map(str::to_owned).collect();
        self.seen += lines.iter().map(String::len).sum::<usize>();
        lines.iter().map(|line| line.trim_end_matches('\n').to_owned()).collect()
    }

    /// Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let shell = self.shell.id();
        let sent = Command::new("pkill").args(["-INT", "-P", &shell.to_string()]).status().unwrap();
        assert!(sent.success(), "nothing to interrupt");
    }

    fn wait(&self, enough: impl Fn(&str) -> bool) -> String {
        let (screen, changed) = &*self.screen;
        let guard = screen.lock().unwrap();
        let wait = changed.wait_timeout_while(guard, PATIENCE, |text| !enough(&text[self.seen..]));
        let (text, waited) = wait.unwrap();
        assert!(!waited.timed_out(), "not seen within {PATIENCE:?}; on the terminal:\n{}", &text[self.seen..]);
        text[self.seen..].to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The whole group: the shell and what it still runs.
        let group = format!("-{}", self.shell.id());
        Command::new("kill").args(["-KILL", "--", &group]).status().unwrap();
        self.shell.wait().unwrap();
    }
}

fn read(mut main: File, screen: &(Mutex<String>, Condvar)) {
    let mut bytes = [0; 4096];
    let mut all = Vec::new();
    loop {
        match main.read(&mut bytes) {
            Ok(0) => return,
            Ok(count) => all.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            // The last one who had the other side open has gone.
            Err(_) => return,
        }
        *screen.0.lock().unwrap() = String::from_utf8_lossy(&all).into_owned();
        screen.1.notify_all();
    }
}
