//! From ordered rows to chunks: how rows are divided, encoded, and given their header.

use super::index_entries::SeriesIndexes;
use super::row_set::{integer_at, Order, RowSet};
use crate::catalog::layout::Layout;
use crate::chunk::chunk_cache;
use crate::chunk::write::Target;
use crate::guc;
use crate::pg::error;
use crate::pg::random;
use crate::pg::relation::Table;
use crate::pg::snapshot::Snapshot;
use crate::pg::tid::Tid;
use varve_columns::area::Area;
use varve_columns::chunk::{self, Options, Tier};
use varve_columns::column::Column;
use varve_columns::tuple::header::{
    Header, Section, FLAG_ONE_SERIES, FLAG_SORTED, FLAG_UNKEYED, VERSION,
};
use varve_columns::tuple::statics::Statics;

/// A series of at least so many rows gets chunks of its own.
pub const OWN_CHUNK_ROWS: usize = 1024;
/// Values of one chunk take about so many bytes at most, before encoding.
pub const CHUNK_BYTES: usize = 32 << 20;

/// Writes rows, of which `order` is the order by `layout`, as chunks of level 0, entered under the NULL key of the series indexes.
pub fn write_fresh(
    target: &Target,
    rows: &RowSet,
    order: &Order,
    layout: &Layout,
    indexes: &SeriesIndexes,
) {
    for part in divide(order, rows) {
        error::check_interrupts();
        let tid = encode_fresh(rows, order, layout, part).write(target);
        enter(target.table, indexes, tid);
    }
}

/// Encodes what `write_fresh` writes, all of it first.
pub fn encode_all_fresh(rows: &RowSet, order: &Order, layout: &Layout) -> Vec<Encoded> {
    let encode = |part| {
        error::check_interrupts();
        encode_fresh(rows, order, layout, part)
    };
    divide(order, rows).into_iter().map(encode).collect()
}

/// Writes encoded chunks as `write_fresh` does; returns the places of their headers.
pub fn write_all(target: &Target, chunks: Vec<Encoded>, indexes: &SeriesIndexes) -> Vec<Tid> {
    let write = |chunk: Encoded| {
        error::check_interrupts();
        let tid = chunk.write(target);
        enter(target.table, indexes, tid);
        tid
    };
    chunks.into_iter().map(write).collect()
}

/// Encodes a part of ordered rows as a chunk of level 0, which has no key: looks for keys rely on that (unique/README.md).
fn encode_fresh(rows: &RowSet, order: &Order, layout: &Layout, part: Part) -> Encoded {
    let columns = rows.gather(&order.rows[part.rows]);
    let plan = Plan {
        level: 0,
        one_series: part.one_series,
        keyed: false,
        tier: Tier::Fresh,
    };
    Encoded::new(&columns, layout, &plan)
}

/// How a chunk is to be written.
pub struct Plan {
    pub level: u8,
    pub one_series: bool,
    /// Entered under its own key: only a merger sees to it that it overlaps no other.
    pub keyed: bool,
    pub tier: Tier,
}

/// Rows that go into one chunk.
pub struct Part {
    pub rows: core::ops::Range<usize>,
    pub one_series: bool,
}

/// Divides ordered rows into chunks: long series get their own, short ones share.
pub fn divide(order: &Order, rows: &RowSet) -> Vec<Part> {
    let per_row = (rows.bytes / rows.rows.max(1)).max(1);
    let limit = guc::chunk_rows().min((CHUNK_BYTES / per_row).max(1));
    let mut parts = Vec::new();
    let mut shared: Option<core::ops::Range<usize>> = None;
    let close = |parts: &mut Vec<Part>, shared: &mut Option<core::ops::Range<usize>>| {
        if let Some(rows) = shared.take() {
            parts.push(Part {
                rows,
                one_series: false,
            });
        }
    };
    for series in order.all_series() {
        let mut rest = series.clone();
        let own = series.len() >= OWN_CHUNK_ROWS.min(limit) || order.series() == 1;
        if own {
            close(&mut parts, &mut shared);
            while !rest.is_empty() {
                let end = rest.end.min(rest.start + limit);
                parts.push(Part {
                    rows: rest.start..end,
                    one_series: true,
                });
                rest.start = end;
            }
            continue;
        }
        if shared
            .as_ref()
            .is_some_and(|shared| shared.len() + rest.len() > limit)
        {
            close(&mut parts, &mut shared);
        }
        match &mut shared {
            Some(shared) => shared.end = rest.end,
            None => shared = Some(rest),
        }
    }
    close(&mut parts, &mut shared);
    parts
}

/// A chunk that is not written yet.
pub struct Encoded {
    header: Header,
    statics: Statics,
    payload: Vec<u8>,
}

impl Encoded {
    /// Encodes one chunk of sorted columns.
    pub fn new(columns: &[Column], layout: &Layout, plan: &Plan) -> Encoded {
        let rows = crate::chunk::datum::rows_of(&columns[0].values) as u32;
        let keys: Vec<usize> = match plan.one_series {
            true => Vec::new(),
            false => layout
                .keys
                .iter()
                .map(|&number| usize::from(number) - 1)
                .collect(),
        };
        let options = Options {
            tier: plan.tier,
            keys: &keys,
        };
        let encoded = chunk::encode_with(columns, &options, error::check_interrupts);
        let mut header = Header {
            version: VERSION,
            chunk: new_chunk_id(),
            flags: 0,
            level: plan.level,
            rows,
            deleted: 0,
            min_time: 0,
            max_time: 0,
            statics: Section::Inline(Vec::new()),
            delete_map: Section::Inline(Vec::new()),
            slots: Vec::new(),
            area: Area::default(),
        };
        let times = layout.time.and_then(|time| {
            let column = &columns[usize::from(time) - 1];
            time_range(column, rows as usize)
        });
        if let Some((min, max)) = times {
            header.flags |= FLAG_SORTED;
            (header.min_time, header.max_time) = (min, max);
        }
        let key_nulls = layout.keys.iter().chain(layout.time.iter()).any(|&number| {
            let validity = &columns[usize::from(number) - 1].validity;
            validity
                .as_ref()
                .is_some_and(|valid| valid.iter().any(|valid| !valid))
        });
        if plan.one_series {
            header.flags |= FLAG_ONE_SERIES;
        }
        if !plan.keyed || key_nulls {
            header.flags |= FLAG_UNKEYED;
        }
        let statics = Statics {
            time: layout.time,
            keys: layout.keys.clone(),
            attributes: columns.len() as u16,
            columns: encoded.header,
            payload: Default::default(),
        };
        Encoded {
            header,
            statics,
            payload: encoded.payload,
        }
    }

    /// Writes it; returns the TID of its header.
    pub fn write(self, target: &Target) -> Tid {
        target.write_chunk(self.header, self.statics, &self.payload)
    }
}

/// Enters a header that this command has just written.
pub fn enter(table: Table<'_>, indexes: &SeriesIndexes, tid: Tid) {
    if indexes.is_empty() {
        return;
    }
    // SAFETY: the table is open; the header was just written.
    let reader = unsafe { chunk_cache::reader_at(table, tid, Snapshot::any()) };
    let reader = reader.expect("BUG: a new header is gone");
    indexes.enter_header(&reader, &reader.chunk.map, tid);
}

/// Least and greatest time; `None` when all are null.
fn time_range(column: &Column, rows: usize) -> Option<(i64, i64)> {
    (0..rows)
        .map(|row| integer_at(column, row))
        .filter(|(null, _)| !null)
        .fold(None, |range, (_, time)| match range {
            None => Some((time, time)),
            Some((min, max)) => Some((time.min(min), time.max(max))),
        })
}

/// A random id: nothing has to be remembered to keep ids apart.
fn new_chunk_id() -> u64 {
    random::number()
}
