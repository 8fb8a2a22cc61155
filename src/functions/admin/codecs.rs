//! Names of codecs, as people read them.

use std::collections::BTreeMap;
use varve_columns::codec::id;

/// How many blocks have which codec.
#[derive(Default)]
pub struct Mix(BTreeMap<u8, u64>);

impl Mix {
    pub fn count(&mut self, codec: u8) {
        *self.0.entry(codec).or_default() += 1;
    }

    pub fn add(&mut self, other: &Mix) {
        for (codec, count) in &other.0 {
            *self.0.entry(*codec).or_default() += count;
        }
    }
}

impl core::fmt::Display for Mix {
    /// The most frequent first: `decimal 12, const 3`.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut sorted: Vec<_> = self.0.iter().collect();
        sorted.sort_by_key(|(_, count)| core::cmp::Reverse(**count));
        for (at, (codec, count)) in sorted.into_iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{} {count}", name(*codec))?;
        }
        Ok(())
    }
}

fn name(codec: u8) -> String {
    let known = match codec {
        id::ALL_NULL => "null",
        id::CONST | id::INT_CONST | id::FLOAT_CONST => "const",
        id::INT_LINEAR => "linear",
        id::INT_RUNS => "runs",
        id::INT_DELTA_RUNS => "delta-runs",
        id::INT_DICT | id::BYTES_DICT | id::FIXED_DICT => "dict",
        id::INT_FRAME => "frame",
        id::INT_DELTA => "delta",
        id::INT_DELTA2 => "delta2",
        id::INT_SCALED => "scaled",
        id::INT_PATCHED => "patched",
        id::INT_PATCHED_DELTA => "patched-delta",
        id::INT_PATCHED_DELTA2 => "patched-delta2",
        id::INT_ZSTD | id::BYTES_ZSTD | id::FIXED_ZSTD => "zstd",
        id::BYTES_DICT_ZSTD => "dict+zstd",
        id::BYTES_PAIRED => "paired",
        id::INT_PLANES | id::FLOAT_PLANES | id::BYTES_PLANES | id::FIXED_PLANES => "planes",
        id::INT_PCO | id::FLOAT_PCO => "pco",
        id::BYTES_RAW | id::FIXED_RAW | id::FLOAT_RAW => "raw",
        id::NUMERIC_SCALED | id::FLOAT_FORMED => "decimal",
        id::FLOAT_FORMED_CORRECTED => "decimal+ulp",
        id::FLOAT_FORMED_EXCEPTED => "decimal+exceptions",
        id::FLOAT_FORMED_CORRECTED_EXCEPTED => "decimal+ulp+exceptions",
        id::FLOAT_SPLIT => "split",
        _ => return format!("codec {codec:#04x}"),
    };
    known.to_string()
}
