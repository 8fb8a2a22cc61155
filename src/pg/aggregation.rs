//! Aggregates of PostgreSQL's, and what their functions need.

use super::expression_context::ExpressionContext;
use super::expression_kinds::Aggregate;
use super::function_call::FunctionCall;
use super::node::make;
use super::unbound::build_aggregate_transfn_expr;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, Datum, InvalidOid, NodeTag, Oid};
use std::ffi::{CStr, CString};

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
    unsafe fn of(aggregate: Oid) -> Definition {
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
                CStr::from_ptr(text).to_string_lossy().into_owned()
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

impl Aggregate<'_> {
    /// How pg_aggregate defines it. Within a guarded entry point.
    pub fn definition(self) -> Definition {
        // SAFETY: what a query calls exists.
        unsafe { Definition::of(self.function()) }
    }

    /// What it is called with, in a plan.
    pub fn signature(self) -> Signature {
        Signature::of(self)
    }
}

/// What an aggregate of a plan is called with.
pub struct Signature {
    inputs: Vec<Oid>,
    /// Type of its state.
    pub state: Oid,
    is_variadic: bool,
    collation: Oid,
}

impl Signature {
    fn of(aggregate: Aggregate<'_>) -> Signature {
        let inputs = aggregate.argument_types();
        // SAFETY: the view's node is valid.
        let aggregate = unsafe { &*aggregate.as_ptr() };
        Signature {
            inputs,
            state: aggregate.aggtranstype,
            is_variadic: aggregate.aggvariadic,
            collation: aggregate.inputcollid,
        }
    }

    /// The call of its transition function, with the state and so many arguments. Within a guarded entry point.
    ///
    /// # Safety
    /// `transition` must be that function; for the rest as `FunctionCall::new`.
    pub unsafe fn transition(
        &self,
        transition: Oid,
        arguments: usize,
        aggregation: Aggregating,
    ) -> FunctionCall {
        let mut inputs = self.inputs.clone();
        let mut expression = core::ptr::null_mut();
        // SAFETY: by contract; the types are copied.
        unsafe {
            build_aggregate_transfn_expr(
                inputs.as_mut_ptr(),
                inputs.len() as i32,
                0,
                self.is_variadic,
                self.state,
                self.collation,
                transition,
                InvalidOid,
                &mut expression,
                core::ptr::null_mut(),
            );
            let collation = self.collation;
            let call = FunctionCall::new(transition, arguments + 1, collation, aggregation);
            call.stands_for(expression);
            call
        }
    }

    /// A state that a text says, in the current memory context. Within a guarded entry point.
    ///
    /// # Safety
    /// The text must be one of the type.
    pub unsafe fn state_of(&self, text: &str) -> Datum {
        let text = CString::new(text).unwrap_or_default();
        let (mut input, mut parameter) = (InvalidOid, InvalidOid);
        // SAFETY: by contract.
        unsafe {
            pg_sys::getTypeInputInfo(self.state, &mut input, &mut parameter);
            pg_sys::OidInputFunctionCall(input, text.as_ptr().cast_mut(), parameter, -1)
        }
    }
}

/// An executor's state of an aggregation, as far as functions of aggregates look at it: where states live.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct Aggregating(NonNull<pg_sys::AggState>);

impl Aggregating {
    /// States live in the memory of `context`. It lives in the current memory context. Within a guarded entry point.
    ///
    /// # Safety
    /// `context` must outlive it.
    pub unsafe fn states_in(context: ExpressionContext) -> Aggregating {
        // SAFETY: a new node is not null; the rest by contract.
        unsafe {
            let executor = make::<pg_sys::AggState>(NodeTag::T_AggState);
            (*executor).curaggcontext = context.as_ptr();
            Aggregating(NonNull::new_unchecked(executor))
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::AggState {
        self.0.as_ptr()
    }
}
