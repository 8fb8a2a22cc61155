//! Plans of statements that clients send as text, kept for the next ones that are alike but for constants (docs/design/0046): INSERT of a row, with
//! ON CONFLICT or without, and SELECT from one varve table, or from a WITH query of one. Short ones take longer to plan than to run.
//!
//! Only a plan that the planner would choose again is kept: it has made the same one for the statement as it is and for any constants, of no other
//! tables than the statement names. It is kept for a minute at most, and for as long as the table is about as large. Whatever the catalogs or settings
//! of the planner's tell makes all plans go.

use crate::catalog::access_method;
use crate::guc;
use crate::pg::literal_search;
use crate::pg::literals::Literals;
use crate::pg::lock_mode::LockMode;
use crate::pg::open::Open;
use crate::pg::planned_statement::Planned;
use crate::pg::planner_hook::{self, Found, KeepsPlans};
use crate::pg::planner_settings::{self, Settings};
use crate::pg::text_statement::{KeptPlan, TextStatement};
use crate::pg::{relation, rights, transaction, Datum, Oid};
use pgrx::pg_guard;
use rustc_hash::FxHashMap;
use std::cell::{Cell, RefCell};
use std::ffi::CStr;

/// Statements that are known.
const MOST: usize = 32;
/// A new statement is looked at as often as once in so many statements, so that it costs little where all of them are new.
const STATEMENTS_PER_NEW: u32 = 8;
/// So many are looked at in succession.
const MOST_NEW: u32 = 16;
/// What costs more than this runs much longer than it takes to plan, in the planner's units.
const MOST_COST: f64 = 20_000.0;
/// Microseconds that a plan is kept, and that it is used without a look at the table's size.
const LONGEST_KEPT: u64 = 60_000_000;
const LONGEST_UNSEEN: u64 = 10_000;
/// A table that has so many blocks more may be twice as large, and more.
const FEW_BLOCKS: u32 = 16;
/// Nodes that have their conditions and parameters from each run.
const NODES: [&CStr; 2] = [c"VarveAggregate", c"VarveScan"];

struct Known {
    number: u64,
    table: Oid,
    /// Blocks that it had when the plan was made, and when that was seen to be right.
    blocks: u32,
    seen_at: i64,
    /// All tables that the statement names.
    tables: Vec<Oid>,
    statement: KeptPlan,
    made_at: i64,
    /// The time of the client's message that used it last.
    used_at: i64,
}

/// What all plans depend on, besides tables.
#[derive(PartialEq)]
struct Epoch {
    /// What the catalogs have told.
    changes: u64,
    settings: Settings,
    nodes: [bool; 2],
    user: Oid,
}

#[derive(Default)]
struct State {
    epoch: Option<Epoch>,
    known: Vec<Known>,
    /// Those that are known no more, but may be running: when they were used last.
    dropped: Vec<(KeptPlan, i64)>,
    /// Which tables are varve tables.
    ours: FxHashMap<Oid, bool>,
    /// Statements of varve tables that were looked for.
    clock: u64,
    /// Statements until the last new one is paid for.
    debt: u32,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
    /// Counts what the catalogs have told.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
}

struct Keeper;

/// To be called once, when a backend loads the library.
pub fn init() {
    planner_hook::install::<Keeper>();
    relation::tell_of_changes(relation_changed);
    relation::tell_of_changed_expressions(expression_changed);
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_changed(_arg: Datum, _changed: Oid) {
    CHANGES.set(CHANGES.get() + 1);
}

#[pg_guard]
unsafe extern "C-unwind" fn expression_changed(_arg: Datum, _cache: i32, _hash: u32) {
    CHANGES.set(CHANGES.get() + 1);
}

impl KeepsPlans for Keeper {
    fn find(statement: TextStatement<'_>) -> Found {
        if planner_settings::forces_custom_plans() {
            return Found::Nothing;
        }
        let Some(table) = statement.only_table() else {
            return Found::Nothing;
        };
        STATE.with_borrow_mut(|state| state.find(statement, table))
    }

    fn is_worth(plan: Planned<'_>) -> bool {
        plan.cost() <= MOST_COST && plan.may_be_kept(&NODES)
    }

    fn keep(number: u64, plan: Planned<'_>, generic: Planned<'_>, of_spans: bool) -> bool {
        STATE.with_borrow_mut(|state| {
            // Something may have changed while it was planned.
            let is_current = |epoch: &Epoch| epoch.changes == CHANGES.get();
            if !state.epoch.as_ref().is_some_and(is_current) {
                return false;
            }
            if !generic.may_be_kept(&NODES) || !generic.is_alike(plan) {
                // A plan for many rows is good enough for fewer. One for few rows is not for more, of which a range as wide may have some.
                return plan.cost() > generic.cost();
            }
            let mut known = state.known.iter_mut();
            if let Some(known) = known.find(|known| known.number == number) {
                // The planner has locked what the statement does not name.
                if generic.reads_only(&known.tables) {
                    known.statement.keep(generic, of_spans);
                }
            }
            false
        })
    }
}

impl State {
    fn find(&mut self, statement: TextStatement<'_>, table: Oid) -> Found {
        let now = transaction::statement_started();
        self.forget_what_changed(now);
        if !self.is_ours(table) {
            return Found::Nothing;
        }
        let Some(literals) = statement.literals() else {
            return Found::Nothing;
        };
        self.clock += 1;
        self.debt = self.debt.saturating_sub(1);
        // A row is inserted in one way, however many there are.
        let blocks = || match statement.inserts() {
            true => 0,
            false => Open::table(table, LockMode::Held).rel().blocks(),
        };
        let is_it =
            |known: &Known| known.table == table && known.statement.is_of(statement, &literals);
        if let Some(at) = self.known.iter().position(is_it) {
            let known = &mut self.known[at];
            if known.is_good(now, blocks) {
                known.used_at = now;
                let plan = known.statement.for_run(statement, &literals);
                return plan.map_or(Found::Nothing, Found::Plan);
            }
            self.drop_at(at, now);
        } else if self.debt > (MOST_NEW - 1) * STATEMENTS_PER_NEW {
            return Found::Nothing;
        }
        self.debt += STATEMENTS_PER_NEW;
        self.learn(statement, &literals, (table, blocks()), now)
    }

    /// Gets to know a statement.
    fn learn(
        &mut self,
        statement: TextStatement<'_>,
        literals: &Literals,
        (table, blocks): (Oid, u32),
        now: i64,
    ) -> Found {
        while let Some(at) = self.known.iter().position(|known| !known.is_young(now)) {
            self.drop_at(at, now);
        }
        if self.known.len() == MOST {
            let oldest = (0..MOST).min_by_key(|&at| self.known[at].used_at);
            oldest.into_iter().for_each(|at| self.drop_at(at, now));
        }
        if self.dropped.len() > MOST {
            return Found::Nothing;
        }
        self.known.push(Known {
            number: self.clock,
            table,
            tables: statement.tables(),
            blocks,
            seen_at: now,
            statement: KeptPlan::of(statement, literals),
            made_at: now,
            used_at: now,
        });
        match statement.calls_what_is_planned_away() {
            true => Found::Nothing,
            false => Found::Wanted(statement.generic(literals), self.clock),
        }
    }

    fn forget_what_changed(&mut self, now: i64) {
        let epoch = Some(Epoch {
            changes: CHANGES.get(),
            settings: Settings::now(),
            nodes: [guc::enable_aggregate(), guc::enable_scan()],
            user: rights::current_user(),
        });
        if self.epoch != epoch {
            while !self.known.is_empty() {
                self.drop_at(0, now);
            }
            self.ours.clear();
            literal_search::forget_operators();
            self.epoch = epoch;
        }
        while let Some(at) = self.dropped.iter().position(|&(_, used_at)| used_at != now) {
            self.dropped.swap_remove(at).0.delete();
        }
    }

    /// Forgets a statement. Whoever uses a plan in a later message of the client's has made a copy of it. But in this one it may be running, or about to:
    /// functions run while statements are planned, and triggers when a transaction commits.
    fn drop_at(&mut self, at: usize, now: i64) {
        let Known {
            statement, used_at, ..
        } = self.known.swap_remove(at);
        if used_at == now {
            self.dropped.push((statement, used_at));
        } else {
            statement.delete();
        }
    }

    fn is_ours(&mut self, table: Oid) -> bool {
        *self.ours.entry(table).or_insert_with(|| {
            let open = Open::table(table, LockMode::Held);
            access_method::is_varve(open.rel())
        })
    }
}

impl Known {
    /// Would the planner be told what it was told when the plan was made?
    fn is_good(&mut self, now: i64, blocks: impl FnOnce() -> u32) -> bool {
        if now.abs_diff(self.seen_at) > LONGEST_UNSEEN {
            let is_as_large =
                |one: u32, other: u32| one <= other.saturating_mul(2).saturating_add(FEW_BLOCKS);
            let blocks = blocks();
            if !(is_as_large(blocks, self.blocks) && is_as_large(self.blocks, blocks)) {
                return false;
            }
            self.seen_at = now;
        }
        self.is_young(now)
    }

    fn is_young(&self, now: i64) -> bool {
        now.abs_diff(self.made_at) <= LONGEST_KEPT
    }
}
