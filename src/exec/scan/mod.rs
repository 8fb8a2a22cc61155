//! `VarveScan`: rows of one table for core's nodes, with no columns but those that these ask for, chosen over decoded columns as
//! `VarveAggregate` chooses what it folds (docs/design/0040).
//!
//! `node` is what the executor calls; `rows` walks over a chunk, row by row; `output` puts rows together.

mod node;
mod output;
mod rows;

pub use node::Scan;

/// Registers the node. Called once, when the library is loaded.
pub fn init() {
    node::init();
}
