//! One block of one column to bytes and back. One idea per file, encode above decode.
//!
//! Every codec is exact by construction or verified while it encodes; none makes data larger than raw plus
//! a few bytes. Decoders trust nothing: a wrong byte is an error or, if the checksum was forged, a wrong
//! value, never a panic and never an allocation beyond what the number of rows allows.

pub mod bits;
pub mod bytes;
pub(crate) mod decimal;
pub mod fixed;
pub mod float;
pub mod int;
pub mod numeric;
pub mod pack;
mod pco;
mod planes;
mod sample;
mod words;
pub mod zstd;

/// What the block before of the same column chose: the first guess for the next one. A guess that does not
/// fit any more costs a check; now and then all is chosen anew.
#[derive(Clone, Debug, Default)]
pub struct Guess {
    form: sample::Guess,
    order: int::Guess,
}

impl Guess {
    /// The part of integers.
    pub fn order(&mut self) -> &mut int::Guess {
        &mut self.order
    }
}

/// How much effort and which trade-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// Written at the speed of COPY, read at once; no trial encoding.
    Fresh,
    /// Rewritten once when cold.
    Merged(Point),
}

/// What a merged chunk prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Decode speed where size is near.
    Fast,
    Small,
}

impl Point {
    /// What a block costs, in bits: its bytes, and the time to decode it at the rate of the point.
    fn price(self, bytes: usize, rows: usize, nanoseconds_per_row: f64) -> f64 {
        let bits_per_nanosecond = match self {
            Point::Fast => 0.6,
            Point::Small => 0.02,
        };
        bytes as f64 * 8.0 + rows as f64 * nanoseconds_per_row * bits_per_nanosecond
    }
}

/// Codec ids. A codec id never changes its meaning; ids are only added.
pub mod id {
    /// Every row is null: no bytes.
    pub const ALL_NULL: u8 = 0x00;
    /// One value, which is the minimum in the directory, bit for bit: no bytes.
    pub const CONST: u8 = 0x01;

    /// One value.
    pub const INT_CONST: u8 = 0x10;
    /// First value and step: a clock that does not miss a tick.
    pub const INT_LINEAR: u8 = 0x11;
    /// Runs: values that change rarely.
    pub const INT_RUNS: u8 = 0x12;
    /// Runs of deltas: a clock with gaps.
    pub const INT_DELTA_RUNS: u8 = 0x13;
    /// Dictionary: few values far apart.
    pub const INT_DICT: u8 = 0x14;
    /// Patched frame of reference: values that stay near each other.
    pub const INT_FRAME: u8 = 0x15;
    /// The same over deltas: counters, slow gauges.
    pub const INT_DELTA: u8 = 0x16;
    /// The same over deltas of deltas: counters with a steady rate, clocks with jitter.
    pub const INT_DELTA2: u8 = 0x17;
    /// zstd over one of the above: repeating patterns in merged chunks.
    pub const INT_ZSTD: u8 = 0x18;
    /// Byte planes of offsets or differences in a zstd frame: noise of few bytes, repeating patterns.
    pub const INT_PLANES: u8 = 0x19;
    /// pcodec: distributions that no frame follows.
    pub const INT_PCO: u8 = 0x1A;
    /// One of these two over quotients by a common divisor: pages, ticks, decimals of coarse sensors.
    pub const INT_SCALED: u8 = 0x1B;
    /// Frame with many exceptions, which are packed: bursts.
    pub const INT_PATCHED: u8 = 0x1C;
    /// The same over deltas: gauges and sensors that jump now and then.
    pub const INT_PATCHED_DELTA: u8 = 0x1D;
    /// The same over deltas of deltas.
    pub const INT_PATCHED_DELTA2: u8 = 0x1E;

    /// Lengths and bytes: what does not compress.
    pub const BYTES_RAW: u8 = 0x30;
    /// Lengths and a zstd frame: prose, documents.
    pub const BYTES_ZSTD: u8 = 0x31;
    /// Dictionary: labels, states.
    pub const BYTES_DICT: u8 = 0x32;
    /// The same with the words in a zstd frame: labels that look alike.
    pub const BYTES_DICT_ZSTD: u8 = 0x33;
    /// A zstd frame with each length in front of its string: short strings whose bytes tell their length.
    pub const BYTES_PAIRED: u8 = 0x34;
    /// Byte planes of strings of one length in a zstd frame: addresses, structures.
    pub const BYTES_PLANES: u8 = 0x35;

    /// Values of fixed width back to back: random uuids.
    pub const FIXED_RAW: u8 = 0x38;
    /// The same in a zstd frame.
    pub const FIXED_ZSTD: u8 = 0x39;
    /// Dictionary: few distinct values.
    pub const FIXED_DICT: u8 = 0x3A;
    /// Byte planes in a zstd frame: uuids that begin with a time.
    pub const FIXED_PLANES: u8 = 0x3B;

    /// Scaled integers of one display scale whose canonical form is what was stored.
    pub const NUMERIC_SCALED: u8 = 0x40;

    /// The bits of floats back to back.
    pub const FLOAT_RAW: u8 = 0x50;
    /// One value.
    pub const FLOAT_CONST: u8 = 0x51;
    /// Decimals and other scaled integers.
    pub const FLOAT_FORMED: u8 = 0x52;
    /// The same, some of them a few ULPs off: averages, converted counters.
    pub const FLOAT_FORMED_CORRECTED: u8 = 0x53;
    /// The same with exceptions: NaN, infinities, odd values.
    pub const FLOAT_FORMED_EXCEPTED: u8 = 0x54;
    pub const FLOAT_FORMED_CORRECTED_EXCEPTED: u8 = 0x55;
    /// High and low bits apart: true reals.
    pub const FLOAT_SPLIT: u8 = 0x56;
    /// Byte planes in a zstd frame: reals that repeat.
    pub const FLOAT_PLANES: u8 = 0x57;
    /// pcodec on the doubles: what follows a model of pcodec's and none of ours.
    pub const FLOAT_PCO: u8 = 0x58;
}
