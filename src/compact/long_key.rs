//! Series keys that are too long to be kept of many series at a time. A column of text that nobody has named as a key is one where a table
//! has no series index, and may have documents in it. Such a series is known by the start of its key and a digest; its chunks are not
//! entered under it.

use crate::chunk::row_set::{bytes_at, put_ordered, put_start};
use std::hash::{DefaultHasher, Hasher as _};
use varve_columns::column::Column;

/// Longer than what a btree takes, unless that compresses well.
const MOST_BYTES: usize = 8192;
const DIGEST_BYTES: usize = 16;

/// Is it a key that was shortened?
pub fn is_short_for(key: &[u8]) -> bool {
    key.len() > MOST_BYTES
}

/// Appends what the series of a row is known by: the bytes that name it, or their start and a digest.
pub fn put_known<'a>(
    out: &mut Vec<u8>,
    keys: impl Iterator<Item = &'a Column> + Clone,
    row: usize,
) {
    put_longer(out, keys.clone(), row);
    if out.len() <= MOST_BYTES {
        return;
    }
    out.truncate(MOST_BYTES);
    let mut values = Vec::new();
    for seed in [0, 1] {
        let mut digest = DefaultHasher::new();
        digest.write_u8(seed);
        for key in keys.clone() {
            let is_null = key.validity.as_ref().is_some_and(|valid| !valid[row]);
            match bytes_at(key, row).filter(|_| !is_null) {
                Some(bytes) => {
                    digest.write_usize(bytes.len());
                    digest.write(bytes);
                }
                None => {
                    values.clear();
                    put_ordered(&mut values, key, row);
                    digest.write(&values);
                }
            }
        }
        out.extend_from_slice(&digest.finish().to_be_bytes());
    }
}

/// Appends the start of the key of a row, which is not behind it: as many bytes of it as a start has, or all.
pub fn put_not_behind<'a>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'a Column>, row: usize) {
    put_longer(out, keys, row);
    out.truncate(MOST_BYTES);
}

/// Appends what is not before the key of a row, nor before what its series is known by.
pub fn put_not_before<'a>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'a Column>, row: usize) {
    put_longer(out, keys, row);
    if out.len() > MOST_BYTES {
        out.truncate(MOST_BYTES);
        out.extend_from_slice(&[0xff; DIGEST_BYTES + 1]);
    }
}

/// The key of a row, or more bytes of it than a start has.
fn put_longer<'a>(out: &mut Vec<u8>, keys: impl Iterator<Item = &'a Column>, row: usize) {
    for key in keys {
        put_start(out, key, row, MOST_BYTES);
        if out.len() > MOST_BYTES {
            return;
        }
    }
}
