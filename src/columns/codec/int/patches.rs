//! The exceptions of a frame as two packed lists, where they are many and near: gaps between their rows (or a
//! bitmap of all rows) and high bits. An exception takes 8 to 10 bits so, instead of 16 as varints, and
//! narrower frames pay. Deltas of gauges, sensors with bursts.
//!
//! Bytes: widths (two: of a position, 0xFF for a bitmap, and of high bits) in front of the packed values of
//! the frame; behind them the packed gaps or the bitmap, then the packed high bits (zigzag).

use crate::codec::pack::{bit_width, pack_plain, Plain};
use crate::error::{Corrupt, Result};
use crate::wire::{unzigzag, zigzag, Reader};

/// In place of the width of a gap.
const BITMAP: u8 = 0xFF;

pub const PAST_THE_END: Corrupt = Corrupt::new("an exception lies past the end");

/// The exceptions of a frame about to be written.
pub struct Patches {
    widths: Widths,
    /// Gaps, or the bytes of a bitmap.
    positions: Vec<u64>,
    high: Vec<u64>,
}

#[derive(Clone, Copy)]
pub struct Widths {
    position: u8,
    high: u8,
}

/// Bytes of the lists of `exceptions` among `n` rows, about: the widest gap is not known.
pub fn estimate(n: usize, exceptions: usize, high_width: u8) -> usize {
    let gap_width = bit_width((n / exceptions.max(1)) as u64) as usize + 2;
    let positions = (exceptions * gap_width).min(n);
    2 + positions.div_ceil(8) + (exceptions * high_width as usize).div_ceil(8)
}

impl Patches {
    /// `far`: rows whose offset needs more than `width` bits, ascending.
    pub fn of(offsets: &[u64], width: u8, far: &[usize]) -> Patches {
        let mut next = 0;
        let mut gaps = Vec::with_capacity(far.len());
        let mut high = Vec::with_capacity(far.len());
        for &row in far {
            gaps.push((row - next) as u64);
            high.push(zigzag(offsets[row] as i64 >> width));
            next = row + 1;
        }
        let width_of = |list: &[u64]| bit_width(list.iter().fold(0, |bits, word| bits | word));
        let widths = Widths {
            position: width_of(&gaps),
            high: width_of(&high),
        };
        let bitmap_bytes = offsets.len().div_ceil(8);
        if far.len() * widths.position as usize <= bitmap_bytes * 8 {
            return Patches {
                widths,
                positions: gaps,
                high,
            };
        }
        let mut bitmap = vec![0; bitmap_bytes];
        far.iter().for_each(|row| bitmap[row / 8] |= 1 << (row % 8));
        Patches {
            widths: Widths {
                position: BITMAP,
                ..widths
            },
            positions: bitmap,
            high,
        }
    }

    pub fn put_widths(&self, out: &mut Vec<u8>) {
        out.extend([self.widths.position, self.widths.high]);
    }

    pub fn put(&self, out: &mut Vec<u8>) {
        match self.widths.position {
            BITMAP => out.extend(self.positions.iter().map(|byte| *byte as u8)),
            0 => {}
            width => pack_plain(&self.positions, width, out),
        }
        if self.widths.high > 0 {
            pack_plain(&self.high, self.widths.high, out);
        }
    }
}

impl Widths {
    pub fn read(reader: &mut Reader) -> Result<Widths> {
        Ok(Widths {
            position: reader.u8()?,
            high: reader.u8()?,
        })
    }

    /// Calls `take` with the row, below `n`, and the high bits of each of `count` exceptions.
    pub fn each(
        self,
        reader: &mut Reader,
        count: usize,
        n: usize,
        mut take: impl FnMut(usize, i64),
    ) -> Result<()> {
        if self.position == BITMAP {
            let bitmap = reader.take(n.div_ceil(8))?;
            let high = Plain::take(reader, self.high, count)?;
            return each_set(bitmap, count, |i, row| {
                if row >= n {
                    return Err(PAST_THE_END);
                }
                take(row, unzigzag(high.get(i)));
                Ok(())
            });
        }
        let gaps = Plain::take(reader, self.position, count)?;
        let high = Plain::take(reader, self.high, count)?;
        let mut next = 0usize;
        for i in 0..count {
            let row = next.saturating_add(gaps.get(i) as usize);
            if row >= n {
                return Err(PAST_THE_END);
            }
            take(row, unzigzag(high.get(i)));
            next = row + 1;
        }
        Ok(())
    }
}

/// Calls `take` with the number and the row of each of the `count` rows that are set.
fn each_set(
    bitmap: &[u8],
    count: usize,
    mut take: impl FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let mut i = 0;
    for (start, bytes) in (0..).step_by(64).zip(bitmap.chunks(8)) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let mut bits = u64::from_le_bytes(word);
        while bits != 0 {
            take(i, start + bits.trailing_zeros() as usize)?;
            i += 1;
            bits &= bits - 1;
        }
    }
    if i == count {
        Ok(())
    } else {
        Err(Corrupt::new(
            "a bitmap has not as many exceptions as it should",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(n: usize, far: &[usize]) -> Vec<u8> {
        let mut offsets = vec![5u64; n];
        far.iter()
            .enumerate()
            .for_each(|(i, row)| offsets[*row] = (i as u64 + 1) << 4);
        let patches = Patches::of(&offsets, 4, far);
        let mut bytes = Vec::new();
        patches.put_widths(&mut bytes);
        patches.put(&mut bytes);
        let mut reader = Reader::new(&bytes);
        let mut back = Vec::new();
        let widths = Widths::read(&mut reader).unwrap();
        widths
            .each(&mut reader, far.len(), n, |row, high| {
                back.push((row, high))
            })
            .unwrap();
        assert!(reader.is_empty());
        let expected: Vec<(usize, i64)> = far.iter().copied().zip(1..).collect();
        assert_eq!(back, expected);
        let mut reader = Reader::new(&bytes);
        let widths = Widths::read(&mut reader).unwrap();
        let last = far.last().copied().unwrap_or(0);
        assert!(
            far.is_empty()
                || widths
                    .each(&mut reader, far.len(), last, |_, _| ())
                    .is_err()
        );
        bytes
    }

    #[test]
    fn few_are_gaps_and_many_a_bitmap() {
        round_trip(100, &[]);
        round_trip(1, &[0]);
        assert_ne!(round_trip(1024, &[0, 1, 2, 500, 1023])[0], BITMAP);
        let bursts: Vec<usize> = (0..1000).filter(|row| row / 200 % 2 == 0).collect();
        assert_eq!(round_trip(1003, &bursts)[0], BITMAP);
        round_trip(64, &(0..64).collect::<Vec<_>>());
    }
}
