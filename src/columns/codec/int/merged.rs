//! What only merged blocks try on integers: packed bytes through zstd, byte planes through zstd, pcodec.
//! Each attempt is encoded, and the cheapest wins when bytes and decode time are weighed.

use super::{frame, id};
use crate::codec::{pco, planes, zstd, Point};
use crate::wire::{put_varint, put_zigzag};

/// Decode time of pcodec per row.
const PCO_NANOSECONDS: f64 = 4.0;

/// Decode time of zstd per byte that comes out.
pub const ZSTD_NANOSECONDS: f64 = 0.8;

/// Below this many bytes nothing more is tried.
const SMALLEST: usize = 64;

/// What an attempt takes at the very least.
const FEWEST_BYTES: usize = 24;

/// The cheapest encoding so far, at the end of `out`.
struct Best<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
    codec: u8,
    cost: f64,
    rows: usize,
    point: Point,
}

impl Best<'_> {
    /// Whether something of that decode time wins if only its bytes are few enough.
    fn may_lose(&self, nanoseconds: f64) -> bool {
        self.point.price(FEWEST_BYTES, self.rows, nanoseconds) < self.cost
    }

    /// Takes the encoding if it is cheaper; true if so.
    fn offer(&mut self, codec: u8, bytes: &[u8], nanoseconds: f64) -> bool {
        let cost = self.point.price(bytes.len(), self.rows, nanoseconds);
        let cheaper = cost < self.cost;
        if cheaper {
            self.out.truncate(self.at);
            self.out.extend_from_slice(bytes);
            (self.codec, self.cost) = (codec, cost);
        }
        cheaper
    }
}

/// Replaces the body at `at` of `out` where something else is cheaper; returns its codec.
pub fn improve(values: &[i64], point: Point, codec: u8, at: usize, out: &mut Vec<u8>) -> u8 {
    let (rows, light_bytes) = (values.len(), out.len() - at);
    if light_bytes < SMALLEST {
        return codec;
    }
    let mut packed = vec![codec];
    zstd::compress(&out[at..], 1, &mut packed);
    let cost = point.price(light_bytes, rows, 0.0);
    let mut best = Best {
        out,
        at,
        codec,
        cost,
        rows,
        point,
    };
    let decoded = light_bytes as f64 / rows as f64;
    best.offer(id::INT_ZSTD, &packed, decoded * ZSTD_NANOSECONDS);
    let (base, divisor) = frame::common_divisor(values);
    if divisor == 1 {
        try_heavy(values, &mut best, |codec, bytes| (codec, bytes.to_vec()));
    } else {
        let quotients: Vec<i64> = frame::quotients(values, base, divisor);
        try_heavy(&quotients, &mut best, |codec, bytes| {
            let mut scaled = Vec::with_capacity(bytes.len() + 12);
            put_scaled(base, divisor, codec, &mut scaled);
            scaled.extend_from_slice(bytes);
            (id::INT_SCALED, scaled)
        });
    }
    best.codec
}

/// What `INT_SCALED` has in front of the body of its quotients.
pub fn put_scaled(base: i64, divisor: u64, codec: u8, out: &mut Vec<u8>) {
    put_zigzag(out, base);
    put_varint(out, divisor);
    out.push(codec);
}

/// Byte planes and pcodec; `wrap` makes of their codec and bytes what the stream holds.
fn try_heavy(values: &[i64], best: &mut Best, wrap: impl Fn(u8, &[u8]) -> (u8, Vec<u8>)) {
    let mut attempt = Vec::new();
    for order in [0, 1] {
        if !best.may_lose(1.0) {
            break;
        }
        let levels: &[i32] = match best.point {
            Point::Fast => &[1],
            Point::Small => &[1, 3, 9],
        };
        for level in levels {
            attempt.clear();
            let width = planes::encode_ints(values, order, *level, &mut attempt);
            let nanoseconds = 0.2 + 0.2 * order as f64 + width as f64 * ZSTD_NANOSECONDS;
            let (codec, bytes) = wrap(id::INT_PLANES, &attempt);
            // More effort only where planes are what wins.
            if !best.offer(codec, &bytes, nanoseconds) && *level >= 3 {
                break;
            }
        }
    }
    attempt.clear();
    if best.may_lose(PCO_NANOSECONDS) && pco::encode(values, &mut attempt) {
        let (codec, bytes) = wrap(id::INT_PCO, &attempt);
        best.offer(codec, &bytes, PCO_NANOSECONDS);
    }
}
