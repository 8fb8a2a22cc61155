//! The sum of a stream without its values, where that is exact: constants, steps, runs and frames.

use super::{decode_flat, frame, id};
use crate::error::{Corrupt, Result};
use crate::wire::Reader;

/// The sum of the `n` values of a body that takes up the rest of `reader`. None where only the values
/// themselves can tell: other codecs, and frames whose arithmetic may wrap.
pub fn sum_body(codec: u8, mut reader: Reader, n: usize) -> Result<Option<i128>> {
    let rows = n as i128;
    match codec {
        _ if n == 0 => Ok(Some(0)),
        id::INT_CONST => Ok(Some(rows * i128::from(reader.zigzag()?))),
        id::INT_LINEAR => {
            let (first, step) = (i128::from(reader.zigzag()?), i128::from(reader.zigzag()?));
            let wraps = i64::try_from(first + step * (rows - 1)).is_err();
            Ok((!wraps).then_some(first * rows + step * (rows * (rows - 1) / 2)))
        }
        id::INT_RUNS => sum_runs(reader, n).map(Some),
        id::INT_FRAME => frame::sum(&mut reader, false, n),
        id::INT_PATCHED => frame::sum(&mut reader, true, n),
        _ => Ok(None),
    }
}

fn sum_runs(mut reader: Reader, n: usize) -> Result<i128> {
    let runs = reader.varint_up_to(n)?;
    let bytes = reader.varint_up_to(reader.len())?;
    let (mut heads, mut lengths) = (vec![0; runs], vec![0; runs]);
    decode_flat(reader.take(bytes)?, &mut heads)?;
    decode_flat(reader.take(reader.len())?, &mut lengths)?;
    let (mut rows, mut total) = (0, 0);
    for (head, length) in heads.into_iter().zip(lengths) {
        // Lengths are stored less one.
        if !(0..n as i64).contains(&length) {
            return Err(Corrupt::new("runs are longer than their block"));
        }
        rows += length as usize + 1;
        total += i128::from(head) * i128::from(length + 1);
    }
    if rows == n {
        Ok(total)
    } else {
        Err(Corrupt::new("runs do not add up to their block"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decode, encode, Tier};
    use super::*;

    fn check(values: &[i64]) -> u8 {
        let mut bytes = Vec::new();
        encode(values, Tier::Fresh, &mut bytes);
        let sum = sum_body(bytes[0], Reader::new(&bytes[1..]), values.len()).unwrap();
        let expected: i128 = values.iter().map(|v| i128::from(*v)).sum();
        if let Some(sum) = sum {
            assert_eq!(sum, expected, "codec {:#x}", bytes[0]);
        }
        let mut back = Vec::new();
        decode(&bytes, values.len(), &mut back).unwrap();
        assert_eq!(back, values);
        if sum.is_some() {
            bytes[0]
        } else {
            0
        }
    }

    fn noise(i: i64) -> i64 {
        let z = (i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (z ^ (z >> 27)) as i64
    }

    #[test]
    fn sums_are_those_of_the_values() {
        for n in [1, 2, 100, 1024, 1500, 8192] {
            check(&vec![-77; n as usize]);
            check(&(0..n).map(|i| 5 - i * 3).collect::<Vec<_>>());
            check(&(0..n).map(|i| noise(i / 40) % 900).collect::<Vec<_>>());
            check(
                &(0..n)
                    .map(|i| i64::MAX - (noise(i) & 3))
                    .collect::<Vec<_>>(),
            );
            check(&(0..n).map(noise).collect::<Vec<_>>());
            check(
                &(0..n)
                    .map(|i| [i64::MIN, i64::MAX, 0][(i % 3) as usize])
                    .collect::<Vec<_>>(),
            );
        }
        let frame: Vec<i64> = (0..1024).map(|i| noise(i) & 4095).collect();
        assert_eq!(check(&frame), id::INT_FRAME);
        let by_seven: Vec<i64> = frame.iter().map(|v| v * 7 - 300).collect();
        assert_eq!(check(&by_seven), id::INT_FRAME);
        let mut outliers = by_seven;
        (outliers[7], outliers[900]) = (-70_007 * 7 - 300, 123_456 * 7 - 300);
        assert_eq!(check(&outliers), id::INT_FRAME);
        outliers[8] = i64::MIN + 1;
        check(&outliers);
    }
}
