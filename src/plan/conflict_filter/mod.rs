//! Loading what is there already: `INSERT … SELECT … ON CONFLICT DO NOTHING`. A custom scan between the statement's source and its
//! ModifyTable leaves out the rows whose keys compressed rows have (docs/design/0013). For each of the others, and whenever
//! there is doubt, core does what it always does.

mod node;
mod plan;
mod taken;

pub use plan::offer;

/// Registers the node. Called once, when the library is loaded.
pub fn init() {
    node::init();
}
