//! The executor's side: a custom scan node above the grouping.
//!
//! A query without other group columns has one group, also when there is no row. Buckets outside the range pass through.
use super::buckets::TimeType;
use super::rows::{Column, ColumnKind, Gapfill, Limit};
use crate::pg::custom_scan::{self, Beginning, CustomScan, Guarded, Methods, NodeState};
use crate::pg::equality::Equality;
use crate::pg::expression_context::Prepared;
use crate::pg::row_slot::RowSlot;
use crate::pg::value_layout::Layout;
use crate::pg::Oid;
use std::ffi::CStr;

const TIME_TYPES: [TimeType; 5] = [
    TimeType::Int2,
    TimeType::Int4,
    TimeType::Int8,
    TimeType::Date,
    TimeType::Timestamp,
];

pub fn init() {
    custom_scan::register::<Gapfill>();
}

impl CustomScan for Gapfill {
    const NAME: &'static CStr = c"VarveGapfill";
    const METHODS: &'static Methods = &Methods::guarded::<Self>();

    fn begin(node: NodeState, beginning: Beginning) -> Gapfill {
        let input = node.begin_child(beginning);
        let expressions = node.prepared_expressions();
        let limits = node.plan().private_integers(3);
        let (arguments, others) = expressions.split_at(4);
        let (limit_values, fill_arguments) = others.split_at(limits.len() / 4);
        let columns = columns_of(node, fill_arguments);
        let bucket = columns
            .iter()
            .position(|c| c.kind == ColumnKind::Bucket)
            .expect("BUG: a plan without a bucket");
        let time_type = TimeType::of(columns[bucket].typ).expect("BUG: a bucket that is no time");
        Gapfill {
            input,
            bucket,
            time_type,
            zoned: !arguments[1].is_none(),
            arguments: [arguments[0], arguments[1], arguments[2], arguments[3]],
            limits: limits_of(&limits, limit_values),
            columns,
            context: node.query_memory(),
            range: None,
            pending: None,
            input_ended: false,
            next: None,
            in_group: false,
        }
    }

    fn rescan(&mut self, node: NodeState) {
        self.range = None;
        self.pending = None;
        self.input_ended = false;
        self.next = None;
        // SAFETY: within a guarded entry point.
        unsafe { self.leave_group() };
        node.rescan_child();
    }
}

/// The columns of the node's own rows, of which the plan has lists of kinds, of functions that tell groups apart, and of collations.
fn columns_of(node: NodeState, fill_arguments: &[Prepared]) -> Vec<Column> {
    let plan = node.plan();
    let [kinds, equalities, collations] = [0, 1, 2].map(|list| plan.private_integers(list));
    let oid = |n: i32| Oid::from(n as u32);
    let types = plan.column_types().into_iter().enumerate();
    let columns = types.map(|(n, typ)| Column {
        kind: ColumnKind::of(kinds[n]),
        typ,
        layout: Layout::of(typ),
        equality: (equalities[n] != 0)
            .then(|| Equality::of(oid(equalities[n]), oid(collations[n]))),
        arguments: [fill_arguments[2 * n], fill_arguments[2 * n + 1]],
        kept: None,
        before: None,
        after: None,
    });
    columns.collect()
}

/// The limits of the query's WHERE, of which the plan has four numbers each.
fn limits_of(numbers: &[i32], values: &[Prepared]) -> Vec<Limit> {
    let limits = numbers.chunks_exact(4).zip(values);
    let limits = limits.map(|(limit, &value)| Limit {
        lower: limit[0] != 0,
        successor: limit[1] != 0,
        date_from_timestamp: limit[2] != 0,
        time_type: TIME_TYPES[limit[3] as usize],
        value,
    });
    limits.collect()
}

impl Guarded for Gapfill {
    fn next(&mut self, node: NodeState) -> Option<RowSlot> {
        let (slot, context) = (node.scan_slot(), node.context());
        // SAFETY: nobody needs what was evaluated for the row before; the slot and the context are the node's, and the slot is virtual, as that of
        // each node without a table is.
        unsafe {
            context.forget();
            pgrx::check_for_interrupts!();
            slot.clear();
            context.see(slot);
            if self.range.is_none() {
                self.range = Some(self.evaluate_range(context));
            }
            if !self.next_row(slot, context) {
                slot.clear();
                return None;
            }
            Some(match node.projection() {
                Some(projection) => projection.of(slot),
                None => slot,
            })
        }
    }
}
