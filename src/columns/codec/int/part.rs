//! Some rows of a stream without the others, where its codec tells: constants, steps, frames, and frames over deltas, of which the packed
//! ones in front are added up.

use super::prefix::prefix_sum;
use super::{frame, id};
use crate::codec::pack::GROUP;
use crate::error::Result;
use crate::wire::Reader;
use std::ops::Range;

/// The rows that are read for `rows` of `n`: whole groups of packed values, which are read at once.
pub fn around(rows: &Range<usize>, n: usize) -> Range<usize> {
    rows.start / GROUP * GROUP..rows.end.next_multiple_of(GROUP).min(n)
}

/// Fills `out` with the values of `rows` of the `n` rows of a body that takes up the rest of `reader`. `rows` must be as `around` returns them, and not empty.
/// False of codecs that do not tell them: what is in `out` then is nothing.
pub fn decode_part(
    codec: u8,
    mut reader: Reader,
    n: usize,
    rows: Range<usize>,
    out: &mut Vec<i64>,
) -> Result<bool> {
    // What is in there is overwritten.
    out.resize(rows.len(), 0);
    match codec {
        id::INT_CONST => out.fill(reader.zigzag()?),
        id::INT_LINEAR => {
            let (first, step) = (reader.zigzag()?, reader.zigzag()?);
            for (value, row) in out.iter_mut().zip(rows) {
                *value = first.wrapping_add(step.wrapping_mul(row as i64));
            }
        }
        id::INT_FRAME => frame::decode_part(&mut reader, false, n, rows, out)?,
        id::INT_PATCHED => frame::decode_part(&mut reader, true, n, rows, out)?,
        id::INT_DELTA | id::INT_PATCHED_DELTA => {
            let first = reader.zigzag()?;
            let packed = codec == id::INT_PATCHED_DELTA;
            let (before, scale) = frame::decode_deltas(&mut reader, packed, n, rows, out)?;
            prefix_sum(first.wrapping_add(before), out, scale);
        }
        _ => return Ok(false),
    }
    reader.finish()?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::{encode, Tier};
    use super::*;

    // That a part is that of all is tested where one value is (`single.rs`).
    #[test]
    fn damage_is_an_error() {
        let values: Vec<i64> = (0..2500).map(|i| i * 7_919 % 100_003).collect();
        let mut bytes = Vec::new();
        encode(&values, Tier::Fresh, &mut bytes);
        let part = |bytes: &[u8]| -> Result<Vec<i64>> {
            let mut out = Vec::new();
            decode_part(
                bytes[0],
                Reader::new(&bytes[1..]),
                2500,
                1024..2048,
                &mut out,
            )?;
            Ok(out)
        };
        assert_eq!(part(&bytes), Ok(values[1024..2048].to_vec()));
        assert!(part(&bytes[..bytes.len() - 1]).is_err());
        bytes.push(0);
        assert!(part(&bytes).is_err());
    }
}
