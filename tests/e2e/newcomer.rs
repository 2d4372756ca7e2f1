//! The README, followed to the letter: its commands are run as they stand, and what they print is what it shows.
//!
//! A block ```` ```console NAME ```` is a terminal of that name. Lines that begin with `$ ` are typed into it, the others
//! must appear on it, and `^C` is Ctrl-C. A block without a command goes on watching what runs there. `gaggle` and
//! `cargo run` are the tested program. Ids and msgids must be the same as in the README; times, links, pins, ports and
//! the home folder may differ.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::terminal::Terminal;

const README: &str = include_str!("../../README.md");
const CTRL_C: &str = "^C";
const INSIDE: &str = "GAGGLE_TEST_OWN_NETWORK";
const TEST: &str = "newcomer::every_command_of_the_readme_does_what_it_shows";

/// A newcomer's first quarter of an hour.
#[test]
fn every_command_of_the_readme_does_what_it_shows() {
    if env::var_os(INSIDE).is_some() {
        follow(None);
    } else if !own_network() {
        eprintln!("this machine gives no network namespace: following the README on another port than its own");
        follow(Some("[::]:0"));
    }
}

#[test]
fn the_readme_shows_every_command() {
    let help = Command::new(env!("CARGO_BIN_EXE_gaggle")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    for line in listed {
        let name = line.split_whitespace().next().unwrap();
        assert!(name == "help" || README.contains(&format!("gaggle {name}")), "gaggle {name} is not in the README");
    }
}

/// Runs this test again where nobody else has a port; false where the system does not let us.
fn own_network() -> bool {
    let this = env::current_exe().unwrap();
    for namespace in ["-n", "-rn"] {
        let can = Command::new("unshare").args([namespace, "ip", "link", "set", "lo", "up"]).output();
        if !can.is_ok_and(|tried| tried.status.success()) {
            continue;
        }
        let inner = Command::new("unshare")
            .args([namespace, "sh", "-c", "ip link set lo up && exec \"$0\" --exact \"$1\" --nocapture"])
            .arg(&this)
            .arg(TEST)
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let (told, said) = (String::from_utf8_lossy(&inner.stdout), String::from_utf8_lossy(&inner.stderr));
        assert!(inner.status.success(), "in a network of its own:\n{told}{said}");
        assert!(told.contains("1 passed"), "the test did not run again:\n{told}");
        return true;
    }
    false
}

fn follow(listen: Option<&str>) {
    let place = tempfile::tempdir().unwrap();
    let (home, tools, copy) = (place.path().join("home"), place.path().join("tools"), place.path().join("gaggle"));
    for folder in [&home, &tools, &copy] {
        fs::create_dir(folder).unwrap();
    }
    fs::write(copy.join("README.md"), README).unwrap();
    fs::write(copy.join("Cargo.toml"), include_str!("../../Cargo.toml")).unwrap();
    make_tools(&tools);
    let path = format!("{}:{}", tools.display(), env::var("PATH").unwrap());
    let mut variables = vec![("HOME", home.display().to_string()), ("PATH", path)];
    variables.extend(listen.map(|listen| ("GAGGLE_LISTEN", listen.to_owned())));

    let mut terminals: BTreeMap<&str, Terminal> = BTreeMap::new();
    let mut links = Links::default();
    let blocks = blocks(README);
    assert!(blocks.len() >= 4, "the README has lost its commands");
    for Block { terminal: name, steps } in blocks {
        let terminal = terminals.entry(name).or_insert_with(|| Terminal::open(&copy, &variables));
        for Step { command, shown } in steps {
            let what =
                command.map_or_else(|| format!("what goes on in {name}"), |command| format!("{name} $ {command}"));
            let (actual, code) = run(terminal, command.map(|command| links.fill_in(command)), &shown);
            links.learn(&shown, &actual);
            let plain = |lines: &[String]| lines.iter().map(|line| normal(line, &home)).collect::<Vec<_>>().join("\n");
            let expected: Vec<String> = shown.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(plain(&actual), plain(&expected), "{what} (printed, then the README)\n{}", actual.join("\n"));
            assert!(matches!(code, None | Some(0)), "{what} ended with {code:?}");
        }
    }
}

/// Runs a command to its end, or as far as the README shows where it goes on.
fn run(terminal: &mut Terminal, command: Option<String>, shown: &[&str]) -> (Vec<String>, Option<i32>) {
    let Some(command) = command else {
        let interrupts = shown.last() == Some(&CTRL_C);
        let mut lines = terminal.lines(shown.len() - usize::from(interrupts));
        if interrupts {
            terminal.interrupt();
            let (last, code) = terminal.end();
            lines.extend(last);
            lines.push(CTRL_C.to_owned());
            return (lines, Some(code));
        }
        return (lines, None);
    };
    terminal.enter(&command);
    let goes_on = command.ends_with(" serve") || (command.contains("gaggle tail") && !command.contains("--count"));
    if goes_on {
        return (terminal.lines(shown.len()), None);
    }
    let (lines, code) = terminal.end();
    (lines, Some(code))
}

/// `gaggle` and `cargo` as the newcomer has them, without building for minutes.
fn make_tools(folder: &Path) {
    let gaggle = env!("CARGO_BIN_EXE_gaggle");
    std::os::unix::fs::symlink(gaggle, folder.join("gaggle")).unwrap();
    let cargo = format!(
        "#!/bin/sh\ntest -f Cargo.toml || exit 101\ncase \"$*\" in\n\
         'run --release -- '*) shift 3; exec '{gaggle}' \"$@\";;\n'install --path .') ;;\n*) exit 101;;\nesac\n"
    );
    fs::write(folder.join("cargo"), cargo).unwrap();
    fs::set_permissions(folder.join("cargo"), fs::Permissions::from_mode(0o755)).unwrap();
}

struct Block<'a> {
    terminal: &'a str,
    steps: Vec<Step<'a>>,
}

struct Step<'a> {
    command: Option<&'a str>,
    shown: Vec<&'a str>,
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            let begins = !inside && language.starts_with("console");
            inside = begins;
            if begins {
                let terminal = language.trim_start_matches("console").trim();
                blocks.push(Block { terminal, steps: Vec::new() });
            }
            continue;
        }
        let Some(block) = blocks.last_mut().filter(|_| inside) else { continue };
        match (line.strip_prefix("$ "), block.steps.last_mut()) {
            (Some(command), _) => block.steps.push(Step { command: Some(command), shown: Vec::new() }),
            (None, Some(step)) => step.shown.push(line),
            (None, None) => block.steps.push(Step { command: None, shown: vec![line] }),
        }
    }
    blocks
}

/// The links of the README and what they are here.
#[derive(Default)]
struct Links(BTreeMap<String, String>);

impl Links {
    fn learn(&mut self, shown: &[&str], actual: &[String]) {
        for (shown, actual) in shown.iter().zip(actual) {
            if let (Some(theirs), Some(ours)) = (link(shown), link(actual)) {
                self.0.insert(theirs.to_owned(), ours.to_owned());
            }
        }
    }

    fn fill_in(&self, command: &str) -> String {
        match link(command) {
            Some(shown) => {
                let ours = self.0.get(shown).unwrap_or_else(|| panic!("the README shows {shown} before it was made"));
                command.replace(shown, ours)
            }
            None => command.to_owned(),
        }
    }
}

fn link(line: &str) -> Option<&str> {
    let from = line.find("gaggle://")?;
    let rest = &line[from..];
    Some(&rest[..rest.find(['"', ' ']).unwrap_or(rest.len())])
}

/// A line without what differs each time.
fn normal(line: &str, home: &Path) -> String {
    let line = line.replace(&home.display().to_string(), "/home/you");
    let line = match link(&line) {
        Some(link) => line.replace(link, "LINK"),
        None => line,
    };
    let word = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | ':');
    let mut out = String::new();
    let mut rest = line.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|character| !word(character)).unwrap_or(rest.len());
        if end == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        out.push_str(&normal_word(&rest[..end]));
        rest = &rest[end..];
    }
    out
}

fn normal_word(word: &str) -> String {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let shape: String =
        word.chars().map(|character| if character.is_ascii_digit() { '0' } else { character }).collect();
    match word.rsplit_once(':') {
        _ if word.len() == 43 => "PIN".to_owned(),
        _ if shape == "00:00" => "TIME".to_owned(),
        _ if shape == "0000-00-00" => "DAY".to_owned(),
        Some((name, number)) if digits(number) && number.len() == 13 => format!("{name}:MS"),
        Some((host, port)) if digits(port) && port.len() >= 4 => format!("{host}:PORT"),
        _ => word.to_owned(),
    }
}

#[test]
fn what_differs_each_time_does_not_count() {
    let home = Path::new("/tmp/x/home");
    let one = normal(
        "2 12:04 bob: on [::]:4433 in /tmp/x/home/a \"gaggle://localhost:1/#a.b\" 2026-01-01 \"time_ms\":1796040301532",
        home,
    );
    let two = normal(
        "2 23:59 bob: on [::]:45001 in /home/you/a \"gaggle://other:22/#c-d.e_f\" 2027-12-31 \"time_ms\":1796040301533",
        home,
    );
    assert_eq!(one, two);
    assert_ne!(normal("2 12:04 bob: hi", home), normal("3 12:04 bob: hi", home));
    assert_ne!(normal("\"msgid\":3", home), normal("\"msgid\":4", home));
    assert_ne!(normal("12:04 bob: hi", home), normal("12:04 alice: hi", home));
}
