//! Blocks of floats come back bit for bit, whatever their bits; damaged blocks are errors or values,
//! never panics.

use proptest::prelude::*;
use varve_columns::codec::{float, Guess, Point, Tier};
use varve_columns::wire::Reader;

const TIERS: [Tier; 3] = [
    Tier::Fresh,
    Tier::Merged(Point::Fast),
    Tier::Merged(Point::Small),
];

/// SplitMix64 (Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// -limit..=limit
    fn around(&mut self, limit: i64) -> i64 {
        self.below(2 * limit as u64 + 1) as i64 - limit
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

const ODD: [u64; 12] = [
    0x7ff8_0000_0000_0000, // NaN
    0x7ff0_0000_0000_0001, // signalling NaN
    0xfff8_dead_beef_0001, // NaN with sign and payload
    0x8000_0000_0000_0000, // -0.0
    0x7ff0_0000_0000_0000, // +Inf
    0xfff0_0000_0000_0000, // -Inf
    0x0000_0000_0000_0001, // least denormal
    0x800f_ffff_ffff_ffff, // largest negative denormal
    0x7fef_ffff_ffff_ffff, // largest double
    0x7fe1_ccf3_85eb_c8a0, // 1e308
    0x0006_1234_0000_0000, // denormal
    0x43ab_c16d_674e_c800, // 1e18
];

/// Named blocks of `rows` values: one per model of the codec, then the same with odd values mixed in.
fn families(rows: usize, seed: u64) -> Vec<(String, Vec<f64>)> {
    let mut r = Random(seed);
    let mut level = 5000i64;
    let mut walk = move |r: &mut Random, step| {
        level += r.around(step);
        level as f64
    };
    type Make<'a> = Box<dyn FnMut(&mut Random, usize) -> f64 + 'a>;
    let makers: Vec<(&str, Make)> = vec![
        ("constant", Box::new(|_, _| 0.1 + 0.2)),
        ("integers", Box::new(|r, _| r.around(1000) as f64)),
        ("large integers", Box::new(|_, i| 1.6e18 + i as f64 * 1e9)),
        ("one decimal", Box::new(|r, _| r.around(400) as f64 / 10.0)),
        (
            "walk of two decimals",
            Box::new(move |r, _| walk(r, 9) / 100.0),
        ),
        (
            "scaled by a product",
            Box::new(|r, _| r.around(100_000) as f64 * 0.001),
        ),
        (
            "widened f32",
            Box::new(|r, _| (r.around(100_000) as f32 / 100.0) as f64),
        ),
        (
            "widened true f32",
            Box::new(|r, _| (r.unit() as f32).sqrt() as f64),
        ),
        ("thirds", Box::new(|r, _| r.around(10_000) as f64 / 300.0)),
        ("sevenths", Box::new(|r, _| r.around(10_000) as f64 / 70.0)),
        ("ninths", Box::new(|r, _| r.around(10_000) as f64 / 9000.0)),
        ("sums of tenths", {
            let mut sum = 0.0;
            Box::new(move |r, _| {
                sum += r.below(10) as f64 * 0.1;
                sum
            })
        }),
        (
            "1024ths",
            Box::new(|r, _| r.around(1 << 20) as f64 / 1024.0),
        ),
        ("uniform", Box::new(|r, _| r.unit())),
        ("sine", Box::new(|_, i| (i as f64 / 50.0).sin())),
        (
            "all magnitudes",
            Box::new(|r, _| 10f64.powi(r.around(308) as i32)),
        ),
        ("repeating reals", Box::new(|_, i| ((i % 37) as f64).sqrt())),
        ("random bits", Box::new(|r, _| f64::from_bits(r.next()))),
        (
            "odd bits",
            Box::new(|r, _| f64::from_bits(ODD[r.below(12) as usize])),
        ),
        (
            "odd list",
            Box::new(|_, i| [0.0, 0.0, 1e18, 10.0, 30.0, 0.0][i % 6]),
        ),
        (
            "1e308 beside 1e-308",
            Box::new(|_, i| [1e308, 1e-308][i % 2]),
        ),
    ];
    let mut blocks = Vec::new();
    for (name, mut make) in makers {
        let values: Vec<f64> = (0..rows).map(|i| make(&mut r, i)).collect();
        for percent in [1, 30] {
            let mixed = values.iter().map(|value| {
                if r.below(100) < percent {
                    f64::from_bits(ODD[r.below(12) as usize])
                } else {
                    *value
                }
            });
            let mixed: Vec<f64> = mixed.collect();
            blocks.push((format!("{name}, {percent} % odd"), mixed));
        }
        blocks.push((name.to_string(), values));
    }
    blocks
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn doubles_come_back_bit_for_bit() {
    for (seed, rows) in [
        0, 1, 2, 3, 7, 47, 48, 49, 100, 1000, 1023, 1024, 1025, 3000, 8192,
    ]
    .into_iter()
    .enumerate()
    {
        for (name, values) in families(rows, seed as u64) {
            for tier in TIERS {
                let mut bytes = Vec::new();
                let codec = float::encode_f64(&values, tier, &mut Guess::default(), &mut bytes);
                assert!(
                    bytes.len() <= rows * 8,
                    "{name}: {} bytes for {rows} rows",
                    bytes.len()
                );
                let mut back = vec![1.0; 3];
                float::decode_f64(codec, Reader::new(&bytes), rows, &mut back).unwrap();
                assert_eq!(bits(&values), bits(&back), "{name}, {rows} rows, {tier:?}");
            }
        }
    }
}

#[test]
fn sums_of_packed_blocks_are_those_of_their_values() {
    let mut summed = 0;
    for (name, values) in families(1024, 3) {
        let mut bytes = Vec::new();
        let codec = float::encode_f64(&values, Tier::Fresh, &mut Guess::default(), &mut bytes);
        if let Some(sum) = float::sum_f64(codec, Reader::new(&bytes), values.len()).unwrap() {
            let plain: f64 = values.iter().sum();
            let magnitude: f64 = values.iter().map(|v| v.abs()).sum();
            assert!(
                (sum - plain).abs() <= magnitude * 1e-12,
                "{name}: {sum} for {plain}"
            );
            summed += 1;
        }
    }
    assert!(summed >= 5, "only {summed} blocks");
}

#[test]
fn singles_come_back_bit_for_bit() {
    for (seed, rows) in [0, 1, 5, 1000, 1024, 2049].into_iter().enumerate() {
        for (name, values) in families(rows, 100 + seed as u64) {
            // Both by rounding and by taking 32 of the bits, for NaN payloads of all kinds.
            let rounded: Vec<f32> = values.iter().map(|v| *v as f32).collect();
            let cut: Vec<f32> = values
                .iter()
                .map(|v| f32::from_bits((v.to_bits() >> 32) as u32))
                .collect();
            for singles in [rounded, cut] {
                for tier in TIERS {
                    let mut bytes = Vec::new();
                    let codec =
                        float::encode_f32(&singles, tier, &mut Guess::default(), &mut bytes);
                    assert!(
                        bytes.len() <= rows.max(1) * 8,
                        "{name}: {} bytes",
                        bytes.len()
                    );
                    let mut back = Vec::new();
                    float::decode_f32(codec, Reader::new(&bytes), rows, &mut back).unwrap();
                    let same = singles
                        .iter()
                        .map(|v| v.to_bits())
                        .eq(back.iter().map(|v| v.to_bits()));
                    assert!(same, "{name}, {rows} rows, {tier:?}");
                }
            }
        }
    }
}

#[test]
fn damaged_blocks_never_panic() {
    let mut r = Random(77);
    for (_, values) in families(300, 5) {
        for tier in TIERS {
            let mut bytes = Vec::new();
            let codec = float::encode_f64(&values, tier, &mut Guess::default(), &mut bytes);
            for _ in 0..60 {
                let mut hurt = bytes.clone();
                match r.below(4) {
                    0 => hurt.truncate(r.below(bytes.len() as u64 + 1) as usize),
                    1 => hurt.push(r.next() as u8),
                    _ => {
                        for _ in 0..=r.below(3) {
                            if let Some(byte) = {
                                let len = hurt.len().max(1) as u64;
                                // Headers are at the front: hurt them more often.
                                let at = if r.below(2) == 0 {
                                    r.below(len)
                                } else {
                                    r.below(len.min(24))
                                };
                                hurt.get_mut(at as usize)
                            } {
                                *byte ^= 1 << r.below(8);
                            }
                        }
                    }
                }
                let rows = if r.below(4) == 0 {
                    r.below(2000) as usize
                } else {
                    values.len()
                };
                let mut back = Vec::new();
                if float::decode_f64(codec, Reader::new(&hurt), rows, &mut back).is_ok() {
                    assert_eq!(back.len(), rows);
                }
                let mut back = Vec::new();
                let _ = float::decode_f32(codec, Reader::new(&hurt), rows, &mut back);
            }
        }
    }
}

#[test]
fn random_bytes_never_panic() {
    let mut r = Random(99);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..r.below(80))
            .map(|_| {
                if r.below(3) == 0 {
                    r.below(8) as u8
                } else {
                    r.next() as u8
                }
            })
            .collect();
        let codec = 0x4f + r.below(11) as u8;
        let rows = r.below(1500) as usize;
        let mut back = Vec::new();
        if float::decode_f64(codec, Reader::new(&bytes), rows, &mut back).is_ok() {
            assert_eq!(back.len(), rows);
        }
    }
}

/// Doubles of any bits, and decimals of any digits with a few ULPs of noise.
fn any_double() -> impl Strategy<Value = f64> {
    let decimal = (any::<i32>(), 0..12i32, -3..4i64).prop_map(|(digits, exponent, ulps)| {
        let bits = (f64::from(digits) / 10f64.powi(exponent)).to_bits() as i64;
        f64::from_bits(bits.wrapping_add(ulps) as u64)
    });
    prop_oneof![any::<u64>().prop_map(f64::from_bits), decimal]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_doubles_come_back(
        values in prop::collection::vec(any_double(), 0..1200),
        repeats in 1..4usize,
    ) {
        let values = values.repeat(repeats);
        for tier in TIERS {
            let mut bytes = Vec::new();
            let codec = float::encode_f64(&values, tier, &mut Guess::default(), &mut bytes);
            prop_assert!(bytes.len() <= values.len() * 8);
            let mut back = Vec::new();
            float::decode_f64(codec, Reader::new(&bytes), values.len(), &mut back).unwrap();
            prop_assert_eq!(bits(&values), bits(&back));
        }
    }

    #[test]
    fn any_doubles_of_one_exponent_come_back(
        digits in prop::collection::vec(-1_000_000..1_000_000i64, 1..1200),
        exponent in 0..9i32,
        divisor in prop::sample::select(vec![1.0, 3.0, 7.0, 9.0, 60.0]),
    ) {
        let power = 10f64.powi(exponent) * divisor;
        let values: Vec<f64> = digits.iter().map(|digits| *digits as f64 / power).collect();
        for tier in TIERS {
            let mut bytes = Vec::new();
            let codec = float::encode_f64(&values, tier, &mut Guess::default(), &mut bytes);
            let mut back = Vec::new();
            float::decode_f64(codec, Reader::new(&bytes), values.len(), &mut back).unwrap();
            prop_assert_eq!(bits(&values), bits(&back));
        }
    }
}
