//! What paths hand up: the expressions of a row, and what it costs to make them.

use super::expression::Expressions;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys;

/// What evaluating costs: once, and for each row.
#[derive(Clone, Copy, Debug)]
pub struct Evaluating {
    pub startup: f64,
    pub per_row: f64,
}

impl From<pg_sys::QualCost> for Evaluating {
    fn from(cost: pg_sys::QualCost) -> Evaluating {
        Evaluating {
            startup: cost.startup,
            per_row: cost.per_tuple,
        }
    }
}

/// The columns of rows that go up.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct PathTarget<'a> {
    target: NonNull<pg_sys::PathTarget>,
    kept: PhantomData<&'a pg_sys::PathTarget>,
}

impl<'a> PathTarget<'a> {
    /// A target that PostgreSQL hands out.
    ///
    /// # Safety
    /// `target` must be valid as long as the handle is used.
    #[inline]
    pub unsafe fn from_ptr(target: *mut pg_sys::PathTarget) -> PathTarget<'a> {
        debug_assert!(!target.is_null());
        PathTarget {
            // SAFETY: what the caller says is valid is not null.
            target: unsafe { NonNull::new_unchecked(target) },
            kept: PhantomData,
        }
    }

    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::PathTarget {
        self.target.as_ptr()
    }

    fn fields(&self) -> &pg_sys::PathTarget {
        // SAFETY: the handle's target is valid.
        unsafe { self.target.as_ref() }
    }

    /// The expressions of a row, in their order.
    pub fn columns(self) -> Expressions<'a> {
        // SAFETY: the handle's target is valid, and has a list of expressions.
        unsafe { Expressions::from_ptr(self.fields().exprs) }
    }

    /// What making the columns costs.
    pub fn cost(self) -> Evaluating {
        self.fields().cost.into()
    }

    /// How many bytes a row takes, about.
    pub fn width(self) -> f64 {
        f64::from(self.fields().width)
    }
}
