//! What only merged blocks try on integers: packed bytes through zstd, byte planes through zstd, pcodec.
//! Each attempt is encoded, and the cheapest wins when bytes and decode time are weighed.

use super::id;
use crate::codec::{pco, planes, zstd, Point};

/// Below this many bytes nothing more is tried.
const SMALLEST: usize = 64;

/// The cheapest encoding so far, at the end of `out`.
struct Best<'a> {
    out: &'a mut Vec<u8>,
    at: usize,
    codec: u8,
    cost: f64,
}

impl Best<'_> {
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
    if pco::encode(values, &mut attempt) {
        best.offer(id::INT_PCO, &attempt, point.price(attempt.len(), rows, 4.0));
    }
    best.codec
}
