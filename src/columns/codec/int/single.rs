//! One value of a stream without the others, where its codec tells: constants, steps, frames, and frames over deltas, of which the
//! packed ones are added up.

use super::{frame, id};
use crate::error::Result;
use crate::wire::Reader;

/// The value of row `at`, below `n`, of a body that takes up the rest of `reader`. None of codecs that do not tell it.
pub fn value_of_body(codec: u8, mut reader: Reader, n: usize, at: usize) -> Result<Option<i64>> {
    let row = at as i64;
    let value = match codec {
        id::INT_CONST => reader.zigzag()?,
        id::INT_LINEAR => {
            let (first, step) = (reader.zigzag()?, reader.zigzag()?);
            first.wrapping_add(step.wrapping_mul(row))
        }
        id::INT_FRAME => frame::value(&mut reader, false, n, at)?,
        id::INT_PATCHED => frame::value(&mut reader, true, n, at)?,
        id::INT_DELTA | id::INT_PATCHED_DELTA => {
            let first = reader.zigzag()?;
            let packed = codec == id::INT_PATCHED_DELTA;
            first.wrapping_add(frame::sum_behind_first(&mut reader, packed, n, at)?)
        }
        _ => return Ok(None),
    };
    reader.finish()?;
    Ok(Some(value))
}

#[cfg(test)]
mod tests {
    use super::super::{around, decode, decode_part, encode, Tier};
    use super::*;
    use crate::codec::Point;

    fn noise(i: i64) -> i64 {
        let z = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (z ^ (z >> 27)) as i64
    }

    /// Codecs of both tiers; every value that one tells is that which it decodes to, and so are those of a part.
    fn check(values: &[i64]) -> [u8; 2] {
        [Tier::Fresh, Tier::Merged(Point::Small)].map(|tier| {
            let mut bytes = Vec::new();
            encode(values, tier, &mut bytes);
            let mut all = Vec::new();
            decode(&bytes, values.len(), &mut all).unwrap();
            let n = values.len();
            for at in (0..n).step_by(1 + n / 300).chain([n - 1]) {
                let value = value_of_body(bytes[0], Reader::new(&bytes[1..]), n, at).unwrap();
                assert!(value.is_none_or(|value| value == all[at]), "row {at} of {n}");
                let is_told = !matches!(
                    bytes[0],
                    id::INT_RUNS..=id::INT_DICT | id::INT_DELTA2..=id::INT_SCALED | id::INT_PATCHED_DELTA2
                );
                assert_eq!(value.is_some(), is_told, "codec {:#x}", bytes[0]);
            }
            for rows in [0..1, 0..n, n / 3..n / 2 + 1, n / 2..n, n - 1..n] {
                let told = around(&rows, n);
                assert!(told.start <= rows.start && told.end >= rows.end);
                let mut part = vec![77; 3];
                let reader = Reader::new(&bytes[1..]);
                let is_told = decode_part(bytes[0], reader, n, told.clone(), &mut part).unwrap();
                assert!(!is_told || part == all[told], "rows {rows:?} of {n}");
                let one = value_of_body(bytes[0], reader, n, rows.start).unwrap();
                assert_eq!(is_told, one.is_some(), "codec {:#x}", bytes[0]);
            }
            bytes[0]
        })
    }

    #[test]
    fn a_value_is_that_of_its_row() {
        let mut met = [false; 256];
        for n in [1, 2, 63, 720, 1023, 1024, 1025, 2500, 8192] {
            for bits in [0, 1, 2, 3, 5, 8, 12, 13, 20, 33, 57, 62, 63] {
                let mask = ((1_u64 << bits) - 1) as i64;
                let near = |i: i64| noise(i) & mask;
                let patched = |i: i64| match noise(i + n) & 31 {
                    0 => noise(i),
                    1 => (-1_000_i64).wrapping_sub(near(i)),
                    _ => near(i),
                };
                let bursts = |i: i64| near(i) << if noise(i + n) & 7 == 0 { 3 } else { 0 };
                let by_seven = |i: i64| near(i).wrapping_mul(7).wrapping_sub(300);
                let sums = |of: &dyn Fn(i64) -> i64| -> Vec<i64> {
                    let add = |sum: &mut i64, i: i64| {
                        *sum = sum.wrapping_add(of(i));
                        Some(*sum)
                    };
                    (0..n).scan(-77, add).collect()
                };
                for values in [
                    (0..n).map(near).collect::<Vec<i64>>(),
                    (0..n).map(patched).collect(),
                    (0..n).map(bursts).collect(),
                    (0..n).map(by_seven).collect(),
                    sums(&near),
                    sums(&bursts),
                    sums(&patched),
                    sums(&by_seven),
                    sums(&|_| 5),
                ] {
                    for codec in check(&values) {
                        met[codec as usize] = true;
                    }
                }
            }
        }
        let told = [
            id::INT_CONST,
            id::INT_LINEAR,
            id::INT_FRAME,
            id::INT_PATCHED,
            id::INT_DELTA,
            id::INT_PATCHED_DELTA,
        ];
        let missed: Vec<&u8> = told.iter().filter(|&&codec| !met[codec as usize]).collect();
        assert!(missed.is_empty(), "{missed:x?}");
    }

    #[test]
    fn damage_is_an_error() {
        let values: Vec<i64> = (0..720).map(|i| noise(i) & 63).collect();
        let mut bytes = Vec::new();
        encode(&values, Tier::Fresh, &mut bytes);
        let value = |bytes: &[u8]| value_of_body(bytes[0], Reader::new(&bytes[1..]), 720, 3);
        assert_eq!(value(&bytes), Ok(Some(values[3])));
        assert!(value(&bytes[..bytes.len() - 1]).is_err());
        bytes.push(0);
        assert!(value(&bytes).is_err());
    }
}
