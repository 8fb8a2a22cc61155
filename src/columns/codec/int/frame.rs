//! Frame of reference with patches: `(value - base) / gcd` in `width` bits; values that need more bits or
//! lie below the base are exceptions, listed behind the packed bits with the gap to the one before and
//! their high bits (Zukowski et al., "Super-Scalar RAM-CPU Cache Compression", ICDE 2006). Wins on values
//! that stay near each other.
//!
//! Bytes: width (bit 7: a gcd follows), base (zigzag), [gcd], exceptions (count), packed values, then per
//! exception gap (varint) and high bits (zigzag). Arithmetic is modulo 2^64.

use multiversion::multiversion;

use crate::codec::pack::{self, bit_width, pack, packed_bytes, unpack_add};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, put_zigzag, varint_bytes, zigzag, Reader};

const HAS_GCD: u8 = 0x80;

/// Widths that leave more than one value in so many out are not looked at.
const MOST_EXCEPTIONS: usize = 6;

/// Values looked at to guess a base above a few low outliers.
const SAMPLE: usize = 64;

/// How a frame will be written and the bytes that it takes, exact but for the gaps of exceptions.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub base: i64,
    pub gcd: u64,
    pub width: u8,
    pub exceptions: usize,
    /// Bytes in front of the packed values.
    pub header: usize,
    pub bytes: usize,
}

impl Frame {
    /// Without exceptions, as far as its bytes go.
    fn plain(n: usize, base: i64, gcd: u64, width: u8) -> Frame {
        let header = 2 + varint_bytes(zigzag(base)) + if gcd > 1 { varint_bytes(gcd) } else { 0 };
        let bytes = header + packed_bytes(n, width);
        Frame {
            base,
            gcd,
            width,
            exceptions: 0,
            header,
            bytes,
        }
    }
}

/// The cheapest frame for `values` (not empty), from the histogram of their bit lengths.
pub fn plan(values: &[i64]) -> Frame {
    let (min, max) = min_max(values);
    let range = max.wrapping_sub(min) as u64;
    let gcd = if range == 0 {
        1
    } else {
        divisor_from(values, min)
    };
    let top = bit_width(range / gcd);
    let n = values.len();
    let best = match plan_near(values, min, gcd, top) {
        Some(frame) => frame,
        None => plan_from(n, &Lengths::of(values, min, min, gcd), min, gcd, top),
    };
    // Next to no values near the minimum: it is an outlier, and a base above it saves bits. (Where there
    // is a divisor, differences must fit into i64.)
    let bare = || n - count_from(values, min, gcd << (best.width - 2)) < n.div_ceil(32);
    if best.width > 1 && (gcd == 1 || range < 1 << 62) && bare() {
        if let Some(base) = dense_base(values, gcd, best.width) {
            let lengths = Lengths::of(values, base, min, gcd);
            let other = plan_from(
                n,
                &lengths,
                base,
                gcd,
                bit_width(max.wrapping_sub(base) as u64 / gcd),
            );
            if other.bytes < best.bytes {
                return other;
            }
        }
    }
    best
}

/// The cheapest frame if its width is near the top one, as it is without far outliers: some counts instead
/// of a histogram, and exceptions whose high bits fit into a byte.
fn plan_near(values: &[i64], min: i64, gcd: u64, top: u8) -> Option<Frame> {
    let n = values.len();
    let mut best = Frame::plain(n, min, gcd, top);
    for width in (top.saturating_sub(6)..top).rev() {
        let exceptions = count_from(values, min, gcd << width);
        if exceptions > n / MOST_EXCEPTIONS {
            return Some(best);
        }
        let bytes = best.header + packed_bytes(n, width) + 2 * exceptions;
        if bytes < best.bytes {
            best = Frame {
                width,
                exceptions,
                bytes,
                ..best
            };
        }
    }
    (top <= 6).then_some(best)
}

/// The start of the narrowest window that holds most values of a sample, if windows of fewer than `width`
/// bits can pay although they leave values out.
fn dense_base(values: &[i64], gcd: u64, width: u8) -> Option<i64> {
    let apart = values.len().div_ceil(SAMPLE);
    let mut sample = [0i64; SAMPLE];
    let taken = values.len().div_ceil(apart);
    for (slot, &value) in sample.iter_mut().zip(values.iter().step_by(apart)) {
        *slot = value;
    }
    let sample = &mut sample[..taken];
    sample.sort_unstable();
    // In bits: an exception takes two bytes or more.
    let mut best = (taken * width as usize, None);
    for width in (0..width).rev() {
        let window = (1u64 << width).saturating_mul(gcd);
        let (mut most, mut start, mut from) = (0, 0, 0);
        for (to, &value) in sample.iter().enumerate() {
            while value.wrapping_sub(sample[from]) as u64 >= window {
                from += 1;
            }
            if to - from >= most {
                (most, start) = (to - from + 1, from);
            }
        }
        let bits = taken * width as usize + (taken - most) * 16;
        if taken - most > taken / MOST_EXCEPTIONS {
            break;
        }
        if bits < best.0 {
            best = (bits, Some(sample[start]));
        }
    }
    best.1
}

fn plan_from(n: usize, lengths: &Lengths, base: i64, gcd: u64, top: u8) -> Frame {
    let plain = Frame::plain(n, base, gcd, top);
    let header = plain.header;
    let mut best = Frame {
        bytes: usize::MAX,
        ..plain
    };
    // Patches pay only where few values are far out: from the top width down, until one in six is.
    for width in (0..=top).rev() {
        let (exceptions, bytes) = lengths.patches(width);
        if exceptions > n / MOST_EXCEPTIONS && width != top {
            break;
        }
        let bytes = header + packed_bytes(n, width) + bytes;
        if bytes < best.bytes {
            best = Frame {
                width,
                exceptions,
                bytes,
                ..best
            };
        }
    }
    best
}

/// Histogram of the bit lengths of offsets from a base: at or above it, and below it.
struct Lengths {
    above: [u32; 65],
    below: [u32; 65],
    has_below: bool,
    /// Of `above`.
    longest: u8,
}

impl Lengths {
    fn of(values: &[i64], base: i64, min: i64, gcd: u64) -> Self {
        let divisor = Divisor::new(gcd);
        let mut lanes = [[0u32; 65]; 4];
        count_lengths(values, base, divisor, &mut lanes);
        let mut above = lanes[0];
        for lane in &lanes[1..] {
            for (total, count) in above.iter_mut().zip(lane) {
                *total += count;
            }
        }
        let mut below = [0u32; 65];
        let has_below = min < base;
        if has_below {
            for value in values.iter().filter(|&&v| v < base) {
                let offset = divisor.offset(*value, base);
                above[bit_width(offset) as usize] -= 1;
                below[bit_width((offset as i64).unsigned_abs()) as usize] += 1;
            }
        }
        let longest = above.iter().rposition(|&count| count > 0).unwrap_or(0) as u8;
        Lengths {
            above,
            below,
            has_below,
            longest,
        }
    }

    /// How many values are exceptions at `width` bits, and the bytes of their list.
    fn patches(&self, width: u8) -> (usize, usize) {
        let (mut count, mut bytes) = (0, 0);
        let mut add = |values: u32, length: u8| {
            count += values as usize;
            // One bit for the sign, one byte for the gap.
            let high = usize::from(length.saturating_sub(width)) + 1;
            bytes += values as usize * (1 + high.div_ceil(7));
        };
        for length in (width + 1)..=self.longest {
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

/// Division of multiples: a shift and a product with the inverse modulo 2^64.
#[derive(Clone, Copy)]
struct Divisor {
    twos: u32,
    inverse: u64,
}

impl Divisor {
    fn new(gcd: u64) -> Divisor {
        let twos = gcd.trailing_zeros();
        Divisor {
            twos,
            inverse: inverse_of(gcd >> twos),
        }
    }

    /// `(value - base) / gcd`, negative below the base.
    #[inline(always)]
    fn offset(self, value: i64, base: i64) -> u64 {
        let offset = value.wrapping_sub(base);
        let shifted = if value < base {
            (offset >> self.twos) as u64
        } else {
            offset as u64 >> self.twos
        };
        shifted.wrapping_mul(self.inverse)
    }
}

#[multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))]
fn count_lengths(values: &[i64], base: i64, divisor: Divisor, lanes: &mut [[u32; 65]; 4]) {
    for four in values.chunks(4) {
        for (lane, &value) in lanes.iter_mut().zip(four) {
            lane[bit_width(divisor.offset(value, base)) as usize] += 1;
        }
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
pub fn min_max(values: &[i64]) -> (i64, i64) {
    let (mut min, mut max) = (i64::MAX, i64::MIN);
    for &value in values {
        min = min.min(value);
        max = max.max(value);
    }
    (min, max)
}

/// How many values are at least `base + limit`; none is below the base.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn count_from(values: &[i64], base: i64, limit: u64) -> usize {
    values
        .iter()
        .map(|value| usize::from(value.wrapping_sub(base) as u64 >= limit))
        .sum()
}

/// The least value, and the greatest number that divides all differences to it (1 where they may wrap).
pub fn common_divisor(values: &[i64]) -> (i64, u64) {
    let (min, max) = min_max(values);
    match max.checked_sub(min) {
        None | Some(0) => (min, 1),
        Some(_) => (min, divisor_from(values, min)),
    }
}

/// `(value - base) / divisor`, as `common_divisor` gives them.
pub fn quotients(values: &[i64], base: i64, divisor: u64) -> Vec<i64> {
    let divisor = Divisor::new(divisor);
    let quotient = |&value: &i64| divisor.offset(value, base) as i64;
    values.iter().map(quotient).collect()
}

/// The greatest number that divides every difference to `base`, not all of which are 0.
fn divisor_from(values: &[i64], base: i64) -> u64 {
    let twos = common_bits(values, base).trailing_zeros();
    let mut odd = 0u64;
    // An odd g divides d exactly where d * g^-1 (mod 2^64) is at most 2^64 / g: no division per value.
    let (mut inverse, mut limit) = (0u64, 0u64);
    for &value in values {
        let offset = value.wrapping_sub(base) as u64 >> twos;
        if offset.wrapping_mul(inverse) <= limit && odd != 0 || offset == 0 {
            continue;
        }
        let (mut rest, mut divisor) = (odd, offset);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        odd = divisor >> divisor.trailing_zeros();
        if odd == 1 {
            break;
        }
        (inverse, limit) = (inverse_of(odd), u64::MAX / odd);
    }
    odd.max(1) << twos
}

/// The bits that occur in any difference.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn common_bits(values: &[i64], base: i64) -> u64 {
    values
        .iter()
        .fold(0, |bits, value| bits | value.wrapping_sub(base) as u64)
}

/// `x * inverse_of(x) = 1` modulo 2^64, for odd `x`: each step of Newton's doubles the right bits.
fn inverse_of(x: u64) -> u64 {
    (0..5).fold(x, |y, _| {
        y.wrapping_mul(2u64.wrapping_sub(x.wrapping_mul(y)))
    })
}

/// Appends `values` in the given frame.
pub fn encode(values: &[i64], frame: &Frame, out: &mut Vec<u8>) {
    let Frame {
        base, gcd, width, ..
    } = *frame;
    let offsets = offsets(values, base, gcd);
    let mut far = Vec::with_capacity(frame.exceptions);
    if frame.exceptions > 0 {
        far.extend((0..offsets.len()).filter(|&i| offsets[i] >> width != 0));
    }
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

/// `(value - base) / gcd`. Where there is a divisor, values below the base differ by less than 2^62.
fn offsets(values: &[i64], base: i64, gcd: u64) -> Vec<u64> {
    let mut out = vec![0; values.len()];
    if gcd == 1 {
        subtract(values, base, &mut out);
    } else {
        subtract_and_divide(values, base, Divisor::new(gcd), &mut out);
    }
    out
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn subtract(values: &[i64], base: i64, out: &mut [u64]) {
    for (offset, value) in out.iter_mut().zip(values) {
        *offset = value.wrapping_sub(base) as u64;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))]
fn subtract_and_divide(values: &[i64], base: i64, divisor: Divisor, out: &mut [u64]) {
    for (offset, value) in out.iter_mut().zip(values) {
        *offset = divisor.offset(*value, base);
    }
}

/// What turns packed offsets into values: `offset * gcd + base`.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub gcd: i64,
    pub base: i64,
}

impl Scale {
    #[inline]
    pub fn apply(self, offset: i64) -> i64 {
        offset.wrapping_mul(self.gcd).wrapping_add(self.base)
    }
}

/// Reads a frame into `out`.
pub fn decode(reader: &mut Reader, out: &mut [i64]) -> Result<()> {
    let header = Header::read(reader, out.len())?;
    if header.gcd == 1 {
        return header.read_offsets(reader, header.base, out);
    }
    header.read_offsets(reader, 0, out)?;
    let scale = header.scale();
    out.iter_mut().for_each(|v| *v = scale.apply(*v));
    Ok(())
}

/// Reads the offsets of a frame into `out`.
pub fn decode_offsets(reader: &mut Reader, out: &mut [i64]) -> Result<Scale> {
    let header = Header::read(reader, out.len())?;
    header.read_offsets(reader, 0, out)?;
    Ok(header.scale())
}

/// The sum of the `n` values of a frame, if no value wraps.
pub fn sum(reader: &mut Reader, n: usize) -> Result<Option<i128>> {
    let header = Header::read(reader, n)?;
    let (base, gcd, width) = (i128::from(header.base), header.gcd, header.width);
    let reaches = |offset: i128| {
        let value = offset
            .checked_mul(gcd.into())
            .and_then(|o| o.checked_add(base));
        value.is_some_and(|value| i64::try_from(value).is_ok())
    };
    if width == 64 || gcd <= 0 || !reaches((1 << width) - 1) {
        return Ok(None);
    }
    let mut offsets = pack::sum(reader, width, n)? as i128;
    for _ in 0..header.exceptions {
        reader.varint_up_to(n)?;
        let high = i128::from(reader.zigzag()?) << width;
        if !reaches(high) || !reaches(high + (1 << width) - 1) {
            return Ok(None);
        }
        offsets += high;
    }
    Ok(Some(offsets * i128::from(gcd) + base * n as i128))
}

/// What stands in front of the packed values.
struct Header {
    base: i64,
    gcd: i64,
    width: u8,
    exceptions: usize,
}

impl Header {
    fn read(reader: &mut Reader, n: usize) -> Result<Header> {
        let tag = reader.u8()?;
        let base = reader.zigzag()?;
        let gcd = if tag & HAS_GCD != 0 {
            reader.varint()? as i64
        } else {
            1
        };
        let header = Header {
            base,
            gcd,
            width: tag & !HAS_GCD,
            exceptions: reader.varint_up_to(n)?,
        };
        if header.exceptions > 0 && header.width >= 64 {
            return Err(Corrupt::new("exceptions of a full width"));
        }
        Ok(header)
    }

    fn scale(&self) -> Scale {
        Scale {
            gcd: self.gcd,
            base: self.base,
        }
    }

    /// Fills `out` with the offsets plus `base`.
    fn read_offsets(&self, reader: &mut Reader, base: i64, out: &mut [i64]) -> Result<()> {
        let offsets = as_unsigned(out);
        unpack_add(reader, self.width, base as u64, offsets)?;
        let mut next = 0usize;
        for _ in 0..self.exceptions {
            let at = next + reader.varint_up_to(offsets.len())?;
            let high = reader.zigzag()?;
            let offset = offsets
                .get_mut(at)
                .ok_or(Corrupt::new("an exception lies past the end"))?;
            *offset = offset.wrapping_add((high as u64) << self.width);
            next = at + 1;
        }
        Ok(())
    }
}

fn as_unsigned(values: &mut [i64]) -> &mut [u64] {
    // SAFETY: i64 and u64 have the same size and alignment, and every bit pattern is valid for both.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}
