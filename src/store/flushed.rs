//! `flushed`: how far the index is known to be durable, recorded outside it, and whether it is in doubt.
//!
//! An index that opens with less than what stands here has lost something, whatever it says itself. Two slots with
//! checksums are written in turn and synced, so that a torn write costs the newest of them only; the valid one with the
//! higher number counts. No valid slot, or one of another store, means that nothing is known: the index is rebuilt.
//! At a clean stop it also says how the index's files look, so that one which is put back as it was before is noticed.
//! Nothing here decides what is done about an index in doubt.

use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskError, File, SharedDisk, whole};
use crate::ids::Lsn;
use crate::store::format::StoreId;

/// The name of the file.
pub const FLUSHED_NAME: &str = "flushed";
/// A slot begins on a page of its own, so that one write never touches both.
pub(in crate::store) const SLOT_BYTES: usize = 4096;
const MAGIC: [u8; 8] = *b"gagglefl";
/// magic, store, number, lsn, files, opens, doubt.
pub(in crate::store) const SAID_BYTES: usize = 8 + 16 + 8 + 8 + 8 + 1 + 1;
/// The same with its checksum.
pub(in crate::store) const CHECKED_BYTES: usize = SAID_BYTES + 4;

/// What is known of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Known {
    /// The index held all up to this frame, durably.
    pub lsn: Lsn,
    /// How its files looked when it came to rest at a clean stop, and was not opened since.
    pub files: Option<u64>,
    /// Attempts to open it since that were begun and not seen to end.
    pub opens: u8,
    /// It must not be used again: it is to be rebuilt.
    pub doubt: bool,
}

impl Known {
    /// Whether the index's files, which look like this now, are others than it came to rest with. Where there are none that
    /// shows when it is opened.
    #[must_use]
    pub fn are_others(&self, files: Option<u64>) -> bool {
        matches!((self.files, files), (Some(left), Some(found)) if left != found)
    }
}

/// The file.
#[derive(Debug)]
pub struct Flushed {
    disk: SharedDisk,
    path: PathBuf,
    store: StoreId,
    number: u64,
    known: Option<Known>,
}

impl Flushed {
    /// Reads the file of a folder; a missing or damaged one is no error, but nothing is known then.
    ///
    /// # Errors
    /// Where the disk refuses.
    pub fn read(disk: &SharedDisk, folder: &Path, store: StoreId) -> Result<Flushed, DiskError> {
        let path = folder.join(FLUSHED_NAME);
        let slots = if disk.exists(&path)? { slots(&*disk.open(&path)?)? } else { [None; 2] };
        let slots: Vec<(u64, Known)> = slots.iter().flatten().filter_map(|bytes| parse(bytes, store)).collect();
        let newest = slots.iter().max_by_key(|(number, _)| *number).copied();
        // No slot ever says less than an older one: an lsn is never forgotten with the slot that holds it.
        let lsn = slots.iter().map(|(_, known)| known.lsn).max().unwrap_or(Lsn::ZERO);
        let (number, known) = newest.map_or((0, None), |(number, known)| (number, Some(Known { lsn, ..known })));
        Ok(Flushed { disk: disk.clone(), path, store, number, known })
    }

    /// What stands in it; none where nothing valid does.
    #[must_use]
    pub fn known(&self) -> Option<Known> {
        self.known
    }

    /// Records that the index holds all up to this frame, durably, and is in no doubt.
    ///
    /// # Errors
    /// Where the disk refuses; the older record stands then.
    pub fn record(&mut self, lsn: Lsn) -> Result<(), DiskError> {
        self.write(Known { lsn, ..Known::default() })
    }

    /// The same of an index that has come to rest, whose files look like this.
    ///
    /// # Errors
    /// As [`Flushed::record`].
    pub fn record_rest(&mut self, lsn: Lsn, files: Option<u64>) -> Result<(), DiskError> {
        self.write(Known { lsn, files, ..Known::default() })
    }

    /// Records that the index is about to be opened, after which its files may look otherwise.
    ///
    /// # Errors
    /// As [`Flushed::record`].
    pub fn record_opening(&mut self) -> Result<(), DiskError> {
        let known = self.known.unwrap_or_default();
        self.write(Known { opens: known.opens.saturating_add(1), files: None, ..known })
    }

    /// Records that the index was opened, but not that all could be read that has to be: attempts that were begun before
    /// still count.
    ///
    /// # Errors
    /// As [`Flushed::record`].
    pub fn record_opened(&mut self, lsn: Lsn, opens: u8) -> Result<(), DiskError> {
        self.write(Known { lsn, opens, ..Known::default() })
    }

    /// Records that the index must not be used again, in both slots, so that damage to one does not take the doubt
    /// away. What the index was known to hold still says where the log may not end.
    ///
    /// # Errors
    /// As [`Flushed::record`].
    pub fn record_doubt(&mut self) -> Result<(), DiskError> {
        for _ in 0..2 {
            let known = self.known.unwrap_or_default();
            self.write(Known { doubt: true, ..known })?;
        }
        Ok(())
    }

    fn write(&mut self, known: Known) -> Result<(), DiskError> {
        // Whoever counts to the end, by damage that checks, begins again with a file that holds nothing else.
        let next = self.number.checked_add(1);
        let number = next.unwrap_or(1);
        let slot = slot(self.store, number, known);
        if self.known.is_none() || next.is_none() {
            let mut bytes = vec![0; 2 * SLOT_BYTES];
            let place = place(number);
            if let Some(into) = bytes.get_mut(place..place + slot.len()) {
                into.copy_from_slice(&slot);
            }
            whole::replace(&*self.disk, &self.path, &bytes)?;
        } else {
            let mut file = self.disk.open(&self.path)?;
            file.write_at(place(number) as u64, &slot)?;
            file.sync()?;
        }
        self.number = number;
        self.known = Some(known);
        Ok(())
    }
}

fn place(number: u64) -> usize {
    if number.is_multiple_of(2) { 0 } else { SLOT_BYTES }
}

fn slot(store: StoreId, number: u64, known: Known) -> Vec<u8> {
    let mut slot = Vec::with_capacity(CHECKED_BYTES);
    slot.extend_from_slice(&MAGIC);
    slot.extend_from_slice(&store.bytes());
    slot.extend_from_slice(&number.to_be_bytes());
    slot.extend_from_slice(&known.lsn.value().to_be_bytes());
    slot.extend_from_slice(&known.files.unwrap_or(0).to_be_bytes());
    slot.push(known.opens);
    slot.push(u8::from(known.doubt));
    slot.extend_from_slice(&crc32c::crc32c(&slot).to_be_bytes());
    slot
}

/// What stands in one slot, for whoever checks the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum Slot {
    /// Nothing was written there yet.
    Empty,
    /// A record of this store.
    Valid,
    /// Anything else.
    Damaged,
}

/// What stands in each slot of a folder's file; nothing where there is no such file.
pub(in crate::store) fn slots_in(disk: &dyn Disk, folder: &Path, store: StoreId) -> Result<Vec<Slot>, DiskError> {
    let path = folder.join(FLUSHED_NAME);
    if !disk.exists(&path)? {
        return Ok(Vec::new());
    }
    let slot = |bytes: Option<[u8; CHECKED_BYTES]>| match bytes {
        Some(bytes) if parse(&bytes, store).is_some() => Slot::Valid,
        Some(bytes) if bytes.iter().all(|byte| *byte == 0) => Slot::Empty,
        Some(_) | None => Slot::Damaged,
    };
    Ok(slots(&*disk.open(&path)?)?.map(slot).into())
}

/// The bytes of both slots; none of one that the file is too short for.
fn slots(file: &dyn File) -> Result<[Option<[u8; CHECKED_BYTES]>; 2], DiskError> {
    let length = file.len()?;
    let mut found = [None; 2];
    for (slot, place) in found.iter_mut().zip([0, SLOT_BYTES]) {
        if length >= (place + CHECKED_BYTES) as u64 {
            let mut bytes = [0; CHECKED_BYTES];
            file.read_at(place as u64, &mut bytes)?;
            *slot = Some(bytes);
        }
    }
    Ok(found)
}

fn parse(bytes: &[u8; CHECKED_BYTES], store: StoreId) -> Option<(u64, Known)> {
    let (said, check) = bytes.split_at_checked(SAID_BYTES)?;
    let (magic, rest) = said.split_first_chunk::<8>()?;
    let (of, rest) = rest.split_first_chunk::<16>()?;
    let (number, rest) = rest.split_first_chunk::<8>()?;
    let (lsn, rest) = rest.split_first_chunk::<8>()?;
    let (files, rest) = rest.split_first_chunk::<8>()?;
    let [opens, doubt] = *rest else { return None };
    let valid = *magic == MAGIC && *of == store.bytes() && check == crc32c::crc32c(said).to_be_bytes() && doubt <= 1;
    let files = Some(u64::from_be_bytes(*files)).filter(|files| *files != 0);
    let known = Known { lsn: Lsn::new(u64::from_be_bytes(*lsn)), files, opens, doubt: doubt == 1 };
    valid.then_some((u64::from_be_bytes(*number), known))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::simulated::SimulatedDisk;

    const STORE: StoreId = StoreId::new([7; 16]);

    fn disk() -> SimulatedDisk {
        let disk = SimulatedDisk::new();
        disk.create_folder(Path::new("/data")).unwrap();
        disk
    }

    fn read(disk: &SimulatedDisk) -> Flushed {
        Flushed::read(&(Arc::new(disk.clone()) as SharedDisk), Path::new("/data"), STORE).unwrap()
    }

    fn known(lsn: u64, opens: u8, doubt: bool) -> Option<Known> {
        Some(Known { lsn: Lsn::new(lsn), opens, doubt, files: None })
    }

    #[test]
    fn what_was_recorded_is_read_again_and_doubt_keeps_the_lsn() {
        let disk = disk();
        assert_eq!(read(&disk).known(), None);
        for lsn in 1..6 {
            let mut flushed = read(&disk);
            flushed.record(Lsn::new(lsn)).unwrap();
            assert_eq!(read(&disk).known(), known(lsn, 0, false));
        }
        read(&disk).record_opening().unwrap();
        read(&disk).record_opening().unwrap();
        assert_eq!(read(&disk).known(), known(5, 2, false));
        read(&disk).record_doubt().unwrap();
        assert_eq!(read(&disk).known(), known(5, 2, true));
        read(&disk).record(Lsn::new(9)).unwrap();
        assert_eq!(read(&disk).known(), known(9, 0, false));
    }

    #[test]
    fn how_the_files_looked_at_rest_is_known_until_the_index_is_opened() {
        let disk = disk();
        read(&disk).record_rest(Lsn::new(3), Some(77)).unwrap();
        assert_eq!(read(&disk).known().unwrap().files, Some(77));
        read(&disk).record_opening().unwrap();
        assert_eq!(read(&disk).known(), known(3, 1, false));
    }

    #[test]
    fn a_power_loss_at_any_step_leaves_the_last_record_or_the_one_being_written() {
        for stop in 0..12 {
            for seed in 0..60 {
                let disk = disk();
                let mut flushed = read(&disk);
                disk.stop_after(stop);
                let done = (1..9).take_while(|lsn| flushed.record(Lsn::new(*lsn)).is_ok()).last().unwrap_or(0);
                let disk = disk.crash(seed);
                let found = read(&disk).known().map_or(0, |known| known.lsn.value());
                assert!(found == done || found == done + 1, "{stop} {seed}: {found} after {done}");
            }
        }
    }

    #[test]
    fn a_slot_of_another_store_or_with_any_flipped_bit_counts_for_nothing() {
        let slot = slot(STORE, 3, Known { lsn: Lsn::new(4), files: Some(5), opens: 1, doubt: false });
        let bytes: [u8; CHECKED_BYTES] = slot.try_into().unwrap();
        assert_eq!(parse(&bytes, STORE).unwrap().0, 3);
        assert!(parse(&bytes, StoreId::new([8; 16])).is_none());
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes;
                flipped[index] ^= 1 << bit;
                assert!(parse(&flipped, STORE).is_none());
            }
        }
    }
}
