//! Writes lines to stdout from a thread of its own: a reader that is slow, or stands still, stops neither the connection
//! nor Ctrl-C.
//!
//! What it has written and flushed is told as a position, which may then be acknowledged. Lines that wait together are
//! written together. Bounded on both sides: lines by their channel, progress because only the newest counts.

use std::thread;

use tokio::sync::{mpsc, watch};

use crate::cli::exit::CliError;
use crate::cli::output::Output;
use crate::client::Position;

/// Lines that wait to be written; as many items wait at the server side of a slow reader all the same.
const LINES_MAX: usize = 64;

/// A line that stands for an item.
#[derive(Debug)]
pub struct Line {
    /// It, with its line break.
    pub text: String,
    /// What may be acknowledged once it is out.
    pub position: Position,
}

/// How far the printer has come.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// The position of the last line that is out.
    pub position: Option<Position>,
    /// Why nothing more is printed.
    pub failed: Option<CliError>,
}

/// Starts the thread. It ends when its lines end, or stdout does; the progress channel ends with it.
#[must_use]
pub fn start(output: Output) -> (mpsc::Sender<Line>, watch::Receiver<Progress>) {
    let (lines, incoming) = mpsc::channel(LINES_MAX);
    let (progress, printed) = watch::channel(Progress::default());
    thread::spawn(move || run(output, incoming, &progress));
    (lines, printed)
}

fn run(output: Output, mut incoming: mpsc::Receiver<Line>, progress: &watch::Sender<Progress>) {
    while let Some(Line { mut text, mut position }) = incoming.blocking_recv() {
        while let Ok(more) = incoming.try_recv() {
            text.push_str(&more.text);
            position = more.position;
        }
        match output.raw(text.as_bytes()) {
            Ok(()) => progress.send_modify(|now| now.position = Some(position)),
            Err(error) => {
                progress.send_modify(|now| now.failed = Some(error));
                return;
            }
        }
    }
}
