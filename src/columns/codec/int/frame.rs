//! Frame of reference with patches: `(value - base) / gcd` in `width` bits; values that need more bits or
//! lie below the base are exceptions, listed behind the packed bits with the gap to the one before and
//! their high bits (Zukowski et al., "Super-Scalar RAM-CPU Cache Compression", ICDE 2006). Wins on values
//! that stay near each other.
//!
//! Bytes: width (bit 7: a gcd follows), base (zigzag), [gcd], exceptions (count), packed values, then per
//! exception gap (varint) and high bits (zigzag). Arithmetic is modulo 2^64.

use crate::codec::pack::{bit_width, pack, packed_bytes, unpack};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, put_zigzag, varint_bytes, zigzag, Reader};

const HAS_GCD: u8 = 0x80;

/// Values looked at to guess a base above a few low outliers.
const SAMPLE: usize = 64;

/// How a frame will be written and the bytes that it takes, exact but for the gaps of exceptions.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub base: i64,
    pub gcd: u64,
    pub width: u8,
    pub bytes: usize,
}

/// The cheapest frame for `values` (not empty), from the histogram of their bit lengths.
pub fn plan(values: &[i64]) -> Frame {
    let (min, max) = min_max(values);
    let range = max.wrapping_sub(min) as u64;
    let gcd = if range == 0 {
        1
    } else {
        common_divisor(values, min)
    };
    let best = plan_from(values, min, gcd, bit_width(range / gcd));
    let low = values
        .iter()
        .step_by(values.len().div_ceil(SAMPLE))
        .copied()
        .min()
        .unwrap_or(min);
    // Only where bits are to be gained, and differences fit.
    if range < 1 << 62 && bit_width((max.wrapping_sub(low)) as u64 / gcd) < best.width {
        let other = plan_from(values, low, gcd, bit_width((max - low) as u64 / gcd));
        if other.bytes < best.bytes {
            return other;
        }
    }
    best
}

fn plan_from(values: &[i64], base: i64, gcd: u64, top: u8) -> Frame {
    let lengths = Lengths::of(values, base);
    let scale = bit_width(gcd) - 1;
    let header = 2 + varint_bytes(zigzag(base)) + if gcd > 1 { varint_bytes(gcd) } else { 0 };
    let mut best = Frame {
        base,
        gcd,
        width: top,
        bytes: usize::MAX,
    };
    // Patches pay only where few values are far out: from the top width down, until one in six is.
    for width in (0..=top).rev() {
        let (count, bytes) = lengths.patches(width, scale);
        if count > values.len() / 6 && width != top {
            break;
        }
        let bytes = header + packed_bytes(values.len(), width) + bytes;
        if bytes < best.bytes {
            best = Frame {
                width,
                bytes,
                ..best
            };
        }
    }
    best
}

/// Histogram of the bit lengths of differences to a base: at or above it, and below it.
struct Lengths {
    above: [u32; 65],
    below: [u32; 65],
    has_below: bool,
}

impl Lengths {
    fn of(values: &[i64], base: i64) -> Self {
        let mut lanes = [[0u32; 65]; 4];
        let mut below = [0u32; 65];
        let mut has_below = false;
        for four in values.chunks(4) {
            for (lane, &value) in lanes.iter_mut().zip(four) {
                let offset = value.wrapping_sub(base);
                if value < base {
                    below[bit_width(offset.unsigned_abs()) as usize] += 1;
                    has_below = true;
                } else {
                    lane[bit_width(offset as u64) as usize] += 1;
                }
            }
        }
        let mut above = lanes[0];
        for lane in &lanes[1..] {
            for (total, count) in above.iter_mut().zip(lane) {
                *total += count;
            }
        }
        Lengths {
            above,
            below,
            has_below,
        }
    }

    /// How many values are exceptions at `width` bits after division by a gcd of `scale + 1` bits, and
    /// the bytes of their list.
    fn patches(&self, width: u8, scale: u8) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        let mut add = |values: u32, length: u8| {
            count += values as usize;
            // One bit for the sign, one byte for the gap.
            let high = usize::from(length.saturating_sub(width + scale)) + 1;
            bytes += values as usize * (1 + high.div_ceil(7));
        };
        for length in (width + scale + 1)..=64 {
            add(self.above[length as usize], length);
        }
        if self.has_below {
            for (length, &values) in self.below.iter().enumerate() {
                add(values, length as u8);
            }
        }
        (count, bytes)
    }
}

pub fn min_max(values: &[i64]) -> (i64, i64) {
    values.iter().fold((i64::MAX, i64::MIN), |(min, max), &v| {
        (min.min(v), max.max(v))
    })
}

/// The greatest number that divides every difference to `base`; leaves early at 1.
fn common_divisor(values: &[i64], base: i64) -> u64 {
    let mut gcd = 0u64;
    for &value in values {
        let mut rest = value.wrapping_sub(base) as u64;
        while rest != 0 {
            (gcd, rest) = (rest, gcd % rest);
        }
        if gcd == 1 {
            break;
        }
    }
    gcd.max(1)
}

/// Appends `values` in the given frame.
pub fn encode(values: &[i64], frame: &Frame, out: &mut Vec<u8>) {
    let Frame {
        base, gcd, width, ..
    } = *frame;
    let offsets = offsets(values, base, gcd);
    let far: Vec<usize> = if width == 64 {
        vec![]
    } else {
        (0..offsets.len())
            .filter(|&i| offsets[i] >> width != 0)
            .collect()
    };
    out.push(width | if gcd > 1 { HAS_GCD } else { 0 });
    put_zigzag(out, base);
    if gcd > 1 {
        put_varint(out, gcd);
    }
    put_varint(out, far.len() as u64);
    pack(&offsets, width, out);
    let mut next = 0;
    for i in far {
        put_varint(out, (i - next) as u64);
        put_zigzag(out, offsets[i] as i64 >> width);
        next = i + 1;
    }
}

/// `(value - base) / gcd`. Values below the base only occur where differences fit into i64.
fn offsets(values: &[i64], base: i64, gcd: u64) -> Vec<u64> {
    values
        .iter()
        .map(|&value| {
            let offset = value.wrapping_sub(base);
            match gcd {
                1 => offset as u64,
                _ if value < base => (offset / gcd as i64) as u64,
                _ => offset as u64 / gcd,
            }
        })
        .collect()
}

/// Reads a frame into `out`.
pub fn decode(reader: &mut Reader, out: &mut [i64]) -> Result<()> {
    let tag = reader.u8()?;
    let width = tag & !HAS_GCD;
    let base = reader.zigzag()?;
    let gcd = if tag & HAS_GCD != 0 {
        reader.varint()?
    } else {
        1
    };
    let far = reader.varint_up_to(out.len())?;
    let offsets = as_unsigned(out);
    unpack(reader, width, offsets)?;
    if far > 0 && width == 64 {
        return Err(Corrupt::new("exceptions of a full width"));
    }
    let mut next = 0usize;
    for _ in 0..far {
        let at = next + reader.varint_up_to(offsets.len())?;
        let high = reader.zigzag()?;
        let offset = offsets
            .get_mut(at)
            .ok_or(Corrupt::new("an exception lies past the end"))?;
        *offset |= (high as u64) << width;
        next = at + 1;
    }
    if gcd == 1 {
        out.iter_mut().for_each(|v| *v = v.wrapping_add(base));
    } else {
        out.iter_mut()
            .for_each(|v| *v = v.wrapping_mul(gcd as i64).wrapping_add(base));
    }
    Ok(())
}

fn as_unsigned(values: &mut [i64]) -> &mut [u64] {
    // SAFETY: i64 and u64 have the same size and alignment, and every bit pattern is valid for both.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}
