//! Where the pieces of a byte string lie: runs of consecutive TIDs, coded in a few bytes. "Next" is the
//! following line pointer on the same page, or line pointer 1 of the following page.

use super::tid::Tid;
use super::{FormatError, PIECE_BYTES};

/// TIDs of pieces 0, 1, 2, … of one byte string of `len` bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pieces {
    pub len: u32,
    pub tids: Vec<Tid>,
}

/// A run goes on at `b` when it was at `a`: 0 not, 1 same page, 2 next page.
fn step(a: Tid, b: Tid) -> u8 {
    if b.block == a.block && b.offset == a.offset + 1 {
        1
    } else if b.block == a.block + 1 && b.offset == 1 {
        2
    } else {
        0
    }
}

pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a number. Those of one or two bytes, which most are, take no loop.
#[inline]
pub fn get_varint(input: &mut &[u8]) -> Result<u64, FormatError> {
    match **input {
        [byte, ..] if byte & 0x80 == 0 => {
            *input = &input[1..];
            Ok(byte.into())
        }
        [low, high, ..] if high & 0x80 == 0 => {
            *input = &input[2..];
            Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => get_long_varint(input),
    }
}

fn get_long_varint(input: &mut &[u8]) -> Result<u64, FormatError> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = input.split_first().ok_or(FormatError("truncated number"))?;
        *input = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(FormatError("number of more than 64 bits"))
}

impl Pieces {
    /// `len`, number of runs, then per run: block, first line pointer, and alternating counts of
    /// pieces per page, run-length coded as (pieces on a page, number of such pages).
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64::from(self.len));
        put_varint(out, self.tids.len() as u64);
        let mut rest = &self.tids[..];
        while let Some(&first) = rest.first() {
            put_varint(out, u64::from(first.block));
            put_varint(out, u64::from(first.offset));
            let mut per_page: Vec<(u64, u64)> = Vec::new();
            let mut on_page = 1u64;
            let mut at = 1;
            let close = |per_page: &mut Vec<(u64, u64)>, count: u64| match per_page.last_mut() {
                Some((n, pages)) if *n == count => *pages += 1,
                _ => per_page.push((count, 1)),
            };
            while at < rest.len() {
                match step(rest[at - 1], rest[at]) {
                    1 => on_page += 1,
                    2 => {
                        close(&mut per_page, on_page);
                        on_page = 1;
                    }
                    _ => break,
                }
                at += 1;
            }
            close(&mut per_page, on_page);
            put_varint(out, per_page.len() as u64);
            for (count, pages) in per_page {
                put_varint(out, count);
                put_varint(out, pages);
            }
            rest = &rest[at..];
        }
    }

    /// Reads what `encode` wrote and moves `input` behind it.
    pub fn decode(input: &mut &[u8]) -> Result<Pieces, FormatError> {
        let len = u32::try_from(get_varint(input)?).map_err(|_| FormatError("piece length"))?;
        let count = get_varint(input)? as usize;
        if count != (len as usize).div_ceil(PIECE_BYTES) {
            return Err(FormatError("number of pieces"));
        }
        let mut tids = Vec::with_capacity(count);
        while tids.len() < count {
            let mut block =
                u32::try_from(get_varint(input)?).map_err(|_| FormatError("piece block"))?;
            let mut offset =
                u16::try_from(get_varint(input)?).map_err(|_| FormatError("piece line pointer"))?;
            for _ in 0..get_varint(input)? {
                let (per_page, pages) = (get_varint(input)?, get_varint(input)?);
                if per_page == 0 {
                    return Err(FormatError("run of pieces"));
                }
                for _ in 0..pages {
                    for _ in 0..per_page {
                        if tids.len() == count || offset == 0 {
                            return Err(FormatError("run of pieces"));
                        }
                        tids.push(Tid { block, offset });
                        offset = offset.wrapping_add(1);
                    }
                    block = block.wrapping_add(1);
                    offset = 1;
                }
            }
        }
        Ok(Pieces { len, tids })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(tids: Vec<Tid>) -> usize {
        let len = (tids.len() * PIECE_BYTES) as u32;
        let pieces = Pieces { len, tids };
        let mut bytes = Vec::new();
        pieces.encode(&mut bytes);
        let mut input = &bytes[..];
        assert_eq!(Pieces::decode(&mut input), Ok(pieces));
        assert!(input.is_empty());
        bytes.len()
    }

    #[test]
    fn runs_over_whole_pages_take_a_few_bytes() {
        let tids = (0..400)
            .map(|i| Tid {
                block: 1000 + i / 4,
                offset: 1 + (i % 4) as u16,
            })
            .collect();
        assert!(round_trip(tids) < 16);
    }

    #[test]
    fn scattered_pieces_come_back() {
        let tids = (0..50u32)
            .map(|i| Tid {
                block: (i * 7919) % 1000,
                offset: 1 + (i % 9) as u16,
            })
            .collect();
        round_trip(tids);
        round_trip(Vec::new());
    }

    #[test]
    fn truncated_bytes_are_an_error() {
        let mut bytes = Vec::new();
        Pieces {
            len: 4000,
            tids: vec![
                Tid {
                    block: 1,
                    offset: 1,
                },
                Tid {
                    block: 9,
                    offset: 4,
                },
                Tid {
                    block: 9,
                    offset: 5,
                },
            ],
        }
        .encode(&mut bytes);
        for end in 0..bytes.len() {
            assert!(Pieces::decode(&mut &bytes[..end]).is_err());
        }
    }
}
