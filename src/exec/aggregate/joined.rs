//! The other side of a join, whose values choose rows by one column. It runs first. Under an inner join a value that comes several times has
//! its rows counted as often: by as many passes over the table, each with the values that are left.
//!
//! Where the other side is a heap that is read from end to end by conditions which are decided here, its rows are looked at where they are: the
//! executor takes four times as long over a table of names.

use super::clauses::{Bound, Clause};
use super::conditions::{may_have, Bounded, Condition};
use super::evaluate::Evaluation;
use super::fold::int_of;
use super::lanes::{class_of, Class};
use super::passes::{count, passes};
use crate::pg::custom_scan::{Beginning, Child, NodeState};
use crate::pg::plain_scan::{PlainRow, PlainScan};
use crate::pg::stored_value::StoredColumn;
use crate::pg::value_layout::Layout;
use crate::pg::varlena::{body_in_place, with_body};
use crate::pg::{Datum, Oid};
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
            plain: Plain::of(child, part.place),
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
            let length = Layout::of(self.part.typ).len;
            let mut found = Found::default();
            let is_read = self.plain.as_ref().is_some_and(|plain| {
                plain.each(|value| {
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
    ///
    /// # Safety
    /// As `read`; `length` must be that of the type that the plan says.
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

    /// The condition of the next pass over the table. None too where the last one, which had all values that are left, met no row.
    pub fn next_pass(&mut self, met: bool) -> Option<Bounded> {
        if self.begun > 0 && !met {
            return None;
        }
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
    scan: PlainScan,
    /// Of the heap: the one that was asked for first.
    columns: Vec<StoredColumn>,
    /// Each condition with the place of its column in these.
    conditions: Vec<Clause<(Condition<'static>, usize)>>,
}

impl Plain {
    /// None where a node is something else, somebody wants to know what it does, or a condition's argument is another one for each row. Inside a
    /// guarded entry point.
    fn of(child: Child, place: usize) -> Option<Plain> {
        let scan = PlainScan::of(child, place)?;
        let table = scan.table();
        let mut columns = vec![StoredColumn::of(table, scan.column)];
        let mut conditions = Vec::new();
        // SAFETY: they are the child's, which has begun.
        unsafe {
            for clause in scan.conditions().iter() {
                if clause.is_volatile() {
                    return None;
                }
                let clause = Clause::of(clause)?;
                conditions.push(clause.map(&mut |mut condition: Condition<'_>| {
                    condition.begin(|argument| argument.prepare(child.as_ptr()));
                    columns.push(StoredColumn::of(table, condition.at));
                    (condition, columns.len() - 1)
                }));
            }
        }
        Some(Plain {
            scan,
            columns,
            conditions,
        })
    }

    /// Shows the value of each row that is wanted, unless it is null, to `visit`; false where this or a condition gives up on a row.
    ///
    /// # Safety
    /// Inside a guarded entry point; `visit` raises nothing, and reads no page.
    unsafe fn each(&self, mut visit: impl FnMut(Datum) -> Option<()>) -> bool {
        let (scan, columns) = (self.scan, self.columns.as_slice());
        // Their arguments see no row.
        let evaluation = Evaluation {
            context: scan.context(),
            row: scan.slot(),
        };
        // SAFETY: by contract; the columns are the heap's, and what the closure refers to is owned outside of it.
        unsafe {
            let bind = |clause: &Clause<_>| clause.bind(&evaluation);
            let conditions: Vec<Bound> = self.conditions.iter().map(bind).collect();
            evaluation.forget();
            // Most rows of a table of names are told from those that are wanted at a glance.
            let names = conditions.iter().find_map(|clause| match clause {
                Clause::One((Bounded::Bytes(wanted), place)) => Some((wanted, columns[*place])),
                _ => None,
            });
            let is_other = |row: PlainRow<'_>| {
                names.is_some_and(|(wanted, column)| {
                    let name = row.short_text(column);
                    name.is_some_and(|name| !may_have(wanted, name))
                })
            };
            scan.each(|row| {
                if is_other(row) {
                    return true;
                }
                let holds = |condition: &Bounded, place: usize| {
                    let column = columns[place];
                    condition.holds(row.value(column), column.length())
                };
                let mut wanted = conditions.iter().map(|clause| clause.holds(&holds));
                match wanted.find(|holds| *holds != Some(true)) {
                    Some(Some(_)) => true,
                    Some(None) => false,
                    None => {
                        let (value, isnull) = row.value(columns[0]);
                        isnull || visit(value).is_some()
                    }
                }
            })
        }
    }
}
