//! What expressions are: a view of each kind that this code tells apart, with what its node says.

use super::expression::{Expression, Expressions};
use super::operator;
use super::relation;
use super::varlena;
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, BoolExprType, Datum, Interval, Node, NodeTag, Oid};

/// An expression by its kind.
#[derive(Clone, Copy)]
pub enum Kind<'a> {
    Column(Column<'a>),
    Constant(Constant<'a>),
    Operator(Operator<'a>),
    ArrayOperator(ArrayOperator<'a>),
    Call(Call<'a>),
    Relabel(Relabel<'a>),
    Boolean(Boolean<'a>),
    NullTest(NullTest<'a>),
    Aggregate(Aggregate<'a>),
    Parameter(Parameter<'a>),
    /// An expression that is evaluated below an outer join.
    PlaceHolder,
    /// GROUPING.
    Grouping,
    /// Of a row and others: a window function, a subquery, what CURRENT OF means, the next value of an identity column.
    Beyond,
    Other,
}

impl Kind<'_> {
    /// # Safety
    /// The node must be an expression's, and valid as long as the view is used.
    #[inline]
    pub(super) unsafe fn of<'a>(node: NonNull<Node>) -> Kind<'a> {
        // SAFETY: by contract; a node's tag says what it is.
        unsafe {
            match (*node.as_ptr()).type_ {
                NodeTag::T_Var => Kind::Column(Column::of(node)),
                NodeTag::T_Const => Kind::Constant(Constant::of(node)),
                NodeTag::T_OpExpr => Kind::Operator(Operator::of(node)),
                NodeTag::T_ScalarArrayOpExpr => Kind::ArrayOperator(ArrayOperator::of(node)),
                NodeTag::T_FuncExpr => Kind::Call(Call::of(node)),
                NodeTag::T_RelabelType => Kind::Relabel(Relabel::of(node)),
                NodeTag::T_BoolExpr => Kind::Boolean(Boolean::of(node)),
                NodeTag::T_NullTest => Kind::NullTest(NullTest::of(node)),
                NodeTag::T_Aggref => Kind::Aggregate(Aggregate::of(node)),
                NodeTag::T_Param => Kind::Parameter(Parameter::of(node)),
                NodeTag::T_PlaceHolderVar => Kind::PlaceHolder,
                NodeTag::T_GroupingFunc => Kind::Grouping,
                NodeTag::T_SubPlan
                | NodeTag::T_AlternativeSubPlan
                | NodeTag::T_SubLink
                | NodeTag::T_CurrentOfExpr
                | NodeTag::T_WindowFunc
                | NodeTag::T_NextValueExpr => Kind::Beyond,
                _ => Kind::Other,
            }
        }
    }
}

/// A view of a node that has been told by its tag.
macro_rules! view {
    ($(#[$doc:meta])* $name:ident of $node:ident) => {
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy)]
        pub struct $name<'a> {
            node: NonNull<pg_sys::$node>,
            kept: PhantomData<&'a pg_sys::$node>,
        }

        impl<'a> $name<'a> {
            /// # Safety
            /// The node must have the tag, and be valid as long as the view is used.
            #[inline]
            unsafe fn of(node: NonNull<Node>) -> $name<'a> {
                $name {
                    node: node.cast(),
                    kept: PhantomData,
                }
            }

            #[inline]
            fn fields(&self) -> &pg_sys::$node {
                // SAFETY: the view's node is valid.
                unsafe { self.node.as_ref() }
            }
        }
    };
}

view! {
    /// A column of a row.
    Column of Var
}

impl<'a> Column<'a> {
    #[inline]
    pub fn expression(self) -> Expression<'a> {
        // SAFETY: the view's node is valid, and is an expression.
        unsafe { Expression::from_ptr(self.node.as_ptr().cast()) }
    }

    /// The number of its relation in the query.
    #[inline]
    pub fn table(self) -> u32 {
        self.fields().varno as u32
    }

    /// From 1; 0 for the whole row, less for a system column.
    #[inline]
    pub fn number(self) -> i16 {
        self.fields().varattno
    }

    #[inline]
    pub fn typ(self) -> Oid {
        self.fields().vartype
    }

    /// How many queries further out its relation is.
    #[inline]
    pub fn level(self) -> u32 {
        self.fields().varlevelsup
    }
}

view! {
    /// A value that is known.
    Constant of Const
}

impl Constant<'_> {
    #[inline]
    pub fn typ(self) -> Oid {
        self.fields().consttype
    }

    #[inline]
    pub fn is_null(self) -> bool {
        self.fields().constisnull
    }

    /// None for NULL.
    #[inline]
    pub fn value(self) -> Option<Datum> {
        (!self.is_null()).then_some(self.fields().constvalue)
    }

    /// Its value if it is of that type and not NULL.
    #[inline]
    pub fn value_of(self, typ: Oid) -> Option<Datum> {
        self.value().filter(|_| self.typ() == typ)
    }

    /// The interval that it is.
    #[inline]
    pub fn interval(self) -> Option<Interval> {
        let value = self.value_of(pg_sys::INTERVALOID)?;
        // SAFETY: a value of that type, which is no NULL.
        Some(unsafe { *value.cast_mut_ptr::<Interval>() })
    }

    /// Looks at the text that it is, in the database's encoding.
    #[inline]
    pub fn with_text<R>(self, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let value = self.value_of(pg_sys::TEXTOID)?;
        // SAFETY: as above.
        Some(unsafe { varlena::with_body(value, -1, look) })
    }

    /// The finite number that it is.
    pub fn number(self) -> Option<f64> {
        let value = self.value()?;
        let number = match self.typ() {
            pg_sys::INT2OID => f64::from(value.value() as i16),
            pg_sys::INT4OID => f64::from(value.value() as i32),
            pg_sys::INT8OID => value.value() as i64 as f64,
            pg_sys::FLOAT8OID => f64::from_bits(value.value() as u64),
            pg_sys::NUMERICOID => {
                let function = Oid::from(pg_sys::F_FLOAT8_NUMERIC);
                let none = pg_sys::InvalidOid;
                // SAFETY: the function is called with a value of its argument's type.
                let double = unsafe { pg_sys::OidFunctionCall1Coll(function, none, value) };
                f64::from_bits(double.value() as u64)
            }
            _ => return None,
        };
        number.is_finite().then_some(number)
    }
}

view! {
    /// An operator and what it is applied to.
    Operator of OpExpr
}

impl<'a> Operator<'a> {
    #[inline]
    pub fn number(self) -> Oid {
        self.fields().opno
    }

    /// The function that the catalog has for it.
    #[inline]
    pub fn function(self) -> Oid {
        operator::function_of(self.number())
    }

    /// That by which it compares.
    #[inline]
    pub fn collation(self) -> Oid {
        self.fields().inputcollid
    }

    #[inline]
    pub fn arguments(self) -> Expressions<'a> {
        // SAFETY: the view's node is valid, and has a list of expressions.
        unsafe { Expressions::from_ptr(self.fields().args) }
    }
}

view! {
    /// `value operator ANY (array)`, or ALL.
    ArrayOperator of ScalarArrayOpExpr
}

impl<'a> ArrayOperator<'a> {
    #[inline]
    pub fn number(self) -> Oid {
        self.fields().opno
    }

    /// ANY, and not ALL.
    #[inline]
    pub fn is_any(self) -> bool {
        self.fields().useOr
    }

    #[inline]
    pub fn collation(self) -> Oid {
        self.fields().inputcollid
    }

    #[inline]
    pub fn arguments(self) -> Expressions<'a> {
        // SAFETY: as an operator's.
        unsafe { Expressions::from_ptr(self.fields().args) }
    }
}

view! {
    /// A call of a function.
    Call of FuncExpr
}

impl<'a> Call<'a> {
    /// A call that PostgreSQL hands out.
    ///
    /// # Safety
    /// `node` must be valid as long as the view is used.
    #[inline]
    pub unsafe fn from_ptr(node: *mut pg_sys::FuncExpr) -> Call<'a> {
        // SAFETY: by contract: what is valid is not null.
        unsafe { Call::of(NonNull::new_unchecked(node.cast())) }
    }

    #[inline]
    pub fn function(self) -> Oid {
        self.fields().funcid
    }

    #[inline]
    pub fn typ(self) -> Oid {
        self.fields().funcresulttype
    }

    #[inline]
    pub fn arguments(self) -> Expressions<'a> {
        // SAFETY: as an operator's.
        unsafe { Expressions::from_ptr(self.fields().args) }
    }

    /// A call of another function without collations, with the same type of result, shown as this one is, in the current memory context.
    ///
    /// # Safety
    /// The function must take these arguments and return that type; the memory context must live as long as the handle is used.
    pub unsafe fn of_function(self, function: Oid, arguments: Expressions<'a>) -> Expression<'a> {
        let (typ, form, none) = (self.typ(), self.fields().funcformat, pg_sys::InvalidOid);
        let list = arguments.as_ptr();
        // SAFETY: by contract.
        unsafe {
            let call = pg_sys::makeFuncExpr(function, typ, list, none, none, form);
            Expression::from_ptr(call.cast())
        }
    }
}

view! {
    /// A value that is taken for one of another type as it is.
    Relabel of RelabelType
}

impl<'a> Relabel<'a> {
    #[inline]
    pub fn typ(self) -> Oid {
        self.fields().resulttype
    }

    #[inline]
    pub fn argument(self) -> Expression<'a> {
        // SAFETY: the view's node is valid, and has an argument.
        unsafe { Expression::from_ptr(self.fields().arg.cast()) }
    }
}

/// How conditions are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connective {
    And,
    Or,
    Not,
}

view! {
    /// Conditions joined, or one that is negated.
    Boolean of BoolExpr
}

impl<'a> Boolean<'a> {
    #[inline]
    pub fn connective(self) -> Connective {
        match self.fields().boolop {
            BoolExprType::AND_EXPR => Connective::And,
            BoolExprType::OR_EXPR => Connective::Or,
            _ => Connective::Not,
        }
    }

    #[inline]
    pub fn arguments(self) -> Expressions<'a> {
        // SAFETY: as an operator's.
        unsafe { Expressions::from_ptr(self.fields().args) }
    }
}

view! {
    /// `value IS NULL`, or IS NOT NULL.
    NullTest of NullTest
}

impl<'a> NullTest<'a> {
    /// IS NULL, and not IS NOT NULL.
    #[inline]
    pub fn is_null(self) -> bool {
        self.fields().nulltesttype == pg_sys::NullTestType::IS_NULL
    }

    /// Is the value a row, whose fields are asked?
    #[inline]
    pub fn is_of_row(self) -> bool {
        self.fields().argisrow
    }

    #[inline]
    pub fn argument(self) -> Expression<'a> {
        // SAFETY: the view's node is valid, and has an argument.
        unsafe { Expression::from_ptr(self.fields().arg.cast()) }
    }
}

view! {
    /// A value that is known when the query runs.
    Parameter of Param
}

impl Parameter<'_> {
    /// Does the query get it from outside, and not from another part of its plan?
    pub fn is_external(self) -> bool {
        self.fields().paramkind == pg_sys::ParamKind::PARAM_EXTERN
    }
}

view! {
    /// An aggregate.
    Aggregate of Aggref
}

impl<'a> Aggregate<'a> {
    /// For PostgreSQL's functions.
    #[inline]
    pub fn as_ptr(self) -> *mut pg_sys::Aggref {
        self.node.as_ptr()
    }

    #[inline]
    pub fn expression(self) -> Expression<'a> {
        // SAFETY: the view's node is valid, and is an expression.
        unsafe { Expression::from_ptr(self.node.as_ptr().cast()) }
    }

    /// What is called, in pg_aggregate.
    #[inline]
    pub fn function(self) -> Oid {
        self.fields().aggfnoid
    }

    /// The types of its arguments.
    pub fn argument_types(self) -> Vec<Oid> {
        // SAFETY: the view's node is valid, and has a list of OIDs.
        unsafe { relation::oids(self.fields().aggargtypes) }
    }

    /// A number that it shares with others of its plan which have the same state; less than 0 where none has been given.
    pub fn state_number(self) -> i32 {
        self.fields().aggtransno
    }

    /// Is it one of an ordered set or of a hypothetical row?
    pub fn is_of_ordered_set(self) -> bool {
        self.fields().aggkind as u8 != b'n'
    }

    pub fn has_distinct(self) -> bool {
        !self.fields().aggdistinct.is_null()
    }

    pub fn has_order(self) -> bool {
        !self.fields().aggorder.is_null()
    }

    /// The same aggregate as its first step computes it, whose result is a state for others to combine. It is in the current memory context.
    ///
    /// # Safety
    /// The memory context must live as long as the handle is used. The aggregate must have functions that combine and serialize its state.
    pub unsafe fn partial(self) -> Aggregate<'a> {
        // SAFETY: the view's node is valid, and the copy nobody else's.
        unsafe {
            let partial: *mut pg_sys::Aggref =
                pg_sys::palloc(core::mem::size_of::<pg_sys::Aggref>()).cast();
            *partial = *self.as_ptr();
            pg_sys::mark_partial_aggref(partial, pg_sys::AggSplit::AGGSPLIT_INITIAL_SERIAL);
            Aggregate::of(NonNull::new_unchecked(partial.cast()))
        }
    }

    #[inline]
    pub fn arguments(self) -> impl Iterator<Item = Expression<'a>> {
        // SAFETY: the view's node is valid, and has a list of columns of a row.
        unsafe {
            super::node::items::<pg_sys::TargetEntry>(self.fields().args)
                .map(|entry| Expression::from_ptr((*entry).expr.cast()))
        }
    }

    /// What FILTER says.
    #[inline]
    pub fn filter(self) -> Option<Expression<'a>> {
        // SAFETY: the view's node is valid.
        unsafe { Expression::existing(self.fields().aggfilter.cast()) }
    }

    /// Is it one of this query's rows, in whatever order these come and however often?
    pub fn is_plain(self) -> bool {
        let node = self.fields();
        !self.is_of_ordered_set()
            && node.agglevelsup == 0
            && node.aggdirectargs.is_null()
            && !self.has_order()
            && !self.has_distinct()
    }
}
