//! `VarveAggregate`: partial states of the groups of one table, folded from decoded columns (docs/design/0017).
//!
//! `node` is what the executor calls; `joined` runs the other side of a join, whose `passes` are read; `parallel` is what processes share, `key_ranges` what they share where each finishes groups, by `key_range`, `outbox` where workers leave rows to the leader, `team` what a node does with it; `slices` put groups in the order of time, `sorter` in that of their columns, by `sort_key`, with `packed_ranks`; `source` finds chunks and rows of the tail, by an index where `places` says so; `selection` chooses its rows, window by window; `chunk` takes them in;
//! `summaries` answer from headers and blocks' bounds, `left` from what the session knows of rows that are left, a `total` of their values; `lanes` decode columns, `clauses` of `conditions` choose rows, `runs` and `groups` tell groups apart, a `share` of them at a time; `fold` has the states that are kept
//! here, `transition` those of any other aggregate.

mod chunk;
mod clauses;
mod compile;
pub mod conditions;
mod cuts;
mod emit;
pub mod evaluate;
pub mod explain;
mod fold;
mod groups;
mod joined;
mod key_range;
mod key_ranges;
mod key_type;
mod known;
pub mod lanes;
mod left;
mod monotone;
mod node;
mod outbox;
mod packed_ranks;
mod parallel;
mod passes;
pub mod places;
mod row_ranges;
mod runs;
pub mod selection;
mod share;
mod slice;
mod slices;
mod sort_key;
mod sorter;
pub mod source;
mod summaries;
pub mod team;
mod total;
mod transition;
mod zoned;

pub use clauses::is_decided;
pub use compile::{is_finished, is_folded};
pub use conditions::joinable;
pub use fold::int_of;
pub use groups::Groups;
pub use key_ranges::MOST_KEYS;
pub use key_type::KeyType;
pub use lanes::{class_of, Class};
pub use monotone::{is_bucket, is_epoch, number_of, rises_with};
pub use node::Aggregation;
pub use sort_key::SortKey;

/// Registers the node. Called once, when the library is loaded.
pub fn init() {
    node::init();
}
