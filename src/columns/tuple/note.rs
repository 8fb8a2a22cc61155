//! Notes and the slots that name them. A note is a storage tuple of its own that says which rows of a chunk are gone, and where
//! updated ones went, besides what the header's delete map says. Who sees the note's tuple sees the change. The header of the chunk
//! ends with a number of slots, each the place of a note or empty, which are filled without writing the header anew.
//!
//! ```text
//! note    0 as every storage tuple, 16 bytes   16 crc32 of the tuple without these four bytes   20 number of rows (varint)
//!         then for each: (gap to the one before << 1 | updated) as a varint, and of an updated one block and line pointer (varints)
//! slot    0 block (u32)   4 line pointer (u16)   6 check: low byte of crc32 of these six bytes and the chunk id; empty: zeros
//! ```
//!
//! The last slot is for no note: who replaces the header writes the place of the next one to it.

use super::delete_map::DeleteMap;
use super::header::{array, put_prefix, FormatError, BODY_BYTES, KIND_NOTE, VERSION};
use super::runs::{get_varint, put_varint};
use super::tid::Tid;

const HEAD_BYTES: usize = 20;
const CHECKSUM_AT: usize = 16;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 7;
const EMPTY: [u8; SLOT_BYTES] = [0; SLOT_BYTES];
/// Slots of a chunk of many rows.
const MOST_SLOTS: u32 = 40;
/// Slots of one of few.
const LEAST_SLOTS: u32 = 4;
const ROWS_PER_SLOT: u32 = 256;
/// The same of a chunk of which rows have changed: others of it will, as a rule.
const MOST_SLOTS_OF_CHANGED: u32 = 160;
const ROWS_PER_SLOT_OF_CHANGED: u32 = 64;

/// The body of a note; `None` where the map is too large for one.
pub fn encode(chunk: u64, map: &DeleteMap) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    put_prefix(&mut out, VERSION, KIND_NOTE, 0, chunk);
    out.extend_from_slice(&[0; 4]);
    put_rows(&mut out, map);
    if out.len() > BODY_BYTES {
        return None;
    }
    let crc = checksum(&out);
    out[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
    Some(out)
}

/// The rows of the note `body` of a chunk of `rows` rows, and where updated ones went.
pub fn decode(body: &[u8], rows: u32) -> Result<Vec<(u32, Option<Tid>)>, FormatError> {
    if !is_sound(body) {
        return Err(FormatError("note checksum"));
    }
    get_rows(&body[HEAD_BYTES..], rows)
}

fn put_rows(out: &mut Vec<u8>, map: &DeleteMap) {
    put_varint(out, u64::from(map.deleted()));
    let mut last = 0;
    for (row, successor) in map.entries() {
        put_varint(
            out,
            u64::from(row - last) << 1 | u64::from(successor.is_some()),
        );
        if let Some(at) = successor {
            put_varint(out, u64::from(at.block));
            put_varint(out, u64::from(at.offset));
        }
        last = row;
    }
}

fn get_rows(mut input: &[u8], rows: u32) -> Result<Vec<(u32, Option<Tid>)>, FormatError> {
    const DAMAGED: FormatError = FormatError("rows of a note");
    let input = &mut input;
    let count = get_varint(input)?;
    if count == 0 || count > input.len() as u64 {
        return Err(DAMAGED);
    }
    let mut found = Vec::with_capacity(count as usize);
    let mut last = 0;
    for at in 0..count {
        let entry = get_varint(input)?;
        let row = u64::from(last) + (entry >> 1);
        if row >= u64::from(rows) || at > 0 && entry >> 1 == 0 {
            return Err(DAMAGED);
        }
        last = row as u32;
        let successor = match entry & 1 {
            0 => None,
            _ => Some(Tid {
                block: u32::try_from(get_varint(input)?).map_err(|_| DAMAGED)?,
                offset: u16::try_from(get_varint(input)?).map_err(|_| DAMAGED)?,
            }),
        };
        found.push((last, successor));
    }
    input.is_empty().then_some(found).ok_or(DAMAGED)
}

/// Is this what was written?
pub fn is_sound(body: &[u8]) -> bool {
    body.len() > HEAD_BYTES && u32::from_le_bytes(array(body, CHECKSUM_AT)) == checksum(body)
}

fn checksum(body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&body[..CHECKSUM_AT]);
    hasher.update(&body[HEAD_BYTES..]);
    hasher.finalize()
}

/// Empty slots for a chunk of `rows` rows.
pub fn empty_slots(rows: u32) -> Vec<u8> {
    let count = (rows / ROWS_PER_SLOT).clamp(LEAST_SLOTS, MOST_SLOTS);
    vec![0; count as usize * SLOT_BYTES]
}

/// How many slots a chunk of `rows` rows should have of which some have changed.
pub fn slots_of_changed(rows: u32) -> usize {
    (rows / ROWS_PER_SLOT_OF_CHANGED).clamp(LEAST_SLOTS, MOST_SLOTS_OF_CHANGED) as usize
}

/// The slot of a note at `at`.
pub fn slot(chunk: u64, at: Tid) -> [u8; SLOT_BYTES] {
    let mut slot = EMPTY;
    slot[..4].copy_from_slice(&at.block.to_le_bytes());
    slot[4..6].copy_from_slice(&at.offset.to_le_bytes());
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&slot[..6]);
    hasher.update(&chunk.to_le_bytes());
    slot[6] = hasher.finalize() as u8;
    slot
}

/// The place that a slot names; `None` for an empty one.
pub fn named(chunk: u64, bytes: &[u8]) -> Result<Option<Tid>, FormatError> {
    if bytes == EMPTY {
        return Ok(None);
    }
    let at = Tid {
        block: u32::from_le_bytes(array(bytes, 0)),
        offset: u16::from_le_bytes(array(bytes, 4)),
    };
    if at.offset == 0 || slot(chunk, at) != *bytes {
        return Err(FormatError("slot of a header"));
    }
    Ok(Some(at))
}

/// The places that slots name, each once: where a note is gone for good that was rolled back, another one may be.
pub fn all_named(chunk: u64, slots: &[u8]) -> Result<Vec<Tid>, FormatError> {
    let mut places = Vec::new();
    let mut met = Met::default();
    for slot in slots.chunks_exact(SLOT_BYTES) {
        if let Some(place) = named(chunk, slot)? {
            if !met.may_have(place) || !places.contains(&place) {
                places.push(place);
            }
        }
    }
    Ok(places)
}

/// Which places have been met, about: most slots need not be compared with all others.
#[derive(Default)]
struct Met([u64; 16]);

impl Met {
    /// Notes that a place is met. False where it has not been met before.
    fn may_have(&mut self, place: Tid) -> bool {
        let mixed = (place.block ^ u32::from(place.offset) << 16).wrapping_mul(0x9e37_79b1);
        let (word, bit) = (mixed >> 28, mixed >> 22 & 63);
        let before = self.0[word as usize];
        self.0[word as usize] |= 1 << bit;
        before >> bit & 1 != 0
    }
}

/// Writes the places of notes to the first of `slots`, which are empty, and as many or more.
pub fn fill(slots: &mut [u8], chunk: u64, notes: &[Tid]) {
    assert!(
        notes.len() * SLOT_BYTES <= slots.len(),
        "BUG: {} notes for {} slots",
        notes.len(),
        slots.len() / SLOT_BYTES
    );
    for (bytes, &at) in slots.chunks_exact_mut(SLOT_BYTES).zip(notes) {
        bytes.copy_from_slice(&slot(chunk, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Tid = Tid {
        block: 70_000,
        offset: 12,
    };

    #[test]
    fn a_note_comes_back_and_every_flipped_byte_is_noticed() {
        let mut map = DeleteMap::default();
        map.delete(7);
        map.update(59_999, AT);
        let good = encode(5, &map).expect("small");
        assert_eq!(
            decode(&good, 60_000),
            Ok(vec![(7, None), (59_999, Some(AT))])
        );
        assert!(decode(&good, 59_999).is_err());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(decode(&bad, 60_000).is_err(), "byte {at}");
            assert!(decode(&good[..at], 60_000).is_err(), "cut at {at}");
        }
    }

    #[test]
    fn a_note_is_no_longer_than_a_storage_tuple() {
        let mut map = DeleteMap::default();
        (0..65_000).step_by(7).for_each(|row| {
            map.update(row, AT);
        });
        assert_eq!(encode(5, &map), None);
    }

    #[test]
    fn slots_come_back_and_every_flipped_byte_is_noticed() {
        let mut slots = empty_slots(2_000);
        assert_eq!(slots.len(), 7 * SLOT_BYTES);
        assert_eq!(all_named(9, &slots), Ok(Vec::new()));
        let other = Tid { block: 3, ..AT };
        fill(&mut slots, 9, &[AT, other, AT]);
        assert_eq!(all_named(9, &slots), Ok(vec![AT, other]));
        assert!(all_named(8, &slots).is_err());
        for at in 0..2 * SLOT_BYTES {
            let mut bad = slots.clone();
            bad[at] ^= 0x10;
            assert!(all_named(9, &bad).is_err(), "byte {at}");
        }
        assert_eq!(empty_slots(7).len(), 4 * SLOT_BYTES);
        assert_eq!(empty_slots(65_536).len(), 40 * SLOT_BYTES);
        assert_eq!(slots_of_changed(65_536), 160);
        assert_eq!(slots_of_changed(7), 4);
    }

    #[test]
    fn each_place_is_named_once_however_many_there_are() {
        let at = |number: u32| Tid {
            block: number / 3,
            offset: (number % 3 + 1) as u16,
        };
        let places: Vec<Tid> = (0..150).map(at).collect();
        let mut slots = vec![0; 160 * SLOT_BYTES];
        let twice: Vec<Tid> = places.iter().chain(&places[140..]).copied().collect();
        fill(&mut slots, 9, &twice);
        assert_eq!(all_named(9, &slots), Ok(places));
    }
}
