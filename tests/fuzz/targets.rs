//! What is fuzzed, by name: used by the fuzzer and by `tests/corpora.rs`, so that both run the same code.
//!
//! A target takes bytes that may be anything, and panics where a claim is broken. Those that need what is private in
//! the crate stand beside it, in modules named `fuzzed`.

use std::path::Path;

use gaggle::config::{Config, ServeFlags};
use gaggle::limits;
use gaggle::{client, store, wire};

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
    Target { name: "config", run: config },
];

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
