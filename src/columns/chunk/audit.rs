//! Recomputes from decoded values what a chunk says about a column, for verification.

use super::build::merge;
use super::directory::{BlockEntry, ColumnDirectory};
use super::header::{ColumnHeader, Layout};
use super::values::Dense;
use crate::codec::id;
use crate::column::Column;
use crate::summary::{Bound, Sum, Summary};

/// What a chunk says about a column that its values contradict.
#[derive(Clone, Debug, PartialEq)]
pub struct Contradiction {
    /// `None`: of the whole column.
    pub block: Option<u32>,
    pub what: &'static str,
}

/// Compares header and directory of a column with its decoded blocks, which are in order.
pub fn audit(
    header: &ColumnHeader,
    directory: &ColumnDirectory,
    blocks: &[Column],
) -> Vec<Contradiction> {
    let mut found = Vec::new();
    if matches!(header.layout, Layout::AllNull | Layout::Constant(_)) {
        return found;
    }
    let (mut denses, mut summaries) = (Vec::new(), Vec::new());
    for (entry, column) in directory.blocks().iter().zip(blocks) {
        if entry.codec == id::ALL_NULL {
            continue;
        }
        let dense = Dense::gather(column, 0..column.rows());
        let summary = dense.summarize(column.kind);
        let block = Some(entry.index);
        found.extend(
            block_contradictions(entry, &summary).map(|what| Contradiction { block, what }),
        );
        denses.push(dense);
        summaries.push(summary);
    }
    if !summaries.is_empty() {
        let actual = merge(&summaries, &denses);
        found.extend(
            column_contradictions(&header.summary, &actual)
                .map(|what| Contradiction { block: None, what }),
        );
    }
    found
}

fn block_contradictions(
    entry: &BlockEntry,
    actual: &Summary,
) -> impl Iterator<Item = &'static str> {
    let stored = Summary {
        count: entry.rows.len() as u32 - entry.nulls,
        min: entry.min,
        max: entry.max,
        sum: entry.sum,
        ..*actual
    };
    // A directory leaves bounds out that blocks do not share the form of.
    let unknown = matches!(entry.min, Bound::None);
    column_contradictions(if unknown { actual } else { &stored }, actual)
        .collect::<Vec<_>>()
        .into_iter()
}

fn column_contradictions(stored: &Summary, actual: &Summary) -> impl Iterator<Item = &'static str> {
    let size = match (actual.min, actual.max) {
        (Bound::Float(min), Bound::Float(max)) => min.abs().max(max.abs()),
        _ => 0.0,
    };
    let count = f64::from(actual.count);
    [
        ("count", stored.count == actual.count),
        ("min", stored.min == actual.min),
        ("max", stored.max == actual.max),
        ("sum", near(&stored.sum, &actual.sum, size * count)),
        (
            "sum of squares",
            near(&stored.squares, &actual.squares, size * size * count * 4.0),
        ),
        ("first", stored.first == actual.first),
        ("last", stored.last == actual.last),
    ]
    .into_iter()
    .filter_map(|(what, right)| (!right).then_some(what))
}

/// Equal, or for sums of floats within rounding of terms that add up to `size`.
fn near(stored: &Sum, actual: &Sum, size: f64) -> bool {
    match (stored, actual) {
        (Sum::Float(a), Sum::Float(b)) => {
            a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= size * 1e-9 || !size.is_finite()
        }
        _ => stored == actual,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decode_block, encode, ChunkHeader, Options, Tier};
    use super::*;
    use crate::column::{Kind, Values};

    fn sample() -> (ColumnHeader, ColumnDirectory, Vec<Column>) {
        let column = Column {
            kind: Kind::F64,
            values: Values::F64((0..3000).map(|i| f64::from(i % 700) / 10.0).collect()),
            validity: None,
        };
        let encoded = encode(
            &[column],
            &Options {
                tier: Tier::Fresh,
                keys: &[],
            },
        );
        let header = ChunkHeader::parse(&encoded.header).expect("just written");
        let head = header.column(0).clone();
        let bytes = |range: &std::ops::Range<u32>| {
            encoded.payload[range.start as usize..range.end as usize].to_vec()
        };
        let directory =
            ColumnDirectory::parse(&head, &bytes(&head.directory)).expect("just written");
        let blocks = directory
            .blocks()
            .iter()
            .map(|entry| {
                let mut out = Column::empty();
                decode_block(&head, entry, &bytes(&entry.bytes), &mut out).expect("just written");
                out
            })
            .collect();
        (head, directory, blocks)
    }

    #[test]
    fn what_was_just_written_is_right() {
        let (head, directory, blocks) = sample();
        assert_eq!(audit(&head, &directory, &blocks), []);
    }

    #[test]
    fn a_wrong_sum_and_a_wrong_maximum_are_found() {
        let (mut head, directory, blocks) = sample();
        head.summary.sum = Sum::Float(1.0);
        head.summary.max = Bound::Float(70.0);
        let found: Vec<_> = audit(&head, &directory, &blocks)
            .into_iter()
            .map(|contradiction| contradiction.what)
            .collect();
        assert_eq!(found, ["max", "sum"]);
    }
}
