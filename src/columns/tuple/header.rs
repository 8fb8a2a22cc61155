//! Header and piece tuples, encode above and decode below. All numbers are little endian.
//!
//! ```text
//! every storage tuple   0 magic "VRVE"   4 version   5 kind   6 flags (u16)   8 chunk id (u64)
//! piece                16 piece number (u32)   20 rows that this piece stands for (f32)   24 data
//! header               16 rows (u32)   20 deleted rows (u32)   24 min time (i64)   32 max time (i64)
//!                      40 crc32 of the tuple without these four bytes and the slots (u32)   44 level
//!                      [45 number of slots]   45 or 46 sections   [slots, to the end]
//! ```
//!
//! A header with slots (`note`), and a note, are of version 2, everything else of version 1. Slots are filled in place.
//!
//! Sections are `static` and `delete map`, each either inline or in pieces (see `Section`). Behind them lies the area, to the end
//! of the header (see `area`).

use super::note::{self, SLOT_BYTES};
use super::runs::{get_varint, put_varint, Pieces};
use crate::area::Area;

/// Largest body of a storage tuple: 2,032 bytes (TOAST_TUPLE_THRESHOLD) less the tuple header.
pub const BODY_BYTES: usize = 2032 - 24;
const PIECE_HEAD: usize = 24;
/// Bytes that all headers begin with.
pub const HEADER_HEAD: usize = 45;
const CHECKSUM_AT: usize = 40;
/// Data bytes of a full piece; every piece of a byte string but the last is full.
pub const PIECE_BYTES: usize = BODY_BYTES - PIECE_HEAD;
pub const MAGIC: u32 = u32::from_le_bytes(*b"VRVE");
/// The newest version of headers that this code writes and reads. Notes have a later one (`note`).
pub const VERSION: u8 = 2;
/// That of headers without slots, and of pieces.
const PLAIN_VERSION: u8 = 1;
const KIND_HEADER: u8 = 1;
const KIND_PIECE: u8 = 2;
pub(super) const KIND_NOTE: u8 = 3;

/// What a section begins with that is in the tuple.
const INLINE: u8 = 0;

/// All rows have the same series key.
pub const FLAG_ONE_SERIES: u16 = 1;
/// Rows are sorted by (key, time); min and max time are set.
pub const FLAG_SORTED: u16 = 2;
/// The payload is gone: all rows are deleted, the delete map still tells where updated rows went.
pub const FLAG_TOMBSTONE: u16 = 4;
/// The chunk is found under the NULL key of a series index, not under its own.
pub const FLAG_UNKEYED: u16 = 8;

/// Bytes that cannot be what was written; the text says which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatError(pub &'static str);

/// The bytes are of a later version than this code knows.
pub const NEWER_VERSION: FormatError = FormatError("newer format version");

impl core::fmt::Display for FormatError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.0)
    }
}

/// A variable part of a header.
#[derive(Clone, Debug, PartialEq)]
pub enum Section {
    Inline(Vec<u8>),
    /// In pieces; `depth` 0: the pieces hold the section; n: they hold the encoded `Pieces` of depth n - 1.
    Spilled {
        depth: u8,
        /// Of the section itself.
        crc: u32,
        pieces: Pieces,
    },
}

impl Section {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Section::Inline(bytes) => {
                out.push(INLINE);
                put_varint(out, bytes.len() as u64);
                out.extend_from_slice(bytes);
            }
            Section::Spilled { depth, crc, pieces } => {
                out.push(1 + depth);
                out.extend_from_slice(&crc.to_le_bytes());
                pieces.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Section, FormatError> {
        if let Some(bytes) = inline_section(input)? {
            return Ok(Section::Inline(bytes.to_vec()));
        }
        let (&mode, rest) = input
            .split_first()
            .ok_or(FormatError("truncated section"))?;
        *input = rest;
        let (crc, rest) = input
            .split_first_chunk::<4>()
            .ok_or(FormatError("truncated section"))?;
        *input = rest;
        Ok(Section::Spilled {
            depth: mode - 1,
            crc: u32::from_le_bytes(*crc),
            pieces: Pieces::decode(input)?,
        })
    }

    /// Bytes that the section takes inside the header tuple.
    pub fn encoded_len(&self) -> usize {
        let mut out = Vec::new();
        self.encode(&mut out);
        out.len()
    }
}

/// A chunk's header tuple.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The version of the layout that it was written in. What is written is of this version.
    pub version: u8,
    pub chunk: u64,
    pub flags: u16,
    pub level: u8,
    pub rows: u32,
    /// Rows that the delete map names.
    pub deleted: u32,
    /// In units of the time column's own type; 0 without `FLAG_SORTED`.
    pub min_time: i64,
    pub max_time: i64,
    pub statics: Section,
    pub delete_map: Section,
    pub area: Area,
    /// Where notes are (`note`), as the bytes of the slots.
    pub slots: Vec<u8>,
}

/// A slice of a byte string of chunk `chunk`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<'a> {
    pub chunk: u64,
    pub number: u32,
    /// Rows of the chunk divided by its pieces: what one sampled piece says about the table's rows.
    pub rows_share: f32,
    pub data: &'a [u8],
}

/// What a tuple body turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum StorageTuple<'a> {
    Header(Header),
    Piece(Piece<'a>),
    /// `note::decode` reads it.
    Note {
        chunk: u64,
    },
}

pub(super) fn put_prefix(out: &mut Vec<u8>, version: u8, kind: u8, flags: u16, chunk: u64) {
    out.extend_from_slice(&MAGIC.to_le_bytes());
    out.extend_from_slice(&[version, kind]);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&chunk.to_le_bytes());
}

impl Piece<'_> {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(PIECE_HEAD + self.data.len());
        put_prefix(&mut out, PLAIN_VERSION, KIND_PIECE, 0, self.chunk);
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(&self.rows_share.to_le_bytes());
        out.extend_from_slice(self.data);
        out
    }
}

impl Header {
    /// Bytes of the header tuple's body; `BODY_BYTES` at most when the caller has spilled enough.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        let version = if self.slots.is_empty() {
            PLAIN_VERSION
        } else {
            VERSION
        };
        put_prefix(&mut out, version, KIND_HEADER, self.flags, self.chunk);
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.deleted.to_le_bytes());
        out.extend_from_slice(&self.min_time.to_le_bytes());
        out.extend_from_slice(&self.max_time.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.push(self.level);
        if !self.slots.is_empty() {
            out.push((self.slots.len() / SLOT_BYTES) as u8);
        }
        self.statics.encode(&mut out);
        self.delete_map.encode(&mut out);
        self.area.write(&mut out);
        let crc = checksum(&out);
        out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&self.slots);
        out
    }

    /// Bytes that the slots take inside the header tuple.
    pub fn slot_bytes(&self) -> usize {
        self.slots.len() + usize::from(!self.slots.is_empty())
    }

    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// Where the slots of a header begin, which ends with them. Nothing else of it ever changes.
pub fn slots_start(body: &[u8]) -> usize {
    match (body.get(4), body.get(HEADER_HEAD)) {
        (Some(&VERSION), Some(&count)) => {
            body.len().saturating_sub(usize::from(count) * SLOT_BYTES)
        }
        _ => body.len(),
    }
}

/// Of what a header is but for its slots.
fn checksum(body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&body[..CHECKSUM_AT]);
    hasher.update(&body[CHECKSUM_AT + 4..]);
    hasher.finalize()
}

/// Is a header, without its slots, what was written?
fn has_its_checksum(body: &[u8]) -> bool {
    u32::from_le_bytes(array(body, CHECKSUM_AT)) == checksum(body)
}

/// Is `body` a header of a known version, but for its bytes of version and kind?
fn is_header_but_for_its_name(body: &[u8]) -> bool {
    if body.len() < HEADER_HEAD {
        return false;
    }
    (PLAIN_VERSION..=VERSION).any(|version| {
        let slots = match (version, body.get(HEADER_HEAD)) {
            (VERSION, Some(&count)) => usize::from(count) * SLOT_BYTES,
            _ => 0,
        };
        let end = body.len().saturating_sub(slots);
        if end < HEADER_HEAD {
            return false;
        }
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&body[..4]);
        hasher.update(&[version, KIND_HEADER]);
        hasher.update(&body[6..CHECKSUM_AT]);
        hasher.update(&body[CHECKSUM_AT + 4..end]);
        u32::from_le_bytes(array(body, CHECKSUM_AT)) == hasher.finalize()
    })
}

/// Checksum of a spilled section: of its own bytes, however deep they lie.
pub fn section_checksum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

pub(super) fn array<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    body[at..at + N].try_into().expect("BUG: array length")
}

/// True when `body`, of a tuple without attributes, starts with our magic.
#[inline]
pub fn is_storage(body: &[u8]) -> bool {
    body.len() >= 16 && body[..4] == MAGIC.to_le_bytes()
}

/// What a tuple without attributes is, as far as its first bytes tell; the cheap test before `decode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// Nothing behind the tuple header: a row of a table that had no columns.
    Row,
    Header,
    Piece,
    Note,
    /// None of them: `decode` says what is wrong.
    Damaged,
}

#[inline]
pub fn body_kind(body: &[u8]) -> BodyKind {
    match body.get(5) {
        _ if body.is_empty() => BodyKind::Row,
        Some(&KIND_HEADER) if is_storage(body) => BodyKind::Header,
        Some(&KIND_PIECE) if is_storage(body) && !is_renamed_header(body) => BodyKind::Piece,
        Some(&KIND_NOTE) if is_storage(body) && note::is_sound(body) => BodyKind::Note,
        _ => BodyKind::Damaged,
    }
}

/// Is the body that of a header whose kind says that it is a piece? The checksum is looked at only where a
/// piece would stand for hardly any row: a header has the number of deleted ones in that place.
#[inline]
fn is_renamed_header(body: &[u8]) -> bool {
    body.len() >= HEADER_HEAD
        && u32::from_le_bytes(array(body, 20)) <= 65_536
        && is_header_but_for_its_name(body)
}

/// Chunk id of a storage tuple.
pub fn chunk_id(body: &[u8]) -> u64 {
    body.get(8..16).map_or(0, |id| {
        u64::from_le_bytes(id.try_into().expect("BUG: eight bytes"))
    })
}

/// Does the first part of a header's body say that the chunk has been merged and has rows of one series?
pub fn is_own(body: &[u8]) -> bool {
    body.len() >= HEADER_HEAD
        && u16::from_le_bytes(array(body, 6)) & FLAG_ONE_SERIES != 0
        && body[44] > 0
}

/// The least and the greatest time of the chunk whose header `body` is. None for anything else, and where its rows are in no order, or what it
/// says is not to be trusted.
pub fn times(body: &[u8]) -> Option<(i64, i64)> {
    if body_kind(body) != BodyKind::Header || body[4] > VERSION {
        return None;
    }
    let sound = body.get(..slots_start(body))?;
    let flags = u16::from_le_bytes(array(body, 6));
    let is_sorted = flags & FLAG_SORTED != 0;
    let is_sound = sound.len() >= HEADER_HEAD && has_its_checksum(sound);
    let time = |at| i64::from_le_bytes(array(body, at));
    (is_sorted && is_sound).then(|| (time(24), time(32)))
}

/// A header that tells of rows of which none is gone, as far as it and no note says, and has in its tuple what it tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole<'a> {
    pub rows: u32,
    /// The static section (`Statics`).
    pub statics: &'a [u8],
}

/// What `body` says, if it is such a header, and sound; `decode` tells what it is otherwise.
pub fn whole(body: &[u8]) -> Option<Whole<'_>> {
    let is_known = body_kind(body) == BodyKind::Header && body[4] <= VERSION;
    let (sound, slots) = body.split_at_checked(slots_start(body))?;
    if !is_known || sound.len() < HEADER_HEAD || !note::are_empty(slots) {
        return None;
    }
    let (flags, deleted) = (
        u16::from_le_bytes(array(sound, 6)),
        u32::from_le_bytes(array(sound, 20)),
    );
    if deleted > 0 || flags & FLAG_TOMBSTONE != 0 {
        return None;
    }
    let mut input = sound.get(HEADER_HEAD + usize::from(body[4] == VERSION)..)?;
    let statics = inline_section(&mut input).ok()??;
    let delete_map = inline_section(&mut input).ok()??;
    let is_all = delete_map.is_empty() && input.is_empty();
    (is_all && has_its_checksum(sound)).then(|| Whole {
        rows: row_count(body),
        statics,
    })
}

/// The bytes of the section that comes next, if it is in the tuple; else nothing is read.
fn inline_section<'a>(input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, FormatError> {
    let Some(rest) = input.strip_prefix(&[INLINE]) else {
        return Ok(None);
    };
    *input = rest;
    let len = get_varint(input)? as usize;
    let split = input.split_at_checked(len);
    let (bytes, rest) = split.ok_or(FormatError("section length"))?;
    *input = rest;
    Ok(Some(bytes))
}

/// Rows of the chunk whose header `body` is, as far as it is one.
pub fn row_count(body: &[u8]) -> u32 {
    match body.get(16..20) {
        Some(rows) => u32::from_le_bytes(array(rows, 0)),
        None => 0,
    }
}

/// Rows that a sampled storage tuple stands for: a piece's share, nothing for a header.
pub fn rows_share(body: &[u8]) -> f64 {
    if body.len() >= PIECE_HEAD && body[5] == KIND_PIECE {
        f64::from(f32::from_le_bytes(array(body, 20))).clamp(0.0, 65_536.0)
    } else {
        0.0
    }
}

/// Reads the body of a storage tuple, `is_storage` having said yes.
pub fn decode(body: &[u8]) -> Result<StorageTuple<'_>, FormatError> {
    if !is_storage(body) {
        return Err(FormatError("magic"));
    }
    let newest = match body[5] {
        KIND_NOTE => note::RUNS_VERSION,
        _ => VERSION,
    };
    if body[4] > newest && !is_header_but_for_its_name(body) {
        return Err(NEWER_VERSION);
    }
    let chunk = chunk_id(body);
    match body[5] {
        KIND_PIECE if is_renamed_header(body) => Err(FormatError("kind of storage tuple")),
        KIND_PIECE if body.len() >= PIECE_HEAD => Ok(StorageTuple::Piece(Piece {
            chunk,
            number: u32::from_le_bytes(array(body, 16)),
            rows_share: f32::from_le_bytes(array(body, 20)),
            data: &body[PIECE_HEAD..],
        })),
        KIND_NOTE if note::is_sound(body) => Ok(StorageTuple::Note { chunk }),
        KIND_HEADER if body.len() >= HEADER_HEAD => {
            let (body, slots) = body.split_at(slots_start(body).max(HEADER_HEAD));
            if !has_its_checksum(body) {
                return Err(FormatError("header checksum"));
            }
            let count = usize::from(body[4] == VERSION);
            let mut input = body.get(HEADER_HEAD + count..).unwrap_or_default();
            let header = Header {
                version: body[4],
                chunk,
                flags: u16::from_le_bytes(array(body, 6)),
                rows: u32::from_le_bytes(array(body, 16)),
                deleted: u32::from_le_bytes(array(body, 20)),
                min_time: i64::from_le_bytes(array(body, 24)),
                max_time: i64::from_le_bytes(array(body, 32)),
                level: body[44],
                statics: Section::decode(&mut input)?,
                delete_map: Section::decode(&mut input)?,
                area: Area::parse(input).map_err(|_| FormatError("area"))?,
                slots: slots.to_vec(),
            };
            if header.rows > 65_536 || header.deleted > header.rows {
                return Err(FormatError("number of rows"));
            }
            Ok(StorageTuple::Header(header))
        }
        _ => Err(FormatError("kind of storage tuple")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tid::Tid;
    use super::*;

    #[test]
    fn a_whole_header_is_sound_and_has_all_of_its_rows_and_sections() {
        let mut header = with_slots();
        (header.deleted, header.area) = (0, Area::default());
        header.slots = note::empty_slots(header.rows);
        header.delete_map = Section::Inline(Vec::new());
        let body = header.encode();
        let told = Whole {
            rows: 4096,
            statics: b"statics",
        };
        assert_eq!(whole(&body), Some(told));
        let without_slots = Header {
            slots: Vec::new(),
            ..header.clone()
        };
        assert_eq!(whole(&without_slots.encode()), Some(told));
        // Neither with damage, nor with a slot that names a note.
        for at in 0..body.len() {
            let mut changed = body.clone();
            changed[at] ^= 0x10;
            assert_eq!(whole(&changed), None, "{at}");
        }
        for end in 0..body.len() {
            assert_eq!(whole(&body[..end]), None, "{end}");
        }
        let others: [fn(&mut Header); 5] = [
            |header| header.deleted = 1,
            |header| header.flags |= FLAG_TOMBSTONE,
            |header| header.delete_map = Section::Inline(vec![0]),
            |header| header.delete_map = sample().delete_map,
            |header| header.statics = sample().delete_map,
        ];
        for change in others {
            let mut other = header.clone();
            change(&mut other);
            assert_eq!(whole(&other.encode()), None);
        }
        assert_eq!(whole(&with_area().encode()), None);
    }

    #[test]
    fn times_are_those_of_a_sound_header_with_an_order() {
        let header = sample();
        let mut body = header.encode();
        assert_eq!(times(&body), Some((-5, i64::MAX)));
        let (_, decoded) = (body.len(), decode(&body).unwrap());
        assert_eq!(decoded, StorageTuple::Header(header.clone()));
        for at in 0..body.len() {
            body[at] ^= 16;
            assert_eq!(times(&body), None, "byte {at}");
            assert_eq!(times(&body[..at]), None, "length {at}");
            body[at] ^= 16;
        }
        let loose = Header {
            flags: FLAG_ONE_SERIES,
            ..header
        };
        assert_eq!(times(&loose.encode()), None);
    }

    fn sample() -> Header {
        Header {
            version: PLAIN_VERSION,
            chunk: 0x0123_4567_89ab_cdef,
            flags: FLAG_ONE_SERIES | FLAG_SORTED,
            level: 2,
            rows: 4096,
            deleted: 3,
            min_time: -5,
            max_time: i64::MAX,
            statics: Section::Inline(b"statics".to_vec()),
            delete_map: Section::Spilled {
                depth: 0,
                crc: 77,
                pieces: Pieces {
                    len: 3000,
                    tids: vec![
                        Tid {
                            block: 9,
                            offset: 1,
                        },
                        Tid {
                            block: 9,
                            offset: 2,
                        },
                    ],
                },
            },
            area: Area::default(),
            slots: Vec::new(),
        }
    }

    fn with_slots() -> Header {
        let mut header = with_area();
        header.version = VERSION;
        header.slots = note::empty_slots(header.rows);
        let at = Tid {
            block: 3,
            offset: 4,
        };
        note::fill(&mut header.slots, header.chunk, &[at]);
        header
    }

    fn with_area() -> Header {
        let mut header = sample();
        header.area.set(9_999, b"of a later version".to_vec());
        header
    }

    #[test]
    fn a_header_comes_back() {
        let body = sample().encode();
        assert_eq!(body_kind(&body), BodyKind::Header);
        assert_eq!(decode(&body), Ok(StorageTuple::Header(sample())));
        let longer = with_area().encode();
        assert_eq!(longer.len() - body.len(), with_area().area.encoded_len());
        assert_eq!(decode(&longer), Ok(StorageTuple::Header(with_area())));
        let with_slots = with_slots();
        let body = with_slots.encode();
        assert_eq!(body.len() - longer.len(), with_slots.slot_bytes());
        assert_eq!(body[slots_start(&body)..], with_slots.slots);
        assert_eq!(decode(&body), Ok(StorageTuple::Header(with_slots)));
    }

    #[test]
    fn slots_are_filled_without_anything_else_of_a_header() {
        let mut body = with_slots().encode();
        let start = slots_start(&body);
        body[start + 7..start + 14].copy_from_slice(&[7; 7]);
        let Ok(StorageTuple::Header(header)) = decode(&body) else {
            panic!("a header");
        };
        assert!(note::all_named(header.chunk, &header.slots).is_err());
        assert_eq!(header.slots[7..14], [7; 7]);
    }

    #[test]
    fn every_flipped_byte_of_a_header_is_noticed() {
        every_flipped_byte_is_noticed(&sample());
        every_flipped_byte_is_noticed(&with_area());
        every_flipped_byte_is_noticed(&with_slots());
    }

    fn every_flipped_byte_is_noticed(header: &Header) {
        let good = header.encode();
        for at in 0..slots_start(&good) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(decode(&bad).is_err(), "byte {at}");
            assert_ne!(decode(&bad), Err(NEWER_VERSION), "byte {at}");
            assert!([BodyKind::Header, BodyKind::Damaged].contains(&body_kind(&bad)));
        }
        let mut renamed = good.clone();
        renamed[5] = KIND_PIECE;
        assert_eq!(body_kind(&renamed), BodyKind::Damaged);
        assert!(decode(&renamed).is_err());
        for end in 0..good.len() {
            assert!(decode(&good[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn a_piece_comes_back() {
        let piece = Piece {
            chunk: 5,
            number: 7,
            rows_share: 12.5,
            data: b"data",
        };
        let body = piece.encode();
        assert_eq!(decode(&body), Ok(StorageTuple::Piece(piece)));
        assert_eq!(rows_share(&body), 12.5);
        assert_eq!(body_kind(&body), BodyKind::Piece);
    }

    #[test]
    fn a_later_version_is_told_from_a_flipped_byte() {
        let mut body = sample().encode();
        body[4] = VERSION + 1;
        assert_eq!(decode(&body), Err(FormatError("header checksum")));
        body[30] ^= 1;
        assert_eq!(decode(&body), Err(NEWER_VERSION));
    }

    #[test]
    fn only_rows_without_columns_have_no_body() {
        assert_eq!(body_kind(&[]), BodyKind::Row);
        assert_eq!(body_kind(&[0; 3]), BodyKind::Damaged);
        assert_eq!(
            body_kind(b"WRVE\x01\x02 and so on, and on"),
            BodyKind::Damaged
        );
    }
}
