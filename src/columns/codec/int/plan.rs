//! Which base and width a frame gets. The usual way needs minimum, maximum, divisor, a median of some values,
//! and for a few widths the number of values outside a window around it. Only where outliers are far is
//! a histogram of bit lengths taken.

#[cfg(not(feature = "portable"))]
use multiversion::multiversion;

use super::frame::{divisor_from, min_max, Divisor, Frame};
use super::patches;
use crate::codec::pack::{bit_width, packed_bytes};
use crate::wire::zigzag;

/// Widths that leave more than one value in so many out are not looked at.
const MOST_EXCEPTIONS: usize = 6;
const MOST_PACKED: usize = 2;

/// An exception must save so many bytes, for the time that it takes to decode.
const EXCEPTIONS_PER_BYTE: usize = 8;

/// Values looked at to guess a base above a few low outliers.
const SAMPLE: usize = 64;

/// Values looked at to guess where most are.
const CENTRE_SAMPLE: usize = 31;

/// Narrowest window that is looked at, in bits below the width without exceptions.
const DEEPEST: u8 = 16;

/// The cheapest frame for `values` (not empty).
pub fn plan(values: &[i64]) -> Frame {
    let (min, max) = min_max(values);
    let range = max.wrapping_sub(min) as u64;
    let gcd = if range == 0 {
        1
    } else {
        divisor_from(values, min)
    };
    let top = bit_width(range / gcd);
    if let Some(frame) = plan_near(values, min, range, gcd) {
        return frame;
    }
    let n = values.len();
    let best = plan_from(n, &Lengths::of(values, min, min, gcd), min, gcd, top);
    // Next to no values near the minimum: it is an outlier, and a base above it saves bits. (Where there
    // is a divisor, differences must fit into i64.)
    let bare = || n - count_from(values, min, gcd << (best.width - 2)) < n.div_ceil(32);
    if best.width > 1 && (gcd == 1 || range < 1 << 62) && bare() {
        if let Some(base) = dense_base(values, gcd, best.width) {
            let lengths = Lengths::of(values, base, min, gcd);
            let top = bit_width(max.wrapping_sub(base) as u64 / gcd);
            let other = plan_from(n, &lengths, base, gcd, top);
            if other.bytes < best.bytes {
                return other;
            }
        }
    }
    best
}

/// The cheapest frame around the middle of `values`, whose differences to `min` reach up to `range`. None if
/// a few far outliers make the frame so wide that windows at this depth say nothing.
fn plan_near(values: &[i64], min: i64, range: u64, gcd: u64) -> Option<Frame> {
    let n = values.len();
    let top = bit_width(range / gcd);
    // Differences to a base inside must fit into i64.
    if range >= 1 << 62 {
        return None;
    }
    let plain = Frame::plain(n, min, gcd, top);
    if top == 0 {
        return Some(plain);
    }
    let centre = centre(values, min);
    let mut best = (plain.bytes, plain);
    for width in (top.saturating_sub(DEEPEST)..top).rev() {
        // In units of the divisor, from the minimum.
        let window = 1u64 << width;
        let start = (centre / gcd).saturating_sub(window / 2);
        let start = start.min(range / gcd + 1 - window);
        let base = min.wrapping_add((start * gcd) as i64);
        let exceptions = count_from(values, base, gcd << width);
        if exceptions > n / MOST_PACKED {
            return Some(best.1);
        }
        let (above, below) = ((range / gcd - start) >> width, start.div_ceil(window));
        let high_width = bit_width(zigzag(above as i64).max(zigzag(-(below as i64))));
        let patches = patches::estimate(n, exceptions, high_width);
        let varints = exceptions * varint_patch_bytes(n / (exceptions + 1), high_width);
        let frame = Frame::plain(n, base, gcd, width);
        let bytes = frame.bytes + patches.min(varints);
        let cost = bytes + exceptions / EXCEPTIONS_PER_BYTE;
        if cost < best.0 {
            let packed = patches < varints;
            let frame = Frame {
                exceptions,
                packed,
                bytes,
                ..frame
            };
            best = (cost, frame);
        }
    }
    (top <= DEEPEST).then_some(best.1)
}

fn varint_patch_bytes(gap: usize, high_width: u8) -> usize {
    1 + usize::from(gap > 127) + (high_width as usize).div_ceil(7)
}

/// The median of some values, as difference to `min`.
fn centre(values: &[i64], min: i64) -> u64 {
    let apart = values.len().div_ceil(CENTRE_SAMPLE);
    let mut sample = [0; CENTRE_SAMPLE];
    let taken = values.len().div_ceil(apart);
    for (slot, value) in sample.iter_mut().zip(values.iter().step_by(apart)) {
        *slot = value.wrapping_sub(min) as u64;
    }
    *sample[..taken].select_nth_unstable(taken / 2).1
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

#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx2+bmi1+bmi2+lzcnt"))
)]
fn count_lengths(values: &[i64], base: i64, divisor: Divisor, lanes: &mut [[u32; 65]; 4]) {
    for four in values.chunks(4) {
        for (lane, &value) in lanes.iter_mut().zip(four) {
            lane[bit_width(divisor.offset(value, base)) as usize] += 1;
        }
    }
}

/// How many values are at least `base + limit`; none is below the base.
#[cfg_attr(
    not(feature = "portable"),
    multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl", "x86_64+avx2"))
)]
fn count_from(values: &[i64], base: i64, limit: u64) -> usize {
    values
        .iter()
        .map(|value| usize::from(value.wrapping_sub(base) as u64 >= limit))
        .sum()
}
