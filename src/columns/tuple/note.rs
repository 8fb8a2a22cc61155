//! Notes and the slots that name them. A note is a storage tuple of its own that says which rows of a chunk are gone, and where
//! updated ones went, besides what the header's delete map says. Who sees the note's tuple sees the change. The header of the chunk
//! ends with a number of slots, each the place of a note or empty, which are filled without writing the header anew.
//!
//! ```text
//! note    0 as every storage tuple, 16 bytes   16 crc32 of the tuple without these four bytes
//! v2      20 number of rows (varint)   then for each: (gap to the one before << 1 | updated) as a varint, and of an updated one
//!         block and line pointer (varints)
//! v3      20 number of runs (varint)   then for each: (gap to the end of the one before << 1 | updated) as a varint, and of updated
//!         rows, each a run of its own, block and line pointer (varints), of others the number of rows less one (varint)
//! slot    0 block (u32)   4 line pointer (u16)   6 check: low byte of crc32 of these six bytes and the chunk id; empty: zeros
//! ```
//!
//! The last slot is for no note: who replaces the header writes the place of the next one to it.

use super::header::{array, put_prefix, FormatError, BODY_BYTES, KIND_NOTE, VERSION};
use super::runs::{get_varint, put_varint};
use super::tid::Tid;

/// That of a note of runs; a note of single rows is of the version that headers with slots are.
pub(super) const RUNS_VERSION: u8 = 3;
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

/// Rows side by side that a note says are gone; one that was updated is alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub first: u32,
    /// One or more.
    pub rows: u32,
    /// Where the row went, if it was updated.
    pub successor: Option<Tid>,
}

impl Run {
    pub fn contains(&self, row: u32) -> bool {
        row >= self.first && row - self.first < self.rows
    }
}

/// The number of rows of some runs.
pub fn count(runs: &[Run]) -> u32 {
    runs.iter().map(|run| run.rows).sum()
}

/// The body of a note of rows that `runs` name, ascending: row by row or in runs, whichever is shorter; `None` where it is longer than `most` bytes, or than a
/// storage tuple.
pub fn encode(chunk: u64, runs: &[Run], most: usize) -> Option<Vec<u8>> {
    let most = most.min(BODY_BYTES);
    let rows = count(runs);
    // A row takes a byte or more.
    let by_row = (rows as usize <= most).then(|| {
        let mut out = start(VERSION, chunk);
        put_rows(&mut out, runs, rows);
        out
    });
    // An updated row takes as much either way, and another one no more as a row.
    let is_short = by_row.is_some() && rows as usize == runs.len();
    let by_run = (!is_short).then(|| {
        let mut out = start(RUNS_VERSION, chunk);
        put_runs(&mut out, runs);
        out
    });
    let mut out = match (by_row, by_run) {
        (Some(by_row), Some(by_run)) if by_run.len() < by_row.len() => by_run,
        (Some(out), _) | (None, Some(out)) => out,
        (None, None) => return None,
    };
    if out.len() > most {
        return None;
    }
    let crc = checksum(&out);
    out[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
    Some(out)
}

fn start(version: u8, chunk: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    put_prefix(&mut out, version, KIND_NOTE, 0, chunk);
    out.extend_from_slice(&[0; 4]);
    out
}

/// The rows of the note `body` of a chunk of `rows` rows, ascending, and where updated ones went.
pub fn decode(body: &[u8], rows: u32) -> Result<Vec<Run>, FormatError> {
    if !is_sound(body) {
        return Err(FormatError("note checksum"));
    }
    get_runs(&body[HEAD_BYTES..], rows, body[4] == RUNS_VERSION)
}

/// The runs of rows that come one after the other, ascending, and where updated ones went.
pub fn runs(rows: impl Iterator<Item = (u32, Option<Tid>)>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (row, successor) in rows {
        match runs.last_mut() {
            Some(last)
                if successor.is_none()
                    && last.successor.is_none()
                    && last.first + last.rows == row =>
            {
                last.rows += 1;
            }
            _ => runs.push(Run {
                first: row,
                rows: 1,
                successor,
            }),
        }
    }
    runs
}

/// The gap before a row or a run, and where that went.
fn put_start(out: &mut Vec<u8>, gap: u32, successor: Option<Tid>) {
    put_varint(out, u64::from(gap) << 1 | u64::from(successor.is_some()));
    if let Some(at) = successor {
        put_varint(out, u64::from(at.block));
        put_varint(out, u64::from(at.offset));
    }
}

fn put_rows(out: &mut Vec<u8>, runs: &[Run], rows: u32) {
    put_varint(out, u64::from(rows));
    let mut last = 0;
    for run in runs {
        for row in run.first..run.first + run.rows {
            put_start(out, row - last, run.successor);
            last = row;
        }
    }
}

fn put_runs(out: &mut Vec<u8>, runs: &[Run]) {
    put_varint(out, runs.len() as u64);
    let mut end = 0;
    for run in runs {
        put_start(out, run.first - end, run.successor);
        if run.successor.is_none() {
            put_varint(out, u64::from(run.rows - 1));
        }
        end = run.first + run.rows;
    }
}

fn get_runs(mut input: &[u8], rows: u32, has_lengths: bool) -> Result<Vec<Run>, FormatError> {
    const DAMAGED: FormatError = FormatError("rows of a note");
    let input = &mut input;
    let count = get_varint(input)?;
    if count == 0 || count > input.len() as u64 {
        return Err(DAMAGED);
    }
    let mut found: Vec<Run> = Vec::with_capacity(count as usize);
    for _ in 0..count {
        let entry = get_varint(input)?;
        // Gaps are to the end of a run, or to the last row.
        let from = found.last().map_or(0, |last| match has_lengths {
            true => last.first + last.rows,
            false => last.first,
        });
        if entry >> 1 >= u64::from(rows) || !has_lengths && !found.is_empty() && entry >> 1 == 0 {
            return Err(DAMAGED);
        }
        let first = u64::from(from) + (entry >> 1);
        let successor = match entry & 1 {
            0 => None,
            _ => Some(Tid {
                block: u32::try_from(get_varint(input)?).map_err(|_| DAMAGED)?,
                offset: u16::try_from(get_varint(input)?).map_err(|_| DAMAGED)?,
            }),
        };
        let others = match (has_lengths, successor) {
            (true, None) => get_varint(input)?,
            _ => 0,
        };
        if others >= u64::from(rows) || first + others >= u64::from(rows) {
            return Err(DAMAGED);
        }
        found.push(Run {
            first: first as u32,
            rows: others as u32 + 1,
            successor,
        });
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

/// Names none of the slots a note?
pub fn are_empty(slots: &[u8]) -> bool {
    // Piece by piece, without a branch for each byte.
    let is_empty = |piece: &[u8]| piece.iter().fold(0, |any, byte| any | byte) == 0;
    slots.chunks(64).all(is_empty)
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
    use super::super::delete_map::DeleteMap;
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
        let run = |first, rows, successor| Run {
            first,
            rows,
            successor,
        };
        let few = vec![run(7, 1, None), run(59_999, 1, Some(AT))];
        let mut many = map.clone();
        (1_000..31_000).for_each(|row| {
            many.delete(row);
        });
        let parts = vec![few[0], run(1_000, 30_000, None), few[1]];
        for (map, expected, version) in [(map, few, VERSION), (many, parts, RUNS_VERSION)] {
            let good = encode(5, &runs(map.entries()), BODY_BYTES).expect("small");
            assert_eq!(good[4], version);
            assert_eq!(count(&expected), map.deleted());
            assert_eq!(decode(&good, 60_000), Ok(expected));
            assert!(decode(&good, 59_999).is_err());
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 0x10;
                assert!(decode(&bad, 60_000).is_err(), "byte {at}");
                assert!(decode(&good[..at], 60_000).is_err(), "cut at {at}");
            }
        }
    }

    #[test]
    fn updated_rows_side_by_side_are_runs_of_their_own() {
        let mut map = DeleteMap::default();
        for row in 0..2_000 {
            match row {
                700 | 701 => map.update(row, AT),
                _ => map.delete(row),
            };
        }
        let note = encode(5, &runs(map.entries()), 100).expect("short");
        let runs = decode(&note, 2_000).expect("own bytes");
        let starts: Vec<_> = runs.iter().map(|run| (run.first, run.rows)).collect();
        assert_eq!(starts, [(0, 700), (700, 1), (701, 1), (702, 1_298)]);
        assert!(runs[3].contains(702) && runs[3].contains(1_999) && !runs[3].contains(701));
    }

    #[test]
    fn runs_beyond_the_chunk_are_damage() {
        for runs in [
            vec![(0, 10), (1, u64::MAX)],
            vec![(u64::MAX >> 1, 0)],
            vec![(0, 9), (0, 0)],
            vec![(0, u64::from(u32::MAX) + 3)],
        ] {
            let mut body = start(RUNS_VERSION, 5);
            put_varint(&mut body, runs.len() as u64);
            for (gap, others) in runs {
                put_varint(&mut body, gap << 1);
                put_varint(&mut body, others);
            }
            let crc = checksum(&body);
            body[CHECKSUM_AT..HEAD_BYTES].copy_from_slice(&crc.to_le_bytes());
            assert!(decode(&body, 10).is_err());
        }
    }

    #[test]
    fn a_note_is_no_longer_than_a_storage_tuple() {
        let mut map = DeleteMap::default();
        (0..65_000).step_by(7).for_each(|row| {
            map.update(row, AT);
        });
        assert_eq!(encode(5, &runs(map.entries()), usize::MAX), None);
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
