//! A chunk: up to 65,536 rows by column. A header (what is where, summaries), and a payload of columns,
//! each a directory and blocks that decode alone. Where header and payload are kept is not known here.
//! Bytes: FORMAT.md.

mod audit;
mod block;
mod bounds;
mod build;
mod directory;
mod header;
mod part;
mod single;
mod summary_bytes;
mod values;

use crate::area::Area;
pub use crate::codec::{Point, Tier};
use crate::column::Column;
use crate::summary::{Bound, Prefix};
pub use audit::{audit, Contradiction};
pub use block::{constant, decode_block, line, may_be_line};
pub use directory::{BlockEntry, ColumnDirectory};
pub use header::{ChunkHeader, ColumnHeader, Constant, Layout, MAX_CONSTANT_BYTES};
pub use part::decode_part;
pub use single::{may_tell_value, value_at};

/// First bytes of a header.
pub const MAGIC: [u8; 4] = *b"VRVC";
/// The version that is written; all up to it are read.
pub const FORMAT_VERSION: u8 = 1;
/// Most rows of a chunk.
pub const MAX_ROWS: usize = 65_536;
/// More columns than PostgreSQL allows in a table.
pub const MAX_COLUMNS: usize = 4_096;
/// Rows of a block, unless larger blocks pay.
pub const BLOCK_ROWS: usize = 1_024;
/// Rows of a block of a merged chunk, where that pays.
pub const LARGE_BLOCK_ROWS: usize = 8_192;
/// The same where small size is all that counts.
pub const HUGE_BLOCK_ROWS: usize = 32_768;
/// Byte strings of a block, unless it is a single one. What encodes a block cannot be interrupted, and what reads a
/// row decodes its block.
pub const MAX_BLOCK_DATA_BYTES: usize = 1 << 20;

/// How to write a chunk.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    pub tier: Tier,
    /// Columns that name a series, by index: blocks of a merged chunk end where a series ends, if that
    /// takes fewer bytes.
    pub keys: &'a [usize],
}

/// A chunk as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    pub header: Vec<u8>,
    pub payload: Vec<u8>,
}

/// CRC-32, started from a number that names the place.
fn checksum(bytes: &[u8], place: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(place);
    hasher.update(bytes);
    hasher.finalize()
}

/// Encodes columns of equal length. Any column must stay below 1 GiB, the chunk below 4 GiB.
///
/// # Panics
/// Where columns differ in length, have more than `MAX_ROWS` rows, or values do not fit their kind.
pub fn encode(columns: &[Column], options: &Options) -> Encoded {
    encode_with(columns, options, || ())
}

/// The same; `before_block` is called before each attempt at a block, which can take tens of milliseconds, and before a
/// column is put together.
///
/// # Panics
/// As `encode`.
pub fn encode_with(
    columns: &[Column],
    options: &Options,
    mut before_block: impl FnMut(),
) -> Encoded {
    let rows = columns.first().map_or(0, Column::rows);
    assert!(rows <= MAX_ROWS, "BUG: a chunk of {rows} rows");
    assert!(
        columns.len() <= MAX_COLUMNS,
        "BUG: a chunk of {} columns",
        columns.len()
    );
    let mut payload = Vec::new();
    columns.iter().for_each(|column| column.check(rows));
    let series = match options.tier {
        Tier::Fresh => Vec::new(),
        Tier::Merged(_) => build::series_starts(columns, options.keys),
    };
    let headers: Vec<ColumnHeader> = (0..)
        .zip(columns)
        .map(|(i, column)| {
            before_block();
            let effort = build::Effort::new(options.tier, &mut before_block);
            build::encode_column(column, i, &series, effort, &mut payload)
        })
        .collect();
    assert!(
        u32::try_from(payload.len()).is_ok(),
        "BUG: a chunk of 4 GiB"
    );
    Encoded {
        header: ChunkHeader::write(rows as u32, &headers, &Area::default()),
        payload,
    }
}

/// Whether a reader that looks for `value` may skip what has these bounds.
pub fn prefix_excludes(min: &Bound, max: &Bound, value: &[u8]) -> bool {
    let below = matches!(min, Bound::Prefix(p) if value < Prefix::as_bytes(p));
    let above = matches!(max, Bound::Prefix(p) if value > Prefix::as_bytes(p));
    below || above
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_bounds_exclude_only_what_lies_outside() {
        let long = |last: u8| [&[7u8; 16][..], &[last]].concat();
        let min = Bound::Prefix(Prefix::floor(&long(5)));
        let max = Prefix::ceil(&long(9)).map_or(Bound::None, Bound::Prefix);
        for inside in [long(5), long(7), long(9), vec![7; 16], long(255)] {
            assert!(!prefix_excludes(&min, &max, &inside));
        }
        for outside in [vec![7; 15], vec![6], vec![8], vec![]] {
            assert!(prefix_excludes(&min, &max, &outside));
        }
        // Nothing of sixteen bytes lies above this.
        assert!(Prefix::ceil(&[255; 17]).is_none());
        assert!(!prefix_excludes(&min, &Bound::None, &[255; 40]));
        let carried = Prefix::ceil(&[&[1u8][..], &[255; 16]].concat());
        assert_eq!(carried.as_ref().map(Prefix::as_bytes), Some(&[2u8][..]));
    }
}
