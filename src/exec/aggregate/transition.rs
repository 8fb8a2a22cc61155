//! States of aggregates that the node knows nothing about: their own transition functions are called as nodeAgg.c calls them, with
//! a state of the executor's that says where states live.

use super::evaluate::Evaluation;
use super::fold::Cell;
use crate::pg::aggregation::{Aggregating, Definition, Signature};
use crate::pg::expanded;
use crate::pg::expression_context::Prepared;
use crate::pg::function_call::FunctionCall;
use crate::pg::memory::{self, Context};
use crate::pg::unbound::datum_copy;
use crate::pg::value_layout::Layout;
use crate::pg::{Datum, InvalidOid};

/// Bits of a cell's second word.
const NULL: u64 = 1;
const NO_VALUE_YET: u64 = 2;

/// An aggregate that is computed by its own functions.
pub struct Transition {
    call: FunctionCall,
    serialize: Option<FunctionCall>,
    strict: bool,
    /// Of the state.
    layout: Layout,
    initial: Option<Datum>,
    arguments: Vec<Prepared>,
}

impl Transition {
    /// The result lives in the current memory context. Inside a guarded entry point.
    ///
    /// # Safety
    /// `signature` and `definition` must be of one partial aggregate, and `aggregation` outlive the result.
    pub unsafe fn new(
        signature: &Signature,
        definition: &Definition,
        arguments: Vec<Prepared>,
        aggregation: Aggregating,
    ) -> Transition {
        // SAFETY: by contract.
        unsafe {
            let call = signature.transition(definition.transition, arguments.len(), aggregation);
            let serialize = (definition.serialize != InvalidOid)
                .then(|| FunctionCall::new(definition.serialize, 1, InvalidOid, aggregation));
            let initial = definition.initial.as_ref();
            Transition {
                strict: call.is_strict(),
                call,
                serialize,
                layout: Layout::of(signature.state),
                initial: initial.map(|text| signature.state_of(text)),
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
                let copy = self.copy(initial);
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
            let mut any_null = false;
            for (at, argument) in self.arguments.iter().enumerate() {
                let (value, isnull) = evaluation.value(*argument);
                any_null |= isnull;
                self.call.set(at + 1, (value, isnull));
            }
            if self.strict {
                if any_null {
                    return;
                }
                if cell[1] & NO_VALUE_YET != 0 {
                    let first = self.call.argument(1);
                    *cell = [self.keep(first, states).value() as u64, 0, 0];
                    return;
                }
                if cell[1] & NULL != 0 {
                    return;
                }
            }
            let old = Datum::from(cell[0] as usize);
            let was_null = cell[1] & NULL != 0;
            self.call.set(0, (old, was_null));
            let (mut new, isnull) = self.call.invoke_in(evaluation.context.memory());
            if !self.layout.by_value && new.value() != old.value() {
                let len = self.layout.len;
                // An object in the memory of states stays as it is, as in nodeAgg.c: a copy for each row takes time that grows with the square.
                let is_kept =
                    !isnull && expanded::is_writable(new, len) && expanded::is_of(new, states);
                if !isnull && !is_kept {
                    new = self.keep(new, states);
                }
                match was_null {
                    true => {}
                    false if expanded::is_writable(old, len) => expanded::delete(old),
                    false => memory::free(old.cast_mut_ptr::<u8>()),
                }
            }
            let value = if isnull { 0 } else { new.value() as u64 };
            *cell = [value, if isnull { NULL } else { 0 }, 0];
        }
    }

    /// A copy of a state in `states`.
    ///
    /// # Safety
    /// As `copy`; `states` must be live.
    unsafe fn keep(&self, value: Datum, states: Context) -> Datum {
        // SAFETY: the caller's contract; an error abandons the context that was current.
        unsafe { memory::within(states, || self.copy(value)) }
    }

    /// A copy of a state in the current memory context.
    ///
    /// # Safety
    /// The value must be a state, and not null; inside a guard.
    unsafe fn copy(&self, value: Datum) -> Datum {
        let Layout { len, by_value } = self.layout;
        // SAFETY: the caller's contract.
        unsafe { datum_copy(value, by_value, i32::from(len)) }
    }

    /// The state as it goes up.
    ///
    /// # Safety
    /// As `advance`; the result lives in the current memory context, or with the states.
    pub unsafe fn finish(&self, cell: &Cell) -> (Datum, bool) {
        let isnull = cell[1] & NULL != 0;
        let Layout { len, by_value } = self.layout;
        let mut value = Datum::from(cell[0] as usize);
        // SAFETY: a state of this aggregate.
        if !isnull && !by_value && unsafe { expanded::is_writable(value, len) } {
            // SAFETY: as above.
            value = unsafe { expanded::read_only(value) };
        }
        let Some(serialize) = self.serialize else {
            return (value, isnull);
        };
        if isnull && serialize.is_strict() {
            return (Datum::from(0usize), true);
        }
        // SAFETY: by contract: the function takes a state.
        unsafe {
            serialize.set(0, (value, isnull));
            serialize.invoke()
        }
    }
}
