//! Builds the columns of a chunk: what is constant, how rows are cut into blocks, and the summaries.

use std::ops::Range;

use super::directory::{self, BlockEntry};
use super::header::{ColumnHeader, Constant, Layout, MAX_CONSTANT_BYTES};
use super::values::Dense;
use super::{
    block, Point, Tier, BLOCK_ROWS, HUGE_BLOCK_ROWS, LARGE_BLOCK_ROWS, MAX_BLOCK_DATA_BYTES,
};
use crate::codec::{id, Guess};
use crate::column::{Column, Values};
use crate::summary::{compare_floats, Bound, Sum, Summary};
use crate::wire::{as_decimal, to_decimal, POW10};

/// Appends one column to the payload. `series`: rows where a series starts, ascending.
pub(super) fn encode_column(
    column: &Column,
    index: u32,
    series: &[usize],
    effort: Effort,
    payload: &mut Vec<u8>,
) -> ColumnHeader {
    let rows = column.rows();
    let nulls = column.nulls();
    let at = payload.len() as u32;
    let mut header = ColumnHeader {
        index,
        kind: column.kind,
        rows: rows as u32,
        nulls: nulls as u32,
        layout: Layout::AllNull,
        summary: Summary::EMPTY,
        directory: at..at,
        blocks: at..at,
    };
    if nulls == rows {
        return header;
    }
    if nulls == 0 {
        if let Some(constant) = constant_of(column) {
            header.summary = constant.summary(column.kind, header.rows);
            header.layout = Layout::Constant(constant);
            return header;
        }
    }
    encode_blocks(column, &mut header, series, effort, payload);
    header
}

fn encode_blocks(
    column: &Column,
    header: &mut ColumnHeader,
    series: &[usize],
    mut effort: Effort,
    payload: &mut Vec<u8>,
) {
    let rows = column.rows();
    let mut built = Built::default();
    let tier = effort.tier;
    for start in (0..rows).step_by(HUGE_BLOCK_ROWS) {
        let stretches = start..rows.min(start + HUGE_BLOCK_ROWS);
        let place = (header.index, built.entries.len());
        built.append(encode_stretches(
            column,
            stretches,
            series,
            &mut effort,
            place,
        ));
    }
    (effort.before_block)();
    header.summary = merge(&built.summaries, &built.denses);
    let start = payload.len() as u32;
    if let [entry] = built.entries.as_slice() {
        header.layout = Layout::Single {
            codec: entry.codec,
            checksum: entry.checksum,
        };
    } else {
        let block_rows = built.block_rows();
        header.layout = Layout::Blocks { block_rows };
        directory::write(header, block_rows, &built.entries, tier, payload);
    }
    header.directory = start..payload.len() as u32;
    header.blocks = header.directory.end..header.directory.end + built.bytes.len() as u32;
    if payload.is_empty() {
        *payload = built.bytes;
    } else {
        payload.extend_from_slice(&built.bytes);
    }
}

/// The cheapest blocks for up to four stretches: each by itself, or, where small is what counts, but one for all.
fn encode_stretches(
    column: &Column,
    rows: Range<usize>,
    series: &[usize],
    effort: &mut Effort,
    place: (u32, usize),
) -> Built {
    let mut built = Built::default();
    effort.large = effort.tier;
    for stretch in cut(rows.clone(), LARGE_BLOCK_ROWS) {
        let place = (place.0, place.1 + built.entries.len());
        built.append(encode_stretch(column, stretch, series, effort, place));
    }
    let large = rows.len() > LARGE_BLOCK_ROWS
        && built.bytes.len() <= HUGE_BLOCK_BYTES
        && data_bytes(column, &rows) <= MAX_BLOCK_DATA_BYTES;
    if effort.tier == Tier::Merged(Point::Small) && large {
        let huge = effort.large(column, rows, place);
        // A point in it costs four times as much.
        if huge.cost() * 100 < built.cost() * 99 {
            return huge;
        }
    }
    built
}

/// The cheapest blocks for a stretch: of 1,024 rows, cut where a series ends, or but one.
fn encode_stretch(
    column: &Column,
    stretch: Range<usize>,
    series: &[usize],
    effort: &mut Effort,
    place: (u32, usize),
) -> Built {
    let starts = |end| series.partition_point(|&row| row < end);
    let several = starts(stretch.start + 1) < starts(stretch.end);
    let one_block = data_bytes(column, &stretch) <= MAX_BLOCK_DATA_BYTES;
    let long = !several && one_block && stretch.len() > BLOCK_ROWS;
    if effort.tier == Tier::Merged(Point::Small) && long {
        return encode_long(column, stretch, effort, place);
    }
    let even = || cut_data(column, cut(stretch.clone(), BLOCK_ROWS));
    effort.try_small(column, even());
    let mut best = effort.built(column, even(), place);
    let Tier::Merged(point) = effort.tier else {
        return best;
    };
    // What queries ask for one by one: short series, and the newest points of a long one.
    let picked = several || stretch.end == column.rows();
    if several {
        let pieces = pieces(stretch.clone(), series).into_iter();
        let by_series = effort.built(column, cut_data(column, pieces), place);
        if by_series.cost() * 50 < best.cost() * 49 {
            best = by_series;
        }
    }
    if best.entries.len() > 1 && best.bytes.len() <= LARGE_BLOCK_BYTES && one_block {
        let large = effort.large(column, stretch, place);
        // An edge of a range will decode more rows.
        let pays = match point {
            Point::Fast if picked => large.cost() * 10 < best.cost() * 9,
            Point::Fast => large.cost() * 50 < best.cost() * 49,
            Point::Small => large.cost() < best.cost(),
        };
        if pays {
            return large;
        }
        effort.large_did_not_pay();
    }
    best
}

/// The smallest blocks for a stretch of one series: mostly one, which is what trials are made on. Blocks of 1,024
/// rows are tried where they come near without any.
fn encode_long(
    column: &Column,
    stretch: Range<usize>,
    effort: &mut Effort,
    place: (u32, usize),
) -> Built {
    let even = || cut(stretch.clone(), BLOCK_ROWS);
    effort.small = Tier::Fresh;
    let fresh = effort.built(column, even(), place);
    effort.small = effort.tier;
    if fresh.bytes.len() > 2 * LARGE_BLOCK_BYTES {
        return effort.built(column, even(), place);
    }
    let large = effort.large(column, stretch.clone(), place);
    if fresh.cost() * 20 > large.cost() * 21 {
        return large;
    }
    let small = effort.built(column, even(), place);
    if small.cost() < large.cost() {
        small
    } else {
        large
    }
}

fn cut(rows: Range<usize>, block_rows: usize) -> impl Iterator<Item = Range<usize>> {
    let end = rows.end;
    rows.step_by(block_rows)
        .map(move |start| start..end.min(start + block_rows))
}

/// The same blocks, those with too many bytes of strings in pieces.
fn cut_data<'a>(
    column: &'a Column,
    blocks: impl Iterator<Item = Range<usize>> + 'a,
) -> impl Iterator<Item = Range<usize>> + 'a {
    blocks.flat_map(|rows| {
        let mut pieces = Vec::new();
        let mut start = rows.start;
        for row in rows.clone() {
            if row > start && data_bytes(column, &(start..row + 1)) > MAX_BLOCK_DATA_BYTES {
                pieces.push(start..row);
                start = row;
            }
        }
        pieces.push(start..rows.end);
        pieces
    })
}

/// Bytes of the strings in these rows; 0 for other columns.
fn data_bytes(column: &Column, rows: &Range<usize>) -> usize {
    let Values::Bytes { ends, .. } = &column.values else {
        return 0;
    };
    let end = |row: usize| row.checked_sub(1).map_or(0, |last| ends[last] as usize);
    end(rows.end) - end(rows.start)
}

/// Fewer rows of one series share a block with their neighbours.
const OWN_BLOCK_ROWS: usize = 128;

/// Blocks of at most 1,024 rows that end where a series ends, if any series starts inside the stretch.
fn pieces(stretch: Range<usize>, series: &[usize]) -> Vec<Range<usize>> {
    let inside = |row: &usize| stretch.contains(row) && *row > stretch.start;
    let first = series.partition_point(|&row| row <= stretch.start);
    let starts = series[first..].iter().copied().take_while(inside);
    let mut pieces = Vec::new();
    let (mut start, mut end) = (stretch.start, stretch.start);
    for next in starts.chain([stretch.end]) {
        // `end..next` is one series, behind shorter ones from `start` on.
        if end > start && (next - end >= OWN_BLOCK_ROWS || next - start > BLOCK_ROWS) {
            pieces.extend(cut(start..end, BLOCK_ROWS));
            start = end;
        }
        end = next;
        if end - start >= OWN_BLOCK_ROWS {
            pieces.extend(cut(start..end, BLOCK_ROWS));
            start = end;
        }
    }
    pieces.extend(cut(start..end, BLOCK_ROWS));
    pieces
}

/// What blocks are encoded with. The trials of a merged block take fifty times as long as a fresh block;
/// where *fast* does not gain by them, it leaves them out for a while.
pub(super) struct Effort<'a> {
    tier: Tier,
    small: Tier,
    large: Tier,
    guess: Guess,
    /// Called before each block, since a column can take seconds.
    before_block: &'a mut dyn FnMut(),
}

impl Effort<'_> {
    pub fn new(tier: Tier, before_block: &mut dyn FnMut()) -> Effort<'_> {
        Effort {
            tier,
            small: tier,
            large: tier,
            guess: Guess::default(),
            before_block,
        }
    }

    /// Small blocks.
    fn built(
        &mut self,
        column: &Column,
        blocks: impl Iterator<Item = Range<usize>>,
        place: (u32, usize),
    ) -> Built {
        let blocks = blocks.inspect(|_| (self.before_block)());
        Built::of(column, blocks, self.small, &mut self.guess, place)
    }

    /// One block by itself.
    fn single(
        &mut self,
        column: &Column,
        rows: Range<usize>,
        tier: Tier,
        place: (u32, usize),
    ) -> Built {
        (self.before_block)();
        let rows = std::iter::once(rows);
        Built::of(column, rows, tier, &mut Guess::default(), place)
    }

    /// Whether trials pay for the first and a middle block of a stretch.
    fn try_small(&mut self, column: &Column, mut blocks: impl Iterator<Item = Range<usize>>) {
        self.small = self.tier;
        if self.tier == Tier::Merged(Point::Fast) {
            let mut same = |rows: Range<usize>| {
                let mut bytes = |tier| self.single(column, rows.clone(), tier, (0, 0)).bytes;
                bytes(Tier::Merged(Point::Fast)) == bytes(Tier::Fresh)
            };
            let (first, middle) = (blocks.next(), blocks.nth(3));
            if first.is_none_or(&mut same) && middle.is_none_or(&mut same) {
                self.small = Tier::Fresh;
            }
        }
    }

    /// One block of a whole stretch; later ones come without trials where these gain nothing.
    fn large(&mut self, column: &Column, stretch: Range<usize>, place: (u32, usize)) -> Built {
        let built = self.single(column, stretch.clone(), self.large, place);
        if self.large == Tier::Merged(Point::Fast) {
            let fresh = self.single(column, stretch, Tier::Fresh, place);
            if fresh.bytes == built.bytes {
                self.large = Tier::Fresh;
            }
        }
        built
    }

    fn large_did_not_pay(&mut self) {
        if self.tier == Tier::Merged(Point::Fast) {
            self.large = Tier::Fresh;
        }
    }
}

/// What a merged chunk tries where small blocks are no larger than that.
const LARGE_BLOCK_BYTES: usize = 128 << 10;
const HUGE_BLOCK_BYTES: usize = 256 << 10;

/// What a block costs in the directory, about.
const ENTRY_BYTES: usize = 9;

/// Blocks that are done.
#[derive(Default)]
struct Built {
    entries: Vec<BlockEntry>,
    bytes: Vec<u8>,
    /// Of the blocks that have values.
    denses: Vec<Dense>,
    summaries: Vec<Summary>,
}

impl Built {
    /// Encodes blocks of a column; `place`: the column's index, the first block's.
    fn of(
        column: &Column,
        blocks: impl Iterator<Item = Range<usize>>,
        tier: Tier,
        guess: &mut Guess,
        place: (u32, usize),
    ) -> Built {
        let mut built = Built::default();
        for (i, rows) in blocks.enumerate() {
            let place = (place.0, (place.1 + i) as u32);
            let (mut entry, dense, mut summary) =
                block::encode(column, place, rows, tier, guess, &mut built.bytes);
            summary.sum = snap_sum(&summary);
            entry.sum = summary.sum;
            if entry.codec != id::ALL_NULL {
                built.denses.push(dense);
                built.summaries.push(summary);
            }
            built.entries.push(entry);
        }
        built
    }

    /// Bytes with those of the directory, about.
    fn cost(&self) -> usize {
        self.bytes.len() + self.entries.len() * ENTRY_BYTES
    }

    fn append(&mut self, next: Built) {
        self.entries
            .extend(next.entries.into_iter().map(|mut entry| {
                entry.bytes = entry.bytes.start + self.bytes.len() as u32
                    ..entry.bytes.end + self.bytes.len() as u32;
                entry
            }));
        if self.bytes.is_empty() {
            self.bytes = next.bytes;
        } else {
            self.bytes.extend_from_slice(&next.bytes);
        }
        self.denses.extend(next.denses);
        self.summaries.extend(next.summaries);
    }

    /// Rows of every block but the last, which may have fewer; 0 if they differ.
    fn block_rows(&self) -> u32 {
        let rows = self.entries[0].rows.len() as u32;
        let (last, others) = self
            .entries
            .split_last()
            .expect("BUG: a column without blocks");
        let same = rows.is_power_of_two() && others.iter().all(|e| e.rows.len() as u32 == rows);
        if same && last.rows.len() as u32 <= rows {
            rows
        } else {
            0
        }
    }
}

/// A sum of floats whose bounds are decimals is, but for rounding, a decimal of a few digits: the nearest
/// one within the error of summation is closer to the exact sum, and shorter.
fn snap_sum(summary: &Summary) -> Sum {
    let (Bound::Float(min), Bound::Float(max), Sum::Float(sum)) =
        (summary.min, summary.max, summary.sum)
    else {
        return summary.sum;
    };
    let exponents = [min, max].map(|v| as_decimal(v).map(|(e, _)| e));
    let [Some(low), Some(high)] = exponents else {
        return summary.sum;
    };
    for exponent in low.max(high)..=(low.max(high) + 1).min(15) {
        let integer = (sum * POW10[exponent as usize]).round_ties_even();
        let near = integer / POW10[exponent as usize];
        let scale = min.abs().max(max.abs()) * f64::from(summary.count);
        if (near - sum).abs() <= scale * f64::EPSILON && to_decimal(near, exponent).is_some() {
            return Sum::Float(near);
        }
    }
    summary.sum
}

/// The summary of a column from those of its blocks, all of which have values.
pub(super) fn merge(summaries: &[Summary], denses: &[Dense]) -> Summary {
    let mut total = summaries[0];
    for next in &summaries[1..] {
        total.count += next.count;
        total.min = pick_bound(total.min, next.min, std::cmp::Ordering::Greater);
        total.max = pick_bound(total.max, next.max, std::cmp::Ordering::Less);
        total.last = next.last;
        total.sum = match (total.sum, next.sum) {
            (Sum::Int(a), Sum::Int(b)) => Sum::Int(a + b),
            (Sum::Float(a), Sum::Float(b)) => Sum::Float(a + b),
            (
                Sum::Decimal { unscaled: a, scale },
                Sum::Decimal {
                    unscaled: b,
                    scale: other,
                },
            ) if scale == other => Sum::Decimal {
                unscaled: a + b,
                scale,
            },
            _ => Sum::None,
        };
    }
    total.sum = snap_sum(&total);
    let mixed = matches!(
        (total.min, total.max),
        (Bound::Decimal { .. }, _) | (_, Bound::Decimal { .. })
    ) && !matches!(total.sum, Sum::Decimal { .. });
    if mixed
        || summaries
            .iter()
            .any(|s| matches!(s.sum, Sum::Decimal { .. }))
            && matches!(total.sum, Sum::None)
    {
        return Summary {
            count: total.count,
            ..Summary::EMPTY
        };
    }
    let mean = match total.sum {
        Sum::Float(sum) => sum / f64::from(total.count),
        _ => 0.0,
    };
    total.squares = denses
        .iter()
        .map(|d| d.squares(mean))
        .reduce(add)
        .unwrap_or(Sum::None);
    total
}

fn add(a: Sum, b: Sum) -> Sum {
    match (a, b) {
        (Sum::Int(a), Sum::Int(b)) => Sum::Int(a + b),
        (Sum::Float(a), Sum::Float(b)) => Sum::Float(a + b),
        _ => Sum::None,
    }
}

/// `b` where `a` compares to it as `worse`, else `a`. An unknown bound makes the result unknown.
fn pick_bound(a: Bound, b: Bound, worse: std::cmp::Ordering) -> Bound {
    let order = match (&a, &b) {
        (Bound::Int(a), Bound::Int(b)) => a.cmp(b),
        (Bound::Float(a), Bound::Float(b)) => compare_floats(*a, *b),
        (Bound::Prefix(a), Bound::Prefix(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bound::Decimal { unscaled: a, .. }, Bound::Decimal { unscaled: b, .. }) => a.cmp(b),
        _ => return Bound::None,
    };
    if order == worse {
        b
    } else {
        a
    }
}

/// Rows where any of the `keys` columns changes.
pub(super) fn series_starts(columns: &[Column], keys: &[usize]) -> Vec<usize> {
    let rows = columns.first().map_or(0, Column::rows);
    let keys: Vec<&Column> = keys.iter().map(|&key| &columns[key]).collect();
    (1..rows)
        .filter(|&row| keys.iter().any(|key| !key.same_as_before(row)))
        .collect()
}

/// The value of a column that has no nulls and but one value, if a header may hold it.
fn constant_of(column: &Column) -> Option<Constant> {
    fn same<T: Copy, K: PartialEq>(values: &[T], key: impl Fn(T) -> K) -> Option<K> {
        let (&first, rest) = values.split_first()?;
        let first = key(first);
        rest.iter().all(|&v| key(v) == first).then_some(first)
    }
    match &column.values {
        Values::Absent(_) => None,
        Values::Bool(v) => same(v, i64::from).map(Constant::Int),
        Values::I16(v) => same(v, i64::from).map(Constant::Int),
        Values::I32(v) => same(v, i64::from).map(Constant::Int),
        Values::I64(v) => same(v, |i| i).map(Constant::Int),
        Values::F32(v) => same(v, f32::to_bits).map(Constant::F32),
        Values::F64(v) => same(v, f64::to_bits).map(Constant::F64),
        Values::Fixed { width, data } => {
            let width = *width as usize;
            let first = data.get(..width)?;
            (width <= MAX_CONSTANT_BYTES && data.chunks_exact(width).all(|v| v == first))
                .then(|| Constant::Bytes(first.to_vec()))
        }
        Values::Bytes { ends, data } => {
            let length = *ends.first()? as usize;
            let first = data.get(..length)?;
            let even = ends
                .iter()
                .enumerate()
                .all(|(i, &end)| end as usize == (i + 1) * length);
            let equal = length == 0 || data.chunks_exact(length).all(|v| v == first);
            (length <= MAX_CONSTANT_BYTES && even && equal).then(|| Constant::Bytes(first.to_vec()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_tile_a_stretch_and_end_with_a_series() {
        let series = [10, 20, 400, 450, 3000, 3001, 3002, 8190];
        let pieces = pieces(5..8192, &series);
        assert_eq!(pieces[..3], [5..20, 20..400, 400..450]);
        assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((pieces[0].start, pieces[pieces.len() - 1].end), (5, 8192));
        assert!(pieces
            .iter()
            .all(|piece| (1..=BLOCK_ROWS).contains(&piece.len())));
        assert_eq!(super::pieces(0..1024, &[2000]).len(), 1);
    }
}
