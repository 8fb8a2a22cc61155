//! Vector kernels over a column of fresh blocks: two-decimal readings, as a frame of reference packs them.

use std::hint::black_box;

use varve_columns::codec::{float, id, Guess, Tier};
use varve_columns::vector::aggregate::{extremes_f64, sum_f64};
use varve_columns::vector::filter::{compare_f64, Comparison};
use varve_columns::vector::Bitmap;
use varve_columns::wire::Reader;

use crate::clock::fastest;

const BLOCK_ROWS: usize = 1024;
const BLOCKS: usize = 1000;
const REPEATS: usize = 7;

/// What was measured and its speed in million values a second.
pub struct Speed {
    pub what: &'static str,
    pub speed: f64,
}

struct Block {
    codec: u8,
    bytes: Vec<u8>,
}

/// In this order: sum of packed blocks, decode and sum, decode and filter and sum, then more.
pub fn measure() -> Vec<Speed> {
    let blocks = blocks();
    let mut values = Vec::new();
    let decode = |block: &Block, values: &mut Vec<f64>| {
        let reader = Reader::new(&block.bytes);
        float::decode_f64(block.codec, reader, BLOCK_ROWS, values).expect("BUG: own bytes");
    };
    let packed = time("sum of packed blocks, nothing materialised", || {
        for block in &blocks {
            let sum = float::sum_f64(block.codec, Reader::new(&block.bytes), BLOCK_ROWS);
            black_box(
                sum.expect("BUG: own bytes")
                    .expect("BUG: a frame has a sum"),
            );
        }
    });
    let summed = time("decode, sum", || {
        for block in &blocks {
            decode(block, &mut values);
            black_box(sum_f64(&values, None));
        }
    });
    let filtered = time("decode, filter, sum", || {
        for block in &blocks {
            decode(block, &mut values);
            let mut rows = Bitmap::all(BLOCK_ROWS);
            compare_f64(&values, Comparison::Greater, 50.0, &mut rows);
            black_box(sum_f64(&values, Some(&rows)));
        }
    });
    let decoded = time("decode", || {
        for block in &blocks {
            decode(block, &mut values);
            black_box(&values);
        }
    });
    let mut rows = Bitmap::all(BLOCK_ROWS);
    let filter = time("filter of decoded values into a bitmap", || {
        for _ in 0..BLOCKS {
            compare_f64(black_box(&values), Comparison::Greater, 50.0, &mut rows);
            black_box(&rows);
        }
    });
    let sum = time("sum of decoded values", || {
        for _ in 0..BLOCKS {
            black_box(sum_f64(black_box(&values), None));
        }
    });
    let masked = time("sum of decoded values that a bitmap selects", || {
        for _ in 0..BLOCKS {
            black_box(sum_f64(black_box(&values), Some(&rows)));
        }
    });
    let extremes = time("minimum and maximum of decoded values", || {
        for _ in 0..BLOCKS {
            black_box(extremes_f64(black_box(&values), None));
        }
    });
    vec![
        packed, summed, filtered, decoded, filter, sum, masked, extremes,
    ]
}

fn time(what: &'static str, work: impl FnMut()) -> Speed {
    let time = fastest(REPEATS, work);
    Speed {
        what,
        speed: (BLOCKS * BLOCK_ROWS) as f64 / time.as_secs_f64() / 1e6,
    }
}

fn blocks() -> Vec<Block> {
    let mut state = 1u64;
    let mut reading = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % 10_000
    };
    (0..BLOCKS)
        .map(|_| {
            let values: Vec<f64> = (0..BLOCK_ROWS).map(|_| reading() as f64 / 100.0).collect();
            let mut bytes = Vec::new();
            let codec = float::encode_f64(&values, Tier::Fresh, &mut Guess::default(), &mut bytes);
            assert_eq!(codec, id::FLOAT_FORMED, "BUG: readings are decimals");
            Block { codec, bytes }
        })
        .collect()
}
