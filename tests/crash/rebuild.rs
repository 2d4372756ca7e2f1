//! The real program on a folder that was damaged: it comes up with everything and says why it takes a while, or it says
//! what is wrong and touches nothing; and `gaggle rebuild`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use gaggle::ids::GroupId;

use crate::folder::files;
use crate::harness::raw_group;
use crate::process::Home;
use crate::raw::{Key, soon};
use crate::window::{Ledger, Window, check};

/// A server that has answered some sends, and whoever made them.
struct Used {
    home: Home,
    ada: Key,
    group: GroupId,
    answered: BTreeMap<(GroupId, String), u64>,
}

impl Used {
    async fn new() -> Used {
        let mut home = Home::new();
        home.start().await;
        let ada = home.operator().await;
        let group = raw_group(&mut ada.call(home.address()).await, "team", 0).await;
        let ledger = Ledger::new();
        let (server, mut window) = (home.address(), Window::new(ada.clone(), group, ledger.clone()));
        let load = tokio::spawn(async move {
            let mut raw = window.connect(server).await;
            while window.step(&mut raw).await.is_some() {}
        });
        ledger.reaches(200).await;
        assert_eq!(home.terminate().await.code(), Some(0), "{}", home.errors());
        soon("the end of the load", load).await.unwrap();
        let answered = ledger.snapshot();
        Used { home, ada, group, answered }
    }

    /// Starts the server, holds it to everything that was answered, and stops it.
    async fn has_everything(&mut self) {
        self.home.start().await;
        let items = self.ada.call(self.home.address()).await.browse(self.group, 0).await;
        check(self.group, &items, &self.answered);
        assert_eq!(self.home.terminate().await.code(), Some(0), "{}", self.home.errors());
    }

    /// Runs another command beside it.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gaggle"));
        command.args(words).current_dir(self.home.folder()).env_remove("GAGGLE_CONFIG").stdin(Stdio::null());
        command.output().unwrap()
    }
}

/// The metadata of the index, in which each of its files is named.
fn metadata(used: &Used) -> PathBuf {
    let folder = used.home.data().join("index/metadata");
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[tokio::test]
async fn a_server_whose_index_was_damaged_says_so_rebuilds_it_and_has_everything() {
    let mut used = Used::new().await;
    used.has_everything().await;
    assert!(!used.home.errors().contains("rebuild"), "{}", used.home.errors());

    let path = metadata(&used);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    used.has_everything().await;
    let said = used.home.errors();
    assert!(said.contains("rebuilding the index from the log, which has everything: "), "{said}");
    assert!(said.contains("the index is rebuilt: "), "{said}");

    fs::remove_dir_all(used.home.data().join("index")).unwrap();
    used.has_everything().await;
    let said = used.home.errors();
    assert_eq!(said.matches("rebuilding the index from the log").count(), 2, "{said}");
    assert!(said.contains("it is missing"), "{said}");
    assert!(!used.home.data().join("index.old").exists());
}

#[tokio::test]
async fn a_damaged_log_is_told_by_name_by_serve_and_by_rebuild_and_neither_touches_anything() {
    let used = Used::new().await;
    let log = used.home.data().join("log/00000001.log");
    let mut bytes = fs::read(&log).unwrap();
    bytes[400] ^= 1;
    fs::write(&log, bytes).unwrap();
    let before = files(&used.home.data());
    for words in [&["serve", "--listen", "127.0.0.1:0"][..], &["rebuild"]] {
        let ended = used.run(words);
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("00000001.log is damaged: ") && said.contains("restore it from a backup"), "{said}");
        let without_lock = |mut files: BTreeMap<PathBuf, Vec<u8>>| {
            files.remove(Path::new("LOCK"));
            files
        };
        assert!(without_lock(before.clone()) == without_lock(files(&used.home.data())), "{words:?}");
    }
}

#[tokio::test]
async fn rebuild_makes_the_index_of_a_stopped_server_anew_and_refuses_one_that_runs_or_is_none() {
    let mut used = Used::new().await;
    let ended = used.run(&["rebuild", "--json"]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("it was asked for"), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let items = u64::try_from(used.answered.len()).unwrap();
    assert!(told["messages"].as_u64().unwrap() >= items && told["frames"].as_u64().unwrap() > 2, "{told}");
    assert!(!used.home.data().join("index.old").exists());
    used.has_everything().await;
    assert!(!used.home.errors().contains("rebuilding"), "the start after it has nothing to do");

    let ended = used.run(&["rebuild", "--data", "elsewhere"]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(String::from_utf8(ended.stderr).unwrap().contains("elsewhere is no data folder"));
    assert!(!used.home.folder().join("elsewhere").exists());

    used.home.start().await;
    let ended = used.run(&["rebuild"]);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(said.contains("is in use by process") && said.contains(&used.home.pid().to_string()), "{said}");
}
