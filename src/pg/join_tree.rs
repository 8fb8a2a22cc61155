//! What a query reads, as a tree of joins with their conditions.

use super::expression::{Expression, Expressions};
use super::node::{cast, items, list};
use core::marker::PhantomData;
use core::ptr::NonNull;
use pgrx::pg_sys::{self, JoinType, Node, NodeTag};

/// A node of the tree, of a query whose conditions the planner has preprocessed: each is a list.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct JoinTree<'a> {
    node: NonNull<Node>,
    kept: PhantomData<&'a Node>,
}

/// What a node joins.
#[derive(Clone, Copy)]
pub enum Joins<'a> {
    /// FROM, with WHERE.
    All,
    /// JOIN, with ON.
    Two(JoinKind, JoinTree<'a>, JoinTree<'a>),
    /// It is a table or the like.
    Nothing,
}

/// Of which rows a join has some, if there are no others that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    Inner,
    Left,
    /// Each row of the left side once, if there is one that fits, or none.
    Semi,
    Anti,
    Other,
}

impl JoinKind {
    pub(super) fn of(kind: JoinType::Type) -> JoinKind {
        match kind {
            JoinType::JOIN_INNER => JoinKind::Inner,
            JoinType::JOIN_LEFT => JoinKind::Left,
            JoinType::JOIN_SEMI => JoinKind::Semi,
            JoinType::JOIN_ANTI => JoinKind::Anti,
            _ => JoinKind::Other,
        }
    }
}

impl<'a> JoinTree<'a> {
    /// A tree that PostgreSQL hands out.
    ///
    /// # Safety
    /// `node` must be of the join tree of a query that is planned, after its conditions were preprocessed.
    pub unsafe fn from_ptr(node: *mut Node) -> JoinTree<'a> {
        JoinTree {
            // SAFETY: by contract: what is a node is not null.
            node: unsafe { NonNull::new_unchecked(node) },
            kept: PhantomData,
        }
    }

    fn from(self) -> Option<*mut pg_sys::FromExpr> {
        // SAFETY: a node's tag says what it is.
        unsafe { cast(self.node.as_ptr(), NodeTag::T_FromExpr) }
    }

    fn join(self) -> Option<*mut pg_sys::JoinExpr> {
        // SAFETY: as above.
        unsafe { cast(self.node.as_ptr(), NodeTag::T_JoinExpr) }
    }

    /// Where its conditions are.
    fn place(self) -> Option<*mut *mut Node> {
        // SAFETY: valid nodes.
        let of_from = self.from().map(|from| unsafe { &raw mut (*from).quals });
        // SAFETY: as above.
        of_from.or_else(|| self.join().map(|join| unsafe { &raw mut (*join).quals }))
    }

    pub fn kind(self) -> Joins<'a> {
        if self.from().is_some() {
            return Joins::All;
        }
        let Some(join) = self.join() else {
            return Joins::Nothing;
        };
        // SAFETY: a valid node, which has two sides.
        unsafe {
            let kind = JoinKind::of((*join).jointype);
            let sides = [(*join).larg, (*join).rarg];
            let [left, right] = sides.map(|side| JoinTree::from_ptr(side));
            Joins::Two(kind, left, right)
        }
    }

    /// What FROM lists; nothing of another node.
    pub fn members(self) -> impl Iterator<Item = JoinTree<'a>> {
        // SAFETY: a valid node with a list of such.
        let listed = |from: *mut pg_sys::FromExpr| unsafe { items::<Node>((*from).fromlist) };
        let listed = self.from().map(listed).into_iter().flatten();
        // SAFETY: as above.
        listed.map(|member| unsafe { JoinTree::from_ptr(member) })
    }

    /// The conditions of WHERE or ON.
    pub fn conditions(self) -> Expressions<'a> {
        let none = core::ptr::null_mut();
        // SAFETY: a valid node, whose conditions are a list.
        unsafe {
            let conditions = self.place().map_or(none, |place| *place);
            Expressions::of_conjunction(conditions)
        }
    }

    /// Puts other conditions in place of those that there are.
    pub fn set_conditions(self, conditions: impl IntoIterator<Item = Expression<'a>>) {
        if let Some(place) = self.place() {
            let nodes = conditions.into_iter().map(|condition| condition.as_ptr());
            // SAFETY: a valid node of the planner's, in whose memory the list is.
            unsafe { *place = list(nodes).cast() };
        }
    }
}
