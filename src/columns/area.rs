//! The area at the end of a header, for what later versions of varve add: fields that a reader skips when it does not know them.
//! What an older reader must not skip is no field but a new format version. A field speaks of the rows as they were written,
//! never of deleted ones and of places, so that whoever writes a header anew copies all fields, known and unknown.
//! Bytes: FORMAT.md, "Area".

use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, Reader};

/// Most bytes of an area that is written, with its length; longer ones are read.
pub const MAX_AREA_BYTES: usize = 128;

/// Fields by their numbers, in ascending order. Most headers have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Area {
    fields: Vec<(u64, Vec<u8>)>,
}

impl Area {
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// The bytes of a field, if the header has it.
    pub fn field(&self, number: u64) -> Option<&[u8]> {
        let at = self.place(number).ok()?;
        Some(&self.fields[at].1)
    }

    /// Adds a field, or gives it other bytes.
    pub fn set(&mut self, number: u64, bytes: Vec<u8>) {
        match self.place(number) {
            Ok(at) => self.fields[at].1 = bytes,
            Err(at) => self.fields.insert(at, (number, bytes)),
        }
    }

    fn place(&self, number: u64) -> core::result::Result<usize, usize> {
        self.fields.binary_search_by_key(&number, |field| field.0)
    }

    /// Appends the area; an empty one has no bytes at all.
    ///
    /// # Panics
    /// Where it takes more than `MAX_AREA_BYTES`.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        let mut body = Vec::new();
        for (number, bytes) in &self.fields {
            put_varint(&mut body, *number);
            put_varint(&mut body, bytes.len() as u64);
            body.extend_from_slice(bytes);
        }
        let start = out.len();
        put_varint(out, body.len() as u64);
        out.extend_from_slice(&body);
        let len = out.len() - start;
        assert!(len <= MAX_AREA_BYTES, "BUG: an area of {len} bytes");
    }

    /// Bytes that `write` appends.
    pub fn encoded_len(&self) -> usize {
        let mut out = Vec::new();
        self.write(&mut out);
        out.len()
    }

    /// Reads what is left of a header, to its end.
    pub fn parse(bytes: &[u8]) -> Result<Area> {
        let mut area = Area::default();
        if bytes.is_empty() {
            return Ok(area);
        }
        let mut reader = Reader::new(bytes);
        let len = reader.varint_up_to(bytes.len())?;
        if len == 0 || len != reader.len() {
            return Err(Corrupt::new("wrong length of the area"));
        }
        while !reader.is_empty() {
            let number = reader.varint()?;
            if area.fields.last().is_some_and(|last| last.0 >= number) {
                return Err(Corrupt::new("fields of the area out of order"));
            }
            let len = reader.varint_up_to(reader.len())?;
            area.fields.push((number, reader.take(len)?.to_vec()));
        }
        Ok(area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Area {
        let mut area = Area::default();
        area.set(300, b"later".to_vec());
        area.set(2, Vec::new());
        area.set(7, vec![1, 2, 3]);
        area
    }

    fn bytes_of(area: &Area) -> Vec<u8> {
        let mut bytes = Vec::new();
        area.write(&mut bytes);
        assert_eq!(bytes.len(), area.encoded_len());
        bytes
    }

    #[test]
    fn fields_come_back_and_none_take_no_byte() {
        assert!(bytes_of(&Area::default()).is_empty());
        let back = Area::parse(&bytes_of(&sample())).expect("own bytes");
        assert_eq!(back, sample());
        assert_eq!(back.field(300), Some(&b"later"[..]));
        assert_eq!(back.field(2), Some(&[][..]));
        assert_eq!(back.field(3), None);
    }

    #[test]
    fn cut_and_longer_areas_are_errors() {
        let bytes = bytes_of(&sample());
        for end in 1..bytes.len() {
            assert!(Area::parse(&bytes[..end]).is_err(), "cut at {end}");
        }
        assert!(Area::parse(&[&bytes[..], &[0]].concat()).is_err());
        assert!(Area::parse(&[0]).is_err());
        // Field 2 twice, and fields in the wrong order.
        assert!(Area::parse(&[4, 2, 0, 2, 0]).is_err());
        assert!(Area::parse(&[4, 3, 0, 2, 0]).is_err());
        assert!(Area::parse(&[4, 2, 0, 3, 0]).is_ok());
    }
}
