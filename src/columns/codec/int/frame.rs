//! Frame of reference with patches: `(value - base) / gcd` in `width` bits; values that need more bits or
//! lie below the base are exceptions (Zukowski et al., "Super-Scalar RAM-CPU Cache Compression", ICDE
//! 2006). Wins on values that stay near each other. `plan.rs` chooses base and width.
//!
//! Bytes: width (bit 7: a gcd follows), base (zigzag), [gcd], exceptions (count), packed values, then per
//! exception gap (varint) and high bits (zigzag). A frame whose patches are packed (`patches.rs`) has their
//! widths in front of the packed values. Arithmetic is modulo 2^64.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use super::patches::{self, Patches};
use crate::codec::pack::{self, pack, packed_bytes};
use crate::error::{Corrupt, Result};
use crate::wire::{put_varint, put_zigzag, varint_bytes, zigzag, Reader};
use std::ops::Range;

const HAS_GCD: u8 = 0x80;

/// How a frame will be written and the bytes that it takes, exact but for the gaps of exceptions.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub base: i64,
    pub gcd: u64,
    pub width: u8,
    pub exceptions: usize,
    /// The exceptions are `Patches` instead of varints.
    pub packed: bool,
    /// Bytes in front of the packed values.
    pub header: usize,
    pub bytes: usize,
}

impl Frame {
    /// Without exceptions, as far as its bytes go.
    pub fn plain(n: usize, base: i64, gcd: u64, width: u8) -> Frame {
        let header = 2 + varint_bytes(zigzag(base)) + if gcd > 1 { varint_bytes(gcd) } else { 0 };
        let bytes = header + packed_bytes(n, width);
        Frame {
            base,
            gcd,
            width,
            exceptions: 0,
            packed: false,
            header,
            bytes,
        }
    }
}

/// Division of multiples: a shift and a product with the inverse modulo 2^64.
#[derive(Clone, Copy)]
pub struct Divisor {
    twos: u32,
    inverse: u64,
}

impl Divisor {
    pub fn new(gcd: u64) -> Divisor {
        let twos = gcd.trailing_zeros();
        Divisor {
            twos,
            inverse: inverse_of(gcd >> twos),
        }
    }

    /// `(value - base) / gcd`, negative below the base.
    #[inline(always)]
    pub fn offset(self, value: i64, base: i64) -> u64 {
        let offset = value.wrapping_sub(base);
        let shifted = if value < base {
            (offset >> self.twos) as u64
        } else {
            offset as u64 >> self.twos
        };
        shifted.wrapping_mul(self.inverse)
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
pub fn min_max(values: &[i64]) -> (i64, i64) {
    let (mut min, mut max) = (i64::MAX, i64::MIN);
    for &value in values {
        min = min.min(value);
        max = max.max(value);
    }
    (min, max)
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
pub fn divisor_from(values: &[i64], base: i64) -> u64 {
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
#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f", "x86_64+avx2"))
)]
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
    if frame.packed {
        let patches = Patches::of(&offsets, width, &far);
        patches.put_widths(out);
        pack(&offsets, width, out);
        patches.put(out);
        return;
    }
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

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn subtract(values: &[i64], base: i64, out: &mut [u64]) {
    for (offset, value) in out.iter_mut().zip(values) {
        *offset = value.wrapping_sub(base) as u64;
    }
}

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
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

/// Reads a frame into `out`. `packed`: its exceptions are.
pub fn decode(reader: &mut Reader, packed: bool, out: &mut [i64]) -> Result<()> {
    decode_part(reader, packed, out.len(), 0..out.len(), out)
}

/// Reads the offsets of a frame into `out`.
pub fn decode_offsets(reader: &mut Reader, packed: bool, out: &mut [i64]) -> Result<Scale> {
    let header = Header::read(reader, packed, out.len())?;
    header.read_part(reader, out.len(), 0..out.len(), 0, out, |_, _| ())?;
    Ok(header.scale())
}

/// Fills `out` with the values of `rows` of the `n` of a frame: whole groups, but for the last one.
pub fn decode_part(
    reader: &mut Reader,
    packed: bool,
    n: usize,
    rows: Range<usize>,
    out: &mut [i64],
) -> Result<()> {
    let header = Header::read(reader, packed, n)?;
    if header.gcd == 1 {
        return header.read_part(reader, n, rows, header.base, out, |_, _| ());
    }
    header.read_part(reader, n, rows, 0, out, |_, _| ())?;
    let scale = header.scale();
    out.iter_mut().for_each(|v| *v = scale.apply(*v));
    Ok(())
}

/// Fills `out` with the offsets of `rows` of the `n` of a frame, as `decode_part`. Returns the sum, modulo 2^64, of the values of rows 1 to the first of them,
/// that of row 0 may be anything; and what turns offsets into values.
pub fn decode_deltas(
    reader: &mut Reader,
    packed: bool,
    n: usize,
    rows: Range<usize>,
    out: &mut [i64],
) -> Result<(i64, Scale)> {
    let header = Header::read(reader, packed, n)?;
    let start = rows.start;
    let mut before = pack::sum_behind_first(&mut reader.clone(), header.width, n, start)?;
    header.read_part(reader, n, rows, 0, out, |row, high| {
        if (1..=start).contains(&row) {
            before = before.wrapping_add(high);
        }
    })?;
    let scaled = (before as i64).wrapping_mul(header.gcd);
    let before = scaled.wrapping_add(header.base.wrapping_mul(start as i64));
    Ok((before, header.scale()))
}

/// The sum of the `n` values of a frame, if no value wraps.
pub fn sum(reader: &mut Reader, packed: bool, n: usize) -> Result<Option<i128>> {
    let header = Header::read(reader, packed, n)?;
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
    let mut exact = true;
    header.each_exception(reader, n, |_, high| {
        let high = i128::from(high) << width;
        exact &= reaches(high) && reaches(high + (1 << width) - 1);
        offsets += high;
    })?;
    Ok(exact.then(|| offsets * i128::from(gcd) + base * n as i128))
}

/// The value of row `at` of the `n` of a frame.
pub fn value(reader: &mut Reader, packed: bool, n: usize, at: usize) -> Result<i64> {
    let header = Header::read(reader, packed, n)?;
    let mut offset = pack::value(reader, header.width, n, at)?;
    header.each_exception(reader, n, |row, high| {
        if row == at {
            offset = offset.wrapping_add((high as u64) << header.width);
        }
    })?;
    Ok(header.scale().apply(offset as i64))
}

/// The sum, modulo 2^64, of the values of rows 1 to `last` of the `n` of a frame: that of row 0 may be anything.
pub fn sum_behind_first(reader: &mut Reader, packed: bool, n: usize, last: usize) -> Result<i64> {
    let header = Header::read(reader, packed, n)?;
    let mut offsets = pack::sum_behind_first(reader, header.width, n, last)?;
    header.each_exception(reader, n, |row, high| {
        if (1..=last).contains(&row) {
            offsets = offsets.wrapping_add((high as u64) << header.width);
        }
    })?;
    let scaled = (offsets as i64).wrapping_mul(header.gcd);
    Ok(scaled.wrapping_add(header.base.wrapping_mul(last as i64)))
}

/// What stands in front of the packed values.
struct Header {
    base: i64,
    gcd: i64,
    width: u8,
    exceptions: usize,
    patches: Option<patches::Widths>,
}

impl Header {
    fn read(reader: &mut Reader, packed: bool, n: usize) -> Result<Header> {
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
            patches: match packed {
                true => Some(patches::Widths::read(reader)?),
                false => None,
            },
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

    /// Fills `out` with the offsets of `rows` of `n`, whole groups but for the last one, plus `base`. Shows the row of each exception, and what it adds to its
    /// offset, to `see`.
    fn read_part(
        &self,
        reader: &mut Reader,
        n: usize,
        rows: Range<usize>,
        base: i64,
        out: &mut [i64],
        mut see: impl FnMut(usize, u64),
    ) -> Result<()> {
        let offsets = as_unsigned(out);
        pack::unpack_part(reader, self.width, n, rows.clone(), base as u64, offsets)?;
        self.each_exception(reader, n, |at, high| {
            let high = (high as u64) << self.width;
            see(at, high);
            if rows.contains(&at) {
                let offset = &mut offsets[at - rows.start];
                *offset = offset.wrapping_add(high);
            }
        })
    }

    /// Calls `take` with the row and the high bits of each exception; all rows are below `n`.
    fn each_exception(
        &self,
        reader: &mut Reader,
        n: usize,
        mut take: impl FnMut(usize, i64),
    ) -> Result<()> {
        if let Some(widths) = self.patches {
            return widths.each(reader, self.exceptions, n, take);
        }
        let mut next = 0usize;
        for _ in 0..self.exceptions {
            let at = next + reader.varint_up_to(n)?;
            let high = reader.zigzag()?;
            if at >= n {
                return Err(patches::PAST_THE_END);
            }
            take(at, high);
            next = at + 1;
        }
        Ok(())
    }
}

/// The same bits as unsigned integers.
pub fn as_unsigned(values: &mut [i64]) -> &mut [u64] {
    // SAFETY: i64 and u64 have the same size and alignment, and every bit pattern is valid for both.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), values.len()) }
}
