//! Operators, by their OIDs, and what they mean to btree.

use super::node::items;
use pgrx::pg_sys::{self, InvalidOid, Oid};

/// How an operator of a btree family compares, and its opposite where that is in none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
    NotEqual,
}

impl Strategy {
    /// PostgreSQL's number of it.
    #[inline]
    pub fn number(self) -> u32 {
        match self {
            Strategy::Less => pg_sys::BTLessStrategyNumber,
            Strategy::LessOrEqual => pg_sys::BTLessEqualStrategyNumber,
            Strategy::Equal => pg_sys::BTEqualStrategyNumber,
            Strategy::GreaterOrEqual => pg_sys::BTGreaterEqualStrategyNumber,
            Strategy::Greater => pg_sys::BTGreaterStrategyNumber,
            Strategy::NotEqual => pg_sys::BTGreaterStrategyNumber + 1,
        }
    }

    /// None for a number of no strategy.
    fn of(number: u32) -> Option<Strategy> {
        use Strategy::*;
        const ALL: [Strategy; 6] = [Less, LessOrEqual, Equal, GreaterOrEqual, Greater, NotEqual];
        ALL.into_iter().find(|one| one.number() == number)
    }

    /// How the right side compares with the left one.
    #[inline]
    pub fn commuted(self) -> Strategy {
        match self {
            Strategy::Less => Strategy::Greater,
            Strategy::LessOrEqual => Strategy::GreaterOrEqual,
            Strategy::GreaterOrEqual => Strategy::LessOrEqual,
            Strategy::Greater => Strategy::Less,
            Strategy::Equal | Strategy::NotEqual => self,
        }
    }
}

/// What an operator means to a btree family.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    pub strategy: Strategy,
    pub family: Oid,
    /// Types of both sides.
    pub left: Oid,
    pub right: Oid,
}

/// What an operator means to each btree family that it is in. Within a guarded entry point.
pub fn meanings(operator: Oid) -> impl Iterator<Item = Meaning> {
    // SAFETY: a look-up in the catalog; the list and its entries are palloc'd.
    unsafe {
        let all = pg_sys::get_op_btree_interpretation(operator);
        items::<pg_sys::OpBtreeInterpretation>(all).filter_map(|found| {
            Some(Meaning {
                strategy: Strategy::of((*found).strategy as u32)?,
                family: (*found).opfamily_id,
                left: (*found).oplefttype,
                right: (*found).oprighttype,
            })
        })
    }
}

/// Less, of TIDs.
pub const TID_LESS: Oid = Oid::from_u32(pg_sys::TIDLessOperator);

/// The operator that means the same with its sides exchanged; InvalidOid where there is none.
pub fn commutator(operator: Oid) -> Oid {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_commutator(operator) }
}

/// The function behind an operator; InvalidOid where there is no such operator.
pub fn function_of(operator: Oid) -> Oid {
    // SAFETY: a syscache look-up.
    unsafe { pg_sys::get_opcode(operator) }
}

/// Is an object of the server's own, by its OID?
#[inline]
pub fn is_of_server(object: Oid) -> bool {
    object != InvalidOid && object.to_u32() < pg_sys::FirstNormalObjectId
}
