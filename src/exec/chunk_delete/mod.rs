//! `VarveChunkDelete`: what a DELETE wants of chunks goes chunk by chunk, chosen over vectors as `VarveAggregate` chooses rows, and
//! without a row for the executor (docs/design/0020). The node stands between the statement's scan and its ModifyTable: it deletes
//! when it is first asked for a row, and then hands on what the scan still finds: rows of the tail, and those of chunks that it left alone.

mod chunks;
mod node;

pub use node::ChunkDelete;

/// Registers the node. Called once, when the library is loaded.
pub fn init() {
    node::init();
}
