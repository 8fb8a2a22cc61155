//! `time_bucket_gapfill('1 hour', time, '2026-01-01', '2026-01-02')`: of literals without a type PostgreSQL makes texts where it
//! can, and so a time zone of the start. No zone's name begins with a digit: such a call is made the one that was meant.

use crate::functions::gapfill_calls::{marker_of, Marker};
use crate::pg::expression::{Expression, Expressions};
use crate::pg::expression_kinds::{Call, Constant, Kind};
use crate::pg::names;
use crate::pg::{types, Datum, Oid};

/// Answers the planner's request to simplify a call: the call that is meant; None for no other.
///
/// # Safety
/// The current memory context must live as long as the call; within a guarded entry point.
pub unsafe fn simplify(call: Call<'_>) -> Option<Expression<'_>> {
    let [width, time, zone, start, finish] = call.arguments().array()?;
    if !finish.is_null() || marker_of(call.function()) != Some(Marker::Bucket) {
        return None;
    }
    let Kind::Constant(zone) = zone.kind() else {
        return None;
    };
    let value = time_of(zone)?;
    let function = without_zone(call.function())?;
    // SAFETY: by contract; the function takes these, and returns what that of the same name does.
    unsafe {
        let first = Expression::constant(types::TIMESTAMPTZOID, value);
        let arguments = Expressions::of([width, time, first, start]);
        Some(call.of_function(function, arguments))
    }
}

/// The time that a text is meant as. The type raises an error for what is none.
fn time_of(zone: Constant<'_>) -> Option<Datum> {
    let begins_with_digit = |text: &[u8]| text.first().is_some_and(u8::is_ascii_digit);
    if !zone.with_text(begins_with_digit)? {
        return None;
    }
    let text = zone.value()?;
    // SAFETY: it is a text, as has been seen.
    Some(unsafe { types::value_of_text(text, types::TIMESTAMPTZOID) })
}

/// The function of the same name that takes no zone.
fn without_zone(function: Oid) -> Option<Oid> {
    let time = types::TIMESTAMPTZOID;
    names::function_beside(function, &[types::INTERVALOID, time, time, time])
}
