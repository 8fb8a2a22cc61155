//! What only merged blocks try on integers: packed bytes through zstd, byte planes through zstd, pcodec.
//! Each attempt is encoded, and the cheapest wins when bytes and decode time are weighed.

use super::id;
use crate::codec::{pco, planes, zstd, Point};

/// Decode time of pcodec per row.
const PCO_NANOSECONDS: f64 = 4.0;

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
}

impl Best<'_> {
    /// Whether something of that decode time wins if only its bytes are few enough.
    fn may_lose(&self, point: Point, rows: usize, nanoseconds: f64) -> bool {
        point.price(FEWEST_BYTES, rows, nanoseconds) < self.cost
    }

    fn offer(&mut self, codec: u8, bytes: &[u8], cost: f64) {
        if cost < self.cost {
            self.out.truncate(self.at);
            self.out.extend_from_slice(bytes);
            (self.codec, self.cost) = (codec, cost);
        }
    }
}

/// Replaces the body at `at` of `out` where something else is cheaper; returns its codec.
pub fn improve(values: &[i64], point: Point, codec: u8, at: usize, out: &mut Vec<u8>) -> u8 {
    let (rows, light_bytes) = (values.len(), out.len() - at);
    if light_bytes < SMALLEST {
        return codec;
    }
    let cost = point.price(light_bytes, rows, 0.0);
    let mut packed = vec![codec];
    zstd::compress(&out[at..], 1, &mut packed);
    let mut best = Best {
        out,
        at,
        codec,
        cost,
    };
    let zstd_nanoseconds = |decoded_bytes: usize| decoded_bytes as f64 / rows as f64 * 0.8;
    best.offer(
        id::INT_ZSTD,
        &packed,
        point.price(packed.len(), rows, zstd_nanoseconds(light_bytes)),
    );
    let mut attempt = Vec::new();
    for order in [0, 1] {
        if !best.may_lose(point, rows, 1.0) {
            break;
        }
        attempt.clear();
        let width = planes::encode_ints(values, order, 1, &mut attempt);
        let nanoseconds = 0.2 + 0.2 * order as f64 + zstd_nanoseconds(width * rows);
        best.offer(
            id::INT_PLANES,
            &attempt,
            point.price(attempt.len(), rows, nanoseconds),
        );
        if point == Point::Small {
            attempt.clear();
            planes::encode_ints(values, order, 3, &mut attempt);
            best.offer(
                id::INT_PLANES,
                &attempt,
                point.price(attempt.len(), rows, nanoseconds),
            );
        }
    }
    attempt.clear();
    if best.may_lose(point, rows, PCO_NANOSECONDS) && pco::encode(values, &mut attempt) {
        let cost = point.price(attempt.len(), rows, PCO_NANOSECONDS);
        best.offer(id::INT_PCO, &attempt, cost);
    }
    best.codec
}
