//! `gaggle rebuild`: makes the index of a stopped server's folder anew, from the log.

use std::env;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use serde::Serialize;

use crate::cli::context::Context;
use crate::cli::exit::{CliError, Exit};
use crate::cli::{opening, visible};
use crate::clock;
use crate::config::{Config, ServeFlags};
use crate::store::format::FORMAT_NAME;
use crate::store::index::{Settings, SledIndex};
use crate::store::{self, Opened, Options, Progress, Rebuild, StoreError};

/// Examples, after the options.
pub const HELP: &str = "\
The log holds everything; the index is made from it, so that pages are found quickly. A server rebuilds its index by itself \
when there is any doubt about it, so this is hardly ever needed: to do it at an hour of your choice, to get rid of an \
index that has grown, or after `gaggle verify` has found that index and log differ.

Stop the server first: a folder in use is refused (2). All of the log is checked before the old index is given up; where the \
log is damaged nothing is changed (2). The old index is kept aside until the new one is whole, unless there is too little \
room for both; where there is too little for one, it says how much is needed (3). Interrupted, it begins anew at the next \
start of the server, or the next time you ask for it.

It says on stderr how far it has come; with --json it prints one object on stdout when it is done.

  gaggle rebuild
  gaggle rebuild --data /var/lib/gaggle/data --json";

/// What `rebuild` takes. What is not given comes from the environment, then from the settings file, as with `serve`.
#[derive(Debug, Clone, Args)]
pub struct RebuildArgs {
    /// The folder of the stopped server [default: data] [env: GAGGLE_DATA]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Settings file [default: gaggle.toml, where there is one] [env: GAGGLE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct RebuiltJson {
    messages: u64,
    frames: u64,
    log_bytes: u64,
    index_bytes: u64,
    ms: u64,
}

/// Rebuilds.
///
/// # Errors
/// Where there is no such folder, a server has it, its log is damaged, or the disk or the index refuses.
pub async fn run(context: &Context, args: &RebuildArgs) -> Result<Exit, CliError> {
    let flags = ServeFlags { data: args.data.clone(), config: args.config.clone(), ..ServeFlags::default() };
    let config = Config::load(&flags.or_environment(|name| env::var(name).ok()))?;
    let folder = config.data;
    let disk = Context::disk();
    let format = folder.join(FORMAT_NAME);
    // Opening would make a new store where there is none, which nobody means here.
    if !disk.exists(&format).map_err(StoreError::from)?
        && !disk.exists(&folder.join("log")).map_err(StoreError::from)?
    {
        let words = format!("{} is no data folder: it has no FORMAT file", folder.display());
        return Err(CliError::failed(visible::name(&words)).advise("name the server's folder with --data"));
    }
    let settings = Settings { cache_bytes: config.cache_bytes, ..Settings::default() };
    let since = clock::monotonic();
    let messages = Arc::new(AtomicU64::new(0));
    let (counted, mut told) = (Arc::clone(&messages), opening::told(context.output));
    let progress = Box::new(move |progress: Progress| {
        if let Progress::Rebuilt { messages } = &progress {
            counted.store(*messages, Ordering::Relaxed);
        }
        told(progress);
    });
    let rebuilt = tokio::task::spawn_blocking(move || {
        let index = Arc::new(SledIndex::new(&folder, settings));
        let options = Options { index, rebuild: Rebuild::Always, progress, ..Options::default() };
        let Opened { log, engine, replayed, .. } = store::open(disk, &folder, options)?;
        let (log_bytes, index_bytes) = (log.disk_bytes(), engine.disk_bytes());
        // The index is closed while the folder is still locked.
        drop(engine);
        drop(log);
        Ok::<_, StoreError>((replayed, log_bytes, index_bytes))
    });
    let (frames, log_bytes, index_bytes) =
        rebuilt.await.map_err(|_| CliError::failed("the rebuild ended by a fault of this program"))??;
    let ms = u64::try_from(clock::monotonic().saturating_duration_since(since).as_millis()).unwrap_or(u64::MAX);
    let messages = messages.load(Ordering::Relaxed);
    context.output.record("", &RebuiltJson { messages, frames, log_bytes, index_bytes, ms })?;
    Ok(Exit::Done)
}
