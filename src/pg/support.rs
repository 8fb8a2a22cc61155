//! Support functions: what the planner asks them.

use super::expression::Expression;
use super::expression_kinds::Call;
use super::node::cast;
use pgrx::pg_sys::{self, Datum, NodeTag};

/// The answer to a request of the planner's. `simplify` gives the expression in place of a call, or None where there is no other.
///
/// # Safety
/// `request` must be what the planner calls a support function with.
pub unsafe fn answer(
    request: Datum,
    simplify: impl FnOnce(Call<'_>) -> Option<Expression<'_>>,
) -> Datum {
    let tag = NodeTag::T_SupportRequestSimplify;
    // SAFETY: by contract; the tag says that it is about a call.
    let answer = unsafe {
        let request = cast::<pg_sys::SupportRequestSimplify>(request.cast_mut_ptr(), tag);
        request.and_then(|request| simplify(Call::from_ptr((*request).fcall)))
    };
    answer.map_or(Datum::from(0usize), |answer| Datum::from(answer.as_ptr()))
}
