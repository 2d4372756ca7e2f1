//! What `gaggle serve` is told: file, environment and flags made into one validated [`Config`].
//!
//! A flag wins over the environment, which wins over the file, which wins over the default. Nothing is guessed: an
//! unknown key, a value out of range or a file that cannot be read ends the start with a sentence that names it. Inside
//! the program only a `Config` exists, whose values are all possible ones.
//!
//! The file is TOML, `gaggle.toml` in the working folder unless told otherwise; folders named in it are meant from where
//! the file stands.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use crate::core::authorise::{Rights, Who};
use crate::core::retention::{DAY_MS, Keeping, Retention};
use crate::core::state::{Rate, Settings};
use crate::limits;
use crate::telemetry::LogFormat;

/// The file that is read where none is named; it need not exist.
pub const FILE_DEFAULT: &str = "gaggle.toml";
/// The port where none is named.
pub const PORT_DEFAULT: u16 = 4433;
const DATA_DEFAULT: &str = "data";
const CERTS_DEFAULT: &str = "certs";
/// Longest host name there is, in bytes.
const HOST_BYTES_MAX: usize = 253;

/// The flags of `gaggle serve` as they were given; none: not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeFlags {
    /// `--listen`, also `GAGGLE_LISTEN`.
    pub listen: Option<String>,
    /// `--data`, also `GAGGLE_DATA`.
    pub data: Option<PathBuf>,
    /// `--certs`, also `GAGGLE_CERTS`.
    pub certs: Option<PathBuf>,
    /// `--advertise`, also `GAGGLE_ADVERTISE`.
    pub advertise: Option<String>,
    /// `--cache-mb`, also `GAGGLE_CACHE_MB`.
    pub cache_mb: Option<String>,
    /// `--new-pin`: a decision of the moment, never of a file or the environment.
    pub new_pin: bool,
    /// `--config`, also `GAGGLE_CONFIG`: the settings file, which then must exist.
    pub config: Option<PathBuf>,
    /// `--log-format`, also `GAGGLE_LOG_FORMAT`.
    pub log_format: Option<String>,
    /// `--create-groups`, also `GAGGLE_CREATE_GROUPS`.
    pub create_groups: Option<String>,
    /// `--add-members`, also `GAGGLE_ADD_MEMBERS`.
    pub add_members: Option<String>,
}

impl ServeFlags {
    /// Fills in from the environment what no flag says. An empty variable counts as none.
    #[must_use]
    pub fn or_environment(self, variable: impl Fn(&str) -> Option<String>) -> ServeFlags {
        let text = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str| text(name).map(PathBuf::from);
        ServeFlags {
            listen: self.listen.or_else(|| text("GAGGLE_LISTEN")),
            data: self.data.or_else(|| path("GAGGLE_DATA")),
            certs: self.certs.or_else(|| path("GAGGLE_CERTS")),
            advertise: self.advertise.or_else(|| text("GAGGLE_ADVERTISE")),
            cache_mb: self.cache_mb.or_else(|| text("GAGGLE_CACHE_MB")),
            new_pin: self.new_pin,
            config: self.config.or_else(|| path("GAGGLE_CONFIG")),
            log_format: self.log_format.or_else(|| text("GAGGLE_LOG_FORMAT")),
            create_groups: self.create_groups.or_else(|| text("GAGGLE_CREATE_GROUPS")),
            add_members: self.add_members.or_else(|| text("GAGGLE_ADD_MEMBERS")),
        }
    }
}

/// What to do with a server key that clients do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OtherKey {
    /// End the start: it is mostly a mistake.
    #[default]
    Refuse,
    /// Record its pin in place of the old one.
    Accept,
}

/// How a server shall run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Address and port to listen on; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Folder of the store.
    pub data: PathBuf,
    /// Folder of the keys.
    pub certs: PathBuf,
    /// What links say; none: localhost and the port bound.
    pub advertise: Option<Advertise>,
    /// Memory of the index's cache, in bytes.
    pub cache_bytes: usize,
    /// What to do with another server key than the recorded one.
    pub other_key: OtherKey,
    /// What members may do, and how much of it.
    pub members: Settings,
    /// A connection on which nothing comes for this long is given up, in ms.
    pub idle_ms: u64,
    /// How log lines look.
    pub log_format: LogFormat,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            listen: SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED), PORT_DEFAULT),
            data: PathBuf::from(DATA_DEFAULT),
            certs: PathBuf::from(CERTS_DEFAULT),
            advertise: None,
            cache_bytes: mib(limits::INDEX_CACHE_MIB_DEFAULT),
            other_key: OtherKey::Refuse,
            members: Settings::default(),
            idle_ms: limits::IDLE_MS_MAX,
            log_format: LogFormat::Human,
        }
    }
}

/// `host:port` as invite links say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advertise(String);

impl fmt::Display for Advertise {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FromStr for Advertise {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Advertise, &'static str> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return match (address.port(), address.ip().is_unspecified()) {
                (0, _) => Err("port 0 reaches nobody"),
                (_, true) => Err("this address means \"any\", clients need one to go to"),
                _ => Ok(Advertise(text.to_owned())),
            };
        }
        let (host, port) = text.rsplit_once(':').ok_or("it is not of the form host:port")?;
        let label = |label: &str| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        };
        let numeric = host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        if host.len() > HOST_BYTES_MAX || numeric || !host.split('.').all(label) {
            return Err("the host is not a DNS name, an IPv4 address, or an IPv6 address in brackets");
        }
        let plain = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse::<u16>() {
            Ok(port) if plain && port > 0 => Ok(Advertise(format!("{}:{port}", host.to_ascii_lowercase()))),
            _ => Err("the port is not a number from 1 to 65535"),
        }
    }
}

/// Why there is no [`Config`].
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The settings file cannot be read.
    #[error("failed to read settings file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The settings file is not what it should be.
    #[error("settings file {}, line {line}: {message}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What is wrong; names the key.
        message: String,
    },
    /// A value that cannot be.
    #[error("{origin} is {value:?}: {reason}")]
    Value {
        /// Flag, or key and file.
        origin: String,
        /// What was given.
        value: String,
        /// Why not.
        reason: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSettings {
    listen: Option<String>,
    data: Option<PathBuf>,
    certs: Option<PathBuf>,
    advertise: Option<String>,
    cache_mb: Option<u32>,
    #[serde(default)]
    limits: FileLimits,
    #[serde(default)]
    groups: FileGroups,
    #[serde(default)]
    retention: FileRetention,
    #[serde(default)]
    log: FileLog,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLimits {
    sends_per_second: Option<u64>,
    send_bytes_per_day: Option<u64>,
    groups_per_day: Option<u64>,
    additions_per_day: Option<u64>,
    edit_hours: Option<u64>,
    recall_hours: Option<u64>,
    idle_s: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileGroups {
    create: Option<String>,
    add: Option<String>,
}

/// What groups keep that say nothing of it; what is not given removes nothing.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRetention {
    age_days: Option<u64>,
    count: Option<u64>,
    bytes: Option<u64>,
    acked_days: Option<u64>,
    unseen_days: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileLog {
    format: Option<String>,
}

impl Config {
    /// Reads the settings file and makes one configuration of it and the flags.
    ///
    /// # Errors
    /// Where a named file is missing, or any value is not possible.
    pub fn load(flags: &ServeFlags) -> Result<Config, ConfigError> {
        let path = flags.config.clone().unwrap_or_else(|| PathBuf::from(FILE_DEFAULT));
        match std::fs::read_to_string(&path) {
            Ok(text) => Config::resolve(flags, Some((&path, &text))),
            Err(source) if source.kind() == io::ErrorKind::NotFound && flags.config.is_none() => {
                Config::resolve(flags, None)
            }
            Err(source) => Err(ConfigError::Read { path, source }),
        }
    }

    /// Makes one configuration of flags and the text of a settings file.
    ///
    /// # Errors
    /// Where any value is not possible.
    pub fn resolve(flags: &ServeFlags, file: Option<(&Path, &str)>) -> Result<Config, ConfigError> {
        let (path, settings) = match file {
            Some((path, text)) => (path, parse(path, text)?),
            None => (Path::new(FILE_DEFAULT), FileSettings::default()),
        };
        let pick = |flag: &Option<String>, name: &str, key: &str, value: Option<String>| match flag {
            Some(flag) => Some((name.to_owned(), flag.clone())),
            None => value.map(|value| (format!("{key} in {}", path.display()), value)),
        };
        let folder = |flag: &Option<PathBuf>, value: Option<PathBuf>, default: &str| {
            let near = path.parent().unwrap_or(Path::new(""));
            flag.clone().or_else(|| value.map(|value| near.join(value))).unwrap_or_else(|| PathBuf::from(default))
        };

        let data = folder(&flags.data, settings.data, DATA_DEFAULT);
        let certs = folder(&flags.certs, settings.certs, CERTS_DEFAULT);
        not_empty("--data", &data)?;
        not_empty("--certs", &certs)?;
        if data == certs {
            let reason = "keys and data need folders of their own, --certs names the same one".to_owned();
            return Err(ConfigError::Value { origin: "--data".to_owned(), value: data.display().to_string(), reason });
        }
        let listen = pick(&flags.listen, "--listen", "listen", settings.listen);
        let advertise = pick(&flags.advertise, "--advertise", "advertise", settings.advertise);
        let cache_mb = settings.cache_mb.map(|mib| mib.to_string());
        let cache = pick(&flags.cache_mb, "--cache-mb", "cache_mb", cache_mb);
        let create = pick(&flags.create_groups, "--create-groups", "groups.create", settings.groups.create);
        let add = pick(&flags.add_members, "--add-members", "groups.add", settings.groups.add);
        let format = pick(&flags.log_format, "--log-format", "log.format", settings.log.format);
        Ok(Config {
            listen: value(listen, listen_address)?.unwrap_or(Config::default().listen),
            data,
            certs,
            advertise: value(advertise, |text| text.parse())?,
            cache_bytes: value(cache, cache_bytes)?.unwrap_or(Config::default().cache_bytes),
            other_key: if flags.new_pin { OtherKey::Accept } else { OtherKey::Refuse },
            members: Settings {
                keeping: keeping(path, &settings.retention)?,
                ..members(path, &settings.limits, rights(create, add)?)?
            },
            idle_ms: idle_ms(path, &settings.limits)?,
            log_format: value(format, log_format)?.unwrap_or_default(),
        })
    }
}

fn parse(path: &Path, text: &str) -> Result<FileSettings, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let until = error.span().map_or(0, |span| span.start);
        let line = 1 + text.bytes().take(until).filter(|byte| *byte == b'\n').count();
        ConfigError::File { path: path.to_owned(), line, message: error.message().replace('\n', " ") }
    })
}

/// Turns a text into a value, with its origin in the error.
fn value<T>(given: Given, read: impl Fn(&str) -> Result<T, &'static str>) -> Result<Option<T>, ConfigError> {
    let Some((origin, text)) = given else { return Ok(None) };
    match read(&text) {
        Ok(value) => Ok(Some(value)),
        Err(reason) => Err(ConfigError::Value { origin, value: text, reason: reason.to_owned() }),
    }
}

/// `:443` is short for `[::]:443`.
fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    let any = text.strip_prefix(':').map(|port| format!("[::]:{port}"));
    let problem = "it is not an address and port, such as [::]:4433, 127.0.0.1:4433 or :443";
    any.as_deref().unwrap_or(text).parse().map_err(|_| problem)
}

fn mib(mib: u32) -> usize {
    usize::try_from(mib).unwrap_or(usize::MAX).saturating_mul(1024 * 1024)
}

fn cache_bytes(text: &str) -> Result<usize, &'static str> {
    let possible = limits::INDEX_CACHE_MIB_MIN..=limits::INDEX_CACHE_MIB_MAX;
    let given = text.parse().ok().filter(|mib| possible.contains(mib));
    given.map(mib).ok_or("it is not a number of MiB from 8 to 65536")
}

fn log_format(text: &str) -> Result<LogFormat, &'static str> {
    match text {
        "human" => Ok(LogFormat::Human),
        "json" => Ok(LogFormat::Json),
        _ => Err("it is neither human nor json"),
    }
}

fn not_empty(origin: &str, folder: &Path) -> Result<(), ConfigError> {
    if folder.as_os_str().is_empty() {
        let reason = "a folder needs a name; . is the working folder".to_owned();
        return Err(ConfigError::Value { origin: origin.to_owned(), value: String::new(), reason });
    }
    Ok(())
}

fn everyone_or_operators(text: &str) -> Result<Who, &'static str> {
    match text {
        "everyone" => Ok(Who::Everyone),
        "operators" => Ok(Who::Operators),
        _ => Err("it is neither everyone nor operators"),
    }
}

const HOUR_MS: u64 = 3_600 * 1_000;
/// A hundred years.
const HOURS_MAX: u64 = 100 * 365 * 24;

/// A text, with where it was given.
type Given = Option<(String, String)>;

fn rights(create: Given, add: Given) -> Result<Rights, ConfigError> {
    let default = Rights::default();
    Ok(Rights {
        create_groups: value(create, everyone_or_operators)?.unwrap_or(default.create_groups),
        add_members: value(add, everyone_or_operators)?.unwrap_or(default.add_members),
    })
}

fn members(path: &Path, given: &FileLimits, rights: Rights) -> Result<Settings, ConfigError> {
    let default = Settings::default();
    let most = u64::from(u32::MAX);
    let rate = |key: &str, given: Option<u64>, default: Rate, least: u64, most: u64| {
        number(path, key, given, default.amount, least..=most).map(|amount| Rate { amount, ..default })
    };
    let hours = |key: &str, given: Option<u64>, default: u64| {
        number(path, key, given, default / HOUR_MS, 0..=HOURS_MAX).map(|hours| hours * HOUR_MS)
    };
    let item = limits::ITEM_BYTES_MAX as u64;
    Ok(Settings {
        sends: rate("sends_per_second", given.sends_per_second, default.sends, 1, most)?,
        bytes: rate("send_bytes_per_day", given.send_bytes_per_day, default.bytes, item, 1 << 50)?,
        groups: rate("groups_per_day", given.groups_per_day, default.groups, 1, most)?,
        additions: rate("additions_per_day", given.additions_per_day, default.additions, 1, most)?,
        rights,
        edit_ms: hours("edit_hours", given.edit_hours, default.edit_ms)?,
        recall_ms: hours("recall_hours", given.recall_hours, default.recall_ms)?,
        keeping: default.keeping,
    })
}

fn keeping(path: &Path, given: &FileRetention) -> Result<Keeping, ConfigError> {
    let part = |key: &str, value: Option<u64>, most: u64| {
        value.map(|value| number_in(path, "retention", key, value, 1..=most)).transpose()
    };
    let days = |key: &str, value| part(key, value, 100_000).map(|days| days.map(|days| days * DAY_MS));
    let default = Retention {
        age_ms: days("age_days", given.age_days)?,
        count: part("count", given.count, u64::MAX)?,
        bytes: part("bytes", given.bytes, u64::MAX)?,
        acked_ms: days("acked_days", given.acked_days)?,
    };
    let unseen_ms = days("unseen_days", given.unseen_days)?.unwrap_or(Keeping::default().unseen_ms);
    Ok(Keeping { default, unseen_ms })
}

fn idle_ms(path: &Path, given: &FileLimits) -> Result<u64, ConfigError> {
    let least = (limits::KEEP_ALIVE_MS * 3).div_ceil(1000);
    let seconds = number(path, "idle_s", given.idle_s, limits::IDLE_MS_MAX / 1000, least..=600)?;
    Ok(seconds * 1000)
}

fn number(
    path: &Path,
    key: &str,
    given: Option<u64>,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, ConfigError> {
    number_in(path, "limits", key, given.unwrap_or(default), range)
}

fn number_in(
    path: &Path,
    table: &str,
    key: &str,
    value: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u64, ConfigError> {
    if range.contains(&value) {
        return Ok(value);
    }
    Err(ConfigError::Value {
        origin: format!("{table}.{key} in {}", path.display()),
        value: value.to_string(),
        reason: format!("it is not from {} to {}", range.start(), range.end()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(text: &str) -> Result<Config, ConfigError> {
        Config::resolve(&ServeFlags::default(), Some((Path::new("dir/gaggle.toml"), text)))
    }

    fn refused(text: &str) -> String {
        file(text).unwrap_err().to_string()
    }

    #[test]
    fn nothing_said_is_the_defaults() {
        let config = Config::resolve(&ServeFlags::default(), None).unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(config.listen.to_string(), "[::]:4433");
        assert_eq!(file("").unwrap().members, Settings::default());
    }

    #[test]
    fn a_flag_wins_over_the_environment_and_that_over_the_file() {
        let text = "listen = '127.0.0.1:1'\ndata = 'kept'\n[log]\nformat = 'json'";
        let path = Path::new("dir/gaggle.toml");
        let environment = |name: &str| match name {
            "GAGGLE_LISTEN" => Some("127.0.0.1:2".to_owned()),
            "GAGGLE_DATA" => Some("variable".to_owned()),
            "GAGGLE_LOG_FORMAT" => Some(String::new()),
            _ => None,
        };
        let flags = ServeFlags { listen: Some("127.0.0.1:3".to_owned()), ..ServeFlags::default() };
        let config = Config::resolve(&flags.or_environment(environment), Some((path, text))).unwrap();
        assert_eq!(config.listen.port(), 3);
        assert_eq!(config.data, Path::new("variable"));
        assert_eq!(config.log_format, LogFormat::Json);
    }

    #[test]
    fn folders_in_the_file_are_meant_from_where_it_stands() {
        let config = file("data = 'kept'\ncerts = '/etc/gaggle'").unwrap();
        assert_eq!(config.data, Path::new("dir/kept"));
        assert_eq!(config.certs, Path::new("/etc/gaggle"));
    }

    #[test]
    fn an_unknown_key_is_named_with_file_and_line() {
        for (text, key, line) in [
            ("lisen = ':1'", "lisen", 1),
            ("\n[limits]\nsends = 3", "sends", 3),
            ("[log]\nformat = 'json'\nfile = 'x'", "file", 3),
            ("[store]\nx = 1", "store", 1),
        ] {
            let told = refused(text);
            assert!(told.contains(key) && told.contains("dir/gaggle.toml"), "{told}");
            assert!(told.contains(&format!("line {line}")), "{told}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_named_with_its_range() {
        for (text, key) in [
            ("[limits]\nsends_per_second = 0", "limits.sends_per_second"),
            ("[limits]\nsend_bytes_per_day = 5", "limits.send_bytes_per_day"),
            ("[limits]\ngroups_per_day = 99999999999", "limits.groups_per_day"),
            ("[limits]\nadditions_per_day = 0", "limits.additions_per_day"),
            ("[limits]\nedit_hours = 900000", "limits.edit_hours"),
            ("[limits]\nrecall_hours = 900000", "limits.recall_hours"),
            ("[limits]\nidle_s = 1", "limits.idle_s"),
            ("listen = 'here'", "listen in dir/gaggle.toml"),
            ("advertise = 'here'", "advertise in dir/gaggle.toml"),
            ("[log]\nformat = 'loud'", "log.format"),
            ("[groups]\ncreate = 'nobody'", "groups.create"),
            ("[groups]\nadd = ''", "groups.add"),
        ] {
            let told = refused(text);
            assert!(told.contains(key), "{told}");
        }
        assert!(refused("listen = 4433").contains("line 1"));
        assert!(refused("listen = ").contains("line 1"));
    }

    #[test]
    fn what_groups_keep_is_what_the_file_says() {
        let keeping = file("[retention]\nage_days = 90\nacked_days = 2\nunseen_days = 7\n").unwrap().members.keeping;
        let default = Retention { age_ms: Some(90 * DAY_MS), acked_ms: Some(2 * DAY_MS), ..Retention::ALL };
        assert_eq!(keeping, Keeping { default, unseen_ms: 7 * DAY_MS });
        assert!(file("[retention]\ncount = 0\n").unwrap_err().to_string().contains("retention.count"));
    }

    #[test]
    fn what_members_may_do_is_what_the_file_says() {
        let members = file(
            "[limits]\nsends_per_second = 5\nsend_bytes_per_day = 1000000\ngroups_per_day = 2\nadditions_per_day = 7\n\
             edit_hours = 0\nrecall_hours = 48\n\
             [groups]\ncreate = 'operators'\nadd = 'everyone'",
        )
        .unwrap()
        .members;
        assert_eq!((members.sends, members.bytes), (Rate::a_second(5), Rate::a_day(1_000_000)));
        assert_eq!((members.groups, members.additions), (Rate::a_day(2), Rate::a_day(7)));
        assert_eq!((members.edit_ms, members.recall_ms), (0, 48 * HOUR_MS));
        assert_eq!((members.rights.create_groups, members.rights.add_members), (Who::Operators, Who::Everyone));
    }

    #[test]
    fn who_may_make_groups_and_add_others_is_said_like_every_setting() {
        let path = Path::new("dir/gaggle.toml");
        let environment = |name: &str| match name {
            "GAGGLE_CREATE_GROUPS" | "GAGGLE_ADD_MEMBERS" => Some("operators".to_owned()),
            _ => None,
        };
        let flags = ServeFlags { add_members: Some("everyone".to_owned()), ..ServeFlags::default() };
        let flags = flags.or_environment(environment);
        let config = Config::resolve(&flags, Some((path, "[groups]\ncreate = 'everyone'"))).unwrap();
        let rights = config.members.rights;
        assert_eq!((rights.create_groups, rights.add_members), (Who::Operators, Who::Everyone));
        let flags = ServeFlags { create_groups: Some("me".to_owned()), ..ServeFlags::default() };
        assert!(Config::resolve(&flags, None).unwrap_err().to_string().starts_with("--create-groups is \"me\""));
    }

    #[test]
    fn keys_and_data_are_kept_apart() {
        assert!(refused("data = 'x'\ncerts = 'x'").contains("--certs"));
        let flags = ServeFlags { data: Some(PathBuf::new()), ..ServeFlags::default() };
        assert!(Config::resolve(&flags, None).unwrap_err().to_string().contains("--data"));
    }

    #[test]
    fn only_a_file_that_was_named_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("none.toml");
        let flags = ServeFlags { config: Some(path.clone()), ..ServeFlags::default() };
        let told = Config::load(&flags).unwrap_err().to_string();
        assert!(told.contains("none.toml"), "{told}");
        std::fs::write(&path, "listen = ':9'").unwrap();
        assert_eq!(Config::load(&flags).unwrap().listen.to_string(), "[::]:9");
    }

    #[test]
    fn what_links_say_is_somewhere_to_go_to() {
        for text in ["chat.example.org:443", "192.0.2.1:4433", "[2001:db8::1]:4433", "localhost:1", "a_b.c-d:65535"] {
            assert_eq!(text.parse::<Advertise>().map(|it| it.to_string()), Ok(text.to_owned()));
            assert!(crate::wire::link::is_address(text), "{text}");
        }
        for text in [
            "",
            ":",
            "host",
            "host:",
            ":1",
            "host:0",
            "host:65536",
            "host:+1",
            "[::]:4433",
            "0.0.0.0:1",
            "1.2.3:4",
            "a b:1",
            "-a:1",
            "a..b:1",
            "::1:4433",
            "host:1/",
            "h\u{f6}st:1",
            "[::1]",
            "host:1\n",
        ] {
            assert!(text.parse::<Advertise>().is_err(), "{text:?}");
        }
        assert_eq!("Chat.Example.ORG:1".parse::<Advertise>().unwrap().to_string(), "chat.example.org:1");
    }

    proptest! {
        #[test]
        fn any_text_is_a_settings_file_or_a_typed_error(text in "\\PC{0,200}") {
            if let Err(error) = file(&text) {
                prop_assert!(error.to_string().contains("gaggle.toml"));
            }
        }

        #[test]
        fn any_values_are_possible_ones_or_refused(
            sends in any::<u64>(), bytes in any::<u64>(), idle in any::<u64>(), listen in "\\PC{0,30}",
        ) {
            let text = format!(
                "[limits]\nsends_per_second = {}\nsend_bytes_per_day = {}\nidle_s = {}",
                sends >> 1, bytes >> 1, idle >> 1,
            );
            if let Ok(config) = file(&text) {
                prop_assert!(config.members.sends.amount > 0 && config.idle_ms >= 3 * limits::KEEP_ALIVE_MS);
                prop_assert!(config.members.bytes.amount >= limits::ITEM_BYTES_MAX as u64);
            }
            let flags = ServeFlags { listen: Some(listen.clone()), ..ServeFlags::default() };
            match Config::resolve(&flags, None) {
                Ok(config) => prop_assert!(listen.ends_with(&config.listen.port().to_string())),
                Err(error) => prop_assert!(error.to_string().contains("--listen")),
            }
        }

        #[test]
        fn what_links_may_say_can_be_read_back_from_a_link(text in "[a-zA-Z0-9.:_\\[\\]-]{1,40}") {
            if let Ok(advertise) = text.parse::<Advertise>() {
                let shown = advertise.to_string();
                prop_assert!(crate::wire::link::is_address(&shown), "{}", shown);
                prop_assert_eq!(shown.parse::<Advertise>(), Ok(advertise));
            }
        }
    }
}
