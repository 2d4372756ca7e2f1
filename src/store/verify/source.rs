//! The log as the source of what is checked: read once with everything said of it, and again as often as is needed.

use std::path::{Path, PathBuf};

use crate::disk::Disk;
use crate::ids::Lsn;
use crate::store::engine::Op;
use crate::store::format::StoreId;
use crate::store::log::{Met, MetFrame, Place, Walked, walk};
use crate::store::records::MessageRecord;
use crate::store::tree::Tree;
use crate::store::verify::row::{self, Understand};
use crate::store::verify::said::{Check, Report, Said};
use crate::store::verify::view::Above;
use crate::store::wide;

/// The log of a folder that is locked.
pub(super) struct Source<'a> {
    pub(super) disk: &'a dyn Disk,
    pub(super) folder: PathBuf,
    pub(super) store: StoreId,
}

/// What the first reading has found.
pub(super) struct Read {
    pub(super) walked: Walked,
    /// Operations in its frames.
    pub(super) operations: u64,
}

fn said(check: Check, place: Place) -> Said {
    Said { check, path: Some(place.path), byte: place.byte, what: place.what }
}

impl Source<'_> {
    /// Reads the whole log, says what is wrong with it and with each record by itself, and keeps the frames above an
    /// lsn for a view.
    pub(super) fn check(&self, from: Lsn, above: &mut Above, understand: &Understand, report: &mut Report<'_>) -> Read {
        let mut operations = 0;
        let walked = walk(self.disk, &self.folder, self.store, &mut |met| match met {
            Met::Segment { place, segments } => {
                report.step("reading the log", wide(place), Some(wide(segments)), "segments");
            }
            Met::Fault(place) => report.finding(said(Check::Log, place)),
            Met::Remark(place) => report.remark(said(Check::Log, place)),
            Met::Frame(frame) => {
                operations += wide(frame.ops.len());
                for op in &frame.ops {
                    record(&frame, op, understand, report);
                    if frame.lsn > from {
                        above.put(op);
                    }
                }
            }
        });
        Read { walked, operations }
    }

    /// Reads the frames again; what is wrong with them was said.
    pub(super) fn again(&self, doing: &'static str, report: &mut Report<'_>, each: &mut dyn FnMut(&MetFrame)) {
        walk(self.disk, &self.folder, self.store, &mut |met| match met {
            Met::Segment { place, segments } => report.step(doing, wide(place), Some(wide(segments)), "segments"),
            Met::Frame(frame) => each(&frame),
            Met::Fault(_) | Met::Remark(_) => {}
        });
    }

    /// Keeps the frames above an lsn for a view.
    pub(super) fn above(&self, from: Lsn, above: &mut Above, report: &mut Report<'_>) {
        self.again("reading the log again", report, &mut |frame| {
            if frame.lsn > from {
                frame.ops.iter().for_each(|op| above.put(op));
            }
        });
    }
}

/// Whether what a frame puts is a record.
fn record(frame: &MetFrame, op: &Op, understand: &Understand, report: &mut Report<'_>) {
    let Some(value) = &op.value else { return };
    let wrong = match row::check(op.tree, &op.key, value, understand) {
        Err(words) => Some(words),
        Ok(_) => {
            lsn_of_item(op.tree, value).filter(|lsn| *lsn != frame.lsn).map(|lsn| format!("an item of frame {lsn}"))
        }
    };
    if let Some(words) = wrong {
        let what = format!("frame {} puts {}: {words}", frame.lsn, row::name(op.tree, &op.key));
        report.finding(Said { byte: frame.byte, ..Said::of(Check::Record, Path::new(&frame.path), what) });
    }
}

fn lsn_of_item(tree: Tree, value: &bytes::Bytes) -> Option<Lsn> {
    let record = if tree == Tree::Messages { MessageRecord::decode(value).ok() } else { None };
    record.map(|record| record.lsn)
}
