//! What is fuzzed, by name: used by the fuzzer and by `tests/corpora.rs`, so that both run the same code.
//!
//! A target takes bytes that may be anything, and panics where a claim is broken. Those that need what is private in
//! the crate stand beside it, in modules named `fuzzed`.

use std::path::Path;

use gaggle::config::{Config, OtherKey, ServeFlags};
use gaggle::disk::Disk as _;
use gaggle::disk::simulated::SimulatedDisk;
use gaggle::limits;
use gaggle::server::{identity, operator};
use gaggle::{client, server, store, wire};

/// Something that is fuzzed.
pub(crate) struct Target {
    /// Its name, which is that of its folders in `corpus` and `findings`.
    pub(crate) name: &'static str,
    /// Holds its claims against these bytes.
    pub(crate) run: fn(&[u8]),
}

/// All of them.
pub(crate) const ALL: &[Target] = &[
    Target { name: "frames", run: wire::fuzzed::frames },
    Target { name: "bodies", run: wire::fuzzed::bodies },
    Target { name: "items", run: wire::fuzzed::items },
    Target { name: "link", run: wire::fuzzed::link },
    Target { name: "record", run: store::fuzzed::record },
    Target { name: "key", run: store::fuzzed::key },
    Target { name: "rows", run: server::fuzzed::rows },
    Target { name: "log-frame", run: store::fuzzed::log_frame },
    Target { name: "log-segments", run: store::fuzzed::log_segments },
    Target { name: "log-folder", run: store::fuzzed::log_folder },
    Target { name: "format", run: store::fuzzed::format },
    Target { name: "flushed", run: store::fuzzed::flushed },
    Target { name: "sled-files", run: store::fuzzed::sled_files },
    Target { name: "journal", run: client::fuzzed::journal },
    Target { name: "inbox", run: client::fuzzed::inbox },
    Target { name: "outbox", run: client::fuzzed::outbox },
    Target { name: "profile", run: client::fuzzed::profile },
    Target { name: "certs", run: certs },
    Target { name: "config", run: config },
];

/// The record of the server's pin, or the file of a key; the first byte says which. Nothing is made in the place of what
/// cannot be read.
fn certs(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let names = [identity::PIN_FILE, identity::KEY_FILE, operator::KEY_FILE];
    let Some(name) = names.into_iter().cycle().nth(usize::from(*which)) else { return };
    let (disk, folder) = (SimulatedDisk::new(), Path::new("/certs"));
    let path = folder.join(name);
    let written = disk.create_folder(folder).and_then(|()| disk.create(&path)?.write_at(0, bytes));
    assert!(written.is_ok());
    let told = match name {
        identity::PIN_FILE => identity::recorded_pin(&disk, &path).and_then(|pin| match pin {
            Some(pin) => identity::check_recorded(&disk, &path, Path::new("key"), pin, OtherKey::Refuse),
            None => Ok(()),
        }),
        identity::KEY_FILE => {
            let record = folder.join(identity::PIN_FILE);
            identity::Identity::load_or_create(&disk, folder, &record, OtherKey::Refuse).map(drop)
        }
        _ => operator::load_or_create(&disk, folder).map(drop),
    };
    if let Err(error) = told {
        assert!(error.to_string().contains(name), "{error}");
    }
    let mut now = vec![0; bytes.len()];
    let read = disk.open(&path).and_then(|file| file.read_at(0, &mut now).and(file.len()));
    assert!(read.is_ok_and(|length| length == bytes.len() as u64) && now == bytes, "what is there is left alone");
}

/// The settings file: a typed error that names it, or values that are all possible ones.
fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::resolve(&ServeFlags::default(), Some((Path::new("dir/gaggle.toml"), text))) {
        Ok(config) => {
            assert!(config.idle_ms >= 3 * limits::KEEP_ALIVE_MS && config.data != config.certs);
            assert!(config.members.sends.amount > 0 && config.members.bytes.amount >= limits::ITEM_BYTES_MAX as u64);
            if let Some(advertise) = config.advertise {
                assert!(wire::link::is_address(&advertise.to_string()));
            }
        }
        Err(error) => {
            let told = error.to_string();
            assert!(told.contains("gaggle.toml") || told.contains("--"), "{told}");
        }
    }
}
