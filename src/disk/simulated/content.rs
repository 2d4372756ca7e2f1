//! The bytes of one simulated file, and which of them a crash may still take.
//!
//! The bytes as they are read now are kept once, beside the changes since the last good sync with what each replaced,
//! so that an ordinary write costs little. A crash takes all changes back and makes some of them again. It knows
//! nothing of names.

use rand::rngs::StdRng;
use rand::{Rng, RngExt};

/// Bytes that a disk writes together or not at all.
const SECTOR_BYTES: usize = 512;

/// A file's bytes.
#[derive(Debug, Default)]
pub(super) struct Content {
    bytes: Vec<u8>,
    pending: Vec<Change>,
}

/// A change that is not durable.
#[derive(Debug)]
struct Change {
    offset: usize,
    /// What stood there, filled up with zeros to the length of `after`.
    before: Vec<u8>,
    after: Vec<u8>,
    length_before: usize,
    /// For a change of the length alone.
    length_after: Option<usize>,
    /// A sync failed while this was pending: no later sync makes it durable.
    doomed: bool,
}

/// The part of a file from there on, as long as asked for, with zeros behind its end.
fn padded(bytes: &[u8], offset: usize, length: usize) -> Vec<u8> {
    let (from, end) = (offset.min(bytes.len()), offset.saturating_add(length).min(bytes.len()));
    let mut part = bytes.get(from..end).unwrap_or_default().to_vec();
    fit(&mut part, length);
    part
}

/// Cuts, or extends with zeros. In one piece: `resize` takes a step for each byte where it is not optimised, which a
/// fresh segment of many megabytes feels.
fn fit(bytes: &mut Vec<u8>, length: usize) {
    bytes.truncate(length);
    bytes.append(&mut vec![0; length.saturating_sub(bytes.len())]);
}

/// Writes over what is there, extending with zeros first where needed.
fn put(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    let end = offset.saturating_add(new.len());
    if bytes.len() < end {
        fit(bytes, end);
    }
    if let Some(place) = bytes.get_mut(offset..end) {
        place.copy_from_slice(new);
    }
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn read(&self, offset: usize, into: &mut [u8]) -> bool {
        let part = offset.checked_add(into.len()).and_then(|end| self.bytes.get(offset..end));
        part.is_some_and(|part| {
            into.copy_from_slice(part);
            true
        })
    }

    pub(super) fn write(&mut self, offset: usize, new: &[u8]) {
        self.pending.push(Change {
            offset,
            before: padded(&self.bytes, offset, new.len()),
            after: new.to_vec(),
            length_before: self.bytes.len(),
            length_after: None,
            doomed: false,
        });
        put(&mut self.bytes, offset, new);
    }

    pub(super) fn set_len(&mut self, length: usize) {
        let before: Vec<u8> = self.bytes.iter().skip(length).copied().collect();
        self.pending.push(Change {
            offset: length,
            before,
            after: Vec::new(),
            length_before: self.bytes.len(),
            length_after: Some(length),
            doomed: false,
        });
        fit(&mut self.bytes, length);
    }

    /// What is pending is durable now, but for what an earlier failed sync has doomed.
    pub(super) fn sync(&mut self) {
        if !self.pending.iter().any(|change| change.doomed) {
            self.pending.clear();
            return;
        }
        let (mut doomed, durable): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|change| change.doomed);
        for change in &mut doomed {
            durable.iter().for_each(|newer| change.yield_to(newer));
        }
        self.pending = doomed;
    }

    /// A sync failed: what was pending reads as before, and is kept or lost at the next crash whatever is synced later.
    pub(super) fn fail_sync(&mut self) {
        for change in &mut self.pending {
            change.doomed = true;
        }
    }

    /// Leaves what a power loss leaves: all that was synced, and of the rest anything.
    pub(super) fn crash(&mut self, random: &mut StdRng) {
        for change in self.pending.iter().rev() {
            if !change.before.is_empty() {
                put(&mut self.bytes, change.offset, &change.before);
            }
            fit(&mut self.bytes, change.length_before);
        }
        for change in std::mem::take(&mut self.pending) {
            change.survive(&mut self.bytes, random);
        }
    }
}

impl Change {
    /// Where a newer change is durable, neither taking this one back nor making it again may touch its bytes.
    fn yield_to(&mut self, newer: &Change) {
        let newer_end = newer.offset.saturating_add(newer.after.len());
        self.length_before = self.length_before.max(newer_end);
        for side in [&mut self.before, &mut self.after] {
            for (index, byte) in side.iter_mut().enumerate() {
                let place = self.offset.saturating_add(index).checked_sub(newer.offset);
                if let Some(durable) = place.and_then(|place| newer.after.get(place)) {
                    *byte = *durable;
                }
            }
        }
    }

    /// Kept, lost or torn.
    fn survive(self, bytes: &mut Vec<u8>, random: &mut StdRng) {
        if let Some(length) = self.length_after {
            if random.random_bool(0.5) {
                fit(bytes, length);
            }
            return;
        }
        match random.random_range(0..4u8) {
            0 => {}
            1 => put(bytes, self.offset, &self.after),
            // The length was kept, the bytes were not.
            2 => {
                let end = self.offset.saturating_add(self.after.len());
                let length = bytes.len().max(end);
                fit(bytes, length);
                self.tear(bytes, random);
            }
            _ => self.tear(bytes, random),
        }
    }

    /// Some sectors were written, or the write stopped at some byte.
    fn tear(&self, bytes: &mut Vec<u8>, random: &mut StdRng) {
        if random.random_bool(0.5) {
            let kept = random.random_range(0..=self.after.len());
            put(bytes, self.offset, self.after.get(..kept).unwrap_or_default());
            return;
        }
        let mut done = 0;
        while let Some(rest) = self.after.get(done..).filter(|rest| !rest.is_empty()) {
            let place = self.offset.saturating_add(done);
            let sector = rest.get(..SECTOR_BYTES - place % SECTOR_BYTES).unwrap_or(rest);
            if random.next_u32().is_multiple_of(2) {
                put(bytes, place, sector);
            }
            done += sector.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    fn read(content: &Content) -> Vec<u8> {
        content.bytes.clone()
    }

    #[test]
    fn a_crash_takes_nothing_that_was_synced_and_may_take_anything_else() {
        let mut lost = 0;
        let mut kept = 0;
        let mut torn = 0;
        for seed in 0..300 {
            let mut content = Content::default();
            content.write(0, b"durable");
            content.sync();
            content.write(7, &[7; 2000]);
            content.crash(&mut StdRng::seed_from_u64(seed));
            let after = read(&content);
            assert_eq!(&after[..7], b"durable");
            match after.iter().filter(|byte| **byte == 7).count() {
                0 => lost += 1,
                2000 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 10 && kept > 10 && torn > 10, "{lost} {kept} {torn}");
    }

    #[test]
    fn a_sync_after_a_failed_sync_proves_nothing_unless_the_bytes_were_written_again() {
        let mut lost = 0;
        for seed in 0..100 {
            let mut content = Content::default();
            content.write(0, &[0; 8]);
            content.sync();
            content.write(0, b"first");
            content.fail_sync();
            content.sync();
            content.crash(&mut StdRng::seed_from_u64(seed));
            lost += usize::from(!read(&content).starts_with(b"first"));

            let mut content = Content::default();
            content.write(0, &[0; 8]);
            content.sync();
            content.write(0, b"again");
            content.fail_sync();
            content.write(0, b"again");
            content.sync();
            content.crash(&mut StdRng::seed_from_u64(seed));
            assert_eq!(read(&content), b"again\0\0\0");
        }
        assert!(lost > 10, "{lost}");
    }

    #[test]
    fn a_cut_may_come_back_until_it_is_synced() {
        let mut back = 0;
        for seed in 0..50 {
            let mut content = Content::default();
            content.write(0, b"longer");
            content.sync();
            content.set_len(4);
            assert_eq!(read(&content), b"long");
            content.crash(&mut StdRng::seed_from_u64(seed));
            back += usize::from(read(&content) == b"longer");
            content.set_len(2);
            content.sync();
            content.crash(&mut StdRng::seed_from_u64(seed));
            assert_eq!(read(&content), b"lo");
        }
        assert!((5..45).contains(&back), "{back}");
    }
}
