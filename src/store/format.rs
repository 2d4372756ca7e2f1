//! `FORMAT`: what a data folder is, in a few lines of text with a checksum.
//!
//! It is written last when a folder is made, and nothing else in the folder is touched before it is understood. In
//! every version the first line is the same and the last line is the checksum of those before it, so that a damaged
//! file is told from a newer one.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::chance;
use crate::disk::{Disk, DiskError, whole};
use crate::ids::Epoch;
use crate::store::error::StoreError;

/// The name of the file.
pub const FORMAT_NAME: &str = "FORMAT";
/// The name of the file while it is written.
pub(super) const FORMAT_NEW_NAME: &str = "FORMAT.new";
/// The version that is written, and the highest that is understood.
pub const FORMAT_VERSION: u64 = 1;

const FIRST_LINE: &str = "gaggle data folder";
/// Larger than any version will write; so that a huge file is not read into memory.
const FORMAT_BYTES_MAX: usize = 64 * 1024;

/// The random name of a store, in every segment of its log and in its index, so that files of two stores are never
/// taken for one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// Wraps sixteen random bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> StoreId {
        StoreId(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// What FORMAT says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// The store.
    pub store: StoreId,
    /// Its history.
    pub epoch: Epoch,
}

/// Random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N], StoreError> {
    chance::bytes().ok_or(StoreError::Random)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 16]> {
    let plain = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let number = u128::from_str_radix(text, 16).ok()?;
    plain.then(|| number.to_be_bytes())
}

/// The file of a folder.
pub(super) fn path_in(folder: &Path) -> PathBuf {
    folder.join(FORMAT_NAME)
}

impl Format {
    /// A new store with a new history.
    ///
    /// # Errors
    /// Where the system gives no random numbers.
    pub fn generate() -> Result<Format, StoreError> {
        Ok(Format { store: StoreId(random()?), epoch: Epoch::new(random()?) })
    }

    fn text(self) -> String {
        let said = format!(
            "{FIRST_LINE}\nversion {FORMAT_VERSION}\nstore {}\nepoch {}\n",
            hex(&self.store.0),
            hex(&self.epoch.bytes())
        );
        let check = crc32c::crc32c(said.as_bytes());
        format!("{said}check {check:08x}\n")
    }

    /// Reads the text of a FORMAT file.
    fn parse(path: &Path, text: &[u8]) -> Result<Format, StoreError> {
        let damaged = |what: &str| StoreError::Damaged { path: path.to_owned(), what: what.to_owned() };
        let text = std::str::from_utf8(text).map_err(|_| damaged("it is not text"))?;
        if text.lines().next() != Some(FIRST_LINE) {
            return Err(damaged("it does not begin as the FORMAT file of a gaggle data folder"));
        }
        let check_at = text.rfind("check ").ok_or_else(|| damaged("its checksum is missing"))?;
        let (said, check) = text.split_at(check_at);
        if check != format!("check {:08x}\n", crc32c::crc32c(said.as_bytes())) {
            return Err(damaged("its checksum does not match"));
        }
        let mut lines = said.lines().skip(1);
        let mut value = |name: &str| lines.next().and_then(|line| line.strip_prefix(name)).map(str::trim_start);
        let version = value("version ").and_then(|version| version.parse().ok());
        match version {
            Some(FORMAT_VERSION) => {}
            Some(found) if found > FORMAT_VERSION => {
                return Err(StoreError::Newer { path: path.to_owned(), found, known: FORMAT_VERSION });
            }
            Some(_) | None => return Err(damaged("it names no version")),
        }
        let store = value("store ").and_then(unhex).ok_or_else(|| damaged("it names no store"))?;
        let epoch = value("epoch ").and_then(unhex).ok_or_else(|| damaged("it names no epoch"))?;
        let format = Format { store: StoreId(store), epoch: Epoch::new(epoch) };
        if format.text() == text { Ok(format) } else { Err(damaged("it says more than this version writes")) }
    }

    /// Reads the file of a folder; none where there is none.
    pub(super) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Format>, StoreError> {
        let path = path_in(folder);
        if !disk.exists(&path)? {
            return Ok(None);
        }
        let file = disk.open(&path)?;
        let length = usize::try_from(file.len()?).unwrap_or(usize::MAX);
        if length > FORMAT_BYTES_MAX {
            return Err(StoreError::Damaged { path, what: "it is far too long".to_owned() });
        }
        let mut text = vec![0; length];
        file.read_at(0, &mut text)?;
        Format::parse(&path, &text).map(Some)
    }

    /// Writes the file of a folder that has none: under another name, synced, then renamed.
    pub(super) fn write(self, disk: &dyn Disk, folder: &Path) -> Result<(), DiskError> {
        whole::replace(disk, &path_in(folder), self.text().as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMAT: Format = Format { store: StoreId([0xab; 16]), epoch: Epoch::new([7; 16]) };

    fn parse(text: &[u8]) -> Result<Format, StoreError> {
        Format::parse(Path::new("data/FORMAT"), text)
    }

    #[test]
    fn format_has_its_golden_text() {
        let golden = "gaggle data folder\nversion 1\nstore abababababababababababababababab\n\
            epoch 07070707070707070707070707070707\ncheck b2ae87ad\n";
        assert_eq!(FORMAT.text(), golden);
        assert_eq!(parse(golden.as_bytes()).unwrap(), FORMAT);
    }

    #[test]
    fn a_newer_version_is_told_from_damage() {
        let said = "gaggle data folder\nversion 2\nwhatever comes then\n";
        let newer = format!("{said}check {:08x}\n", crc32c::crc32c(said.as_bytes()));
        assert!(matches!(parse(newer.as_bytes()), Err(StoreError::Newer { found: 2, known: 1, .. })));
        let damaged = FORMAT.text().replace("version 1", "version 3");
        assert!(matches!(parse(damaged.as_bytes()), Err(StoreError::Damaged { .. })));
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_damage_that_names_the_file() {
        let text = FORMAT.text().into_bytes();
        for index in 0..text.len() {
            assert!(parse(&text[..index]).is_err());
            for bit in 0..8 {
                let mut flipped = text.clone();
                flipped[index] ^= 1 << bit;
                let error = parse(&flipped).unwrap_err();
                assert!(matches!(&error, StoreError::Damaged { .. }), "{error}");
                assert!(error.to_string().contains("data/FORMAT"));
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_no_format_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(parse(&bytes).is_err());
        }
    }
}
