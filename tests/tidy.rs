//! Holds the layout: which layer may know which, which crate stands where, how a file begins and how long it may be.
//!
//! It reads the sources as text: comments and strings are taken out, `use` trees are spelled out, and what is left is
//! searched for paths. It does not see through a `pub use` or a macro that builds a path from pieces.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets what it does not expect should fail loudly"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What may stand in `src`.
const TOP: &[&str] = &[
    "chance.rs",
    "cli",
    "client",
    "clock.rs",
    "config.rs",
    "core",
    "disk",
    "ids.rs",
    "lib.rs",
    "limits.rs",
    "main.rs",
    "proof",
    "server",
    "store",
    "sync",
    "telemetry.rs",
    "wire",
];

/// Which modules of the crate each may name, besides itself. `lib` and `main` may name all.
const DIRECTION: &[(&str, &[&str])] = &[
    ("ids", &[]),
    ("limits", &["ids"]),
    ("clock", &["proof"]),
    ("chance", &["proof"]),
    ("proof", &["clock"]),
    ("wire", &["ids", "limits"]),
    ("core", &["ids", "limits", "proof"]),
    ("disk", &["ids", "limits", "clock"]),
    ("sync", &[]),
    ("store", &["ids", "limits", "clock", "chance", "disk", "proof", "sync"]),
    ("telemetry", &["ids", "limits", "clock"]),
    ("config", &["ids", "limits", "wire", "core", "telemetry"]),
    (
        "server",
        &["ids", "limits", "clock", "chance", "wire", "core", "disk", "store", "telemetry", "config", "proof", "sync"],
    ),
    ("client", &["ids", "limits", "clock", "chance", "wire", "core", "disk", "proof"]),
    (
        "cli",
        &[
            "ids",
            "limits",
            "clock",
            "wire",
            "core",
            "disk",
            "store",
            "telemetry",
            "config",
            "server",
            "client",
            "proof",
        ],
    ),
];

/// Crates that only some modules may name.
const CRATES: &[(&str, &[&str])] = &[
    ("quinn", &["server", "client"]),
    ("quinn_proto", &["server", "client"]),
    ("sled", &["store"]),
    ("postcard", &["wire", "store", "client"]),
];

/// What `core` must not name: I/O, threads, clocks, chance.
const NOT_IN_CORE: &[&str] = &[
    "tokio",
    "quinn",
    "sled",
    "crossbeam",
    "crossbeam_channel",
    "rand",
    "ring",
    "std::fs",
    "std::net",
    "std::io",
    "std::thread",
    "std::time",
    "std::env",
    "std::process",
];

const LINES_MAX: usize = 500;

/// A source file, by its path below the package.
struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The module of the crate that it belongs to: the first name below `src`.
    fn module(&self) -> String {
        let first = self.path.components().nth(1).unwrap();
        first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
    }

    /// Whether the file holds tests and nothing else.
    fn is_tests(&self) -> bool {
        !self.path.starts_with("src")
            || self.path.components().any(|part| ["tests", "tests.rs"].iter().any(|name| part.as_os_str() == *name))
    }

    /// The lines before the tests at its end.
    fn without_tests(&self) -> &str {
        self.text.find("\n#[cfg(test)]\nmod tests {").map_or(&self.text, |end| &self.text[..end])
    }

    fn paths(&self) -> BTreeSet<String> {
        paths(&code(&self.text))
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.join("src"), root.join("tests"), root.join("benches")];
    folders.retain(|folder| folder.exists());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(root).unwrap().to_owned(), text });
            }
        }
    }
    assert!(found.len() > 20, "the sources are not where they were");
    found
}

fn in_src() -> impl Iterator<Item = Source> {
    sources().into_iter().filter(|source| source.path.starts_with("src"))
}

/// The code without comments, strings and characters.
fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_string(rest) {
            let close = format!("\"{}", "#".repeat(hashes));
            rest.find('"')
                .and_then(|open| Some(open + 1 + rest[open + 1..].find(&close)? + close.len()))
                .unwrap_or(rest.len())
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' && (rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'')) {
            quoted(rest, '\'')
        } else {
            code.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        };
        code.push(' ');
        rest = &rest[skip..];
    }
    code
}

/// How many `#` a raw string begins with, if one begins here.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix('r').or_else(|| text.strip_prefix("br"))?;
    let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
    after[hashes..].starts_with('"').then_some(hashes)
}

/// The bytes of a literal that begins here, quotes included.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (place, character) in text.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            found if found == quote => return place + 1,
            _ => {}
        }
    }
    text.len()
}

/// Every path `a::b::c` in the code, `use` trees spelled out.
fn paths(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut path = String::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let name: usize = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        if name > 0 {
            if !path.ends_with("::") {
                keep(&mut found, &open, &path);
                path.clear();
            }
            path.push_str(&rest[..name]);
            rest = &rest[name..];
        } else if rest.starts_with("::") {
            path.push_str("::");
            rest = &rest[2..];
        } else {
            match first {
                '{' if path.ends_with("::") => open.push(std::mem::take(&mut path)),
                '{' => open.push(String::new()),
                '}' => {
                    keep(&mut found, &open, &path);
                    path.clear();
                    open.pop();
                }
                _ if first.is_whitespace() => {}
                _ => {
                    keep(&mut found, &open, &path);
                    path.clear();
                }
            }
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

fn keep(found: &mut BTreeSet<String>, open: &[String], path: &str) {
    let tree = open.iter().rposition(String::is_empty).map_or(open, |block| &open[block + 1..]);
    let whole = tree.concat() + path;
    if !path.is_empty() && whole.contains("::") {
        found.insert(whole.trim_end_matches("::self").trim_end_matches("::").to_owned());
    }
}

/// Whether the path is this one or lies below it.
fn is_below(path: &str, above: &str) -> bool {
    path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn hold(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn src_holds_the_layers_and_nothing_else() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let names: BTreeSet<String> =
        fs::read_dir(src).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let faults: Vec<_> = names.iter().filter(|name| !TOP.contains(&name.as_str())).cloned().collect();
    hold(&faults);
}

#[test]
fn every_file_begins_by_saying_what_it_is_for() {
    let silent = sources().into_iter().filter(|source| !source.text.starts_with("//! "));
    let faults: Vec<_> = silent.map(|source| format!("{} does not begin with //!", source.path.display())).collect();
    hold(&faults);
}

#[test]
fn no_file_is_too_long_without_its_tests() {
    let lines = |source: &Source| source.without_tests().lines().count();
    let long = sources().into_iter().filter(|source| !source.is_tests() && lines(source) > LINES_MAX);
    hold(&long.map(|source| format!("{}: {} lines", source.path.display(), lines(&source))).collect::<Vec<_>>());
}

#[test]
fn no_layer_names_one_that_it_must_not_know() {
    let mut faults = Vec::new();
    for source in in_src() {
        let module = source.module();
        let Some((_, allowed)) = DIRECTION.iter().find(|(name, _)| *name == module) else { continue };
        for path in source.paths() {
            let Some(inner) = path.strip_prefix("crate::").or_else(|| path.strip_prefix("gaggle::")) else { continue };
            let named = inner.split("::").next().unwrap_or(inner);
            let is_module = DIRECTION.iter().any(|(name, _)| *name == named);
            if is_module && named != module && !allowed.contains(&named) {
                faults.push(format!("{}: {module} must not name {path}", source.path.display()));
            }
        }
    }
    hold(&faults);
}

#[test]
fn every_layer_has_its_place_in_the_direction() {
    let known = |module: &str| DIRECTION.iter().any(|(name, _)| *name == module) || module == "lib" || module == "main";
    hold(
        &TOP.iter().map(|name| name.trim_end_matches(".rs").to_owned()).filter(|name| !known(name)).collect::<Vec<_>>(),
    );
}

#[test]
fn crates_stand_only_where_they_belong() {
    let mut faults = Vec::new();
    for source in in_src() {
        let module = source.module();
        for path in source.paths() {
            for (name, places) in CRATES {
                if is_below(&path, name) && !places.contains(&module.as_str()) {
                    faults.push(format!("{}: {path} belongs in {places:?}", source.path.display()));
                }
            }
        }
    }
    hold(&faults);
}

#[test]
fn core_has_no_io_no_threads_no_clock_and_no_chance() {
    let mut faults = Vec::new();
    for source in in_src().filter(|source| source.module() == "core") {
        let code = code(&source.text);
        for path in paths(&code) {
            if NOT_IN_CORE.iter().any(|word| is_below(&path, word)) {
                faults.push(format!("{}: {path}", source.path.display()));
            }
        }
        for word in [".await", "async ", "Instant::now", "SystemTime", "SystemRandom", "HashMap::new", "HashSet::new"] {
            if code.contains(word) {
                faults.push(format!("{}: {word}", source.path.display()));
            }
        }
    }
    hold(&faults);
}

/// Scenario 39: no client says what time it is, so its clock orders nothing.
#[test]
fn client_and_wire_ask_for_no_time_of_day() {
    let mut faults = Vec::new();
    for source in in_src().filter(|source| ["client", "wire"].contains(&source.module().as_str())) {
        let asks = |path: &String| path.ends_with("clock::now_ms") || path.contains("SystemTime");
        faults.extend(
            source.paths().iter().filter(|path| asks(path)).map(|path| format!("{}: {path}", source.path.display())),
        );
    }
    hold(&faults);
}

#[test]
fn no_test_is_switched_off_and_nothing_is_left_to_do() {
    let mut faults = Vec::new();
    let words = ["#[ignore", "#[should_panic", "unimplemented!", concat!("TO", "DO"), concat!("FIX", "ME")];
    for source in sources().into_iter().filter(|source| !source.path.ends_with("tidy.rs")) {
        let found = words.iter().filter(|word| source.text.contains(*word));
        faults.extend(found.map(|word| format!("{}: {word}", source.path.display())));
    }
    hold(&faults);
}

#[test]
fn paths_are_found_in_use_trees_and_in_code_but_not_in_words() {
    let text = r#"
        //! [`sled::Db`]
        use std::{fmt, fs::{self, File}};
        use crate::store::{tree::Tree, engine};
        use sled::*;
        fn f() { let x = "quinn::no"; let c = '"'; quinn::Endpoint::new(x, tokio :: spawn); let l: &'a str = r"rand::no"; }
        mod m { use crate::wire::code; }
    "#;
    let found = paths(&code(text));
    let expected = [
        "std::fmt",
        "std::fs",
        "std::fs::File",
        "crate::store::tree::Tree",
        "crate::store::engine",
        "crate::wire::code",
        "quinn::Endpoint::new",
        "sled",
        "tokio::spawn",
    ];
    assert_eq!(found, expected.iter().map(|path| (*path).to_owned()).collect());
}
