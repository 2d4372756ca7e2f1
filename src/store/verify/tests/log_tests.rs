//! Damage to the log: each is named with its file and byte, and what can still be read behind it is read.

use super::scene::frames;
use super::*;
use crate::disk::whole;
use crate::ids::Lsn;

fn path(number: u64) -> PathBuf {
    folder().join(format!("log/{number:08}.log"))
}

fn bytes_of(disk: &SimulatedDisk, number: u64) -> Vec<u8> {
    whole::read(disk, &path(number), usize::MAX).unwrap().unwrap()
}

fn overwrite(disk: &SimulatedDisk, number: u64, offset: usize, bytes: &[u8]) {
    disk.open(&path(number)).unwrap().write_at(offset as u64, bytes).unwrap();
}

/// Where the frames of a segment begin, and where the last one ends.
fn offsets(disk: &SimulatedDisk, number: u64) -> Vec<usize> {
    offsets_of(&bytes_of(disk, number))
}

/// What is said of the log alone; what is lost with a frame is said of the rows too.
fn of_log(told: &Told) -> Vec<&str> {
    told.findings.iter().map(String::as_str).filter(|finding| finding.starts_with("/srv/data/log")).collect()
}

/// Frames of the log that [`plain`] makes: a seal, ninety frames, and a seal.
const FRAMES: u64 = 92;

/// A log of three segments, of frames that put nothing of a meaning.
fn plain() -> SimulatedDisk {
    let disk = folder_of(&[]);
    let op = |number: u8| scene::meta("last-group", number.into());
    let frames: Vec<Vec<Op>> = (1..=90).map(|number| vec![op(number)]).collect();
    append(&disk, &frames);
    assert!(disk.exists(&path(3)).unwrap());
    check(&disk).clean();
    disk
}

#[test]
fn a_flipped_byte_in_an_old_segment_is_named_and_what_follows_is_read() {
    let disk = plain();
    let at = offsets(&disk, 1);
    overwrite(&disk, 1, at[4] + 50, b"\xff");
    let told = check(&disk);
    told.only(&format!(
        "/srv/data/log/00000001.log, byte {}: no frame can be read from here to byte {}, where frame l6 stands; \
         frame l5 is lost",
        at[4], at[5]
    ));
    assert_eq!(told.verified.frames, FRAMES - 1);
    assert!(told.remarks.iter().any(|remark| remark.contains("no server starts on this log")), "{:?}", told.remarks);
}

#[test]
fn the_last_frame_of_an_old_segment_is_missed_by_the_next_segment() {
    let disk = plain();
    let at = offsets(&disk, 1);
    let (last, end) = (at[at.len() - 2], at[at.len() - 1]);
    let lost = at.len() - 1;
    overwrite(&disk, 1, last + 45, b"\xff");
    check(&disk).only(&format!(
        "/srv/data/log/00000001.log, byte {last}: {} bytes from here on are no frame that can be read, but the log \
         goes on with frame l{} in /srv/data/log/00000002.log; frame l{lost} is lost",
        // Its last byte is a zero, as are all behind it.
        end - last - 1,
        lost + 1,
    ));
    overwrite(&disk, 1, last, &vec![0; end - last]);
    check(&disk).only(&format!(
        "/srv/data/log/00000002.log, byte 80: frame l{} stands here behind frame l{}: frame l{lost} is missing",
        lost + 1,
        lost - 1
    ));
}

#[test]
fn each_missing_segment_is_named() {
    let disk = plain();
    disk.remove(&path(1)).unwrap();
    let told = check(&disk);
    let found = of_log(&told);
    assert_eq!(found[0], "/srv/data/log/00000001.log: this segment of the log is missing");
    assert!(found[1].starts_with("/srv/data/log/00000002.log, byte 80: frame l"), "{found:?}");
    assert_eq!(found.len(), 2);
}

#[test]
fn a_header_that_is_wrong_is_named_and_its_frames_are_read_all_the_same() {
    let disk = plain();
    overwrite(&disk, 2, 70, b"\x01");
    let told = check(&disk);
    told.only("/srv/data/log/00000002.log: the checksum of its header does not match");
    assert_eq!(told.verified.frames, FRAMES);
    overwrite(&disk, 2, 70, b"\x00");
    // A nonce that is wrong is of no use: the frames are not found.
    overwrite(&disk, 2, 24, &[bytes_of(&disk, 2)[24] ^ 1]);
    let told = check(&disk);
    assert_eq!(of_log(&told)[0], "/srv/data/log/00000002.log: the checksum of its header does not match");
    assert!(told.verified.frames < FRAMES);
}

#[test]
fn a_cut_segment_and_one_under_another_name_are_named() {
    let disk = plain();
    let length = bytes_of(&disk, 2).len() as u64;
    disk.open(&path(2)).unwrap().set_len(length - 100).unwrap();
    let told = check(&disk);
    assert!(
        told.findings[0].starts_with("/srv/data/log/00000002.log: it has 1948 bytes, not 2048"),
        "{:?}",
        told.findings
    );
    let disk = plain();
    disk.rename(&path(2), &path(9)).unwrap();
    let told = check(&disk);
    assert!(told.findings.iter().any(|finding| finding.contains("it is segment 2 under another name")));
    assert!(told.findings.iter().any(|finding| finding.contains("00000002.log: this segment of the log is missing")));
    let disk = plain();
    disk.open(&path(1)).unwrap().set_len(10).unwrap();
    assert!(check(&disk).findings[0].contains("00000001.log: it is shorter than its header"));
}

#[test]
fn a_segment_of_another_store_is_named_and_not_read() {
    let (disk, other) = (plain(), plain());
    let bytes = bytes_of(&other, 2);
    overwrite(&disk, 2, 0, &bytes);
    let told = check(&disk);
    assert_eq!(of_log(&told)[0], "/srv/data/log/00000002.log: it belongs to another store");
    assert!(told.verified.frames < FRAMES);
}

#[test]
fn a_frame_that_stands_twice_is_named_and_not_taken_again() {
    let disk = plain();
    let at = offsets(&disk, 3);
    let bytes = bytes_of(&disk, 3);
    let end = *at.last().unwrap();
    overwrite(&disk, 3, end, &bytes[at[0]..at[1]]);
    let told = check(&disk);
    assert_eq!(told.findings.len(), 1);
    assert!(told.findings[0].contains(&format!("byte {end}: frame l")), "{:?}", told.findings);
    assert!(told.findings[0].ends_with("stands here, behind frame l92"), "{:?}", told.findings);
    assert_eq!((told.verified.frames, told.verified.last), (FRAMES, Lsn::new(FRAMES)));
}

#[test]
fn a_torn_last_frame_and_files_never_born_are_remarks() {
    let disk = folder_of(&[]);
    let mut store = open(Arc::new(disk.clone()), folder(), open_options()).unwrap();
    for number in 1..=3 {
        store.log.append(&[scene::meta("last-group", number)]).unwrap();
        store.log.sync().unwrap();
    }
    drop(store);
    let at = offsets(&disk, 1);
    overwrite(&disk, 1, at[3] + 45, b"\xff");
    disk.create(&folder().join("log/00000002.new")).unwrap();
    let told = check(&disk);
    assert_eq!(told.verified.frames, 3);
    let remarks = told.clean();
    assert_eq!(remarks[0], "/srv/data/log/00000002.new: it was never finished; the next start removes it");
    assert!(remarks[1].contains(&format!("byte {}: ", at[3])), "{remarks:?}");
    assert!(remarks[1].contains("are a frame that was not written to its end"), "{remarks:?}");
    assert!(remarks[2].contains("frame l3, the last, is no seal"), "{remarks:?}");
}

#[test]
fn a_log_that_ends_below_what_was_flushed_is_a_finding() {
    let disk = plain();
    let store = Format::read(&disk, folder()).unwrap().unwrap().store;
    Flushed::read(&(Arc::new(disk.clone()) as SharedDisk), folder(), store).unwrap().record(Lsn::new(93)).unwrap();
    check(&disk).only("/srv/data/log: the log ends with frame l92, but the index was flushed up to l93");
}

#[test]
fn a_folder_without_a_log_is_a_finding() {
    let disk = SimulatedDisk::new();
    disk.create_folder(folder()).unwrap();
    Format::generate().unwrap().write(&disk, folder()).unwrap();
    let told = check(&disk);
    assert!(told.findings[0].starts_with("/srv/data/log: the folder of the log is missing"), "{:?}", told.findings);
}

#[test]
fn after_a_clean_stop_no_flipped_byte_is_passed_over_in_silence() {
    let disk = folder_of(&frames());
    append(&disk, &vec![vec![scene::meta("last-group", 1)]; 30]);
    let quiet = check(&disk).clean().len();
    let segments = disk.list(&folder().join("log")).unwrap().len() as u64;
    assert!(segments >= 2);
    for segment in 1..=segments {
        let bytes = bytes_of(&disk, segment);
        for (offset, byte) in bytes.iter().enumerate().step_by(3) {
            overwrite(&disk, segment, offset, &[byte ^ 0x10]);
            let told = check(&disk);
            let is_behind_the_seal = segment == segments && offset >= *offsets_of(&bytes).last().unwrap();
            let is_said = !of_log(&told).is_empty() || told.remarks.len() > quiet;
            assert!(is_said, "segment {segment}, byte {offset}: {:?}", told.remarks);
            let name = format!("{segment:08}.log");
            let named = told.findings.iter().chain(&told.remarks).any(|said| said.contains(&name));
            assert!(named, "segment {segment}, byte {offset}");
            // In the seal, and in the zeros behind it, it is as after an unclean stop: worth a remark.
            let is_at_the_end = is_behind_the_seal || (segment == segments && is_in_last(&bytes, offset));
            assert!(is_at_the_end || told.verified.findings > 0, "segment {segment}, byte {offset}");
            overwrite(&disk, segment, offset, &[*byte]);
        }
    }
    check(&disk).clean();
}

fn offsets_of(bytes: &[u8]) -> Vec<usize> {
    let mut offsets = vec![80];
    loop {
        let at = *offsets.last().unwrap();
        let length = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        if length == 0 {
            return offsets;
        }
        offsets.push(at + length as usize);
    }
}

fn is_in_last(bytes: &[u8], offset: usize) -> bool {
    offsets_of(bytes).iter().rev().nth(1).is_some_and(|last| offset >= *last)
}
