//! Changes of rows: who may change what, changes that are laid over chunks until their transaction writes them, locks on
//! compressed rows, and rows that were moved meanwhile. May import `chunk` and what is below.

pub mod activity;
pub mod changes;
pub mod crosscheck;
pub mod deferred;
pub mod equals;
pub mod fetched;
pub mod flush;
pub mod follow;
pub mod handover;
pub mod key_columns;
pub mod lock_count;
pub mod locks;
pub mod moves;
pub mod next_version;
pub mod prints;
mod publish;
pub mod quiet;
pub mod statements;
pub mod stream;
pub mod tail_page;
pub mod unwritten;
pub mod visible;
