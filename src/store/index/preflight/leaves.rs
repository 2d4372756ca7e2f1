//! Leaves in sled's slabs: whether what the metadata names can be read, and is what it names.
//!
//! A slab is a file of slots of one size: `data, padding, length of the data, crc32`. The data is the zstd of a leaf,
//! which begins with its first possible key and the one of the leaf behind it. sled spins for ever on a leaf whose
//! first key is not the one that the metadata says, or that does not reach to the next leaf of its tree.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::frames::{counted, crc, number};

/// Slot sizes of the slabs, by number.
const SLOT_BYTES: [u64; 78] = [
    64,
    80,
    96,
    112,
    128,
    160,
    192,
    224,
    256,
    320,
    384,
    448,
    512,
    640,
    768,
    896,
    1_024,
    1_280,
    1_536,
    1_792,
    2_048,
    2_560,
    3_072,
    3_584,
    4_096,
    5_120,
    6_144,
    7_168,
    8_192,
    10_240,
    12_288,
    14_336,
    16_384,
    20_480,
    24_576,
    28_672,
    32_768,
    40_960,
    49_152,
    57_344,
    65_536,
    98_304,
    131_072,
    163_840,
    196_608,
    262_144,
    393_216,
    524_288,
    786_432,
    1_048_576,
    1_572_864,
    2_097_152,
    3_145_728,
    4_194_304,
    6_291_456,
    8_388_608,
    12_582_912,
    16_777_216,
    25_165_824,
    33_554_432,
    50_331_648,
    67_108_864,
    100_663_296,
    134_217_728,
    201_326_592,
    268_435_456,
    402_653_184,
    536_870_912,
    805_306_368,
    1_073_741_824,
    1_610_612_736,
    2_147_483_648,
    3_221_225_472,
    4_294_967_296,
    6_442_450_944,
    8_589_934_592,
    12_884_901_888,
    17_179_869_184,
];
/// Bytes at the end of a slot that are not data: the crc, and the length before it.
const CRC_BYTES: usize = 4;

/// What stands in a leaf.
#[derive(Debug)]
pub(super) struct Leaf {
    /// The first key that may stand in it.
    pub(super) low_key: Vec<u8>,
    /// The first key behind it; none in the last leaf of a tree.
    pub(super) high_key: Option<Vec<u8>>,
    /// Its keys and values.
    pub(super) rows: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The slabs of a database.
pub(super) struct Slabs {
    files: BTreeMap<usize, (File, u64)>,
}

impl Slabs {
    /// Opens those that are there; anything else in their folder is an error.
    pub(super) fn open(folder: &Path) -> io::Result<Slabs> {
        let mut files = BTreeMap::new();
        for entry in folder.read_dir()? {
            let entry = entry?;
            let name = entry.file_name();
            let slab = SLOT_BYTES.iter().position(|bytes| name.to_str() == Some(bytes.to_string().as_str()));
            let Some(slab) = slab.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_file())) else {
                return Err(io::Error::other(format!("{} does not belong there", folder.join(&name).display())));
            };
            let file = File::open(entry.path())?;
            let length = file.metadata()?.len();
            files.insert(slab, (file, length));
        }
        Ok(Slabs { files })
    }

    /// Whether the slot lies within its slab.
    pub(super) fn holds(&self, location: u64) -> bool {
        self.place(location).is_some()
    }

    /// Reads the leaf in this slot.
    pub(super) fn read(&self, location: u64) -> io::Result<Leaf> {
        let (file, offset, bytes) = self.place(location).ok_or_else(|| io::Error::other("there is no such slot"))?;
        let mut slot = vec![0; bytes];
        file.read_exact_at(&mut slot, offset)?;
        let data = data(&slot).ok_or_else(|| io::Error::other("the checksum of a leaf is wrong"))?;
        let plain = zstd::stream::decode_all(data)?;
        leaf(&plain).ok_or_else(|| io::Error::other("a leaf is not one"))
    }

    /// The file, offset and size of a slot that lies within its slab.
    fn place(&self, location: u64) -> Option<(&File, u64, usize)> {
        let [number, ..] = location.to_be_bytes();
        let slot = location & 0x00FF_FFFF_FFFF_FFFF;
        let slab = usize::from(number).checked_sub(1)?;
        let bytes = *SLOT_BYTES.get(slab)?;
        let (file, length) = self.files.get(&slab)?;
        let offset = slot.checked_mul(bytes)?;
        let is_within = offset.checked_add(bytes)? <= *length;
        is_within.then_some((file, offset, usize::try_from(bytes).ok()?))
    }
}

/// The data of a slot whose checksum holds. Its length takes as many bytes as the size of the slot does.
pub(super) fn data(slot: &[u8]) -> Option<&[u8]> {
    let (checked, check) = slot.split_at_checked(slot.len().checked_sub(CRC_BYTES)?)?;
    if crc(checked) != check {
        return None;
    }
    let width = match slot.len() {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    };
    let (data, length) = checked.split_at_checked(checked.len().checked_sub(width)?)?;
    let mut number = [0; 8];
    number.get_mut(..width)?.copy_from_slice(length);
    data.get(..usize::try_from(u64::from_le_bytes(number)).ok()?)
}

pub(super) fn leaf(plain: &[u8]) -> Option<Leaf> {
    let rest = &mut &*plain;
    let low_key = counted(rest)?.to_vec();
    let (has_high_key, behind) = rest.split_first()?;
    *rest = behind;
    let high_key = if *has_high_key == 0 { None } else { Some(counted(rest)?.to_vec()) };
    let _prefix_bytes = number(rest)?;
    let mut rows = Vec::new();
    for _ in 0..number(rest)? {
        rows.push((counted(rest)?.to_vec(), counted(rest)?.to_vec()));
    }
    let (_memory_bytes, _mutations) = (number(rest)?, number(rest)?);
    rest.is_empty().then_some(Leaf { low_key, high_key, rows })
}
