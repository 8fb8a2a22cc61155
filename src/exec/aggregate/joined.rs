//! The other side of a join, whose values choose rows by one column. It runs first. Under an inner join a value that comes several times has
//! its rows counted as often: by as many passes over the table, each with the values that are left.
//!
//! Where the other side is a heap that is read from end to end by conditions which are decided here, its rows are looked at where they are: the
//! executor takes four times as long over a table of names.

use super::clauses::{Bound, Clause};
use super::conditions::{Bounded, Condition};
use super::evaluate::{guarded, Evaluation};
use super::fold::int_of;
use super::lanes::{class_of, Class};
use super::passes::{count, passes};
use crate::pg::bare::GetHeapamTableAmRoutine;
use crate::pg::custom_scan::{Beginning, Child, NodeState};
use crate::pg::expression_context::ExpressionContext;
use crate::pg::node::{cast, items};
use crate::pg::relation::Table;
use crate::pg::row_slot::RowSlot;
use crate::pg::unbound::heap_getnext;
use crate::pg::varlena::{body_in_place, with_body};
use pgrx::pg_sys::{self, NodeTag, Oid};
use rustc_hash::FxHashMap;

/// A join of a plan.
#[derive(Clone, Copy)]
pub struct JoinPart {
    /// Column of the table, from 0.
    pub at: usize,
    is_semi: bool,
    /// Type of the value.
    typ: Oid,
    /// Column of the child, from 0.
    place: usize,
}

impl JoinPart {
    /// From the numbers that a plan has of it.
    pub fn of(numbers: &[i32]) -> Option<JoinPart> {
        match *numbers {
            [] => None,
            [column, is_semi, typ, place] => Some(JoinPart {
                at: column as usize - 1,
                is_semi: is_semi != 0,
                typ: Oid::from(typ as u32),
                place: place as usize - 1,
            }),
            _ => panic!("BUG: a join of {} numbers", numbers.len()),
        }
    }
}

/// A join that runs.
pub struct Joined {
    part: JoinPart,
    class: Class,
    child: Child,
    plain: Option<Plain>,
    /// Conditions of the passes, and how many of these have begun.
    passes: Vec<Bounded>,
    begun: usize,
}

impl Joined {
    /// Inside a guarded entry point of a node that begins, whose plan has the part.
    pub fn begin(node: NodeState, part: JoinPart, beginning: Beginning) -> Joined {
        let child = node.begin_child(beginning);
        Joined {
            part,
            class: class_of(node.table().attributes()[part.at].atttypid),
            child,
            // SAFETY: the child has begun.
            plain: unsafe { Plain::of(child.as_ptr(), part.place) },
            passes: Vec::new(),
            begun: 0,
        }
    }

    /// Runs the other side.
    ///
    /// # Safety
    /// Inside a guarded entry point.
    pub unsafe fn read(&mut self) {
        // SAFETY: by contract; the child's column is of the type that the plan says.
        unsafe {
            let length = pg_sys::get_typlen(self.part.typ);
            let mut found = Found::default();
            let is_read = self.plain.as_ref().is_some_and(|plain| {
                plain.each(self.child.as_ptr(), |value| {
                    match self.class {
                        Class::Int => count(&mut found.ints, int_of(value, length)),
                        _ => count(&mut found.bodies, body_in_place(value)?.to_vec()),
                    }
                    Some(())
                })
            });
            if !is_read {
                found = Found::default();
                self.run(length, &mut found);
            }
            let is_semi = self.part.is_semi;
            self.passes = match self.class {
                Class::Int => passes(found.ints, is_semi).map(Bounded::Ints).collect(),
                _ => passes(found.bodies, is_semi).map(Bounded::Bytes).collect(),
            };
            self.begun = 0;
        }
    }

    /// Runs the other side as a plan.
    unsafe fn run(&mut self, length: i16, found: &mut Found) {
        // SAFETY: the caller's contract.
        unsafe {
            while let Some(row) = self.child.next_row() {
                let (values, nulls) = row.attributes(self.part.place + 1);
                if nulls[self.part.place] {
                    continue;
                }
                let value = values[self.part.place];
                match self.class {
                    Class::Int => count(&mut found.ints, int_of(value, length)),
                    _ => count(&mut found.bodies, with_body(value, -1, <[u8]>::to_vec)),
                }
            }
        }
    }

    /// The condition of the next pass over the table.
    pub fn next_pass(&mut self) -> Option<Bounded> {
        let next = self.passes.get(self.begun).cloned();
        self.begun += usize::from(next.is_some());
        next
    }

    /// The first pass is the next one again.
    pub fn begin_again(&mut self) {
        self.begun = 0;
    }

    /// Inside a guarded entry point of the node, which sees to the other side itself.
    pub fn rescan(&mut self) {
        self.passes.clear();
    }

    /// As `rescan`; the last call.
    pub fn end(&mut self) {
        self.passes = Vec::new();
    }
}

/// How often each value comes.
#[derive(Default)]
struct Found {
    ints: FxHashMap<i64, u32>,
    bodies: FxHashMap<Vec<u8>, u32>,
}

/// A heap that is scanned from end to end, and what its rows are chosen by.
struct Plain {
    /// Each condition with its column, from 0.
    conditions: Vec<Clause<(Condition, usize)>>,
    /// The column of the values, from 1.
    column: i32,
}

impl Plain {
    /// None where a node is something else, or somebody wants to know what it does.
    ///
    /// # Safety
    /// `child` must have begun; inside a guarded entry point.
    unsafe fn of(child: *mut pg_sys::PlanState, place: usize) -> Option<Plain> {
        // SAFETY: by contract; a node's tag says what it is.
        unsafe {
            let scan: *mut pg_sys::ScanState = cast(child.cast(), NodeTag::T_SeqScanState)?;
            let plan = (*child).plan;
            let is_heap = (*(*scan).ss_currentRelation).rd_tableam == GetHeapamTableAmRoutine();
            let is_watched = !(*child).instrument.is_null();
            let checks_rows = !(*(*child).state).es_epq_active.is_null();
            if !is_heap || is_watched || checks_rows || (*plan).parallel_aware {
                return None;
            }
            let entry = items::<pg_sys::TargetEntry>((*plan).targetlist).nth(place)?;
            let value = cast::<pg_sys::Var>((*entry).expr.cast(), NodeTag::T_Var)?;
            let mut columns = core::ptr::null_mut();
            let table = (*plan.cast::<pg_sys::Scan>()).scanrelid;
            pg_sys::pull_varattnos((*plan).qual.cast(), table, &mut columns);
            let first = pg_sys::bms_next_member(columns, -1);
            let is_system = first >= 0 && first + pg_sys::FirstLowInvalidHeapAttributeNumber <= 0;
            if (*value).varattno <= 0 || is_system {
                return None;
            }
            let mut conditions = Vec::new();
            for clause in items::<pg_sys::Node>((*plan).qual) {
                conditions.push(Clause::of(clause)?.map(&mut |mut condition: Condition| {
                    condition.begin(child);
                    let column = condition.at;
                    (condition, column)
                }));
            }
            Some(Plain {
                conditions,
                column: (*value).varattno.into(),
            })
        }
    }

    /// Shows the value of each row that is wanted, unless it is null, to `visit`; false where this or a condition gives up on a row.
    ///
    /// # Safety
    /// As `of`, of the same node; `visit` raises nothing.
    unsafe fn each(
        &self,
        child: *mut pg_sys::PlanState,
        mut visit: impl FnMut(pg_sys::Datum) -> Option<()>,
    ) -> bool {
        // SAFETY: by contract: a scan of a heap; what the closure refers to is owned outside of it.
        unsafe {
            let scan = child.cast::<pg_sys::ScanState>();
            // Their arguments see no row.
            let evaluation = Evaluation {
                context: ExpressionContext::from_ptr((*child).ps_ExprContext),
                row: RowSlot::from_ptr((*scan).ss_ScanTupleSlot),
            };
            let bind = |clause: &Clause<_>| clause.bind(&evaluation);
            let conditions: Vec<Bound> = self.conditions.iter().map(bind).collect();
            evaluation.forget();
            let table = (*scan).ss_currentRelation;
            let snapshot = (*(*child).state).es_snapshot;
            let descriptor = (*table).rd_att;
            let attributes = Table::from_ptr(table).attributes();
            let methods = (*table).rd_tableam;
            let begin = (*methods).scan_begin.expect("BUG: no scan_begin");
            let end = (*methods).scan_end.expect("BUG: no scan_end");
            guarded(|| {
                use pg_sys::ScanOptions::*;
                let flags = SO_TYPE_SEQSCAN | SO_ALLOW_STRAT | SO_ALLOW_SYNC | SO_ALLOW_PAGEMODE;
                let (keys, parallel) = (core::ptr::null_mut(), core::ptr::null_mut());
                let scan = begin(table, snapshot, 0, keys, parallel, flags);
                let mut is_read = true;
                while is_read {
                    let tuple = heap_getnext(scan, pg_sys::ScanDirection::ForwardScanDirection);
                    if tuple.is_null() {
                        break;
                    }
                    let value_of = |number: i32| {
                        let mut isnull = false;
                        let value = pg_sys::heap_getattr(tuple, number, descriptor, &mut isnull);
                        (value, isnull)
                    };
                    let holds = |condition: &Bounded, column: usize| {
                        let value = value_of(column as i32 + 1);
                        condition.holds(value, attributes[column].attlen)
                    };
                    let mut wanted = conditions.iter().map(|clause| clause.holds(&holds));
                    match wanted.find(|holds| *holds != Some(true)) {
                        Some(Some(_)) => continue,
                        Some(None) => is_read = false,
                        None => {
                            let (value, isnull) = value_of(self.column);
                            is_read = isnull || visit(value).is_some();
                        }
                    }
                }
                end(scan);
                is_read
            })
        }
    }
}
