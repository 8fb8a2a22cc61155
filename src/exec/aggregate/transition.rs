//! States of aggregates that the node knows nothing about: their own transition functions are called as nodeAgg.c calls them, with
//! a state of the executor's that says where states live.

use super::evaluate::Evaluation;
use super::fold::Cell;
use crate::pg::memory::Context;
use crate::pg::node::make;
use crate::pg::relation;
use crate::pg::unbound::{build_aggregate_transfn_expr, datum_copy};
use pgrx::pg_sys::{self, NodeTag, Oid};

/// Columns of pg_aggregate.
const TRANSITION: i16 = 4;
const FINAL: i16 = 5;
const COMBINE: i16 = 6;
const SERIALIZE: i16 = 7;
const INITIAL: i16 = 21;

/// A row of pg_aggregate, as far as it concerns partial states.
pub struct Definition {
    pub transition: Oid,
    pub finish: Oid,
    pub combine: Oid,
    pub serialize: Oid,
    /// As text; None: null.
    pub initial: Option<String>,
}

impl Definition {
    /// # Safety
    /// `aggregate` must be an existing aggregate.
    pub unsafe fn of(aggregate: Oid) -> Definition {
        // SAFETY: a syscache look-up; the row's copy of a text is freed with its context.
        unsafe {
            let cache = pg_sys::SysCacheIdentifier::AGGFNOID as i32;
            let row = pg_sys::SearchSysCache1(cache, aggregate.into());
            assert!(!row.is_null(), "BUG: an aggregate is gone");
            let read = |number: i16| {
                let mut isnull = false;
                let value = pg_sys::SysCacheGetAttr(cache, row, number, &mut isnull);
                (value, isnull)
            };
            let oid = |number| Oid::from(read(number).0.value() as u32);
            let (text, isnull) = read(INITIAL);
            let initial = (!isnull).then(|| {
                let text = pg_sys::text_to_cstring(text.cast_mut_ptr());
                std::ffi::CStr::from_ptr(text)
                    .to_string_lossy()
                    .into_owned()
            });
            let definition = Definition {
                transition: oid(TRANSITION),
                finish: oid(FINAL),
                combine: oid(COMBINE),
                serialize: oid(SERIALIZE),
                initial,
            };
            pg_sys::ReleaseSysCache(row);
            definition
        }
    }
}

/// Bits of a cell's second word.
const NULL: u64 = 1;
const NO_VALUE_YET: u64 = 2;

/// An aggregate that is computed by its own functions.
pub struct Transition {
    call: pg_sys::FunctionCallInfo,
    serialize: pg_sys::FunctionCallInfo,
    strict: bool,
    /// Of the state.
    length: i16,
    by_value: bool,
    initial: Option<pg_sys::Datum>,
    arguments: Vec<*mut pg_sys::ExprState>,
}

impl Transition {
    /// # Safety
    /// `aggregate` must be a partial one, `parent` the node's state that begins. The result lives in the current memory context.
    pub unsafe fn new(
        aggregate: *mut pg_sys::Aggref,
        definition: &Definition,
        arguments: Vec<*mut pg_sys::ExprState>,
        executor: *mut pg_sys::AggState,
    ) -> Transition {
        // SAFETY: by contract.
        unsafe {
            let state = (*aggregate).aggtranstype;
            let mut inputs = relation::oids((*aggregate).aggargtypes);
            let mut expression = core::ptr::null_mut();
            build_aggregate_transfn_expr(
                inputs.as_mut_ptr(),
                inputs.len() as i32,
                0,
                (*aggregate).aggvariadic,
                state,
                (*aggregate).inputcollid,
                definition.transition,
                pg_sys::InvalidOid,
                &mut expression,
                core::ptr::null_mut(),
            );
            let collation = (*aggregate).inputcollid;
            let count = arguments.len() + 1;
            let call = call_of(definition.transition, count, collation, executor);
            (*(*call).flinfo).fn_expr = expression.cast();
            let mut serialize = core::ptr::null_mut();
            if definition.serialize != pg_sys::InvalidOid {
                serialize = call_of(definition.serialize, 1, pg_sys::InvalidOid, executor);
            }
            let (mut length, mut by_value) = (0, false);
            pg_sys::get_typlenbyval(state, &mut length, &mut by_value);
            let initial = definition.initial.as_ref().map(|text| {
                let text = std::ffi::CString::new(text.as_str()).unwrap_or_default();
                let (mut input, mut parameter) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
                pg_sys::getTypeInputInfo(state, &mut input, &mut parameter);
                pg_sys::OidInputFunctionCall(input, text.as_ptr().cast_mut(), parameter, -1)
            });
            Transition {
                strict: (*(*call).flinfo).fn_strict,
                call,
                serialize,
                length,
                by_value,
                initial,
                arguments,
            }
        }
    }

    /// The state of a new group, in the current memory context.
    ///
    /// # Safety
    /// Inside a guard.
    pub unsafe fn start(&self) -> Cell {
        match self.initial {
            // SAFETY: by contract.
            Some(initial) => unsafe {
                let copy = datum_copy(initial, self.by_value, i32::from(self.length));
                [copy.value() as u64, 0, 0]
            },
            None => [0, NULL | NO_VALUE_YET, 0],
        }
    }

    /// Takes in the row that `evaluation` shows. States live in `states`.
    ///
    /// # Safety
    /// Inside a guard, with no frame in between that owns anything.
    pub unsafe fn advance(&self, cell: &mut Cell, evaluation: &Evaluation, states: Context) {
        // SAFETY: by contract; the call has an argument for the state and for each expression.
        unsafe {
            let slots = (*self.call).args.as_mut_ptr();
            let mut any_null = false;
            for (at, argument) in self.arguments.iter().enumerate() {
                let (value, isnull) = evaluation.value(*argument);
                any_null |= isnull;
                *slots.add(at + 1) = pg_sys::NullableDatum { value, isnull };
            }
            if self.strict {
                if any_null {
                    return;
                }
                if cell[1] & NO_VALUE_YET != 0 {
                    let first = (*slots.add(1)).value;
                    *cell = [self.keep(first, states).value() as u64, 0, 0];
                    return;
                }
                if cell[1] & NULL != 0 {
                    return;
                }
            }
            let old = pg_sys::Datum::from(cell[0] as usize);
            let was_null = cell[1] & NULL != 0;
            *slots = pg_sys::NullableDatum {
                value: old,
                isnull: was_null,
            };
            (*self.call).isnull = false;
            let before = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = evaluation.context.memory().as_ptr();
            let mut new = invoke(self.call);
            pg_sys::CurrentMemoryContext = before;
            let isnull = (*self.call).isnull;
            if !self.by_value && new.value() != old.value() {
                if !isnull {
                    new = self.keep(new, states);
                }
                if !was_null {
                    pg_sys::pfree(old.cast_mut_ptr());
                }
            }
            let value = if isnull { 0 } else { new.value() as u64 };
            *cell = [value, if isnull { NULL } else { 0 }, 0];
        }
    }

    unsafe fn keep(&self, value: pg_sys::Datum, states: Context) -> pg_sys::Datum {
        // SAFETY: the caller's contract.
        unsafe {
            let before = pg_sys::CurrentMemoryContext;
            pg_sys::CurrentMemoryContext = states.as_ptr();
            let kept = datum_copy(value, self.by_value, i32::from(self.length));
            pg_sys::CurrentMemoryContext = before;
            kept
        }
    }

    /// The state as it goes up.
    ///
    /// # Safety
    /// As `advance`; the result lives in the current memory context, or with the states.
    pub unsafe fn finish(&self, cell: &Cell) -> (pg_sys::Datum, bool) {
        // SAFETY: by contract.
        unsafe {
            let isnull = cell[1] & NULL != 0;
            let value = pg_sys::Datum::from(cell[0] as usize);
            if self.serialize.is_null() {
                return (value, isnull);
            }
            if isnull && (*(*self.serialize).flinfo).fn_strict {
                return (pg_sys::Datum::from(0usize), true);
            }
            *(*self.serialize).args.as_mut_ptr() = pg_sys::NullableDatum { value, isnull };
            (*self.serialize).isnull = false;
            let bytes = invoke(self.serialize);
            (bytes, (*self.serialize).isnull)
        }
    }
}

/// A call of a function with so many arguments, in the current memory context.
///
/// # Safety
/// `executor` must outlive it.
pub unsafe fn call_of(
    function: Oid,
    arguments: usize,
    collation: Oid,
    executor: *mut pg_sys::AggState,
) -> pg_sys::FunctionCallInfo {
    // SAFETY: palloc'd with room for the arguments; zeroes stand for "none".
    unsafe {
        let flinfo: *mut pg_sys::FmgrInfo =
            pg_sys::palloc0(core::mem::size_of::<pg_sys::FmgrInfo>()).cast();
        pg_sys::fmgr_info(function, flinfo);
        let bytes = core::mem::size_of::<pg_sys::FunctionCallInfoBaseData>()
            + arguments * core::mem::size_of::<pg_sys::NullableDatum>();
        let call: pg_sys::FunctionCallInfo = pg_sys::palloc0(bytes).cast();
        (*call).flinfo = flinfo;
        (*call).context = executor.cast();
        (*call).fncollation = collation;
        (*call).nargs = arguments as i16;
        call
    }
}

/// # Safety
/// As `Transition::advance`.
#[inline]
pub unsafe fn invoke(call: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: by contract; fmgr_info has found the function.
    unsafe {
        match (*(*call).flinfo).fn_addr {
            Some(function) => function(call),
            None => pg_sys::Datum::from(0usize),
        }
    }
}

/// An executor's state of an aggregation, as far as transition functions look at it: where states live.
///
/// # Safety
/// `context` must outlive it.
pub unsafe fn executor_of(context: *mut pg_sys::ExprContext) -> *mut pg_sys::AggState {
    // SAFETY: by contract.
    unsafe {
        let executor = make::<pg_sys::AggState>(NodeTag::T_AggState);
        (*executor).curaggcontext = context;
        executor
    }
}
