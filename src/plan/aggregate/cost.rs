//! What the node costs: the other side of a join, and for each pass over the table opening the chunks that a series index leaves, pages of the blocks that are decoded, a little for
//! each value that is folded, as much as core takes for each expression that is evaluated row by row, and a row for each
//! group.

use super::join::Input;
use super::target::Target;
use crate::am::series_index::contents;
use crate::catalog::layout;
use crate::exec::aggregate::{class_of, is_folded, Class, MOST_KEYS};
use crate::pg::expression::{columns_of, Expression};
use crate::pg::expression_kinds::Kind;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::planned_index::PlannedIndex;
use crate::pg::planned_table::PlannedTable;
use crate::pg::planner::Planner;
use crate::pg::planner_settings::{cpu_operator_cost, cpu_tuple_cost, seq_page_cost};

/// Decoding and folding a value, in operators.
pub const VALUE: f64 = 0.05;
/// A row that is fetched from the tail, or put together for an expression, in tuples.
const ROW: f64 = 0.5;
/// Getting ready, in tuples.
pub const START: f64 = 200.0;
/// Opening a chunk, beside its header's page, in tuples.
pub const CHUNK: f64 = 50.0;
/// Rows that are decoded together, about.
pub const BLOCK_ROWS: f64 = 1024.0;
/// Most rows of a chunk.
const CHUNK_ROWS: f64 = 65_536.0;

/// Startup and total cost, where a series index leaves so much; `input` is the grouping's own, the join if there is one.
pub fn of_node(
    by_index: &ByIndex,
    input: PlannedTable<'_>,
    source: &Input<'_>,
    target: &Target<'_>,
    conditions: &[Expression<'_>],
    groups: f64,
) -> (f64, f64) {
    let table = source.table;
    let rows = table.tuples().max(table.rows()).max(1.0);
    let pages = table.pages();
    let opened = by_index.opened;
    let decoded = (by_index.share * rows + opened * BLOCK_ROWS).min(rows);
    let columns = decoded_columns(table, target, conditions);
    let column_share = columns / f64::from(table.columns()).max(columns);
    let read = by_index.pages + opened.min(pages) + pages * column_share * decoded / rows;
    let aggregates = target.aggregates.iter();
    let folded = aggregates
        .filter(|&&aggregate| is_folded(aggregate))
        .count();
    let evaluated = (target.aggregates.len() - folded) as f64;
    let values = decoded * (columns + 1.0) * VALUE * cpu_operator_cost();
    let row = if evaluated > 0.0 { ROW } else { 0.0 };
    let per_row = row * cpu_tuple_cost() + evaluated * cpu_operator_cost();
    let other = source.join.as_ref().map_or(0.0, |join| {
        join.path.total_cost() + join.path.rows() * cpu_tuple_cost()
    });
    let pass = read.min(pages + by_index.pages) * seq_page_cost()
        + opened * CHUNK * cpu_tuple_cost()
        + values;
    let passes = source.join.as_ref().map_or(1.0, |join| join.passes);
    let startup = other + START * cpu_tuple_cost() + passes * pass + input.rows() * per_row;
    let width = 1.0 + target.aggregates.len() as f64;
    let per_group = cpu_tuple_cost() + width * cpu_operator_cost();
    (startup, startup + groups * per_group)
}

/// What a series index leaves of the table.
pub struct ByIndex {
    /// Chunks that are opened.
    pub opened: f64,
    /// Rows that conditions on its columns leave, of all.
    pub share: f64,
    /// Stretches of one series in one chunk that are read, where the index tells.
    pub stretches: Option<f64>,
    /// The share of all keys that conditions leave.
    pub keys: f64,
    /// Pages of the index.
    pub pages: f64,
    /// The share of the table's rows that is in the tail, at most.
    pub tail: f64,
    /// The columns of the index, from 1: those of the key, and time; none where there is no index.
    columns: Vec<i32>,
    /// Pages of the index that are not left out by anything.
    all_pages: f64,
}

impl ByIndex {
    /// The key's columns of the index, from 1.
    fn keys(&self) -> &[i32] {
        &self.columns[..self.columns.len().saturating_sub(1)]
    }
}

/// What the series index of a table, if it has one, leaves of it. Within a guarded entry point.
pub fn by_index<'a>(planner: Planner<'a>, input: PlannedTable<'_>, source: &Input<'a>) -> ByIndex {
    let table = source.table;
    let rows = table.tuples().max(1.0);
    let Some(index) = series_index(planner, table) else {
        return ByIndex {
            opened: (rows / CHUNK_ROWS).max(1.0).min(table.pages().max(1.0)),
            share: 1.0,
            stretches: None,
            keys: 1.0,
            pages: 0.0,
            tail: 0.0,
            columns: Vec::new(),
            all_pages: 0.0,
        };
    };
    let columns = index.key_columns();
    let select = |wanted: &[i32]| {
        planner.share(table, |clause| {
            let of_clause = columns_of(table.number(), [clause]);
            let is_wanted = |at: &i16| wanted.contains(&i32::from(*at));
            !of_clause.is_empty() && of_clause.iter().all(is_wanted)
        })
    };
    let keys = &columns[..columns.len().saturating_sub(1)];
    let (mut by_keys, mut share) = (select(keys), select(&columns));
    if let Some(join) = &source.join {
        let left = (input.rows() / table.rows().max(1.0)).min(1.0);
        if columns.contains(&i32::from(join.column)) {
            share *= left;
        }
        if keys.contains(&i32::from(join.column)) {
            by_keys *= left;
        }
    }
    // SAFETY: it is a series index.
    let found = unsafe { contents::of(planner, index) };
    // Those that a range of time leaves are told by their headers.
    let opened = (by_keys * found.series).min(found.keyed) + found.unkeyed.chunks;
    ByIndex {
        opened: opened.min(table.pages()).max(1.0),
        share,
        stretches: (found.unkeyed.chunks == 0.0).then_some(by_keys * found.series),
        keys: by_keys,
        pages: 1.0 + by_keys * index.pages(),
        // Chunks have few entries.
        tail: (found.entries / rows).min(1.0),
        all_pages: index.pages(),
        columns,
    }
}

/// Rows that go up from so many processes, each of which reads some of the chunks: where groups keep series apart, a group goes up more than
/// once only where one of its series goes on in another chunk.
pub fn rows_of_processes(
    by_index: &ByIndex,
    target: &Target<'_>,
    groups: f64,
    processes: f64,
) -> f64 {
    let plain = |group: &Expression<'_>| match group.kind() {
        Kind::Column(column) => Some(i32::from(column.number())),
        _ => None,
    };
    let plain: Vec<i32> = target.groups.iter().filter_map(plain).collect();
    let keys = by_index.keys();
    let is_apart = !keys.is_empty() && keys.iter().all(|key| plain.contains(key));
    let most = groups * processes;
    match is_apart {
        true => {
            let stretches = by_index.stretches;
            stretches.map_or(most, |stretches| most.min(groups + stretches))
        }
        false => most,
    }
}

/// A table in ranges of the first key of its series index, which processes share.
pub struct InRanges {
    /// What reading it so costs more, in all: the leader reads the index first, and chunks that have rows of two ranges are read twice.
    pub cost: f64,
    pub count: f64,
}

/// There are so many of them for each process, and a range has about so many rows, if there are no more ranges than is good.
const LEAST_OF_PROCESS: f64 = 4.0;
const MOST_OF_PROCESS: f64 = 20.0;
const RANGE_ROWS: f64 = 16_384.0;
const MOST_RANGES: f64 = 64.0;
/// There are at least so many keys for each process.
const LEAST_KEYS: f64 = 8.0;

/// What it is that processes read a table in ranges of keys. None where groups do not tell these apart, or there are too few for so many processes.
pub fn in_ranges(
    planner: Planner<'_>,
    by_index: &ByIndex,
    source: &Input<'_>,
    target: &Target<'_>,
    processes: f64,
) -> Option<InRanges> {
    let table = source.table;
    let first = *by_index.keys().first()?;
    let is_first = |group: &&Expression<'_>| match group.kind() {
        Kind::Column(column) => i32::from(column.number()) == first,
        _ => false,
    };
    let key = *target.groups.iter().find(is_first)?;
    if class_of(key.typ()) != Class::Int {
        return None;
    }
    let all = planner.combinations(&[key], table.tuples().max(1.0));
    let keys = by_index.keys * all;
    if keys < LEAST_KEYS * processes || all > MOST_KEYS as f64 / 2.0 {
        return None;
    }
    let twice = match by_index.stretches {
        Some(stretches) => (stretches / keys).min(by_index.opened),
        None => by_index.opened,
    };
    let again =
        seq_page_cost() + CHUNK * cpu_tuple_cost() + BLOCK_ROWS * VALUE * cpu_operator_cost();
    let most = MOST_RANGES.min(MOST_OF_PROCESS * processes);
    let count = (table.tuples() / RANGE_ROWS).min(most);
    let count = count.max(LEAST_OF_PROCESS * processes).round();
    Some(InRanges {
        cost: processes * by_index.all_pages * seq_page_cost() + count * twice * again,
        count,
    })
}

/// The series index of a table by which the executor goes: where there are some, that which states the layout.
fn series_index<'a>(planner: Planner<'_>, table: PlannedTable<'a>) -> Option<PlannedIndex<'a>> {
    let series = layout::index_am();
    let mut all = table.indexes();
    all.retain(|index| index.access_method() == series && !index.is_hypothetical());
    if all.len() > 1 {
        let open = Open::table(planner.oid(table), LockMode::Held);
        let stated = layout::of(open.rel());
        let columns = stated.keys.into_iter().chain(stated.time);
        let columns: Vec<i32> = columns.map(i32::from).collect();
        all.sort_by_key(|index| index.key_columns() != columns);
    }
    all.into_iter().next()
}

/// How many columns of the table the node decodes.
fn decoded_columns(
    table: PlannedTable<'_>,
    target: &Target<'_>,
    conditions: &[Expression<'_>],
) -> f64 {
    let aggregates = target.aggregates.iter();
    let aggregates = aggregates.map(|aggregate| aggregate.expression());
    let all = target.groups.iter().copied().chain(aggregates);
    columns_of(table.number(), all.chain(conditions.iter().copied())).len() as f64
}
